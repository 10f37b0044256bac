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
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from array_peers import COMPILER, Peers
from random_shapes import FILTERS, TAPS, blur_of, gray_of, is_colour, squared_gradient

from adokernels.model.libraries import on_host
from adokernels.model.tasks import TASKS

Image = Any
Run = Callable[[], object]

WEIGHTS = (0.298839, 0.586811, 0.114350)
SHARES = np.array(TAPS) / 16  # the taps of adokernels; their sum is 1
SIGMA = 2.5**0.5  # standard deviation of a Gaussian with the variance of these taps
RADIUS = 3
SUM_OF_TAPS = 2800  # sum of a Gaussian's taps in the reference, which computes with int32
SENTINEL = 0xA5  # value of results before they are computed
STRIP = 256  # number of rows and columns that are compared at each edge


class Filter(NamedTuple):
    """A filter of a library: `prepare` returns a function that fills a result from an image."""

    prepare: Callable[[Image, Image], Run]
    expected: Callable[[np.ndarray], np.ndarray] | None = None  # default: the task's reference
    levels: int = 1  # allowed difference
    dtype: str = "uint8"  # of the result

    def error(self, routine: str, source: Image, out: Image) -> int:
        """Largest difference from the reference in the corners, in levels of at most 255."""
        expected, worst = self.expected or TASKS[routine].expected, 0
        for corner in itertools.product(*map(ends, source.shape[:2])):
            (down, along), inner = (end[0] for end in corner), tuple(end[1] for end in corner)
            want = expected(on_host(source[down, along])).astype(np.int64)
            apart = np.abs(on_host(out[down, along]).clip(max=255) - want)[inner]
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

    upload: Callable[[Any], Image]
    filters: Mapping[str, Mapping[str, Filter]]


def filter_peers(make: Callable[[], Library], routine: str, name: str, image: Any) -> Peers:
    """The calls of a library for an image or a batch. ValueError: a result is wrong.

    A batch needs one call per image. Grayscale needs one call, because its pixels are independent.
    """
    library = make()
    known = {n: {routine: one} for n, one in library.filters.get(routine, {}).items()}
    if routine == "edge_detect" and len(library.filters) == 3:
        known = {
            name: {stage: next(iter(library.filters[stage].values())) for stage in FILTERS[:3]}
        }
    images = library.upload(image)
    images = images.reshape(-1, *images.shape[images.ndim - 2 - is_colour(routine) :])
    if routine == "grayscale":
        images = images.reshape(1, -1, *images.shape[2:])
    peers: Peers = {}
    for peer, filters in known.items():
        runs = []
        for first in images:
            source = first
            for stage, one in filters.items():
                out = library.upload(np.full(source.shape[:2], SENTINEL, one.dtype))
                runs.append(one.prepare(source, out))
                runs[-1]()
                if (error := one.error(stage, source, out)) > one.levels:
                    raise ValueError(f"WRONG: {peer} is off by {error} levels")
                source = out
        peers[peer] = partial(in_order, runs)
    return peers


def in_order(runs: Sequence[Run]) -> None:
    """Call functions; return nothing: ado.sweep would reject small differences of the results."""
    for run in runs:
        run()


# References for filters with other borders or taps. The default border of adokernels is zero.


def blurred(sigma: float = 0.0, border: str = "replicate") -> Callable[[np.ndarray], np.ndarray]:
    """A blur with the taps of a Gaussian; without `sigma`, the taps of adokernels."""
    taps = np.exp(-0.5 * (np.arange(-RADIUS, RADIUS + 1) / sigma) ** 2) if sigma else np.array(TAPS)
    whole = taps if not sigma else np.rint(SUM_OF_TAPS * taps / taps.sum())
    return partial(TASKS["gaussian_blur"].expected, border=border, taps=whole.astype(int).tolist())


def replicated_sobel(gray: np.ndarray) -> np.ndarray:
    return TASKS["sobel"].expected(np.pad(gray, 1, "edge"))[1:-1, 1:-1]


