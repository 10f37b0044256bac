"""Layers of a roofline: memory levels, points per precision, published points."""

import dataclasses

import pytest
from charting import (
    H200,
    Lab,
    ceiling,
    clashes,
    draw,
    legend_words,
    make_gpp,
)

import adokernels as ado
from adokernels.records.inputs import Inputs
from adokernels.records.machine import Ceiling
from adokernels.records.sweep import Sweep


def markers(ax):
    """Marker, x and y of every point."""
    lines = [line for line in ax.lines if len(line.get_xdata()) == 1]
    return {(line.get_marker(), line.get_xdata()[0], line.get_ydata()[0]) for line in lines}


@pytest.mark.parametrize("levels", [["L7"], [], ["DRAM", "L7"]])
def test_a_level_without_a_ceiling_is_an_error(levels):
    with pytest.raises(ValueError, match=r"levels must be memory levels with a ceiling \(DRAM, L2"):
        draw(make_gpp(counters=True), levels=levels)


def test_own_points_lie_below_own_ceilings():
    ceilings = {"DRAM": 800e9, "L2": 3e12, "FP64": 7e12}
    ax = ado.roofline(points=[("mine", 3e12, 6.0), ("naive", 1e11, 0.5)], ceilings=ceilings)
    ax.figure.draw_without_rendering()
    assert {("D", 6, 3e12), ("D", 0.5, 1e11)} <= markers(ax)
    assert {"stated ceilings", "DRAM bytes, stated"} <= set(legend_words(ax))
    assert not any("measured" in w for w in legend_words(ax))
    words = [text.get_text() for text in ax.texts]
    assert any(w.startswith("DRAM 800 GB/s") for w in words)
    assert any(w.startswith("L2 3.00 TB/s") for w in words)
    assert not clashes(ax)
    levels, tensor = ["DRAM", "FP16 tensor"], {"FP16 tensor": 9e12}
    ax = ado.roofline(points=[("mine", 3e12, 6.0)], ceilings=ceilings | tensor, levels=levels)
    ax.figure.draw_without_rendering()
    assert any(t.get_text().startswith("FP16 tensor 9.00 TFLOP/s") for t in ax.texts)
    tensor, points = {"FP16 tensor": 990e12}, [("mine", 3e14, 120.0), ("wrong", 3e14, 0.25)]
    ax = ado.roofline(points=points, ceilings=ceilings | tensor)
    ax.figure.draw_without_rendering()
    words = " ".join([*(text.get_text() for text in ax.texts), *legend_words(ax)])
    assert all(f"{name} " in words for name in (*ceilings, "FP16 tensor"))
    assert not any(operation in words for operation in ("copy", "read", "FMA"))
    assert "off scale" not in words
    assert "above all roofs: wrong; rates are in FLOP/s and B/s" in words
    mixed = draw(make_gpp(counters=True), ceilings=ceilings)
    assert any("FP64 mix limit" in text.get_text() for text in mixed.texts)
    both = ado.roofline(make_gpp(counters=True), points=[("mine", 3e12, 6.0)], levels=["DRAM"])
    assert ("D", 6, 3e12) in markers(both)
    assert len(markers(both)) > 1


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"points": [("a", 1.0, 2.0)]}, TypeError, "needs a sweep, a measurement, a machine, or"),
        ({"points": [("a", 1.0)], "ceilings": {"DRAM": 1e12, "FP64": 1e13}}, ValueError, "points"),
        ({"points": [("a", 0, 1)], "ceilings": {"DRAM": 1e12, "FP64": 1e13}}, ValueError, "positi"),
        ({"ceilings": {"DRAM": 1e12}}, ValueError, "must have DRAM and one of FP64"),
        ({"ceilings": {"DRAMM": 1e12}}, ValueError, "did you mean 'DRAM'"),
        ({"ceilings": {"DRAM": "1", "FP64": 1}}, TypeError, "numbers"),
        ({"ceilings": {"DRAM": 3300, "FP64": 34e12}}, ValueError, "in B/s, .* 3300 for DRAM"),
        (
            {"points": [("a", 0.25, 2.1e11)], "ceilings": {"DRAM": 1e12, "FP64": 1e13}},
            ValueError,
            r"points must be \(label, FLOP/s, FLOP/B\) in this order, with at most 1e\+06 FLOP/B",
        ),
    ],
)
def test_wrong_points_and_ceilings(given, error, words):
    with pytest.raises(error, match=words):
        ado.roofline(**given)


