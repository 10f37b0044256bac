"""Puzzles: kernels with a hole of a few lines, graded on the emulator in seconds.

A puzzle is a file in one of the folders ``cuda`` and ``triton``. It begins with a comment: the
title, the text, and the fields ``hint``, ``signature``, ``reference``, ``problems``, ``launch`` and
``done``. The code follows, with a starter and a solution between markers.

>>> import adokernels as ado
>>> puzzle = ado.puzzles.find("index")
>>> puzzle.check("out[0] = 2 * a[0];")  # doctest: +SKIP
index: not done: wrong result: ...
"""

from __future__ import annotations

import json
import linecache
import operator
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.measuring.emulating import all_checks
from adokernels.measuring.heatmap import heatmap
from adokernels.model.checker import Checker
from adokernels.model.compiler import CompilationError, kernels_in
from adokernels.model.cuda_variant import CudaVariant, cuda_variant
from adokernels.model.own_ladder import OwnLadder, ladder
from adokernels.model.own_variant import variant
from adokernels.records.heatmap import Heatmap
from adokernels.records.what_if import WhatIf
from adokernels.storage import replace_file
from adokernels.text import failure
from adokernels.whatif.what_if import what_if

_FOLDERS = {"cuda": "//", "triton": "#"}
_FIELD = re.compile(r"(hint|signature|reference|problems|launch|tolerance|done): (.*)")
_BEGIN, _SOLUTION, _END = "--- your code", "--- solution", "--- end"
#: A part of a pass mark, for example ``conflicts <= 0``.
_GOAL = re.compile(r"(\w+) (<=|>=) ([\d.]+)")
_RELATIONS = {"<=": (operator.le, "at most"), ">=": (operator.ge, "at least")}
#: The pass mark of puzzles that ask for an experiment and a line.
_CAUSE = "cause"
#: The second and third wrong element in a message.
_REPEATED = re.compile(r"; the next at \[[^;]*?(?=; the next| \(\w+: \(|$)")
#: Seconds after which a kernel is stopped.
_LIMIT = 30
#: The architecture of the machine code that is read.
_ARCH = "sm_90"
#: The progress of a student, in the folder of the student's files.
PROGRESS = Path("puzzles.json")

_Counts = Counter[str]


def _per_request(kind: str, counts: _Counts) -> float:
    return counts[f"{kind}.sectors"] / max(counts[f"{kind}.requests"], 1)


def _shared(counts: _Counts, field: str) -> int:
    return sum(counts[f"shared_{kind}.{field}"] for kind in ("loads", "stores", "atomics"))


#: Quantities that a pass mark can limit: the unit, and the value for counts of the emulator.
_QUANTITIES: Mapping[str, tuple[str, Callable[[_Counts], float]]] = {
    "load_sectors": ("sectors per load request", lambda c: _per_request("global_loads", c)),
    "store_sectors": ("sectors per store request", lambda c: _per_request("global_stores", c)),
    "loads": ("load requests", lambda c: c["global_loads.requests"]),
    "stores": ("store requests", lambda c: c["global_stores.requests"]),
    "updates": ("atomic updates", lambda c: c["global_atomics.lanes"]),
    "conflicts": ("bank conflicts", lambda c: _shared(c, "wavefronts") - _shared(c, "ideal")),
    "shared": ("requests of shared memory", lambda c: _shared(c, "requests")),
    "local_sectors": (
        "sectors of local memory",
        lambda c: c["local_loads.sectors"] + c["local_stores.sectors"],
    ),
    "copies": ("asynchronous copies", lambda c: c["async_copies"]),
    "barriers": ("barriers of warps", lambda c: c["barriers"]),
    "lanes": ("active lanes per instruction", lambda c: c["lanes"] / max(c["instructions"], 1)),
    "instructions": ("instructions of warps", lambda c: c["instructions"]),
    "divisions": ("divisions", lambda c: c["operations.divide32"] + c["operations.divide64"]),
    "fp64": ("FP64 instructions", lambda c: c["operations.instruction64"]),
    "loads_in_flight": ("loads per wait", lambda c: c["loads_in_flight"]),
    "copies_in_flight": ("later copies during a wait", lambda c: c["copies_in_flight"]),
}


