"""The figures that are published for GPP."""

import pytest

import adokernels as ado
from adobook.published import gpp


def test_every_figure_belongs_to_a_variant_of_the_ladder():
    names = {v.name for v in ado.gpp}
    assert {p.variant for p in gpp.FIGURES} <= {"", *names}
    assert all(p.item in {f"E{n}" for n in range(1, 25)} for p in gpp.FIGURES)
    assert all("https://" in p.source for p in gpp.FIGURES)


def test_the_figures_agree_with_the_percentages_of_the_abstract():
    rate, peak = gpp.figure("flops_per_second", "large_blocks", gpp.PAPER), 6.7e12
    share = gpp.figure("fma_share", "large_blocks", gpp.PAPER)
    assert gpp.figure("peak", document=gpp.PAPER) == peak
    assert round(rate / peak, 2) == 0.55
    assert round(rate / (peak * (1 + share) / 2), 2) == 0.70


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
