"""Categories of optimisation steps, and the changes of each variant of the CUDA ladders.

The table `changes.json` is the reference for the score of the advice. It was derived only from the
`changes` sentences of the variants, before any advice was computed. A step has several categories
if its sentence names several changes; "why" explains the categories.
"""

from __future__ import annotations

import json
from importlib import resources

from adokernels.text import StrEnum


class Step(StrEnum):
    """Category of an optimisation step."""

    COALESCING = "coalesce accesses"
    BANK_CONFLICTS = "avoid bank conflicts"
    PARALLELISM = "more work in parallel"
    OCCUPANCY = "raise occupancy"
    IN_FLIGHT = "more loads in flight"
    WIDER = "wider accesses"
    REUSE = "reuse in registers or shared memory"
    OPERATIONS = "fewer or cheaper operations"
    FMA = "fused multiply-add"
    DIVERGENCE = "avoid divergence"
    SPILLS = "avoid spills"
    BARRIERS = "fewer barriers"
    DRAM_REUSE = "less DRAM traffic"
    FUSION = "fuse or overlap kernels"
    DONE = "done"


def _read() -> dict[str, dict[str, set[Step]]]:
    file = resources.files("adokernels.diagnosis").joinpath("changes.json")
    document = json.loads(file.read_text(encoding="utf-8"))
    return {
        routine: {name: set(map(Step, entry["steps"])) for name, entry in variants.items()}
        for routine, variants in document.items()
    }


#: Categories by routine and variant, relative to the variant before it. The first variant of a
#: ladder changes nothing. An empty set means that no category fits.
CHANGES = _read()


def changed_by(routine: str, variant: str) -> set[Step] | None:
    """Return the categories of a variant; None if the table does not contain it."""
    return CHANGES.get(routine, {}).get(variant)
