"""Comparing and measuring any function: results, operands, devices, records, the pytest fixture."""

import dataclasses
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from charting import Lab, clashes, new_figure
from conftest import run_python

import adokernels as ado
from adokernels.cli.program import main
from adokernels.measuring import functions
from adokernels.records.statistics import Verdict

X = np.random.default_rng(0).random(500)
QUICK = {"seconds": 0.02, "progress": False}


def stable(x):
    return np.sort(x, kind="stable")


def compare(*what, **options):
    return ado.compare(*what, **QUICK | options)


# --- Comparisons ----------------------------------------------------------------------------------


def test_samples_of_two_functions_are_paired(tmp_path):
    found = compare(np.sort, stable, X)
    assert found.labels == ("sort", "stable")
    assert [c.variant for c in found] == ["stable"]
    before, after = found["stable"].before, found["stable"].after
    assert before.session == after.session != ""
    assert "unchecked" not in before.flags
    assert found["stable"].comparison == after.compare(before)
    assert (before.device, before.problem.operands[0].shape) == ("cpu", X.shape)
    found.save(tmp_path / "c.json")
    assert ado.load(tmp_path / "c.json") == found
    ax = new_figure((8, 3)).add_subplot()
    assert found.plot(ax) is ax
    assert any("stable" in text.get_text() for text in ax.texts)
    assert "function" in repr(found)


@pytest.mark.parametrize("function", [lambda x: x, np.sort, np.sin, np.asarray, len, max])
def test_a_call_without_operands_is_explained(function):
    words = r"compare calls .*\(\*operands\), but there are no operands: it fails with TypeError"
    with pytest.raises(TypeError, match=words):
        compare(function, function)
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'x'$"):
        compare(lambda: [stable()], stable)  # the operand is missing inside the function


def buffered(x, **options):
    return np.sort(x, **options)


@pytest.mark.parametrize("function", [np.sort, stable, buffered, max, len, ado.transpose])
def test_a_misspelt_option_is_not_blamed_on_the_function(function):
    name = functions.name_of(function)
    x = X.reshape(2, -1) if function is ado.transpose else X
    words = "has no option 'precison': did you mean 'precision'"
    with pytest.raises(TypeError, match=rf"^compare\({name}\) {words}"):
        compare(function, function, x, precison=0.1)
    with pytest.raises(TypeError, match=rf"^measure\({name}\) {words}"):
        ado.measure(function, x, precison=0.1)


def test_options_of_functions_are_passed_on():
    def scaled(x, second, labels=None):
        return x * second

    found = compare(scaled, scaled, X, second=2, labels="misspelt")
    assert found.labels == ("scaled", "scaled (2)")
    with pytest.raises(TypeError, match=r"^stable\(\) got an unexpected keyword argument 'axis'"):
        compare(stable, stable, X, axis=0)  # compare has no similar option

    def wrong(x, seconde):
        raise TypeError("the keyword argument seconde is wrong")

    with pytest.raises(TypeError, match="seconde is wrong"):
        ado.measure(wrong, X, seconde=2)


def test_more_functions_are_compared_with_the_first_one():
    found = compare({"quick": np.sort, "stable": stable, "again": np.sort}, X)
    assert [c.variant for c in found] == ["stable", "again"]
    assert {c.before.variant for c in found} == {"quick"}
    assert found.labels == ("quick", "the other")


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda x: x, r"is wrong: \d+ of 500 elements are out of tolerance: the worst at \[\d+\]"),
        (lambda x: np.sort(x)[:-1], r"has shape \(499,\), not \(500,\)"),
        (lambda x: np.sort(x).astype("f4"), "is float32, not float64; with tolerance="),
        (lambda x: None, r"is None, not array\("),
        (lambda x: list(np.sort(x)), r"is \["),
        (lambda x: np.where(X[3] == X, np.nan, np.sort(x)), "is wrong: 1 of 500 elements is out"),
    ],
)
def test_other_results_are_described(other, message):
    with pytest.raises(ValueError, match=f"the result of <lambda> differs from sort: {message}"):
        compare(np.sort, other, X)


