"""Errors beside times: the columns of a ladder's table, and the chart of accuracy."""

import csv
import dataclasses
from functools import partial

import numpy as np
import pytest
from charting import (
    CROWD,
    SIZES,
    clashes,
    drawn,
    legend_words,
    make_gpp,
    make_transpose,
    outside,
    with_peers,
)

import adokernels as ado
from adokernels.charts.accuracy import accuracy, frontier
from adokernels.report import page
from adokernels.tables.measurements import sweep_table
from adokernels.tables.rendering import to_text


def with_errors(sweep, errors, relative=lambda ulp: ulp * 2.0**-53, peers=()):
    """The sweep with these errors in ulp, one per variant."""
    left = iter(errors)

    def changed(m, ulp):
        share = None if ulp is None or relative is None else relative(ulp)
        return dataclasses.replace(m, error=ulp or 0.0, error_ulp=ulp, error_relative=share)

    measurements = [m if m.ceiling else changed(m, next(left)) for m in sweep.measurements]
    others = [changed(m, ulp) for m, ulp in zip(sweep.peers, peers, strict=True)]
    return dataclasses.replace(sweep, measurements=tuple(measurements), peers=tuple(others))


def gpp(*errors, **options):
    sweep = make_gpp(extra=CROWD)
    count = len(sweep.variants)
    return with_errors(sweep, [*errors, *[7.0] * (count - len(errors))][:count], **options)


draw = partial(drawn, accuracy)


def names(ax):
    return {t.get_text().partition("\n")[0] for t in ax.texts}


# --- Table and records ----------------------------------------------------------------------------


def headers(sweep):
    return [str(column.header).replace("\n", " ") for column in sweep_table(sweep).columns]


def cells(sweep, header):
    table = sweep_table(sweep)
    return [str(cell) for cell in table.columns[headers(sweep).index(header)].cells]


def test_the_table_has_both_errors():
    sweep = gpp(0.0, 2.25, 1234.5)
    assert headers(sweep)[-2:] == ["error [ulp]", "relative error"]
    assert cells(sweep, "error [ulp]")[:4] == ["0", "2.2", "1234", "7"]
    assert cells(sweep, "relative error")[1] == "2.5e-16"


def test_the_table_of_integers_has_steps_and_of_exact_results_no_column():
    assert headers(gpp(0.0, 1.0, relative=None))[-1] == "error [steps]"
    for sweep in (make_gpp(), make_transpose()):
        assert not [header for header in headers(sweep) if "error" in header]


def scan_of(sweep):
    return ado.records.Scan(routine="gpp", sweeps=(sweep,))


def compared(sweep):
    return ado.compare(sweep, sweep)


def checked(sweep):
    name = sweep.variants[0].variant
    return ado.records.CheckResult("gpp", name, True, sweep=sweep)


VIEWS = {
    "scan": (scan_of, ", 2.2 ulp"),
    "changes": (compared, "2.2 ulp, 2.2 ulp"),
    "check": (checked, "Its largest error is 2.2 ulp."),
    "each variant": (lambda s: to_text(page._variants_table(s), 300), "2.2 ulp"),
    "headline": (lambda s: page._headline([s], ["x"]), "2.2 ulp"),
}


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_of_times_has_the_errors_if_they_are_known(view):
    show, words = VIEWS[view]
    measured = with_peers(make_gpp(extra=CROWD))
    count = len(measured.variants)
    known = with_errors(measured, [2.25] * count, peers=[2.25] * len(measured.peers))
    assert words in repr(show(known))
    assert "error" not in repr(show(measured))
    assert "ulp" not in repr(show(measured))


