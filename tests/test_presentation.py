"""Tables, charts and reports of synthetic records, without a device or measured times."""

from __future__ import annotations

import dataclasses
import math
import re

import matplotlib as mpl
import numpy as np
import pytest
from charting import (
    BAD,
    CHARTS,
    CPU,
    CROWD,
    H200,
    SIZES,
    WIDE,
    ceiling,
    clashes,
    counters_of,
    draw,
    legend_words,
    make_gpp,
    make_transpose,
    new_figure,
    outside,
    with_last,
    with_mix,
    with_peers,
    words_of,
)
from matplotlib import colors
from matplotlib.legend import Legend
from pages import Balanced

from adobook.text import write_rich_table
from adokernels.charts import canvas
from adokernels.charts.files import save, to_svg
from adokernels.charts.roofline import above_roof, roofline
from adokernels.diagnosis.diagnosis import diagnose
from adokernels.measuring.comparing import compare
from adokernels.records.inputs import Inputs
from adokernels.records.loading import load
from adokernels.records.scan import Scan
from adokernels.records.sweep import Sweep
from adokernels.tables.measurements import sweep_table, verdict_cell
from adokernels.tables.rendering import to_html, to_text
from adokernels.text import bounds, quantity, ratio

WIDTH = 114


# Numbers as text.


@pytest.mark.parametrize(
    ("value", "unit", "words"),
    [
        (3.21e-3, "s", "3.21 ms"),
        (999.96e-6, "s", "1.00 ms"),
        (12345, "s", "12300 s"),
        (167e9, "B/s", "167 GB/s"),
        (0.9999e12, "B/s", "1.00 TB/s"),
        (33.4e12, "FLOP/s", "33.4 TFLOP/s"),
        (0, "B/s", "0 B/s"),
        (math.inf, "B/s", "inf B/s"),
        (5e-15, "s", "0.00500 ps"),
    ],
)
def test_quantities_have_three_digits_and_a_prefix(value, unit, words):
    assert quantity(value, unit) == words


def test_a_measurement_in_one_line():
    line = repr(make_gpp()["fused"])
    pattern = (
        r"gpp\[fused\] on cuda, cold: 9\.\d+ ms \(95 % CI 9\.\d+ to 9\.\d+, 41 samples\), "
        r"\d+ GB/s, \d\.\d\d TFLOP/s"
    )
    assert re.fullmatch(pattern, line)


def test_the_interval_is_written_with_digits_that_tell_its_ends_apart():
    low, high = re.search(r"CI ([\d.]+) to ([\d.]+)", repr(make_gpp()["naive"])).groups()
    assert float(low) < float(high)


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
    assert ("fewer than 11 samples" in words) == (count < 11)
    assert ("95 % CI" in repr(m)) == (count == 11)
    assert f"{count} sample{'s' if count > 1 else ''})" in repr(m)
    comparison = m.compare(sweep["naive"])
    assert (comparison.verdict == "faster") == (count >= 10)  # they differ by more than 2
    assert ("99.9 %" in repr(comparison)) == (count == 11)
    assert f"{count} samples" in repr(comparison) or count == 11


def test_unclear_differs_from_same():
    verdicts = {verdict: verdict_cell(verdict) for verdict in ("same", "unclear")}
    assert verdicts["same"].style != verdicts["unclear"].style
    sweep = with_samples(make_transpose(), 5)
    table = sweep_table(sweep)
    assert "<em>unclear</em>" in to_html(table)
    assert "| *unclear* |" in write_rich_table(table)


def test_an_interrupted_sweep_says_so():
    sweep = with_samples(make_transpose(), 5, interrupted=True)
    assert sweep.title.endswith(", cold, interrupted")
    assert "interrupted: samples" in sweep_table(sweep).caption.plain
    assert "interrupted" not in repr(make_transpose())


def test_flags_are_said():
    flagged = dataclasses.replace(make_gpp()["fused"], flags=("throttled",))
    assert "throttled" in repr(flagged)
    assert "fused: throttled" in repr(Sweep(routine="gpp", measurements=(flagged,)))


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


