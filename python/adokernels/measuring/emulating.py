"""Counts of kernels on the emulator, under the names of the hardware's counters.

Only counts that do not depend on the machine code and on time are reported. The error of each
quantity is in :data:`adokernels.records.definitions.EMULATED`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adokernels import _core
from adokernels.kernels.emulated import emulated
from adokernels.measuring.context import context
from adokernels.measuring.functions import Function
from adokernels.process import ALL_CHECKS, settings
from adokernels.records.inputs import Inputs
from adokernels.records.kernels import Kernel
from adokernels.records.metrics import (
    CONFLICTS,
    EMULATED,
    EMULATED_BARRIERS,
    EMULATED_BULK,
    EMULATED_INSTRUCTIONS,
    GLOBAL,
    LOCAL,
    THREADS,
    WAVEFRONTS,
)
from adokernels.records.profile import EMULATOR, KernelProfile, Profile

if TYPE_CHECKING:
    from adokernels.model.problem import Call

#: A launch of a kernel and its counts.
Counted = tuple[_core.KernelInfo, Mapping[str, Any]]


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
    results = (("", r.shape, str(r.dtype)) for r in call.problem.result_types)
    inputs = Inputs.of([*call.problem.operands, *results])
    return _profile_of(_core.emulated_counts(call.timed), call.label, inputs)


def emulated_launches(function: Function) -> list[Counted]:
    """The launches of a function on the emulator, with their counts."""
    with emulated():
        launches: list[Counted] = _core.emulated_counts(function.run)
    return launches


def profile_of_function(function: Function) -> Profile:
    """The counts of the kernels that a function launches on the emulator."""
    return _profile_of(emulated_launches(function), function.name, function.inputs)


def _profile_of(launches: Sequence[Counted], label: str, inputs: Inputs) -> Profile:
    processors = int(_core.cuda_properties("emulator")["multiprocessors"])
    kernels = tuple(
        KernelProfile(
            kernel=Kernel.from_core(kernel, processors),
            values=metrics_of(counts)
            | ({EMULATED.format("unneeded_fp64"): 0.0} if inputs.may_be_fp64 else {}),
            multiprocessors=processors,
            places=places_of(counts),
        )
        for kernel, counts in launches
    )
    if not kernels:
        raise ValueError(f"{label} launches no kernels, so there are no counts")
    return Profile(
        label=label,
        kernels=kernels,
        cache="cold",
        collector=f"{EMULATOR}, PTX",
        context=context("emulator"),
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
        values[LOCAL.format(op)] = counts[f"local_{name}s"]["sectors"]
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
    values[GLOBAL.format("sectors", "atom")] = atomics["sectors"]
    values[GLOBAL.format("sectors", "red")] = 0  # among the atomics
    values[EMULATED.format("atomic_ideal_sectors")] = atomics["ideal"]
    values[EMULATED.format("atomic_updates")], values[EMULATED.format("atomic_addresses")] = (
        atomics["lanes"],
        counts["atomic_addresses"],
    )
    shared = counts["shared_atomics"]
    values[WAVEFRONTS.format("atom")] = shared["wavefronts"]
    values[CONFLICTS.format("atom")] = shared["wavefronts"] - shared["ideal"]
    values[EMULATED.format("constant_requests")] = counts["constant_loads"]["requests"]
    values[EMULATED.format("constant_passes")] = counts["constant_loads"]["wavefronts"]
    values[EMULATED.format("unneeded_fp64")] = operations["instruction64"]
    values[EMULATED_BARRIERS] = counts["barriers"]
    values[EMULATED_INSTRUCTIONS] = counts["instructions"]
    return {name: float(value) for name, value in values.items()}


#: Kinds of excess for which the worst source line is reported: accesses, and the name of a count.
_EXCESS = {
    **{kind: ((f"global_{kind}s",), "sectors") for kind in ("load", "store", "atomic")},
    "conflicts": (("shared_loads", "shared_stores"), "wavefronts"),
    "shared_atomic": (("shared_atomics",), "wavefronts"),
    "constant": (("constant_loads",), "wavefronts"),
    "local": (("local_loads", "local_stores"), "sectors"),
}


def places_of(counts: Mapping[str, Any]) -> dict[str, str]:
    """The source lines with the most FP64 instructions, and with the most transfers of each kind.

    The counts of an inlined function belong to the line that calls it.
    """
    found: dict[str, Counter[str]] = {kind: Counter() for kind in ("fp64", *_EXCESS)}
    for line in counts["lines"]:
        outer = "outer_" if line["outer_file"] else ""
        place = f"{Path(line[f'{outer}file']).name}:{line[f'{outer}line']}"
        found["fp64"][place] += line["operations"]["instruction64"]
        for kind, (accesses, of) in _EXCESS.items():
            found[kind][place] += sum(line[each][of] for each in accesses)
    worst = {kind: each.most_common(1)[0] for kind, each in found.items() if each}
    return {kind: place for kind, (place, n) in worst.items() if n and not place.startswith(":")}


@contextmanager
def all_checks() -> Iterator[None]:
    """Turn on all checks of the emulator, in addition to the checks in the settings."""
    checks = settings.emulator_checks
    settings.emulator_checks = {*ALL_CHECKS, *checks}
    try:
        yield
    finally:
        settings.emulator_checks = checks
