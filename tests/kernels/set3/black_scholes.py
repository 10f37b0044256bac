"""Option prices: CUDA sample BlackScholes (Podlozhnyuk 2007); CUDA C++ Best Practices Guide."""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")
RATE, VOLATILITY = 0.02, 0.3


def normal(d):
    """The cumulative normal distribution, by the polynomial of Abramowitz and Stegun."""
    k = 1 / (1 + 0.2316419 * np.abs(d))
    tail = np.zeros_like(d)
    for factor in (1.330274429, -1.821255978, 1.781477937, -0.356563782, 0.31938153):
        tail = k * (factor + tail)
    tail *= np.exp(-0.5 * d * d) / np.sqrt(2 * np.pi)
    return np.where(d > 0, 1 - tail, tail)


def reference(stock, strike, years):
    """The prices of the calls and of the puts."""
    s, x, t = (a.astype(np.float64) for a in (stock, strike, years))
    deviation = VOLATILITY * np.sqrt(t)
    d = (np.log(s / x) + (RATE + VOLATILITY**2 / 2) * t) / deviation
    first, second, discounted = normal(d), normal(d - deviation), x * np.exp(-RATE * t)
    call = s * first - discounted * second
    return call, call + discounted - s


def options(rng, count):
    """Random stock prices, strike prices, and years to expiry."""
    ranges = ((5, 30), (1, 100), (0.25, 10))
    return tuple(rng.uniform(*each, count).astype(np.float32) for each in ranges)


def operands(rng, small=False):
    """The operands of a problem."""
    return options(rng, 3001 if small else 1 << 24)


def blocks(each):
    """The grid for blocks of 128 threads, with `each` options per thread."""
    return lambda stock, strike, years: -(-stock.shape[0] // (128 * each))


ladder = ado.ladder(
    "black_scholes",
    reference=reference,
    dtype="float32",
    flops=lambda stock, strike, years: 60 * stock.size,
    tolerance=1e-5,
    signature="(n),(n),(n)->(n),(n)",
    problems=lambda rng: [options(rng, n) for n in (1, 2, 127, 4096, 10001)],
)
_common = {"source": SOURCE, "file": "black_scholes.cu", "block": 128}
_grid_stride = _common | {"grid": blocks(64)}
ladder.cuda_variant(
    "chunks", kernel="black_scholes_chunks", **_grid_stride,
    changes="Each thread prices 64 consecutive options in double precision, as on a CPU.",
)  # fmt: skip
ladder.cuda_variant(
    "interleaved", kernel="black_scholes_interleaved", **_grid_stride,
    changes="A grid-stride loop, in which neighbouring threads price neighbouring options.",
    steps=["coalesce accesses"],
)  # fmt: skip
ladder.cuda_variant(
    "parity", kernel="black_scholes_parity", **_grid_stride,
    changes="Derives the put from the terms of the call, and evaluates half as many distributions.",
    steps=["fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "single", kernel="black_scholes_single", **_grid_stride,
    changes="Computes in single precision.",
    steps=["fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "intrinsics", kernel="black_scholes_intrinsics", **_grid_stride,
    changes="Fast intrinsic functions for logarithm, exponential, division and square root.",
    steps=["fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "pairs", kernel="black_scholes_pairs", grid=blocks(2), **_common,
    changes="One vector of two options per thread instead of the loop.",
    steps=["more loads in flight", "more work in parallel", "wider accesses"],
)  # fmt: skip
