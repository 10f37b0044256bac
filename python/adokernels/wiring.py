"""Sets the functions of :mod:`adokernels.later`; each imports its package when it is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from adokernels import later

if TYPE_CHECKING:
    from pathlib import Path

    from adokernels.records.loading import Record
    from adokernels.records.machine import Machine
    from adokernels.records.measurement import Measurement


def _load(path: str | Path) -> Record:
    from adokernels.records.loading import load

    return load(path)


def _tables_of(record: object) -> Sequence[Any]:
    from adokernels.tables import tables_of

    return tables_of(record)


def _rendered(tables: Sequence[Any], form: Literal["text", "html", "markdown"]) -> str:
    from adokernels.tables import rendering

    render = {
        "text": rendering.to_text,
        "html": rendering.to_html,
        "markdown": rendering.to_markdown,
    }[form]
    return "\n".join(map(render, tables))


def _plot(record: Any, *arguments: Any, **options: Any) -> Any:
    from adokernels.charts.picture import plot

    return plot(record, *arguments, **options)


def _limiter(measurement: Measurement, machine: Machine | None) -> Any:
    from adokernels.diagnosis.limiter import limiter

    return limiter(measurement, machine)


def _routines() -> Mapping[str, Any]:
    from adokernels.model.registry import routines

    return routines


def _lazy_call(*arguments: Any, **keywords: Any) -> Any:
    from adokernels.large.dask_arrays import lazy_call

    return lazy_call(*arguments, **keywords)


later.load, later.tables_of, later.rendered = _load, _tables_of, _rendered
later.plot = _plot
later.limiter, later.routines = _limiter, _routines
later.lazy_call = _lazy_call
