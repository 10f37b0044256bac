"""Own variants: their common base class, and Python functions as variants."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from adokernels import _core
from adokernels.kernels.emulated import emulated, front_end_of, refuse_kernel
from adokernels.kernels.launch import reach
from adokernels.model.guarded import GuardedArray
from adokernels.model.ladder import Ladder, Variant, reject_unknown
from adokernels.model.libraries import as_library, require_library, require_no_view
from adokernels.model.problem import Block, Call, Problem
from adokernels.model.source import Source, SourcePart
from adokernels.model.task import Number, value_of
from adokernels.records.kernels import Resources
from adokernels.records.limiter import Step
from adokernels.records.sass import Sass

#: Fields that are not parameters of :func:`variant`.
_HIDDEN = ("owner", "isolation", "function", "stages")
#: Libraries whose arrays can have negative strides.
_WITH_NEGATIVE_STRIDES = ("numpy", "ado", "cupy")


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnVariant(Variant):
    """One own implementation of a computation; :func:`variant` describes its attributes.

    `owner` is the ladder that contains it. `isolation` is the group of processes that run its calls
    in a comparison; it is None if this process runs them.
    """

    name: str
    device: str = "cpu"
    changes: str = ""
    steps: tuple[str, ...] | None = None
    owner: Ladder | None = None
    flops: Number | None = None
    bytes: Number | None = None
    refuses: Callable[..., str | None] | None = field(default=None, repr=False)
    isolation: Any = field(default=None, repr=False)

    precision = "as measured"
    ceiling = False
    stages: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Check the name and the device."""
        if not isinstance(self.name, str) or not self.name:
            raise TypeError(f"name must be a non-empty str, got {self.name!r}")
        if self.device not in ("cpu", "cuda"):
            raise ValueError(f"device must be 'cpu' or 'cuda', got {self.device!r}")
        if self.steps is None:
            return
        if isinstance(self.steps, str):
            raise TypeError(f"steps must be a sequence of categories, got {self.steps!r}")
        object.__setattr__(self, "steps", tuple(self.steps))
        known = [str(step) for step in Step if step is not Step.DONE]
        for step in self.steps:
            if step not in known:
                hint = _core.suggest(str(step), known)
                raise ValueError(f"{self.name} has no step category {step!r}{hint}")

    @property
    def ladder(self) -> Ladder:
        """The ladder that it belongs to; ValueError is raised if there is none."""
        if self.owner is None:
            raise ValueError(
                f"variant {self.name} must belong to a ladder; add it to one with .add() or "
                ".with_variants()"
            )
        return self.owner

    @property
    def label(self) -> str:
        """For example ``"saxpy[coalesced]"``."""
        return super().label if self.owner else self.name

    @property
    def why_unavailable(self) -> str:
        """Reason why it cannot run here; else empty."""
        return _core.why_no_cuda() if self.device == "cuda" else ""

    def refusal(self, operands: Sequence[Any], options: Mapping[str, Any]) -> str:
        """Reason why it refuses operands; empty if it accepts them."""
        return (self.refuses(*operands, **options) if self.refuses else None) or ""

    def why_not(self, problem: Problem) -> str:
        """Reason why it cannot solve a problem; empty if it can."""
        if self.device == problem.device == "cuda" and problem.device_id != "emulator":
            default = _core.resolve_device("cuda")
            if problem.device_id != default:
                return f"own variants run on {default}, but the problem is on {problem.device_id}"
        return self.refusal(problem.host_arguments, problem.options)

    def with_default(self, block: Block, parameters: Mapping[str, Any]) -> OwnVariant:
        """Return the variant with this block shape and these parameter values as defaults."""
        raise ValueError(f"{self.label} does not support block or parameters")

    def of(self, owner: Ladder) -> OwnVariant:
        """Return the same variant as a member of a ladder."""
        return dataclasses.replace(self, owner=owner)

    def resources(self, *args: Any, block: Block | None = None, **options: Any) -> Resources:
        """Resource usage of its kernels for these operands."""
        problem = self.ladder.problem(*args, variant=self.name, **options)
        return problem.prepare(self.name, block).resources()

    def sass(
        self, *args: Any, block: Block | None = None, arch: str | None = None, **options: Any
    ) -> Sass:
        """The machine code of a kernel in CUDA source; a function has none."""
        raise ValueError(f"{self.label} must be a kernel in CUDA C++ source, got a function")

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Compute the result with this variant."""
        return self.ladder.problem(*args, variant=self.name, **options).prepare(self.name).result()

    def __repr__(self) -> str:
        return super().__repr__() if self.owner else f"<variant {self.name!r} on {self.device}>"


class OwnCall(Call):
    """An own variant that is ready to run."""

    def __init__(self, variant: OwnVariant, problem: Problem) -> None:
        if reason := variant.why_unavailable_on(problem.device_id):
            raise _core.Unavailable(f"{variant.label}: {reason}")
        if reason := variant.why_not(problem):
            raise ValueError(f"{variant.label}: {reason}")
        super().__init__(problem, variant.name)
        self._variant = variant

    @property
    def cost(self) -> _core.Cost:
        """FLOPs and bytes of the variant on this problem."""
        flops, moved = self.problem.useful
        given = self.problem.host_arguments, self.problem.options
        return _core.Cost(
            flops=flops,
            bytes=moved,
            executed_flops=value_of(self._variant.flops, *given, default=flops),
            requested_bytes=value_of(self._variant.bytes, *given, default=moved),
        )


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FunctionVariant(OwnVariant):
    """A Python function as a variant; see :func:`variant`."""

    function: Callable[..., Any]
    device: str = ""
    arrays: str = ""

    def __post_init__(self) -> None:
        """Check the function and the library."""
        refuse_kernel("variant", self.function)
        found = front_end_of(self.function)
        if not self.device:
            object.__setattr__(self, "device", "cuda" if found else "cpu")
        super().__post_init__()
        if not callable(self.function):
            raise TypeError(f"variant {self.name} must be callable, got {self.function!r}")
        if not self.arrays:
            default = {"triton": "torch", "numba": "numba"}.get(found, "ado")
            object.__setattr__(self, "arrays", default if self.device == "cuda" else "numpy")
        require_library(self.arrays, self.device)

    def why_unavailable_on(self, device: str) -> str:
        """Reason why it cannot run on a device; else empty."""
        if device != "emulator":
            return self.why_unavailable
        if self.arrays in ("cupy", "jax") or (self.device, self.arrays) == ("cpu", "torch"):
            return (
                "the emulator executes functions that launch kernels of Triton or Numba, but not "
                f"functions of {self.arrays} arrays"
            )
        return _core.why_no_emulator()

    def prepare(self, problem: Problem, block: Block | None = None) -> OwnCall:
        """Convert the operands to arrays of the function's library."""
        if block is not None:
            raise ValueError(
                f"block must be None for {self.label}, which is a function, got {block}"
            )
        call: OwnCall = (self.isolation.call if self.isolation else FunctionCall)(self, problem)
        return call

    def source_launch(
        self, args: Sequence[Any], options: Mapping[str, Any], block: Block | None
    ) -> NoReturn:
        """Raise ValueError: another process cannot repeat the call of a function."""
        raise ValueError(
            f"variant must be a kernel, got the function {self.label}; ado.profile counts the "
            "kernels that it launches"
        )

    @property
    def source(self) -> Source:
        """The source code of the function."""
        function = inspect.unwrap(self.function)
        # Compiled functions of Numba and Triton have the Python function as an attribute.
        function = getattr(function, "py_func", getattr(function, "fn", function))
        try:
            lines, line = inspect.getsourcelines(function)
            path = inspect.getsourcefile(function) or ""
        except (OSError, TypeError):
            lines, line, path = [repr(self.function)], 1, ""
        part = SourcePart(
            name=getattr(function, "__name__", self.name),
            path=path,
            line=line,
            text=textwrap.dedent("".join(lines)).rstrip("\n"),
            variant=self.label,
        )
        return Source((part,))


