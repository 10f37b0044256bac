"""Divergence: the branches that the lanes of a warp take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from rich.table import Table

from adokernels.patterns.accesses import by_warp, quantities_table, share
from adokernels.records.metrics import WARP
from adokernels.records.shown import Plotted, ShownAsTables
from adokernels.text import count

#: Maximum number of branches: each needs an array with the size of the mask.
_MOST_BRANCHES = 64


@dataclass(frozen=True, eq=False, repr=False)
class Divergence(ShownAsTables, Plotted):
    """How warps execute branches; made by :func:`divergence`.

    Attributes
    ----------
    branches
        The names of the branches.
    lanes
        Which lanes take each branch. Shape: (branches, warps, 32).
    """

    branches: tuple[str, ...]
    lanes: NDArray[np.bool_]

    @property
    def warps(self) -> int:
        """Number of warps with active lanes."""
        return int(self.lanes.shape[1])

    @property
    def active_lanes(self) -> dict[str, float]:
        """Active lanes per warp that executes a branch, for each branch."""
        counts = self.lanes.sum(axis=2)
        return {
            name: int(of.sum()) / np.count_nonzero(of)
            for name, of in zip(self.branches, counts, strict=True)
        }

    @property
    def passes(self) -> int:
        """How often a warp executes a branch, over all warps; `warps` without divergence."""
        return int(self.lanes.any(axis=2).sum())

    @property
    def divergent_warps(self) -> int:
        """Number of warps that execute more than one branch."""
        return int((self.lanes.any(axis=2).sum(axis=0) > 1).sum())

    @property
    def lane_efficiency(self) -> float:
        """Fraction of the lanes that are active, over all passes."""
        return int(self.lanes.sum()) / (WARP * self.passes)

    def _tables(self) -> list[Table]:
        lanes = self.active_lanes.items()
        rows = {f"active lanes in branch {name}": f"{count(of)} of {WARP}" for name, of in lanes}
        rows |= {
            "warps": count(self.warps),
            "warps that diverge": count(self.divergent_warps),
            "passes": count(self.passes),
            "passes per warp": count(self.passes / self.warps),
            "lane efficiency": share(self.lane_efficiency),
        }
        return [quantities_table("Divergence", rows)]


def divergence(mask: ArrayLike, *, active: ArrayLike | None = None) -> Divergence:
    """Count the passes in which warps execute a branch.

    The lanes of a warp share an instruction. If they take different branches, the warp executes one
    branch after the other. In each pass, the lanes of the other branches are masked.

    Parameters
    ----------
    mask
        The condition of each lane, or the number or name of the branch that it takes. In an array
        of one dimension, every 32 consecutive lanes are a warp. In an array of two dimensions, each
        row of up to 32 lanes is a warp.
    active
        Which lanes are active before the branch; by default all. Has the shape of `mask`.

    Raises
    ------
    ValueError, TypeError
        If an argument has a wrong shape, type or value.

    Notes
    -----
    The passes cost the same only if the branches have equal lengths. The counter ``lanes`` in
    ``ado.profile`` is a mean over all instructions, including those before and after the branches.

    Examples
    --------
    >>> lane = np.arange(32)
    >>> ado.divergence(lane % 2 == 0).passes, ado.divergence(lane < 32).passes
    (2, 1)
    """
    array = np.asarray(mask)
    if array.size == 0:
        raise ValueError("mask must contain at least one lane, got none")
    if array.dtype.kind not in "biuU":
        raise TypeError(f"mask must be boolean, integers or strings, got {array.dtype}")
    taken, branch = np.unique(array, return_inverse=True)
    if len(taken) > _MOST_BRANCHES:
        raise ValueError(f"mask must have at most {_MOST_BRANCHES} branches, got {len(taken)}")
    rows, lanes = by_warp(branch.reshape(array.shape), active, "mask")
    numbers = list(range(len(taken)))
    names = [str(name) for name in taken]
    if array.dtype == bool:  # the branch of the condition comes first, as in the source
        numbers.reverse()
        names = ["if" if name else "else" for name in taken]
    lanes_of = {names[number]: (rows == number) & lanes for number in numbers}
    found = {name: of for name, of in lanes_of.items() if of.any()}
    some = lanes.any(axis=1)
    return Divergence(tuple(found), np.array(list(found.values()))[:, some])
