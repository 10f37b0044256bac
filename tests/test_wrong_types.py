"""Arguments of a wrong type: a TypeError that names the argument, the rule and what was found."""

import numpy as np
import pytest
from charting import make_transpose

import adokernels as ado

A = np.arange(64.0).reshape(8, 8)
SWEEP = make_transpose()
SETTINGS = {"progress": False, "ceilings": False, "device": "cpu", "seconds": 0}


def sweep(**options):
    return ado.sweep(ado.transpose, A, **SETTINGS | options)


def scan(**options):
    return ado.scan(ado.transpose, **SETTINGS | options)


def own(**options):
    return ado.check(lambda a: a.T.copy(), ado.transpose, A, **options)


def set_to(name, value):
    setattr(ado.settings, name, value)


TUNING = ado.records.Tuning(
    routine="transpose", variant="simd", settings={"8": ado.records.Setting((8,))}, sweep=SWEEP
)
CALLS = {
    "peers must be a mapping from names to functions, got int": lambda: sweep(peers=5),
    "peers must map names to functions": lambda: sweep(peers={"a": 1}),
    "variants must be names of variants, got int": lambda: sweep(variants=5),
    "blocks must be a mapping from names of variants to blocks, got": lambda: sweep(blocks=[1]),
    "extra must be an iterable of variants, got NoneType": lambda: sweep(extra=None),
    "device must be a str, got int": lambda: sweep(device=5),
    "seconds must be a number, got NoneType": lambda: sweep(seconds=None),
    "precision must be a number, got str": lambda: sweep(precision="1"),
    "flops must be a number, got list": lambda: ado.measure(abs, 1, flops=[]),
    "shapes must be a sequence of lengths per problem, got int": lambda: scan(shapes=8),
    "shapes must be integers, the lengths of each problem, got str": lambda: scan(shapes=["8"]),
    "routine must be a variant, routine or callable, got str": lambda: ado.scan("transpose"),
    "against must be names of variants, got int": lambda: own(against=5),
    "sweep must be a sweep, got NoneType": lambda: ado.steps(None),
    "what must be a sweep, a measurement, or several": lambda: ado.speed_of_light(None),
    "what must be sweeps, measurements or machines, got int": lambda: ado.roofline(5),
    "ax must be Axes of matplotlib, got int": lambda: ado.steps(SWEEP, ax=5),
    "title must be a str, got int": lambda: ado.write_report("x", title=5, sweeps=[SWEEP]),
    "sweeps must be a sequence of": lambda: ado.write_report("x", sweeps=5),
    "sweeps must be sweeps, scans": lambda: ado.write_report("x", sweeps=[SWEEP.machine]),
    "other must be a variant or its name, got int": lambda: ado.transpose["simd"].diff(5),
    "other must be a measurement, got Sweep": lambda: SWEEP[0].compare(SWEEP),
    "sweep must be a Sweep, got Variant": lambda: ado.diagnose(ado.variant(np.sort)),
    "what must be a variant, routine or callable, got int: for example": lambda: ado.measure(5),
    "routine must be a routine or a ladder, got function: for example": lambda: ado.sweep(np.sort),
    "setting must be a setting, got tuple": lambda: TUNING.use((8,)),
    "parameters must be a mapping from names to values, got int": lambda: ado.cuda_variant(
        "k", source="", kernel="k", block=32, parameters=5
    ),
    "size must be a name or a tuple, got int": lambda: ado.gpp_operands(5),
    "device must be a str, got NoneType": lambda: set_to("device", None),
    "threads must be an integer, got str": lambda: set_to("threads", "4"),
}


@pytest.mark.parametrize("words", CALLS)
def test_the_message_names_the_argument_and_what_was_found(words):
    with pytest.raises(TypeError) as caught:
        CALLS[words]()
    assert words in str(caught.value)


def test_numbers_and_names_of_other_libraries_are_accepted():
    quick = {"seconds": np.float32(0), "precision": np.float64(0.5), "variants": iter(["simd"])}
    assert [m.variant for m in sweep(**quick, peers=None, blocks=None)] == ["simd"]
