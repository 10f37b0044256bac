"""Scans over sizes."""

import dataclasses
import re

import numpy as np
import pytest
from charting import CPU, SIZES, Lab, clashes, legend_words, make_offloads, new_figure, outside

import adokernels as ado
from adokernels.measuring import scanning
from adokernels.records.inputs import Inputs
from adokernels.records.scan import BreakEven
from adokernels.records.statistics import Verdict

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


@pytest.fixture
def invented():
    """A scan of an invented CPU, for charts, which depend on the times."""
    lab, sweeps = Lab(), []
    for side in (16, 128, 1024, 8192):
        problem, moved = Inputs.of([("a", (side, side), "float32")]), 8.0 * side * side
        common = {"routine": "transpose", "device": "cpu", "problem": problem, "flops": 0}
        common |= {"bytes": moved, "executed_flops": 0, "requested_bytes": moved}
        rates = {"naive_loops": 2e9, "blocked": 7e9, "NumPy": 4e9}
        *ours, peer = (
            lab.measure(2e-7 + moved / rate, variant=name, **common | {"session": str(side)})
            for name, rate in rates.items()
        )
        sweeps.append(
            ado.records.Sweep(
                routine="transpose", measurements=tuple(ours), peers=(peer,), machine=CPU
            )
        )
    return ado.records.Scan(routine="transpose", sweeps=tuple(sweeps))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ["bandwidth", "time"])
def test_the_chart_has_a_line_per_variant(invented, kind, size):
    scan = invented
    ax = new_figure(size, layout="constrained").add_subplot()
    assert scan.plot(kind, ax=ax) is ax
    ax.figure.draw_without_rendering()
    assert not clashes(ax)
    assert not outside(ax)
    for name, line in zip(scan.names, ax.lines, strict=False):
        found = scan.of(name)
        np.testing.assert_array_equal(line.get_xdata(), [m.bytes for m in found])
        rates = [m.bytes_per_second if kind == "bandwidth" else m.seconds for m in found]
        np.testing.assert_array_equal(line.get_ydata(), rates)


def test_time_and_bandwidth_are_in_one_figure_by_default(invented):
    scan = invented
    upper = scan.plot()
    axes = upper.figure.axes
    labels = [ax.get_ylabel() for ax in axes]
    assert [label.split(" [")[0] for label in labels] == ["Bandwidth", "Time per call, logarithmic"]
    assert axes[0] is upper
    upper.figure.draw_without_rendering()
    for ax in axes:
        assert not clashes(ax)
        assert not outside(ax)
    assert scan.plot(ax=new_figure(SIZES[0]).add_subplot()).get_ylabel().startswith("Bandwidth")


def test_a_call_s_variant_is_the_default():
    found = ado.scan(ado.transpose, shapes=[(16, 16)], device="cpu", seconds=0.01, progress=False)
    choice = ado.transpose.choose(np.empty((16, 16), np.float32), device="cpu")
    assert [m.variant for m in found.sweeps[0].variants] == [choice.variant]


def default_shapes(routine, dtype=None, **options):
    return scanning.default_shapes(routine, dtype, options)


def test_default_sizes_are_powers_of_two_from_4_kib_to_256_mib():
    sizes = [16 * rows * cols for rows, cols in default_shapes(ado.transpose, "f8")]
    np.testing.assert_array_equal(sorted(sizes), 4 ** np.arange(6, 15))


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
    with pytest.raises(TypeError, match=r"shapes must be given for own ladders and functions"):
        ado.scan(np.transpose)
    with pytest.raises(TypeError, match=r"operands must be given"):
        ado.scan(np.transpose, shapes=[(3, 4)])
    with pytest.raises(TypeError, match="shapes must be integers, the lengths of each problem"):
        ado.scan(np.transpose, shapes=[(2, "b")], operands=np.ones)
    with pytest.raises(TypeError, match=r"as operands\(10, 64\): .*data type; .*lambda \*lengths"):
        ado.scan(np.sort, shapes=[(10, 64)], operands=np.random.default_rng(0).random)
    for further in ({"variants": ["a"]}, {"dtype": "f4"}):
        with pytest.raises(TypeError, match="dtype are for routines; variants is for ladders"):
            ado.scan(np.sort, shapes=[3], operands=np.ones, **further)
    with pytest.raises(ValueError, match="'bandwidth', 'time' or 'both', got 'area'"):
        scan.plot("area")
    with pytest.raises(ValueError, match="if ax is given"):
        scan.plot("both", ax=new_figure(SIZES[0]).add_subplot())


SIZES_OF_VERDICTS = [1.0, 4.0, 16.0, 64.0, 256.0]


def verdicts_of(verdicts, ratios):
    words = {"S": "slower", "F": "faster", "=": "same", "?": "unclear"}
    return [(Verdict(words[v]), r) for v, r in zip(verdicts, ratios, strict=True)]


def break_even(verdicts, ratios):
    return BreakEven.of(SIZES_OF_VERDICTS, verdicts_of(verdicts, ratios))


