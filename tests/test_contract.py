"""The contract of all routines: every variant, at any size, in any memory, is right or declines.

The problems come from the tasks: a new routine or variant is tested here without a change to this
file. Special properties of a routine are tested in its own file.
"""

import functools
import itertools
import math
import re
from dataclasses import dataclass

import numpy as np
import pytest
from conftest import few, isa_levels, shared_data, tuple_of, variants_of, why_not

import adokernels as ado
from adokernels import _core
from adokernels.model.routine import batch_option
from adokernels.model.tasks import TASKS, as_tuple

GUARD, SENTINEL = 64, 0xA5
#: One shorter than, equal to and one longer than vectors, tiles and blocks.
LENGTHS = (
    *(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 48, 62, 63, 64, 65, 70, 75),
    *(127, 128, 129, 130, 131, 255, 256, 257, 480, 511, 512, 513, 517, 1000, 1023, 1024, 1025),
)
#: By the number of lengths: sizes in which no length is short.
FULL = {
    1: ((100,), (1023,), (2048,), (4096,), (16_384,), (30_011,), (65_536,), (65_537,), (150_001,)),
    2: (
        *((12, 48), (33, 1024), (131, 62), (64, 96), (96, 64), (100, 128), (129, 255), (160, 256)),
        *((256, 288), (512, 160), (144, 176), (272, 400), (131, 517), (517, 131), (128, 256)),
        *((61, 250), (64, 1024), (31, 2049), (1023, 17), (257, 513), (256, 1024), (67, 4096)),
    ),
    3: (
        *((33, 31, 5), (32, 64, 32), (17, 100, 129), (65, 33, 3), (130, 12, 31), (40, 256, 17)),
        *((3, 1024, 12), (2, 129, 1000), (50, 36, 260), (130, 65, 300), (60, 50, 257)),
        *((20, 7, 1025), (37, 70, 130)),
    ),
    4: ((31, 31, 31, 1), (32, 32, 32, 2), (33, 33, 33, 2), (33, 5, 129, 3), (24, 11, 67, 2)),
}
#: By the number of lengths: sizes in which one length is much longer than the others.
THIN = {
    1: ((5,), (4097,), (70_001,)),
    2: ((2, 517), (3, 517), (517, 3), (5, 479), (6, 480), (7, 481), (7, 4097), (2, 30_011)),
    3: ((1, 257, 40), (4, 1000, 6), (2, 1025, 9), (70_001, 2, 3)),
    4: ((1, 1, 2, 3), (2, 3, 4, 5)),
}
BATCHES = ((1,), (3,), (2, 3), (0,), (2, 0), (17,))
#: The reference result of a problem of this many elements takes little time.
QUICK = 70_000


def contracts(*, ceilings=False):
    """The names of all routines and of their variants as parameters."""
    return [
        pytest.param(routine.name, *variant.values, marks=variant.marks, id=f"{name}-{variant.id}")
        for name, routine in ado.routines.items()
        for variant in variants_of(routine, ceilings=ceilings)
    ]


def cuda_contracts(*, ceilings=False):
    return [p for p in contracts(ceilings=ceilings) if p.marks]


def contracts_per_isa():
    """Like `contracts`, on the CPU with every supported instruction set, else with the current."""
    return [
        pytest.param(*p.values, isa, marks=p.marks, id=p.id if p.marks else f"{p.id}-{isa}")
        for p in contracts()
        for isa in ([_core.isa()] if p.marks else isa_levels())
    ]


# --- Problems -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A problem and its expected result."""

    routine: ado.Routine
    operands: tuple
    options: dict
    expected: object
    unit: object

    @classmethod
    def of(cls, routine, operands, options=None):
        task, options = TASKS[routine.name], batch_option(routine, operands[0]) | (options or {})
        unit = task.error_unit(*operands, **options) if task.error_unit else None
        return cls(routine, operands, options, task.expected(*operands, **options), unit)

    def check(self, result):
        """Raise ValueError if the result is wrong."""
        TASKS[self.routine.name].check(result, self.expected, self.unit)

    def __str__(self):
        return f"{[(a.shape, a.dtype.str) for a in self.operands]}, {self.options}"


