"""Functions of any kind: their operands, device and results."""

from __future__ import annotations

import copy
import inspect
import math
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.kernels.emulated import refuse_kernel
from adokernels.model.ladder import Ladder, Variant, has_dask_array, options_of
from adokernels.model.libraries import is_on_device, library_of, on_host
from adokernels.model.task import Task
from adokernels.records.inputs import Inputs
from adokernels.text import failure, kind_of, printable, require

Setup = Callable[..., Any]
#: Maximum number of characters of a value in an error message.
_SHOWN = 200
#: The message of the TypeError that Python or a ladder raises for an unknown keyword argument.
_UNKNOWN_KEYWORD = re.compile("(unexpected|invalid|no) keyword argument|has no option")

#: The message of the TypeError that a call without operands raises.
_TOO_FEW = re.compile("(missing|takes|expected|needs) .*argument")


class ResultsDiffer(ValueError):
    """Functions that are compared do not return the same result."""


def name_of(function: Any) -> str:
    """The label of a variant, or the name of a function or of the function that a partial calls."""
    function = getattr(function, "func", function)
    named = (getattr(function, attribute, None) for attribute in ("label", "__name__", "name"))
    return next((name for name in named if isinstance(name, str)), type(function).__name__)


@dataclass
class Function:
    """A function with its operands.

    `setup` maps the operands to the operands of one call. If it returns None, the call
    uses the given operands. `caller` is the public function that passed on the options.
    """

    name: str
    function: Callable[..., Any]
    given: tuple[Any, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    setup: Setup | None = None
    caller: Callable[..., Any] | None = None

    def __post_init__(self) -> None:
        """Use the given operands until the first setup."""
        require((Callable, type(None)), "a function of the operands", setup=self.setup)
        self.args = self.given

    @property
    def inputs(self) -> Inputs:
        """The operands, as a record."""
        return Inputs.of(map(operand_of, self.given))

    def prepare(self) -> None:
        """Make the operands of the next call."""
        if self.setup:
            made = self.setup(*self.given)
            as_given = self.given if made is None else (made,)
            self.args = made if isinstance(made, tuple) else as_given

    def run(self) -> Any:
        """Call the function, and wait for its result if it is asynchronous (JAX)."""
        try:
            returned = self.function(*self.args, **self.options)
        except TypeError as error:
            if words := self._misspelt(str(error)) or self._without_operands(error):
                raise TypeError(words) from error
            raise
        if hasattr(returned, "block_until_ready"):
            returned.block_until_ready()
        return returned

    def _misspelt(self, message: str) -> str:
        """Return the error message for a misspelt option of the caller, or an empty string."""
        if self.caller is None or not _UNKNOWN_KEYWORD.search(message):
            return ""
        for option in self.options:
            hint = _core.suggest(option, options_of(self.caller))
            named = repr(option) in message or "no keyword" in message
            if named and hint.startswith(": did you mean"):
                return f"{self.caller.__name__}({self.name}) has no option {option!r}{hint}"
        return ""

    def _without_operands(self, error: TypeError) -> str:
        """Return the error message for a call that fails because there are no operands, or ""."""
        within = error.__traceback__ and error.__traceback__.tb_next
        if self.caller is None or self.args or within or not _TOO_FEW.search(str(error)):
            return ""
        return (
            f"{self.caller.__name__} calls {self.name}(*operands), but there are no operands: "
            f"{failure(error)}; pass them after the functions, as in ado.compare(f, g, x) or "
            "ado.measure(f, x)"
        )

    def once(self) -> Any:
        """Prepare and call the function; raise TypeError if it does its work after it returns."""
        self.prepare()
        returned = self.run()
        lazy = isinstance(returned, Iterator) or inspect.isawaitable(returned)
        if inspect.iscoroutine(returned):
            returned.close()  # otherwise, Python warns that it was never awaited
        values = [returned]
        if not isinstance(returned, np.ndarray | np.generic):  # their `data` can raise an error
            values.append(getattr(returned, "data", None))  # xarray keeps the Dask array there
        if lazy or has_dask_array(values):
            raise TypeError(
                f"{self.name} must do its work before it returns, got a {type(returned).__name__}, "
                "which does it later: compute the result inside the function"
            )
        return returned


def require_function(what: Any, block: object, name: str = "what") -> None:
    """Raise TypeError for an object that cannot be called, and for a block shape of a function."""
    refuse_kernel(name, what)
    if not callable(what):
        raise TypeError(
            f"{name} must be a variant, routine or callable, got {kind_of(what)}: for example "
            "ado.transpose or np.sort"
        )
    if block is not None:
        raise TypeError(f"block must be None for callables, got {block}")


def device_of(*values: Any) -> str:
    """Where arrays in nested values are: ``"cuda:1"``, or ``"cpu"`` if none is on a GPU."""
    found = {_device_of(a) for a in leaves(values) if library_of(a) and is_on_device(a)}
    if len(found) > 1:
        places = " and ".join(sorted(found))
        raise ValueError(f"operands and results must be on one GPU, got {places}: pass device=")
    return found.pop() if found else "cpu"


def _device_of(array: Any) -> str:
    if library_of(array) == "jax":
        raise ValueError(
            "arrays must not be JAX arrays on a GPU: JAX works on a stream of its own; pass "
            "device='cpu' to time by the host's clock"
        )
    if isinstance(array, _core.DeviceArray):
        return str(array.device)
    place = getattr(array, "__dlpack_device__", lambda: (2, 0))()
    return f"cuda:{place[1]}"


def leaves(value: Any) -> Iterator[Any]:
    """The values in nested mappings, tuples and lists."""
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def require_clock(device: str | None) -> None:
    """Raise Unavailable for the emulator, also if it is the default GPU."""
    if device == "emulator" or (device == "cuda" and _core.device() == "emulator"):
        raise _core.Unavailable(
            "the emulator does not measure time: pass device='cpu', or count with ado.sweep or "
            "ado.profile"
        )


def require_clock_of(call: Any, device: str | None) -> None:
    """Raise Unavailable if a call of a variant or ladder would run on the emulator by default."""
    if isinstance(call, Ladder) or (isinstance(call, Variant) and call.device == "cuda"):
        require_clock(device or _core.device())


def stream_handle(stream: Any, device: str = "cuda") -> int:
    """The cudaStream_t of a handle or of another library's stream object on a device.

    None is the current stream of torch or CuPy if one is in use, else the legacy default stream.
    """
    if stream is not None:
        return _core.stream_handle(stream)
    ordinal = int(_core.resolve_device(device).partition(":")[2])
    handles = set()
    if "torch" in sys.modules and (cuda := sys.modules["torch"].cuda).is_initialized():
        handles.add(int(cuda.current_stream(ordinal).cuda_stream))
    if "cupy" in sys.modules:
        handles.add(int(sys.modules["cupy"].cuda.get_current_stream(ordinal).ptr))
    if len(handles) > 1:
        raise ValueError("torch and CuPy have different current streams; choose one with stream=")
    return handles.pop() if handles else 0


# --- Comparison of results ------------------------------------------------------------------------


def difference_between(got: Any, want: Any, task: Task, path: str = "") -> str:
    """Where two results differ by more than the task allows, as text; empty if they agree.

    Containers are compared item by item; masked arrays by their masks and unmasked elements;
    arrays, frames and numbers as arrays; other objects with ``==``. Without a tolerance, the
    element types of arrays must also agree.
    """
    lead = f"{path} " if path else ""
    if isinstance(want, Mapping) and isinstance(got, Mapping):
        if got.keys() != want.keys():
            return f"{lead}has the keys {_shown(list(got))}, not {_shown(list(want))}"
        pairs = [(f"{path}[{key!r}]", got[key], want[key]) for key in want]
    elif isinstance(want, tuple | list) and isinstance(got, tuple | list):
        if len(got) != len(want):
            return f"{lead}has {len(got)} items, not {len(want)}"
        pairs = [(f"{path}[{i}]", *pair) for i, pair in enumerate(zip(got, want, strict=True))]
    elif np.ma.isMaskedArray(got) or np.ma.isMaskedArray(want):
        pairs = [  # masked elements are not compared
            (f"{path}.mask", np.ma.getmaskarray(got), np.ma.getmaskarray(want)),
            (path, np.ma.filled(got, 0), np.ma.filled(want, 0)),
        ]
    elif _is_like_array(want) and _is_like_array(got):
        return lead + found if (found := _difference_of_arrays(got, want, task)) else ""
    else:
        same = got is want or (type(got) is type(want) and bool(got == want))
        return "" if same else f"{lead}is {_shown(got)}, not {_shown(want)}"
    return next(filter(None, (difference_between(g, w, task, p) for p, g, w in pairs)), "")


def _shown(value: Any) -> str:
    return printable(repr(value), _SHOWN)


def _is_like_array(value: Any) -> bool:
    """Whether a value is an array of any library, a frame, or a number."""
    return (
        bool(library_of(value))
        or isinstance(value, complex | float | int)
        or (hasattr(value, "__array__") and not isinstance(value, type))
    )


def _difference_of_arrays(got: Any, want: Any, task: Task) -> str:
    arrays = [on_host(each) if library_of(each) else np.asarray(each) for each in (got, want)]
    found, expected = arrays
    if found.shape != expected.shape:
        return f"has shape {found.shape}, not {expected.shape}"
    kinds = {array.dtype.kind for array in arrays}
    if not kinds <= set("biufc"):
        differs = np.asarray(found != expected) & ~((found != found) & (expected != expected))
        if not differs.any():
            return ""
        at = tuple(int(n) for n in np.argwhere(differs)[0])
        return f"at {list(at)} is {_shown(found[at])}, not {_shown(expected[at])}"
    if found.dtype != expected.dtype:
        if found.shape and task.tolerance is None:
            types = f"is {found.dtype}, not {expected.dtype}"
            return f"{types}; with tolerance=, element types may differ"
        found, expected = (array.astype(np.result_type(*arrays)) for array in arrays)
    try:
        task.check(found, expected)
    except ValueError as error:
        words = str(error).removeprefix("wrong result: ")
        return f"is wrong: {words}" if found.shape else f"is {found}, not {expected}"
    return ""


def require_same_results(functions: Sequence[Function], task: Task) -> list[Any]:
    """Call each function once; return their results, or raise ResultsDiffer if they differ.

    Functions that return None must leave the same values in their operands. A function must not
    change its operands otherwise, because the next call would have different operands.
    """
    first, results, expected = functions[0], [], None
    for function in functions:
        before = [_kept(value) for value in function.given]
        results.append(function.once())
        if function.setup is None:
            _require_unchanged(function, before)
        computed = _computed(function, results[-1])
        for old, now in zip(before, function.given, strict=True):
            # A function that writes nothing must not pass with the results of another one.
            if isinstance(now, np.ndarray) and now.flags.writeable:
                now[...] = old
        if function is first:
            expected = computed
            continue
        found = difference_between(computed, expected, task)
        if not found:
            continue
        if difference_between(_computed(first, first.once()), expected, task):
            raise ResultsDiffer(
                f"the results of {first.name} differ from call to call: use the same seed in each "
                "call, or pass check=False"
            )
        raise ResultsDiffer(f"the result of {function.name} differs from {first.name}: {found}")
    return results


def _computed(function: Function, returned: Any) -> Any:
    """What a function computes: its result, or the operands that it changes; arrays are copied."""
    if returned is None and function.setup:
        return tuple(map(_kept, function.args))
    return _kept(returned) if library_of(returned) else returned


def _kept(value: Any) -> Any:
    """A copy of an operand that a function can change, or None."""
    if library_of(value):
        return on_host(value).copy()
    return copy.copy(value) if isinstance(value, list | dict | set | bytearray) else None


def _require_unchanged(function: Function, before: Sequence[Any]) -> None:
    exact = Task(_kept, tolerance=0.0)
    for place, (old, now) in enumerate(zip(before, function.given, strict=True)):
        if old is not None and difference_between(_kept(now), old, exact):
            raise ValueError(
                f"{function.name} must not change its operand {place + 1}: pass setup=, a function "
                "of the operands that returns new ones for each call, for example setup=np.copy; "
                "setup=lambda *_: None allows the change"
            )


def operand_of(arg: Any) -> tuple[str, tuple[int, ...], str]:
    """Name, shape and type of an operand for a record; names are unknown."""
    if hasattr(arg, "shape") and hasattr(arg, "dtype"):
        return "", tuple(arg.shape), str(arg.dtype)
    return "", (), type(arg).__name__


def bytes_of(*values: Any) -> float:
    """The bytes of all arrays in nested values."""
    arrays = (a for a in leaves(values) if library_of(a))
    return float(sum(math.prod(a.shape) * a.dtype.itemsize for a in arrays))
