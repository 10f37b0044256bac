"""Formulas as MathML, which browsers render without scripts, fonts or network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_LOGGER = logging.getLogger(__name__)


def _write(translator: HTML5Translator, node: nodes.Element, display: str) -> None:
    formula = convert(node.astext(), display=display)
    if "\\" in formula:  # the converter leaves unknown commands as they are
        _LOGGER.warning("formula must contain known commands, got %s", node, location=node)
    block = display == "block"
    translator.body.append(f'<div class="math">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    _write(translator, node, "inline")


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    _write(translator, node, "block")


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
