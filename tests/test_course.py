"""Code shared by the notebooks: text, published figures next to ours, steps."""

import dataclasses
import re
from pathlib import Path

import pytest
from pages import rows_of

import adobook as course
import adokernels as ado
from adobook import Published
from adobook import published as published_figures
from adobook.published import transpose
from adokernels.text import quantity

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


# --- text -----------------------------------------------------------------------------------------


def test_text_is_markdown_in_a_notebook_and_plain_elsewhere():
    text = course.say("**a**", course.table(["x"], [[1]]))
    assert text._repr_markdown_() == repr(text) == "**a**\n\n| x |\n| :--- |\n| 1 |"


def test_numbers_are_aligned_right():
    text = str(course.table(["variant", "time"], [("naive", None), ("tiled", 2)]))
    assert text.splitlines()[1:] == ["| :--- | ---: |", "| naive |  |", "| tiled | 2 |"]


def test_columns_of_text_are_aligned_left():
    rows = [("naive", "slower", f"{TIMES}0.5", "**3 %**"), ("tiled", "faster", "", "")]
    text = str(course.table(["variant", "it is", "ratio", "share"], rows))
    assert text.splitlines()[1] == "| :--- | :--- | ---: | ---: |"
    assert str(course.table(["a", "b"], [])).splitlines()[1] == "| :--- | ---: |"


def test_rows_must_have_a_cell_for_each_column():
    with pytest.raises(ValueError, match="row must have 2 cells, got 1"):
        course.table(["a", "b"], [["only one"]])


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


def test_figures_show_published_sectors_beyond_the_ideal(ladder):
    given = [p for p in transpose.FIGURES if p.item in ("B7", "B26")]
    header, rows = rows_of(course.figures(ladder["naive"], published=given))
    assert header[1] == "Course slides, A100"
    profile = ladder["naive"].profile
    ratio = profile["store_sectors_per_request"] / 8
    assert rows["store sectors relative to the ideal"] == [f"{TIMES}4.00", f"{TIMES}{ratio:.2f}"]
    excess = profile["store_sectors"] - profile["ideal_store_sectors"]
    assert rows["store sectors beyond the ideal"] == ["50,331,648", f"{excess:,.0f}"]
    header, _ = rows_of(course.figures(ladder["tiled"], published=given, variant="naive"))
    assert header == ["quantity", "Course slides, A100", "tiled, NVIDIA H200"]


# --- figures --------------------------------------------------------------------------------------


def test_figures_show_the_documents_value_next_to_ours(ladder):
    naive = ladder["naive"]
    given = [
        published(),
        published(quantity="memory_sol", value=0.5922, unit="%"),
        published(quantity="dram_sol", value=0.26, unit="%", document="other", device="K40"),
        published(quantity="seconds", value=1.0, variant="tiled"),
    ]
    header, rows = rows_of(course.figures(naive, published=given))
    assert header == ["quantity", "slides, A100", "other, K40", "naive, NVIDIA H200"]
    assert rows["time"][:2] == ["2.72 ms", ""]
    assert rows["time"][2] == f"{1e3 * naive.seconds:.2f} ms"
    assert rows["speed of light: memory"][0] == "59.22 %"
    ours = 100 * naive.profile["memory_sol"]
    assert rows["speed of light: memory"][2] == f"{ours:.1f} %"
    assert rows["speed of light: DRAM"][:2] == ["", "26 %"]


def test_figures_show_sectors_next_to_their_ideal(ladder):
    _, rows = rows_of(course.figures(ladder["naive"]))
    assert rows["sectors per store request"] == ["32.0 (ideal 8)"]
    assert ladder["naive"].profile.ideal_sectors_per_request("store") == 8


def test_figures_name_the_stall_reason_with_the_most_cycles(ladder):
    profile = ladder["tiled"].profile
    stalls = {k: v for k, v in profile.quantities.items() if k.startswith("stall_")}
    worst = max(stalls, key=stalls.get)
    _, rows = rows_of(course.figures(ladder["tiled"]))
    assert rows["dominant stall reason"] == [
        f"{worst.removeprefix('stall_').replace('_', ' ')}, {stalls[worst]:.1f} cycles"
    ]


