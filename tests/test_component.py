"""Components of points: layouts, numbers of components, and the choice of the variant."""

import numpy as np
import pytest
from choices import h200_choice
from conftest import check, isa_levels, random_of, variants_of

import adokernels as ado

TYPES = ["u1", "i2", "f4", "f8", "c16"]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("variant", variants_of(ado.component))
def test_every_component_in_both_layouts(variant, dtype, rng):
    for count in (1, 2, 3, 4, 5, 8, 17, 64, 520):
        for points in (1, 33, 1003):
            structures = random_of(rng, (points, count), dtype)
            arrays = random_of(rng, (count, points), dtype).T
            for c in {0, 1, 2, count // 2, count - 1} & set(range(count)):
                for operand in (structures, arrays):
                    expected = operand[:, c].copy()
                    check(ado.component, (operand,), expected, variant, c=c)


@pytest.mark.parametrize("isa", isa_levels())
@pytest.mark.parametrize("dtype", TYPES)
def test_results_larger_than_the_cache(isa, dtype, rng, isa_restored):
    ado.settings.isa = isa
    length = (9 << 20) // np.dtype(dtype).itemsize + 5
    structures = random_of(rng, (length, 3), dtype)
    arrays = random_of(rng, (3, length), dtype).T
    for variant in ("streaming", "threaded"):
        for points in (structures, arrays):
            check(ado.component, (points,), points[:, 1].copy(), variant, c=1)


@pytest.mark.parametrize("c", [-1, 3, 2**40])
def test_a_component_that_does_not_exist(c):
    message = f"component: c must be at least 0 and less than C, got {c}"
    with pytest.raises(ValueError, match=message):
        ado.component(np.zeros((5, 3)), c=c)


def test_points_without_components():
    with pytest.raises(ValueError, match="c must be at least 0 and less than C"):
        ado.component(np.zeros((5, 0)))


def test_default_component():
    assert ado.component([[1, 2, 3], [4, 5, 6]]).tolist() == [1, 4]


LARGE = 64 << 20


@pytest.mark.parametrize(
    ("points", "variant"),
    [
        (np.broadcast_to(np.float32(0), (LARGE, 3)), "staged"),
        (np.broadcast_to(np.float32(0), (LARGE, 8)), "staged"),
        (np.broadcast_to(np.float32(0), (LARGE, 9)), "batched"),
        (np.empty((LARGE, 1), "f4"), "structure_of_arrays"),
        (np.empty((3, LARGE), "f4").T, "structure_of_arrays"),
        (np.empty((3, LARGE), "u1").T, "structure_of_arrays"),
        # The components are contiguous, but not packed: the call packs the points.
        (np.empty((3, 2 * LARGE), "f4")[:, :LARGE].T, "staged"),
        (np.empty((132 * 1024, 3), "f4"), "batched"),
        (np.empty((131 * 1024, 3), "f4"), "array_of_structures"),
        (np.empty((1000, 600), "f4"), "array_of_structures"),
    ],
)
def test_choice_on_an_h200(points, variant):
    assert h200_choice(ado.component, points) == variant


def requested(variant, points, **options):
    return ado.component[variant].cost(points, **options).requested_bytes


@pytest.mark.parametrize("c", [0, 1, 2])
def test_bytes_of_the_layouts(c):
    """A structure of arrays needs one component, an array of structures needs all of them."""
    n = 1024
    structures, arrays = np.zeros((n, 3), "f4"), np.zeros((3, n), "f4").T
    for points in (structures, arrays):
        cost = ado.component["batched"].cost(points, c=c)
        assert (cost.flops, cost.bytes) == (0, 8 * n)
    assert requested("batched", structures, c=c) == 3 * 4 * n + 4 * n
    assert requested("staged", structures, c=c) == 3 * 4 * n + 4 * n
    assert requested("structure_of_arrays", arrays, c=c) == 4 * n + 4 * n
    assert requested("batched", np.zeros((n, 16), "f4"), c=c) == 32 * n + 4 * n


@pytest.mark.gpu
@pytest.mark.parametrize("variant", variants_of(ado.component))
def test_a_structure_of_arrays_keeps_its_layout_on_the_device(variant, rng):
    """Host and device operands in column-major order are not packed as structures."""
    if ado.component[variant].device != "cuda":
        pytest.skip("a CPU variant")
    points = random_of(rng, (3, 10_001), "f4").T
    problem = ado.component.problem(points, device="cuda", c=1)
    assert problem.why_not("structure_of_arrays") == ""
    result = ado.component(points, c=1, variant=variant)
    assert result.tobytes() == points[:, 1].tobytes()
    torch = pytest.importorskip("torch")
    on_device = torch.from_numpy(points.T.copy()).cuda().T
    assert ado.component(on_device, c=2, variant=variant).numpy().tobytes() == (
        points[:, 2].tobytes()
    )
