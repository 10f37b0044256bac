"""The JSON values that a field of a record permits.

The annotation of a field states its type and its limits. :func:`reader` makes the function that
reads values of this field. ``.ci/record_schema.py`` describes the values as a JSON schema.
"""

from __future__ import annotations

import dataclasses
import math
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from adokernels import _core
from adokernels.text import printable

#: The value of `get_origin` for arrays: numpy.ndarray, or an alias of it (from NumPy 2.5).
ARRAY = get_origin(NDArray[np.float64])
#: Limits of the magnitude of stored numbers, so that products of several of them are finite.
LARGEST, _SMALLEST = 1e30, 1e-30
LARGEST_INTEGER = 2**63 - 1
#: Maximum number of characters of a value in an error message.
_SHOWN = 60
#: The key of an object that represents a float that JSON cannot represent: ``{"number": "inf"}``.
NUMBER = "number"
_NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


@dataclass(frozen=True)
class Limits:
    """The least value of a number, or of each number in an array; `words` is for messages."""

    words: str
    least: float


@dataclass(frozen=True)
class Length:
    """The least and the greatest number of entries."""

    least: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Words:
    """A regular expression that a text must match; `words` is for messages."""

    words: str
    pattern: str


_POSITIVE = Limits("a positive finite number", _SMALLEST)
_AT_LEAST_0 = Limits("a finite number of at least 0", 0)
_FINITE = Limits("a finite number", -LARGEST)

Positive = Annotated[float, _POSITIVE]
Amount = Annotated[float, _AT_LEAST_0]
Count = Annotated[int, Limits("an integer of at least 0", 0)]
Size = Annotated[int, Limits("an integer of at least 1", 1)]
Seconds = Annotated[NDArray[np.float64], _POSITIVE, Length(1)]
Amounts = Annotated[NDArray[np.float64], _AT_LEAST_0]
#: Shape of a grid. Pipelines, and ceilings without a kernel, have the grid and the block ``(0,)``.
Grid = Annotated[tuple[Count, ...], Length(0, 3)]
Block = Annotated[tuple[Size, ...], Length(0, 3)]
Device = Annotated[str, Words("'cpu', 'cuda' or 'cuda:N'", r"cpu|cuda(:\d{1,4})?")]
#: JSON values without declared structure.
Context = dict[str, Any]
#: Metadata of a field that is not stored: ``field(metadata=NOT_STORED)``.
NOT_STORED = {"stored": False}

Reader = Callable[[Any], Any]


class InvalidField(ValueError):
    """Error for a value that its field does not permit; the message begins with its path.

    `place` contains the names and positions that lead to the value.
    """

    def __init__(self, words: str, *place: int | str) -> None:
        super().__init__(words, *place)
        self.words, self.place = words, place

    def __str__(self) -> str:
        """For example ``"measurements[3].samples[0] must be a finite number, got 'a'"``."""
        parts = (f"[{p}]" if isinstance(p, int) else f".{printable(p, _SHOWN)}" for p in self.place)
        return f"{''.join(parts).removeprefix('.') or 'the record'} {self.words}"


