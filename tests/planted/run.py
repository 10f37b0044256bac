"""Plant mistakes in copies of the source code, and report which tests notice them.

``mistakes.toml`` lists the mistakes, and ``caught.json`` the tests that noticed each of them.
(``tests/mutants.py`` damages stored records instead.)

    python tests/planted/run.py                  the mistakes in python/, src/ and kernels of tests
    python tests/planted/run.py --only NAME ...  some mistakes or groups (also cuda)
    python tests/planted/run.py --build wheels/planted  wheels without and with mistakes in cuda/
    python tests/planted/run.py --only cuda --wheels wheels/planted

A mistake in python/, or in kernels that tests compile, is made in a copy of the repository that
uses the compiled module of this Python. All mistakes in src/ are compiled into one module without
CUDA, where an environment variable selects one of them. All mistakes in cuda/ are compiled into one
wheel, so their tests must not run each other's code. Without a GPU, most of these tests run on the
emulator. A test that notices a mistake must pass without it.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
RECORD = FOLDER / "caught.json"
#: An editable installation would find the package in the repository instead of the copy.
SITE = """\
import sys
sys.meta_path[:] = [f for f in sys.meta_path if "_editable_" not in type(f).__module__]
"""
SELECTED = "ADOKERNELS_PLANTED"
HEADER = f"""\
#pragma once
#include <cstdlib>
#include <cstring>
namespace ado {{
inline bool planted(const char* name) {{
  const char* const selected = std::getenv("{SELECTED}");
  return selected != nullptr && std::strcmp(selected, name) == 0;
}}
}}  // namespace ado
"""


def plant(mistake, folder, *, selectable=False):
    """Make a mistake in the sources in `folder`; if `selectable`, only where it is selected.

    A text that ends with ``;`` or ``}`` is a statement, any other an expression.
    """
    path, old, new = folder / mistake["file"], mistake["old"], mistake["new"]
    text = path.read_text(encoding="utf-8")
    if text.count(old) != 1:
        raise SystemExit(f"{mistake['name']}: old occurs {text.count(old)} times in {path}")
    if selectable:
        on = f'[] {{ static const bool on = ado::planted("{mistake["name"]}"); return on; }}()'
        statement = old.rstrip().endswith((";", "}"))
        new = (
            f"if ({on}) {{ {new} }} else {{ {old} }}"
            if statement
            else f"({on} ? ({new}) : ({old}))"
        )
        text = text if "planted.hpp" in text else f'#include "planted.hpp"\n{text}'
    path.write_text(text.replace(old, new), encoding="utf-8")


@contextlib.contextmanager
def repository(mistakes, **how):
    """A copy of the tracked files with these mistakes, and variables with which Python uses it."""
    with tempfile.TemporaryDirectory() as temporary:
        copy = Path(temporary, "copy")
        listed = subprocess.check_output(
            ["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, text=True
        )
        for name in filter(None, listed.split("\0")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
        (copy / "site").mkdir()
        (copy / "site" / "sitecustomize.py").write_text(SITE, encoding="utf-8")
        for mistake in mistakes:
            plant(mistake, copy, **how)
        yield copy, variables(copy / "site", copy / "python", CCACHE_BASEDIR=str(copy))


def variables(*folders, **others):
    paths = os.pathsep.join(filter(None, [*map(str, folders), os.environ.get("PYTHONPATH")]))
    return {**os.environ, "PYTHONPATH": paths, "PYTHONUNBUFFERED": "1", **others}


def link(module, copy):
    (copy / "python" / "adokernels" / Path(module).name).symlink_to(module)


# --- Places in which tests run with one mistake or with none: a folder and variables --------------


@contextlib.contextmanager
def python_place(mistake):
    with repository([mistake] if mistake else []) as (copy, env):
        link(importlib.util.find_spec("adokernels._core").origin, copy)
        yield copy, env


@contextlib.contextmanager
def src_places(mistakes):
    with repository(mistakes, selectable=True) as (copy, env):
        (copy / "src" / "planted.hpp").write_text(HEADER, encoding="utf-8")
        options = [f"-DPython_EXECUTABLE={sys.executable}", "-DADOKERNELS_CUDA=OFF"]
        options += ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
        configure = ["cmake", "-S", copy, "-B", copy / "build", "-G", "Ninja", *options]
        for command in (configure, ["cmake", "--build", copy / "build"]):
            subprocess.run(command, env=env, check=True, stdout=subprocess.DEVNULL)
        link(*(copy / "build").glob("_core*.so"), copy)
        yield lambda mistake: contextlib.nullcontext(
            (copy, {**env, SELECTED: mistake["name"] if mistake else ""})
        )


@contextlib.contextmanager
def cuda_places(wheels):
    with tempfile.TemporaryDirectory() as temporary:
        for name in ("right", "planted"):
            command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
            (wheel,) = (wheels / name).glob("*.whl")
            subprocess.run([*command, "--target", f"{temporary}/{name}", wheel], check=True)
        yield lambda mistake: contextlib.nullcontext(
            (ROOT, variables(f"{temporary}/{'planted' if mistake else 'right'}"))
        )


def build_wheels(mistakes, wheels):
    """Build a wheel without mistakes, and one with all mistakes, unless they exist."""
    for name, chosen in (("right", []), ("planted", mistakes)):
        if any((wheels / name).glob("*.whl")):
            continue
        with repository(chosen) as (copy, env):
            command = [sys.executable, "-m", "pip", "wheel", "--no-deps", copy, "--wheel-dir"]
            command += [wheels / name, "--config-settings=build-dir=build"]
            subprocess.run(command, env={**env, "ADOKERNELS_CUDA": "ON"}, cwd=copy, check=True)
    (wheels / "commit").write_text(commit(), encoding="utf-8")


def commit():
    command = ["git", "rev-parse", "--short", "HEAD"]
    return subprocess.check_output(command, cwd=ROOT, text=True).strip()


# --- Tests ----------------------------------------------------------------------------------------


def failure(tests, folder, env, seconds):
    """The first test that fails, and how: "fails", "crashes" or "hangs". None: all tests pass."""
    command = [sys.executable, "-m", "pytest", "-x", "-v", "--tb=no", "-p", "no:cacheprovider"]
    process = subprocess.Popen(
        [*command, *tests], cwd=folder, env=env, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
    )  # fmt: skip
    how = "crashes"
    try:
        output, _ = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        how = "hangs"
    if process.returncode == 0:
        return None
    failed = r"^(tests/\S+::.+?) (?:FAILED|ERROR)\b|^ERROR (tests/\S+\.py)"
    if found := re.search(failed, output, re.M):
        return found[1] or found[2], "fails"
    started = re.findall(r"^(tests/\S+::.+?) *(?:PASSED|SKIPPED|Fatal|$)", output, re.M)
    if process.returncode > 0 or not started:  # for example, wrong arguments
        return None, f"cannot be tested: {output}"
    return started[-1], how


def noticed(mistake, place, seconds, wide):
    """The test that notices a mistake, or None, and what happened."""
    for tests in [mistake["tests"], *([["tests"]] if wide else [])]:
        with place(mistake) as (folder, env):
            found = failure(tests, folder, env, seconds)
        if found is None:
            continue
        if found[0]:
            with place(None) as (folder, env):
                if failure(found[:1], folder, env, seconds):
                    return None, f"{found[0]} fails without the mistake, too"
        return found
    return None, "SURVIVED"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--only", nargs="+", metavar="NAME|GROUP", default=["python", "src", "kernels"]
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1200, help="limit per run of the tests")
    parser.add_argument("--wide", action="store_true", help="then run all tests on survivors")
    parser.add_argument("--record", type=Path, nargs="?", const=RECORD, help="update the record")
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="build the wheels")
    parser.add_argument("--wheels", type=Path, metavar="FOLDER", help="test with these wheels")
    given = parser.parse_args()
    everything = tomllib.loads((FOLDER / "mistakes.toml").read_text(encoding="utf-8"))["mistake"]
    groups = {
        g: [m for m in everything if m["group"] == g] for g in ("python", "src", "kernels", "cuda")
    }
    if given.build:
        return build_wheels(groups["cuda"], given.build.resolve())
    if unknown := {*given.only} - {*groups, *(m["name"] for m in everything)}:
        parser.error(f"no mistake or group {', '.join(sorted(unknown))}")
    earlier = given.record if given.record and given.record.exists() else RECORD
    record = json.loads(earlier.read_text(encoding="utf-8")) if earlier.exists() else {}
    of = (given.wheels / "commit").read_text(encoding="utf-8") if given.wheels else commit()
    survivors = []
    for group, members in groups.items():
        mistakes = [m for m in members if {group, m["name"]} & {*given.only}]
        if not mistakes:
            continue
        places = {
            "python": lambda _: contextlib.nullcontext(python_place),
            "kernels": lambda _: contextlib.nullcontext(python_place),
            "src": src_places,
            "cuda": lambda _: cuda_places(given.wheels.resolve()),
        }[group](mistakes)
        with places as place, ThreadPoolExecutor(given.jobs) as pool:
            results = pool.map(lambda m: noticed(m, place, given.seconds, given.wide), mistakes)
            for mistake, (test, how) in zip(mistakes, results, strict=True):
                print(f"{mistake['name']:32} {test or ''} {how}", flush=True)
                survivors += [] if test else [mistake["name"]]
                today = datetime.date.today().isoformat()
                record[mistake["name"]] = {
                    **{"caught_by": [test] if test else [], "date": today, "commit": of}
                }
    if given.record:
        names = [m["name"] for m in everything if m["name"] in record]
        lines = [f"{json.dumps(name)}: {json.dumps(record[name])}" for name in names]
        given.record.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"survivors: {', '.join(survivors) or 'none'}")
    return bool(survivors)


if __name__ == "__main__":
    sys.exit(main())
