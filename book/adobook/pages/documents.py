"""docs/documents.md: all items of the five documents, with the places that show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import adokernels as ado
from adobook.pages.document_figures import (
    Figure,
    counterparts,
    device_of,
    of_document,
    ours,
    published_gains,
    published_of,
)
from adobook.pages.stored import Record, contexts_of, course_records, fill_template, origin
from adobook.pages.targets import link
from adobook.published import Published, read_toml
from adobook.text import slug, write_table

#: Between parts of a cell.
_BREAK = "<br>"
_WITHOUT_FIGURES = (
    "Items without figures are definitions, rules, code, cards and steps in a user interface."
)


@dataclass(frozen=True)
class Row:
    """One item of a document. documents/README.md explains the fields."""

    item: str
    text: str
    where: Sequence[str] = ()
    here: Sequence[str] = ()
    note: str = ""
    with_items: Sequence[str] = ()
    cannot: str = ""
    partly: str = ""
    chart: bool = False
    stored: str = ""


@dataclass
class Document:
    """One document: a TOML file, with its published figures and all stored records.

    documents/README.md explains the fields of the file.
    """

    letter: str
    count: int
    title: str
    ladder: str
    rows: tuple[Row, ...]
    records: Mapping[str, Record]
    known: tuple[Published, ...]
    address: str = ""
    remark: str = ""

    @property
    def heading(self) -> str:
        """The heading of the section of the document."""
        return f"{self.letter}. {self.title}"

    @property
    def prefix(self) -> str:
        """The part of the names of records that the table omits."""
        return self.ladder.partition("-")[0] + "-"

    def sweep_of(self, row: Row) -> ado.records.Sweep:
        """The stored ladder of a row."""
        sweep = self.records[row.stored or self.ladder]
        assert isinstance(sweep, ado.records.Sweep)
        return sweep

    def published(self, row: Row) -> list[Published]:
        """The published figures of a row."""
        return [p for p in self.known if p.item in (row.item, *row.with_items)]

    def figures(self, row: Row) -> list[Figure]:
        """Our figures of a row: the named figures, and the counterparts of published figures."""
        counted = counterparts(self.published(row), self.sweep_of(row))
        names = dict.fromkeys([*row.here, *counted])
        figures = (ours(self.records, row.stored or self.ladder, name) for name in names)
        return [figure._replace(place=self._display(figure.place)) for figure in figures]

    def _display(self, place: str) -> str:
        """The display name of a record; empty for the default record."""
        if place in ("", self.ladder):
            return ""
        return f"`{place.removeprefix('course/').removeprefix(self.prefix)}`"

    def problems(self) -> Iterator[str]:
        """Problems of the rows: missing items, targets and figures."""
        items = [row.item for row in self.rows]
        expected = [f"{self.letter}{n}" for n in range(1, self.count + 1)]
        if items != expected:
            yield f"{self.letter}: items must be {expected}, got {items}"
        for p in self.known:
            if p.item not in items:
                yield f"{p.item}: {p.quantity} is published, but {self.title} does not list it"
        for row in self.rows:
            if not row.where and not row.cannot:
                yield f"{row.item}: row must have a target or a reason"
            if row.partly and row.cannot:
                yield f"{row.item}: row must be partly shown or not shown, got both"
            checks: list[Callable[[], object]] = [partial(link, target) for target in row.where]
            checks.append(partial(self.figures, row))
            for check in checks:
                try:
                    check()
                except ValueError as error:
                    yield f"{row.item}: {error}"

    def cells(self, row: Row) -> tuple[str, ...]:
        """The cells of a row of the table."""
        device, published = device_of(self.known), self.published(row)
        shown = [of_document(p, device) for p in published]
        shown += published_gains(row.here, self.known)
        where = sorted(row.where, key=lambda target: not target[0].isdigit())  # sections first
        reason = f"Not shown: {row.cannot}" if row.cannot else ""
        reason += f"Partly shown: {row.partly}" if row.partly else ""
        here = filter(None, (listed(self.figures(row)), reason, row.note))
        links = _BREAK.join(map(link, where))
        return row.item, row.text, links, listed(shown), _BREAK.join(here)

    def section(self) -> str:
        """The section of the document."""
        device, machine = device_of(self.known), self.sweep_of(Row("", "")).machine
        omitted = f"Our record: `{self.ladder}`. Names of other records omit `{self.prefix}`."
        headers = ["item", "content", "shown by", f"published, {device}" if device else "published"]
        headers.append(f"here, {machine.name if machine else ''}")
        address = f"<{self.address}>" if self.address else ""
        rows = write_table(headers, map(self.cells, self.rows))
        parts = [f"## {self.heading}", address, f"{omitted} {self.remark}".rstrip(), rows]
        return "\n\n".join(filter(None, parts))


def documents(records: Mapping[str, Record]) -> tuple[Document, ...]:
    """The documents in order."""
    files = (Path(__file__).parents[1] / "documents").glob("*.toml")
    return tuple(
        Document(
            **{
                **settings,
                "rows": tuple(Row(item, **row) for item, row in settings["rows"].items()),
            },
            records=records,
            known=published_of(settings["letter"]),
        )
        for settings in sorted(map(read_toml, files), key=lambda settings: settings["letter"])
    )


def text(sweeps: Mapping[str, ado.records.Sweep]) -> str:
    """Return the page in Markdown. ValueError: rows, targets or figures are missing."""
    stored = {**sweeps, **course_records()}
    found = documents(stored)
    check(found)
    rows = [row for document in found for row in document.rows]
    missing = [f"{row.item} ({row.cannot})" for row in rows if row.cannot]
    partly = [f"{row.item} ({row.partly})" for row in rows if row.partly]
    sentences = [f"Not shown: {'; '.join(missing)}." if missing else "No item is missing."]
    sentences += [f"Partly shown: {'; '.join(partly)}."] if partly else []
    return fill_template(
        "documents.md",
        count=sum(document.count for document in found),
        summary=_summary(found),
        missing=" ".join([*sentences, _WITHOUT_FIGURES]),
        origin=origin(contexts_of(stored.values())),
        documents="\n\n".join(document.section() for document in found),
    )


def check(found: Iterable[Document]) -> None:
    """Raise a ValueError with all problems of the documents."""
    if problems := [problem for document in found for problem in document.problems()]:
        raise ValueError("\n".join(f"docs/documents.md: {problem}" for problem in problems))


def _summary(found: Iterable[Document]) -> str:
    lines: list[tuple[object, ...]] = []
    for document in found:
        shown = [not row.cannot and not row.partly for row in document.rows]
        partly = [bool(row.partly) for row in document.rows]
        published = [bool(document.published(row)) for row in document.rows]
        figures = [bool(document.figures(row)) for row in document.rows]
        title = f"[{document.heading}](#{slug(document.heading)})"
        counts = (shown, partly, published, figures)
        lines.append((title, len(document.rows), *map(sum, counts)))
    totals = [sum(column) for column in zip(*(line[1:] for line in lines), strict=True)]
    lines.append(("**all**", *(f"**{total}**" for total in totals)))
    figures_of = ("with published figures", "with our figures")
    headers = ("document", "items", "shown", "partly", *figures_of)
    return write_table(headers, lines)


def listed(figures: Iterable[Figure]) -> str:
    """List figures. The figures of one variant follow its name and place."""
    found: dict[tuple[str, str], list[str]] = {}
    for variant, words, place in figures:
        found.setdefault((variant, place), []).append(words)
    return _BREAK.join(f"{_label(*key)}{'; '.join(texts)}" for key, texts in found.items())


def _label(variant: str, place: str) -> str:
    if variant:
        return f"`{variant}` ({place}): " if place else f"`{variant}`: "
    return f"{place}: " if place else ""
