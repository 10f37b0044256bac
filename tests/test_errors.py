"""Errors and their messages; after each error, the next valid call works."""

import contextlib
import mmap
import re
from functools import partial

import numpy as np
import pytest
from conftest import EMULATED, start_python

import adokernels as ado
from adokernels import _core

A, LINE = np.arange(12.0).reshape(3, 4), np.zeros(40)


def double(**settings):
    return ado.ladder("double", reference=lambda x: 2 * x, **settings)


@pytest.fixture(autouse=True)
def next_call_works():
    yield
    assert ado.transpose(A, device="cpu").tolist() == A.T.tolist()
    if not _core.why_no_cuda():
        assert ado.transpose(A, device="cuda").tolist() == A.T.tolist()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ado.transpose(A[0]), r"a must have shape \(rows, cols\), got \(4,\)"),
        (lambda: ado.transpose(np.float64(3)), r"a must have shape \(rows, cols\), got \(\)"),
        (lambda: ado.transpose(np.zeros((2, 3, 4))), r"got \(2, 3, 4\)"),
        (lambda: ado.transpose(np.zeros((1,) * 9)), "a has 9 dimensions, more than 8"),
        (lambda: ado.transpose(A, out=A), r"out must have shape .* cols = 4 from a, got \(3, 4\)"),
        (lambda: ado.transpose(A, out=A.base.reshape(4, 3)), "out overlaps a"),
        (lambda: ado.transpose(A[:, :3], out=A[:, 1:]), "out overlaps a"),
        (
            lambda: ado.transpose(LINE[20:0:-1].reshape(4, 5), out=LINE[:20].reshape(5, 4)),
            "out overlaps a",
        ),
        (
            lambda: ado.gaussian_blur(np.zeros((2, 9, 9), "u1"), out=np.zeros((3, 9, 9), "u1")),
            r"with the batch dimensions of gray, got \(3, 9, 9\)",
        ),
        (lambda: ado.transpose(A, out=np.broadcast_to(0.0, (4, 3))), "out must be writable"),
        (lambda: ado.grayscale(np.zeros((4, 4, 5), "u1")), r"cols, 3\|4\), got \(4, 4, 5\)"),
        (lambda: ado.max_plus(A, LINE), r"\(K,\) with K = 3 from big, got \(40,\)"),
        (lambda: ado.average_matvec(np.ones((3, 4, 0)), np.ones((4, 4))), "M must be at least 1"),
        (lambda: ado.transpose(A, out=(np.empty((4, 3)),) * 2), r"one array per result \(1\)"),
        (
            lambda: ado.transpose(
                A, out=np.lib.stride_tricks.as_strided(np.zeros(3), (4, 3), (0, 8))
            ),
            "out has internal overlap",
        ),
        (
            lambda: ado.transpose(A, out=np.lib.stride_tricks.as_strided(LINE, (4, 3), (16, 8))),
            "out has internal overlap",
        ),
        (lambda: ado.measure(A.T.copy, cache="hot"), "cache must be 'cold' or 'warm'"),
        (lambda: ado.transpose(A, variant="naive_loops", block=(8, 8)), "takes no block"),
        (lambda: ado.sweep(ado.ladder("empty", reference=np.sort), A), "has no variants"),
        (lambda: ado.transpose(A, variant="naive_loops", device="cuda"), "runs on cpu"),
        (lambda: ado.transpose(A, variant="naive", device="cpu"), "runs on cuda"),
        (lambda: setattr(ado.settings, "isa", "sse9"), "must be baseline, avx2 or avx512"),
        (lambda: ado.measure(ado.transpose, A, cache="hot"), "cache must be 'cold' or 'warm'"),
    ],
)
def test_value_error(call, text):
    with pytest.raises(ValueError, match=text):
        call()


