"""The stages of pipelines, each prepared to be timed separately."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adokernels.arrays.operands import batch_option
from adokernels.ladders.base import AnyCall, AnyVariant
from adokernels.ladders.registry import routines
from adokernels.records.inputs import Inputs

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass
class Stage:
    """A pipeline stage, prepared with the operand that it has in the pipeline."""

    variant: AnyVariant
    call: AnyCall
    problem: Inputs


def prepare_stages(pipelines: Sequence[AnyVariant], problem: Any) -> list[Stage]:
    """Prepare every stage of the pipelines once.

    All pipelines have the same sequence of routines. Each routine takes one array, the result of
    the previous stage.
    """
    found: dict[tuple[str, str], Stage] = {}
    chains = [pipeline.stages for pipeline in pipelines if pipeline.stages]
    operand = problem.arguments[0]
    for step in zip(*chains, strict=True):
        routine = routines[step[0][0]]
        options = batch_option(routine, operand)
        staged = routine.problem(operand, device=problem.device_id, **options)
        for stage in step:
            if stage not in found:
                call = staged.prepare(stage[1])
                found[stage] = Stage(
                    routine[stage[1]], call, Inputs.of(staged.operands, staged.options)
                )
        found[step[-1]].call.run()
        operand = staged.results()
    return list(found.values())
