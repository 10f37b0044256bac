"""Bands of one image on several devices of a process, and the device names of measurements."""

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from scripts import load_script

import adokernels as ado
from adokernels import _core

ROOT = Path(__file__).parent.parent
FILTERS = [routine for routine in ado.routines.values() if routine.halo is not None]


@pytest.fixture(scope="module")
def script():
    return load_script("benchmarks/image_on_gpus.py")


def image_for(routine, rng, rows):
    channels = (4,) if routine.parameters[0].name == "rgba" else ()
    return rng.integers(0, 256, (rows, 37, *channels), np.uint8)


def joined(routine, image, bands, call):
    """Concatenate the kept rows of all bands."""
    return np.concatenate([call(image[band.source])[band.kept] for band in bands])


@pytest.mark.parametrize("routine", FILTERS, ids=lambda r: r.name)
@pytest.mark.parametrize(("rows", "parts"), [(1, 1), (3, 2), (40, 1), (41, 2), (29, 9), (5, 8)])
def test_seams_are_exact(script, routine, rows, parts, rng):
    """Bands can have fewer rows than the halo, or no rows."""
    image = image_for(routine, rng, rows)
    bands = list(script.bands_of(rows, parts, routine.halo))
    assert [i for band in bands for i in range(rows)[band.rows]] == list(range(rows))
    result = joined(routine, image, bands, lambda part: routine(part, device="cpu"))
    np.testing.assert_array_equal(result, routine(image, device="cpu"))


def test_the_benchmark_on_the_cpu(script, monkeypatch, capsys):
    arguments = ["--devices", "cpu", "cpu", "--size", "20x30", "--rounds", "3", "--repeats", "2"]
    monkeypatch.setattr("sys.argv", ["image_on_gpus.py", *arguments])
    assert script.main() == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["shape"], report["devices"]) == ([20, 30, 4], ["cpu", "cpu"])
    assert report["same_bits"]
    assert report["efficiency"] > 0


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
    @pytest.mark.parametrize("rows", [5, 300, 4097])
    def test_seams_are_exact(self, script, rows, rng):
        image = rng.integers(0, 256, (rows, 1000, 4), np.uint8)
        devices = ["cuda:0", "cuda:1"]
        bands = list(script.bands_of(rows, 2, ado.edge_detect.halo))
        results = [
            ado.edge_detect(ado.to_device(image[band.source], device))
            for band, device in zip(bands, devices, strict=True)
        ]
        assert [result.device for result in results] == devices
        expected = ado.edge_detect(ado.to_device(image, "cuda:0")).numpy()
        halves = [r.numpy()[band.kept] for r, band in zip(results, bands, strict=True)]
        np.testing.assert_array_equal(np.concatenate(halves), expected)

    def test_the_loop_of_the_guide(self, rng):
        image = rng.integers(0, 256, (301, 200, 4), np.uint8)
        loop = loop_of_the_guide(edge_detect=ado.edge_detect)
        expected = ado.edge_detect(image, device="cuda:0")
        np.testing.assert_array_equal(loop(["cuda:0", "cuda:1"], image), expected)

    def test_the_benchmark(self, script, monkeypatch, capsys):
        arguments = ["--size", "300x200", "--rounds", "2", "--repeats", "2"]
        monkeypatch.setattr("sys.argv", ["image_on_gpus.py", *arguments])
        assert script.main() == 0
        assert json.loads(capsys.readouterr().out)["devices"][:2] == ["cuda:0", "cuda:1"]
