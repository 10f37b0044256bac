"""Tables, charts and reports of synthetic records, without a device or measured times."""

from __future__ import annotations

import dataclasses
import functools
import math
import re

import numpy as np
import pytest
from charting import (
    CHARTS,
    H200,
    SIZES,
    clashes,
    counters_of,
    draw,
    legend_words,
    make_gpp,
    make_transpose,
    outside,
    with_last,
    with_mix,
    with_peers,
)
from matplotlib import colors

from adokernels.charts import canvas
from adokernels.charts.files import save
from adokernels.charts.roofline import above_roof
from adokernels.records.sweep import Sweep
from adokernels.text import bounds, quantity, ratio

# Numbers as text.


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        *[(3.21e-3, "s", "3.21 ms"), (999.96e-6, "s", "1.00 ms"), (12345, "s", "12300 s")],
        *[(167e9, "B/s", "167 GB/s"), (0.9999e12, "B/s", "1.00 TB/s")],
        *[(33.4e12, "FLOP/s", "33.4 TFLOP/s"), (0, "B/s", "0 B/s"), (math.inf, "B/s", "inf B/s")],
        (5e-15, "s", "0.00500 ps"),
    ],
)
def test_quantities_have_three_digits_and_a_prefix(value, unit, words):
    assert quantity(value, unit) == words


def with_samples(sweep, count, **changes):
    """The sweep with the given number of samples of its last variant."""
    *others, last = sweep.measurements
    last = dataclasses.replace(last, samples=last.samples[:count])
    return dataclasses.replace(sweep, measurements=(*others, last), **changes)


def test_bounds_of_intervals_are_asymmetric():
    assert bounds(0.992, 1.0, 1.015) == "-0.8 +1.5 %"
    assert bounds(1.0, 1.0, 12.5) == "-0.0 +1150 %"
    *others, last = make_transpose().measurements
    last = dataclasses.replace(last, samples=np.array([1.0] * 20 + [1.2] * 21))
    sweep = Sweep(routine="transpose", measurements=(*others, last))
    low, high = last.interval
    assert (low, last.seconds, high) == (1.0, 1.2, 1.2)
    row = next(line for line in repr(sweep).splitlines() if last.variant in line)
    assert "-17 +0.0 %" in row


@pytest.mark.parametrize("count", [1, 2, 10, 11])
def test_few_samples_have_a_range_and_no_interval(count):
    sweep = with_samples(make_transpose(), count)
    m = sweep.measurements[-1]
    words = repr(sweep).replace("\n", " ")
    assert m.confidence == (0.95 if count >= 11 else None)
    assert sweep.records()[-1]["confidence"] == m.confidence
    assert m.interval == (m.samples.min(), m.samples.max()) or count == 11
    assert ("(range)" in words) == (1 < count < 11)
    assert ("95 % CI" in repr(m)) == (count == 11)
    comparison = m.compare(sweep["naive"])
    assert (comparison.verdict == "faster") == (count >= 10)  # they differ by more than 2
    assert ("99.9 %" in repr(comparison)) == (count == 11)


# Tables.


def test_records_are_ratios_of_times_of_times_without_ceilings():
    sweep = make_transpose()
    copy, naive, coalesced, *_, last = sweep.records()
    assert copy["ceiling"]
    assert copy["speedup"] is copy["step_speedup"] is copy["verdict"] is None
    assert naive["speedup"] == 1.0
    assert naive["step_speedup"] is None
    assert coalesced["step_speedup"] == naive["seconds"] / coalesced["seconds"]
    assert coalesced["verdict"] == "faster"
    assert last["speedup"] == naive["seconds"] / last["seconds"]
    assert last["speedup"] == pytest.approx(2.0 / 0.13, rel=0.01)
    assert last["share_of_roof"] == last["bytes_per_second"] / sweep.roof


def test_each_share_has_one_meaning():
    fast = with_last(make_gpp(), 3)
    record, last = fast.records()[-1], fast.measurements[-1]
    assert record["share_of_roof"] == record["bytes_per_second"] / fast.roof
    assert record["share_of_peak"] == pytest.approx(record["flops_per_second"] / 33.4e12)
    assert fast.nearest_limit(last) == (record["share_of_peak"], "FMA peak")
    assert str(fast.nearest_limit(last)) == "77 % of FMA peak"
    assert (fast.limit, fast.share_of_limit(last)) == ("FMA peak", record["share_of_peak"])
    assert record["share_of_mix_limit"] is None  # the instructions are not counted
    fused = dataclasses.replace(last, executed_instructions=last.executed_flops / 1.5)
    assert fast.share_of_mix_limit(fused) == pytest.approx(record["share_of_peak"] / 0.75)
    assert fast.share_of_mix_limit(dataclasses.replace(fused, device="cpu")) is None
    moved = make_transpose()
    assert moved.limit == "roof"
    assert moved.fastest.variant == "asynchronous_bulk"
    assert moved["copy"].seconds < moved.fastest.seconds, "a ceiling is not a variant"
    assert moved.share_of_peak(moved.fastest) is moved.share_of_mix_limit(moved.fastest) is None
    assert moved.share_of_limit(moved.fastest) == moved.share_of_roof(moved.fastest)
    assert dataclasses.replace(moved, measurements=()).limit == "roof"


