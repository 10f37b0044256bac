"""The ceilings of a device: measured by the `ceilings` routine, and theoretical figures.

The host link is measured with the copies of the library.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from adokernels import _core, cache
from adokernels.measuring.context import context, device_name, last_level_cache_bytes
from adokernels.measuring.progress import ProgressDisplay, displayed
from adokernels.measuring.sampling import Sample
from adokernels.model.problem import Call
from adokernels.model.registry import ceilings
from adokernels.records.contention import WAITED
from adokernels.records.machine import ROOF, Ceiling, Machine, contradictions
from adokernels.records.record import SCHEMA
from adokernels.records.statistics import median_interval
from adokernels.text import percent, require

#: Maximum and minimum number of samples per ceiling and round. After this time in seconds, sampling
#: ends as soon as the minimum is reached.
_SAMPLES, _MIN_SAMPLES, _SAMPLING_SECONDS = 12, 5, 0.8
#: A ceiling is measured until two rounds agree within this share, in at most this number of rounds.
_AGREED, _ROUNDS = 0.1, 5
_GIB = 1 << 30
#: Target duration of one sample of a cache or arithmetic ceiling.
_SECONDS = 2e-3
#: Minimum number of FLOPs or bytes per sample.
_MIN_WORK = 2e8

# FP32 and FP64 lanes per multiprocessor by compute capability: CUDA C++ Programming Guide,
# "Arithmetic Instructions". An architecture that is not listed has no theoretical peak here.
LANES: dict[int, tuple[int, int]] = {
    **{75: (64, 2), 80: (64, 32)},
    **dict.fromkeys((86, 87, 89, 103, 120), (128, 2)),
    **dict.fromkeys((90, 100), (128, 64)),
}

# Bytes per cycle that L1 and shared memory of a multiprocessor return. Shared memory has 32 banks
# of 4 bytes (CUDA C++ Programming Guide, "Shared Memory"). L1 shares its data path, and Nsight
# Compute's hierarchical roofline counts 128 bytes per cycle for both. Turing has half the width
# (NVIDIA Ampere GA102 whitepaper).
_NEAREST_BYTES = {**dict.fromkeys(LANES, 128), 75: 64}

# Dense FLOPs (INT8: operations) per cycle and multiprocessor of tensor cores by compute capability,
# from NVIDIA's whitepapers of the architectures. A figure is 0 where products of one capability
# differ, as GeForce and workstation boards do.
_TENSOR_TYPES = ("FP64", "TF32", "BF16", "FP16", "FP8", "INT8")
_TENSOR_FLOPS: dict[int, tuple[int, ...]] = {
    75: (0, 0, 0, 0, 0, 2048),
    80: (128, 1024, 2048, 2048, 0, 4096),
    90: (256, 2048, 4096, 4096, 8192, 8192),
    100: (128, 4096, 8192, 8192, 16384, 16384),
    **dict.fromkeys((86, 89), (0, 0, 0, 0, 0, 2048)),
}
#: Lowest compute capability with each type. Products of float64 are fast on few GPUs.
_SINCE = {"TF32": 80, "BF16": 80, "FP16": 75, "FP8": 89, "INT8": 75}
_WITH_FP64 = (80, 90, 100)
#: Bytes of both operands, or of the result if it is larger, per element of a matrix.
_PER_ELEMENT = {"FP64": 16, "TF32": 8, "BF16": 4, "FP16": 4, "FP8": 2, "INT8": 4}
#: Random elements of a matrix; larger matrices repeat them.
_RANDOM = 1 << 20

#: Bytes of a copy between host and device. A multiple of 3.
_LINK_BYTES = 3 << 26


@dataclass(frozen=True)
class _Case:
    """One ceiling to measure: a variant of `ceilings`, and a working set that selects the level.

    Copies of the host link have no variant. A theoretical figure that depends on an assumption is
    dropped if the measurement disproves it.
    """

    variant: str
    kind: Literal["bandwidth", "compute", "link", "tensor"]
    level: str
    operation: str
    bytes: int
    theoretical: float | None = None
    basis: str = ""
    assumed: bool = False

    @property
    def name(self) -> str:
        return f"{self.level} {self.operation}"


def machine(device: str | None = None, *, refresh: bool = False) -> Machine:
    """Return the ceilings of a device, which are measured once and stored.

    Parameters
    ----------
    device : str, optional
        ``"cpu"``, ``"cuda"`` or ``"cuda:1"``. Default: the default device.
    refresh
        Measure again even if they are stored.

    Returns
    -------
    Machine
        Bandwidth of DRAM (copy, read, write), of the caches and of a GPU's shared memory (read),
        and peaks of FMAs and additions in FP64 and FP32, with the number of threads that CPU
        variants use. For a GPU, also bandwidths of its link to the host, and peaks of the tensor
        cores if cuBLAS is installed. Theoretical figures come from queried device properties, where
        known. Each ceiling is measured until two rounds agree within 10 %. A ceiling is omitted if
        no two of five rounds agree, or if it contradicts another ceiling; ``refused`` has the
        reason. Ceilings of a CPU that was busy (``machine.busy``) are measured again once it is
        quiet.

    Notes
    -----
    The files are in ``$ADOKERNELS_CACHE``, else ``$XDG_CACHE_HOME/adokernels``, else
    ``~/.cache/adokernels``: one per device, thread count, instruction set, version and list of
    ceilings. The folder must belong to the user, and must not be writable by others. Without such a
    folder, a warning says so, and each process measures the ceilings again.
    """
    require((str, type(None)), "a str", device=device)
    where = _core.resolve_device(device or _core.device())
    with displayed(False) as silent:
        return measured_machine(where, silent, refresh=refresh)


def measured_machine(device: str, display: ProgressDisplay, *, refresh: bool = False) -> Machine:
    """Return the ceilings of a device, as :func:`machine`. Show which one is being measured."""
    facts = {**context(device), "processors": os.cpu_count()}
    name = _cache_name(device, facts)
    new = partial(
        Machine,
        device=_core.device_kind(device),
        name=device_name(device),
        threads=_core.max_threads() if device == "cpu" else 0,
        context=facts,
    )
    known = None if refresh else _known(name, device)
    # Ceilings of a busy machine are measured again once it is quiet.
    if known and not (known.busy and not new(ceilings=known.ceilings).busy):
        return known
    found, refused = _agreed(device, list(_cases(device)), display)
    result = new(ceilings=found, refused=refused)
    cache.store(name, result)
    return result


def stored_machine(device: str) -> Machine | None:
    """The ceilings of a device if an earlier run has stored them."""
    return _known(_cache_name(device, context(device)), device)


def _known(name: str, device: str) -> Machine | None:
    """The record that an earlier run stored, or None if it does not exist or cannot be read.

    A GPU can be "cuda:0" in one process and "cuda:1" in another. The result contains `device`.
    """
    found = cache.load(name)
    if not isinstance(found, Machine) or found.device != _core.device_kind(device):
        return None
    facts = {**found.context, "device": device}
    return found if device == "cpu" else replace(found, context=facts)


def _cache_name(device: str, facts: dict[str, Any]) -> str:
    identity = [_core.device_kind(device), SCHEMA, facts["adokernels"], facts["device_name"]]
    if device == "cpu":
        identity += [facts["threads"], facts["isa"], _core.caches()]
    else:
        gpu = facts["cuda"]  # a green context owns a part of the multiprocessors
        identity += [gpu["uuid"], gpu["driver_version"], gpu["multiprocessors"]]
    identity.append([(case.variant, case.level, case.bytes) for case in _cases(device)])
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    return f"machine-{_core.device_kind(device)}-{digest}.json"


def _agreed(
    device: str, cases: Sequence[_Case], display: ProgressDisplay
) -> tuple[tuple[Ceiling, ...], dict[str, str]]:
    """Measure ceilings until two rounds agree; return them, and reasons for the refused ones.

    The best round counts; another one must reach almost its speed. Ceilings that contradict others
    are measured again. DRAM copy is always returned, because shares of the roof refer to it.
    """
    found: dict[str, Ceiling] = {}
    second: dict[str, float] = {}  # the speed of the second-best round
    missing: dict[str, str] = {}
    wrong = dict.fromkeys((case.name for case in cases), "")
    for _ in range(_ROUNDS):
        doubtful = {}
        again = [case for case in cases if case.name in wrong]
        for case in display.each("measuring", again, lambda case: case.name):
            try:
                new = _measure(device, case)
            except (_NotMeasurable, _core.CudaError, MemoryError) as error:
                if case.kind not in ("link", "tensor"):
                    raise
                missing[case.name] = str(error)
                continue
            best = max(new, found.get(case.name, new), key=lambda c: c.measured)
            speeds = [new.measured, second.get(case.name, 0.0)]
            speeds += [found[case.name].measured] if case.name in found else []
            found[case.name], second[case.name] = best, sorted(speeds)[-2]
            if second[case.name] < (1 - _AGREED) * best.measured:
                share = percent(second[case.name] / best.measured)
                doubtful[case.name] = (
                    f"only one round reached its speed, the next one {share} of it"
                )
        measured = [found[case.name] for case in cases if case.name in found]
        wrong = doubtful | contradictions(measured)
        if not wrong:
            break
    kept = tuple(c for c in measured if c.name not in wrong or c.name == ROOF)
    return kept, missing | wrong


class _NotMeasurable(Exception):
    """A ceiling that needs what this machine lacks; the message is the reason."""


def _measure(device: str, case: _Case) -> Ceiling:
    """The best of several samples, because no code should exceed a ceiling."""
    if case.kind == "link":
        return _measure_link(device, case)
    in_cache = case.level != "DRAM"
    source = _source(case)

    def prepare(passes: int) -> Call:
        problem = ceilings.problem(source, passes=passes, device=device)
        if reason := problem.why_not(case.variant):
            raise _NotMeasurable(reason)
        return problem.prepare(case.variant)

    def work_of(call: Call) -> float:
        cost = call.cost
        return cost.requested_bytes if case.kind == "bandwidth" else cost.executed_flops

    call = prepare(1)
    once = min(call.sample(False, 1)[0] for _ in range(3))
    if in_cache:
        # With less work, a single delay by the scheduler would dominate the time of a pass.
        call = prepare(math.ceil(max(_SECONDS / once, _MIN_WORK / work_of(call))))
        call.sample(False, 3)
    samples = _sampled(lambda: call.sample(not in_cache, 1))
    return _ceiling(case, work_of(call), samples)


def _sampled(sample: Callable[[], Sample]) -> list[float]:
    """The times of the samples without waits for a processor; of all samples if all waited."""
    taken: list[Sample] = []
    start = time.perf_counter()
    while len(taken) < _SAMPLES:
        if len(taken) >= _MIN_SAMPLES and time.perf_counter() - start > _SAMPLING_SECONDS:
            break
        taken.append(sample())
    good = [seconds for seconds, _, _, waited in taken if waited <= WAITED * seconds]
    return good or [seconds for seconds, *_ in taken]


def _ceiling(case: _Case, work: float, samples: Sequence[float]) -> Ceiling:
    low, high = median_interval(samples)
    measured, theoretical, basis = work / min(samples), case.theoretical, case.basis
    if theoretical and case.assumed and measured > theoretical:
        theoretical, basis = None, ""
    return Ceiling(
        kind=case.kind,
        level=case.level,
        operation=case.operation,
        measured=measured,
        theoretical=theoretical,
        basis=basis,
        spread=(high - low) / float(np.median(samples)),
    )


def _measure_link(device: str, case: _Case) -> Ceiling:
    """The fastest copies between host and device, by the host's clock, in touched host memory.

    Pageable memory is copied by the library, in chunks with all threads, and by cudaMemcpy: the
    faster one is the ceiling.
    """
    pinned, way = case.operation.startswith("pinned"), case.operation.partition(" ")[2]
    samples: list[list[float]] = []
    with closing(_core.BlockCopies(device)) as copies:
        # The library does not divide elements of 3 bytes into chunks, so cudaMemcpy copies them.
        for dtype in map(np.dtype, ["u1"] if pinned else ["u1", "V3"]):
            count = case.bytes // dtype.itemsize
            begun: list[Callable[[], Any]] = []
            for direction in ("to device", "to host"):
                if way not in (direction, "both ways"):
                    continue
                host = (
                    _core.empty_pinned(case.bytes, "u1") if pinned else np.empty(case.bytes, "u1")
                )
                host[:] = 1
                pair = (copies.empty((count,), dtype), host.view(dtype))
                begun.append(
                    partial(copies.upload, *pair)
                    if direction == "to device"
                    else partial(copies.download, pair[1], pair[0], 0)
                )

            def copy(begun: Sequence[Callable[[], Any]] = begun) -> Sample:
                start = time.perf_counter()
                for pending in [begin() for begin in begun]:
                    pending.wait()
                _core.synchronize(device)
                return time.perf_counter() - start, 0.0, True, 0.0

            copy()
            samples.append(_sampled(copy))
    ways = 2 if way == "both ways" else 1
    peak, basis = _pcie_bandwidth(str(_core.cuda_properties(device)["pci_bus_id"]))
    known: dict[str, Any] = {
        "theoretical": ways * peak or None,
        "basis": f"{basis} x {ways}" if peak else "",
    }
    # Some GPUs are not connected by PCIe.
    case = replace(case, **known, assumed=True)
    return _ceiling(case, ways * case.bytes, min(samples, key=min))


def _pcie_bandwidth(bus_id: str) -> tuple[float, str]:
    """Bytes per second in one direction of a device's PCIe link, and the formula; 0 if unknown.

    The link must be in use, because it is slower when idle. Headers of packets are not deducted.
    """
    folder = Path("/sys/bus/pci/devices") / bus_id
    try:
        speed = float((folder / "current_link_speed").read_text("utf-8").split()[0])
        width = int((folder / "current_link_width").read_text("utf-8"))
    except (OSError, ValueError, IndexError):
        return 0.0, ""
    code, words = (0.8, "8b/10b") if speed < 8 else (128 / 130, "128b/130b")
    return 1e9 * speed * width * code / 8, f"{width} lanes x {speed:g} GT/s, {words}"


def _source(case: _Case) -> NDArray[Any]:
    """Random elements. Zeros would need less power and allow higher clocks.

    Tensor cores get numbers from -1 to 1; FP8 (E4M3) random bytes below 2, and INT8 random bytes.
    """
    random = np.random.default_rng(0)
    if case.kind != "tensor":
        return random.random(case.bytes // 8)
    values: NDArray[Any] = random.uniform(-1, 1, _RANDOM)
    name = case.level.split()[0]
    if name in ("FP8", "INT8"):
        values = random.integers(0, 256, _RANDOM, dtype=np.uint8)
        if name == "FP8":
            values &= 0b1011_1111  # without the highest bit of the exponent
    elif name == "BF16":
        values = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    else:
        values = values.astype({"FP64": "f8", "TF32": "f4", "FP16": "f2"}[name])
    return np.resize(values, case.bytes // values.itemsize)


def _cases(device: str) -> Iterator[_Case]:
    return _cpu_cases() if device == "cpu" else _cuda_cases(device)


def _cpu_cases() -> Iterator[_Case]:
    threads = _core.max_threads()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    large = min(max(4 * last_level_cache_bytes("cpu"), 256 << 20), memory // 8)
    for operation in ("copy", "read", "write"):
        yield _Case(operation, "bandwidth", "DRAM", operation, large)
    for number, size, shared_by in reversed(_core.caches()):
        instances = math.ceil(threads / shared_by)
        yield _Case("read", "bandwidth", f"L{number}", "read", size * instances // 2)
    # Lanes of the instruction set. Two FMA pipes per core are assumed; they cannot be queried.
    lanes = {"baseline": 2, "avx2": 4, "avx512": 8}[_core.isa()]
    clock, cores = _cpu_clock(), min(threads, _core.cores())
    for level, width in (("FP64", lanes), ("FP32", 2 * lanes)):
        basis = f"{cores} cores x {clock / 1e9:.2f} GHz x 2 pipes (assumed) x {width} lanes"
        for case in _compute_cases("", level, 4096, cores * clock * 2 * width, basis):
            yield replace(case, assumed=True)


def _cpu_clock() -> float:
    """The highest clock that the system reports, in Hz; 0 if it reports none."""
    with suppress(OSError, ValueError):
        text = Path("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").read_text("utf-8")
        return 1e3 * float(text)
    return 0.0


def _cuda_cases(device: str) -> Iterator[_Case]:
    gpu = _core.cuda_properties(device)
    large = min(2 * _GIB, gpu["memory_bytes"] // 8)
    dram = 2 * gpu["memory_hertz"] * gpu["memory_bus_bits"] / 8
    basis = f"2 x {gpu['memory_hertz'] / 1e9:.2f} GHz x {gpu['memory_bus_bits']} bit"
    for operation in ("copy", "read", "write"):
        name = f"cuda_{operation}"
        yield _Case(name, "bandwidth", "DRAM", operation, large, dram or None, basis)
    # The working set is a quarter of L2. On GPUs with two L2 partitions, each may keep copies of
    # lines of the other, so a larger set might not fit. There is no theoretical figure, because
    # the clock of L2 cannot be queried.
    yield _Case("cuda_read_l2", "bandwidth", "L2", "read", gpu["l2_bytes"] // 4)
    units, hertz = gpu["multiprocessors"], gpu["core_hertz"]
    eight_waves = units * 2048 * 8 * 8  # one thread per 8 bytes
    nearest = _NEAREST_BYTES.get(gpu["compute"], 0)
    basis = f"{units} multiprocessors x {nearest} B x {hertz / 1e9:.2f} GHz" if nearest else ""
    for level in ("L1", "shared"):
        name, peak = f"cuda_read_{level.lower()}", units * nearest * hertz or None
        yield _Case(name, "bandwidth", level, "read", eight_waves, peak, basis)
    fp32, fp64 = LANES.get(gpu["compute"], (0, 0))
    for level, lanes in (("FP64", fp64), ("FP32", fp32)):
        basis = f"{units} multiprocessors x {hertz / 1e9:.2f} GHz x {lanes} lanes"
        yield from _compute_cases("cuda_", level, eight_waves, units * hertz * lanes, basis)

    # Matrices with 8192 rows keep all multiprocessors busy. Products of float64 take longer, and at
    # 8192 rows the power limit lowers the clock (56.7 and 60.0 TFLOP/s on an H100).
    rows = 8192 if gpu["memory_bytes"] >= 8 * _GIB else 4096
    per_cycle = _TENSOR_FLOPS.get(gpu["compute"], (0,) * len(_TENSOR_TYPES))
    for name, flops in zip(_TENSOR_TYPES, per_cycle, strict=True):
        if gpu["compute"] not in _WITH_FP64 if name == "FP64" else gpu["compute"] < _SINCE[name]:
            continue
        size = _PER_ELEMENT[name] * (4096 if name == "FP64" else rows) ** 2
        peak = units * hertz * flops
        text = f"{units} multiprocessors x {hertz / 1e9:.2f} GHz x {flops}" if peak else ""
        known: dict[str, Any] = {"theoretical": peak or None, "basis": text}
        yield _Case(f"cuda_mma_{name.lower()}", "tensor", f"{name} tensor", "mma", size, **known)
    for memory in ("pageable", "pinned"):
        for way in ("to device", "to host", "both ways"):
            yield _Case("", "link", "host link", f"{memory} {way}", _LINK_BYTES)


def _compute_cases(
    prefix: str, level: str, size: int, additions: float, basis: str
) -> Iterator[_Case]:
    """The ceilings of FMAs and of additions; the theoretical rate of additions is 0 if unknown."""
    for operation, flops in (("fma", 2), ("add", 1)):
        name = f"{prefix}{operation}_{level.lower()}"
        peak, text = (flops * additions, f"{basis} x {flops}") if additions else (None, "")
        yield _Case(name, "compute", level, operation, size, peak, text)
