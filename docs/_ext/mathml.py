"""Formulas as MathML, which browsers show without scripts, fonts or network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.writers.html5 import HTML5Translator

_LOGGER = logging.getLogger(__name__)


def _write(translator: HTML5Translator, node: nodes.Element, *, block: bool) -> None:
    try:
        formula = tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        _LOGGER.warning("cannot convert the formula: %s", error, location=node)
        formula = translator.encode(node.astext())
    translator.body.append(f'<div class="math">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def _inline(translator: HTML5Translator, node: nodes.math) -> None:
    _write(translator, node, block=False)


def _block(translator: HTML5Translator, node: nodes.math_block) -> None:
    _write(translator, node, block=True)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer ``mathml``."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
