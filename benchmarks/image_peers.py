"""Other libraries' grayscale, blur, Sobel filter and pipeline, each with a reference in NumPy.

They do not do exactly the same work as adokernels; comments state the differences. Results may
differ by one level: some libraries round to the nearest level instead of truncating, or use colour
weights with three decimals (0.299, 0.587, 0.114), and floating-point results may be just below a
level. Before a peer is timed, its result is compared with its reference in the corners. Pipelines
are compared stage by stage.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from beside_peers import Peers, first_line
from torch_compile import COMPILER

Image = Any  # array of any library
Check = Callable[[np.ndarray], np.ndarray]

WEIGHTS = (0.298839, 0.586811, 0.114350)
GRAY_WEIGHTS = (19585, 38457, 7494)  # weights of adokernels, in units of 2^-16
INTEGER_TAPS = (1, 2, 3, 4, 3, 2, 1)
TAPS = np.array(INTEGER_TAPS) / 16
SIGMA = 2.5**0.5  # standard deviation of a Gaussian with the variance of those taps
RADIUS = 3
POISON = 0xA5  # sentinel value of results before they are computed
STRIP = 256  # number of rows compared at each edge
Edge = tuple[slice, slice]  # a strip of an axis, and the part of the strip to compare


@dataclass(frozen=True)
class Stage:
    """One filter of a library, with its own buffers."""

    run: Callable[[], object]
    source: Image
    out: Image
    expected: Check
    levels: int = 1  # allowed difference
    keep: Image = None  # buffer with the same lifetime

    def error(self) -> int:
        """Largest difference from the reference in the corners, in levels."""
        rows, cols = self.source.shape[:2]
        return max(
            self._error(down, along)
            for down in edges(rows, STRIP)
            for along in edges(cols, STRIP * STRIP // min(rows, STRIP))
        )

    def _error(self, down: Edge, along: Edge) -> int:
        part, inner = (down[0], along[0]), (down[1], along[1])
        want = self.expected(host(self.source[part]))[inner].astype(np.int64)
        return int(np.abs(host(self.out[part])[inner] - want).max())


def edges(length: int, strip: int) -> list[Edge]:
    """Strips at both ends of an axis, and the parts that depend on no pixel outside the strip."""
    if length <= 4 * strip:
        return [(slice(None), slice(None))]
    return [
        (slice(strip), slice(-RADIUS)),
        (slice(length - strip, length), slice(RADIUS, None)),
    ]


Make = Callable[[Image], Stage]


@dataclass
class Library:
    """A library's filters by name; its pipeline consists of the first filter of each kind."""

    upload: Callable[[np.ndarray], Image]
    grayscale: dict[str, Make] = field(default_factory=dict)
    gaussian_blur: dict[str, Make] = field(default_factory=dict)
    sobel: dict[str, Make] = field(default_factory=dict)

    def pipelines(self, routine: str, name: str) -> dict[str, list[Make]]:
        """The library's implementations of the routine."""
        if routine != "edge_detect":
            return {name: [make] for name, make in getattr(self, routine).items()}
        stages = self.grayscale, self.gaussian_blur, self.sobel
        return {name: [next(iter(makes.values())) for makes in stages]} if all(stages) else {}


def host(image: Image) -> np.ndarray:
    if hasattr(image, "get"):
        return image.get()
    return image.cpu().numpy() if hasattr(image, "cpu") else image


# References. `border` is a mode of numpy.pad; the default of adokernels is "constant", zeros.


def luminance(rgba: np.ndarray) -> np.ndarray:
    return np.floor(rgba[..., :3] @ np.array(WEIGHTS))


def blurred(taps: np.ndarray = TAPS, border: Any = "constant") -> Check:
    def expected(gray: np.ndarray) -> np.ndarray:
        wide = np.pad(gray.astype(float), RADIUS, border)
        down = sum(t * wide[i : i + gray.shape[0]] for i, t in enumerate(taps))
        return np.floor(sum(t * down[:, i : i + gray.shape[1]] for i, t in enumerate(taps)))

    return expected


def gaussian(sigma: float) -> np.ndarray:
    taps = np.exp(-0.5 * (np.arange(-RADIUS, RADIUS + 1) / sigma) ** 2)
    return taps / taps.sum()


