"""The emulator of CUDA kernels: results, counts and errors of single instructions and kernels."""

import itertools
import re
import shutil
import struct
import subprocess
from math import erf
from pathlib import Path

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core, toolkit
from adokernels.model import compiler

KERNELS = Path(__file__).parent / "data" / "emulator" / "kernels.cu"


def device_array(shape, dtype, values=None):
    """An array with the alignment of device memory, 256 bytes, which the counts depend on."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(count + 256, np.uint8)
    start = -raw.ctypes.data % 256
    array = raw[start : start + count].view(dtype).reshape(shape)
    if values is not None:
        array[...] = values
    return array


def packed(argument):
    if isinstance(argument, bytes):
        return argument
    if isinstance(argument, np.ndarray):
        return struct.pack("<Q", argument.ctypes.data)
    return np.asarray(argument).tobytes()


def extent(shape):
    return (*shape, *(1,) * (3 - len(shape)))


def launch(module, entry, grid, block, *arguments, outputs=(), **options):
    """Launch a kernel. Arrays are passed as pointers; those in `outputs` are uninitialised."""
    params = b""
    for (offset, size), argument in zip(module.parameters(entry), arguments, strict=True):
        assert len(packed(argument)) == size
        params = params.ljust(offset, b"\0") + packed(argument)
    written = {id(output) for output in outputs}
    operands = {id(a): a for a in arguments if isinstance(a, np.ndarray)}
    arrays = [("out" if i in written else "a", a, i not in written) for i, a in operands.items()]
    return module.launch(entry, extent(grid), extent(block), params, arrays, **options)


def run(module, entry, grid, block, *arguments, **options):
    """Launch a kernel that must not fail, and return its counts."""
    result = launch(module, entry, grid, block, *arguments, **options)
    assert result["error"] is None, result["error"]["text"]
    return result["counts"]


# --- Instructions -----------------------------------------------------------------------------

TYPES = {"s": "int", "u": "uint", "f": "float", "b": "uint"}


def dtype_of(ptx):
    return np.dtype(TYPES[ptx[0]] + ptx[1:])


def register(ptx_type, name):
    return f"  .reg .{ptx_type if ptx_type[0] == 'f' else 'b' + ptx_type[1:]} {name};"


def ptx_of(instruction, result, operands):
    """A kernel that executes an instruction on element i of each operand."""
    names = [f"%x{i}" for i in range(len(operands))]
    lines = [".version 9.0", ".target sm_90", ".address_size 64", ".visible .entry k("]
    lines.append(",\n".join(f"  .param .u64 p{i}" for i in range(len(operands) + 1)))
    lines += [")", "{", "  .reg .b32 %t;", "  .reg .b64 %a<3>;", "  .reg .pred %p<3>;"]
    lines += [register(t, name) for t, name in zip(operands, names, strict=True)]
    lines += [register(result, "%d"), "  mov.u32 %t, %tid.x;"]
    for i, (t, name) in enumerate(zip(operands, names, strict=True)):
        lines += [
            f"  ld.param.u64 %a0, [p{i + 1}];",
            f"  mad.wide.u32 %a1, %t, {int(t[1:]) // 8}, %a0;",
            f"  ld.global.{t} {name}, [%a1];",
        ]
    lines += [f"  {instruction}", "  ld.param.u64 %a0, [p0];"]
    lines += [f"  mad.wide.u32 %a1, %t, {int(result[1:]) // 8}, %a0;"]
    lines += [f"  st.global.{result} [%a1], %d;", "  ret;", "}"]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("second", "flops"),
    [
        ("mul.f64 %r1, %x0, %x1;", 2),
        ("mul.f64 %r1, %x1, %x0;", 3),  # only literal repetitions are recognised
        ("mov.f64 %x0, %x1; mul.f64 %r1, %x0, %x1;", 3),
        ("LATER: mul.f64 %r1, %x0, %x1;", 3),
        ("mul.f64 %x0, %x0, %x1; mul.f64 %r1, %x0, %x1;", 3),
    ],
)
def test_repeated_expressions_count_once(second, flops):
    """In a basic block: ptxas removes repetitions, and the emulator counts like machine code."""
    text = f"{{ .reg .f64 %r<2>; mul.f64 %r0, %x0, %x1; {second} add.f64 %d, %r0, %r1; }}"
    a, b, out = (device_array(32, "f8", values) for values in (2.0, 3.0, 0.0))
    module = _core.EmulatedModule(ptx_of(text, "f64", ["f64", "f64"]))
    assert run(module, "k", (1,), (32,), out, a, b)["operations"]["flop64"] == 32 * flops


@pytest.mark.parametrize("last", ["TAKEN", "ON"])
def test_conditions_of_a_short_circuit_are_one_branch(last):
    """The lanes of `t < 8 || !(t < 16) && t < 24` branch together, also if all others go on."""
    text = f"""setp.lt.u32 %p0, %t, 8; @%p0 bra TAKEN;
  setp.lt.u32 %p1, %t, {16 if last == "TAKEN" else 32}; @%p1 bra ON;
  setp.lt.u32 %p2, %t, 24; @%p2 bra TAKEN;
  ON: add.u32 %d, %x0, 1; bra END;
  TAKEN: ld.global.u32 %d, [%a1]; add.u32 %d, %d, 2;
  END:"""
    a, out = (device_array(32, "u4", np.arange(32)) for _ in range(2))
    module = _core.EmulatedModule(ptx_of(text, "u32", ["u32"]))
    counts = run(module, "k", (1,), (32,), out, a)
    taken = (a < 8) | ((a >= 16) & (a < 24) & (last == "TAKEN"))
    np.testing.assert_array_equal(out, a + np.where(taken, 2, 1))
    assert counts["global_loads"]["requests"] == 2
    assert counts["divergent_branches"] == 1


@pytest.mark.parametrize("branches", list(itertools.product(("TAKEN", "ON"), repeat=3)))
def test_lanes_that_skip_a_condition_do_not_execute_its_rest(branches, rng):
    """Also if all other lanes branch at once. The last branch is to TAKEN, for one condition."""
    branches = (*branches, "TAKEN")
    text = "\n".join(
        f"and.b32 %q, %x0, {1 << n}; setp.ne.u32 %c{n}, %q, 0; @%c{n} bra {branch};"
        for n, branch in enumerate(branches)
    )
    text = f""".reg .b32 %q; .reg .pred %c<4>; {text}
  ON: add.u32 %d, %x0, 100; bra END;
  TAKEN: add.u32 %d, %x0, 200;
  END:"""
    module = _core.EmulatedModule(ptx_of(text, "u32", ["u32"]))
    targets = [next((b for n, b in enumerate(branches) if x >> n & 1), "ON") for x in range(16)]
    expected = np.arange(16) + np.where(np.array(targets) == "TAKEN", 200, 100)
    for different in (1, 2, 2, 2, 3, 3, 4, 16) * 8:
        x = rng.choice(rng.choice(16, different, replace=False), 32)
        a, out = device_array(32, "u4", x), device_array(32, "u4")
        run(module, "k", (1,), (32,), out, a)
        np.testing.assert_array_equal(out, expected[x])


def test_a_copy_reads_only_its_source_bytes():
    """The other bytes of the element are zeros, and may be uninitialised at the source."""
    text = """.shared .align 4 .b8 s[128]; .reg .b32 %s, %n;
  ld.param.u64 %a0, [p0]; mad.wide.u32 %a1, %t, 4, %a0; st.global.u16 [%a1], %x0;
  mov.u32 %s, s; mad.lo.u32 %s, %t, 4, %s; mov.u32 %n, 2;
  cp.async.ca.shared.global [%s], [%a1], 4, %n; cp.async.wait_all; ld.shared.u32 %d, [%s];"""
    module = _core.EmulatedModule(ptx_of(text, "u32", ["u32"]))
    a, out = (device_array(32, "u4", np.arange(32) + n) for n in (7, 1 << 20))
    run(module, "k", (1,), (32,), out, a, outputs=[out])
    np.testing.assert_array_equal(out, a)


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("bfe.s32 %d, %x0, 28, 9;", [-1, 0, 1]),
        ("bfi.b32 %d, %x0, 5, 4, 12;", [0xFF95, 5, 0x6785]),
        ("prmt.b32 %d, %x0, %x0, 30212;", [0xFFFFF9F9 - 2**32, 0, 0x12347878]),
        ("setp.hi.u32 %p0, %x0, 9; @!%p0 mov.u32 %d, 3; @%p0 mov.u32 %d, 4;", [4, 3, 4]),
        ("cvt.s32.s8 %d, %x0;", [-7, 0, 0x78]),
        ("mov.u32 %d, %nwarpid;", [64, 64, 64]),
    ],
)
def test_operands_may_be_constants_and_instructions_may_be_predicated(instruction, expected):
    a, out = device_array(3, "i4", (-7, 0, 0x12345678)), device_array(3, "i4")
    module = _core.EmulatedModule(ptx_of(instruction, "s32", ["s32"]))
    run(module, "k", (1,), (3,), out, a, outputs=[out])
    assert out.tolist() == expected


#: Instructions that are not emulated, and what the message names.
REFUSED = {
    "frobnicate.s32 %d, %x0;": "not support this instruction: frobnicate",
    "tex.1d.v4.s32.s32 {%d, %d, %d, %d}, [%x0, {%x0}];": r"\(textures, whose",
    "suld.b.1d.b32.trap {%d}, [%x0, {%x0}];": r"\(surfaces, whose",
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%x0], [%x0], 16;": (
        r"\(bulk copies that reduce; use atomic"
    ),
    "mma.sync.aligned.m8n8k128.row.col.s32.b1.b1.s32.and.popc {%d, %d}, {%x0}, {%x0}, "
    "{%x0, %x0};": r"\(products of bits",
    "call (%d), malloc, (%x0);": "has no heap for malloc and new; allocate",
    "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%d, %d, %d, %d}, {%x0, %x0}, "
    "{%x0, %x0}, {%x0, %x0, %x0, %x0}, %x0, 0x0;": "not support",
    "multimem.ld_reduce.global.add.s32 %d, [%a0];": "not support",
    "shfl.idx.b32 %d, %x0, 0, 31;": "not support",
    "vadd.s32.s32.s32 %d, %x0, %x0, %x0;": "not support",
    "movmatrix.sync.aligned.m8n8.trans.b16 %d, %x0;": "not support",
    "mov.u32 %d, %envreg3;": "not support",
}


@pytest.mark.parametrize("instruction", REFUSED)
def test_what_is_not_emulated_is_named(instruction):
    module = _core.EmulatedModule(ptx_of(instruction, "s32", ["s32"]))
    out = device_array(64, "i4")
    with pytest.raises(RuntimeError, match=rf"PTX line \d+: .*{REFUSED[instruction]}"):
        run(module, "k", (1,), (32,), out, out, outputs=[out])


#: Functions that the hardware computes with several instructions.
EXPANDED = [
    *("div.rn.f32", "div.full.f32", "div.approx.f32", "div.rn.ftz.f32", "div.rn.f64"),
    *("rcp.rn.f32", "rcp.approx.f32", "rcp.approx.ftz.f32", "rcp.rn.f64", "rcp.approx.ftz.f64"),
    *("sqrt.rn.f32", "sqrt.approx.f32", "sqrt.approx.ftz.f32", "sqrt.rn.f64"),
    *("rsqrt.approx.f32", "rsqrt.approx.f64", "rsqrt.approx.ftz.f64"),
    *("ex2.approx.f32", "lg2.approx.f32", "sin.approx.f32", "cos.approx.ftz.f32"),
    "tanh.approx.f32",
]


def machine_flops(text):
    """FLOPs in 32 and 64 bits of machine code, without predicated and slow paths."""
    main = text[: text.index(" EXIT")]
    found = re.findall(r"/\s+(?!@)([FD])(ADD|MUL|FMA)\b", main)
    return [sum(1 + (op == "FMA") for kind, op in found if kind == letter) for letter in "FD"]


@pytest.fixture(scope="module")
def expansions(tmp_path_factory):
    """The FLOPs of each function of EXPANDED in machine code for sm_90."""
    nvcc, nvdisasm = toolkit.program("nvcc"), toolkit.program("nvdisasm")
    if not (nvcc and nvdisasm):
        pytest.skip("needs nvcc and nvdisasm")
    folder = tmp_path_factory.mktemp("expansions")
    lines = []
    for i, op in enumerate(EXPANDED):
        c, t = ("double", "d") if op.endswith("64") else ("float", "f")
        two = ', %2;" : "={t}"(r) : "{t}"(x), "{t}"(y)' if op.startswith("div") else None
        one = ';" : "={t}"(r) : "{t}"(x)'
        operands = (two or one).format(t=t)
        lines += [
            f'extern "C" __global__ void k{i}({c}* p) {{ {c} x = p[0], y = p[1], r;',
            f'  asm("{op} %0, %1{operands}); p[2] = r; }}',
        ]
    (folder / "k.cu").write_text("\n".join(lines))
    command = [nvcc, "-cubin", "-arch=sm_90", "-w", "k.cu", "-o", "k.cubin"]
    subprocess.run(command, check=True, cwd=folder)
    text = subprocess.check_output([nvdisasm, "-c", "k.cubin"], text=True, cwd=folder)
    return dict(re.findall(r"^\.text\.(\w+):\n(.*?)(?=^\.text|\Z)", text, re.M | re.S))


@pytest.mark.parametrize("op", EXPANDED)
def test_flops_of_an_expansion(op, expansions):
    t = op.rpartition(".")[2]
    operands = [t, t] if op.startswith("div") else [t]
    names = ", ".join(f"%x{i}" for i in range(len(operands)))
    arrays = [device_array(64, dtype_of(t), 2) for _ in operands]
    out = device_array(64, dtype_of(t))
    module = _core.EmulatedModule(ptx_of(f"{op} %d, {names};", t, operands))
    found = run(module, "k", (1,), (64,), out, *arrays, outputs=[out])["operations"]
    flops = machine_flops(expansions[f"k{EXPANDED.index(op)}"])
    assert [found["expanded32"] / 64, found["expanded64"] / 64] == flops


# --- Kernels ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("needs nvcc")
    path = tmp_path_factory.mktemp("ptx") / "kernels.ptx"
    flags = ["-ptx", "-arch=compute_90", "-lineinfo", "-std=c++20"]
    subprocess.run([nvcc, *flags, str(KERNELS), "-o", str(path)], check=True)
    return _core.EmulatedModule(path.read_text())


def line_marked(mark):
    lines = KERNELS.read_text().splitlines()
    return next(i for i, line in enumerate(lines, 1) if line.endswith(f"line: {mark}"))


@pytest.mark.parametrize("threads", [1, 2])
def test_copy(kernels, rng, threads):
    n = 1000
    a, out = device_array(n, "f4", rng.random(n)), device_array(n, "f4")
    counts = run(kernels, "copy", (8,), (128,), a, out, np.int32(n), outputs=[out], threads=threads)
    np.testing.assert_array_equal(out, a)
    assert counts["global_loads"]["requests"] == 32  # 1000 elements in warps of 32
    assert counts["global_loads"]["sectors"] == n * 4 // 32
    assert counts["global_stores"]["bytes"] == n * 4
    assert counts["divergent_branches"] == 1


@pytest.mark.parametrize(("columns", "wavefronts"), [(32, 32), (33, 1)])
def test_bank_conflicts_of_transposes(kernels, rng, columns, wavefronts):
    a, out = device_array((64, 64), "f4", rng.random((64, 64))), device_array((64, 64), "f4")
    entry = next(e for e in kernels.entries if f"ILi{columns}E" in e)
    counts = run(kernels, entry, (2, 2), (32, 8), a, out, np.int32(64), outputs=[out])
    np.testing.assert_array_equal(out, a.T)
    loads = counts["shared_loads"]
    assert loads["wavefronts"] == wavefronts * loads["requests"]
    assert counts["shared_stores"]["wavefronts"] == counts["shared_stores"]["requests"]
    assert counts["barriers"] == 4 * 8
    assert counts["global_stores"]["sectors"] == 4 * counts["global_stores"]["requests"]
    line = next(li for li in counts["lines"] if li["shared_loads"]["requests"])
    assert "tile[x][i]" in KERNELS.read_text().splitlines()[line["line"] - 1]


def failure(kernels, mark, kind, entry, block, *arguments, **options):
    """The error of a launch, which must be of this kind and at the marked line."""
    error = launch(kernels, entry, (1,), block, *arguments, **options)["error"]
    assert error is not None
    assert (error["kind"], error["line"]) == (kind, line_marked(mark)), error["text"]
    assert Path(error["file"]).name == KERNELS.name
    return error


def test_out_of_bounds(kernels):
    a, out = device_array(64, "f4", 1), device_array(64, "f4")
    error = failure(kernels, "out of bounds", "out of bounds", "copy_beyond", (64,), a, out)
    assert error["thread"] == [63, 0, 0]
    assert error["byte"] == 256
    assert "'a', which has 256 bytes" in error["text"]


def test_the_error_of_the_first_block_is_reported(kernels):
    out = device_array(8192, "i4", 1)[:64]  # stores beyond it do not reach another array
    for _ in range(20):
        result = launch(kernels, "late_errors", (8,), (32,), out, np.int32(5000), threads=2)
        assert (result["error"]["block"], result["error"]["byte"]) == ([0, 0, 0], 4 * 4096)


def test_a_missing_barrier_is_a_race(kernels, rng):
    a, out = device_array(128, "i4", rng.integers(0, 99, 128)), device_array(128, "i4")
    run(kernels, "reverse", (1,), (128,), a, out, outputs=[out])
    np.testing.assert_array_equal(out, a[::-1])
    writer, reader = line_marked("race, writer"), line_marked("race, reader")
    result = launch(kernels, "reverse_without_barrier", (1,), (128,), a, out)
    assert result["error"]["kind"] in ("race", "uninitialised")
    assert result["error"]["line"] in (writer, reader)


def test_uninitialised_memory(kernels):
    a, out = device_array(64, "f4"), device_array(64, "f4")
    result = launch(kernels, "copy", (1,), (64,), a, out, np.int32(64), outputs=[a])
    assert (result["error"]["kind"], result["error"]["array"]) == ("uninitialised", "out")


def test_asynchronous_copies_arrive_at_the_wait(kernels, rng):
    a, out = device_array((64, 4), "i4", rng.integers(0, 99, (64, 4))), device_array((64, 4), "i4")
    counts = run(kernels, "async_copy", (1,), (64,), a, out, np.int32(1), outputs=[out])
    np.testing.assert_array_equal(out, a[np.arange(64) ^ 1])
    assert counts["async_copies"] == 2
    assert counts["global_loads"]["sectors"] == 32
    error = launch(kernels, "async_copy", (1,), (64,), a, out, np.int32(0))["error"]
    assert error["kind"] == "missing wait"


def test_calls_local_memory_printf_and_assert(kernels, rng):
    order, out = device_array(32, "i4", rng.integers(0, 8, 32)), device_array(32, "i4")
    result = launch(kernels, "calls", (1,), (32,), order, out, np.int32(1), outputs=[out])
    assert result["error"] is None, result["error"]["text"]
    np.testing.assert_array_equal(out, order**2 + (order ^ 1) ** 2 + 2000)
    assert result["output"] == "thread 3 of 32: 1.50 text -5\n"
    error = failure(kernels, "assert", "assertion", "calls", (32,), order, out, np.int32(0))
    assert "n > 0" in error["text"]


PRINTED = """extern "C" __global__ void k(int* o, const char* text, int* bad) {
  o[0] = printf("%d %5.1f %-4s| %c %x %llu %%\\n", -3, 2.25, "ab", 'z', 255u, 1ull << 63);
  o[1] = printf("%*d|%.*f|%+i|%#o\\n", 4, 7, 1, 0.25, 5, 8);
  o[2] = printf("%600d|\\n", 1);
  o[3] = printf("none\\n") + 10 * printf("%c%c\\n", 0xc3, 0x28) + 100 * printf(nullptr);
}"""


def test_printf():
    """Formats are parsed, fields are not cut, and bytes that are no UTF-8 are escaped."""
    if reason := compiler.why_no_compiler():
        pytest.skip(reason)
    code = compiler.compile_cuda(PRINTED, "k", arch="compute_90", options=["-w"]).code.decode()
    out, text = device_array(4, "i4"), device_array(8, "i1")
    result = launch(_core.EmulatedModule(code), "k", (1,), (1,), out, text, out)
    assert result["error"] is None, result["error"]["text"]
    lines = result["output"].split("\n")
    assert lines[0] == "-3   2.2 ab  | z ff 9223372036854775808 %"
    assert lines[1] == "   7|0.2|+5|010"
    assert lines[2] == "1|".rjust(601)
    assert lines[3:] == ["none", "\\xc3(", ""]
    assert out.tolist() == [6, 6, 1, 0 + 10 * 2 - 100]


MALFORMED = [
    *(
        "abc",
        "%r1",
        "4294967295 %r1, %r1",
        ".",
        "add.s32",
        "mov.u32",
        "ld.global.u32",
        "cvt",
        "bra",
    ),
    *(
        "call",
        "setp.eq",
        "shfl",
        "vote.sync",
        "redux",
        "mma",
        "wmma",
        "wmma.load",
        "cp",
        "mbarrier",
    ),
    *("cp.async.bulk", "slct", "lop3", "bfi.b32", "cvta", "atom", "red", "match", "elect.sync"),
    "bar",
    "ld.global.v4.u32 {%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1,%r1}, [%a0]",
    "ld.global.u32 {}, [%a0]",
    "mov.b64 {}, %a0",
    "mov.pred %p0, %tid.x",
    "mov.u16 %x0, %clock",
    "mma.sync.aligned.m1n8k16.row.col.f32.f16.f16.f32 {%r1,%r1},{%r1},{%r1},{%r1,%r1}",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1},{%r1},{%r1},{%r1}",
    "cp.async.ca.shared.global [%r1], [%a0], 3",
    "add.s32 %a0, %r1, %r1",
    "cvt.u32.u16 %x0, %x0",
    "mov.b64 %a4294967295, 1",
    "{.reg .b32 q<4000000000>;}",
    "{.local .b8 q[4294967295]; mov.b32 %r1, q;}",
    "{.shared .b8 q[-1];}",
    "{.shared .align 3 .b8 q[4];}",
    "[[[[[[[[[[[[[[[[[[[[",
]


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_texts_raise(text):
    """Also texts that lack operands or have too many, which must not end the process."""
    module_text = ptx_of(f"{{ .reg .b32 %r<2>; {text}; }}", "u16", ["u16"])
    out = device_array(64, "u2")
    with pytest.raises(RuntimeError):
        run(_core.EmulatedModule(module_text), "k", (1,), (32,), out, out)


def test_static_shared_memory_beyond_48_kib():
    text = "{ .shared .b8 big[49153]; .reg .b32 %r; mov.u32 %r, big; }"
    module = _core.EmulatedModule(ptx_of(text, "u16", ["u16"]))
    out = device_array(64, "u2")
    message = r"Entry function 'k' uses too much shared data \(0xc001 bytes, 0xc000 max\)"
    with pytest.raises(RuntimeError, match=message):
        run(module, "k", (1,), (32,), out, out)


def test_warp_operations(kernels, rng):
    a, out = device_array(32, "i4", rng.integers(0, 1000, 32)), device_array((7, 32), "i4")
    run(kernels, "warp_operations", (1,), (32,), a, out, outputs=[out])
    np.testing.assert_array_equal(out[0], a.sum())
    np.testing.assert_array_equal(out[1], a.cumsum())
    np.testing.assert_array_equal(out[2], (a % 2).sum())
    np.testing.assert_array_equal(out[3], a.max())
    np.testing.assert_array_equal(out[4], [(a % 4 == x % 4).sum() for x in a])
    np.testing.assert_array_equal(out[5], a.reshape(4, 8)[:, 5].repeat(8))
    np.testing.assert_array_equal(out[6][:7], a[:7].sum())


@pytest.mark.parametrize("threads", [1, 2])
def test_atomics(kernels, rng, threads):
    a, counts = device_array(5000, "u1", rng.integers(0, 256, 5000)), device_array(256, "i4")
    run(kernels, "histogram", (4,), (256,), a, counts, np.int32(5000), threads=threads)
    np.testing.assert_array_equal(counts, np.bincount(a, minlength=256))


def collatz(start):
    x, steps = start, 0
    while x != 1:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        steps += 1
        if steps == 60:
            break
    kind = start % 5
    if kind == 0:
        steps += 1000
    elif kind == 1:
        steps *= 2
    elif kind == 3:
        steps = (steps - 7) ^ 5
    elif kind == 4:
        steps ^= 5
    return steps


def test_divergence(kernels, rng):
    a, out = device_array(64, "i4", rng.integers(1, 500, 64)), device_array(64, "i4", -1)
    run(kernels, "divergence", (1,), (64,), a, out, np.int32(51))
    np.testing.assert_array_equal(out[:51], [collatz(int(x)) for x in a[:51]])
    assert (out[51:] == -1).all()


@pytest.mark.parametrize("threads", [1, 2])
def test_blocks_that_wait_for_later_blocks(kernels, threads):
    flags, out = device_array(9, "i4"), device_array(9, "i4")
    run(kernels, "chain", (9,), (64,), flags, out, threads=threads)
    np.testing.assert_array_equal(out, np.arange(9)[::-1])


def test_clusters(kernels, rng):
    a, out = device_array(8, "i4", rng.integers(0, 99, 8)), device_array(8, "i4")
    run(kernels, "cluster_sum", (8,), (32,), a, out, outputs=[out])
    np.testing.assert_array_equal(out, a.reshape(2, 4).sum(1).repeat(4))


def test_atomics_of_16_bit_floats_and_vectors(kernels, rng):
    a = device_array(64, "f4", rng.integers(0, 4, 64))  # all sums are exact
    halves, brain = device_array(2, "f2"), device_array(1, "u2")
    four, one = device_array(4, "f4"), device_array(1, "f2")
    run(kernels, "float_atomics", (1,), (64,), a, halves, brain, four, one)
    np.testing.assert_array_equal(halves, [a.sum(), 2 * a.sum()])
    np.testing.assert_array_equal(four, a.sum() * np.arange(1, 5))
    assert one[0] == a.sum()
    (bits,) = (brain.astype("u4") << 16).view("f4")
    assert bits == a.sum()


def test_calls_through_pointers(kernels, rng):
    choices = device_array(64, "i4", rng.integers(0, 3, 64))
    out, i = device_array(64, "i4"), np.arange(64)
    run(kernels, "call_through_table", (1,), (64,), choices, out, outputs=[out])
    np.testing.assert_array_equal(out, np.choose(choices, [2 * i, i**2, -i]))


def tensor_map(a, box, swizzle=0):
    """The bytes of a TensorMap (emulator.hpp) for a 2-D array."""
    (rows, cols), (lines, width) = a.shape, box
    fields = [0x70616D2D6F6461FF, a.ctypes.data, cols, rows, 0, 0, 0, a.strides[0], 0, 0, 0]
    fields += [width, lines, 0, 0, 0, 1, 1, 1, 1, 1, 2, a.itemsize, swizzle, 0]
    return struct.pack("<QQ5I4x4Q5H5B4B", *fields).ljust(128, b"\0")


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_tensor_copies(kernels, rng, swizzle):
    a, width = device_array((20, 40), "i4", rng.integers(0, 99, (20, 40))), (swizzle or 128) // 4
    x, y = (int(rng.integers(-5, 45)) for _ in range(2))  # boxes may be partly or fully outside
    out = device_array(8 * 32, "i4")
    lines = 8 * 32 // width
    arguments = tensor_map(a, (lines, width), swizzle), out, np.int32(x), np.int32(y), np.int32(0)
    options = {"outputs": [out]}
    result = launch_with(kernels, "copy_box", (256,), arguments, [a], **options)
    assert result["error"] is None, result["error"]["text"]
    padded = np.pad(a, ((5, 60), (5, 60)))
    box = padded[y + 5 : y + 5 + lines, x + 5 : x + 5 + width]
    at = np.arange(lines)[:, None] * width * 4 + np.arange(width) * 4
    at ^= (at >> 3) & (max(swizzle, 16) - 16)
    expected = np.empty(8 * 32, "i4")
    expected[at.ravel() // 4] = box.ravel()
    np.testing.assert_array_equal(out, expected + 1)
    inside = min(max(x + width, 0), 40) - min(max(x, 0), 40)
    rows = min(max(y + lines, 0), 20) - min(max(y, 0), 20)
    assert result["counts"]["bulk_loads"]["bytes"] == 4 * inside * rows
    assert result["counts"]["bulk_stores"]["sectors"] == 32
    assert result["counts"]["global_loads"]["requests"] == 0


def launch_with(kernels, entry, block, arguments, arrays, *, outputs=()):
    """Launch a kernel that also accesses arrays that are not arguments."""
    params = b""
    for (offset, _), argument in zip(kernels.parameters(entry), arguments, strict=True):
        params = params.ljust(offset, b"\0") + packed(argument)
    operands = [("a", a, True) for a in arrays] + [("out", a, False) for a in outputs]
    return kernels.launch(entry, (1, 1, 1), extent(block), params, operands)


@pytest.mark.parametrize(
    ("mistake", "kind"), [(1, "missing wait"), (2, "deadlock"), (3, "missing wait")]
)
def test_mistakes_with_tensor_copies(kernels, mistake, kind):
    a, out = device_array((20, 40), "i4", 1), device_array(8 * 32, "i4")
    arguments = tensor_map(a, (8, 32)), out, np.int32(0), np.int32(0), np.int32(mistake)
    error = launch_with(kernels, "copy_box", (256,), arguments, [a], outputs=[out])["error"]
    assert error["kind"] == kind, error["text"]
    if kind == "deadlock":
        assert "16 bytes of copies are missing" in error["text"]


def test_a_tensor_map_must_be_encoded(kernels):
    out = device_array(8 * 32, "i4")
    arguments = bytes(128), out, np.int32(0), np.int32(0), np.int32(0)
    error = launch_with(kernels, "copy_box", (256,), arguments, [], outputs=[out])["error"]
    assert error["kind"] == "invalid tensor map"


@pytest.mark.parametrize("mistake", [0, 1, 2])
def test_a_ring_of_buffers(kernels, rng, mistake):
    a, out = device_array((7, 64), "i4", rng.integers(0, 99, (7, 64))), device_array(64, "i4")
    arguments = a, out, np.int32(7), np.int32(mistake)
    result = launch(kernels, "ring", (1,), (96,), *arguments, outputs=[out])
    if mistake == 0:
        assert result["error"] is None, result["error"]["text"]
        np.testing.assert_array_equal(out, a.sum(0))
    else:
        assert result["error"]["kind"] in ("race", "deadlock", "invalid barrier")


def test_copies_that_arrive_at_an_mbarrier(kernels, rng):
    a, out = device_array(64, "i4", rng.integers(0, 99, 64)), device_array(64, "i4")
    run(kernels, "copies_that_arrive", (1,), (64,), a, out, np.int32(0), outputs=[out])
    np.testing.assert_array_equal(out, a[np.arange(64) ^ 1])
    error = launch(kernels, "copies_that_arrive", (1,), (64,), a, out, np.int32(1))["error"]
    assert error["kind"] == "missing wait"


def test_tensor_cores(kernels, rng):
    a = device_array((16, 16), "f2", rng.integers(-9, 9, (16, 16)))
    b = device_array((8, 16), "f2", rng.integers(-9, 9, (8, 16)))
    out = device_array((16, 8), "f4")
    run(kernels, "multiply_fragments", (1,), (32,), a, b, out, outputs=[out])
    np.testing.assert_array_equal(out, a.astype("f4") @ b.T.astype("f4") + 1)
    x, y = (device_array((16, 16), "i1", rng.integers(-128, 128, (16, 16))) for _ in range(2))
    sums = device_array((16, 16), "i4")
    run(kernels, "multiply_bytes", (1,), (32,), x, y, sums, outputs=[sums])
    np.testing.assert_array_equal(sums, x.astype("i4") @ y.astype("i4") + 1)


def test_carries(kernels, rng):
    a = device_array(32, "u8", rng.integers(0, 2**64, 32, "u8"))
    out = device_array(32, "u8")
    run(kernels, "wide_products", (1,), (32,), a, out, outputs=[out])
    for x, result in zip(map(int, a), map(int, out), strict=True):
        total = (x & 0xFFFFFFFF) + (x >> 32)
        second = (x & 0xFFFFFFFF) + (total >> 32)
        parts = (total & 0xFFFFFFFF) + (second & 0xFFFFFFFF) + (second >> 32)
        assert result == ((x * x >> 64) + parts) % 2**64


def test_functions(kernels, rng):
    a, out = device_array(32, "f4", rng.uniform(-20, 20, 32)), device_array((5, 32), "f4")
    run(kernels, "functions", (1,), (32,), a, out, outputs=[out])
    x = a.astype("f8")
    y = np.abs(x)
    expected = [np.exp(x), np.sin(x) * np.cos(x), np.log(y + 1) / 3]
    expected += [np.sqrt(y) + 1 / np.sqrt(y + 1) + np.tanh(x)]
    np.testing.assert_allclose(out[:4], expected, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(out[4], (y + 0.5) ** 1.3 + [erf(v) for v in x], rtol=2e-6)


# --- Own kernels --------------------------------------------------------------------------------


@pytest.mark.usefixtures("sources_on_emulator")
@pytest.mark.parametrize(
    ("barrier", "tested", "reason"),
    [
        ("__syncthreads();", "row < rows && col < cols", ""),
        ("", "row < rows && col < cols", "race|uninitialised"),
        ("__syncthreads();", "row < rows && col <= cols", "out of bounds"),
        ("__syncthreads();", "row < rows - 1 && col < cols", "wrong result|uninitialised"),
    ],
)
def test_checks_of_an_own_kernel(barrier, tested, reason):
    source = f"""__global__ void mine(const float* a, float* out, int rows, int cols) {{
  __shared__ float tile[16][17];
  const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
  if ({tested}) tile[y][x] = a[row * cols + col];
  {barrier}
  const int to = blockIdx.x * 16 + y, at = blockIdx.y * 16 + x;
  if (to < cols && at < rows) out[to * rows + at] = tile[x][y];
}}"""
    mine = ado.cuda_variant("mine", source=source, block=(16, 16))
    a = np.arange(33 * 20, dtype="f4").reshape(33, 20)
    result = ado.check(mine, ado.transpose, a, device="emulator")
    assert bool(result) == (reason == "")
    assert re.search(reason, result.reason)


@pytest.mark.usefixtures("sources_on_emulator")
def test_the_name_of_a_kernel_is_not_a_type():
    """`t` is a mangled type, and not the mangled name of a kernel."""
    source = (
        'extern "C" __global__ void t(const int* a, int* o, int n) { o[n + threadIdx.x] = a[0]; }'
    )
    mine = ado.cuda_variant("mine", source=source, kernel="t", block=32)
    ladder = ado.ladder("copy", reference=lambda a: a.copy())
    ladder.cuda_variant("t", source=source, kernel="t", block=32)
    with pytest.raises(ado.KernelError) as caught:
        ladder(np.ones(8, np.int32), variant="t", device="emulator")
    assert caught.value.kernel == "t"
    assert (
        "unsigned short" not in ado.check(mine, ladder, np.ones(8, "i4"), device="emulator").reason
    )


@pytest.mark.usefixtures("sources_on_emulator")
def test_shared_memory_is_not_zero():
    """Neither check nor sweep accepts a counter that nothing has cleared; the settings apply."""
    source = """__global__ void count(const int* a, int* o, int n) {
  __shared__ int c;
  for (int i = threadIdx.x; i < n; i += 128) atomicAdd(&c, a[i]);
  __syncthreads();
  if (threadIdx.x == 0) o[0] = c;
}"""
    ladder = ado.ladder("sum", reference=lambda a: a.sum(keepdims=True).astype(np.int32))
    ladder.cuda_variant("count", source=source, block=128, grid=(1,))
    a = np.arange(100, dtype="i4")
    before = ado.settings.emulator_checks
    for checks, reason in [
        (before, "wrong result"),
        ((*before, "shared_initcheck"), "uninitialised"),
    ]:
        ado.settings.emulator_checks = checks
        try:
            assert reason in ado.check(ladder["count"], ladder, a, device="emulator").reason
            skipped = ado.sweep(ladder, a, device="emulator", progress=False).skipped
            assert reason in str(skipped["count"])
        finally:
            ado.settings.emulator_checks = before


@pytest.mark.usefixtures("sources_on_emulator")
@pytest.mark.parametrize("memory", ["__shared__ T s[64]", "T s[64]"])
@pytest.mark.parametrize("operation", ["+", "<", ">"])
@pytest.mark.parametrize("name", ["int", "float", "double"])
def test_unwritten_memory_changes_sums_minima_and_maxima(name, operation, memory):
    step = "s[t] += a[i]" if operation == "+" else f"if (a[i] {operation} s[t]) s[t] = a[i]"
    source = f"""using T = {name};
