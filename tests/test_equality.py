"""Records are equal by value: loaded, pickled and copied records are equal to the first one."""

import copy
import dataclasses
import json
import math
import pickle
from pathlib import Path

import numpy as np
import pytest
from charting import H200, make_gpp, make_offloads, make_transpose, with_peers
from hypothesis import given
from hypothesis import strategies as st
from mutants import documents

import adokernels as ado
from adokernels.kernels.captured import CapturedLaunch, Launches
from adokernels.names import RECORDS
from adokernels.records.inputs import Inputs
from adokernels.records.loading import KINDS, record_of

SWEEP = with_peers(make_transpose(counters=True))
DATA = Path(__file__).parent.parent / "notebooks" / "data"
DOCUMENTS = {name: json.dumps(document) for name, document in documents().items()}
#: Makes an equal record of each kind, each time from new objects.
MAKERS = {
    kind: lambda kind=kind: record_of(DOCUMENTS[kind].encode(), kind) for kind in DOCUMENTS
} | {
    "measurement": lambda: make_gpp().measurements[1],
    "machine": lambda: dataclasses.replace(H200, context={"nan": float("nan"), "shape": (1, 2)}),
    "sweep": lambda: with_peers(make_transpose(counters=True)),
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


def test_arrays_and_nan_are_compared_by_value():
    m = SWEEP["naive"]
    again = dataclasses.replace(m, samples=m.samples.copy(), error=math.nan)
    assert again == dataclasses.replace(m, error=float("nan"))
    assert again != m
    samples = m.samples.copy()
    samples[-1] = np.nextafter(samples[-1], 1)
    assert dataclasses.replace(m, samples=samples) != m
    assert dataclasses.replace(m, samples=m.samples[:-1]) != m


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


# --- Copies ---------------------------------------------------------------------------------------

COPIES = {
    "pickle": lambda record: pickle.loads(pickle.dumps(record)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.fixture(scope="module")
def records():
    """One record per public class, by the name of the class."""
    stored = {kind: record_of(text.encode(), kind) for kind, text in DOCUMENTS.items()}
    sweep, a = stored["sweep"], np.zeros((8, 8), "f4")
    variant = ado.transpose["naive_loops"]
    compared = ado.compare(sweep, sweep)
    experiments = next(
        m.experiments for m in ado.load(DATA / "cpu" / "transpose.json.xz") if m.experiments
    )
    launches = Launches([CapturedLaunch(symbol="k", grid=(1,), block=(32,))])
    parts = [
        *(variant.cost(a), variant.source, variant.diff("blocked"), ado.transpose.choose(a)),
        *(ado.cards[next(iter(ado.cards))], ado.diagnose(sweep), sweep[0].limiter),
        *(sweep[-1].resources, sweep[-1].problem, sweep[-1].kernels[0], sweep.machine.ceilings[0]),
        *(stored["counts"][0], experiments, compared, compared[0], compared[0].comparison),
        *(compared[0].comparison.verdict, ado.records.Setting((32, 8), {"TILE": 32})),
        *(stored["profile"].kernels[0], stored["what_if"][0], stored["sass"][0]),
        *(make_offloads().break_even, make_offloads().offloads[0], ado.sectors("aligned")),
        *(ado.bank_conflicts("stride 2"), ado.gpp_operands((8, 4, 4, 2))),
        *(ado.divergence(np.arange(32) % 2 == 0), launches[0], launches),
    ]
    return {type(record).__name__: record for record in [*stored.values(), *parts]}


def test_every_public_class_has_a_record(records):
    assert set(records) >= {*RECORDS, *(kind.__name__ for kind in KINDS.values())}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", sorted(RECORDS))
def test_copies_are_equal(records, name, how):
    record = records[name]
    copied = COPIES[how](record)
    assert type(copied) is type(record)
    assert repr(copied) == repr(record)
    without = {"Cost", "GppOperands", "Sectors", "BankConflicts", "Divergence", "Launches"}
    if name not in without | {"CapturedLaunch"}:
        assert copied == record
    if hasattr(record, "to_dict"):
        assert copied.to_dict() == record.to_dict()
