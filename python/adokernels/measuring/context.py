"""The context of a measurement: machine, software and settings."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from adokernels import _core

_SMI_FIELDS = (
    *("temperature.gpu", "power.draw", "power.limit", "clocks.sm", "clocks.mem"),
    *("clocks_event_reasons.active", "mig.mode.current", "persistence_mode"),
)


@cache
def cpu_name() -> str:
    """The processor's name as the system reports it."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def device_type(device: str) -> str:
    """``"cuda"`` for ``"cuda:1"``."""
    return device.partition(":")[0]


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
        facts["nvidia_smi"] = _nvidia_smi(cuda["uuid"])
    return facts


def _nvidia_smi(uuid: str) -> dict[str, str]:
    """Temperature, power and throttle reasons of a device, or the error."""
    parts = (uuid[0:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:])
    query = f"--query-gpu={','.join(_SMI_FIELDS)}"
    command = ["nvidia-smi", query, "--format=csv,noheader", f"--id=GPU-{'-'.join(parts)}"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except (OSError, subprocess.SubprocessError) as error:
        return {"error": f"{error} {getattr(error, 'stdout', '') or ''}".strip()}
    return dict(zip(_SMI_FIELDS, map(str.strip, answer.stdout.split(",")), strict=False))
