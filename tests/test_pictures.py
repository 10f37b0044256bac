"""Picture files in several formats, valid and damaged."""

import struct
import zlib

import numpy as np
import PIL
import pytest
from PIL import Image

import adokernels as ado


def save(tmp_path, picture, name="picture.png"):
    path = tmp_path / name
    picture.save(path)
    return path


def test_colours_come_back(tmp_path, rng):
    pixels = rng.integers(0, 256, (7, 9, 3), np.uint8)
    read = ado.read_image(save(tmp_path, Image.fromarray(pixels)))
    assert read.dtype == np.uint8
    assert np.array_equal(read, pixels)


def test_transparency_is_a_fourth_channel(tmp_path, rng):
    pixels = rng.integers(0, 256, (7, 9, 4), np.uint8)
    assert np.array_equal(ado.read_image(save(tmp_path, Image.fromarray(pixels))), pixels)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "CMYK", "YCbCr"])
def test_other_kinds_become_colours(mode, tmp_path, rng):
    if mode == "YCbCr" and int(PIL.__version__.split(".")[0]) < 13:
        pytest.skip("Pillow 12 cannot read the YCbCr image that it wrote")
    pixels = Image.fromarray(rng.integers(0, 256, (7, 9, 3), np.uint8))
    name = "picture.tif" if mode in ("CMYK", "YCbCr") else "picture.png"
    read = ado.read_image(save(tmp_path, pixels.convert("L" if mode == "LA" else mode), name))
    assert read.shape == (7, 9, 3)
    assert ado.edge_detect(read).shape == (7, 9)


def test_a_palette_with_transparency(tmp_path):
    picture = Image.new("P", (4, 3))
    picture.putpalette([255, 0, 0, 0, 255, 0])
    picture.info["transparency"] = 1
    read = ado.read_image(save(tmp_path, picture))
    assert read.shape == (3, 4, 4)
    assert (read == [255, 0, 0, 255]).all()


@pytest.mark.parametrize("dtype", ["u2", "i4", "f4"])
def test_more_than_8_bits_are_refused(dtype, tmp_path):
    picture = Image.fromarray(np.zeros((3, 4), dtype))
    with pytest.raises(ValueError, match="must have 8 bits per channel, got more"):
        ado.read_image(save(tmp_path, picture, "picture.tif"))


@pytest.mark.parametrize("content", [b"", b"no picture", b"\x89PNG\r\n\x1a\n"])
def test_no_picture(content, tmp_path):
    path = tmp_path / "picture.png"
    path.write_bytes(content)
    with pytest.raises(OSError, match=r"picture\.png"):
        ado.read_image(path)


def test_orientation_of_the_camera(tmp_path):
    picture = Image.new("RGB", (5, 3))
    exif = picture.getexif()
    exif[0x0112] = 6  # rotated by 90 degrees
    path = tmp_path / "picture.jpg"
    picture.save(path, exif=exif)
    assert ado.read_image(path).shape == (5, 3, 3)


def chunk(kind, content):
    data = kind + content
    return struct.pack(">I", len(content)) + data + struct.pack(">I", zlib.crc32(data))


def png(*, depth=8, colour=2, size=(2, 2)):
    channels = {2: 3, 4: 2, 6: 4}[colour]
    rows = (b"\0" + bytes(size[0] * channels * depth // 8)) * min(size[1], 2)
    header = struct.pack(">IIBBBBB", *size, depth, colour, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


@pytest.mark.parametrize(
    "content",
    [png(depth=16), png(depth=16, colour=4), png(depth=16, colour=6), b"P6 1 1 65535\n" + bytes(6)],
)
def test_deep_colours_are_refused(content, tmp_path):
    """Pillow would drop the lower bits without a warning."""
    path = tmp_path / "deep"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="must have 8 bits per channel, got more"):
        ado.read_image(path)


def test_a_bomb_is_refused(tmp_path):
    path = tmp_path / "bomb.png"
    path.write_bytes(png(size=(30_000, 30_000)))
    with pytest.raises(OSError, match=r"bomb\.png"):
        ado.read_image(path)


@pytest.mark.parametrize(
    "content",
    [
        *[b"P3 2 2 255\n" + b"1 " * 11, b"P6 2 2 255\n" + bytes(11), b"P6 2"],  # values are missing
        *[b"P3 2 2 100\n" + b"101 " * 12, b"P3 2 2 255\n" + b"-1 " * 12],  # or outside of the range
        *[b"P3 2 2 255\n" + b"x " * 12, b"P3 2 2 0\n" + b"0 " * 12, b"P3 2 2 70000\n" + b"0 " * 12],
    ],
)
def test_errors_of_damaged_netpbm_files_contain_the_path(content, tmp_path):
    path = tmp_path / "damaged.ppm"
    path.write_bytes(content)
    with pytest.raises(OSError, match=r"damaged\.ppm is not a picture"):
        ado.read_image(path)


@pytest.mark.filterwarnings("ignore:Corrupt EXIF")
@pytest.mark.parametrize("suffix", ["png", "jpg", "tif", "gif", "bmp", "webp"])
def test_errors_of_truncated_files_contain_the_path(suffix, tmp_path, rng):
    path = save(
        tmp_path, Image.fromarray(rng.integers(0, 256, (64, 64, 3), np.uint8)), f"p.{suffix}"
    )
    whole = path.read_bytes()
    for length in (len(whole) // 2, len(whole) // 8, 20):
        path.write_bytes(whole[:length])
        with pytest.raises(OSError, match=rf"p\.{suffix} is not a picture"):
            ado.read_image(path)
