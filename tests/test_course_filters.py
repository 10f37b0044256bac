"""Ranks of the filters, and figures of the GTC 2015 talk next to ours."""

from pathlib import Path

import pytest
from pages import rows_of

import adobook as course
import adokernels as ado
from adobook.published import image_filters as talk

DATA = Path(__file__).parent.parent / "notebooks" / "data"


@pytest.fixture(scope="module")
def blur():
    return ado.load(DATA / "gaussian_blur-2560x1600.json.xz")


@pytest.fixture(scope="module")
def stages():
    edges = ado.load(DATA / "edge_detect-2560x1600.json.xz")
    return edges, edges.stages_of(edges["pipeline_naive"])


# --- ranks ----------------------------------------------------------------------------------------


def test_ranks_are_proportional_to_the_time_beyond_the_roof(stages):
    edges, kernels = stages
    gains = {m.routine: m.seconds - m.bytes / edges.roof for m in kernels}
    found = course.ranks(kernels, edges.roof)
    assert max(found.values()) == 100
    assert found["sobel"] / 100 == pytest.approx(gains["sobel"] / max(gains.values()))


# --- figures that are text ------------------------------------------------------------------------


def test_figures_show_our_text_next_to_published_text(blur):
    _, rows = rows_of(course.figures(blur["naive"], published=talk.FIGURES))
    assert rows["grid"] == ["320 x 200 blocks", "320 x 200 blocks"]
    assert rows["shared memory per block"] == ["0 B", "0 B"]
    assert rows["limiter"] == ["instruction and memory latency", "L1 wavefronts"]
    assert rows["transactions per request"] == ["4 to 5", "4.84 per load, 4.03 per store"]
    given = {"published": talk.FIGURES, "baseline": blur["naive"]}
    _, rows = rows_of(course.figures(blur["coalesced"], rows="changed", **given))
    _, everything = rows_of(course.figures(blur["coalesced"], **given))
    assert everything["occupancy limiter"] == ["block size", "warps", "warps", ""]
    assert rows["block"][1:] == ["8 x 8 threads", "32 x 2 threads", ""]
    assert "limiter" in rows
    _, rows = rows_of(
        course.figures(
            blur["occupancy"],
            published=talk.FIGURES,
            baseline=blur["coalesced"],
            rows="changed",
        )
    )
    assert "limiter" not in rows