class FunctionCall(OwnCall):
    """A Python function with its arguments."""

    def __init__(self, variant: FunctionVariant, problem: Problem) -> None:
        super().__init__(variant, problem)
        self._emulated = problem.device_id == "emulator"
        self.selects_stream = self.device == "cuda" and not self._emulated
        problem.load(problem.values)
        operands, library = problem.guarded_operands, variant.arrays
        if self._emulated:
            library = "numpy"
        arrays = [o for o in operands if isinstance(o, GuardedArray)]
        if library not in _WITH_NEGATIVE_STRIDES and any(min(a.strides) < 0 for a in arrays):
            operands = problem.packed_operands()

        def convert(value: GuardedArray | Any) -> Any:
            return as_library(value.memory, library) if isinstance(value, GuardedArray) else value

        self._function, self._library = variant.function, variant.arrays
        self._args = tuple(map(convert, operands))
        self._options = dict(problem.options)
        self._writes_out = has_out(variant.function)
        if self._writes_out:
            results = tuple(map(convert, problem.guarded_results))
            self._options["out"] = results[0] if len(results) == 1 else results

    def run(self) -> Any:
        """Call the function, and wait for its result if it is asynchronous (JAX)."""
        if self._emulated:
            returned = call_emulated(self._function, self._library, self._args, self._options)
        else:
            returned = self._function(*self._args, **self._options)
        if self._writes_out:
            return None
        if hasattr(returned, "block_until_ready"):
            returned.block_until_ready()
        return returned


