# Sums of long rows
#
# One program adds a row that is longer than a block: it loads BLOCK elements per iteration.
#
# hint: Keep BLOCK partial sums, and add a block of elements in each iteration.
# hint: Elements beyond the row must count as 0: tl.load(..., mask=mask, other=0).
# hint: After the loop, tl.sum(total) adds the partial sums.
# signature: (r,c)->(r)
# reference: lambda a: a.sum(1, dtype="i4")
# problems: [(rng.integers(0, 99, shape, "i4"),) for shape in ((4, 504), (2, 3))]
# done: loads <= 64, load_sectors <= 4
import triton
import triton.language as tl


@triton.jit
def row_sums(a, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.int32)
    # --- your code
    # --- solution
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        total += tl.load(a + row * cols + col, mask=col < cols, other=0)
    # --- end
    tl.store(out + row, tl.sum(total))


def run(a, out):
    row_sums[(len(a),)](a, out, a.shape[1], BLOCK=128, num_warps=4)
