# A matrix product with tl.dot
#
# Each program computes a tile of 16 x 16 elements of a b. The lengths are multiples of 16. tl.dot
# multiplies two tiles and uses tensor cores on a GPU.
#
# hint: The loop steps through the inner length, 16 elements per iteration.
# hint: The tile of a moves along its columns, the tile of b along its rows.
# hint: left = a[row, k + inner] and right = b[k + inner, col] as tiles; total = tl.dot(left, right,
#   total, input_precision="ieee").
# signature: (m,k),(k,n)->(m,n)
# reference: lambda a, b: a @ b
# problems: [(rng.integers(0, 9, (m, k)).astype("f4"), rng.integers(0, 9, (k, n)).astype("f4")) for
#   m, k, n in ((32, 48, 32), (16, 16, 16))]
# done: load_sectors <= 16
import triton
import triton.language as tl


@triton.jit
def product(a, b, out, n, inner):
    row = tl.program_id(0) * 16 + tl.arange(0, 16)[:, None]
    col = tl.program_id(1) * 16 + tl.arange(0, 16)[None, :]
    total = tl.zeros((16, 16), tl.float32)
    # --- your code
    # --- solution
    for k in range(0, inner, 16):
        left = tl.load(a + row * inner + k + tl.arange(0, 16)[None, :])
        right = tl.load(b + (k + tl.arange(0, 16)[:, None]) * n + col)
        total = tl.dot(left, right, total, input_precision="ieee")
    # --- end
    tl.store(out + row * n + col, total)


def run(a, b, out):
    (m, inner), n = a.shape, b.shape[1]
    product[(m // 16, n // 16)](a, b, out, n, inner, num_warps=1)
