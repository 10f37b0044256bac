"""Detect the edges in an image of 100,000 x 100,000 pixels, from Zarr to Zarr.

    python examples/dask/edge_detect_zarr.py
    python examples/dask/edge_detect_zarr.py --size 2000 image.zarr edges.zarr

The script creates the image if it does not exist. The image has 40 GB before compression. About two
rows of its chunks are in memory at a time.
"""

import argparse
from pathlib import Path

import dask.array as da
import numpy as np
from dask.diagnostics import ProgressBar

import adokernels as ado


def rings(block_info=None):
    """Compute one block of an image of rings."""
    (top, bottom), (left, right), _ = block_info[None]["array-location"]
    rows, cols = np.arange(top, bottom)[:, None], np.arange(left, right)
    squares = rows**2 + cols**2
    return np.stack([(squares >> k).astype(np.uint8) for k in (12, 13, 14, 15)], axis=2)


parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
parser.add_argument("image", nargs="?", default="image.zarr")
parser.add_argument("edges", nargs="?", default="edges.zarr")
parser.add_argument("--size", type=int, default=100_000, help="rows and columns of a new image")
parser.add_argument("--rows", type=int, default=512, help="rows of its chunks")
parser.add_argument("--cols", type=int, default=8192, help="columns of its chunks")
options = parser.parse_args()

with ProgressBar():
    if not Path(options.image).exists():
        shape, chunks = (options.size, options.size, 4), (options.rows, options.cols, 4)
        blocks = da.core.normalize_chunks(chunks, shape)
        image = da.map_blocks(rings, chunks=blocks, dtype=np.uint8, meta=np.empty((0, 0, 0), "u1"))
        image.to_zarr(options.image)
    edges = ado.edge_detect(da.from_zarr(options.image))
    edges.to_zarr(options.edges, overwrite=True)
