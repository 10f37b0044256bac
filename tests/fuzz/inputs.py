"""Random inputs for no particular routine: records, arrays of libraries, settings, errors."""

from __future__ import annotations

import ctypes
import json
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from cases import chance, pick
from check import Wrong

import adokernels as ado
from adokernels.distributed import on_all_ranks
from adokernels.text import failure

sys.path.append(str(Path(__file__).parents[1]))
from mutants import WRONG, changed, documents, places
from producers import Capsuled, OldProducer, Producer
from ranks import run_ranks

#: The folder for the files of one process.
FOLDER = tempfile.TemporaryDirectory(prefix="adokernels-fuzz-")
HOSTILE_VALUES = (
    *(None, True, "text", "\ud800", b"x", "", -1, 0, 1, 2, 4, 10**3, 4294967297, 2**63, 10**400),
    *(-(10**30), 0.5, float("nan"), float("inf"), 1e-320, (), [1], {}, object(), np.array([1, 2])),
    *(np.int64(3), np.float32(2), 1j, len, int),
)


def own_file(name: str) -> Path:
    """The file of this thread with this name."""
    return Path(FOLDER.name) / f"{threading.get_ident()}-{name}"


@dataclass
class Input:
    """One input: its description, and a function that uses it.

    The function returns "result" or "error", and raises Wrong or any unexpected exception.
    """

    text: str
    use: Callable[[], str]

    def __str__(self) -> str:
        return self.text


def run(case: Input) -> str:
    """Use the input; every exception that `use` does not expect is a failure."""
    try:
        return case.use()
    except Wrong:
        raise
    except Exception as error:
        raise Wrong(f"unexpected {error!r}") from error


def expect(work: Callable[[], Any], *kinds: type[Exception], words: str = "") -> str:
    """Require that `work` raises one of `kinds`, with a message that contains `words`."""
    try:
        work()
    except kinds as error:
        str(error).encode(errors="surrogatepass")
        if words not in str(error):
            raise Wrong(f"message without {words!r}: {error!r}") from error
        return "error"
    raise Wrong(f"no error, expected {' or '.join(k.__name__ for k in kinds)}")


# --- Records --------------------------------------------------------------------------------------

DOCUMENTS = documents()
PLACES = {name: [path for path, _ in places(d) if path] for name, d in DOCUMENTS.items()}
#: Texts that replace a part of a file.
TEXTS = (
    *(b"[" * 700, b"[" * 100_000, b'{"a":' * 700, b"{}", b"[{}],", b"\x00", b"\xff\xfe", b"1e-320"),
    *(b"1e999", b"9" * 5000, b'"schema": 1, "schema": 2,', b"NaN", b"-Infinity", b'"\\ud800"', b""),
    *(b"null", b"true", b"," * 9, b"[0]" * 2000, b"\xef\xbb\xbf"),
)


def damaged_text(rng: np.random.Generator, text: bytes) -> tuple[str, bytes]:
    """A file in which a part is removed, repeated or replaced."""
    low = int(rng.integers(len(text)))
    high = min(len(text), low + int(rng.integers(1, 40)))
    kind = pick(rng, ("cut", "removed", "repeated", "replaced", "flipped"))
    part = {
        "cut": b"",
        "removed": text[high:],
        "repeated": text[low:high] * int(rng.integers(2, 50)) + text[high:],
        "replaced": pick(rng, TEXTS) + text[high:],
        "flipped": bytes([text[low] ^ (1 << int(rng.integers(8)))]) + text[low + 1 :],
    }[kind]
    return f"bytes {low} to {high} {kind}", text[:low] + part


