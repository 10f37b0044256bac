"""Settings of the process: the default device, the instruction set and the number of threads.

Also whether its streams are terminals.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterable, Mapping
from itertools import compress
from numbers import Real
from typing import Any, SupportsIndex

from adokernels import _core
from adokernels.text import require

#: All checks of the emulator that correct kernels pass.
ALL_CHECKS = ("memcheck", "racecheck", "global_racecheck", "initcheck", "synccheck")
_CHECKS = (*ALL_CHECKS[1:], "shared_initcheck")


class Settings:
    """Settings of the process; an attribute is read or assigned.

    The environment variables ``ADOKERNELS_DEVICE``, ``ADOKERNELS_ISA`` and
    ``ADOKERNELS_NUM_THREADS`` set their values when the package is imported.
    """

    @property
    def device(self) -> str:
        """The device of calls with host operands.

        It is ``"cpu"``, ``"cuda"``, ``"cuda:1"`` or ``"emulator"``.

        Raises
        ------
        ValueError
            If there is no such device.
        Unavailable
            If the device cannot be used; the message contains the reason.
        """
        return _core.device()

    @device.setter
    def device(self, name: str) -> None:
        require(str, "a str", device=name)
        _core.set_device(name)

    @property
    def isa(self) -> str:
        """The instruction set of CPU variants: ``"baseline"``, ``"avx2"`` or ``"avx512"``.

        Raises
        ------
        ValueError
            If the name is unknown, or the processor does not support the instruction set.
        """
        return _core.isa()

    @isa.setter
    def isa(self, name: str) -> None:
        require(str, "a str", isa=name)
        _core.set_isa(name)

    @property
    def threads(self) -> int:
        """The number of threads that CPU variants use on large problems, at least 1.

        Raises
        ------
        ValueError
            If the number is less than 1.
        """
        return _core.max_threads()

    @threads.setter
    def threads(self, count: int) -> None:
        require(SupportsIndex, "an integer", threads=count)
        _core.set_max_threads(count)

    @property
    def emulator_checks(self) -> tuple[str, ...]:
        """The checks of kernels on the emulator, with the names of compute-sanitizer's tools.

        ``"memcheck"`` (accesses out of bounds or misaligned) is always on. ``"racecheck"`` finds
        races in shared memory, ``"global_racecheck"`` races in global memory between blocks,
        ``"initcheck"`` reads of global memory that has not been written, and ``"synccheck"``
        barriers and warp functions that not all threads reach.
        ``"shared_initcheck"`` finds reads of shared memory that has not been written, also in
        kernels that ignore the value.

        Raises
        ------
        ValueError
            If a name is unknown.
        """
        return ("memcheck", *compress(_CHECKS, _core.emulator_checks()))

    @emulator_checks.setter
    def emulator_checks(self, names: Iterable[str]) -> None:
        require(Iterable, "names of checks", emulator_checks=names)
        chosen = {names} if isinstance(names, str) else set(names)
        for name in chosen - {*ALL_CHECKS, *_CHECKS}:
            hint = _core.suggest(str(name), ["memcheck", *_CHECKS])
            raise ValueError(f"emulator_checks must be names of checks, got {name!r}{hint}")
        race, global_race, initialised, synchronised, shared = (c in chosen for c in _CHECKS)
        _core.set_emulator_checks(
            race=race,
            global_race=global_race,
            initialised=initialised,
            synchronised=synchronised,
            shared_initialised=shared,
        )

    @property
    def emulated_gpu(self) -> str | Mapping[str, str | float]:
        """The GPU that ``device="emulator"`` emulates.

        ``"H200"`` (default), ``"H100"``, ``"A100"``, ``"A10"``, ``"L4"``, ``"T4"``, ``"RTX 4090"``
        or ``"RTX 5090"``. A mapping gives some of its properties other values, for example
        ``{"name": "A100", "multiprocessors": 42}``. Properties have the names of a record's
        ``context["cuda"]``; ``compute``, the compute capability times ten, also sets the limits of
        a multiprocessor. Code compiled for compute capability 9.0 is executed; own kernels are
        compiled for the capability of an older GPU.

        Raises
        ------
        ValueError
            If the GPU or a property is unknown, or a value is less than 1 or not a whole number
            (clocks may be fractions).
        """
        name, changes = _core.emulated_gpu()
        values = {key: int(x) if x.is_integer() else x for key, x in changes.items()}
        return {"name": name, **values} if values else name

    @emulated_gpu.setter
    def emulated_gpu(self, gpu: str | Mapping[str, str | float]) -> None:
        require((str, Mapping), "a str or a mapping", emulated_gpu=gpu)
        given = {"name": gpu} if isinstance(gpu, str) else gpu
        changes: dict[str, Any] = {str(key): value for key, value in given.items()}
        name = changes.pop("name", "H200")
        require(str, "a str", name=name)
        require(Real, "a number", **changes)
        _core.set_emulated_gpu(name, {key: float(value) for key, value in changes.items()})

    def __setattr__(self, name: str, value: object) -> None:
        if not hasattr(type(self), name):
            known = ["device", "isa", "threads", "emulator_checks", "emulated_gpu"]
            raise AttributeError(f"settings has no {name!r}{_core.suggest(name, known)}")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"device={self.device!r}, isa={self.isa!r}, threads={self.threads}"


#: The settings of this process.
settings = Settings()


def is_terminal(stream: Any) -> bool:
    """Whether a stream such as `sys.stdout` is a terminal.

    It may be None, as in a program without a console, closed, or an object without `isatty`.
    """
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def is_installed(module: str) -> bool:
    """Whether a module belongs to Python, to this package or to another installed package."""
    if module.partition(".")[0] in (*sys.stdlib_module_names, __package__):
        return True
    file = getattr(sys.modules.get(module), "__file__", None) or ""
    return file.startswith(tuple(map(sysconfig.get_path, ("purelib", "platlib"))))
