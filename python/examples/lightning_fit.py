"""PyTorch Lightning: the hooks of a data module create the loaders.

    python lightning_fit.py [DATASET]

The hooks run after Lightning has started its processes, so each loader knows its rank. Lightning moves batches to the
device with ``batch.to``. It also saves the loader's state in its checkpoints, through ``state_dict`` and
``load_state_dict``.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import lightning
import torch
from torch import Tensor, nn

import shardpack as sp
import tiny
from classify import ResNet


class Photos(lightning.LightningDataModule):
    def __init__(self, dataset: sp.Dataset) -> None:
        super().__init__()
        self.dataset = dataset

    def train_dataloader(self) -> sp.Loader:
        return sp.Loader(self.dataset, 10, image="rrc64", layout="chw", to="torch")

    def val_dataloader(self) -> sp.Loader:
        return sp.Loader(self.dataset, 10, shuffle=False, image="center64", layout="chw", end="uneven", to="torch")


class Classifier(lightning.LightningModule):
    def __init__(self, classes: int) -> None:
        super().__init__()
        self.model = ResNet(classes)
        self.losses: list[float] = []
        self.right = self.evaluated = 0

    def training_step(self, batch: sp.Batch, _: int) -> Tensor:
        loss = nn.functional.cross_entropy(self.model(batch["image"]), batch["label"])
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch: sp.Batch, _: int) -> None:
        self.right += int((self.model(batch["image"]).argmax(1) == batch["label"]).sum())
        self.evaluated += len(batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), 3e-3)


def main(dataset: sp.Dataset, folder: Path) -> None:
    lightning.seed_everything(0, verbose=False)
    model = Classifier(len(dataset.classes or []))
    trainer = lightning.Trainer(
        max_epochs=4, accelerator="cpu", devices=1, logger=False, enable_progress_bar=False, enable_model_summary=False,
        num_sanity_val_steps=0, default_root_dir=folder,
    )  # fmt: skip
    trainer.fit(model, Photos(dataset))
    steps = len(model.losses) // 4
    first, last = sum(model.losses[:steps]) / steps, sum(model.losses[-steps:]) / steps
    print(f"{steps} steps an epoch: loss {first:.3f} in the first, {last:.3f} in the last")
    print(f"evaluated: {model.evaluated}, of them right: {model.right}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(temporary) / "photos"), Path(temporary))
