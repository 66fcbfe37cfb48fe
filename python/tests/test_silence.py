"""Tests that changed, skipped or misunderstood input gives a warning."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import command, pack, photo
from PIL import Image

import shardpack as sp


def deep_png(value: int, side: int = 8) -> bytes:
    """Returns a PNG with 16 bits per sample."""
    out = io.BytesIO()
    Image.fromarray(np.full((side, side), value, np.uint16)).save(out, "png")
    return out.getvalue()


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "png")
    return out.getvalue()


def told(found: list[warnings.WarningMessage]) -> list[str]:
    """Asserts that the warnings point to the program instead of the package, and returns their messages."""
    assert {warning.filename for warning in found} <= {__file__}
    return [str(warning.message) for warning in found]


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packs four pictures, three of them with 16 bits."""
    source = tmp_path_factory.mktemp("deep")
    for number in range(3):
        (source / f"{number}.png").write_bytes(deep_png(65_525))
    photo(0, 16, 16).save(source / "3.jpg")
    return source


def test_packing_counts_pictures_of_16_bits(deep: Path, tmp_path: Path) -> None:
    run = [*command(), "pack", str(deep), str(tmp_path / "out"), "--json"]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout)["pictures_over_8_bits"] == 3
    told = [line for line in done.stderr.splitlines() if "8 bits per channel" in line]
    assert "3 pictures have more than 8 bits per channel" in told[0] and "decoded to 8 bits (first: `0.png`)" in told[0]
    with pytest.warns(UserWarning, match="3 pictures have more than 8 bits per channel.*\nhint: .*kind=\"cubes\""):
        assert sp.pack(deep, tmp_path / "again")["pictures_over_8_bits"] == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (tmp_path / "shallow").mkdir()
        photo(1, 16, 16).save(tmp_path / "shallow" / "3.jpg")
        assert sp.pack(tmp_path / "shallow", tmp_path / "only")["pictures_over_8_bits"] == 0


def test_decoding_16_bits_warns_once(deep: Path, tmp_path: Path) -> None:
    dataset = sp.Dataset(pack(deep, tmp_path / "out"))
    number = dataset.index_of("1.png")
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert dataset[number]["image"].max() == 255
        dataset.get(number)
        dataset[:]
        assert dataset.raw(number, "image") == (deep / "1.png").read_bytes()
    (text,) = told(found)
    assert "field `image`: pictures with more than 8 bits per channel are decoded to 8 bits\nhint" in text
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        loader = sp.Loader(dataset, 2, image="center8", epoch=1)
        for _ in range(3):
            list(loader)
    assert [text in message for message in told(found)] == [True]
    # Three pictures per epoch are counted, and possibly some of the next epoch, which is prefetched.
    assert 9 <= loader.stats()["narrowed_pictures"] <= 12
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(sp.Loader(dataset, 2, image="raw"))
        sp.Dataset(dataset.path)[dataset.index_of("3.jpg")]


def test_a_writer_counts_pictures_of_16_bits(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="^1 picture has more than 8 bits per channel.*\nhint") as found, sp.Writer(tmp_path / "out") as writer:
        writer.write({"left": deep_png(3), "right": png(np.zeros((4, 4), np.uint8))})
    told(list(found))
    assert writer.report is not None and writer.report["pictures_over_8_bits"] == 1


def test_a_writer_counts_pictures_with_alpha(tmp_path: Path) -> None:
    text = "^1 picture has extra bands, such as an alpha channel: the file is stored unchanged, but loaders drop these bands$"
    with pytest.warns(UserWarning, match=text) as found, sp.Writer(tmp_path / "out") as writer:
        writer.write({"left": png(np.zeros((4, 4, 4), np.uint8)), "right": png(np.zeros((4, 4, 3), np.uint8))})
    told(list(found))
    assert writer.report is not None and writer.report["pictures_with_more_bands"] == 1


