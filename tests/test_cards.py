"""The quick-reference cards: their data, their thresholds on stored counters, their citations."""

import dataclasses
import math
from functools import cache
from pathlib import Path

import pytest

import adokernels as ado
from adokernels.diagnosis.cards import RESOURCES, Cards, Indicator, Validity
from adokernels.diagnosis.diagnosis import diagnose
from adokernels.records.limiter import Step
from adokernels.records.metrics import BY_KEY

DATA = Path(__file__).parent.parent / "notebooks" / "data"
PAIRS = [(card, example) for card in ado.cards.values() for example in card.examples]
IDS = [f"{card.key}-{example}" for card, example in PAIRS]


@cache
def stored(name):
    return ado.load(DATA / f"{name}.json.xz")


def evidence_of(card, example):
    return card.evidence(stored(example.stored), before=example.before, after=example.after)


# --- the data ------------------------------------------------------------------------------------


@pytest.mark.parametrize("card", ado.cards.values(), ids=list(ado.cards))
def test_a_card_names_known_quantities(card):
    assert ado.cards[card.key] is card
    for indicator in card.indicators:
        assert indicator.quantities
        assert {*indicator.quantities, *indicator.per} <= {*BY_KEY, *RESOURCES}
        assert math.isfinite(indicator.threshold)
    assert card.strategy
    assert sum(example.published for example in card.examples) == bool(card.item)
    assert card.examples[0].published == bool(card.item)


@pytest.mark.parametrize(("card", "example"), PAIRS, ids=IDS)
def test_an_example_names_variants_in_ladder_order_with_counters(card, example):
    names = [variant.name for variant in ado.routines[example.routine]]
    assert names.index(example.before) < names.index(example.after)
    evidence = evidence_of(card, example)
    assert evidence.before.routine == example.routine
    for indicator, before, after in evidence.values:
        assert before is not None, indicator.title
        assert after is not None, indicator.title


def test_the_advice_holds_where_its_indicators_hold():
    for card in ado.cards.values():
        found = [evidence_of(card, example) for example in card.examples]
        gained = [e.comparison.verdict == "faster" and e.comparison.ratio > 1.02 for e in found]
        confirmed = [e.applied and gain for e, gain in zip(found, gained, strict=True)]
        assert any(confirmed) == (card.validity is Validity.HOLDS), card.key
        assert card.validity is Validity.HOLDS or not any(gained)


# --- indicators on stored counters ---------------------------------------------------------------


def test_thresholds_are_compared_with_counters():
    sweep = stored("gaussian_blur-16384")
    naive, shared = sweep["naive"], sweep["shared"]
    assert ado.cards["coalescing_bandwidth"].holds(naive) is True
    assert ado.cards["coalescing_latency"].holds(naive) is False
    assert ado.cards["coalescing_bandwidth"].holds(shared) is False
    assert [card.key for card in ado.cards.applying(naive)] == [
        "coalescing_bandwidth",
        "shared_memory_traffic",
    ]


def test_an_indicator_adds_divides_and_compares():
    m = stored("transpose-float32-8192")["naive"]
    counters = m.profile.longest
    share = Indicator(
        title="x",
        quantities=("load_sectors", "store_sectors"),
        per=("load_requests",),
        comparison=">=",
        threshold=1.0,
        source="",
    )
    expected = (counters["load_sectors"] + counters["store_sectors"]) / counters["load_requests"]
    assert share.of(m) == expected
    exact = dataclasses.replace(share, threshold=expected)
    below = dataclasses.replace(exact, comparison="<")
    assert (exact.holds(m), below.holds(m)) == (True, False)
    assert dataclasses.replace(share, per=("conflict_share",)).holds(m) is None