@dataclass(frozen=True)
class Grade:
    """The result of a check: true if the puzzle is done.

    Attributes
    ----------
    puzzle
        The name of the puzzle.
    done
        Whether the pass mark is reached.
    message
        The counts of the pass mark, or the reason why it is not reached.
    seconds
        The duration of the check.
    """

    puzzle: str
    done: bool
    message: str
    seconds: float

    def __bool__(self) -> bool:
        return self.done

    def __repr__(self) -> str:
        return f"{self.puzzle}: {'done' if self.done else 'not done'}: {self.message}"


@dataclass(frozen=True)
class Solution:
    """A solution. A notebook shows it folded. The attribute `code` contains its text."""

    code: str

    def _repr_markdown_(self) -> str:
        return f"<details><summary>Solution</summary>\n\n```cpp\n{self.code}\n```\n\n</details>"


@dataclass(frozen=True, repr=False, eq=False)
class Puzzle:
    """A kernel with a hole.

    Attributes
    ----------
    name
        The name of the puzzle.
    track
        ``"cuda"`` for CUDA C++, ``"triton"`` for Triton.
    title, text
        The task, in a few words and in full.
    hints
        Three hints, each more concrete than the previous one.
    """

    name: str
    track: str
    title: str
    text: str
    hints: tuple[str, ...]
    _fields: Mapping[str, str]
    _parts: tuple[str, str, str, str]

    @property
    def file(self) -> str:
        """The name of a student's file."""
        return f"{self.name}{'.cu' if self.track == 'cuda' else '.py'}"

    @property
    def pass_mark(self) -> str:
        """The counts that a solution must reach, in words."""
        if self._fields["done"] == _CAUSE:
            return "the experiment that changes most, and its line"
        return ", ".join(
            f"{_RELATIONS[relation][1]} {limit} {_QUANTITIES[name][0]}"
            for name, relation, limit in _GOAL.findall(self._fields["done"])
        )

    @property
    def starter(self) -> str:
        """The file to complete: the text, and the code with the hole."""
        return self.with_code(self._parts[1])

    @property
    def solution(self) -> Solution:
        """A solution of the hole."""
        return Solution(self._parts[2])

    def with_code(self, code: str) -> str:
        """The file with other code in the hole.

        If `code` is a whole file, only the code between its markers is used.
        """
        mark = _FOLDERS[self.track]
        if found := re.search(rf"{mark} {_BEGIN}\n(.*?)\n? *{mark} {_END}", code, re.DOTALL):
            code = found[1]
        elif _BEGIN in code or _END in code:
            raise ValueError(f"the file must have the lines {mark} {_BEGIN} and {mark} {_END}")
        lines = [self.title, "", *self.text.splitlines(), "", f"Done: {self.pass_mark}."]
        head = "\n".join(f"{mark} {line}".rstrip() for line in lines)
        before, _, _, after = self._parts
        indent = re.findall(r" *$", before)[0]
        code = code.strip("\n")
        return f"{head}\n{before}{mark} {_BEGIN}\n{code}\n{indent}{mark} {_END}\n{after}"

    @cached_property
    def problems(self) -> list[tuple[Any, ...]]:
        """Operands of each problem on which the result is checked; the first one is counted."""
        found: list[tuple[Any, ...]] = self._value("problems", rng=np.random.default_rng(0))
        return found

    @property
    def operands(self) -> tuple[Any, ...]:
        """The operands of the problem that is counted."""
        return self.problems[0]

    def variant(self, code: str) -> Any:
        """The kernel with this code in the hole as a variant, for example for ``ado.heatmap``."""
        text, own = self.with_code(code), self._ladder
        if self.track == "cuda":
            (kernel,) = kernels_in(text)
            about = {"kernel": kernel, "source": text, "file": self.file, **self._value("launch")}
            return own.with_variants(cuda_variant("yours", **about))["yours"]
        names: dict[str, Any] = {"__name__": self.name}
        # Triton reads the source of a function from this cache.
        linecache.cache[self.file] = len(text), None, text.splitlines(True), self.file
        exec(compile(text, self.file, "exec"), names)
        return own.with_variants(variant(names["run"], name="yours"))["yours"]

    def heatmap(self, code: str) -> Heatmap:
        """The counts per line of the kernel with this code in the hole."""
        return heatmap(self.variant(code), *self.operands, device="emulator")

    @cached_property
    def experiments(self) -> WhatIf | None:
        """The what-if table if the puzzle asks for a cause; otherwise None."""
        if self._fields["done"] != _CAUSE:
            return None
        return what_if(self.variant(self.starter), *self.operands, device="emulator")

    def check(self, code: str) -> Grade:
        """Grade the kernel with this code in the hole: its results, its accesses and its counts.

        Parameters
        ----------
        code
            The code of the hole, or a whole file with the markers.

        Raises
        ------
        Unavailable
            If this machine lacks NVRTC or Triton.
        """
        start = time.perf_counter()
        try:
            with _limited(), all_checks():
                done, message = self._graded(code)
        except _core.Unavailable:
            raise
        except CompilationError as error:
            done, message = False, f"it does not compile: {error}"
        except ModuleNotFoundError as error:
            if error.name == self.track:
                text = f"{self.name} needs {error.name}; remedy: pip install {error.name}"
                raise _core.Unavailable(text) from None
            done, message = False, failure(error)
        except (_core.KernelError, ValueError) as error:
            done, message = False, str(error)
        except Exception as error:  # the code may fail in any way
            done, message = False, failure(error)
        message = _REPEATED.sub("", message.removeprefix("it fails with KernelError: "))
        return Grade(self.name, done, message, time.perf_counter() - start)

    def _graded(self, code: str) -> tuple[bool, str]:
        if self.experiments:
            return _named(self.experiments, self.with_code(code))
        own = self.variant(code)
        counts, *_ = [self._counts(own, operands) for operands in self.problems]
        found, missed = [], []
        for name, relation, limit in _GOAL.findall(self._fields["done"]):
            unit, value_of = _QUANTITIES[name]
            if name in _COMPILED:
                counts[name] = _COMPILED[name](own, self.operands)
            value = value_of(counts)
            holds, words = _RELATIONS[relation]
            found.append(f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}")
            if not holds(value, float(limit)):
                missed.append(f"{found[-1]} (pass mark: {words} {limit})")
        return not missed, "; ".join(missed) or ", ".join(found)

    def _counts(self, own: Any, operands: tuple[Any, ...]) -> _Counts:
        """Run the kernel, check its result, and return the counts of its launches."""
        problem = own.ladder.problem(*operands, device="emulator", variant=own.name)
        call, total, checker = problem.prepare(own.name), _Counts(), Checker(problem)
        checker.sized.add((own.name, call.block))
        launches = _core.emulated_counts(lambda: checker.before(call))
        for _, counts in launches:
            for kind, value in counts.items():
                if isinstance(value, dict):
                    total.update({f"{kind}.{field}": n for field, n in value.items()})
                elif isinstance(value, int):
                    total[kind] += value
        return total

    @cached_property
    def _ladder(self) -> OwnLadder:
        return ladder(
            self.name,
            reference=self._value("reference"),
            signature=self._fields.get("signature"),
            tolerance=self._value("tolerance"),
        )

    def _value(self, field: str, **names: Any) -> Any:
        """The value of a field, which is an expression of Python."""
        return eval(self._fields.get(field, "None"), {"np": np, **names})

    def _repr_markdown_(self) -> str:
        language = "cpp" if self.track == "cuda" else "python"
        return f"```{language}\n{self.starter}```"

    def __repr__(self) -> str:
        return f"<puzzle {self.name}: {self.title}>"


