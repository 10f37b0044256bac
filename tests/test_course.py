"""Tables in Markdown, and published figures next to our figures."""

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
        (5.233e-3, "s", "5.233 ms"),
        (0.5922, "%", "59.22 %"),
        (0.49, "%", "49 %"),
        (0.2, "%", "20 %"),
        (67_108_864, "", "67,108,864"),
        (4.0, "times", f"{TIMES}4.00"),
        (14, "", "14"),
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


def test_figures_show_published_sectors_beyond_the_ideal(ladder):
    given = [p for p in transpose.FIGURES if p.item in ("B7", "B26")]
    header, rows = shown(ladder["naive"], *given)
    assert header[1] == "Course slides, A100"
    profile = ladder["naive"].profile
    ratio = profile["store_sectors_per_request"] / 8
    assert rows["store sectors relative to the ideal"] == [f"{TIMES}4.00", f"{TIMES}{ratio:.2f}"]
    excess = profile["store_sectors"] - profile["ideal_store_sectors"]
    assert rows["store sectors beyond the ideal"] == ["50,331,648", f"{excess:,.0f}"]
    header, _ = shown(ladder["tiled"], *given, variant="naive")
    assert header == ["quantity", "Course slides, A100", "tiled, NVIDIA H200"]


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


def test_figures_show_sectors_next_to_their_ideal(ladder):
    _, rows = shown(ladder["naive"], "store_sectors_per_request")
    assert rows["sectors per store request"][-1] == "32.0 (ideal 8)"
    assert ladder["naive"].profile.ideal_sectors_per_request("store") == 8


def test_figures_name_the_stall_reason_with_the_most_cycles(ladder):
    profile = ladder["tiled"].profile
    stalls = {k: v for k, v in profile.quantities.items() if k.startswith("stall_")}
    worst = max(stalls, key=stalls.get)
    _, rows = shown(ladder["tiled"], "dominant_stall")
    name = worst.removeprefix("stall_").replace("_", " ")
    assert rows["dominant stall reason"][-1] == f"{name}, {stalls[worst]:.1f} cycles"


def test_an_issued_instruction_is_not_a_stall():
    m = ado.load(DATA / "sobel-2560x1600.json.xz")["sliding_window"]
    stalls = {k: v for k, v in m.profile.quantities.items() if k.startswith("stall_")}
    assert max(stalls, key=stalls.get) == "stall_selected"
    *_, reason = shown(m, "dominant_stall")[1]["dominant stall reason"]
    assert reason
    assert not reason.startswith("selected")


def test_figures_have_rows_for_further_published_quantities(ladder):
    profile = ladder["naive"].profile
    _, rows = shown(
        ladder["naive"],
        published(quantity="store_sectors", value=67_108_864, unit=""),
        published(quantity="sm__cycles_elapsed.max", value=2_961_102, unit="", title="cycles"),
        published(quantity="branch instructions", value=4_194_304, unit=""),
    )
    assert rows["store sectors"] == ["67,108,864", f"{profile['store_sectors']:,.0f}"]
    assert rows["cycles"] == ["2,961,102", f"{profile['sm__cycles_elapsed.max']:,.0f}"]
    assert rows["branch instructions"] == ["4,194,304", ""]


def test_figures_are_empty_without_data(ladder):
    def ours(m, key):
        (row,) = shown(m, key)[1].values()
        return row[-1]

    assert not ours(ladder["naive"], "conflict_share")
    assert ours(ladder["tiled"], "conflict_share")
    assert not ours(ladder["naive"], "local_bytes")
    spilling = ado.load(DATA / "max_plus-float64.json.xz")["vector_load_small"]
    assert ours(spilling, "local_bytes") == "4.10 kB"
    peers = ado.load(DATA / "max_plus-float64-peers.json.xz")  # without counters
    assert not ours(peers["vectorised"], "dominant_stall")
    assert ours(peers["vectorised"], "registers")


def test_figures_name_their_source(ladder):
    assert figures(ladder["naive"], [published()], "naive").endswith("Source: slide 15.")


def test_figures_show_our_text_next_to_published_text():
    blur = ado.load(DATA / "gaussian_blur-2560x1600.json.xz")
    _, rows = shown(blur["naive"], *image_filters.FIGURES)
    assert rows["grid"] == ["320 x 200 blocks", "320 x 200 blocks"]
    assert rows["shared memory per block"] == ["0 B", "0 B"]
    assert rows["limiter"] == ["instruction and memory latency", "L1 wavefronts"]
    assert rows["transactions per request"] == ["4 to 5", "4.84 per load, 4.03 per store"]
    _, rows = shown(blur["coalesced"], *image_filters.FIGURES)
    assert rows["occupancy limiter"] == ["block size", "warps"]


def test_ranks_are_proportional_to_the_time_beyond_the_roof():
    edges = ado.load(DATA / "edge_detect-2560x1600.json.xz")
    kernels = edges.stages_of(edges["pipeline_naive"])
    gains = {m.routine: m.seconds - m.bytes / edges.roof for m in kernels}
    found = ranks(kernels, edges.roof)
    assert max(found.values()) == 100
    assert found["sobel"] / 100 == pytest.approx(gains["sobel"] / max(gains.values()))
