"""Damaged and hostile records: loading names file and field, or everything shows the record."""

import json
import os
import warnings

import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from mutants import HOSTILE, documents, mutants

import adokernels as ado
from adokernels.charts.files import to_svg
from adokernels.measuring.loading import _KINDS

DOCUMENTS = documents()
#: Number of the mutants of one kind whose charts are drawn, and that are written as reports.
DRAWN = int(os.environ.get("ADOKERNELS_DRAWN_MUTANTS", "3"))


def stored(document, path):
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def show(record, path):
    """Everything short of a chart."""
    repr(record).encode("utf-8")
    if hasattr(record, "_repr_html_"):
        record._repr_html_().encode("utf-8")
    record.save(path)
    assert ado.load(path).to_dict() == record.to_dict()
    if isinstance(record, ado.Sweep):
        diagnosis = ado.diagnose(record)
        repr(diagnosis).encode("utf-8")
        diagnosis._repr_html_().encode("utf-8")


def draw(record, path):
    """Every chart of a record, and its report."""

    def chart(function, what):
        to_svg(function(what, ax=Figure(figsize=(8, 5), layout="constrained").add_subplot()).figure)

    if isinstance(record, ado.Sweep | ado.Machine):
        chart(ado.roofline, record)
    if isinstance(record, ado.Sweep):
        counted = [m for m in record if m.profile]
        if counted:
            chart(ado.speed_of_light, record)
            chart(ado.warp_states, record)
            chart(ado.memory_chart, counted[-1])
            if record.machine:
                chart(lambda what, ax: ado.roofline(what, kind="instructions", ax=ax), record)
        ado.write_report(path, title=HOSTILE, sweeps=[record])


def test_every_kind_has_a_document():
    assert {document["kind"] for document in DOCUMENTS.values()} == set(_KINDS)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_valid_documents_load(kind, tmp_path):
    record = ado.load(stored(DOCUMENTS[kind], tmp_path / "x.json"))
    show(record, tmp_path / "again.json")


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_mutants_are_refused_or_shown(kind, tmp_path, rng):
    path, survivors, refused, failures = tmp_path / "x.json", [], 0, []
    for name, document in mutants(DOCUMENTS[kind], rng):
        try:
            record = ado.load(stored(document, path))
        except ValueError as error:
            refused += 1
            assert str(path) in str(error), name
            continue
        survivors.append((name, record))
        try:
            show(record, path)
        except Exception as error:
            failures.append(f"{name}: {error!r}")
    for place in rng.permutation(len(survivors))[:DRAWN]:
        name, record = survivors[place]
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Glyph", UserWarning)
                draw(record, tmp_path / "report.html")
        except Exception as error:
            failures.append(f"{name}: {error!r}")
    plt.close("all")
    assert not failures, "\n".join(failures)
    assert refused > 100
    assert survivors
