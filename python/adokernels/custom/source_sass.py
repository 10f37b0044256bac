"""Machine code of variants in CUDA C++ source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adokernels import _core
from adokernels.custom.values import host_operands, is_array
from adokernels.machine_code.cubin import kernels_in
from adokernels.machine_code.disassembly import LaunchedKernel, sass_of
from adokernels.measuring.hotspot_sources import Sources
from adokernels.records.sass import Sass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adokernels.custom.cuda_source import CudaVariant
    from adokernels.ladders.base import Block


def sass_of_source(
    variant: CudaVariant,
    args: Sequence[Any],
    block: Block,
    arch: str | None,
    options: Mapping[str, Any],
) -> Sass:
    """Compile and disassemble the kernel of a variant; see :meth:`CudaVariant.sass`."""
    arrays = [operand for operand in host_operands(args) if is_array(operand)]
    if not arrays:
        raise TypeError(f"{variant.label} must have an array as operand, got {len(args)} operands")
    code = variant.compiled(arrays[0].dtype.name, arch)
    most = None
    if arch is None and variant.owner and not _core.why_no_cuda():
        most = variant.resources(*args, block=block, **options)[0].most_registers
    (kernel,) = (k for k in kernels_in(code.code) if k.symbol == code.symbol)
    found = sass_of(
        code.code,
        kernel,
        LaunchedKernel(_core.kernel_name(code.symbol), block, most),
        Sources(texts={variant.file: variant.text}).path_of,
    )
    routine = variant.owner.name if variant.owner else ""
    return Sass(routine=routine, variant=variant.name, arch=code.arch, kernels=(found,))