def make_record(rng: np.random.Generator) -> Input:
    """A file of a record with wrong values, or with damaged text."""
    kind = pick(rng, list(DOCUMENTS))
    if chance(rng, 0.5):
        text = json.dumps(DOCUMENTS[kind], indent=pick(rng, (None, 1))).encode()
        about, content = damaged_text(rng, text)
    else:
        document, names = DOCUMENTS[kind], []
        for _ in range(int(rng.integers(1, 4))):
            path, name = pick(rng, PLACES[kind]), pick(rng, list(WRONG))
            try:
                document = changed(document, path, WRONG[name])
            except (KeyError, IndexError, TypeError):  # an earlier change removed the place
                continue
            names.append(f"{'.'.join(map(str, path))}: {name}")
        about, content = ", ".join(names), json.dumps(document).encode(errors="surrogatepass")

    def use() -> str:
        path = own_file("record.json")
        path.write_bytes(content)
        try:
            record = ado.load(path)
        except ValueError as error:
            if str(path) not in str(error):
                raise Wrong(f"message without the path: {error!r}") from error
            return "error"
        for shown in (repr(record), getattr(record, "_repr_html_", str)()):
            shown.encode()
        record.save(path)
        if ado.load(path).to_dict() != record.to_dict():
            raise Wrong("a saved record differs from the loaded one")
        return "result"

    return Input(f"record {kind}, {about}", use)


# --- Producers ------------------------------------------------------------------------------------


def int64s(*values: int) -> Any:
    return ctypes.cast((ctypes.c_int64 * len(values))(*values), ctypes.POINTER(ctypes.c_int64))


#: Fields of a tensor with elements that a consumer must refuse before it reads the memory.
MALFORMED: tuple[dict[str, Any], ...] = (
    *({"data": None}, {"shape": None}, {"shape": int64s(2**40, 2**40)}, {"shape": int64s(-1, 4)}),
    *({"ndim": n} for n in (-1, -(2**31), 9, 1 << 20, 2**31 - 1)),
    *({"byte_offset": n} for n in (2**46, 2**63, 2**64 - 2**40)),
    *({"bits": n} for n in (0, 3, 12, 255)),
    *({"lanes": n} for n in (0, 4, 65535)),
)
DEVICES = (None, 5, (), (1,), ("a", 0), (1, None), (2**70, 0), (-1, 0), (8, 0), (99, -5), "cpu")
#: Entries of `__cuda_array_interface__` that must be refused before the memory is read.
INTERFACES: tuple[Any, ...] = (
    *({"typestr": t} for t in (..., 5, "", "|O8", "<f3", "\ud800")),
    *({"data": d} for d in (..., None, 5, (), (4096,), ("4096", False), (10**30, False))),
    *({"shape": s} for s in (..., 5, ("a",), (-3, 4), (2**40, 2**40), (1,) * 9, (10**30,))),
    *({"strides": s} for s in ((4,), (2**62, 4), (2**61, 2**61), ("a", 4), 5, (10**30, 4))),
    *({"mask": np.ones(3)}, *(None, 5, "interface", [], object())),
)
CAPSULES = (None, 7, "capsule", (), b"dltensor", object())


class OnDevice:
    """An object with `__cuda_array_interface__`."""

    def __init__(self, changes: Any) -> None:
        entries = {"shape": (3, 4), "typestr": "<f4", "data": (4096, False), "version": 3}
        if isinstance(changes, dict):
            changes = {k: v for k, v in (entries | changes).items() if v is not ...}
        self.__cuda_array_interface__ = changes


class Raising(Producer):
    """A producer whose export raises `error`."""

    def capsule(self) -> Any:
        raise self.error


