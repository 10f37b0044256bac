# One atomic per program
#
# out[0] is the sum of all elements, computed by many programs. `out` has the value `start` before.
# The starter updates it once per element. Update it once per program.
#
# hint: Add the elements of the block first.
# hint: tl.sum returns one number, and tl.atomic_add also accepts one address and one number.
# hint: tl.atomic_add(out, tl.sum(value))
# signature: (n)->(1)
# reference: lambda a: np.array([a.sum()], "i4")
# problems: [(rng.integers(0, 99, n, "i4"),) for n in (1000, 3)]
# done: updates <= 8
import triton
import triton.language as tl


@triton.jit
def total(a, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(a + at, mask=at < n, other=0)
    # --- your code
    tl.atomic_add(out + at * 0, value, mask=at < n)
    # --- solution
    tl.atomic_add(out, tl.sum(value))
    # --- end


def run(a, out):
    out[:] = 0
    total[(triton.cdiv(len(a), 128),)](a, out, len(a), BLOCK=128, num_warps=4)
