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
from adokernels.process import ALL_CHECKS, settings
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
    from adokernels.model.problem import Call


def emulated_profile(call: Call) -> Profile:
    """The counts of a variant on the emulator.

    Raises
    ------
    KernelError
        If a kernel accesses memory that it must not access.
    Unavailable
        If the variant runs a library, or the build contains no PTX.
    ValueError
        If the variant launches no kernels.
    """
    device = call.problem.device_id
    processors = int(_core.cuda_properties(device)["multiprocessors"])
    kernels = tuple(
        KernelProfile(
            kernel=Kernel.from_core(kernel, processors),
            values=metrics_of(counts),
            multiprocessors=processors,
        )
        for kernel, counts in _core.emulated_counts(call.timed)
    )
    if not kernels:
        raise ValueError(f"{call.label} launches no kernels, so there are no counts")
    return Profile(
        label=call.label,
        kernels=kernels,
        cache="cold",
        collector=f"{EMULATOR}, PTX of compute_90",
        context=context(device),
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
