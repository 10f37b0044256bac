"""Fourier transforms: Govindaraju et al. (2008) and Volkov and Kazian (2008), both for GPUs.

"High Performance Discrete Fourier Transforms on Graphics Processors", and "Fitting FFT onto the G80
Architecture".
"""

from pathlib import Path

import numpy as np

import adokernels as ado

SOURCE = Path(__file__).with_suffix(".cu").read_text(encoding="utf-8")


def reference(x):
    """The transform of each row; the last axis has the real and the imaginary part."""
    found = np.fft.fft(x[..., 0] + 1j * x[..., 1].astype(np.float64))
    return np.stack((found.real, found.imag), axis=-1)


def rows_of(rng, rows):
    """Random rows of complex numbers."""
    return (rng.standard_normal((rows, 512, 2), dtype=np.float32),)


def operands(rng, small=False):
    """The operands of a problem."""
    return rows_of(rng, 3 if small else 32768)


ladder = ado.ladder(
    "fft",
    reference=reference,
    dtype="float32",
    flops=lambda x: 5 * 512 * 9 * x.shape[0],
    tolerance=1e-5,
    signature="(rows,points,2)->(rows,points,2)",
    problems=lambda rng: [rows_of(rng, rows) for rows in (1, 7, 50)],
)
_common = {"source": SOURCE, "file": "fft.cu", "grid": lambda x: x.shape[0]}
ladder.cuda_variant(
    "global_memory", kernel="fft_global", block=256, **_common,
    changes="One block per row, with nine stages of radix 2 in global memory.",
)  # fmt: skip
ladder.cuda_variant(
    "shared", kernel="fft_shared", block=256, **_common,
    changes="Keeps the row in shared memory, and applies the bit reversal there instead of in "
    "loads.",
    steps=["coalesce accesses", "reuse in registers or shared memory"],
)  # fmt: skip
ladder.cuda_variant(
    "stockham", kernel="fft_stockham", block=256, **_common,
    changes="The Stockham algorithm, without the bank conflicts of the bit reversal.",
    steps=["avoid bank conflicts", "fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "intrinsics", kernel="fft_intrinsics", block=256, **_common,
    changes="Computes the twiddle factors by the fast intrinsic functions for sine and cosine.",
    steps=["fewer or cheaper operations"],
)  # fmt: skip
ladder.cuda_variant(
    "radix_8", kernel="fft_radix_8", block=64, **_common,
    changes="Eight points per thread in registers: three stages of radix 8 with two exchanges.",
    steps=[
        "fewer barriers", "fewer or cheaper operations", "more loads in flight",
        "reuse in registers or shared memory",
    ],
)  # fmt: skip
ladder.cuda_variant(
    "padded", kernel="fft_padded", block=64, **_common,
    changes="Pads shared memory, so that strided stores are free of bank conflicts.",
    steps=["avoid bank conflicts"],
)  # fmt: skip
