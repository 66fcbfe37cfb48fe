"""Tests batches as mappings, fields that are Python objects, and reading only some fields of a sample."""

from __future__ import annotations

import copy
import pickle
from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack as sp


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    """Writes 50 samples with a picture, a caption, a document and bytes. Every fifth sample lacks a caption."""
    out = tmp_path_factory.mktemp("batch") / "mixed"
    schema = {"image": "image", "label": "int64", "caption": "text", "meta": "json", "blob": "bytes"}
    with sp.Writer(out, schema) as writer:
        for number in range(50):
            pixels = np.full((24, 24, 3), number, np.uint8)
            caption = None if number % 5 == 0 else f"picture {number}"
            sample = {"image": pixels, "label": number, "caption": caption, "meta": {"n": number}, "blob": b"%d" % number}
            writer.write(sample, key=f"{number:02}")
    return sp.Dataset(out)


def objects(label: int) -> tuple[str | None, dict[str, int], bytes]:
    return None if label % 5 == 0 else f"picture {label}", {"n": label}, b"%d" % label


def test_a_batch_is_a_mapping(mixed: sp.Dataset) -> None:
    batch = next(iter(sp.Loader(mixed, 8, image="center8", fields=["image", "label"])))
    assert isinstance(batch, Mapping)
    assert list(batch.keys()) == ["image", "label"] and len(batch.sample_keys) == 8
    assert batch.sample_keys == [mixed.keys[int(i)] for i in batch.indices] and isinstance(batch.sample_keys, list)
    plain = dict(batch)
    assert plain["image"] is batch["image"] and list(plain) == ["image", "label"]

    def model(image: Any, label: Any) -> bool:
        return image is batch["image"] and label is batch["label"]

    assert model(**batch)
    assert [value is batch[name] for name, value in batch.items()] == [True, True] and len(batch.items()) == 2
    assert len(batch.values()) == 2 and batch.get("label") is batch["label"] and batch.get("nothing", 3) == 3
    with pytest.raises(KeyError, match="the batch has no field images; its fields are image, label"):
        batch["images"]
    assert batch == batch and batch != copy.copy(batch) and {batch}


def test_values_are_replaced_and_added(mixed: sp.Dataset) -> None:
    batch = next(iter(sp.Loader(mixed, 8, image="center8", fields=["image", "label"])))
    other = batch.copy()
    batch["image"] = batch["image"] / 255
    batch["weight"] = None
    assert batch["image"].max() <= 1 < other["image"].max() and "weight" not in other
    assert list(batch.keys()) == ["image", "label", "weight"] and list(other.keys()) == ["image", "label"]
    assert batch["weight"] is None and other.sample_keys == batch.sample_keys and other["label"].base is not None
    assert batch.pop("label") is not None and list(batch.keys()) == ["image", "weight"]
    for gone in ("label", "nothing"):
        with pytest.raises(KeyError):
            del batch[gone]
    with pytest.raises(KeyError):
        batch["label"]
    again = pickle.loads(pickle.dumps(batch))
    assert list(again.keys()) == ["image", "weight"] and again.sample_keys == batch.sample_keys
    again["more"] = 1
    assert list(again.keys()) == ["image", "weight", "more"]


@pytest.mark.parametrize("fields", [["image", "label"], None])
def test_a_batch_is_updated(mixed: sp.Dataset, fields: list[str] | None) -> None:
    first, second = list(sp.Loader(mixed, 8, image="center8", fields=fields, epoch=1))[:2]
    names = list(first.keys())
    first.update(second, weight=2)
    assert list(first.keys()) == [*names, "weight"] and first["weight"] == 2
    assert first["image"] is second["image"] and first["label"] is second["label"]
    first.update({"image": 1, "other": 3})
    first.update([("label", 4)])
    first.update(sp.Batch({"weight": 5}))
    first.update()
    assert [first[name] for name in ("image", "label", "weight", "other")] == [1, 4, 5, 3]
    assert ChainMap(dict(first), {"more": 6})["more"] == 6 and set(ChainMap(dict(first))) == set(first.keys())
    with pytest.raises(KeyError):
        first.update(MissingValue(image=7))
    assert first["image"] == 1, "nothing was replaced"


class MissingValue(dict[str, Any]):
    """A dict that claims to have a field but lacks it."""

    def keys(self) -> Any:
        return ["image", "missing"]


