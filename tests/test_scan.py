"""Scans over sizes."""

import numpy as np
import pytest
from charting import SIZES, clashes, new_figure, outside

import adokernels as ado

SHAPES = [(64, 64), (8, 8), (32, 16)]


@pytest.fixture(scope="module")
def scan():
    quick = {"device": "cpu", "seconds": 0.01, "progress": False}
    peers = {"NumPy": lambda a: a.T.copy()}
    names = ["naive_loops", "blocked"]
    return ado.scan(ado.transpose, shapes=SHAPES, variants=names, peers=peers, **quick)


def test_one_sweep_per_problem_from_small_to_large(scan):
    assert [s.measurements[0].problem.operands[0].shape for s in scan] == [
        (8, 8),
        (32, 16),
        (64, 64),
    ]
    assert scan.names == ("naive_loops", "blocked", "NumPy")
    assert len(scan.of("NumPy")) == 3
    assert all(m.error == 0 for m in scan.of("NumPy"))  # the peer received the operands


def test_the_table_has_a_line_per_problem(scan):
    text = repr(scan)
    for shape in ("8 x 8", "32 x 16", "64 x 64"):
        assert shape in text


def test_a_scan_is_stored(scan, tmp_path):
    scan.save(tmp_path / "scan.json")
    loaded = ado.load(tmp_path / "scan.json")
    assert isinstance(loaded, ado.Scan)
    assert loaded.to_dict() == scan.to_dict()
    assert loaded.caches == scan.caches


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["bandwidth", "time"])
def test_the_chart_has_a_line_per_variant(scan, kind, size):
    ax = new_figure(size, layout="constrained").add_subplot()
    assert scan.plot(kind, ax=ax) is ax
    ax.figure.canvas.draw()
    assert not clashes(ax)
    assert not outside(ax)
    for name, line in zip(scan.names, ax.lines, strict=False):
        found = scan.of(name)
        np.testing.assert_array_equal(line.get_xdata(), [m.bytes for m in found])
        rates = [m.bytes_per_second if kind == "bandwidth" else m.seconds for m in found]
        np.testing.assert_array_equal(line.get_ydata(), rates)


def test_a_call_s_variant_is_the_default():
    found = ado.scan(ado.transpose, shapes=[(16, 16)], device="cpu", seconds=0.01, progress=False)
    choice = ado.transpose.choose(np.empty((16, 16), np.float32), device="cpu")
    assert [m.variant for m in found.sweeps[0].variants] == [choice.variant]


def test_default_sizes_grow_by_the_same_factor():
    from adokernels.measuring.scanning import _default_shapes

    shapes = _default_shapes(ado.transpose, "f8")
    sizes = [16 * rows * cols for rows, cols in shapes]
    np.testing.assert_allclose(sizes, 4.0 ** np.arange(6, 15), rtol=0.1)
    largest = _default_shapes(ado.max_plus, None)[-1]  # no larger than the task
    assert largest == tuple(ado.tasks.TASKS["max_plus"].lengths.values())


def test_wrong_arguments(scan):
    with pytest.raises(ValueError, match="at least one problem"):
        ado.scan(ado.transpose, shapes=[])
    with pytest.raises(TypeError, match=r"routine such as ado\.transpose"):
        ado.scan(np.transpose)
    with pytest.raises(ValueError, match="'bandwidth' or 'time'"):
        scan.plot("area")
