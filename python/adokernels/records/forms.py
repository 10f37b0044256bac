"""Forms: the JSON values that a field of a record permits.

The annotation of a field states its type and its limits. Its form reads values, rejects wrong ones
with the path of the field, and describes the permitted values as a JSON schema.
"""

from __future__ import annotations

import dataclasses
import math
import re
import types
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from adokernels import _core

#: The value of `get_origin` for arrays: numpy.ndarray, or an alias of it (from NumPy 2.5).
_ARRAY = get_origin(NDArray[np.float64])
#: Limits of the magnitude of stored numbers, so that products of several of them are finite.
LARGEST, _SMALLEST = 1e30, 1e-30
_LARGEST_INTEGER = 2**63 - 1
#: Maximum number of characters of a text, of entries of a list, and of nesting levels.
_LONGEST, _MOST_ENTRIES, _DEEPEST = 1 << 20, 1 << 22, 16
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
#: Shape of a grid. Pipelines, and ceilings without a kernel, have the grid and the block ``(0,)``.
Grid = Annotated[tuple[Count, ...], Length(0, 3)]
Block = Annotated[tuple[Size, ...], Length(0, 3)]
Device = Annotated[str, Words("'cpu', 'cuda' or 'cuda:N'", r"cpu|cuda(:\d{1,4})?")]
#: JSON values without declared structure.
Context = dict[str, Any]
#: Metadata of a field that is not stored: ``field(metadata=NOT_STORED)``.
NOT_STORED = {"stored": False}

Schema = dict[str, Any]


class InvalidField(ValueError):
    """Error for a value that its field does not permit; the message begins with its path."""


class Form(ABC):
    """The permitted values of a field."""

    @abstractmethod
    def read(self, value: Any, path: str) -> Any:
        """Convert a JSON value to the type of the field, or raise InvalidField.

        `path` is the path of the value, for errors: ``"measurements[3].samples"``.
        """

    @abstractmethod
    def schema(self, definitions: dict[str, Schema]) -> Schema:
        """Describe the permitted values; add the schemas of contained records to `definitions`."""


