"""Tensor cores on the emulator: ldmatrix, mma with 8-bit floats, and wgmma with its rules."""

import itertools
import lzma
import struct
from pathlib import Path

import numpy as np
import pytest
from test_emulator import device_array, tensor_map
from test_emulator import launch as launch_kernel

from adokernels import _core
from adokernels.model import compiler

DATA = Path(__file__).parent / "data" / "emulator"
HEAD = '.version 8.4\n.target sm_90a\n.address_size 64\n.file 1 "k.cu"\n'


def on_device(values):
    return device_array(values.shape, values.dtype, values)


def launch(ptx, threads, inputs, out, shared_bytes=0):
    """Launch kernel k(inputs..., out), and return its result."""
    arrays = [on_device(a) for a in [*inputs, out]]
    module, options = (
        _core.EmulatedModule(ptx),
        {"outputs": arrays[-1:], "shared_bytes": shared_bytes},
    )
    result = launch_kernel(module, "k", (1,), (threads,), *arrays, **options)
    out[...] = arrays[-1]
    return result


def kernel(body, inputs, registers=""):
    params = ", ".join(f".param .u64 p{i}" for i in range(inputs + 1))
    loads = "\n".join(f"ld.param.u64 %g{i}, [p{i}];" for i in range(inputs + 1))
    return f"""{HEAD}.extern .shared .align 1024 .b8 tile[];
.visible .entry k({params})
{{
  .reg .b32 %t<9>; .reg .b64 %g<9>; .reg .b64 %x<9>; .reg .pred %p<4>; {registers}
  mov.u32 %t0, %tid.x;
  {loads}
  {body}
  ret;
}}"""


# --- Elements ------------------------------------------------------------------------------------


def eighth(code, mantissa):
    """The value of an 8-bit float with this number of bits after the point."""
    sign, rest = -1.0 if code & 0x80 else 1.0, code & 0x7F
    exponent, bits = rest >> mantissa, rest & ((1 << mantissa) - 1)
    if mantissa == 2 and exponent == 31:
        return sign * np.inf if bits == 0 else np.nan
    if mantissa == 3 and rest == 0x7F:
        return np.nan
    bias = (1 << (6 - mantissa)) - 1
    scale = 2.0 ** (max(exponent, 1) - bias - mantissa)
    return sign * scale * (bits + ((exponent > 0) << mantissa))


EIGHTHS = {
    name: np.array([eighth(code, mantissa) for code in range(256)])
    for name, mantissa in (("e4m3", 3), ("e5m2", 2))
}


def encoded(values, ptx_type):
    """The bits of integers in a type of tensor cores."""
    if ptx_type in EIGHTHS:
        codes = {v: c for c, v in enumerate(EIGHTHS[ptx_type]) if c != 0x80}
        return np.array([codes[float(v)] for v in values.ravel()], "u1").reshape(values.shape)
    if ptx_type == "bf16":
        return (values.astype("f4").view("u4") >> 16).astype("u2")
    dtype = {"f16": "f2", "tf32": "f4", "s8": "i1", "u8": "u1"}[ptx_type]
    return values.astype(dtype).view(f"u{np.dtype(dtype).itemsize}")


def integers(rng, shape, ptx_type):
    return rng.integers(0 if ptx_type == "u8" else -8, 9, shape).astype("f8")


TYPES = [
    ("f32", "f16", "f16"),
    ("f16", "f16", "f16"),
    ("f32", "bf16", "bf16"),
    ("f32", "tf32", "tf32"),
    ("s32", "s8", "s8"),
    ("s32", "u8", "s8"),
    ("s32", "u8", "u8"),
    ("f32", "e4m3", "e4m3"),
    ("f32", "e4m3", "e5m2"),
    ("f32", "e5m2", "e4m3"),
    ("f16", "e5m2", "e5m2"),
]

ONE = {"f32": "0x3F800000", "f16": "0x3C003C00", "s32": "1"}
DTYPES = {"f32": "f4", "f16": "f2", "s32": "i4"}


# --- Fragments -----------------------------------------------------------------------------------


