"""The ceilings of a device: measured by the `ceilings` routine, and theoretical figures."""

from __future__ import annotations

import hashlib
import json
import math
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from adokernels import _core
from adokernels.measuring.context import context, device_name, device_type, last_level_cache_bytes
from adokernels.measuring.progress import ProgressDisplay, displayed
from adokernels.model.problem import Call
from adokernels.model.registry import ceilings
from adokernels.records.loading import read_record
from adokernels.records.machine import Ceiling, Machine
from adokernels.records.record import SCHEMA

#: Maximum and minimum number of samples per ceiling. After this time in seconds, sampling ends as
#: soon as the minimum is reached.
_SAMPLES, _MIN_SAMPLES, _SAMPLING_SECONDS = 20, 5, 1.5
_GIB = 1 << 30
#: Maximum size of a file of ceilings in bytes, and maximum number of such files.
_LARGEST_FILE, _MOST_FILES = 1 << 20, 100
#: Target duration of one sample of a cache or arithmetic ceiling.
_SECONDS = 2e-3
#: Minimum number of FLOPs or bytes per sample.
_MIN_WORK = 2e8

# FP32 and FP64 lanes per multiprocessor by compute capability: CUDA C++ Programming Guide,
# "Arithmetic Instructions". An architecture that is not listed has no theoretical peak here.
_LANES: dict[int, tuple[int, int]] = {
    **{75: (64, 2), 80: (64, 32)},
    **dict.fromkeys((86, 87, 89, 103, 120), (128, 2)),
    **dict.fromkeys((90, 100), (128, 64)),
}

# Bytes per cycle that L1 and shared memory of a multiprocessor return. Shared memory has 32 banks
# of 4 bytes (CUDA C++ Programming Guide, "Shared Memory"). L1 shares its data path, and Nsight
# Compute's hierarchical roofline counts 128 bytes per cycle for both. Turing has half the width
# (NVIDIA Ampere GA102 whitepaper).
_NEAREST_BYTES = {**dict.fromkeys(_LANES, 128), 75: 64}


@dataclass(frozen=True)
class _Case:
    """One ceiling to measure: a variant of `ceilings`, and a working set that selects the level."""

    variant: str
    kind: Literal["bandwidth", "compute"]
    level: str
    operation: str
    bytes: int
    theoretical: float | None = None
    basis: str = ""


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
        variants use. Theoretical figures come from queried device properties, where known.

    Notes
    -----
    The files are in ``$ADOKERNELS_CACHE``, else ``$XDG_CACHE_HOME/adokernels``, else
    ``~/.cache/adokernels``: one per device, thread count, instruction set, version and list of
    ceilings.
    """
    where = _core.resolve_device(device or _core.device())
    with displayed(False) as silent:
        return measured_machine(where, silent, refresh=refresh)


def measured_machine(device: str, display: ProgressDisplay, *, refresh: bool = False) -> Machine:
    """Return the ceilings of a device, as :func:`machine`. Show which one is being measured."""
    facts = context(device)
    path = _cache_path(device, facts)
    if not refresh and (known := _known(path, device)):
        return known
    cases = display.each("measuring", _cases(device), lambda c: f"{c.level} {c.operation}")
    found = Machine(
        device=device_type(device),
        name=device_name(device),
        threads=_core.max_threads() if device == "cpu" else 0,
        ceilings=tuple(_measure(device, case) for case in cases),
        context=facts,
    )
    with suppress(OSError):  # in a read-only home directory, every run measures the ceilings again
        path.parent.mkdir(parents=True, exist_ok=True)
        found.save(path)
        _remove_old_files(path.parent)
    return found


def stored_machine(device: str) -> Machine | None:
    """The ceilings of a device if an earlier run has stored them."""
    return _known(_cache_path(device, context(device)), device)


def _known(path: Path, device: str) -> Machine | None:
    """The record that an earlier run stored, or None if it does not exist or cannot be read.

    A GPU can be "cuda:0" in one process and "cuda:1" in another. The result contains `device`.
    """
    try:
        found = read_record(path, _LARGEST_FILE)
    except (OSError, ValueError):
        return None
    if not isinstance(found, Machine) or found.device != device_type(device):
        return None
    facts = {**found.context, "device": device}
    return found if device == "cpu" else replace(found, context=facts)


def _remove_old_files(folder: Path) -> None:
    """Remove all but the most recent files."""
    files = sorted(folder.glob("machine-*.json"), key=lambda path: path.stat().st_mtime)
    for path in files[:-_MOST_FILES]:
        path.unlink(missing_ok=True)


def cache_folder() -> Path:
    """The folder of stored ceilings and scans."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        return Path(os.environ.get("ADOKERNELS_CACHE") or Path(base) / "adokernels").expanduser()
    except RuntimeError:  # the user has no home directory, as in some containers
        return Path(tempfile.gettempdir()) / f"adokernels-{os.getuid()}"