def test_a_batch_of_fields_alone() -> None:
    """Accelerate and Hugging Face make batches that have only fields."""
    batch = sp.Batch({"x": np.zeros((3, 2)), "y": [1, 2, 3]})
    for batch in (batch, copy.copy(batch), pickle.loads(pickle.dumps(batch))):
        assert len(batch) == 3 and list(batch.keys()) == ["x", "y"] and dict(batch)["y"] == [1, 2, 3]
        for name in ("mask", "indices", "sample_keys"):
            assert not hasattr(batch, name), "None would say that every row is a sample"
        with pytest.raises(AttributeError, match="sample_keys is not available.*\nhint"):
            batch.sample_keys


@pytest.mark.parametrize("shuffle", [True, False])
def test_objects_come_beside_tensors(mixed: sp.Dataset, shuffle: bool) -> None:
    fields = ["caption", "label", "meta", "blob"]
    seen = []
    with sp.Loader(mixed, 8, fields=fields, shuffle=shuffle, end="pad") as loader:
        for batch in loader:
            assert list(batch.keys()) == fields
            found = zip(batch.mask, batch["label"].tolist(), batch["caption"], batch["meta"], batch["blob"], strict=True)
            for real, label, *rest in found:
                assert tuple(rest) == (objects(label) if real else (None, None, None))
                seen += [label] if real else []
    assert sorted(seen) == list(range(50))
    again = pickle.loads(pickle.dumps(batch))
    assert again["caption"] == batch["caption"] and batch["caption"] is batch["caption"]


def test_objects_may_come_alone_and_of_a_part(mixed: sp.Dataset) -> None:
    part = mixed.subset(mixed.labels >= 40)
    found = [text for batch in sp.Loader(part, 3, fields=["caption"], end="uneven") for text in batch["caption"]]
    assert sorted(map(str, found)) == sorted(str(objects(label)[0]) for label in range(40, 50))
    both = sp.concat([mixed, mixed])
    for batch in sp.Loader(both, 10, fields=["label", "blob"], mix=[1, 1]):
        assert [int(blob) for blob in batch["blob"]] == batch["label"].tolist()
    assert list(next(iter(sp.Loader(mixed, 8))).keys()) == ["image", "label", *("height", "width", "orientation", "gpu_jpeg")]


def test_objects_of_damaged_samples_are_none(mixed: sp.Dataset, tmp_path: Path) -> None:
    for file in mixed.path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    shard = next(tmp_path.glob("*.shard"))
    raw = mixed.raw(3, "image")
    assert raw is not None
    data = bytearray(shard.read_bytes())
    data[data.index(raw) + 20] ^= 1
    shard.write_bytes(data)
    loader = sp.Loader(sp.Dataset(tmp_path), 10, fields=["image", "meta"], shuffle=False, skip_corrupt=1)
    batches = list(loader)
    assert batches[0].mask.tolist() == [row != 3 for row in range(10)]
    assert [meta is None for meta in batches[0]["meta"]] == [row == 3 for row in range(10)]


def test_some_fields_of_a_sample(mixed: sp.Dataset, tmp_path: Path) -> None:
    label = int(mixed.labels[7])
    assert mixed.get(7, fields=["meta", "blob"]) == {
        "__key__": mixed.keys[7], "meta": {"n": label}, "blob": b"%d" % label
    }  # fmt: skip
    assert list(mixed.get(-1)) == list(mixed[49])
    assert mixed.get_many([3, 1], fields=["label"]) == [
        {"__key__": mixed.keys[i], "label": int(mixed.labels[i])} for i in (3, 1)
    ]
    part = mixed.subset([5, 6])
    assert part.get(1, ["label"])["label"] == mixed.labels[6] and part.get_many([0], [])[0] == {"__key__": mixed.keys[5]}
    with pytest.raises(sp.UsageError, match=r"the dataset has no field `captions`; its fields are image, label, caption"):
        mixed.get(0, fields=["captions"])
    with pytest.raises(TypeError, match=r"hint: pass fields=\['caption'\]"):
        mixed.get_many([0], fields="caption")
    # Without checksums, damage in a picture that is not decoded goes unnoticed.
    for file in mixed.path.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    shard = next(tmp_path.glob("*.shard"))
    raw = mixed.raw(3, "image")
    assert raw is not None
    data = bytearray(shard.read_bytes())
    at = data.index(raw)
    data[at : at + 40] = bytes(40)
    shard.write_bytes(data)
    damaged = sp.Dataset(tmp_path, verify_crc=False)
    assert damaged.get(3, ["meta"])["meta"] == mixed[3]["meta"]
    with pytest.raises(sp.FormatError):
        damaged[3]


