"""Tests that pictures written by other programs decode to the same pixels as in Pillow, if they can be packed."""

from __future__ import annotations

import io
import struct
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

import shardpack as sp

Pixels = npt.NDArray[np.uint8]


def photo(mode: str) -> Image.Image:
    rows, columns = np.mgrid[0:45, 0:70]
    levels = np.stack([rows * 5 % 256, columns * 3 % 256, (rows * columns) % 256], axis=2).astype(np.uint8)
    picture = Image.fromarray(levels)
    return picture.quantize(64) if mode == "P" else picture.convert(mode)


def written(picture: Image.Image, kind: str, **how: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, kind, **how)
    return out.getvalue()


def rgb(data: bytes) -> Pixels:
    with Image.open(io.BytesIO(data)) as picture:
        return np.asarray(picture.convert("RGB"))


def loaded(place: Path) -> Pixels:
    """Asserts that all ways of reading the only picture of a dataset agree, and returns it."""
    assert sp.verify(place, deep=True)["whole"]
    dataset = sp.Dataset(place)
    pixels: Pixels = dataset[0]["image"]
    with sp.Loader(dataset, batch_size=1) as loader:
        assert np.array_equal(next(iter(loader))["image"][0], pixels)
    return pixels


TIFFS = [
    ("P", None),
    ("P", "tiff_lzw"),
    ("1", None),
    ("1", "group3"),
    ("1", "group4"),
    ("1", "tiff_ccitt"),
    ("L", "packbits"),
    ("RGB", "tiff_adobe_deflate"),
    ("RGB", "zstd"),
    ("RGB", "jpeg"),
    ("L", "jpeg"),
    ("CMYK", "tiff_lzw"),
    ("YCbCr", None),
    ("RGBA", "tiff_lzw"),
]


@pytest.mark.parametrize(("mode", "compression"), TIFFS)
def test_tiffs_have_the_pixels_of_pillow(tmp_path: Path, mode: str, compression: str | None) -> None:
    data = written(photo(mode), "tiff", compression=compression)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.tif").write_bytes(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sp.pack(tmp_path / "src", tmp_path / "out", threads=1)
        with sp.Writer(tmp_path / "written", threads=1) as writer:
            writer.write({"image": data})
    for place in (tmp_path / "out", tmp_path / "written"):
        difference = np.abs(loaded(place).astype(int) - rgb(data))
        # shardpack computes chroma in floats, and Pillow with integer tables.
        assert difference.max() <= (2 if mode == "YCbCr" else 0)
        assert sp.Dataset(place).raw(0, "image") == data


def test_what_cannot_be_loaded_is_refused_wherever_it_comes_from(tmp_path: Path) -> None:
    lab = written(photo("RGB").convert("LAB"), "tiff")
    jpeg = written(photo("RGB"), "jpeg")
    frame = jpeg.index(b"\xff\xc0")
    twelve = jpeg[: frame + 4] + b"\x0c" + jpeg[frame + 5 :]
    for data, name, reason in [(lab, "a.tif", "CIELab"), (twelve, "a.jpg", "12-bit JPEGs are not supported")]:
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes(data)
        (tmp_path / name / "b.png").write_bytes(written(photo("RGB"), "png"))
        for jpeg_option in ("tile", "keep"):
            with pytest.raises(ValueError, match=reason):
                sp.pack(tmp_path / name, tmp_path / "out", jpeg=jpeg_option)
        report = sp.pack(tmp_path / name, tmp_path / f"{name} skipped", on_bad_input="skip")
        assert report["samples"] == 1
        with sp.Writer(tmp_path / f"{name} written") as writer:
            with pytest.raises(ValueError, match=reason):
                writer.write({"image": data}, key="a")
            writer.write({"image": written(photo("RGB"), "png")}, key="b")


