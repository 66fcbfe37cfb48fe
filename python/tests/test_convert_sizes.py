"""Masks that are not as large as their pictures, which no view could show together."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg, pixels
from test_convert_detection import NAMES, write_voc
from test_convert_masks import CLASSES, png, tar_of
from test_convert_webdataset import write_tar

import shardpack as sp
from shardpack.convert._sizes import size_of

pil = pytest.importorskip("PIL.Image")

# Some writers put the mark of JPEG's segment before the Exif data of a WebP.
FILES: list[tuple[str, dict[str, Any], str]] = [
    ("JPEG", {}, "exif"), ("JPEG", {"progressive": True}, "exif"), ("PNG", {}, "exif"), ("WEBP", {}, "exif"),
    ("WEBP", {"lossless": True}, "exif"), ("WEBP", {}, "bare exif"), ("TIFF", {}, "tiff"), ("BMP", {}, "none"),
]  # fmt: skip


def picture(format: str, options: dict[str, Any], exif: str, orientation: int, mode: str = "RGB") -> bytes:
    """A picture of 24 × 40 pixels as stored, with this Exif orientation where its format has one."""
    out = io.BytesIO()
    given: dict[str, Any] = dict(options)
    if exif != "none" and orientation != 1:
        tags = pil.Exif()
        tags[274] = orientation
        given |= {"tiffinfo": tags} if exif == "tiff" else {"exif": tags.tobytes() if exif == "exif" else tags.tobytes()[6:]}
    pil.fromarray(pixels(orientation)).convert(mode).save(out, format, **given)
    return out.getvalue()


@pytest.mark.parametrize(("format", "options", "exif"), FILES, ids=[f"{name} {options} {exif}" for name, options, exif in FILES])
@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_sizes_are_those_that_the_loader_gives(tmp_path: Path, format: str, options: dict[str, Any], exif: str, mode: str) -> None:
    files = {str(orientation): picture(format, options, exif, orientation, mode) for orientation in range(1, 9)}
    with sp.Writer(tmp_path / "out", {"image": "image"}, jpeg="keep") as writer:
        for key, file in files.items():
            writer.write({"image": file}, key)
    for key, sample in content(tmp_path / "out").items():
        found = size_of(files[key])
        assert found is not None and found.stored == (24, 40) and found.upright == sample["image"].shape[:2], key
        assert (found.upright == (40, 24)) == (exif != "none" and int(key) >= 5), key


@pytest.mark.parametrize("format", ["JPEG", "PNG", "WEBP", "TIFF", "BMP"])
def test_what_is_cut_off_or_damaged_has_a_size_or_none(format: str) -> None:
    exif = {"TIFF": "tiff", "BMP": "none"}.get(format, "exif")
    whole = picture(format, {}, exif, 6)
    assert size_of(whole) is not None
    for end in range(0, len(whole), max(1, len(whole) // 300)):
        size_of(whole[:end])
    rng = np.random.default_rng(0)
    for _ in range(500):
        changed = bytearray(whole)
        for at in rng.integers(0, min(len(whole), 200), 3):
            changed[at] = rng.integers(256)
        size_of(bytes(changed))


def test_other_values() -> None:
    for value, size in [
        (np.zeros((3, 5), np.uint8), (3, 5)), (np.zeros((3, 5, 3), np.uint8), (3, 5)), (pil.new("L", (5, 3)), (3, 5)),
    ]:  # fmt: skip
        found = size_of(value)
        assert found is not None and found.upright == size
    assert size_of(None) is None and size_of(b"no picture") is None and size_of(np.zeros(3)) is None


def test_a_mask_of_another_size_is_named_or_skipped(tmp_path: Path) -> None:
    masks = [png(CLASSES, "P"), png(CLASSES[:20], "P"), png(CLASSES.T, "P"), png(CLASSES, "P")]
    source = tar_of(tmp_path / "a.tar", masks)
    said = r"sample `1`: column 'seg.png': expected a mask of 24 × 40 pixels, as the upright picture has, found 20 × 40\nhint: on_bad_input"
    with pytest.raises(sp.SourceError, match=said):
        sp.convert("webdataset", source, tmp_path / "out", masks=["seg"])
    assert not (tmp_path / "out").exists()
    report = sp.convert("webdataset", source, tmp_path / "out", masks=["seg"], on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"]) == (2, 2) and set(content(tmp_path / "out")) == {"0", "3"}
    assert [one["key"] for one in report["skipped"]] == ["1", "2"] and "found 40 × 24" in report["skipped"][1]["reason"]
    # The first sample is no exception.
    with pytest.raises(sp.SourceError, match="sample `0`: column 'seg.png': expected a mask of 24 × 40 pixels"):
        sp.convert("webdataset", tar_of(tmp_path / "b.tar", masks[1:2]), tmp_path / "b", masks=["seg"])


def test_a_mask_is_as_its_picture_is_seen(tmp_path: Path) -> None:
    turned = picture("JPEG", {}, "exif", 6)
    source = write_tar(tmp_path / "a.tar", [("0.jpg", turned), ("0.seg.png", png(CLASSES.T, "P"))])
    sp.convert("webdataset", source, tmp_path / "out", masks=["seg"])
    (batch,) = sp.Loader(sp.Dataset(tmp_path / "out"), 1, image="resize40x24", fields=["image", "seg"], align={"seg": sp.align.mask()})
    assert batch["image"].shape == (1, 40, 24, 3) and np.array_equal(batch["seg"][0], CLASSES.T)
    source = write_tar(tmp_path / "b.tar", [("0.jpg", turned), ("0.seg.png", png(CLASSES, "P"))])
    said = "a mask of 40 × 24 pixels, as the upright picture has, found 24 × 40\nhint: the picture has the Exif orientation 6: turn the mask"
    with pytest.raises(sp.SourceError, match=said):
        sp.convert("webdataset", source, tmp_path / "b", masks=["seg"])


def test_pixels_and_arrays_have_sizes_too(tmp_path: Path) -> None:
    class Pets:
        def __init__(self, image: Any, mask: Any) -> None:
            self.sample = {"image": image, "mask": mask}

        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> dict[str, Any]:
            return self.sample

    for image in (pil.open(io.BytesIO(jpeg(1))), pixels(1)):
        with pytest.raises(sp.SourceError, match="expected a mask of 24 × 40 pixels, as the upright picture has, found 24 × 39"):
            sp.convert("torchvision", Pets(image, CLASSES[:, 1:]), tmp_path / "no", masks=["mask"])
        sp.convert("torchvision", Pets(image, CLASSES), tmp_path / "out", masks=["mask"], force=True)
    # Pictures that PIL has opened are stored without their orientation.
    turned = pil.open(io.BytesIO(picture("JPEG", {}, "exif", 6)))
    sp.convert("torchvision", Pets(turned, CLASSES), tmp_path / "turned", masks=["mask"])
    (sample,) = content(tmp_path / "turned").values()
    assert sample["image"].shape[:2] == sample["mask"].shape == (24, 40)


def test_of_several_pictures_one_has_the_size(tmp_path: Path) -> None:
    def tar(mask: np.ndarray[Any, Any]) -> Path:
        small = jpeg(2, width=20, height=12)
        return write_tar(tmp_path / "a.tar", [("0.jpg", jpeg(1)), ("0.small.jpg", small), ("0.seg.png", png(mask, "P"))])

    for number, mask in enumerate((CLASSES, CLASSES[:12, :20])):
        sp.convert("webdataset", tar(mask), tmp_path / str(number), masks=["seg"])
    with pytest.raises(sp.SourceError, match="a mask of 24 × 40 or 12 × 20 pixels, as one of the upright pictures has, found 12 × 40"):
        sp.convert("webdataset", tar(CLASSES[:12]), tmp_path / "no", masks=["seg"])


def test_masks_without_a_picture_have_any_size(tmp_path: Path) -> None:
    source = tar_of(tmp_path / "a.tar", [png(CLASSES[:20], "P")])
    sp.convert("webdataset", source, tmp_path / "out", masks=["seg"], drop=["jpg"])
    assert content(tmp_path / "out")["0"]["seg"].shape == (20, 40)
    # What is wrong with a picture says the writer.
    source = write_tar(tmp_path / "b.tar", [("0.jpg", jpeg(1)[:10]), ("0.seg.png", png(CLASSES, "P"))])
    with pytest.raises(sp.SourceError, match="sample `0`: .*JPEG"):
        sp.convert("webdataset", source, tmp_path / "b", masks=["seg"])


def test_pictures_that_shrink_are_refused_beside_masks(tmp_path: Path) -> None:
    source = tar_of(tmp_path / "a.tar", [png(CLASSES, "P")])
    said = "webdataset: beside masks, expected pictures of the size of the source, found the option: short_side\nhint: "
    with pytest.raises(sp.SourceError, match=said):
        sp.convert("webdataset", source, tmp_path / "out", masks=["seg"], jpeg="reencode", short_side=12)
    assert not (tmp_path / "out").exists()
    sp.convert("webdataset", source, tmp_path / "out", drop=["seg.png"], jpeg="reencode", short_side=12)


def test_masks_of_voc(tmp_path: Path) -> None:
    root = write_voc(tmp_path / "voc")
    (root / "SegmentationClass" / "c.png").write_bytes(png(CLASSES.T, "P"))
    said = "picture `c`: column 'mask': expected a mask of 24 × 40 pixels, as the upright picture has, found 40 × 24"
    with pytest.raises(sp.SourceError, match=said):
        sp.convert("voc", root, tmp_path / "out", names=NAMES, masks="SegmentationClass")
    report = sp.convert("voc", root, tmp_path / "out", names=NAMES, masks="SegmentationClass", on_bad_input="skip")
    assert [one["key"] for one in report["skipped"]] == ["c.jpg"] and report["kinds"]["mask"] == "array"
    sp.convert("voc", root, tmp_path / "other", names=NAMES, masks="SegmentationClass", drop=["mask"])
    assert set(content(tmp_path / "other")) == {"a.jpg", "b.jpg", "c.jpg"}