def test_odd_pictures_are_told_and_damaged_ones_refused(tmp_path: Path) -> None:
    out = io.BytesIO()
    photo(0, 64, 64).save(out, "jpeg", restart_marker_blocks=1)
    whole = out.getvalue()
    damaged = whole.replace(b"\xff\xd2", b"\xff\xd5")
    assert damaged != whole
    odd = whole[:20] + b"odd" + whole[20:]
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "whole.jpg").write_bytes(whole)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sp.pack(tmp_path / "src", tmp_path / "fine", jpeg="keep")
        with sp.Writer(tmp_path / "fine too", jpeg="keep") as writer:
            writer.write({"image": whole})
    assert writer.report is not None and writer.report["odd_pictures"] == []
    (tmp_path / "src" / "odd.jpg").write_bytes(odd)
    with pytest.warns(UserWarning, match="^1 picture has a flaw that decoders ignore: `odd.jpg`: ") as found:
        report = sp.pack(tmp_path / "src", tmp_path / "packed", jpeg="keep")
    told(list(found))
    assert [picture["key"] for picture in report["odd_pictures"]] == ["odd.jpg"]
    text = "^1 picture has a flaw that decoders ignore: `b`: field `image`: "
    with pytest.warns(UserWarning, match=text) as found, sp.Writer(tmp_path / "written", jpeg="keep") as writer:
        writer.write({"image": whole}, key="a")
        writer.write({"image": odd}, key="b")
        with pytest.raises(ValueError, match="cannot decode the picture"):
            writer.write({"image": damaged}, key="c")
    told(list(found))
    assert writer.report is not None and [picture["key"] for picture in writer.report["odd_pictures"]] == ["b"]
    written = sp.Dataset(tmp_path / "written")
    assert written.raw(1, "image") == odd, "to the byte"
    assert np.array_equal(written[1]["image"], written[0]["image"])


def floats() -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).uniform(0, 10_000, (16, 16, 4)).astype(np.float32)


def test_floats_that_are_rounded_are_told(tmp_path: Path) -> None:
    (tmp_path / "cubes").mkdir()
    np.save(tmp_path / "cubes" / "a.npy", floats())
    text = r"field `cube`: [\d,]+ of 1,024 values were rounded to float16, by up to 3\.\d+ \(sample `a.*`\)\nhint: pass values='keep'"
    with pytest.warns(UserWarning, match=text) as found:
        report = sp.pack(tmp_path / "cubes", tmp_path / "packed")
    told(list(found))
    assert 3 < report["fidelity"]["cube"]["max_abs_error"] < 4
    with pytest.warns(UserWarning, match=text.replace("`a.*`", "`a`")) as found, sp.Writer(tmp_path / "written") as writer:
        writer.write({"cube": floats()}, key="a")
    told(list(found))
    writer = sp.Writer(tmp_path / "closed")
    writer.write({"cube": floats()}, key="a")
    with pytest.warns(UserWarning, match="rounded to float16") as found:
        writer.close()
    told(list(found))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer.close()
        options: list[dict[str, Any]] = [{"values": "auto"}, {"values": "f16"}, {"values": "keep"}, {"max_error": 8.0}]
        for number, chosen in enumerate(options):
            sp.pack(tmp_path / "cubes", tmp_path / f"packed {number}", **chosen)
            with sp.Writer(tmp_path / f"written {number}", **chosen) as writer:
                writer.write({"cube": floats()})
        with sp.Writer(tmp_path / "integers") as writer:
            writer.write({"cube": np.round(floats() / 10), "box": np.float32([0.1, 0.2])})


