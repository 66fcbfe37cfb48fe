"""Datasets behind a URL: everything is as from the disk."""

from __future__ import annotations

import importlib.util
import multiprocessing
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack as sp


def _server() -> Any:
    """The server of the command's tests."""
    place = Path(__file__).resolve().parents[2] / "tests" / "python" / "ranges.py"
    spec = importlib.util.spec_from_file_location("ranges", place)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Server


@pytest.fixture
def url(photos: Path) -> Iterator[str]:
    with _server()(photos) as server:
        yield server.url


def same(here: dict[str, Any], there: dict[str, Any]) -> bool:
    return here.keys() == there.keys() and all(np.array_equal(here[key], there[key]) for key in here)


def test_samples_columns_and_batches_are_the_same(photos: Path, url: str) -> None:
    here, there = sp.Dataset(photos), sp.Dataset(url, storage_options={"max_in_flight": 16, "hedge": False})
    assert there.path == url and url in repr(there) and there.id == here.id
    assert all(same(here[i], there[i]) for i in (0, 7, -1))
    assert np.array_equal(here.labels, there.labels)
    assert there.index_of(here.keys[5]) == 5
    batches = [
        [(batch.indices.tolist(), batch["image"].tobytes()) for batch in sp.Loader(dataset, batch_size=8, image="rrc32")]
        for dataset in (here, there)
    ]
    assert batches[0] == batches[1]
    loader = sp.Loader(there, batch_size=8, image="rrc32")
    assert len(list(loader)) == len(loader)
    stats = loader.stats()
    assert stats["requests"] > 2 and stats["retried_requests"] == 0 and stats["fetched_bytes"] > 0
    assert sp.Loader(here, batch_size=8).stats()["requests"] == 0
    assert sp.verify(url)["whole"]
    assert str(sp.concat([there, there]).path).startswith(url)


def test_it_is_pickled_with_its_options(url: str) -> None:
    dataset = sp.Dataset(url, storage_options={"max_attempts": 4})
    again = pickle.loads(pickle.dumps(dataset))
    assert again.path == url and again.id == dataset.id and same(again[3], dataset[3])


def _in_a_fork(dataset: sp.Dataset, answer: Any) -> None:
    answer.put(dataset.keys[3])


def test_a_fork_opens_it_again(url: str) -> None:
    dataset = sp.Dataset(url)
    key = dataset.keys[3]
    context = multiprocessing.get_context("fork")
    answer = context.Queue()
    process = context.Process(target=_in_a_fork, args=(dataset, answer))
    process.start()
    assert answer.get(timeout=60) == key
    process.join(60)
    assert process.exitcode == 0


def test_what_is_wrong_is_said(photos: Path, url: str) -> None:
    with pytest.raises(sp.UsageError, match="`colour`"):
        sp.Dataset(url, storage_options={"colour": "blue"})
    with pytest.raises(sp.UsageError, match="none for a path of this machine"):
        sp.Dataset(photos, storage_options={"hedge": True})
    with pytest.raises(sp.UsageError, match="a time such as"):
        sp.Dataset(url, storage_options={"stall_timeout": "soon"})
    with pytest.raises(TypeError, match="storage_options"):
        sp.Dataset(url, storage_options=["hedge"])  # type: ignore[arg-type]
    with pytest.raises(sp.UsageError, match="neither manifest nor shards"):
        sp.Dataset(url + "/nothing")
