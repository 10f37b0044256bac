"""Models compared with counters, for records with made-up counters."""

from __future__ import annotations

import dataclasses
import re

import pytest
from charting import H200, Lab, clashes, counters_of, legend_words, outside
from matplotlib import pyplot as plt
from pages import cells_of

import adobook as course
import adokernels as ado
from adobook.models import difference
from adokernels.records.inputs import Inputs
from adokernels.records.sweep import Sweep

_GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
ELEMENTS = 1 << 20
WARPS = ELEMENTS // 32


def with_counts(profile, **counts):
    """Replace counters of the only kernel: ``load_sectors=4`` or a metric by its name."""
    values = {
        _GLOBAL.format(
            name.partition("_")[2], {"load": "ld", "store": "st"}[name.partition("_")[0]]
        )
        if name.startswith(("load", "store"))
        else name: value
        for name, value in counts.items()
    }
    (kernel,) = profile.kernels
    kernel = dataclasses.replace(kernel, values={**kernel.values, **values})
    return dataclasses.replace(profile, kernels=(kernel,))


def strided(stride, load_sectors=None, seconds=1e-3):
    """A copy of every n-th element with the counters that the model predicts."""
    loaded = WARPS * ado.sectors(f"stride {stride}").sectors
    profile = with_counts(
        counters_of(0),
        load_requests=WARPS,
        load_sectors=loaded if load_sectors is None else load_sectors,
        store_requests=WARPS,
        store_sectors=4 * WARPS,
        **{"dram__bytes_read.sum": 32.0 * loaded},
    )
    return Lab().measure(
        seconds,
        routine="strided_copy",
        variant="naive",
        device="cuda",
        problem=Inputs.of([("x", (ELEMENTS * stride,), "float32")], {"stride": stride}),
        flops=0,
        executed_flops=0,
        bytes=8.0 * ELEMENTS,
        requested_bytes=8.0 * ELEMENTS,
        profile=profile,
    )


# --- predictions ----------------------------------------------------------------------------------


def test_accesses_of_a_warp_predict_the_counts_of_a_kernel():
    counts = course.modelled(
        warps=WARPS, loads=[ado.sectors("aligned"), ado.sectors("random")],
        stores=[ado.sectors("shifted", 8)],
    )  # fmt: skip
    random = ado.sectors("random").sectors
    assert counts == {
        "load_requests": 2 * WARPS,
        "load_sectors": (4 + random) * WARPS,
        "store_requests": WARPS,
        "store_sectors": 9 * WARPS,
    }


def test_several_requests_are_a_sample_of_all_warps():
    sample = ado.sectors([range(32), range(0, 64, 2)])
    assert course.modelled(warps=100, loads=[sample])["load_sectors"] == 600
    sample = ado.bank_conflicts([range(32), range(0, 64, 2)])
    counts = course.modelled(warps=100, shared_stores=[sample])
    assert counts == {"shared_store_wavefronts": 150, "shared_store_conflicts": 50}


def test_accesses_to_shared_memory_predict_wavefronts_and_conflicts():
    counts = course.modelled(
        warps=10,
        shared_loads=[ado.bank_conflicts("column of 32x32", 8)],
        shared_stores=[ado.bank_conflicts("aligned", 8)],
    )
    assert counts == {
        "shared_load_wavefronts": 320,
        "shared_load_conflicts": 300,
        "shared_store_wavefronts": 20,
        "shared_store_conflicts": 0,
    }


# --- the table ------------------------------------------------------------------------------------


def test_the_table_has_the_model_next_to_the_counter_and_the_time():
    m = strided(3, load_sectors=12.5 * WARPS)
    model = course.modelled(warps=WARPS, loads=[ado.sectors("stride 3")])
    header, _, requests, sectors = cells_of(course.model_beside_counters([("stride 3", m, model)]))
    assert header[1:6] == ["quantity", "model", "counter", "difference", "time"]
    assert requests[:5] == ["stride 3", "load requests", "32,768", "32,768", "equal"]
    assert requests[5].endswith(" ms")
    assert requests[6].endswith(" GB/s")
    assert sectors == ["", "load sectors", "393,216", "409,600", "+4.17 %", "", ""]


def test_the_rate_is_that_of_flops_if_there_are_some():
    m = dataclasses.replace(strided(1), flops=2e9)
    rows = cells_of(course.model_beside_counters([("x", m, {"load_requests": WARPS})]))
    assert rows[2][6].endswith(" TFLOP/s")


