"""The emulated GPU: calls, arrays, errors, profiles against stored ones, sweeps."""

import io
import json
import math
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from charting import clashes
from conftest import cuda_variants, run_python

import adokernels as ado
from adokernels import _core, machine_code
from adokernels.fat_binary import ptx_in
from adokernels.model import compiler
from adokernels.model.tasks import as_tuple
from adokernels.process import ALL_CHECKS
from adokernels.records.counted import CountedSweep, CountedVariant
from adokernels.records.inputs import Inputs
from adokernels.records.limiter import Provenance, Step
from adokernels.records.loading import load
from adokernels.text import count

DATA = Path(__file__).parent.parent / "notebooks" / "data"
STORED = Path(__file__).parent / "data" / "emulator"
pytestmark = pytest.mark.skipif(_core.why_no_emulator() != "", reason=_core.why_no_emulator())
ON = {"device": "emulator"}


@pytest.fixture
def checks():
    before = ado.settings.emulator_checks
    yield
    ado.settings.emulator_checks = before


# --- Calls and arrays -----------------------------------------------------------------------------


def test_the_default_variant_is_the_one_of_an_h200(rng):
    a = rng.random((130, 70))
    chosen = ado.transpose.choose(a, **ON)
    assert (chosen.device, chosen.variant) == ("cuda", "coarsened")
    np.testing.assert_array_equal(ado.transpose(a, **ON), a.T)


def test_device_arrays(rng):
    a = rng.random((33, 65), np.float32)
    x = ado.to_device(a, device="emulator")
    assert x.device == "emulator"
    y = ado.transpose(x)
    assert isinstance(y, ado.DeviceArray)
    np.testing.assert_array_equal(y.numpy(), a.T)
    np.testing.assert_array_equal(np.from_dlpack(y), a.T)
    assert not hasattr(y, "__cuda_array_interface__")
    with pytest.raises(ValueError, match="device must be 'emulator'"):
        ado.transpose(x, device="cpu")
    with pytest.raises(ValueError, match="device must be 'emulator'"):
        ado.transpose(x, device="cuda")


def placed(arrays, shift):
    """Arrays in the memory of the emulator, `shift` elements after an aligned address."""
    for a in arrays:
        _core.set_emulated_misalignment(shift * a.itemsize)
        yield ado.to_device(a, device="emulator")
    _core.set_emulated_misalignment(0)


@pytest.mark.parametrize(("routine", "name"), cuda_variants())
def test_unaligned_arrays(checks, routine, name):
    """Operands, results or both begin one element after an aligned address."""
    ado.settings.emulator_checks = ALL_CHECKS
    shapes = [*routine.task.sanitizer.shapes[:1], *([(77, 1)] if routine is ado.component else [])]
    for operands in map(routine.task.random_operands, shapes):
        problem = routine.problem(*operands, variant=name, **ON)
        if problem.why_not(name):
            continue
        right = as_tuple(routine(*operands, variant=name, **ON))
        for of_operands, of_results in ((1, 0), (0, 1), (1, 1)):
            given = placed(operands, of_operands)
            outs = tuple(placed(map(np.zeros_like, right), of_results))
            declined = ""
            try:
                routine(*given, variant=name, out=outs if len(outs) > 1 else outs[0])
            except ValueError as error:
                declined = str(error)
            if declined:
                assert declined.startswith(f"{routine.name}[{name}]: ")
                continue
            for out, expected in zip(outs, right, strict=True):
                np.testing.assert_allclose(out.numpy(), expected, rtol=1e-5, atol=1e-4)


def test_settings(device_restored, checks, rng):
    ado.settings.device = "emulator"
    a = rng.random((5, 4))
    np.testing.assert_array_equal(ado.transpose(a, variant="naive"), a.T)
    assert ado.transpose["tiled"].resources(a).registers > 0
    ado.settings.emulator_checks = ALL_CHECKS
    assert ado.settings.emulator_checks == ALL_CHECKS
    with pytest.raises(ValueError, match=r"got 'racechek'.*racecheck"):
        ado.settings.emulator_checks = "racechek"


def test_libraries_and_times_are_unavailable(rng):
    operands = ado.average_matvec.task.random_operands((3, 64, 5), "f4")
    for name in ("average_then_gemm", "split_average_then_gemm"):
        with pytest.raises(ado.Unavailable, match="cannot execute the kernels of cuBLAS"):
            ado.average_matvec(*operands, variant=name, **ON)
    with pytest.raises((ado.Unavailable, ValueError), match="does not measure time"):
        ado.measure(ado.transpose["naive"], rng.random((5, 5)), **ON)


@pytest.fixture
def by_default():
    before = ado.settings.device
    ado.settings.device = "emulator"
    yield
    ado.settings.device = before


