"""Tests that the memory of batches on a GPU is not overwritten while it is in use, and does not grow."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from device_support import NORMALISED, big, gpu, loader, on_host, same  # noqa: F401


def test_slots_are_not_overwritten_while_a_stream_works_with_them(big: Path) -> None:
    import torch

    options: dict[str, Any] = {"image": "rrc128", "seed": 2, "prefetch": 2}
    with on_host(big, **options) as host:
        expected = [batch["image"].copy() for batch in host]
    side = torch.cuda.Stream()
    for asks_in_side_stream in (True, False):
        seen = []
        with loader(big, **options) as device:
            for batch in device:
                if asks_in_side_stream:
                    with torch.cuda.stream(side):
                        image = batch["image"]
                else:
                    image = batch["image"]
                    batch.used_on(side)
                with torch.cuda.stream(side):
                    # Keep the GPU busy for about 100 ms. The loader can decode the rest of the epoch in this time.
                    torch.cuda._sleep(150_000_000)
                    seen.append(image.clone())
                del image, batch
            assert device.stats()["extra_slots"] == 0
        side.synchronize()
        for mine, theirs in zip(seen, expected, strict=True):
            same(mine, theirs)


def test_batches_may_be_kept(big: Path) -> None:
    options: dict[str, Any] = {"image": "rrc64", "prefetch": 2}
    with on_host(big, **options) as host, loader(big, **options) as device:
        expected = [batch["image"].copy() for batch in host]
        kept = list(device)
        tensors = [batch["image"] for batch in kept]
        assert len({tensor.data_ptr() for tensor in tensors}) == len(tensors)
        del kept
        for mine, theirs in zip(tensors, expected, strict=True):
            same(mine, theirs)
        assert device.stats()["extra_slots"] > 0
        last = tensors[-1]
        del tensors
        for _ in device:
            pass
    # The batch must outlive the loader.
    same(last, expected[-1])


def test_addresses_stay_and_graphs_can_be_captured(big: Path) -> None:
    import torch

    graphs: dict[int, tuple[Any, Any]] = {}
    replayed = 0
    with loader(big, image="rrc64", layout="chw", prefetch=2, **NORMALISED) as device:
        for _ in range(3):
            for batch in device:
                image = batch["image"]
                eager = image.float().square().mean(dim=(1, 2, 3))
                place = image.data_ptr()
                if place not in graphs:
                    torch.cuda.synchronize()
                    graph = torch.cuda.CUDAGraph()
                    # Capture every second graph in the strictest mode. In this mode, other threads must not wait for
                    # the device.
                    mode = ("thread_local", "global")[len(graphs) % 2]
                    with torch.cuda.graph(graph, capture_error_mode=mode):
                        # Give the loader's threads time to finish batches.
                        time.sleep(0.2)
                        out = image.float().square().mean(dim=(1, 2, 3))
                    graphs[place] = graph, out
                graph, out = graphs[place]
                graph.replay()
                assert torch.equal(out, eager)
                replayed += 1
                del image, batch
    assert replayed == 18 and len(graphs) <= 2, f"{len(graphs)} addresses for two slots"


@pytest.mark.parametrize("decode", ["device", "host"])
def test_memory_stays_flat_over_many_batches(big: Path, decode: str) -> None:
    import torch

    many = int(os.environ.get("SHARDPACK_BATCHES", "350"))

    def taken() -> tuple[int, int]:
        gc.collect()
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return total - free, pages * os.sysconf("SC_PAGE_SIZE")

    sums = torch.zeros((), device="cuda")
    with loader(big, image="rrc128", decode=decode, **NORMALISED) as device:
        before, after, batches = (0, 0), (0, 0), 0
        while batches < many:
            for batch in device:
                sums += batch["image"].float().mean() + batch["label"].float().mean()
                batches += 1
                if batches == 50:
                    before = taken()
        after = taken()
    assert torch.isfinite(sums)
    assert after[0] - before[0] <= 8 << 20, f"device memory grew by {after[0] - before[0]:,} bytes"
    assert after[1] - before[1] <= 48 << 20, f"host memory grew by {after[1] - before[1]:,} bytes"


def test_kernels_are_unloaded_with_the_last_loader(big: Path) -> None:
    import torch

    torch.zeros(1, device="cuda")

    def taken() -> int:
        gc.collect()
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        return int(total - free)

    after = []
    for _ in range(12):
        with loader(big, image="rrc64") as device:
            next(iter(device))
        after.append(taken())
    assert after[-1] - after[3] <= 2 << 20, after


def run(program: str, *arguments: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *arguments], capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


def test_a_lost_device_is_an_error_and_no_hang(big: Path) -> None:
    code, said = run(
        """
        import sys
        import torch
        import shardpack as sp
        loader = sp.Loader(sp.Dataset(sys.argv[1]), 8, image="rrc64", to="torch", device="cuda:0", decode="device")
        errors = 0
        for epoch in range(3):
            batches = iter(loader)
            while True:
                try:
                    batch = next(batches, None)
                except (RuntimeError, OSError) as error:
                    errors += 1
                    print("error:", type(error).__name__, error)
                    continue
                if batch is None:
                    break
                if epoch == 0:
                    # An assertion on the device: the context is lost for the whole process.
                    torch.zeros(4, device="cuda")[torch.tensor([9], device="cuda")]
                    epoch = 1
            if errors:
                break
        print("ended after", errors)
        """,
        str(big),
    )
    assert "ended after 1" in said and "CUDA_ERROR" in said, said
    assert code in (0, 134, 250, -6), said


def test_a_full_device_is_an_error_with_figures_and_the_next_loader_opens(big: Path) -> None:
    code, said = run(
        """
        import sys
        import torch
        import shardpack as sp
        open_loader = lambda: sp.Loader(sp.Dataset(sys.argv[1]), 96, image="rrc1024", to="torch", device="cuda:0", decode="device", prefetch=4)
        torch.zeros(1, device="cuda")
        free, _ = torch.cuda.mem_get_info()
        rest = torch.empty(free - (600 << 20), dtype=torch.uint8, device="cuda")
        try:
            open_loader()
        except (RuntimeError, OSError) as error:
            print("error:", error)
        del rest
        torch.cuda.empty_cache()
        with open_loader() as loader:
            print(sum(len(batch) for batch in loader))
        """,
        str(big),
    )
    assert code == 0 and " bytes are needed" in said and said.endswith("96\n"), said
