"""Runs of original and rewritten kernels on the emulator, with counts per access."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from adokernels import _core
from adokernels.model.problem import Call
from adokernels.model.values import as_tuple, same_bytes
from adokernels.process import settings
from adokernels.ptx import cut
from adokernels.whatif.experiments import (
    TOTAL,
    Counts,
    Experiment,
    Launch,
    Plan,
    Refused,
    Subject,
    changed,
    changed_counts,
)
from adokernels.whatif.rewriting import ARITHMETIC, CONSTANTS, FILE, KINDS, Code

#: Counts that the switch itself changes.
_OWN = ("instructions", "lanes", "constant_loads")
#: The constants of a launch.
_Constants = Callable[[Launch], bytes]


@contextmanager
def alone() -> Iterator[None]:
    """Run blocks in order, so that results can be compared bit by bit, and without checks."""
    checks, threads = settings.emulator_checks, _core.max_threads()
    settings.emulator_checks = ()
    _core.set_max_threads(1)
    try:
        yield
    finally:
        settings.emulator_checks = checks
        _core.set_max_threads(threads)


@dataclass(frozen=True)
class EmulatedWork:
    """Launches of kernels on the emulator, which can be repeated.

    `computed` returns copies of the results, `run` does not check the memory, and `forget` is
    called after each run, because the memory may have changed.
    """

    label: str
    computed: Callable[[], Any]
    run: Callable[[], Any]
    forget: Callable[[], None]

    @classmethod
    def of_call(cls, call: Call) -> EmulatedWork:
        """A call of a variant."""
        problem = call.problem
        return cls(call.label, lambda: call.computed(problem.values), call.run, problem.forget)

    @classmethod
    def of_function(
        cls, label: str, function: Callable[[], Any], arrays: Sequence[Any]
    ) -> EmulatedWork:
        """A function that reads and writes NumPy arrays."""
        saved = [array.copy() for array in arrays]

        def forget() -> None:
            for array, values in zip(arrays, saved, strict=True):
                array[...] = values

        def computed() -> Any:
            function()
            return tuple(array.copy() for array in arrays)

        return cls(label, computed, function, forget)


def subjects_of(work: EmulatedWork) -> tuple[Any, list[Subject]]:
    """Run the original kernels; return the result, and each kernel with its launches and counts.

    ValueError is raised if no kernels are launched, or if the next run launches others.
    """
    result, launches, _ = _run(work, {}, {})
    codes = {}
    for handle, symbol in dict.fromkeys((launch.kernel, launch.symbol) for launch in launches):
        codes[handle] = Code(cut(_core.emulated_ptx(handle), symbol))
    if not codes:
        raise ValueError(f"{work.label} launches no kernels, so nothing can be changed")
    probes = {handle: loaded(code.probe, code) for handle, code in codes.items()}
    _, launches, counts = _run(work, probes, {})
    if {launch.kernel for launch in launches} != codes.keys():
        raise ValueError(f"{work.label} must launch the same kernels in each call")
    own = {h: [each for each in launches if each.kernel == h] for h in codes}
    found = enumerate(codes.items())
    return result, [Subject(code, own[h], counts[h], i) for i, (h, code) in found]


def loaded(text: str, code: Code) -> _core.CudaKernel:
    """Load a module on the emulator."""
    return _core.CudaModule((code.header + text).encode(), "emulator").kernel(code.kernel.name)


def proved(
    work: EmulatedWork, experiment: Experiment, plans: list[Plan], expected: Any
) -> list[Counts]:
    """Run both forms; return the counts of each plan with the switch on.

    `expected` is the result of the original kernels. Refused is raised if the result or a count
    with the switch off differs, or if the switch changes a count that it must not change.
    """
    kernels, constants = {}, dict[bool, dict[int, _Constants]]({False: {}, True: {}})
    for plan in plans:
        handle = plan.subject.launches[0].kernel
        kernels[handle] = loaded(plan.writer.text(), plan.subject.code)
        for on in constants:
            constants[on][handle] = partial(plan.constants, on=on)
    switched = not experiment.dose  # a dose has no switch
    result, _, counts = _run(work, kernels, constants[not switched])
    if not same_results(result, expected):
        words = "the switch off" if switched else "more instructions"
        raise Refused(f"with {words}, the result differs from the original one")
    for plan in plans if switched else ():
        before, after = plan.subject.counts, counts.get(plan.subject.launches[0].kernel, Counter())
        if differing := changed(before, after):
            raise Refused(f"with the switch off, counts differ: {sorted(differing)[:3]}")
    try:
        if switched:
            _, _, counts = _run(work, kernels, constants[True], discard=True)
    except (_core.KernelError, _core.Unavailable) as error:
        raise Refused(f"with the switch on, the kernel fails: {error}") from error
    for plan in plans:
        after = counts.get(plan.subject.launches[0].kernel, Counter())
        if wrong := changed_counts(experiment, plan, plan.subject.counts, after):
            key, (old, new) = next(iter(sorted(wrong.items())))
            raise Refused(f"it also changes {' '.join(filter(None, key[1:]))}: {old} to {new}")
    return [counts.get(plan.subject.launches[0].kernel, Counter()) for plan in plans]


def same_results(result: Any, expected: Any) -> bool:
    """Compare results bit by bit; ceilings have no result."""
    if expected is None:
        return result is None
    pairs = zip(as_tuple(result), as_tuple(expected), strict=True)
    return all(same_bytes(a, b) for a, b in pairs)


def _run(
    work: EmulatedWork,
    kernels: Mapping[int, _core.CudaKernel],
    constants: Mapping[int, _Constants],
    *,
    discard: bool = False,
) -> tuple[Any, list[Launch], dict[int, Counts]]:
    """Run other kernels: the result, the launches, and the counts by handle."""
    launches: list[Launch] = []
    results: list[Any] = []

    def observe(*launch: Any) -> None:
        launches.append(Launch.observed(*launch))
        if launches[-1].kernel in constants:
            values = constants[launches[-1].kernel](launches[-1])
            kernels[launches[-1].kernel].write(CONSTANTS, values)

    def run() -> None:
        results.append(work.run() if discard else work.computed())

    handles: dict[Any, Any] = {handle: kernel.handle for handle, kernel in kernels.items()}
    try:
        with _core.Substitution(handles, observe):
            counted = _core.emulated_counts(run)
    finally:
        work.forget()
    found: dict[int, Counts] = {}
    for launch, (_, counts) in zip(launches, counted, strict=True):
        found.setdefault(launch.kernel, Counter()).update(_flat(counts))
    return results[0], launches, found


def _flat(counts: Mapping[str, Any]) -> Counts:
    """The counts of a launch, by line, kind and field."""
    found: Counts = Counter({TOTAL: counts["instructions"]})
    for line in counts["lines"]:
        if line["file"] == ARITHMETIC:
            kind = list(KINDS)[line["line"] - 1]
            found[0, "arithmetic", kind] += line["instructions"]
            found[0, "lanes", kind] += line["lanes"]
    lines = [line for line in counts["lines"] if line["file"] == FILE]
    for number, entry in [(0, counts), *((line["line"], line) for line in lines)]:
        for kind, value in entry.items():
            if isinstance(value, dict) and kind not in _OWN:
                found.update({(number, kind, field): n for field, n in value.items()})
            elif not number and isinstance(value, int) and kind not in _OWN:
                found[0, kind, ""] = value
    return found