def _loads_in_flight(own: CudaVariant, operands: tuple[Any, ...]) -> int:
    """The loads of the main loop of the machine code, per wait for one of them."""
    loop = own.sass(*operands, arch=_ARCH)[0].main_loop
    return sum(loop.loads.values()) // max(loop.load_waits, 1) if loop else 0


def _copies_in_flight(own: CudaVariant, operands: tuple[Any, ...]) -> int:
    """The largest number of groups of asynchronous copies that a wait leaves in flight."""
    code = own.compiled(operands[0].dtype.name, _ARCH.replace("sm", "compute")).code.decode()
    return max(map(int, re.findall(r"cp\.async\.wait_group\s+(\d+)", code)), default=0)


#: Quantities of the compiled code.
_COMPILED = {"loads_in_flight": _loads_in_flight, "copies_in_flight": _copies_in_flight}


def _named(experiments: WhatIf, code: str) -> tuple[bool, str]:
    """Compare an answer with the experiment that has the largest effect, and with its line."""
    said = dict(re.findall(r"// (experiment|line): *(.*?) *$", code, re.MULTILINE))
    name = said.get("experiment", "")
    trials = {trial.experiment: trial for trial in experiments}
    mine = next((t for t in experiments if t.experiment.partition(" (")[0] == name), None)
    mine = trials.get(name, mine)
    if mine is None:
        return False, f"experiment must be one of {', '.join(trials)}, got {name!r}"
    if mine.reason:
        return False, f"{name}: {mine.reason}"
    if not mine.after:
        return False, f"{name}: {mine.meaning}"
    best = max((t for t in experiments if t.after), key=lambda t: t.before / t.after)
    if mine.before / mine.after < best.before / best.after:
        return False, f"{name}: another experiment changes more"
    line = mine.place.rpartition(":")[2]
    if said.get("line") != line:
        return False, f"{name}: line {said.get('line')} is not the line that it changes most"
    return True, f"{name} in line {line}: {mine.before:.3g} to {mine.after:.3g} {mine.count}"