@cache
def form_of(annotation: Any, *rules: Any) -> Form:
    """The form of an annotation, with further limits.

    The annotation is a dataclass, a named tuple, a basic type, or a container, literal or optional
    value of these.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return form_of(arguments[0], *arguments[1:], *rules)
    if origin in (Union, types.UnionType):
        (some,) = (argument for argument in arguments if argument is not types.NoneType)
        return _Optional(form_of(some, *rules))
    limits = [rule for rule in rules if isinstance(rule, Limits | Words)]
    length = next((rule for rule in rules if isinstance(rule, Length)), Length())
    if annotation is Any:
        return _Free()
    if annotation in _BASIC:
        return _Basic(annotation, *limits[:1])
    if origin is Literal:
        return _Choice(arguments)
    if origin is _ARRAY:
        return _Array(_Basic(float, *limits[:1]), length)
    if origin is tuple and arguments[-1] is Ellipsis:
        return _List(form_of(arguments[0]), length)
    if origin is tuple:
        return _Entries(tuple, tuple(map(form_of, arguments)))
    if origin in (dict, Mapping):
        return _Mapping(form_of(arguments[1]), length)
    if issubclass(annotation, tuple):
        hints = get_type_hints(annotation, include_extras=True)
        return _Entries(annotation._make, tuple(map(form_of, hints.values())))
    return _Object(annotation)


@dataclass(frozen=True)
class _Optional(Form):
    some: Form

    def read(self, value: Any, path: str) -> Any:
        return None if value is None else self.some.read(value, path)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"anyOf": [self.some.schema(definitions), {"type": "null"}]}


@dataclass(frozen=True)
class _Choice(Form):
    choices: tuple[str, ...]

    def read(self, value: Any, path: str) -> str:
        if not isinstance(value, str) or value not in self.choices:
            raise _wrong(path, " or ".join(map(repr, self.choices)), value)
        return value

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        return {"enum": list(self.choices)}


#: The name of each basic type in JSON schemas and in messages.
_BASIC: dict[type, tuple[str, str]] = {
    bool: ("boolean", "true or false"),
    int: ("integer", "an integer"),
    float: ("number", "a finite number"),
    str: ("string", "a text"),
}


@dataclass(frozen=True)
class _Basic(Form):
    kind: Any
    rule: Limits | Words | None = None

    def read(self, value: Any, path: str) -> Any:
        words = self.rule.words if self.rule else _BASIC[self.kind][1]
        accepted = (int, float) if self.kind is float else self.kind
        if not isinstance(value, accepted) or (isinstance(value, bool) and self.kind is not bool):
            raise _wrong(path, words, value)
        if isinstance(value, str):
            if len(value) > _LONGEST:
                most = f"at most {_LONGEST} characters, got {len(value)}"
                raise InvalidField(f"{path} must have {most}")
            if isinstance(self.rule, Words) and not re.fullmatch(self.rule.pattern, value):
                raise _wrong(path, words, value)
        elif self.kind is not bool:
            least = self.rule.least if isinstance(self.rule, Limits) else -math.inf
            if not least <= value or value in (math.inf, -math.inf):  # NaN is not >= least
                raise _wrong(path, words, value)
            if not -self.most <= value <= self.most:
                raise _wrong(path, f"{words} of magnitude at most {self.most:.3g}", value)
            return self.kind(value)
        return value

    @property
    def least(self) -> float:
        return self.rule.least if isinstance(self.rule, Limits) else -self.most

    @property
    def most(self) -> float:
        return _LARGEST_INTEGER if self.kind is int else LARGEST

    def permits(self, values: Collection[Any]) -> bool:
        """Whether all values are floats within the limits: a fast path for valid data."""
        if self.kind is not float or not {type(value) for value in values} <= {float}:
            return False
        # A sum with NaN is NaN, whereas min and max may ignore it.
        return not values or (
            self.least <= min(values) and max(values) <= LARGEST and math.isfinite(sum(values))
        )

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        schema: Schema = {"type": _BASIC[self.kind][0]}
        if self.kind is str:
            schema["maxLength"] = _LONGEST
        elif self.kind is not bool:
            schema |= {"minimum": self.least, "maximum": self.most}
        if isinstance(self.rule, Words):
            schema["pattern"] = f"^({self.rule.pattern})$"
        return schema


@dataclass(frozen=True)
class _List(Form):
    item: Form
    length: Length

    def read(self, value: Any, path: str) -> Any:
        _check(value, path, "a list", list | tuple, self.length)
        return tuple(self.item.read(item, f"{path}[{place}]") for place, item in enumerate(value))

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        least, most = dataclasses.astuple(self.length)
        items = self.item.schema(definitions)
        return {"type": "array", "items": items, "minItems": least, "maxItems": most}


@dataclass(frozen=True)
class _Array(_List):
    item: _Basic

    def read(self, value: Any, path: str) -> NDArray[np.float64]:
        _check(value, path, "a list of numbers", list | tuple, self.length)
        numbers = value if self.item.permits(value) else super().read(value, path)
        return np.array(numbers, dtype=np.float64)


@dataclass(frozen=True)
class _Entries(Form):
    make: Callable[[Any], Any]
    entries: tuple[Form, ...]

    def read(self, value: Any, path: str) -> Any:
        _check(value, path, "a list", list | tuple)
        if len(value) != len(self.entries):
            raise InvalidField(f"{path} must have {len(self.entries)} entries, got {len(value)}")
        pairs = enumerate(zip(self.entries, value, strict=True))
        return self.make(form.read(item, f"{path}[{place}]") for place, (form, item) in pairs)

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        entries = [form.schema(definitions) for form in self.entries]
        return {"type": "array", "prefixItems": entries, "minItems": len(entries), "items": False}


@dataclass(frozen=True)
class _Mapping(Form):
    value: Form
    length: Length

    def read(self, value: Any, path: str) -> dict[str, Any]:
        _check(value, path, "an object", Mapping, self.length)
        _check_names(value, path)
        if isinstance(self.value, _Basic) and self.value.permits(value.values()):
            return dict(value)
        return {n: self.value.read(item, f"{path}.{shortened(n)}") for n, item in value.items()}

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        least, most = dataclasses.astuple(self.length)
        values = self.value.schema(definitions)
        limits = {"minProperties": least, "maxProperties": most}
        return {"type": "object", "additionalProperties": values, **limits}


@dataclass(frozen=True)
class _Free(Form):
    def read(self, value: Any, path: str, depth: int = 0) -> Any:
        if depth > _DEEPEST:
            raise InvalidField(f"{path} must have at most {_DEEPEST} levels of lists and objects")
        if isinstance(value, list | tuple):
            return [self.read(v, f"{path}[{place}]", depth + 1) for place, v in enumerate(value)]
        if isinstance(value, Mapping):
            if len(value) == 1 and str(value.get(NUMBER)) in _NOT_FINITE:
                return _NOT_FINITE[str(value[NUMBER])]
            _check_names(value, path)
            return {name: self.read(v, f"{path}.{name}", depth + 1) for name, v in value.items()}
        for kind in (bool, int, float, str):
            if isinstance(value, kind):
                return form_of(kind).read(value, path)
        if value is not None:
            raise _wrong(path, "a JSON value", value)
        return None

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        value = {"$ref": "#/$defs/Value"}
        limits = {"maxLength": _LONGEST, "minimum": -LARGEST, "maximum": LARGEST}
        definitions["Value"] = {"items": value, "additionalProperties": value, **limits}
        return value


@dataclass(frozen=True)
class _Object(Form):
    kind: Any

    @cached_property
    def fields(self) -> dict[str, Form]:
        """The form of each stored field."""
        hints = get_type_hints(self.kind, include_extras=True)
        return {name: form_of(hints[name]) for name in stored_fields(self.kind)}

    def read(self, value: Any, path: str) -> Any:
        _check(value, path, f"an object with the fields of {self.kind.__name__}", Mapping)
        fields, prefix = self.fields, f"{path}." if path else ""
        for name in value:
            if name not in fields:
                hint = _core.suggest(str(name), list(fields))
                raise InvalidField(f"{prefix}{shortened(str(name))} must be a known field{hint}")
        for name, required in stored_fields(self.kind).items():
            if required and name not in value:
                raise InvalidField(f"{prefix}{name} is missing")
        made = self.kind(**{n: fields[n].read(item, prefix + n) for n, item in value.items()})
        if contradiction := made._contradiction():
            raise InvalidField(prefix + contradiction)
        return made

    def schema(self, definitions: dict[str, Schema]) -> Schema:
        name = self.kind.__name__
        if name not in definitions:
            definitions[name] = {
                "type": "object",
                "properties": {n: form.schema(definitions) for n, form in self.fields.items()},
                "required": [n for n, required in stored_fields(self.kind).items() if required],
                "additionalProperties": False,
            }
        return {"$ref": f"#/$defs/{name}"}


@cache
def stored_fields(kind: Any) -> dict[str, bool]:
    """The names of the stored fields of a dataclass, and whether each is required."""
    missing = dataclasses.MISSING
    return {
        f.name: f.default is missing and f.default_factory is missing
        for f in dataclasses.fields(kind)
        if f.metadata.get("stored", True)
    }


def _check_names(value: Mapping[Any, Any], path: str) -> None:
    if not all(isinstance(name, str) and len(name) <= _LONGEST for name in value):
        raise InvalidField(f"{path} must have names of at most {_LONGEST} characters")


def _check(value: Any, path: str, words: str, kind: Any, length: Length | None = None) -> None:
    """Raise InvalidField if a value is not a container of this kind and length."""
    if not isinstance(value, kind):
        raise _wrong(path, words, value)
    if length and not length.least <= len(value) <= length.most:
        raise InvalidField(
            f"{path} must have {length.least} to {length.most} entries, got {len(value)}"
        )


def _wrong(path: str, words: str, value: Any) -> InvalidField:
    if isinstance(value, dict) and len(value) == 1:
        value = _NOT_FINITE.get(str(value.get(NUMBER)), value)
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer with thousands of digits; nested lists
        text = f"a very large {type(value).__name__}"
    return InvalidField(f"{path or 'the record'} must be {words}, got {shortened(text)}")


def shortened(text: str) -> str:
    """The beginning of a text, for an error message."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def number_in(context: Context, *names: str) -> float | None:
    """The positive number at a path in a context, or None if there is no such number."""
    value: Any = context
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return value if known and 0 < value <= LARGEST else None
