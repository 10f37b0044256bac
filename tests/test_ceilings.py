"""The ceilings of machines: what is measured, and which ceilings are refused."""

from dataclasses import replace

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core
from adokernels.measuring import machine as machine_module
from adokernels.measuring.machine import _cases as machine_cases
from adokernels.model.registry import ceilings
from adokernels.records.machine import Ceiling, Machine, contradictions


def test_ceilings_count_what_they_do():
    src = np.zeros(1 << 16)
    for v in ceilings:
        if v.device != "cpu":
            continue
        one, three = (v.cost(src, passes=n) for n in (1, 3))
        if v.name == "read":
            assert three.requested_bytes == 3 * one.requested_bytes
            assert 0.95 * src.nbytes < one.requested_bytes <= src.nbytes  # whole vectors only
        elif "fp" in v.name:
            assert one.requested_bytes == 0
            assert three.executed_flops == 3 * one.executed_flops > 0
            fused = ceilings[v.name.replace("add", "fma")].cost(src, passes=1)
            assert fused.executed_flops >= one.executed_flops


def test_ceilings_of_caches_count_what_they_do():
    src = np.zeros(1 << 16)
    set_bytes, sweeps = 16 << 10, 16
    bytes_per_block = {"cuda_read_l2": set_bytes, "cuda_read_l1": 2048, "cuda_read_shared": 2048}
    for name, share in bytes_per_block.items():
        one, three = (ceilings[name].cost(src, passes=n) for n in (1, 3))
        blocks = src.nbytes // share
        assert one.requested_bytes == blocks * set_bytes * sweeps
        assert three.requested_bytes == 3 * one.requested_bytes
        assert one.executed_flops == 0
        too_small = ceilings.problem(src[: (1 << 11) - 1], device="cpu")
        assert too_small.why_not(name) == "src is smaller than 16 KiB"
        assert not ceilings.problem(src[: 1 << 11], device="cpu").why_not(name)


H200 = {
    "compute": 90,
    "multiprocessors": 132,
    "core_hertz": 1.98e9,
    "memory_hertz": 3.201e9,
    "memory_bus_bits": 6016,
    "memory_bytes": 150_109_880_320,
    "l2_bytes": 62_914_560,
}


def cases_of(monkeypatch, **properties):
    monkeypatch.setattr(_core, "cuda_properties", lambda device: {**H200, **properties})
    return {f"{case.level} {case.operation}": case for case in machine_cases("cuda")}


def test_cases_of_a_gpu(monkeypatch):
    cases = cases_of(monkeypatch)
    bandwidths = [name for name, case in cases.items() if case.kind == "bandwidth"]
    dram = ["DRAM copy", "DRAM read", "DRAM write"]
    assert bandwidths == [*dram, "L2 read", "L1 read", "shared read"]
    names = {v.name for v in ceilings}
    assert all(case.variant in names for case in cases.values() if case.kind != "link")
    for name in ("L1 read", "shared read"):
        assert cases[name].theoretical == pytest.approx(33.4e12, rel=2e-3)
        assert cases[name].basis == "132 multiprocessors x 128 B x 1.98 GHz"
    assert cases["L2 read"].theoretical is None
    assert cases["L2 read"].bytes == H200["l2_bytes"] // 4


def test_cases_of_other_gpus(monkeypatch):
    turing = cases_of(monkeypatch, compute=75, multiprocessors=40, core_hertz=1.59e9)
    assert turing["L1 read"].theoretical == 40 * 64 * 1.59e9
    unknown = cases_of(monkeypatch, compute=999)
    assert unknown["L1 read"].theoretical is unknown["shared read"].theoretical is None


@pytest.mark.parametrize(
    ("compute", "types"),
    [
        (75, ["FP16", "INT8"]),
        (80, ["FP64", "TF32", "BF16", "FP16", "INT8"]),
        (86, ["TF32", "BF16", "FP16", "INT8"]),
        (89, ["TF32", "BF16", "FP16", "FP8", "INT8"]),
        (90, ["FP64", "TF32", "BF16", "FP16", "FP8", "INT8"]),
        (120, ["TF32", "BF16", "FP16", "FP8", "INT8"]),
    ],
)
def test_types_of_tensor_cores(monkeypatch, compute, types):
    cases = cases_of(monkeypatch, compute=compute)
    tensor = {name: case for name, case in cases.items() if case.kind == "tensor"}
    assert list(tensor) == [f"{name} tensor mma" for name in types]
    for case in tensor.values():
        about = ceilings[case.variant]
        problem = ceilings.problem(np.empty(case.bytes, np.uint8), device="cpu")
        assert "square" not in str(problem.why_not(case.variant))
        rows = 4096 if case.level == "FP64 tensor" else 8192
        assert about.cost(np.empty(case.bytes, np.uint8)).executed_flops == 2 * rows**3


