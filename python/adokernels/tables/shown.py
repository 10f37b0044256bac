"""The tables of each record, by its class: the registry for :mod:`adokernels.records.shown`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from adokernels.diagnosis.cards import Card, CardEvidence, Cards
from adokernels.diagnosis.diagnosis import Diagnosis
from adokernels.measuring.tuning import Tuning
from adokernels.records.changes import Changes
from adokernels.records.hotspots import Hotspots
from adokernels.records.kernels import Resources
from adokernels.records.machine import Machine
from adokernels.records.profile import Profile, ProfileComparison
from adokernels.records.sass import Sass
from adokernels.records.scan import Scan
from adokernels.records.sweep import Sweep
from adokernels.tables.cards import card_table, cards_table, evidence_table
from adokernels.tables.counters import comparison_table, profile_table
from adokernels.tables.diagnoses import diagnosis_tables
from adokernels.tables.hotspots import hotspot_blocks
from adokernels.tables.machine_code import sass_tables
from adokernels.tables.measurements import (
    changes_table,
    machine_table,
    resource_table,
    scan_table,
    sweep_tables,
    tuning_table,
)

if TYPE_CHECKING:
    from rich.table import Table

    from adokernels.tables.code import Listing

_TABLES: dict[type, Callable[[Any], Sequence[Table | Listing]]] = {
    Card: lambda card: [card_table(card)],
    CardEvidence: lambda evidence: [evidence_table(evidence)],
    Cards: lambda cards: [cards_table(cards)],
    Changes: lambda changes: [changes_table(changes)],
    Diagnosis: diagnosis_tables,
    Hotspots: hotspot_blocks,
    Machine: lambda machine: [machine_table(machine)],
    Profile: lambda profile: [profile_table(profile)],
    ProfileComparison: lambda comparison: [comparison_table(comparison)],
    Resources: lambda resources: [resource_table([resources])],
    Sass: sass_tables,
    Scan: lambda scan: [scan_table(scan)],
    Sweep: sweep_tables,
    Tuning: lambda tuning: [tuning_table(tuning)],
}


def tables_of(record: object) -> Sequence[Table | Listing]:
    """Build the tables of a record."""
    build = next(_TABLES[kind] for kind in type(record).__mro__ if kind in _TABLES)
    return build(record)