def test_cold_and_warm_are_never_compared():
    cold = make_gpp()
    warm = dataclasses.replace(cold.measurements[1], cache="warm")
    mixed = dataclasses.replace(cold, measurements=(cold.measurements[0], warm))
    record = mixed.records()[1]
    assert record["speedup"] is record["step_speedup"] is record["verdict"] is None


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


def test_records_with_entries_are_sequences():
    sweep = make_transpose(counters=True)
    scan = Scan(routine="transpose", sweeps=(sweep, make_transpose()))
    records = [scan, compare(sweep, sweep), diagnose(sweep)]
    for record in records:
        assert record[0] is next(iter(record))
        assert record[-1] is record[len(record) - 1]
        assert len(record[1:]) == len(record) - 1
        with pytest.raises(KeyError):
            record["nothing"]
    assert records[1]["tiled"].variant == records[2]["tiled"].variant == "tiled"


def test_peers_come_last_and_are_no_steps():
    for sweep in (with_peers(make_transpose()), with_peers(make_gpp())):
        records = sweep.records()
        assert [r["variant"] for r in records if r["peer"]] == ["torch", "numpy"]
        assert records[: len(sweep)] == dataclasses.replace(sweep, peers=()).records()
        peer, m = records[-1], sweep["numpy"]
        assert peer["speedup"] == sweep["naive"].seconds / m.seconds
        assert peer["seconds"] == m.seconds
        assert peer["bytes_per_second"] == m.bytes_per_second
        assert peer["share_of_roof"] == sweep.share_of_roof(m)
        for unknown in ("step_speedup", "verdict", "flops_per_second", "intensity"):
            assert peer[unknown] is None
        assert "peer" in sweep.to_frame().columns
        last = repr(sweep).split("numpy (peer)")[1].splitlines()[0]
        assert last.count(ratio(1)[0]) == 1, "only the total speed-up is shown"


def test_peers_need_no_variants_and_their_flags_are_shown():
    peer = dataclasses.replace(with_peers(make_gpp()).peers[0], flags=("throttled",))
    alone = Sweep(routine="gpp", measurements=(), peers=(peer,))
    assert alone.records()[0]["speedup"] is None
    assert "torch: throttled" in repr(alone)


def test_a_table_without_flops_has_no_flop_columns():
    text = repr(make_transpose())
    assert "FLOP" not in text
    assert "copy (ceiling)" in text
    assert "skipped clusters: needs sm_100" in text
    assert text.startswith("transpose, a: (8192, 8192) float32, NVIDIA H200, cold")
    for heading in ("executed", "AI", "[TFLOP/s]", "FMA"):
        assert heading in repr(make_gpp())


def test_a_cpu_table_says_threads():
    assert "EPYC 9654, 8 threads, cold" in repr(make_gpp(CPU))


def test_a_narrow_table_keeps_its_numbers_whole():
    table = sweep_table(make_gpp())
    for width in (20, 60, WIDTH):
        text = to_text(table, width)
        assert "…" not in text
        assert re.search(r"[^\d.]19\.[789] ", text), "the total speed-up"
    assert max(map(len, to_text(table).splitlines())) <= WIDTH


def test_an_empty_sweep_still_has_a_table():
    empty = Sweep(routine="gpp", measurements=(), skipped={"naive": "declined"}, machine=H200)
    assert "skipped naive: declined" in repr(empty)
    assert "skipped naive" in empty._repr_html_()


def test_the_machine_table_compares_with_theory():
    text = repr(H200)
    assert re.search(r"DRAM copy +4\.27 TB/s +4\.80 TB/s +89 %", text)
    assert re.search(r"L2 read +5\.40 TB/s\n", text)


def test_html_is_escaped_and_balanced():
    sweep = make_transpose()
    wild = dataclasses.replace(sweep["naive"], variant=BAD)
    page = dataclasses.replace(sweep, measurements=(wild,))._repr_html_()
    assert BAD not in page
    assert "&lt;b&gt;&amp;" in page
    parser = Balanced.parse(page)
    assert parser.seen.count("table") == 1
    assert parser.seen.count("tr") == len(["head", "naive"])
    assert not re.search(r"[^-]color: ?#|background", page), "colours must be those of the page"


