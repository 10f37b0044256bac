"""docs/documents.md: every item of the five documents has a target that exists, or a reason."""

import dataclasses
import functools
import re

import pytest

from adobook.pages import document_figures, documents, stored, targets
from adobook.pages.document_figures import Figure
from adokernels.text import ratio

TEXT = (stored.ROOT / "docs" / "documents.md").read_text(encoding="utf-8")
LETTERS = "ABCDE"

#: The record of figures without the name of another record.
LADDER = "transpose-float32-8192"


@functools.cache
def records():
    return {**stored.sweeps(), **stored.course_records()}


@functools.cache
def audited():
    """The five documents."""
    return documents.documents(records())


def document_of(letter):
    return audited()[LETTERS.index(letter)]


def test_every_item_of_the_audit_has_a_row():
    assert "".join(document.letter for document in audited()) == LETTERS
    items = [row.item for document in audited() for row in document.rows]
    assert len(items) == len(set(items)) == 168
    assert re.findall(r"^\| ([A-E]\d+) \|", TEXT, re.M) == items
    documents.check(audited())


@pytest.mark.parametrize("letter", LETTERS)
def test_published_figures_are_listed_beside_ours(letter):
    document = document_of(letter)
    published = document.known
    rows = dict(re.findall(r"^\| ([A-E]\d+) (\|.*)$", TEXT, re.M))
    for item in {p.item for p in published}:
        of_item = [p for p in published if p.item == item]
        assert all(p.text in rows[item] for p in of_item), item
        assert "<br>..." not in rows[item]
    for row in document.rows:
        name = row.stored or document.ladder
        of_item = [p for p in published if p.item == row.item]
        for figure in document_figures.counterparts(of_item, document.sweep_of(row)):
            assert document_figures.ours(records(), name, figure).text in rows[row.item], row.item


def contents(row):
    """The sections of notebooks that show a row."""
    return [found for target in row.where if (found := targets.section(target))]


@pytest.mark.parametrize("letter", LETTERS)
def test_sections_contain_the_published_figures_and_the_charts(letter):
    document, missing = document_of(letter), []
    for row in document.rows:
        sections = contents(row)
        if row.partly or row.cannot or not sections:
            continue
        text = "\n".join(section.text for section in sections)
        published = [p.text for p in document.known if p.item == row.item]
        # A table can have the unit in its heading.
        missing += [
            f"{row.item}: {figure}"
            for figure in published
            if figure not in text and figure.split(" ")[0] not in text
        ]
        if row.chart and not any(section.charts for section in sections):
            missing.append(f"{row.item}: no chart")
    assert missing == []


@pytest.mark.parametrize(
    "target",
    [
        "transpose[tiled]",
        "card occupancy",
        "ado.diagnose",
        "ado.Variant.source",
        "course.figures",
        "adokernels profile",
        "adokernels profile --shape",
        "docs/cards.md",
    ],
)
def test_a_target_exists(target):
    assert target in targets.link(target)


def test_a_section_of_a_notebook_exists():
    for number, (path, titles) in targets.headings().items():
        assert len(titles) > 3
        assert path.name in targets.link(f"{number}: {list(titles)[-1]}")
    assert len(targets.headings()) >= 6


@pytest.mark.parametrize(
    "target",
    [
        "transpose[nothing]",
        "nothing[tiled]",
        "01: Nothing",
        "99: Exercises",
        "card nothing",
        "ado.nothing",
        "ado.Variant.nothing",
        "ado.annotations",  # a name of the module that is not public
        "course.nothing",
        "adokernels nothing",
        "adokernels profile --nothing",
        "docs/nothing.md",
        "nothing at all",
    ],
)
def test_a_target_that_does_not_exist_is_found(target):
    with pytest.raises(ValueError, match=re.escape(repr(target))):
        targets.link(target)


