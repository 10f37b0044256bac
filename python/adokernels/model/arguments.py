"""Converts arguments of kernels in CUDA C++ source to the types of the parameters."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: NumPy's types for the fundamental types of C++, by their demangled names.
_SCALARS = {
    **{"bool": "?", "char": "i1", "signed char": "i1", "unsigned char": "u1", "char8_t": "u1"},
    **{"short": "i2", "unsigned short": "u2", "char16_t": "u2", "__half": "f2"},
    **{"int": "i4", "unsigned int": "u4", "wchar_t": "i4", "char32_t": "u4", "float": "f4"},
    **{"long": "i8", "unsigned long": "u8", "long long": "i8", "unsigned long long": "u8"},
    **{"double": "f8"},
}
_BFLOAT16 = "__nv_bfloat16"
#: Types of numbers that are passed by value: bfloat16 is rounded from float32.
_BY_VALUE = {_BFLOAT16: "f4", "float2": "c8", "double2": "c16"}
#: CUDA's vector types, for example uchar4.
_VECTOR = re.compile(r"(u?)(char|short|int|longlong|long|float|double|__half)([1-4])(_\d+a)?")
_COMPLEX = re.compile(r"(?:[\w:]+::)?complex<(float|double)>")


class ArgumentError(TypeError, ValueError):
    """Error for an argument that a kernel's parameter cannot receive."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: its size, the size of what it points to, and its C++ type.

    `pointee_bytes` is 0 if it is unknown.
    """

    bytes: int
    pointee_bytes: int
    type: str

    @property
    def pointee(self) -> str | None:
        """The type to which it points, without qualifiers; None if it is not a pointer."""
        found = re.fullmatch(
            r"(.*?)(?: const| volatile)*(?:\*| ?\(\*\) ?(\[.*\]|\(.*\)))", self.type
        )
        return found and found[1]

    @property
    def words(self) -> str:
        """The type as a programmer writes it: ``"const float*"``."""
        qualified = re.sub(r"^([^*]*?)((?: const| volatile)+)(?=[* ])", r"\2 \1", self.type)
        return re.sub(r"\bunsigned int\b", "unsigned", qualified.strip())


def parameters_in(name: str) -> tuple[Parameter, ...]:
    """The parameters in the demangled name of the variable of ``adokernels_parameters.h``."""
    space = r"adokernels_parameters::"
    found = re.findall(rf"{space}One<(\d+)ul, (\d+)ul, (.*?), [\w:]*?{space}End>", name)
    return tuple(Parameter(int(size), int(pointee), kind) for size, pointee, kind in found)


def packed(
    who: str, number: int, value: Any, parameter: Parameter, *, is_result: bool = False
) -> bytes:
    """The bytes of an argument for the parameter with this number, from 1.

    Arrays become their addresses. Numbers are converted if NumPy's rule 'same_kind' permits it.
    Integers are converted to other types of integers if the value fits. ArgumentError is raised if
    the argument does not fit the parameter.
    """
    place = f"the kernel's parameter {number} is {parameter.words}"
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    for name in ("__cuda_array_interface__", "__array_interface__"):
        if hasattr(value, name) and not isinstance(value, np.generic):
            facts = getattr(value, name)
            dtype = getattr(value, "dtype", None)
            dtype = dtype if isinstance(dtype, np.dtype) else np.dtype(facts["typestr"])
            if objection := _objection(who, dtype, parameter, is_result):
                raise ArgumentError(
                    f"{who} must match the kernel's parameter {number}, {parameter.words}, got an "
                    f"array of {dtype}{objection}"
                )
            return struct.pack("<Q", facts["data"][0])
    kind, got = parameter.type, f"got {type(value).__name__} {value!r}"
    if parameter.pointee is not None:
        if isinstance(value, np.uint64) or (type(value) is int and value == 0):
            return struct.pack("<Q", int(value))  # an address
        raise ArgumentError(f"{who} must be an array, {got}; {place}")
    dtype = np.dtype(_BY_VALUE[kind]) if kind in _BY_VALUE else _dtype_of(kind)
    if dtype is not None and isinstance(value, bool | int | float | complex | np.generic):
        converted = _converted(who, place, value, dtype)
        if kind == _BFLOAT16:
            bits = int(converted.view(np.uint32))
            return struct.pack("<H", bits + 0x7FFF + (bits >> 16 & 1) >> 16 & 0xFFFF)
        return converted.tobytes()
    if isinstance(value, np.generic) and value.nbytes == parameter.bytes and value.dtype.isnative:
        return value.tobytes()
    what = "a number" if dtype is not None else f"a NumPy scalar of {parameter.bytes} bytes"
    raise ArgumentError(f"{who} must be {what}, {got}; {place}")


def _dtype_of(kind: str) -> np.dtype[Any] | None:
    """NumPy's type of a number: a fundamental type, or a complex number."""
    if found := _COMPLEX.fullmatch(kind):
        return np.dtype("c8" if "float" in found[0] else "c16")
    return np.dtype(_SCALARS[kind]) if kind in _SCALARS else None


