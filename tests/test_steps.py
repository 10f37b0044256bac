"""The chart of a ladder's steps."""

import dataclasses
from functools import partial

import numpy as np
import pytest
from charting import (
    SIZES,
    clashes,
    drawn,
    make_gpp,
    make_transpose,
    new_figure,
    outside,
    with_peers,
)

from adokernels import plot
from adokernels.charts.picture import picture
from adokernels.charts.steps import steps
from adokernels.measuring.comparing import compare
from adokernels.text import number, quantity, ratio

SWEEPS = {
    "transpose": make_transpose,
    "gpp": lambda: make_gpp(extra={"streams": 9.3, "persistent": 9.25}),
    "peers": lambda: with_peers(make_transpose()),
    "one": lambda: dataclasses.replace(make_gpp(), measurements=make_gpp().measurements[:1]),
}


draw = partial(drawn, steps)


def row(ax, y):
    """The texts in one row of the table, from left to right."""
    cells = [t for t in ax.texts if t.get_position()[1] == y and t.get_gid() != "subject"]
    return [t.get_text() for t in sorted(cells, key=lambda t: t.get_position()[0])]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("sweep", SWEEPS)
def test_no_words_overlap(sweep, size):
    ax = draw(SWEEPS[sweep](), size)
    assert not clashes(ax)
    assert not outside(ax)


def test_each_variant_has_a_dot_at_its_time_and_a_row_of_the_table():
    sweep = with_peers(make_transpose())
    ax = draw(sweep)
    rows = (*sweep.measurements, *sweep.peers)
    dots = {
        (float(line.get_xdata()[0]), int(line.get_ydata()[0]))
        for line in ax.lines
        if len(line.get_xdata()) == 1 and line.get_marker() in ("o", "s", "D")
    }
    assert dots == {(m.seconds, i) for i, m in enumerate(rows)}
    for i, m in enumerate(rows):
        assert row(ax, i)[0] == quantity(m.seconds, "s")
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names[0] == f"{rows[0].variant} (ceiling)"
    assert names[1:] == [m.shown_as for m in rows[1:]]


def test_a_step_shows_the_ratio_of_its_times_and_the_verdict():
    rng = np.random.default_rng(1)
    noisy = [
        dataclasses.replace(m, samples=m.samples * np.exp(rng.normal(0, 0.3, len(m.samples))))
        for m in make_gpp()
    ]
    sweep = dataclasses.replace(make_gpp(), measurements=tuple(noisy))
    ax = draw(sweep)
    assert row(ax, -1) == ["time", "step", "step is", "of FMA peak"]
    for i, (m, before) in enumerate(sweep.step_pairs().items(), 1):
        assert row(ax, i)[1] == ratio(before.seconds / m.seconds)
        assert row(ax, i)[2] == m.compare(before).verdict.value


def test_the_roof_is_labelled_at_its_line():
    sweep = make_transpose()
    ax = draw(sweep)
    label = next(t for t in ax.texts if t.get_text().startswith("roof, "))
    assert label.get_text() == f"roof, {quantity(sweep['copy'].seconds, 's')}"
    assert label.get_position()[0] == pytest.approx(sweep["copy"].bytes / sweep.roof)


def test_the_title_has_the_gain_of_the_table():
    """It is the ratio of the medians, also if the ratios of the rounds differ from it."""
    sweep = make_transpose()
    first, best = sweep.variants[0], sweep.fastest
    rounds = np.linspace(1.0, 3.0, 31)
    slow = dataclasses.replace(first, session="s", samples=first.seconds * rounds)
    fast = dataclasses.replace(best, session="s", samples=best.seconds * np.roll(rounds, 10))
    sweep = dataclasses.replace(sweep, measurements=(slow, fast))
    gain = next(r["speedup"] for r in sweep.records() if r["variant"] == fast.variant)
    assert gain == slow.seconds / fast.seconds
    assert gain == fast.compare(slow).ratio != np.median(slow.samples / fast.samples)
    assert f"{number(gain)} times as fast" in draw(sweep).get_title("left")


def test_the_title_compares_with_the_fastest_peer_if_the_difference_is_clear():
    sweep = with_peers(make_transpose())
    title = draw(sweep).get_title(loc="left").replace("\n", " ")
    gain = sweep["numpy"].seconds / sweep.fastest.seconds
    assert sweep["numpy"].seconds < sweep["torch"].seconds
    assert title.endswith("times as fast as numpy")
    assert float(title.rsplit(", ", 1)[1].split()[0]) == pytest.approx(gain, rel=0.01)
    noisy = np.exp(np.random.default_rng(3).normal(0, 0.3, 41))
    unclear = dataclasses.replace(sweep["numpy"], samples=sweep.fastest.samples * noisy)
    title = draw(dataclasses.replace(sweep, peers=(unclear,))).get_title(loc="left")
    assert "numpy" not in title


def test_without_measurements_there_is_no_chart():
    with pytest.raises(ValueError, match="at least one measurement"):
        steps(dataclasses.replace(make_gpp(), measurements=()))


def test_the_default_picture_needs_no_ceilings():
    flat = make_gpp(extra={"naive": 12})
    assert "intensity" in picture(flat).get_xlabel()
    assert "bandwidth" in picture(dataclasses.replace(flat, machine=None)).get_xlabel()
    assert "Time" in picture(make_gpp(extra={"fused": 1})).get_xlabel()


def test_every_record_with_a_default_chart_is_drawn_by_plot():
    flat = make_gpp(extra={"naive": 12})
    assert plot(flat).get_xlabel() == picture(flat).get_xlabel()
    changes = compare(flat, flat)
    ax = new_figure(SIZES[1]).add_subplot()
    assert plot(changes, ax=ax) is ax
    with pytest.raises(TypeError, match=r"^plot has no option 'axe': did you mean 'ax'\?"):
        plot(flat, axe=None)
    with pytest.raises(TypeError, match=r"what must be one of Sweep, .*, Divergence, got Machine"):
        plot(flat.machine)