@pytest.mark.parametrize(
    "call",
    [
        lambda x: ado.measure(ado.transpose, x),
        lambda x: ado.measure(ado.transpose, x, device="cuda"),
        lambda x: ado.measure(ado.transpose["tiled"], x),
        lambda x: ado.measure(lambda: ado.transpose(x)),
        lambda x: ado.compare(ado.transpose["naive"], ado.transpose["tiled"], x),
        lambda x: ado.compare(np.transpose, ado.transpose, x),
        lambda x: ado.compare(np.transpose, lambda a: ado.transpose(a.copy()), x),
        lambda x: ado.tune(ado.transpose["naive"], x),
        lambda x: ado.scan(ado.transpose, shapes=[x.shape]),
        lambda x: ado.scan(ado.transpose, shapes=[x.shape], variants="tiled"),
        lambda x: ado.scan(ado.transpose, shapes=[x.shape], copies=True),
    ],
)
def test_the_emulator_as_the_default_device_is_not_timed(by_default, rng, call):
    with pytest.raises(ado.Unavailable, match="does not measure time: pass device='cpu'"):
        call(rng.random((5, 7)))


def test_cpu_variants_and_functions_are_timed_beside_the_emulator(by_default, rng):
    x, how = rng.random((5, 7)), {"seconds": 0.01}
    assert ado.measure(ado.transpose, x, device="cpu", **how).device == "cpu"
    assert ado.measure(np.transpose, x, **how).device == "cpu"
    cpu = next(v.name for v in ado.transpose if v.device == "cpu")
    shown = {"progress": False, "ceilings": False}
    (found,) = ado.scan(ado.transpose, shapes=[x.shape], variants=cpu, **shown, **how)
    assert found[0].variant == cpu


@pytest.mark.parametrize("routine", [ado.transpose, ado.transpose["tiled"]])
def test_copies_that_overlap_are_refused(by_default, rng, routine):
    x = rng.random((5, 7))
    with pytest.raises(ado.Unavailable, match="streams, which the emulator lacks; pass device="):
        ado.out_of_core(routine, x)
    np.testing.assert_array_equal(ado.out_of_core(ado.transpose, x, device="cpu"), x.T)


# --- Fat binaries ---------------------------------------------------------------------------------


def test_each_fat_binary_has_the_ptx_of_its_kernels():
    fatbins = _core.fatbins()
    ptx = {size: ptx_in(f) for size, f in {len(f): f for f in fatbins.values()}.items()}
    assert len(ptx) > 10
    for symbol, fatbin in fatbins.items():
        assert f".entry {symbol}(".encode() in ptx[len(fatbin)]
    with pytest.raises(ado.Unavailable, match=r"no PTX for compute capability 7\.0"):
        ptx_in(fatbin, compute=70)


def test_registers_are_those_that_cuobjdump_reports():
    try:
        command = [machine_code.tool("cuobjdump"), "-res-usage", "-arch", "sm_90", _core.__file__]
    except ado.Unavailable as missing:
        pytest.skip(str(missing))
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    known = {k: int(n) for k, n in re.findall(r"Function (\S+):\n +REG:(\d+)", listed)}
    files = {len(fatbin): fatbin for fatbin in _core.fatbins().values()}
    assert {
        k: n for fatbin in files.values() for k, n in machine_code.registers_in(fatbin).items()
    } == known


def test_threads_launch_their_first_kernels_together():
    """They read the same fat binary, in calls that release the GIL and in calls that do not."""
    code = """
import threading
import numpy as np
import adokernels as ado

ado.settings.device = "emulator"
a = np.random.default_rng().random((33, 65))
right = []

def call(variant):
    ado.transpose[variant].resources(a)
    right.append((ado.transpose(a, variant=variant) == a.T).all())

variants = ("naive", "coarsened", "tiled", "padded")
threads = [threading.Thread(target=call, args=[v]) for v in variants]
for t in threads: t.start()
for t in threads: t.join()
print(len(right), all(right))
"""
    assert run_python(code) == "4 True"


# --- Other GPUs -----------------------------------------------------------------------------------


@pytest.fixture
def gpu_restored():
    before = ado.settings.emulated_gpu
    yield
    ado.settings.emulated_gpu = before


#: Per GPU: compute capability, multiprocessors, warps and bytes of shared memory per
#: multiprocessor, blocks per multiprocessor (deviceQuery, and cuda::arch_traits of CCCL).
GPUS = {
    "H200": (90, 132, 64, 228 << 10, 32),
    "H100": (90, 132, 64, 228 << 10, 32),
    "A100": (80, 108, 64, 164 << 10, 32),
    "A10": (86, 72, 48, 100 << 10, 16),
    "L4": (89, 58, 48, 100 << 10, 24),
    "T4": (75, 40, 32, 64 << 10, 16),
    "RTX 4090": (89, 128, 48, 100 << 10, 24),
    "RTX 5090": (120, 170, 48, 100 << 10, 24),
}


