"""
The C++ core of adokernels.
"""

from __future__ import annotations
import collections.abc
import numpy
import numpy.typing
import typing

__all__: list[str] = [
    "BlockCopies",
    "BlockedStream",
    "Call",
    "Callable",
    "Cost",
    "CudaError",
    "CudaKernel",
    "CudaModule",
    "DeviceArray",
    "EmulatedModule",
    "Hardware",
    "KernelError",
    "KernelInfo",
    "KernelLaunch",
    "LineSamples",
    "OptionType",
    "Parameter",
    "PendingCopy",
    "Plan",
    "Problem",
    "Routine",
    "Sampler",
    "Samples",
    "Substitution",
    "Unavailable",
    "VariantInfo",
    "caches",
    "capture",
    "chip",
    "cores",
    "count",
    "cuda_properties",
    "device",
    "device_kind",
    "empty_pinned",
    "emulated_address",
    "emulated_counts",
    "emulated_gpu",
    "emulated_ptx",
    "emulator_checks",
    "existing_metrics",
    "fatbins",
    "forget_host_memory",
    "hardware",
    "host_capsule",
    "isa",
    "kernel_name",
    "last_level_cache_bytes",
    "mapped_parts",
    "max_threads",
    "memory_at",
    "profiler_version",
    "resolve_device",
    "routines",
    "sample",
    "set_device",
    "set_emulated_gpu",
    "set_emulated_misalignment",
    "set_emulator_checks",
    "set_isa",
    "set_max_threads",
    "stream_handle",
    "suggest",
    "supported_isa",
    "synchronize",
    "to_device",
    "use_host_memory",
    "why_no_counters",
    "why_no_cuda",
    "why_no_emulator",
    "writes_through_file",
]

class Unavailable(RuntimeError):
    """
    The variant is not in this build, there is no device, or the device is too old.
    """

class CudaError(RuntimeError):
    """
    A CUDA call failed. The message contains the call, its source location and the error.
    """

class KernelError(CudaError):
    """
    The emulator found an error in a kernel.

    Attributes
    ----------
    kernel, kind : str
        The kernel, and the kind of error, such as ``"race"``.
    file, line : str, int
        The source line.
    thread, block : tuple of int
        Indices of the thread and of its block.
    array, byte : str, int
        The operand and the byte in it; empty and 0 if unknown.
    """

class DeviceArray:
    """
    A packed, row-major array in GPU memory.

    ``to_device`` and calls with device arrays return a DeviceArray. Other libraries read it without a
    copy through DLPack (``torch.from_dlpack``, ``cupy.from_dlpack``, ``jax.dlpack.from_dlpack``) and
    through ``__cuda_array_interface__`` (Numba, ``cupy.asarray``).

    An array belongs to the stream of the call that created it. Calls on other streams wait for earlier
    work on the array by means of events. The memory is freed in the order of the array's stream. A
    library that uses the array on another stream must keep a reference to it until its work has
    finished, unless this stream synchronises with the legacy default stream.
    """
    def __array__(self, dtype: typing.Any = None, copy: typing.Any = None) -> typing.Any:
        """
        Raises TypeError: arrays are not copied to the host implicitly.
        """
    def __dlpack__(
        self,
        *,
        stream: typing.Any = None,
        max_version: tuple[
            typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex
        ]
        | None = None,
        dl_device: tuple[
            typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex
        ]
        | None = None,
        copy: bool | None = None,
    ) -> typing.Any:
        """
        Return a DLPack capsule with the array, for other libraries.
        """
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def __len__(self) -> int: ...
    def __repr__(self) -> str: ...
    def copy_from(self, array: typing.Any) -> None:
        """
        Copy the values of a NumPy array of the same shape and type to this array.
        """
    def numpy(self) -> typing.Any:
        """
        Copy to host memory, as a NumPy array.
        """
    @property
    def __cuda_array_interface__(self) -> dict: ...
    @property
    def device(self) -> str:
        """
        The GPU that holds the array, for example 'cuda:0', or 'emulator'.
        """
    @property
    def dtype(self) -> typing.Any:
        """
        The NumPy dtype. For types that NumPy lacks, it is the dtype of the package ml_dtypes, or an opaque dtype such as V2 if that package is not installed.
        """
    @property
    def nbytes(self) -> int: ...
    @property
    def ndim(self) -> int: ...
    @property
    def shape(self) -> tuple: ...
    @property
    def size(self) -> int: ...

