"""gpp against higher precision and exact fractions: every variant, every branch, every size."""

import functools
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from conftest import POISON, affordable, isa_levels, run_seed, variants_of
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import adokernels as ado
from adokernels import _core
from adokernels.model import tasks
from adokernels.model.problem import Values
from adokernels.model.tasks.gpp import NEAR, NOTHING, POLE, GppOperands, GppTerms

SEED = run_seed()
VARIANTS = variants_of(ado.gpp)
CPU_VARIANTS = [v.name for v in ado.gpp if v.device == "cpu" and not v.ceiling]
QUICK = {"device": "cpu", "seconds": 0, "ceilings": False, "progress": False}
SHAPES = [
    *[(1, 1, 1, 1), (1, 1, 1, 2), (2, 1, 1, 1), (1, 2, 1, 1), (1, 1, 2, 3), (2, 3, 4, 5)],
    *[(31, 31, 31, 1), (32, 32, 32, 2), (33, 33, 33, 2), (33, 5, 129, 3), (17, 4, 255, 2)],
    *[(16, 8, 256, 2), (15, 9, 257, 1), (63, 2, 65, 2), (64, 3, 64, 2), (65, 4, 63, 2)],
    *[(127, 3, 33, 2), (128, 2, 32, 1), (129, 1, 31, 2), (7, 129, 11, 2), (5, 128, 64, 2)],
    *[(3, 127, 65, 5), (101, 13, 103, 2), (37, 41, 43, 1), (257, 3, 17, 2), (9, 3, 1023, 2)],
    *[(3, 5, 1025, 2), (255, 15, 16, 3)],
]
THIN = [
    *[(10007, 1, 1, 1), (1, 1009, 1, 2), (1, 1, 10007, 1), (1, 1, 1, 301), (2003, 1, 3, 2)],
    *[(2, 1009, 3, 1), (3, 2, 5003, 2), (2, 7, 33, 64), (1, 300, 300, 1), (300, 1, 300, 2)],
]
OPTIONS = [{"gamma": 2.0}, {"sexcut": 0.3}, {"sexcut": np.inf}, {"tol": 0.5}]


def roundings(bands):
    """Return the error bound of a sum, relative to the sum of the magnitudes of its terms."""
    return (32 + min(bands, 2048)) * 2.0**-53


class Case(NamedTuple):
    """A problem with its expected results, because the reference is slower than the variants."""

    operands: GppOperands
    options: dict
    expected: tuple
    unit: tuple


def case_of(operands, **options):
    expected = tasks.gpp.expected(*operands, **options)
    return Case(operands, options, expected, tasks.gpp.error_unit(*operands, **options))


def run(operands, variant, **options):
    """Run with results in poisoned memory with guards around them."""
    frequencies, guard = operands[4].shape[1], 64
    nbytes = 16 * frequencies
    whole = np.full(3 * guard + 2 * nbytes, POISON, np.uint8)
    starts = (guard, 2 * guard + nbytes)
    asx, ach = out = tuple(whole[at : at + nbytes].view(np.complex128) for at in starts)
    for result in out:
        result.fill(np.nan)
    given = ado.gpp(*operands, variant=variant, out=out, **options)
    assert given[0] is asx
    assert given[1] is ach
    untouched = np.ones(len(whole), bool)
    for at in starts:
        untouched[at : at + nbytes] = False
    assert (whole[untouched] == POISON).all()
    return out


def check(case, variant):
    out = run(case.operands, variant, **case.options)
    error = tasks.difference(out, case.expected, case.unit)
    shape = (*case.operands[3].shape, *case.operands[2].shape[1:], *case.operands[4].shape[1:])
    assert error <= 1, (SEED, shape, case.options, error)
    return out


# --- Sizes ----------------------------------------------------------------------------------------


@functools.cache
def sized(shapes):
    return [case_of(ado.gpp_operands(shape, SEED + i)) for i, shape in enumerate(shapes)]


