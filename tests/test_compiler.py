"""Compilation of CUDA C++ source at run time. No test needs a GPU."""

import pickle
import sys

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core
from adokernels.model import compiler
from adokernels.model.compiler import compile_cuda, kernels_in, why_no_compiler
from adokernels.toolkit import installation

NO_COMPILER = why_no_compiler()
needs_compiler = pytest.mark.skipif(bool(NO_COMPILER), reason=NO_COMPILER)

SAXPY = """\
namespace mine {
template <class T>
__global__ void saxpy(T a, const T* x, const T* y, T* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a * x[i] + y[i];
}
}  // namespace mine
extern "C" __global__ void plain(float* out) { out[threadIdx.x] = 1; }
"""


# ------------------------------------------------------------------------------------ compilation


@needs_compiler
@pytest.mark.parametrize(
    ("kernel", "symbol"),
    [
        ("mine::saxpy<float>", "_ZN4mine5saxpyIfEEvT_PKS1_S3_PS1_i"),
        (" mine::saxpy<double> ", "_ZN4mine5saxpyIdEEvT_PKS1_S3_PS1_i"),
        ("plain", "plain"),
    ],
)
def test_kernels_are_found_by_their_names_in_cpp(kernel, symbol):
    compiled = compile_cuda(SAXPY, kernel, arch="sm_80", file="saxpy.cu")
    assert compiled.symbol == symbol
    assert compiled.code.startswith(b"\x7fELF")
    assert symbol.encode() in compiled.code
    assert (compiled.arch, compiled.file, compiled.log) == ("sm_80", "saxpy.cu", "")


@needs_compiler
def test_the_architecture_is_that_of_the_gpu():
    default = compile_cuda(SAXPY, "plain").arch
    no_gpu = _core.why_no_cuda()
    assert default == ("sm_90" if no_gpu else f"sm_{_core.cuda_properties()['compute']}")
    codes = {compile_cuda(SAXPY, "plain", arch=arch).code for arch in ("sm_75", "sm_90", "sm_90a")}
    assert len(codes) == 3


@needs_compiler
def test_warnings_are_in_the_log():
    source = "__global__ void k() {\n  int unused;\n}"
    assert (
        'k.cu(2): warning #177-D: variable "unused"' in compile_cuda(source, "k", file="k.cu").log
    )
    assert compile_cuda(source, "k", options=["-w"]).log == ""


