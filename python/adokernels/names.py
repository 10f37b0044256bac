"""The names of the package, and the modules that define them.

Names are imported at their first use. A method can therefore use a name of a package that imports
the method's own package: ``Scan.plot`` uses a chart. ``make generate`` writes ``__init__.pyi``,
which type checkers read, from these names.
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
    "adokernels.arrays.pictures": "read_image",
    "adokernels.charts.memory": "memory_chart",
    "adokernels.charts.roofline": "roofline",
    "adokernels.charts.speed_of_light": "speed_of_light",
    "adokernels.charts.steps": "steps",
    "adokernels.charts.warp_states": "warp_states",
    "adokernels.comparing": "Change Changes compare",
    "adokernels.counters.hotspots": "Hotspots",
    "adokernels.counters.records": "KernelProfile Profile",
    "adokernels.custom.compiler": "CompilationError",
    "adokernels.custom.cuda_source": "CudaVariant cuda_variant",
    "adokernels.custom.extended": "ExtendedRoutine",
    "adokernels.custom.functions": "FunctionVariant variant",
    "adokernels.custom.ladder": "Ladder ladder",
    "adokernels.diagnosis.card": "Card",
    "adokernels.diagnosis.cards": "cards",
    "adokernels.diagnosis.diagnosis": "Diagnosis diagnose",
    "adokernels.diagnosis.limiter": "Limiter limiter",
    "adokernels.ladders.choice": "Choice",
    "adokernels.ladders.resources": "Kernel Resources",
    "adokernels.ladders.routine": "Routine Variant",
    "adokernels.ladders.source": "Source",
    "adokernels.ladders.source_diff": "Diff",
    "adokernels.large.stream": "stream",
    "adokernels.machine_code.records": "KernelSass Sass",
    "adokernels.measuring.checked": "Checked",
    "adokernels.measuring.checking": "check",
    "adokernels.measuring.hotspots": "hotspots",
    "adokernels.measuring.loading": "load",
    "adokernels.measuring.machine": "machine",
    "adokernels.measuring.problem": "Problem",
    "adokernels.measuring.profiling": "profile",
    "adokernels.measuring.protocol": "measure sweep",
    "adokernels.measuring.records": "Ceiling Machine Measurement Sweep",
    "adokernels.measuring.scanning": "scan",
    "adokernels.measuring.scans": "Scan",
    "adokernels.measuring.statistics": "Comparison Verdict",
    "adokernels.measuring.tuning": "Setting Tuning tune",
    "adokernels.patterns.banks": "BankConflicts bank_conflicts",
    "adokernels.patterns.divergence": "Divergence divergence",
    "adokernels.patterns.sectors": "Sectors sectors",
    "adokernels.report.page": "write_report",
    "adokernels.tasks.gpp": "GppProblem gpp_problem",
}
#: Names that are not public, but that methods of a lower package use.
_USED_FROM_BELOW = {
    "ResultChecker": "adokernels.measuring.correctness",
    "draw_scan": "adokernels.charts.scans",
    "lazy_call": "adokernels.large.dask_arrays",
}


#: Routines of the core that are not public: other modules use them for part of a computation.
_PARTS = {"gpp_tiles"}


def computing_routines() -> list[str]:
    """Names of the core's routines, except parts and those with only ceilings."""
    computing = (r for r in _core.routines() if not all(v.ceiling for v in r.variants))
    return [r.name for r in computing if r.name not in _PARTS]


#: The module of each name that users import.
PUBLIC = {
    **dict.fromkeys([*computing_routines(), "routines"], "adokernels.ladders.registry"),
    **{name: module for module, names in _DEFINED_IN.items() for name in names.split()},
}


#: Modules that ``ado.NAME`` imports.
SUBPACKAGES = ("distributed",)


def find(name: str) -> Any:
    """Import the object with this name."""
    return getattr(importlib.import_module((PUBLIC | _USED_FROM_BELOW)[name]), name)