@pytest.mark.parametrize("name", GPUS)
def test_host_code_and_records_see_the_emulated_gpu(gpu_restored, name):
    """The second grid has up to four blocks per multiprocessor; resources have its limits."""
    ado.settings.emulated_gpu = name
    assert ado.settings.emulated_gpu == name
    compute, units, warps, shared, blocks = GPUS[name]
    operands = ado.max_plus.task.random_operands((20000, 64))
    profile = ado.profile(ado.max_plus["one_barrier"], *operands, **ON)
    known = profile.context["cuda"]
    assert name in known["name"]
    assert profile.context["device_name"] == known["name"]
    assert (known["compute"], known["multiprocessors"]) == (compute, units)
    assert known["shared_bytes_per_multiprocessor"] == shared
    assert known["shared_bytes"] == (shared if compute < 80 else shared - 1024)
    kernel = profile.kernels[1].kernel
    assert 0.9 * 4 * units < kernel.grid[0] * kernel.grid[1] <= 4 * units
    assert (kernel.max_warps, kernel.limits["blocks"]) == (warps, blocks)


def test_a_modified_gpu(gpu_restored, rng):
    gpu = {"name": "A100", "multiprocessors": 14, "l2_bytes": 5 << 20}
    ado.settings.emulated_gpu = gpu
    assert ado.settings.emulated_gpu == gpu
    x = rng.random((64, 64))
    known = ado.sweep(ado.transpose, x, variants="tiled", progress=False, **ON).context["cuda"]
    assert (known["multiprocessors"], known["l2_bytes"]) == (14, 5 << 20)
    assert known["name"] == "emulated NVIDIA A100 SXM, modified"
    ado.settings.emulated_gpu = {"core_hertz": 1.5, "threads_per_multiprocessor": 96}
    assert ado.settings.emulated_gpu["core_hertz"] == 1.5
    known = ado.profile(ado.transpose["tiled"], x, **ON).context["cuda"]
    assert (known["core_hertz"], known["threads_per_multiprocessor"]) == (1.5, 96)
    ado.settings.emulated_gpu = {}
    assert ado.settings.emulated_gpu == "H200"


