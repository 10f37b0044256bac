"""Heat maps: counts per source line from ncu's source page and from the emulator, and tables."""

from pathlib import Path

import numpy as np
import pytest

import adokernels as ado
from adokernels.measuring import heatmap as measured
from adokernels.measuring.hotspots import Sources
from adokernels.records.heatmap import ACCESSES, Accesses
from adokernels.records.sass import KernelSass
from adokernels.records.what_if import Trial, WhatIf
from adokernels.tables import tables_of
from adokernels.tables.rendering import to_html
from adokernels.text import ratio

CODE = """\
__global__ void copy(const float* a, float* out) {
  const int i = 8 * threadIdx.x;
  out[threadIdx.x] = a[i];
}
"""
SOURCES = Sources(texts={"copy.cu": CODE})
DATA = Path(__file__).parent.parent / "notebooks" / "data" / "course"
COLUMNS = (
    *("Address", "Source", "Instructions Executed", "# Samples", "Instructions Executed"),
    *("Predicated-On Thread Instructions Executed", "L1 Wavefronts Shared"),
    *("L1 Wavefronts Shared Ideal", "L2 Theoretical Sectors Global"),
    "L2 Theoretical Sectors Global Ideal",
)
ROWS = (
    ("0x7f00", "      S2R R0, SR_TID.X ", 4, 1, 4, 128, 0, 0, 0, 0),
    ("0x7f10", "@!P0  LDG.E R2, desc[UR4][R2.64] ", 4, 1, 4, 96, 0, 0, 128, 16),
    ("0x7f20", "      LDS R5, [R4] ", 4, 1, 4, 128, 8, 4, 0, 0),
    ("0x7f30", "      STG.E desc[UR4][R4.64], R2 ", 4, 1, 4, 128, 0, 0, 16, 16),
    ("0x7f40", "      NOP ", 0, 0, 0, 0, 0, 0, 0, 0),
)
LISTING = """\
// copy.cu:2
        /*0000*/  S2R R0, SR_TID.X ;
// copy.cu:3
        /*0010*/  @!P0 LDG.E R2, desc[UR4][R2.64] ;
        /*0020*/  LDS R5, [R4] ;
        /*0030*/  STG.E desc[UR4][R4.64], R2 ;
        /*0040*/  NOP ;
"""
#: Loads with a stride of 8 elements.
OWN = """\
template <class T>
__global__ void copy(const T* a, T* out, int rows, int cols) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const int n = rows * cols;
  if (i < n) out[i] = a[8 * i % n];
}
"""


def page(*launches, columns=COLUMNS):
    """The output of ncu: a header and rows per launch, after a message."""
    lines = ["==PROF== Disconnected"]
    for rows in launches:
        lines += [
            '"Kernel Name","void copy<(int)1>(const float *)",',
            ",".join(map(quoted, columns)),
        ]
        lines += [",".join(map(quoted, row)) for row in rows]
    return "\n".join(lines)


def quoted(value):
    return f'"{value:,}"' if isinstance(value, int) else f'"{value}"'


def kernel(listing=LISTING):
    return KernelSass(
        name="copy", block=(32,), registers=8, register_limit=255, most_registers=None,
        listing=listing,
    )  # fmt: skip


def of_hardware():
    (counted,) = measured.source_page(page(ROWS))
    lines = measured.counted_by_hardware(counted, [kernel(""), kernel()], SOURCES)
    return measured.heatmap_of(lines, SOURCES, **labels("GPU", "SASS"))


def labels(source, code):
    names = {"routine": "r", "variant": "copy", "problem": "a: (256,) float32", "block": (32,)}
    return names | {"source": source, "code": code}


def test_the_source_page_of_each_launch_is_read():
    first, second = measured.source_page(page(ROWS, [*ROWS[:1], ("0x1", "LDG.E R2", *["-"] * 8)]))
    assert [counted.opcode for counted in first] == ["S2R", "LDG.E", "LDS", "STG.E", "NOP"]
    assert first[1].counts["L2 Theoretical Sectors Global"] == 128
    assert second[1].counts["L2 Theoretical Sectors Global"] == 0
    assert measured.source_page("==ERROR== nothing") == []
    assert len(measured.source_page(page(ROWS, ROWS, ROWS[1:]))) == 2  # a launch printed twice


def test_gains_of_lines_are_a_column():
    found = of_hardware()
    place = f"{Path(found.lines[1].path).name}:3"
    trial = Trial(experiment="no stores", meaning="", rewritten=1, accesses=1, place=place,
                  seconds=1.0, off_seconds=1.5)  # fmt: skip
    about = labels("GPU", "SASS") | {"kernels": ("copy",), "trials": (trial,)}
    del about["code"]
    shown = found.with_gains(WhatIf(**about, lines=(trial,))).to_markdown()
    assert "gain if ideal" in shown
    assert shown.count(ratio(1.5)) == 1
    assert "gain if ideal" not in found.to_markdown()
    with pytest.raises(ValueError, match=r"of lines of r\[copy\] \(per_line=True\), got 0 gains"):
        found.with_gains(WhatIf(**about))
    with pytest.raises(ValueError, match=r"got 1 gains of lines of r\[other\]"):
        found.with_gains(WhatIf(**about | {"variant": "other"}, lines=(trial,)))


def test_counts_of_the_hardware_belong_to_lines():
    found = of_hardware()
    assert [(line.line, line.instructions) for line in found] == [(2, 4), (3, 12)]
    load, store = found.lines[1].loads, found.lines[1].stores
    assert (load.per_request, load.ideal_per_request, store.per_request) == (32, 4, 4)
    assert load.excess == 0.875
    assert found.lines[1].shared_loads == Accesses(requests=4, transfers=8, ideal=4)
    assert found.lines[1].mean_lanes == pytest.approx((96 + 128 + 128) / 12)
    assert found.line_of("a[i]") is found.lines[1]
    with pytest.raises(KeyError, match="no counted line"):
        found.line_of("nothing")
    assert [entry.address for entry in found.entries] == [0, 16, 32, 48]  # without the padding


