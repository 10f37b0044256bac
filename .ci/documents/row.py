"""The records from which docs/documents.md is written."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One item of a document.

    Attributes
    ----------
    item
        Its number in the list of items, for example ``"A12"``.
    text
        What the document says or does there.
    where
        Targets that show it. A variant: ``"transpose[tiled]"``; a section of a notebook:
        ``"01: The ladder"``; a name of the package or the course: ``"ado.diagnose"``,
        ``"course.figures"``; a card: ``"card occupancy"``; a command, also with an option:
        ``"adokernels profile"``; or a file of the repository: ``"docs/diagnosis.md"``.
    here
        Our figures, from the stored ladder: ``"tiled.seconds"``, a quantity of a variant, or
        ``"naive > tiled"``, the ratio of two times; the model of an access pattern,
        ``"pattern stride 3"`` or ``"pattern aligned of 8 bytes"``; or a figure of stored machine
        code, ``"sass max_plus-float64-one_block.loop"``. The name of another record may precede:
        ``"course/branch: by_lane > by_warp"``, ``"course/strided_copy-offsets:
        naive(offset=1).seconds"``; of samples, ``"course/NAME: hottest"``;
        ``"ranks of coalesced"``, of the filters of the talk. Those that correspond
        to a published figure of the item are added.
    note
        What differs here.
    with_items
        Other items whose published figures are repeated.
    cannot
        Why the item itself is not shown; empty if it is.
    stored
        The stored ladder, a file of notebooks/data; by default that of the document.
    """

    item: str
    text: str
    where: tuple[str, ...] = ()
    here: tuple[str, ...] = ()
    note: str = ""
    with_items: tuple[str, ...] = ()
    cannot: str = ""
    stored: str = ""


@dataclass(frozen=True)
class Document:
    """One document.

    Attributes
    ----------
    letter
        The first letter of its items.
    count
        The number of its items.
    title, address
        Its title and where it is published.
    stored
        The stored ladder from which our figures are taken.
    rows
        Its items in order.
    remark
        What holds for all its rows.
    """

    letter: str
    count: int
    title: str
    address: str
    stored: str
    rows: tuple[Row, ...]
    remark: str = ""
