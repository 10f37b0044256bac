"""variant.source and variant.diff: complete for every variant, from the files that are shipped."""

import io
import re

import pytest
from rich.console import Console

import adokernels as ado
from adokernels.ladders import definitions, source
from adokernels.model.registry import ceilings

ROUTINES = [*ado.routines.values(), ceilings]
EVERY = [
    pytest.param(variant, id=f"{routine.name}-{variant.name}")
    for routine in ROUTINES
    for variant in routine
]
#: CUDA variants that only copy by the driver.
WITHOUT_KERNEL = {("gaussian_blur", "copy"), ("sobel", "copy"), ("ceilings", "cuda_copy")}


def names_in(shown):
    return [part.name for part in shown.parts]


@pytest.mark.parametrize("variant", EVERY)
def test_every_variant_has_a_source(variant):
    shown = variant.source
    first = shown.parts[0]
    assert first.kind == "variant"
    assert f'"{variant.name}"' in first.text or variant.name in ("copy", "stream_copy", *READS)
    assert all(part.path in shown.files for part in shown.parts)
    kernels = "__global__" in shown.text
    launches = (
        variant.device == "cuda" and (variant.routine.name, variant.name) not in WITHOUT_KERNEL
    )
    assert kernels == launches
    assert bool(shown.kernels) == kernels
    if variant.device == "cpu":
        assert len(shown.parts) > 1
        assert not any(path.startswith("cuda/") for path in shown.files)


READS = ("read", "stream_read")


@pytest.mark.parametrize("variant", EVERY)
def test_the_parts_are_lines_of_the_shipped_files(variant):
    for part in variant.source.parts:
        lines = (source.sources_folder() / part.path).read_text(encoding="utf-8").splitlines()
        there = lines[part.line - 1 : part.last_line]
        assert [line.strip() for line in there] == [line.strip() for line in part.text.split("\n")]


@pytest.mark.parametrize("routine", ROUTINES, ids=lambda r: r.name)
def test_sources_of_different_variants_differ(routine):
    texts = {v.source.text for v in routine}
    assert len(texts) == len(routine)
    for before, after in zip(routine.variants, routine.variants[1:], strict=False):
        change = before.diff(after)
        assert change.added or change.deleted
        assert not before.diff(before).lines


def test_a_source_contains_what_the_kernels_use_and_nothing_of_other_variants():
    assert names_in(ado.transpose["tiled"].source) == [
        *("tiled", "transpose_tiled", "kTile", "Matrix")
    ]
    wide = names_in(ado.transpose["wide"].source)
    assert {"transpose_wide", "load_tile", "store_tile", "slot", "WideTile", "TileShape"} <= {*wide}
    assert wide.count("transpose_tile") == 1
    assert not {"transpose_unaligned_rows", "UnalignedTile"} & {*wide}
    shapes = names_in(ado.edge_detect["fused"].source)
    assert {"sliding_window", "GaussianStage", "SobelStage", "FusedShape"} <= {*shapes}
    assert "operator/" in names_in(ado.gpp["collapse3"].source)
    # Both kernels of a pass.
    kernels = {part.name for part in ado.gpp["collapse3"].source.kernels}
    assert kernels == {"gpp_collapse3", "gpp_add_partials"}


def test_general_helpers_are_left_out_but_the_read_ceiling_is_shown():
    for variant in (v for routine in ROUTINES for v in routine):
        common = {path for path in variant.source.files if "/common/" in path}
        assert common <= {"cuda/common/read_ceiling.cuh", "src/cpu/common/read_ceiling.hpp"}
    assert "read_chunks" in names_in(ado.max_plus["read"].source)
    assert "read_through" in names_in(ado.max_plus["stream_read"].source)


def test_a_pipeline_shows_its_stages():
    pipeline = ado.edge_detect["pipeline_naive"]
    shown = pipeline.source
    kernels = [part.name for part in shown.kernels]
    assert kernels == ["grayscale_naive", "gaussian_blur_naive", "sobel_naive"]
    of = dict.fromkeys(part.variant for part in shown.parts)
    stages = [f"{routine}[{name}]" for routine, name in pipeline.stages]
    assert list(of) == ["edge_detect[pipeline_naive]", *stages]
    places = [(part.path, part.line) for part in shown.parts]
    assert len(places) == len(set(places))


def test_diff_matches_kernels_of_different_names():
    change = ado.transpose["tiled"].diff("padded")
    assert "  __shared__ T tile[kTile][kTile + 1];" in change.added
    assert "  __shared__ T tile[kTile][kTile];" in change.deleted
    assert len(change.added) <= 8  # declaration, comment and one line of code
    assert len(change.deleted) <= 8
    assert "transpose_tiled -> transpose_padded" in change.text
    assert change.text.startswith("--- transpose[tiled]\n+++ transpose[padded]\n@@ ")
    back = ado.transpose["padded"].diff(ado.transpose["tiled"])
    assert sorted(back.added) == sorted(change.deleted)


