"""What-if experiments: what they change, their proofs, and the kernels that they must refuse."""

import importlib
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from charting import make_transpose
from conftest import NO_CUDA
from scripts import load_script

import adokernels as ado
from adobook.score import limiters
from adokernels import _core, toolkit
from adokernels.diagnosis import diagnosis
from adokernels.diagnosis.gpu_rules import by_trials
from adokernels.kernels.launch import emulate
from adokernels.ptx import cut
from adokernels.records.limiter import Kind, Limiter
from adokernels.records.what_if import Trial, WhatIf
from adokernels.text import ratio
from adokernels.whatif import emulation, experiments, rewriting
from adokernels.whatif.machine_proof import MachineCode, differences
from adokernels.whatif.rewriting import Code

module = importlib.import_module("adokernels.whatif.what_if")
DATA = Path(__file__).parent / "data" / "emulator"
pytestmark = pytest.mark.skipif(_core.why_no_emulator() != "", reason=_core.why_no_emulator())
ON = {"device": "emulator"}
NO_PTXAS = pytest.mark.skipif(
    not (toolkit.program("ptxas") and toolkit.program("nvdisasm")), reason="needs ptxas, nvdisasm"
)
NEEDS_SOURCES = pytest.mark.usefixtures("sources_on_emulator", "counts_only")
STREAMS = "stores coalesced (stream)", "loads coalesced (stream)"


@pytest.fixture
def counts_only(monkeypatch):
    """Skip the proof in machine code, which starts other programs."""
    monkeypatch.setattr(module, "_compared", lambda _, tried, compute: ([t for t, _ in tried], []))


ONES = np.ones(512, np.float32)


def own_ladder(source):
    """A ladder with a kernel `k` of 8 blocks of 64 threads; the result is as long as an operand."""
    ladder = ado.ladder("own", reference=lambda *given: np.zeros(given[-1].shape, np.float32))
    ladder.cuda_variant("k", source=source, block=64, grid=8, arguments=lambda *given: given)
    return ladder


def tried(source, *operands):
    """The experiments on the kernel `k` of a source."""
    return ado.what_if(own_ladder(source)["k"], *(operands or [ONES]), **ON)


def reasons(record):
    return {trial.experiment: trial.reason for trial in record}


# --- What the experiments change ------------------------------------------------------------------


@NO_PTXAS
def test_coalesced_stores_of_the_naive_transpose(rng):
    record = ado.what_if(ado.transpose["naive"], rng.random((128, 160), np.float32), **ON)
    for form in ("stream", "near"):
        trial = record.trial(f"stores coalesced ({form})")
        assert (trial.rewritten, trial.accesses, trial.verdict) == (1, 1, "sound")
        assert (trial.before, trial.after, trial.count) == (32, 4, "sectors per request")
        assert re.fullmatch(r"steps\.cu:\d+", trial.place)
    assert record.trial("no stores").after == 0
    reach = record.trial("loads hit L1")
    assert (reach.before, reach.after) == (4 * 128 * 160, 127 * 128)
    assert record.trial("loads coalesced (near)").reason == (
        "no global loads transfer more than needed"
    )
    assert record.trial("no barriers").reason == "no barriers"


@NO_PTXAS
def test_bank_conflicts_and_barriers_of_the_tiled_transpose(rng):
    a = rng.random((128, 160), np.float32)
    record = ado.what_if(ado.transpose["tiled"], a, **ON)
    conflicts, barriers = record.trial("no bank conflicts"), record.trial("no barriers")
    assert (conflicts.before, conflicts.after, conflicts.verdict) == (32, 1, "sound")
    assert (barriers.before, barriers.after, barriers.verdict) == (128 * 160 / 32, 0, "sound")
    assert all("more than needed" in record.trial(name).reason for name in STREAMS)


@NEEDS_SOURCES
@pytest.mark.parametrize(
    ("ladder", "variant", "experiment", "before", "after"),
    [
        ("set1/reduction", "atomics", "atomics spread", 31.87, 3.99),
        ("set1/matmul", "naive", "loads coalesced (near)", 32, 4),
        ("set1/matmul", "vectors", "stores coalesced (stream)", 32, 16),
        ("set3/column_sum", "block_per_column", "loads coalesced (stream)", 23.33, 3),
    ],
)
def test_textbook_kernels(ladder, variant, experiment, before, after):
    own = load_script(f"tests/kernels/{ladder}.py")
    operands = own.operands(np.random.default_rng(1), small=True)
    trial = ado.what_if(own.ladder[variant], *operands, **ON).trial(experiment)
    assert not trial.reason
    assert trial.before == pytest.approx(before, rel=0.1)
    assert trial.after == pytest.approx(after, rel=0.1)


