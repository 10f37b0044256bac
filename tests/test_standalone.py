"""Each ``steps.cu`` of a CUDA ladder is a program that checks and times its steps."""

import re
import subprocess
from pathlib import Path

import pytest
from conftest import NO_CUDA

from adokernels import toolkit

ROOT = Path(__file__).parents[1]
LADDERS = sorted(ROOT.glob("cuda/*/steps.cu"))
#: Without a GPU, device code is only parsed, which takes less time than compiling it.
OPTIONS = (
    ["-O0", "-fdevice-syntax-only", "-gencode=arch=compute_90,code=compute_90"]
    if NO_CUDA
    else ["-O3", "-arch=native"]
)


def run(steps, folder):
    if not (nvcc := toolkit.program("nvcc")):
        pytest.skip("needs nvcc")
    includes = [f"-I{ROOT / name}" for name in ("cuda", "src")]
    program = str(folder / "ladder")
    command = [nvcc, *OPTIONS, "-std=c++20", *includes, "-DSTANDALONE", steps]
    subprocess.run([*map(str, command), "-o", program], check=True, timeout=300)
    return subprocess.run([program], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("steps", LADDERS, ids=[path.parent.name for path in LADDERS])
def test_steps_are_checked_and_timed(steps, tmp_path):
    done = run(steps, tmp_path)
    if NO_CUDA:
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith("This program needs a GPU: ")
    else:
        assert done.returncode == 0, done.stdout + done.stderr
        for name in re.findall(r'\.name = "(\w+)"', steps.read_text(encoding="utf-8")):
            assert re.search(rf"^{name} +(\d|skipped: )", done.stdout, re.MULTILINE)


@pytest.mark.gpu
def test_a_wrong_step_is_reported(tmp_path):
    code = (ROOT / "cuda" / "transpose" / "steps.cu").read_text(encoding="utf-8")
    wrong = tmp_path / "steps.cu"
    wrong.write_text(code.replace("tile[y][x] = element", "tile[y][x ^ 1] = element"), "utf-8")
    done = run(wrong, tmp_path)
    assert done.returncode == 1
    found = dict(re.findall(r"^(\w+) +\d.*?(WRONG)?$", done.stdout, re.MULTILINE))
    assert [name for name, verdict in found.items() if verdict] == ["tiled", "padded"]
