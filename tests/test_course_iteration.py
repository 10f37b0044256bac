"""One iteration of the course's loop: proposal, folded change, factors of the gain; pictures."""

import importlib
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from matplotlib import pyplot as plt
from pages import rows_of

import adobook as course
import adokernels as ado
from adobook.pages import gallery
from adobook.text import Text

DATA = Path(__file__).parent.parent / "notebooks" / "data"


def sweep(name):
    return ado.load(DATA / f"{name}.json.xz")


@pytest.fixture(scope="module")
def gpp():
    return sweep("gpp-si214")


@pytest.mark.parametrize("name", ["gpp-si214", "max_plus-float64", "gaussian_blur-16384"])
def test_the_factors_give_the_measured_times(name):
    """Instructions, waits and warps determine the time, also of the short kernels beside."""
    counted = [m for m in sweep(name).variants if m.profile]
    assert len(counted) >= 9
    for m in counted:
        assert course.Factors.of(m).seconds == pytest.approx(m.seconds, rel=0.12), m.variant


def number_in(cell):
    return float(re.search(r"[\d.]+", cell)[0])


def test_the_product_of_the_factors_is_the_gain(gpp):
    text = course.time_factors(gpp["single_launch"], gpp["blocks_2d"])
    _, rows = rows_of(text)
    product, measured = rows["product of the factors"], rows["measured gain"]
    assert number_in(product[-1]) == pytest.approx(number_in(measured[-1]), rel=0.02)
    before, after = gpp["blocks_2d"].profile, gpp["single_launch"].profile
    waits = before["warp_latency"] / after["warp_latency"]
    cells = rows["cycles between two instructions of a warp"]
    assert number_in(cells[-1]) == pytest.approx(waits, rel=0.01)
    assert (
        str(text).rstrip().endswith(f"**cycles between two instructions of a warp**, {cells[-1]}.")
    )


def test_a_slower_step_is_explained_by_the_factor_that_is_worse(gpp):
    text = str(course.time_factors(gpp["sorted_by_energy"], gpp["sorted_bands"]))
    assert (
        "The largest factor that makes sorted_by_energy slower: **executed instructions**" in text
    )


def test_equal_variants_have_no_factors(gpp):
    text = str(course.time_factors(gpp["moments"], gpp["moments"]))
    assert text.rstrip().endswith("No factor changes.")


def test_factors_need_counters():
    m = sweep("transpose-float32-8192").variants[0]
    bare = ado.records.Measurement(**{**vars(m), "profile": None})
    with pytest.raises(ValueError, match=r"must have counters, got none for 'naive'"):
        course.Factors.of(bare)


def test_proposals_name_the_limiter_and_the_step(gpp):
    text = str(course.proposal(gpp, "blocks_2d"))
    finding = ado.diagnose(gpp)["blocks_2d"]
    assert text.startswith("**What limits blocks_2d.** ")
    assert str(finding.advice)[1:] in text
    assert all(str(advice.step) in text for advice in finding.advices[1:])


def test_folded_displays_escape_their_title():
    class Shown:
        def _repr_html_(self):
            return "<p>content</p>"

        def __repr__(self):
            return "content"

    folded = course.folded("a < b", Shown())
    assert folded._repr_html_() == ("<details><summary>a &lt; b</summary><p>content</p></details>")
    assert repr(folded) == "a < b\ncontent"


def titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def test_the_timeline_of_warps_has_the_used_issue_slots():
    figure = course.draw_latency(8, (3, 10))
    assert "38 % of the issue slots used" in titles(figure)[0]
    assert "100 % of the issue slots used" in titles(figure)[1]
    plt.close(figure)


def test_windows_count_their_inputs():
    figure = course.draw_windows((32, 4), 3)
    assert "share 42 of their 49 inputs" in titles(figure)[0]
    assert f"{38 * 10} pixels" in titles(figure)[1]
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
    charts = ("steps", "roofline", "speed_of_light", "warp_states", "memory_chart", "plot")
    assert [name for name in charts if f"ado.{name}(" not in text] == []
    assert all((gallery.FOLDER / f"{name}.png").is_file() for name in gallery.pictures())
    assert len(gallery.records()) > 8
    assert all(path.is_file() for path in gallery.records())


def test_patterns_are_modelled_emulated_and_counted():
    stored = sweep("course/gather-patterns")
    four_bytes = {
        m.context["pattern"]: m for m in stored if m.problem.operands[0].dtype == "float32"
    }
    found = course.gathered({"stride 3": "stride 3", "stride 5": "stride 5"}, four_bytes)
    assert isinstance(found, Text)
    _, rows = rows_of(found)
    assert rows["stride 3"][0] == rows["stride 3"][2] == "16.0"
    if "not available" not in str(found):
        assert [rows[f"stride {n}"][1] for n in (3, 5)] == ["16.0", "24.0"]