def test_fp64_atomics_and_local_memory_have_columns():
    columns = (*COLUMNS, "L2 Theoretical Sectors Local")
    rows = (
        ("0x7f00", "      DFMA R2, R2, R4, R6 ", 4, 1, 4, 96, 0, 0, 0, 0, 0),
        ("0x7f10", "      RED.E.ADD desc[UR4][R2.64], R5 ", 4, 1, 4, 128, 0, 0, 128, 4, 0),
        ("0x7f20", "      ATOMS.ADD R5, [R4], R5 ", 4, 1, 4, 128, 8, 4, 0, 0, 0),
        ("0x7f30", "      LDL R2, [R1] ", 4, 1, 4, 128, 0, 0, 0, 0, 64),
    )
    listing = "// copy.cu:3\n" + "".join(
        f"        /*{16 * i:04x}*/ {row[1].strip()} ;\n" for i, row in enumerate(rows)
    )
    (counted,) = measured.source_page(page(rows, columns=columns))
    lines = measured.counted_by_hardware(counted, [kernel(listing)], SOURCES)
    found = measured.heatmap_of(lines, SOURCES, **labels("GPU", "SASS"))
    (line,) = found.lines
    assert line.fp64 == 96
    assert line.atomics == Accesses(requests=4, transfers=128, ideal=4)
    assert line.shared_atomics == Accesses(requests=4, transfers=8, ideal=4)
    assert line.local_loads == Accesses(requests=4, transfers=64, ideal=64)
    assert not line.stores.requests
    titles = (
        "FP64",
        "atomic sectors/request",
        "atomic wavefronts/request",
        "local sectors/request",
    )
    assert all(title in str(found) for title in titles)
    assert not any(title in str(of_hardware()) for title in titles)


def test_other_machine_code_is_rejected():
    (counted,) = measured.source_page(page(ROWS[:3]))
    with pytest.raises(ValueError, match="profile must be of these kernels, got 3"):
        list(measured.counted_by_hardware(counted, [kernel()], SOURCES))


def test_the_tables_name_the_source_and_mark_the_lines():
    heat = of_hardware()
    totals, listing, _ = tables_of(heat)
    assert "counted by GPU" in totals.title
    *_, line = (line for line in listing.to_text().splitlines() if "out[threadIdx.x]" in line)
    for words in ("L 32 (ideal 4), S 4", "2 (ideal 1)", "75 %"):
        assert words in line
    assert "rgba" in to_html(listing)
    assert "LDG.E R2" in str(heat)


def test_without_a_gpu_or_ncu_the_reason_is_raised(no_cuda_or_ncu):
    with pytest.raises(ado.Unavailable, match="lines cannot be counted: "):
        ado.heatmap(ado.transpose["naive"], np.zeros((8, 8), np.float32))


@pytest.fixture
def no_cuda_or_ncu(monkeypatch):
    monkeypatch.setattr(measured, "why_no_ncu", lambda: "ncu is missing")


@pytest.mark.parametrize(
    ("variant", "error"), [("naive", TypeError), (ado.transpose["blocked"], ValueError)]
)
def test_wrong_variants(variant, error):
    with pytest.raises(error, match="variant must be"):
        ado.heatmap(variant)


@pytest.mark.gpu
def test_a_heat_map_of_a_gpu():
    try:
        found = ado.heatmap(ado.transpose["naive"], np.zeros((256, 256), np.float32))
    except ado.Unavailable as error:
        pytest.skip(str(error))
    assert found.total("stores").per_request == 32
    assert found.total("loads").per_request == 4


@pytest.mark.usefixtures("sources_on_emulator")
def test_the_emulator_counts_lines_of_own_kernels(rng, no_cuda_or_ncu):
    ladder = ado.ladder("copies", reference=lambda a: a.copy())
    strided = ado.cuda_variant("copy", source=OWN, kernel="copy<{T}>", block=32)
    a = rng.random((8, 64))
    found = ado.heatmap(ladder.with_variants(strided)["copy"], a)
    assert (found.source, found.code, found.problem) == ("emulator", "PTX", "a: (8, 64) float64")
    line = found.line_of("out[i]")
    assert (line.path, line.line, line.mean_lanes) == ("kernel.cu", 5, 32)
    assert line.loads == Accesses(requests=16, transfers=16 * 32, ideal=16 * 8)
    assert line.stores == Accesses(requests=16, transfers=16 * 8, ideal=16 * 8)
    outside = ado.cuda_variant(
        "outside", source=OWN.replace("8 * i % n", "9 * i"), kernel="copy<{T}>", block=32
    )
    with pytest.raises(ado.KernelError, match="out of bounds"):
        ado.heatmap(ladder.with_variants(outside)["outside"], a, device="emulator")


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("name", "block"), [("naive", (32, 32)), ("tiled", None), ("padded", None)]
)
def test_the_emulator_counts_what_a_gpu_has_counted(name, block):
    counted = ado.load(DATA / f"transpose-heatmap-{name}.json.xz")
    a = np.zeros((128, 128), np.int64)
    emulated = ado.heatmap(ado.transpose[name], a, block=block, device="emulator")
    for kind in ACCESSES:
        found, expected = (heat.total(kind) for heat in (emulated, counted))
        assert found.per_request == pytest.approx(expected.per_request, rel=1e-3)
        assert found.ideal_per_request == expected.ideal_per_request
