"""A loop over bands of one image on several devices, and the device names of measurements."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core

ROOT = Path(__file__).parent.parent


class OnHost:
    """An array in host memory, with the DeviceArray method that the guide uses."""

    def __init__(self, array):
        self.array = array

    def numpy(self):
        return self.array


def loop_of_the_guide(**replaced):
    """Return the function in the guide."""
    text = (ROOT / "docs" / "guide" / "arrays.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"^(def edges_on.*?)\n\n\n", text, re.S | re.M)
    names = {"np": np, "ado": SimpleNamespace(**{"to_device": ado.to_device, **replaced})}
    exec(code, names)
    return names["edges_on"]


@pytest.mark.parametrize("rows", [2, 41])
def test_the_loop_of_the_guide(rows, rng):
    image = rng.integers(0, 256, (rows, 30, 4), np.uint8)
    used = []

    def to_device(array, device):
        used.append(device)
        return OnHost(array)

    def edge_detect(band):
        return OnHost(ado.edge_detect(band.array, device="cpu"))

    edge_detect.halo = ado.edge_detect.halo
    loop = loop_of_the_guide(to_device=to_device, edge_detect=edge_detect)
    expected = ado.edge_detect(image, device="cpu")
    np.testing.assert_array_equal(loop(["cuda:0", "cuda:1", "cuda:2"], image), expected)
    assert used == ["cuda:0", "cuda:1", "cuda:2"]


def sweep_on(device):
    image = np.zeros((64, 48), np.uint8)
    return ado.sweep(ado.sobel, image, device=device, seconds=0.01, ceilings=False, progress=False)


@pytest.mark.parametrize("measure", [ado.machine, sweep_on])
def test_devices_that_do_not_exist(measure):
    with pytest.raises(ado.Unavailable, match=_core.why_no_cuda() or "cuda:99 does not exist"):
        measure("cuda:99")
    with pytest.raises(
        ValueError, match="device must be 'cpu', 'cuda', 'cuda:N' or 'emulator', got 'cuda:x'"
    ):
        measure("cuda:x")


@pytest.mark.gpu
@pytest.mark.usefixtures("two_gpus")
class TestTwoGpus:
    def test_the_loop_of_the_guide(self, rng):
        image = rng.integers(0, 256, (301, 200, 4), np.uint8)
        loop = loop_of_the_guide(edge_detect=ado.edge_detect)
        expected = ado.edge_detect(image, device="cuda:0")
        np.testing.assert_array_equal(loop(["cuda:0", "cuda:1"], image), expected)
