"""Ladders of GPU and CPU kernels, with the tools to see why each step helps.

>>> import numpy as np
>>> import adokernels as ado
>>> ado.transpose(np.arange(6.0).reshape(2, 3))
array([[0., 3.],
       [1., 4.],
       [2., 5.]])

Every routine (``ado.routines``) holds a ladder of variants, from the naive version to the hardware
limit: ``ado.transpose.variants``. ``ado.sweep`` checks and times them, ``ado.machine`` measures the
ceilings of the hardware, and ``ado.roofline`` draws both.
"""

from __future__ import annotations

import os
from importlib import import_module
from importlib.metadata import version

# NumPy refuses to be imported in a second interpreter of the process. With Python 3.11, the core
# would hang there.
import numpy  # noqa: F401

from adokernels import _core
from adokernels._core import (
    Cost,
    CudaError,
    DeviceArray,
    Unavailable,
    set_device,
    set_isa,
    suggest,
    synchronize,
    to_device,
)
from adokernels.arrays.pictures import read_image
from adokernels.charts import scans as _scans  # noqa: F401, draws a Scan
from adokernels.charts.memory import memory_chart
from adokernels.charts.roofline import roofline
from adokernels.charts.speed_of_light import speed_of_light
from adokernels.charts.steps import steps
from adokernels.charts.warp_states import warp_states
from adokernels.comparing import Change, Changes, compare
from adokernels.counters.hotspots import Hotspots
from adokernels.counters.records import KernelProfile, Profile
from adokernels.custom.compiler import CompilationError
from adokernels.custom.cuda_source import CudaVariant, cuda_variant
from adokernels.custom.extended import ExtendedRoutine
from adokernels.custom.functions import FunctionVariant, variant
from adokernels.custom.ladder import Ladder, ladder
from adokernels.diagnosis.card import Card
from adokernels.diagnosis.cards import cards
from adokernels.diagnosis.diagnosis import Diagnosis, diagnose
from adokernels.diagnosis.limiter import Limiter, limiter
from adokernels.ladders.choice import Choice
from adokernels.ladders.registry import *  # noqa: F403
from adokernels.ladders.registry import __all__ as _names
from adokernels.ladders.resources import Kernel, Resources
from adokernels.ladders.routine import Routine, Variant
from adokernels.ladders.source import Diff, Source
from adokernels.machine_code.records import KernelSass, Sass
from adokernels.measuring.checked import Checked
from adokernels.measuring.checking import check
from adokernels.measuring.hotspots import hotspots
from adokernels.measuring.loading import load
from adokernels.measuring.machine import machine
from adokernels.measuring.problem import Problem
from adokernels.measuring.profiling import profile
from adokernels.measuring.protocol import measure, sweep
from adokernels.measuring.records import Ceiling, Machine, Measurement, Sweep
from adokernels.measuring.scanning import scan
from adokernels.measuring.scans import Scan
from adokernels.measuring.statistics import Comparison, Verdict
from adokernels.measuring.tuning import Setting, Tuning, tune
from adokernels.patterns.banks import BankConflicts, bank_conflicts
from adokernels.patterns.divergence import Divergence, divergence
from adokernels.patterns.sectors import Sectors, sectors
from adokernels.report.page import write_report
from adokernels.tasks.gpp import GppProblem, gpp_problem

__version__ = version("adokernels")

__all__ = [  # noqa: PLE0604
    *_names,
    "BankConflicts",
    "Card",
    "Ceiling",
    "Change",
    "Changes",
    "Checked",
    "Choice",
    "Comparison",
    "CompilationError",
    "Cost",
    "CudaError",
    "CudaVariant",
    "DeviceArray",
    "Diagnosis",
    "Diff",
    "Divergence",
    "ExtendedRoutine",
    "FunctionVariant",
    "GppProblem",
    "Hotspots",
    "Kernel",
    "KernelProfile",
    "KernelSass",
    "Ladder",
    "Limiter",
    "Machine",
    "Measurement",
    "Problem",
    "Profile",
    "Resources",
    "Routine",
    "Scan",
    "Sectors",
    "Sass",
    "Setting",
    "Source",
    "Sweep",
    "Tuning",
    "Unavailable",
    "Variant",
    "Verdict",
    "bank_conflicts",
    "cards",
    "check",
    "compare",
    "cuda_variant",
    "diagnose",
    "divergence",
    "gpp_problem",
    "hotspots",
    "ladder",
    "limiter",
    "load",
    "machine",
    "measure",
    "memory_chart",
    "profile",
    "read_image",
    "roofline",
    "scan",
    "sectors",
    "set_device",
    "set_isa",
    "speed_of_light",
    "steps",
    "sweep",
    "synchronize",
    "to_device",
    "tune",
    "variant",
    "warp_states",
    "write_report",
]

for _variable, _set in (
    ("ADOKERNELS_ISA", set_isa),
    ("ADOKERNELS_DEVICE", set_device),
    ("ADOKERNELS_NUM_THREADS", lambda text: _core.set_max_threads(int(text))),
):
    if _value := os.environ.get(_variable):
        try:
            _set(_value)
        except (ValueError, Unavailable) as _error:
            raise type(_error)(f"{_variable}={_value}: {_error}") from None


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    if name == "distributed":  # imported on first use
        return import_module("adokernels.distributed")
    raise AttributeError(f"adokernels has no {name!r}{suggest(name, list(__all__))}")