def test_only_ceilings_are_faded_in_html():
    assert make_transpose()._repr_html_().count("opacity") == 1
    assert "opacity" not in H200._repr_html_()


def test_markdown_is_well_formed():
    wild = dataclasses.replace(make_gpp()["naive"], variant="a|b*<i>")
    text = write_rich_table(sweep_table(Sweep(routine="gpp", measurements=(wild,))))
    assert r"a\|b\*\<i>" in text
    text = write_rich_table(sweep_table(make_transpose()))
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert len(rows) == 2 + 8
    assert len({len(re.findall(r"(?<!\\)\|", row)) for row in rows}) == 1
    assert re.fullmatch(r"(\| (:---|---:) )+\|", rows[1])


# Charts.


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("chart", CHARTS)
def test_no_words_overlap(chart, size):
    ax = draw(CHARTS[chart](), size)
    assert not clashes(ax)
    assert not outside(ax)


@pytest.mark.parametrize("chart", ["transpose, counters", "gpp, counters", "gpp, crowded", "CPU"])
def test_no_words_overlap_after_resizing_and_at_another_resolution(chart):
    ax = draw(CHARTS[chart]())
    ax.figure.set_size_inches(9, 4.8)
    ax.figure.set_dpi(150)
    ax.figure.draw_without_rendering()
    assert not clashes(ax)
    assert not outside(ax)


def test_no_words_overlap_in_a_wide_chart():
    l1 = ceiling("bandwidth", "L1 read", 31e12, 33.1e12)
    machine = dataclasses.replace(H200, ceilings=(*H200.ceilings, l1))
    assert not clashes(draw(make_gpp(machine, counters=True), WIDE))


def test_no_words_overlap_with_many_names_close_to_each_other():
    """Times that differ by 2 % give coinciding points."""
    sweep = make_gpp(counters=True, extra={f"variant_{i}": 9.5 - 0.2 * i for i in range(8)})
    ax = draw(sweep, SIZES[1], highlight=[m.variant for m in sweep])
    assert len(named(ax)) == len(sweep) == 14
    assert not clashes(ax)
    assert not outside(ax)


def test_the_overlap_test_fails_without_placement(monkeypatch):
    monkeypatch.setattr(canvas.Labels, "draw", lambda self, renderer: None)
    assert clashes(draw(make_gpp()))


def test_words_on_diagonals_follow_them_whatever_the_shape():
    for size in (*SIZES, WIDE):
        ax = draw(H200, size)
        text = next(text for text in ax.texts if text.get_text().startswith("DRAM copy"))
        start, end = ax.transData.transform([(1, 1e12), (10, 1e13)])
        slope = math.degrees(math.atan2(end[1] - start[1], end[0] - start[0]))
        assert text.get_rotation() == pytest.approx(slope)


def test_a_chart_in_a_grid_stays_in_its_axes():
    figure = new_figure((10, 8))
    grid = figure.subplots(2, 2)
    for ax, what in zip(grid.flat, (make_transpose(), make_gpp(), H200, CPU), strict=True):
        assert roofline(what, ax=ax) is ax
    figure.draw_without_rendering()
    for ax in grid.flat:
        assert not clashes(ax)
        assert not outside(ax)


def test_full_axes_depend_on_the_machine_alone():
    first = draw(make_gpp(), full=True)
    second = draw(make_gpp(counters=True, extra=CROWD), full=True)
    assert first.get_xscale() == first.get_yscale() == "log"
    assert "FLOP/byte" in first.get_xlabel()
    for ax in (second, draw(H200)):
        assert (ax.get_xlim(), ax.get_ylim()) == (first.get_xlim(), first.get_ylim())
    for limit in (*first.get_xlim(), *first.get_ylim()):
        assert math.log10(limit) == pytest.approx(round(math.log10(limit)))


