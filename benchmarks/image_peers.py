"""Other libraries' grayscale, blur, Sobel filter and pipeline, each with a reference in NumPy.

They do not do exactly the same work as adokernels; comments state the differences. Results may
differ by one level: some libraries round to the nearest level instead of truncating, or use colour
weights with three decimals (0.299, 0.587, 0.114), and floating-point results may be just below a
level. Before a peer is timed, its result is compared with its reference in the corners. Pipelines
are compared stage by stage.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from array_peers import COMPILER, Peers, first_line

from adokernels.model.libraries import on_host

Image = Any
Check = Callable[[np.ndarray], np.ndarray]
Run = Callable[[], object]

FILTERS = ("grayscale", "gaussian_blur", "sobel", "edge_detect")
WEIGHTS = (0.298839, 0.586811, 0.114350)
GRAY_WEIGHTS = (19585, 38457, 7494)  # weights of adokernels, in units of 2^-16
INTEGER_TAPS = (1, 2, 3, 4, 3, 2, 1)
TAPS = np.array(INTEGER_TAPS) / 16
SIGMA = 2.5**0.5  # standard deviation of a Gaussian with the variance of these taps
RADIUS = 3
SENTINEL = 0xA5  # value of results before they are computed
STRIP = 256  # number of rows and columns that are compared at each edge


class Filter(NamedTuple):
    """A filter of a library: `prepare` returns a function that fills a result from an image."""

    prepare: Callable[[Image, Image], Run]
    expected: Check
    levels: int = 1  # allowed difference
    dtype: str = "uint8"  # of the result

    def error(self, source: Image, out: Image) -> int:
        """Largest difference from the reference in the corners, in levels."""
        worst = 0
        for corner in itertools.product(*map(ends, source.shape[:2])):
            (down, along), inner = (end[0] for end in corner), tuple(end[1] for end in corner)
            want = self.expected(on_host(source[down, along])).astype(np.int64)
            apart = np.abs(on_host(out[down, along]) - want)[inner]
            worst = max(worst, int(apart.max()))
        return worst


def ends(length: int) -> list[tuple[slice, slice]]:
    """Strips at both ends of an axis, and the parts that depend on no pixel outside the strip."""
    if length <= 4 * STRIP:
        return [(slice(None), slice(None))]
    last = slice(length - STRIP, length)
    return [(slice(STRIP), slice(-RADIUS)), (last, slice(RADIUS, None))]


class Library(NamedTuple):
    """A library's filters, by routine and name; its pipeline uses the first of each routine."""

    upload: Callable[[np.ndarray], Image]
    full: Callable[[Sequence[int], int, str], Image]  # like numpy.full
    filters: Mapping[str, Mapping[str, Filter]]

    def pipelines(self, routine: str, name: str) -> dict[str, list[Filter]]:
        """The library's implementations of the routine."""
        if routine != "edge_detect":
            return {name: [one] for name, one in self.filters.get(routine, {}).items()}
        if len(self.filters) < 3:
            return {}
        return {name: [next(iter(self.filters[stage].values())) for stage in FILTERS[:3]]}


def is_colour(routine: str) -> bool:
    """Whether the routine accepts RGB and RGBA images."""
    return routine in ("grayscale", "edge_detect")


# Formulas for arrays of NumPy, CuPy and torch. The last two axes of an image are its rows and
# columns. Pixels that lack neighbours are omitted from the result.


def weighted(wide: Image, weights: Sequence[float], axis: int) -> Image:
    """Weighted sum of neighbours along axis -2 or -1."""
    length = wide.shape[axis] - len(weights) + 1
    rest = (slice(None),) * (-1 - axis)
    parts = (w * wide[(..., slice(i, i + length), *rest)] for i, w in enumerate(weights) if w)
    return sum(parts, start=next(parts))


def gray_of(channels: Image) -> Image:
    red, green, blue = GRAY_WEIGHTS
    return (red * channels[..., 0] + green * channels[..., 1] + blue * channels[..., 2]) >> 16


def blur_of(wide: Image, taps: Sequence[float] = INTEGER_TAPS) -> Image:
    return weighted(weighted(wide, taps, -2), taps, -1)


def squared_gradient(wide: Image) -> Image:
    x = weighted(weighted(wide, (1, 2, 1), -2), (-1, 0, 1), -1)
    y = weighted(weighted(wide, (-1, 0, 1), -2), (1, 2, 1), -1)
    return x * x + y * y


# References. `border` is a mode of numpy.pad; the default of adokernels is "constant", zeros.


def luminance(rgba: np.ndarray) -> np.ndarray:
    return np.floor(rgba[..., :3] @ np.array(WEIGHTS))