def test_views_that_interleave_do_not_overlap():
    pairs = np.arange(32.0).reshape(4, 8)
    ado.transpose(pairs[:, ::2], out=pairs[:, 1::2])
    assert pairs[:, 1::2].tolist() == pairs[:, ::2].T.tolist()


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ado.transpose(A.astype(object)), "references to Python objects"),
        (lambda: ado.transpose(np.empty((2, 2), [("x", object)])), "references to Python objects"),
        (lambda: ado.transpose(A, out=np.ma.zeros((4, 3))), "out must be an array, got Masked"),
        (lambda: ado.transpose(np.zeros((2, 2), "S3")), r"got \|S3 \(3 bytes\)"),
        (lambda: ado.transpose(A, out=np.empty((4, 3), "f4")), "type of a, float64, got float32"),
        (lambda: ado.max_plus(A, A[:, 0].astype("f4")), "type of big, float64, got float32"),
        (
            lambda: ado.max_plus(A.astype(">f8"), A[:, 0]),
            r"float32 or float64, got >f8 \(8 bytes\)",
        ),
        (lambda: ado.grayscale(np.zeros((4, 4, 3))), r"type uint8, got float64 \(8 bytes\)"),
        (lambda: ado.transpose(A, out=[1, 2]), "out must be an array, got list"),
        (lambda: ado.transpose(np.ma.masked_equal(A, 3)), "masked array"),
        (ado.transpose, "needs the operand a"),
        (lambda: ado.transpose(A, A), r"takes 1 operand but got 2$"),
        (
            lambda: ado.strided_copy(A[0], 2, 1),
            "takes 1 operand but got 3; options are keywords: stride=, offset=",
        ),
        (lambda: ado.transpose(A, **{"\ud800": 1}), r"^transpose has no option '.ud800'; valid"),
        (lambda: ado.transpose(A, a=A), "the operand a twice"),
        (lambda: ado.transpose(A, variant=3), "variant must be a str, got int"),
        (lambda: ado.transpose(A, device=0), "device must be a str, got int"),
        (lambda: ado.transpose(A, block="32x8"), "block must be a tuple of int, got '32x8'"),
        (lambda: ado.transpose(A, block=(3.5, 2)), r"block must be a tuple of int, got \(3.5, 2\)"),
        (lambda: ado.measure(A.T.copy, block=(8, 8)), "block must be None for callables"),
        (lambda: ado.measure(ado.transpose, A, flops=1), "are for callables"),
        (lambda: ado.measure(np.sort, A, setup=3), "setup must be a function of the operands"),
        (lambda: ado.gpp_operands("test", seed="a"), "seed must be an integer, got str"),
        (lambda: ado.measure(lambda: None, stream="x", device="cuda"), "stream must be a handle"),
        (lambda: double(toleranse=1), "ladder has no option 'toleranse': did you mean 'tolerance'"),
        (lambda: double(tolerance="1"), "tolerance must be a number, got str"),
        (lambda: double(problems=[(A,)]), "problems must be a function that returns operands, got"),
        (lambda: double(dtype="flaot"), "dtype must be a data type, got 'flaot'"),
        (lambda: double(flops=lambda x: None).problem(A).useful, "flops= and .* got NoneType"),
        (lambda: double()(A, varient="v"), "no option 'varient': did you mean 'variant'"),
        (lambda: ado.variant(np.copy, chnges=""), "^variant has .* did you mean 'changes'"),
        (lambda: ado.cuda_variant("k", kernal="k"), "^cuda_variant has .* did you mean 'kernel'"),
        (lambda: ado.check(np.copy, double()), "check needs the operands of double: missing .*'x'"),
    ],
)
def test_type_error(call, text):
    with pytest.raises(TypeError, match=text):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: ado.transpose["naive_lops"],
        lambda: ado.transpose(A, variant="naive_lops"),
        lambda: ado.sweep(ado.transpose, A, variants=["naive_lops"]),
    ],
)
def test_unknown_variant_names_the_nearest(call):
    with pytest.raises(KeyError, match=r": did you mean 'naive_loops'\? Valid names: .*simd"):
        call()


def test_unknown_routine_names_the_nearest():
    with pytest.raises(AttributeError, match=r": did you mean 'transpose'\? Valid names: .*sobel"):
        ado.transposed  # noqa: B018
    with pytest.raises(KeyError, match=r"no routine 'transposed': did you mean 'transpose'\?"):
        ado.routines["transposed"]
    assert ado.routines.get("transposed") is None


CALL = "variant, block, device, out, stream"
G = np.zeros((5, 5), np.uint8)
NAIVE, EXTENDED = ado.sobel["naive"], ado.sobel.with_variants(np.sort)