def make_producer(rng: np.random.Generator) -> Input:
    """A valid or malformed array of a library that supports DLPack."""
    shape = tuple(int(n) for n in rng.integers(1, 9, 2))
    array = rng.random(shape).astype(pick(rng, ("f4", "f8", "i4", "u1", "c8")))
    array = pick(rng, (lambda a: a, lambda a: a.T, lambda a: a[::-1], lambda a: a[:, ::2]))(array)
    kinds = ("valid", "tensor", "device", "capsule", "version", "type", "raises", "interface")
    kind = pick(rng, kinds)
    make = pick(rng, (Producer, OldProducer))
    errors: tuple[type[Exception], ...] = (ValueError, TypeError, BufferError)
    operand: Any = Raising(array) if kind == "raises" else make(array)
    about: Any = ""
    if kind == "tensor":
        changes = pick(rng, MALFORMED)
        operand, about = make(array, **changes), changes
    elif kind == "device":
        operand.device = about = pick(rng, DEVICES)
        errors = (*errors, ado.Unavailable, OverflowError)
    elif kind == "capsule":
        about = pick(rng, CAPSULES)
        operand = Capsuled(about)
    elif kind == "interface":
        operand = OnDevice(about := pick(rng, INTERFACES))
    elif kind == "version":
        operand = Producer(array, version=(about := int(rng.integers(2, 2**31)), 0))
    elif kind == "type":
        about = (int(rng.integers(20, 256)), int(rng.integers(256)), int(rng.integers(2, 65536)))
        operand = make(array, dtype=about)
    elif kind == "raises":
        about = pick(rng, (RuntimeError("\ud800"), KeyError(3), OSError(), ZeroDivisionError()))
        errors = (type(about),)
        operand.error = about

    def use() -> str:
        if kind != "valid":
            return expect(lambda: ado.transpose(operand), *errors)
        if ado.transpose(operand).tobytes() != array.T.tobytes():
            raise Wrong("wrong result")
        if operand.exported != operand.deleted:
            raise Wrong(f"{operand.exported} exported tensors, {operand.deleted} deleted")
        return "result"

    return Input(f"producer {kind} {about!r}, {array.dtype}{array.shape} {make.__name__}", use)


# --- Memory maps ----------------------------------------------------------------------------------

_ROWS, _COLUMNS = 64, 48


def make_map(rng: np.random.Generator) -> Input:
    """An operand and a result in two maps of parts of one file."""
    values = rng.random((_ROWS, _COLUMNS)).astype(np.float32)
    rows = int(rng.integers(1, 33))
    first, second = (int(n) for n in rng.integers(0, _ROWS - rows + 1, 2))
    mode = pick(rng, ("r", "r+", "c"))

    def mapped(mode: str, row: int) -> Any:
        return np.memmap(own_file("values"), np.float32, mode, 4 * _COLUMNS * row, (rows, _COLUMNS))

    def use() -> str:
        values.tofile(own_file("values"))
        operand, out = mapped(mode, first), mapped("r+", second).T
        if abs(first - second) < rows:
            words = "out must not map the same part of a file"
            return expect(lambda: ado.transpose(operand, out=out), ValueError, words=words)
        square = out.reshape(_COLUMNS, rows)
        ado.transpose(operand, out=square)
        if square.tobytes() != values[first : first + rows].T.tobytes():
            raise Wrong("wrong result")
        return "result"

    return Input(f"map of rows {first}, {second} (+{rows}), {mode}", use)


# --- Settings -------------------------------------------------------------------------------------


def make_setting(rng: np.random.Generator) -> Input:
    """A value of a setting, or of an argument that all functions check."""
    value = pick(rng, HOSTILE_VALUES)
    name = pick(rng, ("threads", "isa", "peers", "precision", "steps", "block"))
    a = np.zeros((3, 4), np.float32)
    quick = {"device": "cpu", "seconds": 0.0, "progress": False, "variants": ["blocked"]}
    if name in ("threads", "isa"):
        before = getattr(ado.settings, name)

        def work() -> None:
            try:
                setattr(ado.settings, name, value)
                ado.transpose(a)
            finally:
                setattr(ado.settings, name, before)

    elif name == "steps":

        def work() -> None:
            ado.steps(value)

    elif name == "block":

        def work() -> None:
            ado.transpose(a, block=value)

    else:

        def work() -> None:
            ado.sweep(ado.transpose, a, **quick | {name: value})

    def use() -> str:
        try:
            work()
        except (TypeError, ValueError, KeyError) as error:
            str(error).encode()
            return "error"
        return "result"

    return Input(f"{name}={value!r:.60}", use)


# --- Arguments that run code ----------------------------------------------------------------------


class Converted:
    """An array-like and an integer whose conversions call a function first."""

    def __init__(self, value: Any, function: Callable[[], None]) -> None:
        self._value, self._function = value, function

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        self._function()
        return self._value

    def __index__(self) -> int:
        self._function()
        return self._value


