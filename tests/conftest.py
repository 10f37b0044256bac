"""What every test shares: which rungs there are to test, and random data of any type."""

from __future__ import annotations

import re

import numpy as np
import pytest

import adokernels as ado
from adokernels import _core, oracles

NO_CUDA = _core.why_no_cuda()


def pytest_collection_modifyitems(items):
    if NO_CUDA:
        for item in items:
            if "gpu" in item.keywords:
                item.add_marker(pytest.mark.skip(reason=NO_CUDA))


def rungs(routine: ado.Routine, *, ceilings: bool = False):
    """Every rung of every ladder as a pytest parameter; CUDA rungs are marked."""
    return [
        pytest.param(v.name, marks=[pytest.mark.gpu] if v.device == "cuda" else [], id=v.name)
        for v in routine.variants
        if ceilings or not v.ceiling
    ]


def isa_levels():
    """The instruction sets that this processor can run, lowest first."""
    levels = ["baseline", "avx2", "avx512"]
    return levels[: levels.index(_core.supported_isa()) + 1]


@pytest.fixture
def isa_restored():
    before = _core.isa()
    yield
    ado.set_isa(before)


@pytest.fixture
def device_restored():
    before = _core.device()
    yield
    ado.set_device(before)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Ceilings measured by one test serve the others, but nothing of the user's is touched."""
    folder = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("ADOKERNELS_CACHE", str(folder))


@pytest.fixture
def rng(request):
    """Fresh data in every run; the seed is shown where a test fails."""
    seed = int(np.random.SeedSequence().entropy) % 2**32
    request.node.user_properties.append(("seed", seed))
    print(f"seed {seed}")
    return np.random.default_rng(seed)


def random_of(rng, shape, dtype):
    """Random bytes: every bit pattern of the type, NaN payloads included."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    return rng.integers(0, 256, size, np.uint8).view(dtype).reshape(shape)


POISON = 0xA5


def refusal(routine, variant, operands, **options):
    """Why the variant cannot do it; empty if it can, as the default always does."""
    if variant is None:
        return ""
    problem = routine._core.problem(operands, options, routine[variant].device)
    return problem.why_refused(variant)


def check(routine, operands, expected, variant=None, block=None, **options):
    """Call into poisoned memory with guards around it; compare every byte.

    False if the variant refuses the problem, which must then be an error with that reason.
    """
    how = {"variant": variant, "block": block, **options}
    if reason := refusal(routine, variant, operands, **options):
        with pytest.raises(ValueError, match=re.escape(reason)):
            routine(*operands, **how)
        return False
    guard = 64
    whole = np.full(guard * 2 + expected.nbytes, POISON, np.uint8)
    out = whole[guard : guard + expected.nbytes].view(expected.dtype).reshape(expected.shape)
    result = routine(*operands, out=out, **how)
    assert result is out
    same = out.tobytes() == expected.tobytes()
    assert same, f"{how}, {operands[0].shape}: {oracles.first_difference(out, expected)}"
    assert (whole[:guard] == POISON).all()
    assert (whole[guard + out.nbytes :] == POISON).all()
    return True


def strided_views(a):
    """Views of one array that NumPy users make, none of them packed."""
    return {
        "rows padded": a[:, :-3],
        "every other row": a[::2],
        "every third column": a[:, ::3],
        "rows reversed": a[::-1],
        "columns reversed": a[:, ::-1],
        "both reversed": a[::-1, ::-1],
        "Fortran order": np.asfortranarray(a),
        "transposed": a.swapaxes(0, 1),
        "broadcast row": np.broadcast_to(a[:1], a.shape),
        "broadcast column": np.broadcast_to(a[:, :1], a.shape),
    }
