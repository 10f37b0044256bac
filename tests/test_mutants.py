"""Damaged records: loading fails with file and field in the message, or every view works."""

import json
import os
import re

import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from mutants import HOSTILE, documents, mutants, renamed

import adokernels as ado
from adokernels.charts.files import to_svg
from adokernels.records.loading import KINDS

DOCUMENTS = documents()
#: Number of mutants per kind, and of mutants whose charts are drawn. A kind has up to 7000 mutants,
#: which take some minutes.
COUNT = int(os.environ.get("ADOKERNELS_MUTANTS", "60"))
DRAWN = int(os.environ.get("ADOKERNELS_DRAWN_MUTANTS", "1"))


def stored(document, path):
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def show(record, path):
    """Save a record, and show it in every form except charts."""
    repr(record).encode("utf-8")
    if hasattr(record, "_repr_html_"):
        record._repr_html_().encode("utf-8")
    record.save(path)
    assert ado.load(path).to_dict() == record.to_dict()
    if isinstance(record, ado.records.Sweep):
        diagnosis = ado.diagnose(record)
        repr(diagnosis).encode("utf-8")
        diagnosis._repr_html_().encode("utf-8")


def draw(record, path):
    """Draw every chart of a record, and write its report."""

    def chart(function, what):
        to_svg(function(what, ax=Figure(figsize=(8, 5), layout="constrained").add_subplot()).figure)

    if isinstance(record, ado.records.Sweep | ado.records.Machine):
        chart(ado.roofline, record)
    if isinstance(record, ado.records.Sweep):
        counted = [m for m in record if m.profile]
        if counted:
            chart(ado.speed_of_light, record)
            chart(ado.warp_states, record)
            chart(ado.memory_chart, counted[-1])
            if record.machine:
                chart(lambda what, ax: ado.roofline(what, kind="instructions", ax=ax), record)
        ado.write_report(path, title=HOSTILE, sweeps=[record])


def test_every_kind_has_a_document():
    assert {document["kind"] for document in DOCUMENTS.values()} == set(KINDS)


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_valid_documents_load(kind, tmp_path):
    record = ado.load(stored(DOCUMENTS[kind], tmp_path / "x.json"))
    show(record, tmp_path / "again.json")


def shown(record, tmp_path, drawn):
    """Show a record; return the exception, or an empty text if there is none."""
    try:
        show(record, tmp_path / "again.json")
        if drawn:
            draw(record, tmp_path / "report.html")
    except Exception as error:
        return repr(error)
    finally:
        plt.close("all")
    return ""


@pytest.mark.parametrize("kind", DOCUMENTS)
@pytest.mark.filterwarnings("ignore:Glyph")
def test_mutants_are_rejected_or_shown(kind, tmp_path, rng):
    path, survivors, failures = tmp_path / "x.json", 0, []
    for name, document in mutants(DOCUMENTS[kind], rng, COUNT):
        stored(document, path)
        try:
            record = ado.load(path)
        except ValueError as error:
            # The name of the field, or of the document's own fields schema and kind.
            field = name.partition(":")[0].split(".")
            named = [part for part in field if not part.isdecimal() and part in str(error)]
            if str(path) not in str(error) or not (named or "schema" in str(error)):
                failures.append(f"{name}: unclear message {error}")
            continue
        survivors += 1
        if wrong := shown(record, tmp_path, survivors <= DRAWN):
            failures.append(f"{name}: {wrong}")
    assert not failures, "\n".join(failures)


@pytest.mark.parametrize("kind", DOCUMENTS)
@pytest.mark.filterwarnings("ignore:Glyph")
def test_hostile_names_are_shown(kind, tmp_path):
    """Every name in a record contains characters that need escaping."""
    record = ado.load(stored(renamed(DOCUMENTS[kind]), tmp_path / "x.json"))
    assert shown(record, tmp_path, drawn=True) == ""
    texts = [repr(record), getattr(record, "_repr_html_", str)()]
    if isinstance(record, ado.records.Sweep):
        texts.append((tmp_path / "report.html").read_text(encoding="utf-8"))
        assert "$x_{$ [bold]" in repr(record)  # neither mathematics nor markup
    for text in texts:
        assert not re.search("[\x00\x1b\u202e\ud800]", text)
        assert "<b>" not in text or text is texts[0]
