"""Tests conversion from HDF5 files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg, kinds, pixels

import shardpack as sp

h5py = pytest.importorskip("h5py")


def cubes() -> np.ndarray[Any, Any]:
    return np.random.default_rng(1).normal(size=(5, 4, 3, 6)).astype(np.float32)


def test_rows(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["cube"] = cubes()
        file["labels"] = np.arange(5, dtype=np.uint8) % 2
        file["weight"] = np.linspace(0, 1, 5)
        file["name"] = [f"sample {i}" for i in range(5)]
        file["big_endian"] = np.arange(10, dtype=">i4").reshape(5, 2)
        file.attrs["classes"] = ["soil", "water"]
    report = sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "out", key="name")
    assert report["samples"] == 5 and report["fields"]["labels"] == "label"
    assert kinds(tmp_path / "out") == {"big_endian": "array", "cube": "array", "label": "uint8", "weight": "float64"}
    assert sp.Dataset(tmp_path / "out").classes == ["soil", "water"]
    found = content(tmp_path / "out")
    for i in range(5):
        sample = found[f"sample {i}"]
        assert np.array_equal(sample["cube"], cubes()[i]) and sample["cube"].dtype == np.float32
        assert (
            sample["label"] == i % 2
            and sample["weight"] == i / 4
            and sample["big_endian"].tolist() == [2 * i, 2 * i + 1]
        )


def test_pictures_as_pixels_and_as_bytes(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["images"] = np.stack([pixels(i) for i in range(3)])
        encoded = file.create_dataset("thumbnail", (3,), h5py.vlen_dtype(np.uint8))
        for i in range(3):
            encoded[i] = np.frombuffer(jpeg(i), np.uint8)
        file["caption"] = np.array([b"a", b"bc", b"d"])
    sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "out")
    assert kinds(tmp_path / "out") == {"caption": "text", "image": "image", "thumbnail": "image"}
    found = content(tmp_path / "out", "thumbnail")
    for i in range(3):
        sample = found[f"{i:08d}"]
        assert (
            np.array_equal(sample["image"], pixels(i))
            and sample["thumbnail"] == jpeg(i)
            and sample["caption"] == ["a", "bc", "d"][i]
        )


def test_groups(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for i in range(3):
            file[f"field {i}/cube"] = np.full((i + 2, 3, 4), i, np.int16)
            file[f"field {i}/label"] = i
            file[f"field {i}/meta/site"] = f"site {i}"
    sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "out")
    found = content(tmp_path / "out")
    for i in range(3):
        sample = found[f"field {i}"]
        assert sample["cube"].shape == (i + 2, 3, 4) and (sample["cube"] == i).all()
        assert sample["label"] == i and sample["meta_site"] == f"site {i}"


def test_attributes_of_samples_are_columns_or_a_note(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        for i in range(3):
            group = file.create_group(f"s{i}")
            group["cube"] = cubes()[i]
            group.attrs.update({"label": i, "place": "field", "centre": np.float32([i, 2]), "TITLE": b"of PyTables"})
    with pytest.warns(UserWarning, match="group attributes are not converted: 'label', 'place', 'centre'|'centre', 'label', 'place'"):
        report = sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "out")
    assert kinds(tmp_path / "out") == {"cube": "array"} and "hint: pass attributes=True to convert them to columns, or drop=[" in report["notes"][0]
    report = sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "taken", attributes=True, drop=["place"])
    assert report["notes"] == [] and report["dropped"] == {"place": 3}
    found = content(tmp_path / "taken")
    assert kinds(tmp_path / "taken") == {"cube": "array", "label": "int64", "centre": "array"}
    for i in range(3):
        sample = found[f"s{i}"]
        assert sample["label"] == i and sample["centre"].tolist() == [i, 2] and sample["centre"].dtype == np.float32
    assert sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "b", drop=["label", "place", "centre"])["notes"] == []
    with h5py.File(tmp_path / "a.h5", "a") as file:
        file["s1"].attrs["cube"] = 1
    with pytest.raises(ValueError, match="sample `s1`: an array and an attribute are both named 'cube'"):
        sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "c", attributes=True)


def test_a_group_inside_and_arrays_of_varying_shape(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["train/label"] = [1, 2, 3]
        for i in range(3):
            file[f"train/cube/{i}"] = np.full((i + 1, 2), i, np.float32)
        file["test/label"] = [4]
    with pytest.raises(
        ValueError, match="contains several splits: test, train\nhint: pass group='test'"
    ):
        sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "out")
    sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "out", group="train")
    found = content(tmp_path / "out")
    for i in range(3):
        sample = found[f"{i:08d}"]
        assert sample["label"] == i + 1 and np.array_equal(sample["cube"], np.full((i + 1, 2), i, np.float32))


def refuse(path: Path, message: str, **options: Any) -> None:
    with pytest.raises(ValueError, match=message):
        sp.convert("hdf5", path, path.parent / "out", **options)
    assert not (path.parent / "out").exists()


def test_columns_that_cannot_be_taken_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.zeros(2)
        file["complex"] = np.zeros((2, 3), np.complex64)
        file["table"] = np.zeros(2, [("a", "i4")])
        file.create_dataset("lists", (2,), h5py.vlen_dtype(np.float32))
    refuse(
        path,
        r"3 columns cannot be converted\n  complex: .*\n  lists: .*that vary in length\n  table: .*\n"
        r"hint: pass drop=\['complex', 'lists', 'table'\] to leave them out",
    )
    report = sp.convert("hdf5", path, tmp_path / "out", drop=["complex", "lists", "table"])
    assert report["kinds"] == {"x": "float64"} and report["dropped"] == {"complex": 2, "lists": 2, "table": 2}


def test_lengths_that_differ_are_said(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["cube"] = np.zeros((4, 2, 2))
        file["mean"] = np.zeros(3)
    refuse(path, r"differ in length.*: 'cube' \[4, 2, 2\], 'mean' \[3\]\nhint: pass drop=")
    refuse(path, r"the first axes of the arrays differ in length", samples="rows")
    refuse(path, r"`drop` names an unknown column 'means'; .*\nhint: did you mean 'mean'\?", drop=["means"], samples="rows")
    refuse(path, r"differ in length.*: .*\nhint: pass drop=.*\n`drop` names an unknown column: 'means'\nhint: did you mean 'mean'\?", drop=["means"])
    refuse(path, r"there is no text array 'cube' to take the sample keys from \(`key`\)", key="cube", drop=["mean"])
    refuse(path, r"samples: expected 'auto', 'rows' or 'groups', found: 'row'", samples="row")
    refuse(path, r"has no group 'train'", group="train")


def test_a_wrong_name_in_drop_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for i in range(3):
            file[f"s{i}/cube"] = cubes()[i]
            file[f"s{i}/waves"] = np.zeros(2, np.complex64)
    options: dict[str, Any] = {"drop": ["wave", "w"]}
    said = (
        r"sample `s0`: 1 column cannot be converted\n  waves: .*\nhint: pass drop=\['waves'\] to leave it out\n"
        r"`drop` names an unknown column: 'w'\n`drop` names an unknown column: 'wave'\nhint: did you mean 'waves'\?"
    )
    refuse(path, said, **options)
    # Leave out one whole sample, and one column in every sample.
    report = sp.convert("hdf5", path, tmp_path / "out", drop=["waves", "s1"])
    assert report["notes"] == [] and set(content(tmp_path / "out")) == {"s0", "s2"}
    with pytest.warns(UserWarning, match=r"`drop` names a column that no sample has: 'cub'\nhint: did you mean 'cube'\?"):
        report = sp.convert("hdf5", path, tmp_path / "more", drop=["waves", "cub"])
    assert len(report["notes"]) == 1 and report["dropped"] == {"waves": 3, "cub": 0}


def test_groups_beside_arrays_are_left_out_by_name_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = [1, 2, 3]
        file["boxes/first"] = [[0, 1]]
        file["boxes/second"] = [[0, 1]]
        file["notes/by"] = "me"
    refuse(path, r"has both arrays and groups, so it is unclear which of them are the samples; the arrays are 'x' \[3\]\nhint: pass drop=\['boxes', 'notes'\] to leave the groups out")
    message = r"2 columns cannot be converted\n  boxes: a group, which has no rows\n  notes: a group.*\nhint: pass drop=\['boxes', 'notes'\]"
    refuse(path, message, samples="rows")
    refuse(path, "1 column cannot be converted\n  notes: a group", samples="rows", drop=["boxes"])
    for number, options in enumerate([{}, {"samples": "rows"}]):
        report = sp.convert("hdf5", path, tmp_path / f"{number}", drop=["boxes", "notes"], **options)
        assert report["samples"] == 3 and report["dropped"] == {"boxes": 3, "notes": 3}
    with h5py.File(path, "a") as file:
        for i in range(1000):
            file[f"c{i}"] = [1, 2, 3]
    refuse(path, "1003 arrays and groups would become columns, but the limit is 1000", samples="rows")


def test_data_outside_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x" * 64)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = [1]
    with h5py.File(tmp_path / "raw.h5", "w") as file:
        file.create_dataset("x", (2,), "u1", external=[(str(tmp_path / "secret"), 0, 64)])
    with h5py.File(tmp_path / "link.h5", "w") as file:
        file["x"] = h5py.ExternalLink(str(tmp_path / "other.h5"), "/x")
    refuse(tmp_path / "raw.h5", "1 column cannot be converted\n  x: a dataset whose data are in another file: .*secret")
    refuse(tmp_path / "link.h5", "`x` is a link to another file, `.*other.h5`")


def test_what_is_no_hdf5_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = np.arange(10000)
    whole = (tmp_path / "a.h5").read_bytes()
    for data in (b"", b"no", whole[:1000], whole[:-1]):
        (tmp_path / "a.h5").write_bytes(data)
        refuse(tmp_path / "a.h5", "a.h5`: cannot (open|read) the HDF5 file")
    with h5py.File(tmp_path / "a.h5", "w"):
        pass
    refuse(tmp_path / "a.h5", "found neither arrays nor groups")
    with pytest.raises(FileNotFoundError):
        sp.convert("hdf5", tmp_path / "missing.h5", tmp_path / "out")


def test_a_damaged_chunk_is_named_and_can_be_skipped(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("x", (3000, 8, 8), "f4", chunks=(1000, 8, 8), compression="gzip", fletcher32=True)
        data[:] = np.random.default_rng(0).normal(size=(3000, 8, 8))
        chunk = data.id.get_chunk_info(2)
    raw = bytearray(path.read_bytes())
    raw[chunk.byte_offset + chunk.size // 2] ^= 0xFF
    path.write_bytes(raw)
    refuse(path, r"a\.h5`, row 2000: ")
    report = sp.convert("hdf5", path, tmp_path / "out", on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"], report["samples_skipped_exact"]) == (2000, 1000, True)


def test_a_row_that_cannot_be_read_takes_no_other_with_it(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        text = file.create_dataset("text", (600,), h5py.string_dtype())
        text[:] = [b"\xff" if i == 333 else f"row {i}".encode() for i in range(600)]
    report = sp.convert("hdf5", tmp_path / "a.h5", tmp_path / "out", on_bad_input="skip", shuffle=False)
    assert (report["samples"], report["samples_skipped"]) == (599, 1)
    assert "row 333: 'utf-8' codec can't decode byte 0xff" in report["skipped"][0]["reason"]
    texts = [sample["text"] for sample in sp.Dataset(tmp_path / "out")]
    assert texts == [f"row {i}" for i in range(600) if i != 333]
