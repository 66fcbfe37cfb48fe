"""Tests that the option `masks` turns masks stored as pictures into class numbers, and that a note suggests the option.
"""

from __future__ import annotations

import io
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg, kinds
from test_convert_webdataset import npy, write_tar

import shardpack as sp

pil = pytest.importorskip("PIL.Image")
CLASSES = np.arange(24 * 40, dtype=np.uint16).reshape(24, 40) % 7


def png(numbers: np.ndarray[Any, Any], mode: str | None = None) -> bytes:
    """Returns a PNG of class numbers, grey or with a palette of bright colours."""
    out = io.BytesIO()
    picture = pil.fromarray(numbers if mode != "P" else numbers.astype(np.uint8))
    if mode == "P":
        picture.putpalette([value * 37 % 256 for value in range(768)])
    elif mode is not None:
        picture = picture.convert(mode)
    picture.save(out, "PNG")
    return out.getvalue()


def tar_of(path: Path, masks: list[bytes], extension: str = "seg.png") -> Path:
    members = [m for i, mask in enumerate(masks) for m in ((f"{i}.jpg", jpeg(i)), (f"{i}.{extension}", mask))]
    return write_tar(path, members)


@pytest.mark.parametrize("name", ["seg", "seg.png"])
def test_masks_are_those_that_pack_stores(tmp_path: Path, name: str) -> None:
    masks = [png(CLASSES + i, "P") for i in range(3)]
    report = sp.convert("webdataset", tar_of(tmp_path / "a.tar", masks), tmp_path / "out", masks=[name])
    assert report["kinds"] == {"image": "image", "seg": "array"} and report["notes"] == []
    (tmp_path / "photos").mkdir()
    (tmp_path / "masks").mkdir()
    for i, mask in enumerate(masks):
        (tmp_path / "photos" / f"{i}.jpg").write_bytes(jpeg(i))
        (tmp_path / "masks" / f"{i}.png").write_bytes(mask)
    sp.pack(tmp_path / "photos", tmp_path / "packed", masks=tmp_path / "masks")
    packed = content(tmp_path / "packed")
    for i in range(3):
        found, expected = content(tmp_path / "out")[str(i)]["seg"], packed[f"{i}.jpg"]["mask"]
        assert found.dtype == expected.dtype == np.uint8 and np.array_equal(found, expected)
        assert np.array_equal(found, CLASSES + i)


@pytest.mark.parametrize(
    "mask, dtype",
    [
        (png(CLASSES.astype(np.uint8)), np.uint8),
        (png(CLASSES * 300), np.uint16),
        # One-bit grey values are 0 and 1, not 0 and 255.
        (png(CLASSES.astype(np.uint8) % 2 * 255, "1"), np.uint8),
    ],
    ids=["8 bits", "16 bits", "1 bit"],
)
def test_greys_keep_their_numbers(tmp_path: Path, mask: bytes, dtype: Any) -> None:
    sp.convert("webdataset", tar_of(tmp_path / "a.tar", [mask]), tmp_path / "out", masks=["seg"])
    found = content(tmp_path / "out")["0"]["seg"]
    expected = CLASSES * 300 if dtype == np.uint16 else CLASSES % 2 if found.max() == 1 else CLASSES
    assert found.dtype == dtype and np.array_equal(found, expected)


def test_masks_of_several_types_become_one(tmp_path: Path) -> None:
    narrow, wide = png(CLASSES.astype(np.uint8)), png(CLASSES * 300)
    source = tar_of(tmp_path / "a.tar", [narrow, wide])
    said = r"sample `1`: column 'seg.png': the mask has uint16 class numbers, but field `seg` stores uint8\nhint: pass schema={'seg': 'array:uint16'}"
    with pytest.raises(ValueError, match=said):
        sp.convert("webdataset", source, tmp_path / "no", masks=["seg"])
    sp.convert("webdataset", source, tmp_path / "out", masks=["seg"], schema={"seg": "array:uint16"})
    # No note is needed if all values fit the type of the first mask.
    sp.convert("webdataset", tar_of(tmp_path / "b.tar", [wide, narrow]), tmp_path / "b", masks=["seg"])
    for out, keys in (("out", "01"), ("b", "10")):
        found = content(tmp_path / out)
        for key, times in zip(keys, (1, 300), strict=True):
            assert found[key]["seg"].dtype == np.uint16 and np.array_equal(found[key]["seg"], CLASSES * times)


def test_what_is_no_mask_is_refused_in_words(tmp_path: Path) -> None:
    def why(mask: bytes, extension: str = "seg.png", **options: Any) -> str:
        source = tar_of(tmp_path / "a.tar", [png(CLASSES.astype(np.uint8)), mask], extension)
        with pytest.raises(ValueError) as raised:
            sp.convert("webdataset", source, tmp_path / "out", **{"masks": ["seg"]} | options)
        assert not (tmp_path / "out").exists()
        return str(raised.value)

    colours = png(np.zeros((24, 40, 3), np.uint8))
    said = why(colours)
    assert "sample `1`: column 'seg.png': a label mask must be a grey or palette PNG, but this one has the colour type Rgb" in said
    assert "hint: save the class numbers, not their colours" in said
    assert "column 'seg.png': masks must be PNG or TIFF, but this one is a JPEG, whose compression changes class numbers" in why(jpeg(1))
    assert "column 'seg.png': cannot decode the PNG: " in why(png(CLASSES)[:-30])
    assert "`masks` names an unknown column 'mask'; the columns are 'jpg', 'seg.png'" in why(colours, masks=["mask"])
    assert "`masks` stores 'seg' as an array, but `schema` says 'image'" in why(colours, schema={"seg": "image"})
    with pytest.raises(TypeError, match=r"masks: expected a list of columns, found: 'seg'\nhint: pass masks=\['seg'\]"):
        sp.convert("webdataset", tmp_path / "a.tar", tmp_path / "out", masks="seg")
    # A plain PNG next to a JPEG is often its mask.
    said = why(png(CLASSES.astype(np.uint8)), "png", masks=[])
    assert "if column 'png' contains masks, pass rename={'png': 'mask'} and masks=['png']" in said
    sp.convert("webdataset", tmp_path / "a.tar", tmp_path / "out", rename={"png": "mask"}, masks=["png"])
    assert kinds(tmp_path / "out") == {"image": "image", "mask": "array"}


