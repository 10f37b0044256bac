"""Random calls of a routine: valid ones in any memory, and invalid ones."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from guarded import Operand

import adokernels as ado
from adokernels import _core
from adokernels.model.routine import batch_option
from adokernels.model.tasks import TASKS, as_tuple

#: The reference result of a problem with this many elements takes a few milliseconds.
MOST_ELEMENTS = 6000
LENGTHS = (
    *(0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 23, 31, 32, 33),
    *(47, 48, 63, 64, 65, 70, 96, 127, 128, 129, 255, 256, 257, 512, 1023, 1024, 1025, 4096),
)
ELEMENTS = (
    *("?", "i1", "u2", ">u2", "i4", ">f4", "f8", ">f8", "c8", "c16", "m8[s]", ">M8[D]", "f2"),
    *("V1", "V16", "S4", "U1", "U4"),
)
#: Routines that move elements of any type.
MOVING = ("transpose", "strided_copy", "gather", "component")
WRONG_ELEMENTS = ("V3", "O", "U3", "S5", "f2", "i8", "c8", "longdouble", "V0")


@dataclass
class Case:
    """A call and what must happen.

    Attributes
    ----------
    arguments, keywords
        The arguments of the call.
    errors
        Types of the exception that must be raised; empty if the call may succeed.
    may_fail
        Whether a call that may succeed may also raise a ValueError or a TypeError.
    compare
        Whether the result is compared.
    """

    routine: Any
    seed: int
    number: int
    arguments: list[Any] = field(default_factory=list)
    keywords: dict[str, Any] = field(default_factory=dict)
    errors: tuple[type[Exception], ...] = ()
    may_fail: bool = False
    compare: bool = True
    isa: str = "baseline"
    threads: int = 1
    operands: list[Operand] = field(default_factory=list)
    outs: list[Operand] = field(default_factory=list)
    initial: list[Any] = field(default_factory=list)
    shared_out: bool = False
    changes: list[str] = field(default_factory=list)

    @property
    def options(self) -> dict[str, Any]:
        return {k: v for k, v in self.keywords.items() if k in self.routine.options}

    def invalid(self, change: str, *errors: type[Exception]) -> None:
        """Declare that the call must raise one of these; without any, that it may fail."""
        if errors:  # whichever check comes first reports its error
            earlier = (ValueError, TypeError) if self.may_fail else ()
            self.errors = (*self.errors, *errors, *earlier)
        self.changes.append(change)
        self.may_fail = True

    def __str__(self) -> str:
        def text(a: Any) -> str:
            if not isinstance(a, np.ndarray):
                return repr(a)[:80]
            at = a.__array_interface__["data"][0] % 64
            return f"{a.dtype.str}{a.shape} strides {a.strides} at 64n+{at}"

        parts = [text(a) for a in self.arguments]
        for name, value in self.keywords.items():
            several = isinstance(value, tuple) and name == "out"
            parts.append(f"{name}={', '.join(map(text, value)) if several else text(value)}")
        changes = f", {' and '.join(self.changes)}" if self.changes else ""
        return (
            f"{self.routine.name}({', '.join(parts)}), {self.isa}, {self.threads} threads{changes}"
        )


def chance(rng: np.random.Generator, probability: float) -> bool:
    return bool(rng.random() < probability)


def pick(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


# --- Memory ---------------------------------------------------------------------------------------


def random_strides(
    rng: np.random.Generator, shape: tuple[int, ...], itemsize: int, *, shares: bool
) -> tuple[int, ...]:
    """Strides of separate elements; if `shares`, elements may share memory."""
    axes = list(range(len(shape)))
    if chance(rng, 0.3):
        rng.shuffle(axes)
    plain = chance(rng, 0.4)
    strides, distance = [0] * len(shape), itemsize
    for axis in reversed(axes):
        step = (
            1
            if plain or shape[axis] <= 1 or chance(rng, 0.6)
            else pick(rng, (2, 3, -1, -1, -2, -5))
        )
        strides[axis] = distance * step
        distance *= max(shape[axis], 1) * abs(step)
        if not plain and shape[axis] > 1 and chance(rng, 0.3):
            distance += itemsize * pick(rng, (1, 3, 64)) if chance(rng, 0.8) else pick(rng, (1, 7))
    for axis in axes:
        if shape[axis] <= 1 and chance(rng, 0.1):
            strides[axis] = pick(rng, (0, 1, -3, 1 << 40, -(1 << 40)))
    if shares and axes and chance(rng, 0.15):
        strides[pick(rng, axes)] = 0
    if shares and axes and chance(rng, 0.05):
        strides = [0] * len(shape)
    if shares and len(axes) > 1 and chance(rng, 0.05):  # overlapping rows
        strides = [itemsize] * len(shape)
    return tuple(strides)


def stored(rng: np.random.Generator, values: Any, *, shares: bool = True) -> Operand:
    """Store values in random memory at an inaccessible page."""
    strides = random_strides(rng, values.shape, values.itemsize, shares=shares)
    shift = 0 if chance(rng, 0.7) else int(rng.integers(1, 130))
    return Operand(values, strides, pick(rng, ("start", "end")), shift)


def initial_result(expected: Any) -> Any:
    """Values that all differ from the expected ones."""
    raw = np.ascontiguousarray(expected).reshape(-1).view(np.uint8) ^ np.uint8(0xFF)
    return raw.view(expected.dtype).reshape(expected.shape)


# --- Valid calls ----------------------------------------------------------------------------------


def random_lengths(rng: np.random.Generator, routine: Any) -> list[int]:
    count = len(TASKS[routine.name].lengths)
    most = MOST_ELEMENTS if count < 4 else MOST_ELEMENTS // 2
    lengths = [pick(rng, LENGTHS) for _ in range(count)]
    if routine.batched and chance(rng, 0.3):
        batch = [pick(rng, (0, 1, 1, 2, 3, 5)) for _ in range(int(rng.integers(1, 4)))]
        lengths = batch + lengths
    while np.prod([max(n, 1) for n in lengths]) > most:
        largest = int(np.argmax(lengths))
        lengths[largest] = max(1, lengths[largest] // pick(rng, (2, 3, 10)))
    return lengths


def random_type(rng: np.random.Generator, routine: Any) -> Any:
    if routine.name in MOVING:
        return pick(rng, ELEMENTS)
    return pick(rng, TASKS[routine.name].sanitizer.dtypes)


def special_values(rng: np.random.Generator, routine: Any, operands: list[Any]) -> None:
    """Set some elements to values that are rare among random numbers."""
    if routine.name == "max_plus" and chance(rng, 0.3):
        for a in operands:
            places = rng.random(a.shape) < 0.05
            special = (np.nan, np.inf, -np.inf, -0.0, 0.0, float(np.finfo(a.dtype).max))
            a[places] = rng.choice(np.array(special, a.dtype), int(places.sum()))
    if routine.name == "average_matvec" and chance(rng, 0.3):
        for a in operands:
            np.multiply(a, a.dtype.type(2.0 ** int(rng.integers(-30, 30))), out=a)
    if routine.name == "gather" and chance(rng, 0.3):  # indices out of range
        index = operands[1]
        index[...] = rng.integers(-(2**31), 2**31, index.shape, index.dtype)
    if operands[0].dtype == np.uint8 and chance(rng, 0.2):
        operands[0][...] = pick(rng, (0, 1, 254, 255))


def random_options(rng: np.random.Generator, routine: Any, operand: Any) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if routine.name == "gaussian_blur":
        if chance(rng, 0.5):
            options["border"] = pick(rng, ("constant", "replicate", "reflect101"))
        if chance(rng, 0.5):
            total = int(rng.integers(1, 257))
            taps = rng.multinomial(total, rng.dirichlet(np.ones(7)))
            options["taps"] = pick(rng, (tuple, list, np.array))([int(t) for t in taps])
    if "batch" in routine.options and chance(rng, 0.9):
        options |= {"batch": True} if chance(rng, 0.1) else batch_option(routine, operand)
    if routine.name == "strided_copy" and chance(rng, 0.7):
        options["stride"] = pick(rng, (1, 2, 3, 4, 5, 8, 33, 1000, 2**63 - 1))
        options["offset"] = pick(rng, (0, 1, 2, 7, 100, 5000, 2**63 - 1))
    if routine.name == "component" and chance(rng, 0.5):
        options["c"] = pick(rng, (0, 1, 2))
    if routine.name == "gpp" and chance(rng, 0.5):
        options = {
            "gamma": float(rng.uniform(0.1, 1.5)),
            "sexcut": pick(rng, (4.0, 1, 0.5, 100.0)),
            "tol": pick(rng, (1e-6, 1e-3, 1e-9)),
        }
    return options


def add_outs(rng: np.random.Generator, case: Case, expected: Any) -> None:
    """Pass `out`: separate from the operands, or in the memory of one."""
    results = as_tuple(expected)
    first = case.operands[0]
    if len(results) == 1 and chance(rng, 0.15):
        shift = pick(rng, (0, 0, 1, 3)) * first.array.itemsize
        low = int(first.array.__array_interface__["data"][0])
        start = int(first.region.bytes.ctypes.data)
        try:
            out = np.ndarray(
                results[0].shape,
                results[0].dtype,
                first.region.bytes,
                low - start + shift,
                first.array.strides[: results[0].ndim] if chance(rng, 0.7) else None,
            )
        except (ValueError, TypeError):  # it does not fit into the region
            return
        case.keywords["out"], case.shared_out = out, True
        case.invalid("out over an operand")
        return
    case.initial = [initial_result(r) for r in results]
    case.outs = [stored(rng, values, shares=False) for values in case.initial]
    arrays = tuple(out.array for out in case.outs)
    single = len(arrays) == 1 and chance(rng, 0.9)
    case.keywords["out"] = arrays[0] if single else arrays


class Wrapped:
    """An array of another library."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self._array