def gradient(border: Any = "constant", largest: int = 255) -> Check:
    def expected(gray: np.ndarray) -> np.ndarray:
        wide = np.pad(gray.astype(float), 1, border)
        down, along = wide[2:] - wide[:-2], wide[:, 2:] - wide[:, :-2]
        x = along[:-2] + 2 * along[1:-1] + along[2:]
        y = down[:, :-2] + 2 * down[:, 1:-1] + down[:, 2:]
        return np.minimum(np.floor(np.sqrt(x * x + y * y)), largest)

    return expected


# Peers.


def cv2_filters(threads: int) -> Library:
    import cv2

    cv2.setNumThreads(threads)

    def poisoned(image: np.ndarray) -> np.ndarray:
        return np.full(image.shape[:2], POISON, np.uint8)

    def grayscale(rgba: np.ndarray) -> Stage:
        out = poisoned(rgba)
        code = cv2.COLOR_RGBA2GRAY if rgba.shape[-1] == 4 else cv2.COLOR_RGB2GRAY
        return Stage(partial(cv2.cvtColor, rgba, code, out), rgba, out, luminance)

    def sep_filter(gray: np.ndarray) -> Stage:  # the taps of adokernels
        out = poisoned(gray)
        taps = TAPS.astype(np.float32)

        def run() -> None:
            cv2.sepFilter2D(gray, -1, taps, taps, out, borderType=cv2.BORDER_CONSTANT)

        return Stage(run, gray, out, blurred())

    def gaussian_blur(gray: np.ndarray) -> Stage:  # the taps of a Gaussian
        out, border = poisoned(gray), cv2.BORDER_CONSTANT
        run = partial(cv2.GaussianBlur, gray, (7, 7), SIGMA, out, SIGMA, border)
        return Stage(run, gray, out, blurred(gaussian(SIGMA)))

    def sobel(gray: np.ndarray) -> Stage:
        out, border = poisoned(gray), cv2.BORDER_CONSTANT
        x, y, length = (np.empty(gray.shape, np.float32) for _ in range(3))

        def run() -> None:
            cv2.Sobel(gray, cv2.CV_32F, 1, 0, x, borderType=border)
            cv2.Sobel(gray, cv2.CV_32F, 0, 1, y, borderType=border)
            cv2.magnitude(x, y, length)
            # The call rounds and saturates. A non-integer root of an integer below 256**2 is at
            # least 0.0019 from any integer, so rounding with this offset equals truncation.
            cv2.convertScaleAbs(length, out, 1, -0.499)

        return Stage(run, gray, out, gradient(), levels=0)

    return Library(
        np.asarray,
        {"cv2": grayscale},
        {"cv2 sepFilter2D": sep_filter, "cv2 GaussianBlur": gaussian_blur},
        {"cv2": sobel},
    )


def torch_filters(search: bool) -> Library:
    """Eager mode. Convolutions use half precision, with errors of up to 1/8."""
    import torch
    import torch.nn.functional as nn

    torch.backends.cudnn.benchmark = search  # finds the fastest algorithm once per shape

    def kernels(*weights: np.ndarray) -> torch.Tensor:
        return torch.tensor(np.stack(weights)[:, None], dtype=torch.half, device="cuda")

    def grayscale(rgba: torch.Tensor) -> Stage:
        out = torch_poisoned(rgba)
        red, green, blue = rgba[..., :3].unbind(-1)

        def run() -> None:
            out.copy_((red * WEIGHTS[0]).add_(green, alpha=WEIGHTS[1]).add_(blue, alpha=WEIGHTS[2]))

        return Stage(run, rgba, out, luminance)

    def blur(gray: torch.Tensor) -> Stage:
        out = torch_poisoned(gray)
        weights = kernels(np.outer(TAPS, TAPS))

        def run() -> None:
            out.copy_(nn.conv2d(gray.half()[None, None], weights, padding=RADIUS)[0, 0])

        return Stage(run, gray, out, blurred())

    def sobel(gray: torch.Tensor) -> Stage:
        out = torch_poisoned(gray)
        across = np.outer([1, 2, 1], [-1, 0, 1])
        weights = kernels(across, across.T)

        def run() -> None:
            x, y = nn.conv2d(gray.half()[None, None], weights, padding=1)[0]
            out.copy_(torch.hypot(x, y).clamp_(max=255))

        return Stage(run, gray, out, gradient())

    return Library(torch_upload, {"torch": grayscale}, {"torch": blur}, {"torch": sobel})


