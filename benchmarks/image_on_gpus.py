"""Measure the parallel efficiency of ``ado.edge_detect`` of one image on several GPUs.

    python benchmarks/image_on_gpus.py                             # all GPUs
    python benchmarks/image_on_gpus.py --devices cuda:0 cuda:1
    python benchmarks/image_on_gpus.py --devices cpu cpu --size 1024x512

One process uses all devices. Each device computes one band of rows. A band has
``ado.edge_detect.halo`` additional rows on each side, whose results are discarded. Images and
results stay in the memory of the devices. The calls for all bands are enqueued first, then the
script waits for each device.

Each round measures two times in random order: the whole image on the first device, and the bands on
all n devices. The efficiency of a round is the time of the whole image divided by n times the time
of the bands. The script prints JSON with the medians in seconds. Its exit status is 1 if the
concatenated bands differ from the result of the whole image in any bit.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

import adokernels as ado
from adokernels.measuring.context import device_name
from adokernels.model.libraries import on_host


class Band(NamedTuple):
    """The rows of the result that a band computes, and the image rows that they depend on."""

    rows: slice  # of the result
    source: slice  # of the image
    kept: slice  # of the band's result


def bands_of(rows: int, parts: int, halo: int) -> Iterator[Band]:
    """Split rows into bands whose lengths differ by at most one; the last bands may be empty."""
    longer, at = rows % parts, 0
    for part in range(parts):
        end = at + rows // parts + (part < longer)
        first, last = max(at - halo, 0), min(end + halo, rows)
        yield Band(slice(at, end), slice(first, last), slice(at - first, end - first))
        at = end


class Part(NamedTuple):
    """A part of the image in the memory of a device, and memory for its result there."""

    image: Any
    result: Any
    device: str

    @classmethod
    def on(cls, device: str, image: np.ndarray) -> Part:
        """Copy an image to a device; on the CPU, use it."""
        arrays = image, np.zeros(image.shape[:2], np.uint8)
        return cls(*(a if device == "cpu" else ado.to_device(a, device) for a in arrays), device)


def seconds(parts: list[Part], repeats: int) -> float:
    """The time of one repetition on all devices: the calls for all bands are enqueued first."""
    start = time.perf_counter()
    for image, result, device in parts * repeats:
        ado.edge_detect(image, out=result, device="cpu" if device == "cpu" else None)
    for part in (part for part in parts if part.device != "cpu"):
        ado.synchronize(part.device)
    return (time.perf_counter() - start) / repeats


def all_devices() -> list[str]:
    """The names of all GPUs that this process can use."""
    devices: list[str] = []
    try:
        while True:
            ado.synchronize(f"cuda:{len(devices)}")
            devices.append(f"cuda:{len(devices)}")
    except ado.Unavailable as error:
        if not devices:
            raise SystemExit(f"no GPU: {error}; pass --devices cpu to use the CPU") from None
    return devices


def measure(image: np.ndarray, devices: list[str], rounds: int, repeats: int) -> dict[str, Any]:
    """Time the whole image and its bands in interleaved rounds, and compare their results."""
    bands = list(bands_of(len(image), len(devices), ado.edge_detect.halo))
    whole = [Part.on(devices[0], image)]
    parts = [Part.on(d, image[band.source]) for d, band in zip(devices, bands, strict=True)]
    seconds([*whole, *parts], 1)  # warms up
    results = [on_host(part.result)[band.kept] for part, band in zip(parts, bands, strict=True)]
    kinds, times = {"whole": whole, "bands": parts}, {"whole": [], "bands": []}
    for _ in range(rounds):
        for name in random.sample([*kinds], 2):
            times[name].append(seconds(kinds[name], repeats))
    ratios = np.divide(times["whole"], times["bands"]) / len(devices)
    return {
        "shape": image.shape,
        "devices": devices,
        "names": [device_name(device) for device in devices],
        **{name: statistics.median(some) for name, some in times.items()},
        "efficiency": float(np.median(ratios)),
        "same_bits": np.array_equal(np.concatenate(results), on_host(whole[0].result)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--devices", nargs="+", help="default: all GPUs")
    parser.add_argument("--size", default="65536x32768", help="rows x columns")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--repeats", type=int, default=10, help="repetitions per time")
    options = parser.parse_args()
    rows, columns = map(int, options.size.split("x"))
    # Random rows differ from each other, so a band that starts at a wrong row is detected.
    image = np.random.default_rng(1).integers(0, 256, (rows, columns, 4), np.uint8)
    report = measure(image, options.devices or all_devices(), options.rounds, options.repeats)
    print(json.dumps(report))
    return 0 if report["same_bits"] else 1


if __name__ == "__main__":
    sys.exit(main())