@contextmanager
def _limited() -> Iterator[None]:
    """Raise TimeoutError after _LIMIT seconds in the main thread; other threads get no signals."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TimeoutError(f"the kernel did not end within {_LIMIT} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_LIMIT)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@cache
def puzzles() -> tuple[Puzzle, ...]:
    """All puzzles in order: CUDA C++, then Triton."""
    here = Path(__file__).parent
    paths = (path for track in _FOLDERS for path in sorted((here / track).glob("[0-9]*")))
    return tuple(map(_read, paths))


def find(name: str) -> Puzzle:
    """The puzzle with this name.

    Raises
    ------
    KeyError
        If no puzzle has this name.
    """
    found = {puzzle.name: puzzle for puzzle in puzzles()}
    if name not in found:
        raise KeyError(f"there is no puzzle {name!r}{_core.suggest(name, list(found))}")
    return found[name]


def _read(path: Path) -> Puzzle:
    """Read the file of a puzzle."""
    track, text = path.parent.name, path.read_text(encoding="utf-8")
    mark = _FOLDERS[track]
    head = re.match(rf"(?:{mark}.*\n)+", text)
    assert head
    current: list[str] = []
    words, hints, fields = current, [], dict[str, list[str]]()
    for line in re.findall(rf"^{mark} ?(.*)", head[0], re.MULTILINE):
        if found := _FIELD.match(line):
            current = [found[2]]
            if found[1] == "hint":
                hints.append(current)
            else:
                fields[found[1]] = current
        else:
            current.append(line.strip())
    before, rest = text[head.end() :].split(f"{mark} {_BEGIN}\n")
    starter, rest = re.split(rf" *{mark} {_SOLUTION}\n", rest)
    solution, after = re.split(rf" *{mark} {_END}\n", rest)
    return Puzzle(
        path.stem.partition("_")[2],
        track,
        words[0],
        "\n".join(words[1:]).strip(),
        tuple(" ".join(hint) for hint in hints),
        {name: " ".join(lines) for name, lines in fields.items()},
        (before, starter, solution.rstrip("\n"), after),
    )


def progress(folder: Path = Path()) -> dict[str, dict[str, Any]]:
    """The stored progress in a folder: by puzzle, whether it is done, attempts, hints, code."""
    path = folder / PROGRESS
    found: dict[str, dict[str, Any]] = {}
    if path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))
    new = {"done": False, "attempts": 0, "hints": 0, "message": "", "code": ""}
    return {
        puzzle.name: {
            "track": puzzle.track, "title": puzzle.title, **new, **found.get(puzzle.name, {})
        }
        for puzzle in puzzles()
    }  # fmt: skip


def store(name: str, folder: Path = Path(), **changes: Any) -> None:
    """Change the stored progress of a puzzle. A puzzle that is done stays done."""
    found = progress(folder)
    found[name] |= {**changes, "done": found[name]["done"] or changes.get("done", False)}
    replace_file(folder / PROGRESS, json.dumps(found, indent=1).encode())
