"""Reading stored records."""

from __future__ import annotations

import json
from pathlib import Path

from adokernels.names import find
from adokernels.records.checked import CheckResult
from adokernels.records.forms import InvalidField
from adokernels.records.hotspots import Hotspots
from adokernels.records.machine import Machine
from adokernels.records.measurement import Measurement
from adokernels.records.profile import Profile
from adokernels.records.record import SCHEMA
from adokernels.records.sass import Sass
from adokernels.records.scan import Scan
from adokernels.records.schema_one import converted
from adokernels.records.sweep import Sweep

Record = Measurement | Machine | Sweep | Profile | Hotspots | CheckResult | Scan | Sass
#: The class of each kind of stored record.
KINDS: dict[str, type[Record]] = {
    kind.KIND: kind
    for kind in (Measurement, Machine, Sweep, Profile, Hotspots, CheckResult, Scan, Sass)
}
#: Kinds of records of packages above this one: the names of the classes.
_ABOVE = {"score": "Score"}
#: Maximum size of a file, in bytes. The largest published file has 1.3 MB.
_LARGEST_FILE = 1 << 28


def load(path: str | Path) -> Record:
    """Read a file that the method ``save`` of a record wrote, such as a sweep or a profile.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        If the file is not a record of adokernels, has a newer schema, or a field has a wrong value.
        The message contains the path of the file and of the field:
        ``"x.json: measurements[3].samples[0] must be a positive finite number, got 'a'"``.
    """
    return read_record(path, _LARGEST_FILE)


def read_record(path: str | Path, most_bytes: int) -> Record:
    """Read a stored record of at most `most_bytes` bytes; raises the errors of :func:`load`."""
    with Path(path).open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"{path}: the file must have at most {most_bytes} bytes, and is larger")
    try:
        document = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:  # not UTF-8, or not JSON
        raise ValueError(f"{path} is not JSON: {error}") from error
    kind = document.pop("kind", None) if isinstance(document, dict) else None
    if not isinstance(kind, str) or kind not in KINDS | _ABOVE:
        raise ValueError(f"{path} is not an adokernels record (kind: {', '.join(KINDS)})")
    version = document.pop("schema", None)
    if type(version) is not int or version not in (1, SCHEMA):
        raise ValueError(f"{path} has schema {version}; this version reads schemas 1 and {SCHEMA}")
    try:
        found = KINDS[kind] if kind in KINDS else find(_ABOVE[kind])
        record: Record = found.from_dict(converted(document) if version == 1 else document)
    except InvalidField as error:
        raise ValueError(f"{path}: {error}") from error
    return record
