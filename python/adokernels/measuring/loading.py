"""Reading stored records."""

from __future__ import annotations

import json
from pathlib import Path

from adokernels.counters.hotspots import Hotspots
from adokernels.counters.records import Profile
from adokernels.diagnosis.score import Score
from adokernels.measuring import schema_one
from adokernels.measuring.records import Machine, Measurement, Sweep
from adokernels.storage import SCHEMA

Record = Measurement | Machine | Sweep | Profile | Hotspots | Score

_KINDS: dict[str, type[Record]] = {
    "measurement": Measurement,
    "machine": Machine,
    "sweep": Sweep,
    "profile": Profile,
    "hotspots": Hotspots,
    "score": Score,
}


def load(path: str | Path) -> Record:
    """Read a file that the method ``save`` of a record wrote, such as a sweep or a profile.

    Raises
    ------
    ValueError
        If the file is not a record of adokernels or has a newer schema.
    """
    try:
        document = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not UTF-8, or not JSON
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or str(document.get("kind")) not in _KINDS:
        raise ValueError(f"{path} is not an adokernels record (kind: {', '.join(_KINDS)})")
    version = document.pop("schema", None)
    if version not in (1, SCHEMA):
        raise ValueError(f"{path} has schema {version}; this version reads schemas 1 and {SCHEMA}")
    kind = _KINDS[document.pop("kind")]
    try:
        return kind.from_dict(schema_one.converted(document) if version == 1 else document)
    except (
        *(KeyError, TypeError, AttributeError, ValueError, OverflowError),
        *(SyntaxError, RecursionError, MemoryError),
    ) as error:
        raise ValueError(f"{path} is damaged: {error!r}") from error