def test_pictures_with_the_name_of_masks_are_a_note(tmp_path: Path) -> None:
    source = tar_of(tmp_path / "a.tar", [png(CLASSES, "P")])
    with pytest.warns(UserWarning, match=r"field `seg` is named like a mask") as warned:
        report = sp.convert("webdataset", source, tmp_path / "out")
    assert warned[0].filename == __file__
    assert len(report["notes"]) == 1 and "hint: pass masks=['seg.png'] to store the class numbers, or pass schema={'seg': 'image'} if these are photos" in report["notes"][0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sp.convert("webdataset", source, tmp_path / "b", schema={"seg": "image"})["notes"] == []
        sp.convert("webdataset", source, tmp_path / "c", masks=["seg"])


def test_masks_of_the_other_formats(tmp_path: Path) -> None:
    mask = png(CLASSES, "P")
    lmdb = pytest.importorskip("lmdb")
    with lmdb.open(str(tmp_path / "a.lmdb"), map_size=1 << 20) as env, env.begin(write=True) as transaction:
        transaction.put(b"image-1", jpeg(1))
        transaction.put(b"seg-1", mask)
    sp.convert("lmdb", tmp_path / "a.lmdb", tmp_path / "lmdb", prefixes={"image": "image-", "seg": "seg-"}, masks=["seg"])
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    struct = [{"bytes": mask, "path": "a.png"}]
    parquet.write_table(pyarrow.table({"image": [jpeg(1)], "seg": struct}), tmp_path / "a.parquet")
    sp.convert("parquet", tmp_path / "a.parquet", tmp_path / "parquet", masks=["seg"])
    from test_convert_mds import write_mds

    write_mds(tmp_path / "mds-in", {"image": ("jpeg", None), "seg": ("png", None)}, [[[jpeg(1), mask]]])
    sp.convert("mds", tmp_path / "mds-in", tmp_path / "mds", masks=["seg"])
    for format in ("lmdb", "parquet", "mds"):
        (sample,) = content(tmp_path / format).values()
        assert np.array_equal(sample["seg"], CLASSES), format


def test_masks_of_objects_and_of_hdf5(tmp_path: Path) -> None:
    class Pets:
        masks: list[Any] = [pil.open(io.BytesIO(png(CLASSES, "P"))), pil.open(io.BytesIO(png(CLASSES.astype(np.uint8))))]

        def __len__(self) -> int:
            return len(self.masks)

        def __getitem__(self, index: int) -> dict[str, Any]:
            return {"image": pil.open(io.BytesIO(jpeg(index))), "mask": self.masks[index]}

    sp.convert("torchvision", Pets(), tmp_path / "pets", masks=["mask"])
    for sample in content(tmp_path / "pets").values():
        assert sample["mask"].dtype == np.uint8 and np.array_equal(sample["mask"], CLASSES)
    Pets.masks = [pil.open(io.BytesIO(jpeg(1)))]
    with pytest.raises(ValueError, match="column 'mask': masks must be greyscale or palette pictures, but this one has mode RGB"):
        sp.convert("torchvision", Pets(), tmp_path / "no", masks=["mask"])
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for name, data in (("image", jpeg(1)), ("seg", png(CLASSES, "P"))):
            rows = file.create_dataset(name, 1, h5py.vlen_dtype("uint8"))
            rows[0] = np.frombuffer(data, np.uint8)
    sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "hdf5", masks=["seg"])
    (sample,) = content(tmp_path / "hdf5").values()
    assert np.array_equal(sample["seg"], CLASSES)


def test_arrays_of_class_numbers_are_taken_as_they_are(tmp_path: Path) -> None:
    source = tar_of(tmp_path / "a.tar", [npy(CLASSES)], "seg.npy")
    sp.convert("webdataset", source, tmp_path / "out", masks=["seg"])
    assert np.array_equal(content(tmp_path / "out")["0"]["seg"], CLASSES)
    source = tar_of(tmp_path / "b.tar", [npy(CLASSES.astype(np.float32))], "seg.npy")
    with pytest.raises(ValueError, match=r"column 'seg.npy': masks must be integer arrays of shape \[height, width\], but this one is float32 of shape \[24, 40\]"):
        sp.convert("webdataset", source, tmp_path / "b", masks=["seg"])


def test_the_command_has_the_option_and_says_the_note(tmp_path: Path) -> None:
    source = tar_of(tmp_path / "a.tar", [png(CLASSES, "P")])
    command = [sys.executable, "-m", "shardpack", "convert", "webdataset", str(source)]
    done = subprocess.run([*command, str(tmp_path / "out"), "--masks", "seg"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and kinds(tmp_path / "out")["seg"] == "array"
    done = subprocess.run([*command, str(tmp_path / "b")], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr.startswith("note: field `seg` is named like a mask")
    assert "hint: pass --masks seg.png to store the class numbers" in done.stderr and "UserWarning" not in done.stderr
