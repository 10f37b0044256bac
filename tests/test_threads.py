"""Threads of the CPU routines: the pool, the number of threads, fork, and concurrent callers."""

import functools
import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from conftest import POOL_THREADS, run_python

import adokernels as ado
from adokernels import _core

SOURCES = Path(__file__).parents[1] / "src"
COMPILER = shutil.which(os.environ.get("CXX", "c++"))

# Runs jobs of different sizes from several threads at once, with nested jobs, in a process and in
# its forked children.
POOL = """
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "core/thread_pool.hpp"

struct Job {
  std::vector<int> runs;
  std::atomic<int> nested = 0;
};

void nested_part(const void* work, int, int) {
  ++static_cast<Job*>(const_cast<void*>(work))->nested;
}

void part(const void* work, int part, int parts) {
  Job& job = *static_cast<Job*>(const_cast<void*>(work));
  job.runs[part] += parts;
  if (part == 1) ado::run_parts(3, nested_part, &job);
}

std::atomic<int> wrong = 0;

void call(int seed) {
  for (int i = 0; i < 500; ++i) {
    const int parts = 1 + (i * 7 + seed) % 9;
    Job job{.runs = std::vector<int>(parts)};
    ado::run_parts(parts, part, &job);
    for (const int runs : job.runs) wrong += runs != parts;
    wrong += parts > 1 && job.nested != 3;
  }
}

void call_from_threads() {
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back(call, i);
  for (std::thread& caller : callers) caller.join();
}

int main() {
  std::thread other(call_from_threads);  // the pool is in use while the process forks
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      call_from_threads();
      _exit(wrong != 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    wrong += status != 0;
  }
  other.join();
  std::printf("%d", wrong.load());
}
"""

POOL_SOURCES = ["thread_pool.cpp", "thread.cpp", "interrupt.cpp", "processors.cpp"]

QUOTA = """
#include <cstdio>

#include "core/processors.hpp"

int main(int, char** files) { std::printf("%g", ado::processor_quota(files[1], files[2])); }
"""


def compiled(folder, program, *sources):
    """Compile a program with files of src/core; return the path of the executable."""
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    (folder / "program.cpp").write_text(program)
    build = [COMPILER, "-std=c++20", "-pthread", f"-I{SOURCES}", "-o", folder / "program"]
    files = [SOURCES / "core" / name for name in sources]
    subprocess.run([*build, folder / "program.cpp", *files], check=True)
    return folder / "program"


@functools.cache
def limits_of_address_spaces_are_ignored():
    """Whether programs run in QEMU, which accepts these limits and does not apply them."""
    code = """
import resource
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
wanted = 1 << 40 if hard < 0 else hard // 2
resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
print(resource.getrlimit(resource.RLIMIT_AS)[0] == wanted)
"""
    return run_python(code) == "False"


@pytest.fixture
def set_threads():
    """Set the number of threads for problems of any size, until the test ends."""
    before = _core.max_threads()
    yield lambda threads: _core.set_max_threads(threads, at_any_size=True)
    _core.set_max_threads(before)


@pytest.fixture
def forks_while_threads_start():
    """Skip the test in QEMU: a child can wait forever for QEMU's locks.

    This happens if it is forked while a thread starts. A program without this library, whose main
    thread starts and joins empty threads, hangs in the same way.
    """
    if limits_of_address_spaces_are_ignored():
        pytest.skip("QEMU: a process that is forked while a thread starts can wait forever")


@pytest.mark.usefixtures("forks_while_threads_start")
def test_every_part_runs_once(tmp_path):
    program = compiled(tmp_path, POOL, *POOL_SOURCES)
    done = subprocess.run([program], check=True, capture_output=True, text=True, timeout=300)
    assert done.stdout == "0"


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "150000 100000\n"}, "1.5"),
        ("0::/\n", {"cpu.max": "max 100000\n"}, "0"),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "400000 100000"}, "4"),
        ("0::/missing/group\n", {"cpu.max": "200000 50000\n"}, "4"),
        (
            "5:memory:/x\n4:cpu,cpuacct:/x\n0::/\n",
            {"cpu/x/cpu.cfs_quota_us": "300000", "cpu/x/cpu.cfs_period_us": "100000"},
            "3",
        ),
        ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, "0"),
        ("", {}, "0"),
    ],
)
def test_processor_quota(tmp_path_factory, groups, files, quota, quota_program):
    root = tmp_path_factory.mktemp("cgroup")
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "groups").write_text(groups)
    done = subprocess.run(
        [quota_program, root / "groups", root], check=True, capture_output=True, text=True
    )
    assert done.stdout == quota


@pytest.fixture(scope="module")
def quota_program(tmp_path_factory):
    return compiled(tmp_path_factory.mktemp("quota"), QUOTA, "processors.cpp")


