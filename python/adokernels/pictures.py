"""Picture files: reading photographs and writing images."""

from __future__ import annotations

import io
import os
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from adokernels.storage import replace_file
from adokernels.text import require

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

#: Exceptions, besides OSError, that Pillow raises for damaged files, depending on the format.
_DAMAGED_FILE_ERRORS = (
    *(EOFError, IndexError, RuntimeError, SyntaxError, ValueError),
    *(struct.error, zlib.error, Image.DecompressionBombError),
)


def read_image(path: str | Path) -> NDArray[np.uint8]:
    """Read a picture file into an array that the image filters accept.

    Parameters
    ----------
    path
        Any format that Pillow reads: PNG, JPEG, TIFF, PPM and others.

    Returns
    -------
    array of shape (rows, cols, 3) or, with transparency, (rows, cols, 4), uint8
        Palette, grey and black-and-white pictures are converted to colour; the camera's
        orientation is applied.

    Raises
    ------
    OSError
        If the file does not exist, is not a picture, or is damaged.
    ValueError
        If it has more than 8 bits per channel, as far as the format reports this. The caller must
        choose which part of the range to keep.
    """
    require((str, os.PathLike), "a path", path=path)
    name = os.fspath(path)
    try:
        with Image.open(name) as picture:
            if not _has_more_than_8_bits(picture):
                upright = ImageOps.exif_transpose(picture)
                kind = "RGBA" if upright.has_transparency_data else "RGB"
                return np.array(upright.convert(kind))
    except UnidentifiedImageError:
        raise OSError(f"{name!s} is not a picture in a format that Pillow reads") from None
    except (*_DAMAGED_FILE_ERRORS, OSError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise  # the message contains the path
        raise OSError(f"{name!s} is not a picture, or it is damaged: {error}") from error
    raise ValueError(
        f"{name!s} must have 8 bits per channel, got more: scale it to 0..255 and convert it"
        " with .astype(numpy.uint8)"
    )


def _has_more_than_8_bits(picture: Image.Image) -> bool:
    """Whether the file has more than 8 bits per channel, including bits that Pillow would drop."""
    for codec, _, _, args in getattr(picture, "tile", ()):
        netpbm = codec.startswith("ppm") and isinstance(args, tuple)  # mode and largest value
        if ";16" in str(args) or (netpbm and args[1] > 255):
            return True
    return picture.mode.startswith(("I", "F"))


def photograph() -> NDArray[np.uint8]:
    """The photograph of Grace Hopper in matplotlib's sample data: (600, 512, 3) uint8."""
    from matplotlib import cbook

    return read_image(str(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)))


def save_side_by_side(pictures: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Write titled images side by side into one PNG file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.5 * len(pictures), 5), layout="constrained")
    axes = figure.subplots(1, len(pictures), squeeze=False)[0]
    for ax, (title, image) in zip(axes, pictures.items(), strict=True):
        ax.imshow(image, cmap="gray", vmin=0, vmax=255)
        ax.set_title(title)
        ax.set_axis_off()
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    replace_file(path, buffer.getvalue())
