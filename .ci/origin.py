"""The origin of stored measurements: date, version, device and software."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import adokernels as ado


def origin(contexts: Iterable[Mapping[str, Any]]) -> str:
    """Return a sentence with the properties of all `contexts`; missing ones are "unknown".

    Parameters
    ----------
    contexts
        The contexts of measurements, as ``Measurement.context``.
    """
    facts = list(contexts)
    machine = _joined(facts, _device)
    software = [f"Python {_joined(facts, lambda c: c.get('python'))}"]
    software += [f"NumPy {_joined(facts, lambda c: c.get('numpy'))}"]
    version = _joined(facts, lambda c: c.get("adokernels"))
    return (
        f"Measured {_dates(facts)} with adokernels {version} on {machine}; {', '.join(software)}."
    )


def contexts_of(
    records: Iterable[ado.Sweep | ado.Profile | ado.Hotspots],
) -> Iterator[Mapping[str, Any]]:
    """The contexts of all measurements in `records`."""
    for record in records:
        if isinstance(record, ado.Sweep):
            yield from (m.context for m in (*record, *record.peers))
        else:
            yield record.context


def day(context: Mapping[str, Any]) -> str:
    """The date of a measurement, such as "21 November 2026"."""
    found = _date(context)
    return f"{found.day} {found:%B %Y}" if found else "unknown"


def _date(context: Mapping[str, Any]) -> datetime.date | None:
    time = context.get("time")
    return datetime.datetime.fromisoformat(time).date() if time else None


def _dates(facts: list[Mapping[str, Any]]) -> str:
    if not facts or not all(map(_date, facts)):
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


def _joined(
    facts: list[Mapping[str, Any]], value: Callable[[Mapping[str, Any]], str | None]
) -> str:
    """The distinct values, joined by "and"."""
    return " and ".join(sorted({value(context) or "unknown" for context in facts})) or "unknown"
