"""ado.check, ``adokernels check`` and ado.tune: tests that need no GPU."""

import dataclasses
import json
import re
import sys
from functools import cache

import numpy as np
import pytest
from charting import Lab

import adokernels as ado
from adokernels import _core
from adokernels.cli.program import main
from adokernels.model.arguments import ArgumentError, packed
from adokernels.model.compiler import compile_cuda, why_no_compiler
from adokernels.records.sweep import Sweep

PAIR = np.dtype([("a", "i4"), ("b", "f8")], align=True)
ONE_PAIR = np.array((1, 2.0), PAIR)[()]  # one object, because the padding is random
needs_compiler = pytest.mark.skipif(bool(why_no_compiler()), reason=why_no_compiler())
RIGHT = "def mine(a):\n    return a.T.copy()\n"
QUICK = {"seconds": 0.02, "ceilings": False, "progress": False}
COPY = {
    "routine": "copy", "device": "cuda",
    "flops": 0, "bytes": 8, "executed_flops": 0, "requested_bytes": 8,
}  # fmt: skip


def test_a_correct_variant_is_compared_with_the_ladder(tmp_path, rng):
    def mine(a):
        return a.T.copy()

    result = ado.check(mine, ado.transpose, rng.random((60, 70)), against=["simd"], **QUICK)
    assert result
    assert list(result.comparisons) == ["simd"]
    text = repr(result)
    assert text.startswith("transpose[mine] is correct.\nIt takes ")
    assert "transpose[simd]" in text
    result.save(tmp_path / "check.json")
    loaded = ado.load(tmp_path / "check.json")
    assert (loaded.routine, loaded.variant, loaded.correct) == ("transpose", "mine", True)
    assert loaded.comparisons == result.comparisons


def test_a_wrong_variant_is_reported_with_its_first_wrong_problem(rng):
    def mine(a):
        return a.T.copy() if len(a) < 100 else a.T.copy() + 1

    result = ado.check(mine, ado.transpose, rng.random((60, 70)), progress=False)
    assert not result
    assert "(a: (129, 70) float64)" in result.reason
    assert repr(result).startswith("transpose[mine] is wrong: ")


def test_a_changed_copy_of_a_member_is_checked_instead_of_the_member(rng):
    own = ado.ladder("double", reference=lambda x: 2 * x)
    own.add(ado.variant(lambda x: 2 * x, name="mine"))
    x, how = rng.random(100), {"timed": False, "progress": False}
    assert ado.check(own["mine"], own, x, **how)
    for name in ("mine", "other"):
        changed = dataclasses.replace(own["mine"], name=name, function=lambda x: 3 * x)
        assert "wrong result" in ado.check(changed, own, x, **how).reason
    assert ado.check(own["mine"], own, x, **how)


