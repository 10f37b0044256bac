"""Measures everything that the notebooks and the pages show, and runs the checks that need a GPU.

    python benchmarks/everything.py build/everything --pack everything.tar.xz  # for nine minutes
    python benchmarks/everything.py build/everything --only 02 shapes          # some of the stages
    python benchmarks/everything.py build/everything --list
    python benchmarks/everything.py build/everything --unpack everything.tar.xz --publish

A call runs the missing stages for which its time suffices. The next call continues, also on another
machine after ``--unpack``. The package must be installed and built for the GPU.

All records that one notebook or page of docs/results shows come from one board: after a change of
the GPU (for CPU records, of the host), records of incomplete notebooks and pages are dropped and
measured again. A change of the package drops all records. Disturbed or throttled measurements and
impossible ceilings are refused. ``--publish`` copies the records of complete notebooks and pages
into the repository, if the build had no uncommitted changes.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import math
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import adokernels as ado
from adokernels.measuring.context import cpu_name
from adokernels.measuring.scanning import default_shapes
from adokernels.model.tasks import TASKS
from adokernels.storage import replace_file
from adokernels.tables.measurements import refusal

ROOT = Path(__file__).resolve().parent.parent
RESERVE = 15  # seconds of a call that are kept for packing

# --- The stages -----------------------------------------------------------------------------------

FILTERS = ("grayscale", "gaussian_blur", "sobel", "edge_detect")
PATTERNS = ("strided_copy", "gather", "component", "branch", "instruction_parallelism")
#: The notebook and the page of each routine. A slash precedes a part of a page: "03/cpu".
PAGES = {"transpose": "01 transpose.md", **dict.fromkeys(FILTERS, "02 image_filters.md")}
PAGES |= {"average_matvec": "03 reductions.md", "max_plus": "04 reductions.md"}
PAGES |= {"gpp": "05 gpp.md", **dict.fromkeys(PATTERNS, "access_patterns.md")}
#: Ladders that notebook 06 shows, and ladders with records of other libraries.
IN_06 = ("transpose-int64-8192", "transpose-float32-8192", "gaussian_blur-2560x1600")
COMPARED = [*(f"{name}-16384" for name in FILTERS), "average_matvec-1024", "max_plus-float64"]
#: Scripts of benchmarks/course (notebooks.py with a group), the records to make (default: all), and
#: the notebooks that show them.
COURSE = (
    ("notebooks transpose", "", "01"),
    ("notebooks machine_code", "transpose-int64-8192", "01"),
    ("notebooks image_filters", "", "02"),
    ("average_matvec", "average_matvec-heatmap average_matvec-one average_matvec-plain_", "03"),
    ("average_matvec", "average_matvec-plain-ncu", "tests"),
    ("average_matvec", "average_matvec-cpu", "03/cpu"),
    ("max_plus", "", "04"),
    ("notebooks machine_code", "max_plus-float64 max_plus-float32", "04"),
    ("notebooks gpp", "", "05 gpp.md"),
    ("access_patterns", "", "02 06"),
)
#: Minutes of the stages that take more than one on a GPU machine with 16 cores, by first words.
MINUTES = {"ladder average_matvec": 4, "ladder gpp": 4, "ladder max_plus": 2, "shapes gpp": 4}
MINUTES |= {"shapes": 2, "cpu shapes": 2, "break even gpp": 2, "course average_matvec": 3}
MINUTES |= {"course access_patterns": 3, "course gpp": 2, "own kernels": 2, "emulator": 3}
MINUTES |= {"verdicts load": 7, "verdicts aa": 2, "tests alone": 1, "tests": 4, "counters": 3}
MINUTES["matrix product"] = 3


class Stage(NamedTuple):
    """A command, and the notebooks and pages that show its records; none: only its status counts.

    The command consists of arguments of Python. ``{}`` is the folder of records, which is laid out
    like the repository, and ``{work}`` a folder of this board for other files.
    """

    name: str
    pages: str
    command: str

    @property
    def device(self) -> str:
        """The device on which the records depend."""
        return "cpu" if self.name.startswith("cpu ") or self.pages.endswith("/cpu") else "cuda"

    @property
    def minutes(self) -> float:
        """The expected duration."""
        return next((m for first, m in MINUTES.items() if self.name.startswith(first)), 1)


def break_even_shapes(routine: str) -> list[str]:
    """The default shapes of a scan, and up to three larger ones, of at most 256 MiB of operands."""
    shapes = default_shapes(ado.routines[routine], None, {})
    for _ in range(3):  # the lengths that differ between two shapes are doubled
        larger = [2 * n if n != m else n for n, m in zip(*shapes[:2], strict=True)]
        types = ado.routines[routine].task.operand_types(larger, None)
        if sum(math.prod(each) * np.dtype(kind).itemsize for each, kind in types) <= 1 << 28:
            shapes.insert(0, tuple(larger))
    return ["x".join(map(str, shape)) for shape in shapes]


def stages() -> Iterator[Stage]:
    """All stages. They are measured in the order of their pages, those without a page last."""
    data, results = "{}/notebooks/data", "{}/benchmarks/results"
    for routine, pages in PAGES.items():
        bench = f"-m adokernels bench {routine}"
        for problem, given in TASKS[routine].benchmark_problems.items():
            ladder = f"{routine}-{problem}"
            command = f"{bench} --device cuda --counters default {given}"
            command += f" --json {data}/{ladder}.json.xz"
            yield Stage(f"ladder {ladder}", pages + " 06" * (ladder in IN_06), command)
            if ladder in COMPARED:
                command = f"benchmarks/peers.py --device cuda --problems {ladder} --seconds 8"
                shown = f"{pages[:2]}/libraries libraries.md/{ladder}"
                yield Stage(f"peers {ladder}", shown, f"{command} --json {data} {routine}")
        command = f"{bench} --device cpu --seconds 3 --json {data}/cpu/{routine}.json.xz"
        yield Stage(f"cpu {routine}", "cpu.md", command)
        command = (
            f"-m adokernels scan {routine} --copies --json {data}/break_even/{routine}.json.xz"
        )
        command += f" --seconds 20 --shapes {' '.join(break_even_shapes(routine))}"
        yield Stage(f"break even {routine}", "break_even.md", command)
        for seed in (20261129, 58) if routine not in PATTERNS else ():  # one process each
            command = f"benchmarks/shapes.py --device cuda --seed {seed} --count 110"
            shown = f"shapes.md/{routine}-{seed}"
            yield Stage(f"shapes {routine} {seed}", shown, f"{command} --json {results} {routine}")
        yield Stage(f"counters {routine}", "", f"benchmarks/counters.py {routine}")
        yield Stage(f"sanitizer {routine}", "", f"benchmarks/sanitize.py {routine}")
    for script, only, pages in COURSE:
        file, _, group = script.partition(" ")
        command = f"benchmarks/course/{file}.py {data}/course {group}"
        command += f" --only {only}" * bool(only)
        yield Stage(f"course {group or file} {only.partition(' ')[0]}".strip(), pages, command)
    yield Stage("own kernels", "07", f"benchmarks/course/own_kernels.py {data}/own_kernels")
    script = "benchmarks/course/matrix_product.py"
    yield Stage("matrix product", "08", f"{script} {data}/matrix_product")
    for isa in ("avx512", "avx2"):
        command = f"benchmarks/shapes.py --isa {isa} --seed 20261122 --json {results}"
        yield Stage(f"cpu shapes {isa}", "shapes.md", command)
    command = "benchmarks/emulated_counters.py {}/tests/data/emulator/counters.json"
    yield Stage("emulator", "emulator.md", command)
    for series in ("aa --count 1000", "aa --device cpu --count 150", "power", "load --count 50"):
        command = f"benchmarks/verdicts.py {{work}}/verdicts.jsonl {series}"
        command += f" --json {results}/verdicts.json"
        yield Stage(f"verdicts {series}", "reliability.md", command)
    tests = {str(path.relative_to(ROOT)) for path in ROOT.glob("tests/test_*.py")}
    alone = "tests/test_device_failures.py"  # takes the whole memory of the GPU
    yield Stage("tests alone", "", f"-m pytest -q -p no:cacheprovider {alone}")
    some = sorted(tests - {alone, "tests/test_generated.py"})
    for part in range(3):  # the next attempt repeats the tests that failed
        options = f"-q -n 6 --dist worksteal --last-failed -o cache_dir={{work}}/tests-{part}"
        yield Stage(f"tests {part}", "", f"-m pytest {options} {' '.join(some[part::3])}")


# --- The state of a folder: the stages that have ended --------------------------------------------

State = dict[str, dict[str, Any]]  # board, version, seconds and files of a stage


def load_state(known: list[Stage], folder: Path) -> State:
    """The stages that have ended in a folder and whose records exist."""
    path = folder / "stages.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    state = {stage.name: stored[stage.name] for stage in known if stage.name in stored}
    return {s: d for s, d in state.items() if all((folder / f).is_file() for f in d["files"])}


def save_state(folder: Path, state: State) -> None:
    replace_file(folder / "stages.json", f"{json.dumps(state, indent=1)}\n".encode())


def boards() -> dict[str, str]:
    """Identifiers of the host, with its last start, and of the GPU; empty without a GPU.

    Another process asks for the GPU, because a process that uses it disturbs measurements.
    """
    start = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    ask = "from adokernels import _core; print(_core.cuda_properties()['uuid'])"
    gpu = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=False)
    return {"cpu": f"{cpu_name()} {start}", "cuda": gpu.stdout.strip()}


def kept(known: list[Stage], state: State, now: dict[str, str], code: str) -> State:
    """The stages of this version to keep: of the boards `now`, or of complete pages.

    A page is complete if all of its stages on a device come from one board.
    """
    found = {name: done for name, done in state.items() if done["code"] == code}
    pages = defaultdict(list)
    for stage in known:
        for page in stage.pages.split():
            pages[page, stage.device].append(stage.name)
    stale = {""}
    while stale:  # a dropped stage can make another page incomplete
        stale = set()
        for (_, device), names in pages.items():
            present = {name: found[name]["board"] for name in names if name in found}
            if len(present) < len(names) or len(set(present.values())) > 1:
                stale |= {name for name, board in present.items() if board != now.get(device)}
        found = {name: done for name, done in found.items() if name not in stale}
    return found


# --- Measuring ------------------------------------------------------------------------------------


def require_undisturbed(path: Path) -> None:
    """ValueError: a sweep or the sweeps of a scan do not describe the machine."""
    if path.parent.name in ("results", "emulator"):  # not records of the package
        return
    record = ado.load(path)
    sweeps = [record] if isinstance(record, ado.records.Sweep) else []
    sweeps += [*record] if isinstance(record, ado.records.Scan) else []
    if reasons := [*filter(None, map(refusal, sweeps))]:
        raise ValueError(f"{path.name}: {reasons[0]}")


def log_of(folder: Path, stage: Stage) -> Path:
    """The file for the output of a stage. It exists if the stage has been tried."""
    return folder / "logs" / f"{stage.name}.log"


def measure(stage: Stage, folder: Path, work: Path, limit: float) -> list[str]:
    """Run a stage for at most `limit` seconds; return the files that it writes in the folder."""
    words = [word.format(folder, work=work) for word in stage.command.split()]
    started, log = time.time(), log_of(folder, stage)
    for path in map(Path, (work / "cache", log, *words)):
        if path.is_relative_to(folder):
            path.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w", encoding="utf-8") as output:
        status = subprocess.run(
            ["timeout", "--signal=KILL", f"{limit:.0f}", sys.executable, *words], cwd=ROOT,
            env=os.environ | {"ADOKERNELS_CACHE": str(work / "cache")}, check=False,
            stdout=output, stderr=subprocess.STDOUT,
        ).returncode  # fmt: skip
    if status:
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
        raise RuntimeError(f"status {status}: {' | '.join(last)}")
    paths = (path for path in folder.rglob("*") if path.is_file())
    new = (p.relative_to(folder) for p in paths if p.stat().st_mtime >= started)
    return sorted(str(name) for name in new if name.parts[0] not in ("work", "logs"))


def run(chosen: list[Stage], known: list[Stage], folder: Path, end: float) -> int:
    """Run missing stages that are expected to end in time; return the number of missing stages."""
    code, now, state = importlib.metadata.version("adokernels"), boards(), load_state(known, folder)
    remaining = kept(known, state, now, code)
    for name in state.keys() - remaining.keys():
        print(f"dropped {name}: another board or version")
        for file in state[name]["files"]:
            (folder / file).unlink(missing_ok=True)
    state = remaining
    for stage in sorted(chosen, key=lambda stage: log_of(folder, stage).exists()):  # failed last
        start, left = time.monotonic(), end - time.monotonic()
        if stage.name in state or left <= 60 * stage.minutes:
            continue
        print(f"{stage.name}: about {stage.minutes} of {left / 60:.1f} min", flush=True)
        done: dict[str, Any] = {"board": now[stage.device], "code": code}
        try:
            done["files"] = measure(stage, folder, folder / "work" / (now["cuda"] or "cpu"), left)
            done["seconds"] = round(time.monotonic() - start, 1)
            for name in (name for name in done["files"] if name.endswith((".json", ".json.xz"))):
                require_undisturbed(folder / name)
        except Exception as error:  # a bad record must not end the call
            print(f"{stage.name}: FAILED: {error!r}", flush=True)
            continue
        state[stage.name] = done
        save_state(folder, state)
    missing = [stage.minutes for stage in chosen if stage.name not in state]
    print(f"{len(missing)} of {len(chosen)} stages are missing, about {sum(missing):.0f} min")
    return len(missing)


# --- Transfer -------------------------------------------------------------------------------------


def pack(folder: Path, archive: Path) -> None:
    """Write the folder, without caches, to an archive."""
    with tarfile.open(archive, "w:xz") as tar:
        tar.add(folder, ".", filter=lambda i: None if i.name.endswith("/cache") else i)


def unpack(known: list[Stage], archive: Path, folder: Path) -> None:
    """Add the stages of an archive to the folder, and replace stages with the same names."""
    with tarfile.open(archive) as tar, tempfile.TemporaryDirectory() as new:
        # The tarfile module of Python 3.11.2 (Debian 12) has no extraction filters.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(new)
        state = load_state(known, folder) | load_state(known, Path(new))
        shutil.copytree(new, folder, dirs_exist_ok=True)
    save_state(folder, state)


def publish(known: list[Stage], folder: Path, root: Path) -> list[str]:
    """Copy the records of complete pages below `root`; return the stages that are left out."""
    shown = [stage for stage in known if stage.pages]
    state = load_state(shown, folder)
    codes = {done["code"] for done in state.values()}
    if len(codes) != 1 or ".dirty" in str(codes):
        raise SystemExit(f"records must be of one version without uncommitted changes, got {codes}")
    complete = kept(shown, state, {}, *codes)
    for name in (name for done in complete.values() for name in done["files"]):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, root / name)
    return [name for name in state if name not in complete]


def main() -> int:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("folder", type=Path, help="folder for records, logs and state")
    parser.add_argument("--minutes", type=float, default=9, help="maximum minutes of this call")
    parser.add_argument("--only", nargs="+", default=[""], help="prefixes of stages, or pages")
    parser.add_argument("--list", action="store_true", help="show the stages")
    parser.add_argument("--pack", type=Path, help="archive of the folder, .tar.xz")
    parser.add_argument("--unpack", type=Path, help="add the records of an archive to the folder")
    parser.add_argument("--publish", action="store_true", help="copy the records of complete pages")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes - RESERVE
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    known = sorted(stages(), key=lambda s: (not s.pages, s.pages.partition(" ")[0]))
    chosen = [
        stage for stage in known
        if any(stage.name.startswith(w) or f" {w}" in f" {stage.pages}" for w in options.only)
    ]  # fmt: skip
    if options.unpack:
        unpack(known, options.unpack, folder)
    if options.publish:
        incomplete = publish(known, folder, ROOT)
        print("".join(f"{name}: its pages are incomplete\n" for name in incomplete))
        return int(bool(incomplete))
    if options.list:
        state = load_state(known, folder)
        for stage in chosen:
            seconds = state[stage.name]["seconds"] if stage.name in state else "missing"
            print(f"{stage.minutes} min  {stage.name}: {seconds}; {stage.pages}")
    if options.unpack or options.list:
        return 0
    try:
        return int(run(chosen, known, folder, end) > 0)
    finally:
        if options.pack:
            pack(folder, options.pack)


if __name__ == "__main__":
    sys.exit(main())
