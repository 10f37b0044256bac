"""Own variants in sandboxes: ``isolated=True``. docs/grading.md describes the protocol."""

from __future__ import annotations

import dataclasses
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any

from adokernels.model.isolated_call import IsolatedCall
from adokernels.model.isolated_kernel import IsolatedKernel
from adokernels.model.isolated_process import Candidate, CompilerProcess
from adokernels.model.own_ladder import OwnLadder, extended
from adokernels.model.own_variant import OwnVariant

if TYPE_CHECKING:
    from adokernels.model.compiler import CompiledKernel
    from adokernels.model.cuda_variant import KernelCall
    from adokernels.model.ladder import Ladder
    from adokernels.model.problem import Problem

#: Seconds that a call may take, by default.
TIMEOUT = 60.0


class Isolation(ExitStack):
    """The processes of the own variants of a comparison. They end with the context."""

    def __init__(self, timeout: float) -> None:
        super().__init__()
        self._timeout = timeout
        self._compiled: dict[tuple[Any, ...], CompiledKernel] = {}
        #: By name, device, and id of the function or source, which stays unique while it is held.
        self._processes: dict[tuple[str, str, int], tuple[Any, Candidate]] = {}

    def ladder(self, ladder: Ladder) -> OwnLadder:
        """The ladder with its own variants in sandboxes."""
        found = extended(ladder, ())
        for variant in ladder:
            if isinstance(variant, OwnVariant):
                found.replace(dataclasses.replace(variant, isolation=self))
        return found

    def _process(self, variant: OwnVariant | None, problem: Problem) -> Candidate:
        """The process of a variant, or the twin without one, which never loads a function."""
        code = getattr(variant, "function", getattr(variant, "text", None))
        key = (variant.name if variant else "", problem.device, id(code))
        if key not in self._processes:
            process = Candidate(variant, problem, self._timeout)
            self._processes[key] = code, process
            self.callback(process.close)
        return self._processes[key][1]

    def compiled(self, *request: Any) -> CompiledKernel:
        """Compile a kernel in a process, which ends when it exceeds the limits."""
        if request not in self._compiled:
            with closing(CompilerProcess(self._timeout)) as process:
                self._compiled[request] = process.compiled(*request)
        return self._compiled[request]

    def call(
        self, variant: OwnVariant, problem: Problem, plan: KernelCall | None = None
    ) -> IsolatedCall:
        """A call of a function, or a launch of a kernel, in the process of the variant."""
        process = self._process(variant, problem)
        if plan:
            return IsolatedKernel(variant, problem, process, plan)
        return IsolatedCall(variant, problem, process, lambda: self._process(None, problem))
