"""Rooflines of several sweeps and machines, the kinds of charts, and identifiers of points."""

import dataclasses
import re

import pytest
from charting import (
    CPU,
    H200,
    SIZES,
    clashes,
    draw,
    legend_words,
    make_gpp,
    make_transpose,
    outside,
    with_peers,
)

from adokernels.charts.files import to_svg

EPYC = dataclasses.replace(CPU, name="AMD EPYC 9654 96-Core Processor")


def renamed(sweep, routine):
    """The sweep with the name of another routine."""
    ours = tuple(dataclasses.replace(m, routine=routine) for m in sweep)
    return dataclasses.replace(sweep, routine=routine, measurements=ours)


def two_routines(counters=True):
    other = renamed(make_gpp(scale=0.5, counters=counters), "other")
    return [make_gpp(counters=counters), other]


SEVERAL = {
    "two routines": two_routines,
    "two machines": lambda: [make_gpp(counters=True), make_gpp(EPYC, scale=0.01)],
    "two routines on two machines": lambda: [*two_routines(), make_gpp(EPYC, scale=0.01)],
    "bandwidth": lambda: [make_transpose(), renamed(make_transpose(), "other")],
    "bandwidth of two machines": lambda: [make_transpose(), make_transpose(EPYC, scale=100)],
    "machines": lambda: [H200, EPYC],
}


def subject(ax):
    words = next(text.get_text() for text in ax.texts if text.get_gid() == "subject")
    return words.replace("\n", " ")


def flat_lines(ax):
    """The line style at each height of a horizontal line through the right limit."""
    right = ax.get_xlim()[1]
    return {
        float(line.get_ydata()[0]): line.get_linestyle()
        for line in ax.lines
        if len(line.get_xdata()) == 2
        and line.get_xdata()[-1] == right
        and line.get_ydata()[0] == line.get_ydata()[1]
    }


@pytest.mark.parametrize("size", [SIZES[1], (9.0, 9.0)])
@pytest.mark.parametrize("what", SEVERAL)
def test_no_words_overlap(what, size):
    ax = draw(SEVERAL[what](), size)
    assert not clashes(ax)
    assert not outside(ax)


def test_each_sweep_has_its_colour_and_the_ceilings_are_drawn_once():
    first, second = two_routines()
    ax = draw([first, second])
    alone = draw(first)
    for words in ("DRAM copy", "FP64 FMA"):
        labels = [[t for t in each.texts if t.get_text().startswith(words)] for each in (ax, alone)]
        assert [len(found) for found in labels] == [1, 1]
    colours = {}
    for sweep in (first, second):
        name = sweep.routine
        label = next(t for t in ax.texts if t.get_text().startswith(f"{name}: fused"))
        colours[name] = label.get_color()
        m = sweep["fused"]
        drawn = {
            line.get_color()
            for line in ax.lines
            if line.get_xdata()[0] == m.counted_flops / m.counted_bytes["DRAM"]
            and line.get_ydata()[0] == m.counted_flops / m.seconds
            and line.get_marker() == "o"
        }
        assert drawn == {colours[name]}
    assert colours["gpp"] != colours["other"]
    assert {"gpp", "other"} <= set(legend_words(ax))
    assert "gpp: " in ax.get_title(loc="left")
    assert "other: " in ax.get_title(loc="left")


def test_the_ceilings_of_each_machine_have_their_line_style_and_the_title_names_it():
    h200, epyc = make_gpp(counters=True), make_gpp(EPYC, scale=0.01)
    ax = draw([h200, epyc], SIZES[1])
    words = subject(ax)
    assert "NVIDIA H200 (solid)" in words
    assert "AMD EPYC 9654 96-Core Processor, 8 threads (dashed)" in words
    assert flat_lines(ax) == {33.4e12: "-", 410e9: "--"}
    labels = [t.get_text() for t in ax.texts]
    for label in ("H200 DRAM copy 4.27 TB/s", "EPYC 9654 DRAM copy 62.0 GB/s"):
        assert label in labels
    assert not any("L2" in label for label in labels)
    title = ax.get_title(loc="left").replace("\n", " ")
    assert re.match(r"gpp on H200: \d+ % of .*; gpp on EPYC 9654: \d+ % of ", title)
    with_l2 = draw([h200, epyc], SIZES[1], levels=["DRAM", "L2"])
    assert any("L2" in t.get_text() for t in with_l2.texts)


