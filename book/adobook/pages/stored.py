"""The stored records from which pages are written, their origin, and the templates of pages."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import adokernels as ado

#: The root of the repository.
ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "notebooks" / "data"
#: A stored record that the page of the documents shows.
Record = (
    ado.records.Sweep
    | ado.records.Measurement
    | ado.records.Profile
    | ado.records.Hotspots
    | ado.records.Heatmap
)


def sweeps() -> dict[str, ado.records.Sweep]:
    """The sweeps of notebooks/data, by name."""
    return {name: s for name, s in _records(DATA).items() if isinstance(s, ado.records.Sweep)}


def unseen() -> dict[str, dict[str, ado.records.Sweep]]:
    """The sweeps of the ladders of textbooks, by set and name (tests/kernels)."""
    folders = sorted(folder for folder in (DATA / "unseen").iterdir() if folder.is_dir())
    found = {folder.name: _records(folder) for folder in folders}
    return {
        name: {key: r for key, r in records.items() if isinstance(r, ado.records.Sweep)}
        for name, records in found.items()
    }


def cpu_sweeps() -> dict[str, ado.records.Sweep]:
    """The sweeps of notebooks/data/cpu, by routine."""
    found = _records(DATA / "cpu")
    sweeps = {name: s for name, s in found.items() if isinstance(s, ado.records.Sweep)}
    return {name: sweeps[name] for name in ado.routines if name in sweeps}


def gpu_sweeps() -> dict[str, ado.records.Sweep]:
    """The sweeps of every GPU model: ``"NAME"`` of the first one, ``"gpus/MODEL/NAME"``."""
    found: dict[str, ado.records.Sweep] = dict(sweeps())
    for folder in sorted((DATA / "gpus").glob("*/")):
        for name, record in _records(folder).items():
            if isinstance(record, ado.records.Sweep):
                found[f"gpus/{folder.name}/{name}"] = record
    return found


def scans() -> dict[str, ado.records.Scan]:
    """The scans with copies of notebooks/data/break_even, by routine."""
    found = _records(DATA / "break_even")
    scans = {name: s for name, s in found.items() if isinstance(s, ado.records.Scan)}
    return {name: scans[name] for name in ado.routines if name in scans}


def course_records() -> dict[str, Record]:
    """The records that only the notebooks use: ``"course/NAME"``."""
    found = _records(DATA / "course")
    return {f"course/{name}": r for name, r in found.items() if isinstance(r, Record)}


def _records(folder: Path) -> dict[str, object]:
    return {path.stem: ado.load(path) for path in sorted(folder.glob("*.json"))}


def fill_template(name: str, **blocks: object) -> str:
    """The text of a template of this folder with its blocks."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8").format(**blocks)


def origin(contexts: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence with the properties of all `contexts`; missing ones are "unknown".

    A context describes a measurement, as ``Measurement.context`` does.
    """
    facts = list(contexts)

    def joined(values: Iterable[str | None]) -> str:
        return " and ".join(sorted({value or "unknown" for value in values})) or "unknown"

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