def blurred(taps: np.ndarray = TAPS, border: Any = "constant") -> Check:
    return lambda gray: np.floor(blur_of(np.pad(gray.astype(float), RADIUS, border), taps))


def gaussian(sigma: float) -> np.ndarray:
    taps = np.exp(-0.5 * (np.arange(-RADIUS, RADIUS + 1) / sigma) ** 2)
    return taps / taps.sum()


def gradient(border: Any = "constant", largest: int = 255) -> Check:
    def expected(gray: np.ndarray) -> np.ndarray:
        square = squared_gradient(np.pad(gray.astype(float), 1, border))
        return np.minimum(np.floor(np.sqrt(square)), largest)

    return expected


# Peers.


def cv2_filters() -> Library:
    import cv2

    cv2.setNumThreads(len(os.sched_getaffinity(0)))
    border, taps = cv2.BORDER_CONSTANT, TAPS.astype(np.float32)

    def grayscale(rgba: np.ndarray, out: np.ndarray) -> Run:
        code = cv2.COLOR_RGBA2GRAY if rgba.shape[-1] == 4 else cv2.COLOR_RGB2GRAY
        return partial(cv2.cvtColor, rgba, code, out)

    def sep_filter(gray: np.ndarray, out: np.ndarray) -> Run:  # the taps of adokernels
        return partial(cv2.sepFilter2D, gray, -1, taps, taps, out, borderType=border)

    def gaussian_blur(gray: np.ndarray, out: np.ndarray) -> Run:
        return partial(cv2.GaussianBlur, gray, (7, 7), SIGMA, out, SIGMA, border)

    def sobel(gray: np.ndarray, out: np.ndarray) -> Run:
        x, y, length = (np.empty(gray.shape, np.float32) for _ in range(3))

        def run() -> None:
            cv2.Sobel(gray, cv2.CV_32F, 1, 0, x, borderType=border)
            cv2.Sobel(gray, cv2.CV_32F, 0, 1, y, borderType=border)
            cv2.magnitude(x, y, length)
            # The call rounds and saturates. A non-integer root of an integer below 256**2 is at
            # least 0.0019 from any integer, so rounding with this offset equals truncation.
            cv2.convertScaleAbs(length, out, 1, -0.499)

        return run

    blurs = {"cv2 sepFilter2D": Filter(sep_filter, blurred())}
    blurs["cv2 GaussianBlur"] = Filter(gaussian_blur, blurred(gaussian(SIGMA)))
    filters = {"grayscale": {"cv2": Filter(grayscale, luminance)}, "gaussian_blur": blurs}
    filters["sobel"] = {"cv2": Filter(sobel, gradient(), levels=0)}
    return Library(np.asarray, np.full, filters)


def torch_library(**filters: dict[str, Filter]) -> Library:
    """A library that works on tensors."""
    import torch

    def full(shape: Sequence[int], value: int, dtype: str) -> torch.Tensor:
        return torch.full(shape, value, dtype=getattr(torch, dtype), device="cuda")

    return Library(partial(torch.as_tensor, device="cuda"), full, filters)


def torch_filters(search: bool) -> Library:
    """Eager mode. Convolutions use half precision, with errors of up to 1/8."""
    import torch
    import torch.nn.functional as nn

    torch.backends.cudnn.benchmark = search  # finds the fastest algorithm once per shape

    def kernels(*weights: np.ndarray) -> torch.Tensor:
        return torch.tensor(np.stack(weights)[:, None], dtype=torch.half, device="cuda")

    def grayscale(rgba: torch.Tensor, out: torch.Tensor) -> Run:
        (red, green, blue), (a, b, c) = rgba[..., :3].unbind(-1), WEIGHTS
        return lambda: out.copy_((red * a).add_(green, alpha=b).add_(blue, alpha=c))

    def blur(gray: torch.Tensor, out: torch.Tensor) -> Run:
        weights = kernels(np.outer(TAPS, TAPS))
        return lambda: out.copy_(nn.conv2d(gray.half()[None, None], weights, padding=RADIUS)[0, 0])

    def sobel(gray: torch.Tensor, out: torch.Tensor) -> Run:
        across = np.outer([1, 2, 1], [-1, 0, 1])
        weights = kernels(across, across.T)

        def run() -> None:
            x, y = nn.conv2d(gray.half()[None, None], weights, padding=1)[0]
            out.copy_(torch.hypot(x, y).clamp_(max=255))

        return run

    return torch_library(
        grayscale={"torch": Filter(grayscale, luminance)},
        gaussian_blur={"torch": Filter(blur, blurred())},
        sobel={"torch": Filter(sobel, gradient())},
    )