@pytest.mark.parametrize(
    ("call", "who", "unknown", "nearest", "valid"),
    [
        (partial(ado.transpose, A), "transpose", "varient", "variant", CALL),
        (partial(ado.transpose, A), "transpose", "sigma", "", CALL),
        (partial(ado.sobel, G), "sobel", "bach", "batch", f"batch, {CALL}"),
        (ado.sobel, "sobel", "grey", "gray", f"gray, batch, {CALL}"),
        (partial(ado.transpose["simd"], A), "transpose[simd]", "blok", "block", "block, device"),
        (partial(ado.sobel.choose, G), "choose(sobel)", "devise", "device", "batch, device, out"),
        (partial(ado.sobel.problem, G), "problem(sobel)", "variants", "variant", "batch, device"),
        (partial(ado.sobel["simd"].cost, G), "cost(sobel)", "batched", "batch", "batch"),
        (partial(NAIVE.sass, G), "sass(sobel)", "arc", "arch", "batch, block, out"),
        (NAIVE.resources, "resources(sobel)", "blocs", "block", "gray, batch, block"),
        (partial(ado.sweep, ado.sobel, G), "sweep(sobel)", "precison", "precision", "batch, dev"),
        (partial(ado.sweep, EXTENDED, G), "sweep(sobel)", "second", "seconds", "batch, device"),
        (partial(ado.measure, ado.sobel, G), "measure(sobel)", "cash", "cache", "batch, cache"),
        (partial(ado.scan, ado.sobel), "scan(sobel)", "shape", "shapes", "gray, batch, shapes"),
        (partial(ado.check, np.sort, ado.sobel, G), "check(sobel)", "time", "timed", "batch, dev"),
        (partial(ado.profile, ado.sobel, G), "profile(sobel)", "metric", "metrics", "batch, met"),
        (partial(ado.tune, NAIVE), "tune(sobel)", "second", "seconds", "gray, batch"),
        (partial(ado.hotspots, NAIVE), "hotspots(sobel)", "second", "seconds", "gray, batch, blo"),
    ],
)
def test_unknown_keyword_names_the_nearest_and_all(call, who, unknown, nearest, valid):
    hint = f": did you mean '{nearest}'? Valid" if nearest else "; valid"
    message = f"{who} has no option '{unknown}'{hint} names: {valid}"
    with pytest.raises(TypeError, match=re.escape(message)):
        call(**{unknown: 1})


def test_keywords_of_functions_and_custom_ladders_are_their_own(rng):
    """Only the function knows its keywords."""
    assert ado.measure(lambda **keywords: None, sigma=1, seconds=0.01).variant == "<lambda>"
    scaled = ado.ladder("scaled", reference=lambda a, factor=1: factor * a)
    scaled.add(lambda a, factor: a * factor)
    assert scaled(np.ones(2), factor=3).tolist() == [3, 3]


@pytest.mark.skipif(not _core.why_no_cuda(), reason="there is a CUDA device")
@pytest.mark.parametrize(
    "call",
    [
        lambda: ado.transpose(A, device="cuda"),
        lambda: ado.transpose(A, device="cuda:1", stream=1),
        lambda: ado.transpose(A, variant="naive"),
        lambda: setattr(ado.settings, "device", "cuda"),
        lambda: ado.to_device(A),
        ado.synchronize,
        lambda: ado.machine("cuda"),
        lambda: ado.measure(ado.transpose, A, device="cuda"),
        lambda: ado.sweep(ado.transpose, A, device="cuda"),
        lambda: ado.measure(lambda: None, device="cuda"),
    ],
)
def test_unavailable_says_why_and_names_a_remedy(call):
    with pytest.raises(ado.Unavailable, match=rf"{_core.why_no_cuda()}; remedy: device="):
        call()


@pytest.mark.skipif(not EMULATED, reason="there is a CUDA device, or no emulator")
@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (lambda: ado.profile(ado.transpose["tiled"], A), "device='emulator' counts kernels"),
        (lambda: ado.heatmap(ado.transpose["tiled"], A), "device='emulator' counts kernels"),
        (lambda: ado.measure(ado.transpose["tiled"], A), "device='emulator' counts kernels"),
        (lambda: ado.hotspots(ado.transpose["tiled"], A), "ado.heatmap counts the lines"),
    ],
)
def test_functions_that_need_counters_name_the_emulator(call, remedy):
    with pytest.raises(ado.Unavailable, match=f"; remedy: {remedy}"):
        call()


@pytest.mark.skipif(not EMULATED, reason="there is a CUDA device, or no emulator")
def test_resources_name_a_remedy_that_works():
    with pytest.raises(ado.Unavailable) as error:
        ado.max_plus["one_block"].resources()
    assert 'remedy: ado.settings.device = "emulator" runs it' in str(error.value)