def make_case(routine: Any, seed: int, number: int, device: str = "cpu") -> Case:
    """Make one call; the same arguments make the same call."""
    rng = np.random.default_rng([seed, zlib.crc32(routine.name.encode()), number])
    case = Case(routine, seed, number)
    levels = ["baseline", "avx2", "avx512"]
    case.isa = pick(rng, levels[: levels.index(_core.supported_isa()) + 1])
    case.threads = pick(rng, (1, 1, 2, 3, 7))
    own = [v for v in routine.variants if v.device == device]
    variant = pick(rng, own) if chance(rng, 0.5) or device == "cuda" else None
    if variant is not None:
        case.keywords["variant"], case.compare = variant.name, not variant.ceiling
        if variant.blocks and chance(rng, 0.5):
            case.keywords["block"] = pick(rng, variant.blocks)
    elif chance(rng, 0.2):
        case.keywords["device"] = device
    plain = [np.array(a) for a in seeded_operands(rng, routine)]
    special_values(rng, routine, plain)
    case.operands = [stored(rng, a) for a in plain]
    case.arguments = [operand.array for operand in case.operands]
    case.keywords |= random_options(rng, routine, plain[0])
    if chance(rng, 0.08):
        i = int(rng.integers(len(plain)))
        case.arguments[i] = pick(rng, (Wrapped, lambda a: a.view(np.recarray)))(case.arguments[i])
    if chance(rng, 0.05):  # operands as keywords
        names = [p.name for p in routine.parameters if p.role == "input"]
        case.keywords |= dict(zip(names[1:], case.arguments[1:], strict=True))
        del case.arguments[1:]
    if chance(rng, 0.5) and (expected := result_of_packed(case)) is not None:
        add_outs(rng, case, expected)
    if chance(rng, 0.25):
        pick(rng, CHANGES)(rng, case)
    return case


