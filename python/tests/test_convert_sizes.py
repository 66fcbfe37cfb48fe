"""Tests that `convert` refuses masks and annotations that do not match the size of their picture."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg, pixels
from test_convert_detection import NAMES, write_coco, write_voc, write_yolo
from test_convert_masks import CLASSES, png, tar_of
from test_convert_webdataset import write_tar

import shardpack as sp
from shardpack.convert._sizes import size_of

pil = pytest.importorskip("PIL.Image")

# Some programs write the prefix of a JPEG's Exif segment before the Exif data of a WebP.
FILES: list[tuple[str, dict[str, Any], str]] = [
    ("JPEG", {}, "exif"), ("JPEG", {"progressive": True}, "exif"), ("PNG", {}, "exif"), ("WEBP", {}, "exif"),
    ("WEBP", {"lossless": True}, "exif"), ("WEBP", {}, "bare exif"), ("TIFF", {}, "tiff"), ("BMP", {}, "none"),
]  # fmt: skip


def picture(format: str, options: dict[str, Any], exif: str, orientation: int, mode: str = "RGB") -> bytes:
    """Returns a picture that is stored as 24 × 40 pixels, with this Exif orientation if the format has one."""
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
    said = r"sample `1`: column 'seg.png': the mask has 20 × 40 pixels .height × width., but its picture has 24 × 40\nhint: pass on_bad_input"
    with pytest.raises(sp.SourceError, match=said):
        sp.convert("webdataset", source, tmp_path / "out", masks=["seg"])
    assert not (tmp_path / "out").exists()
    report = sp.convert("webdataset", source, tmp_path / "out", masks=["seg"], on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"]) == (2, 2) and set(content(tmp_path / "out")) == {"0", "3"}
    assert [one["key"] for one in report["skipped"]] == ["1", "2"] and "the mask has 40 × 24 pixels" in report["skipped"][1]["reason"]
    with pytest.raises(sp.SourceError, match="sample `0`: column 'seg.png': the mask has "):
        sp.convert("webdataset", tar_of(tmp_path / "b.tar", masks[1:2]), tmp_path / "b", masks=["seg"])


def test_a_mask_is_as_its_picture_is_seen(tmp_path: Path) -> None:
    turned = picture("JPEG", {}, "exif", 6)
    source = write_tar(tmp_path / "a.tar", [("0.jpg", turned), ("0.seg.png", png(CLASSES.T, "P"))])
    sp.convert("webdataset", source, tmp_path / "out", masks=["seg"])
    (batch,) = sp.Loader(sp.Dataset(tmp_path / "out"), 1, image="resize40x24", fields=["image", "seg"], align={"seg": sp.align.mask()})
    assert batch["image"].shape == (1, 40, 24, 3) and np.array_equal(batch["seg"][0], CLASSES.T)
    source = write_tar(tmp_path / "b.tar", [("0.jpg", turned), ("0.seg.png", png(CLASSES, "P"))])
    said = "the mask has 24 × 40 pixels .height × width., but its picture has 40 × 24 after Exif rotation\nhint: apply the picture's Exif orientation .6. to the mask too"
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
        with pytest.raises(sp.SourceError, match="the mask has 24 × 39 pixels .height × width., but its picture has 24 × 40"):
            sp.convert("torchvision", Pets(image, CLASSES[:, 1:]), tmp_path / "no", masks=["mask"])
        sp.convert("torchvision", Pets(image, CLASSES), tmp_path / "out", masks=["mask"], force=True)
    # Pictures opened by PIL are stored without their orientation.
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
    with pytest.raises(sp.SourceError, match="the mask has 12 × 40 pixels .height × width., but the pictures have 24 × 40 or 12 × 20"):
        sp.convert("webdataset", tar(CLASSES[:12]), tmp_path / "no", masks=["seg"])


def test_masks_without_a_picture_have_any_size(tmp_path: Path) -> None:
    source = tar_of(tmp_path / "a.tar", [png(CLASSES[:20], "P")])
    sp.convert("webdataset", source, tmp_path / "out", masks=["seg"], drop=["jpg"])
    assert content(tmp_path / "out")["0"]["seg"].shape == (20, 40)
    # The writer reports a damaged picture.
    source = write_tar(tmp_path / "b.tar", [("0.jpg", jpeg(1)[:10]), ("0.seg.png", png(CLASSES, "P"))])
    with pytest.raises(sp.SourceError, match="sample `0`: .*JPEG"):
        sp.convert("webdataset", source, tmp_path / "b", masks=["seg"])


def test_pictures_that_shrink_are_refused_beside_masks(tmp_path: Path) -> None:
    source = tar_of(tmp_path / "a.tar", [png(CLASSES, "P")])
    said = "webdataset: short_side would shrink pictures, but not their masks\nhint: "
    with pytest.raises(sp.SourceError, match=said):
        sp.convert("webdataset", source, tmp_path / "out", masks=["seg"], jpeg="reencode", short_side=12)
    assert not (tmp_path / "out").exists()
    sp.convert("webdataset", source, tmp_path / "out", drop=["seg.png"], jpeg="reencode", short_side=12)


def test_masks_of_voc(tmp_path: Path) -> None:
    root = write_voc(tmp_path / "voc")
    (root / "SegmentationClass" / "c.png").write_bytes(png(CLASSES.T, "P"))
    said = "picture `c`: column 'mask': the mask has 40 × 24 pixels .height × width., but its picture has 24 × 40"
    with pytest.raises(sp.SourceError, match=said):
        sp.convert("voc", root, tmp_path / "out", names=NAMES, masks="SegmentationClass")
    report = sp.convert("voc", root, tmp_path / "out", names=NAMES, masks="SegmentationClass", on_bad_input="skip")
    assert [one["key"] for one in report["skipped"]] == ["c.jpg"] and report["kinds"]["mask"] == "array"
    sp.convert("voc", root, tmp_path / "other", names=NAMES, masks="SegmentationClass", drop=["mask"])
    assert set(content(tmp_path / "other")) == {"a.jpg", "b.jpg", "c.jpg"}


def boxes_of(*boxes: list[float]) -> list[dict[str, Any]]:
    return [{"image_id": 70, "category_id": 3, "bbox": box} for box in boxes]


def said_of_coco(tmp_path: Path, image: bytes, sides: dict[str, Any], *boxes: list[float], **options: Any) -> dict[str, Any]:
    """Returns the report for a COCO file whose first picture is `image`, annotated with these sides and boxes."""
    for number in range(100):
        root = tmp_path / f"coco{number}"
        if not root.exists():
            break
    images = [{"id": 70, "file_name": "a.jpg", **sides}, {"id": 71, "file_name": "b.jpg"}]
    path = write_coco(root, images=images, annotations=boxes_of(*boxes))
    (root / "val2017" / "a.jpg").write_bytes(image)
    return sp.convert("coco", path, tmp_path / "out", force=True, **options)


def test_sizes_that_coco_says_are_those_of_the_upright_picture(tmp_path: Path) -> None:
    whole, turned = picture("JPEG", {}, "exif", 1), picture("JPEG", {}, "exif", 6)
    box = [1, 2, 3, 4]
    for image, sides in [
        (whole, {"height": 24, "width": 40}), (turned, {"height": 40, "width": 24}),
        (whole, {}), (whole, {"height": None, "width": None}), (whole, {"height": 0, "width": 0}), (whole, {"height": 24.0, "width": 40}),
    ]:  # fmt: skip
        assert said_of_coco(tmp_path, image, sides, box)["samples"] == 2
    said = "picture `a.jpg`: `height` and `width` are 24 and 400, but the picture is 24 pixels high and 40 wide\nhint: pass on_bad_input"
    with pytest.raises(sp.SourceError, match=said):
        said_of_coco(tmp_path, whole, {"height": 24, "width": 400}, box)
    said = (
        "`height` and `width` are 24 and 40, but the picture is 40 pixels high and 24 wide after Exif rotation\n"
        "hint: the annotations fit the picture before Exif rotation: apply orientation 6 to them"
    )
    with pytest.raises(sp.SourceError, match=said):
        said_of_coco(tmp_path, turned, {"height": 24, "width": 40}, box)
    report = said_of_coco(tmp_path, turned, {"height": 24, "width": 40}, box, on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"]) == (1, 1) and report["skipped"][0]["key"] is None
    for found in ("24", [24], True):
        with pytest.raises(sp.SourceError, match="but the picture is 24 pixels high and 40 wide"):
            said_of_coco(tmp_path, whole, {"height": found, "width": 40}, box)
    # No converted column is in pixels, so the wrong size does not matter.
    said_of_coco(tmp_path, whole, {"height": 7, "width": 7})
    said_of_coco(tmp_path, whole, {"height": 7, "width": 7}, box, drop=["boxes"])


def test_boxes_outside_of_their_picture_are_refused(tmp_path: Path) -> None:
    whole, turned = picture("JPEG", {}, "exif", 1), picture("JPEG", {}, "exif", 6)
    for box in ([1000, 1000, 50, 50], [40, 0, 5, 5], [-5, 0, 5, 5], [0, 24, 5, 5], [41, 0, 0, 0]):
        said = rf"picture `a.jpg`: a `bbox` lies outside the picture, which is 40 pixels wide and 24 high: \[{box[0]}, {box[1]}, "
        with pytest.raises(sp.SourceError, match=said):
            said_of_coco(tmp_path, whole, {}, [1, 2, 3, 4], box)
    # A box that extends beyond the picture is valid, and so is a box without width.
    assert said_of_coco(tmp_path, whole, {}, [39, 23, 50, 50], [-5, -5, 6, 6], [40, 0, 0, 5], [1, 1, 0, 0])["samples"] == 2
    with pytest.raises(sp.SourceError, match=r"24 pixels wide and 40 high after Exif rotation: \[30, 1, 5, 5\]\nhint: apply the picture's Exif orientation .6. to the boxes too"):
        said_of_coco(tmp_path, turned, {}, [30, 1, 5, 5])
    report = said_of_coco(tmp_path, whole, {}, [1000, 1000, 50, 50], on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"]) == (1, 1) and "a.jpg" in report["skipped"][0]["reason"]


def test_sizes_and_boxes_of_voc(tmp_path: Path) -> None:
    root = write_voc(tmp_path / "voc")
    path = root / "Annotations" / "a.xml"
    good = path.read_text()

    def convert(sizes: str, **options: Any) -> dict[str, Any]:
        path.write_text(good.replace("<annotation>", f"<annotation>{sizes}"))
        return sp.convert("voc", root, tmp_path / "out", names=NAMES, force=True, **options)

    for sizes in ("", "<size><width>40</width><height>24</height></size>", "<size><width>0</width><height>0</height></size>", "<size/>"):
        assert convert(sizes)["samples"] == 3
    wrong = "<size><width>24</width><height>40</height></size>"
    with pytest.raises(sp.SourceError, match="picture `a`: `height` and `width` are 40 and 24, but the picture is 24 pixels high and 40 wide\n"):
        convert(wrong)
    assert convert(wrong, on_bad_input="skip")["samples_skipped"] == 1 and convert(wrong, drop=["boxes"])["samples"] == 3
    # An empty `height` is ignored.
    assert convert("<size><width>40</width><height/></size>")["samples"] == 3
    with pytest.raises(sp.SourceError, match="`height` and `width` are None and 24, but the picture is 24 pixels high and 40 wide\n"):
        convert("<size><width>24</width><height/></size>")
    with pytest.raises(sp.SourceError, match="`height` in `a.xml` must be a number, found: 'tall'"):
        convert("<size><width>40</width><height>tall</height></size>")
    (root / "JPEGImages" / "a.jpg").write_bytes(picture("JPEG", {}, "exif", 6))
    with pytest.raises(sp.SourceError, match="40 pixels high and 24 wide after Exif rotation\nhint: the annotations fit the picture before Exif rotation: apply orientation 6 to them"):
        convert("<size><width>40</width><height>24</height></size>")
    (root / "JPEGImages" / "a.jpg").write_bytes(jpeg(0))
    path.write_text(good.replace("<xmin>2<", "<xmin>45<").replace("<xmax>11<", "<xmax>48<"))
    said = r"picture `a`: a `bndbox` \(xmin, ymin, xmax, ymax\) lies outside the picture, which is 40 pixels wide and 24 high: \[45, 3, 48, 22\]"
    with pytest.raises(sp.SourceError, match=said):
        sp.convert("voc", root, tmp_path / "never", names=NAMES)


def test_boxes_of_yolo(tmp_path: Path) -> None:
    root = write_yolo(tmp_path / "yolo")
    path = root / "labels" / "train" / "a.txt"
    path.write_text("\n0 1 1 0.1 0.1\n1 0.5 0.5 0.5 0.5\n0 1.005 0.5 0.001 0.1\n")
    with pytest.raises(sp.SourceError, match=r"a.txt`, line 4: the box lies outside the picture: \[1.005, 0.5, 0.001, 0.1\]"):
        sp.convert("yolo", root, tmp_path / "never", split="train", names=NAMES)
    assert sp.convert("yolo", root, tmp_path / "out", split="train", names=NAMES, on_bad_input="skip")["samples_skipped"] == 1
