"""Measures everything that the notebooks and the pages show, and runs the checks that need a GPU.

    python benchmarks/everything.py build/everything --pack everything.tar.xz  # for nine minutes
    python benchmarks/everything.py build/everything --only 02 shapes          # some of the stages
    python benchmarks/everything.py build/everything --list
    python benchmarks/everything.py build/everything --unpack everything.tar.xz* --publish

On a machine with several GPUs, ``CUDA_VISIBLE_DEVICES`` selects a GPU by its identifier (UUID).
Each GPU can measure different pages into its own folder. ``--unpack`` adds the stages of an archive
to a folder.

A call runs the missing stages in order, but no stage that is expected to exceed its time. With
``--pack``, it then packs the folder. The next call continues, also on another machine after
``--unpack``. The package must be installed and built for the GPU. Libraries that are not installed
are left out of comparisons.

All records that one notebook or page of docs/results shows come from one board: after a change of
the GPU (for CPU records, of the host), records of incomplete notebooks and pages are dropped and
measured again. A change of the package drops all records. Some notebooks and pages have parts that
are not compared with each other, and each part comes from one board: the ladders of notebook 00,
comparisons with other libraries, an imported report in notebook 05, and the random shapes of each
routine and seed. README, the index, and the pages of documents, diagnoses and cards have rows of
many ladders; each row comes from one board.

``--publish`` copies the records of complete notebooks and pages to the places where the pages are
generated. It refuses records of small problems, of a build with uncommitted changes or of a
version that most records do not have, disturbed or throttled measurements, and impossible ceilings.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import importlib.metadata
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import adokernels as ado
from adokernels.measuring.context import cpu_name
from adokernels.model.tasks import TASKS
from adokernels.records.loading import KINDS
from adokernels.storage import replace_file
from adokernels.tables.machines import refusal

ROOT = Path(__file__).resolve().parent.parent
#: Maximum size of an archive's part in bytes, and seconds per call that are kept for packing.
PART, RESERVE = 16 << 20, 15


class Stage(NamedTuple):
    """A command, and the records that it writes."""

    #: Stages whose names begin with "cpu " do not use the GPU.
    name: str
    #: Arguments of Python. ``{}`` is the folder, which has the layout of the repository; ``{work}``
    #: is a folder of this board for other files. Environment variables may come first. A command
    #: after ``||`` runs if the command before it fails.
    command: str
    #: Expected minutes on a GPU machine with 16 cores.
    minutes: float
    #: Patterns of the records. Each pattern must match a file.
    files: str = ""
    #: The notebooks and pages that show the records. A slash precedes a part of a page: "00/gpp".
    shown: str = ""
    #: The command on a small problem, without a GPU; empty if the stage needs a GPU.
    small: str = ""

    @property
    def device(self) -> str:
        """The device on which the records depend."""
        return "cpu" if self.name.startswith("cpu ") else "cuda"

    @property
    def pages(self) -> list[str]:
        """The notebooks and pages that show the records."""
        return [part.partition("/")[0] for part in self.shown.split()]

    @property
    def patterns(self) -> list[str]:
        """The patterns of the records, relative to the folder."""
        return [os.path.normpath(pattern.removeprefix("{}/")) for pattern in self.files.split()]


# --- The stages -----------------------------------------------------------------------------------

FILTERS = ("grayscale", "gaussian_blur", "sobel", "edge_detect")
PATTERNS = ("strided_copy", "gather", "component", "branch", "instruction_parallelism")
#: The notebook and the page of each routine.
SHOWN = {
    "transpose": "01 transpose.md",
    **dict.fromkeys(FILTERS, "02 image_filters.md"),
    "gpp": "05 gpp.md",
    "max_plus": "04 reductions.md",
    "average_matvec": "03 reductions.md",
    **dict.fromkeys(PATTERNS, "access_patterns.md"),
}
#: Other notebooks that show a ladder.
ALSO = {
    "transpose-int64-8192": "00/transpose 06",
    "transpose-float32-8192": "06",
    "gaussian_blur-2560x1600": "00/gaussian_blur 06",
    "gpp-si214": "00/gpp",
}
#: The notebooks that show a CPU ladder.
CPU_ALSO = {"transpose": "01", "grayscale": "02", "gaussian_blur": "02", "sobel": "02"}
CPU_ALSO |= {"max_plus": "04"}
#: Minutes of ladders, and of 110 random shapes, that take longer than the others.
LADDERS = {"average_matvec-1024": 3.9, "average_matvec-float64-512": 2, "gpp-si214": 4}
LADDERS |= {"gpp-counted": 0.9, "max_plus-float64": 1.6, "max_plus-float32": 1.5}
LADDERS |= {"transpose-int64-8192": 0.9, "gaussian_blur-16384": 0.6, "edge_detect-16384": 0.5}
SHAPES = {"transpose": 2, "gpp": 3.6, "average_matvec": 2, "max_plus": 1.9}
SEEDS, CPU_SEED = (31337, 20261126), 20261122
#: The ladders with records of other libraries.
COMPARED = [*(f"{name}-16384" for name in FILTERS), "average_matvec-1024", "max_plus-float64"]
#: Shapes for the comparison with ncu. Their kernels run long enough to compare rates.
COUNTED = {"average_matvec": "256x512x1024", "max_plus": "64x1048576", "gpp": "200x128x2048x2"}
COUNTED |= dict.fromkeys(("transpose", *FILTERS), "8192x8192")
#: The first notebooks and pages to measure. The others follow in the order of their stages.
ORDER = ("01", "02", "06", "05", "04", "03", "07", "access_patterns.md", "cpu.md", "break_even.md")
BLIND = "benchmarks/limiter_blind.py {work}/limiters"
DATA, COURSE, RESULTS = "{}/notebooks/data", "{}/notebooks/data/course", "{}/benchmarks/results"


def stages() -> list[Stage]:
    """All stages in the order of the measurements."""
    found = [Stage(*row) for row in (*_ladders(), *_course(), *_others())]
    places = {page: place for place, page in enumerate(ORDER)}
    return sorted(found, key=lambda s: places.get([*s.pages, ""][0], len(places)))


# fmt: off
def _ladders() -> Iterator[tuple[Any, ...]]:
    """Ladders on a GPU and a CPU, comparisons with functions of other libraries, scans."""
    for routine, shown in SHOWN.items():
        bench = f"-m adokernels.cli bench {routine}"
        small = "--shape " + "x".join(map(str, TASKS[routine].sanitizer.shapes[0]))
        for problem, arguments in TASKS[routine].benchmark_problems.items():
            name = f"{routine}-{problem}"
            file = f"{DATA}/{name}.json"
            options = f"--counters default {arguments} --json {file}"
            yield (f"ladder {name}", f"{bench} --device cuda {options}", LADDERS.get(name, 0.3),
                   file, f"{shown} {ALSO.get(name, '')}",
                   f"{bench} --device emulator {small} --json {file}")
            yield f"limiters {name}", f"{BLIND} {name}", 0.25, "", "limiters.md"
            if name in COMPARED:
                command = f"benchmarks/peers.py --device cuda --problems {name} --seconds 8"
                yield (f"peers {name}", f"{command} --json {DATA} {routine}", 0.6,
                       f"{DATA}/{name}-peers.json",
                       f"{shown.split()[0]}/libraries libraries.md/{name}")
        file = f"{DATA}/break_even/{routine}.json"
        yield (f"break even {routine}", f"benchmarks/break_even.py {DATA}/break_even {routine}",
               1.2 if routine == "gpp" else 0.4, file, "break_even.md")
        file = f"{DATA}/cpu/{routine}.json"
        bench += f" --device cpu --json {file}"
        yield (f"cpu {routine}", f"{bench} --seconds 3", 0.9, file,
               f"cpu.md {CPU_ALSO.get(routine, '')}", f"{bench} {small} --seconds 0.2 --no-limiter")


def _course() -> Iterator[tuple[Any, ...]]:
    """The scripts of the course, whose records only the notebooks show."""
    patterns = ("strided_copy-strides strided_copy-offsets gather-patterns strided_copy-3 branch"
                " strided_copy-32 gather-random gather-neighbours component-structures"
                " component-arrays")
    for script, only, minutes, records, shown in (
        ("transpose", "", 0.9, "transpose-naive-blocks transpose-hotspots-* transpose-heatmap-*",
         "01"),
        ("image_filters", "", 0.8, "image_filters-* gaussian_blur-heatmap-*", "02"),
        ("access_patterns", "instruction_parallelism", 0.3, "instruction_parallelism", "02 06"),
        ("access_patterns", patterns, 2.0, "strided_copy-* gather-* component-* branch", "06"),
        ("gpp", "", 1.4, "gpp-samples-* gpp-traffic-* gpp-staging gpp-operands ../gpp-si214-far",
         "05 gpp.md"),
        ("max_plus", "per_multiprocessor", 0.4, "max_plus-per_multiprocessor",
         "04 05/imported"),
        ("max_plus", "in_flight launch_bounds", 0.6, "max_plus-in_flight max_plus-launch_bounds",
         "04"),
        ("average_matvec", "", 2.9, "average_matvec-*", "03 05/imported"),
        ("machine_code", "transpose-int64-8192", 0.1, "transpose-int64-8192-*-sass", "01"),
        ("machine_code", "max_plus-float64 max_plus-float32", 0.2, "max_plus-*-sass", "04"),
        ("exercises", "tiled_transpose", 0.2, "exercise-tiled_transpose", "01"),
        ("exercises", "coalesced_blur", 0.2, "exercise-coalesced_blur", "02"),
        ("exercises", "warp_reduction", 0.2, "exercise-warp_reduction", "03"),
        ("exercises", "prefetch", 0.2, "exercise-prefetch", "04"),
        ("exercises", "hoisting", 0.2, "exercise-hoisting", "05"),
    ):
        command = f"benchmarks/course/{script}.py {COURSE} {'--only' if only else ''} {only}"
        files = " ".join(f"{COURSE}/{name}.json" for name in records.split())
        name = f"course {script} {only.partition(' ')[0]}".strip()
        if script == "average_matvec":
            files += f" {COURSE}/average_matvec-plain-ncu.csv"
        yield name, command, minutes, files, shown
    own = f"{DATA}/own_kernels"
    yield "own kernels", f"benchmarks/course/own_kernels.py {own}", 2, f"{own}/*.json", "07"


def _others() -> Iterator[tuple[Any, ...]]:
    """Records of other pages, and checks, whose result is their exit status."""
    shapes = f"benchmarks/shapes.py --json {RESULTS}"
    for isa in ("avx512", "avx2"):
        command = f"ADOKERNELS_ISA={isa} {shapes} --seed {CPU_SEED}"
        yield (f"cpu shapes {isa}", command, 1.8, f"{RESULTS}/shapes-cpu-{isa}-*-{CPU_SEED}.json",
               "shapes.md", f"{command} --count 2 --seconds 0.02")
    for seed in SEEDS:  # one process per routine, to free its memory
        for routine in (name for name in SHOWN if name not in PATTERNS):
            yield (f"shapes {routine} {seed}",
                   f"{shapes} --device cuda --seed {seed} --count 110 {routine}",
                   SHAPES.get(routine, 1.5), f"{RESULTS}/shapes-cuda-{routine}-{seed}.json",
                   f"shapes.md/{routine}-{seed}")
    for part, minutes in (("set1", 1.3), ("set2", 1.6), ("set3", 3.5)):
        out, source = f"{DATA}/unseen/{part}", f"notebooks/kernels/unseen/{part}"
        yield (f"unseen {part}", f"-m adobook.unseen sweep {source} {out}", minutes,
               f"{out}/*.json", f"diagnosis.md/{part}")
    file = f"{RESULTS}/limiters-gpu.json"
    yield "limiters", f"{BLIND} --json {file}", 0.1, file, "limiters.md"
    file = f"{RESULTS}/limiters-cpu.json"
    command = "benchmarks/limiter_truth.py --out {work}/cpu --repeat 3 --seconds 3 --append"
    yield "cpu limiters", f"{command} {file}", 4, file, "limiters.md"
    for device, name, minutes in (("cuda", "cold policy", 0.5), ("cpu", "cpu cold policy", 2)):
        file = f"{RESULTS}/cold-{device}.json"
        command = f"benchmarks/cold_policy.py {file} --device {device}"
        yield name, command, minutes, file, "methods.md"
    file = "{}/tests/data/emulator/counters.json"
    yield "emulator", f"benchmarks/emulated_counters.py {file}", 3, file, "emulator.md"
    file = f"{RESULTS}/verdicts.json"
    for series, minutes in (
        *((f"aa --count 1000 --cache {cache}", 0.9) for cache in ("cold", "warm")),
        *((f"aa --count 150 --device cpu --cache {cache}", 0.9) for cache in ("cold", "warm")),
        ("power", 0.6), ("load", 6.2),
    ):
        command = f"benchmarks/verdicts.py {{work}}/verdicts.jsonl {series} --json {file}"
        yield f"verdicts {series}", command, minutes, file, "reliability.md"
    tests = sorted(path.name for path in (ROOT / "tests").glob("test_*.py"))
    tests.remove("test_generated.py")
    tests.remove("test_device_failures.py")  # takes the whole memory of the GPU
    yield "tests alone", "-m pytest -q -p no:cacheprovider tests/test_device_failures.py", 1
    for part in range(3):  # failed tests run again, one at a time
        pytest = f"-m pytest -q -o cache_dir={{work}}/tests-{part}"
        chosen = " ".join(f"tests/{name}" for name in tests[part::3])
        yield (f"tests {part}",
               f"{pytest} -n 6 --dist worksteal {chosen} || {pytest} --last-failed {chosen}", 3.5)
    for routine in TASKS:
        yield f"sanitizer {routine}", f"benchmarks/sanitize.py {routine}", 0.7
        shape = f"--shape {COUNTED[routine]}" if routine in COUNTED else ""
        yield f"counters {routine}", f"benchmarks/counters.py {routine} {shape}", 0.7
    images = ["1080x1920", "2160x3840", "1792x1792", "2048x2048", "64x224x224", "16x512x512"]
    for routines, ending in (("gaussian_blur sobel", ""), ("grayscale edge_detect", "x4")):
        sizes = " ".join(f"{size}{ending}" for size in images)
        yield (f"standard shapes {ending}".strip(),
               f"benchmarks/shapes.py --device cuda --verbose {routines} --shapes {sizes}", 0.7)
# fmt: on


# --- The state of a folder ------------------------------------------------------------------------


@dataclass(frozen=True)
class Done:
    """A stage that has ended."""

    board: str
    code: str  # version of the package
    seconds: float
    files: tuple[str, ...]
    small: bool = False  # whether its problems are small


State = dict[str, Done]


def load_state(known: Sequence[Stage], folder: Path) -> State:
    """The stages that have ended in a folder, if their records exist and match their patterns.

    The file may come from an archive, so other names of stages and records are not trusted.
    """
    path = folder / "stages.json"
    stored = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    state = {}
    for stage in known:
        paths = [path for pattern in stage.patterns for path in folder.glob(pattern)]
        records = {str(path.relative_to(folder)) for path in paths}
        if stage.name in stored and records.issuperset(stored[stage.name]["files"]):
            state[stage.name] = Done(**stored[stage.name])
    return state


def save_state(folder: Path, state: State) -> None:
    """Store the stages that have ended."""
    text = json.dumps({name: asdict(done) for name, done in state.items()}, indent=1)
    replace_file(folder / "stages.json", f"{text}\n".encode())


def boards() -> dict[str, str]:
    """Identifiers of the host, with its last start, and of the GPU; empty without a GPU.

    If CUDA_VISIBLE_DEVICES contains identifiers of GPUs, the first of these GPUs is used.
    """
    start = Path("/proc/sys/kernel/random/boot_id")
    host = f"{cpu_name()} {start.read_text().strip() if start.exists() else os.uname().nodename}"
    query, gpu = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"], ""
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        query.append(f"--id={visible.split(',')[0]}")
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        found = subprocess.run(query, check=True, capture_output=True, text=True).stdout
        gpu = found.splitlines()[0].removeprefix("GPU-").replace("-", "")
    return {"cpu": host, "cuda": gpu}


def kept(known: Sequence[Stage], state: State, now: Mapping[str, str], code: str) -> State:
    """The stages of this version to keep: of the current boards, or of complete pages.

    If `now` is empty, only stages of complete pages are kept. A page is complete if all of its
    stages on a device come from one board. Stages that no page shows are always kept.
    """
    found = {name: done for name, done in state.items() if done.code == code}
    pages = collections.defaultdict(list)
    for stage in known:
        for page in stage.shown.split():
            pages[page, stage.device].append(stage.name)
    while True:
        stale = set()
        for (_, device), names in pages.items():
            present = {name: found[name].board for name in names if name in found}
            if len(present) < len(names) or len(set(present.values())) > 1:
                stale |= {name for name, board in present.items() if board != now.get(device)}
        if not stale:
            return found
        found = {name: done for name, done in found.items() if name not in stale}


# --- Checks of records ----------------------------------------------------------------------------


def contexts(value: Any) -> Iterator[dict[str, Any]]:
    """All contexts of a JSON document."""
    if isinstance(value, dict) and isinstance(value.get("adokernels"), str):
        yield value
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in parts:
        yield from contexts(part)


def objection(path: Path, done: Done, device: str) -> str:
    """Why a record must not be shown; empty if it describes this board and this version."""
    document = json.loads(path.read_text(encoding="utf-8"))
    for context in contexts(document):
        uuid = context.get("cuda", {}).get("uuid", done.board)
        if context["adokernels"] != done.code:
            return f"it is of version {context['adokernels']}, not {done.code}"
        if device == "cuda" and uuid != done.board:
            return f"it is of board {uuid or 'emulator'}, not {done.board}"
    if not isinstance(document, dict) or document.get("kind") not in KINDS:
        wrong = document.get("wrong") if isinstance(document, dict) else None
        return f"results are wrong: {wrong}" if wrong else ""
    record = ado.load(path)
    sweeps = [record] if isinstance(record, ado.records.Sweep) else []
    sweeps += [*record] if isinstance(record, ado.records.Scan) else []
    return next(filter(None, map(refusal, sweeps)), "")


def objections(folder: Path, stage: Stage, done: Done) -> str:
    """The objections to the records of a stage."""
    found = []
    for name in (name for name in done.files if name.endswith(".json")):
        try:
            reason = objection(folder / name, done, stage.device)
        except Exception as error:  # a bad record must not end the call
            reason = f"{type(error).__name__}: {error}"
        found += [f"{name}: {reason}"] if reason else []
    return "; ".join(found)


# --- Measuring ------------------------------------------------------------------------------------


def log_of(folder: Path, name: str) -> Path:
    """The file for the output of a stage. It exists if the stage has been tried."""
    return folder / "logs" / f"{name}.log"


def status_of(
    words: Sequence[str], given: Mapping[str, str], output: TextIO, seconds: float
) -> int:
    """The exit status of Python with these arguments, after environment variables."""
    variables = dict(word.split("=") for word in words if word.startswith("ADOKERNELS_"))
    arguments = [word for word in words if not word.startswith("ADOKERNELS_")]
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=ROOT, env=os.environ | given | variables,
        stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"it was ended after {seconds:.0f} s") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also its remaining processes
        process.wait()


def measure(
    stage: Stage, folder: Path, work: Path, limit: float, *, small: bool = False
) -> tuple[str, ...]:
    """Run a stage for at most `limit` seconds; return its records; RuntimeError if it fails."""
    started, log = time.time(), log_of(folder, stage.name)
    for made in (work, log.parent, *((folder / pattern).parent for pattern in stage.patterns)):
        made.mkdir(parents=True, exist_ok=True)
    places = filter(None, (str(ROOT / "book"), os.environ.get("PYTHONPATH")))
    given = {"PYTHONPATH": os.pathsep.join(places), "ADOKERNELS_CACHE": str(work / "cache")}
    with log.open("w", encoding="utf-8") as output:
        for command in (stage.small if small else stage.command).split("||"):
            words = [word.format(folder, work=work) for word in command.split()]
            status = status_of(words, given, output, started + limit - time.time())
            if not status:
                break
    if status:
        last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-3:]
        raise RuntimeError(f"status {status}: {' | '.join(last)}")
    found: set[str] = set()
    for pattern in stage.patterns:
        new = [path for path in folder.glob(pattern) if path.stat().st_mtime >= started]
        if not new:
            raise RuntimeError(f"it has not written {pattern}")
        found |= {str(path.relative_to(folder)) for path in new}
    return tuple(sorted(found))


def run(
    chosen: Sequence[Stage], known: Sequence[Stage], folder: Path, end: float, *, small: bool
) -> int:
    """Run missing stages that are expected to end in time; return the number of missing stages."""
    code, now, state = importlib.metadata.version("adokernels"), boards(), load_state(known, folder)
    if any(done.small != small for done in state.values()):
        sys.exit(f"{folder} has records of {'full' if small else 'small'} problems, use another")
    remaining = kept(known, state, now, code)
    for name in state.keys() - remaining.keys():
        print(f"dropped {name}: another board or version")
        for file in (*(folder / file for file in state[name].files), log_of(folder, name)):
            file.unlink(missing_ok=True)
    state, work = remaining, folder / "work" / (now["cuda"] or "cpu")
    chosen = sorted(
        chosen, key=lambda stage: log_of(folder, stage.name).exists()
    )  # failed ones last
    for place, stage in enumerate(chosen, 1):
        left = end - time.monotonic()
        needed = 0 if small else 60 * stage.minutes
        if stage.name in state or left <= needed or (small and not stage.small):
            continue
        head = f"[{place}/{len(chosen)}] {stage.name}"
        print(f"{head}: about {stage.minutes} of {left / 60:.1f} min", flush=True)
        start = time.monotonic()
        try:
            files = measure(stage, folder, work, left, small=small)
            seconds = round(time.monotonic() - start, 1)
            done = Done(now[stage.device], code, seconds, files, small)
            if reason := "" if small else objections(folder, stage, done):
                raise RuntimeError(reason)
        except (OSError, RuntimeError) as error:
            print(f"{head}: FAILED: {error}", flush=True)
            with contextlib.suppress(OSError), log_of(folder, stage.name).open("a") as log:
                print(f"FAILED: {error}", file=log)
            continue
        print(f"{head}: {seconds} s", flush=True)
        state[stage.name] = done
        save_state(folder, state)
    save_state(folder, state)
    missing = [stage.minutes for stage in chosen if stage.name not in state]
    print(f"{len(missing)} of {len(chosen)} stages are missing, about {sum(missing):.0f} min")
    return len(missing)


# --- Transfer -------------------------------------------------------------------------------------


def pack(folder: Path, archive: Path) -> list[Path]:
    """Write the folder to an archive, or to parts whose names end in a number."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:xz") as tar:
        for path in sorted(folder.rglob("*")):
            name = path.relative_to(folder)
            if path.is_file() and "cache" not in name.parts and archive.name not in path.name:
                tar.add(path, str(name))
    data = packed.getvalue()
    parts = [data[first : first + PART] for first in range(0, len(data), PART)]
    endings = [f".{place:02}" for place in range(len(parts))] if parts[1:] else [""]
    paths = [archive.with_name(archive.name + ending) for ending in endings]
    new = [path.with_name(f".{path.name}") for path in paths]
    for path, part in zip(new, parts, strict=True):
        path.write_bytes(part)
    for source, path in zip(new, paths, strict=True):
        os.replace(source, path)
    for old in set(archive.parent.glob(f"{archive.name}*")).difference(paths):
        old.unlink()
    return paths