@pytest.mark.parametrize(
    ("results", "message"),
    [
        (((1, [2, 3]), (1, [2, 4])), r"\[1\]\[1\] is 4, not 3"),
        (({"a": 1}, {"b": 1}), r"has the keys \['b'\], not \['a'\]"),
        (({"a": X}, {"a": X + 1}), r"\['a'\] is wrong: 500 of 500"),
        (((1, 2), (1, 2, 3)), "has 3 items, not 2"),
        (("ab", "ac"), "is 'ac', not 'ab'"),
        ((np.array(["a", "b"]), np.array(["a", "c"])), r"at \[1\] is .*c.*, not .*b"),
        ((2.0, 3.0), "is 3.0, not 2.0"),
    ],
)
def test_nested_results_are_compared(results, message):
    first, second = results
    with pytest.raises(ValueError, match=message):
        compare({"f": lambda: first, "g": lambda: second})
    assert compare({"f": lambda: first, "g": lambda: first})


def test_frames_and_equal_nans_agree():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": ["x", "y"]})
    assert compare({"f": lambda: frame, "g": frame.copy})
    with pytest.raises(ValueError, match=r"at \[1, 1\] is 'z', not 'y'"):
        compare({"f": lambda: frame, "g": lambda: frame.replace("y", "z")})


def test_a_tolerance_allows_other_types():
    found = compare(np.sort, lambda x: np.sort(x).astype("f4"), X, tolerance=1e-6)
    assert len(found) == 1
    with pytest.raises(ValueError, match="out of tolerance"):
        compare(np.sort, lambda x: 1.001 * np.sort(x), X, tolerance=1e-6)


def test_random_results_are_named():
    draw = np.random.default_rng(0).random
    with pytest.raises(ValueError, match="of f differ from call to call: use the same seed"):
        compare({"f": lambda: draw(3), "g": lambda: draw(3)})
    found = compare({"f": lambda: draw(3), "g": lambda: draw(3)}, check=False)
    assert "unchecked" in found["g"].after.flags


async def coroutine(x):
    return x


@pytest.mark.parametrize("lazy", [lambda x: map(str, x), lambda x: (n for n in x), coroutine])
def test_lazy_results_are_refused(lazy):
    with pytest.raises(TypeError, match="must do its work before it returns, got a"):
        compare(lazy, lazy, X)


# --- Operands that change -------------------------------------------------------------------------


def test_changed_operands_need_a_setup():
    x = X.copy()
    with pytest.raises(ValueError, match="sort must not change its operand 1: pass setup="):
        compare(np.ndarray.sort, lambda a: a.sort(kind="stable"), x)
    with pytest.raises(ValueError, match="sort must not change its operand 1"):
        compare(list.sort, sorted, [3, 1, 2])
    x = X.copy()
    seen = []

    def in_place(a):
        seen.append(a.copy())
        a.sort()

    found = compare({"f": in_place, "g": np.ndarray.sort}, x, setup=np.copy)
    assert all((a == X).all() for a in seen)
    assert (x == X).all()
    assert {c.before.calls_per_sample for c in found} == {1}
    with pytest.raises(ValueError, match=r"the result of g differs from f: \[0\] is wrong"):
        compare({"f": np.ndarray.sort, "g": lambda a: a[::-1].sort()}, x, setup=np.copy)


def test_an_output_may_be_an_operand():
    out = np.empty_like(X)

    def write(x, out):
        np.multiply(x, 2, out=out)

    allowed = {"setup": lambda *_: None}
    assert compare({"f": write, "g": write}, X, out, **allowed)
    out[:] = 0
    with pytest.raises(ValueError, match=r"the result of g differs from f: \[1\] is wrong"):
        compare({"f": write, "g": lambda x, out: None}, X, out, **allowed)


def test_a_setup_makes_several_operands():
    m = ado.measure(
        lambda a, b: a.extend(b), setup=lambda: ([1], [2, 3]), seconds=0.01, cache="warm"
    )
    assert len(m.samples) >= 5


# --- The device -----------------------------------------------------------------------------------


class OnGpu:
    """An array of CuPy in GPU memory."""

    __module__ = "cupy"
    shape, dtype = (4,), np.dtype("f4")

    def __init__(self, ordinal=0):
        self.ordinal = ordinal

    def __dlpack_device__(self):
        return 2, self.ordinal


@pytest.mark.parametrize(
    ("values", "device"),
    [
        *(((OnGpu(),), "cuda:0"), ((None, [OnGpu(1)]), "cuda:1"), (({"a": [OnGpu()]},), "cuda:0")),
        *(((X, [X]), "cpu"), ((None,), "cpu")),
    ],
)
def test_the_device_of_operands_and_results(values, device):
    assert functions.device_of(*values) == device


