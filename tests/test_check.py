"""ado.check, ``adokernels check`` and ado.tune: tests that need no GPU."""

import copy
import ctypes
import dataclasses
import re

import numpy as np
import pytest
from charting import Lab

import adokernels as ado
from adokernels import _core
from adokernels.cli.program import main
from adokernels.measuring import sampling
from adokernels.model.compiler import why_no_compiler
from adokernels.model.cuda_variant import packed_argument
from adokernels.records.sweep import Sweep

RIGHT = "def mine(a):\n    return a.T.copy()\n"
QUICK = {"seconds": 0.02, "ceilings": False, "progress": False}
COPY = {
    "routine": "copy", "device": "cuda",
    "flops": 0, "bytes": 8, "executed_flops": 0, "requested_bytes": 8,
}  # fmt: skip


def test_a_correct_variant_is_compared_with_the_ladder(tmp_path, rng):
    def mine(a):
        return a.T.copy()

    result = ado.check(mine, ado.transpose, rng.random((60, 70)), against=["simd"], **QUICK)
    assert result
    assert list(result.comparisons) == ["simd"]
    text = repr(result)
    assert text.startswith("transpose[mine] is correct.\nIt takes ")
    assert "transpose[simd]" in text
    result.save(tmp_path / "check.json")
    loaded = ado.load(tmp_path / "check.json")
    assert (loaded.routine, loaded.variant, loaded.correct) == ("transpose", "mine", True)
    assert loaded.comparisons == result.comparisons


def test_a_wrong_variant_is_reported_with_its_first_wrong_problem(rng):
    def mine(a):
        return a.T.copy() if len(a) < 100 else a.T.copy() + 1

    result = ado.check(mine, ado.transpose, rng.random((60, 70)), progress=False)
    assert not result
    assert "(a: (129, 70) float64)" in result.reason
    assert repr(result).startswith("transpose[mine] is wrong: ")


def test_command_line_reports_a_missing_function(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(RIGHT, encoding="utf-8")
    assert main(["check", str(file), "--routine", "transpose", "--kernel", "other"]) == 2
    assert "mine.py must define other" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("code", "kind"),
    [(b"//\n.version 9.0\n.target sm_90\n", "PTX"), (b"\x7fELF\x02\xbe", "machine code")],
)
def test_command_line_needs_source(code, kind, tmp_path, capsys):
    (tmp_path / "mine.cu").write_bytes(code)
    file = str(tmp_path / "mine.cu")
    assert main(["check", file, "--routine", "transpose", "--kernel", "mine"]) == 2
    assert f"source must be CUDA C++, got {kind}" in capsys.readouterr().err


def test_command_line_checks_functions_with_names_of_variants(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text("def simd(a):\n    return a.T.copy()\n", encoding="utf-8")
    command = ["check", str(file), "--routine", "transpose", "--kernel", "simd", "--no-timing"]
    assert main(command) == 0
    assert "transpose[simd of mine.py] is correct" in capsys.readouterr().out


@pytest.mark.skipif(not ado.transpose["naive"].why_unavailable, reason="there is a GPU")
def test_command_line_needs_a_gpu_for_a_kernel(tmp_path, capsys):
    file = tmp_path / "mine.cu"
    file.write_text("__global__ void mine(const float* a, float* out) {}", encoding="utf-8")
    assert main(["check", str(file), "--routine", "transpose", "--kernel", "mine"]) == 3
    assert "transpose[mine]: " in capsys.readouterr().err


@pytest.mark.skipif(bool(why_no_compiler()), reason=why_no_compiler())
def test_command_line_reports_compilation_errors_without_a_gpu(tmp_path, capsys):
    file = tmp_path / "mine.cu"
    file.write_text("__global__ void mine(const float* a) { wrong }", encoding="utf-8")
    assert main(["check", str(file), "--routine", "transpose", "--kernel", "mine"]) == 1
    assert "it does not compile" in capsys.readouterr().out


# --- Kernels in source ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "size", "packed"),
    [
        *[(3, 4, (3).to_bytes(4, "little")), (-1, 8, b"\xff" * 8)],
        *[(1.5, 4, np.float32(1.5).tobytes()), (1.5, 8, np.float64(1.5).tobytes())],
        *[(np.float32(2), 4, np.float32(2).tobytes()), (True, 1, b"\x01")],
        (1 + 2j, 8, np.complex64(1 + 2j).tobytes()),
    ],
)
def test_arguments_have_the_size_of_the_parameter(value, size, packed):
    assert packed_argument("n", value, size) == packed


