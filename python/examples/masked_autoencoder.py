"""Learn without labels: a masked autoencoder sees a quarter of the tiles of a picture, and predicts the others.

    python masked_autoencoder.py [DATASET] [SIZE] [EPOCHS]

The recipe follows the paper (He et al., 2021): random crops of 20 to 100 % of the area, bicubic, mirrored. Labels are
used only at the end, to count the pictures whose nearest neighbour has the same class. The program also compares the
loading rate with the same transforms in torchvision.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import rates
import shardpack as sp
import tiny

BATCH, TILE, WIDTH = 25, 8, 96
FLOATS: dict[str, Any] = {"layout": "chw", "dtype": "float32", "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


class Autoencoder(nn.Module):
    """Encodes the visible tiles of a picture, and predicts the pixels of the others from them."""

    def __init__(self, size: int) -> None:
        def layers(count: int) -> nn.Module:
            layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, 0.0, batch_first=True, norm_first=True)
            return nn.TransformerEncoder(layer, count, enable_nested_tensor=False)

        super().__init__()
        self.tiles = (size // TILE) ** 2
        self.embed = nn.Linear(3 * TILE**2, WIDTH)
        self.places = nn.Parameter(torch.randn(1, self.tiles, WIDTH) * 0.02)
        self.hidden = nn.Parameter(torch.zeros(1, 1, WIDTH))
        self.encoder, self.decoder = layers(3), layers(1)
        self.pixels = nn.Linear(WIDTH, 3 * TILE**2)

    def cut(self, images: Tensor) -> Tensor:
        """Return the tiles of pictures, ``[rows, tiles, pixels]``."""
        return functional.unfold(images, TILE, stride=TILE).transpose(1, 2)

    def features(self, images: Tensor) -> Tensor:
        return self.encoder(self.embed(self.cut(images)) + self.places).mean(1)

    def forward(self, images: Tensor) -> Tensor:
        """Return the loss on the hidden tiles."""
        tiles = self.cut(images)
        rows = torch.arange(len(tiles), device=tiles.device)[:, None]
        seen, others = torch.rand(tiles.shape[:2], device=tiles.device).argsort(1).tensor_split([self.tiles // 4], 1)
        code = self.encoder((self.embed(tiles) + self.places)[rows, seen])
        all_tiles = self.hidden.expand(len(tiles), self.tiles, WIDTH).clone()
        all_tiles[rows, seen] = code
        found = self.pixels(self.decoder(all_tiles + self.places))[rows, others]
        goal = functional.layer_norm(tiles[rows, others], tiles.shape[2:])
        return functional.mse_loss(found, goal)


def changed(image: Any, _: dict[str, Any], size: int) -> Any:
    """Apply the same transforms with torchvision."""
    from torchvision.transforms import v2

    steps = [
        v2.RandomResizedCrop(size, (0.2, 1), interpolation=v2.InterpolationMode.BICUBIC, antialias=True), v2.RandomHorizontalFlip(),
        v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(FLOATS["mean"], FLOATS["std"]),
    ]  # fmt: skip
    return v2.Compose(steps)(image)


def main(dataset: sp.Dataset, size: int, epochs: int) -> None:
    torch.manual_seed(0)
    device = "cuda:0" if torch.cuda.is_available() else "cpu"
    model = Autoencoder(size).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, (0.9, 0.95))
    view = sp.view.random_resized_crop(size, scale=(0.2, 1), interpolation="bicubic")
    with sp.Loader(dataset, BATCH, image=view, fields=["image"], to="torch", device=device, **FLOATS) as loader:
        for epoch in range(epochs):
            total = 0.0
            for (images,) in loader:
                loss = model(images)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            if epoch % 5 == 4:
                print(f"epoch {epoch + 1}: loss {total / len(loader):.3f}")
        rates.compare(loader, dataset, partial(changed, size=size), [], BATCH)
    model.eval()
    features, labels = [], []
    with sp.Loader(dataset, BATCH, image=sp.view.center_crop(size), end="uneven", fields=["image", "label"], to="torch", device=device, **FLOATS) as loader:
        for images, classes in loader:
            with torch.inference_mode():
                features.append(functional.normalize(model.features(images), dim=1))
                labels.append(classes.clone())
    similar, label = torch.cat(features) @ torch.cat(features).T, torch.cat(labels)
    nearest = similar.fill_diagonal_(-1).argmax(1)
    print(f"nearest neighbours: {int((label[nearest] == label).sum())} of {len(dataset)} of the same class")


if __name__ == "__main__":
    size, epochs = int(sys.argv[2]) if len(sys.argv) > 2 else 48, int(sys.argv[3]) if len(sys.argv) > 3 else 20
    with tempfile.TemporaryDirectory() as folder:
        main(sp.Dataset(sys.argv[1]) if len(sys.argv) > 1 else tiny.photos(Path(folder) / "photos"), size, epochs)
