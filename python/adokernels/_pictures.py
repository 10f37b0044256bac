"""Photographs in and pictures out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import cbook
from matplotlib.figure import Figure
from PIL import Image, ImageOps

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

_DEEPER = ("I", "F")  # how the modes of images with more than 8 bits a channel begin


def read_image(path: str | Path) -> NDArray[np.uint8]:
    """Read a picture file as the image filters take it.

    Parameters
    ----------
    path
        Any format that Pillow reads: PNG, JPEG, TIFF, PPM and others.

    Returns
    -------
    array of shape (rows, cols, 3) or, with transparency, (rows, cols, 4), uint8
        Palettes, grey and black-and-white pictures become colours; a camera's orientation is
        applied.

    Raises
    ------
    OSError
        If there is no such file, or it is no picture or a damaged one.
    ValueError
        If it has more than 8 bits a channel: which part of their range to keep is not for this
        function to guess.
    """
    with Image.open(path) as picture:
        if picture.mode.startswith(_DEEPER):
            raise ValueError(
                f"{path} has more than 8 bits a channel (mode {picture.mode}): scale it to 0..255"
                " and convert it with .astype(numpy.uint8)"
            )
        upright = ImageOps.exif_transpose(picture)
        transparent = upright.has_transparency_data
        return np.array(upright.convert("RGBA" if transparent else "RGB"))


def photograph() -> NDArray[np.uint8]:
    """Grace Hopper as matplotlib ships her: (600, 512, 3) uint8."""
    return read_image(str(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)))


def save_side_by_side(pictures: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Write some images, by their titles, beside each other into one picture file."""
    figure = Figure(figsize=(4.5 * len(pictures), 5), layout="constrained")
    axes = figure.subplots(1, len(pictures), squeeze=False)[0]
    for ax, (title, image) in zip(axes, pictures.items(), strict=True):
        ax.imshow(image, cmap="gray", vmin=0, vmax=255)
        ax.set_title(title)
        ax.set_axis_off()
    figure.savefig(path, dpi=120)
