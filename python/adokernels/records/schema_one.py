"""Conversion of stored records from JSON schema 1, which stored the problem as a sentence."""

from __future__ import annotations

import ast
import re
from typing import Any

from adokernels.records.forms import InvalidField
from adokernels.records.inputs import Inputs

_RENAMED = {"warps": "resident_warps", "most_warps": "max_warps"}
#: Totals of counters, which a profile has replaced.
_REMOVED = ("measured_flops", "measured_bytes")
# Operands such as "a: (8192, 8192) float32": a name, which arguments of callables lack, a shape,
# and a dtype that ends before the next operand or option.
_NEXT = r"(?=$|, (?:\w+: )?\(\d*,|, (?:\w+: )?\(\)|, \w+=|, \w+$|, \w+,)"
_OPERAND = re.compile(rf"(?:(\w+): )?(\((?:\d+, )*(?:\d+,?)?\)) (.+?){_NEXT}")
_OPTION = re.compile(r"(\w+)=(.+?)(?=$|, \w+=)")
_TYPE_NAME = re.compile(r"\w+(?=$|, )")


def converted(record: Any, path: str = "") -> Any:
    """Convert a record, and all records that it contains, to the current schema.

    Raises
    ------
    InvalidField
        If the sentence of a problem cannot be parsed; the message begins with its path.
    """
    if isinstance(record, list):
        return [converted(item, f"{path}[{place}]") for place, item in enumerate(record)]
    if not isinstance(record, dict):
        return record
    prefix = f"{path}." if path else ""
    kept = {name: value for name, value in record.items() if name not in ("context", *_REMOVED)}
    result = {name: converted(value, prefix + name) for name, value in kept.items()}
    if "context" in record:
        result["context"] = record["context"]
    if isinstance(sentence := result.get("problem"), str):
        try:
            result["problem"] = problem_of(sentence).to_dict()
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise InvalidField(
                f"{prefix}problem must be a sentence of schema 1: {error}"
            ) from error
    if "most_warps" in result:
        result = {_RENAMED.get(name, name): value for name, value in result.items()}
    return result


def problem_of(sentence: str) -> Inputs:
    """Read a sentence such as ``"gray: (1600, 2560) uint8, border='replicate'"``.

    Raises
    ------
    ValueError
        If it is not a sentence of schema 1.
    """
    operands: list[tuple[str, tuple[int, ...], str]] = []
    options: dict[str, Any] = {}
    rest = sentence
    while rest:
        if found := _OPERAND.match(rest):
            operands.append((found[1] or "", ast.literal_eval(found[2]), found[3]))
        elif found := _OPTION.match(rest):
            options[found[1]] = _value(found[2])
        elif found := _TYPE_NAME.match(rest):
            operands.append(("", (), found[0]))
        else:
            raise ValueError(f"problem must list operands and options, got {sentence!r}")
        rest = rest[found.end() :].removeprefix(", ")
    return Inputs.of(operands, options)


def _value(text: str) -> Any:
    return float(text) if text in ("inf", "-inf", "nan") else ast.literal_eval(text)