class PendingCopy:
    """
    A copy that has begun.
    """
    def wait(self) -> None:
        """
        Wait until the copy has ended.

        The source of an upload may then be changed. Call this before other work uses the array on the
        GPU.
        """

class BlockCopies:
    """
    Copies of blocks of large arrays to and from a GPU.

    Uploads, downloads and the kernels on ``stream`` overlap with each other. Copies in one direction
    are executed one after the other. A copy waits for earlier work on the same array and on the legacy
    default stream.
    """
    def __init__(self, device: str) -> None: ...
    def close(self) -> None:
        """
        Abandon copies that have not ended. Afterwards, no host array is accessed.
        """
    def download(
        self, sink: typing.Any, from_: DeviceArray, first: typing.SupportsInt | typing.SupportsIndex
    ) -> PendingCopy:
        """
        Begin to copy elements of an array on the GPU to `sink`, starting with element `first`.
        """
    def empty(
        self,
        shape: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        dtype: numpy.dtype[typing.Any],
    ) -> DeviceArray:
        """
        Return an uninitialised array on the GPU.
        """
    def upload(self, to: DeviceArray, source: typing.Any) -> PendingCopy:
        """
        Begin to copy a NumPy array to an array on the GPU.
        """
    @property
    def stream(self) -> int:
        """
        The handle (cudaStream_t) of the stream for kernels.
        """

class Hardware:
    """
    The properties of a GPU that grids, costs and choices use.
    """
    def __init__(
        self,
        *,
        compute: typing.SupportsInt | typing.SupportsIndex = 90,
        multiprocessors: typing.SupportsInt | typing.SupportsIndex = 132,
        threads_per_multiprocessor: typing.SupportsInt | typing.SupportsIndex = 2048,
        l2_bytes: typing.SupportsInt | typing.SupportsIndex = 62914560,
        shared_bytes: typing.SupportsInt | typing.SupportsIndex = 232448,
        shared_bytes_per_multiprocessor: typing.SupportsInt | typing.SupportsIndex = 233472,
        core_hertz: typing.SupportsFloat | typing.SupportsIndex = 1980000000.0,
        memory_bandwidth: typing.SupportsFloat | typing.SupportsIndex = 4814304000000.0,
    ) -> None: ...
    def __repr__(self) -> str: ...