def test_a_point_outside_extends_full_axes_by_whole_decades():
    inside = draw(make_gpp(), full=True)
    slow = draw(with_last(make_gpp(), 1e-3), full=True)
    assert slow.get_xlim() == inside.get_xlim()
    assert slow.get_ylim()[0] < inside.get_ylim()[0]
    exponent = math.log10(slow.get_ylim()[0])
    assert exponent == pytest.approx(round(exponent))


def test_axes_are_zoomed_to_the_points_and_the_roofs_above_them():
    for sweep in (make_gpp(), make_gpp(counters=True)):
        near, full = draw(sweep), draw(sweep, full=True)
        assert near.get_xlim()[0] > full.get_xlim()[0]
        assert near.get_ylim()[0] > full.get_ylim()[0]
        (left, right), (bottom, top) = near.get_xlim(), near.get_ylim()
        for line in near.lines:
            if line.get_marker() in ("o", "s", "^"):
                (x, *_), (y, *_) = line.get_data()
                assert left < x < right
                assert bottom < y < top
        assert right > 10 * left
        assert top > 10 * bottom


def test_a_roof_outside_the_axes_is_named():
    l1 = ceiling("bandwidth", "L1 read", 9e15)
    machine = dataclasses.replace(H200, ceilings=(*H200.ceilings, l1))
    beyond_l1 = [dataclasses.replace(m, requested_bytes=1e5) for m in make_gpp()]
    ax = draw(beyond_l1, machine=machine)
    assert any("off scale" in w and "L1 read 9.00 PB/s" in w for w in legend_words(ax))


def test_bandwidth_frames_are_equal_for_one_machine():
    """Their axis has the same range; the width of the columns beside it depends on the words."""
    few = dataclasses.replace(make_transpose(), measurements=make_transpose().measurements[:3])
    first, second = draw(few), draw(make_transpose())
    assert first.spines["bottom"].get_bounds() == second.spines["bottom"].get_bounds()
    assert [*first.get_xticks()] == [*second.get_xticks()]


def test_the_bandwidth_view_has_the_variants_from_top_to_bottom():
    sweep = make_transpose()
    ax = draw(sweep)
    assert ax.yaxis_inverted()
    assert ax.get_xlabel() == "Effective bandwidth [GB/s] (compulsory bytes / time)"
    bars = [(bar.get_y(), bar.get_width()) for bar in ax.patches]
    assert bars == sorted(bars)
    assert [width for _, width in bars] == [m.bytes_per_second for m in sweep]
    words = " ".join(text.get_text() for text in ax.texts)
    assert ax.get_title(loc="left").startswith("naive: 268 GB/s")
    for expected in (
        "DRAM copy 4.27 TB/s",
        "DRAM theoretical 4.80 TB/s",
        ratio(2.22),
        "100 %",  # the ceiling row is the roof
        "97 %",
    ):
        assert expected in words


def steps_of(ax):
    """The cells of the column of the steps: their rows and words."""
    words = [text.get_text() for text in ax.texts]
    cells = ax.texts[words.index("step") + 1 : words.index("of roof")]
    return [(text.get_position()[1], text.get_text()) for text in cells]


def test_peers_are_bars_of_their_own_look_without_steps():
    bare, sweep = draw(make_transpose()), with_peers(make_transpose())
    ax = draw(sweep)
    bars = ax.patches
    everything = (*sweep.measurements, *sweep.peers)
    assert [bar.get_width() for bar in bars] == [m.bytes_per_second for m in everything]
    looks = [(bar.get_facecolor(), bar.get_edgecolor()) for bar in bars]
    assert looks[-1] == looks[-2]
    assert looks.count(looks[-1]) == len(sweep.peers)
    assert steps_of(ax) == steps_of(bare)
    assert [row for row, _ in steps_of(ax)] == [*range(2, len(sweep))]  # after ceiling and first
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [m.variant for m in everything]
    assert "peer: code of another library" in legend_words(ax)
    assert "peer: code of another library" not in legend_words(bare)