def test_an_issued_instruction_is_not_a_stall():
    m = ado.load(DATA / "sobel-2560x1600.json.xz")["sliding_window"]
    stalls = {k: v for k, v in m.profile.quantities.items() if k.startswith("stall_")}
    assert max(stalls, key=stalls.get) == "stall_selected"
    (shown,) = rows_of(course.figures(m))[1]["dominant stall reason"]
    assert not shown.startswith("selected")


def test_figures_have_rows_for_further_published_quantities(ladder):
    given = [
        published(quantity="store_sectors", value=67_108_864, unit=""),
        published(quantity="sm__cycles_elapsed.max", value=2_961_102, unit="", title="cycles"),
        published(quantity="branch instructions", value=4_194_304, unit=""),
    ]
    profile = ladder["naive"].profile
    _, rows = rows_of(course.figures(ladder["naive"], published=given))
    assert rows["store sectors"] == ["67,108,864", f"{profile['store_sectors']:,.0f}"]
    assert rows["cycles"] == ["2,961,102", f"{profile['sm__cycles_elapsed.max']:,.0f}"]
    assert rows["branch instructions"] == ["4,194,304", ""]


def test_figures_omit_rows_without_data(ladder):
    _, rows = rows_of(course.figures(ladder["naive"]))
    assert "wavefronts that are bank conflicts" not in rows
    assert "wavefronts that are bank conflicts" in rows_of(course.figures(ladder["tiled"]))[1]
    spills = "local memory (spills)"
    assert spills not in rows
    spilling = ado.load(DATA / "max_plus-float64.json.xz")["vector_load_small"]
    assert rows_of(course.figures(spilling))[1][spills] == ["4.10 kB"]
    peers = ado.load(DATA / "max_plus-float64-peers.json.xz")  # without counters
    assert set(rows_of(course.figures(peers["vectorised"]))[1]) == {
        "time",
        "theoretical occupancy",
        "registers per thread",
    }


def test_figures_compare_with_a_baseline(ladder):
    text = course.figures(ladder["padded"], baseline=ladder["tiled"])
    header, rows = rows_of(text)
    assert header[1:] == ["tiled, NVIDIA H200", "padded, NVIDIA H200", "ratio"]
    ratio = ladder["padded"].seconds / ladder["tiled"].seconds
    assert rows["time"][2] == f"{TIMES}{ratio:.3f}"


def test_figures_can_show_only_published_rows(ladder):
    given = [published(), published(quantity="registers", value=16, unit="")]
    text = course.figures(ladder["naive"], published=given, rows="published")
    assert list(rows_of(text)[1]) == ["time", "registers per thread"]


def test_figures_can_show_only_what_has_changed(ladder):
    before, after = ladder["tiled"], ladder["padded"]
    _, rows = rows_of(course.figures(after, baseline=before, rows="changed"))
    assert {"time", "dominant stall reason", "wavefronts that are bank conflicts"} <= set(rows)
    assert not {"registers per thread", "sectors per load request", "L1 hit rate"} & set(rows)
    same = course.figures(before, baseline=before, rows="changed")
    assert list(rows_of(same)[1]) == ["time"]


def test_figures_of_the_longest_kernel(ladder):
    m = ado.load(DATA / "gpp-si214.json.xz")["tiled"]
    _, all_kernels = rows_of(course.figures(m))
    _, longest = rows_of(course.figures(m, longest=True))
    hits = "L2 hit rate"
    assert longest[hits] == [f"{100 * m.profile.longest['l2_hit_rate']:.1f} %"]
    assert all_kernels[hits] == [f"{100 * m.profile['l2_hit_rate']:.1f} %"]
    assert longest[hits] != all_kernels[hits]


def test_figures_name_their_source(ladder):
    assert str(course.figures(ladder["naive"], published=[published()])).endswith(
        "Source: slide 15."
    )


# --- steps ----------------------------------------------------------------------------------------


def test_steps_are_compared_with_the_variant_before(ladder):
    text = str(course.step(ladder, "padded"))
    took = quantity(ladder["padded"].seconds, "s")
    assert text.startswith(f"**padded** — {ladder['padded'].changes} It takes **{took}**")
    assert f"Compared with tiled: {course.between(ladder['padded'], ladder['tiled'])}." in text
    assert "Compared with naive" in str(course.step(ladder, "padded", before="naive"))
    assert "Compared" not in str(course.step(ladder, "naive"))