def seeded_operands(rng: np.random.Generator, routine: Any) -> Any:
    make = np.random.default_rng
    np.random.default_rng = lambda seed=None: make(rng.integers(1 << 63) if seed is None else seed)
    try:
        return routine.task.random_operands(random_lengths(rng, routine), random_type(rng, routine))
    finally:
        np.random.default_rng = make


def packed_copies(case: Case) -> list[Any]:
    """Contiguous copies of the operands as they are now."""
    return [np.array(operand.array, order="C", copy=True) for operand in case.operands]


def result_of_packed(case: Case) -> Any:
    """The expected result; None if no variant accepts operands of these shapes."""
    copies = packed_copies(case)
    try:
        case.routine.problem(*copies, device="cpu", **case.options)
    except ValueError:
        return None
    return TASKS[case.routine.name].expected(*copies, **case.options)


# --- Invalid calls --------------------------------------------------------------------------------


def replace_operand(rng: np.random.Generator, case: Case) -> None:
    # Arrays of text have elements of 12 and 84 bytes, which no routine accepts.
    value = pick(rng, (None, "text", b"bytes", 3, ["xyz"], [[1, "x"]], object(), {}, np.float64(1)))
    case.arguments[0] = value
    case.compare = False
    # An empty list is an array with one dimension, which some routines accept.
    errors = () if repr(value) == "[]" and case.routine.name in MOVING else (ValueError, TypeError)
    case.invalid(f"operand {value!r}", *errors)


