"""The names of the package, and the modules that define them.

Names are imported at their first use. ``make generate`` writes ``__init__.pyi``, which type
checkers read, from these names.
"""

from __future__ import annotations

import importlib
from typing import Any

from adokernels import _core

#: Functions, routines' bases, arrays and errors: ``ado.NAME``.
_DEFINED_IN = {
    "adokernels._core": "CudaError DeviceArray KernelError Unavailable empty_pinned synchronize "
    "to_device",
    "adokernels.process": "settings",
    "adokernels.pictures": "read_image",
    "adokernels.charts.accuracy": "accuracy",
    "adokernels.charts.counters": "speed_of_light warp_states",
    "adokernels.charts.memory": "memory_chart",
    "adokernels.charts.picture": "plot",
    "adokernels.charts.roofline": "roofline",
    "adokernels.charts.steps": "steps",
    "adokernels.diagnosis.cards": "cards",
    "adokernels.diagnosis.diagnosis": "diagnose",
    "adokernels.kernels.captured": "load",
    "adokernels.kernels.emulated": "emulated",
    "adokernels.measuring.capturing": "capture",
    "adokernels.measuring.checking": "check",
    "adokernels.measuring.comparing": "compare",
    "adokernels.measuring.heatmap": "heatmap",
    "adokernels.measuring.hotspots": "hotspots",
    "adokernels.measuring.machine": "machine",
    "adokernels.measuring.ncu_import": "import_ncu",
    "adokernels.measuring.profiling": "profile",
    "adokernels.measuring.protocol": "measure sweep tune",
    "adokernels.measuring.sass": "sass",
    "adokernels.measuring.scanning": "scan",
    "adokernels.model.compiler": "CompilationError",
    "adokernels.model.cuda_variant": "cuda_variant",
    "adokernels.model.own_variant": "variant",
    "adokernels.model.ladder": "Ladder Variant",
    "adokernels.model.own_ladder": "ladder",
    "adokernels.model.routine": "Routine",
    "adokernels.model.tasks.gpp": "gpp_operands",
    "adokernels.patterns.banks": "bank_conflicts",
    "adokernels.patterns.divergence": "divergence",
    "adokernels.patterns.sectors": "sectors",
    "adokernels.report.page": "write_report",
    "adokernels.large.stream": "out_of_core",
    "adokernels.whatif.what_if": "what_if",
}
#: Classes of results: ``ado.records.NAME``.
_RETURNED = {
    "adokernels._core": "Cost",
    "adokernels.diagnosis.cards": "Card",
    "adokernels.diagnosis.diagnosis": "Diagnosis",
    "adokernels.kernels.captured": "CapturedLaunch Launches",
    "adokernels.model.problem": "Choice",
    "adokernels.model.source": "Source Diff",
    "adokernels.model.tasks.gpp": "GppOperands",
    "adokernels.patterns.banks": "BankConflicts",
    "adokernels.patterns.divergence": "Divergence",
    "adokernels.patterns.sectors": "Sectors",
    "adokernels.records.changes": "ComparedVariant SweepComparison",
    "adokernels.records.checked": "CheckResult",
    "adokernels.records.counted": "CountedSweep CountedVariant",
    "adokernels.records.experiments": "Experiments",
    "adokernels.records.heatmap": "Heatmap",
    "adokernels.records.hotspots": "Hotspots",
    "adokernels.records.inputs": "Inputs",
    "adokernels.records.kernels": "Kernel Resources",
    "adokernels.records.limiter": "Limiter",
    "adokernels.records.machine": "Ceiling Machine",
    "adokernels.records.measurement": "Measurement",
    "adokernels.records.profile": "KernelProfile Profile",
    "adokernels.records.sass": "KernelSass Sass",
    "adokernels.records.scan": "BreakEven Offload Scan",
    "adokernels.records.statistics": "Comparison Verdict",
    "adokernels.records.sweep": "Sweep",
    "adokernels.records.tuning": "Setting Tuning",
    "adokernels.records.what_if": "Trial WhatIf",
}


def computing_routines() -> list[str]:
    """Names of the core's routines, except ladders of ceilings, and the tiles of ``gpp``."""
    computing = (r for r in _core.routines() if not all(v.ceiling for v in r.variants))
    return [r.name for r in computing if r.name != "gpp_tiles"]


def _modules_of(defined: dict[str, str]) -> dict[str, str]:
    return {name: module for module, names in defined.items() for name in names.split()}


#: The module of each name that users import: of ``ado.NAME``, and of ``ado.records.NAME``.
PUBLIC = {
    **dict.fromkeys([*computing_routines(), "routines"], "adokernels.model.registry"),
    **_modules_of(_DEFINED_IN),
}
RECORDS = _modules_of(_RETURNED)
#: Packages that ``ado.NAME`` imports.
SUBPACKAGES = ("distributed", "puzzles", "records")


def find(name: str) -> Any:
    """Import the object with this name."""
    return getattr(importlib.import_module((PUBLIC | RECORDS)[name]), name)
