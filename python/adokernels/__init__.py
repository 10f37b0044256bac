"""Ladders of GPU and CPU kernels, with the tools to see why each step helps.

>>> import numpy as np
>>> import adokernels as ado
>>> ado.transpose(np.arange(6.0).reshape(2, 3))
array([[0., 3.],
       [1., 4.],
       [2., 5.]])

Every routine (``ado.routines``) is an object that holds a ladder of variants, from the naive port
to the speed of light: ``ado.transpose.variants``. ``ado.sweep`` checks and times them,
``ado.machine`` measures what the hardware can do, ``ado.roofline`` draws both.
"""

from __future__ import annotations

import os
from importlib.metadata import version

# libgomp's threads spin at the end of a loop until the last has come. By default for so long that,
# where another process has one of the cores, a call waits for whole time slices of the scheduler: a
# warm 256x256 float32 transpose took 18 ms then, 6 us with both cores free and 0.12 ms like this
# (Zen 5, 2 cores). libgomp reads the variable once, when the core loads it.
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
    synchronize,
    to_device,
)
from adokernels._gpp import GppProblem, gpp_problem  # noqa: E402
from adokernels._ladders import *  # noqa: E402, F403
from adokernels._ladders import __all__ as _names  # noqa: E402
from adokernels._machine import machine  # noqa: E402
from adokernels._measure import measure, sweep  # noqa: E402
from adokernels._pictures import read_image  # noqa: E402
from adokernels._records import (  # noqa: E402
    Ceiling,
    Kernel,
    Machine,
    Measurement,
    Resources,
    Sweep,
    load,
)
from adokernels._report import write_report  # noqa: E402
from adokernels._roofline import roofline  # noqa: E402
from adokernels._routine import Routine, Variant, suggest  # noqa: E402
from adokernels._stats import Verdict  # noqa: E402

if _ours:
    del os.environ["GOMP_SPINCOUNT"]

__version__ = version("adokernels")

__all__ = [  # noqa: PLE0604
    *_names,
    "Ceiling",
    "Cost",
    "CudaError",
    "DeviceArray",
    "GppProblem",
    "Kernel",
    "Machine",
    "Measurement",
    "Resources",
    "Routine",
    "Sweep",
    "Unavailable",
    "Variant",
    "Verdict",
    "gpp_problem",
    "load",
    "machine",
    "measure",
    "read_image",
    "roofline",
    "set_device",
    "set_isa",
    "sweep",
    "synchronize",
    "to_device",
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
