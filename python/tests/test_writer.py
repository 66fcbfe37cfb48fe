"""Tests that a writer stores values unchanged, and that an error loses only one sample."""

from __future__ import annotations

import concurrent.futures
import hashlib
import importlib.util
import io
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardpack as sp

DTYPES = "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64".split()
SPEC = Path(__file__).parents[2] / "format-spec"


def jpeg(number: int, height: int = 48, width: int = 64) -> bytes:
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([(x * 3 + number * 7) % 256, (y * 5 + number) % 256, (x + y) % 256], -1).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()


def sample(number: int) -> dict[str, object]:
    """Returns a sample with a field of each kind."""
    random = np.random.default_rng(number)
    return {
        "image": jpeg(number),
        "label": number % 3,
        "caption": f"photo {number}, été",
        "cube": random.normal(size=(6, 7, 4)).astype(np.float32),
        "boxes": random.random((number % 4, 4)),
        "mask": random.integers(0, 5, (6, 7), np.uint8) if number % 2 == 0 else None,
        "meta": {"number": number, "tags": ["a", "b"], "score": np.float32(0.5)},
        "blob": bytes([number]) * 100,
        "weight": 0.25,
        "fine": True,
    }


SCHEMA = {
    "image": "image",
    "label": "int64",
    "caption": "text",
    "cube": "array:float32",
    "boxes": "array:float64",
    "mask": "array:uint8",
    "meta": "json",
    "blob": "bytes",
    "weight": "float64",
    "fine": "bool",
}