def test_diff_shows_new_definitions_in_full():
    change = ado.max_plus["scalar_rolling"].diff("shared_rolling")
    assert any("next_slot(int slot)" in line for line in change.added)
    assert not any("next_slot(int slot)" in line for line in change.deleted)


def test_diff_names_the_nearest_variant():
    with pytest.raises(KeyError, match="padded"):
        ado.transpose["tiled"].diff("pade")


@pytest.mark.parametrize(
    "shown", [ado.transpose["tiled"].source, ado.gpp["tiled"].diff("two_rows")]
)
def test_three_forms(shown, capsys):
    print(shown)
    plain = capsys.readouterr().out
    assert plain.rstrip("\n") == shown.text == repr(shown)
    assert "\x1b" not in plain
    terminal = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=200)
    terminal.print(shown)
    assert "\x1b[" in terminal.file.getvalue()
    page = shown._repr_html_()
    text = re.sub(r"<[^>]*>", "", page)
    assert "kernel" in page or "__global__" in text
    assert "<script" not in page
    for line in shown.text.splitlines():
        if "=" in line and not line.startswith(("@", "-", "+")):
            words = re.findall(r"\w+", line)
            assert all(word in text for word in words)


def test_html_marks_lines_of_a_diff():
    page = ado.transpose["tiled"].diff("padded")._repr_html_()
    lines = [line for line in page.split("<div") if "__shared__" in line]
    assert ["rgba(248" in line for line in lines] == [True, False]
    assert ["rgba(46" in line for line in lines] == [False, True]


def test_code_in_html_is_escaped():
    page = ado.transpose["naive"].source._repr_html_()
    assert "template &lt;" in re.sub(r"</?span[^>]*>", "", page)


# --------------------------------------------------------------------------- the scanner


def test_every_definition_of_the_ladders_is_found():
    """Each line that starts a definition at the start of a line belongs to exactly one."""
    root = source.sources_folder()
    paths = [*root.glob("cuda/*/*.cu*"), *root.glob("src/cpu/**/*.[ch]pp")]
    for path in paths:
        if "common" in path.parts:
            continue
        found = definitions.definitions_of(root, str(path.relative_to(root)))
        ends = [(d.line, d.last_line) for d in found]
        assert ends == sorted(ends)
        names = {name for d in found for name in d.names}
        text = path.read_text(encoding="utf-8")
        for name in re.findall(
            r"^(?:struct|class|enum class) (?:alignas\(\w+\) )?(\w+).*\{", text, re.M
        ):
            assert name in names
        for name in re.findall(
            r"^(?:constexpr \w+ |__global__ .*\bvoid |using )(k?[a-zA-Z]\w+)(?: =|\()", text, re.M
        ):
            assert name in names, path


CODE = """// A file.
#include "a.hpp"
#define X {

namespace ado {
namespace {

constexpr int kA = 4, kB = f(kA) * 2;
inline constexpr long kC =
    long{kA} * kB;

// A comment with a { brace and "quotes".
template <class T, int kN = 3>
__global__ void __launch_bounds__(kA* kB) first(const T* a, int (&b)[kN]) {
  const char* s = "} //";
  if (a[0] < kB) second<T>(a, s);
}

// Only declared.
void later(int);

struct alignas(16) Pair {
  int x, y;
  Pair operator+(Pair o) const { return {x + o.x, y + o.y}; }
};
template <class T>
using Alias = Pair;
Pair operator-(Pair a, Pair b) { return {a.x - b.x, a.y - b.y}; }

}  // namespace
}  // namespace ado
"""


def test_scanner(tmp_path):
    (tmp_path / "a.cu").write_text(CODE, encoding="utf-8")
    found = definitions.definitions_of(tmp_path, "a.cu")
    assert [(d.kind, d.names, d.line, d.last_line) for d in found] == [
        ("constant", ("kA", "kB"), 8, 8),
        ("constant", ("kC",), 9, 10),
        ("kernel", ("first",), 12, 17),
        ("type", ("Pair",), 22, 25),
        ("alias", ("Alias",), 26, 27),
        ("function", ("operator-",), 28, 28),
    ]
    kernel = found[2]
    assert kernel.text.startswith("// A comment")
    assert {"kA", "kB", "second"} <= {*kernel.references}
    assert not {"T", "kN", "a", "b", "s", "quotes"} & {*kernel.references}


@pytest.mark.parametrize(
    ("call", "accepted"),
    [("f(1)", False), ("f(1, g(2, 3))", True), ("run<f>", True), ("f<T>(1)", False)],
)
def test_overloads_are_told_apart_by_their_arguments(tmp_path, call, accepted):
    (tmp_path / "b.cu").write_text(
        "int f(int a, int b, int c = 0) { return a; }\n", encoding="utf-8"
    )
    (definition,) = definitions.definitions_of(tmp_path, "b.cu")
    assert definitions.accepts_call(definition, call) == accepted


def test_missing_sources_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_PACKAGE", tmp_path / "a" / "b")
    source.sources_folder.cache_clear()
    with pytest.raises(FileNotFoundError, match="Reinstall adokernels"):
        source.sources_folder()
    source.sources_folder.cache_clear()
