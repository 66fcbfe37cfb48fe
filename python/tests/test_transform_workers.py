"""Tests row transforms in worker processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp

OPTIONS: dict[str, Any] = {"image": "rrc32", "fields": ["image", "label"], "batch_size": 7, "end": "pad", "seed": 3}


def noise(row: sp.Row) -> dict[str, Any]:
    levels = np.random.default_rng(row.seed).integers(0, 256, row["image"].shape, np.uint8)
    row["label"][...] += len(row.key) + row.epoch
    return {"image": levels}


def halve(row: sp.Row) -> None:
    for name in row.keys() & {"image", "cube", "mask"}:
        row[name] = row[name] // 2


def whose(row: sp.Row) -> None:
    row["label"][...] = os.getpid()
    time.sleep(0.02)


def odd(row: sp.Row) -> None:
    """Fails in different ways, depending on the index of the sample."""
    if row.index == 20:
        raise ZeroDivisionError("by nothing")
    if row.index == 21:
        os.kill(os.getpid(), signal.SIGKILL)
    if row.index == 22:
        sys.exit(3)
    if row.index == 23:
        row["label"] = np.zeros(2, np.int64)


def forever(row: sp.Row) -> None:
    while True:
        time.sleep(0.1)


def children() -> set[int]:
    return {child.pid for child in multiprocessing.active_children() if child.pid and child.name.startswith("shardpack-")}


def is_there(process: int) -> bool:
    with contextlib.suppress(OSError):
        return "Z" not in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return False


def until(seconds: float, condition: Any) -> bool:
    end = time.monotonic() + seconds
    while not (there := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return bool(there)


def test_batches_are_those_of_one_process(photos: Path) -> None:
    dataset = sp.Dataset(photos)
    with (
        sp.Loader(dataset, transform=noise, **OPTIONS) as one,
        sp.Loader(dataset, transform=noise, transform_workers=3, **OPTIONS) as several,
    ):
        for _ in range(2):
            for here, there in zip(one, several, strict=True):
                assert np.array_equal(here["image"], there["image"]) and np.array_equal(here["label"], there["label"])
        assert one.state_dict() == several.state_dict()
    assert not children()


def test_every_kind_of_field(photos: Path, cubes: Path) -> None:
    for path, options in (
        (photos, {"image": "full", "fields": ["image"], "batch_size": 20}),
        (photos, {"image": "rrc32", "fields": ["image"], "dtype": {"image": "float16"}}),
        (cubes, {"fields": ["cube", "mask"], "cube": "center8x8", "batch_size": 8}),
    ):
        with (
            sp.Loader(sp.Dataset(path), shuffle=False, transform=halve, **options) as one,
            sp.Loader(sp.Dataset(path), shuffle=False, transform=halve, transform_workers=2, **options) as several,
        ):
            for here, there in zip(one, several, strict=True):
                for field in options["fields"]:
                    assert all(np.array_equal(a, b) for a, b in zip(here[field], there[field], strict=True))


def test_bfloat16(photos: Path) -> None:
    pytest.importorskip("ml_dtypes")
    options = OPTIONS | {"dtype": {"image": "bfloat16"}}
    with sp.Loader(sp.Dataset(photos), transform=halve, transform_workers=1, **options) as several:
        for here, there in zip(sp.Loader(sp.Dataset(photos), transform=halve, **options), several, strict=True):
            assert here["image"].tobytes() == there["image"].tobytes()


def test_rows_are_changed_in_as_many_processes(photos: Path) -> None:
    with sp.Loader(sp.Dataset(photos), transform=whose, transform_workers=3, **OPTIONS) as loader:
        seen = {int(label) for batch in loader for label in batch["label"][batch.mask]}
        assert len(seen) == 3 and os.getpid() not in seen and seen == children()


def test_what_goes_wrong_names_the_sample_and_the_next_batch_comes(photos: Path) -> None:
    options = OPTIONS | {"shuffle": False, "batch_size": 1, "threads": 2}
    said = {
        20: r"^sample 20, `.*`: transform failed: ZeroDivisionError: by nothing \(`.*test_transform_workers.py`, line \d+\)",
        21: r"^sample 21, `.*`: transform failed: a worker process was killed by SIGKILL",
        22: r"^sample 22, `.*`: transform failed: a worker process ended with exit code 3",
        23: r"field 'label': expected int64 \[\], found int64 \[2\]",
    }
    with sp.Loader(sp.Dataset(photos), transform=odd, transform_workers=2, **options) as loader:
        batches, found = iter(loader), {}
        for index in range(60):
            if index in said:
                with pytest.raises(sp.UsageError, match=said[index]) as caught:
                    next(batches)
                found[index] = caught
            else:
                assert list(next(batches).indices) == [index]
        assert found.keys() == said.keys()


def test_what_cannot_be_is_refused(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = sp.Dataset(photos)
    with pytest.raises(ValueError, match="transform_workers=2 needs a transform"):
        sp.Loader(dataset, transform_workers=2)
    with pytest.raises(ValueError, match=r"transform_workers=2 is more than threads=1"):
        sp.Loader(dataset, transform=noise, transform_workers=2, threads=1)
    with pytest.raises(ValueError, match="transform_workers"):
        sp.Loader(dataset, transform=noise, transform_workers=-1)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(TypeError, match="(?s)transform: cannot pickle .* for transform_workers: .*hint: define the function at the top"):
        sp.Loader(dataset, transform=lambda row: None, transform_workers=1)


def test_a_function_without_a_name_travels_by_cloudpickle(photos: Path) -> None:
    pytest.importorskip("cloudpickle")
    shift = 3

    def change(row: sp.Row) -> None:
        row["label"][...] += shift

    with sp.Loader(sp.Dataset(photos), transform=change, transform_workers=1, **OPTIONS) as loader:
        for before, after in zip(sp.Loader(sp.Dataset(photos), **OPTIONS), loader, strict=True):
            assert np.array_equal(before["label"] + shift * before.mask, after["label"])


def test_a_program_that_wants_sigpipe_hears_of_a_worker_that_is_gone(photos: Path, program: list[str]) -> None:
    done = subprocess.run([*program, str(photos), "gone"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "a worker process was killed by SIGKILL while transforming a sample\n"


def test_functions_of_a_program_without_a_file_need_cloudpickle(photos: Path) -> None:
    text = f"""
