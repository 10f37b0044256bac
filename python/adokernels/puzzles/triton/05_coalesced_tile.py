# The order of a tile
#
# Each program copies a tile of 4 x 128 elements of a row-major matrix. The starter takes its tile
# as 128 x 4 elements: neighbouring lanes are then in different rows. Choose the shape of the tile,
# so that a warp copies neighbouring elements.
#
# hint: Which of the two lengths should belong to the columns?
# hint: With one row of 128 elements, each warp loads 32 neighbours.
# hint: rows = program_id(0) * 4 + arange(0, 4), cols = program_id(1) * 128 + arange(0, 128)
# signature: (r,c)->(r,c)
# reference: lambda a: a.copy()
# problems: [(rng.random(shape, "f4"),) for shape in ((128, 256), (130, 40))]
# done: loads <= 256, load_sectors <= 16, store_sectors <= 16
import triton
import triton.language as tl


@triton.jit
def copy(a, out, rows, cols):
    # --- your code
    row = tl.program_id(0) * 128 + tl.arange(0, 128)
    col = tl.program_id(1) * 4 + tl.arange(0, 4)
    # --- solution
    row = tl.program_id(0) * 4 + tl.arange(0, 4)
    col = tl.program_id(1) * 128 + tl.arange(0, 128)
    # --- end
    at = row[:, None] * cols + col[None, :]
    mask = (row < rows)[:, None] & (col < cols)[None, :]
    tl.store(out + at, tl.load(a + at, mask=mask), mask=mask)


def run(a, out):
    rows, cols = a.shape
    longest = max(triton.cdiv(rows, 4), triton.cdiv(cols, 4))
    copy[(longest, longest)](a, out, rows, cols, num_warps=4)