@pytest.mark.parametrize(
    ("value", "size", "message"),
    [
        (np.float64(2), 4, "n must have 4 bytes, got"),
        (2**40, 4, "n must fit in 4 bytes"),
        (1.5, 1, "n must be an array or a number of 1 bytes, got float"),
        ("x", 8, "n must be an array or a number of 8 bytes, got str"),
    ],
)
def test_arguments_of_the_wrong_size_are_rejected(value, size, message):
    with pytest.raises((TypeError, ValueError), match=message):
        packed_argument("n", value, size)


@pytest.mark.cuda
def test_parameters_of_the_kernel_must_match(rng):
    source = "__global__ void wrong(const float* a, float* out, int n) {}"
    wrong = ado.cuda_variant("wrong", block=256, source=source)
    a = rng.random((30, 50), np.float32)
    result = ado.check(wrong, ado.transpose, a, device="emulator", timed=False)
    assert not result
    assert "must have 4 parameters (a, result 1, rows, cols), got 3" in result.reason


@pytest.mark.cuda
@pytest.mark.parametrize("isolated", [True, False])
def test_errors_name_the_parameters_of_the_kernel(isolated, rng):
    source = """
    // Not the signature: __global__ void shifted(float* z) {
    __global__ void __launch_bounds__(256) shifted(const float* matrix, /* the, result */
        float *__restrict__ turned, int rows, int cols) {
      turned[blockIdx.x * blockDim.x + threadIdx.x + 1 + rows * cols] = matrix[0];
    }"""
    shifted = ado.cuda_variant("shifted", block=256, source=source)
    a = rng.random((30, 50), np.float32)
    options = {"device": "emulator", "timed": False, "isolated": isolated}
    assert "of 'turned'" in ado.check(shifted, ado.transpose, a, **options).reason


def test_a_variant_of_the_ladder_can_be_checked():
    ladder = ado.ladder("total", reference=lambda x: x.sum(keepdims=True), tolerance=1e-9)
    ladder.add(ado.variant(lambda x: x.sum(keepdims=True), name="right"))
    ladder.add(ado.variant(lambda x: x[1:].sum(keepdims=True), name="wrong"))
    quick = {"isolated": False, "seconds": 0, "ceilings": False, "progress": False}
    found = ado.check(ladder["right"], ladder, np.ones(100), **quick)
    assert found.correct
    assert found.comparisons == {}  # the other variant is wrong
    assert not ado.check(ladder["wrong"], ladder, np.ones(100), **quick)
    with pytest.raises(ValueError, match="total already has a variant 'right': pass another name="):
        ado.check(ado.variant(np.sum, name="right"), ladder, np.ones(100), **quick)


@pytest.fixture
def launches(monkeypatch):
    """The launches of kernels on a GPU that is emulated by host memory; kernels do not run."""
    found = []

    class Memory:
        def __init__(self, array, device="cuda"):
            self._array = array.copy()
            self.__cuda_array_interface__ = {"data": (self._array.ctypes.data, False)}

        def copy_from(self, array):
            self._array[...] = array

    class Module:
        parameters = (8, 8, 8, 4, 4)  # bytes

        def __init__(self, code, device=None):
            self.code = code

        def kernel(self, symbol):
            return self

        def launch(self, *launch):
            found.append(launch)

    monkeypatch.setattr(_core, "why_no_cuda", lambda: "")
    monkeypatch.setattr(_core, "resolve_device", lambda *device: "cuda:0")
    monkeypatch.setattr(_core, "cuda_properties", lambda *device: {"compute": 90})
    monkeypatch.setattr(_core, "to_device", Memory)
    monkeypatch.setattr(_core, "CudaModule", Module)
    return found


