"""Tests that the parts of a split dataset are disjoint and stable, and have the requested shares."""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import shardpack as sp
from numpy.typing import NDArray
from PIL import Image


def write(out: Path, numbers: range, **options: object) -> sp.Dataset:
    """Writes samples of three classes of unequal sizes. Each patient has five samples."""
    with sp.Writer(out, classes=["a", "b", "c"], **options) as writer:  # type: ignore[arg-type]
        for number in numbers:
            values = {"x": np.arange(3), "label": min(number % 10 // 4, 2), "site": number % 2, "weight": number / 7, "note": "-"}
            writer.write(values, key=f"patient-{number // 5:03}/{number:04}")
    return sp.Dataset(out)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    return write(tmp_path_factory.mktemp("split") / "packed", range(200))


def keys(part: sp.Dataset) -> set[str]:
    return set(part.keys)


def counts(part: sp.Dataset) -> list[int]:
    return np.bincount(part.labels, minlength=3).tolist()


def test_each_sample_is_in_one_part_of_its_share(dataset: sp.Dataset) -> None:
    for shares, expected in [(0.8, [160, 40]), ([0.8, 0.2], [160, 40]), ([0.5, 0.25, 0.25], [100, 50, 50]), ([1 / 3] * 3, [67, 67, 66])]:
        for seed in range(5):
            parts = dataset.split(shares, seed=seed)
            assert [len(part) for part in parts] == expected
            assert len(set[str]().union(*map(keys, parts))) == 200
    assert keys(dataset.split(0.8)[0]) != keys(dataset.split(0.8, seed=1)[0])
    shares = np.array([0.9, 0.1])
    assert [len(part) for part in dataset.split(shares)] == [180, 20]


def test_classes_have_their_share_in_each_part(dataset: sp.Dataset) -> None:
    assert counts(dataset) == [80, 80, 40]
    train, val = dataset.split(0.8, stratify="label")
    assert (counts(train), counts(val)) == ([64, 64, 32], [16, 16, 8])
    train, val = dataset.split(0.77, stratify="label", seed=3)
    assert len(train) == 154 and np.abs(np.array(counts(train)) - 0.77 * np.array([80, 80, 40])).max() <= 1
    # Splitting by arrays, lists or strings gives the same parts as splitting by the column.
    for by in (dataset.labels, dataset.labels.tolist(), [dataset.classes[label] for label in dataset.labels]):  # type: ignore[index]
        assert keys(dataset.split(0.8, stratify=by)[1]) == keys(dataset.split(0.8, stratify="label")[1])
    both = [f"{label} {site}" for label, site in zip(dataset.labels, dataset.columns["site"], strict=True)]
    for part, share in zip(dataset.split([0.6, 0.2, 0.2], stratify=both), (0.6, 0.2, 0.2), strict=True):
        found = Counter(zip(part.labels.tolist(), part.columns["site"].tolist(), strict=True))
        assert all(abs(found[pair] - share * count) < 2 for pair, count in Counter(zip(dataset.labels.tolist(), dataset.columns["site"].tolist(), strict=True)).items())


def patients(part: sp.Dataset) -> set[str]:
    return {key.split("/")[0] for key in part.keys}


def test_patients_stay_together(dataset: sp.Dataset) -> None:
    def patient(key: str) -> str:
        return key.split("/")[0]

    for seed in range(10):
        train, val, test = dataset.split([0.8, 0.1, 0.1], groups=patient, seed=seed)
        assert [len(part) for part in (train, val, test)] == [160, 20, 20]
        assert not patients(train) & patients(val) and not patients(train) & patients(test) and not patients(val) & patients(test)
    numbers = np.array([int(key[8:11]) for key in dataset.keys])
    assert len(patients(dataset.split(0.8, groups=numbers)[1])) == 8
    assert keys(dataset.split(0.8, groups="site")[0]) == {key for key in dataset.keys if int(key[-4:]) % 2 == dataset.split(0.8, groups="site")[0].columns["site"][0]}
    # With `stratify`, groups stay whole too. A patient has the class of most of its samples.
    train, val = dataset.split(0.75, groups=patient, stratify="label")
    assert len(train) == 150 and not patients(train) & patients(val)
    assert np.abs(np.array(counts(train)) - 0.75 * np.array([80, 80, 40])).max() <= 10


def test_parts_depend_on_keys_and_seed_alone(dataset: sp.Dataset, tmp_path: Path) -> None:
    other = write(tmp_path / "other", range(199, -1, -1), shard_size="4KiB", seed=9, threads=1)
    assert list(other.keys) != list(dataset.keys)
    for options in ({}, {"stratify": "label"}, {"groups": lambda key: key[:11]}, {"growing": True}, {"seed": 7}):
        ours, theirs = dataset.split(0.7, **options), other.split(0.7, **options)  # type: ignore[arg-type]
        assert list(map(keys, ours)) == list(map(keys, theirs))
    # As documented, samples are sorted by a hash of seed and key.
    def place(key: str) -> bytes:
        return hashlib.sha256(b"shardpack split 1\0" + (7).to_bytes(8, "little") + key.encode()).digest()[:8]

    assert keys(dataset.split(0.7, seed=7)[0]) == set(sorted(dataset.keys, key=place)[:140])


def test_a_growing_dataset_keeps_its_parts(tmp_path: Path) -> None:
    before = write(tmp_path / "grows", range(200))
    options: dict[str, object] = {"growing": True, "groups": lambda key: key.split("/")[0]}
    train, val = before.split(0.8, **options)  # type: ignore[arg-type]
    assert 100 <= len(train) <= 190 and not patients(train) & patients(val)
    with sp.Writer(tmp_path / "grows", append=True) as writer:
        for number in range(198, 260):
            values = {"x": np.arange(3), "label": 0, "site": 0, "weight": 1.0, "note": "-"}
            writer.write(values, key=f"patient-{number // 5:03}/{number:04}-later")
    later_train, later_val = sp.Dataset(tmp_path / "grows").split(0.8, **options)  # type: ignore[arg-type]
    assert keys(train) < keys(later_train) and keys(val) < keys(later_val)
    sp.remove(tmp_path / "grows", sorted(keys(val))[:5])
    assert keys(sp.Dataset(tmp_path / "grows").split(0.8, **options)[0]) == keys(later_train)  # type: ignore[arg-type]


def test_parts_are_subsets(dataset: sp.Dataset) -> None:
    train, rest = dataset.split(0.8, stratify="label")
    assert isinstance(train, sp.Dataset)
    val, test = rest.split(0.5, stratify="label", seed=1)
    assert [counts(val), counts(test)] == [[8, 8, 4], [8, 8, 4]] and keys(val) | keys(test) == keys(rest)
    assert val.split(0.5, groups="site")[0].columns["site"].tolist() in ([0] * 10, [1] * 10)
    values: NDArray[np.int64] = rest.labels
    assert keys(rest.split(0.5, stratify=values, seed=1)[0]) == keys(val)
    loader = sp.Loader(val, 7, fields=["label"], end="uneven")
    assert sorted(key for batch in loader for key in batch.sample_keys) == sorted(keys(val))
    assert keys(pickle.loads(pickle.dumps(val))) == keys(val)
    both = sp.concat([dataset, dataset])
    assert [len(part) for part in both.split(0.75)] == [300, 100]


def test_what_cannot_be_split_is_refused(dataset: sp.Dataset) -> None:
    for given, error, said in [
        ({"shares": 1.5}, sp.UsageError, "a fraction between 0 and 1"),
        ({"shares": [0.5, 0.4]}, sp.UsageError, r"must add up to 1, but \[0.5, 0.4\] add up to 0.9"),
        ({"shares": [160, 40]}, sp.UsageError, "must add up to 1"),
        ({"shares": [1.0]}, sp.UsageError, "at least two shares"),
        ({"shares": "0.8"}, TypeError, "found the string '0.8'"),
        ({"shares": 0.5, "seed": -1}, ValueError, "seed: expected an integer from 0"),
        ({"shares": 0.5, "seed": 0.5}, ValueError, "seed: expected an integer from 0"),
        ({"shares": 0.5, "stratify": "lable"}, sp.UsageError, "the dataset has no scalar field 'lable'; its scalar fields are label, site, weight"),
        ({"shares": 0.5, "stratify": "weight"}, sp.UsageError, "`stratify` needs an integer field, but field `weight` has the type float64"),
        ({"shares": 0.5, "groups": "note"}, sp.UsageError, "'note' must be a scalar field, but its kind is text"),
        ({"shares": 0.5, "groups": [1, 2]}, sp.UsageError, "`groups` has 2 values, but there are 200 samples"),
        ({"shares": 0.5, "groups": [0.5] * 200}, TypeError, "expected an integer, a boolean or a string for each sample"),
        ({"shares": 0.5, "groups": lambda key: None}, TypeError, "expected an integer, a boolean or a string for each sample"),
        ({"shares": 0.5, "groups": [1] * 200}, sp.UsageError, "its share is 0.5 of 200 samples, and groups cannot be divided between parts"),
        ({"shares": 0.5, "stratify": "label", "growing": True}, sp.UsageError, "`growing` and `stratify` cannot be combined"),
    ]:
        with pytest.raises(error, match=said):
            dataset.split(**given)  # type: ignore[arg-type]
    with pytest.raises(sp.UsageError, match="its share is 0.5 of 0 samples"):
        dataset.subset([]).split(0.5)
    # All hashes of this part lie in one half of the range, so a second split by the same hash would fail.
    part = dataset.split(0.5, growing=True)[0]
    with pytest.raises(sp.UsageError, match="choose larger shares, or a different `?seed`? if these samples come from a growing split"):
        part.split(0.6, growing=True)
    assert len(part.split(0.6, growing=True, seed=1)) == 2


def test_pictures_of_folders(tmp_path: Path) -> None:
    for number in range(30):
        folder = tmp_path / "photos" / ("cat", "dog")[number % 3 // 2]
        folder.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (32, 24), (number, 0, 0)).save(folder / f"{number}.jpg")
    sp.pack(tmp_path / "photos", tmp_path / "packed")
    train, val = sp.Dataset(tmp_path / "packed").split(0.8, stratify="label")
    assert np.bincount(train.labels).tolist() == [16, 8] and np.bincount(val.labels).tolist() == [4, 2]
    assert {key for batch in sp.Loader(train, 8, image="rrc16", layout="chw") for key in batch.sample_keys} == keys(train)