def mask_operand(rng: np.random.Generator, case: Case) -> None:
    case.arguments[0] = np.ma.masked_array(case.operands[0].array)
    case.invalid("masked operand", TypeError)


def change_count(rng: np.random.Generator, case: Case) -> None:
    if chance(rng, 0.5):
        case.arguments.append(case.arguments[0])
    else:
        case.arguments.pop()
    case.invalid("another number of operands", TypeError)


def change_type(rng: np.random.Generator, case: Case) -> None:
    i = int(rng.integers(len(case.arguments)))
    shape = case.operands[i].array.shape
    wrong = pick(rng, WRONG_ELEMENTS)
    if case.routine.name in MOVING and np.dtype(wrong).itemsize in (1, 2, 4, 8, 16):
        wrong = "V3" if wrong != "O" else wrong
    case.arguments[i] = np.zeros(shape, wrong)
    case.invalid(f"operand {i} of type {wrong}", TypeError, ValueError)


def swap_bytes(rng: np.random.Generator, case: Case) -> None:
    i = int(rng.integers(len(case.arguments)))
    array = case.operands[i].array
    if array.dtype.itemsize == 1 or case.routine.name in MOVING:
        return
    case.arguments[i] = array.view(array.dtype.newbyteorder())
    case.invalid(f"operand {i} in the other byte order", TypeError)


def change_shape(rng: np.random.Generator, case: Case) -> None:
    i = int(rng.integers(len(case.operands)))
    old = case.operands[i].array
    shape = list(old.shape)
    axis = int(rng.integers(len(shape)))
    kind = pick(rng, ("longer", "shorter", "dropped", "added", "many"))
    if kind == "dropped":
        del shape[axis]
    elif kind == "added":
        shape.insert(axis, pick(rng, (0, 1, 2)))
    elif kind == "many":
        shape = [1] * int(rng.integers(6, 40)) + shape
        if len(shape) > 32:
            return
    else:
        shape[axis] = max(0, shape[axis] + (1 if kind == "longer" else -1))
    values = np.resize(old, shape) if old.size else np.zeros(shape, old.dtype)
    case.operands[i] = stored(rng, values.astype(old.dtype))
    if i < len(case.arguments):
        case.arguments[i] = case.operands[i].array
    else:
        case.keywords[[p.name for p in case.routine.parameters][i]] = case.operands[i].array
    case.invalid(f"operand {i}: an axis {kind}")