def accepts(routine, operands):
    """Whether these are operands of the routine, for example if lengths may be 0."""
    try:
        routine.problem(*operands, device="cpu", **batch_option(routine, operands[0]))
    except ValueError:
        return False
    return True


@functools.cache
def spare_operands(name):
    """Indices of operands whose last axis may be shorter while the result keeps its shape.

    An image may lack its alpha channel; a sum may have fewer terms.
    """
    routine, spare = ado.routines[name], []
    operands = routine.task.random_operands(max(TASKS[name].sanitizer.shapes, key=math.prod))
    shapes = [a.shape for a in as_tuple(routine(*operands, device="cpu"))]
    for i in range(len(operands)):
        fewer = shortened(operands, i)
        if accepts(routine, fewer):
            results = as_tuple(routine(*fewer, device="cpu"))
            if [a.shape for a in results] == shapes:
                spare.append(i)
    return spare


def shortened(operands, i):
    return (*operands[:i], np.ascontiguousarray(operands[i][..., :-1]), *operands[i + 1 :])


def cases_of(routine, operands):
    """The case of these operands, and cases with a shorter last axis."""
    found = [operands, *(shortened(operands, i) for i in spare_operands(routine.name))]
    return [Case.of(routine, each) for each in found if accepts(routine, each)]


@functools.cache
def task_cases(name):
    """Every shape, type and option value of the task."""
    routine, problems = ado.routines[name], TASKS[name].sanitizer
    cases = []
    with shared_data(f"task_cases {name}"):
        for dtype, shape in itertools.product(problems.dtypes, problems.shapes):
            operands = routine.task.random_operands(shape, dtype)
            for values in itertools.product(*problems.options.values()):
                options = dict(zip(problems.options, values, strict=True))
                cases.append(Case.of(routine, operands, options))
    return cases


@functools.cache
def plain_cases(name):
    """Shapes and types of the task with default options; one batch; one channel less."""
    routine, problems = ado.routines[name], TASKS[name].sanitizer
    shapes = [*problems.shapes, *([(3, 9, 40)] if routine.batched else [])]
    with shared_data(f"plain_cases {name}"):
        return [
            case
            for how in itertools.product(shapes, problems.dtypes)
            for case in cases_of(routine, routine.task.random_operands(*how))
        ]