def unpack(known: Sequence[Stage], parts: Iterable[Path], folder: Path) -> None:
    """Add the stages of an archive to the folder, and replace stages with the same names."""
    data = io.BytesIO(b"".join(path.read_bytes() for path in sorted(parts)))
    with tarfile.open(fileobj=data, mode="r:xz") as tar, tempfile.TemporaryDirectory() as new:
        # The tarfile module of Python 3.11.2 (Debian 12) has no extraction filters.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(new)
        state = load_state(known, folder) | load_state(known, Path(new))
        shutil.copytree(new, folder, dirs_exist_ok=True)
    save_state(folder, state)


def publish(known: Sequence[Stage], folder: Path, root: Path) -> dict[str, str]:
    """Copy the records of complete pages below `root`; return the refused stages with reasons."""
    state, refused = load_state(known, folder), {}
    shown = [stage for stage in known if stage.shown and stage.name in state]
    codes = collections.Counter(state[stage.name].code for stage in shown)
    code = max(codes, key=codes.__getitem__, default="")
    for stage in shown:
        done = state[stage.name]
        found = ["its problems are small"] if done.small else []
        found += [f"{done.code} has uncommitted changes"] if done.code.endswith(".dirty") else []
        found += [f"it is of version {done.code}, others of {code}"] if done.code != code else []
        if reason := "; ".join(found) or objections(folder, stage, done):
            refused[stage.name] = reason
    good = {name: done for name, done in state.items() if name not in refused}
    complete = kept(known, good, {}, code)
    for stage in shown:
        if stage.name not in complete:
            refused.setdefault(stage.name, f"incomplete, or of several boards: {stage.shown}")
            continue
        for old in [path for pattern in stage.patterns for path in root.glob(pattern)]:
            old.unlink()
        for name in complete[stage.name].files:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, root / name)
    return refused