# --- Tensor cores and the link to the host --------------------------------------------------------


def with_optional(machine=H200):
    """The machine with ceilings of tensor cores and of the host link."""
    tensor = [
        dataclasses.replace(ceiling("tensor", "FP64 mma", 61e12), level="FP64 tensor"),
        dataclasses.replace(ceiling("tensor", "TF32 mma", 420e12), level="TF32 tensor"),
    ]
    link = [
        Ceiling(kind="link", level="host link", operation=operation, measured=measured)
        for operation, measured in (
            ("pageable to device", 21e9),
            ("pinned to device", 55e9),
            ("pinned both ways", 100e9),
        )
    ]
    return dataclasses.replace(machine, ceilings=(*machine.ceilings, *tensor, *link))


def roof_labels(ax):
    return {text.get_text().partition(" (")[0] for text in ax.texts}


def test_tensor_cores_and_the_link_are_drawn_on_request():
    sweep = make_gpp(with_optional())
    optional = ("tensor", "link")
    plain = draw(sweep)
    default = " ".join(roof_labels(plain) | set(legend_words(plain)))
    assert not any(word in default for word in optional)
    ax = draw(sweep, levels=["DRAM", "FP64 tensor", "host link"])
    shown = roof_labels(ax)
    assert "FP64 tensor 61.0 TFLOP/s" in shown
    assert {w for w in shown if "link" in w} == {
        "host link pageable to device 21.0 GB/s",
        "host link pinned to device 55.0 GB/s",
    }
    assert not any("TF32 tensor" in word for word in shown)
    assert any(text.startswith("DRAM: memory-bound") for text in shown), "not of the link"
    assert not clashes(ax)
    # Neither changes the nearest roof.
    assert ax.get_title(loc="left") == draw(sweep, levels=["DRAM"]).get_title(loc="left")


@pytest.mark.parametrize("levels", [["host link"], ["FP64 tensor"], ["DRAM", "FP8 tensor"]])
def test_requested_ceilings_must_exist_beside_a_memory_level(levels):
    rule = r"levels must be memory levels with a ceiling \(DRAM, L2\), and also host link, FP64 ten"
    with pytest.raises(ValueError, match=rule):
        draw(make_gpp(with_optional()), levels=levels)


def test_points_are_compared_with_the_roof_of_their_precision():
    matrix = Inputs.of([("a", (512, 512), "float32")])
    rates = {"flops": 4e10, "executed_flops": 4e10, "bytes": 2e6, "requested_bytes": 2e6}
    single = Lab().measure(
        1e-3, routine="sums", variant="s", device="cuda", problem=matrix, **rates
    )
    sums = Sweep(routine="sums", measurements=(single,), machine=H200)
    title = draw([sums, make_gpp()]).get_title(loc="left").replace("\n", " ")
    assert title.startswith(f"sums: {100 * 4e13 / 63.8e12:.0f} % of FP32 FMA; gpp: ")
    assert 4e13 > 1.05 * 33.4e12  # above the FP64 roof of the other sweep


def test_points_above_the_fma_peak_are_compared_with_tensor_cores():
    fast = make_gpp(extra={"library": 1.5})
    rate = fast["library"].flops_per_second
    assert 1.05 * 33.4e12 < rate < 61e12
    without, ax = draw(fast), draw(dataclasses.replace(fast, machine=with_optional()))
    assert "library: above FP64" in without.get_title(loc="left")
    assert any("wrong counter or ceiling" in text for text in roof_labels(without))
    share = f"library: {100 * rate / 61e12:.0f} % of FP64 tensor"
    assert share in ax.get_title(loc="left")
    assert any({*line.get_ydata()} == {61e12} for line in ax.lines)
    assert not any("wrong counter or ceiling" in text for text in roof_labels(ax))
    sweep = dataclasses.replace(fast, machine=with_optional())
    m = sweep["library"]
    assert sweep.nearest_limit(m).share == pytest.approx(
        max(rate / 61e12, m.bytes_per_second / sweep.roof)
    )
    words = [str(evidence) for evidence in m.limiter.evidence]
    assert any("of the measured FP64 tensor peak" in text for text in words)
