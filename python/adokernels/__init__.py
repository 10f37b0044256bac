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

import importlib
import os
import sys

# NumPy refuses to be imported in a second interpreter of the process. With Python 3.11, the core
# would hang there.
import numpy  # noqa: F401

from adokernels import _core
from adokernels import wiring as _wiring  # noqa: F401
from adokernels.names import PUBLIC, SUBPACKAGES, find

__all__ = list(PUBLIC)


def _set_threads(text: str) -> None:
    if not text.removeprefix("-").isdecimal():
        raise ValueError(f"the number of threads must be an integer, got {text!r}")
    _core.set_max_threads(int(text))


for _variable, _set in (
    ("ADOKERNELS_ISA", _core.set_isa),
    ("ADOKERNELS_DEVICE", _core.set_device),
    ("ADOKERNELS_NUM_THREADS", _set_threads),
):
    if _value := os.environ.get(_variable):
        try:
            _set(_value)
        except (ValueError, _core.Unavailable) as _error:
            _text = f"{_variable}={_value}: {_error}"
            if [os.path.basename(_path) for _path in sys.argv[:1]] == ["adokernels"]:  # the program
                print(f"adokernels: {_text}", file=sys.stderr)
                raise SystemExit(2 if isinstance(_error, ValueError) else 3) from None
            raise type(_error)(_text) from None


def __dir__() -> list[str]:
    return sorted(__all__)


def __getattr__(name: str) -> object:
    """Import a name at its first use, so that ``import adokernels`` takes as long as NumPy's."""
    if name in PUBLIC:
        value = find(name)
    elif name in SUBPACKAGES:
        value = importlib.import_module(f"adokernels.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        value = version("adokernels")
    else:
        raise AttributeError(f"adokernels has no {name!r}{_core.suggest(name, __all__)}")
    globals()[name] = value  # later uses do not call this function
    return value
