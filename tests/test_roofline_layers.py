"""Layers of a roofline: memory levels, points per precision, published points."""

import dataclasses

import pytest
from charting import (
    H200,
    SIZES,
    Lab,
    ceiling,
    clashes,
    draw,
    legend_words,
    make_gpp,
    make_machine,
    outside,
)

import adokernels as ado
from adokernels.charts.published import PublishedPoint, PublishedPoints
from adokernels.records.inputs import Inputs
from adokernels.records.machine import Ceiling
from adokernels.records.sweep import Sweep

OTHER = make_machine(
    "cuda",
    "Other GPU",
    [("DRAM copy", 800e9), ("L2 read", 3e12)],
    [("FP64 fma", 7e12), ("FP64 add", 3.5e12), ("FP32 fma", 14e12)],
)
COMPLETE = PublishedPoint(label="both", flops_per_second=3e12, intensities={"DRAM": 6, "L2": 4})
POINTS = PublishedPoints(
    machine=OTHER,
    points=(
        COMPLETE,
        PublishedPoint(label="intensity", intensities={"DRAM": 20}),
        PublishedPoint(label="rate", flops_per_second=4e12),
    ),
)


def markers(ax):
    """Marker, x and y of every point."""
    lines = [line for line in ax.lines if len(line.get_xdata()) == 1]
    return {(line.get_marker(), line.get_xdata()[0], line.get_ydata()[0]) for line in lines}


def segments(ax, style):
    """The start and end of every line of a style."""
    lines = [line for line in ax.lines if line.get_linestyle() == style]
    return [tuple(zip(*line.get_data(), strict=True)) for line in lines]


def with_fp32(m, flops):
    """The measurement with counted FP32 FLOPs, all of them FMAs."""
    kernel = m.profile.kernels[0]
    name = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
    kernel = dataclasses.replace(kernel, values={**kernel.values, name: flops / 2})
    return dataclasses.replace(m, profile=dataclasses.replace(m.profile, kernels=(kernel,)))


def test_only_requested_levels_are_shown():
    sweep = make_gpp(counters=True)
    everything, dram = draw(sweep), draw(sweep, levels=["DRAM"])
    assert {"s", "^"} <= {marker for marker, *_ in markers(everything)}
    assert not {"s", "^"} & {marker for marker, *_ in markers(dram)}
    assert {p for p in markers(dram) if p[0] == "o" and p[2] < 30e12} <= markers(everything)
    assert not [text for text in dram.texts if text.get_text().startswith("L2")]
    assert not clashes(dram)


@pytest.mark.parametrize("levels", [["L7"], [], ["DRAM", "L7"]])
def test_a_level_without_a_ceiling_is_an_error(levels):
    with pytest.raises(ValueError, match=r"levels must be memory levels with a ceiling \(DRAM, L2"):
        draw(make_gpp(counters=True), levels=levels)


def test_the_flops_of_each_precision_have_their_own_points_and_ceiling():
    m = with_fp32(make_gpp(counters=True).measurements[0], 1e9)
    fp64, moved = m.profile["flops_fp64"], m.counted_bytes["DRAM"]
    assert m.profile["flops"] == fp64 + 1e9
    ax = draw(m, machine=H200, levels=["DRAM"], by_precision=True)
    for flops in (fp64, 1e9):
        assert any(
            marker == "o" and (x, y) == pytest.approx((flops / moved, flops / m.seconds))
            for marker, x, y in markers(ax)
        )
    words = [*(text.get_text() for text in ax.texts), *legend_words(ax)]
    assert {f"{m.variant}, FP32", f"{m.variant}, FP64"} <= set(words)
    assert any("FP32 FMA" in w for w in words)
    assert any("FP64 FMA" in w for w in words)
    assert not any("add" in w for w in words)


def test_points_per_precision_need_counters():
    with pytest.raises(ValueError, match="counted FLOPs for by_precision=True"):
        draw(make_gpp(), by_precision=True)


@pytest.mark.parametrize("size", SIZES)
def test_published_points_lie_below_the_ceilings_of_their_machine(size):
    ax = draw(make_gpp(counters=True), size, levels=["DRAM"], published=POINTS)
    subject = next(text for text in ax.texts if text.get_gid() == "subject").get_text()
    assert (
        "published points of Other GPU (DRAM copy 800 GB/s, FP64 FMA 7.00 TFLOP/s)"
        in subject.replace("\n", " ")
    )
    assert ("D", 6, 3e12) in markers(ax)
    assert ("D", 4, 3e12) not in markers(ax)  # the point of L2
    dashed = segments(ax, "--")
    assert any(start[0] == 20 and end == (20, 7e12) for start, end in dashed)
    assert any(start == (4e12 / 800e9, 4e12) and end[1] == 4e12 for start, end in dashed)
    roofs = segments(ax, "-.")
    assert any(end == pytest.approx((7e12 / 800e9, 7e12)) for _, end in roofs)
    assert not clashes(ax)
    assert not outside(ax)