def test_two_gpus_need_a_device():
    with pytest.raises(ValueError, match="one GPU, got cuda:0 and cuda:1: pass device="):
        functions.device_of(OnGpu(0), [OnGpu(1)])


def test_jax_on_a_gpu_is_refused():
    jax = type("Array", (OnGpu,), {"__module__": "jaxlib"})()
    with pytest.raises(ValueError, match="JAX works on a stream of its own"):
        functions.device_of(jax)


# --- Wrong arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "options", "error", "message"),
    [
        ((X, X), {}, TypeError, "before must be a function, or both must be stored"),
        ((np.sort, X), {}, TypeError, "got ndarray"),
        ((np.sort,), {}, TypeError, "after must be a function"),
        (({"f": np.sort}, X), {}, ValueError, "at least two functions, got 1"),
        (({"f": np.sort, "g": 3}, X), {}, TypeError, r"before\['g'\] must be a func"),
        (({1: np.sort, 2: np.sort}, X), {}, TypeError, "must be a str, got int"),
        ((np.sort, stable, X), {"setup": 3}, TypeError, "setup must be a function"),
        ((np.sort, stable, X), {"check": 1}, TypeError, "check must be a bool"),
        ((np.sort, stable, X), {"tolerance": -1}, ValueError, "tolerance must be"),
        ((np.sort, stable, X), {"device": "gpu"}, ValueError, "device must be 'cpu'"),
        (("a.json", "b.json", X), {}, TypeError, "are for functions, not for stored"),
    ],
)
def test_wrong_arguments(what, options, error, message):
    with pytest.raises(error, match=message):
        compare(*what, **options)


# --- Sizes and reports ----------------------------------------------------------------------------


def test_functions_and_own_ladders_have_scans(tmp_path):
    rng = np.random.default_rng(0)
    how = QUICK | {"ceilings": False}
    found = ado.scan(np.sort, shapes=[64, (32,)], operands=rng.random, peers={"s": stable}, **how)
    assert [s[0].bytes for s in found] == [2 * 8 * 32, 2 * 8 * 64]
    assert found.names == ("sort", "s")
    assert {len({m.session for m in (*s, *s.peers)}) for s in found} == {1}
    with pytest.raises(ValueError, match="the result of s differs from sort"):
        ado.scan(np.sort, shapes=[64], operands=rng.random, peers={"s": np.cumsum}, **how)
    with pytest.raises(TypeError, match="tolerance is for functions"):
        ado.scan(ado.transpose, shapes=[(8, 8)], tolerance=0.1, **how)
    own = ado.ladder("axpy", reference=lambda a, x: a * x)
    own.add(lambda a, x: x * a)
    ladder = ado.scan(own, shapes=[8, 16], operands=lambda n: (2.0, np.ones(n)), **how)
    assert [len(s.variants) for s in ladder] == [1, 1]
    assert ladder.routine == "axpy"
    page = ado.write_report(
        tmp_path / "r.html", sweeps=[found, ladder, compare(np.sort, stable, X)]
    ).read_text()
    for heading in ("<h2>sort (sizes)", "<h2>axpy (sizes)", "<h2>sort and stable"):
        assert heading in page
    assert page.count("<figure>") == 3
    with pytest.raises(TypeError, match="sweeps, scans and comparisons"):
        ado.write_report(tmp_path / "r.html", sweeps=[3])
    counts = ado.sweep(ado.transpose, np.ones((8, 8), "f4"), variants=["naive"], device="emulator")
    with pytest.raises(TypeError, match=r"a sweep on the emulator has counts; use ado\.diagnose"):
        ado.write_report(tmp_path / "r.html", sweeps=[counts])


def test_a_measurement_is_shown_as_a_sweep_of_one_variant(tmp_path, capsys):
    found = ado.measure(np.sort, X, seconds=0.02)
    assert ado.diagnose(found)[0].variant == "sort"
    for drawn in (ado.steps(found), ado.plot(found)):
        assert drawn.get_title(loc="left").startswith("sort: ")
    pages = [tmp_path / "a.html", tmp_path / "b.html"]
    ado.write_report(pages[0], sweeps=[found])
    found.save(tmp_path / "m.json")
    assert main(["report", str(tmp_path / "m.json"), "--out", str(pages[1])]) == 0
    for page in pages:
        assert ">sort</h2>" in page.read_text()
    assert main(["diagnose", str(tmp_path / "m.json")]) == 0
    assert "sort" in capsys.readouterr().out
    report = Path(__file__).parent / "data" / "ncu" / "transpose.csv"
    assert main(["report", str(report), "--out", str(pages[0])]) == 0
    assert ">transpose</h2>" in pages[0].read_text()


