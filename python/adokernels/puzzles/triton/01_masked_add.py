# Add two vectors
#
# A Triton program processes BLOCK elements at once: out = a + b. The length is not a multiple of
# BLOCK, and the kernel must not access memory beyond the arrays.
#
# hint: The elements of a program begin at tl.program_id(0) * BLOCK. tl.arange(0, BLOCK) counts
#   them.
# hint: tl.load(a + at, mask=at < n) loads only the elements for which the mask is true.
# hint: The store needs the same mask.
# signature: (n),(n)->(n)
# reference: lambda a, b: a + b
# problems: [tuple(rng.random((2, n), "f4")) for n in (1000, 3)]
# done: load_sectors <= 4, store_sectors <= 4
import triton
import triton.language as tl


@triton.jit
def add(a, b, out, n, BLOCK: tl.constexpr):
    # --- your code
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(a + at) + tl.load(b + at))
    # --- solution
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(out + at, tl.load(a + at, mask=mask) + tl.load(b + at, mask=mask), mask=mask)
    # --- end


def run(a, b, out):
    add[(triton.cdiv(len(a), 128),)](a, b, out, len(a), BLOCK=128, num_warps=4)