def edge_shapes(lengths):
    """Equal lengths, and each length combined with short ones."""
    beside, most = ((1, 2, 5, 40), QUICK) if lengths < 4 else ((3,), QUICK // 16)
    shapes = [(n,) * lengths for n in LENGTHS]
    for axis, n, other in itertools.product(range(lengths), LENGTHS, beside):
        shapes.append((*[other] * axis, n, *[other] * (lengths - axis - 1)))
    return list(dict.fromkeys(shape for shape in shapes if math.prod(shape) <= most))


@functools.cache
def edge_cases(name):
    """Lengths around the sizes of vectors and tiles, and batches, in every type of the task."""
    routine, task = ado.routines[name], TASKS[name]
    listed = (*FULL.get(len(task.lengths), ()), *THIN.get(len(task.lengths), ()))
    shapes = [*edge_shapes(len(task.lengths)), *listed]
    if routine.batched:
        shapes += [(*b, *s) for b in BATCHES for s in [(9, 31), (1, 1), (3, 64), (0, 4)]]
    cases = []
    with shared_data(f"edge_cases {name}"):
        for dtype, shape in itertools.product(task.sanitizer.dtypes, shapes):
            operands = routine.task.random_operands(shape, dtype)
            if shape not in listed and sum(a.size for a in operands) > 2 * QUICK:
                continue  # for example a large square matrix
            found = cases_of(routine, operands)
            assert found or 0 in shape, f"{name} does not accept {shape}"
            cases += found
    return cases


@functools.cache
def broadcast_cases(name):
    """One operand is broadcast along an axis, or all operands along all axes."""
    cases = []
    for case in plain_cases(name):
        repeated = [list(broadcasts(a)) for a in case.operands]
        for i, views in enumerate(repeated):
            for view in views:
                operands = (*case.operands[:i], view, *case.operands[i + 1 :])
                cases.append(Case.of(case.routine, operands))
        if all(repeated):
            constants = (np.broadcast_to(a[(0,) * a.ndim], a.shape) for a in case.operands)
            cases.append(Case.of(case.routine, tuple(constants)))
    return cases


def broadcasts(a):
    if not a.size:
        return
    for axis in range(a.ndim):
        yield np.broadcast_to(np.take(a, [0], axis), a.shape)


# --- Memory ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """How an array is stored.

    Attributes
    ----------
    name
        For messages.
    steps
        Distance of neighbours along the last axes; negative for a reversed axis.
    padding
        Number of elements between one row and the next.
    order
        Maps the number of axes to their order in memory.
    shift
        Distance of the first byte from an address that is aligned to 64 bytes.
    """

    name: str
    steps: tuple = ()
    padding: int = 0
    order: object = range
    shift: int = 0

    def on(self, axes):
        """Order, steps, padding and shift for an array with this number of axes."""
        steps = ((1,) * axes + self.steps)[-axes:]
        return tuple(self.order(axes)), steps, self.padding, self.shift


PACKED = Layout("packed")
LAYOUTS = (
    Layout("padded rows", padding=3),
    Layout("padded to whole vectors", padding=64),
    Layout("every other element", steps=(2,)),
    Layout("every third element", steps=(3,)),
    Layout("every other row", steps=(2, 1)),
    Layout("every other plane", steps=(2, 1, 1)),
    Layout("last axis reversed", steps=(-1,)),
    Layout("rows reversed", steps=(-1, 1)),
    Layout("planes reversed", steps=(-1, 1, 1)),
    Layout("all reversed", steps=(-1, -1, -1)),
    Layout("every other of all", steps=(2, 2, 2), padding=1),
    Layout("every other of all, reversed", steps=(-2, -2, -2)),
    Layout("steps of both signs", steps=(3, -1, 2), padding=5),
    Layout("Fortran order", order=lambda axes: range(axes)[::-1]),
    Layout("Fortran order, padded", order=lambda axes: range(axes)[::-1], padding=3),
    Layout("last axis first", order=lambda axes: (axes - 1, *range(axes - 1))),
    Layout("first axis last", order=lambda axes: (*range(1, axes), 0)),
)
MIXED = Layout("rows reversed, unaligned", steps=(-1, 1), shift=16)


class Memory:
    """An array in memory of its own, with guards in front, behind and between its elements."""

    def __init__(self, values, layout=PACKED):
        values = np.asarray(values)
        order, steps, padding, shift = layout.on(values.ndim)
        lengths = [values.shape[axis] * abs(steps[axis]) for axis in order]
        stored = (*lengths[:-1], lengths[-1] + padding)
        size = math.prod(stored) * values.itemsize
        self._bytes = np.full(size + 5 * GUARD, SENTINEL, np.uint8)
        start = GUARD - self._bytes.ctypes.data % GUARD + GUARD + shift
        whole = self._bytes[start : start + size].view(values.dtype).reshape(stored)
        whole = whole[..., : lengths[-1]].transpose([order.index(i) for i in range(len(order))])
        self.array = whole[tuple(slice(None, None, step) for step in steps)]
        self.array[...] = values
        assert self.array.shape == values.shape
        self._values, self._before = values, self._bytes.tobytes()

    def unchanged(self):
        """Whether no byte has changed."""
        return self._bytes.tobytes() == self._before

    def take(self):
        """A packed copy of the array; its own memory gets the initial values again."""
        taken = self.array.copy(order="C")
        self.array[...] = self._values
        return taken


def unwritten(expected):
    """Initial values of a result, all different from the expected values."""
    mask = 0x80 if expected.dtype.kind in "iu" else 0xFF
    raw = np.ascontiguousarray(expected).reshape(-1).view(np.uint8) ^ np.uint8(mask)
    return raw.view(expected.dtype).reshape(expected.shape)


# --- The check ------------------------------------------------------------------------------------


def check(case, call, operands=None, results=PACKED):
    """Call with results in guarded memory, whose initial elements are all wrong; compare.

    `operands` are the operands of the case in other memory.
    """
    outs = [Memory(unwritten(expected), results) for expected in as_tuple(case.expected)]
    out = tuple(memory.array for memory in outs)
    out = out if isinstance(case.expected, tuple) else out[0]
    given = call(*(case.operands if operands is None else operands), out=out, **case.options)
    assert all(a is b for a, b in zip(tuple_of(given), tuple_of(out), strict=True))
    taken = tuple(memory.take() for memory in outs)
    case.check(taken if isinstance(case.expected, tuple) else taken[0])
    assert all(memory.unchanged() for memory in outs), "memory around the result was written"


def solves(case, variant, operands=None, results=PACKED, block=None):
    """Check a variant; False if it declines the problem; the call must raise the reason."""
    call = functools.partial(case.routine, variant=variant, block=block)
    given = case.operands if operands is None else operands
    reason = why_not(case.routine, variant, given, **case.options)
    try:
        if not reason:
            check(case, call, given, results)
            return True
        text = re.escape(f"{case.routine.name}[{variant}]: {reason}")
        # Unavailable: the emulator cannot execute a library.
        with pytest.raises((ValueError, ado.Unavailable), match=f"^{text}$"):
            call(*given, **case.options)
    except Exception as error:
        error.__notes__ = [f"{case}, {variant=}, {block=}, {results=}"]  # pytest prints it
        raise
    return False


def overwrites(name, variant, shape, dtype):
    """Check a variant whose result replaces its operand; False if it declines the call."""
    routine = ado.routines[name]
    (operand,) = routine.task.random_operands(shape, dtype)
    case, memory = Case.of(routine, (operand,)), Memory(operand)
    try:
        assert routine(memory.array, variant=variant, out=memory.array) is memory.array
    except ValueError as error:
        declined = str(error)
    else:
        declined = ""
        case.check(memory.take())
    assert memory.unchanged()
    assert not declined or declined.startswith(f"{name}[{variant}]: ")
    return not declined


# --- Sizes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "variant", "isa"), contracts_per_isa())
def test_sizes(name, variant, isa, isa_restored, emulator):
    """Every size and type, every value of an option, and once in strided, unaligned memory."""
    ado.settings.isa = isa
    cases = (*few(task_cases(name), emulator, 3), *few(edge_cases(name), emulator, 12))
    solved = [solves(case, variant) for case in cases]
    for case in few(plain_cases(name), emulator, 2):
        solves(case, variant, [Memory(a, MIXED).array for a in case.operands], MIXED)
    problems = TASKS[name].sanitizer
    for shape, dtype in itertools.product(problems.in_place, problems.dtypes):
        solved.append(overwrites(name, variant, shape, dtype))
    if not any(solved) and not emulator:  # for example, this machine lacks a library
        reason = why_not(ado.routines[name], variant, ado.routines[name].task.random_operands())
        assert reason, "solves the problem worth measuring, but none of these"
        pytest.skip(reason)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)])
@pytest.mark.parametrize("name", ado.routines)
def test_the_default_solves_every_problem(name, device, emulator):
    if all(v.ceiling or v.device != device for v in ado.routines[name]):
        pytest.skip(f"no variants for {device}")
    cases = (*few(task_cases(name), emulator, 8), *few(edge_cases(name), emulator, 40))
    for case in cases:
        problem = case.routine.problem(*case.operands, device=device, **case.options)
        assert case.routine[problem.best()].device == device
        assert not problem.why_not(problem.best())
        check(case, functools.partial(case.routine, device=device))


# --- Memory of operands and results ---------------------------------------------------------------


@functools.cache
def strided(name):
    """All cases in all layouts that differ for their numbers of axes."""
    chosen = []
    for case in plain_cases(name):
        axes = {a.ndim for a in (*case.operands, *as_tuple(case.expected))}
        found = {tuple(layout.on(n) for n in axes): layout for layout in reversed(LAYOUTS)}
        chosen += [(case, layout) for layout in found.values()]
    return chosen


@pytest.mark.parametrize(("name", "variant"), contracts())
def test_strides(name, variant, emulator):
    """Strides of each operand, of the results, and of all arrays."""
    for case, layout in few(strided(name), emulator, 2, lambda pair: pair[0]):
        stored = [Memory(a, layout) for a in case.operands]
        for i, memory in enumerate(stored):
            operands = (*case.operands[:i], memory.array, *case.operands[i + 1 :])
            solves(case, variant, operands)
        solves(case, variant, results=layout)
        solves(case, variant, [memory.array for memory in stored], layout)
        assert all(memory.unchanged() for memory in stored), "an operand was written"


@pytest.mark.parametrize(("name", "variant"), contracts())
def test_broadcast_operands(name, variant, emulator):
    for case in few(broadcast_cases(name), emulator, 3):
        solves(case, variant)


@pytest.mark.parametrize(("name", "variant"), contracts())
def test_unaligned_memory(name, variant, emulator):
    """Operands and results that start at any element, and operands at any byte."""
    cases = sorted(few(plain_cases(name), emulator, 2), key=lambda case: case.operands[0].nbytes)
    for kind in dict.fromkeys(case.operands[0].dtype for case in cases):
        for case in [c for c in cases if c.operands[0].dtype == kind][-2:]:
            sizes = [a.itemsize for a in case.operands]
            shifts = {*range(min(max(sizes), 9)), *range(0, GUARD, min(sizes))}
            for shift in sorted(shifts)[:: 9 if emulator else 1]:
                layout = Layout(f"{shift} bytes", shift=shift)
                operands = [Memory(a, layout).array for a in case.operands]
                solves(case, variant, operands)
                solves(case, variant, results=layout)
                solves(case, variant, operands, layout)


# --- CUDA -----------------------------------------------------------------------------------------


@functools.cache
def full_cases(name):
    """Problems for which kernels launch many blocks."""
    routine, task = ado.routines[name], TASKS[name]
    shapes = FULL.get(len(task.lengths), ())
    with shared_data(f"full_cases {name}"):
        return [
            case
            for shape, dtype in itertools.product(shapes, task.sanitizer.dtypes)
            for case in cases_of(routine, routine.task.random_operands(shape, dtype))
        ]


@pytest.mark.parametrize(("name", "variant"), cuda_contracts(ceilings=True))
def test_blocks(name, variant, emulator):
    about = ado.routines[name][variant]
    cases = (*few(plain_cases(name), emulator, 2), *few(full_cases(name), emulator, 1))
    for case, block in itertools.product(cases, about.blocks):
        if not about.ceiling:
            solves(case, variant, block=block)
        elif not why_not(case.routine, variant, case.operands):
            case.routine(*case.operands, variant=variant, block=block)


@pytest.mark.parametrize(("name", "variant"), contracts(ceilings=True))
def test_reasons_and_unknown_blocks(name, variant):
    about = ado.routines[name][variant]
    for case in plain_cases(name):
        reason = why_not(case.routine, variant, case.operands, **case.options)
        problem = case.routine.problem(*case.operands, variant=variant, **case.options)
        assert problem.why_not(variant) == reason
        if reason:
            continue
        for block in [(1,) * 4, (7, 3), *((*b[:-1], b[-1] + 1) for b in about.blocks)]:
            if block not in about.blocks:
                with pytest.raises(ValueError, match="block") as error:
                    case.routine(*case.operands, variant=variant, block=block)
                assert str(error.value).startswith(f"{name}[{variant}]: ")


@pytest.mark.parametrize(("name", "variant"), cuda_contracts())
def test_device_arrays(name, variant, emulator):
    """The result stays on the device and has the bytes of the result for host operands."""
    for case in few((*task_cases(name), *plain_cases(name)), emulator, 2):
        operands = [ado.to_device(a) for a in case.operands]
        reason = why_not(case.routine, variant, operands, **case.options)
        assert reason == why_not(case.routine, variant, case.operands, **case.options)
        call = functools.partial(case.routine, variant=variant, **case.options)
        if reason:
            with pytest.raises((ValueError, ado.Unavailable), match=re.escape(reason)):
                call(*operands)
            continue
        on_host = [a.tobytes() for a in tuple_of(call(*case.operands))]
        out = tuple(ado.to_device(unwritten(a)) for a in as_tuple(case.expected))
        out = out if isinstance(case.expected, tuple) else out[0]
        for given in (call(*operands), call(*operands, out=out)):
            assert all(isinstance(a, ado.DeviceArray) for a in tuple_of(given))
            taken = tuple(a.numpy() for a in tuple_of(given))
            case.check(taken if isinstance(case.expected, tuple) else taken[0])
            assert [a.tobytes() for a in taken] == on_host
        assert all(a is b for a, b in zip(tuple_of(given), tuple_of(out), strict=True))


# --- What a variant declares ----------------------------------------------------------------------


@pytest.mark.parametrize("name", ado.routines)
def test_names_and_sentences(name):
    names = [v.name for v in ado.routines[name]]
    assert len(names) == len(set(names))
    for v in ado.routines[name]:
        assert re.fullmatch(r"[A-Z](?:[^.]|\.(?=\S))*\.", v.changes), v.changes


@pytest.mark.parametrize("name", ado.routines)
def test_costs_need_no_device(name):
    """Useful work is the same for all variants; none requests less than the problem needs.

    Requested bytes are compared for large problems only, because models leave out small operands.
    """
    routine, task = ado.routines[name], ado.routines[name].task
    for worth_measuring, operands in [
        (True, task.random_operands() if task.operands else task.empty_operands()),
        *((False, case.operands) for case in plain_cases(name)),
    ]:
        costs = {v: v.cost(*operands) for v in routine}
        assert len({(cost.flops, cost.bytes) for cost in costs.values()}) == 1
        for v, cost in costs.items():
            assert min(cost.flops, cost.bytes, cost.executed_flops, cost.requested_bytes) >= 0
            if worth_measuring and not v.ceiling:
                assert cost.bytes <= cost.requested_bytes, v


# --- Tests of the tests ---------------------------------------------------------------------------


def wrong_element(expected):
    value = expected[-1:] if expected.ndim == 1 else expected[-1, -1:]
    value += 3  # arrays, unlike scalars, may overflow


def unwritten_element(expected):
    expected.flat[-1] = unwritten(expected).flat[-1]


def permutation(expected):
    expected[...] = np.roll(expected, 1).reshape(expected.shape)


def not_a_number(expected):
    expected.flat[expected.size // 2] = np.nan


def written_behind(expected):
    beyond = np.lib.stride_tricks.as_strided(expected, (expected.size + 1,), expected.strides[-1:])
    beyond[-1] = 0


MISTAKES = {
    "wrong result": (wrong_element, unwritten_element, permutation, not_a_number),
    "memory around": (written_behind,),
}


@pytest.mark.parametrize(
    ("mistake", "text"), [(m, text) for text, mistakes in MISTAKES.items() for m in mistakes]
)
@pytest.mark.parametrize("name", ado.routines)
def test_the_check_notices(name, mistake, text):
    """One result at a time is computed with a mistake."""
    cases = sorted(plain_cases(name), key=lambda case: as_tuple(case.expected)[0].size)
    if mistake is not_a_number:
        cases = [case for case in cases if as_tuple(case.expected)[0].dtype.kind in "fc"]
        if not cases:
            pytest.skip("its results are integers")
    # A permutation of equal values is not a mistake.
    case = next(
        c for c in reversed(cases) if all(len(np.unique(e)) > 1 for e in as_tuple(c.expected))
    )
    results = as_tuple(case.expected)

    def compute(*operands, out, wrong=None, **options):
        for i, (to, value) in enumerate(zip(tuple_of(out), results, strict=True)):
            to[...] = value
            if i == wrong:
                mistake(to)
        return out

    check(case, compute)
    for i in range(len(results)):
        with pytest.raises((ValueError, AssertionError), match=text):
            check(case, functools.partial(compute, wrong=i))