def test_a_scan_of_functions_is_in_the_order_of_n(tmp_path):
    def total(x):
        return x.sum(keepdims=True)

    def scanned(**options):
        how = QUICK | {"operands": np.random.default_rng(0).random, **options}
        return ado.scan(
            lambda x: total(x) * (1 + 1e-12), peers={"total": total}, shapes=[999, 10], **how
        )

    with pytest.raises(ValueError, match="the result of total differs from <lambda>"):
        scanned(tolerance=0)
    found = scanned(tolerance=1e-9)
    assert found.lengths == ((10,), (999,))
    assert found.sizes == (10, 999)
    assert [r["n"] for r in found.records()] == [10, 10, 999, 999]
    pytest.importorskip("pandas")
    assert list(found.to_frame().loc["(999,) float64"].index) == ["<lambda>", "total"]
    found.save(tmp_path / "s.json")
    assert ado.load(tmp_path / "s.json").to_dict() == found.to_dict()
    document = found.to_dict()
    document["sweeps"][0]["peers"] = []
    with pytest.raises(ValueError, match="the same peers each if there are lengths"):
        ado.records.Scan.from_dict(document)


def test_a_scan_of_functions_shows_ratios_and_crossovers():
    lab, sweeps = Lab(), []
    common = {"routine": "callable", "device": "cpu", "bytes": 0, "requested_bytes": 0}
    common |= {"flops": 0, "executed_flops": 0}
    for n in (10, 100, 1000):
        slow = lab.measure(1e-6 * n, variant="slow", **common)
        fast = lab.measure(3e-5 + 1e-8 * n, variant="fast", **common)
        sweeps.append(ado.records.Sweep(routine="slow", measurements=(slow,), peers=(fast,)))
    lengths = ((10,), (100,), (1000,))
    found = ado.records.Scan(routine="slow", sweeps=tuple(sweeps), lengths=lengths)
    verdicts = [c.verdict.value for c in found.comparisons["fast"]]
    assert verdicts == ["slower", "faster", "faster"]
    even = found.crossovers["fast"]
    assert (even.above, even.upto, even.than) == (10, 100, "slow")
    assert even.crossing == pytest.approx(30, rel=0.05)
    words = "faster than slow from about n = 30 (between n = 10 and n = 100)"
    assert re.sub(r"about n = \d+", "about n = 30", repr(even)) == f"fast is {words}"
    text = repr(found)
    assert found.finding in text
    assert "roof" not in text
    assert re.search(r"^ 1000 .* faster$", text, re.M)
    upper = found.plot()
    lower = upper.figure.axes[1]
    assert upper.get_ylabel() == "Time per call, logarithmic"
    assert lower.get_xlabel() == "n, logarithmic"
    ratios = [c.ratio for c in found.comparisons["fast"]]
    assert list(lower.lines[0].get_ydata()) == ratios
    assert upper.get_title(loc="left").replace("\n", " ") == found.finding
    for ax in (upper, lower):
        ax.figure.draw_without_rendering()
        assert not clashes(ax)
    with pytest.raises(ValueError, match="'time', 'ratio' or 'both', got 'bandwidth'"):
        found.plot("bandwidth")
    turned = [
        dataclasses.replace(s, routine="fast", measurements=s.peers, peers=s.measurements)
        for s in sweeps
    ]
    turned = ado.records.Scan(routine="fast", sweeps=tuple(turned), lengths=lengths)
    even = turned.crossovers["slow"]
    assert (even.above, even.upto, even.what, even.than) == (10, 100, "fast", "slow")
    assert turned.finding == found.finding
    assert turned.plot("time").get_title(loc="left").replace("\n", " ") == found.finding
    last = sweeps[-1]
    few = dataclasses.replace(last.peers[0], samples=last.peers[0].samples[:3])
    last = dataclasses.replace(last, peers=(few,))
    found = ado.records.Scan(routine="slow", sweeps=(sweeps[1], last), lengths=lengths[1:])
    words = "at all sizes with a verdict, from n = 100 to n = 100 (no verdict at n = 1000)"
    assert found.finding == f"fast is faster than slow {words}"
    legend = found.plot("ratio").get_legend()
    assert [text.get_text() for text in legend.get_texts()][-1] == "unclear"


