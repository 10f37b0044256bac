"""docs/documents: all items of the five documents, with figures from the stored records.

The templates name figures: ``{A[naive][seconds]}`` is the time of a variant of ladder A,
``{A[naive > tiled]}`` the ratio of two times, ``{stored[course/NAME][l1_sol]}`` a quantity of
another record, ``{stored[course/NAME][bytes of METRIC]}`` a number of bytes, and
``{stored[course/NAME][naive(offset=1)][l1_sol]}`` a quantity of one problem of a scan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial, singledispatch
from pathlib import Path
from typing import Any

import adokernels as ado
from adobook import published
from adobook.figures import Subject, figures, ranks, title_and_unit
from adobook.pages.stored import DATA, contexts_of, course_records, fill_template, origin
from adobook.published import written
from adokernels.records.heatmap import WARP
from adokernels.records.profile import KernelProfile
from adokernels.text import number, percent, quantity, ratio

#: The stored ladder of each document.
LADDERS = {
    "A": "average_matvec-1024",
    "B": "transpose-int64-8192",
    "C": "gaussian_blur-2560x1600",
    "D": "max_plus-float64",
    "E": "gpp-si214",
}
#: Records of variants in the form of the document, if the ladder has another form.
_AS_PUBLISHED = {"B": {"naive": ("course/transpose-naive-blocks", "naive 32 x 32")}}


class Figures(dict[str, Any]):
    """Figures that are made when a template names them."""

    def __init__(self, make: Callable[[str], Any]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: str) -> Any:
        return self._make(key)


def pages(sweeps: Mapping[str, ado.records.Sweep]) -> dict[str, str]:
    """Return the pages in Markdown: of each document, and the list of these pages."""
    ladders = {letter: sweeps[name] for letter, name in LADDERS.items()}
    ladders["E"] = _in_double_precision(ladders["E"], sweeps["gpp-counted"])
    machine = ladders["E"].machine
    assert machine is not None
    fp32, fp64 = (machine[name].theoretical or 0 for name in ("FP32 fma", "FP64 fma"))
    blocks = dict(
        diagnosis=Figures(lambda letter: ado.diagnose(ladders[letter])),
        stored=Figures(lambda name: of(ado.load(DATA / f"{name}.json.xz"))),
        ranks=Figures(lambda variant: _ranks(sweeps, variant)),
        ceiling=Figures(lambda name: quantity(machine[name].measured, "B/s")),
        balance=number(machine["FP64 fma"].measured / machine["DRAM copy"].measured),
        precisions=ratio(fp32 / fp64),
        machine={letter: sweep.machine for letter, sweep in ladders.items()},
        **{letter: of(sweep) for letter, sweep in ladders.items()},
    )
    found = {
        f"documents/{letter.lower()}.md": fill_template(
            f"document_{letter.lower()}.md", figures=_figures(letter, sweep), **blocks
        )
        for letter, sweep in ladders.items()
    }
    came = origin(contexts_of([*sweeps.values(), *course_records()]))
    links = [f"* [{text.partition(chr(10))[0][2:]}]({name})" for name, text in found.items()]
    index = fill_template("documents.md", origin=came, pages="\n".join(links))
    return {**found, "documents.md": index}


def _in_double_precision(sweep: ado.records.Sweep, counted: ado.records.Sweep) -> ado.records.Sweep:
    """The sweep without the FP32 FLOPs, whose share was counted for another problem."""

    def changed(m: ado.records.Measurement) -> ado.records.Measurement:
        profile = _profile(counted[m.variant])
        share = profile["flops_fp64"] / profile["flops"]
        return replace(m, executed_flops=share * m.executed_flops)

    return replace(sweep, measurements=tuple(map(changed, sweep.measurements)))


def _figures(letter: str, sweep: ado.records.Sweep) -> str:
    """For each variant with published figures, a table with our figures beside them."""
    files = sorted(Path(published.__file__).parent.glob("*.toml"))
    given = [p for f in files for p in published.read(f.stem).FIGURES if p.item[0] == letter]
    measured = {m.variant: m for m in sweep}
    for variant, (name, changed) in _AS_PUBLISHED.get(letter, {}).items():
        record = ado.load(DATA / f"{name}.json.xz")
        assert isinstance(record, ado.records.Sweep)
        measured[variant] = record[changed]
    return "\n\n".join(
        f"### {variant}\n\n{figures(m, given, variant)}"
        for variant, m in measured.items()
        if any(p.variant == variant for p in given)
    )


def of(record: object) -> Figures:
    """The figures of a record, by their names in the template."""
    return Figures(partial(_figure, record))


@singledispatch
def _figure(record: object, name: str) -> Figures | str:
    raise TypeError(f"record must have figures, got {record!r}")


@_figure.register
def _(sweep: ado.records.Sweep, name: str) -> Figures | str:
    """The ratio of two times, or the figures of a variant, also of one problem of a scan."""
    before, _, after = name.partition(" > ")
    if after:
        gain = ratio(sweep[before].seconds / sweep[after].seconds)
        return f"`{before}` to `{after}` {gain}"
    chosen = {
        f"{m.variant}({option}={value})": m
        for m in reversed(sweep.measurements)
        for option, value in (*m.context.items(), *m.problem.options.items())
    }
    return of(chosen.get(name) or sweep[name])


@_figure.register
def _(m: ado.records.Measurement, name: str) -> str:
    if name in _MEASURED:
        return _MEASURED[name](m)
    return str(_figure(_profile(m), name))


@_figure.register
def _(profile: ado.records.Profile, name: str) -> str:
    kind, _, metric = name.rpartition(" of ")
    if kind == "bytes":  # of all kernels; a sector has 32 bytes
        return quantity(profile[metric] * (1 if "bytes" in metric else 32), "B")
    kernel = profile.longest
    if name in _COUNTED:
        return _COUNTED[name](kernel)
    if found := Subject(kernel, (kernel.kernel,)).text(name, title_and_unit(name)[1]):
        return found
    raise KeyError(name)


def _profile(m: ado.records.Measurement) -> ado.records.Profile:
    if m.profile is None:
        raise KeyError(f"{m.variant} has no counters")
    return m.profile


def _intensity(level: str, m: ado.records.Measurement) -> str:
    return written(m.executed_flops / _profile(m)[f"{level}_bytes"], "FLOP/B")


def _rate(level: str, kernel: KernelProfile) -> str:
    return quantity(kernel[f"{level}_bytes"] / kernel["seconds"], "B/s")


_MEASURED: Mapping[str, Callable[[ado.records.Measurement], str]] = {
    "device": lambda m: f"{m.context['device_name']}, {m.context['threads']} threads",
    "executed_flops": lambda m: written(m.executed_flops, ""),
    "flops_per_second": lambda m: quantity(m.flops_per_second, "FLOP/s"),
    "limiter": lambda m: m.limiter.name,
    "registers": lambda m: str(max(k.registers for k in m.kernels)),
    "seconds": lambda m: quantity(m.seconds, "s"),
    **{f"intensity_{level}": partial(_intensity, level.lower()) for level in ("L1", "L2", "DRAM")},
}
#: Quantities of the longest kernel that the tables of the notebooks do not have.
_COUNTED: Mapping[str, Callable[[KernelProfile], str]] = {
    "cycles_per_issue": lambda kernel: written(1 / kernel["issue_active"], "cycles"),
    "local_bytes": lambda kernel: written(kernel["local_bytes"], "B"),
    "max_warps": lambda kernel: str(kernel.kernel.max_warps),
    **{f"rate_{level}": partial(_rate, level.lower()) for level in ("L2", "DRAM")},
}


def _ranks(sweeps: Mapping[str, ado.records.Sweep], variant: str) -> str:
    """The ranks of the filters with a variant of the Gaussian."""
    pipeline, blur = (sweeps[f"{name}-2560x1600"] for name in ("edge_detect", "gaussian_blur"))
    assert pipeline.roof is not None
    stages = pipeline.stages_of(pipeline["pipeline_naive"])
    kernels = [blur[variant], *(m for m in stages if m.routine != blur.routine)]
    found = ranks(kernels, pipeline.roof)
    return "; ".join(f"rank of {name} {rank:.0f}" for name, rank in found.items())


@_figure.register
def _(hot: ado.records.Hotspots, name: str) -> str:
    """The two hottest lines, or the share of a stall reason."""
    if name != "hottest":
        return percent(hot.reasons[name] / hot.samples)
    return "; ".join(
        f"{percent(line.share)} of samples at {line.place} ({line.reason})"
        for line in hot.lines[:2]
    )


@_figure.register
def _(heat: ado.records.Heatmap, kind: str) -> str:
    """The line with the most idle lanes, or the accesses of each line, for example ``loads``."""
    if kind == "idle lanes":
        line = max(heat.lines, key=lambda x: WARP * x.instructions - x.lanes)
        return (
            f"{percent(line.instructions / heat.instructions)} of the instructions at "
            f"{Path(line.path).name}:{line.line}, with {number(line.mean_lanes)} of {WARP} lanes "
            "active"
        )
    found = [
        f"{kind} at {Path(line.path).name}:{line.line}: {of.transfers:,} (ideal {of.ideal:,}; "
        f"{number(of.per_request)} per request)"
        for line in heat.lines
        if (of := line.accesses().get(kind))
    ]
    if not found:
        raise KeyError(kind)
    return "; ".join(found)


@_figure.register
def _(sass: ado.records.Sass, name: str) -> str:
    """The accesses of a kernel, the instructions and loads of its inner loop, or a number."""

    def widths(accesses: Mapping[int, int]) -> str:
        return ", ".join(f"{count} x {bits} bits" for bits, count in sorted(accesses.items()))

    kernel = sass[0]
    if name == "accesses":
        return f"loads {widths(kernel.loads)}, stores {widths(kernel.stores)}"
    if name == "registers_unused":
        return str(kernel.registers_unused)
    loop = kernel.main_loop
    assert loop is not None
    found = {"loop": f"{len(loop)} instructions, loads {widths(loop.loads)}"}
    return (found | {"waits": str(loop.load_waits)})[name]