def torch_compiled_filters() -> Library:
    """Integer formulas, which torch compiles to one or two kernels."""
    import torch
    import torch.nn.functional as nn

    def weighted(wide: torch.Tensor, weights: Sequence[int], axis: int) -> torch.Tensor:
        length = wide.shape[axis] - len(weights) + 1
        parts = (w * wide.narrow(axis, i, length) for i, w in enumerate(weights) if w)
        return sum(parts, start=next(parts))

    def grayscale(rgba: torch.Tensor, out: torch.Tensor) -> None:
        red, green, blue = rgba[..., :3].int().unbind(-1)
        of_red, of_green, of_blue = GRAY_WEIGHTS
        out.copy_((of_red * red + of_green * green + of_blue * blue) >> 16)

    def blur(gray: torch.Tensor, out: torch.Tensor) -> None:
        wide = nn.pad(gray.int(), (RADIUS,) * 4)
        out.copy_(weighted(weighted(wide, INTEGER_TAPS, 0), INTEGER_TAPS, 1) >> 8)

    def sobel(gray: torch.Tensor, out: torch.Tensor) -> None:
        wide = nn.pad(gray.int(), (1,) * 4)
        x = weighted(weighted(wide, (1, 2, 1), 0), (-1, 0, 1), 1)
        y = weighted(weighted(wide, (-1, 0, 1), 0), (1, 2, 1), 1)
        out.copy_((x * x + y * y).float().sqrt().clamp(max=255))

    def stage(formula: Callable[..., None], expected: Check, image: torch.Tensor) -> Stage:
        out = torch_poisoned(image)
        (run,) = COMPILER.peers(formula, image, out).values()
        return Stage(run, image, out, expected)

    name = "torch.compile"
    return Library(
        torch_upload,
        {name: partial(stage, grayscale, luminance)},
        {name: partial(stage, blur, blurred())},
        {name: partial(stage, sobel, gradient())},
    )


def torch_upload(image: np.ndarray) -> Image:
    import torch

    return torch.as_tensor(image, device="cuda")


def torch_poisoned(image: Image, dtype: str = "uint8") -> Image:
    import torch

    return torch.full(image.shape[:2], POISON, dtype=getattr(torch, dtype), device="cuda")


def cupy_filters() -> Library:
    """The ElementwiseKernels have the formula of adokernels; cupyx convolves twice in float32."""
    import cupy
    from cupyx.scipy import ndimage

    luminance_kernel = cupy.ElementwiseKernel(
        "uint32 p",
        "uint8 out",
        "out = ((p & 255) * 19585 + (p >> 8 & 255) * 38457 + (p >> 16 & 255) * 7494) >> 16",
        "luminance",
    )
    luminance_of_channels = cupy.ElementwiseKernel(
        "uint8 r, uint8 g, uint8 b",
        "uint8 out",
        "out = (r * 19585 + g * 38457 + b * 7494) >> 16",
        "luminance_of_channels",
    )

    def poisoned(image: cupy.ndarray) -> cupy.ndarray:
        return cupy.full(image.shape[:2], POISON, cupy.uint8)

    def grayscale(rgba: cupy.ndarray) -> Stage:
        out = poisoned(rgba)
        if rgba.shape[-1] == 4:
            run = partial(luminance_kernel, rgba.view(cupy.uint32)[..., 0], out)
        else:
            run = partial(luminance_of_channels, *(rgba[..., channel] for channel in range(3)), out)
        return Stage(run, rgba, out, luminance)

    def blur(gray: cupy.ndarray) -> Stage:
        out = poisoned(gray)
        half = cupy.empty(gray.shape, cupy.float32)
        taps = cupy.asarray(TAPS, cupy.float32)

        def run() -> None:
            # The border replicates the nearest pixel. For "constant" and an integer result,
            # correlate1d checks its constant on the GPU and waits for the result.
            ndimage.correlate1d(gray, taps, 0, half, "nearest")
            ndimage.correlate1d(half, taps, 1, out, "nearest")

        return Stage(run, gray, out, blurred(border="edge"), levels=0)

    def sobel(gray: cupy.ndarray) -> Stage:
        out = poisoned(gray)
        x, y = (cupy.empty(gray.shape, cupy.float32) for _ in range(2))

        def run() -> None:
            ndimage.sobel(gray, 1, x, "constant")
            ndimage.sobel(gray, 0, y, "constant")
            cupy.hypot(x, y, out=x)
            cupy.minimum(x, 255, out=x)
            out[...] = x

        return Stage(run, gray, out, gradient())

    return Library(cupy.asarray, {"cupy": grayscale}, {"cupy": blur}, {"cupy": sobel})