@pytest.mark.skipif(bool(why_no_compiler()), reason=why_no_compiler())
def test_a_kernel_receives_operands_then_results_then_lengths(launches, rng):
    ladder = ado.ladder("product", reference=np.matmul, signature="(m,k),(k)->(m)")
    parameters = "const float* a, const float* x, float* out, int m, int k"
    ladder.cuda_variant("mine", source=f"__global__ void mine({parameters}) {{}}", block=4)
    operands = rng.random((5, 70), dtype=np.float32), rng.random(70, dtype=np.float32)
    ladder.problem(*operands, device="cuda").prepare("mine")
    ((grid, block, shared_bytes, arguments),) = launches
    assert (grid, block, shared_bytes) == ((2,), (4,), 0)
    *addresses, m, k = (int.from_bytes(argument, "little") for argument in arguments)
    assert (m, k) == (5, 70)
    given = [
        np.frombuffer((ctypes.c_float * n).from_address(address), np.float32)
        for address, n in zip(addresses, (5 * 70, 70, 5), strict=True)
    ]
    assert np.array_equal(given[0], operands[0].reshape(-1))
    assert np.array_equal(given[1], operands[1])
    assert np.isnan(given[2]).all()


def tiled(**settings):
    return ado.cuda_variant("tiled", source="", kernel="tiled<{T}, {TILE}>", **settings)


@pytest.mark.parametrize(
    ("block", "blocks"),
    [
        *[(64, ((64,),)), ((32, 8), ((32, 8),)), ([256, 128, 512], ((256,), (128,), (512,)))],
        *[([(32, 8), 64], ((32, 8), (64,))), (((32, 8), (16, 16)), ((32, 8), (16, 16)))],
    ],
)
def test_a_list_of_blocks_has_several_shapes_and_a_tuple_is_one(block, blocks):
    assert tiled(block=block).blocks == blocks


def test_each_combination_of_parameters_is_a_setting():
    variant = tiled(block=[(32, 8), (32, 16)], parameters={"TILE": (32, 64), "PAD": (0, 1)})
    assert [chosen for chosen, _ in variant.settings()] == [
        {"TILE": 32, "PAD": 0},
        {"TILE": 32, "PAD": 1},
        {"TILE": 64, "PAD": 0},
        {"TILE": 64, "PAD": 1},
    ]
    changed = variant.with_default((32, 16), {"TILE": 64})
    assert changed.blocks == ((32, 16), (32, 8))
    assert changed.default_parameters == {"TILE": 64, "PAD": 0}
    with pytest.raises(ValueError, match="block must be one of"):
        variant.with_default((8, 8), {})
    with pytest.raises(ValueError, match="has no parameter TILE with the value 7"):
        variant.with_default((32, 8), {"TILE": 7})


