"""Tests datasets: samples, columns, subsets, and use in other processes."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardpack as sp


@pytest.fixture
def dataset(photos: Path) -> sp.Dataset:
    return sp.Dataset(photos)


def test_a_sample_is_a_dict_of_decoded_values(dataset: sp.Dataset) -> None:
    sample = dataset[7]
    number = int(sample["__key__"][-7:-4])
    assert sample["image"].dtype == np.uint8 and sample["image"].flags.c_contiguous
    assert sample["image"].shape == (64 + number % 4 * 8, 80 + number % 3 * 16, 3)
    assert sample["label"] == number % 3 and type(sample["label"]) is int
    assert type(sample["gpu_jpeg"]) is bool
    raw = dataset.raw(7, "image")
    assert raw is not None and dataset.raw(7) == {"image": raw}
    pixels = np.asarray(Image.open(io.BytesIO(raw)).convert("RGB")).astype(int)
    assert np.abs(pixels - sample["image"].astype(int)).max() <= 1


def test_cubes_come_back_to_the_bit(cubes: Path, cube_values: list[np.ndarray]) -> None:
    for sample in sp.Dataset(cubes):
        number = int(Path(sample["__key__"]).stem)
        assert sample["cube"].dtype == np.float32
        np.testing.assert_array_equal(sample["cube"], cube_values[number])
        assert sample["mask"][5, 5] == number


def test_indexing_is_that_of_a_list(dataset: sp.Dataset) -> None:
    keys = list(dataset.keys)
    assert len(dataset) == len(keys) == len(set(keys)) == 60

    def found(index: object) -> list[str]:
        return [sample["__key__"] for sample in dataset[index]]  # type: ignore[call-overload]

    assert dataset[-1]["__key__"] == keys[-1] == dataset[np.int32(59)]["__key__"]
    assert found(slice(2, 9, 3)) == keys[2:9:3]
    assert found(slice(None, None, -7)) == keys[::-7]
    assert found([3, 1, -1, 3]) == [keys[3], keys[1], keys[-1], keys[3]]
    assert found(np.array([5, 4], np.uint8)) == [keys[5], keys[4]]
    assert found(dataset.labels == 2) == [key for key in keys if key.startswith("owl")]
    assert found([]) == found(np.zeros(60, bool)) == []
    assert dataset.keys[4:6] == keys[4:6] and dataset.keys[-2] == keys[-2]
    for wrong, error in [(60, IndexError), (-61, IndexError), ([0, 60], IndexError), (np.zeros(5, bool), IndexError)]:
        with pytest.raises(error):
            found(wrong) if not isinstance(wrong, int) else dataset[wrong]
    for bad in [1.0, "a", [1.5], np.zeros((2, 2), int)]:
        with pytest.raises(TypeError):
            found(bad)
    with pytest.raises(TypeError, match=r"found the string 'cat/003.jpg'\nhint: use by_key\('cat/003.jpg'\) to get a sample"):
        found("cat/003.jpg")
    with pytest.raises(TypeError, match=r"expected a number, found the string 'cat/003.jpg'\nhint: use by_key"):
        dataset.get("cat/003.jpg")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"found <U11\nhint: use index_of\(key\)"):
        found(["cat/003.jpg"])


def test_columns_need_no_record(dataset: sp.Dataset) -> None:
    assert dataset.labels.dtype == np.int64 and dataset.labels.shape == (60,)
    assert [sample["label"] for sample in dataset] == dataset.labels.tolist()
    assert list(dataset.columns)[:3] == ["label", "height", "width"]
    assert dataset.columns["height"].dtype == np.uint32
    assert dataset.column("height") is dataset.columns["height"]
    with pytest.raises(ValueError, match="read-only"):
        dataset.labels[0] = 9
    with pytest.raises(sp.UsageError, match="no scalar field `image`"):
        dataset.column("image")
    with pytest.raises(KeyError) as caught:
        dataset.columns["widht"]
    expected = "the dataset has no column 'widht'; its columns are label, height, width, orientation, gpu_jpeg"
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert str(error).startswith(expected) and str(error).endswith("\nhint: did you mean 'width'?")
        assert error.args == ("widht",)
    with pytest.raises(KeyError, match="^the dataset has no column 'nothing'; its columns are label, "):
        dataset.columns["nothing"]
    assert dataset.columns.get("image") is None
    assert "label" in dataset.columns and "image" not in dataset.columns


def test_what_is_known_of_a_dataset(dataset: sp.Dataset, photos: Path) -> None:
    assert dataset.classes == ["cat", "dog", "owl"]
    assert dataset.schema[:2] == [sp.Field("image", "image", None), sp.Field("label", "scalar", np.dtype(np.int64))]
    assert dataset.recipe["image"]["jpeg"] == "tile"
    assert isinstance(dataset.fidelity, dict)
    assert dataset.path == photos and len(dataset.id) == 32
    assert dataset.nbytes == sum(file.stat().st_size for file in photos.glob("*.shard"))
    assert repr(dataset) == f"Dataset({str(photos)!r}, 60 samples: image, label, height, width, 2 more)"
    shard = sp.Dataset(next(photos.glob("*.shard")))
    assert (len(shard), shard.fidelity, shard.id) == (60, None, dataset.id)


def test_keys_lead_to_samples(dataset: sp.Dataset) -> None:
    key = dataset.keys[33]
    assert dataset.index_of(key) == 33 and dataset.by_key(key)["__key__"] == key
    assert key in dataset.keys and "nobody" not in dataset.keys
    with pytest.raises(KeyError, match="nobody"):
        dataset.by_key("nobody")


def test_a_key_that_is_not_there_names_those_that_are_like_it(dataset: sp.Dataset) -> None:
    with pytest.raises(KeyError) as caught:
        dataset.by_key("cat/03.jpg")
    text = str(caught.value)
    assert text.startswith("no sample has the key 'cat/03.jpg'\nhint: did you mean 'cat/003.jpg'")
    assert caught.value.args == ("cat/03.jpg",)
    # This key lacks its folder and has the wrong extension.
    with pytest.raises(KeyError, match="did you mean 'owl/005.jpg'\\?$"):
        dataset.index_of("005.png")
    with pytest.raises(KeyError) as caught:
        dataset.by_key("nobody")
    assert str(caught.value) == "no sample has the key 'nobody'"
    assert "nobody" in str(pickle.loads(pickle.dumps(caught.value)))


def test_a_subset_names_keys_of_its_own(dataset: sp.Dataset) -> None:
    dogs = dataset.subset(lambda columns: columns["label"] == 1)
    assert "cat/003.jpg" in dataset.keys and "cat/003.jpg" not in dogs.keys
    with pytest.raises(KeyError, match="no sample has the key 'cat/003.jpg' in this subset of the dataset"):
        dogs.by_key("cat/003.jpg")
    with pytest.raises(KeyError) as caught:
        dogs.by_key("dog/01.jpg")
    assert "'dog/001.jpg'" in str(caught.value) and "cat" not in str(caught.value)


def test_subsets_are_datasets(dataset: sp.Dataset) -> None:
    dogs = dataset.subset(lambda columns: columns["label"] == 1)
    assert len(dogs) == 20 and set(dogs.labels.tolist()) == {1}
    assert all(sample["label"] == 1 for sample in dogs)
    assert dogs.keys[3] == dogs[3]["__key__"] and dogs.index_of(dogs.keys[3]) == 3
    assert dogs.raw(2) == dataset.raw(dataset.index_of(dogs.keys[2]))
    assert dogs.columns["height"].shape == (20,)
    with pytest.raises(KeyError):
        dogs.index_of(dataset.keys[int(np.flatnonzero(dataset.labels == 0)[0])])
    few = dogs.subset([-1, 2, 0])
    assert list(few.keys) == [dogs.keys[0], dogs.keys[2], dogs.keys[19]], "in stored order"
    assert [sample["__key__"] for sample in few[::-1]] == list(few.keys)[::-1]
    assert repr(few).endswith("3 of 60 samples)")
    with pytest.raises(sp.UsageError, match="the list contains sample 4 twice"):
        dataset.subset([4, 1, 4])
    with pytest.raises(IndexError):
        few.subset([3])
    assert len(dataset.subset([])) == 0


def test_pickles_carry_a_path(dataset: sp.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = pickle.dumps(dataset)
    assert len(text) < 500
    assert pickle.loads(text)[3]["__key__"] == dataset.keys[3]
    dogs = dataset.subset(dataset.labels == 1)
    assert list(pickle.loads(pickle.dumps(dogs)).keys) == list(dogs.keys)
    monkeypatch.chdir(dataset.path.parent)
    relative = pickle.dumps(sp.Dataset(dataset.path.name))
    monkeypatch.chdir(tmp_path)
    assert len(pickle.loads(relative)) == 60


def test_a_pickle_of_another_dataset_is_refused(dataset: sp.Dataset, squares: Path, tmp_path: Path) -> None:
    link = tmp_path / "data"
    link.symlink_to(dataset.path)
    text = pickle.dumps(sp.Dataset(link))
    link.unlink()
    link.symlink_to(squares)
    with pytest.raises(sp.UsageError, match="packed again"):
        pickle.loads(text)


def test_errors_are_those_of_python(tmp_path: Path, photos: Path) -> None:
    with pytest.raises(FileNotFoundError) as error:
        sp.Dataset(tmp_path / "nothing")
    assert error.value.filename == str(tmp_path / "nothing") and error.value.errno == 2
    with pytest.raises(sp.UsageError, match="is not a dataset: it has no manifest.json and no shards"):
        sp.Dataset(tmp_path)
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(sp.FormatError, match=r"manifest\.json"):
        sp.Dataset(tmp_path)
    assert issubclass(sp.FormatError, ValueError) and issubclass(sp.LimitError, ValueError)
    with (tmp_path / "manifest.json").open("wb") as file:
        file.truncate(65 << 20)
    with pytest.raises(sp.LimitError, match="over the limit `max_[a-z_]+`: 68157440 > 67108864$"):
        sp.Dataset(tmp_path)
    with pytest.raises(sp.UsageError, match="there is no stored field `label`; the fields are "):
        sp.Dataset(photos).raw(0, "label")


def test_damage_is_named(photos: Path, tmp_path: Path) -> None:
    for file in photos.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    shard = next(tmp_path.glob("*.shard"))
    raw = sp.Dataset(photos).raw(5, "image")
    assert raw is not None
    data = bytearray(shard.read_bytes())
    data[data.index(raw) + 100] ^= 1
    shard.write_bytes(data)
    damaged = sp.Dataset(tmp_path)
    with pytest.raises(sp.FormatError, match="CRC32") as error:
        damaged[5]
    assert sp.Dataset(photos).keys[5] in str(error.value)
    assert damaged[4]["__key__"] == damaged.keys[4]
    assert isinstance(sp.Dataset(tmp_path, verify_crc=False).raw(5, "image"), bytes)


def test_many_threads_read_at_once(dataset: sp.Dataset) -> None:
    wrong: list[int] = []

    def read(start: int) -> None:
        for i in range(start, 60, 4):
            if dataset[i]["__key__"] != dataset.keys[i]:
                wrong.append(i)

    threads = [threading.Thread(target=read, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_fork_opens_its_own_files(dataset: sp.Dataset) -> None:
    expected = dataset[3]["label"]
    child = os.fork()
    if child == 0:
        os._exit(0 if dataset[3]["label"] == expected and len(dataset.subset([1, 2])[:]) == 2 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_nothing_but_numpy_is_imported(photos: Path) -> None:
    code = """
import sys, shardpack as sp
list(sp.Loader(sp.Dataset(sys.argv[1])))
assert not {"torch", "jax", "PIL"} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code, str(photos)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
