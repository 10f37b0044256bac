"""Triton kernels of test_matrices.py, and their PTX.

``python tests/data/emulator/triton_kernels.py`` compiles them with Triton 3.9, without a GPU. The
PTX is stored, so that these tests do not need Triton.
"""

import lzma
from pathlib import Path

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def matmul(a, b, out, n, k, ROWS: tl.constexpr, COLS: tl.constexpr, STEP: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.program_id(1) * COLS + tl.arange(0, COLS)
    inner = tl.arange(0, STEP)
    a += rows[:, None] * k + inner[None, :]
    b += inner[:, None] * n + cols[None, :]
    total = tl.zeros((ROWS, COLS), tl.float32)
    for _ in range(0, k, STEP):
        total = tl.dot(tl.load(a), tl.load(b), total)
        a += STEP
        b += STEP * n
    tl.store(out + rows[:, None] * n + cols[None, :], total.to(tl.float16))


@triton.jit
def attention(q, k, v, out, n, scale, ROWS: tl.constexpr, COLS: tl.constexpr, WIDTH: tl.constexpr):
    head = tl.program_id(1) * n * WIDTH
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, COLS)
    features = tl.arange(0, WIDTH)
    at = head + rows[:, None] * WIDTH + features[None, :]
    queries = tl.load(q + at)
    highest = tl.full((ROWS,), float("-inf"), tl.float32)
    weight = tl.zeros((ROWS,), tl.float32)
    total = tl.zeros((ROWS, WIDTH), tl.float32)
    for first in range(0, n, COLS):
        keys = tl.load(k + head + (first + cols)[None, :] * WIDTH + features[:, None])
        scores = tl.dot(queries, keys) * (scale * 1.44269504)
        higher = tl.maximum(highest, tl.max(scores, 1))
        p = tl.exp2(scores - higher[:, None])
        old = tl.exp2(highest - higher)
        weight = weight * old + tl.sum(p, 1)
        values = tl.load(v + head + (first + cols)[:, None] * WIDTH + features[None, :])
        total = tl.dot(p.to(tl.float16), values, total * old[:, None])
        highest = higher
    tl.store(out + at, (total / weight[:, None]).to(tl.float16))


KERNELS = {
    "matmul": (matmul, ["*fp16"] * 3 + ["i32"] * 2, {"ROWS": 64, "COLS": 64, "STEP": 32}),
    "attention": (
        attention,
        ["*fp16"] * 4 + ["i32", "fp32"],
        {"ROWS": 64, "COLS": 64, "WIDTH": 64},
    ),
}

if __name__ == "__main__":
    for (name, (function, types, constants)), compute in (
        (k, c) for k in KERNELS.items() for c in (80, 90)
    ):
        signature = dict(
            zip(function.arg_names, types + ["constexpr"] * len(constants), strict=True)
        )
        divisible = {(i,): [["tt.divisibility", 16]] for i, t in enumerate(types) if t != "fp32"}
        source = ASTSource(function, signature, constexprs=constants, attrs=divisible)
        options = {"num_warps": 4, "num_stages": 3}
        target = GPUTarget("cuda", compute, 32)
        compiled = triton.compile(source, target=target, options=options)
        ptx = compiled.asm["ptx"].partition("\t.section")[0]
        ptx = ptx.replace(str(Path(__file__).resolve().parent) + "/", "")
        file = Path(__file__).with_name(f"{name}_{compute}.ptx.xz")
        file.write_bytes(lzma.compress(ptx.encode(), preset=9))
        print(file.name, compiled.metadata.shared)
