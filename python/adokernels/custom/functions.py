"""Python functions as variants: NumPy, Numba, CuPy, torch, Triton, JAX."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adokernels.arrays.libraries import require_library
from adokernels.custom.memory import GuardedArray
from adokernels.custom.variants import CustomVariant, Work
from adokernels.ladders.base import Block
from adokernels.ladders.source import Source, SourcePart

if TYPE_CHECKING:
    from adokernels import _core


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FunctionVariant(CustomVariant):
    """A Python function as a variant.

    Attributes
    ----------
    function
        Called with the operands, and with the options as keywords. It returns the result, or a
        tuple of results. If it has a parameter ``out``, it receives the result to write (a tuple if
        there are several) and what it returns is ignored.
    arrays
        The library whose arrays the function receives: ``"numpy"``, ``"cupy"``, ``"torch"``,
        ``"jax"``, ``"numba"``. Default: NumPy on the CPU. On CUDA, objects with
        ``__cuda_array_interface__``.
    """

    function: Callable[..., Any]
    arrays: str = ""

    def __post_init__(self) -> None:
        """Check the function and the library."""
        super().__post_init__()
        if not callable(self.function):
            raise TypeError(f"variant {self.name} must be callable, got {self.function!r}")
        if not self.arrays:
            object.__setattr__(self, "arrays", "ado" if self.device == "cuda" else "numpy")
        require_library(self.arrays, self.device)

    def prepare(self, work: Work, block: Block | None) -> PreparedFunction:
        """Convert the operands to arrays of the function's library."""
        if block is not None:
            raise ValueError(f"variant {self.label} is a function and takes no block")
        return PreparedFunction(self, work)

    @property
    def source(self) -> Source:
        """The source code of the function."""
        function = inspect.unwrap(self.function)
        # A compiled function, for example of Numba or Triton, holds the Python function.
        function = getattr(function, "py_func", getattr(function, "fn", function))
        try:
            lines, line = inspect.getsourcelines(function)
            path = inspect.getsourcefile(function) or ""
        except (OSError, TypeError):
            lines, line, path = [repr(self.function)], 1, ""
        part = SourcePart(
            kind="function",
            name=getattr(function, "__name__", self.name),
            path=path,
            line=line,
            text=textwrap.dedent("".join(lines)).rstrip("\n"),
            variant=self.label,
        )
        return Source((part,))


class PreparedFunction:
    """A Python function with its arguments."""

    block: Block | None = None
    grid: Block | None = None

    def __init__(self, variant: FunctionVariant, work: Work) -> None:
        def convert(value: GuardedArray | Any) -> Any:
            guarded = isinstance(value, GuardedArray)
            return value.view().as_library(variant.arrays) if guarded else value

        self._function = variant.function
        self._args = tuple(map(convert, work.operands))
        self._options = dict(work.options)
        self._writes_out = _has_parameter(variant.function, "out")
        if self._writes_out:
            results = tuple(map(convert, work.results))
            self._options["out"] = results[0] if len(results) == 1 else results

    def run(self) -> Any:
        """Call the function; wait for a result that JAX computes in the background on the CPU."""
        returned = self._function(*self._args, **self._options)
        if self._writes_out:
            return None
        if hasattr(returned, "block_until_ready"):
            returned.block_until_ready()
        return returned

    def kernels(self) -> Sequence[_core.KernelInfo]:
        """The kernels of a function are not known before it runs."""
        return ()


def _has_parameter(function: Callable[..., Any], name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):  # built-in functions without a signature
        return False


def as_variant(what: CustomVariant | Callable[..., Any]) -> CustomVariant:
    """A custom variant as it is; a function as a variant with its own name.

    Raises
    ------
    TypeError
        If it is neither.
    """
    if isinstance(what, CustomVariant):
        return what
    if not callable(what):
        raise TypeError(f"a variant must be a function or a custom variant, got {what!r}")
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
    """Make a function a variant, which ladders accept; usable as a decorator.

    Parameters
    ----------
    function
        Called with the operands of a ladder, and with the options as keywords. It returns the
        result, or a tuple of results. If it has a parameter ``out``, it receives the result to
        write and what it returns is ignored.
    name
        Default: the function's name.
    changes
        The difference from the previous variant, in one sentence. Default: the first line of the
        function's docstring.
    device : {"cpu", "cuda"}
        Where it computes.
    arrays
        The library whose arrays it receives: ``"numpy"``, ``"cupy"``, ``"torch"``, ``"jax"`` or
        ``"numba"``. Default: NumPy on the CPU. On CUDA, objects with
        ``__cuda_array_interface__``.
    flops, bytes
        FLOPs that it executes and bytes that it requests, as numbers or functions of the operands.
        Default: the useful FLOPs and the compulsory bytes of the ladder.
    refuses
        A function of the operands that returns why the variant cannot solve a problem, or None.

    Returns
    -------
    FunctionVariant
        The variant; without `function`, a decorator that makes one.
    """
    if function is None:
        return lambda decorated: variant(decorated, name=name, **settings)
    default = getattr(function, "__name__", type(function).__name__)
    settings.setdefault("changes", first_sentence(function))
    return FunctionVariant(name=name or default, function=function, **settings)