def test_records_and_files_have_both_errors(tmp_path):
    sweep = gpp(0.5, None)
    first, second = sweep.records()[:2]
    assert (first["error_ulp"], first["error_relative"]) == (0.5, 2.0**-54)
    assert (second["error_ulp"], second["error_relative"]) == (None, None)
    sweep.to_csv(tmp_path / "table.csv")
    with open(tmp_path / "table.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["error_ulp"] for row in rows[:2]] == ["0.5", ""]
    sweep.save(tmp_path / "sweep.json")
    assert ado.load(tmp_path / "sweep.json").records() == sweep.records()


# --- Chart ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "kind"), [(SIZES[0], "ulp"), (SIZES[1], "relative")])
@pytest.mark.parametrize("errors", [(2.0, 3.0), (0.0, 3.0, 100.0), (1e5,), (9.0, 8.0, 7.0, 6.0)])
def test_no_words_overlap(errors, size, kind):
    ax = draw(gpp(*errors), size, kind=kind)
    assert not clashes(ax)
    assert not outside(ax)


def test_each_variant_is_at_its_time_and_error():
    sweep = gpp(1.0, 2.0, 4.0)
    ax = draw(sweep)
    points = {(float(x), float(y)) for p in ax.lines for x, y in [p.get_xydata()[0]]}
    assert {(m.seconds, m.error_ulp) for m in sweep.variants} <= points
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_ylabel() == "Largest error [ulp], logarithmic"
    assert ax.get_xlabel().startswith("Time per call [")
    assert {m.variant for m in sweep.variants} <= names(ax)


def test_the_frontier():
    """The fastest, and each slower one that is more accurate than all faster ones."""
    sweep = make_gpp(extra=CROWD)
    by_time = sorted(sweep.variants, key=lambda m: m.seconds)
    errors = dict.fromkeys(by_time, 9.0)
    assert frontier(errors) == by_time[:1]
    errors |= {by_time[2]: 3.0, by_time[3]: 4.0, by_time[5]: 0.0}
    assert frontier(errors) == [by_time[0], by_time[2], by_time[5]]


def test_filled_points_and_the_title_are_the_frontier():
    sweep = make_gpp(extra=CROWD)
    by_time = sorted(sweep.variants, key=lambda m: m.seconds)
    found = {by_time[0]: 9.0, by_time[3]: 3.0}
    sweep = with_errors(sweep, [found.get(m, 20.0) for m in sweep.variants])
    ax = draw(sweep)
    filled = {
        float(line.get_xdata()[0])
        for line in ax.lines
        if line.get_marker() == "o" and line.get_mfc() != ax.get_facecolor()
    }
    assert filled == {m.seconds for m in found}
    title = ax.get_title(loc="left").replace("\n", " ")
    assert f"{by_time[0].variant} is the fastest (9.0 ulp)" in title
    assert f"{by_time[3].variant} is the most accurate (3.0 ulp)" in title
    assert len(list(filter(None, legend_words(ax)))) == 2
    only = draw(gpp(*[5.0] * 20))
    assert "is the fastest, and nothing is more accurate: 5.0 ulp" in only.get_title(loc="left")


@pytest.mark.parametrize(
    ("sweep", "kind", "message"),
    [
        (gpp(0.0, *[0.0] * 20), "ulp", "all results of gpp are exact: there is no accuracy to"),
        (make_transpose(), "ulp", "results of transpose must be exact or were not checked"),
        (gpp(1.0, relative=None), "relative", "gpp computes integers, which have no relative"),
        (gpp(), "absolute", "kind must be 'ulp' or 'relative', got 'absolute'"),
    ],
)
def test_nothing_to_draw(sweep, kind, message):
    with pytest.raises(ValueError, match=message):
        accuracy(sweep, kind=kind)


def test_a_measured_ladder(rng):
    x = rng.uniform(-1, 1, 5000)
    quick = {"device": "cpu", "seconds": 0, "ceilings": False, "progress": False}
    peers = {"peer": lambda: ado.branch(x, device="cpu")}
    sweep = ado.sweep(ado.branch, x, peers=peers, **quick)
    points = [line for line in draw(sweep).lines if line.get_marker() == "o"]
    assert len(points) == len(sweep.variants) + 1
    exact = ado.sweep(ado.transpose, rng.random((40, 50)), **quick)
    with pytest.raises(ValueError, match=r"all results of transpose are exact"):
        ado.accuracy(exact)
    own = ado.ladder("twice", reference=lambda x: 2 * x.astype(np.longdouble), dtype="f8")
    own.variant(lambda x: np.nextafter(2 * x, np.inf), name="one_off")
    assert ado.sweep(own, x, **quick)["one_off"].error_ulp == 1


def test_a_result_near_zero_does_not_determine_the_error(tmp_path):
    factors = np.array([1, 1e-44])
    ladder = ado.ladder(
        "near_zero", reference=lambda a: a * factors, dtype="float32", tolerance=1e-5
    )
    ladder.variant(name="mine")(lambda a: a * np.float32([1, 1e-9]))
    a = np.ones(2, np.float32)
    sweep = ado.sweep(ladder, a, device="cpu", cache="warm", seconds=0.1, progress=False)
    sweep.save(tmp_path / "sweep.json")
    assert sweep["mine"].error_ulp < 1  # in ulp of 1, not of 1e-44