def test_a_warning_that_is_an_error_leaves_the_dataset_whole(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning), sp.Writer(tmp_path / "out") as writer:
            writer.write({"cube": floats()})
    assert writer.report is not None and sp.verify(tmp_path / "out", deep=True)["whole"]


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    """Packs photos of one size with masks, and with arrays of a different size."""
    out = tmp_path_factory.mktemp("silence") / "masked"
    with sp.Writer(out, {"image": "image", "mask": "array", "code": "array"}) as writer:
        for number in range(8):
            mask, code = np.full((64, 64), number, np.uint8), np.zeros((32, 32), np.float32)
            writer.write({"image": np.asarray(photo(number, 64, 64)), "mask": mask, "code": code})
    return sp.Dataset(out)


def load(dataset: sp.Dataset, *fields: str, **options: Any) -> sp.Batch:
    return next(iter(sp.Loader(dataset, 4, fields=list(fields), **options)))


@pytest.mark.parametrize("layout", ["hwc", "chw"])
@pytest.mark.parametrize("image", ["rrc64", "center64", "rrc32"])
@pytest.mark.parametrize("cube", ["patch64x64", "center32x32", "cycle16x16"])
def test_a_view_beside_a_patch_is_refused(masked: sp.Dataset, image: str, cube: str, layout: str) -> None:
    text = "would not match: picture `image` is cut, scaled or mirrored, but `mask` is not\nhint: align the array with the picture"
    with pytest.raises(sp.UsageError, match=text):
        load(masked, "image", "mask", image=image, cube=cube, layout=layout)
    assert load(masked, "image", image=image)["image"].shape[0] == 4
    assert load(masked, "mask", cube=cube)["mask"].shape[0] == 4
    with pytest.raises(sp.UsageError, match="picture `image` is whole, but patches are cut from `mask`"):
        load(masked, "image", "mask", cube=cube, layout=layout)
    with pytest.raises(sp.UsageError, match="picture `image` is whole, but `mask` is flipped or rotated\nhint: align the array with the picture"):
        load(masked, "image", "mask", augment="hflip", layout=layout)
    assert load(masked, "image", "code", augment="hflip")["code"].shape == (4, 32, 32)
    # An array that differs in size from the picture may be cut on its own.
    assert load(masked, "image", "code", cube="patch16x16")["code"].shape == (4, 16, 16)


@pytest.mark.parametrize("image", ["rrc64", "center64"])
def test_a_view_of_the_size_of_whole_masks_is_refused(masked: sp.Dataset, image: str) -> None:
    with pytest.raises(sp.UsageError, match="picture `image` is cut, scaled or mirrored, but `mask` is not"):
        load(masked, "mask", "image", image=image)
    # An array of a different size is not expected to be aligned.
    assert load(masked, "image", "mask", image="rrc32")["mask"].shape == (4, 64, 64)
    assert load(masked, "image", "code", image="rrc32")["code"].shape == (4, 32, 32)


def test_a_mask_that_is_a_picture_is_not_scaled(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out", {"wide_mask": "image"}) as writer:
        for number in range(8):
            writer.write({"wide_mask": np.full((64, 64), number, np.uint8)})
    dataset = sp.Dataset(tmp_path / "out")
    for image in ("rrc32", "center64"):
        with pytest.raises(sp.UsageError, match="field `wide_mask` is a mask stored as a picture: .*\nhint"):
            load(dataset, "wide_mask", image=image)
    whole = load(dataset, "wide_mask", shuffle=False)["wide_mask"]
    assert [np.array_equal(row, dataset[i]["wide_mask"]) for i, row in enumerate(whole)] == [True] * 4


@pytest.mark.parametrize("field", ["mask", "Mask_2", "cloud_masks"])
def test_a_mask_is_not_stored_as_a_picture_unawares(tmp_path: Path, field: str) -> None:
    mask = np.random.default_rng(0).integers(0, 5, (12, 10), np.uint8)
    palette = Image.fromarray(mask, "P")
    palette.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9])
    file = tmp_path / "m.png"
    palette.save(file)
    with sp.Writer(tmp_path / "out") as writer:
        for value in (file, file.read_bytes(), bytearray(file.read_bytes()), Image.open(file)):
            with pytest.raises(sp.UsageError, match=f"field '{field}': expected a mask as an array, found .*\nhint: pass the class numbers as an array, np.asarray"):
                writer.write({field: value})
        writer.write({field: np.asarray(Image.open(file))})
    assert np.array_equal(sp.Dataset(tmp_path / "out")[0][field], mask)
    with sp.Writer(tmp_path / "meant", {field: "image"}) as writer:
        writer.write({field: file})
    assert sp.Dataset(tmp_path / "meant")[0][field].shape == (12, 10, 3)


