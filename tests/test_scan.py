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
    assert isinstance(loaded, ado.records.Scan)
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


def test_time_and_bandwidth_are_in_one_figure_by_default(scan):
    upper = scan.plot()
    axes = upper.figure.axes
    assert [ax.get_ylabel().split(" [")[0] for ax in axes] == ["Bandwidth", "Time per call"]
    assert axes[0] is upper
    upper.figure.canvas.draw()
    for ax in axes:
        assert not clashes(ax)
        assert not outside(ax)
        shown = [t.get_text() for t in ax.get_yticklabels(which="both") if t.get_text()]
        assert len(shown) >= 3
        assert all(text.replace(".", "").isdecimal() for text in shown)
        caches = {f"{level} " for level, size in scan.caches.items() if size < 8 << 10}
        words = [text.get_text() for text in ax.texts]
        assert all(any(word.startswith(cache) for word in words) for cache in caches)
    assert scan.plot(ax=new_figure(SIZES[0]).add_subplot()).get_ylabel().startswith("Bandwidth")


def test_a_call_s_variant_is_the_default():
    found = ado.scan(ado.transpose, shapes=[(16, 16)], device="cpu", seconds=0.01, progress=False)
    choice = ado.transpose.choose(np.empty((16, 16), np.float32), device="cpu")
    assert [m.variant for m in found.sweeps[0].variants] == [choice.variant]


def default_shapes(routine, dtype=None, **options):
    from adokernels.measuring.scanning import _default_shapes

    return _default_shapes(routine, dtype, options)


def test_default_sizes_are_powers_of_two_from_4_kib_to_256_mib():
    sizes = [16 * rows * cols for rows, cols in default_shapes(ado.transpose, "f8")]
    np.testing.assert_array_equal(sorted(sizes), 4 ** np.arange(6, 15))


def test_short_lengths_are_properties_of_the_problem():
    assert {c for _, c in default_shapes(ado.component)} == {3}
    ado.scan(
        ado.component, shapes=default_shapes(ado.component)[-1:], device="cpu", seconds=0.01,
        progress=False, c=1,
    )  # fmt: skip


def test_options_count_in_default_sizes():
    moved = [
        ado.strided_copy.variants[0].cost(np.zeros(n, "f4"), stride=64).bytes
        for (n,) in default_shapes(ado.strided_copy, stride=64)
    ]
    assert min(moved) > 2048
    assert max(moved) <= 1 << 28


@pytest.mark.parametrize("routine", ado.routines.values(), ids=lambda r: r.name)
def test_each_routine_has_default_sizes(routine):
    assert len(default_shapes(routine)) >= 4


def test_variants_from_a_generator_and_ceilings_alone():
    names = (name for name in ["stream_copy"])
    quick = {"device": "cpu", "seconds": 0.01, "progress": False}
    found = ado.scan(ado.transpose, shapes=[(8, 8), (16, 16)], variants=names, **quick)
    assert [len(s.measurements) for s in found] == [1, 1]
    assert "B/s" in found.plot().get_title(loc="left")


def test_wrong_arguments(scan):
    with pytest.raises(ValueError, match="at least one problem"):
        ado.scan(ado.transpose, shapes=[])
    with pytest.raises(TypeError, match=r"routine such as ado\.transpose"):
        ado.scan(np.transpose)
    with pytest.raises(ValueError, match="'bandwidth', 'time' or 'both', got 'area'"):
        scan.plot("area")
    with pytest.raises(ValueError, match="if ax is given"):
        scan.plot("both", ax=new_figure(SIZES[0]).add_subplot())