def test_command_line_reports_a_missing_function(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text(RIGHT, encoding="utf-8")
    assert main(["check", str(file), "--routine", "transpose", "--kernel", "other"]) == 2
    assert "mine.py must define other" in capsys.readouterr().err


@needs_compiler
@pytest.mark.parametrize("device", [[], ["--device", "emulator"]])
def test_command_line_reports_a_missing_kernel(device, tmp_path, capsys):
    file = tmp_path / "mine.cu"
    file.write_text("__global__ void mine(const float* a, float* out) {}", encoding="utf-8")
    command = ["check", str(file), "--routine", "transpose", "--kernel", "other", *device]
    assert main(command) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert "got 'other': identifier" in shown.err
    assert shown.err.endswith("; __global__ functions found: mine\n")


@pytest.mark.parametrize(
    ("code", "kind"),
    [(b"//\n.version 9.0\n.target sm_90\n", "PTX"), (b"\x7fELF\x02\xbe", "machine code")],
)
def test_command_line_needs_source(code, kind, tmp_path, capsys):
    (tmp_path / "mine.cu").write_bytes(code)
    file = str(tmp_path / "mine.cu")
    assert main(["check", file, "--routine", "transpose", "--kernel", "mine"]) == 2
    error = capsys.readouterr().err
    assert "source must be CUDA C++" in error
    assert f", got {kind}" in error


def test_command_line_checks_functions_with_names_of_variants(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text("def simd(a):\n    return a.T.copy()\n", encoding="utf-8")
    command = ["check", str(file), "--routine", "transpose", "--kernel", "simd", "--no-timing"]
    assert main(command) == 0
    assert "transpose[simd of mine.py] is correct" in capsys.readouterr().out


def test_command_line_checks_functions_that_use_a_module_beside_the_file(tmp_path, capsys):
    beside = "ado_test_beside"
    (tmp_path / f"{beside}.py").write_text(RIGHT, encoding="utf-8")
    (tmp_path / "mine.py").write_text(
        f"import numpy as np, adokernels as ado, {beside}\ndef turned(a): return {beside}.mine(a)\n"
        'mine = ado.ladder("turns", reference=np.transpose, problems=lambda: [(np.eye(3, 4),)])\n'
        "mine.variant(turned)\n"
    )
    (tmp_path / "alone.py").write_text(
        f"def mine(a):\n    import {beside}\n    return {beside}.mine(a)"
    )
    path = sys.path.copy()
    for file, *how in [
        ("mine", "--ladder", "turns"),
        ("alone", "--routine", "transpose", "--kernel", "mine"),
    ]:
        assert main(["check", str(tmp_path / f"{file}.py"), *how, "--no-timing"]) == 0
        assert "is correct" in capsys.readouterr().out
    assert sys.path == path


LADDER = """
import numpy as np
import adokernels as ado
twice = ado.ladder("twice", reference=lambda a: 2 * a, problems=lambda: [(np.ones(5),)])
twice.add(ado.variant(lambda a: a + a, name="right"), ado.variant(lambda a: a * 3, name="wrong"))
bare = ado.ladder("bare", reference=lambda a: a)
"""


def test_command_line_checks_the_variants_of_an_own_ladder(tmp_path, capsys):
    path, broken = tmp_path / "mine.py", tmp_path / "broken.py"
    path.write_text(LADDER)
    broken.write_text("1 / 0")
    check = ["check", str(path), "--no-timing", "--ladder"]
    assert main([*check, "twice", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["checks"]
    assert [(c["variant"], c["correct"]) for c in found] == [("right", True), ("wrong", False)]
    assert main([*check, "twice", "--variants", "right"]) == 0
    assert capsys.readouterr().out == "twice[right] is correct.\n"
    for arguments, words in [
        ([*check, "twise"], "did you mean 'twice'"),
        ([*check, "bare"], "must have problems="),
        (["check", str(broken), "--ladder", "a"], "ZeroDivisionError"),
        (["check", str(tmp_path / "no.py"), "--ladder", "a"], "No such file"),
        (["check", str(path)], "check needs --routine and --kernel, or --ladder"),
    ]:
        assert main(arguments) == 2
        assert words in capsys.readouterr().err


@needs_compiler
def test_command_line_checks_the_variants_that_the_emulator_supports(tmp_path, capsys):
    kernel = "__global__ void k(const float* a, float* o, int n) {{ {} o[threadIdx.x] = a[0]; }}"
    texture = kernel.format("if (n > 9) o[0] = tex1Dfetch<float>(0, 0);")
    lines = [
        f"mine.cuda_variant({n!r}, source={s!r}, kernel='k', block=5, grid=1)"
        for n, s in (
            ("texture", texture),
            ("broken", kernel.format("x")),
            ("right", kernel.format("")),
            ("unnamed", kernel.format("").replace(" k(", " j(")),
        )
    ]
    lines.append("mine.add(ado.variant(lambda a: a.copy(), name='on_cpu'))")
    head = 'mine = ado.ladder("mine", reference=np.copy, problems=lambda: [(np.ones(5, "f4"),)])'
    path = tmp_path / "mine.py"
    path.write_text("\n".join(["import numpy as np", "import adokernels as ado", head, *lines]))
    check = ["check", str(path), "--ladder", "mine", "--device", "emulator"]
    assert main(check) == 1
    shown = capsys.readouterr().out
    assert "mine[right] is correct" in shown
    assert "mine[broken] is wrong: kernel.cu does not compile" in shown
    assert "mine[unnamed] is wrong: kernel must name one __global__ function" in shown
    assert "mine[on_cpu] is correct" in shown
    assert "skipped texture: " in shown
    assert main([*check, "--variants", "texture,right", "--json"]) == 3
    assert list(json.loads(capsys.readouterr().out)["skipped"]) == ["texture"]
    assert main([*check, "--variants", "texture"]) == 3


@pytest.mark.skipif(not ado.transpose["naive"].why_unavailable, reason="there is a GPU")
def test_command_line_needs_a_gpu_for_a_kernel(tmp_path, capsys):
    file = tmp_path / "mine.cu"
    file.write_text("__global__ void mine(const float* a, float* out) {}", encoding="utf-8")
    assert main(["check", str(file), "--routine", "transpose", "--kernel", "mine"]) == 3
    assert "transpose[mine]: " in capsys.readouterr().err
    with pytest.raises(ado.Unavailable, match="remedy: device='emulator' checks kernels"):
        ado.check(ado.variant(np.copy, name="v", device="cuda"), ado.transpose, np.ones((2, 2)))


@needs_compiler
def test_command_line_reports_compilation_errors_without_a_gpu(tmp_path, capsys):
    file = tmp_path / "mine.cu"
    file.write_text("__global__ void mine(const float* a) { wrong }", encoding="utf-8")
    assert main(["check", str(file), "--routine", "transpose", "--kernel", "mine"]) == 1
    assert "mine.cudoesnotcompile" in "".join(capsys.readouterr().out.split())


# --- Kernels in source ----------------------------------------------------------------------------


#: Declarations of parameters: an accepted argument, its converted value, and a refused argument.
PARAMETERS = {
    "double p": ((2, 2.0), 1j),
    "float p": ((np.int64(2), np.float32(2)), 1e300),
    "__half p": ((2, np.float16(2)), 70000),
    "__nv_bfloat16 p": ((2, b"\0@"), np.complex64(2)),
    "int p": ((np.uint8(2), np.int32(2)), 2.0),
    "const int p": ((True, np.int32(1)), np.float64(2)),
    "unsigned p": ((np.int64(2), np.uint32(2)), -1),
    "unsigned char p": ((2, np.uint8(2)), 256),
    "long long p": ((2, np.int64(2)), 2**63),
    "size_t p": ((2**64 - 1, np.uint64(2**64 - 1)), -1),
    "bool p": ((1, True), 2),
    "Kind p": ((3, np.uint8(3)), 256),
    "cuda::std::complex<float> p": ((2, np.complex64(2)), "x"),
    "float2 p": ((2j, np.complex64(2j)), np.datetime64(1, "s")),
    "Pair p": ((ONE_PAIR, ONE_PAIR), np.int32(1)),
    "const double* p": ((np.uint64(8), np.uint64(8)), 2.0),
}


#: Pointers, with types of elements that each accepts and refuses.
POINTERS = {
    "const float* p": (["f4"], ["f8", "i4", "f2", "c8", ">f4", PAIR]),
    "unsigned long long* p": (["i8", "u8", "M8[s]"], ["i4", "f8"]),
    "const volatile unsigned char* p": (["u1", "?", "S7"], ["f4", "i2"]),
    "float4* p": (["f4"], ["f8", "i4"]),
    "double2* p": (["f8", "c16"], ["c8"]),
    "const __half2* p": (["f2", "u4"], ["u2", "f4"]),
    "int4* p": (["f4", "f8", "u1"], []),
    "cuda::std::complex<double>* p": (["c16"], ["c8", "f8"]),
    "const __nv_bfloat16* p": (["u2"], ["f2", "f4"]),
    "const Pair* p": ([PAIR, "f4"], ["V12"]),
    "float (*p)[3]": (["f4"], ["f8"]),
    "void* p": (["f4", "f8", "V12"], []),
    "const double* const* p": (["u8"], ["f4"]),
    "double* p": ([PAIR["b"]], [PAIR]),
    "long p": ([], ["f8"]),
}


@cache
def parameters():
    """The parameters of one kernel, by their declarations."""
    declarations = [*PARAMETERS, *POINTERS]
    listed = ", ".join(re.sub(r"\bp\b", f"p{i}", each) for i, each in enumerate(declarations))
    source = (
        "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n#include <cuda/std/complex>\n"
        "enum Kind : unsigned char { kOne }; struct Pair { int a; double b; };\n"
        f'extern "C" __global__ void k({listed}) {{}}'
    )
    found = compile_cuda(source, "k", arch="sm_90").parameters
    return dict(zip(declarations, found, strict=True))


@needs_compiler
@pytest.mark.parametrize("declaration", PARAMETERS)
def test_numbers_are_converted_to_the_types_of_parameters_or_refused(declaration):
    (value, expected), wrong = PARAMETERS[declaration]
    parameter = parameters()[declaration]
    same = expected
    if not isinstance(expected, bytes):
        same = getattr(expected, "tobytes", np.asarray(expected).tobytes)()
    assert packed("p", 1, value, parameter) == same
    with pytest.raises(ArgumentError, match="the kernel's parameter 1 is "):
        packed("p", 1, wrong, parameter)


@needs_compiler
@pytest.mark.parametrize("declaration", POINTERS)
def test_arrays_must_have_the_types_of_pointers(declaration):
    (accepted, refused), parameter = POINTERS[declaration], parameters()[declaration]
    for dtype in accepted:
        assert len(packed("p", 1, np.zeros(3, dtype), parameter)) == 8
    for dtype in refused:
        with pytest.raises(
            ArgumentError, match=r"p must match the kernel's parameter 1, .*, got an array of "
        ):
            packed("p", 1, np.zeros(3, dtype), parameter)


@needs_compiler
def test_kernels_get_arguments_of_the_types_of_their_parameters():
    source = """template <class T> __global__ void k(T a, const T* x, T* o, int n) {
      if (threadIdx.x < n) o[threadIdx.x] = a * x[threadIdx.x];
    }"""
    scale = ado.ladder("scale", reference=lambda a, x: x.dtype.type(a) * x)
    scale.cuda_variant("k", source=source, kernel="k<{T}>", block=64)
    scale.cuda_variant("doubles", source=source, kernel="k<double>", block=64)
    x = np.arange(3.0)
    for a in (x, x.astype(">f8"), x.astype("f4"), x.astype(">f4")):
        assert np.array_equal(scale(2, a, variant="k", device="emulator"), 2 * x)
    swept = ado.sweep(scale, 2, x.astype(np.float32), device="emulator")
    assert (
        "the kernel's parameter 2, const double*, got an array of float32; pass x.astype(np.f"
        in (swept.skipped["doubles"])
    )
    found = ado.check(scale["doubles"], scale, 2, x.astype(np.float32), device="emulator")
    assert "pass x.astype(np.float64)" in found.reason
    counted = ado.ladder("total", reference=lambda a: a.sum(keepdims=True))
    kernel = "__global__ void k(const int* a, int* o, int n) { o[0] = 3; }"
    counted.cuda_variant("k", source=kernel, block=1, grid=1)
    with pytest.raises(TypeError, match=r"o must .* array of int64.*the reference return int32"):
        counted(np.arange(3, dtype=np.int32), variant="k", device="emulator")


BOMB = """
template <int D, long P> struct Sum {
  static constexpr long of = Sum<D - 1, 2 * P>::of + Sum<D - 1, 2 * P + 1>::of;
};
template <long P> struct Sum<0, P> { static constexpr long of = P; };
__global__ void mine(const double* a, double* o, int n) { o[0] = Sum<22, 0>::of; }
"""


@needs_compiler
@pytest.mark.parametrize("device", ["emulator", None])
def test_the_timeout_includes_the_compilation(device):
    double = ado.ladder("double", reference=lambda a: 2 * a)
    double.cuda_variant("mine", source=BOMB, block=64)
    found = ado.check(double["mine"], double, np.ones(3), device=device, timeout=2.0)
    assert found.reason == "its compilation failed: it did not return within 2.00 s"


@needs_compiler
def test_only_the_child_decodes_the_code_of_a_candidate(monkeypatch):
    double = ado.ladder("double", reference=lambda a: 2 * a)
    source = "__global__ void mine(const double* a, double* o, int n) {{ {} }}"
    for name, body in {
        "right": "if (threadIdx.x < n) o[threadIdx.x] = 2 * a[threadIdx.x];",
        "wrong": r'asm("{ .reg .b32 x;\n\t.frobnicate y; }");',
    }.items():
        double.cuda_variant(name, source=source.format(body), kernel="mine", block=512)
    monkeypatch.setattr(_core, "CudaModule", None)
    assert ado.check(double["right"], double, np.ones(3), device="emulator")
    with pytest.raises(ado.Unavailable, match=r"cu:1, PTX line \d+: unknown directive .frobnicate"):
        ado.check(double["wrong"], double, np.ones(3), device="emulator")


@pytest.mark.parametrize("dtype", [object, np.dtype([("a", "i4"), ("b", "O")])])
def test_arrays_of_python_objects_are_refused(dtype):
    last = ado.ladder("last", reference=lambda x: x[-1:])
    last.add(ado.variant(lambda x: x[-1:].copy(), name="copy"))
    calls = [
        last,
        lambda x: ado.sweep(last, x, device="cpu"),
        lambda x: ado.check(last["copy"], last, x),
        lambda x: ado.measure(last["copy"], x),
    ]
    for call in calls:
        with pytest.raises(TypeError, match="operand 1 must hold numbers or bytes, got references"):
            call(np.zeros(9, dtype))
    objects = ado.ladder("objects", reference=lambda x: x.astype(object))
    objects.add(ado.variant(lambda x: x.astype(object), name="copy"))
    with pytest.raises(TypeError, match="the result of the reference must hold numbers"):
        objects(np.zeros(9))


def test_a_ladder_without_variants_is_reported_before_any_work():
    ladder = ado.ladder("double", reference=lambda a: 2 * a)
    calls = []

    def mine(a):
        calls.append(a)
        return 2 * a

    with pytest.raises(ValueError, match=r"double must have a variant on cpu .* timed=False"):
        ado.check(mine, ladder, np.ones(3), isolated=False)
    assert not calls
    assert ado.check(mine, ladder, np.ones(3), timed=False)


@pytest.mark.parametrize(
    ("problems", "words"),
    [
        ([(np.ones(20),), (np.ones(7),)], r"picky fails with .*only 20.* \(problem 2 .*\(7,\)\)"),
        ([(np.ones(20), 1.0)], r"picky fails with TypeError: .*problem 1"),
        ([np.ones(20)], r"a tuple of operands per problem, .* got ndarray as problem 1"),
        ([], "at least one problem, got none"),
    ],
)
def test_problems_that_the_reference_rejects_are_errors(problems, words):
    def picky(x):
        if x.size != 20:
            raise ValueError("only 20")
        return 2 * x

    ladder = ado.ladder("picky", reference=picky, problems=lambda: problems)
    ladder.variant(lambda x: 2 * x if x.size == 20 else x, name="v")
    for check in (ado.check, lambda *a, **k: ado.sweep(*a[1:], device="cpu", limiter=False)):
        with pytest.raises((ValueError, TypeError), match=words):
            check(ladder["v"], ladder, np.ones(20), timed=False, isolated=False)
    with pytest.raises(ValueError, match=r"picky fails with .*only 20 \(x: \(9,\) float64\)"):
        ado.check(ladder["v"], ladder, np.ones(9), timed=False)
    drawn = ado.ladder("picky", reference=picky).with_variants(ladder["v"])
    found = ado.check(drawn["v"], drawn, np.ones(20), timed=False, isolated=False)
    assert found
    assert "shapes (33,): the reference fails with ValueError: only 20" in repr(found)


@pytest.mark.parametrize("isolated", [False, True])
def test_elements_that_are_not_written_are_named(isolated):
    def problems():
        return [(np.arange(300),)]

    ladder = ado.ladder("next", reference=lambda a: ((a + 1) % 256, a - 1.0), problems=problems)
    sentinel = int.from_bytes(b"\xa5" * 8, "little", signed=True)

    def constant(a, out):
        out[0][...] = sentinel
        out[1][...] = np.full(300, -1).view(np.float64)

    def odd(a, out):
        out[0][...] = (a + 1) % 256
        out[1][::2] = a[::2] - 1

    def nothing(a, out):
        pass

    def reason(function):
        how = {"timed": False, "isolated": isolated}
        return ado.check(function, ladder, np.arange(300), **how).reason

    assert "written" not in reason(constant)
    assert "150 of 300 elements of result 2 were not written, the first at [1]; " in reason(odd)
    assert "result 1 was never written; result 2 was never written; " in reason(nothing)


def test_operands_of_the_other_byte_order_are_converted():
    ascending = ado.ladder("sort", reference=np.sort)
    ascending.add(ado.variant(lambda x: np.sort(x, kind="stable"), name="stable"))
    assert not ado.sweep(ascending, np.arange(100.0)[::-1].astype(">f8"), seconds=0.2).skipped
    for dtype in (">f8", ">i4", [("a", ">i4"), ("b", "<f4")]):
        a = np.arange(60).astype(">f4").astype(dtype).reshape(6, 10)
        assert not ado.sweep(ado.transpose, a, device="cpu", **QUICK).skipped
        assert ado.check(lambda a: a.T.copy(), ado.transpose, a, timed=False)
        assert ado.measure(ado.transpose["simd"], a, seconds=0.02).seconds > 0


@pytest.mark.cuda
def test_parameters_of_the_kernel_must_match(rng):
    source = "__global__ void wrong(const float* a, float* out, int n) {}"
    wrong = ado.cuda_variant("wrong", block=256, source=source)
    a = rng.random((30, 50), np.float32)
    result = ado.check(wrong, ado.transpose, a, device="emulator", timed=False)
    assert not result
    assert "must have 4 parameters (a, result 1, rows, cols), got 3" in result.reason


@pytest.mark.cuda
@pytest.mark.parametrize("isolated", [True, False])
def test_errors_name_the_parameters_of_the_kernel(isolated, rng):
    source = """
    // Not the signature: __global__ void shifted(float* z) {
    __global__ void __launch_bounds__(256) shifted(const float* matrix, /* the, result */
        float *__restrict__ turned, int rows, int cols) {
      turned[blockIdx.x * blockDim.x + threadIdx.x + 1 + rows * cols] = matrix[0];
    }"""
    shifted = ado.cuda_variant("shifted", block=256, source=source)
    a = rng.random((30, 50), np.float32)
    options = {"device": "emulator", "timed": False, "isolated": isolated}
    assert "of 'turned'" in ado.check(shifted, ado.transpose, a, **options).reason


def test_a_variant_of_the_ladder_can_be_checked():
    ladder = ado.ladder("total", reference=lambda x: x.sum(keepdims=True), tolerance=1e-9)
    ladder.add(ado.variant(lambda x: x.sum(keepdims=True), name="right"))
    ladder.add(ado.variant(lambda x: x[1:].sum(keepdims=True), name="wrong"))
    quick = {"isolated": False, "seconds": 0, "ceilings": False, "progress": False}
    found = ado.check(ladder["right"], ladder, np.ones(100), **quick)
    assert found.correct
    assert found.comparisons == {}  # the other variant is wrong
    assert not ado.check(ladder["wrong"], ladder, np.ones(100), **quick)
    with pytest.raises(ValueError, match=r"total already has .* use it as ladder\['right'\]"):
        ado.check(ado.variant(np.sum, name="right"), ladder, np.ones(100), **quick)


@pytest.mark.usefixtures("sources_on_emulator")
def test_a_kernel_receives_operands_then_results_then_lengths(rng):
    ladder = ado.ladder("product", reference=np.matmul, signature="(m,k),(k)->(m)", tolerance=1e-5)
    source = """__global__ void mine(const float* a, const float* x, float* out, int m, int k) {
      int row = blockIdx.x * blockDim.x + threadIdx.x;
      if (row < m) for (int i = out[row] = 0; i < k; ++i) out[row] += a[row * k + i] * x[i]; }"""
    ladder.cuda_variant("mine", source=source, block=4)
    operands = rng.random((5, 70), dtype=np.float32), rng.random(70, dtype=np.float32)
    found = ladder(*operands, variant="mine", device="emulator")
    np.testing.assert_allclose(found, operands[0] @ operands[1], rtol=1e-5)


def tiled(**settings):
    return ado.cuda_variant("tiled", source="", kernel="tiled<{T}, {TILE}>", **settings)


@pytest.mark.parametrize(
    ("block", "blocks"),
    [
        *[(64, ((64,),)), ((32, 8), ((32, 8),)), ([256, 128, 512], ((256,), (128,), (512,)))],
        *[([(32, 8), 64], ((32, 8), (64,))), (((32, 8), (16, 16)), ((32, 8), (16, 16)))],
    ],
)
def test_a_list_of_blocks_has_several_shapes_and_a_tuple_is_one(block, blocks):
    assert tiled(block=block).blocks == blocks


def test_each_combination_of_parameters_is_a_setting():
    variant = tiled(block=[(32, 8), (32, 16)], parameters={"TILE": (32, 64), "PAD": (0, 1)})
    assert [chosen for chosen, _ in variant.settings()] == [
        {"TILE": 32, "PAD": 0},
        {"TILE": 32, "PAD": 1},
        {"TILE": 64, "PAD": 0},
        {"TILE": 64, "PAD": 1},
    ]
    changed = variant.with_default((32, 16), {"TILE": 64})
    assert changed.blocks == ((32, 16), (32, 8))
    assert changed.default_parameters == {"TILE": 64, "PAD": 0}
    with pytest.raises(ValueError, match="block must be one of"):
        variant.with_default((8, 8), {})
    with pytest.raises(ValueError, match="has no parameter TILE with the value 7"):
        variant.with_default((32, 8), {"TILE": 7})


def test_tuning_finds_the_best_setting_and_makes_it_the_default(tmp_path):
    variant = tiled(block=[(32, 8), (32, 16)], parameters={"TILE": (32, 64)})
    ladder = ado.ladder("copy", reference=lambda a: a)
    ladder.add(variant)
    settings = {
        str(setting): setting
        for chosen, _ in variant.settings()
        for block in variant.blocks
        for setting in [ado.records.Setting(block, chosen)]
    }
    assert next(iter(settings)) == "32 x 8, TILE=32"
    lab = Lab()
    times = [4.0, 3.0, 1.0, 2.0]
    measured = [
        lab.measure(1e-3 * seconds, variant=name, **COPY)
        for name, seconds in zip(settings, times, strict=True)
    ]
    measurements = Sweep(routine="copy", measurements=tuple(measured))
    names = {"routine": "copy", "variant": "tiled"}
    tuning = ado.records.Tuning(**names, settings=settings, sweep=measurements, ladder=ladder)
    assert str(tuning.best) == "32 x 8, TILE=64"
    assert "32 x 8, TILE=32" in repr(tuning)
    assert "best: 32 x 8, TILE=64" in repr(tuning)
    tuning.use()
    assert ladder["tiled"].default_parameters == {"TILE": 64}
    tuning.use(settings["32 x 16, TILE=32"])
    assert ladder["tiled"].blocks[0] == (32, 16)

    tuning.save(tmp_path / "t.json")
    stored = ado.load(tmp_path / "t.json")
    assert stored == tuning
    assert list(stored.settings) == list(settings)
    assert repr(stored) == repr(tuning)
    with pytest.raises(KeyError, match="'copy' is not a routine: pass the ladder with ladder="):
        stored.use()
    stored.use(ladder=ladder)
    assert ladder["tiled"].default_parameters == {"TILE": 64}


def test_a_stored_tuning_of_a_routine_is_used():
    name, blocks = next((v.name, v.blocks) for v in ado.transpose if len(v.blocks) > 1)
    settings = {str(s): s for s in map(ado.records.Setting, blocks)}
    m = Lab().measure(1e-3, variant=str(ado.records.Setting(blocks[1])), **COPY)
    sweep = Sweep(routine="transpose", measurements=(m,))
    tuning = ado.records.Tuning(routine="transpose", variant=name, settings=settings, sweep=sweep)
    try:
        tuning.use()
        assert ado.transpose[name].blocks[0] == blocks[1]
    finally:
        ado.transpose.set_default(name, blocks[0], {})


def test_objects_that_cannot_be_tuned_are_rejected():
    with pytest.raises(TypeError, match="variant must be a variant of a ladder, got Routine: "):
        ado.tune(ado.transpose)
    with pytest.raises(
        ValueError, match=r"must have several block shapes .* got transpose\[simd\]"
    ):
        ado.tune(ado.transpose["simd"])
