"""Loaders with NumPy: epochs, states, views, weights, ends."""

from __future__ import annotations

import json
import os
import pickle
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack as sp
from shardpack import _arguments


@pytest.fixture
def dataset(photos: Path) -> sp.Dataset:
    return sp.Dataset(photos)


def keys(loader: sp.Loader) -> list[str]:
    """The keys of one iteration."""
    return [key for batch in loader for key in batch.sample_keys]


def test_a_batch_is_rows_of_fields(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 16, image="rrc32")
    assert len(loader) == 3
    for batch in loader:
        assert len(batch) == 16 and list(batch.keys())[:2] == ["image", "label"]
        assert batch["image"].shape == (16, 32, 32, 3) and batch["image"].dtype == np.uint8
        assert batch["label"].dtype == np.int64
        assert batch["label"].tolist() == [dataset[int(i)]["label"] for i in batch.indices]
        assert batch.sample_keys == [dataset.keys[int(i)] for i in batch.indices]
        assert batch.mask.all() and len(batch.mask) == len(batch), "there in every batch"
        assert "image" in batch and "nothing" not in batch
        assert batch["image"] is batch["image"] is dict(batch.items())["image"]
        assert list(batch.keys()) == [field.name for field in dataset.schema], "without figures of packing"
        with pytest.raises(KeyError, match="nothing"):
            batch["nothing"]
    assert repr(batch) == "Batch(16 rows: image, label, height, width, 2 more)"
    assert repr(loader).endswith("batch_size=16, rank 0 of 1)")


def test_tensors_are_views_that_keep_their_memory(dataset: sp.Dataset) -> None:
    with sp.Loader(dataset, 4, image="center16", prefetch=2) as loader:
        kept = [batch["image"] for batch in loader]
        assert loader.stats()["extra_slots"] > 0, "tensors that are kept keep their slots"
        assert len({array.__array_interface__["data"][0] for array in kept}) == len(kept) == 15
        fresh = [batch["image"].copy() for batch in sp.Loader(dataset, 4, image="center16")]
    for old, new in zip(kept, fresh, strict=True):
        np.testing.assert_array_equal(old, new)
    kept[0][:] = 7
    assert (kept[0] == 7).all() and not (kept[1] == 7).all(), "and may be written into"


def test_whole_pictures_are_ragged(dataset: sp.Dataset) -> None:
    batch = next(iter(sp.Loader(dataset, 12)))
    images = batch["image"]
    assert isinstance(images, sp.Ragged) and len(images) == len(list(images)) == 12
    for row, index in enumerate(batch.indices):
        np.testing.assert_array_equal(images[row], dataset[int(index)]["image"])
        assert images[row].base is not None, "a view"
    np.testing.assert_array_equal(images[-1], images[11])
    assert images.shapes.shape == (12, 3) and images.offsets[0] == 0
    with pytest.raises(IndexError):
        images[12]
    assert repr(images) == "Ragged(12 rows of 3 axes, uint8)"


def test_stored_bytes_come_as_they_are(dataset: sp.Dataset) -> None:
    batch = next(iter(sp.Loader(dataset, 12, image="raw", fields=["image"])))
    assert list(batch.keys()) == ["image"]
    assert [bytes(row) for row in batch["image"]] == [dataset.raw(int(i), "image") for i in batch.indices]


def test_cubes_in_whole_and_in_part(cubes: Path, cube_values: list[np.ndarray]) -> None:
    dataset = sp.Dataset(cubes)
    for batch in sp.Loader(dataset, 8):
        for key, cube in zip(batch.sample_keys, batch["cube"], strict=True):
            np.testing.assert_array_equal(cube, cube_values[int(Path(key).stem)])
    batch = next(iter(sp.Loader(dataset, 8, cube="center6x10", bands=[5, 2])))
    for key, cube, mask in zip(batch.sample_keys, batch["cube"], batch["mask"], strict=True):
        number = int(Path(key).stem)
        np.testing.assert_array_equal(cube, cube_values[number][7:13, 10:20][..., [5, 2]])
        assert mask.shape == (6, 10) and (mask == number).all()
    shapes: list[tuple[dict[str, Any], tuple[int, ...]]] = [
        ({"cube": "patch6x10", "bands": "2..5"}, (8, 6, 10, 3)),
        ({"cube": "grid6x10", "bands": slice(4)}, (8, 6, 10, 4)),
        ({"cube": "patch6x10", "layout": "chw", "bands": range(1, 8, 3)}, (8, 3, 6, 10)),
        ({"layout": "chw"}, (8, 8, 20, 30)),
        ({"dtype": {"mask": "int64"}}, (8, 20, 30, 8)),
    ]
    for options, shape in shapes:
        assert next(iter(sp.Loader(dataset, 8, **options)))["cube"].shape == shape
    typed = next(iter(sp.Loader(dataset, 8, dtype={"mask": np.int64, "cube": "float64"})))
    assert (typed["mask"].dtype, typed["cube"].dtype) == (np.int64, np.float64)
    assert next(iter(sp.Loader(dataset, 8, dtype=np.float64)))["cube"].dtype == np.float64


