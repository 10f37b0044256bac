"""Synthetic records for charts and tables, and the geometry of the texts of a chart."""

from __future__ import annotations

import dataclasses
import math

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.text import Text

from adokernels.charts.roofline import roofline
from adokernels.records.inputs import Inputs
from adokernels.records.kernels import Kernel
from adokernels.records.machine import Ceiling, Machine
from adokernels.records.measurement import Measurement
from adokernels.records.metrics import SECTOR
from adokernels.records.profile import KernelProfile, Profile
from adokernels.records.scan import Offload, Scan
from adokernels.records.sweep import Sweep

SIZES = [(6.4, 4.8), (10.0, 6.0)]
WIDE = (10.0, 4.0)
OPERATIONS = ("dfma", "dadd", "dmul", "ffma", "fadd", "fmul")
BAD = "<b>&\"'"


def ceiling(kind, name, measured, theoretical=None):
    level, operation = name.split()
    return Ceiling(
        kind=kind, level=level, operation=operation, measured=measured, theoretical=theoretical
    )


def make_machine(device, name, bandwidths, peaks):
    ceilings = [ceiling("bandwidth", *line) for line in bandwidths]
    ceilings += [ceiling("compute", *line) for line in peaks]
    return Machine(
        device=device, name=name, threads=8, ceilings=tuple(ceilings), context={"driver": "570"}
    )


H200 = make_machine(
    "cuda",
    "NVIDIA H200",
    [
        ("DRAM copy", 4.27e12, 4.8e12),
        ("DRAM read", 4.58e12, 4.8e12),
        ("DRAM write", 3.4e12, 4.8e12),
        ("L2 read", 5.4e12),
    ],
    [
        ("FP64 fma", 33.4e12, 33.5e12),
        ("FP64 add", 16.7e12, 16.7e12),
        ("FP32 fma", 63.8e12, 66.9e12),
        ("FP32 add", 31.9e12, 33.5e12),
    ],
)
CPU = make_machine(
    "cpu",
    "EPYC 9654",
    [
        ("DRAM copy", 62e9),
        ("DRAM read", 75e9),
        ("L3 read", 310e9),
        ("L2 read", 820e9),
        ("L1 read", 1.9e12),
    ],
    [
        ("FP64 fma", 410e9, 450e9),
        ("FP64 add", 205e9, 225e9),
        ("FP32 fma", 830e9, 900e9),
        ("FP32 add", 410e9, 450e9),
    ],
)


_KERNEL = Kernel(
    name="kernel",
    block=(256,),
    grid=(1024,),
    registers=32,
    local_bytes=0,
    static_shared_bytes=0,
    dynamic_shared_bytes=0,
    resident_warps=64,
    max_warps=64,
    limits={"warps": 8},
)


def kernel_with(**changes):
    return dataclasses.replace(_KERNEL, **changes)


_BYTES = {
    "L1": ("l1tex__t_bytes.sum", 1),
    "shared": ("sm__sass_data_bytes_mem_shared.sum", 1),
    "L2": ("lts__t_sectors_srcunit_tex.sum", SECTOR),
    "DRAM": ("dram__bytes.sum", 1),
}