class Pair(ctypes.Structure):
    """NppiSize and NppiPoint."""

    _fields_ = (("x", ctypes.c_int), ("y", ctypes.c_int))


class StreamContext(ctypes.Structure):
    """NppStreamContext."""

    _fields_ = (
        ("stream", ctypes.c_void_p),
        ("device", ctypes.c_int),
        ("multiprocessors", ctypes.c_int),
        ("threads_per_multiprocessor", ctypes.c_int),
        ("threads_per_block", ctypes.c_int),
        ("shared_per_block", ctypes.c_size_t),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("workspace", ctypes.c_uint),
    )


def npp_filters() -> Library:
    """Borders replicate the nearest pixel, the only mode of the Gaussian filters of NPP."""
    import torch

    gpu = torch.cuda.get_device_properties(0)
    context = StreamContext(
        None, 0, gpu.multi_processor_count, gpu.max_threads_per_multi_processor, 1024,
        gpu.shared_memory_per_block, gpu.major, gpu.minor, 0, 0,
    )  # fmt: skip
    filters, colours = load_npp("if"), load_npp("icc")
    replicate, mask_3x3, mask_7x7, l2 = 2, 200, 400, 2

    def plane(image: torch.Tensor) -> tuple[ctypes.c_void_p, int]:
        return ctypes.c_void_p(image.data_ptr()), image.stride(0) * image.element_size()

    def size(image: torch.Tensor) -> Pair:
        return Pair(image.shape[1], image.shape[0])

    def call(function: Any, *arguments: Any) -> Callable[[], None]:
        def run() -> None:
            if status := function(*arguments, context):
                raise RuntimeError(f"NppStatus {status}")

        return run

    def grayscale(rgba: torch.Tensor) -> Stage:
        out = torch_poisoned(rgba)
        weights = (ctypes.c_float * 3)(*WEIGHTS)
        kind = "AC4C1R" if rgba.shape[-1] == 4 else "C3C1R"
        function = getattr(colours, f"nppiColorToGray_8u_{kind}_Ctx")
        run = call(function, *plane(rgba), *plane(out), size(rgba), weights)
        return Stage(run, rgba, out, luminance)

    def blur(gray: torch.Tensor, function: Any, kernel: tuple[Any, ...], expected: Check) -> Stage:
        out = torch_poisoned(gray)
        region = size(gray)
        run = call(
            function, *plane(gray), region, Pair(0, 0), *plane(out), region, *kernel, replicate
        )
        return Stage(run, gray, out, expected)

    def advanced(gray: torch.Tensor) -> Stage:  # the taps of adokernels
        taps = torch.tensor(TAPS, dtype=torch.float32, device="cuda")
        kernel = len(taps), ctypes.c_void_p(taps.data_ptr())
        function = filters.nppiFilterGaussAdvancedBorder_8u_C1R_Ctx
        return replace(blur(gray, function, kernel, blurred(border="edge")), keep=taps)

    def gauss(gray: torch.Tensor) -> Stage:
        # The taps of a Gaussian. sigma is documented as 0.4 + width / 2 * 0.6, but 2.2 and 2.5
        # differ by 10 and 15 levels. 0.4 + width / 3 * 0.6 = 1.8 agrees with the results.
        function = filters.nppiFilterGaussBorder_8u_C1R_Ctx
        return blur(gray, function, (mask_7x7,), blurred(gaussian(1.8), "edge"))

    def sobel(gray: torch.Tensor) -> Stage:  # stores 16 bits
        out = torch_poisoned(gray, "int16")
        region, none = size(gray), (None, 0)
        run = call(
            filters.nppiGradientVectorSobelBorder_8u16s_C1R_Ctx, *plane(gray), region, Pair(0, 0),
            *none, *none, *plane(out), *none, region, mask_3x3, l2, replicate,
        )  # fmt: skip
        return Stage(run, gray, out, gradient("edge", largest=32767))

    return Library(
        torch_upload,
        {"npp": grayscale},
        {"npp": advanced, "npp Gauss 7x7": gauss},
        {"npp": sobel},
    )


