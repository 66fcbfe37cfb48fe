"""Train data-parallel in two CPU processes. gloo averages the gradients.

    python ddp.py [DATASET]

Under ``torchrun``, leave out ``spawn`` and the three lines that initialise the process group. The loader takes rank
and world size from ``torch.distributed``, so no DistributedSampler is needed.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

import shardpack as sp
import tiny
from classify import ResNet

RANKS = 2


def train(rank: int, dataset: sp.Dataset, meeting: str) -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=RANKS)
    model = DistributedDataParallel(ResNet(len(dataset.classes or [])))
    optimizer = torch.optim.AdamW(model.parameters(), 3e-3)
    # All ranks have the same number of batches, so no rank hangs at the end of an epoch.
    with sp.Loader(dataset, 8, image="rrc64", layout="chw", to="torch", threads=1) as loader:
        for epoch in range(4):
            total, samples = torch.zeros(()), 0
            for batch in loader:
                loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total, samples = total + loss.detach(), samples + len(batch)
            figures = torch.tensor([float(total) / len(loader) / RANKS, samples])
            dist.all_reduce(figures)
            if rank == 0:
                print(f"epoch {epoch}: loss {figures[0]:.3f}, {int(figures[1])} samples on {RANKS} ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        packed = sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(folder) / "photos")
        spawn(train, (packed, f"file://{folder}/meeting"), RANKS)
