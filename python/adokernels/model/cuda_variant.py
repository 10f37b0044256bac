"""Kernels in CUDA C++ source as variants. The source is compiled at its first use."""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import math
import operator
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from adokernels import _core
from adokernels.kernels.captured import Allocation, CapturedLaunch
from adokernels.kernels.emulated import LATEST_COMPUTE
from adokernels.kernels.launch import LaunchPlan
from adokernels.machine_code import kernels_in, sass_of
from adokernels.model.arguments import ArgumentError, Parameter, packed
from adokernels.model.binary import Given, given_source, is_ptx, loaded, with_type
from adokernels.model.compiler import CompiledKernel, compile_cuda
from adokernels.model.guarded import GuardedArray
from adokernels.model.ladder import Variant, suggesting
from adokernels.model.libraries import DeviceView
from adokernels.model.own_variant import OwnCall, OwnVariant
from adokernels.model.problem import Block, Problem
from adokernels.model.source import Source, SourcePart, given_path
from adokernels.model.values import host_operands, is_array
from adokernels.records.sass import Sass
from adokernels.text import require

#: C++ names of element types, which replace "{T}" in the name of a kernel.
_C_TYPES = {
    **{"int8": "signed char", "int16": "short", "int32": "int", "int64": "long long"},
    **{"uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned"},
    **{"uint64": "unsigned long long"},
    **{"float16": "__half", "float32": "float", "float64": "double", "bool": "bool"},
    **{"complex64": "float2", "complex128": "double2"},
}
#: Addresses that stand for the memory of a stored launch: no address and hardly any number.
_FIRST_ADDRESS, _DISTANCE = 0xA5 << 48, 256


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CudaVariant(OwnVariant):
    """A kernel in CUDA C++ source as a variant; :func:`cuda_variant` describes its attributes.

    Either `text` (CUDA C++ or PTX) or `binary` (a cubin or a fat binary) is empty.
    """

    text: str
    kernel: str
    blocks: tuple[Block, ...]
    tile: Block | None = None
    grid: Block | Callable[..., Any] | None = None
    shared_bytes: int | Callable[..., int] = 0
    parameters: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    arguments: Callable[..., Sequence[Any]] | None = None
    compiler_options: tuple[str, ...] = ()
    file: str = "kernel.cu"
    trusted: bool = False
    binary: bytes = b""
    zero: bool = False
    then: tuple[CudaVariant, ...] = ()

    device: str = "cuda"

    @property
    def is_compiled(self) -> bool:
        """Whether it is PTX or machine code."""
        return bool(self.binary) or is_ptx(self.text)

    @property
    def default_parameters(self) -> dict[str, Any]:
        """The first value of each parameter."""
        return {name: values[0] for name, values in self.parameters.items()}

    def settings(self) -> list[tuple[dict[str, Any], Variant]]:
        """The combinations of parameter values, each with a variant that has only these values."""
        if not self.parameters:
            return [({}, self)]
        found: list[tuple[dict[str, Any], Variant]] = []
        for values in itertools.product(*self.parameters.values()):
            chosen = dict(zip(self.parameters, values, strict=True))
            words = ", ".join(f"{name}={value}" for name, value in chosen.items())
            fixed = {name: (value,) for name, value in chosen.items()}
            name = f"{self.name} ({words})"
            found.append((chosen, dataclasses.replace(self, name=name, parameters=fixed)))
        return found

    def with_default(self, block: Block, parameters: Mapping[str, Any]) -> CudaVariant:
        """Return the variant with this block shape and these parameter values as defaults."""
        if block not in self.blocks:
            raise ValueError(f"block must be one of {self.blocks}, got {block}")
        values = dict(self.parameters)
        for name, value in parameters.items():
            if value not in values.get(name, ()):
                raise ValueError(f"{self.label} has no parameter {name} with the value {value!r}")
            values[name] = (value, *(v for v in values[name] if v != value))
        blocks = (block, *(b for b in self.blocks if b != block))
        return dataclasses.replace(self, blocks=blocks, parameters=values)

    def compiled(self, element: str, arch: str | None = None) -> CompiledKernel:
        """Compile the kernel for an element type, by its NumPy name, and the default parameters.

        A kernel that was compiled elsewhere is loaded.
        """
        if self.is_compiled:
            return loaded(Given(self.text, self.binary), self.kernel, self.file, arch)
        values = {"T": _C_TYPES.get(element, element), **self.default_parameters}
        options = [_filled(option, values) for option in self.compiler_options]
        about: dict[str, Any] = {"file": self.file, "options": options, "trusted": self.trusted}
        about["run"] = self.isolation and self.isolation.compiled
        return compile_cuda(self.text, _filled(self.kernel, values), arch=arch, **about)

    def prepare(self, problem: Problem, block: Block | None = None) -> OwnCall:
        """Compile and load the kernel, and pack its arguments."""
        call: OwnCall = KernelCall(self, problem, self._shape(block))
        return self.isolation.call(self, problem, call) if self.isolation else call

    def source_launch(
        self, args: Sequence[Any], options: Mapping[str, Any], block: Block | None
    ) -> CapturedLaunch:
        """The launch of the kernel, with copies of the operands."""
        if self.then:
            raise ValueError(f"{self.label} must launch one kernel, got {1 + len(self.then)}")
        problem = self.ladder.problem(*args, variant=self.name, **options)
        return KernelCall(self, problem, self._shape(block)).captured()

    def _shape(self, block: Block | None) -> Block:
        return self.blocks[0] if block is None else _extent("block", block)

    def sass(
        self, *args: Any, block: Block | None = None, arch: str | None = None, **options: Any
    ) -> Sass:
        """The machine code of its kernel; needs no GPU. See :meth:`Variant.sass`.

        The first array determines the element type. The default of `arch` is the current GPU, else
        ``"sm_90"``. The registers left unused are known only for the current GPU. CompilationError
        is raised if the source does not compile.
        """
        arrays = [operand for operand in host_operands(args) if is_array(operand)]
        if not arrays:
            raise TypeError(f"{self.label} must have an array as operand, got {len(args)} operands")
        if is_ptx(self.text):
            raise ValueError(f"{self.label} must be CUDA C++ or machine code, got PTX")
        code, shape = self.compiled(arrays[0].dtype.name, arch), self._shape(block)
        most = None
        if arch is None and self.owner and not _core.why_no_cuda():
            most = self.resources(*args, block=shape, **options)[0].most_registers
        (kernel,) = (k for k in kernels_in(code.code) if k.symbol == code.symbol)
        name, path_of = _core.kernel_name(code.symbol), partial(given_path, names=[self.file])
        found = sass_of(code.code, kernel, name, shape, most, path_of)
        routine = self.owner.name if self.owner else ""
        return Sass(routine=routine, variant=self.name, arch=code.arch, kernels=(found,))

    @property
    def source(self) -> Source:
        """The source code, unchanged."""
        texts = {each.file: (each.kernel, each.text) for each in (*reversed(self.then), self)}
        return Source(
            tuple(
                SourcePart(name=kernel, path=file, line=1, text=text, variant=self.label)
                for file, (kernel, text) in reversed(texts.items())
            )
        )