@pytest.mark.parametrize(
    ("gpu", "error"),
    [
        ("H300", "must be one of H200, .*, got H300"),
        ({"name": "A100", "multiprocessor": 3}, "must be one of .*multiprocessors.*, got"),
        ({"compute": 70}, "compute .* must be one of 75, .*, got 70"),
        ({"multiprocessors": 0}, "multiprocessors must be a whole number between 1 and"),
        ({"compute": 90.5}, "compute must be a whole number between 1 and"),
        ({5: 3}, "must be one of .*multiprocessors.*, got 5"),
        ({"kind": 3}, "must be one of .*multiprocessors.*, got kind"),
        ({"compute": "90"}, "must be a number, got"),
        ({"name": 90}, "must be a str, got"),
        (None, "must be a str or a mapping, got"),
    ]
    + [
        ({name: value}, f"{name} must be .*between 1 and .*, got {text}")
        for name in ("compute", "core_hertz", "l2_bytes", "shared_bytes")
        for value, text in ((math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf"), (-90, "-90"))
    ],
)
def test_wrong_gpus(gpu_restored, gpu, error):
    ado.settings.emulated_gpu = {"l2_bytes": 7 << 20}  # a known GPU does not hide a wrong one
    ado.settings.emulated_gpu = "H200"
    with pytest.raises((TypeError, ValueError), match=error):
        ado.settings.emulated_gpu = gpu
    assert ado.settings.emulated_gpu == "H200"


def test_code_for_9_0_on_older_gpus(gpu_restored, rng):
    """The code of the build is for compute capability 9.0."""
    image, a = rng.integers(0, 256, (40, 64), np.uint8), rng.random((32, 32))
    ado.settings.emulated_gpu = "A100"
    result = ado.sobel(image, variant="sliding_window", **ON)
    assert (result == ado.sobel(image, device="cpu")).all()
    with pytest.raises(ado.Unavailable, match=r"requires compute capability 9.0, but .* has 8.0"):
        ado.transpose(a, variant="tma", **ON)
    ado.settings.emulated_gpu = "T4"
    needs = r"needs compute capability 8.0, but the emulated GPU has 7.5: cp.async.*[.]cuh:"
    with pytest.raises(ado.Unavailable, match=needs):
        ado.sobel(image, variant="sliding_window", **ON)
    np.testing.assert_array_equal(ado.transpose(a, variant="tiled", **ON), a.T)


@pytest.mark.parametrize(("gpu", "arch", "units"), [("T4", 750, 40), ("RTX 5090", 900, 170)])
def test_own_kernels_are_compiled_for_the_emulated_gpu(gpu_restored, gpu, arch, units):
    if missing := compiler.why_no_compiler():
        pytest.skip(missing)
    source = """__global__ void facts(const float* a, float* out, int n) {
  unsigned units;
  asm("mov.u32 %0, %%nsmid;" : "=r"(units));
  out[threadIdx.x] = threadIdx.x ? units : __CUDA_ARCH__;
}"""
    ado.settings.emulated_gpu = gpu
    ladder = ado.ladder("facts", reference=lambda a: a * 0 + np.float32([arch, units]))
    ladder.cuda_variant("facts", source=source, block=2)
    a = np.zeros(2, "f4")
    assert ladder(a, variant="facts", **ON).tolist() == [arch, units]
    other = ado.cuda_variant("other", source=source, kernel="facts", block=2)
    assert ado.check(other, ladder, a, **ON)  # in another process
    assert b" "[0] == 32  # NVRTC has not written into an object that Python shares


def test_wgmma_needs_hopper(gpu_restored):
    if missing := compiler.why_no_compiler():
        pytest.skip(missing)
    source = """__global__ void twice(const float* a, float* out, int n) {
  asm volatile("wgmma.fence.sync.aligned;");
  out[threadIdx.x] = 2 * a[threadIdx.x];
}"""
    ladder = ado.ladder("twice", reference=lambda a: 2 * a)
    ladder.cuda_variant("twice", source=source, block=32)
    a = np.ones(32, "f4")
    assert ladder(a, variant="twice", **ON).tolist() == [2] * 32
    ado.settings.emulated_gpu = "RTX 5090"
    with pytest.raises(
        ado.Unavailable, match=r"wgmma needs compute capability 9\.0, but .* has 12\.0"
    ):
        ladder(a, variant="twice", **ON)


# --- Interruptions --------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_ends_a_kernel(threads):
    """Without the interruption, the kernel runs for minutes, and the process is killed."""
    code = """
import signal, sys
import numpy as np
import adokernels as ado

ado.settings.threads = int(sys.argv[1])
small = ado.gpp.task.random_operands((5, 5, 40, 2))
how = {"variant": "collapse3", "device": "emulator"}
before = [r.tobytes() for r in ado.gpp(*small, **how)]
operands = ado.gpp.task.random_operands((256, 256, 2048, 2))
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    ado.gpp(*operands, **how)
except KeyboardInterrupt:
    print([r.tobytes() for r in ado.gpp(*small, **how)] == before)
"""
    assert run_python(code, str(threads)) == "True"


#: The beginning of a program with a kernel that does not end.
SPIN = '''
import signal
import numpy as np
import adokernels as ado

source = """__global__ void spin(const float* a, float* out, int rows, int cols) {
  float x = a[0];
  for (long long i = 0; i < (1ll << 40); ++i) x = x * 3.0f + 1.0f;
  out[0] = x;
}"""
spin = ado.cuda_variant("spin", source=source, block=32, grid=3)
ladder = ado.transpose.with_variants(spin)
a = np.zeros((4, 4), "f4")
'''


def test_ctrl_c_and_a_timeout_end_an_own_kernel():
    code = """
print(ado.check(spin, ado.transpose, a, device="emulator", timeout=1).reason)
signal.signal(signal.SIGALRM, signal.default_int_handler)
signal.setitimer(signal.ITIMER_REAL, 0.3)
try:
    ladder(a, variant="spin", device="emulator")
except KeyboardInterrupt:
    print("interrupted")
"""
    if missing := compiler.why_no_compiler():
        pytest.skip(missing)
    first, second = run_python(SPIN + code).splitlines()
    assert "did not return within 1.00 s" in first
    assert second == "interrupted"


def test_memory_is_allocated_and_freed_during_a_kernel():
    """Another thread allocates and waits. Garbage collection in a signal handler frees memory."""
    code = """
import gc, threading

unused = [ado.to_device(a, device="emulator") for _ in range(3)]
is_running = threading.Event()


def handle(*_):
    try:
        ado.to_device(a, device="emulator")
    except ado.Unavailable as error:
        print(error)
        cycle = [unused.pop()]
        cycle.append(cycle)
        del cycle
        gc.collect()
        is_running.set()
    if not unused:
        raise KeyboardInterrupt


def allocate():
    is_running.wait()
    ado.to_device(a, device="emulator")


thread = threading.Thread(target=allocate)
thread.start()
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, 0.5, 0.3)
try:
    ladder(a, variant="spin", device="emulator")
except KeyboardInterrupt:
    signal.setitimer(signal.ITIMER_REAL, 0)
thread.join()
"""
    if missing := compiler.why_no_compiler():
        pytest.skip(missing)
    assert (
        run_python(SPIN + code).splitlines()
        == ["a signal handler cannot use the emulator during a kernel"] * 3
    )


# --- Errors ---------------------------------------------------------------------------------------


def test_errors_name_line_thread_and_operand(checks):
    """A ceiling leaves its result unwritten; the next kernel reads it."""
    operands = ado.average_matvec.task.random_operands((3, 64, 5), "f4")
    on_device = [ado.to_device(a, device="emulator") for a in operands]
    unwritten = ado.average_matvec(*on_device, variant="read")
    ado.transpose(unwritten, variant="naive")  # reads what cudaMalloc returned
    ado.settings.emulator_checks = ["initcheck"]
    with pytest.raises(ado.KernelError, match="uninitialised: load of 4 bytes") as caught:
        ado.transpose(unwritten, variant="naive")
    error = caught.value
    assert isinstance(error, ado.CudaError)
    assert (error.kind, error.array, error.byte) == ("uninitialised", "a", 0)
    assert (error.thread, error.block) == ((0, 0, 0), (0, 0, 0))
    line = (Path(__file__).parent.parent / error.file).read_text().splitlines()[error.line - 1]
    assert error.file == "cuda/transpose/steps.cu"
    assert re.search(r"\bin\b|from|\ba\b", line)
    ado.settings.emulator_checks = ()
    assert ado.transpose(unwritten, variant="naive").shape == unwritten.shape[::-1]


# --- Profiles -------------------------------------------------------------------------------------


def stored_profiles(most_instructions):
    """Profiles of an H200 of kernels that the emulator executes in a second."""
    for name in ("grayscale", "sobel", "gaussian_blur", "edge_detect"):
        sweep = load(DATA / f"{name}-2560x1600.json.xz")
        for m in sweep.measurements:
            if m.profile and m.profile["instructions"] <= most_instructions:
                yield pytest.param(m, id=f"{name}-{m.variant}")


@pytest.mark.parametrize("m", [*stored_profiles(16e6)])
def test_counts_are_those_of_an_h200(m, rng):
    (operand,) = m.problem.operands
    image = rng.integers(0, 256, operand.shape, np.uint8)
    profile = ado.profile(ado.routines[m.routine][m.variant], image, **ON)
    assert profile.provenance == Provenance.EMULATED
    hardware = m.profile
    assert hardware.provenance == Provenance.COUNTED
    for key in ("load_requests", "load_sectors", "store_requests", "ideal_load_sectors"):
        assert profile[key] == pytest.approx(hardware[key], rel=2e-3 if "ideal" in key else 0), key
    assert profile["store_sectors"] == pytest.approx(hardware["store_sectors"], rel=0.01)
    assert profile.get("flops") == pytest.approx(hardware.get("flops"), rel=0.01)
    assert profile["lanes"] == pytest.approx(hardware["lanes"], rel=0.11)
    for key in ("shared_load_wavefronts", "shared_store_wavefronts"):
        assert profile.get(key) <= (hardware.get(key) or 0)
    for key in ("seconds", "instructions", "dram_bytes", "l1_hit_rate", "stall_barrier"):
        assert profile.get(key) is None
    assert "compared with the hardware" in repr(profile)


def compared_with_a_gpu():
    """Rows of benchmarks/emulated_counters.py whose counts do not depend on values."""
    stored = json.loads((STORED / "counters.json").read_text(encoding="utf-8"))
    for row in stored["rows"]:
        if row["routine"] not in ("gpp", "gather", "branch") and row["variant"] != "overlapped":
            lengths = "x".join(map(str, row["lengths"]))
            yield pytest.param(row, id=f"{row['routine']}-{row['variant']}-{lengths}")


@pytest.mark.parametrize("row", [*compared_with_a_gpu()])
def test_counts_are_those_of_small_problems_on_a_gpu(row):
    routine, gpu, stored = ado.routines[row["routine"]], row["gpu"], row["emulator"]
    operands = routine.task.random_operands(row["lengths"])
    profile = ado.profile(routine[row["variant"]], *operands, **ON)
    for key in ("load_requests", "load_sectors", "store_requests"):
        # The rows that differ are listed in docs/guide/emulator.md.
        assert profile[key] == (gpu if stored[key] == gpu[key] else stored)[key], key
    assert profile["atomics"] == gpu["atomics"]
    for key in ("shared_load_wavefronts", "shared_store_wavefronts"):
        assert profile.get(key) == stored[key], key


def test_counted_work(rng):
    a = rng.random((64, 64), np.float32)
    profile = ado.profile(ado.transpose["tiled"], a, **ON)
    assert profile["barriers"] == profile["load_requests"] == 64 * 64 / 32
    assert profile["shared_load_conflicts"] == 31 * 64 * 64 / 32
    x = rng.random(4096, np.float32)
    flops = ado.profile(ado.instruction_parallelism["one_chain"], x, **ON)["flops"]
    assert flops == ado.instruction_parallelism["one_chain"].cost(x).executed_flops


# --- Sweeps ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sweep():
    a = np.random.default_rng(1).random((96, 96), np.float32)
    return ado.sweep(ado.transpose, a, device="emulator", progress=False)


def test_sweeps_count_every_variant(sweep, tmp_path):
    assert {v.variant for v in sweep} >= {"naive", "coalesced", "tiled", "padded"} & {
        v.name for v in ado.transpose
    }
    assert sweep["naive"].sectors > sweep["padded"].sectors
    assert not any("Error" in reason for reason in sweep.skipped.values()), sweep.skipped
    assert sweep.skipped["in_place"] == "out is not a"
    path = tmp_path / "counts.json"
    sweep.save(path)
    assert load(path)["naive"].profile.values == sweep["naive"].profile.values
    assert "Emulated" in repr(sweep)


def test_diagnosis_from_counts(sweep):
    found = ado.diagnose(sweep)
    assert found["naive"].advice.step is Step.COALESCING
    assert found["tiled"].advice.step is Step.BANK_CONFLICTS
    assert Step.COALESCING not in [a.step for a in found["padded"].advices]
    assert found["naive"].advice.bound is None
    assert "no time" in repr(found) or "measures no time" in repr(found)


def test_bulk_copies_are_among_the_sectors(tmp_path):
    """The load sectors of the hardware exclude copies of the tensor memory accelerator."""
    x = np.random.default_rng().random((64, 48), np.float32)
    counted = ado.sweep(ado.transpose, x, variants=["naive", "padded", "tma"], progress=False, **ON)
    v, compulsory = counted["tma"], 2 * x.nbytes / 32
    assert v.profile["load_sectors"] == 0
    assert v.sectors_of("load") == v.ideal_sectors_of("load") == compulsory / 2
    assert v.sectors == counted["padded"].sectors == compulsory
    title = ado.steps(counted).get_title(loc="left")
    assert title == "2 of 3 variants access the fewest sectors: 4.50 times fewer than naive"
    (row,) = (line.split() for line in repr(counted).splitlines() if line.strip().startswith("tma"))
    assert row[1:6] == ["0", "384", "1.00x", "384", "1.00x"]
    assert "sectors of tma include bulk copies, which are not requests" in repr(counted)
    counted.save(tmp_path / "counts.json")
    assert load(tmp_path / "counts.json")["tma"].sectors == compulsory


def test_atomics_are_among_the_sectors():
    """A histogram with atomics in global memory accesses more sectors than one in shared memory."""
    ladder = ado.ladder("bins", reference=lambda a: np.bincount(a, minlength=64), dtype="int32")
    bodies = {"atomics": HISTOGRAM.format("a[i]"), "shared": SHARED.format("a[i]", 1)}
    launch = {"kernel": "k", "block": 128, "grid": (4,), "zero": True}
    for name, body in bodies.items():
        ladder.cuda_variant(name, source=f'extern "C" __global__ void k{INT} {body}', **launch)
    counted = ado.sweep(ladder, VALUES, progress=False, **ON)
    for v in counted:
        known = ("load_sectors", "store_sectors", "atomic_sectors")
        assert v.sectors == sum(v.profile[name] for name in known)
        assert v.profile["atomic_sectors"]
        assert not v.has_bulk_copies
    title = ado.steps(counted).get_title(loc="left")
    assert title.startswith("shared accesses the fewest sectors")
    row = next(line for line in repr(counted).splitlines() if line.strip().startswith("shared"))
    assert count(counted["shared"].profile["shared_atomic_conflicts"]) in row


def test_charts_of_counts(sweep, rng):
    ax = ado.steps(sweep)
    first, *_ = (t.get_text() for t in ax.get_yticklabels())
    assert first.startswith(sweep[0].variant)
    assert "fewest sectors" in ax.get_title(loc="left")
    x = rng.random(4096, np.float32)
    counted = ado.sweep(ado.instruction_parallelism, x, device="emulator", progress=False)
    roofs = ado.roofline(counted)
    assert "memory-bound" in roofs.get_title(loc="left")
    for drawn in (ax, roofs):
        drawn.figure.savefig(io.BytesIO())
        assert clashes(drawn) == []
    with pytest.raises(ValueError, match="FLOPs"):
        ado.roofline(sweep)


def test_a_sweep_runs_with_all_checks(checks, rng):
    ado.settings.emulator_checks = ()
    counted = ado.sweep(
        ado.transpose, rng.random((40, 33)), device="emulator", variants="tiled", progress=False
    )
    assert counted["tiled"].profile["barriers"] > 0
    assert ado.settings.emulator_checks == ("memcheck",)


#: Features of CUDA C++ that are refused; tests/test_emulator.py has the instructions.
REFUSED = {
    "recursion": "o[0] = fib(a[0]);",
    "textures": "o[0] = tex1Dfetch<int>((cudaTextureObject_t)a, 0);",
}


@pytest.mark.skipif(bool(compiler.why_no_compiler()), reason="needs NVRTC")
@pytest.mark.parametrize("feature", REFUSED)
def test_the_error_of_a_refused_feature_has_the_line_of_the_kernel(feature):
    source = f"""__device__ __noinline__ int fib(int n) {{
      return n < 2 ? n : fib(n - 1) + fib(n - 2); }}
    __global__ void k(const int* a, int* o, int n) {{
      {REFUSED[feature]} }}"""
    ladder = ado.ladder("refused", reference=lambda a: a)
    ladder.cuda_variant("k", source=source, block=32)
    swept = ado.sweep(ladder, np.ones(40, np.int32), device="emulator")
    line = 2 if feature == "recursion" else 4
    message = rf"kernel\.cu:{line}, PTX line \d+: .*(not support|not in this module)"
    assert re.search(message, swept.skipped["k"])
    for isolated in (True, False):  # the variant may be correct
        with pytest.raises(ado.Unavailable, match=message):
            ado.check(
                ladder["k"], ladder, np.ones(40, np.int32), isolated=isolated, device="emulator"
            )


@pytest.mark.usefixtures("sources_on_emulator", "checks")
def test_a_mask_without_the_calling_lane_is_harmless_without_checks():
    ladder = ado.ladder("reduce", reference=lambda a: 0 * a)
    source = """__global__ void k(const unsigned* a, unsigned* o, int n) {
      o[threadIdx.x] = __reduce_add_sync(a[threadIdx.x] & 0, 1);
    }"""
    ladder.cuda_variant("k", source=source, block=32)
    ado.settings.emulator_checks = ()
    assert not ladder(np.ones(32, np.uint32), device="emulator").any()


# --- Advice from counts -------------------------------------------------------------------------

HEAD = "(const {0}* a, {0}* o, int n) {{ int i = blockIdx.x * blockDim.x + threadIdx.x;"
FLOAT, INT = HEAD.format("float"), HEAD.format("int")
SCALED = (
    "if (i >= n) return;\nfloat v = a[i]; for (; n > 16380; --n) v = v * {0} + {1}; o[i] = v; }}"
)
HISTOGRAM = "for (; i < n; i += blockDim.x * gridDim.x)\natomicAdd(&o[{}], 1); }}"
SHARED = """__shared__ int s[64]; if (threadIdx.x < 64) s[threadIdx.x] = 0; __syncthreads();
for (; i < n; i += blockDim.x * gridDim.x)
atomicAdd(&s[{}], {}); __syncthreads();
if (threadIdx.x < 64) atomicAdd(&o[threadIdx.x], s[threadIdx.x]); }}"""
TABLE = "if (i < n) o[i] =\nw[{}] + a[i] % 64; }}"
LOCAL = (
    "if (i >= n) return; int v[16]; for (int j = 0; j < 16; ++j) v[j] = a[i] + j;\no[i] = v[{}]; }}"
)
PRODUCT = """__global__ void k(const float* a, const float* b, float* c, int m, int kk, int n) {
int {0} = blockIdx.x * 16 + threadIdx.x, {1} = blockIdx.y * 16 + threadIdx.y; float s = 0;
if (row >= m || col >= n) return;
for (int j = 0; j < kk; ++j) s += a[row * kk + j] * b[j * n + col];
c[row * n + col] = s; }"""
VALUES = np.random.default_rng(3).integers(0, 8, 1 << 14).astype(np.int32)
REAL = VALUES.astype(np.float32)


def counted_advice(source, a, out, *, grid=None, block=128):
    """The advice for a kernel on the emulator, and its heat map; its results are not compared."""
    ladder = ado.ladder("case", reference=lambda a: np.zeros(*out))
    launch = {} if grid is None else {"grid": (grid,)}
    ladder.cuda_variant("k", source=source, kernel="k", block=block, **launch)
    profile = ado.profile(ladder["k"], a, device="emulator")
    moved = a.nbytes + np.zeros(*out).nbytes
    counted = CountedVariant(variant="k", ceiling=False, flops=0, bytes=moved, profile=profile)
    found = ado.diagnose(CountedSweep(routine="case", problem=Inputs(), variants=(counted,)))
    heat = ado.heatmap(ladder["k"], a, device="emulator")
    return [str(each) for each in found["k"].advices], str(heat)


def histogram(body, bins=8, grid=132):
    return counted_advice("__global__ void k" + INT + body, VALUES, ((bins,), np.int32), grid=grid)


@pytest.mark.usefixtures("sources_on_emulator")
def test_fp64_without_fp64_arrays_is_advised():
    out = (REAL.shape, np.float32)
    double = "__global__ void k" + FLOAT + SCALED.format("0.9", "0.1")
    (advice,), heat = counted_advice(double, REAL, out)
    assert advice.startswith("fewer or cheaper operations: use constants and functions of float")
    assert "(kernel.cu:2)" in advice
    assert "FP64" in heat
    advices, heat = counted_advice(double.replace("0.9", "0.9f").replace("0.1", "0.1f"), REAL, out)
    assert not advices
    assert "FP64" not in heat
    intended = double.replace("float* o", "double* o")
    assert not counted_advice(intended, REAL, (REAL.shape, np.float64))[0]


@pytest.mark.usefixtures("sources_on_emulator")
@pytest.mark.parametrize(
    ("body", "words", "column"),
    [
        (HISTOGRAM.format("a[i]"), "lanes of a warp update the same address", "atomic sectors"),
        (HISTOGRAM.format("threadIdx.x % 32"), "update each of 32 addresses", "atomic sectors"),
        (SHARED.format("a[i]", "i"), "shared memory over more addresses", "atomic wavefronts"),
    ],
)
def test_contended_atomics_are_advised(body, words, column):
    advices, heat = histogram(body, 64)
    assert [words in each for each in advices].count(True) == 1, advices
    assert column in heat


@pytest.mark.usefixtures("sources_on_emulator")
@pytest.mark.parametrize(
    ("body", "bins"),
    [
        (HISTOGRAM.format("i"), VALUES.size),  # a different address per thread
        (SHARED.format("threadIdx.x % 64", "i"), 64),
        (SHARED.format("a[i]", "1"), 64),  # the hardware counts the lanes with the same address
        ("for (; i < n; i += 2048) if (a[i] > 8) return; if (i % 128 == 0) atomicAdd(o, 1); }", 8),
    ],
)
def test_atomics_without_contention_are_not_advised(body, bins):
    assert not [each for each in histogram(body, bins, 16)[0] if "atomic" in each]


@pytest.mark.usefixtures("sources_on_emulator")
def test_one_block_for_the_whole_device_is_advised():
    body = "for (; i < n; i += blockDim.x * gridDim.x)\no[i] = a[i]; }"
    one, many = (histogram(body, VALUES.size, grid)[0] for grid in (1, 128))
    assert one == [
        "more work in parallel: divide the work among more blocks: 1 for 132 multiprocessors."
    ]
    assert not many  # fewer blocks than multiprocessors, because the problem is small
    ladder = ado.ladder("case", reference=np.copy)
    ladder.cuda_variant("k", source="__global__ void k" + INT + body, block=128, grid=(1,))
    (found,) = ado.diagnose(lambda a: ladder(a, device="emulator"), VALUES, device="emulator")
    assert [str(each) for each in found.advices[:1]] == one  # the compulsory bytes are unknown


@pytest.mark.usefixtures("sources_on_emulator")
def test_divergent_constants_are_advised():
    source = "__constant__ int w[64]; __global__ void k" + INT
    out = (VALUES.shape, np.int32)
    (advice,), heat = counted_advice(source + TABLE.format("a[i]"), VALUES, out)
    assert "a constant load reads 7." in advice
    assert "constants/request" in heat
    assert not counted_advice(source + TABLE.format("n % 64"), VALUES, out)[0]


@pytest.mark.usefixtures("sources_on_emulator")
def test_local_memory_is_advised():
    out = (VALUES.shape, np.int32)
    source = "__global__ void k" + INT
    (advice,), heat = counted_advice(source + LOCAL.format("a[i]"), VALUES, out)
    assert advice.startswith("avoid spills: keep arrays in registers")
    assert "local sectors/request" in heat
    advices, heat = counted_advice(source + LOCAL.format("3"), VALUES, out)
    assert not advices
    assert "local" not in heat


@pytest.mark.usefixtures("sources_on_emulator")
def test_accesses_are_coalesced_before_data_are_reused():
    product = ado.ladder(
        "product", reference=lambda a, b: a @ b, tolerance=1e-3, signature="(m,k),(k,n)->(m,n)"
    )
    for name, order in (("swapped", ("row", "col")), ("coalesced", ("col", "row"))):
        source = PRODUCT.replace("{0}", order[0]).replace("{1}", order[1])
        grid = lambda a, b: (-(-a.shape[0] // 16), -(-b.shape[1] // 16))  # noqa: E731, square
        product.cuda_variant(name, source=source, kernel="k", block=(16, 16), grid=grid)
    x = np.random.default_rng(1).random((64, 64), np.float32)
    found = ado.diagnose(ado.sweep(product, x, x, device="emulator", progress=False))
    steps = [[each.step for each in found[name].advices[:2]] for name in ("swapped", "coalesced")]
    assert steps == [[Step.COALESCING, Step.REUSE], [Step.REUSE, Step.COALESCING]]
    assert "keep data in registers" in " ".join(repr(found).split())  # the table shows both


@pytest.mark.usefixtures("sources_on_emulator")
@pytest.mark.parametrize(
    ("index", "wavefronts"), [("0", 32), ("i % 8", 4), ("i % 32", 1), ("i * 2", 2), ("i / 8", 8)]
)
def test_shared_atomics_repeat_as_on_a_gpu(index, wavefronts):
    """The wavefronts that an H100 counts for atomicAdd of a value in shared memory."""
    body = "__shared__ int s[64]; s[i] = s[i + 32] = 0; o[i] = atomicAdd(&s[{}], i); }}"
    ladder = ado.ladder("case", reference=lambda a: np.zeros(32, np.int32))
    source = "__global__ void k" + INT + body.format(index)
    ladder.cuda_variant("k", source=source, kernel="k", block=32, grid=(1,))
    counted = ado.profile(ladder["k"], VALUES[:32], device="emulator")
    assert counted["shared_atomic_wavefronts"] == wavefronts
    assert counted["shared_atomic_conflicts"] == wavefronts - 1


@pytest.mark.usefixtures("sources_on_emulator")
@pytest.mark.parametrize(
    ("index", "sectors"), [("0", 32), ("i % 8", 4), ("i % 32", 4), ("8 * i", 32), ("i / 8", 8)]
)
def test_global_atomics_repeat_as_on_a_gpu(index, sectors):
    ladder = ado.ladder("case", reference=lambda a: np.zeros(256, np.int32))
    source = f"__global__ void k{INT} atomicAdd(&o[{index}], i); }}"
    ladder.cuda_variant("k", source=source, kernel="k", block=32, grid=(1,))
    counted = ado.profile(ladder["k"], VALUES[:32], device="emulator")
    assert counted["atomic_sectors"] == sectors