def test_a_sweep_is_a_sequence_of_its_measurements():
    sweep = with_peers(make_transpose())
    assert sweep[0] is sweep.measurements[0]
    assert sweep[-1] is sweep.measurements[-1]
    assert sweep[1:3] == sweep.measurements[1:3]
    assert sweep[::-1] == tuple(reversed(sweep))
    assert sweep["numpy"] is sweep.peers[-1]
    with pytest.raises(IndexError):
        sweep[len(sweep)]
    twin = dataclasses.replace(sweep[1], variant=sweep.peers[0].variant)
    assert dataclasses.replace(sweep, measurements=(twin,))["torch"].variant == "torch"
    assert dataclasses.replace(sweep, measurements=(twin,))["torch"] is not sweep.peers[0]


def test_an_empty_sweep_still_has_a_table():
    empty = Sweep(routine="gpp", measurements=(), skipped={"naive": "declined"}, machine=H200)
    assert "skipped naive: declined" in repr(empty)
    assert "skipped naive" in empty._repr_html_()


# Charts.


@functools.cache
def drawn_once(chart, size):
    """A chart that several tests read."""
    return draw(CHARTS[chart](), size)


def shown(chart):
    return drawn_once(chart, SIZES[0])


#: Charts that are also drawn in a larger figure.
LARGER = ("transpose, counters", "transpose, peers", "gpp, crowded", "gpp, CPU, mix", "CPU")


@pytest.mark.parametrize(
    ("chart", "size"), [(c, s) for s in SIZES for c in (CHARTS if s == SIZES[0] else LARGER)]
)
def test_no_words_overlap(chart, size):
    ax = drawn_once(chart, size)
    assert not clashes(ax)
    assert not outside(ax)


def test_the_bandwidth_view_has_the_variants_from_top_to_bottom():
    sweep, ax = make_transpose(), shown("transpose")
    assert ax.yaxis_inverted()
    bars = [(bar.get_y(), bar.get_width()) for bar in ax.patches]
    assert bars == sorted(bars)
    assert [width for _, width in bars] == [m.bytes_per_second for m in sweep]
    words = " ".join(text.get_text() for text in ax.texts)
    for expected in ("DRAM copy 4.27 TB/s", "DRAM theoretical 4.80 TB/s", ratio(2.22), "97 %"):
        assert expected in words


