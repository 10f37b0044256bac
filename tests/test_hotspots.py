"""Hot spots: records, tables and the mapping to source lines on synthetic samples.

The second part is about kernels that were compiled at run time.
"""

import dataclasses
import pickle
import re

import numpy as np
import pytest
from conftest import NO_CUDA

import adokernels as ado
from adokernels import _core
from adokernels.measuring import hotspots as measured
from adokernels.measuring.hotspots import Sources
from adokernels.measuring.stored_call import StoredCall
from adokernels.model.compiler import why_no_compiler
from adokernels.model.source import sources_folder
from adokernels.records.hotspots import LineSamples
from adokernels.records.inputs import Inputs

ROOT = sources_folder()
BUILT_IN = "/home/somebody/cuda/adokernels"  # a folder named cuda above the sources
STEPS, MATRIX = "cuda/transpose/steps.cu", "cuda/transpose/engine/matrix.cuh"
REASONS = ["long_scoreboard", "long_scoreboard_not_issued", "selected", "lg_throttle"]


def line_with(code, path=STEPS):
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(lines, 1) if code in line)


STORE = line_with("if (row < rows && col < cols) out[")
ACCESS = line_with("return data[row * stride + col];", MATRIX)

SAMPLES = {
    "reasons": REASONS,
    "lines": [
        ["transpose_naive<uint2>", f"{BUILT_IN}/{STEPS}", STORE, [500, 400, 40, 60]],
        ["transpose_naive<uint2>", f"{BUILT_IN}/{STEPS}", STORE - 1, [10, 10, 10, 0]],
        ["transpose_naive<uint2>", f"{BUILT_IN}/{MATRIX}", ACCESS, [0, 0, 30, 70]],
        ["another<uint2>", f"{BUILT_IN}/{MATRIX}", ACCESS, [80, 0, 0, 0]],
        ["cublas_kernel", "", 0, [0, 0, 200, 0]],
        ["another<uint2>", f"{BUILT_IN}/{STEPS}", 1, [0, 0, 0, 0]],
    ],
    "dropped": 7,
    "unattributed": 9,
}


def record(samples, shape, **labels):
    problem = str(Inputs.of([("a", shape, "float64")]))
    names = {"routine": "transpose", "variant": "naive", "problem": problem}
    return measured.hotspots_of(samples, Sources(root=sources_folder()), **names, **labels)


@pytest.fixture
def found():
    return record(SAMPLES, (8, 8), block=(32, 8), context={"seconds": 0.5})


def test_lines_are_summed_and_sorted(found):
    assert found.samples == 1000
    assert [(hot.path, hot.line, hot.samples) for hot in found] == [
        (STEPS, STORE, 600),
        (MATRIX, ACCESS, 180),
        (STEPS, STORE - 1, 20),
    ]
    assert [hot.share for hot in found] == [0.6, 0.18, 0.02]
    assert found[0].not_issued == 400
    assert (
        found[0].text.strip()
        == "if (row < rows && col < cols) out[col * out_pitch + row] = a[row * a_pitch + col];"
    )
    assert found[0].reason == "long scoreboard"
    assert found[1].reasons == {"long_scoreboard": 80, "lg_throttle": 70, "selected": 30}
    assert str(found[0]) == f"line {STORE}: 60 % of samples, long scoreboard"
    assert len(found) == 3


def test_totals_by_kernel_and_reason(found):
    assert found.kernels == {
        "transpose_naive<uint2>": 720,
        "cublas_kernel": 200,
        "another<uint2>": 80,
    }
    assert found.reasons == {"long_scoreboard": 590, "selected": 280, "lg_throttle": 130}
    assert (found.dropped, found.unattributed) == (7, 9)


def test_excerpts_are_the_definitions_around_the_lines(found):
    kernel, matrix = found.excerpts
    assert "transpose_naive(const T* a" in kernel.text
    assert "transpose_tiled(" not in kernel.text
    assert kernel.text.splitlines()[STORE - kernel.line] == found[0].text
    assert "template <class Byte>\nstruct Matrix {" in matrix.text
    assert found[0] in kernel
    assert found[1] not in kernel