def test_a_view_of_pictures_needs_pictures(cubes: Path) -> None:
    with pytest.raises(sp.UsageError, match=r"expected a dataset with pictures, found one without\nhint: `patch224x224`"):
        sp.Loader(sp.Dataset(cubes), 2, image="rrc32")
    sp.Loader(sp.Dataset(cubes), 2, image="full")


def test_each_iteration_is_the_next_epoch(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 16, seed=3)
    epochs = [keys(loader) for _ in range(3)]
    assert loader.epoch == 3, "between two iterations, that of the next one"
    assert all(sorted(epoch) != sorted(epochs[0]) or epoch != epochs[0] for epoch in epochs[1:])
    assert [keys(sp.Loader(dataset, 16, seed=3, epoch=e)) for e in range(3)] == epochs
    for epoch in (1, 0, 2, 2):
        loader.set_epoch(epoch)
        assert loader.epoch == epoch and keys(loader) == epochs[epoch]
    loader.set_epoch(0)
    next(iter(loader))
    assert loader.epoch == 0 and keys(loader) == epochs[1], "after a break, too"
    assert iter(loader) and keys(loader) == epochs[2], "an iterator that was not used takes no epoch"


def test_an_iterator_ends_when_another_begins(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 16)
    first = iter(loader)
    next(first)
    second = iter(loader)
    with pytest.raises(RuntimeError, match="latest one"):
        next(first)
    assert len(list(second)) == 3 and list(second) == []


@pytest.mark.parametrize("shuffle", [True, "windowed", "full", False])
def test_every_order_has_every_sample_once(dataset: sp.Dataset, shuffle: Any) -> None:
    found = keys(sp.Loader(dataset, 7, shuffle=shuffle, end="uneven"))
    assert sorted(found) == sorted(dataset.keys)
    assert (found == list(dataset.keys)) == (shuffle is False)


def test_ends(dataset: sp.Dataset) -> None:
    def rows(end: Any) -> list[int]:
        loader = sp.Loader(dataset, 16, image="center8", end=end)
        found = [len(batch) for batch in loader]
        assert len(found) == len(loader)
        return found

    assert rows("drop") == [16, 16, 16]
    assert rows("uneven") == [16, 16, 16, 12]
    assert rows("pad") == [16, 16, 16, 16]
    first, *_, last = sp.Loader(dataset, 16, image="center8", end="pad")
    assert first.mask.all() and first.mask.shape == (16,) and first.mask.dtype == np.bool_, "there in every batch"
    assert last.mask.tolist() == [True] * 12 + [False] * 4
    assert last.indices[12:].tolist() == [-1] * 4 and last.sample_keys[12:] == [""] * 4
    assert not last["image"][12:].any()
    with pytest.raises(sp.UsageError, match="would be no batch\nhint"):
        sp.Loader(dataset, 64)
    assert rows("drop") and len(sp.Loader(dataset, 64, end="pad")) == 1


def test_ranks_share_an_epoch(dataset: sp.Dataset) -> None:
    ranks = [keys(sp.Loader(dataset, 4, rank=rank, world_size=3)) for rank in range(3)]
    assert [len(rank) for rank in ranks] == [20, 20, 20]
    assert sorted(sum(ranks, [])) == sorted(dataset.keys)
    with pytest.raises(sp.UsageError, match="both or none"):
        sp.Loader(dataset, rank=1)
    with pytest.raises(sp.UsageError, match="below the world size"):
        sp.Loader(dataset, rank=3, world_size=3)