class KernelCall(OwnCall):
    """Loaded kernels with their launch configurations and packed arguments.

    `modules` are the modules of the call by their code: kernels of one source share its variables.
    """

    block: Block
    grid: Block

    def __init__(
        self,
        variant: CudaVariant,
        problem: Problem,
        block: Block,
        modules: dict[bytes, _core.CudaModule] | None = None,
    ) -> None:
        super().__init__(variant, problem)
        self._modules = {} if modules is None else modules
        operands, results = problem.packed_operands(), problem.guarded_results
        arrays = [o for o in (*operands, *results) if isinstance(o, GuardedArray)]
        self._emulated = problem.device_id == "emulator"
        arch = None
        if self._emulated:
            compute = _core.cuda_properties("emulator")["compute"]
            arch = f"compute_{min(compute, LATEST_COMPUTE)}"
        self.compiled = variant.compiled(arrays[0].dtype.name, arch)
        settings = {"block": block, **variant.default_parameters, **problem.options}
        #: The arrays of the problem, and arrays on the host that only `arguments` returns.
        self._held: list[Any] = [array.memory for array in arrays]
        self._sizes = [array.nbytes for array in arrays]
        held = iter(self._held)
        values = [next(held) if isinstance(o, GuardedArray) else o for o in operands]
        views = list(held)
        lengths = problem.task.lengths_of(problem.host_arguments)
        covered = (results[0].shape, lengths)
        self.block, self.grid = block, _grid_of(variant, block, values, settings, *covered)
        shared = _evaluated(variant.shared_bytes, values, settings)
        if variant.arguments is None:
            given = [*values, *views, *lengths.values()]
            names = [*problem.names, *(f"result {i + 1}" for i in range(len(views))), *lengths]
        else:
            given = list(_evaluated(variant.arguments, [*values, *views], settings))
            names = [f"argument {i + 1}" for i in range(len(given))]
        parameters: Sequence[Parameter] = self.compiled.parameters
        if len(own := _parameter_names(variant.text, variant.kernel)) == len(given):
            names = own
        if len(parameters) != len(given):
            raise ValueError(
                f"{variant.label}: kernel {self.compiled.kernel} must have {len(given)} parameters "
                f"({', '.join(names)}), got {len(parameters)}"
            )
        names_of = {id(value): name for name, value in reversed([*zip(names, given, strict=True)])}
        places = {id(view): i for i, view in enumerate(self._held)}
        for name, value in zip(names, given, strict=True):
            if not (isinstance(value, np.ndarray) and value.ndim):
                continue
            if not self._emulated:
                raise ArgumentError(f"{name} must be an array on the GPU, got a NumPy array")
            if id(value) not in places and not variant.isolation:
                places[id(value)] = len(self._held)
                self._held.append(value)
        if variant.is_compiled:
            parameters = list(map(with_type, parameters, given))
        is_result = {id(view) for view in views}
        known = [
            packed(name, i, value, parameter, is_result=id(value) in is_result)
            for i, (name, value, parameter) in enumerate(
                zip(names, given, parameters, strict=True), 1
            )
        ]
        self._plan = LaunchPlan(
            code=self.compiled.code,
            symbol=self.compiled.symbol,
            grid=self.grid,
            block=block,
            shared_bytes=int(shared),
            arguments=[places.get(id(v), k) for v, k in zip(given, known, strict=True)],
            names=[names_of.get(id(v), f"array {i + 1}") for i, v in enumerate(self._held)],
            zeroed=[places[id(view)] for view in views] if variant.zero else [],
        )
        member = {"owner": variant.owner, "isolation": variant.isolation}
        further = (dataclasses.replace(each, **member) for each in variant.then)
        self._then = [KernelCall(v, problem, v.blocks[0], self._modules) for v in further]
        if not (self._emulated and variant.isolation):  # otherwise, the child decodes the code
            self._launch  # noqa: B018

    @property
    def plans(self) -> list[LaunchPlan]:
        """The launches in order, for another process."""
        return [self._plan, *(plan for call in self._then for plan in call.plans)]

    @cached_property
    def _kernel(self) -> _core.CudaKernel:
        device, code = self.problem.device_id if self._emulated else None, self.compiled.code
        if code not in self._modules:
            self._modules[code] = _core.CudaModule(code, device)
        return self._modules[code].kernel(self.compiled.symbol)

    @cached_property
    def _launch(self) -> _core.KernelLaunch:
        addresses = [
            0 if self._emulated else view.__cuda_array_interface__["data"][0] for view in self._held
        ]
        return self._plan.launch(self._kernel, addresses, self._sizes)

    def run(self) -> None:
        """Launch the kernels on the legacy default stream, or execute them on the emulator."""
        if self._emulated:
            self._emulate()
        else:
            self._launch.run(0)
        for call in self._then:
            call.run()

    def _emulate(self) -> None:
        copies = [_core.to_device(array, "emulator") for array in self._held]
        addresses = list(map(_core.emulated_address, copies, self._plan.names))
        self._plan.launch(self._kernel, addresses, self._sizes).run(0)
        for array, copy in zip(self._held, copies, strict=True):
            array[...] = copy.numpy()

    def kernels(self) -> Sequence[_core.KernelInfo]:
        """The kernels that it launches."""
        return [self._launch.info(), *(info for call in self._then for info in call.kernels())]

    def captured(self) -> CapturedLaunch:
        """The launch with copies of the operands, which another process can repeat."""
        operands = (o for o in self.problem.packed_operands() if isinstance(o, GuardedArray))
        contents = [array.read().tobytes() for array in operands]
        contents += [bytes(array.nbytes) for array in self.problem.guarded_results]
        at, allocations = _FIRST_ADDRESS, list[Allocation]()
        for content in contents:
            allocations.append(Allocation(at, content, None))
            at += (len(content) // _DISTANCE + 2) * _DISTANCE
        return CapturedLaunch(
            symbol=self._plan.symbol,
            grid=self.grid,
            block=self.block,
            shared_bytes=self._plan.shared_bytes,
            arguments=tuple(self._plan.values([each.address for each in allocations])),
            allocations=tuple(allocations),
            cubin=self._plan.code,
            arch=self.compiled.arch,
            sources={self.compiled.file: self.compiled.source},
        )


def _parameter_names(source: str, kernel: str) -> list[str]:
    """The names of a kernel's parameters in its source; empty if they cannot be found."""
    source = re.sub(r"//.*|/\*.*?\*/", " ", source)
    name = re.escape(kernel.partition("<")[0].rpartition("::")[2])
    found = re.search(rf"__global__[^;{{}}]*\b{name}\s*\(([^(){{}}]*)\)\s*{{", source)
    ends = (re.search(r"(\w+)\s*$", one) for one in found[1].split(",")) if found else ()
    return [end[1] for end in ends if end]


def _filled(text: str, values: Mapping[str, Any]) -> str:
    """Replace each "{name}" with its value; other braces do not change."""
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def _evaluated(
    value: Any, operands: Sequence[DeviceView | Any], settings: Mapping[str, Any]
) -> Any:
    """A value, or the result of a function of the operands and of the settings that it accepts."""
    if not callable(value):
        return value
    accepted = inspect.signature(value).parameters
    return value(*operands, **{k: v for k, v in settings.items() if k in accepted})


def _grid_of(
    variant: CudaVariant,
    block: Block,
    operands: Sequence[Any],
    settings: Mapping[str, Any],
    result: tuple[int, ...],
    lengths: Mapping[str, int],
) -> Block:
    """The grid of a launch, x first; by default, it covers the result."""
    if variant.grid is not None:
        grid = _evaluated(variant.grid, operands, settings)
        numbers = grid if isinstance(grid, tuple | list) else (grid,)
        try:
            return tuple(map(operator.index, numbers))
        except TypeError:
            hint = "round up, for example with -(-n // 256)"
            raise TypeError(f"grid must be integers, got {grid!r}: {hint}") from None
    tile = variant.tile or block
    covered: Block = (*reversed(result), 1, 1)
    if len(tile) == 1:
        covered = (math.prod(result),)
    elif {"rows", "cols"} <= lengths.keys():
        covered = (lengths["cols"], lengths["rows"], 1)
    return tuple(max(1, math.ceil(n / t)) for n, t in zip(covered, tile, strict=False))


@suggesting
def cuda_variant(
    name: str,
    *,
    source: Any,
    kernel: str | None = None,
    block: int | Block | Sequence[int | Block],
    grid: int | Block | Callable[..., Any] | None = None,
    tile: int | Block | None = None,
    shared_bytes: int | Callable[..., int] = 0,
    parameters: Mapping[str, Sequence[Any]] | None = None,
    arguments: Callable[..., Sequence[Any]] | None = None,
    compiler_options: Sequence[str] = (),
    file: str | None = None,
    trusted: bool = False,
    zero: bool = False,
    then: Sequence[CudaVariant] = (),
    changes: str = "",
    steps: Sequence[str] | None = None,
    flops: float | Callable[..., float] | None = None,
    bytes: float | Callable[..., float] | None = None,
    refuses: Callable[..., str | None] | None = None,
) -> CudaVariant:
    """Make a variant from a kernel in CUDA C++ source, PTX or machine code, for use in ladders.

    The kernel's parameters must be the operands in order (pointers for arrays, scalars by value),
    then one pointer per result, then the lengths as integers. The lengths are named in the ladder's
    signature or the routine; without names, they are the lengths of the first array. Arrays are
    packed and row-major. `arguments` replaces these rules.

    Parameters
    ----------
    name
        The name of the variant, unique within the ladder.
    source
        CUDA C++ code or PTX, as text; a cubin or a fat binary, as bytes; the path of a file with
        one of them; or an object with a source: ``cupy.RawKernel``, ``cupy.RawModule`` or
        ``cuda.core.ObjectCode``. The emulator executes CUDA C++, PTX, and the PTX in fat binaries.
        A GPU executes CUDA C++ and machine code.
    kernel
        The kernel's name or template-id, for example ``"saxpy<float>"``. ``{T}`` stands for the C++
        type of the first array, and the name of a parameter in braces for its value. In PTX and
        machine code, the name can be mangled. Default: the name that the object states, else
        `name`, else the only kernel.
    block
        The number of threads, or the block shape as a tuple with x first; or a list of numbers and
        shapes with the default first.
    grid
        The grid, or a function of the operands that returns it. Default: enough blocks to cover the
        result, or the routine's rows and columns, if it has them. The functions `grid`,
        `shared_bytes` and `arguments` receive ``block``, the parameters and the options as keywords
        if they have parameters with these names.
    tile
        The elements that a block computes. Default: one per thread.
    shared_bytes
        Dynamic shared memory per block, or a function of the operands.
    parameters
        Template parameters or macros with their values, the default first. ``ado.tune`` times all
        values.
    arguments
        A function of operands and results that returns the kernel's arguments: arrays and numbers.
        Numbers are converted to the types of the parameters by NumPy's rule 'same_kind': an integer
        becomes a floating-point number, but not the reverse. Arrays must have the type to which the
        parameter points; integers may differ in their sign.
    compiler_options
        Further compiler options, for example ``"-DTILE={TILE}"``.
    file
        The name of the source in messages and profiles. Default: the path of the file, else
        ``"kernel.cu"`` or ``"kernel.ptx"``.
    trusted
        Whether the source may include any file, and whether any option of ptxas is accepted. By
        default, paths of included files are literal, relative and without ``..``. Set it only for
        your own source: the messages of the compiler can show what a file contains.
    zero
        Whether the results are set to 0 before the kernel, for kernels that add to them, for
        example a histogram. The time of the variant contains this.
    then
        Kernels that run after this one on the same operands and results, each made by this
        function. Kernels from one source share its ``__device__`` variables.
    changes
        The difference from the previous variant, in one sentence.
    steps, flops, bytes, refuses
        See :func:`adokernels.variant`.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or value. Errors of the source are raised at its first
        use.
    """
    found = given_source(source)
    if file is None:
        is_file = isinstance(source, os.PathLike)
        is_source = not found.binary and not is_ptx(found.text)
        file = str(source) if is_file else "kernel.cu" if is_source else "kernel.ptx"
    words = "a mapping from names to values"
    require((Mapping, type(None)), words, parameters=parameters)
    for each in then:
        require(CudaVariant, "variants made by ado.cuda_variant", then=each)
    given: Sequence[Any] = block if isinstance(block, list | tuple) else [block]
    listed = isinstance(block, list) or any(isinstance(b, list | tuple) for b in given)
    shapes = given if given and listed else [block]
    several = {key: tuple(values) for key, values in (parameters or {}).items()}
    for key, values in several.items():
        if not values:
            raise ValueError(
                f"parameters must have at least one value each, got no value for {key}"
            )
    return CudaVariant(
        name=name,
        text=found.text,
        binary=found.binary,
        kernel=kernel or found.kernel or name,
        blocks=tuple(_extent("block", shape) for shape in shapes),
        tile=None if tile is None else _extent("tile", tile),
        grid=grid if grid is None or callable(grid) else _extent("grid", grid),
        shared_bytes=shared_bytes,
        parameters=several,
        arguments=arguments,
        compiler_options=(*found.options, *compiler_options),
        file=file,
        trusted=trusted,
        zero=zero,
        then=tuple(then),
        changes=changes,
        steps=None if steps is None else tuple(steps),
        flops=flops,
        bytes=bytes,
        refuses=refuses,
    )


def _extent(what: str, value: Any) -> Block:
    lengths = tuple(value) if isinstance(value, tuple | list) else (value,)
    if not 1 <= len(lengths) <= 3 or not all(
        isinstance(n, int | np.integer) and not isinstance(n, bool) and n > 0 for n in lengths
    ):
        raise ValueError(f"{what} must be 1 to 3 positive integers, got {value!r}")
    return tuple(int(n) for n in lengths)
