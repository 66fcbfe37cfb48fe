"""Tests the options and errors of `convert` that all formats share."""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg, kinds

import shardpack as sp
from shardpack.convert._files import list_files

FORMATS = [
    "webdataset", "mds", "tfrecord", "hdf5", "zarr", "lmdb", "parquet", "torchvision", "coco", "voc", "yolo", "nifti", "dicom",
    "hf", "beton", "lerobot",
]  # fmt: skip


class Items(list):  # type: ignore[type-arg]
    """A map-style dataset."""


def items(count: int = 3, **more: Any) -> Items:
    return Items({"img": jpeg(i), "target": i % 2, "score": i / 4} | more for i in range(count))


def test_usual_names_become_image_and_label(tmp_path: Path) -> None:
    report = sp.convert("torchvision", items(), tmp_path / "out")
    assert report["fields"] == {"img": "image", "target": "label", "score": "score"}
    assert report["kinds"] == {"image": "image", "label": "int64", "score": "float64"}


def test_names_that_are_said(tmp_path: Path) -> None:
    report = sp.convert(
        "torchvision", items(), tmp_path / "out", label="score", rename={"img": "photo", "target": "odd"}
    )
    assert report["fields"] == {"img": "photo", "target": "odd", "score": "label"}
    for options in ({"image": "jpg"}, {"label": "cls"}, {"rename": {"cls": "x"}}):
        with pytest.raises(ValueError, match=r"no column '(jpg|cls)'; its columns are 'img', 'target', 'score'"):
            sp.convert("torchvision", items(), tmp_path / "other", **options)


def test_labels_that_are_floats_are_whole_beside_classes(tmp_path: Path) -> None:
    source = Items({"image": jpeg(i), "label": np.float32(i % 2)} for i in range(3))
    sp.convert("torchvision", source, tmp_path / "out", classes=["ant", "bee"])
    assert kinds(tmp_path / "out")["label"] == "int64" and sp.Dataset(tmp_path / "out").by_key("00000001")["label"] == 1
    sp.convert("torchvision", source, tmp_path / "plain")
    assert kinds(tmp_path / "plain")["label"] == "float32"
    source.append({"image": jpeg(9), "label": np.float32(0.5)})
    with pytest.raises(sp.SourceError, match=r"column 'label': expected a class number or name, found 0.5\nhint: pass schema=\{'label': 'float64'\}"):
        sp.convert("torchvision", source, tmp_path / "never", classes=["ant", "bee"])
    sp.convert("torchvision", source, tmp_path / "said", classes=["ant", "bee"], schema={"label": "float64"})
    assert sp.Dataset(tmp_path / "said").by_key("00000003")["label"] == 0.5


def test_a_wrong_name_in_drop_is_said_with_what_it_leads_to(tmp_path: Path) -> None:
    source = items(**{"a/b": 1, "a b": 2})
    with pytest.raises(ValueError, match=r"columns .* would both become field `a_b`\nhint: pass rename=.*\n`drop` names an unknown column: 'a\.b'\nhint: did you mean 'a[/ ]b'\?"):
        sp.convert("torchvision", source, tmp_path / "out", drop=["a.b"])
    with pytest.warns(UserWarning, match="`drop` names a column that no sample has: 'scores'\nhint: did you mean 'score'"):
        report = sp.convert("torchvision", items(), tmp_path / "other", drop=["scores"])
    assert report["samples"] == 3 and report["dropped"] == {"scores": 0}


def test_names_that_fields_cannot_have_and_names_that_collide(tmp_path: Path) -> None:
    assert sp.convert("torchvision", items(**{"a/b c": 1}), tmp_path / "out")["fields"]["a/b c"] == "a_b_c"
    with pytest.raises(
        ValueError, match=r"columns 'a/b' and 'a b' would both become field `a_b`\nhint: pass rename=\{'a b': 'a_b_2'\}"
    ):
        sp.convert("torchvision", items(**{"a/b": 1, "a b": 2}), tmp_path / "other")


