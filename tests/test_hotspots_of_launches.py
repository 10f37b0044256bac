"""Hot spots of kernels that were compiled at run time."""

import numpy as np
import pytest
from conftest import NO_CUDA

import adokernels as ado
from adokernels.measuring import hotspots as measured
from adokernels.measuring.hotspots import Sources
from adokernels.model.compiler import compile_cuda, why_no_compiler
from adokernels.model.source_launch import Result, SourceLaunch
from adokernels.records.hotspots import LineSamples

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

LAUNCH = SourceLaunch(
    code=b"\x7fELF",
    symbol="_Z5chaseIiEvPKT_PS0_",
    grid=(2, 3),
    block=(64,),
    shared_bytes=16,
    arguments=(np.arange(3, dtype="i4"), Result((2, 4), "float32"), b"\x01\x00", np.ones(2)),
)

SAMPLES = {
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


def test_a_launch_is_stored_and_loaded(tmp_path):
    LAUNCH.save(tmp_path)
    again = SourceLaunch.load(tmp_path)
    for name in ("code", "symbol", "grid", "block", "shared_bytes"):
        assert getattr(again, name) == getattr(LAUNCH, name)
    first, result, value, last = again.arguments
    np.testing.assert_array_equal(first, LAUNCH.arguments[0])
    np.testing.assert_array_equal(last, LAUNCH.arguments[3])
    assert first.dtype == np.int32
    assert (result, value) == (Result((2, 4), "float32"), b"\x01\x00")


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


def test_code_with_an_unknown_layout_is_shown_by_lines():
    sources = Sources(texts={"chase.cu": "#define OPEN {\nvoid f() OPEN\n}}\n((\n"})
    (excerpt,) = sources.excerpts_of([entry_at(2)])
    assert entry_at(2) in excerpt


def test_the_record_has_the_given_labels(monkeypatch, tmp_path):
    written = []

    def run(save, seconds):
        save(tmp_path)
        assert seconds == 0.5
        written.extend(sorted(path.name for path in tmp_path.iterdir()))
        return SAMPLES

    monkeypatch.setattr(measured, "samples_of", run)
    monkeypatch.setattr(measured._core, "why_no_cuda", lambda: "")
    monkeypatch.setattr(measured, "context", lambda device: {"device": device})
    found = measured.hotspots_of_launch(
        LAUNCH,
        sources={"chase.cu": SOURCE},
        routine="pointers",
        variant="chase",
        problem="next: (3,) int32",
    )
    assert written == ["launch.pickle"]
    assert (found.routine, found.variant, found.problem) == (
        "pointers",
        "chase",
        "next: (3,) int32",
    )
    assert found.block == (64,)
    assert found.context == {"device": "cuda", "seconds": 0.5}
    assert (found[0].path, found[0].line, found[0].text) == ("chase.cu", LOAD, "    at = next[at];")
    assert "at = next[at];" in repr(found)
    assert [excerpt.path for excerpt in found.excerpts] == ["chase.cu"] * 3


def test_wrong_values_are_rejected():
    labels = {"routine": "r", "variant": "v", "problem": "p"}
    with pytest.raises(ValueError, match="seconds must be positive, got 0"):
        measured.hotspots_of_launch(LAUNCH, sources={}, **labels, seconds=0)


@pytest.mark.skipif(not NO_CUDA, reason="there is a GPU")
def test_without_a_gpu_the_error_contains_the_reason(tmp_path):
    labels = {"routine": "r", "variant": "v", "problem": "p"}
    with pytest.raises(ado.Unavailable, match=f"hot spots cannot be sampled: {NO_CUDA}"):
        measured.hotspots_of_launch(LAUNCH, sources={}, **labels)
    with pytest.raises(ado.Unavailable):  # raised in the other process
        measured.samples_of(LAUNCH.save, 0.1)


@pytest.mark.gpu
@pytest.mark.skipif(bool(NO_COMPILER), reason=NO_COMPILER)
def test_a_chain_of_loads_stalls_at_the_load():
    compiled = compile_cuda(SOURCE, "chase<int>", file="chase.cu")
    launch = SourceLaunch(
        code=compiled.code,
        symbol=compiled.symbol,
        grid=(64,),
        block=(64,),
        arguments=(np.roll(np.arange(1 << 22, dtype="i4"), 4097), Result((64,), "int32")),
    )
    found = measured.hotspots_of_launch(
        launch, sources={"chase.cu": SOURCE}, routine="r", variant="v", problem="p", seconds=0.2
    )
    assert (found[0].path, found[0].line) == ("chase.cu", LOAD)
    assert found[0].share > 0.5
    assert found[0].reason == "long scoreboard"
    assert list(found.kernels) == ["chase<int>"]
    assert found.excerpts[0].line == CHASE