def test_shown_as_text(found):
    text = repr(found)
    first = next(line for line in text.splitlines() if f"steps.cu:{STORE} " in line)
    assert "long scoreboard 83 %, lg throttle 10 %" in first
    assert "dropped 7 samples" in " ".join(text.split())
    assert re.search(rf"60 % +{STORE}   if \(row < rows && col < cols\) out\[", text)  # the source


def test_cpu_variants_and_wrong_values_are_rejected():
    a = np.zeros((4, 4))
    with pytest.raises(ValueError, match="CUDA variant, got transpose"):
        measured.hotspots(ado.transpose["simd"], a)
    with pytest.raises(TypeError, match=r"variant must be a Variant .*, got Routine"):
        measured.hotspots(ado.transpose, a)
    with pytest.raises(ValueError, match="seconds must be positive, got 0"):
        measured.hotspots(ado.transpose["naive"], a, seconds=0)


@pytest.mark.skipif(not NO_CUDA, reason="there is a GPU")
def test_without_a_gpu_the_reason_is_given():
    with pytest.raises(ado.Unavailable):
        measured.hotspots(ado.transpose["naive"], np.zeros((4, 4)))
    call = StoredCall.of(ado.transpose["naive"], [np.zeros((4, 4))], {}, None)
    with pytest.raises(ado.Unavailable):  # raised in the other process
        measured.samples_of(call, 0.1)


# --- Kernels that were compiled at run time ------------------------------------------------------

NO_COMPILER = why_no_compiler()

SOURCE = """\
#include <cstdint>
constexpr int kSteps = 1000;

// Waits for memory that the previous load points to.
template <class T>
__global__ void chase(const T* next, T* out) {
  T at = threadIdx.x;
  for (int i = 0; i < kSteps; ++i)
    at = next[at];
  out[threadIdx.x] = at;
}

extern "C" __global__ void plain(int* out) {
  out[0] = 1;
}
"""
CHASE, LOAD, PLAIN = 4, 9, 14  # lines: the comment above chase, its load, the store of plain

LAUNCH_SAMPLES = {
    "reasons": ["long_scoreboard", "selected"],
    "lines": [
        ["chase<int>", "/home/somebody/chase.cu", LOAD, [90, 5]],
        ["chase<int>", "/home/somebody/chase.cu", 2, [1, 0]],
        ["plain", "/home/somebody/chase.cu", PLAIN, [4, 0]],
        ["chase<int>", "/usr/include/none.h", 3, [1, 0]],
    ],
    "dropped": 0,
    "unattributed": 0,
}


def entry_at(line, path="chase.cu"):
    return LineSamples(kernel="k", path=path, line=line, text="", reasons={}, not_issued=0)


@pytest.mark.parametrize(
    ("name", "recorded", "path"),
    [
        ("chase.cu", "/home/somebody/chase.cu", "chase.cu"),
        ("mine/chase.cu", "/home/mine/folder/../chase.cu", "mine/chase.cu"),
        ("/home/me/chase.cu", "/home/me/chase.cu", "/home/me/chase.cu"),
        ("chase.cu", "/home/somebody/purchase.cu", "/home/somebody/purchase.cu"),
        ("mine/chase.cu", "/home/other/chase.cu", "/home/other/chase.cu"),
        ("chase.cu", "", ""),
    ],
)
def test_recorded_paths_are_mapped_to_given_sources(name, recorded, path):
    assert Sources(texts={name: SOURCE}).path_of(recorded) == path


def test_excerpts_come_from_the_given_text():
    sources = Sources(texts={"chase.cu": SOURCE})
    chase, plain, include = sources.excerpts_of(map(entry_at, (LOAD, LOAD + 1, PLAIN, 1)))
    assert chase.line == CHASE
    assert chase.text.startswith("// Waits")
    assert chase.text.endswith("at;\n}")
    assert plain.text == 'extern "C" __global__ void plain(int* out) {\n  out[0] = 1;\n}'
    assert include.text == "\n".join(SOURCE.splitlines()[:4])
    assert sources.excerpts_of([entry_at(3, "/usr/include/none.h"), entry_at(0, "")]) == []