def test_cards_for_latency_need_idle_schedulers_and_loads_without_queues():
    """The grid of 0.97 waves that a small image needs does not disable them."""
    queued = stored("gather-random")["naive"]
    assert RESOURCES["load_latency"](queued.profile.longest) > 1e-6
    busy = stored("gaussian_blur-2560x1600")["wide_shared"]
    assert busy.profile["issue_active"] > 0.6
    small = stored("grayscale-16384")["naive"]
    grid = (small.profile.longest.kernel.grid[0] // 1000,)
    kernel = dataclasses.replace(small.profile.longest.kernel, grid=grid)
    fewer = dataclasses.replace(small.profile.longest, kernel=kernel)
    assert fewer.waves < 1
    below = dataclasses.replace(small, profile=dataclasses.replace(small.profile, kernels=(fewer,)))
    for key in ("coalescing_latency", "instruction_parallelism"):
        card = ado.cards[key]
        assert [card.holds(m) for m in (queued, busy, small, below)] == [False, False, True, True]


def test_a_missing_quantity_makes_a_card_unknown_unless_another_indicator_fails():
    sweep = stored("gpp-si214")  # light metrics: no bytes requested by loads and stores
    card = ado.cards["coalescing_latency"]
    assert card.holds(sweep["hoisted_invariants"]) is None
    assert card.holds(sweep["two_rows"]) is False
    bare = dataclasses.replace(sweep["two_rows"], profile=None)
    assert {card.holds(bare) for card in ado.cards.values()} == {None}
    assert ado.cards.applying(bare) == ()


# --- evidence ------------------------------------------------------------------------------------


def test_evidence_selects_the_example_of_the_ladder():
    card = ado.cards["coalescing_bandwidth"]
    blur = card.evidence(stored("gaussian_blur-16384"))
    assert (blur.before.variant, blur.after.variant) == ("naive", "coalesced")
    transpose = card.evidence(stored("transpose-int64-8192"))
    assert (transpose.before.variant, transpose.after.variant) == ("naive", "tiled")
    assert transpose.applied
    assert transpose.comparison == transpose.after.compare(transpose.before)
    text = repr(transpose)
    assert "All indicators hold before the step" in text
    assert "sectors of loads and stores" in text
    assert "<table" in transpose._repr_html_()


def test_evidence_needs_a_known_step_and_counters():
    card = ado.cards["occupancy"]
    sobel = stored("sobel-16384")
    with pytest.raises(ValueError, match=r"must contain a step of the card .*got sobel"):
        card.evidence(sobel)
    with pytest.raises(ValueError, match="given together"):
        card.evidence(sobel, before="naive")
    with pytest.raises(KeyError, match="'nave' was not measured"):
        card.evidence(sobel, before="nave", after="shared")
    assert card.evidence(sobel, before="naive", after="shared").applied is False
    bare = tuple(dataclasses.replace(m, profile=None) for m in sobel)
    without = dataclasses.replace(sobel, measurements=bare)
    with pytest.raises(ValueError, match=r"counters=True.*'naive'"):
        card.evidence(without, before="naive", after="shared")


# --- display and citation ------------------------------------------------------------------------


def test_an_unknown_card_is_an_error_with_the_nearest_name():
    with pytest.raises(KeyError, match=r"no card 'ocupancy'.*occupancy"):
        ado.cards["ocupancy"]
    assert "ocupancy" not in ado.cards


def test_diagnose_cites_the_cards_that_apply():
    d = diagnose(stored("transpose-float32-8192"))
    assert d["naive"].cards == ("coalescing_bandwidth", "shared_memory_traffic")
    assert d["naive"].advice.step is Step.COALESCING
    assert d["padded"].cards == ("instruction_parallelism",)
    assert d["tiled"].cards == ()
    text = repr(d).replace("\n", " ")
    assert "instruction_parallelism" in " ".join(text.split())


def test_a_card_that_no_longer_helps_is_marked():
    d = diagnose(stored("max_plus-float32"))
    assert "read_only_path" in d["padded"].cards
    assert "read_only_path (no longer helps)" in d._repr_html_()


def test_a_variant_at_the_roof_needs_no_card(monkeypatch):
    always = dataclasses.replace(ado.cards["occupancy"], key="always", indicators=())
    monkeypatch.setattr("adokernels.diagnosis.diagnosis.cards", Cards({"always": always}))
    d = diagnose(stored("transpose-float32-8192"))
    assert d["padded"].cards == ("always",)
    assert (d["wide"].advice.step, d["wide"].cards) == (Step.DONE, ())


def test_without_counters_no_card_is_cited():
    sweep = stored("transpose-float32-8192")
    bare = tuple(dataclasses.replace(m, profile=None) for m in sweep)
    d = diagnose(dataclasses.replace(sweep, measurements=bare))
    assert all(finding.cards == () for finding in d)
    assert "cards:" not in repr(d)