# Dense figures of the data sheets in TFLOP/s: T4, A100, A40, L40S, H100 SXM (FP64 at 1.98 GHz, the
# others at 1.83 GHz), B200 (rounded to two digits there).
@pytest.mark.parametrize(
    ("compute", "units", "hertz", "peaks", "precision"),
    [
        (75, 40, 1.59e9, {"INT8": 130}, 0.01),
        (80, 108, 1.41e9, {"FP64": 19.5, "TF32": 156, "BF16": 312, "INT8": 624}, 0.01),
        (86, 84, 1.74e9, {"INT8": 299.3}, 0.01),
        (89, 142, 2.52e9, {"INT8": 733}, 0.01),
        (90, 132, 1.98e9, {"FP64": 66.9}, 0.01),
        (90, 132, 1.83e9, {"TF32": 494.7, "BF16": 989.4, "FP8": 1978.9, "INT8": 1978.9}, 0.01),
        (100, 148, 1.92e9, {"FP64": 37, "TF32": 1100, "FP16": 2250, "FP8": 4500}, 0.06),
    ],
)
def test_theoretical_peaks_of_tensor_cores(monkeypatch, compute, units, hertz, peaks, precision):
    cases = cases_of(monkeypatch, compute=compute, multiprocessors=units, core_hertz=hertz)
    for name, expected in peaks.items():
        found = cases[f"{name} tensor mma"].theoretical
        assert found == pytest.approx(1e12 * expected, rel=precision)


@pytest.mark.parametrize("level", ["FP64", "TF32", "BF16", "FP16", "FP8", "INT8"])
def test_operands_of_tensor_cores_are_random_numbers(level):
    source = machine_module._source(
        machine_module._Case("", "tensor", f"{level} tensor", "mma", 1 << 20)
    )
    assert source.nbytes == 1 << 20
    assert len(np.unique(source)) > 100
    if level == "FP8":
        assert not ((source & 0x7F) >= 0x40).any()  # NaN is 0x7f, and 0x40 is 2
    elif level == "BF16":
        source = (source.astype(np.uint32) << 16).view(np.float32)
    if level not in ("FP8", "INT8"):
        assert np.isfinite(source).all()
        assert 0.9 < abs(source).max() <= 1


@pytest.mark.parametrize(
    ("speed", "expected", "basis"),
    [
        ("32.0 GT/s PCIe", 63.0e9, "16 lanes x 32 GT/s, 128b/130b"),
        ("5.0 GT/s PCIe", 8e9, "16 lanes x 5 GT/s, 8b/10b"),
        ("Unknown", 0, ""),
    ],
)
def test_pcie_bandwidth(tmp_path, monkeypatch, speed, expected, basis):
    (tmp_path / "current_link_speed").write_text(f"{speed}\n")
    (tmp_path / "current_link_width").write_text("16\n")
    found, words = machine_module._pcie_bandwidth(str(tmp_path))
    assert found == pytest.approx(expected, rel=1e-3)
    assert words == basis


def test_a_figure_that_rests_on_an_assumption_is_dropped_if_it_is_exceeded():
    case = machine_module._Case("", "compute", "FP64", "fma", 1, theoretical=10.0, basis="assumed")
    assert machine_module._ceiling(case, 12.0, [1.0, 2.0]).theoretical == 10
    assert machine_module._ceiling(replace(case, assumed=True), 9.0, [1.0]).theoretical == 10
    dropped = machine_module._ceiling(replace(case, assumed=True), 12.0, [1.0])
    assert (dropped.measured, dropped.theoretical, dropped.basis) == (12, None, "")
    assert machine_module._ceiling(case, 1.0, [1.0, 1.0, 3.0]).spread == 2.0


def made(name, measured, theoretical=None, spread=None):
    level, _, operation = name.rpartition(" ")
    kind = "compute" if operation in ("fma", "add") else "bandwidth"
    return Ceiling(
        kind=kind,
        level=level,
        operation=operation,
        measured=measured,
        theoretical=theoretical,
        spread=spread,
    )


SOUND = (
    made("DRAM copy", 4.0, 4.8, 0.1),
    made("DRAM read", 4.5, 4.8),
    made("L3 read", 9.0),
    made("L2 read", 12.0),
    made("L1 read", 30.0, 32.0),
    made("shared read", 29.9, 32.0),
    made("FP64 fma", 33.0, 34.0),
    made("FP64 add", 16.5, 17.0),
)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (made("L3 read", 3.0), "it has 67 % of the speed of DRAM read"),
        (made("L2 read", 4.0), "it has 44 % of the speed of L3 read"),
        (made("shared read", 10.0), "it has 83 % of the speed of L2 read"),
        (made("DRAM read", 4.5, 4.8, 1.29), "the interval of its samples is 129 % of their median"),
        (made("DRAM read", 6.0, 4.8), "it is 1.25 times the theoretical figure"),
        (made("FP64 fma", 12.0), "it has 73 % of the speed of FP64 add"),
        (made("FP64 add", 6.0), "it has 18 % of the speed of FP64 fma"),
    ],
)
def test_contradictions(wrong, reason):
    ceilings = [wrong if c.name == wrong.name else c for c in SOUND]
    assert contradictions(ceilings) == {wrong.name: reason}


