"""Data that comes week after week: three additions, a withdrawn patient, and a run that is resumed across them.

    python weekly.py [FOLDER]

A clinic sends photos each week. The first week is packed, the others are added behind it, in the time of the new
photos alone. A run is stopped in the middle of an epoch; meanwhile the dataset grows. The run ends its epoch on the
generation on which it began, sample by sample as if nothing had happened, and takes the newest one for the next. Then a
patient withdraws: the photos go from the newest generation, and `compact` deletes the older ones, which still had them.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import shardpack as sp

KINDS = [["naevus", "scar"], ["naevus", "scar"], ["naevus", "wart", "scar"]]
STOPPED_AFTER = 4


def send(folder: Path, week: int, patients: int = 8) -> Path:
    """What the clinic sends: a folder for each kind, files by patient."""
    rng = np.random.default_rng(week)
    for patient in range(patients):
        kinds = KINDS[week % len(KINDS)]
        path = folder / f"week-{week}" / kinds[patient % len(kinds)] / f"week{week}-patient{patient}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (48, 64, 3), np.uint8)).save(path, quality=90)
    return folder / f"week-{week}"


def loader(dataset: sp.Dataset) -> sp.Loader:
    return sp.Loader(dataset, batch_size=2, seed=3, image="rrc32", fields=["image", "label"], end="uneven", threads=1)


def keys(batches: sp.Loader, count: int | None = None) -> list[str]:
    """Trains on batches: on ``count``, or on the rest of the epoch. Here the model would learn."""
    seen: list[str] = []
    for number, batch in enumerate(batches):
        seen += batch.sample_keys
        if number + 1 == count:
            break
    return seen


def main(folder: Path) -> None:
    train = folder / "train"
    sp.pack(send(folder, 0), train)
    sp.add(train, send(folder, 1))

    dataset = sp.Dataset(train)
    print(f"generation {dataset.generation}: {len(dataset)} photos of {', '.join(dataset.classes or [])}")
    with loader(dataset) as whole:
        expected = keys(whole)
    with loader(dataset) as first:
        before = keys(first, STOPPED_AFTER)
        checkpoint = json.dumps(first.state_dict())

    added = sp.add(train, send(folder, 2))
    newest = sp.Dataset(train)
    print(f"generation {newest.generation}: {len(newest)} photos, new class {added['new_classes'][0]}")
    state = json.loads(checkpoint)
    with loader(newest) as wrong:
        try:
            wrong.load_state_dict(state)
        except sp.UsageError as error:
            print(f"refused: {str(error).splitlines()[0]}")
    with loader(sp.Dataset(train, generation=state["generation"])) as rest:
        rest.load_state_dict(state)
        after = keys(rest)
    print(f"resumed: {len(before)} + {len(after)} photos, as without a stop: {before + after == expected}")
    with loader(newest) as following:
        following.set_epoch(1)
        print(f"next epoch: {len(keys(following))} photos")

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
