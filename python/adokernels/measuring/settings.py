"""Settings that all timings have in common."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from adokernels.measuring.progress import ProgressDisplay
from adokernels.measuring.sampling import Sampler, sample_interleaved
from adokernels.records.measurement import Cache

_DEFAULT_PRECISION = {"cpu": 0.01, "cuda": 0.005}


@dataclass(frozen=True)
class Settings:
    """Sampling settings: the common arguments of `measure`, `sweep` and `tune`."""

    cache: Cache
    precision: float | None
    seconds: float

    def __post_init__(self) -> None:
        if self.cache not in ("cold", "warm"):
            raise ValueError(f"cache must be 'cold' or 'warm', got {self.cache!r}")
        require_finite(seconds=self.seconds, precision=self.precision)

    @property
    def cold(self) -> bool:
        """Whether caches are overwritten before each sample."""
        return self.cache == "cold"

    def sample(self, samplers: Sequence[Sampler], device: str, display: ProgressDisplay) -> None:
        """Sample interleaved until all medians have converged or the time is used up."""
        default = _DEFAULT_PRECISION[device]
        sample_interleaved(
            samplers,
            warm=not self.cold,
            precision=default if self.precision is None else self.precision,
            budget=self.seconds,
            display=display,
        )


def require_finite(**limits: float | None) -> None:
    """Reject limits that are negative or not finite."""
    for name, value in limits.items():
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be a finite number of at least 0, got {value!r}")
