"""Random operands for any routine, made from what it says of its own shapes and types."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike, NDArray

    from adokernels._routine import Routine


def random_operands(
    routine: Routine, lengths: Sequence[int], dtype: DTypeLike | None = None
) -> tuple[NDArray[Any], ...]:
    """Operands of `routine` with random bytes.

    Parameters
    ----------
    routine
        For example ``ado.transpose``.
    lengths
        One for each name in the shapes of its operands, in their order: ``(rows, cols)``. More in
        front are batch dimensions, where the routine takes them.
    dtype
        Of operands whose type is open; default float32.

    Raises
    ------
    ValueError
        If the number of lengths does not fit, or one is negative.
    TypeError
        If the routine takes only another type.
    """
    shapes = {
        p.name: (p.shape.strip("(,)").split(", "), p.elements)
        for p in routine._core.parameters
        if p.role == "input"
    }
    names = list(
        dict.fromkeys(w for words, _ in shapes.values() for w in words if w.isidentifier())
    )
    batched = any("..." in words for words, _ in shapes.values())
    extra = len(lengths) - len(names)
    if extra < 0 or (extra > 0 and not batched) or min(lengths, default=0) < 0:
        raise ValueError(
            f"{routine.name} takes the lengths {' x '.join(names)}"
            f"{', after those of a batch' if batched else ''}, got {' x '.join(map(str, lengths))}"
        )
    values = dict(zip(names, lengths[extra:], strict=True))
    return tuple(
        random_array(
            [n for word in of_one for n in _lengths_of(word, values, lengths[:extra])],
            _type_of(routine, name, elements, dtype),
        )
        for name, (of_one, elements) in shapes.items()
    )


def _lengths_of(word: str, values: dict[str, int], batch: Sequence[int]) -> Sequence[int]:
    if word == "...":
        return batch
    return [values[word] if word in values else int(word.split("|")[-1])]


def _type_of(
    routine: Routine, operand: str, elements: str, wanted: DTypeLike | None
) -> np.dtype[Any]:
    try:
        fixed = np.dtype(elements)
    except TypeError:  # a description
        return np.dtype("float32" if wanted is None else wanted)
    if wanted is not None and np.dtype(wanted) != fixed:
        raise TypeError(f"{routine.name}: {operand} is {fixed}, not {np.dtype(wanted)}")
    return fixed


def random_array(shape: Sequence[int], dtype: DTypeLike) -> NDArray[Any]:
    """Random bytes of any type: zeros would run faster than real data on some machines."""
    dtype = np.dtype(dtype)
    if dtype.hasobject or dtype.itemsize == 0:
        raise TypeError(f"no random data of type {dtype}")
    size = math.prod(shape) * dtype.itemsize
    return np.random.default_rng().integers(0, 256, size, np.uint8).view(dtype).reshape(shape)
