"""Kernels of Triton and Numba on the emulator."""

import importlib
import inspect
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import run_python
from kernels import mistakes

import adokernels as ado
from adokernels import _core, cli
from adokernels.cli.program import main
from adokernels.kernels import launch as launches
from adokernels.kernels.emulated import front_end_of
from adokernels.kernels.launch import _bytes_at, memory_of
from adokernels.measuring.capturing import Known, launches_of
from adokernels.model.compiler import why_no_compiler
from adokernels.process import ALL_CHECKS
from adokernels.records.limiter import Step

triton = pytest.importorskip("triton")
cuda = pytest.importorskip("numba.cuda")
if _core.why_no_emulator():
    pytest.skip("there is no emulator", allow_module_level=True)

FILES = sorted(Path(__file__).parent.glob("kernels/*_*.py"))
MODULES = {path.stem: importlib.import_module(f"kernels.{path.stem}") for path in FILES}
CASES = {
    f"{name.partition('_')[0]}-{run.__name__.removeprefix('run_')}": (run, tolerance)
    for name, module in MODULES.items()
    for run, tolerance in module.CASES.items()
}
elementwise, basic = MODULES["triton_elementwise"], MODULES["numba_basic"]


@pytest.fixture
def checks():
    before = ado.settings.emulator_checks
    ado.settings.emulator_checks = ALL_CHECKS
    yield
    ado.settings.emulator_checks = before


def verify(case, rng, compute=80):
    run, tolerance = CASES.get(case) or (case, 0)
    with ado.emulated(compute):
        found, expected = run(rng)
    assert found.shape == expected.shape
    if tolerance:
        np.testing.assert_allclose(found, expected, tolerance, tolerance)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("case", CASES)
def test_kernels_compute_the_reference_and_pass_all_checks(case, rng, checks):
    verify(case, rng)


CAPTURED = [name for name in CASES if re.search("softmax|matmul_fp16|transpose|histogram", name)]
CAPTURED += [name for name in CASES if name.startswith("numba")][:4]


@pytest.fixture
def in_order():
    """Run blocks in order, so that sums by atomic operations are the same each time."""
    threads = _core.max_threads()
    _core.set_max_threads(1)
    yield
    _core.set_max_threads(threads)


@pytest.mark.usefixtures("in_order")
@pytest.mark.parametrize("case", CAPTURED)
def test_captured_launches_repeat_bit_for_bit(case, rng, tmp_path, monkeypatch):
    found = []

    def record(code, symbol, grid, block, shared_bytes, given):
        """Make the record that the core makes of a launch on a GPU."""
        arrays = [each for each in given.values() if isinstance(each, np.ndarray)]
        bounds = sorted({memory_of(each) for each in arrays if each.size})
        before = [_bytes_at(*each).tobytes() for each in bounds]
        emulate(code, symbol, grid, block, shared_bytes, given)
        arguments = [
            np.uintp(each.ctypes.data).tobytes() if isinstance(each, np.ndarray) else each
            for each in given.values()
        ]
        after = [_bytes_at(*each).tobytes() for each in bounds]
        allocations = [(low, *pair) for (low, _), *pair in zip(bounds, before, after, strict=True)]
        fields = {"arguments": arguments, "allocations": allocations, "seconds": 0.0, "lacks": ""}
        fields |= {"grid": grid, "block": block, "shared_bytes": shared_bytes}
        fields |= {"symbol": symbol, "function": 0, "modules": 0}
        found.append((fields, Known(symbol, b"", code.decode)))

    emulate = launches.emulate
    for front_end in ("numba", "triton"):
        monkeypatch.setattr(f"adokernels.kernels.{front_end}.emulate", record)
    verify(case, rng)
    assert found
    for fields, known in found[:3]:
        (launch,) = launches_of([fields], [], [known])
        launch.save(tmp_path / "launch.ado")
        with ado.emulated():
            assert ado.load(tmp_path / "launch.ado").difference() == ""
    assert any(str(Path(__file__).parent) in path for path in launch.sources)


