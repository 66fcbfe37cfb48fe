"""Makes small datasets for examples that are started without one."""

from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import shardpack as sp

KINDS = ["disc", "rows", "diagonals"]
LAND = ["water", "meadow", "roof"]


def photos(out: Path, counts: tuple[int, ...] = (50, 50, 50), seed: int = 0) -> sp.Dataset:
    """Pack JPEGs about 80 pixels wide with three patterns. ``counts`` has the number of pictures for each pattern."""
    rng = np.random.default_rng(seed)
    with sp.Writer(out, classes=KINDS, jpeg="keep") as writer:
        for label, count in enumerate(counts):
            for number in range(count):
                buffer = io.BytesIO()
                Image.fromarray(_photo(rng, label)).save(buffer, "jpeg", quality=90)
                writer.write({"image": buffer.getvalue(), "label": label}, key=f"{KINDS[label]}/{number:03}.jpg")
    return sp.Dataset(out)


def clips(source: Path, count: int = 90, seed: int = 0) -> None:
    """Write folders of 12 to 20 JPEGs that show a disc moving left or right on noise."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:64, :96]
    for number in range(count):
        way = ("left", "right")[number % 2]
        folder = source / way / f"{number:03}"
        folder.mkdir(parents=True)
        frames, radius, height = int(rng.integers(12, 21)), rng.uniform(6, 12), rng.uniform(16, 48)
        for frame in range(frames):
            share = (frame + 0.5) / frames
            middle = 96 * (share if way == "right" else 1 - share)
            disc = (columns - middle) ** 2 + (rows - height) ** 2 < radius**2
            picture = rng.integers(40, 100, (64, 96, 3)) + 120 * disc[..., None]
            Image.fromarray(picture.astype(np.uint8)).save(folder / f"{frame}.jpg", quality=90)


def cubes(out: Path, count: int = 24, bands: int = 32, seed: int = 0) -> sp.Dataset:
    """Pack float32 scenes of 48 × 48 pixels and ``bands`` bands, with masks that show three kinds of land."""
    rng = np.random.default_rng(seed)
    spectra = rng.uniform(200, 3000, (len(LAND), bands))
    with sp.Writer(out) as writer:
        for number in range(count):
            rows, columns = np.mgrid[:48, :48]
            edge = rng.integers(12, 36) + 6 * np.sin(columns / 7 + rng.uniform(0, 6))
            mask = (rows > edge).astype(np.uint8)
            top, left = rng.integers(0, 36, 2)
            mask[top : top + 12, left : left + 12] = 2
            light = rng.uniform(0.5, 1.5)
            cube = np.round(spectra[mask] * light + rng.normal(0, 80, (48, 48, bands))).astype(np.float32)
            writer.write({"cube": cube, "mask": mask}, key=f"scene-{number:02}")
    return sp.Dataset(out)


def objects(out: Path, count: int = 120, seed: int = 0) -> sp.Dataset:
    """Pack JPEGs about 120 pixels wide with one to four discs, squares and crosses on noise. Each sample has the boxes
    of its objects ``[objects, 4]`` (left, top, right, bottom), their classes ``[objects]``, and a mask in which classes
    are numbered from 1.
    """
    rng = np.random.default_rng(seed)
    with sp.Writer(out, classes=["disc", "square", "cross"], jpeg="keep") as writer:
        for number in range(count):
            height, width = (int(side) for side in rng.integers(96, 144, 2))
            picture = rng.integers(40, 90, (height, width, 3))
            mask, boxes, classes = np.zeros((height, width), np.uint8), [], []
            rows, columns = np.mgrid[:height, :width]
            for _ in range(rng.integers(1, 5)):
                kind, radius = int(rng.integers(3)), int(rng.integers(8, 20))
                y, x = int(rng.integers(radius, height - radius)), int(rng.integers(radius, width - radius))
                dy, dx = np.abs(rows - y), np.abs(columns - x)
                square = np.maximum(dy, dx) <= radius
                shape = [dy**2 + dx**2 <= radius**2, square, square & (np.minimum(dy, dx) <= radius // 3)][kind]
                if mask[np.maximum(dy, dx) <= radius + 2].any():
                    continue
                mask[shape] = kind + 1
                picture[shape] = rng.integers(120, 255, 3)
                boxes.append([x - radius, y - radius, x + radius + 1, y + radius + 1])
                classes.append(kind)
            buffer = io.BytesIO()
            Image.fromarray(picture.astype(np.uint8)).save(buffer, "jpeg", quality=92)
            values = {"boxes": np.array(boxes, np.float32).reshape(-1, 4), "classes": np.array(classes, np.int64)}
            writer.write({"image": buffer.getvalue(), "mask": mask, **values}, key=f"{number:03}.jpg")
    return sp.Dataset(out)


def captions(folder: Path, count: int = 200, seed: int = 0) -> sp.Dataset:
    """Pack 64 × 64 JPEGs of coloured shapes, with captions from a table."""
    rng = np.random.default_rng(seed)
    colours = {"red": (220, 40, 40), "green": (40, 190, 60), "blue": (50, 70, 220), "yellow": (230, 210, 40)}
    (folder / "pictures").mkdir(parents=True)
    rows = []
    for number in range(count):
        inside, ground = (str(name) for name in rng.choice(list(colours), 2, replace=False))
        y, x = np.mgrid[:64, :64] - rng.integers(24, 40, 2)[:, None, None]
        radius, is_disc = int(rng.integers(12, 20)), bool(rng.integers(2))
        shape = (y**2 + x**2 <= radius**2) if is_disc else (np.maximum(abs(y), abs(x)) <= radius)
        pixels = np.where(shape[..., None], colours[inside], colours[ground]) + rng.normal(0, 12, (64, 64, 3))
        Image.fromarray(pixels.clip(0, 255).astype(np.uint8)).save(folder / "pictures" / f"{number:04}.jpg", quality=92)
        words = f"a {inside} {'disc' if is_disc else 'square'} on {ground} ground"
        rows.append(json.dumps({"key": f"{number:04}.jpg", "caption": words}))
    (folder / "captions.jsonl").write_text("\n".join(rows) + "\n")
    sp.pack(folder / "pictures", folder / "packed", labels=folder / "captions.jsonl")
    return sp.Dataset(folder / "packed")


def _photo(rng: np.random.Generator, label: int) -> NDArray[np.uint8]:
    height, width = rng.integers(64, 96, 2)
    rows, columns = np.mgrid[:height, :width]
    y, x, radius = rng.uniform(0.4, 0.6) * height, rng.uniform(0.4, 0.6) * width, rng.uniform(16, 28)
    disc = (rows - y) ** 2 + (columns - x) ** 2 < radius**2
    inside = [disc, rows // 6 % 2 == 0, (rows + columns) // 8 % 2 == 0][label]
    colours = rng.integers(0, 100, 3), rng.integers(150, 250, 3)
    noise = rng.integers(-12, 13, (height, width, 3))
    return np.clip(np.where(inside[..., None], *colours) + noise, 0, 255).astype(np.uint8)
