"""Tests which samples a loader draws: subsets, weights, and concatenated or mixed datasets."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loader_support import keys

import shardpack as sp


def test_subsets_load(dataset: sp.Dataset) -> None:
    owls = dataset.subset(dataset.labels == 2)
    assert sorted(keys(sp.Loader(owls, 8, end="uneven"))) == sorted(owls.keys)
    assert keys(sp.Loader(owls, 5, shuffle=False)) == list(owls.keys)
    for batch in sp.Loader(owls, 8, end="pad"):
        assert batch.indices.dtype == np.int64 and (batch.indices == -1).tolist() == (~batch.mask).tolist()
        found = [owls.keys[int(i)] for i in batch.indices[batch.mask]]
        assert found == [key for key in batch.sample_keys if key], "numbers refer to the subset"
    assert sorted(i for batch in sp.Loader(owls, 5) for i in batch.indices) == list(range(20))


def test_weights(squares: Path) -> None:
    dataset = sp.Dataset(squares)

    def drawn(source: sp.Dataset, weights: Any, epochs: int = 40) -> Counter[int]:
        loader = sp.Loader(source, 8, weights=weights, image="center8")
        assert len(loader) == len(source) // 8
        return Counter(int(label) for _ in range(epochs) for batch in loader for label in batch["label"])

    balanced = drawn(dataset, "balanced")
    assert all(abs(balanced[label] / 1920 - 1 / 3) < 0.05 for label in range(3)), balanced
    some = drawn(dataset, {0: 1, 2: 3})
    assert set(some) == {0, 2} and abs(some[2] / 1920 - 0.75) < 0.05
    each = drawn(dataset, np.where(dataset.labels == 1, 1.0, 0.0))
    assert set(each) == {1}
    part = dataset.subset(dataset.labels < 2)
    halves = drawn(part, "balanced")
    assert set(halves) == {0, 1} and abs(halves[0] / 1600 - 0.5) < 0.05
    assert set(drawn(part, [float(label == 1) for label in part.labels])) == {1}
    assert set(drawn(part, {1: 2.0})) == {1}
    for bad in ("even", [1.0], {7: 1.0}, {0: -1.0}):
        for source in (dataset, part):
            with pytest.raises(sp.UsageError):
                sp.Loader(source, 8, weights=bad)
    with pytest.raises(sp.UsageError, match="shuffle=True"):
        sp.Loader(dataset, weights="balanced", shuffle=False)


def test_datasets_are_mixed(squares: Path) -> None:
    one = sp.Dataset(squares)
    both = sp.concat([one, sp.Dataset(squares)])
    assert len(both) == 96 and both.labels.tolist() == 2 * one.labels.tolist() and both.classes == one.classes
    assert both[50]["__key__"] == one.keys[2] and repr(both) == "Concat(2 datasets, 96 samples)"
    assert pickle.loads(pickle.dumps(both)).id == both.id != one.id
    assert Counter(keys(sp.Loader(both, 8, image="center8"))) == Counter(2 * list(one.keys))
    assert len(both.subset(both.labels == 2)) == 6 and len(sp.concat([both, one]).parts) == 3
    mixed = sp.Loader(both, 8, image="center8", mix=[3, 1])
    shares = [int(index) >= 48 for _ in range(5) for batch in mixed for index in batch.indices]
    assert len(shares) == 480 and abs(sum(shares) / 480 - 0.25) < 0.02
    for source, options, said in [
        (one, {"mix": [1.0]}, "mix needs a dataset made by sp.concat, found Dataset"),
        (both, {"mix": [1.0]}, "mix: expected 2 numbers, one for each dataset, found 1"),
        (both, {"mix": [1, 1], "weights": "balanced"}, "mix and weights cannot be combined"),
    ]:
        with pytest.raises(sp.UsageError, match=said):
            sp.Loader(source, **options)  # type: ignore[arg-type]
    with pytest.raises(sp.UsageError, match="there are no datasets to concatenate"):
        sp.concat([])
    with pytest.raises(sp.UsageError, match="whole dataset"):
        sp.concat([one.subset([1])])


def test_labels_below_0_are_no_class_of_balanced_weights(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out", {"label": "int64"}) as writer:
        for number in range(60):
            writer.write({"label": number % 4 - 1 if number < 40 else -1})
    dataset = sp.Dataset(tmp_path / "out")
    for source in (dataset, dataset.subset(dataset.labels < 2)):
        loader = sp.Loader(source, 8, weights="balanced")
        drawn = Counter(int(label) for _ in range(20) for batch in loader for label in batch["label"])
        assert set(drawn) == set(range(3 if source is dataset else 2))
    with pytest.raises(sp.UsageError, match=r"weights: none of the 30 samples has a class \(a label of 0 or more\)"):
        sp.Loader(dataset.subset(dataset.labels < 0), 8, weights="balanced")


def test_fields_and_classes_of_datasets_are_matched_by_name(squares: Path, tmp_path: Path) -> None:
    one = sp.Dataset(squares)
    assert one.classes is not None
    with sp.Writer(tmp_path / "scored", classes=["new", one.classes[1]], shuffle=False) as writer:
        for number in range(6):
            writer.write({"score": number / 4, "label": number % 2, "note": f"note {number}"}, key=f"scored/{number}")
    scored = sp.Dataset(tmp_path / "scored")
    both = sp.concat([one, scored])
    assert both.classes == [*one.classes, "new"]
    new = len(one.classes)
    assert both.labels.tolist() == [*one.labels.tolist(), *[new, 1] * 3]
    assert [field.name for field in both.schema] == [*(field.name for field in one.schema), "score", "note"]
    assert np.isnan(both.columns["score"][:48]).all() and both.columns["score"][48:].tolist() == [0, 0.25, 0.5, 0.75, 1, 1.25]
    assert both[0]["score"] is None and both[0]["note"] is None and both[53]["image"] is None
    assert both[53]["note"] == "note 5" and both[53]["label"] == 1
    # Labels are the class numbers of the concat, matched by name.
    assert len(both.subset(both.labels == new)) == 3
    found = {}
    for batch in sp.Loader(both, 8, image="center8", fields=["image", "label", "score", "note"], end="uneven"):
        rows = zip(batch.sample_keys, batch["label"].tolist(), batch["score"].tolist(), batch["note"], strict=True)
        shown = zip(batch.present("image").tolist(), batch.present("score").tolist(), strict=True)
        for (key, label, score, note), (has_image, has_score), picture in zip(rows, shown, batch["image"], strict=True):
            found[key] = label
            assert has_image != has_score and has_image == (not key.startswith("scored/")) == bool(picture.any())
            assert np.isnan(score) if has_image else (score == int(key[-1]) / 4 and note == f"note {key[-1]}")
        assert batch.mask.all() and batch.present("label").all()
    assert found == dict(zip(both.keys, both.labels.tolist(), strict=True)) and len(found) == 54
    # In reverse order, classes have other numbers but the same names.
    other = sp.concat([scored, one])
    assert other.classes is not None and other.classes[0] == "new"
    named = [{dataset.keys[i]: dataset.classes[label] for i, label in enumerate(dataset.labels)} for dataset in (both, other)]
    assert named[0] == named[1]
    assert pickle.loads(pickle.dumps(both)).labels.tolist() == both.labels.tolist()
    nested = sp.concat([other, scored])
    assert nested.classes == other.classes and nested.labels[-6:].tolist() == [0, 1] * 3


def test_datasets_that_do_not_fit_are_refused(squares: Path, tmp_path: Path) -> None:
    for name, value, classes, text in [
        ("image", np.zeros((4, 4, 3, 2), np.float32), None, "field `image` is of kind `image` in .*, but of kind `array` in "),
        ("height", 1.5, None, "field `height` is a scalar of type uint32 in .*, but a scalar of type float64 in "),
        ("label", 1, None, "the labels of .* have class names, but the labels of .* have none"),
    ]:
        schema = {"image": "array"} if name == "image" else None
        with sp.Writer(tmp_path / name, classes=classes, schema=schema) as writer:
            writer.write({name: value}, key="one")
        with pytest.raises(sp.UsageError, match=f"(?s){text}.*\nhint: "):
            sp.concat([sp.Dataset(squares), sp.Dataset(tmp_path / name)])