def test_shares_are_percentages():
    m = strided(1)
    profile = with_counts(m.profile, **{"l1tex__t_sector_hit_rate.pct": 25.0})
    m = dataclasses.replace(m, profile=profile)
    rows = cells_of(course.model_beside_counters([("x", m, {"l1_hit_rate": 0.5})]))
    assert rows[2][2:5] == ["50.0 %", "25.0 %", "-50.0 %"]


@pytest.mark.parametrize(
    ("expected", "found", "words"),
    [
        (100, 100, "equal"),
        (0.3, 0.1 + 0.2, "equal"),
        (75_497_472, 75_497_362, "> -0.005 %"),
        (38_584_084, 38_585_246, "< +0.005 %"),
        (100_000, 100_010, "+0.0100 %"),
        (32, 16, "-50.0 %"),
        (0, 0, "equal"),
        (0, 5, "not predicted"),
    ],
)
def test_differences(expected, found, words):
    assert difference(expected, found) == words


def test_missing_counters_are_errors():
    m = strided(1)
    bare = dataclasses.replace(m, profile=None)
    with pytest.raises(ValueError, match="must have counters, got none for 'x'"):
        course.model_beside_counters([("x", bare, {"load_sectors": 1})])
    with pytest.raises(KeyError, match="l2_hit_rate"):
        course.model_beside_counters([("x", m, {"l2_hit_rate": 1})])


# --- the chart ------------------------------------------------------------------------------------


def strides(count=8, **given):
    found = [strided(stride, seconds=1e-3 * stride, **given) for stride in range(1, count + 1)]
    return Sweep(routine="strided_copy", measurements=tuple(reversed(found)), machine=H200)


def model(stride):
    return ado.sectors(f"stride {stride}")


def test_the_stride_chart_has_the_model_the_counters_and_the_rates():
    upper, lower = course.stride_chart(strides(), "stride", model)
    predicted, counted, of_dram = (line.get_ydata() for line in upper.lines)
    expected = [1 / stride for stride in range(1, 9)]
    assert list(predicted) == pytest.approx(expected)
    assert list(counted) == pytest.approx(expected)
    assert list(of_dram) == pytest.approx(expected)
    assert list(upper.lines[0].get_xdata()) == list(range(1, 9))
    useful, moved = (line.get_ydata() for line in lower.lines[:2])
    assert useful[0] == pytest.approx(8 * useful[7], rel=0.05)
    assert moved[0] == pytest.approx(useful[0], rel=0.01), "stride 1 moves no other bytes"
    assert moved[7] == pytest.approx(useful[7] * (32 + 4) / 8, rel=0.01)
    assert any("DRAM copy" in words for words in legend_words(lower))
    assert "at most 0 %" in upper.get_title(loc="left")
    plt.close(upper.figure)


def test_the_stride_chart_shows_the_largest_difference_from_the_model():
    found = strides(count=1, load_sectors=5 * WARPS)
    upper, _ = course.stride_chart(found, "stride", model)
    assert "at most 20 %" in upper.get_title(loc="left")
    plt.close(upper.figure)


def test_bytes_that_lanes_share_are_used_once():
    found = strides(count=1, load_sectors=WARPS)
    upper, _ = course.stride_chart(found, "stride", lambda _: ado.sectors("same word"))
    predicted, counted = (line.get_ydata()[0] for line in upper.lines[:2])
    assert predicted == counted == 1 / 8
    plt.close(upper.figure)


def test_words_of_the_stride_chart_do_not_overlap():
    axes = course.stride_chart(strides(32), "stride", model)
    axes[0].figure.draw_without_rendering()
    for ax in axes:
        assert not clashes(ax)
        assert not outside(ax)
        legend = ax.get_legend().get_window_extent()
        highest = max(max(line.get_ydata()) for line in ax.lines)
        assert legend.y0 > ax.transData.transform((0, highest))[1], "no line runs through it"
    plt.close(axes[0].figure)


def test_the_stride_chart_needs_the_option_and_counters():
    found = strides(2)
    with pytest.raises(ValueError, match=re.escape("must have the option 'offset'")):
        course.stride_chart(found, "offset", model)
    bare = [dataclasses.replace(m, profile=None) for m in found]
    bare = dataclasses.replace(found, measurements=tuple(bare))
    with pytest.raises(ValueError, match="must have counters, got none for stride"):
        course.stride_chart(bare, "stride", model)
