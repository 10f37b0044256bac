"""Access patterns, bank conflicts and divergence, compared with a loop over the lanes."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from charting import clashes, new_figure, outside
from hypothesis import given, settings
from hypothesis import strategies as st

import adokernels as ado

DATA = Path(__file__).parent.parent / "notebooks" / "data" / "course"
LANE = np.arange(32)
SIZES = (1, 2, 4, 8, 16)


# Sectors.


@pytest.mark.parametrize(
    ("pattern", "sectors", "lines", "utilisation"),
    [
        *[("aligned", 4, 1, 1.0), ("shifted", 5, 2, 0.8), ("shifted by one", 5, 2, 0.8)],
        *[("shifted 8", 4, 2, 1.0), ("shifted -1", 5, 2, 0.8), ("stride 2", 8, 2, 0.5)],
        *[("stride 3", 12, 3, 1 / 3), ("stride 8", 32, 8, 1 / 8), ("stride 32", 32, 32, 1 / 8)],
        *[("stride 0", 1, 1, 1 / 8), ("same word", 1, 1, 1 / 8), ("  same   word ", 1, 1, 1 / 8)],
        *[("column of 32x33", 32, 32, 1 / 8), ("column of 2x8", 2, 1, 1 / 8)],
    ],
)
def test_sectors_of_the_patterns_of_the_slides(pattern, sectors, lines, utilisation):
    of = ado.sectors(pattern, 4)
    assert (of.requests, of.sectors, of.lines) == (1, sectors, lines)
    assert of.utilisation == pytest.approx(utilisation)
    assert of.moved_bytes == 32 * sectors
    assert of.sectors_per_request == sectors


def test_random_elements_touch_almost_one_sector_each_and_are_the_same_in_every_call():
    assert 31 <= ado.sectors("random").sectors <= 32
    assert np.array_equal(
        ado.sectors("random").accesses.offsets, ado.sectors("random").accesses.offsets
    )


def test_the_counters_of_a_gpu_agree_with_the_model():
    """A warp loads its indices, which are 4 sectors, and then the elements."""
    named = {"two lanes per word": LANE // 2, "16 words twice": LANE % 16}
    for m in ado.load(DATA / "gather-patterns.json.xz"):
        pattern = m.context["pattern"]
        itemsize = np.dtype(m.problem.operands[0].dtype).itemsize
        of = ado.sectors(named.get(pattern, pattern), itemsize)
        counted = 2 * m.profile["load_sectors_per_request"] - 4
        assert counted == pytest.approx(of.sectors, rel=1e-5), pattern


def warps_of(values, active=None):
    """The values of the active lanes, for each warp with active lanes."""
    rows = [list(row) for row in values] if values.ndim == 2 else None
    keep = np.ones(values.shape, dtype=bool) if active is None else active
    if rows is None:
        starts = range(0, len(values), 32)
        rows = [list(values[s : s + 32]) for s in starts]
        masks = [list(keep[s : s + 32]) for s in starts]
    else:
        masks = [list(row) for row in keep]
    found = [
        [int(v) for v, m in zip(row, mask, strict=True) if m]
        for row, mask in zip(rows, masks, strict=True)
    ]
    return [row for row in found if row]


@st.composite
def lanes(draw):
    """Offsets of several warps, in one or two dimensions, and a mask of active lanes."""
    seed = draw(st.integers(0, 2**32 - 1))
    random = np.random.default_rng(seed)
    extent = draw(st.sampled_from([1, 4, 40, 300, 5000, 2**40]))
    shape = draw(
        st.one_of(st.tuples(st.integers(1, 100)), st.tuples(st.integers(1, 4), st.integers(1, 32)))
    )
    offsets = random.integers(-extent, extent, shape, endpoint=True)
    active = random.random(shape) < draw(st.sampled_from([0.1, 0.5, 1.0]))
    active.flat[random.integers(active.size)] = True
    return offsets, active


@settings(deadline=None)
@given(lanes(), st.sampled_from(SIZES))
def test_sectors_of_any_offsets(case, itemsize):
    offsets, active = case
    of = ado.sectors(offsets, itemsize, active=active)
    warps = warps_of(offsets, active)
    byte_sets = [
        {element * itemsize + place for element in warp for place in range(itemsize)}
        for warp in warps
    ]
    assert of.requests == len(warps)
    assert list(of.request_sectors) == [len({b // 32 for b in touched}) for touched in byte_sets]
    assert list(of.request_lines) == [len({b // 128 for b in touched}) for touched in byte_sets]
    assert of.requested_bytes == itemsize * sum(map(len, warps))
    assert of.used_bytes == sum(map(len, byte_sets))
    assert of.ideal_sectors == sum(-(-len(touched) // 32) for touched in byte_sets)


def test_many_requests_are_counted_in_parts():
    count = (1 << 16) + 3
    offsets = np.tile(LANE, (count, 1)) + np.arange(count)[:, None] % 8
    of = ado.sectors(offsets, 4)
    assert of.requests == count
    assert list(of.request_sectors) == [4 + (row % 8 > 0) for row in range(count)]


# Bank conflicts.


@pytest.mark.parametrize(
    ("pattern", "itemsize", "ways", "wavefronts"),
    [
        *[("aligned", 4, 1, 1), ("aligned", 1, 1, 1), ("aligned", 8, 1, 2), ("aligned", 16, 1, 4)],
        *[("same word", 4, 1, 1), ("stride 2", 4, 2, 2), ("stride 3", 4, 1, 1)],
        *[("stride 2", 8, 2, 4), ("stride 2", 16, 2, 8), ("column of 32x32", 4, 32, 32)],
        *[("column of 32x33", 4, 1, 1), ("column of 32x32", 8, 16, 32)],
        *[("column of 32x33", 8, 1, 2), ("column of 32x32", 16, 8, 32)],
        ("column of 16x32", 4, 16, 16),
    ],
)
def test_bank_conflicts_of_known_patterns(pattern, itemsize, ways, wavefronts):
    of = ado.bank_conflicts(pattern, itemsize)
    assert (of.requests, of.ways, of.wavefronts) == (1, ways, wavefronts)
    assert of.conflicts == wavefronts - max(1, itemsize // 4)
    assert of.wavefronts_per_request == wavefronts


@settings(deadline=None)
@given(lanes(), st.sampled_from(SIZES))
def test_bank_conflicts_of_any_offsets(case, itemsize):
    offsets, active = case
    of = ado.bank_conflicts(offsets, itemsize, active=active)
    rows = offsets if offsets.ndim == 2 else None
    if rows is None:
        pad = -len(offsets) % 32
        rows = np.pad(offsets, (0, pad)).reshape(-1, 32)
        active = np.pad(active, (0, pad)).reshape(-1, 32)
    size = 32 // max(1, itemsize // 4)
    ways, wavefronts, ideal = 0, 0, 0
    for row, mask in zip(rows.tolist(), active, strict=True):
        for start in range(0, 32, size):
            served = [row[i] for i in range(start, min(start + size, len(row))) if mask[i]]
            words = {
                (element * itemsize + place) // 4 for element in served for place in range(itemsize)
            }
            most = max((sum(w % 32 == bank for w in words) for bank in range(32)), default=0)
            ways, wavefronts, ideal = max(ways, most), wavefronts + most, ideal + bool(served)
    assert (of.ways, of.wavefronts, of.ideal_wavefronts) == (ways, wavefronts, ideal)


# Divergence.


def test_branches_can_be_numbers_or_names_and_lanes_inactive():
    of = ado.divergence(["far" if lane % 4 else "near" for lane in LANE])
    assert of.active_lanes == {"far": 24, "near": 8}
    of = ado.divergence(LANE % 3, active=LANE < 30)
    assert of.active_lanes == {"0": 10, "1": 10, "2": 10}
    assert of.lane_efficiency == pytest.approx(10 / 32)
    of = ado.divergence(LANE % 2 == 0, active=LANE % 2 == 0)
    assert (of.branches, of.passes) == (("if",), 1)


@settings(deadline=None)
@given(lanes(), st.integers(1, 40))
def test_divergence_of_any_mask(case, branches):
    offsets, active = case
    labels = offsets % branches
    of = ado.divergence(labels, active=active)
    warps = warps_of(labels, active)
    assert of.warps == len(warps)
    assert of.passes == sum(len(set(warp)) for warp in warps)
    assert of.divergent_warps == sum(len(set(warp)) > 1 for warp in warps)
    assert of.lane_efficiency == pytest.approx(sum(map(len, warps)) / (32 * of.passes))
    for name, mean in of.active_lanes.items():
        counts = [warp.count(int(name)) for warp in warps]
        assert mean == pytest.approx(sum(counts) / sum(c > 0 for c in counts))


@pytest.mark.parametrize("of", [ado.sectors("shifted", 4), ado.sectors(np.arange(640) * 3, 8)])
def test_the_table_of_sectors_has_their_numbers(of):
    for text in (repr(of), of._repr_html_()):
        for value in (of.requests, of.sectors, of.lines, of.moved_bytes):
            assert re.search(rf"\b{value}\b", text)
    assert repr(of).startswith(f"Sectors: {of.accesses.pattern}, {of.accesses.itemsize}-byte")


# Tables.


# Charts.

PLOTS = {
    "aligned": lambda: ado.sectors("aligned"),
    "stride 3": lambda: ado.sectors("stride 3"),
    "random": lambda: ado.sectors("random"),
    "16 bytes": lambda: ado.sectors("shifted", 16),
    "inactive lanes": lambda: ado.sectors(LANE[:20] * 5, active=LANE[:20] % 3 > 0),
    "square tile": lambda: ado.bank_conflicts("column of 32x32"),
    "padded tile": lambda: ado.bank_conflicts("column of 32x33"),
    "conflict": lambda: ado.bank_conflicts("stride 2"),
    "broadcast": lambda: ado.bank_conflicts("same word"),
    "quarter warps": lambda: ado.bank_conflicts("aligned", 16),
    "divergence": lambda: ado.divergence(np.arange(64) % 3),
    "many warps": lambda: ado.divergence(np.arange(32 * 20) // 32 % 2),
}


@pytest.mark.parametrize("name", PLOTS)
def test_charts_have_no_overlapping_words(name):
    ax = new_figure((6.4, 4.8), layout="constrained").add_subplot()
    assert PLOTS[name]().plot(ax=ax) is ax
    ax.figure.draw_without_rendering()
    assert not clashes(ax)
    assert not outside(ax)


# Errors.


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ado.sectors("strided"), ValueError, "offsets must be .*'stride n'.*'strided'"),
        (lambda: ado.sectors("stride 9999999999999999"), ValueError, "between -2"),
        (lambda: ado.sectors([]), ValueError, "at least one lane"),
        (lambda: ado.sectors([[[1]]]), ValueError, "one or two dimensions, got 3"),
        (lambda: ado.sectors(np.zeros((2, 33), int)), ValueError, "at most 32 lanes .*got 33"),
        (lambda: ado.sectors([0.5]), TypeError, "offsets must be integers, got float64"),
        (lambda: ado.sectors("aligned", 4.0), TypeError, "itemsize must be an integer"),
        (lambda: ado.sectors(LANE, active=LANE), TypeError, "active must be boolean, got int64"),
        (lambda: ado.sectors(LANE, active=[True]), ValueError, "active must have the shape"),
        (lambda: ado.sectors(LANE, active=LANE < 0), ValueError, "at least one active lane"),
        (lambda: ado.divergence([]), ValueError, "mask must contain at least one lane"),
        (lambda: ado.divergence([0.5]), TypeError, "mask must be boolean, integers or strings"),
        (lambda: ado.divergence(np.arange(65)), ValueError, "at most 64 branches, got 65"),
        (lambda: ado.divergence(LANE > 3, active=LANE < 0), ValueError, "mask must have at least"),
        (lambda: ado.sectors("aligned").plot(request=1), ValueError, "from 0 to 0, got 1"),
        (lambda: ado.sectors("aligned").plot(request=0.0), TypeError, "request must be an integer"),
    ],
)
def test_wrong_arguments(call, error, message):
    with pytest.raises(error, match=message):
        call()
