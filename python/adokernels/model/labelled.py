"""Calls with labelled arrays: xarray.DataArray, and the frames and series of pandas.

The shapes that a routine declares name the axes of its operands and results, so a result has the
labels of the axes with the same names.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from adokernels import _core

#: The name of an axis, and its labels or None.
Axis = tuple[Any, Any]


def _library_of(value: Any) -> str:
    """The library of a labelled array, or an empty string."""
    classes = {"xarray": ("DataArray",), "pandas": ("DataFrame", "Series")}
    for library, names in classes.items():
        module = sys.modules.get(library)
        if module and isinstance(value, tuple(getattr(module, name) for name in names)):
            return library
    return ""


def call_with_labels(routine: Any, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """Call a routine with the data of labelled operands, and label its results.

    Data in Dask arrays stay lazy. Results in device memory, and in `out`, are returned as they are.
    """
    shapes = {p.name: p.shape for p in routine.parameters if p.role == "input"}
    given = [*zip([*shapes, *[""] * len(args)], args, strict=False)]
    operands = {n: v for n, v in (*given, *keywords.items()) if n in shapes and _library_of(v)}
    axes: dict[str, Axis] = {}
    batch: list[Axis] = []
    for name, value in operands.items():
        words, labels = _words(shapes[name]), _axes_of(value)
        for word, axis in zip(reversed(words), reversed(labels), strict=False):
            axes.setdefault(word, axis)
        batch = batch or labels[: max(len(labels) - len(words), 0)]
    named = {name: _data(routine, name, value) for name, value in keywords.items()}
    found = routine(*(_data(routine, *each) for each in given), **named)
    if not operands or named.get("out") is not None:
        return found
    first = next(iter(operands.values()))
    outputs = [p.shape for p in routine.parameters if p.role == "output"]
    results = found if isinstance(found, tuple) else (found,)
    labelled = tuple(
        _labelled(result, [*batch, *(axes.get(w, (w, None)) for w in _words(shape))], first)
        for result, shape in zip(results, outputs, strict=True)
    )
    return labelled if isinstance(found, tuple) else labelled[0]


def _data(routine: Any, name: str, value: Any) -> Any:
    """The data of a labelled array; other values in a form that the core accepts."""
    if library := _library_of(value):
        data = value.data if library == "xarray" else value.to_numpy()
        if data.dtype == object:
            kinds = ", ".join(sorted({str(kind) for kind in np.ravel(value.dtypes)}))
            raise TypeError(f"{routine.name}: {name} must have one numeric type, got {kinds}")
        return data
    # The core calls this module for classes of other libraries with the same names.
    if type(value).__name__ not in ("DataArray", "DataFrame", "Series"):
        return value
    if memory := getattr(value, "__cuda_array_interface__", None):
        return SimpleNamespace(__cuda_array_interface__=memory, owner=value)
    return np.asarray(value)


def _words(shape: str) -> list[str]:
    """The names in a declared shape: ``"(..., rows, cols)"``."""
    return re.findall(r"[\w|]+", shape)


def _axes_of(value: Any) -> list[Axis]:
    if hasattr(value, "dims"):
        coords = value.coords
        # The method `get` would return numbers for axes without labels.
        return [(dim, coords[dim] if dim in set(coords) else None) for dim in value.dims]
    return [(None, labels) for labels in value.axes]


def _labelled(result: Any, axes: Sequence[Axis], like: Any) -> Any:
    """A result with the labels of its axes, as a container of the library of an operand."""
    library = _library_of(like)
    module = sys.modules[library]
    if isinstance(result, _core.DeviceArray) or (library == "pandas" and result.ndim > 2):
        return result
    known = [
        None if labels is None or len(labels) != length else labels
        for (_, labels), length in zip(axes, result.shape, strict=True)
    ]
    if library == "xarray":
        dims = [str(dim) for dim, _ in axes]
        coords = {dim: each for dim, each in zip(dims, known, strict=True) if each is not None}
        return module.DataArray(result, dims=dims, coords=coords).rename(like.name)
    make = module.DataFrame if result.ndim == 2 else module.Series
    return make(result, **dict(zip(("index", "columns"), known, strict=False)))