BUILT_IN = (
    *("transpose[tma]", "transpose[wide]", "grayscale[wide]", "gaussian_blur[lane_per_row]"),
    *("sobel[vectorised]", "edge_detect[small_tiles]", "average_matvec[cluster]"),
    *("max_plus[async_rolling]", "max_plus[one_barrier]", "gpp[collapse3]", "gather[naive]"),
    *("component[staged]", "branch[by_lane]", "strided_copy[staged]"),
)


@pytest.mark.usefixtures("counts_only")
@pytest.mark.parametrize("label", BUILT_IN)
def test_the_switched_off_form_of_built_in_variants_is_the_original(label):
    """A trial that fails a proof would be refused with the reason."""
    routine, _, name = label[:-1].partition("[")
    ladder = ado.routines[routine]
    cases = ladder.task.sanitizer
    shape = max((s for s in cases.shapes if s[-1] <= 256 or len(s) != 2), key=np.prod)
    operands = ladder.task.random_operands(shape, cases.dtypes[-1])
    record = ado.what_if(ladder[name], *operands, **ON)
    found = reasons(record).values()
    assert not any("switch" in reason or "also changes" in reason for reason in found)
    assert any(trial.verdict == "sound" for trial in record)


def launcher(ptx, grid, block, scalars, shared_bytes):
    """A function that launches a kernel on the emulator, as a front end does."""
    name = re.search(r"\.entry ([\w$]+)", ptx)[1]
    kernel = _core.CudaModule(ptx.encode(), "emulator").kernel(name)

    def launched(*arrays):
        copies = [ado.to_device(array, "emulator") for array in arrays]
        addresses = [_core.emulated_address(copy, "array") for copy in copies]
        values = [*map(np.uintp, addresses), *map(np.int32, scalars), np.uintp(0), np.uintp(0)]
        kernel.launch(grid, block, shared_bytes, [v.tobytes() for v in values]).run(0)
        for array, copy in zip(arrays, copies, strict=True):
            array[...] = copy.numpy()

    return launched


@pytest.mark.usefixtures("counts_only")
def test_a_kernel_of_triton_with_masked_lanes(rng):
    """Triton 3.9: predicated accesses, whose masked lanes have addresses outside of the array."""
    run = launcher((DATA / "triton_transpose.ptx").read_text(), (3, 3), (128,), (70, 90), 4096)
    a, out = rng.random((70, 90), np.float32), np.zeros((90, 70), np.float32)
    run(a, out)
    np.testing.assert_array_equal(out, a.T)
    record = ado.what_if(run, a, out, **ON)
    assert (record.routine, record.variant, record.kernels) == ("", "launched", ("transpose",))
    for name in ("stores coalesced (near)", "loads coalesced (stream)", "loads hit L1"):
        assert (record.trial(name).rewritten, record.trial(name).reason) == (8, "")
    np.testing.assert_array_equal(out, a.T)  # the arrays are as before


# --- Kernels that need a guard --------------------------------------------------------------------


@NEEDS_SOURCES
def test_a_loop_that_polls_memory_is_left_alone():
    """If the store of the flag were changed, the second block would wait forever."""
    source = """
__device__ volatile int flag;
extern "C" __global__ void k(const float* x, float* out) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (blockIdx.x == 0) { out[8 * threadIdx.x] = x[8 * threadIdx.x]; __threadfence(); flag = 1; }
  else { while (flag == 0) {} out[i] = x[i]; }
}"""
    record = tried(source)
    trial = record.trial("stores coalesced (stream)")
    assert trial.rewritten == trial.accesses == 1
    assert record.trial("no stores").rewritten == 2  # not the flag
    assert record.trial("no stores").accesses == 3


@NEEDS_SOURCES
def test_loaded_trip_counts_and_indices_are_kept():
    source = """
extern "C" __global__ void k(const int* count, const int* index, const float* x, float* out) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  float sum = 0;
  for (int j = 0; j < count[8 * i % 512]; ++j) sum += x[(index[i] + j) % 512];
  out[i] = sum;
}"""
    rng = np.random.default_rng(0)
    count, index = rng.integers(0, 5, (2, 512), dtype=np.int32)
    index = rng.permutation(512).astype(np.int32)
    record = tried(source, count, index, rng.random(512, np.float32))
    trial = record.trial("loads coalesced (near)")
    assert 0 < trial.rewritten < trial.accesses  # x, and not the counts


@NEEDS_SOURCES
def test_an_index_that_the_kernels_compute_refuses_all():
    """The second kernel would read anywhere if the first one stored wrong indices."""
    source = """
__device__ int place[512];
extern "C" __global__ void k(const int* x, float* out) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  place[i] = x[i];
  __syncthreads();
  out[place[i ^ 1]] = x[i];
}"""
    x = np.random.default_rng(0).permutation(512).astype(np.int32)
    record = tried(source, x)
    assert record.trial("no barriers").reason == (
        "a value that the kernels write decides control flow or an address"
    )
    assert all(trial.reason for trial in record)


