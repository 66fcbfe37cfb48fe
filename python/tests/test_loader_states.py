"""Tests the order and the state of an epoch: ranks, lanes, resuming, and copies of a loader."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from loader_support import keys

import shardpack as sp


def test_ranks_share_an_epoch(dataset: sp.Dataset) -> None:
    ranks = [keys(sp.Loader(dataset, 4, rank=rank, world_size=3)) for rank in range(3)]
    assert [len(rank) for rank in ranks] == [20, 20, 20]
    assert sorted(sum(ranks, [])) == sorted(dataset.keys)
    with pytest.raises(sp.UsageError, match="pass both rank and world_size, or neither"):
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
    with pytest.raises(sp.UsageError, match="the state was saved with seed"):
        sp.Loader(dataset, seed=1).load_state_dict(state)
    with pytest.raises(ValueError, match="must have the keys fingerprint"):
        sp.Loader(dataset).load_state_dict({"epoch": 1})


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    """Writes 24 samples of 1 MiB. A read of 4 MiB covers about four of them."""
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
    with pytest.raises(sp.UsageError, match="the state was saved with `lanes=3`, so pass that instead of 240"):
        sp.Loader(runs, 4).load_state_dict(state)
    with pytest.raises(sp.UsageError, match="the state was saved with `lanes=240`, so pass that instead of 15360"):
        sp.Loader(runs, 4, lanes=15360).load_state_dict(sp.Loader(runs, 4).state_dict())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lanes": 0}, "lanes: expected"),
        ({"lanes": 2.5}, "lanes"),
        ({"lanes": 30, "shuffle": False}, "lanes=30 needs shuffle=True, but shuffle is False"),
        ({"lanes": 30, "shuffle": "full"}, "lanes=30 needs shuffle=True, but shuffle is 'full'"),
        ({"lanes": 30, "weights": np.ones(24)}, "lanes and weights cannot be combined"),
    ],
)
def test_lanes_that_would_do_nothing_are_refused(runs: sp.Dataset, options: dict[str, Any], said: str) -> None:
    with pytest.raises((sp.UsageError, TypeError), match=said):
        sp.Loader(runs, 4, **options)


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


class Named(sp.Loader):
    """A loader whose constructor has its own signature."""

    def __init__(self, name: str, dataset: sp.Dataset) -> None:
        self.name = name
        super().__init__(dataset, 8, seed=4)


def test_a_loader_of_a_subclass_travels_as_a_loader(dataset: sp.Dataset) -> None:
    loader = Named("train", dataset)
    copy = pickle.loads(pickle.dumps(loader))
    assert type(copy) is sp.Loader
    assert [key for batch in copy for key in batch.sample_keys] == [key for batch in loader for key in batch.sample_keys]


def test_the_last_epoch_of_all(dataset: sp.Dataset) -> None:
    loader = sp.Loader(dataset, 20, epoch=2**32 - 1)
    assert len(list(loader)) == 3
    with pytest.raises(sp.UsageError, match="epoch: expected a number from 0 to 4294967295, found 4294967296"):
        iter(loader)