import functools, sys, shardpack as sp
sys.modules["cloudpickle"] = None
def own(row, step):
    row["label"][...] += step
try:
    sp.Loader(sp.Dataset({str(photos)!r}), image="rrc32", fields=["image", "label"], transform=functools.partial(own, step=1), transform_workers=1)
except TypeError as error:
    print(error)
del sys.modules["cloudpickle"]
with sp.Loader(sp.Dataset({str(photos)!r}), image="rrc32", fields=["image", "label"], transform=functools.partial(own, step=1), transform_workers=1) as loader:
    print(len(list(loader)))
"""
    pytest.importorskip("cloudpickle")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=120)
    assert "it is not defined in a file, so worker processes cannot import it\nhint: define the function" in done.stdout and done.stdout.endswith("\n1\n"), done.stderr
    # Python cannot run a program from stdin again in another process.
    done = subprocess.run([sys.executable, "-"], input=text, capture_output=True, text=True, timeout=120)
    assert "RuntimeError: transform_workers needs a program that is run from a file: worker processes import it, but <stdin> does not exist" in done.stderr


def test_a_loader_with_workers_can_be_copied_and_resumed(photos: Path) -> None:
    with sp.Loader(sp.Dataset(photos), transform=noise, transform_workers=2, **OPTIONS) as first:
        batches = iter(first)
        next(batches)
        with pickle.loads(pickle.dumps(first)) as second:
            assert all(np.array_equal(a["image"], b["image"]) for a, b in zip(batches, second, strict=True))


def test_closing_ends_a_process_in_the_middle_of_a_row(photos: Path) -> None:
    loader = sp.Loader(sp.Dataset(photos), transform=forever, transform_workers=2, threads=4, **OPTIONS)
    iterator = iter(loader)
    assert len(loader) > 0
    # The first batch never arrives. The thread that waits for it must end with the loader.
    import threading

    raised: list[BaseException] = []

    def ask() -> None:
        try:
            next(iterator)
        except BaseException as error:
            raised.append(error)

    waiting = threading.Thread(target=ask)
    waiting.start()
    assert until(60, lambda: len(children()) == 2)
    time.sleep(0.5)
    begun = time.monotonic()
    loader.close()
    waiting.join(30)
    assert time.monotonic() - begun < 20 and not waiting.is_alive() and not children()
    assert "the loader is closed" in str(raised[0])


PROGRAM = """
import sys, time, shardpack as sp
from test_transform_workers import children, forever, noise, until
def own(row):
    row["label"][...] += 1