@pytest.mark.parametrize(
    ("verdicts", "ratios", "above", "upto", "size"),
    [
        ("SSFFF", [0.1, 0.5, 2, 3, 4], 4, 16, 8),  # half-way in the logarithms of size and ratio
        ("SS?FF", [0.1, 0.5, 1, 2, 4], 4, 64, 16),  # an unclear verdict widens the range
        ("S=?FF", [0.5, 1.001, 0.999, 2, 4], 1, 64, 16),  # the last of several crossings
        ("FSFFF", [2, 0.5, 2, 3, 4], 4, 16, 8),
        ("FFFFF", [2, 2, 2, 2, 2], None, 1, None),
        ("?=FFF", [1, 1, 2, 2, 2], None, 16, None),
        ("SSSSS", [0.1] * 5, None, None, None),
        ("SFFF?", [0.5, 2, 2, 2, 1.01], None, None, None),  # it does not stay faster
        ("SFFFS", [0.5, 2, 2, 2, 0.9], None, None, None),
    ],
)
def test_the_gpu_stays_faster_from_the_break_even_size(verdicts, ratios, above, upto, size):
    found = break_even(verdicts, ratios)
    assert (found.smallest, found.largest) == (1, 256)
    assert (found.above, found.upto) == (above, upto)
    assert found.crossing == (None if size is None else pytest.approx(size, rel=1e-2))


@pytest.mark.parametrize(
    ("verdicts", "ratios", "what", "words"),
    [
        ("FFF?S", [4, 3, 2, 1, 0.5], "f", "about n = 64 (between n = 16 and n = 256)"),
        ("SSFFF", [0.1, 0.5, 2, 3, 4], "g", "about n = 8 (between n = 4 and n = 16)"),
        ("FF=?=", [4, 2, 1, 1, 1], "g", ""),
        ("S=?SS", [0.5, 1, 1, 0.5, 0.5], "g", ""),  # the peer is never faster
    ],
)
def test_a_crossing_of_functions_is_found_in_both_directions(verdicts, ratios, what, words):
    found = BreakEven.of_either(SIZES_OF_VERDICTS, verdicts_of(verdicts, ratios), "f", "g")
    assert (found.what, found.than) == (what, "f" if what == "g" else "g")
    assert (found.crossing is not None) == bool(words)
    if words:
        assert repr(found) == f"{what} is faster than {found.than} from {words}"
    else:
        assert repr(found).startswith(("g is faster than f at some sizes", "g is not faster"))


def test_break_even_of_a_scan_with_copies():
    # 18 us + 2 x 4 n^2 / 8 GB/s on the GPU; 2 us + 8 n^2 / 3.2 GB/s on the CPU
    scan = make_offloads((10e9, 10e9), cpu=(2e-6, 3.2e9))
    even = scan.break_even
    assert (even.above, even.upto) == (32 << 10, 128 << 10)
    assert even.crossing == pytest.approx(18e-6 / (1 / 3.2e9 - 1 / 8e9), rel=0.1)
    assert (scan.kernel_break_even.above, scan.kernel_break_even.upto) == (None, 8 << 10)
    assert scan.finding.startswith("With copies, the GPU is faster than the CPU from about")
    text = " ".join(repr(scan).split())
    assert "GPU is faster than the CPU from about" in text
    assert "link's roof" in text
    assert make_offloads().break_even.upto is None


def test_sizes_without_a_verdict_do_not_change_the_break_even_size():
    scan = make_offloads((10e9, 10e9), cpu=(2e-6, 3.2e9))
    *most, last = scan.offloads
    few = {"cpu": dataclasses.replace(last.cpu, samples=last.cpu.samples[:4], waits=[], clocks=[])}
    found = dataclasses.replace(scan, offloads=(*most, dataclasses.replace(last, **few)))
    assert found.break_even.crossing == scan.break_even.crossing
    assert found.kernel_break_even.upto == scan.kernel_break_even.upto
    assert found.break_even.largest == scan.break_even.largest / 4
    without = dataclasses.replace(scan, sweeps=scan.sweeps[-1:], offloads=(found.offloads[-1],))
    assert without.break_even is None
    assert "of unknown speed" in without.finding
    without.plot()


def test_a_scan_with_copies_is_stored(tmp_path):
    scan = make_offloads()
    scan.save(tmp_path / "scan.json")
    loaded = ado.load(tmp_path / "scan.json")
    assert loaded == scan
    assert loaded.break_even == scan.break_even
    assert {r["variant"] for r in scan.records()} == {"wide", "call on cpu", "call on cuda"}
    with pytest.raises(ValueError, match="one entry per sweep, got 1"):
        ado.records.Scan(routine="transpose", sweeps=scan.sweeps, offloads=scan.offloads[:1]).save(
            tmp_path / "scan.json"
        )


def test_a_scan_without_copies_has_no_break_even_size(scan):
    assert scan.break_even is None
    assert scan.kernel_break_even is None
    assert scan.finding == ""


