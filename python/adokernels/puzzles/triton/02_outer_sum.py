# Rows, columns and broadcasts
#
# out[i, j] = a[i] + b[j], for 32 x 32 elements per program. A column vector and a row vector make a
# tile, as in NumPy.
#
# hint: x[:, None] is a column and x[None, :] a row. Their sum is a tile.
# hint: The element (i, j) is at i * cols + j. Make a tile of such offsets.
# hint: A tile of masks: (i < rows)[:, None] & (j < cols)[None, :].
# signature: (r),(c)->(r,c)
# reference: lambda a, b: a[:, None] + b
# problems: [(rng.random(r, "f4"), rng.random(c, "f4")) for r, c in ((64, 96), (33, 70))]
# done: store_sectors <= 16
import triton
import triton.language as tl


@triton.jit
def outer_sum(a, b, out, rows, cols, TILE: tl.constexpr):
    i = tl.program_id(0) * TILE + tl.arange(0, TILE)
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    left = tl.load(a + i, mask=i < rows)
    right = tl.load(b + j, mask=j < cols)
    # --- your code
    tl.store(out + i * cols + j, left + right, mask=i < rows)
    # --- solution
    mask = (i < rows)[:, None] & (j < cols)[None, :]
    tl.store(out + i[:, None] * cols + j[None, :], left[:, None] + right[None, :], mask=mask)
    # --- end


def run(a, b, out):
    grid = triton.cdiv(len(a), 32), triton.cdiv(len(b), 32)
    outer_sum[grid](a, b, out, len(a), len(b), TILE=32, num_warps=4)