def torch_compiled_filters() -> Library:
    """Integer formulas, which torch compiles to one or two kernels."""
    import torch.nn.functional as nn

    def grayscale(rgba: Image, out: Image) -> None:
        out.copy_(gray_of(rgba.int()))

    def blur(gray: Image, out: Image) -> None:
        out.copy_(blur_of(nn.pad(gray.int(), (RADIUS,) * 4)) >> 8)

    def sobel(gray: Image, out: Image) -> None:
        square = squared_gradient(nn.pad(gray.int(), (1,) * 4))
        out.copy_(square.float().sqrt().clamp(max=255))

    def compiled(formula: Callable[..., None], expected: Check) -> dict[str, Filter]:
        return {"torch.compile": Filter(partial(COMPILER.call, formula), expected)}

    return torch_library(
        grayscale=compiled(grayscale, luminance),
        gaussian_blur=compiled(blur, blurred()),
        sobel=compiled(sobel, gradient()),
    )


def cupy_filters() -> Library:
    """The ElementwiseKernels have the formula of adokernels; cupyx convolves twice in float32."""
    import cupy
    from cupyx.scipy import ndimage

    packed = "out = ((p & 255) * 19585 + (p >> 8 & 255) * 38457 + (p >> 16 & 255) * 7494) >> 16"
    planes = "out = (r * 19585 + g * 38457 + b * 7494) >> 16"
    of_packed = cupy.ElementwiseKernel("uint32 p", "uint8 out", packed, "of_packed")
    of_planes = cupy.ElementwiseKernel(
        "uint8 r, uint8 g, uint8 b", "uint8 out", planes, "of_planes"
    )

    def grayscale(rgba: cupy.ndarray, out: cupy.ndarray) -> Run:
        if rgba.shape[-1] == 4:
            return partial(of_packed, rgba.view(cupy.uint32)[..., 0], out)
        return partial(of_planes, *(rgba[..., channel] for channel in range(3)), out)

    def blur(gray: cupy.ndarray, out: cupy.ndarray) -> Run:
        half, taps = cupy.empty(gray.shape, cupy.float32), cupy.asarray(TAPS, cupy.float32)

        def run() -> None:
            # The border replicates the nearest pixel. For "constant" and an integer result,
            # correlate1d checks its constant on the GPU and waits for the result.
            ndimage.correlate1d(gray, taps, 0, half, "nearest")
            ndimage.correlate1d(half, taps, 1, out, "nearest")

        return run

    def sobel(gray: cupy.ndarray, out: cupy.ndarray) -> Run:
        x, y = (cupy.empty(gray.shape, cupy.float32) for _ in range(2))

        def run() -> None:
            ndimage.sobel(gray, 1, x, "constant")
            ndimage.sobel(gray, 0, y, "constant")
            out[...] = cupy.minimum(cupy.hypot(x, y, out=x), 255, out=x)

        return run

    filters = {"grayscale": {"cupy": Filter(grayscale, luminance)}}
    filters["gaussian_blur"] = {"cupy": Filter(blur, blurred(border="edge"), levels=0)}
    filters["sobel"] = {"cupy": Filter(sobel, gradient())}
    return Library(cupy.asarray, cupy.full, filters)


class Pair(ctypes.Structure):
    """NppiSize and NppiPoint."""

    _fields_ = (("x", ctypes.c_int), ("y", ctypes.c_int))