def test_a_state_goes_on_with_other_ranks_and_batch_sizes(dataset: sp.Dataset) -> None:
    loaders = [sp.Loader(dataset, 4, rank=rank, world_size=2, seed=9) for rank in range(2)]
    done = []
    for loader in loaders:
        iteration = iter(loader)
        done += [key for _ in range(3) for key in next(iteration).sample_keys]
    states = [json.loads(json.dumps(loader.state_dict())) for loader in loaders]
    assert states[0] == states[1] and states[0]["samples_consumed"] == 24
    rest = []
    for rank in range(3):
        loader = sp.Loader(dataset, 6, rank=rank, world_size=3, seed=9, end="uneven")
        loader.load_state_dict(states[0])
        assert len(loader) == 4 and loader.epoch == 0, "epochs are as long as ever"
        rest += keys(loader)
        assert len(loader) == 4
    assert sorted(done + rest) == sorted(dataset.keys)


def test_the_loop_that_begins_also_resumes(dataset: sp.Dataset) -> None:
    def train(state: dict[str, Any] | None, stop: int) -> tuple[list[tuple[int, str]], dict[str, Any]]:
        loader = sp.Loader(dataset, 8)
        if state:
            loader.load_state_dict(state)
        seen: list[tuple[int, str]] = []
        for epoch in range(loader.epoch, 3):
            loader.set_epoch(epoch)
            for batch in loader:
                seen += [(epoch, key) for key in batch.sample_keys]
                if len(seen) == stop * 8:
                    return seen, loader.state_dict()
        return seen, loader.state_dict()

    whole, _ = train(None, 100)
    for stop in (1, 7, 8, 14, 20):
        first, state = train(None, stop)
        assert first + train(state, 100)[0] == whole


def test_a_state_after_the_end_is_that_of_the_next_epoch(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 16)
    keys(loader)
    state = loader.state_dict()
    assert (state["epoch"], state["samples_consumed"]) == (1, 0)
    resumed = sp.Loader(dataset, 16)
    resumed.load_state_dict(state)
    assert keys(resumed) == keys(loader)


def test_states_that_do_not_fit_are_refused(dataset: sp.Dataset, squares: Path) -> None:
    state = sp.Loader(dataset).state_dict()
    for other in (
        sp.Loader(sp.Dataset(squares)),
        sp.Loader(dataset.subset(slice(40))),
        sp.Loader(dataset, shuffle="full"),
    ):
        with pytest.raises(sp.UsageError, match="fingerprint"):
            other.load_state_dict(state)
    with pytest.raises(sp.UsageError, match="seed of the state"):
        sp.Loader(dataset, seed=1).load_state_dict(state)
    with pytest.raises(ValueError, match="expected fingerprint"):
        sp.Loader(dataset).load_state_dict({"epoch": 1})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    """24 samples in runs of about four."""
    path = tmp_path_factory.mktemp("runs") / "out"
    random = np.random.default_rng(1)
    with sp.Writer(path, {"noise": "array"}) as writer:
        for number in range(24):
            writer.write({"noise": random.integers(0, 256, 1 << 20, dtype=np.uint8)}, key=f"{number:02}")
    return sp.Dataset(path)


def test_lanes_change_what_is_mixed_and_nothing_else(runs: sp.Dataset) -> None:
    orders = {lanes: keys(sp.Loader(runs, 4, lanes=lanes)) for lanes in (1, 2, 3, None)}
    assert all(sorted(order) == [f"{number:02}" for number in range(24)] for order in orders.values())
    assert len({tuple(order) for order in orders.values()}) == len(orders)
    halves = [keys(sp.Loader(runs, 4, lanes=2, rank=rank, world_size=2)) for rank in (0, 1)]
    assert sorted(halves[0] + halves[1]) == sorted(orders[2])
    part = runs.subset(slice(20))
    assert keys(sp.Loader(part, 4, lanes=1)) != keys(sp.Loader(part, 4, lanes=3))


