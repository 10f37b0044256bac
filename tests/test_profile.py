"""Hardware counters: quantities, records, tables, and the counters of real kernels."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core, cli
from adokernels.diagnosis.limiter import limiter
from adokernels.records.metrics import METRIC_SETS, QUANTITIES, SECTOR, combined
from adokernels.records.profile import Profile
from adokernels.tables.rendering import to_text

STORED = Path(__file__).parent / "data" / "profiles.json"
NAIVE, TILED, _, PIPELINE = map(Profile.from_dict, json.loads(STORED.read_text()))
ELEMENTS = 8192 * 8192
BYTES = 4 * ELEMENTS


def test_quantities_are_in_si_units():
    assert TILED["seconds"] == pytest.approx(526e-6, rel=0.01)
    assert TILED["clock"] == pytest.approx(1.98e9, rel=0.01)
    assert TILED["shared_bytes"] == 2 * BYTES
    assert TILED["l2_bytes"] == pytest.approx(2 * BYTES, rel=0.01)
    assert 0 < TILED["memory_sol"] < 1
    assert TILED["gpu__time_duration.sum"] == pytest.approx(1e9 * TILED["seconds"])


def test_every_quantity_has_a_unique_name_and_was_collected():
    keys = [q.key for q in QUANTITIES]
    assert len(set(keys)) == len(keys)
    missing = [key for key in keys if NAIVE.get(key) is None]
    # The divisors are 0: no shared memory, no FLOPs. Stored profiles have no atomics.
    added = ["shared_atomic_wavefronts", "shared_atomic_conflicts"]
    names = ["fma_share", "atomics", "atomic_sectors", "barriers"]
    assert missing == [*added, "conflict_share", *names]


def test_what_was_not_collected_is_missing():
    empty = Profile(label="f", kernels=(), cache="cold", collector="")
    assert empty.get("dram_bytes") is None
    assert empty.quantities == {}
    with pytest.raises(KeyError, match="'dram_bytes' was not collected"):
        empty["dram_bytes"]


def test_totals_of_several_kernels():
    assert len(PIPELINE) == 3
    for key in ("seconds", "dram_bytes", "instructions", "load_sectors"):
        assert PIPELINE[key] == pytest.approx(math.fsum(k[key] for k in PIPELINE)), key
    shares = [k["memory_sol"] for k in PIPELINE]
    assert min(shares) < PIPELINE["memory_sol"] < max(shares)
    assert PIPELINE.longest is max(PIPELINE, key=lambda k: k["seconds"])


def test_percentages_are_weighted_by_time_and_stalls_by_instructions():
    long = {"gpu__time_duration.sum": 3.0, "x.pct": 10.0, "smsp__inst_issued.sum": 1.0}
    short = {"gpu__time_duration.sum": 1.0, "x.pct": 50.0, "smsp__inst_issued.sum": 9.0}
    stall = "smsp__average_warps_issue_stalled_wait_per_issue_active.ratio"
    total = combined([long | {stall: 10.0, "only.sum": 1.0}, short | {stall: 20.0}])
    assert total["x.pct"] == 20
    assert total[stall] == 19
    assert "only.sum" not in total


def test_tables_have_a_column_per_kernel_and_a_total():
    text = repr(PIPELINE)
    assert "edge_detect[pipeline_best], cold" in text
    assert text.splitlines()[2].split() == [
        "quantity",
        *(k.kernel.name.partition("<")[0] for k in PIPELINE),
        "total",
    ]
    assert "Counted with CUPTI" in text
    assert "total" not in repr(TILED).splitlines()[2]
    assert "32" in next(row for row in repr(NAIVE).splitlines() if "per store request" in row)


def test_comparison_lists_every_quantity_of_both():
    change = TILED.compare(NAIVE)
    values = {key: (before, after) for key, before, after in change}
    assert values["store_sectors"] == (ELEMENTS, BYTES / SECTOR)
    (table,) = change._tables()
    line = next(
        row for row in to_text(table).splitlines() if row.strip().startswith("store sectors ")
    )
    assert line.endswith("0.125")


WHY = _core.why_no_counters()


@pytest.mark.skipif(not WHY, reason="there are counters here")
def test_without_counters_the_reason_is_given(capsys):
    a = np.zeros((4, 4))
    for what in (ado.transpose["naive"], ado.transpose, lambda a: a):
        with pytest.raises(ado.Unavailable, match="hardware counters cannot be read: "):
            ado.profile(what, a)
    assert cli.main(["profile", "transpose", "--shape", "8x8"]) == 3
    assert "hardware counters cannot be read" in capsys.readouterr().err


def test_wrong_arguments_are_named_before_a_missing_gpu():
    a = np.zeros((4, 4))
    with pytest.raises(TypeError, match="what must be a variant, routine or callable, got str"):
        ado.profile("transpose", a)
    with pytest.raises(ValueError, match="must be a CUDA variant"):
        ado.profile(ado.transpose["naive_loops"], a)
    with pytest.raises(ValueError, match="cache must be 'cold' or 'warm', got 'hot'"):
        ado.profile(ado.transpose, a, cache="hot")
    with pytest.raises(TypeError, match="sweep must be a Sweep, got ndarray"):
        ado.diagnose(a)
    with pytest.raises(TypeError, match="m must be a Measurement, got ndarray"):
        limiter(a)
    with pytest.raises(TypeError, match="m must be a Measurement, got ndarray"):
        ado.memory_chart(a)


def test_counters_of_the_cpu_are_an_error():
    with pytest.raises(ValueError, match="counters need device 'cuda', got 'cpu'"):
        ado.sweep(ado.transpose, np.zeros((4, 4)), device="cpu", counters=True)


@pytest.mark.parametrize("function", [ado.profile, ado.sweep])
def test_unknown_sets_of_metrics_are_an_error(function):
    names = {ado.profile: "metrics", ado.sweep: "counters"}
    device = {"device": "cuda"} if function is ado.sweep else {}
    if function is ado.sweep and _core.why_no_cuda():
        pytest.skip("the device is required first")
    with pytest.raises(ValueError, match=r"set of metrics, got 'defalt'.*default"):
        function(ado.transpose, np.zeros((4, 4)), **{names[function]: "defalt"}, **device)


@pytest.mark.gpu
class TestOnGpu:
    a = np.random.default_rng(0).random((1024, 1024), np.float32)

    def test_default_metrics_exist(self):
        chip = _core.chip()
        assert _core.existing_metrics(list(METRIC_SETS["default"]), chip)
        known = len(_core.existing_metrics(list(METRIC_SETS["default"]), chip))
        assert known >= 0.85 * len(METRIC_SETS["default"])
        assert _core.existing_metrics(["no__such_metric.sum"], chip) == []

    def test_profile_of_a_variant(self):
        naive = ado.profile(ado.transpose["naive"], self.a)
        tiled = ado.profile(ado.transpose["tiled"], self.a)
        # On a small problem, up to 3 % of the requests are replayed.
        assert naive["store_sectors_per_request"] == pytest.approx(32, rel=0.05)
        assert tiled["store_sectors_per_request"] == 4
        assert tiled["dram_read_bytes"] == pytest.approx(self.a.nbytes, rel=0.05)
        assert tiled.kernels[0].kernel == ado.transpose["tiled"].resources(self.a)[0]

    def test_profile_of_the_default_variant_and_named_metrics(self):
        profile = ado.profile(ado.transpose, self.a, metrics=["dram__bytes.sum"], cache="warm")
        assert profile.label == f"transpose[{ado.transpose.problem(self.a, device='cuda').best()}]"
        assert list(profile.values) == ["dram__bytes.sum"]
        with pytest.raises(ValueError, match=r"metrics must exist on .*, got 'no__such\.sum'"):
            ado.profile(ado.transpose, self.a, metrics=["no__such.sum"])

    def test_profile_of_a_callable(self):
        cupy = pytest.importorskip("cupy")
        x = cupy.asarray(self.a)
        profile = ado.profile(lambda: (x.T.copy(), x + 1), metrics="light")
        assert len(profile) == 2
        assert profile["dram_read_bytes"] >= 0.95 * x.nbytes
        assert not ado.profile(lambda: None).kernels

    def test_a_function_that_changes_is_an_error(self):
        cupy = pytest.importorskip("cupy")
        x = cupy.asarray(self.a)
        calls = []

        def work():
            calls.append(1)
            for _ in range(1 + len(calls) % 2):
                x.T.copy()

        with pytest.raises(ValueError, match="must launch the same kernels in each run"):
            ado.profile(work, metrics="light")
        assert len(ado.profile(ado.transpose["naive"], self.a, metrics="light")) == 1

    def test_sweep_with_counters(self, tmp_path):
        sweep = ado.sweep(
            ado.transpose,
            self.a,
            device="cuda",
            seconds=0.05,
            counters="light",
            progress=False,
            peers={"nothing": lambda: None},
            ceilings=False,
        )
        naive = sweep["naive"]
        assert naive.profile["store_sectors_per_request"] == pytest.approx(32, rel=0.05)
        assert naive.counted_flops is None
        assert naive.counted_bytes["DRAM"] == naive.profile["dram_bytes"]
        assert sweep["nothing"].profile is None
        sweep.save(tmp_path / "s.json")
        assert ado.load(tmp_path / "s.json")["naive"].profile.values == naive.profile.values
