"""The image filters on the CPU, at shapes and addresses that are edge cases of their kernels.

Kernels process vectors of 16, 32 or 64 pixels, bands of up to 1024 columns, blocks of 16 rows, and
one share of the rows per thread. They load vectors that overlap, but never read outside an operand.
"""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
from conftest import check, isa_levels, random_of
from test_image_filters import EXPECTED, every_gradient

import adokernels as ado
from adokernels.model import tasks
from adokernels.model.routine import batch_option

BORDERS = ("constant", "replicate", "reflect101")
#: Widths near multiples of every vector width, and near the limits of bands.
WIDTHS = [*range(1, 42), *range(61, 73), 95, 97, 125, 127, 128, 129, 131, 135, 191, 193]
WIDE = [1022, 1023, 1024, 1025, 1026, 1087, 1089, 2047, 2049, 2050, 3071, 3073]
HEIGHTS = [1, 2, 3, 4, 5, 6, 7, 12, 13, 15, 16, 17, 19, 22, 29, 33]


each_filter = pytest.mark.parametrize(
    ("name", "channels"),
    [
        *(("grayscale", 3), ("grayscale", 4), ("gaussian_blur", 0), ("sobel", 0)),
        *(("edge_detect", 3), ("edge_detect", 4)),
    ],
)
each_isa = pytest.mark.parametrize("isa", isa_levels())


def image_of(rng, shape, channels):
    return random_of(rng, (*shape, channels) if channels else shape, np.uint8)


def compare(name, image, **options):
    routine, expected = ado.routines[name], EXPECTED[name](image)
    options |= batch_option(routine, image)
    check(routine, (image,), expected, device="cpu", **options)


@each_isa
@each_filter
def test_every_width_and_height(isa, name, channels, rng, isa_restored):
    ado.settings.isa = isa
    shapes = [(int(rng.choice(HEIGHTS)), width) for width in WIDTHS + WIDE]
    shapes += [(height, int(rng.choice(WIDTHS))) for height in HEIGHTS]
    for shape in [
        *shapes,
        *[(1, 1), (1, 5000), (5000, 1), (4000, 3), (700, 11), (3, 40, 9), (2, 2, 17, 66)],
    ]:
        compare(name, image_of(rng, shape, channels))


@each_isa
def test_borders_at_every_width(isa, rng, isa_restored):
    ado.settings.isa = isa
    for border in BORDERS:
        for width in WIDTHS + WIDE[:4]:
            image = image_of(rng, (int(rng.choice(HEIGHTS)), width), 0)
            expected = tasks.TASKS["gaussian_blur"].expected(image, border=border)
            check(ado.gaussian_blur, (image,), expected, device="cpu", border=border)


@each_isa
@pytest.mark.parametrize("name", ["grayscale", "edge_detect"])
def test_channel_layouts(isa, name, rng, isa_restored):
    """Reversed channels, one plane per channel, and three of four channels."""
    ado.settings.isa = isa
    for width in (5, 40, 64, 70, 131, 200):
        rgba = image_of(rng, (18, width), 4)
        for image in (
            rgba[..., :3],
            rgba[..., 2::-1],
            rgba[..., 1:],
            image_of(rng, (18, width), 3)[..., ::-1],
            np.moveaxis(image_of(rng, (3, 18), width), 0, -1),
            np.asfortranarray(rgba),
        ):
            compare(name, image)


@each_isa
@each_filter
def test_non_temporal_stores(isa, name, channels, rng, isa_restored):
    """Rows of any alignment. The default variant uses these stores only for large images."""
    ado.settings.isa = isa
    variant = {"edge_detect": "fused_bands"}.get(name, "streaming")
    for width in (1, 31, 64, 65, 127, 193, 1025):
        compare(name, image_of(rng, (9, width), channels), variant=variant)
    image = image_of(rng, (2500, 2531), channels)  # beyond 12 MiB of input and output
    compare(name, image)


@each_isa
def test_every_gradient_at_even_and_odd_columns(isa, isa_restored):
    """Even and odd columns compute square roots differently."""
    ado.settings.isa = isa
    image, _ = every_gradient()
    for shifted in (image, np.ascontiguousarray(image[:, 1:])):
        check(ado.sobel, (shifted,), tasks.TASKS["sobel"].expected(shifted), device="cpu")


@each_isa
def test_reads_stay_within_the_operands(isa):
    """Operands begin or end at an inaccessible page. Reading it would crash the subprocess."""
    script = """
        import ctypes, mmap, sys
        import numpy as np
        import adokernels as ado

        page, size = mmap.PAGESIZE, 64 * mmap.PAGESIZE
        memory = mmap.mmap(-1, size)
        address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        libc = ctypes.CDLL(None, use_errno=True)
        for guard in (address, address + size - page):
            assert libc.mprotect(ctypes.c_void_p(guard), page, 0) == 0
        bytes_between = np.frombuffer(memory, np.uint8)[page:-page]
        ado.settings.isa = sys.argv[1]
        for rows in (1, 2, 18):
            for cols in (1, 2, 5, 15, 16, 17, 31, *range(32, 39), *range(63, 72), 128, 195, 1025):
                for channels in (0, 3, 4):
                    shape = (rows, cols, channels) if channels else (rows, cols)
                    count = rows * cols * max(channels, 1)
                    for part in (bytes_between[:count], bytes_between[-count:]):
                        image = part.reshape(shape)
                        if channels:
                            ado.grayscale(image, device="cpu")
                            ado.edge_detect(image, device="cpu")
                        else:
                            ado.sobel(image, device="cpu")
                            for border in ("constant", "replicate", "reflect101"):
                                ado.gaussian_blur(image, border=border, device="cpu")
        """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script), isa], check=True)