@needs_compiler
@pytest.mark.parametrize(
    ("headers", "statement"),
    [
        (["cuda_runtime.h", "cuda_fp16.h"], "out[0] = __half2float(__float2half(out[1]));"),
        (["cuda_pipeline.h"], "__pipeline_commit();"),
        (
            ["mma.h"],
            "nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> f;"
            "nvcuda::wmma::fill_fragment(f, 0.0f); out[0] = f.x[0];",
        ),
        (
            ["cstdint", "climits"],
            "std::uint32_t i = UINT32_MAX; std::size_t n = INT_MAX;int64_t m = i + n; out[0] = m;",
        ),
        (["cstddef", "cfloat"], "std::ptrdiff_t i = threadIdx.x; out[i] = FLT_MAX;"),
        (
            ["cmath"],
            "constexpr float most = INFINITY; double d = M_PI; float f = NAN;"
            "out[0] = std::sqrt(out[1]) + std::fma(d, d, d) + most + f;"
            "out[1] = std::isnan(out[2]) + std::abs(out[3]);",
        ),
        (
            ["cstdio", "cassert", "cstdlib", "cstring"],
            'assert(out[0] > 0); printf("%f", out[0]); std::memcpy(out, out + 2, 4);',
        ),
        (
            [*("stdint.h", "stddef.h", "stdio.h", "math.h", "limits.h", "float.h", "assert.h")],
            "int32_t i = 1; size_t n = i; out[n] = M_PI + INT_MAX + FLT_MAX;",
        ),
        (["string.h", "stdlib.h"], "out[0] = abs(-1);"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_headers_of_cuda_and_c(headers, statement):
    includes = "".join(f"#include <{header}>\n" for header in headers)
    compile_cuda(f"{includes}__global__ void k(float* out) {{ {statement} }}", "k", arch="sm_80")


@needs_compiler
@pytest.mark.parametrize(("prefix", "dtype"), [("FLT", np.float32), ("DBL", np.float64)])
def test_limits_of_floating_point_types(prefix, dtype):
    info = np.finfo(dtype)
    values = {"MAX": info.max, "MIN": info.smallest_normal, "EPSILON": info.eps}
    values = {name: float(value).hex() for name, value in values.items()}
    values |= {"MANT_DIG": info.nmant + 1, "MAX_EXP": info.maxexp, "MIN_EXP": info.minexp + 1}
    checks = "".join(f"static_assert({prefix}_{name} == {v});" for name, v in values.items())
    compile_cuda(f"#include <cfloat>\n{checks} __global__ void k() {{}}", "k", arch="sm_80")


@needs_compiler
def test_headers_of_cpp():
    """All headers in one compilation, because the headers of CCCL take seconds to compile."""
    folder = compiler._STANDARD_HEADERS
    names = sorted(path.name for path in folder.iterdir())
    assert len(names) > 30
    source = (
        "".join(f"#include <{name}>\n" for name in names)
        + """
#include <cooperative_groups.h>
__global__ void k(int* a) {
  static_assert(std::is_same_v<int, std::remove_const_t<const int>>);
  std::array<int, 2> two{1, 2};
  std::pair<int, int> pair{two[threadIdx.x], 3};
  std::swap(pair.first, pair.second);
  a[0] = std::min(std::max(a[1], pair.first), std::numeric_limits<int>::max());
  a[1] = std::popcount(7u) + std::plus<int>()(1, 2);
  std::complex<float> z(a[2], a[3]);
  a[2] = (z * z).real();
  cooperative_groups::this_thread_block().sync();
}"""
    )
    compile_cuda(source, "k")


@needs_compiler
def test_headers_beside_the_file(tmp_path):
    header = tmp_path / "width.cuh"
    source = '#include "width.cuh"\n__global__ void k(int* a) { a[0] = kWidth; }'
    header.write_text("constexpr int kWidth = 32;", encoding="utf-8")
    first = compile_cuda(source, "k", file=str(tmp_path / "k.cu"))
    header.write_text("constexpr int kWidth = 64;", encoding="utf-8")
    assert compile_cuda(source, "k", file=str(tmp_path / "k.cu")).code != first.code
    with_option = compile_cuda(source, "k", options=[f"-I{tmp_path}"])
    header.unlink()
    with pytest.raises(ado.CompilationError, match=r"width\.cuh"):
        compile_cuda(source, "k", options=[f"-I{tmp_path}"])
    assert with_option.symbol == "_Z1kPi"


# -------------------------------------------------------------------------------------- messages


@needs_compiler
def test_errors_show_line_and_caret():
    source = "__global__ void k(float* a) {\n  a[0] = b;\n}\n"
    with pytest.raises(ado.CompilationError) as caught:
        compile_cuda(source, "k", file="wrong.cu")
    error = caught.value
    assert isinstance(error, ValueError)
    assert str(error) == (
        "wrong.cu does not compile:\n\n"
        'wrong.cu(2): error: identifier "b" is undefined\n'
        "    a[0] = b;\n"
        "           ^"
    )
    assert (error.file, error.source) == ("wrong.cu", source)
    assert '1 error detected in the compilation of "wrong.cu".' in error.log
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.log) == (str(error), error.log)


@needs_compiler
@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        ("saxpy<float>", 'identifier "saxpy" is undefined'),
        ("mine::saxpy", 'cannot determine which instance of function template "mine::saxpy"'),
        ("mine::saxpy<flot>", 'identifier "flot" is undefined'),
        ("helper", "non-__global__"),
    ],
)
def test_the_error_for_an_unknown_kernel_lists_the_kernels_found(kernel, reason):
    source = SAXPY + "__device__ void helper() {}"
    with pytest.raises(ado.CompilationError) as caught:
        compile_cuda(source, kernel, file="saxpy.cu")
    message = str(caught.value)
    assert message.startswith(
        f"kernel must name one __global__ function of saxpy.cu, got {kernel!r}:"
    )
    assert reason in message
    assert message.endswith("; __global__ functions found: saxpy<...>, plain")