def test_a_path_is_read_and_the_name_of_a_picture_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "photo.JPG"
    photo(1, 20, 30).save(file, "jpeg")
    monkeypatch.chdir(tmp_path)
    for field in ("image", "left_photo", "img_2", "Pixels"):
        with sp.Writer(tmp_path / field, jpeg="keep") as writer:
            for name in (str(file), file.name, "gone.png"):
                with pytest.raises(sp.UsageError, match=rf"field '{field}': expected a picture, found .*\nhint: pass pathlib.Path\(.*'text'"):
                    writer.write({field: name})
            writer.write({field: file}, key="a")
        dataset = sp.Dataset(tmp_path / field)
        assert dataset.raw(0, field) == file.read_bytes() and dataset[0][field].shape == (20, 30, 3)
    with sp.Writer(tmp_path / "declared", {"image": "image"}) as writer:
        with pytest.raises(sp.UsageError, match="name of a file"):
            writer.write({"image": file.name})
        writer.write({"image": file})
    # Text fields may hold file names and other text.
    with sp.Writer(tmp_path / "names", {"image": "text", "image_path": "text", "caption": "text"}) as writer:
        writer.write({"image": file.name, "image_path": str(file), "caption": "as in a.jpg"})
    with sp.Writer(tmp_path / "undeclared") as writer:
        writer.write({"image_path": str(file), "photo": "a cat"})
    assert sp.Dataset(tmp_path / "undeclared")[0]["image_path"] == str(file)


def open_files() -> list[str]:
    """Return the paths of this process's open files. Threads of earlier tests may close files meanwhile."""
    paths = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            paths.append(os.readlink(f"/proc/self/fd/{number}"))
    return paths


def test_only_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    with sp.Writer(tmp_path / "out") as writer:
        for none in (tmp_path / "pipe.jpg", tmp_path):
            with pytest.raises(sp.UsageError, match=f"not a regular file: {none}"):
                writer.write({"image": none})
            assert str(none) not in open_files(), "and nothing stays open"
        with pytest.raises(FileNotFoundError):
            writer.write({"image": tmp_path / "gone.jpg"})
        (tmp_path / "blob.bin").write_bytes(b"abc")
        writer.write({"blob": tmp_path / "blob.bin"})
    assert sp.Dataset(tmp_path / "out")[0]["blob"] == b"abc"


@pytest.mark.parametrize("field", ["segmentation", "label_map", "ground_truth", "label"])
def test_masks_of_any_name_are_no_pictures(tmp_path: Path, field: str) -> None:
    classes = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    with sp.Writer(tmp_path / "out") as writer:
        for value in (classes, png(np.asarray(classes))):
            with pytest.raises(sp.UsageError, match=f"field '{field}': expected a mask as an array"):
                writer.write({field: value})
        writer.write({field: np.asarray(classes)})
    with sp.Writer(tmp_path / "pictures", schema={field: "image"}) as writer:
        writer.write({field: classes})
    dataset = sp.Dataset(tmp_path / "pictures")
    with pytest.raises(sp.UsageError, match=f"field `{field}` is a mask stored as a picture"):
        sp.Loader(dataset, 1, image="center4")
    with sp.Writer(tmp_path / "others") as writer:
        writer.write({"label": b"BMW: a name", "target": classes, "bottle_label": classes})
    assert sp.Dataset(tmp_path / "others").raw(0, "label") == b"BMW: a name"