def test_peers_are_markers_of_their_own_shape_without_steps():
    bare, sweep = draw(make_gpp()), with_peers(make_gpp())
    ax = draw(sweep)
    spots = {(m.intensity, m.flops_per_second): 0 for m in sweep.peers}
    for line in ax.lines:
        spot = (float(line.get_xdata()[0]), float(line.get_ydata()[0]))
        if line.get_marker() == "P":
            spots[spot] += 1
    assert set(spots.values()) == {1}
    assert not [line for line in bare.lines if line.get_marker() == "P"]
    assert {"torch", "numpy"} <= named(ax)
    assert "peer: useful FLOPs, compulsory bytes" in legend_words(ax)


def test_the_bandwidth_view_says_what_does_not_fit():
    sweep = make_transpose(CPU, scale=100)
    greedy = dataclasses.replace(sweep["naive"], requested_bytes=100 * sweep["naive"].bytes)
    ax = draw(dataclasses.replace(sweep, measurements=(greedy, *sweep.variants[1:])))
    assert any("requests 2" in text.get_text() for text in ax.texts)
    assert "off scale: L3 read 310 GB/s" in legend_words(ax)[0]
    assert not clashes(ax)
    assert not outside(ax)


def test_the_bandwidth_view_needs_no_machine():
    bars = dataclasses.replace(make_transpose(), machine=None)
    assert len(draw(bars).patches) == len(bars)


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


def test_without_counters_points_are_hollow():
    sweep = make_gpp()
    ax = draw(sweep, highlight=[m.variant for m in sweep])
    assert places(ax, "white") == {(m.intensity, m.flops_per_second) for m in sweep}
    assert "FLOPs by formula" in legend_words(ax)[0]


def test_variants_without_counters_are_named_if_others_have_them():
    sweep = make_gpp(counters=True)
    first = dataclasses.replace(sweep.measurements[0], profile=None)
    ax = draw(dataclasses.replace(sweep, measurements=(first, *sweep.measurements[1:])))
    assert "FLOPs counted; by formula: naive" in legend_words(ax)[0]


def named(ax):
    words = [text.get_text() for text in ax.texts]
    return {word.partition(",")[0] for word in words if re.search(", [0-9.]+ m?s$", word)}


def test_few_variants_have_colour_and_names():
    sweep = make_gpp(counters=True)
    assert named(draw(sweep)) == {"naive", "fused", "reciprocal"}  # first, fastest, largest step
    assert named(draw(sweep, highlight=["hoisted"])) == {"hoisted"}
    assert named(draw(sweep, highlight=[])) == set()
    assert named(draw(sweep.measurements[:3], machine=H200)) == {"naive", "hoisted", "reciprocal"}
    assert "3 other variants" in legend_words(draw(sweep))
    with pytest.raises(ValueError, match=r"highlight must name measured .*got nonsense"):
        draw(sweep, highlight=["nonsense"])


def test_only_roofs_of_the_precision_in_play_are_drawn():
    """A ceiling of the other precision may have the same value, as on CPUs."""
    for machine in (H200, CPU):
        words = " ".join(t.get_text() for t in draw(make_gpp(machine, scale=0.01)).texts)
        assert "FP64 FMA" in words
        assert "FP32" not in words


def test_l1_and_shared_memory_are_one_roof_if_they_agree():
    for shared, names in ((31.5e12, {"L1/shared read"}), (20e12, {"L1 read", "shared read"})):
        extra = [
            ceiling("bandwidth", "L1 read", 31e12),
            ceiling("bandwidth", "shared read", shared),
        ]
        machine = dataclasses.replace(H200, ceilings=(*H200.ceilings, *extra))
        texts = [t.get_text() for t in draw(machine).texts]
        found = {re.match("[A-Za-z0-9/]+ read", t)[0] for t in texts if " read " in t}
        assert found - {"L2 read"} == names