@NEEDS_SOURCES
def test_without_barriers_known_values_can_be_read_too_early():
    """The indices depend on no loaded value, so only the experiment without barriers is unsafe."""
    source = """
__device__ int place[512];
extern "C" __global__ void k(const float* x, float* out) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  place[i] = i ^ 5;
  __syncthreads();
  out[place[i ^ 1] * 8 % 512] = x[i];
}"""
    record = tried(source)
    assert record.trial("no barriers").reason.startswith("a value that the kernels write")
    stores = record.trial("no stores")
    assert (stores.reason, stores.rewritten, stores.accesses) == ("", 1, 2)  # not the indices


@NEEDS_SOURCES
def test_atomics_that_a_later_kernel_decides_by_are_kept(rng):
    """The second launch of one call branches on the counts of the first one."""
    first = ".visible .entry count(.param .u64 bins, .param .u64 out) "
    then = ".visible .entry select(.param .u64 bins, .param .u64 out) "
    ptx = f"""
.version 9.0
.target sm_90
.address_size 64
{first} {{ .reg .b64 %rd<3>; ld.param.u64 %rd1, [bins]; red.global.add.u32 [%rd1], 1; ret; }}
{then} {{
  .reg .b64 %rd<5>; .reg .b32 %r<4>; .reg .pred %p<2>;
  ld.param.u64 %rd1, [bins]; ld.param.u64 %rd2, [out];
  ld.global.u32 %r1, [%rd1]; setp.lt.u32 %p1, %r1, 100; @%p1 ret;
  mov.u32 %r2, %tid.x; mul.wide.u32 %rd3, %r2, 32; add.u64 %rd2, %rd2, %rd3;
  st.global.u32 [%rd2], %r2; ret;
}}
"""
    kernels = [_core.CudaModule(ptx.encode(), "emulator").kernel(n) for n in ("count", "select")]

    def work(*arrays):
        copies = [ado.to_device(array, "emulator") for array in arrays]
        values = [np.uintp(_core.emulated_address(c, "array")).tobytes() for c in copies]
        for kernel in kernels:
            kernel.launch((4,), (32,), 0, values).run(0)
        for array, copy in zip(arrays, copies, strict=True):
            array[...] = copy.numpy()

    record = ado.what_if(work, np.zeros(64, np.uint32), np.zeros(256, np.uint32), **ON)
    assert record.kernels == ("count", "select")
    assert record.trial("atomics spread").reason == (
        "it cannot change stores to arrays that decide control flow"
    )
    stores = record.trial("stores coalesced (near)")
    assert (stores.reason, stores.before, stores.after) == ("", 32, 4)


@NEEDS_SOURCES
def test_an_index_that_passes_through_shared_memory_is_kept():
    source = """
extern "C" __global__ void k(const int* index, const float* x, float* out) {
  __shared__ int own[64 * 32];
  const int i = blockIdx.x * 64 + threadIdx.x;
  own[32 * threadIdx.x] = index[2 * i % 512];
  __syncthreads();
  out[i] = x[own[32 * (threadIdx.x ^ 1)]];
}"""
    index = np.random.default_rng(0).permutation(512).astype(np.int32)
    record = tried(source, index, ONES)
    loads = record.trial("loads coalesced (near)")
    assert (loads.rewritten, loads.accesses, loads.reason) == (1, 2, "")
    assert record.trial("no bank conflicts").reason == (
        "a value in the same array of shared memory decides control flow or an address"
    )


@NEEDS_SOURCES
def test_changed_addresses_stay_in_their_array():
    """The first lane stores to the last line of the result, which is not full."""
    source = """
extern "C" __global__ void k(const float* x, float* out) {
  out[499 - 15 * (threadIdx.x % 32)] = x[threadIdx.x];
}"""
    trial = tried(source, ONES[:500]).trial("stores coalesced (near)")
    assert (trial.before, trial.after, trial.reason) == (32, 4, "")


@NEEDS_SOURCES
def test_an_atomic_whose_result_decides_a_branch_is_kept():
    source = """
__device__ unsigned taken;
extern "C" __global__ void k(const float* x, float* out) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (atomicAdd(&taken, 1u + (i & 1)) < 100) out[i] = x[i];
}"""
    record = tried(source)
    assert "decide control flow" in record.trial("atomics spread").reason


@NEEDS_SOURCES
def test_shared_memory_that_decides_a_branch_refuses_what_would_change_it():
    source = """
extern "C" __global__ void k(const float* x, float* out) {
  __shared__ int first;
  __shared__ float tile[64 * 32];
  const int t = threadIdx.x;
  if (t == 0) first = x[blockIdx.x] > 0.5f;
  tile[32 * t] = x[t];
  __syncthreads();
  if (first) out[blockIdx.x * 64 + t] = tile[32 * (63 - t)];
}"""
    record = tried(source)
    assert record.trial("no barriers").reason == (
        "a value in shared memory decides control flow or an address"
    )
    conflicts = record.trial("no bank conflicts")  # of another array
    assert (conflicts.rewritten, conflicts.before, conflicts.after) == (2, 32, 1)


