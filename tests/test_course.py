"""Published figures next to our figures."""

import re
from pathlib import Path

import pytest
from pages import rows_of

import adokernels as ado
from adobook import published as published_figures
from adobook.figures import figures, ranks
from adobook.published import Published, read

TIMES = "\N{MULTIPLICATION SIGN}"
DATA = Path(__file__).parent.parent / "notebooks" / "data"


@pytest.fixture(scope="module")
def ladder():
    return ado.load(DATA / "transpose-int64-8192.json.xz")


def published(**given):
    default = {
        "document": "slides", "item": "B4", "quantity": "seconds", "value": 2.72e-3, "unit": "s",
        "device": "A100", "variant": "naive", "source": "slide 15",
    }  # fmt: skip
    return Published(**{**default, **given})


# --- published figures ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (2.72e-3, "s", "2.72 ms"),
        (0.5922, "%", "59.22 %"),
        (67_108_864, "", "67,108,864"),
        (4.0, "times", f"{TIMES}4.00"),
        (109.1, "cycles", "109.1 cycles"),
        (236.7e9, "B/s", "236.7 GB/s"),
        ("latency", "", "latency"),
    ],
)
def test_published_values_keep_their_digits(value, unit, text):
    assert published(value=value, unit=unit).text == text


image_filters, transpose = read("image_filters"), read("transpose")
DOCUMENTS = [path.stem for path in Path(published_figures.__file__).parent.glob("*.toml")]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_figures_of_documents_are_complete(name):
    found = published_figures.read(name).FIGURES
    assert found
    variants = {v.name for routine in ado.routines for v in getattr(ado, routine)}
    keys = [(p.quantity, p.title, p.variant, p.device, p.source) for p in found]
    assert len(set(keys)) == len(keys)
    for p in found:
        assert re.fullmatch(r"[A-E]\d+", p.item)
        assert p.variant in variants | {""} or ado.sectors(p.variant)  # or an access pattern
        assert p.text
        assert all((p.document, p.quantity, p.device, p.source))


# --- figures --------------------------------------------------------------------------------------


def shown(m, *given, variant=""):
    """The header and the rows of the table with these published figures or quantities."""
    given = [published(quantity=p, variant=m.variant) if isinstance(p, str) else p for p in given]
    return rows_of(figures(m, given, variant or m.variant))


def test_figures_show_the_documents_value_next_to_ours(ladder):
    naive = ladder["naive"]
    header, rows = shown(
        naive,
        published(),
        published(quantity="memory_sol", value=0.5922, unit="%"),
        published(quantity="dram_sol", value=0.26, unit="%", document="other", device="K40"),
        published(quantity="registers", value=1.0, variant="tiled"),
    )
    assert header == ["quantity", "slides, A100", "other, K40", "naive, NVIDIA H200"]
    assert list(rows) == ["time", "speed of light: memory", "speed of light: DRAM"]
    assert rows["time"] == ["2.72 ms", "", f"{1e3 * naive.seconds:.2f} ms"]
    ours = 100 * naive.profile["memory_sol"]
    assert rows["speed of light: memory"] == ["59.22 %", "", f"{ours:.1f} %"]
    assert rows["speed of light: DRAM"][:2] == ["", "26 %"]


def test_ranks_are_proportional_to_the_time_beyond_the_roof():
    edges = ado.load(DATA / "edge_detect-2560x1600.json.xz")
    kernels = edges.stages_of(edges["pipeline_naive"])
    gains = {m.routine: m.seconds - m.bytes / edges.roof for m in kernels}
    found = ranks(kernels, edges.roof)
    assert max(found.values()) == 100
    assert found["sobel"] / 100 == pytest.approx(gains["sobel"] / max(gains.values()))
