"""Hot spots of a variant: samples of its kernels in a fresh process, mapped to source lines."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adokernels import _core
from adokernels.measuring.context import context
from adokernels.measuring.hotspot_sources import Sources
from adokernels.measuring.ladder_sweep import inputs_of
from adokernels.measuring.stored_call import StoredCall, environment, save_settings
from adokernels.model.call_checks import check_options
from adokernels.model.ladder import Variant
from adokernels.model.source import sources_folder
from adokernels.records.hotspots import Hotspots, LineSamples, split_reasons
from adokernels.records.inputs import Inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adokernels.model.source_launch import SourceLaunch
    from adokernels.records.inputs import Inputs as Inputs

_CHILD = "adokernels.measuring.hotspot_run"
_ERRORS: Mapping[str, type[Exception]] = {
    "Unavailable": _core.Unavailable,
    "CudaError": _core.CudaError,
    "ValueError": ValueError,
    "TypeError": TypeError,
    "MemoryError": MemoryError,
}


def hotspots(
    variant: Variant,
    *args: Any,
    block: tuple[int, ...] | None = None,
    seconds: float = 0.5,
    **options: Any,
) -> Hotspots:
    """Find the source lines at which the warps of a variant spend their time, and why they stall.

    A fresh process repeats the variant with warm caches while the hardware samples the program
    counters of its warps. CUPTI attributes samples only to kernels that are loaded after sampling
    has started. The process receives copies of the operands, packed in memory.

    Parameters
    ----------
    variant
        For example ``ado.transpose["naive"]``, or a kernel in CUDA C++ source in a ladder of your
        own.
    *args, **options
        Operands and options of a call. Default: random operands of the task's default problem.
    block : tuple of int, optional
        One of the variant's ``blocks``; default the first.
    seconds : float
        Sampling time.

    Returns
    -------
    Hotspots
        The lines, hottest first, with samples, share and stall reasons; shown beside the source.

    Raises
    ------
    TypeError
        If `variant` is not a variant, or an operand has the wrong type.
    ValueError
        For a CPU variant, or if the variant cannot solve the problem.
    Unavailable
        If the device cannot be sampled; the message contains the reason and the remedy.
    """
    if not isinstance(variant, Variant):
        kind = type(variant).__name__
        raise TypeError(f"variant must be a Variant such as ado.transpose['naive'], got {kind}")
    if variant.device != "cuda":
        raise ValueError(
            f"variant must be a CUDA variant, got {variant.ladder.name}[{variant.name!r}] on "
            f"{variant.device}; for the CPU, use perf record"
        )
    check_options(variant.ladder, args, options, hotspots)
    _check_seconds(seconds)
    _check_available(variant.why_unavailable)
    if launch := variant.source_launch(args, options, block):
        problem = variant.ladder.problem(*args, variant=variant.name, **options)
        return hotspots_of_launch(
            launch,
            sources={part.path: part.text for part in variant.source.parts},
            routine=variant.ladder.name,
            variant=variant.name,
            problem=str(inputs_of(problem)),
            seconds=seconds,
        )
    call = StoredCall.of(variant, args, options, block)
    facts = {**context("cuda"), "seconds": seconds}
    return hotspots_of(_sampled(call, seconds), variant, call.problem, block, facts)


def hotspots_of_launch(
    launch: SourceLaunch,
    *,
    sources: Mapping[str, str],
    routine: str,
    variant: str,
    problem: str,
    seconds: float = 0.5,
) -> Hotspots:
    """Find the hot spots of a kernel that was compiled at run time; see :func:`hotspots`.

    Parameters
    ----------
    launch : SourceLaunch
        The kernel, its launch configuration and its arguments.
    sources : mapping of str to str
        The sources of the kernel, by the names with which they were compiled.
    routine, variant, problem : str
        The labels of the record.
    seconds : float
        Sampling time.

    Raises
    ------
    ValueError
        If the GPU cannot launch the kernel.
    Unavailable
        If the device cannot be sampled; the message contains the reason and the remedy.
    """
    _check_seconds(seconds)
    _check_available(_core.why_no_cuda())

    def write(folder: Path) -> None:
        launch.save(folder)
        save_settings(folder, {"seconds": float(seconds)})

    return _hotspots(
        _in_fresh_process(write),
        Sources(texts=sources),
        routine=routine,
        variant=variant,
        problem=problem,
        block=launch.block,
        context={**context("cuda"), "seconds": seconds},
    )


def hotspots_of(
    samples: Mapping[str, Any],
    variant: Variant,
    problem: Inputs,
    block: tuple[int, ...] | None,
    facts: dict[str, Any],
) -> Hotspots:
    """Make the record from the samples that the process wrote."""
    return _hotspots(
        samples,
        Sources(root=sources_folder()),
        routine=variant.ladder.name,
        variant=variant.name,
        problem=str(problem),
        block=block,
        context=facts,
    )


def _hotspots(samples: Mapping[str, Any], sources: Sources, **labels: Any) -> Hotspots:
    entries = []
    for kernel, recorded, line, counts in samples["lines"]:
        path = sources.path_of(recorded)
        reasons, not_issued = split_reasons(samples["reasons"], counts)
        if not reasons:
            continue
        entries.append(
            LineSamples(
                kernel=kernel,
                path=path,
                line=line,
                text=sources.line_of(path, line) if path else "",
                reasons=reasons,
                not_issued=not_issued,
            )
        )
    return Hotspots(
        entries=tuple(entries),
        excerpts=tuple(sources.excerpts_of(entries)),
        dropped=samples["dropped"],
        unattributed=samples["unattributed"],
        **labels,
    )


def _check_seconds(seconds: float) -> None:
    if not seconds > 0:
        raise ValueError(f"seconds must be positive, got {seconds}")


def _check_available(reason: str) -> None:
    if reason:
        raise _core.Unavailable(f"hot spots cannot be sampled: {reason}")


def _sampled(call: StoredCall, seconds: float) -> dict[str, Any]:
    """Run the call of a variant in a fresh process, and return its samples."""
    return _in_fresh_process(lambda folder: call.save(folder, seconds=float(seconds)))


def _in_fresh_process(write: Callable[[Path], None]) -> dict[str, Any]:
    """Write a call to a folder with `write`, sample it in a new process, and return the samples."""
    # Modules are loaded at the first launch, when the sampler exists.
    variables = environment(CUDA_MODULE_LOADING="LAZY")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        command = [sys.executable, "-m", _CHILD, folder]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        output = Path(folder) / "samples.json"
        if not output.exists():
            end = "\n".join(done.stderr.strip().splitlines()[-5:])
            raise RuntimeError(f"the sampled process ended with status {done.returncode}: {end}")
        result: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    if error := result.get("error"):
        raise _ERRORS.get(error["type"], RuntimeError)(error["message"])
    return result