def test_the_title_is_the_nearest_roof_of_the_first_and_the_fastest():
    title = draw(make_gpp(counters=True)).get_title(loc="left")
    sweep = make_gpp(counters=True)
    share = sweep["fused"].counted_bytes["L2"] / sweep["fused"].seconds / H200["L2 read"].measured
    flops = sweep["fused"].counted_flops / sweep["fused"].seconds / 33.4e12
    nearest = f"{100 * flops:.0f} % of FP64" if flops > share else f"{100 * share:.0f} % of L2"
    assert re.match(r"naive: [\d.]+ % of .*; fused: ", title.replace("\n", " "))
    assert nearest in title


def dotted(ax):
    """The start, end and height of the horizontal dotted lines."""
    lines = [line for line in ax.lines if line.get_linestyle() == ":"]
    ends = [(*line.get_xdata(), *line.get_ydata()) for line in lines]
    return [(start, end, low) for start, end, low, high in ends if low == high]


def test_the_mix_of_instructions_has_a_roof():
    sweep = with_mix(make_gpp())
    ax, bare = draw(sweep), draw(make_gpp())
    ((start, end, height),) = dotted(ax)
    assert height == pytest.approx(33.4e12 * 1.58 / 2)
    assert start == pytest.approx(max(ax.get_xlim()[0], height / H200["L2 read"].measured))
    assert end == ax.get_xlim()[1]
    words = [text.get_text() for text in ax.texts]
    assert "FP64 mix limit, 58 % FMA 26.4 TFLOP/s" in words
    assert "limit of the instruction mix of fused" in legend_words(ax)
    assert (ax.get_xlim(), ax.get_ylim()) == (bare.get_xlim(), bare.get_ylim())
    assert not dotted(bare)
    assert "mix" not in " ".join(legend_words(bare))


def test_the_mix_is_that_of_the_fastest_variant():
    """A variant without counted instructions has no mix."""
    sweep = with_mix(make_gpp(), share=1.0)
    slower = with_mix(make_gpp(), share=0.0).measurements[:-1]
    of_last = dataclasses.replace(sweep, measurements=(*slower, sweep.measurements[-1]))
    assert [height for *_, height in dotted(draw(of_last))] == [33.4e12]
    uncounted = dataclasses.replace(sweep.measurements[-1], executed_instructions=0.0)
    unknown = dataclasses.replace(sweep, measurements=(*slower, uncounted))
    assert not dotted(draw(unknown))


def test_the_mix_is_that_of_the_operands_precision():
    single, mixed = (
        [dataclasses.replace(m, problem=Inputs.of(operands)) for m in with_mix(make_gpp())]
        for operands in (
            [("a", (8, 8), "float32")],
            [("a", (8, 8), "float32"), ("b", (8, 8), "float64")],
        )
    )
    assert [height for *_, height in dotted(draw(single, machine=H200))] == [63.8e12 * 1.58 / 2]
    assert not dotted(draw(mixed, machine=H200))


def test_the_mix_without_words():
    ax = draw(with_mix(make_gpp()), annotate=False)
    assert len(dotted(ax)) == 1
    assert not words_in(ax)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.7, 0.9, 1.0])
def test_no_words_overlap_whatever_the_mix(share):
    ax = draw(with_mix(make_gpp(counters=True), share), SIZES[1])
    assert not clashes(ax)
    assert not outside(ax)


def test_a_line_says_the_mix():
    assert re.search(r"TFLOP/s, 58 % FMA$", repr(with_mix(make_gpp())["fused"]))


def words_in(ax):
    """The texts within the axes."""
    return [text for text in ax.texts if text.get_position()[1] <= 1]


def badge(ax):
    return next((text for text in ax.texts if "above the roof" in text.get_text()), None)


@pytest.mark.parametrize("annotate", [True, False])
@pytest.mark.parametrize(("make", "faster"), [(make_transpose, 1.2), (make_gpp, 6)])
def test_a_point_above_its_roof_gets_a_badge(make, faster, annotate):
    assert badge(draw(make(), annotate=annotate)) is None
    wrong = with_last(make(), faster)
    ax = draw(wrong, annotate=annotate)
    assert wrong.measurements[-1].variant in badge(ax).get_text()
    assert not clashes(ax)


