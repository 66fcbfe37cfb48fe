"""Kill a run in the middle of an epoch, and resume it with a different batch size and number of ranks.

    python resume.py [DATASET]

Two ranks train with batches of 8. Rank 0 saves the loader's state every third step, as it would save a model. In the
fifth step both ranks are killed with SIGKILL. Then three ranks continue with batches of 5. They load every sample that
was unused at the time of the save exactly once.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from multiprocessing.synchronize import Barrier
from pathlib import Path

import shardpack as sp
import tiny

SAVE_EVERY = 3
KILLED_IN_STEP = 5


def train(
    dataset: sp.Dataset, folder: Path, run: str, rank: int, ranks: int, batch_size: int, together: Barrier
) -> None:
    """Run one rank. The pickled dataset contains only its path."""
    checkpoint = folder / "checkpoint.json"
    seen = (folder / f"{run}-{rank}.jsonl").open("w")
    loader = sp.Loader(dataset, batch_size, seed=7, image="rrc32", rank=rank, world_size=ranks, end="pad", threads=1)
    if checkpoint.exists():
        loader.load_state_dict(json.loads(checkpoint.read_text())["loader"])
    for step, batch in enumerate(loader):
        # A real run would train a model here. The ranks wait for each other, as they do to average gradients. Padding
        # rows have an empty key.
        print(json.dumps([key for key in batch.sample_keys if key]), file=seen, flush=True)
        if run == "first" and step + 1 == KILLED_IN_STEP:
            threading.Event().wait()  # for the end
        together.wait()
        if rank == 0 and (step + 1) % SAVE_EVERY == 0:
            saved = folder / "checkpoint.tmp"
            saved.write_text(json.dumps({"steps": step + 1, "loader": loader.state_dict()}))
            os.replace(saved, checkpoint)
    loader.close()


class Run:
    """Processes that train together, one per rank."""

    def __init__(self, dataset: sp.Dataset, folder: Path, name: str, ranks: int, batch_size: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self.barrier = spawn.Barrier(ranks)
        jobs = [(dataset, folder, name, rank, ranks, batch_size, self.barrier) for rank in range(ranks)]
        self.children = [spawn.Process(target=train, args=job) for job in jobs]
        for child in self.children:
            child.start()

    def kill(self) -> None:
        for child in self.children:
            child.kill()

    def join(self) -> list[int | None]:
        for child in self.children:
            child.join()
        return [child.exitcode for child in self.children]


def keys(folder: Path, run: str, steps: int | None = None) -> list[str]:
    """Return the sample keys of all ranks in the first ``steps`` steps of a run."""
    return [
        key
        for path in sorted(folder.glob(f"{run}-*.jsonl"))
        for line in path.read_text().splitlines()[:steps]
        for key in json.loads(line)
    ]


def main(dataset: sp.Dataset, folder: Path) -> None:
    first = Run(dataset, folder, "first", ranks=2, batch_size=8)
    while not (folder / "checkpoint.json").exists() and all(child.is_alive() for child in first.children):
        time.sleep(0.005)
    first.kill()
    codes = first.join()
    saved = json.loads((folder / "checkpoint.json").read_text())
    before = keys(folder, "first", saved["steps"])
    print(f"killed (exit codes {codes}), last saved at step {saved['steps']}: {saved['loader']}")

    Run(dataset, folder, "second", ranks=3, batch_size=5).join()
    after = keys(folder, "second")
    times = Counter(before + after)
    print(f"{len(before)} samples before the save, {len(after)} after it with 3 ranks, {len(dataset)} in the dataset")
    print(f"missing: {len(set(dataset.keys) - set(times))}, twice: {sum(count > 1 for count in times.values())}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(temporary) / "photos"), Path(temporary))