def left_fragment(a):
    """Registers [lane, i] of 16 rows of a: register i has rows 8 (i % 2) and a half of k."""
    per_register = 4 // a.itemsize
    parts = a.reshape(2, 8, 2, 4, per_register)  # half of rows, group, half of k, lane, element
    return np.ascontiguousarray(parts.transpose(1, 3, 2, 0, 4)).reshape(32, -1).view("u4")


def right_fragment(b):
    """Registers [lane, i] of 8 columns of b (k, 8)."""
    per_register = 4 // b.itemsize
    parts = b.T.reshape(8, 2, 4, per_register)
    return np.ascontiguousarray(parts.transpose(0, 2, 1, 3)).reshape(32, -1).view("u4")


def sum_of_fragment(registers, n, dtype):
    """The 16 x n matrix of registers [lane, i]."""
    elements = registers.view(dtype).reshape(8, 4, n // 8, 2, 2)  # group, lane, 8 columns, half, e
    return elements.transpose(3, 0, 2, 1, 4).reshape(16, n)


# --- ldmatrix and mma ----------------------------------------------------------------------------


def moved_matrices(count, transposed, pitch):
    trans = ".trans" if transposed else ""
    names = ", ".join(f"%d{i}" for i in range(count))
    stores = "\n".join(f"st.global.b32 [%x0+{4 * i}], %d{i};" for i in range(count))
    return kernel(
        f"""mul.lo.u32 %t1, %t0, {pitch}; mov.u32 %t2, tile; add.u32 %t1, %t1, %t2;
  mul.wide.u32 %x1, %t0, 16; add.u64 %x1, %x1, %g0;
  ld.global.v4.b32 {{%d0, %d1, %d2, %d3}}, [%x1];
  st.shared.v4.b32 [%t1], {{%d0, %d1, %d2, %d3}};
  bar.warp.sync 0xffffffff;
  ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{names}}}, [%t1];
  mul.wide.u32 %x0, %t0, {4 * count}; add.u64 %x0, %x0, %g1;
  {stores}""",
        1,
        ".reg .b32 %d<4>;",
    )


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize(("pitch", "conflicts"), [(16, 1), (80, 1), (64, 4), (128, 8)])
def test_matrices_in_shared_memory(rng, count, transposed, pitch, conflicts):
    """A matrix needs one wavefront if its rows are in different banks."""
    rows = rng.integers(0, 2**16, (32, 8)).astype("u2")
    out = np.zeros((32, count, 2), "u2")
    ptx = moved_matrices(count, transposed, pitch)
    result = launch(ptx, 32, [rows], out, 32 * pitch)
    assert result["error"] is None, result["error"]["text"]
    matrices = rows.reshape(4, 8, 8)[:count]
    expected = matrices.transpose(0, 2, 1) if transposed else matrices
    np.testing.assert_array_equal(out.transpose(1, 0, 2).reshape(count, 8, 8), expected)
    loads = result["counts"]["shared_loads"]
    assert (loads["requests"], loads["bytes"]) == (1, 128 * count)
    assert (loads["wavefronts"], loads["ideal"]) == (conflicts * count, count)


@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_are_stored_as_they_are_loaded(rng, transposed):
    rows = rng.integers(0, 2**16, (32, 8)).astype("u2")
    out = np.zeros((32, 8), "u2")
    trans = ".trans" if transposed else ""
    ptx = kernel(
        f"""mul.wide.u32 %x1, %t0, 16; add.u64 %x2, %x1, %g1; add.u64 %x1, %x1, %g0;
  mul.lo.u32 %t1, %t0, 16; mov.u32 %t2, tile; add.u32 %t1, %t1, %t2;
  ld.global.v4.b32 {{%d0, %d1, %d2, %d3}}, [%x1];
  st.shared.v4.b32 [%t1], {{%d0, %d1, %d2, %d3}};
  bar.warp.sync 0xffffffff;
  ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%d0, %d1, %d2, %d3}}, [%t1];
  bar.warp.sync 0xffffffff;
  stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%t1], {{%d0, %d1, %d2, %d3}};
  bar.warp.sync 0xffffffff;
  ld.shared.v4.b32 {{%d0, %d1, %d2, %d3}}, [%t1];
  st.global.v4.b32 [%x2], {{%d0, %d1, %d2, %d3}};""",
        1,
        ".reg .b32 %d<4>;",
    )
    result = launch(ptx, 32, [rows], out, 512)
    assert result["error"] is None, result["error"]["text"]
    np.testing.assert_array_equal(out, rows)


@pytest.mark.parametrize("types", TYPES, ids="-".join)
def test_products_of_fragments(rng, types):
    total, left, right = types
    k = 32 // np.dtype(encoded(np.zeros(1), left).dtype).itemsize
    a, b = integers(rng, (16, k), left), integers(rng, (k, 8), right)
    inputs = [left_fragment(encoded(a, left)), right_fragment(encoded(b, right))]
    count = 2 if total == "f16" else 4
    registers = np.zeros((32, count), "u4")
    sums, ones = (", ".join(f"%{name}{i}" for i in range(count)) for name in "sc")
    ptx = kernel(
        f"""mul.wide.u32 %x1, %t0, 16; add.u64 %x1, %x1, %g0;
  mul.wide.u32 %x3, %t0, 8; add.u64 %x3, %x3, %g1;
  mul.wide.u32 %x2, %t0, {4 * count}; add.u64 %x2, %x2, %g2;
  ld.global.v4.b32 {{%d0, %d1, %d2, %d3}}, [%x1]; ld.global.v2.b32 {{%d4, %d5}}, [%x3];
  {" ".join(f"mov.b32 %c{i}, {ONE[total]};" for i in range(count))}
  mma.sync.aligned.m16n8k{k}.row.col.{total}.{left}.{right}.{total} {{{sums}}},
    {{%d0, %d1, %d2, %d3}}, {{%d4, %d5}}, {{{ones}}};
  st.global.v{count}.b32 [%x2], {{{sums}}};""",
        2,
        ".reg .b32 %d<6>, %s<4>, %c<4>;",
    )
    result = launch(ptx, 32, inputs, registers)
    assert result["error"] is None, result["error"]["text"]
    np.testing.assert_array_equal(sum_of_fragment(registers, 8, DTYPES[total]), a @ b + 1)


def test_products_of_float64(rng):
    """Products are fused with the sum: a b + c is rounded once per term."""
    a, b = rng.standard_normal((8, 4)), rng.standard_normal((4, 8))
    out = np.zeros((32, 2))
    ptx = kernel(
        """mul.wide.u32 %x1, %t0, 8; add.u64 %x2, %x1, %g1; add.u64 %x1, %x1, %g0;
  ld.global.f64 %f0, [%x1]; ld.global.f64 %f1, [%x2]; mov.f64 %f2, 0d0000000000000000;
  mul.wide.u32 %x3, %t0, 16; add.u64 %x3, %x3, %g2;
  mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%f3, %f4}, {%f0}, {%f1}, {%f2, %f2};
  st.global.v2.f64 [%x3], {%f3, %f4};""",
        2,
        ".reg .f64 %f<5>;",
    )
    result = launch(ptx, 32, [a, np.ascontiguousarray(b.T)], out)
    assert result["error"] is None, result["error"]["text"]
    # Both round four times, by at most half of 2.2e-16.
    assert (abs(out.reshape(8, 8) - a @ b) <= 9e-16 * (abs(a) @ abs(b))).all()


@pytest.mark.parametrize("name", EIGHTHS)
def test_values_of_8_bit_floats(name):
    pairs = np.arange(256, dtype="u1").reshape(128, 2)
    out = np.zeros((128, 2), "f2")
    ptx = kernel(
        f"""mul.wide.u32 %x1, %t0, 2; add.u64 %x1, %x1, %g0; mul.wide.u32 %x2, %t0, 4;
  add.u64 %x2, %x2, %g1; ld.global.u16 %h, [%x1];
  cvt.rn.f16x2.{name}x2 %t1, %h; st.global.b32 [%x2], %t1;""",
        1,
        ".reg .b16 %h;",
    )
    assert launch(ptx, 128, [pairs], out)["error"] is None
    np.testing.assert_array_equal(out.ravel().astype("f8"), EIGHTHS[name])


@pytest.mark.parametrize("name", EIGHTHS)
@pytest.mark.parametrize("source", ["f32", "f16x2"])
def test_numbers_become_the_nearest_8_bit_float(rng, name, source):
    """Numbers beyond the largest one, and infinities, become the largest one."""
    values = rng.standard_normal((128, 2)) * 2.0 ** rng.integers(-20, 18, (128, 2))
    values[:2] = [[np.inf, -np.inf], [np.nan, 0]]
    with np.errstate(over="ignore"):
        values = values.astype("f4" if source == "f32" else "f2")
    out = np.zeros((128, 2), "u1")
    loaded = "ld.global.v2.f32 {%f0, %f1}, [%x1]" if source == "f32" else "ld.global.b32 %t1, [%x1]"
    operands = "%f1, %f0" if source == "f32" else "%t1"
    ptx = kernel(
        f"""mul.wide.u32 %x1, %t0, {2 * values.itemsize}; add.u64 %x1, %x1, %g0;
  mul.wide.u32 %x2, %t0, 2; add.u64 %x2, %x2, %g1; {loaded};
  cvt.rn.satfinite.{name}x2.{source} %h, {operands}; st.global.u16 [%x2], %h;""",
        1,
        ".reg .b16 %h; .reg .f32 %f<2>;",
    )
    assert launch(ptx, 128, [values], out)["error"] is None
    found, codes = EIGHTHS[name][out], EIGHTHS[name]
    assert np.isnan(found[1, 0])
    finite = codes[np.isfinite(codes)]
    wanted = np.clip(np.nan_to_num(values.astype("f8")), finite.min(), finite.max())
    error = np.abs(np.where(np.isnan(values), 0, found) - wanted)
    error[1, 0] = 0
    nearest = np.abs(wanted[..., None] - finite).min(-1)
    np.testing.assert_array_equal(error, nearest)
    ties = (np.abs(wanted[..., None] - finite) == nearest[..., None]).sum(-1)
    assert (out[(ties > 1) & (wanted != 0) & (found != 0)] % 2 == 0).all()


# --- wgmma ---------------------------------------------------------------------------------------

SWIZZLES = {0: 0, 128: 1, 64: 2, 32: 3}


class Image:
    """A matrix (lines, k) in shared memory as wgmma reads it.

    Without a swizzle, it consists of blocks of 8 x 16 bytes. With one, the rows are as long as
    the swizzle, and `part` is the part of them that is used. Transposed: lines are neighbours.
    `start`: where the pattern of the swizzle begins, in bytes.
    """

    def __init__(self, matrix, swizzle=0, *, transposed=False, part=0, start=0):
        self.transposed = transposed
        bits, width = matrix.itemsize, swizzle or 16
        line, k = np.meshgrid(*map(np.arange, matrix.shape), indexing="ij")
        along, across = (line * bits, k) if transposed else (k * bits, line)
        at = along % width + across % 8 * width
        if transposed:
            blocks = matrix.shape[0] * bits // width or 1
            step = (8 * width, 8 * width * blocks)  # along the row, across
        elif swizzle == 0:
            step = (128, 256)
        else:
            at, step = at + 32 * part, (0, 8 * width)
        at += along // width * step[0] + across // 8 * step[1]
        at = (at ^ (at >> 3) & (width - 16)) + start
        self.bytes = np.zeros(-(-(at.max() + bits) // 2048) * 2048, np.uint8)
        self.bytes[at[..., None] + np.arange(bits)] = matrix[..., None].view("u1")
        leading, stride = (step[1], step[0]) if transposed and swizzle == 0 else step
        self.descriptor = (start + 32 * part >> 4) | leading >> 4 << 16 | stride >> 4 << 32
        self.descriptor |= start // 128 % 8 << 49 | SWIZZLES[swizzle] << 62


STEPS = {
    "store": 3,
    "proxy fence": 4,
    "barrier": 5,
    "fence": 6,
    "product": 7,
    "commit": 8,
    "wait": 9,
}


def group_kernel(types, n, right, left=None, *, scale=1, signs=(1, 1), without=(), late="", loop=1):
    """A kernel that multiplies once: out[thread, i] is register i of the sum, which begins with 1.

    Each step has the line number of STEPS in k.cu. Steps in `without` are left out, and `late` runs
    before the wait, at line 20.
    """
    total, left_type, right_type = types
    bits = 32 if left_type == "tf32" else 16 if left_type in ("f16", "bf16") else 8
    count = n // 4 if total == "f16" else n // 2
    sums = "{" + ", ".join(f"%d{i}" for i in range(count)) + "}"
    if left is None:
        operand, offset = "{%a0, %a1, %a2, %a3}", 0
    else:
        operand, offset = "%x1", len(left.bytes)
    immediates = f", {signs[0]}, {signs[1]}" if total != "s32" else ""
    if bits == 16:
        immediates += f", {int(left.transposed)}" if left is not None else ""
        immediates += f", {int(right.transposed)}"
    shape = f"m64n{n}k{256 // bits}"
    steps = {
        "store": f"""mov.u32 %t3, %t0;
  copy: mul.wide.u32 %x3, %t3, 16; add.u64 %x4, %g0, %x3; shl.b32 %t4, %t3, 4;
  add.u32 %t4, %t4, %t2; ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%x4];
  st.shared.v4.b32 [%t4], {{%a0, %a1, %a2, %a3}}; add.u32 %t3, %t3, 128;
  setp.lt.u32 %p1, %t3, {(offset + len(right.bytes)) // 16}; @%p1 bra copy;
  ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%x2];""",
        "proxy fence": "fence.proxy.async;",
        "barrier": "bar.sync 0;",
        "fence": "wgmma.fence.sync.aligned;",
        "product": f"wgmma.mma_async.sync.aligned.{shape}.{total}.{left_type}.{right_type} "
        f"{sums}, {operand}, %x5, %p0{immediates};",
        "commit": "wgmma.commit_group.sync.aligned;",
        "late": late,
        "wait": "wgmma.wait_group.sync.aligned 0;",
    }
    text = "\n".join(
        f".loc 1 {STEPS.get(step, 20)} 0\n{code}"
        for step, code in steps.items()
        if step not in without
    )
    inits = "\n".join(f"mov.b32 %d{i}, {ONE[total]};" for i in range(count * scale))
    stores = "\n".join(f"st.global.b32 [%x6+{4 * i}], %d{i};" for i in range(count))
    return kernel(
        f"""mov.u32 %t2, tile; shr.u32 %t5, %t2, 4; cvt.u64.u32 %x5, %t5;
  add.u64 %x1, %x5, {left.descriptor if left is not None else 0};
  add.u64 %x5, %x5, {right.descriptor + offset // 16};
  mul.wide.u32 %x2, %t0, 16; add.u64 %x2, %x2, %g1;
  mul.wide.u32 %x6, %t0, {4 * count}; add.u64 %x6, %x6, %g2;
  setp.ne.u32 %p0, {scale}, 0;
  {inits}
  {text}
  .loc 1 30 0
  {stores}""",
        2,
        f".reg .b32 %d<{count}>; .reg .b32 %a<4>;",
    )


def multiply(rng, types, n, *, swizzle=0, left="shared", transposed=(False, False), **options):
    """Multiply random integers with wgmma. Return the sums, the exact ones, and the launch."""
    total, left_type, right_type = types
    bits = {"tf32": 4, "f16": 2, "bf16": 2}.get(left_type, 1)
    k = 32 // bits
    a, b = integers(rng, (64, k), left_type), integers(rng, (n, k), right_type)
    layout = {name: options.pop(name) for name in ("part", "start") if name in options}
    right = Image(encoded(b, right_type), swizzle, transposed=transposed[1], **layout)
    image = None
    if left == "shared":
        image = Image(encoded(a, left_type), swizzle, transposed=transposed[0])
    rows = encoded(a, left_type)
    fragments = np.concatenate([left_fragment(rows[i : i + 16]) for i in range(0, 64, 16)])
    content = right.bytes if image is None else np.concatenate([image.bytes, right.bytes])
    registers = np.zeros((128, n // 4 if total == "f16" else n // 2), "u4")
    change, threads = options.pop("change", None), options.pop("threads", 128)
    ptx = group_kernel(types, n, right, image, **options)
    if change is not None:
        ptx = ptx.replace(*change)
    result = launch(ptx, threads, [content, fragments], registers, len(content))
    sums = [sum_of_fragment(registers[i : i + 32], n, DTYPES[total]) for i in range(0, 128, 32)]
    signs = options.get("signs", (1, 1))
    return np.concatenate(sums), options.get("scale", 1) + signs[0] * signs[1] * (a @ b.T), result


def assert_product(found):
    sums, exact, result = found
    assert result["error"] is None, result["error"]["text"]
    np.testing.assert_array_equal(sums, exact)


@pytest.mark.parametrize("types", TYPES, ids="-".join)
@pytest.mark.parametrize("n", [8, 16, 64, 256])
@pytest.mark.parametrize("left", ["shared", "registers"])
def test_group_products(rng, types, n, left):
    swizzle = {8: 0, 16: 32, 64: 64, 256: 128}[n]
    assert_product(multiply(rng, types, n, swizzle=swizzle, left=left))


@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("transposed", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("n", [64, 192])
def test_layouts_of_group_products(rng, swizzle, transposed, n):
    """The four swizzles, each with neighbours along k or along the lines of both operands."""
    for types in TYPES[0], TYPES[2]:
        assert_product(multiply(rng, types, n, swizzle=swizzle, transposed=transposed))


@pytest.mark.parametrize(
    ("swizzle", "layout"),
    [(64, {"part": 1}), (128, {"part": 3}), (128, {"start": 384}), (64, {"start": 128, "part": 1})],
)
def test_a_part_of_a_swizzled_row(rng, swizzle, layout):
    assert_product(multiply(rng, TYPES[0], 64, swizzle=swizzle, left="registers", **layout))


@pytest.mark.parametrize("signs", list(itertools.product([1, -1], repeat=2)))
@pytest.mark.parametrize("scale", [0, 1])
def test_scales_of_group_products(rng, signs, scale):
    assert_product(multiply(rng, TYPES[0], 16, signs=signs, scale=scale))


def test_group_products_round_once(rng):
    """The sum of numbers that are not integers is the exact sum, rounded to float32."""
    a, b = rng.standard_normal((64, 16)).astype("f2"), rng.standard_normal((64, 16)).astype("f2")
    right = Image(b)
    fragments = np.concatenate([left_fragment(a[i : i + 16]) for i in range(0, 64, 16)])
    registers = np.zeros((128, 32), "u4")
    ptx = group_kernel(TYPES[0], 64, right)
    assert launch(ptx, 128, [right.bytes, fragments], registers, 8192)["error"] is None
    sums = [sum_of_fragment(registers[i : i + 32], 64, "f4") for i in range(0, 128, 32)]
    exact = a.astype("f8") @ b.T.astype("f8") + 1
    np.testing.assert_array_equal(np.concatenate(sums), exact.astype("f4"))


OVERWRITES = "bar.sync 0; st.shared.b32 [%t2], 0;"
MISTAKES = {
    # The mistake: options, the kind of the error, its line, and words of its message.
    "no wgmma.fence": ({"without": ["fence"]}, "missing fence", "product", "without a wgmma.fence"),
    "a write after wgmma.fence": (
        {
            "change": (
                "wgmma.fence.sync.aligned;",
                "wgmma.fence.sync.aligned; mov.b32 %d3, %t0; add.u32 %d3, %d3, 1;",
            )
        },
        "missing fence",
        "product",
        "written at k.cu:6",
    ),
    "a read before the wait": (
        {"late": "add.u32 %t6, %d1, 1;"},
        "missing wait",
        20,
        "at k.cu:7 is read",
    ),
    "a write before the wait": ({"late": "add.u32 %a1, %t0, 1;"}, "missing wait", 20, "is written"),
    "no wait": ({"without": ["wait"]}, "missing wait", 30, "at k.cu:7 is read"),
    "a wait for older products": (
        {"change": ("wait_group.sync.aligned 0", "wait_group.sync.aligned 1")},
        "missing wait",
        30,
        "is read",
    ),
    "no commit": ({"without": ["commit"]}, "missing wait", 30, "is read"),
    "no fence of the proxy": (
        {"without": ["proxy fence"]},
        "missing fence",
        "product",
        "written at k.cu:3",
    ),
    "no barrier": ({"without": ["barrier"]}, "uninitialised", "product", "nothing has written"),
    "a store after the barrier": (
        {"change": ("bar.sync 0;", "bar.sync 0; st.shared.b32 [%t2], 1; fence.proxy.async;")},
        "race",
        "barrier",
        "read at k.cu:7",
    ),
    "no first wgmma.fence": (
        {"without": ["fence"], "scale": 0, "left": "shared"},
        "missing fence",
        "product",
        "follow a wgmma.fence",
    ),
    "an operand is overwritten": (
        {"late": OVERWRITES},
        "race",
        "product",
        "overwritten at k.cu:20",
    ),
    "half a group": ({"threads": 64}, "missing thread", "product", "128 threads"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_with_group_products(rng, mistake):
    options, kind, line, words = MISTAKES[mistake]
    error = multiply(rng, TYPES[0], 64, **{"left": "registers", **options})[2]["error"]
    assert error is not None
    assert error["kind"] == kind, error["text"]
    assert (error["file"], error["line"]) == ("k.cu", STEPS.get(line, line))
    assert words in error["text"]


@pytest.mark.parametrize(
    "late",
    [
        "wgmma.wait_group.sync.aligned 0; add.u32 %t6, %d1, 1;",
        "setp.eq.u32 %p2, %t0, 999; @%p2 add.u32 %t6, %d1, 1;",
        "mov.b32 %t6, %d1;",
    ],
    ids=["after a wait", "never executed", "a copy"],
)
def test_uses_that_are_not_mistakes(rng, late):
    assert_product(multiply(rng, TYPES[0], 64, late=late))


def test_a_descriptor_beyond_shared_memory(rng):
    change = ("add.u64 %x5, %x5,", "add.u64 %x5, %x5, 512; add.u64 %x5, %x5,")
    error = multiply(rng, TYPES[0], 64, left="registers", change=change)[2]["error"]
    assert (error["kind"], error["line"]) == ("out of bounds", STEPS["product"])
    assert "shared memory" in error["text"]


def test_sparse_products_are_refused(rng):
    with pytest.raises(RuntimeError, match=r"k\.cu:7.*does not support"):
        multiply(rng, TYPES[0], 64, left="registers", change=("mma_async.", "mma_async.sp."))


def test_labels_of_nested_blocks():
    """Blocks may have labels of the same name, as CUTLASS has in its loops that wait."""
    block = """{ .reg .b32 %u; mov.u32 %u, 0;
  again: add.u32 %u, %u, 1; add.u32 %t1, %t1, 1; setp.lt.u32 %p1, %u, COUNT; @%p1 bra again; }"""
    blocks = "\n".join(block.replace("COUNT", count) for count in ("2", "3"))
    out = np.zeros(32, "u4")
    ptx = kernel(
        f"""mov.u32 %t1, 0; {blocks}
  mul.wide.u32 %x0, %t0, 4; add.u64 %x0, %x0, %g0; st.global.b32 [%x0], %t1;""",
        0,
    )
    assert launch(ptx, 32, [], out)["error"] is None
    assert (out == 5).all()


# --- A pipeline (data/emulator/pipeline.cu) ------------------------------------------------------


@pytest.fixture(scope="module")
def run_pipeline():
    if reason := compiler.why_no_compiler():
        pytest.skip(reason)
    source = (DATA / "pipeline.cu").read_text()

    def run(rng, *options):
        options = [f"-D{option}" for option in options]
        compiled = compiler.compile_cuda(
            source, "pipeline", arch="compute_90a", file="pipeline.cu", options=options
        )
        module = _core.EmulatedModule(compiled.code.decode())
        a, b = (on_device(rng.integers(-4, 5, (128, 512)).astype("f2")) for _ in range(2))
        out = device_array((128, 128), "f4")
        params = tensor_map(a, (64, 64), 128) + tensor_map(b, (64, 64), 128)
        params += struct.pack("<Qii", out.ctypes.data, 128, 512)
        arrays = [("a", a, True), ("b", b, True), ("out", out, False)]
        shape = (2, 2, 1), (160, 1, 1)
        return a, b, out, module.launch("pipeline", *shape, params, arrays, shared_bytes=6 * 8192)

    return run


@pytest.mark.parametrize("arrivals", [1, 4, 128])
def test_a_pipeline_of_bulk_copies_and_group_products(rng, run_pipeline, arrivals):
    """Copies need no fence. One thread may release a buffer for the warpgroup."""
    a, b, out, result = run_pipeline(rng, f"ARRIVALS={arrivals}")
    assert result["error"] is None, result["error"]["text"]
    np.testing.assert_array_equal(out, a.astype("f8") @ b.astype("f8").T)


def test_a_buffer_that_is_released_before_the_product_ends(rng, run_pipeline):
    error = run_pipeline(rng, "ARRIVALS=1", "EARLY")[3]["error"]
    assert (error["kind"], error["file"]) == ("race", "pipeline.cu"), error["text"]


# --- Kernels of Triton (data/emulator/triton_kernels.py) -----------------------------------------


def run_triton(name, compute, grid, shared_bytes, operands, scalars):
    """Launch a kernel of Triton with all checks. The last operand is the result."""
    module = _core.EmulatedModule(
        lzma.decompress((DATA / f"{name}_{compute}.ptx.xz").read_bytes()).decode()
    )
    arrays = [on_device(a) for a in operands]
    arguments = [*arrays, *scalars, np.uint64(0), np.uint64(0)]  # two scratch buffers
    options = {"outputs": arrays[-1:], "shared_bytes": shared_bytes}
    result = launch_kernel(module, name, grid, (128,), *arguments, **options)
    assert result["error"] is None, result["error"]["text"]
    return arrays[-1], result["counts"]


@pytest.mark.parametrize(("compute", "shared_bytes"), [(80, 16384), (90, 24576)])
def test_a_product_of_triton(rng, compute, shared_bytes):
    a, b = (rng.integers(-4, 5, shape).astype("f2") for shape in [(512, 256), (256, 512)])
    operands, scalars = [a, b, np.zeros((512, 512), "f2")], [np.int32(512), np.int32(256)]
    out, counts = run_triton("matmul", compute, (8, 8), shared_bytes, operands, scalars)
    np.testing.assert_array_equal(out, (a.astype("f8") @ b.astype("f8")).astype("f2"))
    if compute == 80:  # as an H100 counts
        assert counts["shared_loads"]["wavefronts"] == 73728


@pytest.mark.parametrize(("compute", "shared_bytes"), [(80, 40960), (90, 57344)])
def test_flash_attention_of_triton(rng, compute, shared_bytes):
    q, k, v = (rng.standard_normal((4, 512, 64)).astype("f2") for _ in range(3))
    operands, scalars = [q, k, v, np.zeros_like(q)], [np.int32(512), np.float32(0.125)]
    out, counts = run_triton("attention", compute, (8, 4), shared_bytes, operands, scalars)
    scores = np.einsum("hid,hjd->hij", q.astype("f8"), k.astype("f8")) * 0.125
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ v.astype("f8")
    # Weights and results are rounded to float16.
    np.testing.assert_allclose(out.astype("f8"), expected, rtol=2**-10, atol=2**-10)
    if compute == 80:  # as an H100 counts
        assert counts["shared_loads"]["wavefronts"] == 149504
