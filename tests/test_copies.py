"""Every public record can be pickled and copied: worker processes send results this way."""

import copy
import json
import pickle
from pathlib import Path

import numpy as np
import pytest
from charting import make_offloads, make_transpose
from mutants import documents

import adokernels as ado
from adokernels.names import RECORDS
from adokernels.records.loading import KINDS, load

CPU = Path(__file__).parent.parent / "notebooks" / "data" / "cpu" / "transpose.json"
COPIES = {
    "pickle": lambda record: pickle.loads(pickle.dumps(record)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """One record per public class, by the name of the class."""
    folder, stored = tmp_path_factory.mktemp("records"), {}
    for name, document in documents().items():
        path = folder / "record.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        stored[name] = load(path)
    sweep, a = stored["sweep"], np.zeros((8, 8), "f4")
    variant = ado.transpose["naive_loops"]
    compared = ado.compare(sweep, sweep)
    parts = [
        *(variant.cost(a), variant.source, variant.diff("blocked"), ado.transpose.choose(a)),
        *(
            ado.cards[next(iter(ado.cards))],
            ado.diagnose(sweep),
            sweep[0].limiter,
            sweep[-1].resources,
        ),
        *(sweep[-1].problem, sweep[-1].kernels[0], sweep.machine.ceilings[0]),
        *(stored["counts"][0], next(m.experiments for m in load(CPU) if m.experiments)),
        *(compared, compared[0], compared[0].comparison, compared[0].comparison.verdict),
        *(ado.records.Setting((32, 8), {"TILE": 32}), stored["profile"].kernels[0]),
        *(stored["sass"][0], make_offloads().break_even, make_offloads().offloads[0]),
        *(ado.sectors("aligned"), ado.bank_conflicts("stride 2"), ado.gpp_operands((8, 4, 4, 2))),
        ado.divergence(np.arange(32) % 2 == 0),
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
    if not {name} & {"Cost", "GppOperands", "Sectors", "BankConflicts", "Divergence"}:
        assert copied == record
    if hasattr(record, "to_dict"):
        assert copied.to_dict() == record.to_dict()


@pytest.mark.parametrize("how", COPIES)
def test_copies_of_comparisons_have_all_attributes(how):
    sweep = make_transpose()
    comparison = sweep[1].compare(sweep[0])
    copied = COPIES[how](comparison)
    assert tuple(copied) == tuple(comparison)
    assert vars(copied) == vars(comparison)
    assert vars(comparison)["resolution"] < 1
    both = COPIES[how](ado.compare(sweep, make_transpose(scale=1.5)))
    assert both.title
    assert [c.variant for c in both.slower()] == [m.variant for m in sweep]
