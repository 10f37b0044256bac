"""Picture files of all kinds."""

import numpy as np
import pytest
from PIL import Image

import adokernels as ado
from adokernels import _pictures


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


def test_one_pixel(tmp_path):
    read = ado.read_image(save(tmp_path, Image.new("RGB", (1, 1), (255, 255, 255))))
    assert ado.grayscale(read).tolist() == [[255]]
    assert ado.edge_detect(read).tolist() == [[0]]


@pytest.mark.parametrize("dtype", ["u2", "i4", "f4"])
def test_more_than_8_bits_are_refused(dtype, tmp_path):
    picture = Image.fromarray(np.zeros((3, 4), dtype))
    with pytest.raises(ValueError, match="more than 8 bits"):
        ado.read_image(save(tmp_path, picture, "picture.tif"))


@pytest.mark.parametrize("content", [b"", b"no picture", b"\x89PNG\r\n\x1a\n"])
def test_no_picture(content, tmp_path):
    path = tmp_path / "picture.png"
    path.write_bytes(content)
    with pytest.raises(OSError, match=r"picture\.png"):
        ado.read_image(path)


def test_a_truncated_file(tmp_path, rng):
    whole = save(tmp_path, Image.fromarray(rng.integers(0, 256, (64, 64, 3), np.uint8)))
    whole.write_bytes(whole.read_bytes()[:2000])
    with pytest.raises(OSError, match="truncated"):
        ado.read_image(whole)


def test_orientation_of_the_camera(tmp_path):
    picture = Image.new("RGB", (5, 3))
    exif = picture.getexif()
    exif[0x0112] = 6  # turned by a quarter
    path = tmp_path / "picture.jpg"
    picture.save(path, exif=exif)
    assert ado.read_image(path).shape == (5, 3, 3)


def test_the_photograph():
    assert _pictures.photograph().shape == (600, 512, 3)
