"""Checks of the built pages: link targets must exist, and all assets must be local."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Elements whose address a browser loads with the page, and the attribute with the address.
_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
_REMOTE = re.compile(r"""(?:url\(|@import\s)\s*["']?(?:https?:)?//[^)"']*""")

_NOT_LOCAL = "assets must be local, got "


class _Page(HTMLParser):
    """The addresses and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Record the addresses and anchors of the element."""
        values = {key: value for key, value in attributes if value}
        self.anchors |= {values[key] for key in ("id", "name") if key in values}
        if address := values.get(_LOADED.get(tag, "")):
            self.loaded.add(address)
        if tag == "a" and "href" in values:
            self.links.add(values["href"])


@functools.cache
def _page(path: Path) -> _Page:
    return _Page(path.read_text(encoding="utf-8"))


def errors_in(folder: Path) -> list[str]:
    """List links to missing files and anchors, and assets that are loaded from the network."""
    pages = sorted(folder.rglob("*.html"))
    errors = [f"{page.relative_to(folder)}: {error}" for page in pages for error in _errors(page)]
    for style in sorted(folder.rglob("*.css")):
        remote = _REMOTE.findall(style.read_text(encoding="utf-8"))
        errors += [f"{style.relative_to(folder)}: {_NOT_LOCAL}{address}" for address in remote]
    return errors


def _errors(path: Path) -> Iterator[str]:
    page = _page(path)
    for address in sorted(page.loaded):
        if urlsplit(address).netloc:
            yield _NOT_LOCAL + address
    for address in sorted(page.links | page.loaded):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.is_file():
            yield f"links must point to existing files, got {address}"
            continue
        fragment = unquote(parts.fragment) if target.suffix == ".html" else ""
        if fragment and fragment not in _page(target).anchors:
            yield f"links must point to existing anchors, got {address}"
