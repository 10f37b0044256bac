"""Compares the limiters that experiments find on a GPU with the limiters that counters show.

    python benchmarks/limiter_blind.py FOLDER max_plus-float64     # measure a stored ladder again
    python benchmarks/limiter_blind.py FOLDER --json SCORE.json

The timing and the experiments of a variant use the same operands. The counters are read with other
operands of the same shapes. Results are not checked.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import adokernels as ado
from adokernels.cli.arguments import problem_of
from adokernels.cli.everything import problems
from adokernels.cli.program import parse
from adokernels.diagnosis.experiments import by_experiment
from adokernels.measuring.context import context
from adokernels.measuring.gpu_experiments import GpuExperiments
from adokernels.measuring.ladder_sweep import inputs_of
from adokernels.measuring.machine import measured_machine
from adokernels.measuring.profiling import collect
from adokernels.measuring.progress import displayed
from adokernels.measuring.sampling import Sampler
from adokernels.model.problem import kernels_on
from adokernels.records.limiter import Kind

#: Samples of a variant, seconds of its experiments, and the longest call that is measured.
_SAMPLES, _SECONDS, _LONGEST = 11, 0.3, 0.1
_COSTS = ("flops", "bytes", "executed_flops", "requested_bytes", "executed_instructions")


def _problems() -> dict[str, argparse.Namespace]:
    return dict(problems("cuda", lambda given: parse(["bench", *given])))


def measure(out: Path, name: str) -> None:
    """Time every variant of one problem, run the experiments, and store the rows with counters.

    Another process reads the counters, because processes that had used the profiler could not
    create a green context. The experiments need a green context.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        profiles = pool.submit(_profiles, name).result()
    ladder, problem = _loaded(name)
    rows = {}
    for variant, profile in profiles.items():
        with _reported(variant):
            rows[variant] = _timed(ladder[variant], problem, profile)
    with displayed(False) as display:
        machine = measured_machine("cuda:0", display)
        trials = GpuExperiments(ladder, problem, "cold", display)
        found = []
        for call, sampler, m in rows.values():
            with _reported(m.variant):
                tried = trials.on(m.variant, call, sampler, _SECONDS)
                found.append(dataclasses.replace(m, experiments=tried))
                sweep = ado.records.Sweep(
                    routine=ladder.name, measurements=tuple(found), machine=machine
                )
                sweep.save(out / f"{name}.json")


def _loaded(name: str) -> tuple[Any, Any]:
    """The ladder and the problem of a stored ladder."""
    ladder, operands, options = problem_of(_problems()[name])
    return ladder, ladder.problem(*operands, device="cuda:0", **options)


def _profiles(name: str) -> dict[str, Any]:
    """The counters of each variant that can run and takes at most _LONGEST seconds."""
    ladder, problem = _loaded(name)
    found = {}
    for variant in ladder:
        if variant.device != "cuda" or variant.why_unavailable or variant.ceiling:
            continue
        if not problem.why_not(variant.name):
            with _reported(variant.label):
                call = problem.prepare(variant.name)
                if call.sample(True, 1)[0] <= _LONGEST:
                    found[variant.name] = collect(
                        call.timed, variant.label, "light", "cold", problem.device_id
                    )
    return found


@contextmanager
def _reported(label: str) -> Iterator[None]:
    """Print errors: the other variants are measured nevertheless."""
    try:
        yield
    except (ValueError, ado.CudaError, ado.Unavailable) as error:
        print(f"{label}: {error}", flush=True)


def _timed(variant: Any, problem: Any, profile: Any) -> Any:
    """The call, its samples, and a row with the given counters."""
    call = problem.prepare(variant.name)
    sampler = Sampler.of_call(call, cold=True, name=variant.name)
    sampler.warm_up(warm=False)
    for _ in range(_SAMPLES):
        sampler.sample(precision=1.0, budget=1.0)
    return (
        call,
        sampler,
        ado.records.Measurement(
            routine=variant.ladder.name,
            variant=variant.name,
            device="cuda",
            problem=inputs_of(problem),
            cache="cold",
            flush="overwritten",
            **{name: getattr(call.cost, name) for name in _COSTS},
            steps=variant.steps,
            changes=variant.changes,
            stages=variant.stages,
            block=call.block,
            grid=call.grid,
            kernels=kernels_on(problem.device_id, call.kernels()),
            context=context(problem.device_id),
            profile=profile,
            **sampler.record(0.0),
        ),
    )


def score(folder: Path, rules: str) -> dict[str, Any]:
    """Compare both limiters of each row."""
    rows = []
    for name in sorted(_problems()):
        sweep = ado.load(folder / f"{name}.json")
        for m in sweep.variants:
            found = by_experiment(m, sweep.machine)
            rows.append(
                {
                    "ladder": name,
                    "variant": m.variant,
                    "counters": str(m.limiter.kind),
                    "experiments": str(found.kind if found else Kind.UNKNOWN),
                    "certainty": found.certainty if found else None,
                    "evidence": [str(e) for e in found.evidence] if found else [],
                }
            )
    named = [row for row in rows if row["experiments"] != Kind.UNKNOWN]
    agreed = [row for row in named if row["experiments"] == row["counters"]]
    machine = sweep.machine.name if sweep.machine else ""
    counts = {"rows": len(rows), "named": len(named), "agree": len(agreed)}
    return {"rules": rules, "machine": machine, **counts, "found": rows}


def main() -> int:
    """Measure one ladder, or score the stored sweeps."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of the sweeps")
    parser.add_argument("ladder", nargs="?", help="measure this ladder; default: score all sweeps")
    parser.add_argument("--rules", default=ado.__version__, help="the commit of the rules")
    parser.add_argument("--json", type=Path, help="write the score to this file")
    arguments = parser.parse_args()
    if arguments.ladder:
        arguments.folder.mkdir(parents=True, exist_ok=True)
        measure(arguments.folder, arguments.ladder)
        return 0
    found = score(arguments.folder, arguments.rules)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"{found['rows']} rows, {found['named']} named, {found['agree']} agree")
    pairs = collections.Counter((r["counters"], r["experiments"]) for r in found["found"])
    for (counters, experiments), count in sorted(pairs.items()):
        print(f"{count:4}  counters {counters}, experiments {experiments}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
