"""Tests conversion from WebDataset tars."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg, kinds, picture

import shardpack as sp
from shardpack.convert import webdataset
from shardpack.convert._run import Run
from shardpack.convert._source import Problem, Sample


def npy(array: np.ndarray[Any, Any], allow_pickle: bool = False) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=allow_pickle)
    return out.getvalue()


def write_tar(path: Path, members: list[tuple[str, bytes]], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def samples(first: int, last: int) -> list[tuple[str, bytes]]:
    return [
        m for i in range(first, last) for m in ((f"a/{i:04d}.jpg", jpeg(i)), (f"a/{i:04d}.cls", str(i % 3).encode()))
    ]


def test_pictures_and_labels_of_many_tars_arrive_to_the_byte(tmp_path: Path) -> None:
    for shard in range(3):
        write_tar(tmp_path / f"train-{shard:03d}.tar", samples(4 * shard, 4 * shard + 4))
    report = sp.convert("webdataset", str(tmp_path / "train-{000..002}.tar"), tmp_path / "out")
    assert (report["samples"], report["skipped"], report["format"]) == (12, [], "webdataset")
    assert report["fields"] == {"jpg": "image", "cls": "label"}
    found = content(tmp_path / "out", "image")
    assert set(found) == {f"a/{i:04d}" for i in range(12)}
    for i in range(12):
        assert found[f"a/{i:04d}"]["image"] == jpeg(i)
        assert found[f"a/{i:04d}"]["label"] == i % 3


def test_every_kind_of_member(tmp_path: Path) -> None:
    cube = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 7
    members = [
        ("x.jpg", jpeg(1)),
        ("x.seg.png", picture(2, "PNG")),
        ("x.cls", b"5\n"),
        ("x.txt", "grün".encode()),
        ("x.json", json.dumps({"a": [1, 2], "b": None}).encode()),
        ("x.npy", npy(cube)),
        ("x.score.json", b"0.25"),
        ("x.width.cls", b"40"),
        ("x.wav", b"RIFF....WAVE"),
    ]
    said: dict[str, Any] = {"rename": {"width.cls": "columns"}, "schema": {"seg": "image"}}
    sp.convert("webdataset", write_tar(tmp_path / "t.tar", members), tmp_path / "out", **said)
    assert kinds(tmp_path / "out") == {
        "image": "image",
        "seg": "image",
        "label": "int64",
        "text": "text",
        "json": "json",
        "array": "array",
        "score": "float64",
        "columns": "int64",
        "wav": "bytes",
    }
    found = content(tmp_path / "out", "image", "seg")["x"]
    assert found["seg"] == picture(2, "PNG")
    assert found["label"] == 5 and found["score"] == 0.25 and found["columns"] == 40
    assert (
        found["text"] == "grün" and found["json"] == {"a": [1, 2], "b": None} and bytes(found["wav"]) == b"RIFF....WAVE"
    )
    assert found["array"].dtype == np.float32 and np.array_equal(found["array"], cube)


@pytest.mark.parametrize("mode", ["w:gz", "w:bz2", "w:xz"])
def test_compressed_tars_and_names_that_begin_with_a_dot(tmp_path: Path, mode: str) -> None:
    tar = write_tar(
        tmp_path / "t.tar.gz", [(f"./{name}", data) for name, data in samples(0, 2)] + [("./._a.jpg", b"")], mode
    )
    sp.convert("webdataset", tar, tmp_path / "out")
    assert set(content(tmp_path / "out")) == {"a/0000", "a/0001"}


def test_a_folder_with_its_classes(tmp_path: Path) -> None:
    src = tmp_path / "src"
    src.mkdir()
    write_tar(src / "b.tar", samples(2, 4))
    write_tar(src / "a.tar", samples(0, 2))
    (src / "classes.json").write_text('["cat", "dog", "eel"]')
    sp.convert("webdataset", src, tmp_path / "out", shuffle=False)
    dataset = sp.Dataset(tmp_path / "out")
    assert list(dataset.keys) == [f"a/{i:04d}" for i in range(4)]
    assert dataset.classes == ["cat", "dog", "eel"]
    assert list(dataset.labels) == [0, 1, 2, 0]


def test_labels_that_are_text_are_looked_up_in_the_classes(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "t.tar", [("0.jpg", jpeg(0)), ("0.cls", b"dog"), ("1.jpg", jpeg(1)), ("1.cls", b"cat")])
    sp.convert("webdataset", tar, tmp_path / "out", classes=["cat", "dog"])
    found = content(tmp_path / "out")
    assert (found["0"]["label"], found["1"]["label"]) == (1, 0)
    with pytest.raises(ValueError, match=r"sample `0`: .*`label`: there is no class `dog`"):
        sp.convert("webdataset", tar, tmp_path / "other", classes=["cat"])


def test_pictures_of_mixed_types_are_one_field(tmp_path: Path) -> None:
    tar = write_tar(tmp_path / "t.tar", [("0.jpg", jpeg(0)), ("1.png", picture(1, "PNG")), ("2.JPEG", jpeg(2))])
    sp.convert("webdataset", tar, tmp_path / "out")
    found = content(tmp_path / "out", "image")
    assert [found[key]["image"] for key in "012"] == [jpeg(0), picture(1, "PNG"), jpeg(2)]


def test_tars_that_each_count_from_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tars = [write_tar(tmp_path / f"{name}.tar", samples(0, 2)) for name in "ab"]
    write, seen = Run._write, set[str]()

    def late(run: Run, writer: Any, values: Any, key: str, order: int | None) -> None:
        """Let the first sample with a key come later than the second, if both are written at a time."""
        if key not in seen:
            seen.add(key)
            time.sleep(0.1)
        write(run, writer, values, key, order)

    monkeypatch.setattr(Run, "_write", late)
    with pytest.raises(ValueError, match=r"b\.tar`, sample `a/0000`") as caught:
        sp.convert("webdataset", tars, tmp_path / "out", threads=8)
    assert "prefix_keys=True" in str(caught.value)
    assert not (tmp_path / "out").exists()
    sp.convert("webdataset", tars, tmp_path / "out", prefix_keys=True)
    assert set(content(tmp_path / "out")) == {"a/a/0000", "a/a/0001", "b/a/0000", "b/a/0001"}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("../../x.jpg", jpeg(1))], r"sample `\.\./\.\./x`"),
        ([("README", b"hello"), *samples(0, 1)], r"expected members named `KEY\.EXTENSION`, found: `README`"),
        (
            [*samples(0, 1), ("b.jpg", jpeg(1))],
            r"sample `b`: the first sample has a column 'cls', but this sample does not \(columns here: 'jpg'\)",
        ),
        (
            [*samples(0, 1), ("b.jpg", jpeg(1)), ("b.cls", b"1"), ("b.txt", b"x")],
            r"sample `b`: column 'txt' is not in the first sample",
        ),
        (
            [*samples(0, 1), ("b.jpg", jpeg(1)), ("b.cls", b"dog")],
            r"sample `b`: field `label`: expected int64, found text",
        ),
        (
            [("b.jpg", jpeg(1)), ("b.jpg", jpeg(2))],
            r"sample `b`: `b\.jpg` is the second member with the extension `jpg`",
        ),
        (
            [("b.jpg", jpeg(1)), ("b.png", picture(2, "PNG"))],
            r"columns 'jpg' and 'png' would both become field `image`\nhint: pass rename=",
        ),
        (
            [("b.jpg", b"GIF89a..")],
            r"sample `b`: member `b\.jpg`: not a JPEG.* picture: it begins with the bytes 47 49 46",
        ),
        ([("b.npy", npy(np.array([{"a": 1}], object), allow_pickle=True))], r"member `b\.npy`: .*allow_pickle"),
        ([("b.npy", b"\x93NUMPY\x01")], r"member `b\.npy`: "),
        ([("b.pyd", b"\x80\x04}.")], r"member `b\.pyd`: the data is a pickle"),
        ([("b.bin", b"\x80\x04}q\x00.")], r"the data is a pickle, and pickles are not loaded because they can run code"),
        ([("b.json", b'{"a": NaN}')], r"member `b\.json`: NaN is not valid JSON"),
        ([("b.json", b'{"a"')], r"member `b\.json`: "),
        ([("b.txt", b"\xff\xfe")], r"member `b\.txt`: "),
        ([], r"webdataset: the source has no samples"),
    ],
)
def test_what_cannot_be_taken_is_named_and_nothing_is_left(
    tmp_path: Path, members: list[tuple[str, bytes]], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        sp.convert("webdataset", write_tar(tmp_path / "t.tar", members), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["t.tar"]


def test_what_cannot_be_taken_can_be_skipped_or_dropped(tmp_path: Path) -> None:
    members = [*samples(0, 2), ("b.jpg", jpeg(1)), ("c.jpg", b"no"), ("c.cls", b"1"), *samples(2, 3)]
    report = sp.convert("webdataset", write_tar(tmp_path / "t.tar", members), tmp_path / "out", on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"]) == (3, 2)
    assert report["skipped"][0]["key"] == "b" and "sample `b`" in report["skipped"][0]["reason"]
    assert "member `c.jpg`" in report["skipped"][1]["reason"]
    pickled = write_tar(tmp_path / "p.tar", [("0.jpg", jpeg(0)), ("0.pyd", b"\x80\x04}."), ("1.jpg", jpeg(1))])
    report = sp.convert("webdataset", pickled, tmp_path / "dropped", drop=["pyd"])
    assert (report["samples"], report["dropped"]) == (2, {"pyd": 1})


def test_links_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        link = tarfile.TarInfo("a.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    with pytest.raises(ValueError, match=r"member `a\.jpg`: expected a plain file, found a link"):
        sp.convert("webdataset", tmp_path / "t.tar", tmp_path / "out")


def test_every_truncation_is_found(tmp_path: Path) -> None:
    whole = write_tar(tmp_path / "whole.tar", samples(0, 3)).read_bytes()
    tar = tmp_path / "t.tar"
    # Cut the tar at every 256 bytes up to the end of the last member, within headers, data and padding.
    for length in range(0, 6 * 512 + 3 * 1536, 256):
        tar.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"t\.tar`"):
            sp.convert("webdataset", tar, tmp_path / "out")
    tar.write_bytes(whole[: 4 * 512 + 2 * 1024])
    report = sp.convert("webdataset", tar, tmp_path / "out", on_bad_input="skip")
    assert report["samples"] >= 1 and ": the tar is damaged " in report["skipped"][0]["reason"]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_tars_one_behind_the_other_are_all_read(tmp_path: Path, suffix: str) -> None:
    parts = [write_tar(tmp_path / f"{i}.tar", samples(2 * i, 2 * i + 2)).read_bytes() for i in range(3)]
    pack = gzip.compress if suffix else bytes
    path = tmp_path / f"t.tar{suffix}"
    # The last sample of one tar and the first sample of the next stay separate, even with the same key.
    with tarfile.open(tmp_path / "empty.tar", "w"):
        pass
    path.write_bytes(pack((tmp_path / "empty.tar").read_bytes()) + b"".join(map(pack, parts)))
    report = sp.convert("webdataset", path, tmp_path / "out")
    assert report["samples"] == 6
    again = write_tar(tmp_path / "again.tar", samples(0, 1)).read_bytes()
    path.write_bytes(pack(again) + pack(again))
    with pytest.raises(ValueError, match=r"t\.tar.*`, sample `a/0000`: another sample has this key\nhint: pass prefix_keys=True"):
        sp.convert("webdataset", path, tmp_path / "never")
    # Trailing data that are not a tar count as damage.
    for rest in (b"x", b"x" * 5000, again[: len(again) - 9000]):
        path.write_bytes(pack(parts[0] + rest))
        with pytest.raises(ValueError, match=r": the tar is damaged after sample"):
            sp.convert("webdataset", path, tmp_path / "never")
        report = sp.convert("webdataset", path, tmp_path / "some", on_bad_input="skip", force=True)
        assert report["samples"] == 2 and not report["samples_skipped_exact"]
    path.write_bytes(pack(parts[0] + bytes(3 << 20)))
    assert sp.convert("webdataset", path, tmp_path / "zeros")["samples"] == 2
    if suffix:
        with pytest.raises(ValueError, match="more than 1048576 bytes of zeros follow its last member"):
            sp.convert("webdataset", path, tmp_path / "never", max_sample_bytes=1 << 20)
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(ValueError, match=": the tar is damaged "):
            sp.convert("webdataset", path, tmp_path / "never")


@pytest.mark.parametrize(
    ("numbers", "gap"), [([0, 1, 3], "1 and 3"), ([0, 2], "0 and 2"), ([1, 2, 3, 7, 8], "3 and 7"), ([0, 10, 20], None), ([5, 6], None)]
)
def test_a_clip_without_one_of_its_frames(tmp_path: Path, numbers: list[int], gap: str | None) -> None:
    for name, options in ((".frame{}.jpg", {"frames": "frame"}), (".frame.{:03}.jpg", {})):
        members = [(f"a{name.format(number)}", jpeg(number)) for number in numbers] + [("b" + name.format(0), jpeg(9))]
        path = write_tar(tmp_path / "t.tar", members)
        report = sp.convert("webdataset", path, tmp_path / "out", on_bad_input="skip", force=True, **options)
        assert report["samples"] == (1 if gap else 2)
        if gap:
            expected = f"sample `a`: clip `frame`: at least one frame is missing between frames {gap}"
            assert report["skipped"][0]["reason"].endswith(expected)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("t-{000..002.tar", "has an opening brace without a closing brace"),
        ("t-000..002}.tar", "has a closing brace without an opening brace"),
        ("t-{5..2}.tar", "must be ascending"),
        ("t-{x}.tar", "contains {x}, which is neither a range"),
        ("t-{0..9}{0..999999}.tar", "expands to more than 1000000 files"),
        ("pipe:cat t.tar", "expected local files"),
        ("ftp://bucket/t.tar", "expected s3://, gs://, az://"),
    ],
)
def test_patterns_that_name_nothing(tmp_path: Path, pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sp.convert("webdataset", pattern, tmp_path / "out")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    write_tar(tmp_path / "t-0.tar", samples(0, 1))
    with pytest.raises(FileNotFoundError, match="t-1.tar"):
        sp.convert("webdataset", str(tmp_path / "t-{0..1}.tar"), tmp_path / "out")
    with pytest.raises(ValueError, match="no WebDataset files in the folder `.*`: expected names ending in .tar"):
        (tmp_path / "empty").mkdir()
        sp.convert("webdataset", tmp_path / "empty", tmp_path / "out")
    with pytest.raises(ValueError, match="the list of files is empty"):
        sp.convert("webdataset", [], tmp_path / "out")


def test_tars_that_the_webdataset_library_wrote(tmp_path: Path) -> None:
    wds = pytest.importorskip("webdataset")
    with wds.TarWriter(str(tmp_path / "t.tar")) as sink:
        for i in range(3):
            sink.write(
                {"__key__": f"k{i}", "jpg": jpeg(i), "cls": i, "json": {"i": i}, "npy": np.full((2, 2), i, np.int16)}
            )
    sp.convert("webdataset", tmp_path / "t.tar", tmp_path / "out")
    found = content(tmp_path / "out", "image")
    for i in range(3):
        sample = found[f"k{i}"]
        assert sample["image"] == jpeg(i) and sample["label"] == i and sample["json"] == {"i": i}
        assert np.array_equal(sample["array"], np.full((2, 2), i, np.int16)) and sample["array"].dtype == np.int16


def test_members_of_compressed_tars_are_bounded(tmp_path: Path) -> None:
    zeros = bytes(64 << 20)
    members = [("a.txt", b"x"), ("b.bin", zeros), ("c.txt", b"y")]
    packed = write_tar(tmp_path / "t.tar.gz", members, "w:gz")
    tracemalloc.start()
    found = list(webdataset.open(packed, max_sample_bytes=1 << 20).items)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
    # The sample before the oversized one must be complete.
    assert isinstance(found[0], Sample) and found[0].values == {"txt": "x"}
    assert [type(item) for item in found] == [Sample, Problem]
    assert "member `b.bin` is 67108864 bytes long, but members of a compressed tar are limited to 1048576 bytes" in str(found[1])
    # An uncompressed tar can skip the large member by seeking.
    plain = write_tar(tmp_path / "t.tar", [*members[:2], ("b.txt", b"z"), members[2]])
    found = list(webdataset.open(plain, max_sample_bytes=1 << 20).items)
    assert [type(item) for item in found] == [Sample, Problem, Sample]
    assert "sample `b`: member `b.bin` makes the sample larger than the limit of 1048576 bytes" in str(found[1])
    many = write_tar(tmp_path / "m.tar.gz", [(f"a.{i}", bytes(1 << 18)) for i in range(9)], "w:gz")
    found = list(webdataset.open(many, max_sample_bytes=1 << 20).items)
    assert [type(item) for item in found] == [Problem]


@pytest.mark.parametrize("kind", [tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
def test_headers_of_members_are_bounded(tmp_path: Path, kind: bytes) -> None:
    path = tmp_path / "t.tar.gz"
    with tarfile.open(path, "w:gz") as tar:
        for name, type_, data in [("a.txt", tarfile.REGTYPE, b"x"), ("long", kind, bytes(64 << 20))]:
            info = tarfile.TarInfo(name)
            info.type, info.size = type_, len(data)
            tar.addfile(info, io.BytesIO(data))
    tracemalloc.start()
    (problem,) = webdataset.open(path).items
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 << 20
    assert "an extended header claims 67108864 bytes, but the limit is 1048576" in str(problem)


def test_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tar")
    with pytest.raises(ValueError, match="found a pipe, socket or device"):
        webdataset.open(tmp_path / "a.tar")


def test_damage_is_placed_by_the_sample_before_it(tmp_path: Path) -> None:
    members = [(f"{key}.jpg", jpeg(number, 200, 200)) for number, key in enumerate("abc")]
    path = write_tar(tmp_path / "t.tar", members)
    whole = path.read_bytes()
    with tarfile.open(path) as tar:
        first, second, third = (member.offset_data + 9 for member in tar)
    for end, place in ((100, "before the first sample"), (first, "before the first sample"), (second, "after sample `a`"), (third, "after sample `b`")):
        path.write_bytes(whole[:end])
        with pytest.raises(sp.SourceError, match=f": the tar is damaged {place}: "):
            sp.convert("webdataset", path, tmp_path / "never")
    packed = tmp_path / "t.tar.gz"
    packed.write_bytes(gzip.compress(whole))
    with pytest.raises(sp.SourceError, match="t.tar.gz`, before the first sample: member `a.jpg` is 25016 bytes long, but members of a compressed tar are limited to 100 bytes"):
        sp.convert("webdataset", packed, tmp_path / "never", max_sample_bytes=100)