def test_a_state_belongs_to_its_number_of_lanes(runs: sp.Dataset) -> None:
    state = sp.Loader(runs, 4, lanes=3).state_dict()
    sp.Loader(runs, 4, lanes=3).load_state_dict(state)
    with pytest.raises(sp.UsageError, match="saved with `lanes=3`, and here there are 240: give the same number"):
        sp.Loader(runs, 4).load_state_dict(state)
    with pytest.raises(sp.UsageError, match="saved with `lanes=240`, and here there are 15360"):
        sp.Loader(runs, 4, lanes=15360).load_state_dict(sp.Loader(runs, 4).state_dict())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lanes": 0}, "lanes: expected"),
        ({"lanes": 2.5}, "lanes"),
        ({"lanes": 30, "shuffle": False}, "lanes: expected shuffle=True, without weights, found shuffle=False"),
        ({"lanes": 30, "shuffle": "full"}, "lanes: expected shuffle=True, without weights, found shuffle='full'"),
        ({"lanes": 30, "weights": np.ones(24)}, "lanes: expected shuffle=True, without weights, found weights"),
    ],
)
def test_lanes_that_would_do_nothing_are_refused(runs: sp.Dataset, options: dict[str, Any], said: str) -> None:
    with pytest.raises((sp.UsageError, TypeError), match=said):
        sp.Loader(runs, 4, **options)


def test_subsets_load(dataset: sp.Dataset) -> None:
    owls = dataset.subset(dataset.labels == 2)
    assert sorted(keys(sp.Loader(owls, 8, end="uneven"))) == sorted(owls.keys)
    assert keys(sp.Loader(owls, 5, shuffle=False)) == list(owls.keys)
    for batch in sp.Loader(owls, 8, end="pad"):
        assert batch.indices.dtype == np.int64 and (batch.indices == -1).tolist() == (~batch.mask).tolist()
        found = [owls.keys[int(i)] for i in batch.indices[batch.mask]]
        assert found == [key for key in batch.sample_keys if key], "numbers are those of the subset"
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
    for source, options in [
        (one, {"mix": [1.0]}),
        (both, {"mix": [1.0]}),
        (both, {"mix": [1, 1], "weights": "balanced"}),
    ]:
        with pytest.raises(sp.UsageError, match="mix: expected"):
            sp.Loader(source, **options)  # type: ignore[arg-type]
    with pytest.raises(sp.UsageError, match="at least one"):
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
    with pytest.raises(sp.UsageError, match="expected classes among the 30 samples, found no label of 0 or more"):
        sp.Loader(dataset.subset(dataset.labels < 0), 8, weights="balanced")


def test_a_loader_is_made_while_a_debugger_looks(squares: Path) -> None:
    def trace(frame: Any, *_: Any) -> Any:
        # What a debugger asks for at each line; Python 3.12 then writes into what `locals()` gave.
        len(frame.f_locals)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        loader = sp.Loader(sp.Dataset(squares), 8, image="center8")
    finally:
        sys.settrace(before)
    assert len(loader) == 6


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
    # As a class of the union, by its name.
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
    # The other way round the numbers are others, and mean the same.
    other = sp.concat([scored, one])
    assert other.classes is not None and other.classes[0] == "new"
    named = [{dataset.keys[i]: dataset.classes[label] for i, label in enumerate(dataset.labels)} for dataset in (both, other)]
    assert named[0] == named[1]
    assert pickle.loads(pickle.dumps(both)).labels.tolist() == both.labels.tolist()
    nested = sp.concat([other, scored])
    assert nested.classes == other.classes and nested.labels[-6:].tolist() == [0, 1] * 3