def _converted(who: str, place: str, value: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """A number, converted to a type."""
    given = value.dtype if isinstance(value, np.generic) else np.min_scalar_type(value)
    if given.kind == "O":  # a large integer
        given = np.dtype(np.int64)
    if given.kind in "biu" and dtype.kind in "biu":
        low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if not low <= int(value) <= high:
            raise ArgumentError(f"{who} must be from {low} to {high}, got {value}; {place}")
        return np.array(int(value), dtype)
    if given.kind not in "biufc" or not np.can_cast(given, dtype, "same_kind"):
        raise ArgumentError(
            f"{who} must be convertible by NumPy's rule 'same_kind', got {type(value).__name__} "
            f"{value!r}; {place}"
        )
    try:
        with np.errstate(over="ignore"):
            converted = np.array(value).astype(dtype)
    except OverflowError:
        converted = np.array(np.inf, dtype)
    if np.isinf(converted) and not (given.kind in "fc" and np.isinf(value)):
        raise ArgumentError(f"{who} must fit in {dtype}, got {value}; {place}")
    return converted


def _objection(who: str, dtype: np.dtype[Any], parameter: Parameter, is_result: bool) -> str:
    """Why a parameter cannot be the address of elements of a type; empty if it can."""
    kind, size = parameter.pointee, parameter.pointee_bytes
    if kind is None:
        return ": the parameter is not a pointer"
    if not dtype.isnative:
        return ": its bytes must have the order of this machine"
    wanted, in_vector = _dtype_of(kind), False
    if found := _VECTOR.fullmatch(kind):
        name = {"longlong": "long long"}.get(found[2], found[2])
        wanted, in_vector = np.dtype(_SCALARS[f"unsigned {name}" if found[1] else name]), True
    if kind.startswith(_BFLOAT16) or kind.endswith("*"):
        fits = dtype.kind in "iuV" and size % dtype.itemsize == 0
        if not fits:
            return "; pass integers of this size, which hold the bits"
    elif wanted is None:  # void, an incomplete type, or a structure
        whole = dtype.itemsize == size if dtype.kind in "VSU" else size % dtype.itemsize == 0
        fits = size == 0 or kind == "void" or whole
        if not fits:
            return f": its elements have {dtype.itemsize} bytes, not {size}"
    elif in_vector and wanted.kind in "iu":  # kernels copy any data in vectors of integers
        fits = True
    elif in_vector and wanted == np.float16 and dtype.kind in "iu":  # which hold the bits
        fits = dtype.itemsize == size
    else:
        fits = all(_exchangeable(leaf, wanted, in_vector) for leaf in _leaves(dtype))
    if fits or wanted is None:
        return ""
    if is_result:
        return f"; let the reference return {wanted}, or pass dtype=np.{wanted} to ado.ladder"
    if dtype.kind == "c" and wanted.kind != "c":
        return f"; pass {who}.view(np.{wanted}) for pairs of real and imaginary parts"
    return f"; pass {who}.astype(np.{wanted})"


def _leaves(dtype: np.dtype[Any]) -> set[np.dtype[Any]]:
    """The types of the numbers in an element."""
    if dtype.subdtype:
        return _leaves(dtype.base)
    if dtype.names:
        return set().union(*(_leaves(dtype[name]) for name in dtype.names))
    return {dtype}


def _exchangeable(given: np.dtype[Any], wanted: np.dtype[Any], in_vector: bool) -> bool:
    """Whether a kernel can read numbers of one type as another: the sign of integers may differ."""
    if wanted.kind in "biu":
        kinds = "biumMSV" if wanted.itemsize == 1 else "biumMV"
        size = 1 if given.kind in "SV" and wanted.itemsize == 1 else given.itemsize
        return given.kind in kinds and size == wanted.itemsize
    return given == wanted or (in_vector and given == np.result_type(wanted, np.complex64))