def test_a_launch_of_numba_needs_blocks():
    @cuda.jit
    def add(x):
        x[0] += 1

    x = np.zeros(1)
    with ado.emulated(), pytest.raises(ValueError, match="must be at least 1"):
        add[0, 32](x)
    assert x == 0


def test_products_for_newer_gpus(rng):
    for compute in (89, 90):
        verify(MODULES["triton_products"].run_matmul_fp8e4, rng, compute)
    verify("triton-matmul_fp16", rng, compute=90)
    verify("triton-descriptors", rng, compute=90)
    verify("triton-made_descriptors", rng, compute=90)


def test_autotuning_takes_the_first_configuration_and_leaves_no_trace(rng):
    x = rng.random(100, dtype="f4")
    expected = 3 * x
    tuner = elementwise.scale_tuned
    before = vars(tuner).copy()
    with ado.emulated(), pytest.warns(UserWarning, match="first configuration: BLOCK: 64"):
        tuner[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, 3.0, 100)
    np.testing.assert_array_equal(x, expected)
    assert vars(tuner) == before
    assert not tuner.cache


def test_contexts_can_be_nested_and_restore_the_front_ends(rng):
    configure = cuda.dispatcher.CUDADispatcher.configure
    with ado.emulated():
        with ado.emulated(compute=90):
            verify("triton-add", rng)
            verify("numba-saxpy", rng)
        verify("triton-add", rng)
        verify("numba-saxpy", rng)
    assert triton.runtime.driver._active is None
    assert cuda.dispatcher.CUDADispatcher.configure is configure


def test_importing_the_package_imports_no_front_end():
    code = """
import sys, adokernels as ado
with ado.emulated():
    print({*sys.modules} & {"triton", "numba"})
"""
    assert run_python(code) == "set()"


def test_views_keep_their_memory_and_their_distance(rng):
    memory = rng.random(300, dtype="f4")
    expected = memory.copy()
    expected[200:300] = memory[:100] + memory[100:200]
    parts = memory[:100], memory[100:200], memory[200:]
    with ado.emulated():
        elementwise.add[(1,)](*parts, 100, BLOCK=128)
    np.testing.assert_array_equal(memory, expected)


class Tensor:
    """The attributes of a torch tensor that Triton and the emulator use."""

    def __init__(self, array, device="cpu"):
        self.array, self.dtype, self.device = array, array.dtype, SimpleNamespace(type=device)

    def data_ptr(self):
        return self.array.ctypes.data

    def untyped_storage(self):
        memory = self.array if self.array.base is None else self.array.base
        return SimpleNamespace(data_ptr=lambda: memory.ctypes.data, nbytes=lambda: memory.nbytes)


def test_tensors_on_the_cpu_are_operands(rng):
    x = rng.random((2, 100), dtype="f4")
    out = np.zeros(100, "f4")
    with ado.emulated():
        elementwise.add[(1,)](Tensor(x[0]), Tensor(x[1]), Tensor(out), 100, BLOCK=128)
        np.testing.assert_array_equal(out, x[0] + x[1])
        with pytest.raises(ValueError, match="must be in host memory, got a tensor on"):
            elementwise.add[(1,)](x[0], x[1], Tensor(out, "cuda"), 100, BLOCK=128)


def test_a_function_can_be_the_reference(rng):
    x, y = map(np.copy, rng.random((2, 300), dtype="f4"))
    how = {"device": "emulator", "isolated": False}
    assert ado.check(added_twice, lambda x, y: x + y + x, x, y, **how)
    assert not ado.check(added_twice, lambda x, y: x + y, x, y, **how)


@pytest.mark.parametrize("dtype", [">f4", "object", "complex64"])
def test_types_that_triton_lacks_are_named(dtype):
    out = np.zeros(8, np.float32)
    with ado.emulated(), pytest.raises(TypeError, match=f"element type of Triton, got {dtype}"):
        saxpy_triton[(1,)](out.astype(dtype), out, out, 8, BLOCK=8, SAFE=True)