def test_a_schema_that_the_first_sample_does_not_show(tmp_path: Path) -> None:
    source = Items([{"text": None, "x": 1}, {"text": "b", "x": 2}])
    with pytest.raises(
        ValueError, match=r"1 column cannot be converted\n  text: the first sample has None here, .*: pass schema={'text': …}"
    ):
        sp.convert("torchvision", source, tmp_path / "out")
    sp.convert("torchvision", source, tmp_path / "out", schema={"text": "text", "x": "float32"})
    assert kinds(tmp_path / "out") == {"text": "text", "x": "float32"}
    assert [sample["text"] for _, sample in sorted(content(tmp_path / "out").items())] == [None, "b"]
    with pytest.raises(ValueError, match="`schema` names an unknown field"):
        sp.convert("torchvision", source, tmp_path / "other", schema={"txt": "text"})


def test_the_writer_s_options_reach_it(tmp_path: Path) -> None:
    sp.convert("torchvision", items(5), tmp_path / "out", shuffle=False)
    assert list(sp.Dataset(tmp_path / "out").keys) == [f"{i:08d}" for i in range(5)]
    assert all(sample["image"] == jpeg(int(key)) for key, sample in content(tmp_path / "out", "image").items())


@pytest.mark.parametrize("option", ["shufle", "prefix_key", "grop"])
def test_options_nobody_knows(tmp_path: Path, option: str) -> None:
    format = {"shufle": "torchvision", "prefix_key": "webdataset", "grop": "hdf5"}[option]
    options: dict[str, Any] = {option: True}
    message = rf"unknown option '{option}' for format '{format}'\nhint: did you mean '\w+'\?"
    with pytest.raises(TypeError, match=message):
        sp.convert(format, tmp_path, tmp_path / "out", **options)


def test_formats_nobody_knows(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as caught:
        sp.convert("web-dataset", tmp_path, tmp_path / "out")
    assert (
        str(caught.value)
        == f"format: expected one of {', '.join(FORMATS)}, found: 'web-dataset'\nhint: did you mean 'webdataset'?"
    )
    with pytest.raises(ValueError, match=r"hint: use shardpack.pack\(src, out\) for folders of files"):
        sp.convert("ImageFolder", tmp_path, tmp_path / "out")


def test_wrong_values_of_options(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="on_bad_input: expected 'stop' or 'skip', found: 'ignore'"):
        sp.convert("torchvision", items(), tmp_path / "out", on_bad_input="ignore")
    with pytest.raises(TypeError, match=r"classes: expected a sequence of names, found the string 'ant'\nhint: pass classes=\['ant'\]"):
        sp.convert("torchvision", items(), tmp_path / "out", classes="ant")
    with pytest.raises(TypeError, match=r"drop: expected a list of columns, found: 'score'\nhint: pass drop=\['score'\]"):
        sp.convert("torchvision", items(), tmp_path / "out", drop="score")


@pytest.mark.parametrize(
    ("format", "module"),
    [("tfrecord", "crc32c"), ("hdf5", "h5py"), ("zarr", "zarr"), ("lmdb", "lmdb"), ("parquet", "pyarrow")],
)
def test_a_missing_library_is_named_with_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, module: str
) -> None:
    (tmp_path / "a.tfrecord").write_bytes(b"")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError) as caught:
        sp.convert(format, tmp_path / "a.tfrecord", tmp_path / "out")
    assert f"`{module}`" in str(caught.value) and str(caught.value).endswith(f"hint: pip install {module}")


def test_progress(tmp_path: Path) -> None:
    seen: list[dict[str, Any]] = []
    sp.convert("torchvision", items(5), tmp_path / "out", progress=seen.append)
    converted = [progress for progress in seen if progress["phase"] == "convert"]
    assert converted[-1]["samples"] == converted[-1]["total"] == 5
    assert (converted[-1]["skipped"], converted[-1]["seconds"] > 0) == (0, True)


def test_any_number_of_threads_gives_the_same_bytes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    source = Items({"cube": rng.normal(size=(6, 5, 7)).astype(np.float32), "image": jpeg(i), "n": i} for i in range(40))
    for shuffle in (True, False):
        shards = []
        for threads in (1, 8):
            out = tmp_path / f"{shuffle}-{threads}"
            sp.convert("torchvision", source, out, threads=threads, shuffle=shuffle, jpeg="tile")
            shards.append((out / "shard-00000.shard").read_bytes())
        assert shards[0] == shards[1]


