"""The correctness check: only variants with correct results are timed."""

from __future__ import annotations

from typing import Any

from adokernels import _core
from adokernels.arrays.libraries import on_host, share_memory
from adokernels.ladders.routine import Routine
from adokernels.tasks import TASKS, as_tuple

#: Sentinel bytes for results: an element that a variant does not write keeps them. As floating-
#: point numbers they are NaN. As integers they are rarer in results than zeros and ones.
_SENTINEL, _SENTINEL_OF_FLOATS = 0xA5, 0xFF


class ResultChecker:
    """Compares the results of variants with the reference result.

    If the reference result would take too long, it is computed for a sparsified problem.

    Attributes
    ----------
    sparsified : bool
        Whether the problem is sparsified.
    """

    def __init__(self, routine: Routine, problem: _core.Problem) -> None:
        self._routine, self._problem, self.sparsified = routine, problem, False
        self._task = TASKS[routine.name]
        options = problem.options
        host = list(problem.host_arguments)
        if self._task.sparsified and (sparse := self._task.sparsified(*host, **options)):
            self._problem = routine.problem(*sparse, device=problem.device_id, **options)
            self.sparsified = True
            host = list(sparse)
        self._expected = self._task.expected(*host, **options)
        unit = self._task.error_unit
        self._unit = unit(*host, **options) if unit else None
        floats = all(e.dtype.kind in "fc" for e in as_tuple(self._expected))
        self._sentinel = _SENTINEL_OF_FLOATS if floats else _SENTINEL

    def before(self, call: _core.Call) -> float | None:
        """Run the call on results filled with sentinel bytes; return its error.

        The error of a ceiling, which has no result, is None.

        Raises
        ------
        ValueError
            If the result is wrong.
        """
        variant = self._routine[call.variant]
        if variant.ceiling:
            return None
        if self.sparsified:
            block = tuple(call.block) if variant.blocks else None
            call = self._problem.prepare(call.variant, block)
        self._problem.fill_results(self._sentinel)
        call.run()
        return self._task.check(self._problem.results(), self._expected, self._unit)

    def after(self, call: _core.Call) -> float | None:
        """Check the call again after timing, because a data race does not fail in every run."""
        return self.before(call)

    def peer(self, returned: Any) -> float | None:
        """The error of a result that a peer returned.

        None if the reference result is that of a sparsified problem.

        Raises
        ------
        ValueError
            If the result is wrong, or shares memory with an operand.
        """
        if self.sparsified:
            return None
        results = returned if isinstance(returned, tuple) else (returned,)
        if any(share_memory(r, a) for r in results for a in self._problem.arguments):
            raise ValueError("wrong result: it returns a view of an operand, not data")
        host = tuple(map(on_host, results))
        expected = self._expected
        got = host if isinstance(expected, tuple) else host[0]
        return self._task.check(got, expected, self._unit)