def test_kernels_must_not_write_to_read_only_arrays(rng):
    x, out = rng.random((2, 100), dtype="f4").copy(), np.zeros(100, "f4")
    out.flags.writeable = False
    with ado.emulated(), pytest.raises(ValueError, match="out must be writable"):
        elementwise.add[(1,)](x[0], x[1], out, 100, BLOCK=128)
    assert not out.any()
    x.flags.writeable = False
    out.flags.writeable = True
    with ado.emulated():
        elementwise.add[(1,)](x[0], x[1], out, 100, BLOCK=128)


def test_arrays_of_the_cuda_module_of_numba(rng):
    x = rng.random(100, dtype="f4")
    with ado.emulated():
        device = cuda.to_device(x)
        out = cuda.device_array_like(device)
        out.copy_to_device(np.zeros_like(x))
        stream = cuda.stream()
        basic.saxpy.forall(100)(np.float32(1), device, out)
        basic.saxpy[2, 64, stream](np.float32(1), cuda.In(x), out)
        stream.synchronize()
    np.testing.assert_array_equal(out.copy_to_host(), x + x)


def test_numba_kernels_with_signatures_and_records(rng):
    record = np.zeros(1, np.dtype([("a", "i4"), ("b", "f8")], align=True))[0]
    x = rng.random(64)
    with ado.emulated():

        @cuda.jit("void(float64[:], int32)")
        def scale(x, factor):
            x[cuda.grid(1)] *= factor

        @cuda.jit
        def fill(record, pair):
            record.a = pair[0]
            record.b = pair[1]

        expected = 3 * x
        scale[1, 64](x, 3)
        fill[1, 1](record, (2, 0.5))
    np.testing.assert_array_equal(x, expected)
    assert record.item() == (2, 0.5)


def test_blocks_of_numba_wait_for_the_grid(checks):
    @cuda.jit
    def count(rows):
        grid = cuda.cg.this_grid()
        i = cuda.grid(1)
        for row in range(1, rows.shape[0]):
            rows[row, i] = rows[row - 1, rows.shape[1] - 1 - i] + 1
            grid.sync()

    @cuda.jit
    def count_without_waiting(rows):
        i = cuda.grid(1)
        for row in range(1, rows.shape[0]):
            rows[row, i] = rows[row - 1, rows.shape[1] - 1 - i] + 1

    rows = np.zeros((5, 128), "i4")
    with ado.emulated():
        for _ in range(2):
            count[(2, 2), 32](rows[:, :64].copy())  # the counter of a launch begins as another ends
            count[4, 32](rows)
        np.testing.assert_array_equal(rows, np.arange(5)[:, None] + np.zeros((5, 128)))
        with pytest.raises(ado.KernelError, match="race in global memory"):
            count_without_waiting[4, 32](rows)


def test_numba_kernels_use_addresses_that_the_program_knows(rng, tmp_path):
    (tmp_path / "add.ptx").write_text("""
.version 8.0
.target sm_70
.address_size 64
.visible .func (.param .b32 status) add(.param .b64 result, .param .b32 x, .param .b32 y) {
  .reg .b32 %r<4>;
  .reg .b64 %rd;
  ld.param.u32 %r1, [x];
  ld.param.u32 %r2, [y];
  add.s32 %r1, %r1, %r2;
  ld.param.u64 %rd, [result];
  st.u32 [%rd], %r1;
  mov.u32 %r0, 0;
  st.param.b32 [status], %r0;
  ret;
}
""")
    add = cuda.declare_device("add", "int32(int32, int32)", link=str(tmp_path / "add.ptx"))
    with ado.emulated():

        @cuda.jit(cuda.types.void(cuda.types.CPointer(cuda.types.int32), cuda.types.int32))
        def add_n(x, n):
            i = cuda.grid(1)
            x[i] = add(x[i], n)

        x = cuda.to_device(np.arange(64, dtype="i4"))
        address = x.__cuda_array_interface__["data"][0]
        add_n[1, 64](address, 5)
        np.testing.assert_array_equal(x, np.arange(64) + 5)
        with pytest.raises(ado.KernelError, match="'an array at a known address'"):
            add_n[2, 64](address, 5)
        del x
        with pytest.raises(ado.KernelError, match="out of bounds"):
            add_n[1, 64](address, 5)