@cache
def cv2_filters() -> Library:
    import cv2

    cv2.setNumThreads(len(os.sched_getaffinity(0)))
    border, taps = cv2.BORDER_CONSTANT, SHARES.astype(np.float32)

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

    filters = {"grayscale": {"cv2": Filter(grayscale)}}
    filters["gaussian_blur"] = {"cv2 sepFilter2D": Filter(sep_filter)}
    filters["gaussian_blur"]["cv2 GaussianBlur"] = Filter(gaussian_blur, blurred(SIGMA, "constant"))
    filters["sobel"] = {"cv2": Filter(sobel, levels=0)}
    return Library(np.asarray, filters)


def torch_library(**filters: dict[str, Filter]) -> Library:
    """A library that works on tensors."""
    import torch

    return Library(partial(torch.as_tensor, device="cuda"), filters)


@cache
def torch_compiled_filters() -> Library:
    """Integer formulas, which torch compiles to one or two kernels.

    Eager torch, with convolutions in half precision, is omitted: it was the fastest peer at 4 of
    754 shapes.
    """
    import torch.nn.functional as nn

    def grayscale(rgba: Image, out: Image) -> None:
        out.copy_(gray_of(rgba.int()))

    def blur(gray: Image, out: Image) -> None:
        out.copy_(blur_of(nn.pad(gray.int(), (RADIUS,) * 4)) >> 8)

    def sobel(gray: Image, out: Image) -> None:
        square = squared_gradient(nn.pad(gray.int(), (1,) * 4))
        out.copy_(square.float().sqrt().clamp(max=255))

    return torch_library(
        grayscale={"torch.compile": Filter(partial(COMPILER.call, grayscale))},
        gaussian_blur={"torch.compile": Filter(partial(COMPILER.call, blur))},
        sobel={"torch.compile": Filter(partial(COMPILER.call, sobel))},
    )


@cache
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
        half, taps = cupy.empty(gray.shape, cupy.float32), cupy.asarray(SHARES, cupy.float32)

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

    filters = {"grayscale": {"cupy": Filter(grayscale)}}
    filters["gaussian_blur"] = {"cupy": Filter(blur, blurred(), levels=0)}
    filters["sobel"] = {"cupy": Filter(sobel)}
    return Library(cupy.asarray, filters)


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


@cache
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
    taps = torch.tensor(SHARES, dtype=torch.float32, device="cuda")

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
        grayscale={"npp": Filter(grayscale)},
        gaussian_blur={
            "npp": Filter(advanced, blurred()),
            "npp Gauss 7x7": Filter(gauss, blurred(1.8)),
        },
        sobel={"npp": Filter(sobel, replicated_sobel, dtype="int16")},
    )


def load_npp(part: str) -> ctypes.CDLL:
    """Load from the package nvidia-npp, else from the system's library path."""
    name = f"libnpp{part}.so.13"
    paths = (Path(entry) / "nvidia/cu13/lib" / name for entry in sys.path)
    return ctypes.CDLL(str(next((path for path in paths if path.exists()), name)))


@cache
def cvcuda_filters() -> Library:
    """CV-CUDA has no gradient filter. Its Gaussian is omitted: it was never the fastest peer."""
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

    return torch_library(grayscale={"cvcuda": Filter(grayscale)})


LIBRARIES: dict[str, dict[str, Callable[[], Library]]] = {
    "cpu": {"cv2": cv2_filters},
    "cuda": {
        "torch.compile": torch_compiled_filters,
        "cupy": cupy_filters,
        "npp": npp_filters,
        "cvcuda": cvcuda_filters,
    },
}
#: Functions that make a library's peers, by routine, device and library.
PEERS = {
    (routine, device): {
        name: partial(filter_peers, make, routine, name) for name, make in of.items()
    }
    for device, of in LIBRARIES.items()
    for routine in FILTERS
}
