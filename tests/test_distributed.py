"""ado.distributed: gpp over processes; ranks are threads (ranks.py)."""

import functools
import inspect
import math
import threading

import numpy as np
import pytest
from conftest import isa_levels, run_python, run_seed, variants_of
from hypothesis import given
from hypothesis import strategies as st
from ranks import ThreadCommunicator, results_of_ranks, run_ranks

import adokernels as ado
import adokernels.distributed
from adokernels import _core
from adokernels.distributed import TILE_ROWS
from adokernels.model import tasks
from adokernels.model.libraries import on_host
from adokernels.model.registry import gpp_tiles

SEED = run_seed()
SIZES = [1, 2, 3, 4, 8]
MOST = np.finfo(np.float64).max
#: Fewer tiles than ranks, more tiles than ranks, an incomplete last tile, no rows, no terms.
SHAPES = [(24, 131, 67, 2), (9, 64, 40, 1), (5, 17, 9, 3), (3, 8, 4, 1)]
EMPTY = [(0, 9, 4, 2), (3, 0, 4, 1), (3, 9, 0, 2)]


@functools.cache
def problem(shape):
    return ado.gpp_operands(shape, SEED)


def bits(results):
    return b"".join(result.tobytes() for result in results)


def sums_over_ranks(operands, size, **options):
    def rank(comm):
        return ado.distributed.gpp(ado.distributed.split(operands, comm), comm=comm, **options)

    return results_of_ranks(size, rank)


# --- Results --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES + EMPTY)
def test_any_number_of_ranks_gives_the_same_bits_on_all_ranks(shape):
    operands = problem(shape)
    expected, unit = tasks.gpp.expected(*operands), tasks.gpp.error_unit(*operands)
    seen = set()
    for size in SIZES:
        results = sums_over_ranks(operands, size)
        assert tasks.difference(results[0], expected, unit) <= 1
        seen |= set(map(bits, results))
    assert len(seen) == 1
    assert results[0][0].shape == results[0][1].shape == shape[3:]


def test_options_and_their_defaults():
    operands, options = problem((24, 131, 67, 2)), {"gamma": 2.0, "sexcut": 0.3, "tol": 0.5}
    parameters = inspect.signature(ado.distributed.gpp).parameters
    for option in (p for p in ado.gpp.parameters if p.role == "option"):
        assert parameters[option.name].default == option.default
        results = sums_over_ranks(operands, 2, **{option.name: options[option.name]})[0]
        expected = tasks.gpp.expected(*operands, **{option.name: options[option.name]})
        unit = tasks.gpp.error_unit(*operands, **{option.name: options[option.name]})
        assert tasks.difference(results, expected, unit) <= 1


def test_shares_of_the_callers_choice():
    operands = problem((24, 131, 67, 2))
    ends = [0, 8, 8, 80, 131]

    def rank(comm):
        rows = slice(*ends[comm.rank : comm.rank + 2])
        parts = (operands.wtilde[rows], operands.i_eps[rows], operands.aqsn)
        share = (*parts, operands.aqsm[:, rows], operands.wx, operands.vcoul[rows], operands.occ)
        return ado.distributed.gpp(share, comm=comm)

    assert bits(results_of_ranks(4, rank)[0]) == bits(sums_over_ranks(operands, 1)[0])


def test_the_sum_of_the_tiles_is_that_of_fsum():
    operands = problem((24, 131, 67, 2))
    for ours, tiles in zip(
        sums_over_ranks(operands, 3, device="cpu")[0],
        gpp_tiles(*operands, device="cpu"),
        strict=True,
    ):
        for f, column in enumerate(tiles.T):
            assert ours[f] == complex(math.fsum(column.real), math.fsum(column.imag))


@pytest.mark.parametrize(
    ("numbers", "total"),
    [
        *[([], 0.0), ([1e16, 1.0, -1e16], 1.0), ([-5e-324, -5e-324], -1e-323)],
        *[([MOST, MOST, -MOST], MOST), ([-MOST, -MOST, MOST], -MOST), ([MOST, MOST], np.inf)],
        *[([-MOST, -MOST], -np.inf), ([1.0, np.inf], np.inf), ([1.0, -np.inf], -np.inf)],
        *[([np.inf, 1.0, -np.inf], np.nan), ([1.0, np.nan], np.nan)],
    ],
)
def test_sums_at_the_limits(numbers, total):
    np.testing.assert_array_equal(adokernels.distributed._sum(np.array(numbers)), total)


# --- Sums per tile --------------------------------------------------------------------------------


def tiles_of(operands):
    """The operands of each tile."""
    rows = range(0, len(operands.wtilde), TILE_ROWS)
    return [rows_of(operands, slice(row, row + TILE_ROWS)) for row in rows]


def rows_of(operands, rows):
    return operands._replace(
        wtilde=operands.wtilde[rows],
        i_eps=operands.i_eps[rows],
        aqsm=operands.aqsm[:, rows],
        vcoul=operands.vcoul[rows],
    )