@NO_PTXAS
@pytest.mark.usefixtures("sources_on_emulator")
def test_without_stores_all_instructions_remain():
    source = """
extern "C" __global__ void k(const float* x, float* out) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  float a = x[i];
#pragma unroll
  for (int j = 0; j < 50; ++j) a = a * a + 0.25f;
  out[i] = a;
}"""
    trial = tried(source, np.linspace(0, 0.5, 512, dtype=np.float32)).trial("no stores")
    assert (trial.verdict, trial.before, trial.after) == ("sound", 16, 0)


@pytest.mark.usefixtures("counts_only")
@pytest.mark.parametrize("dtype", ["u4", "u8", "c16"])
def test_without_stores_the_predicate_depends_on_the_value(dtype):
    """With the switch alone as the predicate, ptxas would skip the computation of the value."""
    a = np.zeros((64, 64), dtype)
    a.view("u4").reshape(64, 64, -1)[..., -1] = rewriting._MAGIC
    trial = ado.what_if(ado.transpose["naive"], a, **ON).trial("no stores")
    assert trial.reason == "it does not reduce the requests"
    trial = ado.what_if(ado.transpose["naive"], 0 * a, **ON).trial("no stores")
    assert (trial.before, trial.after) == (64 * 64 / 32, 0)


@NEEDS_SOURCES
def test_pointers_in_memory_and_small_arrays_are_refused():
    source = """
extern "C" __global__ void k(const float* x, float* out) {
  const float* rows[2] = {x, out};
  const int i = blockIdx.x * 64 + threadIdx.x;
  out[i] = LOADED;
}"""
    memory = tried(source.replace("LOADED", "rows[i & 1][i * 7 % 512]"))
    assert "generic addresses" in memory.trial("loads coalesced (near)").reason
    small = tried(source.replace("LOADED", "x[i]"))
    assert small.trial("loads hit L1").reason == "it cannot change arrays of less than 16512 bytes"


@NEEDS_SOURCES
def test_functions_that_access_memory_are_refused():
    source = """
__device__ __noinline__ float at(const float* x, int i) { return x[i]; }
extern "C" __global__ void k(const float* x, float* out) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (at(x, i) > 0.5f) out[8 * i % 512] = 1;
}"""
    record = tried(source)
    assert record.trial("no stores").reason.startswith("it calls functions that access memory")
    assert all(trial.reason for trial in record)


# --- The proof ------------------------------------------------------------------------------------


def tampered(monkeypatch, change):
    """Replace what the experiment without stores does."""
    (index,) = (i for i, e in enumerate(experiments.EXPERIMENTS) if e.name == "no stores")
    changed = replace(experiments.EXPERIMENTS[index], change=change)
    monkeypatch.setattr(module, "EXPERIMENTS", (changed,))


@pytest.mark.usefixtures("counts_only")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda _, __: [], "with the switch off, the result differs from the original one"),
        (
            lambda w, s: ["bar.sync 0;", *rewriting.not_stored(w, s)],
            "with the switch off, counts differ",
        ),
        (
            lambda w, s: [*rewriting.not_stored(w, s), "@%ado_on0 bar.sync 0;"],
            "it also changes barriers: 0 to 640",
        ),
        (
            lambda w, s: w.moved(s, ["mov.u64 #n, 64;"]),
            "with the switch on, the kernel fails: transpose_naive",
        ),
        (lambda _, s: [s.statement.text], "it does not reduce the requests"),
    ],
)
def test_a_wrong_rewriting_fails_its_proof(monkeypatch, rng, change, reason):
    tampered(monkeypatch, change)
    (trial,) = ado.what_if(ado.transpose["naive"], rng.random((128, 160), np.float32), **ON)
    assert trial.reason.startswith(reason)
    assert trial.verdict == "refused"


def test_differences_in_machine_code():
    original = MachineCode(Counter(LDG=2, STG=1, FFMA=512, IADD3=9), 125)
    same = MachineCode(Counter(LDG=2, STG=1, FFMA=512, IADD3=20, SEL=3), 128)
    assert differences(original, same, 256, 0) == []
    other = MachineCode(Counter(LDG=2, STG=1, FFMA=64, STL=2), 98)
    assert differences(original, other, 256, 0) == [
        "512 FFMA became 64", "0 STL became 2", "125 registers became 98",
    ]  # fmt: skip
    more = MachineCode(original.opcodes, 130)
    assert differences(original, more, 256, 0) == ["2 resident blocks became 1"]
    assert differences(original, more, 256, 200 << 10) == []  # one block in either case
    assert original.most_registers(256, 0) == 128
    added = Counter(FFMA=512, STG=1)
    dosed = MachineCode(original.opcodes + added + Counter(LDG=9), 125)
    assert differences(original, dosed, 256, 0, added) == []  # 9 of 513
    assert differences(original, original, 256, 0, added)[0] == (
        "513 of 513 added instructions are missing"
    )


