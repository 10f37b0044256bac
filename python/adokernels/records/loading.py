"""Reading stored records."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import get_args

from adokernels.records.changes import SweepComparison
from adokernels.records.checked import CheckResult
from adokernels.records.counted import CountedSweep
from adokernels.records.forms import InvalidField
from adokernels.records.heatmap import Heatmap
from adokernels.records.hotspots import Hotspots
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.records.profile import Profile
from adokernels.records.record import ROWS, SCHEMA
from adokernels.records.sass import Sass
from adokernels.records.scan import Scan
from adokernels.records.sweep import Sweep
from adokernels.records.tuning import Tuning
from adokernels.records.what_if import WhatIf
from adokernels.storage import read_file
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
    | WhatIf
)
#: The records that a report shows.
Reported = Sweep | Scan | SweepComparison
#: The class of each kind of stored record.
KINDS: dict[str, type[Record]] = {kind.KIND: kind for kind in get_args(Record)}


def load(path: str | Path) -> Record:
    """Read a file that the method ``save`` of a record wrote, such as a sweep or a profile.

    A file whose name ends in ``.xz`` is decompressed.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file is not a record of adokernels, has another schema or more than 128 MiB, or if a
        field has a wrong value. The message contains the path of the file and of the field:
        ``"x.json: measurements[3].samples[0] must be a positive finite number, got 'a'"``.
    """
    require((str, os.PathLike), "a path", path=path)
    return record_of(read_file(path), path)


def record_of(content: bytes, path: str | Path) -> Record:
    """Read the content of a file; raises the ValueErrors of :func:`load`, with this path."""
    written = "the method save and the option --json write records"
    if Path(path).suffix in (".csv", ".ncu-rep"):
        written = "ado.import_ncu reads reports of Nsight Compute"
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:  # not UTF-8, or not JSON
        raise ValueError(f"{path} is not JSON: {error}; {written}") from error
    kind = document.pop("kind", None) if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(
            f"{path} is not an adokernels record (kind: {', '.join(KINDS)}); {written}"
        )
    document.pop(ROWS, None)
    version = document.pop("schema", None)
    if type(version) is not int or version != SCHEMA:
        raise ValueError(f"{path} has schema {version}; this version reads schema {SCHEMA}")
    try:
        return KINDS[kind].from_dict(document)
    except InvalidField as error:
        raise ValueError(f"{path}: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{path} has too many levels of lists and objects") from error