def change_keyword(rng: np.random.Generator, case: Case) -> None:
    on_cuda = [v for v in case.routine.variants if v.device == "cuda"]
    cuda = on_cuda[0].name if on_cuda else "naive"
    here: tuple[type[Exception], ...] = (ValueError, ado.Unavailable)
    if not _core.why_no_cuda():  # with a GPU, the call may be valid
        here = ()
    name, value, errors = pick(
        rng,
        (
            ("variant", "fastest", (KeyError,)),
            ("variant", 3, (TypeError,)),
            ("variant", "\ud800", (ValueError,)),
            ("variant", cuda, here),
            ("device", "gpu", (ValueError,)),
            ("device", 0, (TypeError,)),
            ("device", "cuda", here),
            ("block", "8x8", (TypeError,)),
            ("block", (1 << 70, 1), (TypeError,)),
            ("block", (-1, 10**9, 3, 4, 5), (ValueError,)),
            ("pitch", 1, (TypeError,)),
            ("a\x00b", 1, (TypeError,)),
            ("\ud800", 1, (TypeError, ValueError)),
        ),
    )
    if errors and (case.keywords.get("variant") or value == "cuda" or value == cuda):
        errors = (*errors, ValueError, TypeError)
    case.keywords[name] = value
    if name == "variant" and value == cuda:
        case.compare = not case.routine[cuda].ceiling
    case.invalid(f"{name}={value!r}", *errors)


def change_option(rng: np.random.Generator, case: Case) -> None:
    if not case.routine.options:
        return
    name = pick(rng, case.routine.options)
    nan, inf = float("nan"), float("inf")
    values = (
        *(None, "nonsense", "\ud800", -1, 0, 10**30, -(10**30), 3.5, nan, inf, (1, 2), object()),
        *([1] * 7, [0] * 7, [-1] * 7, [10**20] * 7, [1, 2, 3, None, 3, 2, 1], np.ones(7)),
        *((257, 0, 0, 0, 0, 0, 0), range(7), np.array(1), {}, {1, 2}, "1234567", 1e-320, True),
    )
    case.keywords[name] = pick(rng, values)
    case.compare = False
    case.invalid(f"{name}={case.keywords[name]!r}")


def change_out(rng: np.random.Generator, case: Case) -> None:
    expected = result_of_packed(case)
    if expected is None or not isinstance(expected, np.ndarray):
        return
    kind = pick(
        rng, ("shape", "type", "list", "read-only", "overlap", "tuple", "scalar", "swapped")
    )
    out = np.empty_like(expected)
    error: type[Exception] = ValueError
    if kind == "shape":
        out = np.empty((*expected.shape[:-1], expected.shape[-1] + 1), expected.dtype)
    elif kind == "type":
        out, error = np.empty(expected.shape, "V5"), TypeError
    elif kind == "list":
        out, error = [[1.0]], TypeError
    elif kind == "scalar":
        out, error = 3, TypeError
    elif kind == "read-only":
        out.flags.writeable = False
    elif kind == "overlap":
        if expected.size < 2:
            return
        one = np.empty(1, expected.dtype)
        out = np.lib.stride_tricks.as_strided(one, expected.shape, (0,) * expected.ndim)
    elif kind == "swapped":
        if expected.dtype.itemsize == 1 or expected.dtype.kind in "VS":
            return
        out, error = np.empty(expected.shape, expected.dtype.newbyteorder()), TypeError
    else:
        out = (out, out)
    case.keywords["out"], case.outs, case.shared_out = out, [], False
    case.invalid(f"out: {kind}", error)


def enlarge(rng: np.random.Generator, case: Case) -> None:
    """A result that exceeds the memory of any machine."""
    if len(case.operands) > 1 or "out" in case.keywords:
        return
    if len(case.arguments) != 1:
        return
    array = case.operands[0].array
    channels = array.shape[2:] if case.routine.name in ("grayscale", "edge_detect") else ()
    shape = (1 << 53, 1) if case.routine.name == "component" else (1 << 29, 1 << 24)
    huge = np.broadcast_to(np.zeros((), array.dtype), (*shape, *channels[-1:]))
    case.arguments[:] = [huge]
    case.invalid("an enormous operand", MemoryError, ValueError)


CHANGES: tuple[Callable[[np.random.Generator, Case], None], ...] = (
    *(replace_operand, mask_operand, change_count, change_type, swap_bytes, change_shape),
    *(change_shape, change_keyword, change_option, change_out, change_out, enlarge),
)