def places(ax, face):
    """Positions of the markers with one face colour, except the ridge points."""
    return {
        (float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        for line in ax.lines
        if len(line.get_xdata()) == 1
        and line.get_markersize() > 5
        and colors.same_color(line.get_markerfacecolor(), face)
    }


def test_points_of_a_variant_are_on_one_line_one_per_level():
    sweep = make_gpp(counters=True)
    names = ("naive", "fused")
    ax = draw(sweep, highlight=names)
    for level in ("L1", "L2", "DRAM"):
        assert places(ax, canvas.level_style(level)[0]) == {
            (m.counted_flops / m.counted_bytes[level], m.counted_flops / m.seconds)
            for m in map(sweep.__getitem__, names)
        }
    for m in map(sweep.__getitem__, names):
        xs = [m.counted_flops / moved for moved in m.counted_bytes.values()]
        ends = [min(xs), max(xs)]
        assert [line for line in ax.lines if list(line.get_xdata()) == ends]
    assert "FLOPs counted" in legend_words(ax)[0]


def named(ax):
    words = [text.get_text() for text in ax.texts]
    return {word.partition(",")[0] for word in words if re.search(", [0-9.]+ m?s$", word)}


def test_few_variants_have_colour_and_names():
    sweep = make_gpp(counters=True)
    ax = shown("gpp, counters")
    assert named(ax) == {"naive", "fused", "reciprocal"}  # first, fastest, largest step
    assert named(draw(sweep, highlight=["hoisted"])) == {"hoisted"}
    assert named(draw(sweep, highlight=[])) == set()
    assert named(draw(sweep.measurements[:3], machine=H200)) == {"naive", "hoisted", "reciprocal"}
    assert "3 other variants" in legend_words(ax)
    with pytest.raises(ValueError, match=r"highlight must name measured .*got nonsense"):
        draw(sweep, highlight=["nonsense"])


def test_only_roofs_of_the_precision_in_play_are_drawn():
    """A ceiling of the other precision may have the same value, as on CPUs."""
    for chart in ("gpp", "gpp, CPU"):
        words = " ".join(t.get_text() for t in shown(chart).texts)
        assert "FP64 FMA" in words
        assert "FP32" not in words


def dotted(ax):
    """The start, end and height of the horizontal dotted lines."""
    lines = [line for line in ax.lines if line.get_linestyle() == ":"]
    ends = [(*line.get_xdata(), *line.get_ydata()) for line in lines]
    return [(start, end, low) for start, end, low, high in ends if low == high]


def test_the_mix_of_instructions_has_a_roof():
    sweep = with_mix(make_gpp())
    ax, bare = shown("gpp, mix"), shown("gpp")
    ((start, end, height),) = dotted(ax)
    assert height == pytest.approx(33.4e12 * 1.58 / 2)
    assert start == pytest.approx(max(ax.get_xlim()[0], height / H200["L2 read"].measured))
    assert end == ax.get_xlim()[1]
    assert "FP64 mix limit, 58 % FMA 26.4 TFLOP/s" in [text.get_text() for text in ax.texts]
    assert not dotted(bare)
    assert len(dotted(draw(sweep, annotate=False))) == 1
    assert "58 % FMA" in repr(sweep["fused"])


def badge(ax):
    return next((text for text in ax.texts if "above the roof" in text.get_text()), None)


@pytest.mark.parametrize("annotate", [True, False])
@pytest.mark.parametrize(("chart", "faster"), [("transpose", 1.2), ("gpp", 6)])
def test_a_point_above_its_roof_gets_a_badge(chart, faster, annotate):
    assert badge(shown(chart)) is None
    wrong = with_last(CHARTS[chart](), faster)
    ax = draw(wrong, annotate=annotate)
    assert wrong.measurements[-1].variant in badge(ax).get_text()
    assert not clashes(ax)


def test_counters_above_a_roof_are_noticed_but_requests_are_not():
    m = make_gpp()["fused"]
    assert not above_roof(m, H200)
    assert not above_roof(dataclasses.replace(m, requested_bytes=1e12), H200)
    assert above_roof(dataclasses.replace(m, profile=counters_of(0, L2=1e12)), H200)
    fast = dataclasses.replace(m, bytes=1e12)
    assert above_roof(fast, H200)
    assert not above_roof(dataclasses.replace(fast, cache="warm"), H200)
    for share in (0.99, 1.01):  # of the bytes that may be in the cache
        context = {"last_level_cache_bytes": share * fast.bytes / 4}
        assert above_roof(fast, dataclasses.replace(H200, context=context)) == (share < 1)


def test_what_can_be_drawn():
    sweep = make_gpp()
    for what in (sweep.measurements[0], sweep.measurements, list(sweep)):
        assert draw(what, machine=H200).get_xscale() == "log"
    assert draw(make_transpose().measurements).get_xscale() == "linear"
    assert draw(sweep.measurements).get_xscale() == "log"  # they carry the ceilings
    with pytest.raises(ValueError, match="pass machine="):
        draw(dataclasses.replace(sweep, machine=None).measurements)
    compute_only = dataclasses.replace(H200, ceilings=H200.of_kind("compute"))
    with pytest.raises(ValueError, match="pass machine="):
        draw(sweep, machine=compute_only)
    with pytest.raises(ValueError, match="at least one measurement, got none"):
        draw([])


def test_one_intensity_for_all_is_shown_as_bandwidth():
    """With equal memory-bound intensities, the horizontal positions carry no information."""
    sweep = make_gpp()
    same = [dataclasses.replace(m, requested_bytes=8 * m.executed_flops) for m in sweep]
    assert "bandwidth" in draw(same, machine=H200).get_xlabel()
    beyond_the_ridge = [
        dataclasses.replace(m, requested_bytes=m.executed_flops / 1000) for m in sweep
    ]
    for other in (same[:1], [*same[:-1], sweep.variants[-1]], beyond_the_ridge):
        assert "intensity" in draw(other, machine=H200).get_xlabel()


def test_a_ladder_whose_fastest_variant_has_no_flops_is_shown_as_bandwidth():
    best, *rest = sorted(make_gpp().variants, key=lambda m: m.seconds)
    integers = dataclasses.replace(best, flops=0, executed_flops=0)
    assert "intensity" in draw([*rest, best], machine=H200).get_xlabel()
    assert "bandwidth" in draw([*rest, integers], machine=H200).get_xlabel()


def test_a_ladder_that_only_reads_stands_under_the_reading_roof():
    sweep = make_gpp()
    first = sweep.variants[0]
    rate = H200["DRAM read"].measured
    read = dataclasses.replace(
        first,
        variant="read",
        ceiling=True,
        executed_flops=0,
        samples=first.samples * 0 + first.bytes / rate,
    )
    with_read = dataclasses.replace(sweep, measurements=(read, *sweep))
    for ax, roof in ((shown("gpp"), "DRAM copy"), (draw(with_read), "DRAM read")):
        words = [text.get_text() for text in ax.texts]
        assert any(word.startswith(roof) for word in words), words


def test_files_hold_no_date(tmp_path):
    magic = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    for suffix, start in magic.items():
        path = tmp_path / f"chart.{suffix}"
        save(shown("H200").figure, path)
        content = path.read_bytes()
        assert content.startswith(start)
        assert b"<dc:date>" not in content
        assert b"CreationDate" not in content
