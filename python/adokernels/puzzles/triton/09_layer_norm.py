# Normalise rows
#
# Each row becomes (x - mean) / sqrt(variance + 1e-5). Lanes beyond the row must not count.
#
# hint: The mean is tl.sum(value) / cols, if the lanes beyond the row contain 0.
# hint: value - mean is not 0 beyond the row. Which lanes may enter the variance?
# hint: away = tl.where(mask, value - mean, 0.0), and the variance is tl.sum(away * away) / cols.
# signature: (r,c)->(r,c)
# reference: lambda x: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) +
#   np.float32(1e-5))
# problems: [(rng.normal(5, 2, shape).astype("f4"),) for shape in ((4, 100), (2, 2))] +
#   [(np.ones((2, 64), "f4"),)]
# tolerance: 1e-4
# done: loads <= 16
import triton
import triton.language as tl


@triton.jit
def normalise(x, out, cols, BLOCK: tl.constexpr):
    at = tl.program_id(0) * cols + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < cols
    value = tl.load(x + at, mask=mask, other=0.0)
    # --- your code
    found = value
    # --- solution
    away = tl.where(mask, value - tl.sum(value) / cols, 0.0)
    found = away / tl.sqrt(tl.sum(away * away) / cols + 1e-5)
    # --- end
    tl.store(out + at, found, mask=mask)


def run(x, out):
    normalise[(len(x),)](x, out, x.shape[1], BLOCK=128, num_warps=4, enable_fp_fusion=False)