__global__ void k(const T* a, T* o, int n) {{
  {memory};
  int i = blockIdx.x * blockDim.x + threadIdx.x, t = (threadIdx.x + n) % 64;
  if (i < n) {{ {step}; o[i] = s[t]; }}
}}"""
    ladder = ado.ladder("copy", reference=lambda a: a)
    ladder.cuda_variant("k", source=source, kernel="k", block=64)
    a = np.arange(-100, 100).astype({"int": "i4", "float": "f4", "double": "f8"}[name])
    skipped = ado.sweep(ladder, a, device="emulator", progress=False).skipped
    assert skipped["k"].startswith("wrong result")


def test_unwritten_shared_memory_is_far_from_zero():
    address = ".shared .f32 s[32]; .reg .b32 %s; mov.u32 %s, s; mad.lo.u32 %s, %t, 4, %s;"
    module = _core.EmulatedModule(
        ptx_of(f"{{ {address} ld.shared.f32 %d, [%s]; }}", "f32", ["f32"])
    )
    a, out = device_array(32, "f4"), device_array(32, "f4")
    assert launch(module, "k", (1,), (32,), out, a, checks=False)["error"] is None
    assert (out > 1e38).all()


@pytest.mark.parametrize(("bounds", "right"), [(".maxntid 64", "1 to 64"), (".reqntid 64", "64")])
def test_launch_bounds(bounds, right):
    module = _core.EmulatedModule(
        ptx_of("abs.s32 %d, %x0;", "s32", ["s32"]).replace(")\n{", f") {bounds}\n{{")
    )
    a, out = device_array(96, "i4", -3), device_array(96, "i4")
    run(module, "k", (1,), (64,), out, a, outputs=[out])
    assert out[:64].tolist() == [3] * 64
    with pytest.raises(ValueError, match=f"must have {right} threads, got 96"):
        run(module, "k", (1,), (96,), out, a, outputs=[out])
