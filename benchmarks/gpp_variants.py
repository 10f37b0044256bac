"""Compares the default variant of ``ado.gpp`` with all other variants, for one random problem."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import adokernels as ado
from adokernels.model.tasks import TASKS
from adokernels.model.tasks.gpp import GppOperands

#: Number of terms of the problem on which results are checked: the reference takes 0.1 us per term.
CHECKED_TERMS = 400_000
SENTINEL = 0xFF  # bytes of results before they are computed: NaN


def sparsified(problem: GppOperands, rng: np.random.Generator) -> GppOperands:
    """Set aqsm to 0, except for its corners and a random sample of about CHECKED_TERMS terms."""
    each = problem.aqsn.shape[1] * problem.wx.shape[1]
    if problem.aqsm.size * each <= CHECKED_TERMS:
        return problem
    bands, columns = problem.aqsm.shape
    kept = rng.choice(problem.aqsm.size, max(4, CHECKED_TERMS // each))
    kept = np.append(kept, [0, columns - 1, (bands - 1) * columns, bands * columns - 1])
    aqsm = np.zeros_like(problem.aqsm)
    aqsm.flat[kept] = problem.aqsm.flat[kept]
    return problem._replace(aqsm=aqsm)


class Variants:
    """Prepared calls of all variants that can solve a problem."""

    def __init__(self, problem: GppOperands, device: str, rng: np.random.Generator) -> None:
        self.device = device
        self.problem = self._placed(problem)
        self.best = self.problem.best()
        sparse = sparsified(problem, rng)
        self._checked = self._placed(sparse)
        self._expected = TASKS["gpp"].expected(*sparse)
        error_unit = TASKS["gpp"].error_unit
        assert error_unit
        self._unit = error_unit(*sparse)

    def _placed(self, operands: Sequence[np.ndarray]) -> Any:
        args = map(ado.to_device, operands) if self.device == "cuda" else operands
        return ado.gpp.problem(*args, device=self.device)

    def calls(self) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
        """Return the correct calls, the reasons why others are left out, and the wrong variants."""
        calls: dict[str, Any] = {}
        left_out: dict[str, str] = {}
        wrong: dict[str, str] = {}
        for variant in ado.gpp:
            if variant.device != self.device or variant.ceiling:
                continue
            name = variant.name
            if reason := variant.why_unavailable or self.problem.why_not(name):
                left_out[name] = reason
            elif error := self._error(name):
                wrong[name] = error
            else:
                calls[name] = self.problem.prepare(name)
        return calls, left_out, wrong

    def _error(self, name: str) -> str:
        """Return the error message for a wrong result; empty if the result is correct."""
        self._checked.poison()
        self._checked.prepare(name).run()
        try:
            TASKS["gpp"].check(self._checked.results(), self._expected, self._unit)
        except ValueError as error:
            return str(error)
        return ""