@pytest.mark.parametrize(("share", "expected"), [(1.01, False), (0.99, True)])
def test_what_the_cache_holds_may_beat_memory(share, expected):
    wrong = with_last(make_transpose(), 1.2)
    context = {"last_level_cache_bytes": share * wrong.measurements[-1].bytes / 4}
    machine = dataclasses.replace(H200, context=context)
    assert (badge(draw(wrong, machine=machine)) is not None) == expected


def test_a_peer_above_the_roof_gets_a_badge():
    sweep = with_peers(make_transpose())
    peer = dataclasses.replace(sweep.peers[1], samples=sweep.peers[1].samples / 2)
    ax = draw(dataclasses.replace(sweep, peers=(sweep.peers[0], peer)))
    assert badge(ax).get_text() == "numpy\nabove the roof: wrong counter or ceiling"
    peer = dataclasses.replace(peer, flags=("unchecked",))
    ax = draw(dataclasses.replace(sweep, peers=(sweep.peers[0], peer)))
    assert badge(ax).get_text() == "numpy (unchecked)\nabove the roof: no result to check"


def test_counters_above_a_roof_are_noticed_but_requests_are_not():
    m = make_gpp()["fused"]
    assert not above_roof(m, H200)
    assert not above_roof(dataclasses.replace(m, requested_bytes=1e12), H200)
    assert above_roof(dataclasses.replace(m, profile=counters_of(0, L2=1e12)), H200)
    assert above_roof(dataclasses.replace(m, bytes=1e12), H200)
    assert not above_roof(dataclasses.replace(m, bytes=1e12, cache="warm"), H200)


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


def contents(ax):
    """The content of a chart: its texts with their corners, its lines and its bars."""
    texts = sorted((words, *shape.round(3).ravel()) for words, shape in words_of(ax))
    lines = [line.get_xydata().tolist() for line in ax.lines]
    return texts, lines, [bar.get_bbox().bounds for bar in ax.patches]


def test_a_sequence_is_the_sweep():
    sweep = make_gpp()
    assert contents(draw(sweep)) == contents(draw(list(sweep), machine=H200))


def test_ceilings_without_flops_are_named_not_dropped():
    sweep = make_gpp()
    copy = dataclasses.replace(sweep["naive"], variant="copy", executed_flops=0, ceiling=True)
    ax = draw(dataclasses.replace(sweep, measurements=(copy, *sweep)))
    assert "not shown, no FLOPs: copy" in legend_words(ax)[0]


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
    for what, roof in ((sweep, "DRAM copy"), (with_read, "DRAM read")):
        words = [text.get_text() for text in draw(what).texts]
        assert any(word.startswith(roof) for word in words), words


def test_without_annotation_there_are_no_words():
    for what in (make_gpp(), make_transpose()):
        ax = draw(what, annotate=False)
        assert not words_in(ax)
        assert not ax.findobj(Legend)


def test_ink_and_paper_are_those_of_the_style():
    with mpl.rc_context({"axes.facecolor": "black", "text.color": "white"}):
        ax = draw(make_gpp())
    name = next(text for text in ax.texts if text.get_text().startswith("naive, "))
    assert colors.same_color(name.get_color(), "white")
    naive = make_gpp()["naive"]
    assert (naive.intensity, naive.flops_per_second) in places(ax, "black")


@pytest.mark.parametrize("make", [make_transpose, make_gpp])
def test_a_chart_survives_json(make, tmp_path):
    sweep = make(counters=True)
    sweep.save(tmp_path / "sweep.json")
    loaded = load(tmp_path / "sweep.json")
    first, second, third = (contents(draw(what)) for what in (sweep, sweep, loaded))
    assert first == second == third


def test_files_hold_no_date(tmp_path):
    magic = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}
    for suffix, start in magic.items():
        path = tmp_path / f"chart.{suffix}"
        save(draw(H200).figure, path)
        content = path.read_bytes()
        assert content.startswith(start)
        assert b"<dc:date>" not in content
        assert b"CreationDate" not in content
    assert (tmp_path / "chart.svg").read_bytes().startswith(to_svg(draw(H200).figure)[:5])