def check_tiles(operands, variant, move=lambda operand: operand):
    results = [on_host(a) for a in gpp_tiles(*map(move, operands), variant=variant)]
    tiles = tiles_of(operands)
    assert {len(result) for result in results} == {len(tiles)}
    for i, tile in enumerate(tiles):
        expected, unit = tasks.gpp.expected(*tile), tasks.gpp.error_unit(*tile)
        assert tasks.difference(tuple(result[i] for result in results), expected, unit) <= 1, (
            SEED,
            i,
        )
    for first in (8, 64, 72):
        rows = slice(first, first + 24)
        share = gpp_tiles(*map(move, rows_of(operands, rows)), variant=variant)
        of_tiles = slice(first // 8, -(-min(rows.stop, len(operands.wtilde)) // 8))
        assert bits(map(on_host, share)) == bits(result[of_tiles] for result in results)


@pytest.mark.parametrize("shape", [*SHAPES, (300, 65, 41, 1), (2100, 9, 33, 2)])
@pytest.mark.parametrize("variant", variants_of(gpp_tiles))
def test_tiles(variant, shape):
    check_tiles(problem(shape), variant)


def test_tiles_with_every_instruction_set(isa_restored):
    for isa in isa_levels():
        ado.settings.isa = isa
        check_tiles(problem((24, 131, 67, 2)), "sorted_by_occupation")


def test_tiles_with_any_number_of_threads():
    operands = problem((24, 131, 67, 2))
    before, seen = _core.max_threads(), set()
    try:
        for threads in (1, 3, 2):
            _core.set_max_threads(threads, at_any_size=True)
            seen.add(bits(gpp_tiles(*operands, device="cpu")))
    finally:
        _core.set_max_threads(before)
    assert len(seen) == 1


@pytest.mark.gpu
def test_shares_on_the_gpu():
    operands = problem((24, 131, 67, 2))

    def rank(comm):
        share = ado.distributed.split(operands, comm, device="cuda")
        return ado.distributed.gpp(share, comm=comm)

    seen = {bits(result) for size in SIZES for result in results_of_ranks(size, rank)}
    seen.add(bits(sums_over_ranks(operands, 2, device="cuda")[0]))
    assert len(seen) == 1


# --- Shares ---------------------------------------------------------------------------------------


@given(ngpown=st.integers(0, 10_000), size=st.integers(1, 100))
def test_rows_of_ranks(ngpown, size):
    comm = ThreadCommunicator.__new__(ThreadCommunicator)
    comm.rank, comm.size = 0, size
    rows = [ado.distributed.rows_of_rank(ngpown, comm, rank) for rank in range(size)]
    assert ado.distributed.rows_of_rank(ngpown, comm) == rows[0]
    assert [i for part in rows for i in range(ngpown)[part]] == list(range(ngpown))
    assert all(part.start % 8 == 0 for part in rows if part.start != part.stop)
    tiles = [-(-(part.stop - part.start) // 8) for part in rows]
    assert max(tiles) - min(tiles) <= 1


class Sliced:
    """An array without NumPy's types, which records the parts that were read."""

    def __init__(self, array):
        self.array, self.shape, self.read = array, array.shape, []

    def __getitem__(self, index):
        self.read.append(index)
        return self.array[index]


def test_split_reads_only_the_share():
    operands = problem((5, 17, 9, 3))
    given = [operands._make(map(Sliced, operands)) for _ in range(2)]
    results_of_ranks(2, lambda comm: ado.distributed.split(given[comm.rank], comm))
    for whole, rows in zip(given, (slice(0, 8), slice(8, 17)), strict=True):
        assert whole.wtilde.read == whole.i_eps.read == whole.vcoul.read == [rows]
        assert whole.aqsm.read == [(slice(None), rows)]
        assert whole.aqsn.read == whole.wx.read == whole.occ.read == []


def test_split_of_memory_mapped_arrays(tmp_path):
    operands = problem((24, 131, 67, 2))
    for name, operand in operands._asdict().items():
        np.save(tmp_path / name, operand)

    def rank(comm):
        mapped = (np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in operands._fields)
        share = ado.distributed.split(tuple(mapped), comm)
        for part in share:
            assert type(part) is np.ndarray
            assert part.base is None
            assert part.flags.c_contiguous
        return ado.distributed.gpp(share, comm=comm)

    assert bits(results_of_ranks(3, rank)[0]) == bits(sums_over_ranks(operands, 1)[0])


# --- Errors: on all ranks -------------------------------------------------------------------------


def raised(size, function, rank):
    """The error of one rank. All other ranks must raise a RuntimeError that contains it."""
    errors = run_ranks(size, function)
    for other in set(range(size)) - {rank}:
        assert type(errors[other]) is RuntimeError
        text = f"rank {rank} failed with {type(errors[rank]).__name__}: {errors[rank]}"
        assert str(errors[other]) == text
    return errors[rank]


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda p: None, ValueError, r"operands must be wtilde, .*, got None"),
        (lambda p: p[:6], ValueError, r"operands must be wtilde, .*, got 6 operands"),
        (lambda p: p._replace(vcoul=[1.0]), TypeError, r"vcoul must be an array, got list"),
        (lambda p: p._replace(wx=p.wx.astype("c8")), TypeError, "wx must have .* float64, got"),
        (lambda p: p._replace(aqsm=p.aqsm[:, 1:]), ValueError, r"aqsm must have .* got \(5, 16\)"),
    ],
)
def test_wrong_operands_of_split(change, kind, text):
    operands = problem((5, 17, 9, 3))

    def rank(comm):
        return ado.distributed.split(change(operands) if comm.rank == 1 else operands, comm)

    error = raised(3, rank, 1)
    assert type(error) is kind
    with pytest.raises(kind, match=text):
        raise error