def test_a_fourth_band_is_no_colour(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    data = written(Image.merge("RGBX", [*photo("RGB").split(), photo("L")]), "tiff")
    (tmp_path / "src" / "a.tif").write_bytes(data)
    sp.pack(tmp_path / "src", tmp_path / "cubes")
    cube = sp.Dataset(tmp_path / "cubes")[0]["cube"]
    assert cube.shape == (45, 70, 4) and np.array_equal(cube[:, :, :3], rgb(data))
    with pytest.warns(UserWarning, match="^1 picture has a band besides red, green and blue"):
        sp.pack(tmp_path / "src", tmp_path / "pictures", kind="images")
    assert np.array_equal(loaded(tmp_path / "pictures"), rgb(data))


def test_alpha_is_told(tmp_path: Path) -> None:
    clear = photo("RGB")
    # WebP encoders drop an alpha channel that is 255 everywhere, and colours where alpha is 0.
    clear.putalpha(photo("L").point(lambda level: level // 2 + 1))
    for name, data in [
        ("a.png", written(clear, "png")),
        ("b.webp", written(clear, "webp", lossless=True)),
        ("c.tif", written(clear, "tiff")),
        ("d.png", written(photo("P"), "png", transparency=3)),
    ]:
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_bytes(data)
        with pytest.warns(UserWarning, match="^1 picture has an alpha channel: the file is stored unchanged, but loaders drop the channel"):
            sp.pack(tmp_path / name, tmp_path / f"{name} out")
        assert np.array_equal(loaded(tmp_path / f"{name} out"), rgb(data))


def test_palettes_of_masks_are_indices(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "masks").mkdir()
    (tmp_path / "src" / "a.png").write_bytes(written(photo("RGB"), "png"))
    mask = photo("P")
    (tmp_path / "masks" / "a.tif").write_bytes(written(mask, "tiff"))
    sp.pack(tmp_path / "src", tmp_path / "out", masks=tmp_path / "masks")
    assert np.array_equal(sp.Dataset(tmp_path / "out")[0]["mask"], np.asarray(mask))


def test_bmps_of_any_kind(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    data = written(photo("RGB"), "bmp")
    # The reserved bytes are not zero.
    (tmp_path / "src" / "a.bmp").write_bytes(data[:6] + b"abcd" + data[10:])
    sp.pack(tmp_path / "src", tmp_path / "out")
    assert np.array_equal(loaded(tmp_path / "out"), rgb(data))
    # The picture has a palette of four colours, and run lengths that skip all but two pixels.
    header = struct.pack("<IiiHHIIiiII", 40, 8, 4, 1, 8, 1, 0, 0, 0, 4, 0)
    palette = bytes([9, 8, 7, 0, 1, 2, 3, 0, 4, 5, 6, 0, 0, 0, 0, 0])
    runs = bytes([2, 1, 0, 1])
    bmp = b"BM" + struct.pack("<III", 14 + 40 + 16 + 4, 0, 70) + header + palette + runs
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "a.bmp").write_bytes(bmp)
    sp.pack(tmp_path / "runs", tmp_path / "runs out")
    expected = np.tile(np.array([7, 8, 9], np.uint8), (4, 8, 1))
    expected[3, :2] = [3, 2, 1]
    assert np.array_equal(loaded(tmp_path / "runs out"), expected)


def test_a_plain_surface_that_compresses_well_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    data = written(Image.new("1", (2000, 1500)), "png")
    assert len(data) * 1000 < 2000 * 1500 * 3
    (tmp_path / "src" / "a.png").write_bytes(data)
    sp.pack(tmp_path / "src", tmp_path / "out")
    assert loaded(tmp_path / "out").max() == 0


def test_hidden_pictures_are_counted(tmp_path: Path) -> None:
    src = tmp_path / "src"
    (src / ".cache" / "deep").mkdir(parents=True)
    for name in ("a.png", ".cache/b.png", ".cache/deep/c.png", ".d.png", "._a.png"):
        (src / name).write_bytes(written(photo("RGB"), "png"))
    with pytest.warns(UserWarning, match=r"^3 hidden files that could be samples are ignored \(first: `.cache/b.png`\)"):
        report = sp.pack(src, tmp_path / "out")
    assert report["samples"] == 1
