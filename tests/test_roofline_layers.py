"""Layers of a roofline: memory levels, points per precision, published points."""

import dataclasses

import pytest
from charting import (
    H200,
    SIZES,
    ceiling,
    clashes,
    draw,
    legend_words,
    make_gpp,
    make_machine,
    outside,
)

from adokernels.charts.published import PublishedPoint, PublishedPoints

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


def test_part_of_each_requested_ceiling_is_visible():
    l1 = ceiling("bandwidth", "L1 read", 33e12)
    machine = dataclasses.replace(H200, ceilings=(*H200.ceilings, l1))
    sweep = make_gpp(machine, counters=True)
    assert any("off scale" in w and "L1 read" in w for w in legend_words(draw(sweep)))
    ax = draw(sweep, levels=["DRAM", "L2", "L1"])
    ridge = 33.4e12 / 33e12
    assert ax.get_xlim()[0] < ridge / 3
    assert not any("off scale" in w and "L1 read" in w for w in legend_words(ax))


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


def test_the_chart_of_the_machine_itself_has_its_ceilings_once():
    ax = draw(OTHER, published=dataclasses.replace(POINTS, points=(COMPLETE,)))
    assert not segments(ax, "-.")
    assert {("D", 6, 3e12), ("D", 4, 3e12)} <= markers(ax)
    assert not any("one coordinate" in words for words in legend_words(ax))


def test_the_frame_contains_published_points():
    slow = PublishedPoint(label="slow", flops_per_second=1e9, intensities={"DRAM": 0.1})
    ax = draw(make_gpp(), published=PublishedPoints(machine=OTHER, points=(slow,)))
    assert ax.get_xlim()[0] < 0.1
    assert ax.get_ylim()[0] < 1e9
