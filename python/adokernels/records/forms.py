"""Conversion of dataclasses to JSON values and back, with checks of types and limits.

The annotation of a field declares its type and its limits. Conversion, checks and error messages
are derived from the annotation.
"""

from __future__ import annotations

import dataclasses
import math
import re
import types
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import numpy as np
from numpy.typing import NDArray

from adokernels import _core

if TYPE_CHECKING:
    from typing_extensions import Self

#: The value of `get_origin` for arrays: numpy.ndarray, or an alias of it (from NumPy 2.5).
_ARRAY = get_origin(NDArray[np.float64])
#: Limits of the magnitude of stored numbers, so that products of several of them are finite.
_LARGEST, _SMALLEST = 1e30, 1e-30
_LARGEST_INTEGER = 2**63 - 1
#: Maximum number of characters of a text, of entries of a list, and of nesting levels.
_LONGEST, _MOST_ENTRIES, _DEEPEST = 1 << 20, 1 << 22, 16
#: Maximum number of characters of a value in an error message.
_SHOWN = 60
#: The key of an object that represents a float that JSON cannot represent: ``{"number": "inf"}``.
_NUMBER = "number"
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
    most: int = _MOST_ENTRIES


@dataclass(frozen=True)
class Words:
    """A regular expression that a text must match; `words` is for messages."""

    words: str
    pattern: str


_POSITIVE = Limits("a positive finite number", _SMALLEST)
_AT_LEAST_0 = Limits("a finite number of at least 0", 0)

Positive = Annotated[float, _POSITIVE]
Amount = Annotated[float, _AT_LEAST_0]
Count = Annotated[int, Limits("an integer of at least 0", 0)]
Size = Annotated[int, Limits("an integer of at least 1", 1)]
Seconds = Annotated[NDArray[np.float64], _POSITIVE, Length(1)]
Amounts = Annotated[NDArray[np.float64], _AT_LEAST_0]
#: Shape of a grid. Old files also have it as the block of a ceiling, with zeros.
Grid = Annotated[tuple[Count, ...], Length(0, 3)]
Block = Annotated[tuple[Size, ...], Length(0, 3)]
Device = Annotated[str, Words("'cpu', 'cuda' or 'cuda:N'", r"cpu|cuda(:\d{1,4})?")]
#: JSON values without declared structure.
Context = dict[str, Any]
#: Metadata of a field that is not stored: ``field(metadata=NOT_STORED)``.
NOT_STORED = {"stored": False}


class InvalidField(ValueError):
    """Error for a value that its field does not permit; the message begins with its path."""


