"""The gallery: pictures of the notebooks, heat maps, and every chart of the package."""

import importlib
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import pyplot as plt

import adokernels as ado
from adobook import charts
from adobook.pages import gallery


def titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def test_the_timeline_of_warps_has_the_used_issue_slots():
    figure = charts.draw_latency(8, (3, 10))
    assert "38 % of the issue slots used" in titles(figure)[0]
    assert "100 % of the issue slots used" in titles(figure)[1]
    plt.close(figure)


@pytest.mark.cuda
@pytest.mark.parametrize("variant", gallery.HEAT_MAPS)
def test_the_picture_of_the_heat_maps_shows_what_the_emulator_counts(variant):
    stored = gallery.emulated("transpose", variant)
    a = np.zeros((128, 128), np.float32)
    counted = ado.heatmap(ado.transpose[variant], a, device="emulator")
    assert counted.problem == stored.problem
    found, expected = ([(x.text, x.accesses()) for x in h.lines] for h in (counted, stored))
    assert found == expected  # compilers can differ in the other instructions
    words = " ".join("".join(ElementTree.fromstring(gallery.heat_maps()).itertext()).split())
    ideal = {"naive": "L 4, S 32 (ideal 4)", "tiled": "32 (ideal 1)"}
    assert f"transpose[{variant}], counted by the emulator" in words
    assert ideal[variant] in words


@pytest.mark.cuda
def test_the_readme_shows_the_counts_of_its_triton_kernel(monkeypatch):
    pytest.importorskip("triton")
    monkeypatch.syspath_prepend(gallery.ROOT / "examples" / "triton")
    example = importlib.import_module("luma")
    (rgba,), *_ = example.pixels(np.random.default_rng(0))
    ladder, variant = gallery.TRITON
    counted = ado.heatmap(getattr(example, ladder)[variant], rgba, device="emulator")
    stored = gallery.emulated(ladder, variant)
    found, expected = ([(x.text, x.accesses()) for x in h.lines] for h in (counted, stored))
    assert found == expected
    words = " ".join("".join(ElementTree.fromstring(gallery.triton_heat_map()).itertext()).split())
    assert "31.8 (ideal 3.98)" in words


def test_the_gallery_has_every_chart_of_the_package():
    text = gallery.text()
    charts = (
        "steps",
        "roofline",
        "accuracy",
        "speed_of_light",
        "warp_states",
        "memory_chart",
        "plot",
    )
    assert [name for name in charts if f"ado.{name}(" not in text] == []
    assert all((gallery.FOLDER / f"{name}.png").is_file() for name in gallery.pictures())
    assert len(gallery.records()) >= 8
    assert all(path.is_file() for path in gallery.records())