def load_npp(part: str) -> ctypes.CDLL:
    """Load from the package nvidia-npp, else from the system's library path."""
    name = f"libnpp{part}.so.13"
    paths = (Path(entry) / "nvidia/cu13/lib" / name for entry in sys.path)
    return ctypes.CDLL(str(next((path for path in paths if path.exists()), name)))


def cvcuda_filters() -> Library:
    """CV-CUDA has no gradient filter and thus no pipeline."""
    import cvcuda

    stream = cvcuda.as_stream(0)

    class Buffer:
        """An image for CV-CUDA, which would wait for the whole device with torch's interface."""

        def __init__(self, image: Image) -> None:
            image = image if image.ndim == 3 else image[..., None]
            self.owner = image
            self.__cuda_array_interface__ = {
                **image.__cuda_array_interface__, "version": 3, "stream": -1
            }  # fmt: skip

    def tensor(image: Image) -> cvcuda.Tensor:
        return cvcuda.as_tensor(Buffer(image), "HWC")

    def grayscale(rgba: Image) -> Stage:
        out = torch_poisoned(rgba)
        conversions = cvcuda.ColorConversion
        code = conversions.RGBA2GRAY if rgba.shape[-1] == 4 else conversions.RGB2GRAY
        run = partial(cvcuda.cvtcolor_into, tensor(out), tensor(rgba), code, stream=stream)
        return Stage(run, rgba, out, luminance)

    def blur(gray: Image) -> Stage:  # the taps of a Gaussian
        out = torch_poisoned(gray)
        border = cvcuda.Border.CONSTANT
        arguments = tensor(out), tensor(gray), (7, 7), (SIGMA, SIGMA), border
        run = partial(cvcuda.gaussian_into, *arguments, stream=stream)
        return Stage(run, gray, out, blurred(gaussian(SIGMA)))

    return Library(torch_upload, {"cvcuda": grayscale}, {"cvcuda": blur})


def libraries(device: str, threads: int, *, search: bool = True) -> dict[str, Library]:
    """The libraries that can be loaded; with `search`, cuDNN searches algorithms per shape."""
    makers: dict[str, Callable[[], Library]] = {"cv2": partial(cv2_filters, threads)}
    if device == "cuda":
        makers = {
            "torch": partial(torch_filters, search),
            "torch.compile": torch_compiled_filters,
            "cupy": cupy_filters,
            "npp": npp_filters,
            "cvcuda": cvcuda_filters,
        }
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make()
        except (ImportError, OSError) as error:
            print(f"left out {name}: {error}")
    return found


def correct_filters(
    routine: str, image: Image, found: Mapping[str, Library]
) -> tuple[Peers, dict[str, str], dict[str, str]]:
    """Return the correct peers, the reasons why others are left out, and the wrong peers.

    A batch needs one call per image. Grayscale needs one call, because its pixels are independent.
    """
    peers: Peers = {}
    left_out: dict[str, str] = {}
    wrong: dict[str, str] = {}
    colour = 1 if routine in ("grayscale", "edge_detect") else 0
    for library_name, library in found.items():
        images = library.upload(image)
        images = images.reshape(-1, *images.shape[images.ndim - 2 - colour :])
        if routine == "grayscale":
            images = images.reshape(1, -1, *images.shape[2:])
        for name, makes in library.pipelines(routine, library_name).items():
            try:
                stages = [stage for one in images for stage in staged(makes, one)]
                checked = [*stages[: len(makes)], *stages[-len(makes) :]]
                errors = [stage.error() for stage in checked]
            except Exception as error:  # any error of another library
                left_out[name] = first_line(error)
                continue
            if any(error > stage.levels for error, stage in zip(errors, checked, strict=True)):
                wrong[name] = f"off by {errors} levels, stage by stage"
            else:
                peers[name] = in_order(stages)
    return peers, left_out, wrong


def staged(makes: Sequence[Make], image: Image) -> list[Stage]:
    """The stages of a pipeline, each after one run."""
    stages: list[Stage] = []
    for make in makes:
        stages.append(make(stages[-1].out if stages else image))
        stages[-1].run()
    return stages


def in_order(stages: Sequence[Stage]) -> Callable[[], None]:
    runs = [stage.run for stage in stages]
    if len(runs) == 1:
        return runs[0]

    def run() -> None:
        for each in runs:
            each()

    return run
