"""Memory of batches on a GPU: nobody overwrites it, and it stays flat."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any
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
                    # Some 100 ms: the loader could decode the rest of the epoch meanwhile.
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
    # Longer than the loader.
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
                    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                        out = image.float().square().mean(dim=(1, 2, 3))
                    graphs[place] = graph, out
                graph, out = graphs[place]
                graph.replay()
                assert torch.equal(out, eager)
                replayed += 1
                del image, batch
    assert replayed == 18 and len(graphs) <= 2, f"{len(graphs)} addresses for two slots"


def test_memory_stays_flat_over_many_batches(big: Path) -> None:
    import torch

    many = int(os.environ.get("SHARDPACK_BATCHES", "350"))

    def taken() -> tuple[int, int]:
        gc.collect()
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return total - free, pages * os.sysconf("SC_PAGE_SIZE")

    sums = torch.zeros((), device="cuda")
    with loader(big, image="rrc128", **NORMALISED) as device:
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
