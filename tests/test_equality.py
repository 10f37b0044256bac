"""Records are equal by value: a loaded record is equal to the saved one."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
from charting import H200, make_gpp, make_transpose, with_peers
from hypothesis import given
from hypothesis import strategies as st

import adokernels as ado
from adokernels.records.heatmap import LineCounts
from adokernels.records.hotspots import LineSamples
from adokernels.records.inputs import Inputs
from adokernels.records.loading import KINDS
from adokernels.records.record import StoredRecord
from adokernels.records.statistics import Verdict

SWEEP = with_peers(make_transpose(counters=True))
DATA = Path(__file__).parent.parent / "notebooks" / "data"
LINE = LineSamples(kernel="k", path="a.cu", line=2, text="x", reasons={"wait": 1}, not_issued=0)
COUNTED = LineCounts(kernel="k", path="a.cu", line=2, text="x", instructions=2, lanes=64)
KERNEL = ado.records.KernelSass(
    name="k", block=(32,), registers=8, register_limit=64, most_registers=None, listing=""
)
SETTING = ado.records.Setting((8,))
#: Makes an equal record of each kind, each time from new objects.
MAKERS = {
    "measurement": lambda: make_gpp().measurements[1],
    "machine": lambda: dataclasses.replace(H200, context={"nan": float("nan"), "shape": (1, 2)}),
    "sweep": lambda: with_peers(make_transpose(counters=True)),
    "profile": lambda: make_transpose(counters=True)["naive"].profile,
    "hotspots": lambda: ado.records.Hotspots(
        routine="r", variant="v", problem="p", block=None, entries=(LINE,), context={"a": math.inf}
    ),
    "heatmap": lambda: ado.records.Heatmap(
        routine="r",
        variant="v",
        problem="p",
        block=None,
        source="GPU",
        code="SASS",
        entries=(COUNTED,),
    ),
    "counts": lambda: ado.records.CountedSweep(
        routine="transpose",
        problem=make_transpose()["naive"].problem,
        variants=(
            ado.records.CountedVariant(
                variant="naive",
                ceiling=False,
                flops=0.0,
                bytes=8.0,
                profile=make_transpose(counters=True)["naive"].profile,
            ),
        ),
    ),
    "check": lambda: ado.records.CheckResult("transpose", "naive", True, sweep=make_transpose()),
    "scan": lambda: ado.records.Scan(
        routine="transpose", sweeps=(make_transpose(), make_transpose())
    ),
    "tuning": lambda: ado.records.Tuning(
        routine="transpose",
        variant="naive",
        settings={str(SETTING): SETTING},
        sweep=ado.records.Sweep(
            routine="transpose",
            measurements=(dataclasses.replace(make_transpose()["naive"], variant=str(SETTING)),),
        ),
    ),
    "comparison": lambda: ado.compare(make_transpose(), make_transpose(counters=True)),
    "sass": lambda: ado.records.Sass(routine="r", variant="v", arch="sm_90", kernels=(KERNEL,)),
}


def test_all_kinds_are_tested():
    assert set(MAKERS) == set(KINDS)


@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_saved_is_equal_to_what_is_loaded(kind, tmp_path):
    record, path = MAKERS[kind](), tmp_path / "record.json"
    record.save(path)
    loaded = ado.load(path)
    assert record is not loaded
    assert loaded == record
    assert record == loaded
    assert hash(loaded) == hash(record)
    assert {record: 1}[loaded] == 1
    assert record == MAKERS[kind]()
    assert type(record).__eq__ is StoredRecord.__eq__
    assert type(record).__hash__ is StoredRecord.__hash__


@pytest.mark.parametrize("kind", MAKERS)
def test_each_stored_field_counts(kind):
    record = MAKERS[kind]()
    others = {
        str: "other", int: 7, bool: True, dict: {"other": 1}, type(None): (8, 8),
        np.ndarray: np.array([1.0]), float: 0.5,
    }  # fmt: skip
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        changed = others.get(type(value), ())
        if isinstance(value, bool):
            changed = not value
        if not field.metadata.get("stored", True) or (value == changed) is True:
            continue
        different = object.__new__(type(record))
        different.__dict__.update(record.__dict__ | {field.name: changed})
        assert different != record, field.name


def test_other_types_are_not_equal():
    measurement = SWEEP["naive"]
    assert measurement != SWEEP
    assert measurement != measurement.to_dict()
    assert (measurement == 3) is False


def test_arrays_and_nan_are_compared_by_value():
    m = SWEEP["naive"]
    again = dataclasses.replace(m, samples=m.samples.copy(), error=math.nan)
    assert again == dataclasses.replace(m, error=float("nan"))
    assert again != m
    samples = m.samples.copy()
    samples[-1] = np.nextafter(samples[-1], 1)
    assert dataclasses.replace(m, samples=samples) != m
    assert dataclasses.replace(m, samples=m.samples[:-1]) != m


def test_measurements_are_keys():
    steps = SWEEP.step_pairs()
    assert steps[SWEEP["tiled"]] is SWEEP["coalesced"]
    again = with_peers(make_transpose(counters=True))
    assert steps[again["tiled"]] == again["coalesced"]
    assert len({*SWEEP, *again}) == len(SWEEP)


def test_enumerations_and_paths_are_texts():
    m = SWEEP["naive"]
    one = dataclasses.replace(m, changes=Verdict.FASTER)
    other = dataclasses.replace(m, changes="faster")
    assert one == other
    assert hash(one) == hash(other)
    assert hash(dataclasses.replace(m, changes=Path("faster"))) == hash(other)


def json_values():
    texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
    integers = st.integers(-(2**63) + 1, 2**63 - 1)
    numbers = st.floats(-1e30, 1e30) | st.sampled_from([math.nan, math.inf, -math.inf])
    scalars = st.none() | st.booleans() | integers | numbers | texts | numbers.map(np.float64)
    lists = st.lists(st.floats(-1, 1), max_size=3)
    base = scalars | lists.map(np.array) | lists.map(tuple)
    return st.recursive(
        base,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
        max_leaves=6,
    )


@given(st.dictionaries(st.text("abc", max_size=3), json_values(), max_size=3))
def test_any_context_and_options(values):
    record = dataclasses.replace(
        SWEEP["naive"], context=values, problem=Inputs.of([], values), profile=None
    )
    again = ado.records.Measurement.from_dict(record.to_dict())
    assert again == record
    assert hash(again) == hash(record)


def test_the_published_files(tmp_path):
    for path in (DATA / "gpp-counted.json", DATA / "edge_detect-16384-peers.json"):
        record = ado.load(path)
        record.save(tmp_path / "record.json")
        assert ado.load(tmp_path / "record.json") == record
