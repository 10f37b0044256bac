"""Charts as SVG elements of an HTML page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from matplotlib.figure import Figure

from adokernels.charts.files import to_svg
from adokernels.text import printable

#: Maximum number of characters of an alternative text.
_LONGEST_LABEL = 10_000
_REFERENCE = re.compile(r"url\(#([^)]*)\)")
#: Elements to omit: Matplotlib's metadata, which contains addresses, and its style sheet, which
#: would apply to the whole page. The style sheet of the page contains the same rule.
_DROPPED = ("metadata", "style")


def inline_svg(figure: Figure, prefix: str, label: str) -> str:
    """Render a figure as an ``svg`` element without a size. The page determines the size.

    Matplotlib uses the same identifiers in each figure, for example for glyphs and clip paths.

    Parameters
    ----------
    figure
        The figure.
    prefix
        The prefix of all identifiers, unique for each figure of a page.
    label
        The alternative text.
    """
    root = ElementTree.fromstring(to_svg(figure))
    parents = list(root.iter())
    for parent in parents:
        for child in list(parent):
            if _local(child.tag) in _DROPPED:
                parent.remove(child)
    for element in root.iter():
        element.tag = _local(element.tag)
        attributes = {_local(name): value for name, value in element.attrib.items()}
        element.attrib = {name: _renamed(name, v, prefix) for name, v in attributes.items()}
    root.attrib = {
        "class": "chart",
        "role": "img",
        "aria-label": printable(label, _LONGEST_LABEL),
        "viewBox": root.attrib["viewBox"],
    }
    return ElementTree.tostring(root, encoding="unicode").strip()


def _local(name: str) -> str:
    """A name without its namespace. HTML needs none, and ``href`` replaces ``xlink:href``."""
    return name.rpartition("}")[2]


def _renamed(name: str, value: str, prefix: str) -> str:
    """The value of an attribute, with the prefix added to identifiers and references."""
    if name == "id":
        return prefix + value
    if name == "href" and value.startswith("#"):
        return f"#{prefix}{value[1:]}"
    return _REFERENCE.sub(rf"url(#{prefix}\1)", value)
