"""Priorities of kernels and the charts of notebook 02."""

from pathlib import Path

import matplotlib.pyplot as plt
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


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


# --- priorities -----------------------------------------------------------------------------------


def test_ranks_are_proportional_to_the_time_beyond_the_roof(stages):
    edges, kernels = stages
    gains = {m.routine: m.seconds - m.bytes / edges.roof for m in kernels}
    found = course.ranks(kernels, edges.roof)
    assert max(found.values()) == 100
    assert found["sobel"] / 100 == pytest.approx(gains["sobel"] / max(gains.values()))


def test_priorities_show_the_ranks_of_the_document_next_to_ours(blur, stages):
    edges, kernels = stages
    with_first_step = [blur["coalesced"], *(m for m in kernels if m.routine != "gaussian_blur")]
    given = {"published": talk.RANKS, "variant": "coalesced"}
    header, rows = rows_of(course.priorities(with_first_step, edges.roof, **given))
    assert header[-2:] == ["rank, NVIDIA H200", f"rank, {talk.DOCUMENT}, {talk.DEVICE}"]
    assert list(rows) == ["gaussian_blur[coalesced]", "sobel[naive]", "grayscale[naive]"]
    assert [row[-1] for row in rows.values()] == ["100", "28", "11"]
    header, _ = rows_of(course.priorities(kernels, edges.roof))
    assert header[-1] == "rank, NVIDIA H200"


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


# --- charts ---------------------------------------------------------------------------------------


def texts_of(ax):
    return {text.get_text() for text in ax.texts}


def test_the_timeline_has_the_steps_in_their_order(blur):
    named = [blur[name] for name in ("naive", "shared")]
    ax = course.timeline({"copies": named[:1], "kernels": named[1:]}, ("shared", "naive"))
    bars = sorted(ax.patches, key=lambda bar: bar.get_x())
    assert [bar.get_width() for bar in bars] == [named[1].seconds, named[0].seconds]
    assert bars[1].get_x() == bars[0].get_width()
    assert any(text.startswith("shared, ") for text in texts_of(ax))


def test_the_plane_has_a_point_for_each_variant_with_counters(blur):
    ax = course.utilisation_plane(blur, 0.6)
    counted = [m for m in blur if m.profile]
    points = [tuple(line.get_xydata()[0]) for line in ax.lines if line.get_marker() == "o"]
    assert points == [(m.profile["memory_sol"], m.profile["compute_sol"]) for m in counted]
    assert {"latency-bound", *(m.variant for m in counted)} <= texts_of(ax)


def test_speed_ups_start_at_one_on_both_devices(blur):
    ax = course.speedups_of_devices(blur, talk.FIGURES)
    curves = [line.get_ydata() for line in ax.lines if len(line.get_xdata()) > 2]
    assert [curve[0] for curve in curves] == [1, 1]
    assert [len(curve) for curve in curves] == [len(talk.TIMES), len(blur.variants)]
    assert curves[0][-1] == pytest.approx(5.233 / 0.363)
