"""Times of rewritten kernels on a GPU: each form with the switch off and on, interleaved."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adokernels import _core
from adokernels.measuring.progress import ProgressDisplay
from adokernels.measuring.sampling import Sample, Sampler, Timing
from adokernels.model.problem import Call
from adokernels.records.contention import judge
from adokernels.records.what_if import Trial
from adokernels.whatif.emulation import same_results
from adokernels.whatif.experiments import Launch, Plan, Refused, Subject
from adokernels.whatif.machine_proof import Assembled, form_of

#: The error probability of all intervals of one table together.
_ERROR = 0.001


@dataclass(frozen=True)
class GpuWork:
    """Launches of kernels on a GPU, which can be repeated.

    `computed` returns copies of the results, and `sample` takes one timed sample.
    """

    device: str
    computed: Callable[[], Any]
    sample: Callable[[bool, int], Sample]
    between: Callable[[], None] | None = None

    @classmethod
    def of_call(cls, call: Call) -> GpuWork:
        """A call of a variant."""
        problem = call.problem

        def computed() -> Any:
            problem.forget()  # a rewritten kernel may have changed the memory
            return call.computed(problem.values)

        return cls(problem.device_id, computed, call.sample, call.between_samples)


@dataclass
class Recording:
    """The launches of a function on the emulator, with the memory before each launch.

    The values of the parameters contain addresses of the emulator. The keys of `contents` are the
    number of the launch and the address.
    """

    launches: list[tuple[Launch, bytes]] = field(default_factory=list)
    contents: dict[tuple[int, int], NDArray[np.uint8]] = field(default_factory=dict)

    @classmethod
    def of(cls, function: Callable[[], Any]) -> Recording:
        """Call a function that launches kernels on the emulator."""
        recording = cls()

        def observe(*launch: Any) -> None:
            seen, number = Launch.observed(*launch), len(recording.launches)
            recording.launches.append((seen, launch[-1]))
            for first, size in seen.memory.values():
                memory: Any = (ctypes.c_uint8 * size).from_address(first)
                recording.contents[number, first] = np.frombuffer(memory, np.uint8).copy()

        with _core.Substitution({}, observe):
            function()
        return recording

    def on_gpu(
        self, subjects: Sequence[Subject], modules: Sequence[Assembled], device: str
    ) -> GpuWork:
        """The same launches on a GPU, each with its own copy of the memory.

        `subjects` and `modules` are the kernels in the order of their first launches.
        """
        copies = {key: _core.to_device(memory, device) for key, memory in self.contents.items()}
        numbers = {h: i for i, h in enumerate(dict.fromkeys(s.kernel for s, _ in self.launches))}
        launches = []
        for number, (launch, parameters) in enumerate(self.launches):
            values = bytearray(parameters)
            for offset, (first, _) in launch.memory.items():
                place: int = copies[number, first].__cuda_array_interface__["data"][0]
                word = int.from_bytes(values[offset : offset + 8], "little") - first + place
                values[offset : offset + 8] = word.to_bytes(8, "little")
            kernel = numbers[launch.kernel]
            given = subjects[kernel].code.kernel.parameters.values()
            arguments = [bytes(values[p.offset : p.offset + p.bytes]) for p in given]
            loaded = modules[kernel].kernel("", device)
            launches.append(
                loaded.launch(launch.grid, launch.block, launch.shared_bytes, arguments)
            )

        def run() -> None:
            for launch in launches:
                launch.run(0)

        def computed() -> Any:
            for key, copy in copies.items():
                copy.copy_from(self.contents[key])
            run()
            return tuple(copy.numpy() for copy in copies.values())

        return GpuWork(device, computed, lambda cold, n: _core.sample(run, device, cold, n, 0))


@dataclass(frozen=True)
class Form:
    """One form of all kernels. The keys of `kernels` are the handles of the original kernels.

    `constants` are the kernels that have a switch, its variable, and the values for off and on.
    """

    kernels: Mapping[int, _core.CudaKernel]
    constants: Sequence[tuple[_core.CudaKernel, str, Mapping[bool, bytes]]] = ()

    @contextmanager
    def running(self, on: bool) -> Iterator[None]:
        """Make launches of this thread run this form."""
        for kernel, name, values in self.constants:
            kernel.write(name, values[on])
        with _core.Substitution({h: kernel.handle for h, kernel in self.kernels.items()}):
            yield

    def sampler(self, work: GpuWork, name: str, *, on: bool, cold: bool) -> Sampler:
        """Time the work in this form."""

        def take(evicted: bool, repeats: int) -> Sample:
            with self.running(on):
                return work.sample(evicted, repeats)

        first, run = (partial(take, evicted) for evicted in (cold, False))
        return Sampler(first, "cuda", name, before=work.between, run=run)


def observed(launching: Callable[[], Any]) -> list[list[Launch]]:
    """The launches of a function on a GPU, by kernel, in the order of their first launches."""
    found: dict[int, list[Launch]] = {}

    def observe(*launch: Any) -> None:
        found.setdefault(launch[0], []).append(Launch.observed(*launch))

    with _core.Substitution({}, observe):
        launching()
    return list(found.values())


def timed(
    work: GpuWork,
    modules: Sequence[Assembled],
    tried: Sequence[tuple[Trial, list[Plan]]],
    timing: Timing,
    display: ProgressDisplay,
    others: Sequence[tuple[Trial, GpuWork]] = (),
) -> tuple[float, list[Trial]]:
    """Time the proved trials; return the original time and all trials with their times.

    `modules` have the kernels in the order of their first launches. `others` are trials that
    launch the original kernels in another way. Unavailable is raised if the GPU and the emulator
    launch different kernels.
    """
    reference: list[Any] = []
    launches = observed(lambda: reference.append(work.computed()))
    symbols, expected = [kernel[0].symbol for kernel in launches], [m.symbol for m in modules]
    if symbols != expected:
        raise _core.Unavailable(
            f"the GPU launches {', '.join(symbols)}, the emulator {', '.join(expected)}"
        )
    handles = [kernel[0].kernel for kernel in launches]
    original = Form(
        {h: module.kernel("", work.device) for h, module in zip(handles, modules, strict=True)}
    )
    forms, found = dict[str, Form](), [trial for trial, _ in tried]
    for i, (trial, plans) in enumerate(tried):
        if trial.reason:
            continue
        try:
            form = _form(form_of(trial), plans, modules, launches, original, work.device)
            with form.running(on=False):
                if not same_results(work.computed(), reference[0]):
                    raise Refused("on the GPU, the result with the switch off differs")
            forms[form_of(trial)] = form
        except Refused as error:
            found[i] = replace(trial, reason=str(error))
    cold = timing.cold
    first = original.sampler(work, "original", on=False, cold=cold)
    pairs = {
        name: [form.sampler(work, name, on=on, cold=cold) for on in (False, True)]
        for name, form in forms.items()
    }
    for trial in found:
        if trial.dose and form_of(trial) in pairs:  # it has no switch
            pairs[form_of(trial)][0] = first
    usable: list[tuple[Trial, GpuWork]] = []
    for trial, other in others:
        try:
            other.computed()
            usable.append((trial, other))
        except _core.CudaError as error:  # for example, too much shared memory
            found.append(replace(trial, reason=f"the launch fails: {str(error).splitlines()[0]}"))
    if usable:
        pairs |= _as_they_are([work, *(other for _, other in usable)], usable, cold=cold)
        found += [trial for trial, _ in usable]
    samplers = list({id(s): s for s in (first, *chain(*pairs.values()))}.values())
    timing.sample(samplers, "cuda", display)
    for sampler in samplers:
        if sampler.error:
            raise sampler.error
    z = NormalDist().inv_cdf(1 - _ERROR / 2 / max(len(pairs), 1))
    for i, trial in enumerate(found):
        if form_of(trial) in pairs and not trial.reason:
            off, on = (sampler.series for sampler in pairs[form_of(trial)])
            gain = judge(on, off, paired=True, z=z)
            found[i] = replace(
                trial,
                off_seconds=off.median,
                seconds=on.median,
                interval=gain.interval,
                clear=gain.verdict.value,
                intrusion=judge(first.series, off, paired=True).ratio
                if trial.count and not trial.dose
                else 1.0,
            )
    return first.series.median, found


def _as_they_are(
    works: Sequence[GpuWork], others: Sequence[tuple[Trial, GpuWork]], *, cold: bool
) -> dict[str, list[Sampler]]:
    """Samplers without rewritten kernels, for the work and for each other work."""
    unchanged = Form({})
    own, *rest = (unchanged.sampler(work, "", on=False, cold=cold) for work in works)
    names = (form_of(trial) for trial, _ in others)
    return {name: [own, sampler] for name, sampler in zip(names, rest, strict=True)}


def _form(
    name: str,
    plans: Sequence[Plan],
    modules: Sequence[Assembled],
    launches: Sequence[Sequence[Launch]],
    original: Form,
    device: str,
) -> Form:
    """The form of an experiment. Kernels that it does not change are the original kernels."""
    kernels, constants = dict(original.kernels), []
    for plan in plans:
        module, own = modules[plan.subject.number], launches[plan.subject.number]
        off, on = (_constants(plan, own, on) for on in (False, True))
        if off == on:
            raise Refused("on the GPU, an array is too small")
        kernel = kernels[own[0].kernel] = module.kernel(name, device)
        constants.append((kernel, module.constants(name), {False: off, True: on}))
    return Form(kernels, constants)


def _constants(plan: Plan, launches: Sequence[Launch], on: bool) -> bytes:
    """The constants of all launches of a kernel."""
    found = {plan.constants(launch, on) for launch in launches}
    if len(found) > 1:
        raise Refused("launches of one kernel with different arrays or grids are not timed")
    return found.pop()