# --- The command line -----------------------------------------------------------------------------


def run(*arguments):
    return main(["compare", *arguments, "--seconds", "0.02"])


def test_expressions_are_compared(tmp_path, capsys, monkeypatch):
    files = {kind: tmp_path / f"c.{kind}" for kind in ("json", "md", "png")}
    written = ["--json", files["json"], "--markdown", files["md"], "--plot", files["png"]]
    setup = ["--setup", "import math", "--setup", "x = np.arange(9.0)"]
    assert run("x.sum()", "math.fsum(x)", *setup, *map(str, written)) == 0
    assert {c.variant for c in ado.load(files["json"])} == {"math.fsum(x)"}
    assert "| math.fsum(x) |" in files["md"].read_text()
    assert all(path.stat().st_size for path in files.values())
    assert "math.fsum(x)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["1", "2"], 1, "the result of 2 differs from 1: is 2, not 1"),
        (["1"], 2, "compare needs two files, or two expressions or more, got 1"),
        (["a.json", "1"], 2, "compare needs two files"),
        (["a.jsn", "b.json"], 2, "got a.jsn, b.json; no such file: a.jsn"),
        (["x", "1"], 2, "'x': it fails with NameError"),
        (["1 +", "1"], 2, "'1 +': it fails with SyntaxError"),
        (["1", "1", "--setup", "import nothing_there"], 2, "ModuleNotFoundError"),
        (["exit()", "1"], 2, "'exit()': it fails with SystemExit"),
        (["1", "1", "--setup", "raise SystemExit(0)"], 2, "it fails with SystemExit"),
        (["next(x, None) or exit(0)", "1", "--setup", "x = iter([1])"], 2, "called exit(0)"),
    ],
)
def test_the_status_tells_the_error(arguments, status, message, capsys):
    assert run(*arguments) == status
    assert message in capsys.readouterr().err


def test_different_results_are_written_as_json(tmp_path, capsys):
    path = tmp_path / "a.json"
    files = ["--json", str(path), "--markdown", str(tmp_path / "a.md")]
    assert run("1", "2", *files) == 1
    assert "differs" in (error := capsys.readouterr().err)
    document = json.loads(path.read_text())
    assert (document["kind"], document["correct"]) == ("difference", False)
    assert document["reason"] in error


# --- The fixture of pytest ------------------------------------------------------------------------


@pytest.fixture
def ado_compare():
    plugin = __import__("adokernels_pytest")
    return plugin.ado_compare.__wrapped__()


def test_the_fixture_fails_and_skips(ado_compare, monkeypatch):
    assert len(ado_compare(np.sort, stable, X, fail_if_slower=None, seconds=0.02)) == 1
    with pytest.raises(pytest.fail.Exception, match="differs from sort"):
        ado_compare(np.sort, np.cumsum, X, seconds=0.02)
    with pytest.raises(ValueError, match=r"^fail_if_slower must be a percentage such as 5%"):
        ado_compare(np.sort, stable, X, fail_if_slower=0.1)
    with pytest.raises(TypeError, match="no option 'fail_if_slow': did you mean fail_if_slower"):
        ado_compare(np.sort, stable, X, fail_if_slow="5%")
    found = compare({"f": np.sort, "g": np.sort}, X)
    monkeypatch.setattr(ado, "compare", lambda *_, **__: found)
    for verdict, ratio, outcome in [
        (Verdict.SLOWER, 0.5, pytest.fail.Exception),
        (Verdict.UNCLEAR, 1.0, pytest.skip.Exception),
    ]:
        judged = ado.records.Comparison(
            verdict, ratio, (0.8 * ratio, ratio), ours="g", theirs="f", samples=30
        )
        found[0].__dict__["comparison"] = judged
        with pytest.raises(outcome):
            ado_compare(np.sort, np.sort, X)


def test_the_plugin_does_not_import_the_package():
    run_python("import sys, adokernels_pytest; assert 'adokernels' not in sys.modules")