def test_ceilings_without_contradictions():
    assert contradictions(SOUND) == {}
    similar = [*SOUND[:2], made("L3 read", 4.45), made("DRAM write", 4.8 * 1.04, 4.8)]
    assert contradictions(similar) == {}, "ceilings are samples"
    assert contradictions([made("DRAM read", 9.0, 4.8), made("L2 read", 6.0)]).keys() == {
        "DRAM read"
    }


@pytest.fixture
def measured_values(tmp_path, monkeypatch):
    """The measured ceilings of a made-up machine: one list of values per name."""
    monkeypatch.setenv("ADOKERNELS_CACHE", str(tmp_path))
    values = {
        "DRAM copy": [4.0], "DRAM read": [4.5], "L2 read": [9.0], "FP64 tensor mma": [60.0],
    }  # fmt: skip

    def cases(device):
        for name in values:
            level, _, operation = name.rpartition(" ")
            kind = "tensor" if "tensor" in name else "bandwidth"
            yield machine_module._Case("", kind, level, operation, 8)

    def measure(device, case):
        left = values[case.name]
        value = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(value, Exception):
            raise value
        return replace(made(case.name, value), kind=case.kind)

    monkeypatch.setattr(machine_module, "_cases", cases)
    monkeypatch.setattr(machine_module, "_measure", measure)
    return values


def test_contradictory_ceilings_are_measured_again(measured_values):
    measured_values["L2 read"] = [1.0, 1.0, 9.0, 9.1]
    machine = ado.machine("cpu")
    assert machine["L2 read"].measured == 9.1
    assert not machine.refused


def test_ceilings_are_measured_until_two_rounds_agree(measured_values):
    """Other work takes half of the processors in the first round, or in every second one."""
    measured_values["L2 read"] = [5.0, 9.0, 9.5]
    assert ado.machine("cpu")["L2 read"].measured == 9.5
    measured_values["L2 read"] = [5.0, 9.0, 5.0, 9.1]
    assert ado.machine("cpu", refresh=True)["L2 read"].measured == 9.1
    measured_values["L2 read"] = [5.0, 6.0, 7.0, 8.0, 9.0]
    found = ado.machine("cpu", refresh=True)
    reason = "only one round reached its speed, the next one 89 % of it"
    assert found.refused == {"L2 read": reason}


def test_ceilings_of_a_busy_machine_are_marked_and_measured_again(measured_values, monkeypatch):
    def machine(load, copy):
        monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
        measured_values["DRAM copy"] = [copy]
        return ado.machine("cpu")

    monkeypatch.setattr("os.cpu_count", lambda: 2)
    busy = machine(11.25, 2.0)
    assert (busy.roof, busy.busy) == (2.0, "the load of its 2 processors was 11.2")
    remark = "too low: when they were measured, the load of its 2 processors was 11.2; adokernels"
    assert remark in repr(busy).replace("\n", " ")
    assert machine(5.0, 3.0).roof == 2.0  # still busy
    sweep = ado.sweep(
        ado.transpose, np.ones((8, 8)), device="cpu", variants="simd", seconds=0.01, progress=False
    )
    found = ado.records.CheckResult.of_sweep(sweep, "simd")
    scan = ado.records.Scan(routine="transpose", sweeps=(sweep, sweep))
    for shown in (sweep, scan, found, ado.diagnose(sweep)):
        assert repr(shown).replace("\n", " ").count(remark) == 1
    above = "% of the roof: caches hold the data, or the ceiling is too low."
    assert above in repr(found)
    quiet = machine(0.5, 4.0)
    assert (quiet.roof, quiet.busy, quiet.remark) == (4.0, "", "")
    sweep = replace(sweep, machine=replace(quiet, ceilings=(made("DRAM copy", 1e15),)))
    assert repr(ado.records.CheckResult.of_sweep(sweep, "simd")).endswith("% of the roof.")
    assert machine(9.0, 5.0).roof == 4.0


def test_dram_reads_slower_than_copies_are_remarked():
    def machine(read):
        ceilings = (made("DRAM copy", 4.48), made("DRAM read", read))
        return Machine(device="cpu", name="CPU", threads=2, ceilings=ceilings)

    assert machine(4.25).remark == ""  # rounds of a ceiling agree within 10 %
    assert machine(2.75).remark.startswith(
        "the ceilings may be too low: DRAM read: it has 61 % of the speed of DRAM copy; adokernels "
    )