def counters_of(flops, *, fma_share=1.0, **moved):
    """A profile with FP64 FLOPs, and bytes by memory level."""
    names = [f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum" for op in OPERATIONS]
    values = dict.fromkeys(names, 0.0)
    executed = flops / (1 + fma_share)
    values[names[0]], values[names[1]] = fma_share * executed, (1 - fma_share) * executed
    for level, amount in moved.items():
        name, unit = _BYTES[level]
        values[name] = amount / unit
    kernel = KernelProfile(kernel=_KERNEL, values=values, multiprocessors=132)
    return Profile(label="test", kernels=(kernel,), cache="cold", collector="test")


MATRIX = Inputs.of([("a", (8192, 8192), "float32")])


class Lab:
    """Makes measurements with one generator, so that the data of a test is reproducible."""

    def __init__(self):
        self.random = np.random.default_rng(20)

    def measure(self, seconds, **fields):
        samples = seconds * np.exp(self.random.normal(0, 0.002, 41))
        defaults = {"cache": "cold", "session": "one", "problem": MATRIX}
        return Measurement(samples=samples, **{**defaults, **fields})


def make_transpose(machine=H200, scale=1.0, counters=False):
    lab, moved = Lab(), 2.0 * 8192 * 8192 * 4
    times = {
        "naive": (2.0e-3, 4.5),
        "coalesced": (0.9e-3, 1),
        "tiled": (0.45e-3, 1),
        "padded": (0.31e-3, 1),
        "vectorised": (0.19e-3, 1),
        "swizzled": (0.131e-3, 1),
        "asynchronous_bulk": (0.130e-3, 1),
    }
    common = {"routine": "transpose", "device": machine.device, "flops": 0, "executed_flops": 0}
    common["bytes"] = moved
    first = lab.measure(
        0.1265e-3 * scale, variant="copy", ceiling=True, requested_bytes=moved, **common
    )
    rest = [
        lab.measure(
            seconds * scale,
            variant=name,
            requested_bytes=factor * moved,
            changes=f"{name} is {BAD}.",
            profile=counters_of(0, DRAM=1.02 * moved) if counters else None,
            **common,
        )
        for name, (seconds, factor) in times.items()
    ]
    skipped = {"clusters": f"needs sm_100 {BAD}, this is sm_90"}
    return Sweep(routine="transpose", measurements=(first, *rest), skipped=skipped, machine=machine)


def make_gpp(machine=H200, scale=1.0, counters=False, extra=()):
    lab = Lab()
    times = {"naive": 190, "hoisted": 120, "reciprocal": 61, "blocked": 33, "tiled": 18}
    times |= {"fused": 9.6, **dict(extra)}
    flops, moved = 5e10 * scale, 2.2e9 * scale
    measurements = [
        lab.measure(
            milliseconds * 1e-3,
            routine="gpp",
            variant=name,
            device=machine.device,
            problem=Inputs.of([("wtilde", (1200, 1200), "complex128")]),
            flops=flops,
            bytes=moved,
            executed_flops=flops * (2.4 - 0.15 * i),
            requested_bytes=moved * 40 / (1 + i) ** 1.5,
            profile=counters_of(
                flops * (2.4 - 0.15 * i),
                DRAM=moved * (1.3 + 3 / (i + 1)),
                L2=moved * 6 / math.sqrt(i + 1),
                L1=moved * 30 / (i + 1),
            )
            if counters
            else None,
        )
        for i, (name, milliseconds) in enumerate(times.items())
    ]
    return Sweep(routine="gpp", measurements=tuple(measurements), machine=machine)


def with_peers(sweep):
    """Add two peers, as ``ado.sweep`` would time them with the ladder."""
    lab, last = Lab(), sweep.variants[-1]
    common = {"routine": "peer", "device": last.device, "problem": last.problem}
    common |= {"flops": last.flops, "bytes": last.bytes}
    common |= {"executed_flops": last.flops, "requested_bytes": last.bytes}
    times = {"torch": 1.6 * last.seconds, "numpy": 1.2 * last.seconds}
    peers = [lab.measure(seconds, variant=name, **common) for name, seconds in times.items()]
    return dataclasses.replace(sweep, peers=tuple(peers))


def with_mix(sweep, share=0.58):
    """Add instruction counts to every variant; `share` of the instructions are FMAs."""
    counted = [
        dataclasses.replace(m, executed_instructions=m.executed_flops / (1 + share)) for m in sweep
    ]
    return dataclasses.replace(sweep, measurements=tuple(counted))


CROWD = {"streams": 9.3, "persistent": 9.25}
CHARTS = {
    "transpose": make_transpose,
    "transpose, counters": lambda: make_transpose(counters=True),
    "transpose, CPU": lambda: make_transpose(CPU, scale=100),
    "gpp": make_gpp,
    "gpp, counters": lambda: make_gpp(counters=True),
    "gpp, CPU": lambda: make_gpp(CPU, scale=0.01),
    "gpp, CPU, counters": lambda: make_gpp(CPU, scale=0.01, counters=True),
    "gpp, crowded": lambda: make_gpp(counters=True, extra=CROWD),
    "transpose, peers": lambda: with_peers(make_transpose(counters=True)),
    "gpp, peers": lambda: with_peers(make_gpp(counters=True)),
    "gpp, mix": lambda: with_mix(make_gpp()),
    "gpp, mix and counters": lambda: with_mix(make_gpp(counters=True)),
    "gpp, CPU, mix": lambda: with_mix(make_gpp(CPU, scale=0.01)),
    "H200": lambda: H200,
    "CPU": lambda: CPU,
}


def with_last(sweep, faster):
    """Divide the times of the last variant by `faster`."""
    last = sweep.measurements[-1]
    last = dataclasses.replace(last, samples=last.samples / faster)
    return dataclasses.replace(sweep, measurements=(*sweep.measurements[:-1], last))


def new_figure(size, **options):
    return FigureCanvasAgg(Figure(figsize=size, **options)).figure


def drawn(chart, what, size=SIZES[1], **options):
    """The axes of a chart, with all texts in their places."""
    ax = new_figure(size, layout="constrained").add_subplot()
    assert chart(what, ax=ax, **options) is ax
    ax.figure.draw_without_rendering()
    return ax


def draw(what, size=SIZES[0], **options):
    return drawn(roofline, what, size, **options)


def corners(text, renderer):
    """The four corners of a text in pixels, computed independently of the code under test."""
    angle = text.get_rotation()
    if angle % 90 == 0:
        box = Text.get_window_extent(text, renderer)
        return box.corners()[[0, 1, 3, 2]]
    text.set_rotation(0)
    box = Text.get_window_extent(text, renderer)
    text.set_rotation(angle)
    anchor = text.get_transform().transform(text.get_position())
    turn = mpl.transforms.Affine2D().rotate_deg_around(*anchor, angle)
    return turn.transform(box.corners()[[0, 1, 3, 2]])


def overlap(first, second, tolerance=0.5):
    """Whether two convex quadrilaterals overlap: no edge of either separates them."""
    for shape in (first, second):
        for start, end in zip(shape, np.roll(shape, -1, axis=0), strict=True):
            normal = np.array([end[1] - start[1], start[0] - end[0]])
            normal = normal / np.hypot(*normal)
            a, b = first @ normal, second @ normal
            if a.max() <= b.min() + tolerance or b.max() <= a.min() + tolerance:
                return False
    return True


def words_of(ax):
    """Every text and legend of a chart, with its corners."""
    renderer = ax.figure.canvas.get_renderer()
    title = [text for text in ax.findobj(Text) if text.get_text() == ax.get_title(loc="left")]
    texts = [*ax.texts, *title, ax.xaxis.label, ax.yaxis.label]
    found = [(text.get_text(), corners(text, renderer)) for text in texts if text.get_text()]
    for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        for tick in axis.get_major_ticks():
            shown = tick.label1.get_visible()
            if shown and min(limits) <= tick.get_loc() <= max(limits):
                found.append(("tick", corners(tick.label1, renderer)))
    for legend in ax.findobj(Legend):
        box = legend.get_window_extent(renderer)
        found.append(("legend", box.corners()[[0, 1, 3, 2]]))
    return found


def clashes(ax):
    """Pairs of words that overlap. Words with separate bounding boxes do not."""
    names, shapes = zip(*words_of(ax), strict=True)
    low, high = np.min(shapes, axis=1), np.max(shapes, axis=1)
    near = ((low[:, None] < high) & (low < high[:, None])).all(axis=2)
    pairs = np.argwhere(np.triu(near, 1))
    return [(names[i], names[j]) for i, j in pairs if overlap(shapes[i], shapes[j])]


def outside(ax):
    """Texts in the axes that extend beyond them, and texts around them beyond the figure."""
    renderer = ax.figure.canvas.get_renderer()
    frames = {True: ax.figure.bbox.padded(1.0), False: ax.get_window_extent().padded(1.0)}
    found = [(t.get_text(), corners(t, renderer), t.get_gid() == "subject") for t in ax.texts]
    found += [
        ("legend", legend.get_window_extent(renderer).corners(), True)
        for legend in ax.findobj(Legend)
    ]
    return [
        words
        for words, shape, around in found
        if words and not all(frames[around].contains(*corner) for corner in shape)
    ]


def legend_words(ax):
    legends = ax.findobj(Legend)
    texts = [text for legend in legends for text in (legend.get_title(), *legend.get_texts())]
    return [text.get_text().replace("\n", " ") for text in texts]


def make_offloads(rates=(9e9, 11e9), *, cpu=(3e-6, 40e9), latency=18e-6, linked=True):
    """A synthetic scan with copies: a matrix of 2 KiB to 128 MiB on an invented CPU and an H200.

    `rates` are the bandwidths of the copies to and from the GPU in bytes per second, `cpu` the
    latency and the bandwidth of the CPU, and `latency` the latency of a call with copies.
    """
    lab, sweeps, offloads = Lab(), [], []
    ends = ("device", "host") if linked else ()
    links = [
        Ceiling(kind="bandwidth", level="host link", operation=f"pageable to {end}", measured=rate)
        for end, rate in zip(ends, rates, strict=linked)
    ]
    machine = dataclasses.replace(H200, ceilings=(*H200.ceilings, *links))
    for power in range(9):
        side = 2 ** (5 + power)
        half = 4.0 * side * side
        problem = Inputs.of([("a", (side, side), "float32")])
        common = {"routine": "transpose", "problem": problem, "cache": "warm", "flops": 0}
        common |= {"bytes": 2 * half, "executed_flops": 0, "requested_bytes": 2 * half}
        common["session"] = str(side)
        kernel = 2.5e-6 + 2 * half / 4.1e12
        copied = latency + half / (0.8 * rates[0]) + half / (0.8 * rates[1]) + kernel
        on_gpu = lab.measure(kernel, variant="wide", device="cuda", **common | {"session": ""})
        sweeps.append(Sweep(routine="transpose", measurements=(on_gpu,), machine=machine))
        calls = {"call on cpu": cpu[0] + 2 * half / cpu[1], "call on cuda": copied}
        found = (lab.measure(t, variant=n, device="cpu", **common) for n, t in calls.items())
        pair = dict(zip(("cpu", "gpu"), found, strict=True))
        offloads.append(Offload(**pair, uploaded=half, downloaded=half))
    return Scan(routine="transpose", sweeps=tuple(sweeps), offloads=tuple(offloads))