DOSED = """
extern "C" __global__ void k(const float* x, float* out) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  float a = x[i], b = a;
#pragma unroll
  for (int j = 0; j < 16; ++j) { a = a * a + 0.25f; b = b * 0.5f; }
  if (i < 500) out[i] = a + b;
}"""


def dosed_call():
    x = np.linspace(0, 0.5, 512, dtype=np.float32)
    return own_ladder(DOSED).problem(x, **ON).prepare("k")


def doses_of(call):
    """The trials of all doses, with the differences in machine code."""
    with emulation.alone():
        work = emulation.EmulatedWork.of_call(call)
        result, subjects = emulation.subjects_of(work)
        found = [module._trial(e, work, subjects, result) for e in experiments.doses(subjects)]
        return module._compared(subjects, found, None)[0]


@NO_PTXAS
@pytest.mark.usefixtures("sources_on_emulator")
def test_doses_add_exactly_their_instructions():
    twice, three_times, integers = doses_of(dosed_call())
    warps = 512 // 32
    for trial in (twice, three_times):
        assert (trial.reason, trial.code, trial.count) == ("", (), "FP32 instructions")
        assert trial.before == 32 * warps == trial.rewritten * warps
        assert trial.after == (1 + trial.dose) * trial.before
    assert (integers.reason, integers.code, integers.count) == ("", (), "integer instructions")
    assert integers.after - integers.before == 2 * twice.before
    assert 0 < twice.added < integers.added == three_times.added
    assert [t.gain for t in (twice, integers)] == [0, 0]


@NO_PTXAS
@pytest.mark.parametrize("variant", ["gpp/branch_free", "max_plus/whole_device", "sobel/naive"])
def test_doses_of_built_in_variants(variant):
    """Results, other counts and the original machine instructions do not change."""
    routine, _, name = variant.partition("/")
    ladder = ado.routines[routine]
    operands = ladder.task.random_operands(ladder.task.sanitizer.shapes[0])
    trials = doses_of(ladder.problem(*operands, **ON).prepare(name))
    assert {trial.verdict for trial in trials} == {"sound"}


@NEEDS_SOURCES
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda w, s: [*rewriting.dosed(w, s), f"mov.f32 {s.statement.results}, 0f00000000;"],
         "with more instructions, the result differs"),
        (lambda w, s: [*rewriting.dosed(w, s), "bar.sync 0;"], "it also changes "),
        (lambda _, s: [s.statement.text], "it also changes "),
    ],
)  # fmt: skip
def test_a_wrong_dose_fails_its_proof(monkeypatch, change, reason):
    doses = experiments.doses
    monkeypatch.setattr(
        experiments, "doses", lambda s: [replace(e, change=change) for e in doses(s)]
    )
    assert all(trial.reason.startswith(reason) for trial in doses_of(dosed_call())[:2])


# --- PTX ------------------------------------------------------------------------------------------

TEXT = """
.version 9.0
.target sm_90
.address_size 64
.global .align 4 .b8 table[8] = {1, 0, 0, 0, 2, 0, 0, 0};
.global .align 4 .u32 unused;
.func (.param .b32 r) helper(.param .b32 a) { st.param.b32 [r], 1; ret; }
.visible .entry other() { ret; }
.visible .entry k(.param .u64 .ptr .align 16 p, .param .align 8 .b8 q[12], .param .u8 s)
.maxntid 64
{
  .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<5>; .reg .f32 x;
  // a comment; with a semicolon
  ld.param.b64 %rd1, [ p ];
  { .reg .b32 inner; mov.u32 inner, %tid.x; }
  mov.u64 %rd2, table;
L1:
  @!%p1 ld.global.v2.b32 { %r1, %r2 }, [ %rd1 + -8 ];
  call.uni (%r3), helper, (%r1);
  @%p2 bra L1;
  st.volatile.global.v4.f32 [%rd2+16], {x, x, x, x};
  ret;
}
"""


def test_a_kernel_is_cut_out_with_what_it_uses():
    kernel = cut(TEXT, "k")
    assert "table[8] = {1" in kernel.header
    assert "helper" in kernel.header
    assert "unused" not in kernel.header
    assert "other" not in kernel.header
    offsets = {name: parameter.offset for name, parameter in kernel.parameters.items()}
    assert offsets == {"p": 0, "q": 8, "s": 20}
    code = Code(kernel)
    load, store = (site.statement for site in code.sites.values())
    assert (load.negated, load.guard, load.operands) == (
        True, "%p1", ("{ %r1, %r2 }", "[ %rd1 + -8 ]"),
    )  # fmt: skip
    assert (load.space, load.bytes, load.address) == ("global", 8, "%rd1 + -8")
    assert (store.bytes, kernel.registers(store.operands[1])) == (16, ["x"] * 4)
    assert kernel.type_of("inner") == "b32"
    assert [site.origins for site in code.sites.values()] == [{("p", 0)}, {("table", -1)}]
    assert code.flow.deciding == [load]  # an argument of a function


