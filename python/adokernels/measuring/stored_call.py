"""The call of a built-in variant in files, which a fresh process reads and prepares."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels import _core
from adokernels.measuring.ladder_sweep import inputs_of
from adokernels.model.ladder import Variant
from adokernels.model.libraries import on_host
from adokernels.model.problem import Block, Call
from adokernels.model.registry import routines
from adokernels.records.inputs import Inputs

#: The module that runs a stored call in a fresh process.
CHILD = "adokernels.measuring.stored_run"
_CALL, _OPERANDS = "call.json", "operands.npz"


@dataclass(frozen=True)
class StoredCall:
    """A call of a variant, with copies of its operands in host memory.

    Attributes
    ----------
    variant
        The variant.
    arrays
        The operands, packed.
    problem
        The description of operands and options.
    block
        The block shape; None for the default.
    """

    variant: Variant
    arrays: Sequence[NDArray[Any]]
    problem: Inputs
    block: Block | None

    @classmethod
    def of(
        cls,
        variant: Variant,
        args: Sequence[Any],
        options: Mapping[str, Any],
        block: Block | None,
    ) -> StoredCall:
        """Check a call, and copy its operands.

        Without `args`, the operands are random operands of the task's default problem.

        Raises
        ------
        ValueError, TypeError
            If the operands or options are wrong.
        """
        ladder = variant.ladder
        arrays = [on_host(a) for a in args] if args else ladder.task.random_operands()
        problem = ladder.problem(*arrays, device="cpu", **options)
        return cls(variant, problem.host_arguments, inputs_of(problem), block)

    def save(self, folder: Path) -> None:
        """Write the call to files in a folder, which :func:`prepared_call` reads."""
        call = {
            "routine": self.variant.ladder.name,
            "variant": self.variant.name,
            "block": self.block,
            "options": self.problem.options,
        }
        (folder / _CALL).write_text(json.dumps(call), encoding="utf-8")
        np.savez(folder / _OPERANDS, *self.arrays)


def is_stored_call(folder: Path) -> bool:
    """Whether the folder contains the files of a :class:`StoredCall`."""
    return (folder / _CALL).exists()


def prepared_call(folder: Path) -> Call:
    """Prepare the call that :meth:`StoredCall.save` wrote."""
    call = json.loads((folder / _CALL).read_text(encoding="utf-8"))
    with np.load(folder / _OPERANDS) as stored:
        arrays = [stored[f"arr_{i}"] for i in range(len(stored.files))]
    options: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in call["options"].items()
    }
    problem = routines[call["routine"]].problem(*arrays, variant=call["variant"], **options)
    block = call["block"]
    return problem.prepare(call["variant"], None if block is None else tuple(block))


def environment(**variables: str) -> dict[str, str]:
    """The environment of a fresh Python process that imports this package."""
    package = str(Path(_core.__file__).parents[1])
    paths: Iterable[str] = (
        package,
        str(Path(__file__).parents[2]),
        os.environ.get("PYTHONPATH", ""),
    )
    found = os.pathsep.join(dict.fromkeys(filter(None, paths)))
    return {**os.environ, "PYTHONPATH": found, **variables}
