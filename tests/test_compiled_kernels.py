"""Kernels that were compiled elsewhere: PTX, machine code, objects of other packages."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core
from adokernels.machine_code import kernels_in
from adokernels.model.compiler import compile_cuda, why_no_compiler

if reason := _core.why_no_emulator() or why_no_compiler():
    pytest.skip(reason, allow_module_level=True)

SOURCE = """
__global__ void saxpy(float a, const float* x, const float* y, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}

struct Pair { double a; short b; };
__global__ void others(Pair pair, unsigned char c, bool flag, double d, long long e, int* out) {
  out[threadIdx.x] = static_cast<int>(pair.a) + pair.b + c + flag + static_cast<int>(d + e);
}
"""
PTX = compile_cuda(SOURCE, "saxpy", arch="compute_80").code.decode()
WITHOUT_LINES = "".join(
    line for line in PTX.splitlines(keepends=True) if not re.match(r"\s*\.(loc|file)\s", line)
)
LADDER = ado.ladder("saxpy", reference=lambda a, x, y: np.float32(a) * x + y)


def variant(source, **settings):
    made = ado.cuda_variant("v", source=source, **({"block": 64, "kernel": "saxpy"} | settings))
    return LADDER.with_variants(made)["v"]


@pytest.fixture
def operands(rng):
    return 2.0, *map(np.copy, rng.random((2, 300), dtype="f4"))


def compute(made, operands):
    found = made(*operands, device="emulator")
    np.testing.assert_allclose(found, LADDER.task.expected(*operands), 1e-6)


@pytest.mark.parametrize("kernel", ["saxpy", "_Z5saxpyfPKfS0_Pfi"])
@pytest.mark.parametrize("text", [PTX, WITHOUT_LINES, PTX.encode() + b"\0"])
def test_ptx_is_a_variant(text, kernel, operands):
    made = variant(text, kernel=kernel)
    compute(made, operands)
    assert ado.check(made, LADDER, *operands, device="emulator")


def test_files_with_ptx_and_sources(tmp_path, operands):
    for name, text in (("saxpy.ptx", PTX), ("saxpy.cu", SOURCE)):
        (tmp_path / name).write_text(text, encoding="utf-8")
        made = variant(tmp_path / name)
        assert made.file == str(tmp_path / name)
        compute(made, operands)


@pytest.mark.parametrize("name", ["saxpy.cu", "kernels/saxpy.ptx"])
def test_the_name_of_a_file_is_not_a_source(name):
    with pytest.raises(ValueError, match=rf"got a file name: pass source=Path\('{name}'\)"):
        variant(name)


def test_ptx_without_lines_has_a_heat_map_of_its_own_lines(operands):
    found = ado.heatmap(variant(WITHOUT_LINES), *operands, device="emulator")
    loads = [line for line in found.lines if line.loads.requests]
    text = WITHOUT_LINES.splitlines()
    assert [line.text for line in loads] == [code for code in text if "ld.global" in code]
    assert [text[line.line - 1] for line in loads] == [line.text for line in loads]
    assert ".visible .entry" in found.excerpts[0].text
    with_lines = ado.heatmap(variant(PTX), *operands, device="emulator")
    assert (found.instructions, found.total("loads")) == (
        with_lines.instructions, with_lines.total("loads"),
    )  # fmt: skip


def test_errors_name_the_line_of_the_ptx(operands):
    wrong = WITHOUT_LINES.replace("setp.ge.s32", "setp.gt.s32")
    line = next(i for i, code in enumerate(wrong.splitlines(), 1) if "ld.global" in code)
    a, x, y = operands
    with pytest.raises(ado.KernelError, match=f"kernel.ptx:{line}") as caught:
        variant(wrong)(a, x[:100], y[:100], device="emulator")
    assert (caught.value.array, caught.value.byte) == ("x", 400)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda a, x, y, out: [a, x, y, out], r"must have 4 parameters .*, got 5"),
        (lambda a, x, y, out: [x, x, y, out, 1], r"argument 1 must match .* not a pointer"),
        (lambda a, x, y, out: [1.0, 1, y, out, 1.5], r"argument 5 must be convertible"),
        (lambda a, x, y, out: [1.0, x, y, out, 1 << 40], r"argument 5 must be from 0"),
    ],
)
def test_arguments_must_fit_the_parameters_of_ptx(arguments, message, operands):
    made = variant(PTX, arguments=arguments, grid=1)
    with pytest.raises((TypeError, ValueError), match=message):
        made(*operands, device="emulator")


def test_parameters_of_all_kinds(rng):
    ptx = compile_cuda(SOURCE, "others", arch="compute_80").code
    pair = np.zeros(1, np.dtype([("a", "f8"), ("b", "i2")], align=True))[0]
    pair["a"], pair["b"] = 3, -5
    ladder = ado.ladder("others", reference=lambda x: np.full_like(x, 3 - 5 + 7 + 1 + 2 - 9))
    made = ladder.cuda_variant(
        "v", source=ptx, kernel="others", block=32,
        arguments=lambda x, out: [pair, 7, True, 2.0, -9, out], grid=1,
    )  # fmt: skip
    np.testing.assert_array_equal(made(np.zeros(32, "i4"), device="emulator"), -1)


def test_machine_code_has_parameters_and_no_ptx(operands):
    cubin = compile_cuda(SOURCE, "saxpy", arch="sm_90").code
    assert {each.parameter_bytes for each in kernels_in(cubin)} == {
        (4, 8, 8, 8, 4),
        (16, 1, 1, 8, 8, 8),
    }
    made = variant(cubin)
    assert made.sass(*operands)[0].name == "saxpy"
    with pytest.raises(ado.Unavailable, match="executes PTX, got machine code"):
        made(*operands, device="emulator")
    with pytest.raises(ado.Unavailable, match="PTX runs on the emulator; pass a cubin"):
        variant(PTX).compiled("float32", "sm_90")
    with pytest.raises(ValueError, match="must be CUDA C\\+\\+ or machine code, got PTX"):
        variant(PTX).sass(*operands)


def test_a_fat_binary_has_both():
    symbol, fatbin = next((s, f) for s, f in _core.fatbins().items() if "transpose_naive" in s)
    made = variant(bytes(fatbin), kernel=symbol)
    found = [made.compiled("float32", arch) for arch in ("compute_90", "sm_90")]
    assert [each.symbol for each in found] == [symbol, symbol]
    sizes = [[parameter.bytes for parameter in each.parameters] for each in found]
    assert sizes[0] == sizes[1] != []
    with pytest.raises(ado.Unavailable, match="no machine code for sm_42"):
        made.compiled("float32", "sm_42")


def test_newer_ptx_and_unknown_kernels_are_refused(operands):
    with pytest.raises(ado.Unavailable, match="capability 10, such as tcgen05, got PTX for sm_100"):
        variant(PTX.replace("sm_80", "sm_100a"))(*operands, device="emulator")
    two = PTX + re.search(r"\.visible \.entry.*?\n}\n", PTX, re.DOTALL)[0].replace("saxpy", "saxpz")
    with pytest.raises(ValueError, match=r"kernel in kernel\.ptx, got 'saxpi': did you"):
        variant(two, kernel="saxpi")(*operands, device="emulator")


def objects():
    kernel = 'extern "C" ' + SOURCE.lstrip()
    stated = {"code": kernel, "options": ("-DA=1",), "file_path": None}
    yield "RawKernel", SimpleNamespace(name="saxpy", **stated), {"kernel": None}
    yield "RawModule", SimpleNamespace(**stated), {}
    yield "ObjectCode", SimpleNamespace(code=PTX.encode(), name="module", code_type="ptx"), {}
    yield "cuda.core", pytest.importorskip("cuda.core").ObjectCode.from_ptx(PTX.encode()), {}


@pytest.mark.parametrize(("source", "settings"), [pytest.param(*o, id=i) for i, *o in objects()])
def test_objects_with_a_source(source, settings, operands):
    made = variant(source, **settings)
    assert made.kernel in ("saxpy", "v")
    compute(made, operands)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (7, TypeError, "source must be a str, bytes, a path, or an object .*, got int"),
        (b"\xff\xfe\x00", ValueError, "source must be text, a cubin or a fat binary, got 3 bytes"),
    ],
)
def test_other_sources_are_refused(source, error, message):
    with pytest.raises(error, match=message):
        variant(source)
