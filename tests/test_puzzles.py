"""The puzzles: each starter is not done, each solution is, and wrong answers fail for a reason."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
from conftest import run_python

from adokernels import cli
from adokernels.puzzles import PROGRESS, find, puzzles

pytestmark = pytest.mark.usefixtures("sources_on_emulator")

#: By puzzle: a part of the solution, what replaces it (or, for "", the whole solution), and a part
#: of the message.
WRONG = {
    "index": [
        ("", "if (!threadIdx.x && !blockIdx.x) for (int i = 0; i < n; ++i) out[i] = 2 * a[i];",
         "1,000 load requests"),
    ],
    "grid_stride": [("i += gridDim.x * blockDim.x", "i += blockDim.x", "load requests")],
    "rows_and_columns": [("if (row >= rows || col >= cols) return;", "", "out of bounds")],
    "coalesced_copy": [
        ("k * blockDim.x + threadIdx.x", "2 * threadIdx.x + k % 2 + k / 2 * 256", "8 sectors"),
    ],
    "vector_loads": [
        ("", """for (int k = 4 * i; k < 4 * i + 4; k += 2)
                  reinterpret_cast<float2*>(out)[k / 2] =
                    float2{a[k] + b[k], a[k + 1] + b[k + 1]};""",
         "load requests"),
    ],
    "array_of_structures": [("__syncthreads();", "", "race in shared memory")],
    "halo": [
        ("", """tile[t + 1] = i < n ? a[i] : 0;
                __syncthreads();
                tile[t] = i > 0 && i <= n ? a[i - 1] : 0;
                __syncthreads();
                tile[t + 2] = i + 1 < n ? a[i + 1] : 0;
                __syncthreads();""", "load requests"),
    ],
    "addressing": [
        ("if (t < distance) part[t] += part[t + distance];\n    __syncthreads();",
         "if (t < distance) { part[t] += part[t + distance]; __syncthreads(); }", "barrier"),
    ],
    "warp_sum": [
        ("", """__shared__ int part[128];
                part[threadIdx.x] = value;
                __syncthreads();
                if (threadIdx.x % 32 == 0)
                  for (int k = 1; k < 32; ++k) value += part[threadIdx.x + k];""",
         "barriers of warps"),
    ],
    "warp_scan": [("if (lane >= d) ", "", "wrong result")],
    "block_scan": [("  __syncthreads();", "  __syncthreads();\n__syncthreads();", "48 barriers")],
    "compaction": [("(1u << lane) - 1", "(2u << lane) - 1", "not written")],
    "tiled_transpose": [("[33]", "[32]", "bank conflicts")],
    "swizzle": [("col ^ row", "col", "bank conflicts")],
    "private_counters": [("32 * digit + t", "32 * digit + (t ^ digit % 2)", "bank conflicts")],
    "histogram": [
        ("atomicAdd(&counters[a[start + k]], 1)", "counters[a[start + k]] += 1", "race in shared"),
    ],
    "aggregation": [
        ("if (t % 32 == 0) atomicAdd(out, number)", "atomicAdd(out, t % 32 ? 0 : number)",
         "1,024 atomic updates"),
    ],
    "warp_per_row": [
        ("int col = lane; col < cols; col += 32",
         "int col = lane * (cols / 32); col < (lane < 31 ? (lane + 1) * (cols / 32) : cols); ++col",
         "sectors per load request"),
    ],
    "matrix_product": [("    __syncthreads();\n    for", "    for", "race in shared memory")],
    "coalesced_blur": [
        ("", """const int row = blockIdx.y * 32 + threadIdx.x % 2 * 16 + threadIdx.y / 2;
                const int col = blockIdx.x * 32 + threadIdx.x / 2 + threadIdx.y % 2 * 16;""",
         "sectors per load request"),
    ],
    "prefetch": [
        ("", """#pragma unroll
                for (int j = 0; j < 8; j += 4) {
                  float loaded[4];
#pragma unroll
                  for (int k = 0; k < 4; ++k) loaded[k] = a[i + (j + k) * step];
#pragma unroll
                  for (int k = 0; k < 4; ++k) out[i + (j + k) * step] = 3 * loaded[k];
                }""", "4 loads per wait"),
    ],
    "double_buffer": [
        ("", """for (int k = 0; k < chunks; ++k) {
                  fetch(k);
                  __pipeline_wait_prior(0);
                  __syncthreads();
                  sum += buffer[k % 2][127 - t];
                  __syncthreads();
                }""", "0 later copies"),
    ],
    "hoisting": [
        ("", """for (int n = 0; n < terms; ++n)
                  sum += weight[n] / volume[p] / (x[n] * x[n] - square);
                out[p] = strength[p] * sum;""", "4,096 divisions"),
    ],
    "literals": [("0.5f", "0.5", "FP64 instructions")],
    "registers": [("", "last[i & 3] = a[64 * i + threadIdx.x];", "sectors of local memory")],
    "find_the_race": [
        ("row[127 - t];\n    __syncthreads();", "row[127 - t];", "race in shared memory"),
    ],
    "race_of_blocks": [("- a[i]", "- out[i]", "wrong result")],
    "name_the_cause": [
        ("stores coalesced", "no bank conflicts", "no shared loads or shared stores transfer more"),
        ("stores coalesced", "no stores", "not how to reduce it"),
        ("15", "11", "line 11 is not the line"),
    ],
    "name_another_cause": [
        ("no bank conflicts", "loads coalesced", "no global loads transfer more"),
    ],
    "name_a_third_cause": [
        ("atomics spread", "no bank conflicts", "no shared loads or shared stores transfer more"),
    ],
    "masked_add": [("tl.load(a + at, mask=mask)", "tl.load(a + at)", "out of bounds")],
    "outer_sum": [(" & (j < cols)[None, :]", "", "race in global memory")],
    "row_sums": [(", mask=col < cols, other=0", "", "out of bounds")],
    "softmax": [(" - tl.max(value)", "", "wrong result")],
    "coalesced_tile": [("* 128 + tl.arange(0, 128)", "* 4 + tl.arange(0, 128)", "load requests")],
    "dot": [(" * n + col", " * inner + col", "out of bounds")],
    "online_maximum": [("total * tl.exp(largest - new)", "total", "wrong result")],
    "running_sum": [("carry += tl.sum(value)", "carry = tl.sum(value)", "wrong result")],
    "layer_norm": [
        ("tl.where(mask, value - tl.sum(value) / cols, 0.0)", "value - tl.sum(value) / cols",
         "wrong result"),
    ],
    "one_atomic": [("tl.sum(value)", "tl.max(value)", "wrong result")],
}  # fmt: skip

#: Reasons for which starters fail: never because of the compiler.
REASONS = "wrong result|race in|pass mark|experiment must be one of"


@pytest.fixture(params=puzzles(), ids=lambda puzzle: puzzle.name)
def puzzle(request):
    if request.param.track == "triton" and not importlib.util.find_spec("triton"):
        pytest.skip("needs Triton")
    return request.param


def test_solutions_are_done_and_starters_are_not(puzzle):
    solution, starter = puzzle.check(puzzle.solution.code), puzzle.check(puzzle.starter)
    assert solution, solution
    assert not starter
    assert re.search(REASONS, starter.message), starter


def test_wrong_answers_fail_for_their_reason(puzzle):
    for old, new, reason in WRONG[puzzle.name]:
        solution = puzzle.solution.code
        assert old in solution
        grade = puzzle.check(solution.replace(old, new, 1) if old else new)
        assert not grade, new
        assert re.search(reason, grade.message), (new, grade)


def test_there_are_puzzles_of_both_tracks_with_short_holes():
    tracks = [each.track for each in puzzles()]
    assert 30 <= len(tracks) <= 40
    assert tracks.count("triton") == 10
    assert len({each.name for each in puzzles()}) == len(tracks)
    for each in puzzles():
        assert 1 <= len(each.solution.code.splitlines()) <= 15, each
        assert len(each.hints) == 3, each
        assert each.solution.code not in each.starter, each
        assert each._repr_markdown_().count("hint: ") == 0, each
    assert "<details>" in find("index").solution._repr_markdown_()


def test_only_the_code_between_the_markers_counts():
    index = find("index")
    mine = index.with_code(index.solution.code)
    assert index.check(mine)
    assert index.check(mine.replace("const float* a, float* out", "float* out, const float* a"))
    assert "lines // --- your code and" in index.check(mine.replace("// --- end", "")).message
    assert index.check("out[0] = ;").message.startswith("it does not compile: index.cu does not")


def test_kernels_that_do_not_end_are_stopped(monkeypatch):
    monkeypatch.setattr("adokernels.puzzles._LIMIT", 1)
    grade = find("index").check("for (volatile int i = 0; i == 0;) ;")
    assert "the kernel did not end within 1 s" in grade.message


def test_heat_maps_and_experiments_are_those_of_the_code():
    swizzle = find("swizzle")
    lines = {old: swizzle.heatmap(old).total("shared_loads").per_request for old in (
        swizzle.starter, swizzle.solution.code)}  # fmt: skip
    assert list(lines.values()) == [32, 1]
    assert swizzle.experiments is None
    assert len(find("name_the_cause").experiments) > 5


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run `adokernels puzzles` in an empty folder; return its status and its output."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        status = cli.main(["puzzles", *arguments])
        found = capsys.readouterr()
        return status, found.out + found.err

    return run


def test_the_program_starts_checks_and_lists_puzzles(run):
    assert "wrote index.cu" in run("start", "index")[1]
    assert run("start", "index")[0] == 2
    status, text = run("check", "index")
    assert status == 1
    assert "index: not done: wrong result" in text
    assert [run("hint", "index")[1].count("Hint ") for _ in range(4)] == [1, 2, 3, 3]
    index = find("index")
    Path("index.cu").write_text(index.with_code(index.solution.code), "utf-8")
    assert run("check", "index") == (0, "index: done: 32 load requests, 3.91 sectors per load "
                                     "request, 3.91 sectors per store request\n")  # fmt: skip
    Path("wrong.cu").write_text(index.starter, "utf-8")
    assert run("check", "index", "wrong.cu")[0] == 1
    assert "Puzzles: 1 of 40 done" in run()[1]
    record = json.loads(run("--json")[1])["puzzles"]
    assert record["index"]["done"] is True
    assert (record["index"]["attempts"], record["index"]["hints"]) == (3, 3)
    assert record["index"]["code"] == index.starter
    assert record["halo"]["attempts"] == 0
    assert json.loads(PROGRESS.read_text("utf-8")) == record
    assert index.solution.code in run("solution", "index")[1]
    assert "3.91" in run("heatmap", "index")[1]


def test_each_action_has_a_json_document(run):
    index = find("index")
    actions = ("start", "check", "heatmap", "hint", "solution")
    found = {action: run(action, "index", "--json") for action in actions}
    assert {action: status for action, (status, _) in found.items() if status} == {"check": 1}
    documents = {action: json.loads(text) for action, (_, text) in found.items()}
    assert {(d["kind"], d["puzzle"]) for d in documents.values()} == {("puzzle", "index")}
    assert documents["start"]["file"] == "index.cu"
    assert documents["check"]["done"] is False
    assert documents["heatmap"]["heatmap"]["variant"] == "yours"
    assert documents["heatmap"]["what_if"] is None
    assert documents["hint"]["hints"] == [index.hints[0]]
    assert documents["solution"]["code"] == index.solution.code
    assert "wrote hints.json" in run("hint", "index", "--json", "./hints.json")[1]
    assert json.loads(Path("hints.json").read_text("utf-8"))["hints"] == [*index.hints[:2]]


def test_wrong_arguments_of_the_program(run):
    assert "did you mean 'index'" in run("check", "indx")[1]
    assert "needs the name of a puzzle" in run("check")[1]
    status, text = run("check", "index")
    assert (status, "write it with adokernels puzzles start index" in text) == (2, True)
    assert "puzzles check index other.cu" in run("start", "index", "other.cu")[1]


def test_a_puzzle_without_its_compiler_is_not_graded():
    code = """
import sys
sys.modules["triton"] = None
import adokernels as ado
from adokernels.puzzles import puzzles
puzzle = next(p for p in puzzles() if p.track == "triton")
try:
    puzzle.check(puzzle.solution.code)
except ado.Unavailable as error:
    print(error)
"""
    assert run_python(code).endswith("needs triton; remedy: pip install triton")
