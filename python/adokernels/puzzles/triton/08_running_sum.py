# A running sum with a carry
#
# out[row, col] is the sum of the elements of the row up to and including col. A block is scanned at
# once. The sum of all previous blocks must be added.
#
# hint: tl.cumsum(value) scans the block.
# hint: Keep the sum of the previous blocks in a variable, the carry.
# hint: Add the carry to the scan, and then tl.sum(value) to the carry.
# signature: (r,c)->(r,c)
# reference: lambda a: a.cumsum(1, dtype="i4")
# problems: [(rng.integers(0, 99, shape, "i4"),) for shape in ((2, 304), (2, 3))]
# done: load_sectors <= 4
import triton
import triton.language as tl


@triton.jit
def running_sum(a, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    carry = 0
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        value = tl.load(a + row * cols + col, mask=col < cols, other=0)
        # --- your code
        found = tl.cumsum(value)
        # --- solution
        found = carry + tl.cumsum(value)
        carry += tl.sum(value)
        # --- end
        tl.store(out + row * cols + col, found, mask=col < cols)


def run(a, out):
    running_sum[(len(a),)](a, out, a.shape[1], BLOCK=128, num_warps=4)
