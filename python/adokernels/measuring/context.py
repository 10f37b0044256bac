"""The context of a measurement: machine, software and settings."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
import time
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.records.contention import BUSY_GPU

_SMI_FIELDS = (
    *("temperature.gpu", "power.draw", "power.limit", "clocks.sm", "clocks.mem"),
    *("clocks_event_reasons.active", "mig.mode.current", "persistence_mode"),
)
#: Seconds after which the utilisation that nvidia-smi reports does not include earlier work.
_AVERAGED = 1.25


@cache
def cpu_name() -> str:
    """The processor's name as the system reports it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def device_name(device: str) -> str:
    """The display name of the device "cpu", "cuda" or "cuda:1"."""
    return cpu_name() if device == "cpu" else str(_core.cuda_properties(device)["name"])


def last_level_cache_bytes(device: str) -> int:
    """Size of the last-level cache; memory bandwidth limits much larger problems."""
    cpu = device == "cpu"
    return _core.last_level_cache_bytes() if cpu else int(_core.cuda_properties(device)["l2_bytes"])


def context(device: str) -> dict[str, Any]:
    """Properties that comparable measurements should share, and the time."""
    cuda = None if device == "cpu" else _core.cuda_properties(device)
    caches = {"L2": cuda["l2_bytes"]} if cuda else {f"L{n}": size for n, size, _ in _core.caches()}
    facts: dict[str, Any] = {
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "device_name": device_name(device),
        "adokernels": version("adokernels"),
        "numpy": np.__version__,
        "python": platform.python_version(),
        "system": platform.platform(),
        "threads": 0 if cuda else _core.max_threads(),
        "isa": _core.isa(),
        "load": os.getloadavg()[0],
        "last_level_cache_bytes": last_level_cache_bytes(device),
        "cache_bytes": caches,
    }
    if cuda:
        facts |= {"device": _core.resolve_device(device), "cuda": cuda}
    return facts


class Contention:
    """Observes what other processes use, from its creation on.

    Create it directly before the samples, when the GPU is idle.
    """

    def __init__(self, device: str) -> None:
        self._uuid = "" if device == "cpu" else str(_core.cuda_properties(device)["uuid"])
        self._before = _state_of_gpu(self._uuid) if self._uuid else {}
        self._gpu = _other_work(self._uuid) if self._uuid else {}
        self._processors, self._own = _processor_seconds(), time.process_time()
        self._start = time.perf_counter()

    def facts(self, *, waits: bool) -> dict[str, Any]:
        """The resources that others used, for :func:`adokernels.records.contention.stolen`.

        `waits` states whether the samples contain the waits of threads for a processor.
        """
        # The state changes within a second of the last sample.
        state = _state_of_gpu(self._uuid) if self._uuid else {}
        elapsed = time.perf_counter() - self._start
        own = time.process_time() - self._own
        found: dict[str, Any] = {"waits": waits}
        if self._processors and (now := _processor_seconds()):
            busy, steal = (end - start for start, end in zip(self._processors, now, strict=True))
            found |= {
                "processors": os.cpu_count(),
                "other_processes": max(busy - own, 0) / elapsed,
                "steal": steal / elapsed,
            }
        if self._uuid:
            after = _other_work(self._uuid)
            most = {name: max(value, after[name]) for name, value in self._gpu.items()}
            found |= most | {"nvidia_smi_before": self._before, "nvidia_smi_after": state}
        return found


def _processor_seconds() -> tuple[float, float] | None:
    """Seconds that all processes and the hypervisor used since the system started, if known."""
    with suppress(OSError, ValueError):
        with Path("/proc/stat").open(encoding="ascii") as file:
            user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
        tick = os.sysconf("SC_CLK_TCK")
        return (user + nice + system + irq + softirq) / tick, steal / tick
    return None


def _other_work(uuid: str) -> dict[str, int]:
    """The number of other processes on an idle GPU, and its utilisation by them in percent.

    nvidia-smi averages the utilisation over up to one second, which must not include own work. In a
    container, it does not list processes outside. If none is listed, a utilisation that does not
    fall within this second therefore belongs to an unseen process.
    """
    processes = used = 0
    with suppress(OSError, subprocess.SubprocessError):
        listed = _nvidia_smi(uuid, "--query-compute-apps=pid").split()
        processes = sum(pid.isdecimal() and int(pid) != os.getpid() for pid in listed)
        if processes:
            time.sleep(1)
        used = _utilization(uuid)
        end = time.perf_counter() + _AVERAGED
        while not processes and used > BUSY_GPU and time.perf_counter() < end:
            time.sleep(0.25)
            used = _utilization(uuid)
    return {"gpu_processes": processes, "gpu_utilization": used}


def _utilization(uuid: str) -> int:
    """The utilisation of a GPU in percent, averaged over up to a second; 0 if unknown."""
    digits = _nvidia_smi(uuid, "--query-gpu=utilization.gpu").partition(" ")[0]
    return int(digits) if digits.isdecimal() else 0


def _state_of_gpu(uuid: str) -> dict[str, str]:
    """Temperature, power and throttle reasons of a device, or the error."""
    try:
        answer = _nvidia_smi(uuid, f"--query-gpu={','.join(_SMI_FIELDS)}")
    except (OSError, subprocess.SubprocessError) as error:
        return {"error": f"{error} {getattr(error, 'stdout', '') or ''}".strip()}
    return dict(zip(_SMI_FIELDS, map(str.strip, answer.split(",")), strict=False))


def _nvidia_smi(uuid: str, query: str) -> str:
    parts = (uuid[0:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:])
    command = ["nvidia-smi", query, "--format=csv,noheader", f"--id=GPU-{'-'.join(parts)}"]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
