"""Tests exports to WebDataset tars and Zarr, and converting them back."""

from __future__ import annotations

import os
import io
import json
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg, kinds, picture, pil, pixels

import shardpack as sp
from shardpack.convert import webdataset as convert_webdataset
from shardpack.export import webdataset as export_webdataset


def write(out: Path, samples: dict[str, dict[str, Any]], **options: Any) -> Path:
    with sp.Writer(out, **{"jpeg": "keep", **options}) as writer:
        for key, sample in samples.items():
            writer.write(sample, key=key)
    return out


def photos(count: int = 6) -> dict[str, dict[str, Any]]:
    return {
        f"n{i % 2}/photo {i}.JPEG": {
            "image": jpeg(i),
            "label": i % 2,
            "caption": f"grün {i}",
            "meta": {"i": [i, None]},
            "score": np.float32(i / 7),
        }
        for i in range(count)
    }


SCHEMA = {"image": "image", "label": "int64", "caption": "text", "meta": "json", "score": "float32"}


def members(folder: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in sorted(folder.glob("*.tar")):
        with tarfile.open(path) as tar:
            for member in tar:
                opened = tar.extractfile(member)
                assert opened is not None and member.name not in found
                found[member.name] = opened.read()
    return found


def test_tars_hold_the_stored_bytes(tmp_path: Path) -> None:
    src = write(tmp_path / "src", photos(), schema=SCHEMA, classes=["cat", "dog"])
    report = sp.export(sp.Dataset(src), "webdataset", tmp_path / "tars")
    assert (report["format"], report["samples"], report["files"]) == ("webdataset", 6, 1)
    assert sorted(path.name for path in (tmp_path / "tars").iterdir()) == ["classes.json", "shard-000000.tar"]
    assert json.loads((tmp_path / "tars" / "classes.json").read_text()) == ["cat", "dog"]
    found = members(tmp_path / "tars")
    for i in range(6):
        key = f"n{i % 2}/photo {i}"
        assert found[f"{key}.jpg"] == jpeg(i) and found[f"{key}.cls"] == str(i % 2).encode()
        assert found[f"{key}.caption.txt"].decode() == f"grün {i}" and json.loads(found[f"{key}.meta.json"]) == {
            "i": [i, None]
        }
        assert np.load(io.BytesIO(found[f"{key}.score.npy"])) == np.float32(i / 7)


def test_tars_and_back_are_the_same_dataset(tmp_path: Path) -> None:
    src = write(tmp_path / "src", photos(), schema=SCHEMA, classes=["cat", "dog"])
    sp.export(src, "webdataset", tmp_path / "tars", fields=list(SCHEMA))
    sp.convert("webdataset", tmp_path / "tars", tmp_path / "again")
    again = sp.Dataset(tmp_path / "again")
    assert kinds(tmp_path / "again") == SCHEMA | {"score": "float32"} and again.classes == ["cat", "dog"]
    before = {key.removesuffix(".JPEG"): sample for key, sample in content(src, "image").items()}
    after = content(again, "image")
    assert set(after) == set(before)
    for key, sample in before.items():
        assert {name: after[key][name] for name in SCHEMA} == {name: sample[name] for name in SCHEMA}


def test_cubes_to_tars_and_back(tmp_path: Path) -> None:
    cubes = {
        f"c{i}": {
            "cube": np.random.default_rng(i).normal(size=(4, 3, 5 + i)).astype(np.float32),
            "mask": np.ones((4, 3), bool),
        }
        for i in range(3)
    }
    src = write(tmp_path / "src", cubes, values="keep")
    sp.export(src, "webdataset", tmp_path / "tars", fields=["cube", "mask"])
    sp.convert("webdataset", tmp_path / "tars", tmp_path / "again")
    after = content(tmp_path / "again")
    for key, sample in cubes.items():
        assert np.array_equal(after[key]["cube"], sample["cube"]) and after[key]["cube"].dtype == np.float32
        assert np.array_equal(after[key]["mask"], sample["mask"]) and after[key]["mask"].dtype == np.bool_


@pytest.mark.parametrize("size", [20_480, 40_960, "64KiB"])
def test_no_tar_is_larger_than_asked_for(tmp_path: Path, size: int | str) -> None:
    src = write(tmp_path / "src", {f"{i:03d}": {"image": jpeg(i), "label": i} for i in range(40)})
    report = sp.export(src, "webdataset", tmp_path / "tars", shard_size=size, fields=["image", "label"])
    sizes = [path.stat().st_size for path in (tmp_path / "tars").glob("*.tar")]
    assert len(sizes) == report["files"] > 1 and max(sizes) <= (65_536 if size == "64KiB" else int(size))
    assert len(members(tmp_path / "tars")) == 80


def test_the_webdataset_library_reads_them(tmp_path: Path) -> None:
    wds = pytest.importorskip("webdataset")
    src = write(tmp_path / "src", photos(), schema=SCHEMA)
    sp.export(src, "webdataset", tmp_path / "tars")
    dataset = wds.WebDataset(str(tmp_path / "tars" / "shard-000000.tar"), shardshuffle=False).decode()
    seen = {sample["__key__"]: sample for sample in dataset}
    for i in range(6):
        sample = seen[f"n{i % 2}/photo {i}"]
        assert (
            sample["cls"] == i % 2
            and sample["caption.txt"] == f"grün {i}"
            and sample["meta.json"] == {"i": [i, None]}
            and sample["jpg"] == jpeg(i)
        )


def test_the_same_dataset_gives_the_same_tars(tmp_path: Path) -> None:
    src = write(tmp_path / "src", photos(), schema=SCHEMA)
    for name in "ab":
        sp.export(src, "webdataset", tmp_path / name)
    assert (tmp_path / "a" / "shard-000000.tar").read_bytes() == (tmp_path / "b" / "shard-000000.tar").read_bytes()


def test_keys_that_a_tar_cannot_tell_apart(tmp_path: Path) -> None:
    samples = {"a.b/x.v1": {"text": "1"}, "a.b/x_v1": {"text": "2"}}
    src = write(tmp_path / "src", samples)
    with pytest.raises(
        ValueError,
        match=r"the keys `.*` and `.*` both become `a\.b/x_v1` in a tar\nhint: pass keys='number'",
    ):
        sp.export(src, "webdataset", tmp_path / "tars")
    assert [path.name for path in tmp_path.iterdir()] == ["src"]
    sp.export(src, "webdataset", tmp_path / "tars", keys="number")
    assert sorted(members(tmp_path / "tars").values()) == [b"1", b"2"]


def test_pictures_of_other_types_and_missing_values(tmp_path: Path) -> None:
    samples: dict[str, dict[str, Any]] = {
        "a": {"image": picture(0, "PNG"), "note": "x"},
        "b": {"image": jpeg(1), "note": None},
    }
    sp.export(write(tmp_path / "src", samples), "webdataset", tmp_path / "tars", fields=["image", "note"])
    assert members(tmp_path / "tars") == {"a.png": picture(0, "PNG"), "a.note.txt": b"x", "b.jpg": jpeg(1)}


def test_what_is_asked_for_wrongly(tmp_path: Path) -> None:
    src = write(tmp_path / "src", {"a": {"text": "x"}})
    cases: list[tuple[str, dict[str, Any], type[Exception], str]] = [
        (
            "webdatset",
            {},
            ValueError,
            "format: expected one of webdataset, zarr, found 'webdatset'\nhint: did you mean 'web",
        ),
        ("webdataset", {"shard_sise": 1}, TypeError, "unknown option 'shard_sise'; .*\nhint: did you mean 'shard_size'"),
        (
            "webdataset",
            {"shard_size": "big"},
            ValueError,
            "shard_size: unknown unit `big`: expected KiB, MiB, GiB, TiB, kB, MB, GB or TB",
        ),
        ("webdataset", {"shard_size": 0}, ValueError, "shard_size: expected"),
        ("webdataset", {"keys": "no"}, ValueError, "keys: expected 'dataset' or 'number', found 'no'"),
        ("webdataset", {"fields": "text"}, TypeError, r"fields: expected a sequence of names, .*\nhint: pass fields=\['text'\]"),
        ("webdataset", {"fields": ["image"]}, ValueError, "fields: the dataset has no field 'image'; its fields are text"),
    ]
    for format, options, error, message in cases:
        with pytest.raises(error, match=message):
            sp.export(src, format, tmp_path / "out", **options)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    with pytest.raises(FileExistsError, match="the output folder is not empty"):
        sp.export(src, "webdataset", tmp_path / "full")
    held = sorted(path.name for path in src.iterdir())
    with pytest.raises(ValueError, match="out: .* is inside the dataset `.*`\nhint: pass a folder outside"):
        sp.export(src, "webdataset", src / "tars")
    assert sorted(path.name for path in src.iterdir()) == held
    assert sorted(path.name for path in tmp_path.iterdir()) == ["full", "src"]


def test_long_clips_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = [jpeg(i % 7, 8, 8) for i in range(1100)]
    src = write(tmp_path / "src", {"a": {"clip": frames, "label": 1}, "b": {"clip": frames[:2], "label": 0}})
    sp.export(src, "webdataset", tmp_path / "tars")
    sp.convert("webdataset", tmp_path / "tars", tmp_path / "again")
    first, again = sp.Dataset(src), sp.Dataset(tmp_path / "again")
    for key, count in (("a", 1100), ("b", 2)):
        before, after = (dataset.raw(dataset.index_of(key), "clip") for dataset in (first, again))
        assert bytes(before) == bytes(after) and again[again.index_of(key)]["clip.frames"] == count
    # The export must refuse too many frames, so that a later conversion does not fail.
    for module in (export_webdataset, convert_webdataset):
        monkeypatch.setattr(module, "MOST_FRAMES", 1099)
    with pytest.raises(ValueError, match=r"sample `a`, field `clip`: the clip has 1100 frames, but `convert` can read back at most 1099"):
        sp.export(src, "webdataset", tmp_path / "no")
    with pytest.raises(ValueError, match="sample `a`: the sample has more than 1099 frames"):
        sp.convert("webdataset", tmp_path / "tars", tmp_path / "no")


def test_numbers_that_a_part_lacks_are_missing(tmp_path: Path) -> None:
    """-1 and NaN in the columns of a concat mark missing values, not labels or scores."""
    cube = np.zeros((3, 3), np.float32)
    first = write(tmp_path / "a", {"a": {"x": cube, "label": 1}, "b": {"x": cube, "label": 0}})
    second = write(tmp_path / "b", {"c": {"x": cube, "score": 2.5}})
    both = sp.concat([sp.Dataset(first), sp.Dataset(second)])
    sp.export(both, "webdataset", tmp_path / "tars")
    assert sorted(members(tmp_path / "tars")) == ["a.cls", "a.x.npy", "b.cls", "b.x.npy", "c.score.npy", "c.x.npy"]
    order = list(both.keys)
    sp.export(both.subset([order.index("b"), order.index("c")]), "webdataset", tmp_path / "some")
    assert sorted(members(tmp_path / "some")) == ["b.cls", "b.x.npy", "c.score.npy", "c.x.npy"]
    with pytest.raises(ValueError, match="has no value, and Zarr cannot store missing values"):
        sp.export(both, "zarr", tmp_path / "zarr")


def test_a_url_is_no_folder_to_export_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    src = write(tmp_path / "src", photos(1))
    for format in ("webdataset", "zarr"):
        with pytest.raises(sp.UsageError, match=r"out: export\(\) works only with local paths, not with URLs: s3://b/tars\nhint: write to"):
            sp.export(src, format, "s3://b/tars")
    assert not (tmp_path / "s3:").exists()


def test_progress_of_an_export(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    sp.export(write(tmp_path / "src", photos(), schema=SCHEMA), "webdataset", tmp_path / "out", progress=seen.append)
    assert (seen[-1]["samples"], seen[-1]["total"]) == (6, 6)


def test_zarr_of_one_shape_and_back(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    samples = {
        f"k{i:02d}": {
            "cube": np.random.default_rng(i).normal(size=(4, 3, 5)).astype(np.float32),
            "image": picture(i, "PNG"),
            "label": i % 2,
            "text": f"grün {i}",
            "meta": {"i": [i]},
            "valid": bool(i % 2),
            "score": np.float32(i) / 7,
        }
        for i in range(25)
    }
    src = write(tmp_path / "src", samples, values="keep", classes=["cat", "dog"], shuffle=False)
    fields = ["cube", "image", "label", "text", "meta", "valid", "score"]
    report = sp.export(src, "zarr", tmp_path / "z", fields=fields, shard_size=4000)
    assert report["samples"] == 25 and report["arrays"] == 8
    group = zarr.open_group(tmp_path / "z", mode="r")
    assert group.metadata.zarr_format == 3 and group.attrs["classes"] == ["cat", "dog"]
    order = list(sp.Dataset(src).keys)
    assert list(group["__key__"][:]) == order
    assert (
        group["cube"].shape == (25, 4, 3, 5)
        and group["cube"].dtype == np.float32
        and group["image"].shape == (25, 24, 40, 3)
    )
    for row, key in enumerate(order):
        assert np.array_equal(group["cube"][row], samples[key]["cube"]) and np.array_equal(
            group["image"][row], pixels(int(key[1:]))
        )
    sp.convert("zarr", tmp_path / "z", tmp_path / "again")
    before, after = content(src), content(tmp_path / "again")
    assert set(after) == set(before) and sp.Dataset(tmp_path / "again").classes == ["cat", "dog"]
    for key, sample in before.items():
        for name in fields:
            found = after[key][name]
            assert np.array_equal(found, sample[name]) if isinstance(found, np.ndarray) else found == sample[name], name


def test_zarr_of_varying_shapes_and_back(tmp_path: Path) -> None:
    zarr = pytest.importorskip("zarr", minversion="3")
    # The shapes are equal at first, so the export starts with one array and splits it later.
    shapes = [(2, 3)] * 4 + [(3, 3), (2, 3), (1, 7)]
    samples: dict[str, dict[str, Any]] = {
        f"k{i}": {"cube": np.full(shape, i, np.int16), "blob": bytes([i] * i)} for i, shape in enumerate(shapes)
    }
    src = write(tmp_path / "src", samples, shuffle=False)
    sp.export(src, "zarr", tmp_path / "z", fields=["cube", "blob"])
    group = zarr.open_group(tmp_path / "z", mode="r")
    order = list(sp.Dataset(src).keys)
    for row, key in enumerate(order):
        assert (
            np.array_equal(group[f"cube/{row}"][...], samples[key]["cube"])
            and group[f"blob/{row}"][...].tobytes() == samples[key]["blob"]
        )
    sp.convert("zarr", tmp_path / "z", tmp_path / "again", drop=["blob"])
    after = content(tmp_path / "again")
    for key, sample in samples.items():
        assert np.array_equal(after[key]["cube"], sample["cube"]) and after[key]["cube"].dtype == np.int16


def test_zarr_has_no_missing_values(tmp_path: Path) -> None:
    pytest.importorskip("zarr", minversion="3")
    src = write(tmp_path / "src", {"a": {"note": "x"}, "b": {"note": None}})
    with pytest.raises(ValueError, match=r"`note`: sample .* has no value"):
        sp.export(src, "zarr", tmp_path / "z")
    assert not (tmp_path / "z").exists()


def test_an_export_that_is_killed_leaves_nothing_at_its_place(tmp_path: Path) -> None:
    src = write(tmp_path / "src", photos(), schema=SCHEMA)
    arguments = f"{str(src)!r}, 'webdataset', {str(tmp_path / 'out')!r}"
    lines = [
        "import os, shardpack as sp",
        "from shardpack.export import _samples",
        "_samples._SECONDS_BETWEEN_REPORTS = 0",
        f"sp.export({arguments}, progress=lambda progress: os._exit(9))",
    ]
    code = "\n".join(lines)
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 9
    assert not (tmp_path / "out").exists()
    sp.export(src, "webdataset", tmp_path / "out")


def test_tiled_pictures_leave_with_their_profile_and_orientation(tmp_path: Path) -> None:
    cms = pytest.importorskip("PIL.ImageCms")
    out = io.BytesIO()
    exif = pil.Exif()
    exif[0x0112] = 6
    profile = cms.ImageCmsProfile(cms.createProfile("sRGB")).tobytes()
    pil.fromarray(pixels(0, 640, 480)).save(out, "JPEG", exif=exif, icc_profile=profile)
    src = write(tmp_path / "src", {"a": {"image": out.getvalue(), "label": 1}}, jpeg="tile")
    sp.export(src, "webdataset", tmp_path / "tars")
    found = members(tmp_path / "tars")
    assert set(found) == {"a.jpg", "a.cls"} and found["a.jpg"] != sp.Dataset(src).raw(0, "image")
    before, after = (pil.open(io.BytesIO(data)) for data in (out.getvalue(), found["a.jpg"]))
    assert after.info["icc_profile"] == profile and after.getexif()[0x0112] == 6
    assert np.array_equal(np.asarray(after), np.asarray(before))


def test_fields_that_a_packer_adds_are_written_only_by_name(tmp_path: Path) -> None:
    src = write(tmp_path / "src", {"a": {"image": jpeg(0), "label": 1}})
    sp.export(src, "webdataset", tmp_path / "all")
    sp.export(src, "webdataset", tmp_path / "some", fields=["image", "width"])
    assert set(members(tmp_path / "all")) == {"a.jpg", "a.cls"}
    assert members(tmp_path / "some")["a.width.cls"] == b"40"


def test_fields_of_a_program_that_have_such_names_are_written(tmp_path: Path) -> None:
    cube = np.zeros((4, 3, 5), np.float32)
    own = {"cube": cube, "cube.note": 7, "height": 180.5, "channels": np.uint32(2)}
    src = write(tmp_path / "people", {"a": own, "b": own}, values="keep")
    sp.export(src, "webdataset", tmp_path / "1")
    assert {name for name in members(tmp_path / "1") if name[0] == "a"} == {
        "a.cube.npy", "a.cube.note.cls", "a.height.npy", "a.channels.cls",
    }  # fmt: skip
    two = write(tmp_path / "two", {"a": {"left": jpeg(0), "right": jpeg(1), "width": 3, "left.note": 1}})
    sp.export(two, "webdataset", tmp_path / "2")
    assert set(members(tmp_path / "2")) == {"a.left.jpg", "a.right.jpg", "a.width.cls", "a.left.note.cls"}
    # The export leaves out the columns that packing adds: shapes, figures, and the number of frames.
    cubes = write(tmp_path / "cubes", {f"{i}": {"cube": cube[i:], "mask": cube[i:, :, 0] > 0} for i in range(3)})
    sp.export(cubes, "webdataset", tmp_path / "3")
    assert {name.partition(".")[2] for name in members(tmp_path / "3")} == {"cube.npy", "mask.npy"}
    clips = write(tmp_path / "clips", {"a": {"clip": [jpeg(0), jpeg(1)]}})
    sp.export(clips, "webdataset", tmp_path / "4")
    assert set(members(tmp_path / "4")) == {"a.clip.000.jpg", "a.clip.001.jpg"}


def test_a_sample_without_any_value_is_no_sample_of_a_tar(tmp_path: Path) -> None:
    src = write(tmp_path / "src", {"a": {"note": "x"}, "b": {"note": None}})
    with pytest.raises(ValueError, match="sample `b` cannot be written to a tar, because all its fields are empty: note"):
        sp.export(src, "webdataset", tmp_path / "tars")
    assert not (tmp_path / "tars").exists()
    with pytest.raises(ValueError, match="fields: pass at least one of note"):
        sp.export(src, "webdataset", tmp_path / "tars", fields=[])


def test_only_what_is_written_is_decoded(tmp_path: Path) -> None:
    pytest.importorskip("zarr", minversion="3")
    src = write(tmp_path / "src", photos(3), schema=SCHEMA)
    (shard,) = src.glob("*.shard")
    stored, data = sp.Dataset(src).raw(0, "image"), shard.read_bytes()
    assert stored is not None and data.count(stored) == 1
    shard.write_bytes(data.replace(stored, stored[:200] + bytes(len(stored) - 200)))
    dataset = sp.Dataset(src, verify_crc=False)
    sp.export(dataset, "zarr", tmp_path / "z", fields=["caption", "label"])
    with pytest.raises(ValueError):
        sp.export(dataset, "zarr", tmp_path / "all")


def test_a_part_of_a_dataset(tmp_path: Path) -> None:
    src = write(tmp_path / "src", photos(), schema=SCHEMA)
    subset = sp.Dataset(src).subset(lambda columns: columns["label"] == 1)
    sp.export(subset, "webdataset", tmp_path / "tars", fields=["image"])
    assert members(tmp_path / "tars") == {f"n1/photo {i}.jpg": jpeg(i) for i in (1, 3, 5)}


@pytest.mark.skipif(os.name != "posix", reason="links and pipes")
def test_places_that_are_links_or_no_folders(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "in") as writer:
        writer.write({"v": np.arange(3)}, key="k")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    sp.export(tmp_path / "in", "webdataset", tmp_path / "link")
    assert (tmp_path / "link").is_symlink() and list((tmp_path / "empty").iterdir())
    (tmp_path / "dangling").symlink_to("nowhere")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "dangling", "loop", "pipe"):
        with pytest.raises(FileExistsError, match="the output folder is not empty" if name == "link" else "the output exists and is not a folder"):
            sp.export(tmp_path / "in", "webdataset", tmp_path / name)
    with pytest.raises(ValueError, match="out: a folder name cannot contain a null character: "):
        sp.export(tmp_path / "in", "webdataset", tmp_path / "a\0b")
    assert not (tmp_path / "nowhere").exists() and not list(tmp_path.glob(".*partial*"))


def test_fields_that_are_named_as_files_of_zarr(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "in") as writer:
        writer.write({"zarr.json": np.arange(3), "v": 1}, key="k")
    with pytest.raises(ValueError, match=r"field `zarr.json` cannot be exported: the Zarr group itself uses this name\nhint: pass fields=\['v'\]"):
        sp.export(tmp_path / "in", "zarr", tmp_path / "out")
    assert sp.export(tmp_path / "in", "zarr", tmp_path / "out", fields=["v"])["arrays"] == 2
