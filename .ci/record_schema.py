"""The JSON schema of stored records, from the annotations of their fields."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from adokernels.records.forms import ARRAY, LARGEST, LARGEST_INTEGER, Length, Limits, Words
from adokernels.records.forms import stored_fields as fields_of
from adokernels.records.loading import KINDS
from adokernels.records.record import ROWS, SCHEMA

Schema = dict[str, Any]

_NUMBERS = {"minimum": -LARGEST, "maximum": LARGEST}
_BASIC: dict[Any, Schema] = {
    bool: {"type": "boolean"},
    str: {"type": "string"},
    int: {"type": "integer", "minimum": -LARGEST_INTEGER, "maximum": LARGEST_INTEGER},
    float: {"type": "number", **_NUMBERS},
}


def text() -> str:
    """The JSON schema of stored records.

    A file also has the fields `schema` and `kind`, and rows if its record has a method `records`.
    """
    definitions: dict[str, Schema] = {}
    for record in KINDS.values():
        _schema_of(record, definitions)
    contained = set(re.findall(r"#/\$defs/(\w+)", json.dumps(definitions)))
    files = []
    for kind, record in KINDS.items():
        name = record.__name__
        if name in contained:
            fields = dict(definitions[name])
            names = fields["properties"]
            fields["properties"] = {n: {"$ref": f"#/$defs/{name}/properties/{n}"} for n in names}
        else:
            fields = definitions.pop(name)
        if hasattr(record, "records"):
            rows = {"type": "array", "items": {"type": "object"}}
            fields["properties"] |= {ROWS: rows}
        fields["properties"] |= {"schema": {"const": SCHEMA}, "kind": {"const": kind}}
        files.append({"if": {"properties": {"kind": {"const": kind}}}, "then": fields})
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Records of adokernels, schema {SCHEMA}",
        "type": "object",
        "properties": {"kind": {"enum": list(KINDS)}},
        "required": ["schema", "kind"],
        "allOf": files,
        "$defs": definitions,
    }
    return json.dumps(schema, indent=1) + "\n"


def _schema_of(annotation: Any, definitions: dict[str, Schema], *rules: Any) -> Schema:
    """The schema of an annotation, with its limits.

    The schemas of records that it contains are added to `definitions`.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _schema_of(arguments[0], definitions, *arguments[1:])
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema_of(arguments[0], definitions), {"type": "null"}]}
    if origin is Literal:
        return {"enum": list(arguments)}
    if annotation is Any:
        value = {"$ref": "#/$defs/Value"}
        definitions["Value"] = {"items": value, "additionalProperties": value, **_NUMBERS}
        return value
    length = next((rule for rule in rules if isinstance(rule, Length)), Length())
    if annotation in _BASIC:
        found = dict(_BASIC[annotation])
        for rule in rules:
            found |= {"minimum": rule.least} if isinstance(rule, Limits) else {}
            found |= {"pattern": f"^({rule.pattern})$"} if isinstance(rule, Words) else {}
        return found
    if origin is ARRAY:
        items = _schema_of(float, definitions, *rules)
        return {"type": "array", "items": items, **_size(length, "Items")}
    if origin is tuple and arguments[-1] is Ellipsis:
        items = _schema_of(arguments[0], definitions)
        return {"type": "array", "items": items, **_size(length, "Items")}
    if origin in (dict, Mapping):
        values = _schema_of(arguments[1], definitions)
        return {"type": "object", "additionalProperties": values, **_size(length, "Properties")}
    hints = get_type_hints(annotation, include_extras=True) if origin is None else {}
    if origin is tuple or issubclass(annotation, tuple):
        entries = [_schema_of(each, definitions) for each in (arguments or hints.values())]
        return {"type": "array", "prefixItems": entries, "minItems": len(entries), "items": False}
    name = annotation.__name__
    if name not in definitions:
        definitions[name] = {
            "type": "object",
            "properties": {n: _schema_of(hints[n], definitions) for n in fields_of(annotation)},
            "required": [n for n, required in fields_of(annotation).items() if required],
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{name}"}


def _size(length: Length, of: str) -> Schema:
    limits = {f"min{of}": length.least, f"max{of}": length.most}
    return {name: limit for name, limit in limits.items() if limit}