@needs_compiler
@pytest.mark.parametrize(
    ("source", "hint"),
    [
        ("#include <nix.h>\n__global__ void k() {}", installation("kernels")),
        ("int main() {}", "#ifndef __CUDACC_RTC__"),
    ],
)
def test_hints(source, hint):
    with pytest.raises(ado.CompilationError) as caught:
        compile_cuda(source, "k")
    assert hint in str(caught.value)
    assert "__nv_name_map" not in str(caught.value)


def test_wrong_arguments_are_rejected():
    with pytest.raises(TypeError, match="source must be a str, got bytes"):
        compile_cuda(b"", "k")
    with pytest.raises(TypeError, match="options must be a sequence of str"):
        compile_cuda("", "k", options="-DX")
    with pytest.raises(ValueError, match="kernel must be the name"):
        compile_cuda("", " ")
    with pytest.raises(
        ValueError, match="arch must have the form 'sm_90', 'sm_90a' or 'compute_90', got '90'"
    ):
        compile_cuda("", "k", arch="90")


KERNEL = "__global__ void k(int *a) { *a = 1; }\n"


@pytest.mark.parametrize(
    "directive",
    [
        '#include "/etc/passwd"', "#include </etc/passwd>", '#include "../../etc/passwd"',
        "#include PASSWORDS", '#include_next "/etc/passwd"', '%:include "/etc/passwd"',
        '??=include "/etc/passwd"', '# /* a\n */ include /**/ "/etc/passwd"',
        '/* a\n */ #include "/etc/passwd"', '#inc\\\nlude "/etc/passwd"',
        '#inc??/\nlude "/etc/passwd"',
        'int x;\r#include "/etc/passwd"', '#embed "/etc/passwd"', "import </etc/passwd>;",
        '#line 1 "/etc/passwd"', '# 1 "/etc/passwd"', "#line PASSWORDS", '#include "C:/passwords"',
    ],
)  # fmt: skip
def test_a_source_names_no_other_files(directive):
    source = f'#define PASSWORDS "/etc/passwd"\n{directive}\n{KERNEL}'
    with pytest.raises(
        ValueError, match=r"^source must name files by a literal relative path .*, got"
    ):
        compile_cuda(source, "k")


@needs_compiler
@pytest.mark.parametrize(
    "directive",
    [
        "#include <cuda_fp16.h>", '# include "cuda/std/array" // a comment', "#line 7",
        '#line 7 "other.cu"', "// the #include of a header", "#define import 3\n#pragma unroll",
        "/* import this */",
    ],
)  # fmt: skip
def test_usual_directives_are_accepted(directive):
    assert compile_cuda(f"{directive}\n{KERNEL}", "k").code


@needs_compiler
def test_a_trusted_source_includes_any_file(tmp_path):
    (tmp_path / "value.h").write_text("3")
    source = f'__global__ void k(int *a) {{ *a =\n#include "{tmp_path}/value.h"\n; }}'
    assert compile_cuda(source, "k", trusted=True).code
    assert ado.cuda_variant("k", source=source, block=1, trusted=True).compiled("int32").code
    with pytest.raises(ValueError, match="unless trusted=True"):
        ado.cuda_variant("k", source=source, block=1).compiled("int32")


