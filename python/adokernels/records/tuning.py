"""The record of a tuning: the settings of one variant, timed in the same rounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from adokernels import later
from adokernels.records.forms import NOT_STORED, Block, Context, Length
from adokernels.records.measurement import Measurement
from adokernels.records.record import Fields, StoredRecord
from adokernels.records.shown import ShownAsTables
from adokernels.records.statistics import Verdict
from adokernels.records.sweep import Sweep
from adokernels.text import require


@dataclass(frozen=True)
class Setting(Fields):
    """A block shape and the values of a variant's parameters."""

    block: Block
    parameters: Context = field(default_factory=dict)

    def __str__(self) -> str:
        """For example ``"32 x 8, TILE=32"``."""
        words = [f"{name}={value}" for name, value in self.parameters.items()]
        return ", ".join([" x ".join(map(str, self.block)), *words])


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Tuning(StoredRecord, ShownAsTables):
    """The settings of one variant, measured in the same rounds; the default comes first.

    Attributes
    ----------
    routine, variant
        The names of the ladder and of the variant.
    settings
        The settings, by the names of their measurements in the sweep.
    sweep
        One measurement per setting with a correct result.
    ladder
        The ladder of the variant, for :meth:`use`. Files and copies do not contain it.
    """

    KIND = "tuning"

    routine: str
    variant: str
    settings: Annotated[Mapping[str, Setting], Length(1)]
    sweep: Sweep
    ladder: Any = field(default=None, metadata=NOT_STORED)

    def __getstate__(self) -> dict[str, Any]:
        """The fields without the ladder, whose copy would not be the ladder that calls use."""
        return {name: value for name, value in vars(self).items() if name != "ladder"}

    def _contradiction(self) -> str:
        unknown = any(m.variant not in self.settings for m in self.sweep)
        if unknown or len({(str(m.problem), m.cache) for m in self.sweep}) > 1:
            return "sweep must only contain measurements of settings on one problem"
        return ""

    @property
    def default(self) -> Measurement | None:
        """The measurement of the default setting, or None if it failed."""
        first = next(iter(self.settings))
        return next((m for m in self.sweep if m.variant == first), None)

    @property
    def best(self) -> Setting:
        """The fastest setting that is significantly faster than the default, else the default."""
        default = self.default
        for m in sorted(self.sweep, key=lambda m: m.seconds):
            if default is None or m is default or m.compare(default).verdict is Verdict.FASTER:
                return self.settings[m.variant]
        raise ValueError(f"no setting of {self.routine}[{self.variant}] computes a correct result")

    def use(self, setting: Setting | None = None, *, ladder: Any = None) -> None:
        """Make a setting the variant's default for this session.

        Parameters
        ----------
        setting
            One of ``settings``. Default: ``best``.
        ladder
            The ladder that has the variant. Default: the one that was tuned; for a tuning from a
            file, the routine with this name.

        Raises
        ------
        KeyError
            If the ladder does not have the variant, or if there is no such routine.
        """
        require((Setting, type(None)), "a setting", setting=setting)
        chosen = setting or self.best
        own = ladder or self.ladder
        if own is None:
            routines = later.routines()
            if self.routine not in routines:
                raise KeyError(f"{self.routine!r} is not a routine: pass the ladder with ladder=")
            own = routines[self.routine]
        own.set_default(self.variant, chosen.block, chosen.parameters)