def make_hostile(rng: np.random.Generator) -> Input:
    """A call in which the conversion of an argument changes another argument, or raises."""
    rows, columns = (int(n) for n in rng.integers(1, 200, 2))
    big, small = rng.random((rows, columns)), rng.random(rows)
    gray = rng.integers(0, 256, (rows, columns), np.uint8)
    out = np.empty_like(gray)
    change = pick(rng, ("shrunk", "emptied", "grown", "values", "raises"))
    place = pick(rng, ("operand", "option", "result"))
    error = pick(rng, (RuntimeError("\ud800"), KeyError(3), MemoryError(), OSError()))
    length = int(rng.integers(1, columns + 1))

    def use() -> str:
        target = {"operand": big, "option": gray, "result": out}[place]

        def function() -> None:
            if change == "raises":
                raise error
            if change == "values":
                target[...] = 1
            else:
                shape = {"shrunk": length, "emptied": 0, "grown": 2000 + columns}[change]
                target.resize((rows, shape), refcheck=False)

        taps = (1, 2, 3, Converted(4, function), 3, 2, 1)
        try:
            if place == "operand":
                given = ado.max_plus(big, Converted(small, function))
                expected = ado.max_plus(big, small)
            else:
                keywords = {"out": out} if place == "result" else {}
                given = ado.gaussian_blur(gray, taps=taps, **keywords)
                expected = ado.gaussian_blur(gray)
        except Exception as raised:
            of_blur = isinstance(raised, ValueError) and str(raised).startswith("gaussian_blur: ")
            if raised is error or (change != "raises" and of_blur):
                return "error"
            raise
        if given.tobytes() != expected.tobytes():
            raise Wrong("wrong result")
        return "result"

    return Input(f"{place} {change} to {length} of {rows} x {columns}, {error!r}", use)


# --- Errors of user code --------------------------------------------------------------------------


class Unreadable(Exception):
    """An error whose text raises another one."""

    def __str__(self) -> str:
        raise self.args[0]


TEXT_PARTS = ("a", "\ud800", "\udfff", "\x00", "\x1b[31m", "\u202e", "\n", "\U0001f600", "x" * 9999)


def make_error(rng: np.random.Generator) -> Input:
    """An error with any text, on some of the ranks of a distributed call."""
    text = "".join(pick(rng, TEXT_PARTS) for _ in range(int(rng.integers(0, 12))))
    error: Exception = pick(rng, (ValueError, KeyError, RuntimeError, OSError))(text)
    if chance(rng, 0.2):
        error = Unreadable(ValueError(text))
    size = int(rng.integers(2, 5))
    failing = sorted({int(rank) for rank in rng.integers(0, size, int(rng.integers(0, 4)))})

    def use() -> str:
        failure(error).encode()

        def on_rank(communicator: Any) -> Any:
            def work() -> None:
                if communicator.rank in failing:
                    raise error

            return on_all_ranks(communicator, work)

        found = run_ranks(size, on_rank)
        if not failing:
            if any(each is not None for each in found):
                raise Wrong(f"an error without a cause: {found}")
            return "result"
        for rank, raised in enumerate(found):
            if rank in failing and raised is not error:
                raise Wrong(f"rank {rank} has {raised!r} instead of its own error")
            if rank in failing:
                continue
            if not str(raised).startswith(f"rank {failing[0]} failed with {type(error).__name__}"):
                raise Wrong(f"rank {rank} has {raised!r}")
            str(raised).encode()
        return "error"

    return Input(f"error {type(error).__name__} of {text!r:.80} on ranks {failing} of {size}", use)


MAKERS: dict[str, Callable[[np.random.Generator], Input]] = {
    "records": make_record,
    "producers": make_producer,
    "maps": make_map,
    "settings": make_setting,
    "hostile": make_hostile,
    "errors": make_error,
}


def make_input(suite: str, seed: int, number: int) -> Input:
    """Make one input; the same arguments make the same input."""
    return MAKERS[suite](np.random.default_rng([seed, zlib.crc32(suite.encode()), number]))
