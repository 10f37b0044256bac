"""The chart of a ladder's steps."""

import dataclasses

import numpy as np
import pytest
from charting import SIZES, clashes, make_gpp, make_transpose, new_figure, outside, with_peers

from adokernels.charts.steps import steps
from adokernels.tables.numbers import quantity

SWEEPS = {
    "transpose": make_transpose,
    "gpp": lambda: make_gpp(extra={"streams": 9.3, "persistent": 9.25}),
    "peers": lambda: with_peers(make_transpose()),
    "one": lambda: dataclasses.replace(make_gpp(), measurements=make_gpp().measurements[:1]),
}


def draw(sweep, size=SIZES[1], **options):
    ax = new_figure(size, layout="constrained").add_subplot()
    assert steps(sweep, ax=ax, **options) is ax
    ax.figure.canvas.draw()
    return ax


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


def test_a_step_shows_its_ratio_and_verdict():
    sweep = make_gpp()
    ax = draw(sweep)
    assert row(ax, -1) == ["time", "step", "step is", "of roof"]
    for i, (m, before) in enumerate(sweep.steps().items(), 1):
        comparison = m.compare(before)
        assert float(row(ax, i)[1][1:]) == pytest.approx(comparison.ratio, rel=0.01)
        assert row(ax, i)[2] == comparison.verdict.value


def test_a_slower_step_has_another_colour():
    sweep = make_gpp()
    slow = dataclasses.replace(sweep["tiled"], samples=sweep["tiled"].samples * 10)
    slower = dataclasses.replace(sweep, measurements=(*sweep.measurements[:-2], slow))
    colours = {t.get_text(): t.get_color() for t in draw(slower).texts}
    assert "slower" in colours
    assert colours["slower"] != colours["faster"]


def test_the_title_has_the_total_gain():
    sweep = make_gpp()
    ratio = sweep.variants[0].seconds / sweep.fastest.seconds
    title = draw(sweep).get_title(loc="left").replace("\n", " ")
    assert title.startswith(f"{sweep.fastest.variant} is ")
    assert float(title.split()[2]) == pytest.approx(ratio, rel=0.01)


@pytest.mark.parametrize("span", [1.0001, 1.5, 3, 40, 1e4])
def test_an_axis_of_any_range_has_ticks_within_the_plot(span):
    first, *_ = make_gpp().measurements
    last = dataclasses.replace(first, variant="last", samples=first.samples / span)
    ax = draw(dataclasses.replace(make_gpp(), measurements=(first, last)))
    ticks = ax.xaxis.get_majorticklocs()
    assert len(ticks) >= 3
    assert np.all(ticks < ax.get_xlim()[1])
    assert not clashes(ax)


def test_without_measurements_there_is_no_chart():
    with pytest.raises(ValueError, match="at least one measurement"):
        steps(dataclasses.replace(make_gpp(), measurements=()))
