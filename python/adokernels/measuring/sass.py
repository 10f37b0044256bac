"""Machine code of the kernels of any work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from adokernels import _core
from adokernels.kernels.captured import CapturedLaunch
from adokernels.machine_code import kernels_in, sass_of
from adokernels.measuring.capturing import captured
from adokernels.measuring.functions import require_function
from adokernels.measuring.profiling import of_kernel
from adokernels.model.ladder import Variant
from adokernels.records.sass import KernelSass, Sass


def sass(
    work: Variant | Callable[..., Any],
    *args: Any,
    block: tuple[int, ...] | None = None,
    kernel: str | None = None,
    **options: Any,
) -> Sass:
    """The machine code (SASS) of the kernels that a call launches, with source lines.

    Parameters
    ----------
    work
        A CUDA variant, a captured launch, or a function that launches kernels on a GPU, whatever
        front end compiled them. A variant and a captured launch need no GPU.
    *args, block, **options
        As in the method ``sass`` of variants.
    kernel
        The name of the kernel to show. Default: all kernels.

    Returns
    -------
    Sass
        Per kernel: instructions, loads and stores by width, registers and loops.

    Raises
    ------
    TypeError
        If `work` is neither a variant nor a function.
    ValueError
        If the call launches no kernel with the name `kernel`; for a variant, see its method.
    Unavailable
        If there is no GPU to launch the kernels, if their machine code is unknown, or if
        ``nvdisasm`` is missing.
    """
    if isinstance(work, Variant):
        found = work.sass(*args, block=block, **options)
        chosen = of_kernel(kernel, [each.name for each in found], work.label)
        return replace(found, kernels=tuple(found[i] for i in chosen))
    require_function(work, block, "work")
    launches, labels = captured(work, args, options, kernel)
    kernels = tuple(sass_of_launches(launches))
    return Sass(routine="", variant=labels["variant"], arch=launches[0].arch, kernels=kernels)


def sass_of_launches(launches: Iterable[CapturedLaunch]) -> Sequence[KernelSass]:
    """The machine code of captured launches; each pair of kernel and block shape once."""
    found = {}
    for launch in launches:
        if not launch.cubin:
            raise _core.Unavailable(
                f"the machine code of {launch.name} was loaded before ado.capture: call it in a "
                "fresh process"
            )
        if (key := (launch.symbol, launch.cubin, launch.block)) not in found:
            (kernel,) = (k for k in kernels_in(launch.cubin) if k.symbol == launch.symbol)
            about = launch.name, launch.block, None
            found[key] = sass_of(launch.cubin, kernel, *about, lambda path: path)
    return list(found.values())
