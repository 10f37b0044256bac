"""Reading stored records."""

from __future__ import annotations

import json
import os
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


def load(path: str | Path) -> Record:
    """Read a file that the method ``save`` of a record wrote, such as a sweep or a profile.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file is not a record of adokernels, has another schema, or a field has a wrong value,
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
    if type(version) is not int or version != SCHEMA:
        raise ValueError(f"{path} has schema {version}; this version reads schema {SCHEMA}")
    try:
        found = KINDS[kind] if kind in KINDS else find(_ABOVE[kind])
        record: Record = found.from_dict(document)
    except InvalidField as error:
        raise ValueError(f"{path}: {error}") from error
    return record


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(n for n, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise InvalidField(f"{shortened(twice)} must occur once per object, and occurs more often")
    return found
