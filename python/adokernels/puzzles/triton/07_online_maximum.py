# One pass instead of two
#
# out[row] = log(sum(exp(x))). The maximum must be subtracted, and it is known only at the end of
# the row. With a sum that is corrected whenever the maximum grows, each element is loaded once.
#
# hint: Keep the largest value so far and the sum of exp(x - largest) of all elements so far.
# hint: If the maximum grows from `largest` to `new`, the old sum shrinks by exp(largest - new).
# hint: total = total * tl.exp(largest - new) + tl.sum(tl.exp(value - new)); largest = new
# signature: (r,c)->(r)
# reference: lambda x: x.max(1) + np.log(np.exp(x - x.max(1, keepdims=True)).sum(1))
# problems: [(rng.normal(0, 60, shape).astype("f4"),) for shape in ((4, 304), (2, 3))]
# tolerance: 1e-5
# done: loads <= 12
import triton
import triton.language as tl


@triton.jit
def log_sum(x, out, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    largest, total = -1e30, 0.0
    for start in range(0, cols, BLOCK):
        col = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * cols + col, mask=col < cols, other=-float("inf"))
        # --- your code
        total += tl.sum(tl.exp(value))
        largest = 0.0
        # --- solution
        new = tl.maximum(largest, tl.max(value))
        total = total * tl.exp(largest - new) + tl.sum(tl.exp(value - new))
        largest = new
        # --- end
    tl.store(out + row, largest + tl.log(total))


def run(x, out):
    log_sum[(len(x),)](x, out, x.shape[1], BLOCK=128, num_warps=1)
