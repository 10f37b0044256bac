"""The script that compiles for many architectures, and the build's requirements."""

import pytest
from scripts import load_script

script = load_script(".ci/architectures.py")
requirements = load_script(".ci/requirements.py")


@pytest.mark.parametrize("compute", script.SHARED)
def test_blocks_fit_the_shared_memory(compute):
    assert list(script.too_much_shared_memory(compute)) == []


def test_variants_that_need_too_much_shared_memory_are_found(monkeypatch):
    monkeypatch.setitem(script.SHARED, 75, 16)
    found = list(script.too_much_shared_memory(75))
    assert any(text.startswith("transpose[wide]: 65536 bytes") for text in found), found


def test_blocks_that_need_too_many_registers_are_found():
    def kernel(registers, threads):
        return script.Compiled("a.cu", "k", 75, registers, 0, threads)

    assert not kernel(64, 1024).too_large
    assert kernel(65, 1024).too_large  # registers are allocated in groups of eight
    assert not kernel(255, 256).too_large


def test_nvcc_is_installed_if_there_is_none(monkeypatch, tmp_path):
    monkeypatch.delenv("CUDACXX", raising=False)
    monkeypatch.delenv("ADOKERNELS_CUDA", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert requirements.nvcc() == [requirements.NVCC]
    assert requirements.NVCC in requirements.requirements("build")
    monkeypatch.setenv("ADOKERNELS_CUDA", "OFF")
    assert requirements.nvcc() == []
    monkeypatch.setenv("ADOKERNELS_CUDA", "ON")
    program = tmp_path / "nvcc"
    program.touch(mode=0o755)
    assert requirements.nvcc() == []
