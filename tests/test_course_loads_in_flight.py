"""Loads in flight of max_plus: waits in the machine code, measured times, and charts."""

from pathlib import Path

import pytest
from matplotlib import pyplot as plt

import adobook as course
import adokernels as ado
from adobook import loads_in_flight
from adobook.published import max_plus as posts

DATA = Path(__file__).parent.parent / "notebooks" / "data"
ONE_BLOCK = (
    "one_block", "vector_load_small", "vector_load_both", "one_block_bounded",
    "vector_load_small_bounded", "vector_load_both_bounded",
)  # fmt: skip
TYPES = ("float64", "float32")


@pytest.fixture(scope="module")
def ladders():
    return {dtype: ado.load(DATA / f"max_plus-{dtype}.json.xz") for dtype in TYPES}


@pytest.fixture(scope="module")
def loops(ladders):
    names = (*ONE_BLOCK, "two_blocks", "whole_device")
    return {
        dtype: course.inner_loops(sweep, DATA / "course" / f"max_plus-{dtype}", names)
        for dtype, sweep in ladders.items()
    }


def test_points_per_thread_follow_from_the_loaded_bytes(loops):
    points = {dtype: [found[name].points for name in ONE_BLOCK] for dtype, found in loops.items()}
    assert points == {"float64": [1, 1, 2, 1, 1, 2], "float32": [1, 1, 4, 1, 1, 4]}


def test_waits_agree_with_the_post_for_the_same_code(loops):
    theirs = {p.variant: p.value for p in posts.LATENCIES}
    for name in ("one_block", "vector_load_both"):
        assert loops["float64"][name].loop.load_waits == theirs[name]


@pytest.mark.parametrize("dtype", TYPES)
def test_fewer_waits_per_point_are_faster(loops, dtype):
    found = [loops[dtype][name] for name in ONE_BLOCK]
    for a in found:
        for b in found:
            if a.waits_per_point < b.waits_per_point:
                assert a.measurement.seconds < b.measurement.seconds, (a, b)


def test_bytes_in_flight_are_those_of_resident_threads(loops):
    found = loops["float64"]
    assert found["one_block"].bytes_in_flight == 1024 * 8
    assert found["one_block_bounded"].bytes_in_flight == 1024 * 8 * 8
    assert found["two_blocks"].bytes_in_flight == found["one_block_bounded"].bytes_in_flight
    whole = found["whole_device"].measurement
    assert loads_in_flight.resident_threads(whole) == 132 * 2 * 512  # the device, two blocks each


def test_the_table_has_published_figures_next_to_ours(loops):
    shown = {name: loops["float64"][name] for name in ("one_block", "vector_load_both")}
    lines = str(course.inner_loop_table(shown, published=posts.FIGURES)).splitlines()
    header, cells = (
        [cell.strip() for cell in lines[row].strip("|").split(" | ")] for row in (0, 3)
    )
    row = dict(zip(header, cells, strict=True))
    assert row["registers, A100"] == row["registers, here"] == "44"
    assert row["left unused, A100"] == row["left unused, here"] == "20"
    assert row["loads per iteration"] == "12 x 128 bit"
    assert row["waits per point"] == "1.50"
    plain = str(course.inner_loop_table(shown))
    assert "A100" not in plain
    assert "| registers |" in plain


def test_only_machine_code_is_accepted(ladders, tmp_path):
    ladders["float64"].save(tmp_path / "x-one_block-sass.json.xz")
    with pytest.raises(TypeError, match=r"x-one_block-sass\.json\.xz must contain machine code"):
        course.inner_loops(ladders["float64"], tmp_path / "x", ["one_block"])


def test_the_chart_has_a_point_per_variant_at_its_bandwidth(loops, ladders):
    groups = {dtype: found.values() for dtype, found in loops.items()}
    ax = course.in_flight_chart(groups, ladders["float64"].roof)
    drawn = {
        (float(x), float(y))
        for line in ax.lines
        if line.get_marker() not in ("", "None", None)
        for x, y in zip(line.get_xdata(), line.get_ydata(), strict=True)
    }
    wanted = {
        (found.bytes_in_flight, found.measurement.bytes_per_second)
        for group in groups.values()
        for found in group
    }
    assert wanted <= drawn


def test_fixed_loads_give_the_latency_under_load():
    record = ado.load(DATA / "course" / "max_plus-in_flight.json.xz")
    multiprocessors = record["1 x 256"].context["cuda"]["multiprocessors"]
    fixed = {
        (loads, threads): course.FixedLoads(record[f"{loads} x {threads}"], loads)
        for loads in (1, 2, 4, 8)
        for threads in (256, 512, 1024)
    }
    for (loads, threads), found in fixed.items():
        assert found.bytes_in_flight == 8 * loads * threads * multiprocessors
    for threads in (256, 512, 1024):  # more bytes in flight: more bandwidth, longer latency
        row = [fixed[loads, threads] for loads in (1, 2, 4, 8)]
        assert sorted(row, key=lambda f: f.measurement.bytes_per_second) == row
        assert sorted(row, key=lambda f: f.latency) == row
    ax = course.in_flight_chart({"all": fixed.values()}, record.roof, title=record.title)
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert sum(label.endswith("TB/s") for label in labels) >= 2
    assert not any(text.get_text() for text in ax.get_yticklabels(minor=True))
    plt.close(ax.figure)