def main() -> int:
    """Unpack, list, publish, or run and pack."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("folder", type=Path, help="folder for records, logs and state")
    parser.add_argument("--minutes", type=float, default=9, help="maximum minutes of this call")
    parser.add_argument("--only", nargs="+", help="prefixes of stages, notebooks, pages")
    parser.add_argument("--list", action="store_true", help="show the stages")
    parser.add_argument("--pack", type=Path, help="archive of the folder, .tar.xz")
    parser.add_argument("--unpack", type=Path, nargs="+", help="extract an archive or its parts")
    parser.add_argument("--publish", action="store_true", help="copy the records of complete pages")
    words = "try commands on small problems without a GPU; the records are never published"
    parser.add_argument("--small", action="store_true", help=words)
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes - RESERVE
    folder, known = options.folder.resolve(), stages()
    folder.mkdir(parents=True, exist_ok=True)
    words = tuple(options.only or [""])
    chosen = [s for s in known if s.name.startswith(words) or {*words} & {*s.pages}]
    if options.unpack:
        unpack(known, options.unpack, folder)
    if options.list:
        state = load_state(known, folder)
        for stage in chosen:
            done = f"{state[stage.name].seconds} s" if stage.name in state else "missing"
            print(f"{stage.minutes:4} min  {stage.name}: {done}; {stage.shown}")
        print(f"{sum(stage.minutes for stage in chosen):.0f} min")
    if options.publish:
        refused = publish(known, folder, ROOT)
        print("\n".join(f"refused {name}: {reason}" for name, reason in refused.items()))
        return int(bool(refused))
    if options.unpack or options.list:
        return 0
    try:
        missing = run(chosen, known, folder, end, small=options.small)
    finally:
        if options.pack:
            print("packed", *pack(folder, options.pack))
    return int(bool(missing))


if __name__ == "__main__":
    sys.exit(main())