def _cache_path(device: str, facts: dict[str, Any]) -> Path:
    identity = [device_type(device), SCHEMA, facts["adokernels"], facts["device_name"]]
    if device == "cpu":
        identity += [facts["threads"], facts["isa"], _core.caches()]
    else:
        gpu = facts["cuda"]  # a green context owns a part of the multiprocessors
        identity += [gpu["uuid"], gpu["driver_version"], gpu["multiprocessors"]]
    identity.append([(case.variant, case.level, case.bytes) for case in _cases(device)])
    digest = hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:16]
    return cache_folder() / f"machine-{device_type(device)}-{digest}.json"


def _measure(device: str, case: _Case) -> Ceiling:
    """The best of several samples, because no code should exceed a ceiling."""
    source = np.random.default_rng(0).random(case.bytes // 8)
    in_cache = case.level != "DRAM"

    def prepare(passes: int) -> Call:
        return ceilings.problem(source, passes=passes, device=device).prepare(case.variant)

    def work_of(call: Call) -> float:
        cost = call.cost
        return cost.executed_flops if case.kind == "compute" else cost.requested_bytes

    call = prepare(1)
    once = min(call.sample(False, 1)[0] for _ in range(3))
    if in_cache:
        # With less work, a single delay by the scheduler would dominate the time of a pass.
        call = prepare(math.ceil(max(_SECONDS / once, _MIN_WORK / work_of(call))))
        call.sample(False, 3)
    seconds, start = math.inf, time.perf_counter()
    for taken in range(_SAMPLES):
        if taken >= _MIN_SAMPLES and time.perf_counter() - start > _SAMPLING_SECONDS:
            break
        seconds = min(seconds, call.sample(not in_cache, 1)[0])
    known: dict[str, Any] = {k: v for k, v in vars(case).items() if k not in ("variant", "bytes")}
    return Ceiling(measured=work_of(call) / seconds, **known)


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
        yield from _compute_cases("", level, 4096, cores * clock * 2 * width, basis)


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
    fp32, fp64 = _LANES.get(gpu["compute"], (0, 0))
    for level, lanes in (("FP64", fp64), ("FP32", fp32)):
        basis = f"{units} multiprocessors x {hertz / 1e9:.2f} GHz x {lanes} lanes"
        yield from _compute_cases("cuda_", level, eight_waves, units * hertz * lanes, basis)


def _compute_cases(
    prefix: str, level: str, size: int, additions: float, basis: str
) -> Iterator[_Case]:
    """The ceilings of FMAs and of additions; the theoretical rate of additions is 0 if unknown."""
    for operation, flops in (("fma", 2), ("add", 1)):
        name = f"{prefix}{operation}_{level.lower()}"
        peak, text = (flops * additions, f"{basis} x {flops}") if additions else (None, "")
        yield _Case(name, "compute", level, operation, size, peak, text)
