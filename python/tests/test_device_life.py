"""Tests how a loader on a GPU chooses its device, starts, resumes and ends."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import pickle
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import shardpack as sp
from device_support import BIG, big, gpu, loader, on_host, same  # noqa: F401
from shardpack import _shardpack


def current() -> int:
    """Returns the driver's context of this thread, or 0 if it has none."""
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuCtxGetCurrent(ctypes.byref(context)) == 0
    return context.value or 0


def test_the_callers_device_stays_the_current_one(big: Path) -> None:
    seen: list[int] = []

    def work() -> None:
        seen.append(current())
        # No framework has set a current device in this thread, and the loader must not set one either.
        stage = _shardpack.Stage(0)
        seen.append(current())
        device = loader(big, 16, image="rrc32")
        seen.append(current())
        batch = next(iter(device))
        batch.used_on(1)
        seen.append(current())
        del batch
        device.close()
        del device, stage
        seen.append(current())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [0] * 5, "the thread has no device of its own"


def test_a_loader_of_another_device_does_not_choose_it(big: Path) -> None:
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("one device only")
    torch.cuda.set_device(1)
    try:
        with loader(big, 16, image="rrc32") as device:
            for batch in device:
                del batch
                assert torch.cuda.current_device() == 1
    finally:
        torch.cuda.set_device(0)




def test_two_loaders_at_a_time(big: Path, cubes: Path) -> None:
    pictures: dict[str, Any] = {"image": "rrc64", "seed": 8, "threads": 2}
    with (
        loader(big, 12, **pictures) as first, loader(cubes, 3, threads=2) as second,
        on_host(big, 12, **pictures) as third, on_host(cubes, 3) as fourth,
    ):  # fmt: skip
        for a, b, c, d in zip(first, second, third, fourth, strict=True):
            same(a["image"], c["image"])
            same(b["cube"], d["cube"])


def test_another_device(big: Path) -> None:
    import torch

    if torch.cuda.device_count() < 2:
        pytest.skip("one GPU")
    with loader(big, image="rrc64", device="cuda:1") as one, loader(big, image="rrc64") as zero:
        for a, b in zip(one, zero, strict=True):
            assert (a["image"].device.index, b["image"].device.index) == (1, 0)
            assert torch.equal(a["image"].cpu(), b["image"].cpu())
    torch.cuda.set_device(1)
    try:
        with loader(big, image="rrc64", device="cuda") as chosen:
            torch.cuda.set_device(0)
            assert next(iter(chosen))["image"].device.index == 1
    finally:
        torch.cuda.set_device(0)


RANK = """
    import hashlib, json, sys
    import shardpack as sp
    dataset, rank, steps, state, device = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    with sp.Loader(sp.Dataset(dataset), 8, image="rrc64", seed=4, rank=rank, world_size=2, to="torch", device=device, decode="device", fields=["image"]) as loader:
        seen = {}
        for step, batch in enumerate(loader, 1):
            for key, image in zip(batch.sample_keys, batch["image"], strict=True):
                seen[key] = hashlib.sha256(image.cpu().numpy()).hexdigest()
            if step == steps:
                break
        if rank == 0:
            open(state, "w").write(json.dumps(loader.state_dict()))
    print(json.dumps(seen))
"""


def test_two_ranks_with_a_device_each_and_going_on_with_one(big: Path, tmp_path: Path) -> None:
    import torch

    last = torch.cuda.device_count() - 1
    state, steps = tmp_path / "state.json", 3
    command = [sys.executable, "-c", textwrap.dedent(RANK), str(big)]
    ranks = [subprocess.Popen([*command, str(rank), str(steps), str(state), f"cuda:{min(rank, last)}"], stdout=subprocess.PIPE, text=True) for rank in range(2)]
    seen: dict[str, str] = {}
    for rank in ranks:
        out, _ = rank.communicate(timeout=120)
        assert rank.returncode == 0
        mine = json.loads(out.splitlines()[-1])
        assert len(mine) == steps * 8 and not seen.keys() & mine.keys()
        seen |= mine
    with loader(big, 6, image="rrc64", seed=4, fields=["image"]) as device, on_host(big, 6, image="rrc64", seed=4, fields=["image"]) as host:
        for one in (device, host):
            one.load_state_dict(json.loads(state.read_text()))
        for mine, theirs in zip(device, host, strict=True):
            same(mine["image"], theirs["image"])
            for key, image in zip(theirs.sample_keys, theirs["image"], strict=True):
                assert key not in seen, f"{key} comes twice"
                seen[key] = hashlib.sha256(image.tobytes()).hexdigest()
    assert len(seen) == BIG
    with on_host(big, 16, image="rrc64", seed=4, fields=["image"]) as host:
        pixels = {key: hashlib.sha256(image.tobytes()).hexdigest() for batch in host for key, image in zip(batch.sample_keys, batch["image"], strict=True)}
    assert seen == pixels