def test_between_states_ratio_interval_and_verdict(ladder):
    verdict, ratio, (low, high) = ladder["padded"].compare(ladder["tiled"])
    text = course.between(ladder["padded"], ladder["tiled"])
    assert f"{TIMES}{ratio:.2f}" in text
    assert f"99.9 % interval {low:.3g} to {high:.3g}" in text
    assert text.endswith(f"**{verdict}**")


def test_between_calls_the_limits_of_few_samples_a_range(ladder):
    padded, tiled = (
        dataclasses.replace(ladder[name], samples=ladder[name].samples[:10], clocks=(), waits=())
        for name in ("padded", "tiled")
    )
    text = course.between(padded, tiled)
    assert "only 10 samples, range " in text
    assert "interval" not in text
    assert text.endswith("**unclear**")


def test_steps_show_the_gain_that_the_document_published(ladder):
    given = [published(), published(variant="narrow_blocks", value=0.68e-3)]
    text = str(course.step(ladder, "narrow_blocks", published=given))
    assert f"slides: from 2.72 ms to 680 µs on an A100, {TIMES}4.00." in text
    assert "slides: 2.72 ms on an A100." in str(course.step(ladder, "naive", published=given))
    assert "slides" not in str(course.step(ladder, "padded", published=given))


def test_steps_show_published_speed_ups(ladder):
    given = [
        published(quantity="speedup", unit="", value=1.5, variant="tiled"),
        published(quantity="speedup", unit="", value=3.0, variant="padded"),
    ]
    text = str(course.step(ladder, "padded", published=given))
    assert f"slides: {TIMES}2.00 compared with tiled on an A100." in text
    text = str(course.step(ladder, "tiled", published=given))
    assert f"slides: {TIMES}1.50 compared with the document's baseline on an A100." in text


def test_steps_that_were_not_measured_show_the_reason(ladder):
    text = str(course.step(ladder, "in_place"))
    assert ado.transpose["in_place"].changes in text
    assert text.endswith("It was not measured here: out is not a.")


def test_steps_name_unmeasured_steps_between():
    gpp = ado.load(DATA / "gpp-si214.json.xz")
    measured = tuple(m for m in gpp.measurements if m.variant != "single_launch")
    text = str(course.step(dataclasses.replace(gpp, measurements=measured), "tiled"))
    assert "Steps between them that were not measured: single_launch." in text
    text = str(course.step(ado.load(DATA / "transpose-float32-odd.json.xz"), "unaligned_rows"))
    reason = "(rows are not aligned to 16 bytes)"
    assert f"that were not measured: wide {reason}, tma {reason}." in text


def test_steps_show_stored_variants_that_the_package_no_longer_has():
    stored = ado.load(DATA / "max_plus-float64.json.xz")
    assert "few_terms" not in [v.name for v in ado.max_plus]
    text = str(course.step(stored, "few_terms"))
    assert text.startswith(f"**few_terms** — {stored['few_terms'].changes} It takes ")
    assert "Compared with one_barrier" in text


def test_steps_show_the_bytes_of_each_level(ladder):
    m = ladder["naive"]
    l2 = m.profile["l2_bytes"] / m.bytes
    assert f"L2 {l2:.2f}" in str(course.step(ladder, "naive"))
    assert str(course.step(ladder, "naive", more="The end.")).endswith("The end.")


# --- predictions ----------------------------------------------------------------------------------


def test_predictions_hide_the_value_until_there_is_a_guess():
    text = str(course.predicted(None, 1.284, "ms"))
    assert "<details>" in text
    assert "1.28 ms" in text.partition("<details>")[2]


@pytest.mark.parametrize(
    ("guess", "end"),
    [
        (2.56, "Your guess is 2 times too large."),
        (0.64, "Your guess is 2 times too small."),
        (1.29, "Your guess is 1.01 times too large."),
        (1.28, "Exact."),
        (0, "Measured: **1.28 ms**."),
    ],
)
def test_predictions_are_compared(guess, end):
    text = str(course.predicted(guess, 1.28, "ms"))
    assert "<details>" not in text
    assert text.endswith(end)


def test_predictions_of_models_are_not_called_measured():
    hidden = str(course.predicted(None, 5, "sectors", source="model"))
    shown = str(course.predicted(4, 5, "sectors", source="model"))
    assert "<summary>The model's value</summary>5 sectors" in hidden
    assert "Model: **5 sectors**" in shown
    assert "measured" not in (hidden + shown).lower()
    assert "<summary>The measured value</summary>" in str(course.predicted(None, 5))