@pytest.mark.parametrize(
    ("environment", "threads"),
    [
        ({"ADOKERNELS_NUM_THREADS": "3", "OMP_NUM_THREADS": "2"}, "3"),
        ({"OMP_NUM_THREADS": "5,2"}, "5"),
        ({"OMP_NUM_THREADS": "no number"}, None),
        ({"OMP_NUM_THREADS": ""}, None),
    ],
)
def test_environment_sets_the_number_of_threads(environment, threads):
    code = "import adokernels._core as core; print(core.max_threads())"
    fewest = {"ADOKERNELS_NUM_THREADS": "", "OMP_NUM_THREADS": ""}
    assert run_python(code, **{**fewest, **environment}) == (threads or run_python(code, **fewest))


@pytest.mark.parametrize("number", ["0", "-1", "many", "9" * 5000])
def test_invalid_number_of_threads(number):
    code = "import adokernels"
    with pytest.raises(AssertionError, match=f"ValueError: ADOKERNELS_NUM_THREADS={number}"):
        run_python(code, ADOKERNELS_NUM_THREADS=number)
    with pytest.raises(
        ValueError, match=r"number of threads must be at least 1 and at most .*, got 0"
    ):
        _core.set_max_threads(0)


def test_affinity_limits_the_threads():
    code = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np, adokernels as ado
from adokernels import _core
a = np.random.default_rng(0).random((1500, 1500))
print(_core.max_threads(), np.array_equal(ado.transpose(a), a.T))
_core.set_max_threads(4, at_any_size=True)  # more threads than processors
print(all(np.array_equal(ado.transpose(a), a.T) for _ in range(20)))
"""
    assert run_python(code, OMP_NUM_THREADS="").split() == ["1", "True", "True"]


def test_calls_succeed_if_threads_cannot_be_started():
    """The limit of the address space leaves no memory for the stack of a thread."""
    if limits_of_address_spaces_are_ignored():
        pytest.skip("QEMU ignores limits of the address space")
    code = """
import resource, numpy as np, adokernels as ado
from adokernels import _core
a, out = np.random.default_rng(0).random((1000, 1000)), np.empty((1000, 1000))
transpose = ado.transpose  # the first use imports it, which needs memory
_core.set_max_threads(8, at_any_size=True)
pages = int(open("/proc/self/statm").read().split()[0])
hard = resource.getrlimit(resource.RLIMIT_AS)[1]
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (512 << 10), hard))
transpose(a, out=out)
resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
print(np.array_equal(out, a.T), pool_threads())
"""
    # If NumPy uses OpenBLAS, it must not start threads either.
    assert run_python(POOL_THREADS + code, OPENBLAS_NUM_THREADS="1").split() == ["True", "0"]


def test_concurrent_callers(set_threads, rng):
    set_threads(3)
    matrices = [rng.random((50 + 10 * i, 300)) for i in range(8)]
    vectors, matrix = rng.random((40, 64, 50)), rng.random((64, 64))
    products = ado.average_matvec(vectors, matrix, device="cpu")

    def call(i):
        a = matrices[i % 8]
        product = ado.average_matvec(vectors, matrix, device="cpu")
        return np.array_equal(ado.transpose(a, device="cpu"), a.T) and np.array_equal(
            product, products
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(200)))


@pytest.mark.usefixtures("forks_while_threads_start")
def test_fork_during_a_call():
    code = """
import os, threading, numpy as np, adokernels as ado
from adokernels import _core
_core.set_max_threads(3, at_any_size=True)
a = np.random.default_rng(0).random((400, 500))
done = threading.Event()
transpose = ado.transpose  # a child of a process that is importing cannot import the same module
def work():
    while not done.is_set(): transpose(a)
thread = threading.Thread(target=work); thread.start()
codes = set()
for _ in range(20):
    child = os.fork()
    if child == 0:
        right = all(np.array_equal(transpose(a), a.T) for _ in range(5))
        os._exit(0 if right and pool_gets(2) else 1)
    codes.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
done.set(); thread.join()
print(codes)
"""
    assert run_python(POOL_THREADS + code) == "{0}"


def test_a_prepared_call_with_large_scratch_memory_runs_with_more_threads():
    """Scratch memory of more than 1 MiB belongs to the call, and each thread needs its own part."""
    code = """
import numpy as np, adokernels as ado
from adokernels import _core
vectors = np.random.default_rng(0).random((1024, 256, 1))
_core.set_max_threads(8, at_any_size=True)
problem = ado.average_matvec.problem(vectors, np.eye(256), device="cpu")
call = problem.prepare("blocked")
for threads in (8, 64):
    _core.set_max_threads(threads, at_any_size=True)
    problem.poison()
    call.run()
    print(np.array_equal(problem.results(), vectors[..., 0].T))
"""
    assert run_python(code).split() == ["True"] * 2
