"""A picture of heat maps: kernels with the emulator's counts beside each line, as SVG."""

from __future__ import annotations

from adobook.pages.stored import DATA
from adokernels.code_text import Listing, html_lines
from adokernels.records.heatmap import ACCESSES, Heatmap
from adokernels.records.loading import load
from adokernels.tables import tables_of
from adokernels.text import escaped

#: Variants with stored counts of the emulator, for 128 x 128 float32. A test repeats the counts.
VARIANTS = ("naive", "tiled")
_FONT = 12
#: Width of a character and height of a line, in pixels.
_WIDE, _HIGH = 0.6 * _FONT, 17
_MARGIN, _GAP = 10, 2  # pixels, characters
_START = "__global__"
_STYLE = (
    f"text{{font:{_FONT}px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;"
    "fill:#1f2328;white-space:pre}.h{font-weight:bold}.m{fill:#666}"
    "@media(prefers-color-scheme:dark){text{fill:#e6edf3}.m{fill:#9da5ae}}"
)


def emulated(variant: str) -> Heatmap:
    """The stored counts of a variant of transpose on the emulator."""
    found = load(DATA / "emulated" / f"transpose-{variant}.json")
    assert isinstance(found, Heatmap)
    return found


def svg() -> str:
    """Draw the kernels of the variants one above the other; the page can be light or dark."""
    parts: list[str] = []
    y, columns = float(_MARGIN), 0
    for variant in VARIANTS:
        heat = emulated(variant)
        drawn, wide, high = _kernel(heat, y)
        parts += drawn
        y, columns = y + high + _HIGH / 2, max(columns, wide)
    width, height = round(2 * _MARGIN + _WIDE * columns), round(y)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}"><style>{_STYLE}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def _title(heat: Heatmap) -> str:
    units = {"stores": "sectors", "shared_loads": "wavefronts"}
    found = {kind: heat.total(kind) for kind in units if heat.total(kind).requests}
    words = [
        f"{ACCESSES[kind]} {total.per_request:.0f} {units[kind]} per request "
        f"(ideal {total.ideal_per_request:.0f})"
        for kind, total in found.items()
    ]
    return f"{heat.routine}[{heat.variant}] on the {heat.source}: {', '.join(words)}"


def _kernel(heat: Heatmap, top: float) -> tuple[list[str], int, float]:
    """The elements of a kernel, its width in characters and its height in pixels."""
    blocks = (block for block in tables_of(heat) if isinstance(block, Listing))
    listing = next(block for block in blocks if _START in block.code)
    columns = zip(*listing.marks.values(), strict=True)
    widths = [
        max(len(header), *(len(mark.text) for mark in column))
        for header, column in zip(listing.headers, columns, strict=True)
    ]
    edges = [sum(widths[:i]) + _GAP * i for i in range(len(widths) + 1)]
    cells = list(zip(edges, widths, strict=False))
    parts = [_text(0, top + _HIGH, escaped(_title(heat)), "h")]
    for (edge, width), header in zip(cells, listing.headers, strict=True):
        parts.append(_text(edge, top + 2 * _HIGH, header.rjust(width), "m"))
    code = listing.code.split("\n")
    skipped = next(i for i, line in enumerate(code) if _START in line)
    for i, line in enumerate(html_lines(listing.code)[skipped:]):
        y = top + (3 + i) * _HIGH
        for (edge, width), mark in zip(
            cells, listing.marks.get(listing.first + skipped + i, ()), strict=False
        ):
            if mark.heat:
                parts.append(
                    f'<rect x="{_MARGIN + _WIDE * edge:.1f}" y="{y - 0.75 * _HIGH:.1f}" '
                    f'width="{_WIDE * width:.1f}" height="{_HIGH}" fill="#ea6e14" '
                    f'fill-opacity="{0.75 * mark.heat:.2f}"/>'
                )
            if mark.text:
                parts.append(_text(edge, y, escaped(mark.text.rjust(width))))
        spans = line.replace('<span style="color:', '<tspan style="fill:')
        parts.append(_text(edges[-1], y, spans.replace("</span>", "</tspan>")))
    return parts, edges[-1] + max(map(len, code[skipped:])), _HIGH * (2 + len(code) - skipped)


def _text(column: float, y: float, content: str, kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    x = _MARGIN + _WIDE * column
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" xml:space="preserve">{content}</text>'