def test_a_device_that_is_not_there(squares: Path) -> None:
    with pytest.raises(RuntimeError, match="cannot decode on cuda:77: "):
        loader(squares, device="cuda:77")


def test_going_on_in_the_middle_of_an_epoch(big: Path) -> None:
    options: dict[str, Any] = {"image": "rrc64", "seed": 6}
    with loader(big, **options) as device, on_host(big, **options) as host:
        iterator = iter(device)
        for _ in range(2):
            next(iterator)
        with pickle.loads(pickle.dumps(device)) as copy:
            rest = list(host)[2:]
            for mine, theirs in zip(copy, rest, strict=True):
                same(mine["image"], theirs["image"])


def test_breaking_off_and_beginning_again(big: Path) -> None:
    with loader(big, image="rrc64", prefetch=4) as device:
        for epoch in range(6):
            device.set_epoch(epoch)
            for number, batch in enumerate(device):
                if number == epoch % 3:
                    break
                del batch
        with on_host(big, image="rrc64", epoch=9) as host:
            device.set_epoch(9)
            for mine, theirs in zip(device, host, strict=True):
                same(mine["image"], theirs["image"])


ENDS = {
    "open": "batch = next(iter(loader))",
    "kept": "batches = [batch for batch, _ in zip(loader, range(3))]; images = [batch['image'] for batch in batches]",
    "busy": "image = next(iter(loader))['image']; torch.cuda._sleep(300_000_000); total = image.sum()",
    "thread": "import threading; threading.Thread(target=drain, daemon=True).start(); time.sleep(0.5)",
    "dropped": "batch = next(iter(loader)); image = batch['image']; del loader",
}


@pytest.mark.parametrize("how", ENDS)
def test_the_program_may_end_with_work_in_flight(big: Path, how: str) -> None:
    program = f"""
        import sys, time
        import torch
        import shardpack as sp
        loader = sp.Loader(sp.Dataset(sys.argv[1]), 16, image="rrc224", to="torch", device="cuda:0", decode="device", prefetch=4)

        def drain():
            try:
                for _ in range(10_000):
                    for batch in loader:
                        pass
            except RuntimeError:
                pass  # the end of the program has closed it

        {ENDS[how]}
        print("ended")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(big)], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ended\n", "")


def test_a_fork_is_refused_in_words(squares: Path) -> None:
    program = """
        import os, sys
        import shardpack as sp
        options = {"image": "rrc32", "to": "torch", "device": "cuda:0", "decode": "device"}
        fresh, begun = (sp.Loader(sp.Dataset(sys.argv[1]), 16, **options) for _ in range(2))
        batch = next(iter(begun))
        child = os.fork()
        for loader in (fresh, begun) if child == 0 else ():
            try:
                next(iter(loader))
            except RuntimeError as error:
                print("cannot be used after a fork" in str(error))
            else:
                print("no error")
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(sum(len(batch) for batch in fresh))
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program), str(squares)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\nTrue\n48\n", "")


def test_closing_while_batches_are_on_their_way(big: Path) -> None:
    for taken in (0, 1, 3):
        device = loader(big, image="rrc224", prefetch=4)
        iterator: Iterator[sp.Batch] = iter(device)
        batches = [next(iterator) for _ in range(taken)]
        device.close()
        for batch in batches:
            assert batch["image"].is_cuda and batch["image"].sum().item() > 0
        with pytest.raises(RuntimeError, match="the loader is closed"):
            device.stats()
