"""variant.source and variant.diff: complete for every variant, from the files that are shipped."""

import io
import re
import shutil

import pytest
from rich.console import Console

import adokernels as ado
from adokernels.model import source
from adokernels.model.registry import ceilings

ROUTINES = [*ado.routines.values(), ceilings]
EVERY = [
    pytest.param(variant, id=f"{routine.name}-{variant.name}")
    for routine in ROUTINES
    for variant in routine
]
#: CUDA variants that only copy by the driver.
WITHOUT_KERNEL = {("gaussian_blur", "copy"), ("sobel", "copy"), ("ceilings", "cuda_copy")}
WITHOUT_KERNEL |= {("ceilings", v.name) for v in ceilings if "mma" in v.name}  # cuBLAS


@pytest.mark.parametrize("variant", EVERY)
def test_every_variant_has_a_source(variant):
    shown = variant.source
    assert f'"{variant.name}"' in shown.text or variant.name in ("copy", "stream_copy", *READS)
    assert all(part.path in shown.files for part in shown.parts)
    kernels = "__global__" in shown.text
    launches = (
        variant.device == "cuda" and (variant.routine.name, variant.name) not in WITHOUT_KERNEL
    )
    assert kernels == launches
    if variant.device == "cpu":
        assert not any(path.startswith("cuda/") for path in shown.files)
        assert "\n}" in shown.text  # a definition besides the entry


READS = ("read", "stream_read")


@pytest.mark.parametrize("variant", EVERY)
def test_the_parts_are_lines_of_the_shipped_files(variant):
    for part in variant.source.parts:
        lines = (source.sources_folder() / part.path).read_text(encoding="utf-8").splitlines()
        there = lines[part.line - 1 :][: part.text.count("\n") + 1]
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
    (tiled,) = ado.transpose["tiled"].source.parts
    assert (tiled.path, tiled.name) == ("cuda/transpose/steps.cu", "tiled")
    assert re.findall(r"\w*transpose_\w+(?=[(<])", tiled.text) == ["transpose_tiled"] * 2
    shared, unaligned = ado.transpose["unaligned_rows"].source.parts  # a ruler names two variants
    assert "load_tile(" in shared.text
    assert ado.transpose["in_place"].source.parts[0].text == shared.text
    assert "transpose_unaligned_rows(" in unaligned.text
    assert "transpose_in_place" not in shared.text + unaligned.text
    fused = ado.edge_detect["fused"].source.text
    for name in ("sliding_window(", "class GaussianStage", "struct SobelStage", "FusedShape ="):
        assert name in fused
    assert "operator*(" in ado.gpp["naive_loops"].source.text


def test_a_pipeline_shows_its_stages():
    pipeline = ado.edge_detect["pipeline_naive"]
    shown = pipeline.source
    kernels = re.findall(r"__global__ void (?:__launch_bounds__\(.*\)\s+)?(\w+)", shown.text)
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
    assert "tiled -> padded" in change.text
    assert change.text.startswith("--- transpose[tiled]\n+++ transpose[padded]\n@@ ")
    # The section of both variants is equal, although it contains the name of one of them.
    assert "__global__" not in ado.gaussian_blur["shared"].diff("read_only").text
    back = ado.transpose["padded"].diff(ado.transpose["tiled"])
    assert sorted(back.added) == sorted(change.deleted)


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
    text = re.sub(r"<[^>]*>", "", shown._repr_html_())
    for line in shown.text.splitlines():
        if "=" in line and not line.startswith(("@", "-", "+")):
            assert all(word in text for word in re.findall(r"\w+", line))


def test_an_edited_file_is_shown_as_it_is(tmp_path, monkeypatch):
    for folder in ("cuda", "src"):
        shutil.copytree(source.sources_folder() / folder, tmp_path / folder)
    monkeypatch.setattr(source, "sources_folder", lambda: tmp_path)
    for variant in (ado.transpose["tiled"], ado.max_plus["scalar_rolling"]):
        part = variant.source.parts[-1]
        path = tmp_path / part.path
        path.write_text("// A new line.\n\n" + path.read_text("utf-8").replace("__restrict__", ""))
        after = variant.source.parts[-1]
        assert (after.line, after.path) == (part.line + 2, part.path)
        assert after.text == part.text.replace("__restrict__", "")
        path.unlink()
        with pytest.raises(FileNotFoundError, match=part.path):
            _ = variant.source


@pytest.mark.parametrize("recorded", ["cuda/image/tiles.cuh", "/a/cuda/b/../image/tiles.cuh"])
def test_recorded_paths_are_found(recorded):
    assert source.shipped_path(recorded.replace("/a/", "/home/cuda/")) == "cuda/image/tiles.cuh"
    assert source.shipped_path("/none" + recorded.replace("tiles", "none")).startswith("/none")


def test_missing_sources_are_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_PACKAGE", tmp_path / "a" / "b")
    source.sources_folder.cache_clear()
    with pytest.raises(FileNotFoundError, match="Reinstall adokernels"):
        source.sources_folder()
    source.sources_folder.cache_clear()
