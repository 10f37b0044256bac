"""The stored records from which pages are written, their origin, and the templates of pages."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import adokernels as ado

#: The root of the repository.
ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "notebooks" / "data"
#: A stored record with a context.
Record = (
    ado.records.Sweep
    | ado.records.Measurement
    | ado.records.Profile
    | ado.records.Hotspots
    | ado.records.Heatmap
)
_Kind = TypeVar("_Kind")


def sweeps(folder: str = "") -> dict[str, ado.records.Sweep]:
    """The sweeps of notebooks/data, or of a folder there, by name."""
    return _records(folder, ado.records.Sweep)


def unseen() -> dict[str, dict[str, ado.records.Sweep]]:
    """The sweeps of the ladders of textbooks, by set and name (tests/kernels)."""
    folders = sorted((DATA / "unseen").glob("*/"))
    return {folder.name: sweeps(f"unseen/{folder.name}") for folder in folders}


def cpu_sweeps() -> dict[str, ado.records.Sweep]:
    """The sweeps of notebooks/data/cpu, by routine."""
    found = sweeps("cpu")
    return {name: found[name] for name in ado.routines if name in found}


def scans() -> dict[str, ado.records.Scan]:
    """The scans with copies of notebooks/data/break_even, by routine."""
    found = _records("break_even", ado.records.Scan)
    return {name: found[name] for name in ado.routines if name in found}


def course_records() -> list[Record]:
    """The records that only the notebooks use."""
    return [r for r in _records("course", object).values() if isinstance(r, Record)]


def _records(folder: str, kind: type[_Kind]) -> dict[str, _Kind]:
    paths = sorted((DATA / folder).glob("*.json.xz"))
    found = {path.name.partition(".")[0]: ado.load(path) for path in paths}
    return {name: record for name, record in found.items() if isinstance(record, kind)}


def fill_template(name: str, **blocks: object) -> str:
    """The text of a template of this folder with its blocks."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8").format(**blocks)


def origin(contexts: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence with the properties of all `contexts`; missing ones are "unknown".

    A context describes a measurement, as ``Measurement.context`` does.
    """
    facts = list(contexts)

    def joined(values: Iterable[str | None]) -> str:
        *others, last = sorted({value or "unknown" for value in values}) or ["unknown"]
        return f"{', '.join(others)} and {last}" if others else last

    version, python, numpy = (
        joined(context.get(key) for context in facts) for key in ("adokernels", "python", "numpy")
    )
    return (
        f"Measured {_dates(facts)} with adokernels {version} on {joined(map(_device, facts))};"
        f" Python {python}, NumPy {numpy}."
    )


def contexts_of(records: Iterable[Record]) -> Iterator[Mapping[str, Any]]:
    """The contexts of all measurements in `records`."""
    for record in records:
        if isinstance(record, ado.records.Sweep):
            yield from (m.context for m in (*record, *record.peers))
        else:
            yield record.context


def day(context: Mapping[str, Any]) -> str:
    """The date of a measurement, such as "21 November 2026"."""
    if not context.get("time"):
        return "unknown"
    found = datetime.datetime.fromisoformat(context["time"]).date()
    return f"{found.day} {found:%B %Y}"


def _dates(facts: list[Mapping[str, Any]]) -> str:
    if not facts or not all(context.get("time") for context in facts):
        return "on an unknown date"
    days = sorted(facts, key=lambda c: c["time"])
    first, last = day(days[0]), day(days[-1])
    return f"on {first}" if first == last else f"from {first} to {last}"


def _device(context: Mapping[str, Any]) -> str | None:
    name = context.get("device_name")
    if name is None:
        return None
    driver = context.get("cuda", {}).get("driver_version")
    if driver:
        return f"{name} (driver for CUDA {driver // 1000}.{driver % 1000 // 10})"
    return f"{name} ({context['threads']} threads, {context['isa']})"
