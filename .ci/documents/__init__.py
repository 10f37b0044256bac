"""Where each item of the five documents is shown: rows of docs/documents.md, one module each."""

from __future__ import annotations

from documents import average_matvec, gpp, image_filters, max_plus, transpose

DOCUMENTS = (
    average_matvec.DOCUMENT,
    transpose.DOCUMENT,
    image_filters.DOCUMENT,
    max_plus.DOCUMENT,
    gpp.DOCUMENT,
)