def test_disturbed_samples_of_a_ceiling_do_not_count():
    waits = iter([0.0, 1e-3, 0.0, 1e-3, 0.0])
    taken = machine_module._sampled(lambda: (1e-3 + (w := next(waits, 1e-3)), 0.0, True, w))
    assert set(taken) == {1e-3}
    assert machine_module._sampled(lambda: (2e-3, 0.0, True, 1e-3))[0] == 2e-3


def test_ceilings_that_stay_contradictory_are_refused(measured_values):
    measured_values["L2 read"] = [1.0]
    measured_values["FP64 tensor mma"] = [machine_module._NotMeasurable("no cuBLAS")]
    machine = ado.machine("cpu")
    reason = "it has 22 % of the speed of DRAM read"
    assert machine.refused == {"L2 read": reason, "FP64 tensor mma": "no cuBLAS"}
    assert [c.name for c in machine] == ["DRAM copy", "DRAM read"]
    with pytest.raises(KeyError, match=f"'L2 read' was refused: {reason}"):
        machine["L2 read"]
    assert ado.machine("cpu") == machine, "it was stored"
    for text in (repr(machine), machine._repr_html_()):
        assert f"Refused: L2 read: {reason}." in text
        assert "Refused: FP64 tensor mma: no cuBLAS." in text


def test_the_copy_ceiling_is_kept(measured_values, monkeypatch):
    wide = replace(made("DRAM copy", 4.0), spread=1.5)
    monkeypatch.setattr(
        machine_module,
        "_cases",
        lambda device: iter([machine_module._Case("", "bandwidth", "DRAM", "copy", 8)]),
    )
    monkeypatch.setattr(machine_module, "_measure", lambda device, case: wide)
    machine = ado.machine("cpu")
    assert machine.roof == 4
    assert "Doubtful: DRAM copy: the interval of its samples is 150 %" in repr(machine)


def test_code_above_the_fma_peak_is_compared_with_tensor_cores():
    tensor = [
        Ceiling(kind="tensor", level=f"{name} tensor", operation="mma", measured=value)
        for name, value in (("FP64", 60.0), ("TF32", 400.0), ("FP16", 800.0))
    ]
    fma = [made("FP64 fma", 33.0), made("FP32 fma", 64.0)]
    machine = Machine(device="cuda", name="GPU", threads=0, ceilings=(SOUND[0], *fma, *tensor))
    assert machine.peak("FP64") == machine.peak("FP64", 34.0) == 33
    assert machine.fastest("FP64", 50.0).name == "FP64 tensor mma"
    assert machine.peak("FP32", 100.0) == 400
    assert machine.peak(None, 50.0) == machine.peak(None) == 64
    assert machine.fastest(None, 100.0).name == "FP16 tensor mma"
    without = replace(machine, ceilings=machine.ceilings[:3])
    assert without.peak("FP64", 50.0) == 33


def gpu(fma=66.9e12, **properties):
    ceiling = Ceiling(
        kind="compute", level="FP32", operation="fma", measured=65.2e12, theoretical=fma
    )
    context = {"cuda": {**H200, **properties}}
    return Machine(device="cuda", name="GPU", threads=0, ceilings=(ceiling,), context=context)


def test_issue_rate():
    peak = 132 * 4 * 1.98e9
    rate = gpu(fma=64 * peak).issue_rate
    assert (rate.kind, rate.name) == ("instructions", "warp issue")
    assert rate.theoretical == peak
    assert rate.measured == 65.2e12 / 64
    assert "warp issue" in repr(gpu(fma=64 * peak))


def test_issue_rate_is_unknown():
    peak = 132 * 4 * 1.98e9
    assert gpu(fma=32 * peak).issue_rate is None  # FMAs use half of the issue slots
    assert gpu(fma=None).issue_rate is None
    assert replace(gpu(fma=64 * peak), context={}).issue_rate is None
    assert replace(gpu(fma=64 * peak), ceilings=()).issue_rate is None


def test_stored_ceilings_of_a_gpu_are_found(tmp_path, monkeypatch):
    """The number of a GPU depends on the process, for example on CUDA_VISIBLE_DEVICES."""
    dram = Ceiling(kind="bandwidth", level="DRAM", operation="copy", measured=1.0)
    facts = {"device": "cuda:0", "cuda": {"uuid": "ab"}}
    stored = Machine(device="cuda", name="GPU", threads=0, ceilings=(dram,), context=facts)
    monkeypatch.setenv("ADOKERNELS_CACHE", str(tmp_path))
    stored.save(tmp_path / "machine.json")
    found = machine_module._known("machine.json", "cuda:1")
    assert found == replace(stored, context={**facts, "device": "cuda:1"})
    assert machine_module._known(tmp_path / "machine.json", "cpu") is None