class VariantInfo:
    """
    The declaration of a variant.
    """
    @property
    def blocks(self) -> list[list[int]]:
        """
        The block shapes, the default first.
        """
    @property
    def ceiling(self) -> bool: ...
    @property
    def changes(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def min_compute(self) -> int: ...
    @property
    def models_flops(self) -> bool: ...
    @property
    def name(self) -> str: ...
    @property
    def precision(self) -> str: ...
    @property
    def stages(self) -> list[tuple[str, str]]: ...
    @property
    def steps(self) -> list[str] | None:
        """
        The categories of the change; None if the variant does not state them.
        """

class KernelInfo:
    """
    Resource usage of a compiled kernel.
    """
    @property
    def block(self) -> list[int]: ...
    @property
    def blocks_by_registers(self) -> int: ...
    @property
    def blocks_by_shared(self) -> int: ...
    @property
    def blocks_by_slots(self) -> int: ...
    @property
    def blocks_by_warps(self) -> int: ...
    @property
    def dynamic_shared_bytes(self) -> int: ...
    @property
    def grid(self) -> list[int]: ...
    @property
    def local_bytes(self) -> int: ...
    @property
    def max_warps(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def registers(self) -> int: ...
    @property
    def resident_warps(self) -> int: ...
    @property
    def static_shared_bytes(self) -> int: ...

class Cost:
    """
    FLOPs and bytes of one variant on one problem.
    """
    def __getstate__(self) -> typing.Annotated[list[float], "FixedSize(5)"]: ...
    def __init__(
        self,
        *,
        flops: typing.SupportsFloat | typing.SupportsIndex,
        bytes: typing.SupportsFloat | typing.SupportsIndex,
        executed_flops: typing.SupportsFloat | typing.SupportsIndex,
        requested_bytes: typing.SupportsFloat | typing.SupportsIndex,
    ) -> None: ...
    def __repr__(self) -> str: ...
    def __setstate__(
        self,
        arg0: typing.Annotated[
            collections.abc.Sequence[typing.SupportsFloat | typing.SupportsIndex], "FixedSize(5)"
        ],
    ) -> None: ...
    @property
    def bytes(self) -> float:
        """
        Compulsory bytes, the same for every variant.
        """
    @property
    def executed_flops(self) -> float:
        """
        FLOPs that the variant executes.
        """
    @property
    def executed_instructions(self) -> float:
        """
        Floating-point instructions per lane for the executed FLOPs; 0: not counted.
        """
    @property
    def flops(self) -> float:
        """
        Useful FLOPs, the same for every variant.
        """
    @property
    def requested_bytes(self) -> float:
        """
        Bytes that the variant requests from memory.
        """

class Plan:
    """
    The launch parameters and costs of a variant on given hardware.
    """
    @property
    def block(self) -> list[int]: ...
    @property
    def cost(self) -> Cost: ...
    @property
    def grid(self) -> list[int]: ...
    @property
    def scratch_bytes(self) -> int: ...
    @property
    def shared_bytes(self) -> int: ...

class OptionType:
    """
    The values that an option accepts.
    """
    @property
    def choices(self) -> list[str]: ...
    @property
    def length(self) -> int: ...
    @property
    def name(self) -> str: ...

class Parameter:
    """
    An operand or an option of a routine.
    """
    @property
    def default(self) -> typing.Any: ...
    @property
    def doc(self) -> str: ...
    @property
    def elements(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def role(self) -> str: ...
    @property
    def shape(self) -> str: ...
    @property
    def type(self) -> OptionType: ...

class Call:
    """
    A variant that is ready to run on one problem.
    """
    def kernels(self) -> list[KernelInfo]:
        """
        The kernels that the call launches; none on the CPU.
        """
    def run(self) -> None: ...
    @property
    def block(self) -> list[int]: ...
    @property
    def cost(self) -> Cost: ...
    @property
    def device(self) -> str:
        """
        'cpu' or 'cuda'.
        """
    @property
    def grid(self) -> list[int]: ...
    @property
    def shared_bytes(self) -> int: ...
    @property
    def variant(self) -> str: ...

class Problem:
    """
    Operands and options, checked and copied to the device once.
    """
    def best(self) -> str:
        """
        The variant that a call would choose.
        """
    def fill_results(self, value: typing.SupportsInt | typing.SupportsIndex) -> None:
        """
        Overwrite every byte of the results.
        """
    def prepare(
        self,
        variant: str,
        block: typing.Any = None,
        stream: typing.SupportsInt | typing.SupportsIndex = 0,
        extra_shared_bytes: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> Call:
        """
        Prepare a call. Experiments run it on the stream of a green context, or with more dynamic shared memory per block, which lowers the occupancy.
        """
    def results(self) -> typing.Any:
        """
        The results, in host memory.
        """
    def why_not(self, variant: str) -> str:
        """
        Why the variant cannot solve this problem; empty if it can.
        """
    @property
    def arguments(self) -> tuple:
        """
        The operands, in the routine's order.
        """
    @property
    def device(self) -> str:
        """
        'cpu' or 'cuda'.
        """
    @property
    def device_id(self) -> str:
        """
        'cpu', or a GPU such as 'cuda:0'.
        """
    @property
    def host_arguments(self) -> tuple:
        """
        The operands as NumPy arrays. Operands in device memory are copied.
        """
    @property
    def operands(self) -> list:
        """
        Name, shape and dtype of each operand.
        """
    @property
    def options(self) -> dict:
        """
        The options that were passed.
        """

class Routine:
    """
    A routine and its ladders.
    """
    def choose(
        self,
        arguments: tuple,
        options: dict,
        device: typing.Any = None,
        out: typing.Any = None,
        gpu: Hardware | None = None,
    ) -> tuple:
        """
        Return the variant that a call would run, and (variant, reason) of each later variant that it skips; with gpu=, for this hardware.
        """
    def cost(self, variant: str, arguments: tuple, options: dict) -> Cost: ...
    def kernels(
        self,
        variant: str,
        arguments: tuple,
        options: dict,
        block: typing.Any,
        out: typing.Any = None,
    ) -> list[KernelInfo]: ...
    def operand_types(
        self,
        lengths: collections.abc.Sequence[tuple[str, typing.SupportsInt | typing.SupportsIndex]],
        batch: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        dtype: typing.Any = None,
    ) -> list[tuple[str, tuple, str]]: ...
    def plan(
        self,
        variant: str,
        arguments: tuple,
        options: dict,
        gpu: Hardware | None = None,
        block: typing.Any = None,
        out: typing.Any = None,
    ) -> Plan:
        """
        Return the launch parameters, scratch memory and costs of a variant; with gpu=, for this hardware.
        """
    def problem(
        self,
        arguments: tuple,
        options: dict,
        device: typing.Any = None,
        variant: typing.Any = None,
        out: typing.Any = None,
    ) -> Problem:
        """
        Check operands, options and results, and copy operands to the device. Without out=, new results are allocated.
        """
    def set_default_block(self, variant: str, block: typing.Any) -> None:
        """
        Set the default block shape of a variant for the rest of the process.
        """
    def why_unavailable(self, variant: str) -> str:
        """
        Empty if the variant can run here.
        """
    @property
    def batched(self) -> bool: ...
    @property
    def dimensions(self) -> list[str]: ...
    @property
    def halo(self) -> int | None:
        """
        A result pixel depends on the pixels up to this distance along rows and columns. None if the routine is not an image filter.
        """
    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> list[Parameter]: ...
    @property
    def source(self) -> str: ...
    @property
    def summary(self) -> str: ...
    @property
    def variants(self) -> list: ...

class Callable:
    """
    Base class of routines and variants. Their calls execute no Python code, except calls with Dask arrays and labelled arrays: these call _lazy_call.
    """
    @staticmethod
    def __new__(type, *args, **kwargs):
        """
        Create and return a new object.  See help(type) for accurate signature.
        """
    def __call__(self, *args, **kwargs):
        """
        Call self as a function.
        """

class KernelLaunch:
    """
    A kernel with its launch configuration and arguments.
    """
    def info(self) -> KernelInfo:
        """
        Resource usage of the kernel.
        """
    def run(self, stream: typing.SupportsInt | typing.SupportsIndex = 0) -> None:
        """
        Enqueue the kernel on a stream, and return without waiting for it.
        """

class CudaKernel:
    """
    A kernel of a module. The module stays loaded as long as the kernel exists.
    """
    def launch(
        self,
        grid: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        block: collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex],
        shared_bytes: typing.SupportsInt | typing.SupportsIndex,
        arguments: collections.abc.Sequence[bytes],
        zeroed: collections.abc.Sequence[
            tuple[
                typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex
            ]
        ] = [],
    ) -> KernelLaunch:
        """
        Return a launch of the kernel. Each argument is the bytes of one parameter. Each run first sets the memory in `zeroed`, as addresses and numbers of bytes, to 0.
        """
    def write(self, name: str, value: bytes) -> None:
        """
        Write the beginning of a constant or global variable of the module.
        """
    @property
    def handle(self) -> int:
        """
        The address that launches of the kernel have.
        """
    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> list[int]: ...

class CudaModule:
    """
    Machine code that is loaded on a GPU, by default the default one, or PTX on the emulator.
    """
    def __init__(self, code: bytes, device: str | None = None) -> None: ...
    def kernel(self, symbol: str) -> CudaKernel:
        """
        Return the kernel with this mangled name.
        """

class BlockedStream:
    """
    Context manager that blocks a stream of the default GPU until its exit, but at most for 250 ms.
    """
    def __enter__(self) -> BlockedStream: ...
    def __exit__(self, arg0: typing.Any, arg1: typing.Any, arg2: typing.Any) -> None: ...
    def __init__(self, stream: typing.SupportsInt | typing.SupportsIndex = 0) -> None: ...
    def copy(
        self,
        pointer: typing.SupportsInt | typing.SupportsIndex,
        nbytes: typing.SupportsInt | typing.SupportsIndex,
    ) -> bytes:
        """
        Copy device memory to the host on another stream.
        """
    @property
    def still_blocked(self) -> bool: ...

class EmulatedModule:
    """
    Kernels in PTX, which are executed on the CPU and counted.
    """
    def __init__(self, ptx: str) -> None: ...
    def launch(
        self,
        entry: str,
        grid: typing.Annotated[
            collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(3)"
        ],
        block: typing.Annotated[
            collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(3)"
        ],
        params: bytes,
        arrays: collections.abc.Sequence[tuple[str, numpy.ndarray, bool]],
        shared_bytes: typing.SupportsInt | typing.SupportsIndex = 0,
        cluster: typing.Annotated[
            collections.abc.Sequence[typing.SupportsInt | typing.SupportsIndex], "FixedSize(3)"
        ] = [1, 1, 1],
        checks: bool = True,
        threads: typing.SupportsInt | typing.SupportsIndex = 1,
        limit: typing.SupportsInt | typing.SupportsIndex = 0,
    ) -> dict:
        """
        Execute a kernel. Each array is a name, an array and whether its contents are defined. Return its counts, the first error and the output of printf.
        """
    def parameters(self, entry: str) -> list[tuple[int, int]]:
        """
        Offset and size of each parameter of a kernel.
        """
    def shared_bytes(self, entry: str) -> int:
        """
        Bytes of static shared memory of a kernel.
        """
    def variable(self, name: str) -> numpy.typing.NDArray[numpy.uint8]:
        """
        The bytes of a global or constant variable, as a view.
        """
    @property
    def entries(self) -> list[str]: ...

class Substitution:
    """
    Context manager: launches of this thread run other kernels instead of some kernels, by their handles. `observer` is called before each launch, with the handle, the mangled name, the grid, the block, the dynamic shared memory and the values of the parameters.
    """
    def __enter__(self) -> None: ...
    def __exit__(self, arg0: typing.Any, arg1: typing.Any, arg2: typing.Any) -> None: ...
    def __init__(
        self,
        kernels: collections.abc.Mapping[
            typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex
        ],
        observer: typing.Any = None,
    ) -> None: ...

class LineSamples:
    """
    The samples of one source line of one kernel.
    """
    @property
    def kernel(self) -> str: ...
    @property
    def line(self) -> int: ...
    @property
    def path(self) -> str: ...
    @property
    def samples(self) -> list[int]: ...

class Samples:
    """
    Samples by stall reason and source line.
    """
    @property
    def dropped(self) -> int: ...
    @property
    def lines(self) -> list[LineSamples]: ...
    @property
    def reasons(self) -> list[str]: ...
    @property
    def unattributed(self) -> int: ...

class Sampler:
    """
    Samples the kernels of modules that are loaded while it exists.
    """
    def __init__(self) -> None: ...
    @typing.overload
    def collect(self, call: Call, seconds: typing.SupportsFloat | typing.SupportsIndex) -> Samples:
        """
        Repeats a call for about `seconds`, and returns its samples.
        """
    @typing.overload
    def collect(
        self,
        launches: collections.abc.Sequence[KernelLaunch],
        seconds: typing.SupportsFloat | typing.SupportsIndex,
    ) -> Samples: ...

def caches() -> list[tuple[int, int, int]]: ...
def capture(
    work: collections.abc.Callable,
    operands: collections.abc.Sequence[
        tuple[typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex]
    ],
    free_memory: collections.abc.Callable,
    max_bytes: typing.SupportsInt | typing.SupportsIndex,
) -> tuple:
    """
    The launches of the second of two calls as dictionaries, the cubins, and the number of launched graphs.
    """

def chip(device: str = "cuda") -> str:
    """
    The chip of a GPU, for example 'GH100'.
    """

def cores() -> int:
    """
    Physical cores of the logical processors that are available to this process.
    """

@typing.overload
def count(
    call: Call, metrics: collections.abc.Sequence[str], cold: bool
) -> list[tuple[KernelInfo, list[float]]]:
    """
    The kernels of a call, each with the values of the metrics.
    """

@typing.overload
def count(
    work: collections.abc.Callable, metrics: collections.abc.Sequence[str], cold: bool
) -> list[tuple[KernelInfo, list[float]]]: ...
def cuda_properties(device: str = "cuda") -> dict: ...
def device() -> str: ...
def device_kind(device: str) -> str:
    """
    'cpu', or 'cuda' for a GPU or the emulator.
    """

def empty_pinned(shape: typing.Any, dtype: typing.Any = "float64") -> numpy.ndarray:
    """
    Return an uninitialised NumPy array in page-locked (pinned) memory.

    The GPU copies contiguous arrays in this memory by direct memory access, without the CPU.
    The memory cannot be swapped to disk, and its allocation takes longer than an allocation of
    pageable memory.
    """

def emulated_address(array: DeviceArray, name: str) -> int:
    """
    The address of an array of the emulator. Error messages refer to the array by this name.
    """

@typing.overload
def emulated_counts(call: Call) -> list:
    """
    Run a call on the emulated GPU; return (KernelInfo, counts) of each launch.
    """

@typing.overload
def emulated_counts(run: collections.abc.Callable) -> list:
    """
    Call a function; return (KernelInfo, counts) of each launch of this thread on the emulated GPU.
    """

def emulated_gpu() -> tuple[str, dict[str, float]]:
    """
    (name, changes) of set_emulated_gpu.
    """

def emulated_ptx(kernel: typing.SupportsInt | typing.SupportsIndex) -> str:
    """
    The PTX of the module of a kernel, by its handle.
    """

def emulator_checks() -> tuple[bool, bool, bool, bool, bool]:
    """
    (race, global_race, initialised, synchronised, shared_initialised) of set_emulator_checks.
    """

def existing_metrics(metrics: collections.abc.Sequence[str], chip: str) -> list[str]:
    """
    The given metrics that exist on a chip.
    """

def fatbins() -> dict[str, memoryview]:
    """
    The fat binary with each built-in kernel, by mangled name.
    """

def forget_host_memory(address: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    End the effect of `use_host_memory`.
    """

def hardware(stream: typing.SupportsInt | typing.SupportsIndex = 0) -> dict:
    """
    The properties of the current GPU, of the context of a stream; without a GPU, of an H200.
    """

def host_capsule(
    array: numpy.ndarray,
    max_version: tuple[
        typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex
    ]
    | None = None,
    copied: bool = False,
) -> typing.Any:
    """
    Return a capsule as DeviceArray.__dlpack__ does, but with the memory of a NumPy array.
    """

def isa() -> str: ...
def kernel_name(symbol: str) -> str:
    """
    The readable name of a kernel with its template arguments, from its mangled name.
    """

def last_level_cache_bytes() -> int:
    """
    Sum of the last-level caches that the threads of CPU variants use.
    """

def mapped_parts(
    begin: typing.SupportsInt | typing.SupportsIndex, end: typing.SupportsInt | typing.SupportsIndex
) -> list:
    """
    Parts of files that are mapped at these addresses: inode, first byte, byte after the last, and whether writes reach the file.
    """

def max_threads() -> int:
    """
    Threads that CPU variants use on large problems.
    """

def memory_at(address: typing.SupportsInt | typing.SupportsIndex) -> tuple[int, int]:
    """
    First address and size of the memory of a GPU or of the emulator that contains an address, or (0, 0).
    """

def profiler_version() -> str:
    """
    The version of the loaded CUPTI.
    """

def resolve_device(device: str) -> str:
    """
    The name of a device with the number of the GPU: 'cpu', or 'cuda:0' for 'cuda'.
    """

def routines() -> list[Routine]: ...
@typing.overload
def sample(
    call: Call, cold: bool, repeats: typing.SupportsInt | typing.SupportsIndex
) -> tuple[float, float, bool, float]: ...
@typing.overload
def sample(
    work: collections.abc.Callable,
    device: str,
    cold: bool,
    repeats: typing.SupportsInt | typing.SupportsIndex,
    stream: typing.SupportsInt | typing.SupportsIndex,
) -> tuple[float, float, bool, float]: ...
def set_device(arg0: str) -> None: ...
def set_emulated_gpu(
    name: str, changes: collections.abc.Mapping[str, typing.SupportsFloat | typing.SupportsIndex]
) -> None:
    """
    Choose the GPU that later calls emulate, with other values of some of its properties.
    """

def set_emulated_misalignment(bytes: typing.SupportsInt | typing.SupportsIndex) -> None:
    """
    Let later arrays of the emulator begin this number of bytes after an aligned address.
    """

def set_emulator_checks(
    *,
    race: bool,
    global_race: bool,
    initialised: bool,
    synchronised: bool,
    shared_initialised: bool,
) -> None:
    """
    Set the checks of later launches on the emulated GPU.
    """

def set_isa(arg0: str) -> None: ...
def set_max_threads(threads: typing.Any, at_any_size: bool = False) -> None:
    """
    Set the number of threads that CPU variants use on large problems, or at any size.
    """

def stream_handle(stream: typing.Any) -> int:
    """
    The cudaStream_t of a handle or of a stream object of CuPy, torch, Numba or cuda.core.
    """

def suggest(name: str, known: collections.abc.Sequence[str]) -> str:
    """
    The end of an error message for an unknown name: the most similar name, and all valid names.
    """

def supported_isa() -> str: ...
def synchronize(device: str | None = None) -> None:
    """
    Wait until a GPU has finished all submitted work.
    """

def to_device(array: typing.Any, device: str | None = None) -> DeviceArray:
    """
    Copy an array from host memory to the memory of a GPU: 'cuda' (the default), 'cuda:1' or 'emulator'.
    """

def use_host_memory(
    address: typing.SupportsInt | typing.SupportsIndex,
    bytes: typing.SupportsInt | typing.SupportsIndex,
    name: str,
) -> None:
    """
    Let kernels on the emulator access memory of the host until `forget_host_memory`.
    """

def why_no_counters() -> str:
    """
    Empty if the hardware counters can be read, else the reason and the remedy.
    """

def why_no_cuda() -> str:
    """
    Empty if there is a usable GPU.
    """

def why_no_emulator() -> str:
    """
    Empty if kernels can run on the emulator.
    """

def writes_through_file(
    written: tuple[
        typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex
    ],
    read: tuple[
        typing.SupportsInt | typing.SupportsIndex, typing.SupportsInt | typing.SupportsIndex
    ],
) -> bool:
    """
    Whether writing to one range of addresses changes another one through a mapped file.
    """