def test_own_points_lie_below_own_ceilings():
    ceilings = {"DRAM": 800e9, "L2": 3e12, "FP64": 7e12}
    ax = ado.roofline(points=[("mine", 3e12, 6.0), ("naive", 1e11, 0.5)], ceilings=ceilings)
    ax.figure.draw_without_rendering()
    assert {("D", 6, 3e12), ("D", 0.5, 1e11)} <= markers(ax)
    assert {"stated ceilings", "DRAM bytes, stated"} <= set(legend_words(ax))
    assert not any("measured" in w for w in legend_words(ax))
    words = [text.get_text() for text in ax.texts]
    assert any(w.startswith("DRAM copy 800 GB/s") for w in words)
    assert any(w.startswith("L2 read 3.00 TB/s") for w in words)
    assert not clashes(ax)
    levels, tensor = ["DRAM", "FP16 tensor"], {"FP16 tensor": 9e12}
    ax = ado.roofline(points=[("mine", 3e12, 6.0)], ceilings=ceilings | tensor, levels=levels)
    ax.figure.draw_without_rendering()
    assert any(t.get_text().startswith("FP16 tensor 9.00 TFLOP/s") for t in ax.texts)
    both = ado.roofline(make_gpp(counters=True), points=[("mine", 3e12, 6.0)], levels=["DRAM"])
    assert ("D", 6, 3e12) in markers(both)
    assert len(markers(both)) > 1


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"points": [("a", 1.0, 2.0)]}, TypeError, "needs a sweep, a measurement, a machine, or"),
        ({"points": [("a", 1.0)], "ceilings": {"DRAM": 1e12, "FP64": 1e13}}, ValueError, "points"),
        ({"points": [("a", 0, 1)], "ceilings": {"DRAM": 1e12, "FP64": 1e13}}, ValueError, "positi"),
        ({"ceilings": {"DRAM": 1e12}}, ValueError, "must have DRAM and a precision"),
        ({"ceilings": {"DRAMM": 1e12}}, ValueError, "did you mean 'DRAM'"),
        ({"ceilings": {"DRAM": "1", "FP64": 1}}, TypeError, "numbers"),
    ],
)
def test_wrong_points_and_ceilings(given, error, words):
    with pytest.raises(error, match=words):
        ado.roofline(**given)


# --- Tensor cores and the link to the host --------------------------------------------------------


def with_optional(machine=H200):
    """The machine with ceilings of tensor cores and of the host link."""
    tensor = [
        dataclasses.replace(ceiling("tensor", "FP64 mma", 61e12), level="FP64 tensor"),
        dataclasses.replace(ceiling("tensor", "TF32 mma", 420e12), level="TF32 tensor"),
    ]
    link = [
        Ceiling(kind="link", level="host link", operation=operation, measured=measured)
        for operation, measured in (
            ("pageable to device", 21e9),
            ("pinned to device", 55e9),
            ("pinned both ways", 100e9),
        )
    ]
    return dataclasses.replace(machine, ceilings=(*machine.ceilings, *tensor, *link))


def roof_labels(ax):
    return {text.get_text().partition(" (")[0] for text in ax.texts}


def test_tensor_cores_and_the_link_are_drawn_on_request():
    sweep = make_gpp(with_optional())
    optional = ("tensor", "link")
    default = " ".join(roof_labels(draw(sweep)) | set(legend_words(draw(sweep))))
    assert not any(word in default for word in optional)
    ax = draw(sweep, levels=["DRAM", "FP64 tensor", "host link"])
    shown = roof_labels(ax)
    assert "FP64 tensor 61.0 TFLOP/s" in shown
    assert {w for w in shown if "link" in w} == {
        "host link pageable to device 21.0 GB/s",
        "host link pinned to device 55.0 GB/s",
    }
    assert not any("TF32 tensor" in word for word in shown)
    assert any(text.startswith("DRAM: memory-bound") for text in shown), "not of the link"
    assert not clashes(ax)
    # Neither changes the nearest roof.
    assert ax.get_title(loc="left") == draw(sweep, levels=["DRAM"]).get_title(loc="left")


@pytest.mark.parametrize("levels", [["host link"], ["FP64 tensor"], ["DRAM", "FP8 tensor"]])
def test_requested_ceilings_must_exist_beside_a_memory_level(levels):
    rule = r"levels must be memory levels with a ceiling \(DRAM, L2\), and also host link, FP64 ten"
    with pytest.raises(ValueError, match=rule):
        draw(make_gpp(with_optional()), levels=levels)


def test_points_are_compared_with_the_roof_of_their_precision():
    matrix = Inputs.of([("a", (512, 512), "float32")])
    rates = {"flops": 4e10, "executed_flops": 4e10, "bytes": 2e6, "requested_bytes": 2e6}
    single = Lab().measure(
        1e-3, routine="sums", variant="s", device="cuda", problem=matrix, **rates
    )
    sums = Sweep(routine="sums", measurements=(single,), machine=H200)
    title = draw([sums, make_gpp()]).get_title(loc="left").replace("\n", " ")
    assert title.startswith(f"sums: {100 * 4e13 / 63.8e12:.0f} % of FP32 FMA; gpp: ")
    assert 4e13 > 1.05 * 33.4e12  # above the FP64 roof of the other sweep


def test_points_above_the_fma_peak_are_compared_with_tensor_cores():
    fast = make_gpp(extra={"library": 1.5})
    rate = fast["library"].flops_per_second
    assert 1.05 * 33.4e12 < rate < 61e12
    without, ax = draw(fast), draw(dataclasses.replace(fast, machine=with_optional()))
    assert "library: above FP64" in without.get_title(loc="left")
    assert any("wrong counter or ceiling" in text for text in roof_labels(without))
    share = f"library: {100 * rate / 61e12:.0f} % of FP64 tensor"
    assert share in ax.get_title(loc="left")
    assert any({*line.get_ydata()} == {61e12} for line in ax.lines)
    assert not any("wrong counter or ceiling" in text for text in roof_labels(ax))
    sweep = dataclasses.replace(fast, machine=with_optional())
    m = sweep["library"]
    assert sweep.nearest_limit(m).share == pytest.approx(
        max(rate / 61e12, m.bytes_per_second / sweep.roof)
    )
    words = [str(evidence) for evidence in m.limiter.evidence]
    assert any("of the measured FP64 tensor peak" in text for text in words)