class StreamContext(ctypes.Structure):
    """NppStreamContext: stream, device, its properties, flags, and reserved bytes."""

    _fields_ = (
        ("stream", ctypes.c_void_p),
        *((name, ctypes.c_int) for name in ("device", "processors", "threads", "block_threads")),
        ("block_shared", ctypes.c_size_t),
        *((name, ctypes.c_int) for name in ("major", "minor", "flags", "reserved")),
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
    weights = (ctypes.c_float * 3)(*WEIGHTS)
    taps = torch.tensor(TAPS, dtype=torch.float32, device="cuda")

    def plane(image: torch.Tensor) -> tuple[ctypes.c_void_p, int]:
        return ctypes.c_void_p(image.data_ptr()), image.stride(0) * image.element_size()

    def size(image: torch.Tensor) -> Pair:
        return Pair(image.shape[1], image.shape[0])

    def call(function: Any, *arguments: Any, keep: object = None) -> Run:
        def run(keep: object = keep) -> None:
            if status := function(*arguments, context):
                raise RuntimeError(f"NppStatus {status}")

        return run

    def grayscale(rgba: torch.Tensor, out: torch.Tensor) -> Run:
        kind = "AC4C1R" if rgba.shape[-1] == 4 else "C3C1R"
        function = getattr(colours, f"nppiColorToGray_8u_{kind}_Ctx")
        return call(function, *plane(rgba), *plane(out), size(rgba), weights)

    def blur(function: Any, *kernel: Any) -> Callable[[Image, Image], Run]:
        def prepare(gray: torch.Tensor, out: torch.Tensor) -> Run:
            images = *plane(gray), size(gray), Pair(0, 0), *plane(out), size(gray)
            return call(function, *images, *kernel, replicate, keep=taps)

        return prepare

    def sobel(gray: torch.Tensor, out: torch.Tensor) -> Run:  # stores 16 bits
        none = None, 0
        return call(
            filters.nppiGradientVectorSobelBorder_8u16s_C1R_Ctx, *plane(gray), size(gray),
            Pair(0, 0), *none, *none, *plane(out), *none, size(gray), mask_3x3, l2, replicate,
        )  # fmt: skip

    # The taps of adokernels; the taps of a Gaussian. The documented sigma of the Gaussian is
    # 0.4 + width / 2 * 0.6, but 2.2 and 2.5 differ by 10 and 15 levels. 0.4 + width / 3 * 0.6 = 1.8
    # agrees with the results.
    kernel = len(taps), ctypes.c_void_p(taps.data_ptr())
    advanced = blur(filters.nppiFilterGaussAdvancedBorder_8u_C1R_Ctx, *kernel)
    gauss = blur(filters.nppiFilterGaussBorder_8u_C1R_Ctx, mask_7x7)
    return torch_library(
        grayscale={"npp": Filter(grayscale, luminance)},
        gaussian_blur={
            "npp": Filter(advanced, blurred(border="edge")),
            "npp Gauss 7x7": Filter(gauss, blurred(gaussian(1.8), "edge")),
        },
        sobel={"npp": Filter(sobel, gradient("edge", largest=32767), dtype="int16")},
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

    def grayscale(rgba: Image, out: Image) -> Run:
        conversions = cvcuda.ColorConversion
        code = conversions.RGBA2GRAY if rgba.shape[-1] == 4 else conversions.RGB2GRAY
        return partial(cvcuda.cvtcolor_into, tensor(out), tensor(rgba), code, stream=stream)

    def blur(gray: Image, out: Image) -> Run:  # the taps of a Gaussian
        arguments = tensor(out), tensor(gray), (7, 7), (SIGMA, SIGMA), cvcuda.Border.CONSTANT
        return partial(cvcuda.gaussian_into, *arguments, stream=stream)

    return torch_library(
        grayscale={"cvcuda": Filter(grayscale, luminance)},
        gaussian_blur={"cvcuda": Filter(blur, blurred(gaussian(SIGMA)))},
    )


def libraries(device: str, *, search: bool = True) -> dict[str, Library]:
    """The libraries that can be loaded; with `search`, cuDNN searches algorithms per shape."""
    makers: dict[str, Callable[[], Library]] = {"cv2": cv2_filters}
    if device == "cuda":
        makers = {"torch": partial(torch_filters, search), "torch.compile": torch_compiled_filters}
        makers |= {"cupy": cupy_filters, "npp": npp_filters, "cvcuda": cvcuda_filters}
    found = {}
    for name, make in makers.items():
        try:
            found[name] = make()
        except (ImportError, OSError) as error:
            print(f"left out {name}: {error}")
    return found


def correct_filters(
    routine: str, image: Image, found: Mapping[str, Library]
) -> tuple[Peers, dict[str, str]]:
    """The correct peers, and the reasons why others are left out.

    A batch needs one call per image. Grayscale needs one call, because its pixels are independent.
    """
    peers: Peers = {}
    left_out: dict[str, str] = {}
    for library_name, library in found.items():
        images = library.upload(image)
        images = images.reshape(-1, *images.shape[images.ndim - 2 - is_colour(routine) :])
        if routine == "grayscale":
            images = images.reshape(1, -1, *images.shape[2:])
        for name, filters in library.pipelines(routine, library_name).items():
            runs, wrong = [], []
            try:
                for place, first in enumerate(images):
                    source = first
                    for one in filters:
                        out = library.full(source.shape[:2], SENTINEL, one.dtype)
                        runs.append(one.prepare(source, out))
                        runs[-1]()
                        if place in (0, len(images) - 1) and one.error(source, out) > one.levels:
                            wrong.append(one.error(source, out))
                        source = out
            except Exception as error:  # any error of another library
                left_out[name] = first_line(error)
                continue
            if wrong:
                left_out[name] = f"WRONG: off by {wrong} levels"
            else:
                peers[name] = partial(in_order, runs)
    return peers, left_out


def in_order(runs: Sequence[Run]) -> None:
    """Call functions. Their results may differ from ours by more than ado.sweep allows."""
    for run in runs:
        run()
