"""docs/documents: items and figures are complete, and everything that the pages name exists."""

import functools
import inspect
import re
from operator import getitem

import pytest

import adokernels as ado
from adobook import published
from adobook.pages import documents, stored
from adokernels import cli

DOCS = stored.ROOT / "docs"
ROWS = {
    cells[0]: cells
    for letter in "abcde"
    for line in re.findall(
        r"^\| ([A-E]\d+ \|.*) \|$", (DOCS / f"documents/{letter}.md").read_text("utf-8"), re.M
    )
    if (cells := line.split(" | "))
}
COUNTS = {"A": 35, "B": 33, "C": 50, "D": 26, "E": 24}


@functools.cache
def sweeps():
    return stored.sweeps()


def figures_of(letter):
    """The published figures of a document."""
    files = sorted((stored.ROOT / "book/adobook/published").glob("*.toml"))
    found = [p for file in files for p in published.read(file.stem).FIGURES]
    return [p for p in found if p.item.startswith(letter)]


def test_every_item_of_the_documents_has_a_row_with_a_target():
    assert list(ROWS) == [f"{x}{i + 1}" for x, count in COUNTS.items() for i in range(count)]
    assert all(len(cells) == 5 for cells in ROWS.values())
    assert all(cells[2] for cells in ROWS.values())


@pytest.mark.parametrize("letter", COUNTS)
def test_published_figures_are_listed_beside_ours(letter):
    sweep = sweeps()[documents.LADDERS[letter]]
    ours, compared = documents.of(sweep), 0
    for p in figures_of(letter):
        *_, theirs, here = ROWS[p.item]
        assert p.text in theirs
        measured = p.variant in {m.variant for m in sweep} and p.quantity in (
            "seconds",
            "registers",
        )
        if measured and "`naive 32 x 32`" not in here:  # another record
            assert ours[p.variant][p.quantity] in here, p
            compared += 1
    assert compared > 1 or letter in "BE"


# --- what the page names --------------------------------------------------------------------------


def problem(target):
    """Why something that the page names does not exist; None if it does."""
    if target.startswith("Partly: "):
        return None
    if match := re.fullmatch(r"\[card (\w+)\]\(\.\./cards\.md\)", target):
        return None if match[1] in ado.cards else "card"
    if match := re.fullmatch(r"\[.*\]\((.*?)(#.*)?\)", target):
        return None if (DOCS / "documents" / match[1]).is_file() else "file"
    if match := re.fullmatch(r"`(\w+)\[(\w+)\]`", target):
        known = ado.routines.get(match[1], ())
        return None if match[2] in [v.name for v in known] else "variant"
    if match := re.fullmatch(r"`ado\.([\w.]+)`", target):
        found = ado
        for name in match[1].split("."):
            value = getattr(found, name, None)
            public = name in dir(found) and not inspect.ismodule(value)
            if not (public or value is ado.records):
                return "name"
            found = value
        return None
    return "target"


def test_everything_that_shows_an_item_exists(capsys):
    targets = {target for cells in ROWS.values() for target in cells[2].split("<br>")}
    commands = {t for t in targets if t.startswith("`adokernels ")}
    assert {target: problem(target) for target in targets - commands if problem(target)} == {}
    for command, option in (re.findall(r"`adokernels (\w+) ?(\S*)`", c)[0] for c in commands):
        with pytest.raises(SystemExit) as ended:
            cli.main([command, "--help"])
        assert not ended.value.code
        assert option in capsys.readouterr().out


# --- figures --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "names", "shown"),
    [
        ("transpose-float32-8192", ["naive", "store_sectors_per_request"], "32.0 (ideal 4)"),
        ("course/strided_copy-offsets", ["naive(offset=1)", "load_sectors_per_request"], "5.00"),
        ("course/average_matvec-plain_warp_average", ["load_sectors"], "268,435,456"),
        ("course/transpose-hotspots-naive", ["drain"], "68 %"),
        ("course/gpp-traffic-collapse3", ["bytes of l1tex__t_bytes.sum"], "669 GB"),
    ],
)
def test_our_figures_are_those_of_the_stored_record(record, names, shown):
    found = documents.of(ado.load(stored.DATA / f"{record}.json.xz"))
    assert functools.reduce(getitem, names, found) == shown