def test_an_exception_in_the_callback_ends_it_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shardpack.convert._run

    def stop(progress: object) -> None:
        raise RuntimeError("stop")

    monkeypatch.setattr(sys.modules["shardpack.convert._run"], "_SECONDS_BETWEEN_REPORTS", 0)
    with pytest.raises(RuntimeError, match="stop"):
        sp.convert("torchvision", items(5), tmp_path / "out", progress=stop)
    assert not (tmp_path / "out").exists() or not any((tmp_path / "out").iterdir())


def test_a_folder_of_several_splits_is_refused(tmp_path: Path) -> None:
    for name in ("train-00000-of-00001", "test-00000-of-00001", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match=r"contains several splits: test, train\nhint: convert one split at a time, for example '.*/test\*'"):
        sp.convert("tfrecord", tmp_path, tmp_path / "out")


def test_a_set_of_files_without_one_of_them_is_refused(tmp_path: Path) -> None:
    for number in (0, 2):
        (tmp_path / f"train-{number:05d}-of-00003.parquet").write_bytes(b"")
    message = r"`.*train-00001-of-00003.parquet` is missing: found only 2 of the 3 files of this set\nhint: "
    for source in (tmp_path, tmp_path / "train-*", tmp_path / "*-of-00003.parquet"):
        with pytest.raises(sp.SourceError, match=message):
            list_files(source, [".parquet"], "Parquet")
    for part in ("train-0000[02]-of-00003.parquet", "train-00000-of-*"):
        assert list_files(tmp_path / part, [".parquet"], "Parquet")
    assert len(list_files(sorted(tmp_path.iterdir()), [".parquet"], "Parquet")) == 2
    # Some sets of files are numbered from 1.
    (tmp_path / "train-00000-of-00003.parquet").rename(tmp_path / "train-00001-of-00003.parquet")
    with pytest.raises(sp.SourceError, match="`train-00000-of-00003.parquet` is missing"):
        list_files(tmp_path, [".parquet"], "Parquet")
    (tmp_path / "train-00003-of-00003.parquet").write_bytes(b"")
    assert len(list_files(tmp_path, [".parquet"], "Parquet")) == 3


def test_nothing_that_can_be_taken(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        info = tarfile.TarInfo("a.jpg")
        info.size = 2
        tar.addfile(info, io.BytesIO(b"no"))
    with pytest.raises(
        ValueError, match=r"webdataset: no sample could be converted; first error: .*a\.jpg"
    ):
        sp.convert("webdataset", tmp_path / "t.tar", tmp_path / "out", on_bad_input="skip")


def test_columns_that_the_writer_makes_itself(tmp_path: Path) -> None:
    message = (
        r"reserved names: width, icc; .*\nhint: pass drop=\['width', 'icc'\] to leave the columns out, or rename=\{'width': 'source_width', 'icc': 'source_icc'\}"
    )
    with pytest.raises(ValueError, match=message):
        sp.convert("torchvision", items(width=40, icc=b"x"), tmp_path / "out")
    sp.convert("torchvision", items(width=40, icc=b"x"), tmp_path / "out", drop=["icc"], rename={"width": "columns"})
    assert content(tmp_path / "out")["00000000"]["columns"] == 40


@pytest.mark.parametrize("options", [{}, {"values": "auto"}, {"max_error": 0.5}])
def test_values_are_kept_unless_something_else_is_asked_for(tmp_path: Path, options: dict[str, Any]) -> None:
    cube = np.random.default_rng(0).normal(size=(8, 8, 20)).astype(np.float32)
    sp.convert("torchvision", Items([{"cube": cube}]), tmp_path / "out", **options)
    found = content(tmp_path / "out")["00000000"]["cube"]
    assert np.array_equal(found, cube) == (not options)
    assert np.abs(found.astype(np.float64) - cube).max() < 0.5
