"""Correct kernels, about which the emulator must not complain, and mistakes that it must find."""

import re
from pathlib import Path

import numpy as np
import pytest
from test_emulator import device_array, launch, run

import adokernels as ado
from adokernels import _core
from adokernels.model import compiler

HEAD = """#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/semaphore>
#include <cuda/std/atomic>
namespace cg = cooperative_groups;
#define S(T, name, size) __shared__ T name[size]
#define SYNC __syncthreads()
#define FULL 0xffffffffu
#define SHARED(p) unsigned(__cvta_generic_to_shared(p))
#define BULK_LOAD(s, from, bytes) \\
  __shared__ __align__(16) int s[(bytes) / 4]; __shared__ unsigned long long bar; \\
  if (t == 0) { asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(SHARED(&bar))); \\
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" \\
    :: "r"(SHARED(&bar)), "r"(bytes) : "memory"); \\
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], " \\
    "%2, [%3];" :: "r"(SHARED(s)), "l"(from), "r"(bytes), "r"(SHARED(&bar)) : "memory"); } SYNC; \\
  for (int done = 0; !done;) asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 " \\
    "p, [%1], 0; selp.s32 %0, 1, 0, p; }" : "=r"(done) : "r"(SHARED(&bar)) : "memory");
#define BULK_START(to, s, bytes) \\
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2; " \\
    "cp.async.bulk.commit_group;" :: "l"(to), "r"(SHARED(s)), "r"(bytes) : "memory")
#define BULK_END asm volatile("cp.async.bulk.wait_group 0;" ::: "memory")
#define BULK_STORE(to, s, bytes) if (t == 0) { BULK_START(to, s, bytes); BULK_END; }
"""
DATA = Path(__file__).parent / "data" / "emulator"


def kernels_in(file):
    """(kinds of the error or "", name, body) of each kernel of a file."""
    return re.findall(r"^//: (?:(.+): )?(.+)\n((?:(?!//:).*\n)*)", (DATA / file).read_text(), re.M)


def compiled(kernels, parameters, variables):
    """A module with a kernel k0, k1, ... for each body."""
    if reason := compiler.why_no_compiler():
        pytest.skip(reason)
    parts = [HEAD]
    for index, (_, _, body) in enumerate(kernels):
        parts.append(f'extern "C" __global__ void k{index}({parameters}) {{\n{variables}\n{body}}}')
    code = compiler.compile_cuda("\n".join(parts), "k0", arch="compute_90", options=["-w"]).code
    return _core.EmulatedModule(code.decode())


KERNELS = kernels_in("checks.cu")

T = np.arange(256, dtype=np.int32)
LANE = T % 32


def shuffled(x, source):
    """x of lane `source`, if that lane is in the same warp, else of the lane itself."""
    inside = (source >= 0) & (source < 32)
    return np.where(inside, x[T - LANE + np.where(inside, source, LANE)], x)


def of_warp(function, x):
    """The result of a function of a warp's values."""
    return np.repeat([function(row) for row in x.reshape(8, 32)], 32).astype(np.int64)


def ballot(yes):
    return of_warp(lambda row: sum(int(bit) << i for i, bit in enumerate(row)), yes)


def butterfly():
    x = T.copy()
    for d in 16, 8, 4, 2, 1:
        sent = shuffled(np.where(T & 16, x, x + 1), LANE ^ d)
        x = np.where(T & 16, x * 3 - sent, sent ^ x)
    return x


def loop():
    x = T.copy()
    for k in range(4):
        plain = (T + k) % 3 != 0
        sent = shuffled(np.where(plain, x, 2 * x), LANE ^ 5)
        x = np.where(plain, x + sent, k - sent)
    return x


def nested():
    odd, second, eighth = T & 1 != 0, T & 2 != 0, T & 8 != 0
    sent = T * np.where(odd, np.where(second, 1, 2), np.where(eighth, 3, 4))
    x = shuffled(sent, LANE + 3)
    x = np.where(odd, np.where(second, x + 1, x * 2), np.where(eighth, x - 5, x ^ 7))
    return shuffled(x, LANE ^ 1)


def matched():
    value = np.where(T & 1, T % 4, T % 6)
    same = np.array([ballot(value == v)[t] for t, v in enumerate(value)])
    return np.where(T & 1, same, ~same)


def some_first():
    x = np.where(T & 1, T, 2 * (T ^ 6))
    return np.where(T & 1, x[T ^ 1], x[T ^ 1] + 1)