def test_points_are_compared_with_the_ceilings_of_their_machine():
    h200, epyc = make_gpp(counters=True), make_gpp(EPYC, scale=0.01)
    parts = draw([epyc, h200]).get_title(loc="left").replace("\n", " ").split("; ")
    share = epyc.fastest.flops_per_second / 410e9
    assert f"gpp on EPYC 9654: {100 * share:.0f} % of FP64 FMA" in parts
    fast = dataclasses.replace(epyc.fastest, samples=epyc.fastest.samples / 20)
    wrong = dataclasses.replace(epyc, measurements=(fast,))
    badges = [t.get_text() for t in draw([h200, wrong]).texts if "above the roof" in t.get_text()]
    assert badges
    assert fast.flops_per_second < 33.4e12


def test_a_chart_has_at_most_four_machines():
    machines = [dataclasses.replace(H200, name=f"GPU {i}") for i in range(5)]
    with pytest.raises(ValueError, match="at most 4 machines, got GPU 0, GPU 1"):
        draw(machines)


def test_a_measurement_under_the_ceilings_of_another_machine_is_stated():
    m = dataclasses.replace(make_gpp()["fused"], context={"device_name": "Other GPU"})
    assert "measured on Other GPU" in subject(draw(m, machine=H200))
    here = dataclasses.replace(m, context={"device_name": "NVIDIA H200"})
    assert "measured on" not in subject(draw(here, machine=H200))


def test_bandwidths_of_two_machines_have_their_own_ceilings_on_a_logarithmic_axis():
    h200, epyc = SEVERAL["bandwidth of two machines"]()
    ax = draw([h200, epyc], (10, 9))
    assert ax.get_xscale() == "log"
    ceilings = {
        float(line.get_xdata()[0]): sorted(line.get_ydata())
        for line in ax.lines
        if len(line.get_xdata()) == 2 and line.get_xdata()[0] == line.get_xdata()[1]
    }
    assert {4.27e12, 62e9} <= set(ceilings)
    assert ceilings[4.27e12][1] <= ceilings[62e9][0], "each only beside its own rows"
    assert not any("L3 read" in t.get_text() for t in ax.texts), "it is no limit of these rows"
    assert any("EPYC 9654 L3 read 310 GB/s" in words for words in legend_words(ax))
    similar = dataclasses.replace(H200, name="Other GPU")
    assert draw([h200, make_transpose(similar)], (10, 9)).get_xscale() == "linear"


@pytest.mark.parametrize(
    ("what", "kind", "message"),
    [
        (make_transpose, "roofline", r"needs FLOPs, which transpose\[copy\], .* and 4 more lack"),
        (make_gpp, "instructions", "needs hardware counters, .*counters=True"),
        (lambda: H200, "bandwidth", "needs measurements, got a machine alone"),
        (lambda: H200, "instructions", "needs measurements, got a machine alone"),
        (make_gpp, "area", "kind must be 'roofline', .*, got 'area'"),
        (
            lambda: dataclasses.replace(make_gpp(), machine=None),
            "roofline",
            r"needs memory and compute ceilings, which gpp lacks: pass machine=",
        ),
        (
            lambda: [make_gpp(), dataclasses.replace(make_gpp(), machine=None)],
            None,
            "which gpp lacks",
        ),
    ],
)
def test_a_kind_says_what_it_needs(what, kind, message):
    with pytest.raises(ValueError, match=message):
        draw(what(), kind=kind)


#: More DRAM traffic than the copy ceiling allows: the roof of DRAM is its read ceiling.
READING = make_gpp(CPU, scale=0.3, counters=True)


@pytest.mark.parametrize("left_out", [["DRAM read"], ["fma"], ["L"], ["read", "FP"]])
def test_a_chart_lacks_ceilings_that_were_refused(left_out):
    """Under load, any ceiling except DRAM copy may be refused."""
    kept = [c for c in CPU.ceilings if not any(word in c.name for word in left_out)]
    machine = dataclasses.replace(CPU, ceilings=tuple(kept))
    ax = draw(dataclasses.replace(READING, machine=machine))
    assert ("FLOP" in ax.get_xlabel()) == ("FP" not in left_out)


# Identifiers.


def identified(ax):
    """The sweep and the row of each identifier in the SVG of a chart."""
    svg = to_svg(ax.figure).decode()
    found = re.findall(r'id="point-(\d+)-(\d+)-(\d+)"', svg)
    assert len({number for *_, number in found}) == len(found), "identifiers must be unique"
    return {(int(sweep), int(row)) for sweep, row, _ in found}


@pytest.mark.parametrize("kind", ["roofline", "bandwidth"])
def test_every_point_has_the_position_of_its_measurement(kind):
    sweep = with_peers(make_gpp(counters=True))
    rows = range(len(sweep) + len(sweep.peers))
    assert identified(draw(sweep, kind=kind)) == {(0, row) for row in rows}
    both = [sweep, make_gpp()]
    expected = {(0, row) for row in rows} | {(1, row) for row in range(len(make_gpp()))}
    assert identified(draw(both, kind=kind)) == expected