def call_emulated(
    function: Callable[..., Any], library: str, args: Sequence[Any], options: Mapping[str, Any]
) -> Any:
    """Call a function whose kernels run on the emulator.

    It receives copies of NumPy arrays, as arrays of the library if it is installed and has arrays
    on the host. The memory of a copy ends with the array, so accesses beyond it are detected.
    Copies have the same strides, but torch has no negative ones.
    """
    torch = library == "torch" and importlib.util.find_spec("torch")
    copies: list[tuple[NDArray[Any], NDArray[Any]]] = []

    def copied(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(copied, value))
        if not isinstance(value, np.ndarray) or not value.ndim:
            return value
        copy = np.array(value)
        if value.size and not (torch and min(value.strides) < 0):
            below, above = reach(value.shape, value.strides, value.itemsize)
            memory = np.full(below + above, 0xFF, np.uint8)  # NaN between the elements
            copy = np.ndarray(value.shape, value.dtype, memory, below, value.strides)
            copy[...] = value
        copies.append((value, copy))
        return as_library(copies[-1][1], "torch" if torch else "numpy")

    given = [*map(copied, args)], {name: copied(value) for name, value in options.items()}
    with emulated():
        returned = function(*given[0], **given[1])
    for value, copy in copies:
        value[...] = copy
    if "out" not in options:
        require_no_view(returned, [copy for _, copy in copies])
    return returned


def has_out(function: Any) -> bool:
    """Whether a function has a parameter for its results. The child process tests this, too."""
    try:
        return "out" in inspect.signature(function).parameters
    except (TypeError, ValueError):  # built-in functions without a signature
        return False


def as_variant(what: OwnVariant | Callable[..., Any]) -> OwnVariant:
    """Return an own variant unchanged, and a function as a variant with the function's name."""
    if isinstance(what, OwnVariant):
        return what
    if not callable(what):
        raise TypeError(f"variant must be a function or an own variant, got {what!r}")
    name = getattr(what, "__name__", type(what).__name__)
    return FunctionVariant(name=name, function=what, changes=first_sentence(what))


def first_sentence(function: Callable[..., Any]) -> str:
    """The first line of the function's docstring."""
    return (inspect.getdoc(function) or "").partition("\n")[0]


def variant(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    **settings: Any,
) -> Any:
    """Make a variant from a function, for use in ladders; usable as a decorator.

    Parameters
    ----------
    function
        Called with the operands of a ladder, and with the options as keywords. It returns the
        result, or a tuple of results. If it has a parameter ``out``, it writes to this array
        instead (a tuple of arrays if there are several results), and its return value is ignored.
    name
        The name of the variant. Default: the function's name.
    changes
        The difference from the previous variant, in one sentence. Default: the first line of the
        function's docstring.
    steps
        The categories of this change, of those that ``ado.diagnose`` proposes, for example
        ``["coalesce accesses"]``. The error for another category lists all. Default: None, not
        stated.
    device : {"cpu", "cuda"}
        The device on which it computes. Default: CUDA for a function whose code, or code that it
        calls, names a kernel of Triton or Numba, else the CPU.
    arrays
        The library whose arrays it receives: ``"numpy"``, ``"cupy"``, ``"torch"``, ``"jax"`` or
        ``"numba"``. Default: NumPy on the CPU; on CUDA, torch for kernels of Triton, Numba for
        kernels of Numba, else objects with ``__cuda_array_interface__``. On the emulator, it is
        torch if this library is torch and is installed, else NumPy.
    flops, bytes
        FLOPs that it executes and bytes that it requests, as numbers or functions of the operands.
        Default: the useful FLOPs and the compulsory bytes of the ladder. If it only executes
        integer operations, count these: without a count, experiments cannot tell scalar code from
        code that waits for earlier results.
    refuses
        A function of the operands. It returns the reason why the variant cannot solve a problem, or
        None.

    Returns
    -------
    FunctionVariant
        The variant; without `function`, a decorator that returns it.
    """
    if function is None:
        return lambda decorated: variant(decorated, name=name, **settings)
    default = getattr(function, "__name__", type(function).__name__)
    settings.setdefault("changes", first_sentence(function))
    fields = dataclasses.fields(FunctionVariant)
    known = [field.name for field in fields if field.name not in _HIDDEN]
    reject_unknown("variant", settings, known)
    return FunctionVariant(name=name or default, function=function, **settings)