SCRIPT = """
import sys
import numpy as np
import torch
import triton
import triton.language as tl
from triton.testing import Benchmark, do_bench, perf_report

@triton.jit
def copy_all(sources, out, n, BLOCK: tl.constexpr):
    source = tl.load(sources + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    at = tl.arange(0, BLOCK)
    tl.store(out + tl.program_id(0) * n + at, tl.load(source + at, at < n), at < n)

tensors = [torch.Tensor(np.full(100, i, "f4")) for i in range(3)]
out = np.zeros((3, 100), "f4")
sources = np.array([each.data_ptr() for each in tensors])
times = do_bench(lambda: copy_all[(3,)](sources, out, 100, BLOCK=128), quantiles=[0.5, 0.8])
perf_report(Benchmark(["n"], [1 << 40], "line", [0], ["a"], "name", {}))(np.zeros).run()
print(sys.argv[1:], times, out.sum(1), torch.cuda.get_device_capability(), __name__)
properties = triton.runtime.driver.active.utils.get_device_properties(None)
kernel = copy_all.warmup(sources, out, 100, BLOCK=128, grid=(1,))
kernel._init_handles()
print(8 <= kernel.n_regs <= 255, properties["multiprocessor_count"] > 0)
tensors.clear()
copy_all[(3,)](sources, out, 100, BLOCK=128)
"""
TORCH = """
from types import SimpleNamespace
import torch.multiprocessing.reductions
cuda = SimpleNamespace(**dict.fromkeys(
    ["get_device_capability", "get_device_properties", "get_device_name", "synchronize"]
))

class Tensor:
    def __init__(self, array):
        self.array, self.device = array, SimpleNamespace(type="cpu")

    def data_ptr(self):
        return self.array.ctypes.data

    def untyped_storage(self):
        a = self.array
        return SimpleNamespace(data_ptr=lambda: a.ctypes.data, nbytes=lambda: a.nbytes, array=a)
"""
WEAK = """
from weakref import ref
class StorageWeakRef:
    def __init__(self, storage):
        self.array = ref(storage.array)

    def expired(self):
        return self.array() is None
"""


def test_a_script_runs_on_the_emulator(tmp_path):
    (tmp_path / "torch" / "multiprocessing").mkdir(parents=True)
    (tmp_path / "torch" / "__init__.py").write_text(TORCH)
    (tmp_path / "torch" / "multiprocessing" / "reductions.py").write_text(WEAK)
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "adokernels", "run", "--emulator", "--compute", "90"]
    command += [str(tmp_path / "script.py"), "--json", "-n", "-5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [
        "['--json', '-n', '-5'] [nan, nan] [  0. 100. 200.] (9, 0) __main__",
        "True True",
    ]
    assert "skipped zeros" in done.stderr
    assert "do_bench returns NaN" in done.stderr
    assert re.search("Traceback.*\n.*script.py", done.stderr)
    assert "KernelError: copy_all: out of bounds" in done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("code", "status", "text"),
    [
        ("raise SystemExit", 0, ""),
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('wrong')", 1, "adokernels: wrong\n"),
        ("1 / 0", 1, "Traceback (most recent call last):\n  File"),
        ("1 /", 1, "SyntaxError"),
    ],
)
def test_the_status_of_a_script(code, status, text, tmp_path, capsys):
    (tmp_path / "script.py").write_text(f"import sys\n{code}")
    before = list(sys.argv), list(sys.path)
    assert main(["run", "--emulator", str(tmp_path / "script.py")]) == status
    assert text in capsys.readouterr().err
    assert (sys.argv, sys.path) == before