def test_figures_of_packing_are_columns_alone(cubes: Path) -> None:
    dataset = sp.Dataset(cubes)
    assert [field.name for field in dataset.schema] == list(dataset[0])[1:]
    assert not any("." in name for name in dataset[0])
    assert "cube.max_abs_error" in dataset.columns and dataset.columns["cube.max_abs_error"].shape == (24,)
    assert dataset.get(2, ["cube.max_abs_error"])["cube.max_abs_error"] == dataset.columns["cube.max_abs_error"][2]
    with sp.Loader(dataset, 8) as loader:
        assert list(next(iter(loader)).keys()) == [name for name in list(dataset[0])[1:] if name != "meta"]
    with sp.Loader(dataset, 8, fields=["cube.values", "mask"]) as loader:
        batch = next(iter(loader))
        assert list(batch.keys()) == ["cube.values", "mask"] and (batch["cube.values"] == 20 * 30 * 8).all()


def test_a_batch_of_named_fields_is_taken_apart(mixed: sp.Dataset) -> None:
    with sp.Loader(mixed, 8, image="center8", fields=["label", "image", "caption"]) as loader:
        for batch in loader:
            labels, images, captions = batch
            assert labels is batch["label"] and images is batch["image"] and captions is batch["caption"]
        assert [images.shape for _, images, _ in loader] == [(8, 8, 8, 3)] * 6
        for other in (copy.copy(batch), pickle.loads(pickle.dumps(batch))):
            assert np.array_equal(list(other)[1], images)
    with pytest.raises(ValueError, match="unpack"):
        _, _ = batch


def test_no_order_is_made_up_for_fields_that_nobody_named(mixed: sp.Dataset) -> None:
    batch = next(iter(sp.Loader(mixed, 8, image="center8")))
    hint = r"(?s)created without fields=.*use batch\['image'\], batch\['label'\] for the values, batch.items\(\)"
    for other in (batch, copy.copy(batch), pickle.loads(pickle.dumps(batch)), sp.Batch(batch)):
        with pytest.raises(TypeError, match=hint):
            list(other)
        assert dict(other).keys() == batch.keys()
    for wrong in (0, batch["label"], ("image", "label")):
        with pytest.raises(TypeError, match=r"expected the name of a field, found .*\nhint: use batch\['image'\]"):
            batch[wrong]  # type: ignore[index]


def test_fields_are_popped(mixed: sp.Dataset) -> None:
    for fields in (["image", "label"], None):
        batch = next(iter(sp.Loader(mixed, 8, image="center8", fields=fields)))
        name, value = batch.popitem()
        assert name == ("label" if fields else "gpu_jpeg") and len(value) == 8
        batch.clear()
        assert dict(batch) == {}
        with pytest.raises(KeyError):
            batch.popitem()


@pytest.mark.parametrize("workers", [0, 1])
def test_a_dataloader_leaves_batches_as_they_are(mixed: sp.Dataset, workers: int) -> None:
    torch = pytest.importorskip("torch")
    loader = sp.Loader(mixed, 8, image="center8", fields=["image", "label"], to="torch", shuffle=False)
    batches = torch.utils.data.DataLoader(sp.torch.IterableDataset(loader), batch_size=None, num_workers=workers)
    for number, batch in enumerate(batches):
        images, labels = batch
        assert isinstance(batch, sp.Batch) and images.shape == (8, 8, 8, 3)
        assert batch.sample_keys == [mixed.keys[int(i)] for i in batch.indices] and labels is batch["label"]
    assert number == 5


def test_what_a_ragged_field_cannot_have_is_told(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out") as writer:
        for size in (8, 16):
            writer.write({"image": np.zeros((size, size, 3), np.uint8)})
    images = next(iter(sp.Loader(sp.Dataset(tmp_path / "out"), 2)))["image"]
    assert images[0].ndim == 3 and not hasattr(images, "__array_interface__")
    with pytest.raises(AttributeError, match="has no attribute 'shape': its rows have different sizes\nhint: pass image=\"rrc224\""):
        images.shape  # noqa: B018
