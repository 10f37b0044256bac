"""Tables of all records. :mod:`adokernels.records.shown` finds the tables of a record here."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from adokernels.code_text import Listing

#: Module and function that build the tables of each class. Modules are imported at first use.
_BUILDERS = {
    "Card": ("diagnoses", "card_table"),
    "CardEvidence": ("diagnoses", "evidence_table"),
    "Cards": ("diagnoses", "cards_table"),
    "SweepComparison": ("measurements", "changes_table"),
    "Diagnosis": ("diagnoses", "diagnosis_tables"),
    "CountedSweep": ("ladders", "counted_table"),
    "Hotspots": ("listings", "hotspot_blocks"),
    "Heatmap": ("listings", "heatmap_blocks"),
    "Ladder": ("ladders", "ladder_table"),
    "Machine": ("measurements", "machine_table"),
    "Profile": ("measurements", "profile_table"),
    "ProfileComparison": ("measurements", "comparison_table"),
    "Resources": ("measurements", "resources_table"),
    "Routines": ("ladders", "routines_table"),
    "Sass": ("listings", "sass_tables"),
    "Scan": ("measurements", "scan_table"),
    "Sweep": ("measurements", "sweep_tables"),
    "Tuning": ("ladders", "tuning_table"),
    "WhatIf": ("ladders", "what_if_table"),
}


def tables_of(record: object) -> list[Table | Listing]:
    """Build the tables of a record, or of an object of a derived class."""
    names = (kind.__name__ for kind in type(record).__mro__)
    module, function = next(_BUILDERS[name] for name in names if name in _BUILDERS)
    built = getattr(importlib.import_module(f"{__name__}.{module}"), function)(record)
    return built if isinstance(built, list) else [built]