def test_pytest_runs_a_suite_on_the_emulator(tmp_path):
    (tmp_path / "test_suite.py").write_text("""
import numpy as np
from numba import cuda

def test_add():
    @cuda.jit
    def add(x):
        x[cuda.grid(1)] += 1

    x = np.zeros(64)
    add[1, 64](x)
    assert cuda.is_available() and x.sum() == 64
""")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    command.append("--ado-emulated")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    command += ["--ado-compute", "100"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert "--ado-emulated: compute must be between 70 and 90" in done.stderr


@pytest.mark.parametrize("module", ["triton", "numba_cuda"])
def test_other_versions_are_refused(module, monkeypatch, rng):
    monkeypatch.setattr(importlib.import_module(module), "__version__", "2.1.0")
    with pytest.raises(ado.Unavailable, match=r"2\.1\.0 cannot be emulated"), ado.emulated():
        elementwise.run_add(rng)


def test_another_version_of_triton_does_not_prevent_kernels_of_numba(monkeypatch, rng):
    monkeypatch.setattr(importlib.import_module("triton"), "__version__", "2.1.0")
    with ado.emulated():
        got, expected = basic.run_saxpy(rng)
    np.testing.assert_array_equal(got, expected)


def added_twice(x, y):
    out = np.empty_like(x)
    elementwise.add[(4,)](x, y, out, x.size, BLOCK=128)
    basic.saxpy[8, 64](np.float32(1), x, out)
    return out


def line_of(module, code):
    lines = Path(module.__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if code in line)


def test_a_profile_of_a_function_has_its_kernels(rng):
    x, y = map(np.copy, rng.random((2, 500), dtype="f4"))
    found = ado.profile(added_twice, x, y, device="emulator")
    assert [each.kernel.name for each in found.kernels] == ["add", "saxpy"]
    assert found.label == "added_twice"
    # 500 elements of 4 bytes at aligned addresses are 63 sectors; the last one is half full.
    (add,) = ado.profile(added_twice, x, y, device="emulator", kernel="add").kernels
    assert add.values["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 2 * 63
    with pytest.raises(ValueError, match=r"kernel must be .* of added_twice, got 'adds': did you"):
        ado.profile(added_twice, x, y, device="emulator", kernel="adds")


@pytest.mark.parametrize(
    ("kernel", "module", "code"),
    [("add", elementwise, "tl.store(out + at, tl.load(x"), ("saxpy", basic, "y[i] += a * x[i]")],
)
def test_a_heat_map_of_a_function_has_the_lines_of_its_files(kernel, module, code, rng):
    x, y = rng.random((2, 500), dtype="f4")
    found = ado.heatmap(added_twice, x, y, device="emulator", kernel=kernel)
    assert {entry.kernel for entry in found.entries} == {kernel}
    at = line_of(module, code)
    (line,) = (each for each in found.lines if each.line == at)
    assert line.path == module.__file__
    assert code in line.text
    assert (line.loads.requests, line.stores.requests) == (2 * 16, 16)
    assert f"def {kernel}(" in found.excerpts[0].text
    both = ado.heatmap(added_twice, x, y, device="emulator")
    assert {entry.kernel for entry in both.entries} == {"add", "saxpy"}
    assert repr(both).startswith("added_twice, (500,) float32")


def test_lines_of_the_library_belong_to_the_line_that_calls_it(rng):
    x = rng.normal(size=(4, 50)).astype("f4")
    found = ado.heatmap(
        elementwise.bias_gelu[(3,)], x, x[0].copy(), np.empty_like(x), *x.shape, BLOCK=64,
        device="emulator",
    )  # fmt: skip
    assert {line.path for line in found.lines} == {elementwise.__file__}
    assert line_of(elementwise, "tl.math.erf") in {line.line for line in found.lines}


def test_the_next_step_of_a_function_follows_from_its_counts():
    def saxpy(x, y):
        basic.saxpy[8, 128](np.float32(2), x, y)

    x, y = np.ones(8 * 1024, "f4")[::8], np.zeros(1024, "f4")
    (finding,) = ado.diagnose(saxpy, x, y, device="emulator")
    assert (finding.variant, finding.advice.step) == ("saxpy", Step.COALESCING)
    with pytest.raises(ValueError, match="kernel must be the name of a kernel of saxpy, got 'x'"):
        ado.diagnose(saxpy, x, y, device="emulator", kernel="x")


def test_functions_without_kernels_and_with_other_devices():
    with pytest.raises(ValueError, match="sort launches no kernels"):
        ado.profile(np.sort, np.ones(3), device="emulator")
    with pytest.raises(TypeError, match="device must be 'cuda' or 'emulator' for callables"):
        ado.profile(np.sort, np.ones(3), device="cpu")


SCALE = triton.language.constexpr(2)


@triton.jit
def scaled(value):
    return SCALE * value


@triton.jit
def saxpy_triton(x, y, out, n, BLOCK: triton.language.constexpr, SAFE: triton.language.constexpr):
    at = triton.language.program_id(0) * BLOCK + triton.language.arange(0, BLOCK)
    mask = at < n if SAFE else at >= 0
    found = scaled(triton.language.load(x + at, mask=mask)) + triton.language.load(y + at, at < n)
    triton.language.store(out + at, found, mask=at < n)


def mixed_ladder():
    ladder = ado.ladder("saxpy", reference=lambda x, y: 2 * x + y, flops=lambda x, y: 2 * x.size)

    @ladder.variant
    def on_cpu(x, y):
        return 2 * x + y

    @ladder.variant
    def wrong(x, y):
        return 2 * x

    @ladder.variant
    def with_triton(x, y, out):
        saxpy_triton[(triton.cdiv(x.size, 128),)](x, y, out, x.size, BLOCK=128, SAFE=True)

    @ladder.variant
    def unmasked(x, y, out):
        saxpy_triton[(triton.cdiv(x.size, 128),)](x, y, out, x.size, BLOCK=128, SAFE=False)

    @ladder.variant
    def with_numba(x, y):
        out = np.array(y)
        basic.saxpy.forall(x.size)(np.float32(2), x, out)
        return out

    @ladder.variant
    def returns_operand(x, y):
        basic.saxpy.forall(x.size)(np.float32(2), x, y)
        return y

    return ladder


def test_a_ladder_mixes_front_ends(rng):
    ladder = mixed_ladder()
    kinds = {v.name: (v.device, v.arrays) for v in ladder.variants}
    assert kinds["on_cpu"] == ("cpu", "numpy")
    assert kinds["with_triton"] == ("cuda", "torch")
    assert kinds["with_numba"] == ("cuda", "numba")
    if not why_no_compiler():
        ladder.cuda_variant("with_cuda", source=SAXPY, kernel="saxpy", block=64)
    x, y = map(np.copy, rng.random((2, 500), dtype="f4"))
    found = ado.sweep(ladder, x, y, device="emulator", progress=False)
    names = ["with_triton", "with_numba", "with_cuda"][: len(ladder.variants) - 4]
    assert [each.variant for each in found] == names
    key = "smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_ld.sum"
    loads = {each.profile.kernels[0].values.get(key) for each in found}
    assert len(loads) == 1
    line = line_of(sys.modules[__name__], "found = scaled(")
    assert f"{Path(__file__).name}:{line}" in found.skipped["unmasked"]
    assert "returns a view of an operand" in found.skipped["returns_operand"]
    assert found.skipped["on_cpu"] == "saxpy[on_cpu] launches no kernels, so there are no counts"
    assert "wrong result" in found.skipped["wrong"]
    heat = ado.heatmap(ladder["with_triton"], x, y, device="emulator")
    assert line in {each.line for each in heat.lines}


SAXPY = """
extern "C" __global__ void saxpy(const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * x[i] + y[i];
}
"""


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("name", ["with_triton", "unmasked", "with_numba", "returns_operand"])
def test_variants_of_front_ends_are_checked(name, isolated, rng):
    ladder = mixed_ladder()
    x, y = map(np.copy, rng.random((2, 500), dtype="f4"))
    found = ado.check(ladder[name], ladder, x, y, device="emulator", isolated=isolated)
    assert bool(found) == name.startswith("with"), found
    if name == "unmasked":
        assert f"{Path(__file__).name}:{line_of(sys.modules[__name__], 'found = scaled(')}" in (
            found.reason
        )


@pytest.mark.parametrize("isolated", [False, True])
def test_functions_on_the_emulator_receive_the_strides_of_the_operands(isolated, rng):
    ladder, x = mixed_ladder(), rng.random(1000, dtype="f4")
    how = {"device": "emulator", "isolated": isolated}
    assert ado.check(ladder["with_numba"], ladder, x[::2], x[1::2], **how)
    found = ado.check(ladder["with_triton"], ladder, x[::2], x[1::2], **how)
    assert "out of tolerance" in found.reason
    assert found.reason.endswith("not contiguous: x, y)")


@pytest.mark.parametrize(("name", "code"), [("right", 0), ("incomplete", 1)])
def test_the_command_line_checks_functions_of_triton(name, code, tmp_path):
    file = tmp_path / "submission.py"
    file.write_text(SUBMISSION)
    command = ["check", str(file), "--routine", "transpose", "--kernel", name]
    assert cli.main([*command, "--device", "emulator", "--shape", "40x70"]) == code


SUBMISSION = """
import triton
import triton.language as tl


@triton.jit
def transpose(x, out, rows, cols, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)[:, None]
    j = tl.program_id(1) * SIZE + tl.arange(0, SIZE)[None, :]
    inside = (i < rows) & (j < cols)
    tl.store(out + j * rows + i, tl.load(x + i * cols + j, inside), inside)


def right(a, out):
    grid = triton.cdiv(a.shape[0], 32), triton.cdiv(a.shape[1], 32)
    transpose[grid](a, out, *a.shape, SIZE=32)


def incomplete(a, out):
    transpose[triton.cdiv(a.shape[0], 32), a.shape[1] // 32](a, out, *a.shape, SIZE=32)
"""


def test_the_code_of_a_function_names_its_front_end():
    def later():
        return unset

    def through_a_module(x):
        elementwise.add[(1,)](x)

    class Launcher:
        def launch(self, x):
            basic.saxpy[1, 1](x)

    launches = {"saxpy": basic.saxpy}

    def from_a_dictionary(x):
        launches["saxpy"][1, 1](x)

    class Callable:
        def __init__(self, function):
            self.function = function

        def __call__(self, x):
            return self.function(x)

    names = [*map(front_end_of, (later, through_a_module, Launcher().launch, np.sort, len))]
    assert names == ["", "triton", "numba", "", ""]
    indirect = [from_a_dictionary, Callable(from_a_dictionary), partial(Callable(through_a_module))]
    assert [*map(front_end_of, indirect)] == ["numba", "numba", "triton"]
    assert ado.variant(through_a_module).device == "cuda"
    assert ado.variant(through_a_module, device="cpu").device == "cpu"
    unset = None
    for refuses in (ado.variant, lambda kernel: ado.heatmap(kernel, np.ones(3), device="emulator")):
        for kernel in (elementwise.add, basic.saxpy):
            with pytest.raises(TypeError, match="must be a function that launches the kernel"):
                refuses(kernel)


def test_the_emulator_refuses_a_single_function_without_kernels():
    ladder = mixed_ladder()
    with pytest.raises(
        ValueError, match=r"on_cpu runs on cpu.* ado.variant\(on_cpu, device='cuda'\)"
    ):
        ado.check(ladder["on_cpu"], ladder, np.ones(3), np.ones(3), device="emulator")


@pytest.mark.parametrize(
    ("kind", "kernel", "run"),
    [pytest.param(*case, id=case[1].__name__) for case in mistakes.cases()],
)
def test_mistakes_are_found_at_their_line(kind, kernel, run, checks):
    if kind == "uninitialised":
        ado.settings.emulator_checks = "shared_initcheck"
    lines, first = inspect.getsourcelines(getattr(kernel, "fn", getattr(kernel, "py_func", None)))
    (line,) = (i for i, code in enumerate(lines, first) if code.rstrip().endswith("# here"))
    with ado.emulated(), pytest.raises(ado.KernelError) as caught:
        run()
    error = caught.value
    assert (error.kind, error.file, error.line) == (kind, mistakes.__file__, line)