# --- Records and errors ---------------------------------------------------------------------------


@pytest.mark.usefixtures("counts_only")
def test_a_record_is_stored_and_shown(rng, tmp_path):
    record = ado.what_if(ado.transpose, rng.random((64, 64), np.float32), **ON)
    record.save(tmp_path / "x.json")
    assert ado.load(tmp_path / "x.json") == record
    assert record.variant == ado.transpose.choose(np.zeros((64, 64), np.float32), **ON).variant
    shown = record.to_markdown()
    assert "no stores" in shown
    with pytest.raises(KeyError, match="experiment must be one of stores coalesced"):
        record.trial("faster")


def test_wrong_arguments_are_errors(rng):
    a = rng.random((4, 4))
    variant = ado.transpose["naive"]
    if NO_CUDA:
        with pytest.raises(ado.Unavailable, match="device='emulator'"):
            ado.what_if(variant, a)
    with pytest.raises(ValueError, match="cache must be 'cold' or 'warm'"):
        ado.what_if(variant, a, cache="hot", **ON)
    with pytest.raises(ValueError, match=r"device must be a GPU or 'emulator', got 'cpu'"):
        ado.what_if(variant, a, device="cpu")
    with pytest.raises(ValueError, match="work must be a CUDA variant"):
        ado.what_if(ado.transpose["naive_loops"], a, **ON)
    with pytest.raises(TypeError, match="work must be"):
        ado.what_if(5, a, **ON)
    with pytest.raises(ValueError, match="launches no kernels"):
        ado.what_if(np.sort, a, **ON)
    made = []

    def new_kernel_each_time(*arrays):
        made.append(launcher(TEXT_OF_NOTHING, (1,), (32,), (), 0))
        made[-1](*arrays)

    with pytest.raises(ValueError, match="must launch the same kernels in each call"):
        ado.what_if(new_kernel_each_time, **ON)


TEXT_OF_NOTHING = """
.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b) { ret; }
"""


def timed_trial(experiment, gain, clear="faster", **changes):
    times = {"seconds": 1e-3, "off_seconds": gain * 1e-3, "interval": (gain, gain)}
    given = {"meaning": "", "rewritten": 1, "accesses": 1, "clear": clear, **times}
    return Trial(experiment=experiment, **given, **changes)


def timed_record(*trials, variant="naive", **changes):
    given = {"routine": "transpose", "problem": "a: (8192, 8192) float32", "block": None,
             "source": "a GPU", "kernels": ("k",), "cache": "cold", "seconds": 1e-3}  # fmt: skip
    return WhatIf(variant=variant, trials=trials, **{**given, **changes})


def test_headroom_is_interpolated_and_no_gain():
    record = timed_record(dose("FP64", 1, 0.02), dose("FP64", 2, 0.12), dose("integer", 2, 0.04))
    assert record.headroom("FP64") == pytest.approx(1.3)
    assert record.headroom("integer") == np.inf
    assert record.headroom("FP32") is None
    weak = replace(dose("FP64", 2, 0.12), code=("x",))
    assert timed_record(weak).headroom("FP64") is None
    assert record.largest is None
    shown = record.to_markdown()
    assert "5 % more time: 1.30 added FP64 instructions per instruction" in shown
    assert "5 % more time: more than 2 added integer instructions per instruction" in shown


def test_the_largest_gain_and_the_promise():
    stores, loads = timed_trial("no stores", 5), timed_trial("loads coalesced (near)", 3)
    weak = timed_trial("atomics spread", 9, intrusion=1.3)
    unclear = timed_trial("no barriers", 8, "unclear")
    record = timed_record(weak, unclear, stores, loads)
    assert (record.largest, record.promise) == (stores, loads)
    assert (weak.verdict, stores.gain) == ("weak", 5)
    assert timed_record(unclear).largest is None
    shown = timed_record(stores, loads).to_markdown()
    assert "no stores: 80 % of the time" in shown
    assert "200 µs" in shown
    assert "No experiment makes the kernel clearly faster." in timed_record(unclear).to_markdown()


def without_counters(sweep):
    return replace(sweep, measurements=tuple(replace(m, profile=None) for m in sweep))