def test_datasets_that_do_not_fit_are_refused(squares: Path, tmp_path: Path) -> None:
    for name, value, classes, text in [
        ("image", np.zeros((4, 4, 3, 2), np.float32), None, "field `image` of .* expected of kind image, as in .* found of kind array"),
        ("height", 1.5, None, "field `height` of .* expected a scalar of uint32, as in .* found a scalar of float64"),
        ("label", 1, None, "classes that the labels of .* count into: expected names, as in .* found none"),
    ]:
        schema = {"image": "array"} if name == "image" else None
        with sp.Writer(tmp_path / name, classes=classes, schema=schema) as writer:
            writer.write({name: value}, key="one")
        with pytest.raises(sp.UsageError, match=f"(?s){text}.*\nhint: "):
            sp.concat([sp.Dataset(squares), sp.Dataset(tmp_path / name)])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"batch_size": 0}, "batch_size: expected 1 to"),
        ({"image": "rrc"}, "such as rrc224"),
        ({"cube": "patch9"}, "such as patch64x64"),
        ({"bands": "a"}, "such as 10..50"),
        ({"dtype": {"image": "int64"}}, "element type of pictures: expected uint8"),
        ({"dtype": "complex64"}, "element type: expected a type of"),
        ({"layout": "cwh"}, "layout: expected hwc or chw"),
        ({"end": "keep"}, "end: expected drop, pad or uneven"),
        ({"shuffle": "no"}, "shuffle: expected"),
        ({"fields": ["picture"]}, "field out of"),
        ({"to": "tf"}, "expected numpy, torch, jax or cupy"),
        ({"device": "cuda"}, "expected cpu"),
        ({"seed": -1}, "seed: expected 0 to"),
        ({"prefetch": 0}, "prefetch: expected 1 to"),
    ],
)
def test_options_are_checked_at_once(dataset: sp.Dataset, options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        sp.Loader(dataset, **options)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"image": 224}, "image: expected a string such as 'rrc224', found 224"),
        ({"cube": (16, 16)}, r"cube: expected a string such as 'patch64x64', found \(16, 16\)"),
        ({"layout": None}, "layout: expected a string"),
        ({"end": True}, "end: expected a string"),
        ({"fields": "image"}, r"found the string 'image'\nhint: fields=\['image'\]"),
        ({"num_workers": 4}, "keyword argument 'num_workers'\nhint: threads"),
        ({"drop_last": True}, '\nhint: end="drop"'),
        ({"pin_memory": True}, '\nhint: to="torch", device="cuda"'),
        ({"collate_fn": abs}, "\nhint: batches are tensors"),
        ({"prefetch_size": 2}, "\nhint: did you mean 'prefetch'?"),
        ({"zzz": 2}, r"\nhint: help\(shardpack.Loader\)"),
        ({"normalize": True}, r"\nhint: help\(shardpack.Loader\)"),
    ],
)
def test_habits_meet_a_hint(dataset: sp.Dataset, options: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        sp.Loader(dataset, **options)


def test_what_is_no_dataset_meets_a_hint(dataset: sp.Dataset) -> None:
    for path in (dataset.path, str(dataset.path)):
        with pytest.raises(TypeError, match=r"expected a shardpack.Dataset, found \w+\nhint: open it: shardpack.Dataset\('"):
            sp.Loader(path)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="found list$"):
        sp.Loader([dataset])  # type: ignore[arg-type]


def test_damage_is_an_error_or_skipped(photos: Path, tmp_path: Path) -> None:
    for file in photos.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    shard = next(tmp_path.glob("*.shard"))
    data = bytearray(shard.read_bytes())
    raw = sp.Dataset(photos).raw(5, "image")
    assert raw is not None
    data[data.index(raw) + 100] ^= 1
    shard.write_bytes(data)
    dataset = sp.Dataset(tmp_path)
    with pytest.raises(sp.FormatError, match=dataset.keys[5]):
        list(sp.Loader(dataset, 10, image="center8", shuffle=False))
    batches = list(sp.Loader(dataset, 10, image="center8", shuffle=False, skip_corrupt=1))
    assert batches[0].mask.tolist() == [i != 5 for i in range(10)] and batches[1].mask.all()


def test_a_closed_loader_says_so(dataset: sp.Dataset) -> None:
    with sp.Loader(dataset, 16, image="center8") as loader:
        batch = next(iter(loader))
    with pytest.raises(RuntimeError, match="closed"):
        next(iter(loader))
    assert "closed" in repr(loader) and batch["image"].shape == (16, 8, 8, 3), "batches stay valid"
    loader.close()


def test_stats_and_memory(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 16, image="rrc32")
    assert loader.predicted_bytes > 3 * 16 * 32 * 32 * 3
    list(loader)
    stats = loader.stats()
    assert (stats["batches"], stats["samples"], stats["extra_slots"]) == (3, 48, 0)
    assert stats["decode_s"] > 0 and stats["predicted_bytes"] == loader.predicted_bytes
    assert loader.dataset is dataset and (loader.batch_size, loader.rank, loader.world_size) == (16, 0, 1)


