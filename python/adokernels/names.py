"""The names of the package, and the modules that define them.

Names are imported at their first use. A method can therefore use a name of a package that imports
the method's own package, as in :mod:`adokernels.conveniences`. ``make generate`` writes
``__init__.pyi``, which type checkers read, from these names.
"""

from __future__ import annotations

import importlib
from typing import Any

from adokernels import _core

_DEFINED_IN = {
    "adokernels._core": (
        "Cost CudaError DeviceArray Unavailable empty_pinned set_device set_isa synchronize "
        "to_device"
    ),
    "adokernels.pictures": "read_image",
    "adokernels.charts.memory": "memory_chart",
    "adokernels.charts.picture": "plot",
    "adokernels.charts.roofline": "roofline",
    "adokernels.charts.speed_of_light": "speed_of_light",
    "adokernels.charts.steps": "steps",
    "adokernels.charts.warp_states": "warp_states",
    "adokernels.records.changes": "Change Changes compare",
    "adokernels.records.hotspots": "Hotspots",
    "adokernels.records.profile": "KernelProfile Profile",
    "adokernels.model.compiler": "CompilationError",
    "adokernels.model.cuda_variant": "CudaVariant cuda_variant",
    "adokernels.model.function_variant": "FunctionVariant variant",
    "adokernels.model.own_ladder": "OwnLadder ladder",
    "adokernels.diagnosis.cards": "Card cards",
    "adokernels.diagnosis.diagnosis": "Diagnosis diagnose",
    "adokernels.diagnosis.limiter": "limiter",
    "adokernels.model.choice": "Choice",
    "adokernels.records.limiter": "Limiter",
    "adokernels.records.kernels": "Kernel Resources",
    "adokernels.model.ladder": "Ladder Variant",
    "adokernels.model.routine": "Routine",
    "adokernels.model.source": "Source",
    "adokernels.model.source_diff": "Diff",
    "adokernels.records.sass": "KernelSass Sass",
    "adokernels.records.checked": "Checked",
    "adokernels.measuring.checking": "check",
    "adokernels.measuring.hotspots": "hotspots",
    "adokernels.records.loading": "load",
    "adokernels.measuring.machine": "machine",
    "adokernels.records.inputs": "Inputs",
    "adokernels.measuring.profiling": "profile",
    "adokernels.measuring.protocol": "measure sweep",
    "adokernels.records.machine": "Ceiling Machine",
    "adokernels.records.measurement": "Measurement",
    "adokernels.records.sweep": "Sweep",
    "adokernels.measuring.scanning": "scan",
    "adokernels.records.scan": "Scan",
    "adokernels.records.statistics": "Comparison Verdict",
    "adokernels.measuring.tuning": "Setting Tuning tune",
    "adokernels.patterns.banks": "BankConflicts bank_conflicts",
    "adokernels.patterns.divergence": "Divergence divergence",
    "adokernels.patterns.sectors": "Sectors sectors",
    "adokernels.report.page": "write_report",
    "adokernels.streaming.stream": "stream",
    "adokernels.model.tasks.gpp": "GppProblem gpp_problem",
}
#: Names that are not public, but that methods of a lower package use: those of records that explain
#: or show the record, and those of ladders that measure or know arrays of other libraries.
_USED_FROM_BELOW = {
    "lazy_call": "adokernels.dask_arrays.calls",
    "tables_of": "adokernels.tables",
    "to_html": "adokernels.tables.rendering",
    "to_text": "adokernels.tables.rendering",
}


#: Routines of the core that are not public: other modules use them for part of a computation.
_PARTS = {"gpp_tiles"}


def computing_routines() -> list[str]:
    """Names of the core's routines, except parts and those with only ceilings."""
    computing = (r for r in _core.routines() if not all(v.ceiling for v in r.variants))
    return [r.name for r in computing if r.name not in _PARTS]


#: The module of each name that users import.
PUBLIC = {
    **dict.fromkeys([*computing_routines(), "routines"], "adokernels.model.registry"),
    **{name: module for module, names in _DEFINED_IN.items() for name in names.split()},
}


#: Former names of public names.
FORMER = {"Problem": "Inputs"}

#: Packages that ``ado.NAME`` imports.
SUBPACKAGES = ("distributed",)


def find(name: str) -> Any:
    """Import the object with this name."""
    return getattr(importlib.import_module((PUBLIC | _USED_FROM_BELOW)[name]), name)