def test_a_diagnosis_without_counters_uses_experiments():
    sweep = without_counters(make_transpose())
    problem = str(sweep.variants[0].problem)
    tried = [
        timed_record(timed_trial("no bank conflicts", 1.5), problem=problem, variant="naive"),
        timed_record(timed_trial("no barriers", 1.01), problem=problem, variant="tiled"),
    ]
    found = {finding.variant: finding for finding in ado.diagnose(sweep, what_if=tried)}
    naive, tiled = found["naive"], found["tiled"]
    assert (naive.limiter.kind, naive.limiter.tried) == ("shared memory", True)
    assert naive.experiment.experiment == "no bank conflicts"
    assert tiled.limiter.kind == "unknown"
    assert "instructions or their latency" in tiled.limiter.unknown
    tables = ado.diagnose(sweep, what_if=tried).to_markdown()
    assert f"no bank conflicts: {ratio(1.5)}" in tables
    with pytest.raises(ValueError, match="times of variants of transpose"):
        ado.diagnose(sweep, what_if=[timed_record(variant="other")])
    with pytest.raises(TypeError, match="records of ado"):
        ado.diagnose(sweep, what_if=[5])


def dose(kind, number, growth, added=0.5):
    """A trial with `number` added instructions per instruction."""
    times = {"seconds": 1 + growth, "off_seconds": 1.0, "dose": number, "added": number * added}
    return replace(timed_trial(f"{number} {kind}", 1, count=f"{kind} instructions"), **times)


FULL_GRID, ONE_BLOCK = (4096, 1, 1), (1, 1, 1)
NO_GAIN = timed_trial("loads hit L1", 1.01)
SLOWER = timed_trial("half the resident blocks", 0.8, "slower")
HALVED = timed_trial("half the multiprocessors", 0.52, "slower")
OUTSIDE = timed_trial("half the multiprocessors", 0.9, "slower")
COSTLY = dose("FP64", 1, 0.9)


@pytest.mark.parametrize(
    ("trials", "grid", "limiter"),
    [
        ([timed_trial("loads hit L1", 2)], ONE_BLOCK, "too little work"),
        ([timed_trial("loads hit L1", 2)], FULL_GRID, "memory"),
        ([timed_trial("loads hit L1", 3, code=("x",), intrusion=1.1)], FULL_GRID, "memory"),
        ([timed_trial("loads hit L1", 1.3, intrusion=1.3)], FULL_GRID, "unknown"),
        ([timed_trial("no bank conflicts", 1.5), SLOWER], FULL_GRID, "shared memory"),
        ([NO_GAIN, COSTLY, dose("integer", 2, 0.1)], FULL_GRID, "compute (FP64 instructions)"),
        ([NO_GAIN, COSTLY, dose("integer", 2, 1.5)], FULL_GRID, "compute (instruction issue)"),
        ([NO_GAIN, dose("integer", 2, 0.9)], FULL_GRID, "compute (instruction issue)"),
        ([timed_trial("loads hit L1", 2), COSTLY], FULL_GRID, "unknown"),
        ([NO_GAIN, dose("FP64", 2, 0.4)], (200, 1, 1), "too little work"),
        ([NO_GAIN, dose("FP64", 2, 0.4), SLOWER], FULL_GRID, "latency"),
        ([timed_trial("no barriers", 1.3)], FULL_GRID, "latency"),
        ([timed_trial("no barriers", 1.1)], FULL_GRID, "unknown"),
        ([NO_GAIN, COSTLY, OUTSIDE], FULL_GRID, "memory"),
        ([NO_GAIN, dose("FP64", 1, 0.1), dose("integer", 2, 1.5)], FULL_GRID, "unknown"),
        ([NO_GAIN, dose("FP64", 2, 0.1), HALVED], FULL_GRID, "L1"),
        ([NO_GAIN, dose("FP64", 2, 0.4), HALVED], FULL_GRID, "unknown"),
        ([NO_GAIN], FULL_GRID, "unknown"),
    ],
)
def test_the_rules_of_limiters(trials, grid, limiter):
    m = make_transpose(counters=True)["naive"]
    kernel = replace(next(iter(m.profile)).kernel, grid=grid, block=(128, 1, 1), resident_warps=32)
    context = {**m.context, "cuda": {"multiprocessors": 132}}
    m = replace(m, kernels=(kernel,), context=context, profile=None)
    found = by_trials(m, timed_record(*trials))
    assert found.name == limiter
    assert bool(found.unknown) == (limiter == "unknown" and found.tried)


def test_limiters_of_experiments_are_scored():
    counted = make_transpose(counters=True)
    problem = str(counted.variants[0].problem)
    records = [
        timed_record(timed_trial("no bank conflicts", 1.5), problem=problem, variant="naive"),
        timed_record(timed_trial("loads hit L1", 2), problem=problem, variant="naive"),
        timed_record(NO_GAIN, problem=problem, variant="tiled"),
    ]
    score = limiters([counted], records)
    assert [row.variant for row in score.known] == ["transpose[naive]"]
    assert score.rows[0].tried.kind == "memory"  # the largest gain of both records
    for kind, agrees in ((Kind.DRAM, True), (Kind.COMPUTE, False)):
        assert replace(score.rows[0], counted=Limiter(kind=kind)).agrees == agrees
    assert "1 of 2, 50 %" in repr(score)


