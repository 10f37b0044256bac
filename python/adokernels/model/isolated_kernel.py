"""Kernels in CUDA C++ source under a trusted runner: the side of the parent."""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from adokernels.model.compiler import compile_cuda
from adokernels.model.isolated_call import IsolatedCall
from adokernels.model.isolated_process import TICK
from adokernels.model.problem import changed_values
from adokernels.model.values import is_array
from adokernels.process import settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adokernels import _core
    from adokernels.model.cuda_variant import KernelCall
    from adokernels.model.isolated_process import Candidate
    from adokernels.model.own_variant import OwnVariant
    from adokernels.model.problem import Problem, Values
    from adokernels.model.values import Renewal

#: Writes renewed values: Renewal.of() on the device.
_RENEW = """
{include}
using T = {type};
extern "C" __global__ void renew(const T* from, T* to, long long n, long long distance, T number) {{
  const long long step = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x; i < n;
       i += step) {{
    const long long source = i + distance < n ? i + distance : i + distance - n;
    const T value = from[source];
    to[i] = value == value ? value {operator} number : value;  // NaN does not change
  }}
}}
"""
_FLOATS = {2: "__half", 4: "float", 8: "double"}
_INTEGERS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}


class IsolatedKernel(IsolatedCall):
    """A kernel under the runner, which times launches with events of its own."""

    def __init__(
        self, variant: OwnVariant, problem: Problem, process: Candidate, plan: KernelCall
    ) -> None:
        self._plan = plan  # the launch in this process, which is never run
        self._base: Values | None = None  # the values from which samples are made
        super().__init__(variant, problem, process)
        self.block, self.grid = plan.block, plan.grid

    def kernels(self) -> Sequence[_core.KernelInfo]:
        """The kernel that it launches."""
        return self._plan.kernels()

    @cached_property
    def _units(self) -> list[tuple[np.dtype[Any], bool]]:
        """The elements that are renewed, of each block, and whether they are multiplied."""
        found = []
        operands = len(self._blocks) - len(self._memory.guarded_results)
        for place, block in enumerate(self._blocks):
            size = block.dtype.itemsize // (1 + (block.dtype.kind == "c"))
            multiplied = place < operands and block.dtype.kind in "fc" and size in _FLOATS
            unit = f"f{size}" if multiplied else f"u{math.gcd(block.dtype.itemsize, 8)}"
            found.append((np.dtype(unit), multiplied))
        return found

    @cached_property
    def _message(self) -> dict[str, Any]:
        """The launch for the runner, with numbers of blocks instead of addresses."""
        message = super()._message
        compiled, renew = self._plan.compiled, []
        for unit, multiplied in [] if self.problem.device_id == "emulator" else self._units:
            names = _FLOATS if multiplied else _INTEGERS
            text = _RENEW.format(
                include="#include <cuda_fp16.h>" if unit == np.float16 else "",
                type=names[unit.itemsize],
                operator="*" if multiplied else "^",
            )
            known = compile_cuda(text, "renew")
            renew.append((known.code, known.symbol))
        plan = {
            **self._plan.stored_places(),
            "kernel": (compiled.code, compiled.symbol),
            "renew": renew,
            "units": [unit for unit, _ in self._units],
            "emulated_gpu": settings.emulated_gpu,
            "emulator_checks": settings.emulator_checks,
        }
        return message | {"plan": plan}

    def _compare(self, interval: float) -> None:
        """Do nothing: the times of the runner are trusted."""

    def conclude(self) -> None:
        """Verify the last sample."""
        self._verify()

    def _change(self, renewals: Sequence[Renewal]) -> list[tuple[int, float]]:
        """The parameters of a renewal of each block; results get their sentinel bytes again."""
        changes: list[tuple[int, float]] = [(0, 0.0)] * len(self._blocks)
        facts = zip(renewals, self._blocks, self._units, strict=False)
        for place, (renewal, block, (_, multiplied)) in enumerate(facts):
            mask = renewal.mask * (block.dtype.kind in "iu")
            changes[place] = renewal.distance, renewal.factor if multiplied else mask
        return changes

    def between_samples(self) -> None:
        """Verify the last sample."""
        self._verify()

    def _verify(self) -> None:
        """Copy the memory of the last launch to the host of the runner if it is to be verified."""
        if self._taken:
            self._remote.ask("fetch")
        super()._verify()

    def sample(self, cold: bool, repeats: int) -> tuple[float, float, bool, float]:
        """Take a sample of launches whose operands are new.

        Each launch is timed alone. From the overhead of a single launch, the part is subtracted
        that `repeats` launches in one interval would not have.
        """
        self._verify()
        arrays = [a for a in self._memory.host_arguments if is_array(a)]
        drawn = [[self._renewal(array) for array in arrays] for _ in range(repeats)]
        keep = int(self._rng.integers(repeats)) if self._is_chosen() else -1
        new = self._base is not self._memory.values
        if new:
            self._write(self._memory.values)
            self._base = self._memory.values
        changes = list(map(self._change, drawn))
        answer = self._remote.ask("sample", changes=changes, cold=cold, keep=keep, base=new)
        if keep >= 0:
            renewals = iter(drawn[keep])
            self._taken = changed_values(self._memory, lambda array: next(renewals).of(array))
        seconds = max(answer["seconds"] - answer["overhead"] * (1 - 1 / repeats), TICK)
        return seconds, answer["hertz"], answer["blocked"], answer["waited"]