if __name__ == "__main__" or sys.argv[2] == "unguarded":
    function = {"own": own, "unguarded": noise, "forever": forever, "gone": noise}[sys.argv[2]]
    loader = sp.Loader(sp.Dataset(sys.argv[1]), image="rrc32", fields=["image", "label"], transform=function, transform_workers=2)
    batches = iter(loader)
    if function is forever:
        import threading
        threading.Thread(target=lambda: next(batches), daemon=True).start()
        until(60, lambda: len(children()) == 2)
        time.sleep(1)
        print(*children(), flush=True)
        time.sleep(600)
    if sys.argv[2] == "gone":
        import os, signal
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        loader = sp.Loader(sp.Dataset(sys.argv[1]), image="rrc32", fields=["image", "label"], transform=function, transform_workers=1, batch_size=1, prefetch=1, threads=1)
        batches = iter(loader)
        next(batches)
        time.sleep(1)
        [worker] = children()
        os.kill(worker, signal.SIGKILL)
        time.sleep(1)
        try:
            list(batches)
        except sp.UsageError as error:
            print(str(error).split("transform failed: ")[1].split(":")[0])
        sys.exit()
    print(len(list(batches)))
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    file = tmp_path / "program.py"
    file.write_text(f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n{PROGRAM}")
    return [sys.executable, str(file)]


def test_a_function_of_the_program_itself(photos: Path, program: list[str]) -> None:
    done = subprocess.run([*program, str(photos), "own"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout == "1\n" and done.stderr == "", done.stderr


def test_a_program_that_starts_itself_is_told_what_to_do(photos: Path, program: list[str]) -> None:
    done = subprocess.run([*program, str(photos), "unguarded"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "a worker process ended with exit code 1 before it was ready" in done.stderr
    assert 'below `if __name__ == "__main__":`' in done.stderr


@pytest.mark.parametrize("ended_by", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_process_is_left_behind(photos: Path, program: list[str], ended_by: int) -> None:
    asked = subprocess.Popen([*program, str(photos), "forever"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert asked.stdout is not None and asked.stderr is not None
    workers = [int(word) for word in asked.stdout.readline().split()]
    assert len(workers) == 2 and all(map(is_there, workers))
    asked.send_signal(ended_by)
    asked.wait(60)
    assert until(30, lambda: not any(map(is_there, workers)))


def test_a_worker_of_a_dataloader_starts_none(photos: Path) -> None:
    pytest.importorskip("torch")
    import shardpack.torch
    from torch.utils.data import DataLoader

    inner = shardpack.torch.IterableDataset(sp.Loader(sp.Dataset(photos), transform=noise, transform_workers=2, **OPTIONS))
    with pytest.raises(RuntimeError, match=r"transform_workers=2 cannot be used in DataLoader workers"):
        list(DataLoader(inner, batch_size=None, num_workers=1))
    assert len(list(DataLoader(inner, batch_size=None))) == 9
