"""Tests conversion from TFRecord files that contain `tf.train.Example` records."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import content, jpeg, kinds

import shardpack as sp

crc32c = pytest.importorskip("crc32c").crc32c


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def message(number: int, data: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(values: Any) -> bytes:
    """Returns a `Feature` of bytes, floats or ints."""
    if all(isinstance(value, bytes) for value in values):
        return message(1, b"".join(message(1, value) for value in values))
    if all(isinstance(value, float) for value in values):
        return message(2, message(1, struct.pack(f"<{len(values)}f", *values)))
    return message(3, message(1, b"".join(map(varint, values))))


def example(**features: Any) -> bytes:
    entries = [
        message(1, message(1, name.replace("__", "/").encode()) + message(2, feature(values)))
        for name, values in features.items()
    ]
    return message(1, b"".join(entries))


def record(data: bytes) -> bytes:
    def masked(part: bytes) -> bytes:
        crc = crc32c(part)
        return struct.pack("<I", (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(data))
    return length + masked(length) + data + masked(data)


def write(path: Path, examples: list[bytes]) -> Path:
    path.write_bytes(b"".join(map(record, examples)))
    return path


def test_lists_of_features_are_refused(tmp_path: Path) -> None:
    """A SequenceExample is refused, although its context looks like an Example."""
    sequence = example(label=[1]) + message(2, message(1, message(1, b"frames") + message(2, message(1, feature([jpeg(0)])))))
    with pytest.raises(ValueError, match="record 0: expected a tf.train.Example, found a SequenceExample"):
        sp.convert("tfrecord", write(tmp_path / "a.tfrecord", [sequence]), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def photo(i: int) -> bytes:
    return example(
        image__encoded=[jpeg(i)],
        image__class__label=[i],
        image__filename=[f"n{i}.JPEG".encode()],
        bbox=[0.5, float(i)],
        negative=[-i - 1],
    )


def test_pictures_labels_and_keys(tmp_path: Path) -> None:
    for shard in range(2):
        write(tmp_path / f"train-{shard:05d}-of-00002", [photo(2 * shard), photo(2 * shard + 1)])
    report = sp.convert(
        "tfrecord", str(tmp_path / "train-{00000..00001}-of-00002"), tmp_path / "out", key="image/filename"
    )
    assert report["fields"] == {
        "image/encoded": "image",
        "image/class/label": "label",
        "bbox": "bbox",
        "negative": "negative",
    }
    assert kinds(tmp_path / "out") == {"image": "image", "label": "int64", "bbox": "array", "negative": "int64"}
    found = content(tmp_path / "out", "image")
    for i in range(4):
        sample = found[f"n{i}.JPEG"]
        assert sample["image"] == jpeg(i) and sample["label"] == i and sample["negative"] == -i - 1
        assert sample["bbox"].dtype == np.float32 and sample["bbox"].tolist() == [0.5, i]


def test_text_bytes_lists_and_raw_arrays(tmp_path: Path) -> None:
    cube = np.linspace(0, 1, 24, dtype=np.float32).reshape(2, 3, 4)
    data = example(
        cube=[cube.tobytes()],
        words=["grün".encode(), b"rot"],
        caption=[b"text"],
        blob=[b"\0\xff"],
        ids=[1, 1 << 40, -1],
    )
    sp.convert(
        "tfrecord", write(tmp_path / "a.tfrecord", [data]), tmp_path / "out", arrays={"cube": ("float32", (2, 3, 4))}
    )
    found = content(tmp_path / "out")["00000000"]
    assert np.array_equal(found["cube"], cube) and found["words"] == ["grün", "rot"] and found["caption"] == "text"
    assert bytes(found["blob"]) == b"\0\xff" and found["ids"].tolist() == [1, 1 << 40, -1]


def test_gzip(tmp_path: Path) -> None:
    whole = write(tmp_path / "a.tfrecord", [photo(0), photo(1)]).read_bytes()
    (tmp_path / "a.tfrecord").unlink()
    (tmp_path / "a.tfrecord.gz").write_bytes(gzip.compress(whole))
    assert sp.convert("tfrecord", tmp_path / "a.tfrecord.gz", tmp_path / "out")["samples"] == 2


def test_every_truncation_and_every_flipped_bit_is_found(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole", [example(a=[1], b=[b"x"]), example(a=[2], b=[b"y"])]).read_bytes()
    path = tmp_path / "a.tfrecord"
    half = len(whole) // 2
    for length in [n for n in range(1, len(whole)) if n != half]:
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"a\.tfrecord`: cannot read record \d and later records: .*(is truncated|found 0)"):
            sp.convert("tfrecord", path, tmp_path / "out")
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])
        with pytest.raises(ValueError, match=r"CRC32C.* does not match"):
            sp.convert("tfrecord", path, tmp_path / "out")


def test_a_damaged_record_takes_no_other_with_it(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", [example(a=[i], b=[b"0123456789"]) for i in range(10)])
    damaged = bytearray(path.read_bytes())
    length = len(damaged) // 10
    damaged[3 * length + length // 2] ^= 4
    path.write_bytes(damaged)
    report = sp.convert("tfrecord", path, tmp_path / "out", on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"], report["samples_skipped_exact"]) == (9, 1, True)
    assert "record 3: the record is damaged: its CRC32C does not match" in report["skipped"][0]["reason"]
    # Without the length of a record, the next record cannot be found.
    damaged[7 * length] ^= 4
    path.write_bytes(damaged)
    report = sp.convert("tfrecord", path, tmp_path / "out", on_bad_input="skip", force=True)
    assert (report["samples"], report["samples_skipped"], report["samples_skipped_exact"]) == (6, 2, False)


@pytest.mark.parametrize(
    ("examples", "message_found"),
    [
        ([], "the source has no samples"),
        ([b""], "record 0: the tf.train.Example has no features"),
        ([b"\xff\xff"], "record 0: the record is damaged or not a tf.train.Example: a protobuf number is truncated"),
        ([message(1, b"\x0a\x7f")], "record 0: the record is damaged or not a tf.train.Example: a protobuf field is truncated: it has 0 of 127 bytes"),
        (
            [photo(0), example(image__encoded=[jpeg(1)])],
            r"record 1: the first sample has a column 'image/class/label', but this sample does not",
        ),
        (
            [example(a=[1]), example(a=[1, 2])],
            "record 1: feature 'a': expected one number as in the first record, found 2",
        ),
        ([example(a=[1]), example(a=[b"x"])], "record 1: feature 'a': expected numbers of type int64"),
        ([example(a=[b"x"]), example(a=[1.0])], "record 1: feature 'a': expected byte strings"),
        (
            [example(a=[b"\0", b"\1"])],
            "record 0: feature 'a': found 2 byte strings, but only lists of text are supported",
        ),
    ],
)
def test_what_cannot_be_taken_is_named(tmp_path: Path, examples: list[bytes], message_found: str) -> None:
    with pytest.raises(ValueError, match=message_found):
        sp.convert("tfrecord", write(tmp_path / "a.tfrecord", examples), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_key_that_is_not_there_and_arrays_that_do_not_fit(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tfrecord", [example(a=[b"abc"])])
    with pytest.raises(ValueError, match="feature 'name', which holds the key of a sample, is missing"):
        sp.convert("tfrecord", path, tmp_path / "out", key="name")
    with pytest.raises(ValueError, match=r"feature 'a': 3 bytes cannot be read as an array of float32"):
        sp.convert("tfrecord", path, tmp_path / "out", arrays={"a": "float32"})
    with pytest.raises(ValueError, match="`arrays\['a'\]` must be an element type"):
        sp.convert("tfrecord", path, tmp_path / "out", arrays={"a": "f99"})


def test_what_the_tfrecord_library_wrote(tmp_path: Path) -> None:
    tfrecord = pytest.importorskip("tfrecord")
    writer = tfrecord.TFRecordWriter(str(tmp_path / "a.tfrecord"))
    for i in range(3):
        writer.write({"image": (jpeg(i), "byte"), "label": (-i, "int"), "box": ([0.25 * i, 1.0], "float")})
    writer.close()
    sp.convert("tfrecord", tmp_path / "a.tfrecord", tmp_path / "out")
    found = content(tmp_path / "out", "image")
    for i in range(3):
        sample = found[f"{i:08d}"]
        assert sample["image"] == jpeg(i) and sample["label"] == -i and sample["box"].tolist() == [0.25 * i, 1.0]