def test_unavailable_instruction_set():
    if _core.supported_isa() == "avx512":
        pytest.skip("this processor has every level")
    with pytest.raises(ado.Unavailable, match="at most"):
        ado.settings.isa = "avx512"


@pytest.mark.gpu
def test_out_of_device_memory_says_how_much():
    wanted = 1 << 42
    nothing = mmap.mmap(-1, wanted, flags=mmap.MAP_PRIVATE | 0x4000)  # MAP_NORESERVE
    with pytest.raises(MemoryError, match=rf"{wanted} bytes requested, \d+ bytes free"):
        ado.to_device(np.frombuffer(nothing, np.uint8))


@pytest.mark.gpu
def test_cuda_error_names_call_place_and_error():
    cupy = pytest.importorskip("cupy")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        # This capture forbids the calls that to_device makes, on any stream.
        stream.begin_capture(cupy.cuda.runtime.streamCaptureModeGlobal)
        try:
            with pytest.raises(ado.CudaError, match=r"cudaError\w+: .*\n.*cuda\w+\(.*\n.*:\d+"):
                ado.to_device(A)
        finally:
            # The forbidden call has ended the capture.
            with contextlib.suppress(cupy.cuda.runtime.CUDARuntimeError):
                stream.end_capture()


@pytest.mark.gpu
def test_operands_must_be_in_one_place():
    with pytest.raises(ValueError, match="out is on cpu and the operands before it are on cuda"):
        ado.transpose(ado.to_device(A), out=np.empty((4, 3)))
    with pytest.raises(ValueError, match="device must be 'cuda:0', the device of the operands"):
        ado.transpose(ado.to_device(A), device="cpu")
    with pytest.raises(ValueError, match="runs on cpu"):
        ado.transpose(ado.to_device(A), variant="naive_loops")


def test_environment_chooses_instruction_set_and_device():
    code = "import adokernels._core as core; print(core.isa(), core.device())"
    answer = start_python(code, ADOKERNELS_ISA="baseline", ADOKERNELS_DEVICE="cpu")
    assert answer.stdout.split() == ["baseline", "cpu"], answer.stderr


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("DEVICE", "gpu", "device must be 'cpu', 'cuda'"),
        ("ISA", "avx9", "must be baseline, avx2 or avx512, got 'avx9'"),
        ("NUM_THREADS", "x", "the number of threads must be an integer, got 'x'"),
        ("NUM_THREADS", "-1", "must be at least 1"),
    ],
)
def test_a_wrong_environment_variable_is_one_sentence_of_the_program(name, value, words):
    wrong = {f"ADOKERNELS_{name}": value}
    program = "import sys; sys.argv[0] = 'bin/adokernels'; import adokernels"
    for code, kind, status in ((program, "adokernels", 2), ("import adokernels", "ValueError", 1)):
        answer = start_python(code, **wrong)
        assert answer.returncode == status
        assert f"{kind}: ADOKERNELS_{name}={value}: " in answer.stderr
        assert words in answer.stderr
        assert answer.stderr.count("\n") == 1 or status == 1


@pytest.mark.gpu
def test_importing_leaves_cuda_to_forked_children():
    code = """
import os, adokernels as ado
child = os.fork()
if child == 0:
    os._exit(0 if ado.to_device([1, 2]).numpy().tolist() == [1, 2] else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert start_python(code, ADOKERNELS_DEVICE="").stdout.strip() == "0"


def test_python_may_exit_while_a_daemon_thread_starts_its_first_call():
    # Between pow, which holds the GIL, and the call, the thread executes no bytecode. The main
    # thread thus waits for the GIL until the call releases it, and then ends the process.
    code = """
import itertools, threading, numpy as np, adokernels as ado
from functools import partial
transpose = partial(ado.transpose, device="cpu")
calls = map(transpose, itertools.compress([np.zeros((1500, 1500))], map(pow, [7**20000], [30])))
threading.Thread(target=list, args=(calls,), daemon=True).start()
"""
    answer = start_python(code)
    assert answer.returncode == 0, answer.stderr


def test_the_library_does_not_print(capfd):
    ado.transpose(A)
    with pytest.raises(ValueError, match="shape"):
        ado.transpose(A[0])
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")
