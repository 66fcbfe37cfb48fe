"""Mix two datasets by weight: seven samples of the first for every three of the second, throughout an epoch.

    python mixed.py [DATASET DATASET]

Neither dataset is packed again. An epoch has as many samples as both datasets together. Runs resume as usual.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import shardpack as sp
import tiny


def main(first: sp.Dataset, second: sp.Dataset) -> None:
    both = sp.concat([first, second])
    print(f"{len(first)} + {len(second)} samples")
    with sp.Loader(both, 20, mix=[0.7, 0.3], image="rrc32") as loader:
        # In the concatenated dataset, the second dataset's samples come after all samples of the first.
        drawn = np.concatenate([batch.indices for batch in loader])
        of_first = drawn < len(first)
        print(f"drawn: {of_first.sum()} of the first, {len(drawn) - of_first.sum()} of the second")
        in_batch = of_first.reshape(-1, 20).sum(1)
        print(f"in each batch of 20: {in_batch.min()} to {in_batch.max()} of the first")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        if len(sys.argv) > 2:
            main(sp.Dataset(sys.argv[1]), sp.Dataset(sys.argv[2]))
        else:
            main(tiny.photos(Path(folder) / "first"), tiny.photos(Path(folder) / "second", (16, 16, 18), seed=1))
