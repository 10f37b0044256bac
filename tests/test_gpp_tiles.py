"""The last CUDA variants of gpp: their choice, and operands at the limits of their arithmetic."""

import functools

import numpy as np
import pytest
from choices import H200
from conftest import run_seed
from test_gpp import case_of, check

import adokernels as ado
from adokernels import _core
from adokernels.model.ladder import choose

SEED = run_seed()
NAMES = ["single_launch", "tiled", "two_rows", "moments"]
BANDED = ("aqsn", "aqsm", "wx", "occ")  # operands whose rows are bands


def choice(bands, rows, columns, frequencies, gpu=H200):
    def numbers(*shape):
        return np.zeros(shape, np.complex128)

    pairs = numbers(rows, columns), numbers(rows, columns)
    matrices = numbers(bands, columns), numbers(bands, rows)
    others = np.zeros((bands, frequencies)), np.zeros(rows), np.zeros(bands)
    operands = (*pairs, *matrices, *others)
    return choose(ado.gpp, operands, {}, "cuda", gpu=gpu).variant


@pytest.mark.parametrize(
    ("shape", "name"),
    [
        *[((8, 8, 64, 1), "single_launch"), ((96, 64, 512, 2), "single_launch")],
        ((0, 3, 4, 2), "single_launch"),
        # More terms.
        *[((200, 64, 1024, 2), "single_launch"), ((200, 256, 2048, 2), "moments")],
        # More bands of the same (igp, ig).
        *[((8, 512, 4096, 2), "single_launch"), ((64, 512, 4096, 2), "two_rows")],
        *[((400, 512, 4096, 2), "moments"), ((64, 512, 4096, 1), "two_rows")],
        ((400, 512, 4096, 1), "moments"),
        # Thin matrices do not fill the tiles of the sorted variants.
        *[((2000, 1, 12000, 2), "single_launch"), ((2000, 2000, 3, 2), "single_launch")],
        ((800, 1385, 11075, 2), "moments"),
    ],
)
def test_choice(shape, name):
    assert choice(*shape) == name


def test_choice_of_sorting_is_monotonic():
    """With more bands, the choice never returns to a variant for fewer bands."""
    ranks = [NAMES.index(choice(bands, 512, 4096, 2)) for bands in range(4, 400, 12)]
    assert ranks == sorted(ranks)
    assert {ranks[0], ranks[-1]} == {NAMES.index("single_launch"), NAMES.index("moments")}


def test_choice_of_sorting_follows_the_hardware():
    """With fewer multiprocessors, arithmetic takes longer, and sorting saves arithmetic."""

    def fewest_sorted(count):
        gpu = _core.Hardware(multiprocessors=count)
        bands = range(4, 400, 4)
        return next(n for n in bands if choice(n, 512, 4096, 2, gpu=gpu) != "single_launch")

    fewest = [fewest_sorted(count) for count in (40, 108, 132, 148, 188)]
    assert fewest == sorted(fewest)
    assert fewest[0] < fewest[2] < fewest[-1]
    for compute in (80, 89, 90, 100):
        gpu = _core.Hardware(compute=compute)
        assert choice(800, 1385, 11075, 2, gpu=gpu) == "moments"


@functools.cache
def cases():
    """Operands on both sides of the conditions of engine/moments.cuh, for 1 to 3 frequencies."""
    rng = np.random.default_rng(SEED)
    found = []
    for frequencies in (1, 2, 3):
        problem = ado.gpp_operands((90, 9, 70, frequencies), SEED)
        wx, occ = problem.wx, problem.occ
        steps = np.arange(frequencies)
        far = problem._replace(wx=wx + np.where(occ > 0, 20, -20)[:, None])
        found += [
            far,
            # A negative real part of w: -w is close to an energy, and w is not.
            far._replace(wtilde=-problem.wtilde),
            far._replace(wtilde=problem.wtilde * rng.choice([-1, 1], problem.wtilde.shape)),
            # Poles at 0, at real and at imaginary frequencies.
            far._replace(wtilde=np.where(rng.random(problem.wtilde.shape) < 0.1, 0, far.wtilde)),
            # Many poles per warp that need the formulas; see needs_care in terms.cuh.
            problem._replace(
                wtilde=np.where(rng.random(problem.wtilde.shape) < 0.5, 1e-9, problem.wtilde)
            ),
            far._replace(wtilde=far.wtilde.real + 0j),
            far._replace(wtilde=1j * far.wtilde.imag),
            # Frequencies at unequal distances, at a large distance, in descending order, and equal.
            far._replace(wx=far.wx + rng.uniform(0, 1e-6, far.wx.shape)),
            far._replace(wx=far.wx[:, :1] + 7 * steps),
            far._replace(wx=far.wx[:, :1] - 0.5 * steps),
            far._replace(wx=far.wx[:, :1] + 0 * steps),
            # Energies just above and below the lowest energy of moments, and equal energies.
            problem._replace(wx=np.linspace(5, 7, 90)[:, None] + 0 * steps, occ=np.ones(90)),
            problem._replace(wx=np.linspace(-2, 1, 90)[:, None] + 0 * steps, occ=np.zeros(90)),
            problem._replace(wx=np.full_like(wx, 8), occ=np.ones(90)),
            # Empty bands above the poles.
            far._replace(wx=np.abs(far.wx), occ=np.zeros(90)),
            # Energies and poles at other scales.
            far._replace(wx=far.wx * 1e3),
            far._replace(wx=far.wx * 1e-3, wtilde=far.wtilde * 1e-3),
        ]
    return [case_of(problem) for problem in found]


@pytest.mark.gpu
@pytest.mark.parametrize("variant", NAMES)
def test_limits_of_the_arithmetic(variant):
    for case in cases():
        check(case, variant)


@pytest.mark.cuda
def test_the_order_of_bands_does_not_change_the_arithmetic():
    """The FLOPs are equal, whether or not band 0 has equal energies at both frequencies."""
    problem = ado.gpp_operands((64, 2, 32, 2), 1, near=False)
    equal = np.flatnonzero((problem.occ == 0) & (problem.wx[:, 0] < -1))[0]
    problem.wx[equal] = problem.wx[equal, 0]
    flops = []
    for first in (equal, (equal + 1) % 64):
        moved = {name: np.roll(getattr(problem, name), -first, 0) for name in BANDED}
        operands = problem._replace(**moved)
        flops.append(ado.profile(ado.gpp["moments"], *operands, device="emulator")["flops_fp64"])
    assert flops[0] == flops[1]


@pytest.mark.gpu
@pytest.mark.parametrize("variant", NAMES)
def test_more_bands_than_a_segment(variant):
    """Segments of 2048 bands begin and end within bands of one kind."""
    for share in (0, 0.5, 1):
        problem = ado.gpp_operands((4500, 2, 33, 2), SEED)
        occupied = np.random.default_rng(SEED).random(4500) < share
        wx = np.where(occupied, 9, -9)[:, None] + problem.wx
        check(case_of(problem._replace(occ=occupied.astype(float), wx=wx)), variant)