class Fields:
    """Base class of dataclasses that are stored as JSON objects with the same fields."""

    def to_dict(self) -> dict[str, Any]:
        """Convert the record to JSON types."""
        record: dict[str, Any] = encoded(self)
        return record

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The inverse of :meth:`to_dict`.

        Raises
        ------
        ValueError
            If a field is missing, unknown, or has a wrong value; the message contains its path.
        """
        found: Self = decoded(cls, record, "")
        return found

    def _contradiction(self) -> str:
        """A message if fields contradict each other: the field and the rule; otherwise empty."""
        return ""


def encoded(value: Any) -> Any:
    """Convert a value to JSON types; values of other types are returned unchanged."""
    if isinstance(value, float) and not math.isfinite(value):
        return {_NUMBER: repr(float(value))}
    if isinstance(value, str | int | float) or value is None:
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: encoded(getattr(value, name)) for name in _stored(type(value))}
    if isinstance(value, np.ndarray | np.generic):
        return encoded(value.tolist())
    if isinstance(value, Mapping):
        return {name: encoded(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [encoded(item) for item in value]
    return str(value) if isinstance(value, PurePath) else value


def equal(one: Fields, other: Fields) -> bool:
    """Whether the stored fields of two dataclasses of the same type have equal JSON values.

    NaN is equal to NaN, a tuple to a list, and an array to the list of its elements.
    """
    kind: Any = type(one)
    return all(encoded(getattr(one, n)) == encoded(getattr(other, n)) for n in _stored(kind))


def text_hash(record: Fields) -> int:
    """A hash of the text fields, which is the same for dataclasses that are :func:`equal`.

    It distinguishes most records, for example by the names of routine and variant. Fields of other
    types are omitted: their equal values can have different hashes, or no hash.
    """
    kind: Any = type(record)
    values = (getattr(record, name) for name in _stored(kind))
    texts = (encoded(value) for value in values if isinstance(value, str | PurePath))
    return hash((kind, *map(str.__str__, texts)))


def decoded(kind: Any, value: Any, path: str, rules: tuple[Any, ...] = ()) -> Any:
    """Convert a JSON value to the type `kind` of a field.

    Parameters
    ----------
    kind
        A dataclass, a named tuple, a basic type, or a container, literal or union of these.
    value
        The JSON value.
    path
        The path of the value, for errors: ``"measurements[3].samples"``.
    rules
        Limits of the value.

    Raises
    ------
    InvalidField
        If the value does not match.
    """
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return decoded(arguments[0], value, path, (*arguments[1:], *rules))
    if origin in (Union, types.UnionType):
        if value is None and type(None) in arguments:
            return None
        (some,) = (a for a in arguments if a is not type(None))
        return decoded(some, value, path, rules)
    if kind is Any:
        return _free(value, path)
    if origin is Literal:
        if not isinstance(value, str) or value not in arguments:
            raise _wrong(path, " or ".join(map(repr, arguments)), value)
        return value
    if origin is _ARRAY:
        return _array(value, path, rules)
    if origin is tuple:
        return _tuple(arguments, value, path, rules)
    if origin in (dict, Mapping):
        return _mapping(arguments[1], value, path, rules)
    if kind in _BASIC:
        return _basic(kind, value, path, rules)
    if issubclass(kind, tuple):
        return kind(*_tuple(tuple(_hints(kind).values()), value, path, rules))
    return _record(kind, value, path)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


@cache
def _stored(kind: type) -> dict[str, tuple[Any, bool]]:
    """The type of each stored field of a dataclass, and whether it is required."""
    hints = _hints(kind)
    missing = dataclasses.MISSING
    return {
        f.name: (hints[f.name], f.default is missing and f.default_factory is missing)
        for f in dataclasses.fields(kind)
        if f.metadata.get("stored", True)
    }


def _record(kind: Any, value: Any, path: str) -> Any:
    if not isinstance(value, Mapping):
        raise _wrong(path, f"an object with the fields of {kind.__name__}", value)
    fields, prefix = _stored(kind), f"{path}." if path else ""
    for name in value:
        if name not in fields:
            hint = _core.suggest(str(name), list(fields))
            raise InvalidField(f"{prefix}{_short(str(name))} must be a known field{hint}")
    for name, (_, required) in fields.items():
        if required and name not in value:
            raise InvalidField(f"{prefix}{name} is missing")
    made = kind(**{n: decoded(fields[n][0], item, prefix + n) for n, item in value.items()})
    if isinstance(made, Fields) and (contradiction := made._contradiction()):
        raise InvalidField(prefix + contradiction)
    return made


def _free(value: Any, path: str, depth: int = 0) -> Any:
    if depth > _DEEPEST:
        raise InvalidField(f"{path} must have at most {_DEEPEST} levels of lists and objects")
    if isinstance(value, list | tuple):
        return [_free(item, f"{path}[{place}]", depth + 1) for place, item in enumerate(value)]
    if isinstance(value, Mapping):
        if len(value) == 1 and str(value.get(_NUMBER)) in _NOT_FINITE:
            return _NOT_FINITE[str(value[_NUMBER])]
        _check_names(value, path)
        return {name: _free(item, f"{path}.{name}", depth + 1) for name, item in value.items()}
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return _basic(kind, value, path, ())
    if value is not None:
        raise _wrong(path, "a JSON value", value)
    return None


_BASIC: dict[type, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a finite number",
    str: "a text",
}


def _basic(kind: type, value: Any, path: str, rules: tuple[Any, ...]) -> Any:
    words = next((rule.words for rule in rules if isinstance(rule, Limits | Words)), _BASIC[kind])
    accepted = (int, float) if kind is float else kind
    if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
        raise _wrong(path, words, value)
    if isinstance(value, str):
        if len(value) > _LONGEST:
            raise InvalidField(f"{path} must have at most {_LONGEST} characters, got {len(value)}")
        if not all(re.fullmatch(r.pattern, value) for r in rules if isinstance(r, Words)):
            raise _wrong(path, words, value)
    elif isinstance(value, int | float) and kind is not bool:
        least = max((rule.least for rule in rules if isinstance(rule, Limits)), default=-math.inf)
        most = _LARGEST_INTEGER if kind is int else _LARGEST
        if value != value or value < least or math.inf in (value, -value):
            raise _wrong(path, words, value)
        if not -most <= value <= most:
            raise _wrong(path, f"{words} of magnitude at most {most:.3g}", value)
        return kind(value)
    return value


def _array(value: Any, path: str, rules: tuple[Any, ...]) -> NDArray[np.float64]:
    if not isinstance(value, list | tuple):
        raise _wrong(path, "a list of numbers", value)
    _check_length(value, path, rules)
    limits = tuple(rule for rule in rules if isinstance(rule, Limits))
    if _are_within(value, limits):
        return np.array(value, dtype=np.float64)
    checked = [_basic(float, item, f"{path}[{i}]", limits) for i, item in enumerate(value)]
    return np.array(checked, dtype=np.float64)


def _are_within(values: Collection[Any], limits: tuple[Limits, ...]) -> bool:
    """Whether all values are floats within the limits: a fast path for valid data."""
    if not {type(value) for value in values} <= {float}:
        return False
    least = max((rule.least for rule in limits), default=-_LARGEST)
    # A sum with NaN is NaN, whereas min and max may ignore it.
    return not values or (
        least <= min(values) and max(values) <= _LARGEST and math.isfinite(sum(values))
    )


def _tuple(
    kinds: tuple[Any, ...], value: Any, path: str, rules: tuple[Any, ...]
) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise _wrong(path, "a list", value)
    _check_length(value, path, rules)
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    elif len(kinds) != len(value):
        raise InvalidField(f"{path} must have {len(kinds)} entries, got {len(value)}")
    pairs = enumerate(zip(kinds, value, strict=True))
    return tuple(decoded(kind, item, f"{path}[{place}]") for place, (kind, item) in pairs)


def _mapping(kind: Any, value: Any, path: str, rules: tuple[Any, ...]) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _wrong(path, "an object", value)
    _check_length(value, path, rules)
    _check_names(value, path)
    if get_origin(kind) is Annotated and get_args(kind)[0] is float:
        limits = tuple(rule for rule in get_args(kind) if isinstance(rule, Limits))
        if _are_within(value.values(), limits):
            return dict(value)
    return {name: decoded(kind, item, f"{path}.{_short(name)}") for name, item in value.items()}


def _check_names(value: Mapping[Any, Any], path: str) -> None:
    if not all(isinstance(name, str) and len(name) <= _LONGEST for name in value):
        raise InvalidField(f"{path} must have names of at most {_LONGEST} characters")


def _check_length(value: Any, path: str, rules: tuple[Any, ...]) -> None:
    length = next((rule for rule in rules if isinstance(rule, Length)), Length())
    if not length.least <= len(value) <= length.most:
        raise InvalidField(
            f"{path} must have {length.least} to {length.most} entries, got {len(value)}"
        )


def _wrong(path: str, words: str, value: Any) -> InvalidField:
    if isinstance(value, dict) and len(value) == 1:
        value = _NOT_FINITE.get(str(value.get(_NUMBER)), value)
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer with thousands of digits; nested lists
        text = f"a very large {type(value).__name__}"
    return InvalidField(f"{path or 'the record'} must be {words}, got {_short(text)}")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def number_in(context: Context, *names: str) -> float | None:
    """The positive number at a path in a context; None if there is no such number."""
    value: Any = context
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return value if known and 0 < value <= _LARGEST else None
