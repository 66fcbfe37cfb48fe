"""Add new data every week, resume a run across the additions, and remove the photos of a patient.

    python weekly.py [FOLDER]

A clinic sends photos each week. The first week is packed. The other weeks are added. Adding a week takes only as long
as packing its photos. Each week, a job trains for some batches and stops in the middle of an epoch. The next job
finishes that epoch on the same generation, with the same samples as without the stop. Then it starts the next epoch on
the newest generation. Finally a patient withdraws: `remove` makes a generation without the patient's photos, and
`compact` deletes the older generations, which still contain them.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import shardpack as sp

KINDS = [["naevus", "scar"], ["naevus", "scar"], ["naevus", "wart", "scar"], ["wart", "scar"]]
# Each week's job trains on this many batches.
BATCHES = [3, 6, 10, 21]


def send(folder: Path, week: int, patients: int = 8) -> Path:
    """Write the photos of one week. Each kind has a folder, and the file names contain the patient."""
    rng = np.random.default_rng(week)
    for patient in range(patients):
        kinds = KINDS[week]
        path = folder / f"week-{week}" / kinds[patient % len(kinds)] / f"week{week}-patient{patient}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (48, 64, 3), np.uint8)).save(path, quality=90)
    return folder / f"week-{week}"


def loader(dataset: sp.Dataset) -> sp.Loader:
    return sp.Loader(dataset, batch_size=2, seed=3, image="rrc32", fields=["image", "label"], end="uneven", threads=1)


def job(train: Path, checkpoint: Path, count: int) -> list[tuple[int, int, list[str]]]:
    """Train on ``count`` batches, starting where the last job stopped. Return the epoch, the generation and the keys of
    each batch.
    """
    state: dict[str, Any] = json.loads(checkpoint.read_text()) if checkpoint.exists() else {"epoch": 0, "samples_consumed": 0}
    seen: list[tuple[int, int, list[str]]] = []
    while len(seen) < count:
        # Finish an interrupted epoch on its own generation. Start a new epoch on the newest generation.
        begun = state["samples_consumed"] > 0
        dataset = sp.Dataset(train, generation=state.get("generation", 1) if begun else None)
        with loader(dataset) as batches:
            if begun:
                batches.load_state_dict(state)
            else:
                batches.set_epoch(state["epoch"])
            for batch in batches:
                # A real job would train a model here.
                seen.append((batches.epoch, dataset.generation, batch.sample_keys))
                if len(seen) == count:
                    break
            state = batches.state_dict()
    unfinished = checkpoint.with_suffix(".tmp")
    unfinished.write_text(json.dumps(state))
    os.replace(unfinished, checkpoint)
    return seen


def whole(train: Path, epoch: int, generation: int) -> list[str]:
    """Return the keys of an epoch that is loaded without interruption, for comparison."""
    with loader(sp.Dataset(train, generation=generation)) as batches:
        batches.set_epoch(epoch)
        return [key for batch in batches for key in batch.sample_keys]


def main(folder: Path) -> None:
    train, checkpoint = folder / "train", folder / "checkpoint.json"
    epochs: dict[tuple[int, int], list[str]] = {}
    for week, count in enumerate(BATCHES):
        report = sp.add(train, send(folder, week)) if week else sp.pack(send(folder, week), train)
        newest = sp.Dataset(train)
        new = "".join(f", new class {name}" for name in report.get("new_classes", []))
        print(f"week {week}: generation {newest.generation}, {len(newest)} photos{new}")
        if week == 1:
            try:
                loader(newest).load_state_dict(json.loads(checkpoint.read_text()))
            except sp.UsageError as error:
                print(f"refused: {str(error).splitlines()[0]}")
        for epoch, generation, keys in job(train, checkpoint, count):
            epochs.setdefault((epoch, generation), []).extend(keys)
    for (epoch, generation), keys in epochs.items():
        print(f"epoch {epoch} on generation {generation}: {len(keys)} photos, as without a stop: {keys == whole(train, epoch, generation)}")

    withdrawn = [key for key in newest.keys if "patient5" in key]
    removed = sp.remove(train, withdrawn)
    gone = sp.compact(train)
    print(f"generation {removed['generation']}: {removed['samples']} photos; {len(gone['generations'])} older generations deleted")
    print("whole:", sp.verify(train, deep=True, digest=True)["whole"])


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as scratch:
            main(Path(scratch))