@pytest.mark.parametrize("name", ["-w.cu", "--options-file=/etc/passwd"])
def test_names_of_files_are_no_options(name):
    with pytest.raises(ValueError, match="file must not begin with '-', as options do, got '-"):
        compile_cuda(KERNEL, "k", file=name)


@pytest.mark.parametrize(
    "option", ["--options-file=/etc/passwd", "-optf=/etc/passwd", "/etc/passwd", "-v,-o=/tmp/x"]
)
def test_options_of_the_assembler_name_no_files(option):
    with pytest.raises(ValueError, match=r"-Xptxas must be followed by .* unless trusted=True"):
        compile_cuda(KERNEL, "k", options=["-Xptxas", option])


@needs_compiler
def test_options_of_the_assembler():
    compiled = compile_cuda(
        KERNEL, "k", options=["-Xptxas=-v", "-Xptxas", "-O2", "-Xptxas=-dlcm=cg"]
    )
    assert "Compiling entry function" in compiled.log


@needs_compiler
@pytest.mark.parametrize("how", [{"arch": "sm_20"}, {"options": ["-std=c++99"]}])
def test_settings_unknown_to_nvrtc_are_value_errors(how):
    with pytest.raises(ValueError, match="arch and options must be known to NVRTC: nvrtc: error"):
        compile_cuda("__global__ void k() {}", "k", **how)


def test_without_bindings_the_error_contains_the_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    assert installation("kernels") in why_no_compiler()
    with pytest.raises(ado.Unavailable, match=r"pip install .*'cuda-bindings=="):
        compile_cuda("__global__ void without_bindings() {}", "without_bindings")


# --------------------------------------------------------------------------------- names, options


def test_kernels_of_a_source():
    source = """
    // __global__ void commented();
    /* __global__ void commented_too(); */
    __global__ void first(int a);
    static __global__ void __launch_bounds__(256, (1 + 1)) second(int* a) {}
    template <class T, int kWidth = 4>
    __global__ void __cluster_dims__(2, 1, 1) third(T* a) { first(1); }
    extern "C" __global__ __launch_bounds__(64) void fourth() {}
    __global__ void first(int a) {}
    __device__ void helper();
    """
    assert kernels_in(source) == ["first", "second", "third<...>", "fourth"]


@needs_compiler
def test_options_in_the_syntax_of_nvcc(tmp_path):
    (tmp_path / "own.cuh").write_text("constexpr int kOwn = 1;")
    source = """
    #include <own.cuh>
    static_assert(A == 1 && B == 2 && C == 3 && __cplusplus == 201703L && kOwn == 1);
    #ifdef D
    #error D is defined
    #endif
    __global__ void k(float* a) { int unused; a[0] = a[1] * a[2] + 1 / a[3]; }"""
    options = ["-DA", "-D", "B=2", "--define-macro=C=3", "-DD", "-UD", f"-I{tmp_path}"]
    options += ["-std=c++17", "-diag-suppress=177", "-maxrregcount", "32", "-Xptxas=-v"]
    exact = compile_cuda(source, "k", options=options)
    assert "warning" not in exact.log
    assert "Compiling entry function" in exact.log
    for more in (["--fmad=false"], ["-use_fast_math"], ["--disable-warnings", "-G"]):
        assert compile_cuda(source, "k", options=[*options, *more]).code != exact.code


@pytest.mark.parametrize("option", ["-nix", "DTILE", "-use_fast_math=true", "--options-file=x"])
def test_unknown_options_are_rejected(option):
    with pytest.raises(ValueError, match=r"options must be among .*-use_fast_math.*, got '"):
        compile_cuda(KERNEL, "k", options=[option])


@needs_compiler
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("-D", "invalid macro definition"),
        ("-maxrregcount=many", "expects an integer value"),
        ("-diag-suppress=x", "integer value"),
        ("-fmad=no", "expects true or false"),
    ],
)
def test_wrong_values_of_options_are_rejected(option, message):
    with pytest.raises(ValueError, match=message):
        compile_cuda(KERNEL, "k", options=[option])
