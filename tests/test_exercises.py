"""The exercises of the course: starters compile, solutions are correct."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

import adobook as course
import adokernels as ado
from adobook import exercises
from adobook.exercises import pole_sum
from adokernels.model.compiler import compile_cuda, why_no_compiler
from adokernels.model.cuda_variant import CudaVariant
from adokernels.records.checked import CheckResult

FOLDER = Path(__file__).parent.parent / "notebooks" / "exercises"
DATA = FOLDER.parent / "data" / "course"
ELEMENTS = {"hoisting": "double", "prefetch": "double"}

needs_compiler = pytest.mark.skipif(bool(why_no_compiler()), reason="needs NVRTC")
each_exercise = pytest.mark.parametrize("name", course.EXERCISES)


def exercise(name):
    return course.exercise(name, folder=FOLDER)


def variant_of(name, source):
    return ado.cuda_variant("mine", source=source, **exercise(name).launch)


@needs_compiler
@each_exercise
@pytest.mark.parametrize("version", ["starter", "solution"])
def test_sources_compile_for_older_gpus(name, version):
    kernel = exercise(name).launch["kernel"].replace("{T}", ELEMENTS.get(name, "float"))
    assert not compile_cuda(getattr(exercise(name), version), kernel, arch="sm_75").log


@each_exercise
def test_starters_have_todos_and_state_whether_they_are_wrong_or_slow(name):
    starter, solution = exercise(name).starter, exercise(name).solution
    assert "TODO" in starter
    assert "TODO" not in solution
    words = {"wrong": "result is wrong", "slow": "result is correct, but the kernel is slow"}
    assert words[exercise(name).starter_is] in re.sub(r"\s+(//)?\s*", " ", starter)
    assert starter in exercise(name)._repr_markdown_()


def test_all_sources_belong_to_an_exercise():
    for folder in (FOLDER, FOLDER / "solutions"):
        assert sorted(path.stem for path in folder.glob("*.cu")) == sorted(course.EXERCISES)


@each_exercise
def test_goals_are_variants_of_the_ladder(name):
    goal = exercise(name).ladder[exercise(name).faster_than]
    assert goal.device == "cuda"


def test_unknown_exercises_are_errors():
    with pytest.raises(KeyError, match=r"no exercise 'prefetching': did you mean 'prefetch'\?"):
        course.exercise("prefetching")


def test_the_reference_of_hoisting_is_its_formula(rng):
    pole, strength, volume = rng.random((3, 5)) + 0.5
    x, weight = rng.random((2, 7)) + 2
    terms = weight * (strength / volume * pole**2)[:, None] / (x**2 - pole[:, None] ** 2)
    assert np.allclose(pole_sum(pole, strength, volume, x, weight), terms.sum(axis=1), rtol=1e-14)


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr(CudaVariant, "why_unavailable", "there is none")


def graded(name, source):
    report = str(course.check_exercise(variant_of(name, source), exercise(name)))
    head = f"**{exercise(name).ladder.name}[mine]** "
    assert report.startswith(head)
    return report.removeprefix(head)


def test_exercises_are_not_checked_without_gpu_and_compiler(without_gpu, monkeypatch):
    monkeypatch.setattr("adobook.exercises.why_no_compiler", lambda: "there is no compiler")
    found = graded("prefetch", exercise("prefetch").starter)
    words = (
        "was not checked. It needs a GPU: there is none; for the emulator, there is no compiler."
    )
    assert found == words


@pytest.fixture
def checked(monkeypatch):
    """Grade the solution of the tiled transpose with this result of ado.check, or this error."""
    monkeypatch.setattr(CudaVariant, "why_unavailable", "")

    def grade(result):
        def check(*args, **kwargs):
            if isinstance(result, Exception):
                raise result
            return result

        monkeypatch.setattr(exercises, "check", check)
        return graded("tiled_transpose", exercise("tiled_transpose").solution)

    return grade


@pytest.mark.parametrize(
    ("mine", "words"),
    [("naive", "is correct, but not faster than naive. "), ("padded", "is **correct**. ")],
)
def test_reports_show_whether_the_goal_is_reached(mine, words, checked):
    ladder = ado.load(DATA.parent / "transpose-int64-8192.json.xz")
    goal, mine = ladder["naive"], dataclasses.replace(ladder[mine], variant="mine")
    sweep = dataclasses.replace(ladder, measurements=(goal, mine))
    result = CheckResult("transpose", "mine", True, sweep=sweep)
    assert checked(result) == f"{words}{mine.compare(goal)}"


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (CheckResult("transpose", "mine", True), "is **correct**."),
        (CheckResult("transpose", "mine", False, reason="a\nb"), "is not correct: a b"),
        (
            ado.CompilationError("kernel.cu(1): a ;\n1 error"),
            "does not compile: kernel.cu(1): a ; 1 error",
        ),
        (RuntimeError("out of luck"), "failed with RuntimeError: out of luck"),
    ],
)
def test_reports_have_one_line_and_no_exceptions(result, words, checked):
    assert checked(result) == words


@pytest.mark.usefixtures("sources_on_emulator")
@each_exercise
def test_without_a_gpu_the_emulator_grades_exercises(name, without_gpu):
    best = (
        "is **correct** on the emulator; no count is worse than the solution's. Times need a GPU."
    )
    assert graded(name, exercise(name).solution) == best
    starter = graded(name, exercise(name).starter)
    if exercise(name).starter_is == "wrong":
        assert starter.startswith("is not correct: ")
    else:
        assert starter.startswith("is **correct** on the emulator; ")
        assert "the solution has" in starter


@pytest.mark.usefixtures("sources_on_emulator")
def test_the_emulator_names_the_count_that_is_worse(without_gpu):
    naive = """template <class T>
    __global__ void transpose(const T* in, T* out, int rows, int cols) {
      for (int y = 32 * blockIdx.y + threadIdx.y; y < min(rows, 32 * int(blockIdx.y + 1)); y += 8) {
        int x = 32 * blockIdx.x + threadIdx.x;
        if (x < cols) out[x * rows + y] = in[y * cols + x];
      }
    }"""
    found = graded("tiled_transpose", naive)
    words = "is **correct** on the emulator; 32 sectors per store request, the solution has 4."
    assert found == f"{words} Times need a GPU."
    outside = naive.replace("if (x < cols)", "if (x <= cols)")
    assert "out of bounds" in graded("tiled_transpose", outside)
    assert graded("tiled_transpose", naive[:-1]).startswith("does not compile: ")


@pytest.mark.usefixtures("sources_on_emulator")
def test_lines_of_exercises_are_counted(without_gpu):
    given = exercise("coalesced_blur")
    found = course.line_counts(variant_of(given.name, given.starter), given)
    assert found.total("stores").per_request == 32
    broken = course.line_counts(variant_of(given.name, "__global__ void blur("), given)
    assert str(broken).startswith("**mine** was not counted: kernel.cu does not compile")


@each_exercise
def test_measured_starters_are_wrong_or_slow_as_stated(name):
    sweep = ado.load(DATA / f"exercise-{name}.json.xz")
    solution, goal = sweep["solution"], sweep[exercise(name).faster_than]
    assert solution.compare(goal).verdict is ado.records.Verdict.FASTER
    if exercise(name).starter_is == "wrong":
        assert sweep.skipped["starter"].startswith("wrong result")
    else:
        assert solution.compare(sweep["starter"]).verdict is ado.records.Verdict.FASTER
        assert sweep["starter"].compare(goal).verdict is not ado.records.Verdict.FASTER


@pytest.mark.gpu
@needs_compiler
@each_exercise
def test_solutions_are_correct(name):
    mine = variant_of(name, exercise(name).solution)
    found = ado.check(mine, exercise(name).ladder, *exercise(name).operands(), timed=False)
    assert found, found.reason


@pytest.mark.gpu
@needs_compiler
@each_exercise
def test_starters_are_wrong_or_slow_as_stated(name):
    mine = variant_of(name, exercise(name).starter)
    found = ado.check(mine, exercise(name).ladder, *exercise(name).operands(), timed=False)
    assert found.correct is (exercise(name).starter_is == "slow"), found.reason
    text = str(course.check_exercise(mine, exercise(name), seconds=0.05, ceilings=False))
    assert ("is correct" in text or "is **correct**" in text) is found.correct


@pytest.mark.gpu
@needs_compiler
def test_sources_that_do_not_compile_are_reported():
    mine = variant_of("hoisting", exercise("hoisting").starter.replace("double sum", "double"))
    found = str(course.check_exercise(mine, exercise("hoisting")))
    assert "**pole_sum[mine]** " in found
    assert "sum" in found
    assert "\n" not in found
