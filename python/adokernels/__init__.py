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
from importlib.metadata import version

# libgomp's threads spin at the end of a loop until the last thread arrives. With the default spin
# count, a call waits for entire time slices of the scheduler if another process uses a core: a warm
# 256x256 float32 transpose then took 18 ms, with this setting 0.12 ms, and 6 us with both cores
# free (Zen 5, 2 cores). libgomp reads the variable once, when the extension module loads it.
_ours = "GOMP_SPINCOUNT" not in os.environ and "OMP_WAIT_POLICY" not in os.environ
if _ours:
    os.environ["GOMP_SPINCOUNT"] = "2000"

from adokernels._core import (  # noqa: E402
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
from adokernels.arrays.pictures import read_image  # noqa: E402
from adokernels.charts.memory import memory_chart  # noqa: E402
from adokernels.charts.roofline import roofline  # noqa: E402
from adokernels.charts.speed_of_light import speed_of_light  # noqa: E402
from adokernels.charts.warp_states import warp_states  # noqa: E402
from adokernels.counters.hotspots import Hotspots  # noqa: E402
from adokernels.counters.records import KernelProfile, Profile  # noqa: E402
from adokernels.diagnosis.diagnosis import Diagnosis, diagnose  # noqa: E402
from adokernels.diagnosis.limiter import Limiter, limiter  # noqa: E402
from adokernels.ladders.choice import Choice  # noqa: E402
from adokernels.ladders.registry import *  # noqa: E402, F403
from adokernels.ladders.registry import __all__ as _names  # noqa: E402
from adokernels.ladders.resources import Kernel, Resources  # noqa: E402
from adokernels.ladders.routine import Routine, Variant  # noqa: E402
from adokernels.ladders.source import Diff, Source  # noqa: E402
from adokernels.measuring.hotspots import hotspots  # noqa: E402
from adokernels.measuring.loading import load  # noqa: E402
from adokernels.measuring.machine import machine  # noqa: E402
from adokernels.measuring.problem import Problem  # noqa: E402
from adokernels.measuring.profiling import profile  # noqa: E402
from adokernels.measuring.protocol import measure, sweep  # noqa: E402
from adokernels.measuring.records import Ceiling, Machine, Measurement, Sweep  # noqa: E402
from adokernels.measuring.statistics import Verdict  # noqa: E402
from adokernels.report.page import write_report  # noqa: E402
from adokernels.tasks.gpp import GppProblem, gpp_problem  # noqa: E402

if _ours:
    del os.environ["GOMP_SPINCOUNT"]

__version__ = version("adokernels")

__all__ = [  # noqa: PLE0604
    *_names,
    "Ceiling",
    "Choice",
    "Cost",
    "CudaError",
    "DeviceArray",
    "Diagnosis",
    "Diff",
    "GppProblem",
    "Hotspots",
    "Kernel",
    "KernelProfile",
    "Limiter",
    "Machine",
    "Measurement",
    "Problem",
    "Profile",
    "Resources",
    "Routine",
    "Source",
    "Sweep",
    "Unavailable",
    "Variant",
    "Verdict",
    "diagnose",
    "gpp_problem",
    "hotspots",
    "limiter",
    "load",
    "machine",
    "measure",
    "memory_chart",
    "profile",
    "read_image",
    "roofline",
    "set_device",
    "set_isa",
    "speed_of_light",
    "sweep",
    "synchronize",
    "to_device",
    "warp_states",
    "write_report",
]

for _variable, _set in (("ADOKERNELS_ISA", set_isa), ("ADOKERNELS_DEVICE", set_device)):
    if _value := os.environ.get(_variable):
        try:
            _set(_value)
        except (ValueError, Unavailable) as _error:
            raise type(_error)(f"{_variable}={_value}: {_error}") from None


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    raise AttributeError(f"adokernels has no {name!r}{suggest(name, list(__all__))}")
