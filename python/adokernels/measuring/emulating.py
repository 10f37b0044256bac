"""Counts of kernels on the emulator, under the names of the hardware's counters.

Only counts that do not depend on the machine code and on time are reported. The error of each
quantity is in :data:`adokernels.records.definitions.EMULATED`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from adokernels import _core
from adokernels.measuring.context import context
from adokernels.model.checker import Checker
from adokernels.process import ALL_CHECKS, settings
from adokernels.records.counted import CountedSweep, CountedVariant
from adokernels.records.inputs import Inputs
from adokernels.records.kernels import Kernel
from adokernels.records.metrics import (
    CONFLICTS,
    EMULATED_BARRIERS,
    EMULATED_BULK,
    EMULATED_INSTRUCTIONS,
    GLOBAL,
    THREADS,
    WAVEFRONTS,
)
from adokernels.records.profile import EMULATOR, KernelProfile, Profile

if TYPE_CHECKING:
    from adokernels.measuring.progress import ProgressDisplay
    from adokernels.model.ladder import Ladder
    from adokernels.model.problem import Block, Problem


def emulated_profile(ladder: Ladder, problem: Problem, name: str, block: Block | None) -> Profile:
    """The counts of a built-in variant on the emulator.

    Raises
    ------
    KernelError
        If a kernel accesses memory that it must not access.
    Unavailable
        If the variant runs a library, or the build contains no PTX.
    ValueError
        If the variant launches no kernels.
    """
    call = problem.prepare(name, block)
    processors = int(_core.cuda_properties(problem.device_id)["multiprocessors"])
    kernels = tuple(
        KernelProfile(
            kernel=Kernel.from_core(kernel, processors),
            values=metrics_of(counts),
            multiprocessors=processors,
        )
        for kernel, counts in _core.emulated_counts(call.timed)
    )
    if not kernels:
        raise ValueError(f"{ladder.name}[{name}] launches no kernels, so there are no counts")
    return Profile(
        label=f"{ladder.name}[{name}]",
        kernels=kernels,
        cache="cold",
        collector=f"{EMULATOR}, PTX of compute_90",
        context=context(problem.device_id),
    )


def metrics_of(counts: Mapping[str, Any]) -> dict[str, float]:
    """The metrics of Nsight Compute that follow from the counts of a launch."""
    values: dict[str, float] = {}
    for op, name in (("ld", "load"), ("st", "store")):
        accesses, shared = counts[f"global_{name}s"], counts[f"shared_{name}s"]
        for of in ("sectors", "ideal"):
            values[EMULATED_BULK.format(of, op)] = counts[f"bulk_{name}s"][of]
        values[GLOBAL.format("requests", op)] = accesses["requests"]
        values[GLOBAL.format("sectors", op)] = accesses["sectors"]
        values[f"sm__sass_data_bytes_mem_global_op_{op}.sum"] = accesses["unique"]
        values[WAVEFRONTS.format(op)] = shared["wavefronts"]
        values[CONFLICTS.format(op)] = shared["wavefronts"] - shared["ideal"]
    values["sm__sass_data_bytes_mem_global_op_ldgsts.sum"] = 0  # among the loads
    operations = counts["operations"]
    for prefix, bits in (("f", 32), ("d", 64)):
        fused = operations[f"fused{bits}"]
        flops = operations[f"flop{bits}"] + operations[f"expanded{bits}"]
        values[THREADS.format(f"{prefix}add")] = flops - 2 * fused  # sums and products
        values[THREADS.format(f"{prefix}mul")] = 0
        values[THREADS.format(f"{prefix}fma")] = fused
    if counts["instructions"]:
        lanes = counts["lanes"] / counts["instructions"]
        values["smsp__thread_inst_executed_per_inst_executed.ratio"] = lanes
    atomics = counts["global_atomics"]
    values[GLOBAL.format("requests", "atom")] = atomics["requests"]
    values[EMULATED_BARRIERS] = counts["barriers"]
    values[EMULATED_INSTRUCTIONS] = counts["instructions"]
    return {name: float(value) for name, value in values.items()}


@contextmanager
def all_checks() -> Iterator[None]:
    """Turn on all checks of the emulator, and keep those of the settings."""
    checks = settings.emulator_checks
    settings.emulator_checks = {*ALL_CHECKS, *checks}
    try:
        yield
    finally:
        settings.emulator_checks = checks


def emulated_sweep(
    ladder: Ladder, problem: Problem, blocks: Mapping[str, Block | None], display: ProgressDisplay
) -> CountedSweep:
    """Check the variants of a ladder on the emulator, and count them.

    Each variant runs with all checks of the emulator. Its result must be within the task's bound.
    """
    checker, found, skipped = Checker(ladder, problem), [], dict[str, str]()
    with all_checks():
        for name in display.each("counting", blocks):
            try:
                checker.before(problem.prepare(name, blocks[name]))
                counted = emulated_profile(ladder, problem, name, blocks[name])
            except (ValueError, RuntimeError) as error:  # also what the emulator refuses
                skipped[name] = str(error).removeprefix(f"{ladder[name].label}: ")
                continue
            flops, compulsory = problem.useful
            found.append(
                CountedVariant(
                    variant=name,
                    ceiling=ladder[name].ceiling,
                    flops=flops,
                    bytes=compulsory,
                    profile=counted,
                )
            )
    return CountedSweep(
        routine=ladder.name,
        problem=Inputs.of(problem.operands, problem.options),
        variants=tuple(found),
        skipped=skipped,
        context=context(problem.device_id),
    )