def files(folder: Path) -> dict[str, str]:
    """Returns a digest of every file in a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def reader() -> Iterator[ModuleType]:
    """Loads the reference reader of the specification, which shares no code with the package."""
    pytest.importorskip("zstandard", reason="the specification's reader takes zstd from it")
    sys.path.insert(0, str(SPEC))
    spec = importlib.util.spec_from_file_location("spec_reader", SPEC / "reader.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["spec_reader"] = module
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(SPEC))


def test_what_goes_in_comes_out(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with sp.Writer(out, classes=["ant", "bee", "cat"], shard_size="64KiB") as writer:
        for number in range(40):
            writer.write(sample(number), key=f"{number % 3}/{number:02}.jpg")
        assert len(writer) == 40 and writer.report is None
    report = writer.report
    assert report is not None and report["samples"] == 40 and report["shards"] > 1 and report["classes"] == 3
    assert report["fidelity"]["image"]["samples"] == 40
    assert report["fidelity"]["boxes"]["changed"] == 0 < report["fidelity"]["cube"]["changed"]
    assert repr(writer) == f"Writer({str(out)!r}, complete)"
    assert sorted(path.name for path in out.iterdir())[0] == "manifest.json"

    dataset = sp.Dataset(out)
    assert len(dataset) == 40 and dataset.classes == ["ant", "bee", "cat"]
    for index in range(40):
        found = dataset[index]
        number = int(found["__key__"][2:4])
        expected: dict[str, Any] = sample(number)
        with Image.open(io.BytesIO(expected["image"])) as picture:
            assert np.abs(found["image"].astype(int) - np.asarray(picture).astype(int)).max() <= 4, "decoders round differently"
        assert np.abs(found["cube"] - expected["cube"]).max() < 0.01 and found["cube"].dtype == np.float32
        assert np.array_equal(found["boxes"], expected["boxes"]) and found["boxes"].dtype == np.float64
        assert (found["mask"] is None) == (expected["mask"] is None)
        assert found["mask"] is None or np.array_equal(found["mask"], expected["mask"])
        assert found["meta"] == {"number": number, "tags": ["a", "b"], "score": 0.5}
        for field in ("label", "caption", "blob", "weight", "fine"):
            assert found[field] == expected[field]
    assert sp.verify(out, deep=True)["whole"]


def test_the_independent_reader_agrees(tmp_path: Path, reader: ModuleType) -> None:
    out = tmp_path / "out"
    with sp.Writer(out, codec="zstd", jpeg="keep", values="keep") as writer:
        for number in range(12):
            writer.write(sample(number))
    assert reader.verify(str(out)) == []
    digests = {tuple(line.split("\t")[:2]): line.split("\t")[3] for line in reader.digest(str(out))}
    for number in range(12):
        for field, value in sample(number).items():
            if isinstance(value, bytes):
                expected = value
            elif isinstance(value, str):
                expected = value.encode()
            elif isinstance(value, np.ndarray):
                expected = value.tobytes()
            elif value is None:
                assert digests[f"{number:08}", field] == "-"
                continue
            else:
                continue
            assert digests[f"{number:08}", field] == hashlib.sha256(expected).hexdigest(), (number, field)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_comes_back_to_the_bit(tmp_path: Path, dtype: str) -> None:
    random = np.random.default_rng(7)
    shapes = [(5,), (0, 3), (3, 4), (3, 4, 5), (2, 2, 2, 2, 2)]
    bits = {shape: random.integers(0, 2 if dtype == "bool" else 256, (*shape, np.dtype(dtype).itemsize), np.uint8) for shape in shapes}
    arrays = {f"a{i}": bits[shape].reshape(-1).view(dtype).reshape(shape) for i, shape in enumerate(shapes)}
    arrays["turned"] = np.ascontiguousarray(arrays["a3"].T).T
    swapped = arrays["a2"].astype(arrays["a2"].dtype.newbyteorder(">"))
    scalar = arrays["a2"][1, 2]
    with sp.Writer(tmp_path / "out", values="keep") as writer:
        writer.write({**arrays, "swapped": swapped, "scalar": scalar, "axisless": np.array(scalar)})
    found = sp.Dataset(tmp_path / "out")[0]
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes(), name
    assert found["swapped"].tobytes() == arrays["a2"].tobytes()
    schema = {field.name: field.dtype for field in sp.Dataset(tmp_path / "out").schema}
    assert schema["scalar"] == schema["axisless"] == np.dtype(dtype)
    assert np.array(found["scalar"], dtype).tobytes() == np.array(scalar).tobytes() or np.isnan(scalar)


@pytest.mark.parametrize("shuffle", [True, False])
def test_eight_threads_write_the_same_bytes_as_one(tmp_path: Path, shuffle: bool) -> None:
    def write(out: Path, threads: int) -> dict[str, str]:
        # With a schema, any thread may write first.
        with sp.Writer(out, SCHEMA, shuffle=shuffle, codec="blosc2-lz4", filter="shuffle", layout="as-given", band_difference="off", shard_size=30_000) as writer:

            def add(number: int) -> None:
                writer.write(sample(number), key=f"{number:03}", order=None if shuffle else number)

            with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                # All threads write at the same time. No sample is lost or duplicated.
                list(pool.map(add, reversed(range(1, 90))))
                add(0)
        return files(out)

    one, eight = write(tmp_path / "one", 1), write(tmp_path / "eight", 8)
    assert one == eight and len(one) > 4
    dataset = sp.Dataset(tmp_path / "eight")
    keys = list(dataset.keys)
    assert sorted(keys) == [f"{number:03}" for number in range(90)]
    assert (keys == sorted(keys)) == (not shuffle)


def test_the_interpreter_is_free_while_a_sample_is_encoded(tmp_path: Path) -> None:
    cube = np.random.default_rng(0).random((600, 600, 40)).astype(np.float32)
    ticks = []
    with sp.Writer(tmp_path / "out", codec="blosc2-zstd", level=9) as writer:
        writing = threading.Thread(target=lambda: writer.write({"cube": cube}))
        writing.start()
        while writing.is_alive():
            ticks.append(time.perf_counter())
            time.sleep(0.001)
        writing.join()
    gaps = np.diff(ticks)
    assert len(ticks) > 20 and gaps.max() < 0.8 * (ticks[-1] - ticks[0])


def test_pictures_of_pil_and_pixels(tmp_path: Path) -> None:
    rgb = np.random.default_rng(1).integers(0, 256, (20, 30, 3), np.uint8)
    palette = Image.fromarray(rgb).quantize(16)
    values = {
        "rgb": (Image.fromarray(rgb), rgb),
        "grey": (Image.fromarray(rgb[..., 0]), np.repeat(rgb[..., :1], 3, -1)),
        "palette": (palette, np.asarray(palette.convert("RGB"))),
        "bits": (Image.fromarray(rgb[..., 0] > 128), np.repeat((rgb[..., :1] > 128) * np.uint8(255), 3, -1)),
        "image": (rgb[..., :1], np.repeat(rgb[..., :1], 3, -1)),
    }
    for name, (given, expected) in values.items():
        out = tmp_path / name
        with sp.Writer(out) as writer:
            writer.write({name: given})
        dataset = sp.Dataset(out)
        assert dataset.schema[0].kind == "image"
        assert np.array_equal(dataset[0][name], expected), name
    with sp.Writer(tmp_path / "schema", {"left": "image", "right": "image"}) as writer:
        writer.write({"left": rgb, "right": Image.fromarray(rgb)})
        with pytest.raises(TypeError, match=r"field 'left': a PIL image of mode RGBA cannot be stored .*L, RGB, .*\nhint: pass picture.convert"):
            writer.write({"left": Image.new("RGBA", (3, 4)), "right": rgb})
        with pytest.raises(sp.UsageError, match=r"field `left`: expected a complete JPEG.*found an array of uint8 with shape \[20, 30, 4\]"):
            writer.write({"left": np.zeros((20, 30, 4), np.uint8), "right": rgb})
    found = sp.Dataset(tmp_path / "schema")[0]
    assert np.array_equal(found["left"], rgb) and np.array_equal(found["right"], rgb)
    with sp.Writer(tmp_path / "lossy", jpeg="reencode", quality=80, score="all") as writer:
        writer.write({"image": rgb})
    fidelity = (writer.report or {})["fidelity"]["image"]
    assert fidelity["reencoded"] == 1 and fidelity["quality"]["max"] == 80 and fidelity["ssimulacra2"]["count"] == 1


def test_floats_are_no_numbers_of_classes(tmp_path: Path) -> None:
    for label in (1.5, 1.0, np.float32(1), np.array(0.5)):
        with sp.Writer(tmp_path / "out", classes=["a", "b"], force=True) as writer:
            with pytest.raises(sp.UsageError, match=r"field 'label': expected a class number or name, found \d.\d\nhint: pass int\(label\)"):
                writer.write({"label": label, "score": 0.5})
            writer.write({"label": "b", "score": 0.5})
    for schema, classes in (({"label": "float64"}, ["a"]), (None, None)):
        with sp.Writer(tmp_path / "out", schema, classes=classes, force=True) as writer:
            writer.write({"label": 1.5})
        assert sp.Dataset(tmp_path / "out")[0]["label"] == 1.5
    with sp.Writer(tmp_path / "out", classes=["a", "b"], force=True) as writer:
        writer.write({"label": np.array([0.25, 0.75])})


def test_bytes_that_are_no_picture_are_refused_in_a_field_of_pictures(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"hello")
    with sp.Writer(tmp_path / "out") as writer:
        for field in ("image", "left_photo", "pixels"):
            for value in (b"hello", bytearray(b"hello"), tmp_path / "a.txt"):
                with pytest.raises(sp.UsageError) as caught:
                    writer.write({field: value})
                assert f"field {field!r}: expected a JPEG, PNG, WebP, BMP or TIFF picture, found 5 bytes that begin with: 68 65 6c 6c 6f\nhint: " in str(caught.value)
        with pytest.raises(sp.UsageError, match="picture, found no bytes"):
            writer.write({"image": b""})
        # The Rust extension refuses these formats with a message that names them.
        for value, name in (
            (b"GIF89a" + bytes(60), "GIF"), (b"\0\0\0\x18ftypavif" + bytes(60), "AVIF"), (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG 2000"),
            (b"\xff\x0a\0\0", "JPEG XL"), (b"\x76\x2f\x31\x01", "OpenEXR"), (b"8BPS\0\1", "Photoshop"),
        ):  # fmt: skip
            with pytest.raises(sp.UsageError, match=f"{name} pictures are not supported"):
                writer.write({"image": value})
        writer.write({"image": jpeg(0)})
    with sp.Writer(tmp_path / "paths") as writer:
        writer.write({"image": jpeg(0), "image_path": b"a.jpg"})
    with sp.Writer(tmp_path / "bytes", {"image": "bytes"}) as writer:
        writer.write({"image": b"hello"})
    assert sp.Dataset(tmp_path / "bytes")[0]["image"] == b"hello"


def test_misfits_cost_one_sample(tmp_path: Path) -> None:
    good = {"image": jpeg(0), "label": 1, "cube": np.ones((2, 2, 3), np.float32)}
    with sp.Writer(tmp_path / "out", classes=["a", "b"]) as writer:
        writer.write(good, key="first")
        for field, value, error, text in [
            ("image", b"GIF89a" + bytes(60), sp.UsageError, "GIF"),
            ("image", jpeg(1)[:500], sp.UsageError, "field `image`"),
            ("image", 3, sp.UsageError, "found the number 3"),
            ("label", 2, sp.UsageError, "expected a class number from 0 to 1, found 2"),
            ("label", "c", sp.UsageError, "there is no class `c`"),
            ("label", None, sp.UsageError, "found no value\nhint: "),
            ("cube", np.ones((2, 2, 3)), sp.UsageError, "expected an array of float32, found an array of float64"),
            ("cube", np.ones((2, 2), np.float32), sp.UsageError, "expected an array of float32 with 3 axes (as in the first sample), found an array of float32 with shape [2, 2]"),
            ("cube", np.array([[[0.5, 1e6]]], np.float32), sp.UsageError, 'the value 1000000 at [0, 0, 1] is outside float16\'s range of ±65504 (the finite values of the array range from 0.5 to 1000000)\nhint: use `values="fixed", max_error=E`'),
            ("cube", np.ones((2, 2, 3), complex), TypeError, "an array of type complex128 cannot be stored"),
            ("cube", object(), TypeError, "field 'cube': expected bytes, str"),
            ("image", tmp_path, sp.UsageError, f"field 'image': not a regular file: {tmp_path}"),
            ("image", "a.jpg", sp.UsageError, "found the name of a file: a.jpg\nhint: pass pathlib.Path('a.jpg')"),
            ("image", "a cat", sp.UsageError, "found text\nhint: pass the bytes of the file, not its name"),
            ("label", 1 << 64, sp.UsageError, "field 'label': expected an integer of at most 64 bits"),
            ("label", (1 << 64) - 1, sp.UsageError, "expected a class number from 0 to 1"),
            ("label", "\ud800", sp.UsageError, "field 'label': the text is not valid Unicode"),
            ("more", 1, sp.UsageError, "field `more`: the schema and the first sample have no such field, only image, label, cube"),
        ]:
            with pytest.raises(error) as caught:
                writer.write({**good, field: value}, key="second")
            assert text in str(caught.value)
            assert "sample `second`" in str(caught.value) or f"field {field!r}" in str(caught.value)
        with pytest.raises(sp.UsageError, match="sample key `first` occurs twice"):
            writer.write(good, key="first")
        with pytest.raises(sp.UsageError, match="relative path"):
            writer.write(good, key="/root")
        with pytest.raises(TypeError, match="key: expected a string, found .* \\(int\\)"):
            writer.write({**good, "__key__": 5})
        writer.write({"label": "a", "__key__": "second", "cube": np.zeros((1, 1, 1), np.float32)})
    assert [sp.Dataset(tmp_path / "out").by_key(key)["label"] for key in ("first", "second")] == [1, 0]


def test_documents_are_strict_json(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out", {"meta": "json"}) as writer:
        writer.write({"meta": "a word"})
        writer.write({"meta": [np.int64(1), np.arange(3), None]})
        writer.write({"meta": 2.5})
        with pytest.raises(sp.UsageError, match="Unicode"):
            writer.write({"meta": {"a": "\ud800"}}, key="no text")
        with pytest.raises(sp.UsageError, match="sample `00000003`: field `meta`"):
            writer.write({"meta": {"a": float("nan")}})
        with pytest.raises(TypeError, match="which cannot contain a Python object of type set"):
            writer.write({"meta": {"a": {1}}})
    dataset = sp.Dataset(tmp_path / "out")
    assert [dataset.by_key(f"{i:08}")["meta"] for i in range(3)] == ["a word", [1, [0, 1, 2], None], 2.5]


def test_options_are_checked(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"Writer\(\) got an unexpected keyword argument 'shardsize'\nhint: did you mean 'shard_size'"):
        sp.Writer(tmp_path / "out", shardsize=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="labels"):
        sp.Writer(tmp_path / "out", labels="a.csv")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"classes: expected a sequence of names, found the string 'cat'\nhint: pass classes=\['cat'\]"):
        sp.Writer(tmp_path / "out", classes="cat")
    with pytest.raises(TypeError, match="seed sets the order of shuffled samples, but shuffle=False keeps their order"):
        sp.Writer(tmp_path / "out", shuffle=False, seed=1)
    with pytest.raises(sp.UsageError, match=r"max_error=E"):
        sp.Writer(tmp_path / "out", values="fixed")
    with pytest.raises(ValueError, match="schema: field `a`: expected image, frames, array"):
        sp.Writer(tmp_path / "out", {"a": "picture"})
    assert not (tmp_path / "out").exists()


def test_lists_become_arrays_where_the_schema_says_so(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out", {"boxes": "array:float32", "any": "array", "tags": "json"}) as writer:
        writer.write({"boxes": [[1, 2, 3, 4]], "any": [1, 2], "tags": [1, 2]})
    found = sp.Dataset(tmp_path / "out")[0]
    assert found["boxes"].dtype == np.float32 and found["boxes"].tolist() == [[1, 2, 3, 4]]
    assert found["any"].dtype == np.int64 and found["any"].tolist() == [1, 2] and found["tags"] == [1, 2]


@pytest.mark.parametrize(
    ("dtype", "value", "found"),
    [
        ("int32", [[1.7, 2.9]], "1.7"),
        ("int32", [1, 2**31], "2147483648"),
        ("int64", [0.0, 2.0**63], "9.2233"),
        ("uint8", [-1.0], "-1.0"),
        ("uint64", [3, -1], "-1"),
        ("uint8", [float("nan")], "nan"),
        ("bool", [3, -1], "3"),
        ("float32", [1, 2**24 + 1], "16777217"),
        ("float64", [2**63 - 1], "9223372036854775807"),
        ("float16", [1e300], "1e\\+300"),
        ("float32", [1.0, None], "None"),
        ("float32", ["1"], "str"),
        ("int64", [2**64], "an integer of more than 64 bits"),
        ("uint64", [2**63, -1], "-1"),
        ("int64", [1, [2]], "the lists differ in length"),
        ("float32", [1 + 2j], "complex128"),
    ],
)
def test_lists_of_values_that_an_array_does_not_hold(tmp_path: Path, dtype: str, value: Any, found: str) -> None:
    for schema in {f"array:{dtype}"} | ({"array"} if found in ("None", "str", "complex128") else set()):
        with sp.Writer(tmp_path / "out", {"x": schema, "n": "int64"}, force=True) as writer:
            with pytest.raises(sp.UsageError, match=rf"field 'x': (expected .*)?{found}"):
                writer.write({"x": value, "n": 1})
            writer.write({"x": [1], "n": 2})


def test_lists_of_values_that_an_array_holds(tmp_path: Path) -> None:
    lists: dict[str, Any] = {
        "int32": [[1.0, -2.0]], "bool": [0, True, 1.0], "float32": [0.1, float("inf"), float("nan"), 2**24], "uint64": [2**64 - 1, 1],
        "float64": [0.5, 2**63], "int8": [], "float16": [[]], "int64": [-(2**63), 2**63 - 1],
    }  # fmt: skip
    with sp.Writer(tmp_path / "out", {dtype: f"array:{dtype}" for dtype in lists}) as writer:
        writer.write(lists)
    found = sp.Dataset(tmp_path / "out")[0]
    for dtype, value in lists.items():
        assert found[dtype].dtype == dtype and np.array_equal(found[dtype], np.array(value, dtype), equal_nan=dtype[0] == "f")
    assert found["uint64"].tolist() == [2**64 - 1, 1]


def test_tensors_of_frameworks_are_arrays(tmp_path: Path) -> None:
    class Tensor:
        def __init__(self, array: np.ndarray[Any, Any]) -> None:
            self.array = array

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
            return self.array

    with sp.Writer(tmp_path / "out") as writer:
        writer.write({"x": Tensor(np.arange(6, dtype=np.int16).reshape(2, 3)), "label": Tensor(np.array(5))})
    found = sp.Dataset(tmp_path / "out")[0]
    assert found["x"].dtype == np.int16 and found["x"].tolist() == [[0, 1, 2], [3, 4, 5]] and found["label"] == 5


def test_the_recipe_says_how_it_was_made(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out", seed=5, jpeg="keep") as writer:
        writer.write({"image": jpeg(1), "cube": np.ones((2, 3, 4), np.float32)})
    recipe = json.loads((tmp_path / "out/manifest.json").read_text())["recipe"]
    assert recipe["order"] == {"shuffle_seed": 5} and recipe["image"] == {"jpeg": "keep", "segment_index": True}
    assert recipe["fields"] == {"image": "image", "cube": "array:float32"}
    assert recipe["cube"]["settings"]["codec"] and recipe["cube"]["asked"]["values"] == "auto"


def test_what_was_made_for_a_model_is_no_picture(tmp_path: Path) -> None:
    rgb = np.zeros((3, 20, 30), np.uint8)
    for schema in (None, {"image": "image"}):
        with sp.Writer(tmp_path / f"{schema}", schema) as writer:
            with pytest.raises(sp.UsageError, match=r"found uint8 of shape \[3, 20, 30\]\nhint: put the channels last"):
                writer.write({"image": rgb})
            with pytest.raises(sp.UsageError, match="found uint8 of shape .1, 20, 30."):
                writer.write({"image": rgb[:1]})
            with pytest.raises(sp.UsageError, match=r"found float32 of shape.*\n.*'image': 'array'"):
                writer.write({"image": rgb.astype(np.float32)})
            writer.write({"image": rgb.transpose(1, 2, 0)})
    with sp.Writer(tmp_path / "arrays", {"image": "array"}) as writer:
        writer.write({"image": rgb.astype(np.float32)})
    assert sp.Dataset(tmp_path / "arrays")[0]["image"].shape == (3, 20, 30)
    with sp.Writer(tmp_path / "free") as writer:
        writer.write({"cube": rgb.astype(np.float32), "tensor": rgb})