@pytest.mark.parametrize("linked", [True, False])
@pytest.mark.parametrize("cpu", [(2e-6, 3.2e9), (3e-6, 40e9), (1e-3, 1e9)])
def test_the_chart_of_a_scan_with_copies_names_its_curves(cpu, linked):
    scan = make_offloads(cpu=cpu, linked=linked)
    ax = new_figure(SIZES[0], layout="constrained").add_subplot()
    assert scan.plot(ax=ax) is ax
    ax.figure.draw_without_rendering()
    assert not clashes(ax)
    assert not outside(ax)
    title = ax.get_title("left")
    assert "\n" in title
    assert not re.search(r"\d\n", title), "a number and its unit stay on one line"
    words = [text.get_text() for text in ax.texts]
    names = ["CPU", "GPU with copies", "kernel alone"] + ["copies at the link's roof"] * linked
    assert legend_words(ax)[1:] == names
    curves = [line for line in ax.lines if len(line.get_xdata()) == len(scan)]
    np.testing.assert_array_equal(curves[0].get_ydata(), [o.cpu.seconds for o in scan.offloads])
    np.testing.assert_array_equal(curves[1].get_ydata(), [o.gpu.seconds for o in scan.offloads])
    np.testing.assert_array_equal(curves[2].get_ydata(), [k.seconds for k in scan.kernels])
    if linked:
        seconds = [o.uploaded / 9e9 + o.downloaded / 11e9 for o in scan.offloads]
        np.testing.assert_allclose(curves[3].get_ydata(), seconds)
    assert any(word.startswith("break-even") for word in words) == bool(scan.break_even.crossing)
    with pytest.raises(ValueError, match="'time' for a scan with copies"):
        scan.plot("bandwidth")


@pytest.fixture
def cpu_as_gpu(monkeypatch, tmp_path):
    """Lets the CPU stand in for the GPU, and keeps stored scans apart."""
    monkeypatch.setattr(scanning, "_gpu_of", lambda _: "cpu")
    monkeypatch.setenv("ADOKERNELS_CACHE", str(tmp_path))


QUICK = {"seconds": 0.01, "progress": False, "ceilings": False}


@pytest.mark.parametrize("routine", ado.routines.values(), ids=lambda r: r.name)
def test_scanning_with_copies_times_calls_with_numpy_arrays(cpu_as_gpu, routine):
    shapes = sorted(default_shapes(routine))[:2]
    found = ado.scan(routine, shapes=shapes, copies=True, **QUICK)
    assert len(found.offloads) == len(found) == 2
    withheld = [bool(o.gpu.compare(o.cpu).reason) for o in found.offloads]  # on a busy machine
    assert (found.break_even is None) is all(withheld)
    for kernel, o in zip(found.kernels, found.offloads, strict=True):
        assert o.cpu.problem == o.gpu.problem == kernel.problem
        assert o.cpu.session == o.gpu.session  # interleaved
        assert o.cpu.error is not None  # checked
        assert o.gpu.error is not None
        assert o.uploaded > 0
        assert o.downloaded > 0


def test_copies_are_counted_whole(cpu_as_gpu):
    options = {"copies": True, "stride": 4, **QUICK}
    found = ado.scan(ado.strided_copy, shapes=[(4096,)], dtype="f4", **options)
    (o,) = found.offloads
    operand = np.zeros(4096, "f4")
    result = ado.strided_copy(operand, stride=4)
    assert (o.uploaded, o.downloaded) == (operand.nbytes, result.nbytes)


def test_a_wrong_result_of_a_call_is_an_error(cpu_as_gpu, monkeypatch):
    monkeypatch.setattr(scanning, "partial", lambda f, *a, **o: lambda: f(*a, **o) + 1)
    with pytest.raises(ValueError, match=r"transpose, call on cpu: wrong result"):
        ado.scan(ado.transpose, shapes=[(8, 8)], copies=True, **QUICK)


@pytest.mark.parametrize("interrupted_call", [3, 4])
def test_ctrl_c_keeps_whole_problems(cpu_as_gpu, monkeypatch, interrupted_call):
    original, calls = scanning._offload, []

    def offload(*arguments):
        calls.append(arguments)
        if len(calls) == interrupted_call:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(scanning, "_offload", offload)
    shapes = [(8 * n, 8) for n in range(5, 0, -1)]
    found = ado.scan(ado.transpose, shapes=shapes, copies=True, **QUICK)
    assert found.interrupted
    assert len(found) == len(found.offloads) == interrupted_call - 1
    sizes = [o.cpu.bytes for o in found.offloads]
    assert sizes == sorted(sizes) == [k.bytes for k in found.kernels]
    calls[:] = [()] * (interrupted_call - 1)
    with pytest.raises(KeyboardInterrupt):
        ado.scan(ado.transpose, shapes=shapes, copies=True, **QUICK)


def test_wrong_arguments_with_copies(monkeypatch):
    with pytest.raises(ValueError, match="device must be a GPU, got 'cpu'"):
        ado.scan(ado.transpose, copies=True, device="cpu")
    monkeypatch.setattr(scanning, "_gpu_of", lambda _: "cpu")
    for further in ({"variants": "simd"}, {"peers": {"NumPy": np.transpose}}):
        with pytest.raises(ValueError, match="omit variants and peers"):
            ado.scan(ado.transpose, copies=True, **further)
