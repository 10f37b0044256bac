"""Charts of hardware counters: speed of light, warp states, memory, instruction roofline."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
from charting import H200, Lab, clashes, counters_of, drawn, make_gpp, outside
from matplotlib import colors

from adokernels import Unavailable
from adokernels.charts.canvas import LOST
from adokernels.charts.counters import speed_of_light, warp_states
from adokernels.charts.memory import memory_chart
from adokernels.charts.roofline import roofline
from adokernels.records.metrics import SECTOR, of_peak
from adokernels.records.profile import Profile
from adokernels.records.sweep import Sweep

STORED = Path(__file__).parent / "data" / "profiles.json"
NAIVE, TILED, PADDED, PIPELINE = map(Profile.from_dict, json.loads(STORED.read_text()))
SIZES = [(6.0, 4.0), (10.0, 6.0)]
#: With the properties from which the issue rate is computed.
GPU = dataclasses.replace(
    H200,
    context={
        "cuda": {"multiprocessors": 132, "core_hertz": H200["FP32 fma"].theoretical / 64 / 4 / 132}
    },
)


def make_transpose(names=None, machine=GPU):
    """A ladder with the stored counters of real kernels."""
    lab, moved = Lab(), 2.0 * 8192 * 8192 * 4
    profiles = {"naive": NAIVE, "tiled": TILED, "padded": PADDED}
    measurements = [
        lab.measure(
            profile["seconds"],
            routine="transpose",
            variant=name,
            device="cuda",
            flops=0,
            bytes=moved,
            executed_flops=0,
            requested_bytes=moved,
            profile=profile,
        )
        for name, profile in (names or profiles).items()
    ]
    return Sweep(routine="transpose", measurements=tuple(measurements), machine=machine)


def crowd():
    """A ladder with the largest number of variants."""
    profiles = [NAIVE, TILED, PADDED, PIPELINE]
    return make_transpose({f"a_variant_of_long_name_{i}": profiles[i % 4] for i in range(19)})


SWEEPS = {"transpose": make_transpose, "one": lambda: make_transpose({"pipeline": PIPELINE})}
CHARTS = {
    "speed_of_light": speed_of_light,
    "warp_states": warp_states,
    "memory": lambda s, ax: memory_chart(s.measurements[0], s.measurements[-1], ax=ax),
    "memory of one": lambda s, ax: memory_chart(s.measurements[-1], ax=ax),
    "instructions": lambda s, ax: roofline(s, kind="instructions", ax=ax),
}


def texts(ax):
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize(
    ("sweep", "size"), [("transpose", SIZES[0]), ("transpose", SIZES[1]), ("one", SIZES[0])]
)
@pytest.mark.parametrize("chart", CHARTS)
def test_no_words_overlap(chart, sweep, size):
    ax = drawn(CHARTS[chart], SWEEPS[sweep](), size)
    assert not clashes(ax)
    assert not outside(ax)


@pytest.mark.parametrize("chart", ["speed_of_light", "warp_states"])
def test_no_words_overlap_in_a_long_ladder(chart):
    assert not clashes(drawn(CHARTS[chart], crowd()))


@pytest.mark.parametrize("chart", CHARTS)
def test_without_counters_there_is_no_chart(chart):
    with pytest.raises(ValueError, match=r"ado\.sweep\(\.\.\., counters=True\)"):
        drawn(CHARTS[chart], dataclasses.replace(make_gpp(), machine=GPU))


def test_those_without_counters_are_left_out():
    sweep = make_transpose()
    bare = dataclasses.replace(sweep["tiled"], profile=None)
    mixed = dataclasses.replace(sweep, measurements=(sweep["naive"], bare, sweep["padded"]))
    for chart in (speed_of_light, warp_states):
        ax = drawn(chart, mixed)
        assert [label.get_text() for label in ax.get_yticklabels()] == ["naive", "padded"]


@pytest.mark.parametrize("chart", ["speed_of_light", "warp_states", "memory"])
def test_counters_that_were_not_collected_leave_gaps(chart):
    sweep = make_transpose()
    few = dataclasses.replace(sweep["naive"], profile=counters_of(0, DRAM=1e9))
    ax = drawn(CHARTS[chart], dataclasses.replace(sweep, measurements=(few,)))
    assert not clashes(ax)
    if chart == "memory":
        assert {"global memory: not collected", "shared memory: not collected"} <= set(texts(ax))


def test_a_memory_level_that_was_not_collected_is_not_the_busiest_level():
    shares = {"gpu__compute_memory_throughput": 62.0, "dram__throughput": 9.0}
    values = {of_peak(name): share for name, share in shares.items()}
    (kernel,) = TILED.kernels
    kernel = dataclasses.replace(kernel, values=values | {"gpu__time_duration.sum": 1e6})
    few = make_transpose({"few": dataclasses.replace(TILED, kernels=(kernel,))})
    ax = drawn(CHARTS["memory of one"], few)
    assert ax.get_title(loc="left").startswith("few: memory (level not collected) 62 %")
    assert "busiest" not in ax.get_title(loc="left")


# Speed of light.


def bars(ax):
    """Lengths of the bars from top to bottom."""
    found = [bar for container in ax.containers for bar in container]
    return [bar.get_width() for bar in sorted(found, key=lambda bar: bar.get_y())]


def test_bars_are_the_throughput_of_compute_and_memory():
    ax = drawn(speed_of_light, make_transpose())
    expected = [p[key] for p in (NAIVE, TILED, PADDED) for key in ("compute_sol", "memory_sol")]
    assert bars(ax) == pytest.approx(expected)
    verticals = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == "--"]
    assert verticals == [0.6, 0.8]


# Warp states.


def test_a_bar_is_divided_into_all_cycles_of_a_warp():
    ax = drawn(warp_states, make_transpose())
    for row, profile in enumerate((NAIVE, TILED, PADDED)):
        parts = [b for c in ax.containers for b in c if b.get_height() > 0.5]
        widths = [b.get_width() for b in parts if abs(b.get_y() + b.get_height() / 2 - row) < 0.1]
        assert math.fsum(widths) == pytest.approx(1)
        assert widths[0] == pytest.approx(1 / profile["warp_latency"], rel=0.03)  # selected


# Memory.


def test_links_show_bytes_and_losses_are_coloured():
    sweep = make_transpose()
    ax = drawn(lambda s, ax: memory_chart(s["naive"], s["tiled"], ax=ax), sweep)
    words = texts(ax)
    for expected in (
        "store: 32, ideal 4",
        "load: 4, ideal 4",
        "shared memory: not used",
        "2.15 GB\nsectors",
        "hit rate 68 %",
        "86 % of peak",
    ):
        assert expected in words
    lost = {t.get_text() for t in ax.texts if colors.same_color(t.get_color(), LOST)}
    assert lost == {"store: 32, ideal 4", "load: 97 %"}


def test_loads_and_stores_are_apart_where_they_are_counted():
    split = {"l1tex__m_xbar2l1tex_read_bytes.sum": 3e8, "l1tex__m_l1tex2xbar_write_bytes.sum": 7e8}
    split |= {f"sm__sass_data_bytes_mem_shared_op_{op}.sum": 1e8 for op in ("ld", "st", "ldgsts")}
    (kernel,) = TILED.kernels
    kernel = dataclasses.replace(kernel, values={**kernel.values, **split})
    apart = make_transpose({"apart": dataclasses.replace(TILED, kernels=(kernel,))})
    chart = lambda s, ax: memory_chart(s.measurements[0], ax=ax)  # noqa: E731
    words = [texts(drawn(chart, s)) for s in (make_transpose({"tiled": TILED}), apart)]
    assert "537 MB\nin total" in words[0]
    assert not {"300 MB", "700 MB", "100 MB\nloads", "200 MB\nstores"} - set(words[1])


# The instruction roofline.


def test_instructions_over_sectors_at_each_level():
    sweep = make_transpose()
    ax = drawn(CHARTS["instructions"], sweep)
    places = {(line.get_xdata()[0], line.get_ydata()[0]) for line in ax.lines}
    for m, profile in zip(sweep, (NAIVE, TILED, PADDED), strict=True):
        rate = profile["instructions"] / m.seconds
        for key in ("l1_bytes", "l2_bytes", "dram_bytes"):
            assert (profile["instructions"] * SECTOR / profile[key], rate) in places
        stores = (profile["store_requests"] / profile["store_sectors"],)
        assert (*stores, profile["store_requests"] / m.seconds) in places
    assert "32-byte sector" in ax.get_xlabel()


def test_walls_are_those_of_the_element_size():
    ax = drawn(CHARTS["instructions"], make_transpose())
    assert {"stride 0", "unit stride, 4 B", "scattered"} <= set(texts(ax))
    walls = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"]
    assert sorted(walls) == [1 / 32, 1 / 4, 1]


def test_a_machine_without_an_issue_rate_has_no_instruction_roofline():
    with pytest.raises(Unavailable, match="issue rate"):
        drawn(CHARTS["instructions"], make_transpose(machine=H200))


def test_a_share_above_the_roof_is_no_limit():
    """A small problem is in the caches: the bandwidth of DRAM does not limit it."""
    sweep = make_transpose(machine=H200)
    fast = dataclasses.replace(sweep["padded"], samples=sweep["padded"].samples / 50, cache="warm")
    ax = drawn(roofline, fast, machine=H200)
    assert "caches: no limit" in ax.get_title(loc="left")
    assert "no limit" in texts(ax)
    assert not [words for words in texts(ax) if words.endswith(" %")]