#: Results of kernels whose lanes exchange values at several copies of an instruction.
COPIES = {
    "syncwarp": np.where(T & 1, 5 * (T ^ 1), 3 * (T ^ 1) + 1),
    "shuffle in a helper": np.where(
        T % 3 == 0, 3 * (sent := shuffled(np.where(T % 3 == 0, 2 * T, T + 7), LANE - 1)), sent - 1
    ),
    "ballot": ballot(np.where(T & 4, T % 3 == 0, T % 5 == 0)) ^ np.where(T & 4, 1, 0),
    "any": np.where(T & 4, np.isin(T // 32, [1, 2]) + 3, 2 * np.isin(T // 32, [1, 2])),
    "sum": of_warp(np.sum, np.where(LANE < 10, T, 3 * T)) * np.where(LANE < 10, 1, -1),
    "match of 64 bits": matched(),
    "match of all": np.where(T & 1, -1, 2),
    "butterfly": butterfly(),
    "nested branches": nested(),
    "loop": loop(),
    "two masks": np.where(T & 1, 10 * (T ^ 9), (T ^ 9) + 3),
    "some lanes first": some_first(),
    "shuffles before copies of a barrier": np.where(T & 1, T, T ^ 2),
    "after a return": np.where(
        T < 200, of_warp(np.max, np.where(T < 200, np.where(T & 1, T, 2 * T), 0)), -77
    ),
    "elected lane": np.where(T & 1, 2 + (LANE == 0), 5 * (LANE == 0)),
}


@pytest.fixture(scope="module")
def module():
    return compiled(KERNELS, "int* o, const int* a, int n", "const int t = threadIdx.x;")


@pytest.mark.parametrize("index", range(len(KERNELS)), ids=[name for _, name, _ in KERNELS])
def test_a_kernel(module, index):
    """As one block of 256 threads; n is 200."""
    kinds, name, _ = KERNELS[index]
    kinds = kinds.split("|")
    a, out = device_array(256, "i4", np.arange(256)), device_array(256, "i4", -77)
    arguments = out, a, np.int32(200)
    options = {"outputs": [out], "shared_bytes": 3072}
    error = launch(module, f"k{index}", (1,), (256,), *arguments, **options)["error"]
    if "race" in kinds:
        kinds.append("uninitialised")  # before the other thread has written
    assert (error["kind"] if error else "") in kinds, error and error["text"]
    if not error and name.startswith("copies, "):
        np.testing.assert_array_equal(out, COPIES[name.removeprefix("copies, ")].astype("i4"))


#: Kernels of several blocks, which may race in global memory.
BLOCKS = kernels_in("blocks.cu")


@pytest.fixture(scope="module")
def block_module():
    variables = "const int t = threadIdx.x, b = blockIdx.x, i = b * 64 + t;"
    return compiled(BLOCKS, "int* o, int* x, unsigned* f, const int* a", variables)


@pytest.mark.parametrize("index", range(len(BLOCKS)), ids=[name for _, name, _ in BLOCKS])
def test_blocks(block_module, index):
    """As 8 blocks of 64 threads, with several numbers of host threads."""
    kind, _, body = BLOCKS[index]
    texts = set()
    for threads in (1, 3, 8):
        arrays = [device_array(4096, "i4", 0) for _ in range(3)]
        arrays.append(device_array(4096, "i4", np.arange(4096) % 97))
        error = launch(block_module, f"k{index}", (8,), (64,), *arrays, threads=threads)["error"]
        assert (error["kind"] if error else "") == kind, error and error["text"]
        assert not error or error["file"] == "kernel.cu"
        texts.add(error and error["text"])
    # What blocks observe depends on the schedule.
    assert len(texts) == 1 or re.search("atomic|volatile", body), texts


def test_the_report_of_a_race_names_both_accesses(block_module):
    index = [name for _, name, _ in BLOCKS].index("result of the block before")
    arrays = [device_array(4096, "i4", 0) for _ in range(4)]
    error = launch(block_module, f"k{index}", (8,), (64,), *arrays)["error"]
    assert (error["block"], error["thread"], error["byte"]) == ([1, 0, 0], [0, 0, 0], 252)
    other = r"byte 252 of 'a', which thread \(63, 0, 0\) of block \(0, 0, 0\) wrote at kernel\.cu:"
    assert re.search(other + rf"{error['line']}, ", error["text"])


@pytest.mark.parametrize("threads", [1, 3])
def test_kernels_of_cub(threads):
    if reason := compiler.why_no_compiler():
        pytest.skip(reason)
    text = (DATA / "cub.cu").read_text()
    try:
        code = compiler.compile_cuda(text, "reduce", arch="compute_90", options=["-w"]).code
    except ado.CompilationError as error:
        if 'no member "agent_scan_policy"' in error.log:
            pytest.skip("needs the agents of CCCL 3.1")
        raise
    module = _core.EmulatedModule(code.decode())

    def cub(kernel, grid, block, *arguments):
        name = kernel.split("I")[0]
        entry = next(e for e in module.entries if f"{len(name)}{kernel}" in e)
        run(module, entry, (grid,), (block,), *arguments, threads=threads)

    n, rng = 5000, np.random.default_rng(0)
    for kind, columns, dtype in (("IiE", 1, "i4"), ("I4PairE", 2, "i8")):
        tiles, values = -(-n // 128), rng.integers(0, 100, (n, columns))
        state, a = device_array(1 << 20, "u1"), device_array((n, columns), dtype, values)
        out = device_array((n, columns), dtype)
        cub(f"scan_begin{kind}", 2, 64, state, np.int32(tiles))
        cub(f"scan{kind}", tiles, 64, state, a, out, np.int32(n), np.int32(tiles))
        np.testing.assert_array_equal(out, values.cumsum(0))
    keys, sums = device_array(n, "u4", rng.integers(0, 1 << 32, n)), device_array(8, "i4")
    cub("reduce", 8, 64, keys.view("i4"), sums, np.int32(n))
    assert sums.view("u4").sum(dtype="u4") == keys.sum(dtype="u4")
    counts, tiles = device_array((4, 256), "i4"), -(-n // 1024)
    cub("histogram", 16, 64, counts, keys, np.int32(n))
    ordered = np.sort(keys)
    for digit in range(4):
        starts = device_array(256, "i4", counts[digit].cumsum() - counts[digit])
        look_back, ticket, out = (device_array(k, "i4") for k in (tiles * 256, 1, n))
        rest = np.int32(n), np.int32(8 * digit)
        cub(
            "onesweep",
            tiles,
            256,
            look_back,
            ticket,
            device_array(256, "i4"),
            starts,
            out,
            keys,
            *rest,
        )
        keys = device_array(n, "u4", out.view("u4"))
    np.testing.assert_array_equal(keys, ordered)


LAST_BLOCKS = """__device__ unsigned finished[4096];
__global__ void last_blocks(const float* x, float* out) {
  for (unsigned* group = finished + blockIdx.x * 64, *end = group + 64; group < end; ++group) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0 && atomicAdd(group, 1u) == gridDim.y - 1) {
      *group = 0;
      out[blockIdx.x] = x[blockIdx.x];
    }
    __syncthreads();
  }
}"""


@pytest.mark.usefixtures("sources_on_emulator")
def test_atomic_operations_are_recorded_in_their_order(monkeypatch):
    """Without a lock, up to 30 % of such launches showed a race, depending on the load."""
    monkeypatch.setattr(ado.settings, "emulator_checks", ("global_racecheck",))
    ladder, x = ado.ladder("last_blocks", reference=lambda x: x), np.ones(4, "f4")
    how = {"block": 32, "grid": (4, 8), "arguments": lambda x, out: (x, out)}
    ladder.cuda_variant("last_blocks", source=LAST_BLOCKS, kernel="last_blocks", **how)
    for _ in range(50):
        np.testing.assert_array_equal(ladder(x, device="emulator"), x)


@pytest.mark.skipif(bool(_core.why_no_emulator()), reason="needs the emulator")
@pytest.mark.parametrize("name", ado.routines)
def test_no_variant_has_a_race_between_blocks(name):
    routine, before = ado.routines[name], (ado.settings.emulator_checks, ado.settings.threads)
    shapes = {"gpp": (8, 9, 33, 2), "average_matvec": (20, 16, 33), "component": (5001, 3)}
    one_dimension = len(routine.task.lengths) == 1
    lengths = shapes.get(name, (5001,) if one_dimension else (70, 130))
    operands = routine.task.random_operands(lengths)
    problem, executed = routine.problem(*operands, device="emulator"), 0
    ado.settings.emulator_checks, ado.settings.threads = "global_racecheck", 3
    try:
        for variant in routine:
            if variant.device == "cuda" and not problem.why_not(variant.name):
                executed += len(_core.emulated_counts(problem.prepare(variant.name).timed)) > 0
    finally:
        ado.settings.emulator_checks, ado.settings.threads = before
    assert executed > 0
