"""Facts that the stored hardware counters must show; every stored number is plausible."""

from functools import cache
from pathlib import Path

import pytest

import adokernels as ado
from adokernels.charts.roofline import above_roof
from adokernels.model.tasks import TASKS
from adokernels.records.metrics import CONFLICTS, GLOBAL, METRIC_SETS, WAVEFRONTS

DATA = Path(__file__).parent.parent / "notebooks" / "data"
#: Metrics that were added after the stored measurements.
SINCE = {
    *(GLOBAL.format(*each) for each in (("requests", "atom"), ("sectors", "atom"))),
    *(GLOBAL.format("sectors", "red"), CONFLICTS.format("atom"), WAVEFRONTS.format("atom")),
}
LADDERS = [f"{routine}-{name}" for routine, t in TASKS.items() for name in t.benchmark_problems]


@cache
def ladder(name):
    return ado.load(DATA / f"{name}.json.xz")


@pytest.mark.parametrize("name", LADDERS)
def test_every_variant_that_launches_kernels_is_counted(name):
    for m in ladder(name):
        assert m.device == "cuda"
        # Copies by the driver and products by cuBLAS are not kernels of this library.
        if not m.kernels:
            continue
        assert m.profile, m.variant
        assert len(m.profile) >= len(m.kernels), m.variant
        wanted = {*METRIC_SETS["light"]} - SINCE
        assert wanted <= set(m.profile.values), m.variant


@pytest.mark.parametrize("name", LADDERS)
def test_counted_time_is_the_measured_time(name):
    for m in ladder(name):
        # The time between kernels is measured and not counted, and short kernels vary.
        if m.profile and m.seconds > 50e-6 * len(m.profile):
            assert m.profile["seconds"] == pytest.approx(m.seconds, rel=0.08), m.variant


@pytest.mark.parametrize("name", LADDERS)
def test_counted_flops_are_those_of_the_formulas(name):
    checked = 0
    for m in ladder(name):
        if m.counted_flops is None or not m.executed_flops:
            continue
        assert m.counted_flops == pytest.approx(m.executed_flops, rel=0.02), m.variant
        checked += 1
    with_flops = [m for m in ladder(name) if m.executed_flops]
    light = [m for m in with_flops if m.counted_flops is None]
    assert checked + len(light) == len(with_flops)


@pytest.mark.parametrize("name", LADDERS)
def test_no_measurement_is_above_a_roof(name):
    """Counted bytes and FLOPs do not exceed a ceiling by more than 3 %."""
    sweep = ladder(name)
    assert [m.variant for m in sweep if above_roof(m, sweep.machine)] == []
