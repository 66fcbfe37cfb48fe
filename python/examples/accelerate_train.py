"""Hugging Face Accelerate: prepare the model and the optimizer, and iterate over the loader itself.

    python accelerate_train.py [DATASET]

Do not pass the loader to ``prepare``: it already knows its rank and puts its tensors on ``accelerator.device``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch
from accelerate import Accelerator
from torch import nn

import shardpack as sp
import tiny
from classify import ResNet


def main(dataset: sp.Dataset, folder: Path) -> None:
    torch.manual_seed(0)
    accelerator = Accelerator(cpu=True)
    model = ResNet(len(dataset.classes or []))
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), 3e-3))
    loader = sp.Loader(
        dataset, 10, image="rrc64", layout="chw", to="torch", device=str(accelerator.device),
        rank=accelerator.process_index, world_size=accelerator.num_processes,
    )  # fmt: skip
    # Accelerate saves and loads registered objects together with the model and the optimizer.
    accelerator.register_for_checkpointing(loader)
    for epoch in range(3):
        total = 0.0
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            total += loss.item()
        accelerator.print(f"epoch {epoch}: loss {total / len(loader):.3f}")
    accelerator.save_state(str(folder / "checkpoint"))
    loader.set_epoch(0)
    accelerator.load_state(str(folder / "checkpoint"))
    accelerator.print(f"loaded: epoch {loader.epoch} comes next")
    loader.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(temporary) / "photos"), Path(temporary))
