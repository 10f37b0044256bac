"""The layout of stored records: one JSON document with a kind and a schema version."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Version of the JSON layout. A reader rejects files of later versions.
SCHEMA = 2


def write(path: str | Path, kind: str, record: Mapping[str, Any]) -> None:
    """Write one record with its kind and schema version."""
    Path(path).write_text(to_json(kind, record), encoding="utf-8")


def to_json(kind: str, record: Mapping[str, Any]) -> str:
    """Return one record as a JSON document."""
    return json.dumps({"schema": SCHEMA, "kind": kind, **record}) + "\n"
