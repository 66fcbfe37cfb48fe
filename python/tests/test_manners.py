"""Tests how a loader handles Ctrl-C, threads, forks, exit and memory."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

import shardpack as sp


def run(code: str, *arguments: object, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout)


def threads(expected: int) -> bool:
    """Returns True once the loaders of this process have `expected` threads. Polls, because each thread sets its own
    name, and the system's list of threads lags behind.
    """
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        names = []
        for task in os.listdir("/proc/self/task"):
            try:
                names.append(Path(f"/proc/self/task/{task}/comm").read_text())
            except OSError:
                continue
        if sum(name.startswith("shardpack") for name in names) == expected:
            return True
        time.sleep(0.01)
    return False


def test_ctrl_c_ends_a_wait(squares: Path) -> None:
    code = """
        import os, signal, sys, threading, time
        import shardpack as sp
        # One thread scales ten pictures to 48 MB each, so no batch comes before the signal.
        loader = sp.Loader(sp.Dataset(sys.argv[1]), 10, image="center4000", threads=1, prefetch=1)
        iteration = iter(loader)
        def interrupt():
            # Threads begin with the first wait.
            while not any(open(f"/proc/self/task/{task}/comm").read().startswith("shardpack") for task in os.listdir("/proc/self/task")):
                time.sleep(0.001)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            next(iteration)
        except KeyboardInterrupt:
            # Not after the wait, when the batch would already be handed out and lost.
            print("interrupted" if loader.stats()["batches"] == 0 else "too late")
        assert len(next(iteration)) == 10, "and the loader continues"
    """
    done = run(code, squares)
    assert done.stdout == "interrupted\n" and done.returncode == 0, done


def test_no_thread_survives(squares: Path) -> None:
    dataset = sp.Dataset(squares)
    # Tracebacks of expected errors may keep loaders of other tests alive.
    gc.collect()
    assert threads(0)
    with sp.Loader(dataset, 8, image="rrc32", threads=3) as loader:
        assert threads(0), "none before the first batch"
        next(iter(loader))
        assert threads(3)
    assert threads(0)
    loader = sp.Loader(dataset, 8, image="rrc32", threads=3)
    next(iter(loader))
    loader.close()
    assert threads(0)
    loader = sp.Loader(dataset, 8, image="rrc32", threads=3)
    iteration = iter(loader)
    next(iteration)
    del loader, iteration
    assert threads(0), "nor the loader itself"


@pytest.mark.parametrize("ending", ["pass", "sys.exit(0)", "del loader", "loader.close()", "batch = None"])
def test_the_interpreter_ends_cleanly(squares: Path, ending: str) -> None:
    code = f"""
        import sys
        import shardpack as sp
        loader = sp.Loader(sp.Dataset(sys.argv[1]), 8, image="rrc32")
        iteration = iter(loader)
        batch = next(iteration)
        view = batch["image"]
        {ending}
    """
    done = run(code, squares)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_fork_of_a_busy_loader_says_so(squares: Path) -> None:
    loader = sp.Loader(sp.Dataset(squares), 8, image="rrc32")
    iteration = iter(loader)
    batch = next(iteration)
    child = os.fork()
    if child == 0:
        signal.alarm(600)
        code = 1
        try:
            next(iteration)
        except RuntimeError as error:
            code = 0 if "hint: create the loader in the child process" in str(error) else 2
        try:
            # Batches must stay valid, and closing must not touch the parent's threads.
            code = code or (0 if batch["image"].shape == (8, 32, 32, 3) else 3)
            loader.close()
            del loader, iteration, batch
        except BaseException:
            code = 4
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert len(list(iteration)) == 5


def test_a_loader_that_has_not_begun_works_in_a_fork(squares: Path) -> None:
    loader = sp.Loader(sp.Dataset(squares), 8, image="rrc32", seed=5)
    loader.set_epoch(2)
    expected = [
        key for batch in sp.Loader(sp.Dataset(squares), 8, image="rrc32", seed=5, epoch=2) for key in batch.sample_keys
    ]
    child = os.fork()
    if child == 0:
        signal.alarm(600)
        os._exit(0 if [key for batch in loader for key in batch.sample_keys] == expected else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [key for batch in loader for key in batch.sample_keys] == expected


def test_a_thousand_epochs_take_no_more_memory(squares: Path) -> None:
    code = """
        import sys
        import shardpack as sp

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        dataset = sp.Dataset(sys.argv[1])
        loader = sp.Loader(dataset.subset(range(16)), 4, image="rrc16", threads=2)
        for epoch in range(1000):
            for batch in loader:
                batch["image"], batch["label"], batch.sample_keys, batch.mask, batch.indices
            if epoch == 200:
                early = resident()
        assert loader.epoch == 1000 and loader.stats()["extra_slots"] == 0, loader.stats()
        grown = resident() - early
        assert grown < 1 << 20, grown
    """
    done = run(code, squares)
    assert done.returncode == 0, done.stderr


def test_other_threads_run_while_a_loader_waits(squares: Path) -> None:
    loader = sp.Loader(sp.Dataset(squares), 8, image="rrc224", threads=1)
    turns = 0
    over = threading.Event()

    def count() -> None:
        nonlocal turns
        while not over.is_set():
            turns += 1
            time.sleep(0.0005)

    other = threading.Thread(target=count)
    other.start()
    # Ten turns are easy to reach unless waiting holds the interpreter lock. A busy machine may need more than one
    # epoch.
    for _ in range(100):
        for _ in loader:
            pass
        if turns > 10:
            break
    over.set()
    other.join()
    assert loader.stats()["consumer_wait_s"] > 0 and turns > 10