def test_tuning_finds_the_best_setting_and_makes_it_the_default(tmp_path):
    variant = tiled(block=[(32, 8), (32, 16)], parameters={"TILE": (32, 64)})
    ladder = ado.ladder("copy", reference=lambda a: a)
    ladder.add(variant)
    settings = {
        str(setting): setting
        for chosen, _ in variant.settings()
        for block in variant.blocks
        for setting in [ado.records.Setting(block, chosen)]
    }
    assert next(iter(settings)) == "32 x 8, TILE=32"
    lab = Lab()
    times = [4.0, 3.0, 1.0, 2.0]
    measured = [
        lab.measure(1e-3 * seconds, variant=name, **COPY)
        for name, seconds in zip(settings, times, strict=True)
    ]
    measurements = Sweep(routine="copy", measurements=tuple(measured))
    names = {"routine": "copy", "variant": "tiled"}
    tuning = ado.records.Tuning(**names, settings=settings, sweep=measurements, ladder=ladder)
    assert str(tuning.best) == "32 x 8, TILE=64"
    assert "32 x 8, TILE=32" in repr(tuning)
    assert "best: 32 x 8, TILE=64" in repr(tuning)
    tuning.use()
    assert ladder["tiled"].default_parameters == {"TILE": 64}
    tuning.use(settings["32 x 16, TILE=32"])
    assert ladder["tiled"].blocks[0] == (32, 16)

    tuning.save(tmp_path / "t.json")
    stored = ado.load(tmp_path / "t.json")
    assert stored == tuning
    assert list(stored.settings) == list(settings)
    assert repr(stored) == repr(tuning)
    for copied in (stored, copy.copy(tuning), copy.deepcopy(tuning)):
        with pytest.raises(KeyError, match="'copy' is not a routine: pass the ladder with ladder="):
            copied.use()
        copied.use(ladder=ladder)
        assert ladder["tiled"].default_parameters == {"TILE": 64}
        tuning.use(settings["32 x 16, TILE=32"])


def test_a_stored_tuning_of_a_routine_is_used():
    name, blocks = next((v.name, v.blocks) for v in ado.transpose if len(v.blocks) > 1)
    settings = {str(s): s for s in map(ado.records.Setting, blocks)}
    m = Lab().measure(1e-3, variant=str(ado.records.Setting(blocks[1])), **COPY)
    sweep = Sweep(routine="transpose", measurements=(m,))
    tuning = ado.records.Tuning(routine="transpose", variant=name, settings=settings, sweep=sweep)
    try:
        tuning.use()
        assert ado.transpose[name].blocks[0] == blocks[1]
    finally:
        ado.transpose.set_default(name, blocks[0], {})


def test_a_tuning_has_one_problem_and_a_setting_per_measurement():
    lab, problem = Lab(), {"problem": ado.records.Inputs.of([("a", (3,), "int8")])}
    one, other = (lab.measure(1e-3, variant="8", **COPY | more) for more in ({}, problem))
    settings = {"8": ado.records.Setting((8,)), "9": ado.records.Setting((9,))}
    fields = {"routine": "copy", "variant": "tiled", "settings": settings}
    for measurements in ((one, dataclasses.replace(other, variant="9")), (other,)):
        sweep = Sweep(routine="copy", measurements=measurements)
        record = ado.records.Tuning(**fields, sweep=sweep).to_dict()
        if len(measurements) == 1:
            del record["settings"]["8"]
        with pytest.raises(ValueError, match="sweep must only contain measurements of settings"):
            ado.records.Tuning.from_dict(record)


def test_objects_that_cannot_be_tuned_are_rejected():
    with pytest.raises(TypeError, match="variant must be a variant of a ladder, got Routine: "):
        ado.tune(ado.transpose)
    with pytest.raises(
        ValueError, match=r"must have several block shapes .* got transpose\[simd\]"
    ):
        ado.tune(ado.transpose["simd"])


# --- Comparisons ----------------------------------------------------------------------------------


def test_four_samples_give_no_verdict_on_speed(monkeypatch, rng):
    """The verdict on the results remains valid."""
    monkeypatch.setattr(sampling, "_MIN_SAMPLES_IF_SLOW", 4)
    how = {"against": ["simd"], "ceilings": False, "progress": False, "seconds": 1e-9}
    result = ado.check(lambda a: a.T.copy(), ado.transpose, rng.random((60, 70)), **how)
    assert result
    assert [len(m.samples) for m in result.sweep] == [4, 4]
    (comparison,) = result.comparisons.values()
    assert comparison.verdict == "unclear"
    assert "is correct" in repr(result)
    assert re.search("requires 11 samples, got 4|only 4 samples", repr(result))  # on a busy machine