@pytest.mark.parametrize(
    ("kind", "gain", "words"),
    [
        ("compute", 1.5, f"counters name compute, but loads hit L1 is {ratio(1.5)} as fast"),
        ("compute", 1.1, ""),
        ("DRAM", 1.01, "counters name DRAM, but no access costs more than 1 %"),
        ("DRAM", 2.0, ""),
    ],
)
def test_contradictions_between_counters_and_experiments_are_shown(kind, gain, words):
    found = Limiter(kind=Kind(kind), counted=True)
    record = timed_record(timed_trial("loads hit L1", gain))
    assert diagnosis._contradiction(found, record) == words
    assert diagnosis._contradiction(replace(found, counted=False), record) == ""


def test_the_chart_of_steps_marks_promises():
    sweep = without_counters(make_transpose())
    problem = str(sweep.variants[0].problem)
    record = timed_record(timed_trial("no bank conflicts", 4), problem=problem, variant="naive")
    axes = ado.steps(sweep, what_if=[record])
    marks = [line.get_xdata()[0] for line in axes.lines if line.get_mew() == 1.4]
    assert marks == [sweep["naive"].seconds / 4]


def test_a_report_shows_the_experiments_on_its_variants(tmp_path):
    sweep = without_counters(make_transpose())
    problem = str(sweep.variants[0].problem)
    own = timed_record(timed_trial("no bank conflicts", 4), problem=problem, variant="naive")
    other = timed_record(timed_trial("atomics spread", 3), problem="another", variant="naive")
    assert (own.is_of(sweep), other.is_of(sweep)) == (True, False)
    page = ado.write_report(tmp_path / "r.html", sweeps=[sweep], what_if=[own, other])
    text = page.read_text(encoding="utf-8")
    assert "no bank conflicts" in text
    assert "Promised steps" in text
    assert "atomics spread" not in text


# --- On a GPU -------------------------------------------------------------------------------------

ADD = """
.version 8.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 n) {
  .reg .b64 %rd<4>; .reg .b32 %r<6>; .reg .pred %p;
  ld.param.u64 %rd1, [a]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
  mad.lo.u32 %r2, %r2, %r3, %r4; mul.lo.u32 %r2, %r2, STRIDE; setp.ge.u32 %p, %r2, %r1; @%p ret;
  mul.wide.u32 %rd2, %r2, 4; add.u64 %rd1, %rd1, %rd2;
  ld.global.u32 %r5, [%rd1]; add.u32 %r5, %r5, STRIDE; st.global.u32 [%rd1], %r5; ret;
}
"""


@pytest.fixture
def on_gpu():
    """Times need ptxas and a GPU."""
    if NO_CUDA or not toolkit.program("ptxas"):
        pytest.skip("needs a GPU and ptxas")


@pytest.mark.gpu
def test_times_of_a_built_in_variant(on_gpu, rng):
    a = rng.random((1024, 1024), np.float32)
    record = ado.what_if(ado.transpose["naive"], a, seconds=1, per_line=True)
    assert (record.cache, record.seconds > 0) == ("cold", True)
    for form in ("stream", "near"):
        trial = record.trial(f"stores coalesced ({form})")
        assert (trial.reason, trial.rewritten, trial.place[:9]) == ("", 1, "steps.cu:")
        assert trial.interval[0] <= trial.gain <= trial.interval[1]
        assert trial.clear
        assert trial.gain == trial.off_seconds / trial.seconds
    gains = [trial.gain for trial in record]
    assert gains == sorted(gains, reverse=True)
    assert {line.experiment for line in record.lines} <= {record.largest.experiment}
    added = [trial for trial in record if trial.dose]
    assert [trial.dose for trial in added] == [1, 2]
    assert {(trial.reason, trial.gain, trial.intrusion) for trial in added} == {("", 0, 1)}
    assert {trial.off_seconds for trial in added} == {record.seconds}
    assert "gain" in record.to_markdown()
    assert np.array_equal(ado.transpose(a, variant="naive", device="cuda"), a.T)


@pytest.mark.gpu
def test_times_of_a_function_with_two_kernels_of_one_name(on_gpu):
    def work(a):
        for stride in (1, 8):
            code = ADD.replace("STRIDE", str(stride)).encode()
            arguments = {"a": a, "n": np.uint32(a.size).tobytes()}
            emulate(code, "k", (512,), (128,), 0, arguments)

    a = np.zeros(1 << 16, np.uint32)
    record = ado.what_if(work, a, device="cuda", seconds=0.5)
    assert record.kernels == ("k", "k")
    stores = record.trial("stores coalesced (near)")
    assert (stores.reason, stores.rewritten, stores.accesses) == ("", 1, 1)
    assert stores.gain > 0
    assert not a.any()
