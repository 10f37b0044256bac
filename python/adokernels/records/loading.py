"""Reading stored records, including records of JSON schema 1."""

from __future__ import annotations

import ast
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any, get_args

from adokernels.names import find
from adokernels.records.changes import SweepComparison
from adokernels.records.checked import CheckResult
from adokernels.records.counted import CountedSweep
from adokernels.records.forms import InvalidField, shortened
from adokernels.records.heatmap import Heatmap
from adokernels.records.hotspots import Hotspots
from adokernels.records.inputs import Inputs
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.records.profile import Profile
from adokernels.records.record import LARGEST_FILE, SCHEMA, too_large
from adokernels.records.sass import Sass
from adokernels.records.scan import Scan
from adokernels.records.sweep import Sweep
from adokernels.records.tuning import Tuning
from adokernels.text import require

Record = (
    Measurement
    | Machine
    | Sweep
    | CountedSweep
    | Profile
    | Hotspots
    | Heatmap
    | CheckResult
    | Scan
    | Sass
    | SweepComparison
    | Tuning
)
#: The records that a report shows.
Reported = Sweep | Scan | SweepComparison
#: The class of each kind of stored record.
KINDS: dict[str, type[Record]] = {kind.KIND: kind for kind in get_args(Record)}
#: The class names of the records that higher packages define, by kind.
_ABOVE = {"score": "Score"}
_WRITTEN = "the method save and the option --json write records"
#: Maximum number of levels of lists and objects in a file of schema 1, and of characters of a
#: sentence in it. Published files have 8 levels and 193 characters.
_DEEPEST, _LONGEST_SENTENCE = 32, 1 << 16
# Schema 1 stored the problem as a sentence, and has other names.
_RENAMED = {"warps": "resident_warps", "most_warps": "max_warps"}
#: Totals of counters, which a profile has replaced.
_REMOVED = ("measured_flops", "measured_bytes")
# Operands such as "a: (8192, 8192) float32": a name, which arguments of callables lack, a shape,
# and a dtype that ends before the next operand or option.
_NEXT = r"(?=$|, (?:\w+: )?\(\d*,|, (?:\w+: )?\(\)|, \w+=|, \w+$|, \w+,)"
_OPERAND = re.compile(rf"(?:(\w+): )?(\((?:\d+, )*(?:\d+,?)?\)) (.+?){_NEXT}")
_OPTION = re.compile(r"(\w+)=(.+?)(?=$|, \w+=)")
_TYPE_NAME = re.compile(r"\w+(?=$|, )")


def load(path: str | Path) -> Record:
    """Read a file that the method ``save`` of a record wrote, such as a sweep or a profile.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file is not a record of adokernels, has a newer schema, or a field has a wrong value,
        if an object has two fields with one name, or if the file is too large: more than 128 MiB,
        2^22 values, or 2^20 lists and objects. The message contains the path of the file and of
        the field:
        ``"x.json: measurements[3].samples[0] must be a positive finite number, got 'a'"``.
    """
    require((str, os.PathLike), "a path", path=path)
    with Path(path).open("rb") as file:
        content = file.read(LARGEST_FILE + 1)
    return record_of(content, path)


def record_of(content: bytes, path: str | Path) -> Record:
    """Read the content of a file; raises the ValueErrors of :func:`load`, with this path."""
    if reason := too_large(content):
        raise ValueError(f"{path}: the file {reason}")
    try:
        document = json.loads(content.decode("utf-8"), object_pairs_hook=_object)
    except InvalidField as error:
        raise ValueError(f"{path}: {error}") from error
    except (ValueError, RecursionError) as error:  # not UTF-8, or not JSON
        raise ValueError(f"{path} is not JSON: {error}; {_WRITTEN}") from error
    kind = document.pop("kind", None) if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in KINDS | _ABOVE:
        raise ValueError(
            f"{path} is not an adokernels record (kind: {', '.join(KINDS)}); {_WRITTEN}"
        )
    version = document.pop("schema", None)
    if type(version) is not int or version not in (1, SCHEMA):
        raise ValueError(f"{path} has schema {version}; this version reads schemas 1 and {SCHEMA}")
    try:
        found = KINDS[kind] if kind in KINDS else find(_ABOVE[kind])
        record: Record = found.from_dict(converted(document) if version == 1 else document)
    except InvalidField as error:
        raise ValueError(f"{path}: {error}") from error
    return record


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(n for n, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise InvalidField(f"{shortened(twice)} must occur once per object, and occurs more often")
    return found


def converted(record: Any, path: str = "", level: int = 0) -> Any:
    """Convert a record of schema 1, and all records that it contains, to the current schema."""
    if level > _DEEPEST:
        raise InvalidField(f"{path} must have at most {_DEEPEST} levels of lists and objects")
    if isinstance(record, list):
        if not any(isinstance(item, list | dict) for item in record):
            return record
        return [converted(v, f"{path}[{place}]", level + 1) for place, v in enumerate(record)]
    if not isinstance(record, dict):
        return record
    prefix = f"{path}." if path else ""
    kept = {name: value for name, value in record.items() if name not in ("context", *_REMOVED)}
    result = {name: converted(value, prefix + name, level + 1) for name, value in kept.items()}
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
    """Read a sentence such as ``"gray: (1600, 2560) uint8, border='replicate'"``."""
    if len(sentence) > _LONGEST_SENTENCE:
        raise ValueError(f"it has {len(sentence)} characters, at most {_LONGEST_SENTENCE} are read")
    operands: list[tuple[str, tuple[int, ...], str]] = []
    options: dict[str, Any] = {}
    rest = sentence
    while rest:
        found = _OPERAND.match(rest)
        if found and isinstance(shape := ast.literal_eval(found[2]), tuple):
            operands.append((found[1] or "", shape, found[3]))
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