def chase_of(grid):
    """The kernel chase as a variant; its result has one element per thread of a block."""
    own = ado.ladder("pointers", reference=lambda next: np.arange(64, dtype="i4"))
    how = {"block": 64, "grid": grid, "arguments": lambda next, out: (next, out)}
    return own.cuda_variant("chase", source=SOURCE, kernel="chase<int>", file="chase.cu", **how)


@pytest.mark.skipif(bool(NO_COMPILER or _core.why_no_emulator()), reason="no NVRTC or no emulator")
def test_a_kernel_in_source_is_stored_as_a_launch(monkeypatch):
    x, variant, stored = np.arange(64, dtype="i4")[::-1].copy(), chase_of(2), []
    problem = variant.ladder.problem(x, device="emulator")
    launch = variant.prepare(problem).captured()

    def run(work, seconds):
        assert seconds == 0.5
        stored.extend(pickle.loads(pickle.dumps(work)))
        return dict(LAUNCH_SAMPLES)

    monkeypatch.setattr(measured, "samples_of", run)
    monkeypatch.setattr(measured._core, "why_no_cuda", lambda: "")
    monkeypatch.setattr(measured, "context", lambda device: {"device": device})
    monkeypatch.setattr(type(variant), "source_launch", lambda *_: launch)
    found = measured.hotspots(variant, x)
    assert (found.routine, found.variant, found.problem) == (
        "pointers",
        "chase",
        "next: (64,) int32",
    )
    assert found.block == (64,)
    assert found.context == {"device": "cuda", "seconds": 0.5}
    assert (found[0].path, found[0].line, found[0].text) == ("chase.cu", LOAD, "    at = next[at];")
    assert "at = next[at];" in repr(found)
    assert [excerpt.path for excerpt in found.excerpts] == ["chase.cu"] * 3
    chosen = measured.hotspots(variant, x, kernel="plain")
    assert (list(chosen.kernels), chosen.samples) == (["plain"], 4)
    with pytest.raises(ValueError, match=r"kernel must be the name of a kernel of .*, got 'x'"):
        measured.hotspots(variant, x, kernel="x")
    again = dataclasses.replace(stored[0], ptx=stored[0].cubin.decode())
    arrays = again.operands
    np.testing.assert_array_equal(arrays[0].view("i4"), x)
    with ado.emulated():
        again(*arrays)
    np.testing.assert_array_equal(arrays[1].view("i4"), np.arange(64))


# --- On a GPU ------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_naive_transpose_waits_at_its_accesses():
    a = np.random.default_rng(1).random((4096, 4096), dtype=np.float32)
    found = measured.hotspots(ado.transpose["naive"], a, seconds=0.2)
    assert found.samples > 0
    assert sum(hot.share for hot in found) == pytest.approx(1)
    assert list(found.kernels) == [name for name in found.kernels if "transpose_naive" in name]
    # A warp stalls on its load, or at the end of the kernel on its stores.
    assert found[0].path == STEPS
    assert abs(found[0].line - STORE) <= 1
    assert found[0].text
    assert found[0].reason


@pytest.mark.gpu
@pytest.mark.skipif(bool(NO_COMPILER), reason=NO_COMPILER)
def test_a_chain_of_loads_stalls_at_the_load():
    x = np.roll(np.arange(1 << 22, dtype="i4"), 4097)
    found = measured.hotspots(chase_of(64), x, seconds=0.2)
    assert (found[0].path, found[0].line) == ("chase.cu", LOAD)
    assert found[0].share > 0.5
    assert found[0].reason == "long scoreboard"
    assert list(found.kernels) == ["chase<int>"]
    assert found.excerpts[0].line == CHASE
