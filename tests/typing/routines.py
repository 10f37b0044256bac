"""Types of calls, which mypy checks; nothing here runs.

An unnecessary ``type: ignore`` is an error, so each of them proves that mypy rejects the line.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type

import adokernels as ado

U8 = NDArray[np.uint8]
F4 = NDArray[np.float32]
F8 = NDArray[np.float64]
C16 = NDArray[np.complex128]


class OtherArray:
    """An array of another library on a device, as CuPy and torch have them."""

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The CUDA array interface."""
        return {}


class JaxArray:
    """An array of a library that has DLPack only."""

    def __dlpack__(self) -> Any:
        """Return a capsule."""

    def to_device(self, device: Any, *, stream: Any = None) -> JaxArray:
        """Return a copy."""
        return self


def numpy_arrays(gray: U8, single: F4, double: F8, complex_: C16, index: NDArray[np.int32]) -> None:
    """NumPy arrays give NumPy arrays of a known element type."""
    assert_type(ado.grayscale(gray), U8)
    assert_type(ado.gaussian_blur(gray, border="replicate", taps=(1,) * 7, batch=True), U8)
    assert_type(ado.sobel(gray, device="cuda:1", variant="naive", block=(32, 8)), U8)
    assert_type(ado.edge_detect(gray), U8)
    assert_type(ado.transpose(single), F4)
    assert_type(ado.transpose(complex_), C16)
    assert_type(ado.max_plus(single, single), F4)
    assert_type(ado.average_matvec(double, double), F8)
    assert_type(ado.gather(gray, index), U8)
    assert_type(ado.strided_copy(double, stride=3), F8)
    operands = complex_, complex_, complex_, complex_, double, double, double
    assert_type(ado.gpp(*operands, tol=1e-5), tuple[C16, C16])


def arrays_on_a_device(ours: ado.DeviceArray, theirs: OtherArray, jax: JaxArray) -> None:
    """Arrays on a device give a DeviceArray."""
    assert_type(ado.sobel(ours), ado.DeviceArray)
    assert_type(ado.sobel(theirs), ado.DeviceArray)
    assert_type(ado.transpose(jax), ado.DeviceArray)
    assert_type(
        ado.gpp(ours, ours, ours, ours, ours, ours, ours), tuple[ado.DeviceArray, ado.DeviceArray]
    )


def given_results(gray: U8, single: F4, theirs: OtherArray, double: F8, complex_: C16) -> None:
    """A call with ``out`` returns it."""
    assert_type(ado.sobel(gray, out=gray), U8)
    assert_type(ado.sobel(theirs, out=theirs), OtherArray)
    assert_type(ado.transpose(single, out=single, variant="simd"), F4)
    operands = complex_, complex_, complex_, complex_, double, double, double
    assert_type(ado.gpp(*operands, out=(complex_, complex_)), tuple[C16, C16])


def any_routine(name: str, gray: U8) -> None:
    """A routine that is not known by name returns Any."""
    result = ado.routines[name](gray, batch=True)
    assert_type(result, Any)


def rejected(gray: U8, single: F4, double: F8) -> None:
    """Wrong element types, options and names of variants."""
    ado.sobel(single)  # type: ignore[arg-type]
    ado.max_plus(single, double)  # type: ignore[type-var]
    ado.branch(gray)  # type: ignore[type-var]
    ado.sobel(gray, variant="lane")  # type: ignore[call-overload]
    ado.sobel(gray, batch="yes")  # type: ignore[call-overload]
    ado.sobel(gray, bacth=True)  # type: ignore[call-overload]
    ado.transpose([[1, 2]])  # type: ignore[call-overload]
    ado.transpose["tilde"]  # type: ignore[index]
