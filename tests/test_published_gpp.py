"""The figures that are published for GPP."""

import pytest

from adobook.published import gpp


def test_the_points_of_the_chart_are_those_figures():
    points = {p.label: p for p in gpp.STEPS.points}
    assert points["post: baseline"].intensities == {
        "DRAM": gpp.figure("intensity_DRAM", "collapse3")
    }
    assert points["paper: last"].flops_per_second == 3.7e12
    assert [p.label for p in gpp.SIMPLER.points] == ["1 frequency", "6 frequencies"]
    assert all(set(p.intensities) == {"DRAM", "L2", "L1"} for p in gpp.SIMPLER.points)


def test_an_unpublished_figure_is_a_key_error():
    with pytest.raises(KeyError, match="no published 'seconds' of blocked in the post"):
        gpp.figure("seconds", "blocked")


def test_the_codes_are_counted_per_iteration():
    codes = gpp.counted_codes()
    assert codes["blocked"] == {
        "flops": 90.5,
        "fma_share": 0.504,
        "bytes_DRAM": 2.6,
        "bytes_L2": 19.6,
        "bytes_L1": 42.4,
    }
    flops = {p.variant: p.value for p in gpp.FIGURES if p.quantity == "flops" and p.variant}
    assert flops == {"frequency_outside": 160.0, "simplified_branches": 89.1, "blocked": 90.5}
