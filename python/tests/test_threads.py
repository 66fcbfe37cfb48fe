"""Tests the use of the package from several Python threads, with the GIL and on a free-threaded Python."""

from __future__ import annotations

import itertools
import subprocess
import sys
import sysconfig
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp

THREADS = 6
OPTIONS: dict[str, Any] = {"image": "rrc32", "fields": ["image", "label"], "end": "uneven", "seed": 3, "threads": 2}


def together(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Runs ``work`` in several threads that start at the same moment. Raises the first error, if any."""
    begin, errors = threading.Barrier(threads), []

    def run(number: int) -> None:
        begin.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    all_ = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for one in all_:
        one.start()
    for one in all_:
        one.join(120)
        assert not one.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has a GIL")
def test_the_package_leaves_the_gil_off() -> None:
    # Use a separate process, because other packages may have enabled the GIL in this one.
    code = "import shardpack, shardpack.torch, sys; sys.exit(sys._is_gil_enabled())"
    assert subprocess.run([sys.executable, "-W", "error", "-c", code], check=False).returncode == 0


def test_threads_share_a_dataset(photos: Path) -> None:
    dataset = sp.Dataset(photos)
    expected = [(dataset[i]["image"].tobytes(), dataset.keys[i]) for i in range(len(dataset))]
    dataset = sp.Dataset(photos)

    def read(number: int) -> None:
        order = np.random.default_rng(number).permutation(len(dataset))
        for i in order.tolist():
            image, key = expected[i]
            assert dataset[i]["image"].tobytes() == image and dataset.keys[i] == key
            assert dataset.index_of(key) == i
        assert dataset.labels.tolist() == sp.Dataset(photos).labels.tolist()
        assert [sample["image"].tobytes() for sample in dataset.get_many([3, 1, 3])] == [expected[i][0] for i in (3, 1, 3)]

    together(read)


def test_each_batch_comes_to_one_of_the_threads_that_share_an_iteration(photos: Path) -> None:
    dataset = sp.Dataset(photos)
    with sp.Loader(dataset, 1, **OPTIONS) as loader:
        for epoch in range(4):
            batches = iter(loader)
            found: list[list[tuple[int, bytes]]] = [[] for _ in range(THREADS)]

            def take(number: int) -> None:
                for batch in batches:
                    found[number].append((int(batch.indices[0]), batch["image"].tobytes()))

            together(take)
            with sp.Loader(dataset, 1, epoch=epoch, **OPTIONS) as alone:
                expected = [(int(batch.indices[0]), batch["image"].tobytes()) for batch in alone]
            # Within each thread, batches follow the order of the epoch.
            places = {sample: place for place, (sample, _) in enumerate(expected)}
            assert Counter(sum(found, [])) == Counter(expected)
            assert all([places[sample] for sample, _ in own] == sorted(places[sample] for sample, _ in own) for own in found)
            assert loader.epoch == epoch + 1


def test_of_two_iterations_the_latest_goes_on_and_its_epoch_is_whole(photos: Path) -> None:
    dataset = sp.Dataset(photos)
    for _ in range(10):
        with sp.Loader(dataset, 2, **OPTIONS) as loader:
            ended: list[tuple[int, list[int]]] = []

            def epoch(number: int) -> None:
                found: list[int] = []
                try:
                    for batch in loader:
                        found += batch.indices.tolist()
                except RuntimeError as error:
                    assert "a newer one was started" in str(error)
                    return
                ended.append((number, found))

            together(epoch)
            # At least the last iteration must yield its whole epoch. Others do so only if they finish before the next
            # one begins.
            assert 1 <= len(ended) <= THREADS
            assert all(sorted(found) == list(range(len(dataset))) for _, found in ended)


def test_states_of_a_loader_that_another_thread_uses_are_states_of_it(photos: Path) -> None:
    dataset = sp.Dataset(photos)
    with sp.Loader(dataset, 3, **OPTIONS) as loader:
        states: list[list[dict[str, Any]]] = [[], []]
        over = threading.Event()

        def watch(number: int) -> None:
            if number == 0:
                try:
                    for batch in itertools.chain(loader, loader, loader):
                        assert batch["image"].shape == (len(batch), 32, 32, 3)
                finally:
                    over.set()
            while not over.is_set():
                states[number - 1].append(loader.state_dict())
                assert loader.stats()["batches"] >= 0 and len(loader) == 20 and loader.rank == 0
                time.sleep(0.0001)

        together(watch, 3)
    for seen in states:
        places = [(int(state["epoch"]), int(state["samples_consumed"])) for state in seen]
        assert places == sorted(places), "it moves forward only"
        assert all(epoch <= 3 and consumed % 3 == 0 and consumed <= len(dataset) for epoch, consumed in places)
        for state in seen[:: 1 + len(seen) // 5]:
            with sp.Loader(dataset, 3, **OPTIONS) as again:
                again.load_state_dict(state)
                assert again.state_dict() == state


def test_several_loaders_at_a_time_and_closing_while_others_wait(photos: Path) -> None:
    dataset = sp.Dataset(photos)
    with sp.Loader(dataset, 4, **OPTIONS) as alone:
        expected = {int(i): row.tobytes() for batch in alone for i, row in zip(batch.indices, batch["image"], strict=True)}

    def load(_: int) -> None:
        with sp.Loader(dataset, 4, **OPTIONS) as loader:
            found = {int(i): row.tobytes() for batch in loader for i, row in zip(batch.indices, batch["image"], strict=True)}
            assert found == expected

    together(load)

    shared = sp.Loader(dataset, 1, **OPTIONS)

    def end(number: int) -> None:
        try:
            for count, _ in enumerate(shared):
                if number == 0 and count == 5:
                    shared.close()
        except RuntimeError as error:
            assert "closed" in str(error) or "a newer one was started" in str(error)

    together(end)
    shared.close()


def test_a_loader_answers_and_closes_while_a_thread_waits_for_a_batch_that_does_not_come(photos: Path) -> None:
    begun, go_on, errors = threading.Event(), threading.Event(), []

    def hang(_: sp.Row) -> None:
        begun.set()
        go_on.wait(600)

    def wait() -> None:
        try:
            next(iter(loader))
        except RuntimeError as error:
            errors.append(str(error))

    with sp.Loader(sp.Dataset(photos), 4, transform=hang, **OPTIONS) as loader:
        waiting = threading.Thread(target=wait)
        waiting.start()
        try:
            assert begun.wait(60)
            began = time.monotonic()
            # The waiting thread releases the lock every 100 ms, and lets other threads take it first.
            for _ in range(10):
                assert loader.stats()["batches"] == 0
                time.sleep(0.005)
            loader.close()
            took = time.monotonic() - began
        finally:
            go_on.set()
        waiting.join(120)
    assert not waiting.is_alive() and len(errors) == 1 and "closed" in errors[0]
    assert took < 20, "a second for ten turns, and one for the threads of the loader"


def test_transforms_of_several_threads_change_each_row_once(photos: Path) -> None:
    dataset = sp.Dataset(photos)

    def change(row: sp.Row) -> None:
        row["image"][...] = row["image"] // 2
        row["label"][...] += 100

    with sp.Loader(dataset, 4, **OPTIONS) as plain:
        expected = {
            int(i): (image // 2).tobytes() for batch in plain for i, image in zip(batch.indices, batch["image"], strict=True)
        }
    with sp.Loader(dataset, 4, transform=change, **OPTIONS) as loader:
        found = {}
        for batch in loader:
            assert (batch["label"] >= 100).all() and (batch["label"] < 103).all()
            found |= {int(i): image.tobytes() for i, image in zip(batch.indices, batch["image"], strict=True)}
    assert found == expected


def test_two_transforms_run_at_the_same_time(photos: Path) -> None:
    # Each call waits for another call. The barrier breaks if calls run one at a time.
    meet = threading.Barrier(2)

    def change(row: sp.Row) -> None:
        meet.wait(60)

    with sp.Loader(sp.Dataset(photos), 4, transform=change, **OPTIONS) as loader:
        assert sum(len(batch) for batch in loader) == 60


def test_threads_write_one_dataset(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out", values="keep", shuffle=False) as writer:

        def write(number: int) -> None:
            for i in range(20):
                place = i * THREADS + number
                writer.write({"cube": np.full((3, 4, 5), place, np.float32), "n": place}, key=f"{place:03}", order=place)

        together(write)
    dataset = sp.Dataset(tmp_path / "out")
    assert len(dataset) == 20 * THREADS
    for place in range(len(dataset)):
        sample = dataset[place]
        assert dataset.keys[place] == f"{place:03}" and (sample["cube"] == place).all() and sample["n"] == place


def test_threads_that_end_a_writer_get_one_report(tmp_path: Path) -> None:
    for turn in range(5):
        with sp.Writer(tmp_path / str(turn), values="keep") as writer:
            for number in range(30):
                writer.write({"n": number})
            reports: list[dict[str, Any]] = []
            together(lambda _, end=writer.close, reports=reports: reports.append(end()))
        assert len(reports) == THREADS and all(report == reports[0] for report in reports)
        assert len(sp.Dataset(tmp_path / str(turn))) == 30


def test_threads_share_the_values_of_a_batch(photos: Path) -> None:
    for _ in range(20):
        with sp.Loader(sp.Dataset(photos), 8, **OPTIONS) as loader:
            batch = next(iter(loader))
            values: list[Any] = []

            def ask(number: int) -> None:
                if number == 0:
                    batch["label"] = "mine"
                values.append(batch["image"])
                assert batch["label"] is not None

            together(ask)
            assert all(value is values[0] for value in values)
            assert batch["label"] == "mine", "a thread that reads replaces no value"


def test_a_value_that_is_read_replaces_none_that_was_set(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out") as writer:
        for number in range(8):
            writer.write({"caption": f"caption {number}", "title": f"title {number}"})
    dataset = sp.Dataset(tmp_path / "out")
    for _ in range(30):
        with sp.Loader(dataset, 8, fields=["caption", "title"], threads=1) as loader:
            batch = next(iter(loader))

            def use(number: int) -> None:
                if number == 0:
                    batch["title"] = "mine"
                assert batch["caption"][0].startswith("caption")

            together(use)
            assert batch["title"] == "mine"


def test_threads_stitch_one_scene(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scenes = [rng.random((40, 44, 3)).astype(np.float32) for _ in range(3)]
    with sp.Writer(tmp_path / "out", values="keep", shuffle=False) as writer:
        for number, cube in enumerate(scenes):
            writer.write({"cube": cube}, key=str(number))
    options: dict[str, Any] = {"cube": "patch8x8", "patches": "grid", "overlap": 4, "shuffle": False, "end": "uneven"}
    with sp.Loader(sp.Dataset(tmp_path / "out"), 3, threads=2, **options) as loader, sp.stitch(loader) as stitcher:
        batches, whole = iter(loader), {}

        def add(_: int) -> None:
            for batch in batches:
                for scene in stitcher.add(batch, batch["cube"]):
                    whole[scene.key] = scene.values

        together(add)
    assert set(whole) == {"0", "1", "2"}
    for number, cube in enumerate(scenes):
        np.testing.assert_array_equal(whole[str(number)], cube)
