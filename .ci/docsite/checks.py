"""Checks of the built pages: every link leads somewhere, and nothing is loaded from the network."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Elements whose address a browser loads when it shows the page, with the attribute.
_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
_REMOTE = re.compile(r"""(?:url\(|@import\s)\s*["']?(?:https?:)?//[^)"']*""")


class _Page(HTMLParser):
    """The addresses and anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.loaded: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Record what the element refers to."""
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
    """List links to missing files and anchors, and addresses that are loaded from the network."""
    pages = sorted(folder.rglob("*.html"))
    errors = [f"{page.relative_to(folder)}: {error}" for page in pages for error in _errors(page)]
    for style in sorted(folder.rglob("*.css")):
        remote = _REMOTE.findall(style.read_text(encoding="utf-8"))
        errors += [f"{style.relative_to(folder)}: loads {address}" for address in remote]
    return errors


def _errors(path: Path) -> Iterator[str]:
    page = _page(path)
    for address in sorted(page.loaded):
        if urlsplit(address).netloc:
            yield f"loads {address}"
    for address in sorted(page.links | page.loaded):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        if not target.is_file():
            yield f"{address} does not exist"
            continue
        fragment = unquote(parts.fragment) if target.suffix == ".html" else ""
        if fragment and fragment not in _page(target).anchors:
            yield f"{address} has no such anchor"