@pytest.mark.parametrize("shapes", [SHAPES, THIN], ids=["blocks", "thin"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_sizes(variant, shapes):
    for case in sized(tuple(shapes)):
        if affordable(case.operands):
            check(case, variant)


@functools.cache
def large(shape):
    """Too many terms for the whole reference."""
    return Values(tasks.TASKS["gpp"], ado.gpp_operands(shape, SEED), {})


@pytest.mark.large
@pytest.mark.parametrize("variant", VARIANTS)
def test_large(variant):
    values = large((67, 401, 1101, 1))
    values.check(*(run(GppOperands(*each.operands), variant) for each in values.runs))


@functools.cache
def named(size):
    """The accuracy of the results depends on the data, which therefore are the same in each run."""
    return case_of(ado.gpp_operands(size, 0))


@pytest.mark.parametrize("variant", VARIANTS)
def test_data_like_physics(variant):
    """On data of one scale the results themselves are accurate to twelve digits."""
    for size in ("test", "small"):
        if affordable(ado.gpp_operands(size, 0)):
            case = named(size)
            assert tasks.difference(check(case, variant), case.expected) < 1e-12


@functools.cache
def at_zero_energy():
    """All abs(ssx) are abs(i_eps), beyond the cut-off, which is for negative energies only."""
    problem = ado.gpp_operands((41, 5, 33, 2), SEED)
    wx = np.where(np.arange(41)[:, None] % 2, [0.0, -0.0], [-0.0, 0.0])
    case = case_of(problem._replace(wx=wx, occ=np.full(41, 0.5)), sexcut=0.5)
    assert case.expected[0].all()
    return [case]


@functools.cache
def with_options():
    problem = ado.gpp_operands((40, 7, 70, 2), SEED)
    cases = [case_of(problem, **options) for options in OPTIONS]
    assert len({case.expected[0].tobytes() for case in cases}) == len(OPTIONS)
    return cases


@functools.cache
def with_occupations():
    """Several occupations, from none to all: unoccupied bands contribute only to ach."""
    problem = ado.gpp_operands((35, 6, 66, 2), SEED)
    one = np.eye(35)[17]
    fills = [np.zeros(35), np.ones(35), np.full(35, 0.5), one, 1 - one, np.linspace(0, 1, 35)]
    return [case_of(problem._replace(occ=occ)) for occ in fills]


def test_decades_with_every_instruction_set(isa_restored):
    for isa in isa_levels():
        ado.settings.isa = isa
        for variant in CPU_VARIANTS:
            check(spread_cases()[0], variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_two_calls_give_the_same_bits(variant, emulator):
    cases = (named("test" if emulator else "small"), *sized(tuple(THIN))[:3])
    for case in filter(lambda case: affordable(case.operands), cases):
        first, second = (run(case.operands, variant) for _ in range(2))
        for a, b in zip(first, second, strict=True):
            assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("variant", CPU_VARIANTS)
def test_any_number_of_threads_gives_the_same_bits(variant):
    """The call may run with more threads than when it was prepared."""
    before = _core.max_threads()
    for case in (named("small"), *sized(tuple(THIN))[:3]):
        try:
            _core.set_max_threads(1, at_any_size=True)
            prepared = ado.gpp.problem(*case.operands, device="cpu")
            call, seen = prepared.prepare(variant), set()
            for threads in (1, 7, 2):
                _core.set_max_threads(threads, at_any_size=True)
                prepared.poison()
                call.run()
                results = prepared.results()
                tasks.TASKS["gpp"].check(results, case.expected, case.unit)
                seen.add(b"".join(a.tobytes() for a in results))
        finally:
            _core.set_max_threads(before)
        assert len(seen) == 1


# --- Numbers of every scale -----------------------------------------------------------------------


def spread(problem, seed):
    """Multiply every number, and each part of a complex one, by its own power of ten."""
    rng = np.random.default_rng(seed)

    def scaled(a, high=6):
        parts = a.view(np.float64)
        return (parts * 10 ** rng.uniform(-6, high, parts.shape)).view(a.dtype)

    wild = GppOperands(*map(scaled, problem))
    return wild._replace(occ=scaled(problem.occ, high=0))


@functools.cache
def spread_cases():
    # The first problem is the same in each run, and has terms of all branches.
    shapes = [*[(33, 6, 65, 2)] * 2, *[(5, 4, 7, 2)] * 30, *[(2, 2, 2, 3)] * 20]
    seeds = [1, *(SEED + i for i in range(1, len(shapes)))]
    return [
        case_of(spread(ado.gpp_operands(shape, seed), seed))
        for shape, seed in zip(shapes, seeds, strict=True)
    ]


@functools.cache
def one_sign():
    """Terms without any cancellation: every rounding of a long sum shows.

    The terms of the last case are all equal, so that all roundings of a plain sum have one sign.
    """
    rng = np.random.default_rng(SEED)
    cases = []
    shapes = [(100_000, 1, 1), (1, 1, 100_000), (1, 5000, 1), (400, 40, 30), (100_000, 1, 1)]
    for i, (bands, rows, columns) in enumerate(shapes):
        sizes = (rows, columns), (rows, columns), (bands, columns), (bands, rows)
        w, eps, aqsn, aqsm = (rng.uniform(0.5, 1, size).astype(np.complex128) for size in sizes)
        wx, vcoul = rng.uniform(3, 4, (bands, 1)), rng.uniform(0.5, 1, rows)
        problem = GppOperands(w, eps, aqsn, aqsm, wx, vcoul, np.ones(bands))
        if i == len(shapes) - 1:  # a tenth in ach, half of that in asx
            numbers = (1, 0.4, 1, 1, 3, 1, 1)
            problem = GppOperands(
                *(np.full_like(a, z) for a, z in zip(problem, numbers, strict=True))
            )
        cases.append(case_of(problem))
        for total, unit in zip(cases[-1].expected, cases[-1].unit, strict=True):
            assert unit == pytest.approx(roundings(bands) * np.abs(total))
    return cases


@pytest.mark.parametrize(
    "cases", [at_zero_energy, with_options, with_occupations, spread_cases, one_sign]
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_special_problems(variant, cases):
    for case in cases():
        if cases is not one_sign or affordable(case.operands):
            check(case, variant)


# --- One term, exactly ----------------------------------------------------------------------------


class Term(NamedTuple):
    """sch and ssx as pairs of fractions, the branch, and the distance to the nearest decision."""

    sch: tuple
    ssx: tuple
    branch: int
    cut_off: bool
    margin: float


def times(a, b):
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def over(a, b):
    size = b[0] ** 2 + b[1] ** 2
    real, imag = times(a, (b[0], -b[1]))
    return real / size, imag / size


def norm(a):
    return a[0] ** 2 + a[1] ** 2


@functools.lru_cache(maxsize=1000)
def exact_term(x, w, eps=1.0, gamma=0.5, sexcut=4.0, tol=1e-6):
    """Evaluate the formulas in fractions: nothing is rounded, so every branch is exact."""
    frac = Fraction
    zero = (frac(0), frac(0))
    x, gamma, sexcut, tol = map(frac, (x, gamma, sexcut, tol))
    w, eps = ((frac(z.real), frac(z.imag)) for z in map(complex, (w, eps)))
    wdiff, total = (x - w[0], -w[1]), (x + w[0], w[1])
    if not norm(wdiff):
        return Term(zero, zero, NOTHING, False, 1.0)
    delw = over(w, wdiff)
    far, light = norm(wdiff) / gamma**2, norm(delw) * 4 * tol
    edges = [far, light]
    pole = far > 1 and light < 1
    if not pole:
        edges.append(norm(delw) / frac(1e-12))
    if not pole and edges[-1] <= 1:
        return Term(zero, zero, NOTHING, False, float(min(abs(e - 1) for e in edges)))
    branch = POLE if pole else NEAR
    sch = times(delw, eps) if pole else zero
    cut_off, ssx = x < 0, zero
    if any(total):
        # The other branch: -I w^2 delw / (4 w^2 (delw + 1/2)), delw + 1/2 = (x + w) / (2 (x - w)).
        quotient = over(times(w, w), times(wdiff, total)) if pole else over(w, total)
        ssx = times(eps, quotient if pole else (-quotient[0] / 2, -quotient[1] / 2))
        if norm(eps) and x < 0:
            edges.append(norm(ssx) / norm(eps) / sexcut**2)
        cut_off = x < 0 and norm(ssx) > sexcut**2 * norm(eps)
    elif x >= 0:
        ssx = None  # infinite
    margin = float(min(abs(e - 1) for e in edges))
    return Term(sch, zero if cut_off else ssx, branch, cut_off, margin)


def one_term(x, w, eps=1.0, occupied=1.0, frequencies=1):
    """Return the problem that has this term alone; ssx is -asx and sch is 2 ach."""
    arrays = [np.full((1, 1), z, np.complex128) for z in (w, eps, 1, 1)]
    return GppOperands(*arrays, np.full((1, frequencies), x), np.ones(1), np.array([occupied]))


@functools.lru_cache(maxsize=1000)
def within(got, want, factor):
    """Whether got is factor * want within the error bound of the variants."""
    got, want = complex(got), tuple(factor * part for part in want)
    if not np.isfinite(got):
        return False
    error = norm((Fraction(got.real) - want[0], Fraction(got.imag) - want[1]))
    return error <= Fraction(roundings(1)) ** 2 * norm(want)


@functools.cache
def crowd_of_zeros():
    """Operands for which every term is zero."""
    crowd = ado.gpp_operands((5, 3, 37, 2), 0, near=False)
    crowd.aqsm[...] = crowd.aqsn[...] = 0
    crowd.vcoul[...], crowd.occ[...] = 1, 1
    return crowd


def check_term(variant, x, w, eps=1.0, turn=None):
    """Check a term alone, unoccupied, repeated, and among zeros in the middle of a block.

    `turn` selects one of the first four problems, for the emulator.
    """
    term = exact_term(x, w, eps)
    problems = ((1, 1.0), (1, 0.0), (2, 1.0), (3, 1.0))
    for frequencies, occupied in problems if turn is None else problems[turn % 4 :: 4]:
        operands = one_term(x, w, eps, occupied, frequencies)
        asx, ach = run(operands, variant)
        for f in range(frequencies):
            where = (variant, x, w, eps, frequencies, occupied, term.branch, term.cut_off, asx, ach)
            if not occupied:
                assert asx[f] == 0, where
            elif term.ssx is not None:
                assert within(asx[f], term.ssx, -1), where
            assert within(ach[f], term.sch, Fraction(1, 2)), where
    if term.ssx is None:
        return term
    crowd = GppOperands(*(a.copy() for a in crowd_of_zeros()))
    band, row, column = 3, 1, 18
    crowd.aqsm[band, row] = crowd.aqsn[band, column] = 1
    crowd.wtilde[row, column], crowd.i_eps[row, column], crowd.wx[band] = w, eps, x
    for asx, ach in zip(*run(crowd, variant), strict=True):
        assert within(asx, term.ssx, -1), (variant, x, w, eps, asx)
        assert within(ach, term.sch, Fraction(1, 2)), (variant, x, w, eps, ach)
    return term


def either_side(of, decide, low, high):
    """Two terms a few 1e-12 apart between which a decision changes."""
    start = decide(exact_term(*of(low)))
    assert start != decide(exact_term(*of(high)))
    while (middle := (low + high) / 2) not in (low, high):
        if decide(exact_term(*of(middle))) == start:
            low = middle
        else:
            high = middle
    return [of(low - 4e-12 * abs(low)), of(high + 4e-12 * abs(high))]


#: How a term depends on one number, the decision that it changes, and two numbers around the edge.
EDGES = {
    "gamma": (lambda t: (t, 3 - 0.2j), lambda term: term.branch, 3.0, 4.0),
    "gamma, from below": (lambda t: (-t, -3 - 0.3j), lambda term: term.branch, 3.0, 4.0),
    "gamma, by Im w": (lambda t: (3.125, 3 - 1j * t), lambda term: term.branch, 0.25, 1.0),
    "limitone": (lambda t: (t, 1000 - 0.7j), lambda term: term.branch, 1001.0, 1003.0),
    "limitone, by Im w": (lambda t: (1000.5, 1000 - 1j * t), lambda t: t.branch, 1.0, 3.0),
    "1e-12": (lambda t: (0.3, t * (1 - 2j)), lambda term: term.branch, 1e-8, 1e-6),
    "cut-off": (lambda t: (-3.0, t - 0.1j), lambda term: term.cut_off, 3.1, 4.0),
    "cut-off, other side": (lambda t: (-3.0, t - 0.1j), lambda t: t.cut_off, 2.0, 2.95),
    "cut-off, near": (lambda t: (-0.2, t - 0.001j), lambda term: term.cut_off, 0.21, 0.28),
}


@functools.cache
def edges():
    return {name: either_side(*edge) for name, edge in EDGES.items()}


def test_edges_are_edges():
    for name, sides in edges().items():
        terms = [exact_term(*side) for side in sides]
        assert all(1e-13 < term.margin < 1e-8 for term in terms), (name, terms)
        first, second = ((term.branch, term.cut_off) for term in terms)
        assert first != second


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_either_side_of_an_edge(variant, edge):
    for x, w in edges()[edge]:
        check_term(variant, x, w, 0.7 - 0.4j)


@pytest.mark.parametrize("variant", VARIANTS)
def test_special_terms(variant, emulator):
    """On the edges themselves, where they can be represented.

    `eps` does not select a branch. On the emulator, the terms have its two values in turn.
    """
    branch_of = {
        (3.5, 3.0): NEAR,  # |x - w| equals gamma: not above it
        (2.5, 3.0): NEAR,
        (-3.5, -3.0): NEAR,
        (3.0, 3.0 - 0.5j): NEAR,
        (np.nextafter(3.5, 4), 3.0): POLE,
        (3.0, 3.0): NOTHING,  # 0/0
        (-3.0, -3.0): NOTHING,
        (0.0, 0.0): NOTHING,
        (3.0, 0.0): POLE,  # adds zeros
        (-3.0, 0.0): POLE,
        (0.25, 0.0): NOTHING,
        (-0.25, 0.0): NOTHING,
        (0.0, 3.0): POLE,
        (0.0, 3.0 - 0.1j): POLE,
        (0.0, 0.25 - 0.1j): NEAR,
        (-0.0, -0.25 + 0.1j): NEAR,
        (0.0, 2j): POLE,
        (5.0, -2j): POLE,
        (-3.0, 3.0): POLE,  # x = -w: ssx is infinite, and cut off
        (-0.25, 0.25): NEAR,
        (-1e-3, 1e-3): NEAR,
        (-1e5, 1e5): POLE,
        (-3.0, 3.0 - 1e-9j): POLE,
        (5.0, 3.0): POLE,  # on the real axis
        (-5.0, 3.0): POLE,
        (3.25, 3.0): NEAR,
        (3.0, 3.0 + 1e-9j): NEAR,
        (1e-4, 3e-5 - 1e-5j): NEAR,
        (1e6, 3e5 - 2e5j): POLE,
        (0.2, -0.2 - 1e-3j): NEAR,  # x + w is small, and not cut off
        (0.2 + 2**-30, -0.2): NEAR,
        (3.0, -3.0 - 1e-6j): POLE,
        (3.0 + 2**-40, -3.0): POLE,
    }
    for i, ((x, w), branch) in enumerate(branch_of.items()):
        for eps in (1.0, -0.3 + 0.8j)[i % 2 :: 2] if emulator else (1.0, -0.3 + 0.8j):
            turn = i // 2 if emulator else None
            assert check_term(variant, x, w, eps, turn).branch == branch, (x, w)


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_unoccupied_band_adds_no_infinity(variant):
    """3 and -3 make ssx infinite at positive energy, where nothing is cut off."""
    problem = ado.gpp_operands((20, 5, 40, 2), SEED)
    problem.wx[::2], problem.occ[::2] = 3, 0
    problem.wtilde[2] = -3
    check(case_of(problem), variant)
    asx, ach = run(one_term(3.0, -3.0, occupied=0.0), variant)
    assert (asx[0], ach[0]) == (0, -0.25)


SCALES = st.builds(
    lambda sign, fraction, power: sign * fraction * 2.0**power,
    st.sampled_from([-1.0, 1.0]),
    st.floats(1, 2),
    st.integers(-19, 19),
)
NUMBERS = st.one_of(st.just(0.0), st.floats(-9, 9).filter(lambda v: abs(v) > 1e-6), SCALES)
RATIOS = st.sampled_from([1.0, -1.0, 1 + 2**-10, -1 - 2**-10, 1 + 2**-30, -1 - 2**-30])


@st.composite
def terms(draw):
    """Energies and poles of every scale, many of them close to each other or to their negatives."""
    x = draw(NUMBERS)
    real = draw(st.one_of(NUMBERS, RATIOS.map(lambda ratio: ratio * x)))
    return x, complex(real, draw(NUMBERS)), complex(draw(SCALES), draw(NUMBERS))


@pytest.mark.parametrize("variant", ["", *(p for p in VARIANTS if p.marks)])
def test_any_term(variant, emulator):
    """An empty name selects all variants on the CPU, which get the same terms."""

    @settings(max_examples=25 if emulator else 200, deadline=None)
    @given(terms(), st.integers(0, 3))
    def check(term, turn):
        exact = exact_term(*term)
        assume(exact.margin > 1e-11)
        assume(exact.ssx is not None)
        for name in [variant] if variant else CPU_VARIANTS:
            check_term(name, *term, turn if emulator else None)

    check()


@settings(max_examples=300, deadline=None)
@given(terms(), st.sampled_from([{}, {"gamma": 2.0}, {"sexcut": 0.3}, {"tol": 0.5}]))
def test_oracle_on_any_term(term, options):
    exact = exact_term(*term, **options)
    assume(exact.margin > 1e-11)
    assume(exact.ssx is not None)
    operands = one_term(*term)
    (asx,), (ach,) = tasks.gpp.expected(*operands, **options)
    assert within(asx, exact.ssx, -1)
    assert within(ach, exact.sch, Fraction(1, 2))
    units = tasks.gpp.error_unit(*operands, **options)
    for unit, want in zip(units, (exact.ssx, exact.sch), strict=True):
        magnitude = abs(complex(*map(float, want)))
        assert unit[0] == pytest.approx(roundings(1) * magnitude / (2 - (want is exact.ssx)))


# --- Calls ----------------------------------------------------------------------------------------


def small():
    return ado.gpp_operands((6, 4, 5, 3), seed=7)


@pytest.fixture
def next_call_works():
    yield
    assert ado.gpp(*small())[0].shape == (3,)


def with_value(name, index, value):
    array = getattr(small(), name).copy()
    array[index] = value
    return {name: array}


BAD_VALUES = [
    *[("occ", (4,), value, "from 0 to 1") for value in (np.nan, -1e-300, 1 + 2**-52, np.inf)],
    *[("wx", (2, 1), value, "finite") for value in (np.nan, np.inf, -np.inf)],
]
BAD_OPTIONS = [
    *[("gamma", value) for value in (0.0, -1.0, np.nan, np.inf)],
    *[("sexcut", value) for value in (0.0, -1.0, np.nan)],
    *[("tol", value) for value in (0.0, -1e-6, np.nan, np.inf)],
]


@pytest.mark.usefixtures("next_call_works")
class TestRefused:
    def test_no_frequencies(self):
        with pytest.raises(ValueError, match="wx has no frequencies"):
            ado.gpp(*small()._replace(wx=np.zeros((6, 0))))

    @pytest.mark.parametrize(("name", "index", "value", "rule"), BAD_VALUES)
    def test_values(self, name, index, value, rule):
        where = ", ".join(map(str, index))
        with pytest.raises(ValueError, match=rf"gpp: {name}\[{where}\] must be {rule}, got "):
            ado.gpp(*small()._replace(**with_value(name, index, value)))

    @pytest.mark.parametrize(("name", "value"), BAD_OPTIONS)
    def test_options(self, name, value):
        with pytest.raises(ValueError, match=f"gpp: {name} must be positive.*, got "):
            ado.gpp(*small(), **{name: value})

    def test_results(self):
        good = np.zeros(3, np.complex128)
        for out, text in [
            ((good,), r"one array per result \(2\), got 1"),
            ((good, good.copy(), good.copy()), r"one array per result \(2\), got 3"),
            (good, "out must be a tuple"),
            ((good, good), "ach overlaps asx"),
            ((good, np.zeros(2, np.complex128)), "ach must have shape .* nfreqs = 3"),
        ]:
            with pytest.raises(ValueError, match=text):
                ado.gpp(*small(), out=out)


def test_useful_work_is_that_of_occupied_bands():
    problem = small()
    costs = [
        ado.gpp.variants[0].cost(*problem._replace(occ=np.full(6, occ))) for occ in (0.0, 0.5, 1.0)
    ]
    terms, pairs = 6 * 4 * 5 * 3, 6 * 4 * 5
    assert [cost.flops for cost in costs] == [terms * n + 6 * pairs for n in (13, 29, 29)]
    operands = sum(a.nbytes for a in problem)
    assert {cost.bytes for cost in costs} == {operands + 2 * 3 * 16}


def test_two_frequencies_share_the_product_of_the_matrix_elements():
    problem = ado.gpp_operands((6, 4, 5, 2), seed=7)
    one, two = (ado.gpp[name].cost(*problem) for name in ("packed", "two_frequencies"))
    assert one.executed_flops - two.executed_flops == 6 * 4 * 5 * 6
    assert one.requested_bytes == 2 * two.requested_bytes


@pytest.mark.gpu
class TestOnTheGpu:
    def test_more_terms_than_32_bits_count(self):
        values = large((4200, 513, 2049, 1))
        for v in ado.gpp:
            if v.device == "cuda" and not v.ceiling:
                runs = ([ado.to_device(a) for a in each.operands] for each in values.runs)
                results = [ado.gpp(*operands, variant=v.name) for operands in runs]
                values.check(*(tuple(a.numpy() for a in result) for result in results))

    @pytest.mark.parametrize(("name", "index", "value", "rule"), BAD_VALUES)
    def test_values_are_looked_at_there(self, name, index, value, rule):
        wrong = small()._replace(**with_value(name, index, value))
        with pytest.raises(ValueError, match=rf"{name}\[.*\] must be {rule}"):
            ado.gpp(*map(ado.to_device, wrong))
        right = ado.gpp(*map(ado.to_device, small()))
        on_host = tuple(a.numpy() for a in right)
        assert tasks.difference(on_host, tasks.gpp.expected(*small())) < 1e-12

    def test_occupations_are_counted_there(self):
        for occ, flops in ((0.0, 13), (1.0, 29)):
            problem = small()._replace(occ=np.full(6, occ))
            cost = ado.gpp.variants[-1].cost(*map(ado.to_device, problem))
            assert cost.flops == 6 * 4 * 5 * (3 * flops + 6)


# --- Problems -------------------------------------------------------------------------------------


def branches(problem, **options):
    """Count the terms of each branch, and the cut-off terms of occupied bands."""
    x = problem.wx.T[:, :, None, None]
    with np.errstate(all="ignore"):
        _, ssx, branch = GppTerms(np.float64, **options)(x, problem.wtilde, problem.i_eps)
        cut = (branch != NOTHING) & (ssx == 0) & (problem.wtilde != 0)
    counts = {kind: int((branch == kind).sum()) for kind in (POLE, NEAR, NOTHING)}
    occupied = (problem.occ != 0)[:, None, None]
    of_occupied = {"near": (branch == NEAR) & occupied, "cut": cut & occupied}
    return counts | {kind: int(those.sum()) for kind, those in of_occupied.items()}


def test_tests_take_every_branch():
    """The problems of these tests take every branch."""
    sums = [
        {kind: 0 for kind in (POLE, NEAR, NOTHING, "near", "cut")},
        {kind: 0 for kind in (POLE, NEAR, NOTHING, "near", "cut")},
    ]
    for total, cases in zip(sums, (sized(tuple(SHAPES)), spread_cases()), strict=True):
        for case in cases:
            for kind, count in branches(case.operands).items():
                total[kind] += count
    assert all(min(total.values()) > 0 for total in sums), sums


def test_problems_are_what_they_say():
    problem, again = (ado.gpp_operands("small", 0) for _ in range(2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(problem, again, strict=True))
    assert {a.shape for a in problem[2:5]} == {(96, 512), (96, 64), (96, 2)}
    assert set(problem.occ) == {0.0, 0.5, 1.0}
    assert 0.4 < np.mean(problem.occ != 0) < 0.6
    assert problem.wx[problem.occ == 1].min() < 0
    assert problem.wx[problem.occ == 0].max() < 1
    counts, terms = branches(problem), problem.wx.size * problem.wtilde.size
    assert all(counts.values())
    assert 0.01 < counts["near"] / terms <= counts[NEAR] / terms < 0.1
    assert branches(problem, gamma=2.0)[NEAR] > 2 * counts[NEAR]
    with pytest.raises(ValueError, match="size must be test, small, si214 or a tuple, got 'large'"):
        ado.gpp_operands("large")
    for wrong in ((1, 2, 3), (1, 2, 3, 4, 5), (1, -2, 3, 4)):
        with pytest.raises(ValueError, match=r"size must be \(nbands, ngpown, ncouls, nfreqs\)"):
            ado.gpp_operands(wrong)


# --- Problems too large for the reference ---------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch):
    """A reference that checks problems of more than a few thousand terms by linearity."""
    monkeypatch.setattr(tasks.gpp, "_MAX_TERMS", 5000)


def without_the_last_rows(operands, results):
    wtilde, i_eps, aqsn, aqsm, wx, vcoul, occ = operands
    return ado.gpp(wtilde[:-2], i_eps[:-2], aqsn, aqsm[:, :-2].copy(), wx, vcoul[:-2], occ)


def without_the_last_corner(operands, results):
    aqsm = operands[3].copy()
    aqsm[-1, -1] = 0
    return ado.gpp(*operands[:3], aqsm, *operands[4:])


#: Wrong results for dense operands, made from the operands and the right results.
CHEATS = {
    "an offset": lambda operands, results: tuple(r + 1e-9 for r in results),
    "another factor": lambda operands, results: tuple(r * (1 + 1e-10) for r in results),
    "incomplete": without_the_last_rows,
    "without a corner": without_the_last_corner,
}


@pytest.mark.usefixtures("impatient")
class TestSpotCheck:
    def test_operands_of_both_calls_are_dense(self):
        problem = ado.gpp_operands("test", SEED)
        spot = tasks.gpp.spot_check(*problem)
        assert 0.5 <= spot.factor < 1
        for name, before, after in zip(problem._fields, problem, spot.counterpart, strict=True):
            assert (before is after) == (name != "aqsm")
        kept = GppOperands(*spot.counterpart).aqsm == problem.aqsm
        assert kept[[0, 0, -1, -1], [0, -1, 0, -1]].all()
        assert 32 <= kept.sum() <= 2 * 32 + 4
        other = GppOperands(*spot.counterpart).aqsm[~kept]
        np.testing.assert_array_equal(other, -spot.factor * problem.aqsm[~kept])
        assert tasks.gpp.spot_check(*ado.gpp_operands((3, 4, 5, 2), SEED)) is None

    @pytest.mark.parametrize("occupied", [0, 1])
    def test_bands_without_occupation(self, occupied):
        problem = ado.gpp_operands("test", SEED)
        problem = problem._replace(occ=np.arange(24.0) < occupied)
        values = Values(tasks.TASKS["gpp"], [*problem[:-1], problem.occ.astype(float)], {})
        assert (values._reference.unit[0] > 0).all() == bool(occupied)
        values.check(*(run(GppOperands(*each.operands), "simd") for each in values.runs))

    def test_the_unit_is_that_of_all_terms(self):
        """It is estimated: without a bias, if all terms are equal."""
        equal = (np.full_like(a, z) for a, z in zip(small(), (1, 1, 1, 1, 3, 1, 1), strict=True))
        problem = [np.tile(a, [4] * a.ndim) for a in equal]
        spot = tasks.gpp.spot_check(*problem)
        for estimate, unit in zip(spot.unit, tasks.gpp.error_unit(*problem), strict=True):
            assert estimate == pytest.approx(unit * (1 + spot.factor))

    def test_the_result_is_the_sum_of_both_calls(self):
        """With the reference as the variant, the errors are its roundings."""
        problem = ado.gpp_operands("test", SEED)
        values = Values(tasks.TASKS["gpp"], problem, {})
        found = values.check(*(tasks.gpp.expected(*each.operands) for each in values.runs))
        assert found.in_unit < 0.1

    def test_sweeps_use_them(self):
        sweep = ado.sweep(ado.gpp, *ado.gpp_operands("test", SEED), **QUICK)
        assert not sweep.skipped
        assert all(0 <= m.error <= 1 for m in sweep.variants)
        assert {m.error_ulp is None for m in sweep.variants} == {False}
        assert {m.problem for m in sweep} == {sweep.measurements[0].problem}

    @pytest.mark.parametrize("cheat", CHEATS.values(), ids=CHEATS)
    def test_a_variant_that_is_wrong_for_dense_operands_is_caught(self, cheat):
        def own(*operands):
            results = ado.gpp(*operands, device="cpu")
            large = operands[3].size * operands[2].shape[1] > 5000
            return cheat(operands, results) if large and operands[3].all() else results

        result = ado.check(
            own, ado.gpp, *ado.gpp_operands("test", SEED), timed=False, isolated=False
        )
        assert not result.correct
        assert "out of tolerance" in result.reason

    def test_a_variant_that_is_wrong_after_the_first_check_is_caught(self):
        calls = []

        def own(*operands):
            calls.append(operands[3].shape)
            asx, ach = ado.gpp(*operands, device="cpu")
            return (asx, ach) if calls.count((24, 11)) <= 2 else (0 * asx, 0 * ach)

        assert not ado.check(
            own, ado.gpp, *ado.gpp_operands("test", SEED), timed=False, isolated=False
        )
        assert calls.count((24, 11)) == 4