def test_operands_of_different_shapes():
    def rank(comm):
        return ado.distributed.split(problem((5, 35 if comm.rank == 1 else 17, 9, 3)), comm)

    text = r"the same shapes .* = \(5, 17, 9, 3\) on rank 0 and \(5, 35, 9, 3\) on rank 1"
    for error in run_ranks(3, rank):
        with pytest.raises(ValueError, match=text):
            raise error


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        (lambda p: p[:6], ValueError, r"local_operands must be wtilde, .*, got 6 operands"),
        (lambda p: p._replace(vcoul=p.vcoul[1:]), ValueError, "vcoul"),
        (lambda p: p._replace(occ=p.occ - 2), ValueError, r"occ\[0\] must be from 0 to 1"),
        (lambda p: p._replace(i_eps=p.i_eps.real), TypeError, "i_eps"),
    ],
)
def test_an_error_of_one_rank(change, kind, text):
    operands = problem((5, 17, 9, 3))

    def rank(comm):
        share = ado.distributed.split(operands, comm)
        return ado.distributed.gpp(change(share) if comm.rank == 2 else share, comm=comm)

    error = raised(3, rank, 2)
    assert type(error) is kind
    with pytest.raises(kind, match=text):
        raise error


def test_an_error_after_the_kernels_have_started(monkeypatch):
    operands, failing = problem((5, 17, 9, 3)), threading.local()
    original = ado.distributed._parts

    def copy(*arguments):
        if getattr(failing, "rank", None):
            raise ado.CudaError("the copy failed")
        return original(*arguments)

    monkeypatch.setattr(ado.distributed, "_parts", copy)

    def rank(comm):
        failing.rank = comm.rank == 1
        return ado.distributed.gpp(ado.distributed.split(operands, comm), comm=comm)

    assert str(raised(3, rank, 1)) == "the copy failed"


@pytest.mark.parametrize(
    ("change", "options", "text"),
    [
        (lambda p: p, {"gamma": 2}, "gamma must be the same .*, got 0.5 on rank 0 and 2 on rank 1"),
        (lambda p: p, {"sexcut": 2.0}, "sexcut must be the same"),
        (lambda p: p, {"tol": 2.0}, "tol must be the same"),
        (lambda p: p._replace(wx=p.wx + 1), {}, "wx and occ .* of rank 0 and rank 1 differ"),
        (lambda p: p._replace(wx=p.wx[:, 1:]), {}, "nfreqs must be the same .*, got 3 .* and 2"),
        (
            lambda p: rows_of(p, slice(1, None)),
            {},
            "rank 1 must be a multiple of 8, got 15; .*split",
        ),
    ],
)
def test_operands_that_do_not_match(change, options, text):
    """All ranks detect the mismatch, so all raise the same error."""
    operands = problem((5, 35, 9, 3))

    def rank(comm):
        share = ado.distributed.split(operands, comm)
        if comm.rank == 1:
            return ado.distributed.gpp(change(share), comm=comm, **options)
        return ado.distributed.gpp(share, comm=comm)

    errors = run_ranks(3, rank)
    assert {type(error) for error in errors} == {ValueError}
    assert len(set(map(str, errors))) == 1
    with pytest.raises(ValueError, match=text):
        raise errors[0]


@pytest.mark.parametrize("comm", [None, 3, "world", ThreadCommunicator])
def test_wrong_communicators(comm):
    operands = problem((5, 17, 9, 3))
    for call in (
        lambda: ado.distributed.gpp(operands, comm=comm),
        lambda: ado.distributed.split(operands, comm),
        lambda: ado.distributed.rows_of_rank(17, comm),
    ):
        with pytest.raises(TypeError, match="comm must be a communicator of mpi4py, a process"):
            call()


# --- Imports --------------------------------------------------------------------------------------


def test_imported_on_first_use_and_without_mpi():
    code = (
        "import sys, adokernels as ado\n"
        "assert 'adokernels.distributed' not in sys.modules\n"
        "ado.distributed.gpp\n"
        "print(sorted({'mpi4py', 'torch'} & set(sys.modules)))"
    )
    assert run_python(code) == "[]"