@pytest.mark.parametrize(
    ("figure", "shown"),
    [
        ("naive > tiled", Figure("", f"`naive` to `tiled` {ratio(1.86)}", LADDER)),
        (
            "naive.store_sectors_per_request",
            Figure("naive", "sectors per store request 32.0", LADDER),
        ),
        ("tiled.next_step", Figure("tiled", "next step: avoid bank conflicts", LADDER)),
        ("tiled.limiter", Figure("tiled", "limiter: latency", LADDER)),
        ("machine", Figure("", "NVIDIA H200")),
        (
            "ranks of coalesced",
            Figure(
                "coalesced", "rank of gaussian_blur 100; rank of grayscale 22; rank of sobel 38"
            ),
        ),
        ("pattern stride 3", Figure("stride 3", "sectors 12, lines 3, utilisation 33.3 %")),
        (
            "course/strided_copy-offsets: naive(offset=1).load_sectors_per_request",
            Figure(
                "naive, offset 1", "sectors per load request 5.00", "course/strided_copy-offsets"
            ),
        ),
        (
            "course/average_matvec-plain_warp_average: load_sectors",
            Figure("", "load sectors 268,435,456", "course/average_matvec-plain_warp_average"),
        ),
        (
            "course/transpose-hotspots-naive: drain",
            Figure("", "in drain 69 % of samples", "course/transpose-hotspots-naive"),
        ),
    ],
)
def test_our_figures_are_those_of_the_stored_record(figure, shown):
    assert document_figures.ours(records(), LADDER, figure) == shown


@pytest.mark.parametrize(
    "figure",
    [
        "nave.seconds",
        "naive.nothing",
        "naive > nothing",
        "nothing",
        "nothing: naive.seconds",
        "course/strided_copy-offsets: naive(offset=99).seconds",
        "course/strided_copy-offsets: naive(nothing=1).seconds",
        "course/average_matvec-plain_warp_average: nothing",
        "course/transpose-hotspots-naive: nothing",
    ],
)
def test_a_figure_that_was_not_measured_is_found(figure):
    with pytest.raises(ValueError, match="no figure"):
        document_figures.ours(records(), LADDER, figure)


def test_the_page_counts_its_items():
    shown = sum(not row.cannot for document in audited() for row in document.rows)
    assert f"| **all** | **168** | **{shown}** |" in TEXT
    rows = re.findall(r"^\| [A-E]\d+ \|.*\|$", TEXT, re.M)
    with_ours = sum(not row.endswith("|  |") for row in rows)
    notes = sum(  # rows whose last cell is only a remark
        bool(row.note or row.cannot) and not document.figures(row)
        for document in audited()
        for row in document.rows
    )
    assert f"**{with_ours - notes}** |" in TEXT
    for document in audited():
        assert all(f"{row.item} ({row.cannot})" in TEXT for row in document.rows if row.cannot)


def test_figures_of_another_record_or_device_name_it():
    figures = [Figure("a", "1", ""), Figure("a", "2", ""), Figure("a", "3", "`x`"), Figure("", "4")]
    assert documents.listed(figures) == "`a`: 1; 2<br>`a` (`x`): 3<br>4"


def changed(rows):
    """A document with other rows."""
    document = documents.documents(records())[0]
    document.rows = rows
    return document


def test_wrong_rows_stop_the_generator(monkeypatch):
    first, *others = audited()[0].rows

    def problems(*rows):
        return list(changed(rows).problems())

    assert problems(first, *others) == []
    assert any("items must be" in problem for problem in problems(*others))
    unknown = dataclasses.replace(first, where=("ado.nothing", "docs/nothing.md"))
    assert problems(unknown, *others) == [
        "A1: no name 'ado.nothing'",
        "A1: no file 'docs/nothing.md'",
    ]
    empty = dataclasses.replace(first, where=(), note="a note is not a reason")
    assert problems(empty, *others) == ["A1: row must have a target or a reason"]
    wrong = dataclasses.replace(first, here=("one_block.nothing",))
    assert ["no figure" in problem for problem in problems(wrong, *others)] == [True]
    wrong_documents = (changed((unknown, *others)), *audited()[1:])
    monkeypatch.setattr(documents, "documents", lambda stored: wrong_documents)
    with pytest.raises(ValueError, match=r"docs/documents.md: A1: no name"):
        documents.text(stored.sweeps())


def test_a_published_figure_without_an_item_stops_the_generator():
    document = documents.documents(records())[2]
    document.known = (dataclasses.replace(document.known[0], item="C51"),)
    assert any(problem.startswith("C51: ") for problem in document.problems())