# --- Containers on the host -----------------------------------------------------------------------


def test_frames_keep_their_labels():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], index=["x", "y"], columns=list("abc"))
    pd.testing.assert_frame_equal(ado.transpose(frame), frame.T)
    pd.testing.assert_frame_equal(ado.transpose["naive_loops"](frame), frame.T)
    sums = ado.max_plus(big=frame, small=np.zeros(2))
    pd.testing.assert_series_equal(sums, frame.max())
    mixed = pd.DataFrame({"a": [1, 2], "b": ["s", "t"]})
    with pytest.raises(TypeError, match="a must have one numeric type, got"):
        ado.transpose(mixed)


def test_xarray_keeps_its_dimensions():
    xr = pytest.importorskip("xarray")
    rng = np.random.default_rng(0)
    rgb = rng.integers(0, 255, (2, 5, 7, 3), np.uint8)
    image = xr.DataArray(
        rgb, dims=("time", "y", "x", "c"), coords={"time": [1, 2], "x": range(7)}, name="photo"
    )
    gray = ado.grayscale(image)
    assert (gray.dims, set(gray.coords), gray.name) == (("time", "y", "x"), {"time", "x"}, "photo")
    np.testing.assert_array_equal(gray.values, ado.grayscale(rgb))
    lazy = ado.grayscale(image.chunk(y=2))
    assert lazy.chunks is not None
    np.testing.assert_array_equal(lazy.values, gray.values)
    matrix = gray[0]
    assert ado.transpose(matrix).dims == ("x", "y")
    out = np.empty((7, 5), np.uint8)
    assert ado.transpose(matrix, out=out) is out


def test_other_classes_with_such_names_are_arrays():
    class Series:
        def __array__(self, dtype=None, copy=None):
            return np.ones(3, np.float32)

    result = ado.branch(Series())
    assert type(result) is np.ndarray
    np.testing.assert_array_equal(result, ado.branch(np.ones(3, np.float32)))


class Tensor:
    """A tensor of torch on the host, as far as the core asks for it."""

    __module__ = "torch"
    requires_grad = False
    array = np.arange(6.0).reshape(2, 3)

    def __dlpack__(self, **how):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def is_conj(self):
        return False

    is_neg = is_conj


def test_tensors_on_the_host_come_back_as_tensors(monkeypatch):
    torch = ModuleType("torch")
    torch.from_numpy = lambda array: ("tensor", array)
    monkeypatch.setitem(sys.modules, "torch", torch)
    kind, array = ado.transpose(Tensor())
    assert kind == "tensor"
    np.testing.assert_array_equal(array, Tensor.array.T)
    out = np.empty((3, 2))
    assert ado.transpose(Tensor(), out=out) is out


def test_results_that_no_buffer_can_hold():
    """NumPy exports no buffer of dates, nor of a single date."""
    dates = np.arange(300).astype("M8[s]")[::-1]
    for function in (np.sort, np.max):
        assert ado.measure(function, dates, seconds=0.02).seconds > 0
    assert compare(np.sort, stable, dates)
    with pytest.raises(ValueError, match="differs"):
        compare(np.sort, np.flip, dates[::-1])


@pytest.mark.parametrize("dtype", ["f8", "i4", "M8[s]"])
def test_masked_arrays_are_compared_without_their_masked_elements(dtype):
    a = np.ma.masked_array(np.arange(6).astype(dtype), [0, 1, 0, 0, 1, 0])

    def other(mask, shown, hidden=9):
        values = np.where(a.mask, np.array(hidden, dtype), a.data)
        values[0] += shown
        return np.ma.masked_array(values, mask)

    assert compare(np.ma.copy, lambda a: other(a.mask, 0), a)
    with pytest.raises(ValueError, match="differs"):
        compare(np.ma.copy, lambda a: other(a.mask, 1), a)
    with pytest.raises(ValueError, match=r"\.mask is wrong"):
        compare(np.ma.copy, lambda a: other(~a.mask, 0), a)
    with pytest.raises(ValueError, match="must not change its operand 1"):
        compare(np.ma.copy, lambda a: a.__setitem__(0, np.ma.masked), a.copy())
    own = ado.ladder("own", reference=np.copy)
    with pytest.raises(TypeError, match="operand 1 must not be a masked array; fill it first"):
        ado.check(np.copy, own, a, timed=False)