@cache
def reader(annotation: Any, *rules: Any) -> Reader:
    """The function that converts a JSON value to a type, or raises InvalidField.

    The annotation is a dataclass, a named tuple, a basic type, or a container, literal or optional
    value of these. `rules` are its limits.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    limits: Any = next((rule for rule in rules if isinstance(rule, Limits | Words)), None)
    length = next((rule for rule in rules if isinstance(rule, Length)), Length())
    if origin is Annotated:
        return reader(*arguments)
    if origin in (Union, types.UnionType):  # with None
        return partial(_optional, reader(arguments[0]))
    if origin is Literal:
        return partial(_choice, arguments)
    if origin is ARRAY:
        return partial(_array, limits, length)
    if origin is tuple and arguments[-1] is Ellipsis:
        return partial(_list, reader(arguments[0]), length)
    if origin is tuple:
        return partial(_entries, tuple, [*map(reader, arguments)])
    if origin in (dict, Mapping):
        return partial(_mapping, reader(arguments[1]), length)
    if annotation is Any:
        return _free
    if annotation in (int, float):
        return partial(_number, annotation, limits or _FINITE)
    if annotation in (bool, str):
        return partial(_basic, annotation, limits)
    if issubclass(annotation, tuple):
        hints = get_type_hints(annotation, include_extras=True)
        return partial(_entries, annotation._make, [*map(reader, hints.values())])
    return partial(_object, annotation)


def _optional(some: Reader, value: Any) -> Any:
    return None if value is None else some(value)


def _choice(choices: tuple[str, ...], value: Any) -> Any:
    if value not in choices:
        raise _wrong(" or ".join(map(repr, choices)), value)
    return value


def _basic(kind: type, rule: Words | None, value: Any) -> Any:
    if not isinstance(value, kind) or (rule and not re.fullmatch(rule.pattern, str(value))):
        words = rule.words if rule else "a text" if kind is str else "true or false"
        raise _wrong(words, value)
    return value


def _number(kind: Any, limits: Limits, value: Any) -> Any:
    if not isinstance(value, int | kind) or isinstance(value, bool):
        raise _wrong(limits.words, value)
    most = LARGEST_INTEGER if kind is int else LARGEST
    if not limits.least <= value <= most:  # NaN is not, either
        raise _wrong(f"at most {most:.3g}" if most < value < math.inf else limits.words, value)
    return kind(value)


def _array(limits: Limits, length: Length, value: Any) -> NDArray[np.float64]:
    _check(value, "a list of numbers", list | tuple, length)
    if {*map(type, value)} <= {float}:
        numbers = np.array(value)
        if ((limits.least <= numbers) & (numbers <= LARGEST)).all():
            return numbers
    number = partial(_number, float, limits)
    return np.array([_at(place, number, v) for place, v in enumerate(value)], dtype=np.float64)


def _list(item: Reader, length: Length, value: Any) -> tuple[Any, ...]:
    _check(value, "a list", list | tuple, length)
    return tuple(_at(place, item, v) for place, v in enumerate(value))


def _entries(make: Callable[[Iterable[Any]], Any], items: list[Reader], value: Any) -> Any:
    _check(value, "a list", list | tuple, Length(len(items), len(items)))
    pairs = zip(items, value, strict=True)
    return make(_at(place, item, v) for place, (item, v) in enumerate(pairs))


def _mapping(item: Reader, length: Length, value: Any) -> dict[str, Any]:
    _check(value, "an object", dict, length)
    return {name: _at(name, item, v) for name, v in value.items()}


def _free(value: Any) -> Any:
    if isinstance(value, list):
        return [_at(place, _free, v) for place, v in enumerate(value)]
    if isinstance(value, dict):
        if len(value) == 1 and str(value.get(NUMBER)) in _NOT_FINITE:
            return _NOT_FINITE[str(value[NUMBER])]
        return {name: _at(name, _free, v) for name, v in value.items()}
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return _number(int if isinstance(value, int) else float, _FINITE, value)
    raise _wrong("a JSON value", value)


def _object(kind: Any, value: Any) -> Any:
    _check(value, f"an object with the fields of {kind.__name__}", dict)
    fields = _readers(kind)
    for name in value:
        if name not in fields:
            raise InvalidField(f"must be a known field{_core.suggest(name, list(fields))}", name)
    for name, required in stored_fields(kind).items():
        if required and name not in value:
            raise InvalidField("is missing", name)
    made = kind(**{name: _at(name, fields[name], v) for name, v in value.items()})
    if contradiction := made._contradiction():
        field, _, words = contradiction.partition(" ")
        raise InvalidField(words, field)
    return made


def _at(place: int | str, read: Reader, value: Any) -> Any:
    """Read a value in a container; an error contains its place."""
    try:
        return read(value)
    except InvalidField as error:
        raise InvalidField(error.words, place, *error.place) from None


@cache
def _readers(kind: Any) -> dict[str, Reader]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: reader(hints[name]) for name in stored_fields(kind)}


@cache
def stored_fields(kind: Any) -> dict[str, bool]:
    """The names of the stored fields of a dataclass, and whether each is required."""
    missing = dataclasses.MISSING
    return {
        f.name: f.default is missing and f.default_factory is missing
        for f in dataclasses.fields(kind)
        if f.metadata.get("stored", True)
    }


def _check(value: Any, words: str, kind: Any, length: Length | None = None) -> None:
    """Raise InvalidField if a value is not a container of this kind and length."""
    if not isinstance(value, kind):
        raise _wrong(words, value)
    if length and not length.least <= len(value) <= (length.most or len(value)):
        most = f" and at most {length.most}" if length.most else ""
        raise InvalidField(f"must have at least {length.least}{most} entries, got {len(value)}")


def _wrong(words: str, value: Any) -> InvalidField:
    if isinstance(value, dict) and len(value) == 1:
        value = _NOT_FINITE.get(str(value.get(NUMBER)), value)
    return InvalidField(f"must be {words}, got {printable(repr(value), _SHOWN)}")


def number_in(context: Context, *names: str) -> float | None:
    """The positive number at a path in a context, or None if there is no such number."""
    value: Any = context
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return value if known and 0 < value <= LARGEST else None