def test_pickles_of_loaders_and_batches(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 8, seed=4, image="center16", end="pad")
    iteration = iter(loader)
    for _ in range(2):
        batch = next(iteration)
    copy = pickle.loads(pickle.dumps(loader))
    assert [key for batch in copy for key in batch.sample_keys] == [key for batch in iteration for key in batch.sample_keys]
    again = pickle.loads(pickle.dumps(batch))
    np.testing.assert_array_equal(again["image"], batch["image"])
    assert again.sample_keys == batch.sample_keys and again.mask.all() and again.indices.tolist() == batch.indices.tolist()
    with pytest.raises(KeyError):
        again["nothing"]
    ragged = next(iter(sp.Loader(dataset, 4)))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(ragged))["image"][2], ragged["image"][2])


def test_the_last_epoch_of_all(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 20, epoch=2**32 - 1)
    assert len(list(loader)) == 3
    with pytest.raises(sp.UsageError, match="epoch: expected 0 to 4294967295, found 4294967296"):
        iter(loader)


def test_the_window_changes_no_batch(dataset: sp.Dataset) -> None:
    batches = {}
    for window in ("auto", "memory", "page-cache"):
        loader = sp.Loader(dataset, 7, window=window, seed=3, end="uneven")
        batches[window] = [(list(batch.sample_keys), batch["label"].tolist()) for batch in loader]
        stats = loader.stats()
        assert stats["window_in_page_cache"] == (window == "page-cache")
    assert batches["auto"] == batches["memory"] == batches["page-cache"]
    with pytest.raises(sp.UsageError, match="window: expected `auto`, `memory` or `page-cache`, found `disk`"):
        sp.Loader(dataset, window="disk")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ranks", "cores", "affinity", "launcher", "expected"),
    [
        (None, 8, 8, 8, 0), ("1", 8, 8, 8, 0), ("x", 8, 8, 8, 0), ("4", 8, 8, 8, 2), ("16", 8, 8, 8, 1),
        # Bound to cores of their own, two of eight; bound to four of eight, which two ranks share.
        ("4", 2, 2, 8, 0), ("4", 4, 4, 8, 1),
        # A container with 8 of the 64 cores of a machine: no rank is bound to anything.
        ("8", 8, 8, 8, 1),
        # A container with a quota: what the core starts by itself, not what the affinity says.
        ("2", 6, 64, 64, 3), ("4", 2, 16, 64, 1),
        # The launcher has ended.
        ("4", 2, 2, None, 1),
    ],
)  # fmt: skip
def test_ranks_of_a_machine_share_its_cores(
    monkeypatch: pytest.MonkeyPatch, ranks: str | None, cores: int, affinity: int, launcher: int | None, expected: int
) -> None:
    def affinity_of(process: int) -> set[int]:
        if process == 0:
            return set(range(affinity))
        assert process == os.getppid()
        if launcher is None:
            raise ProcessLookupError
        return set(range(launcher))

    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    monkeypatch.setenv("RANK", "1")
    if ranks is not None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    monkeypatch.setattr(os, "sched_getaffinity", affinity_of)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(_arguments._shardpack, "cores", lambda: cores)
    assert _arguments._threads(None) == expected
    assert _arguments._threads(3) == 3


def test_the_first_rank_says_once_that_cores_are_shared(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_arguments._shardpack, "cores", lambda: 8)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")

    def told(rank: str, **options: Any) -> list[str]:
        monkeypatch.setenv("RANK", rank)
        _arguments._say_share.cache_clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                sp.Loader(sp.Dataset(photos), 4, **options).close()
        assert all(warning.filename == __file__ for warning in caught)
        return [str(warning.message) for warning in caught]

    [text] = told("0")
    assert text.startswith("threads: 2, a share of the 8 cores that 4 ranks have here (LOCAL_WORLD_SIZE)\nhint: threads=2 ")
    assert told("1") == [] and told("0", threads=2) == []


def test_a_loader_starts_as_many_threads_as_it_may() -> None:
    # The quota of a container is not simulated here: without one it is the affinity.
    assert 1 <= _arguments._shardpack.cores() <= len(os.sched_getaffinity(0))
