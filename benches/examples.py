#!/usr/bin/env python3
"""Measures the Python package's examples on your photos: boxes and captions compared with pictures alone, 16-bit
pictures, and weekly additions. Prints a table and records the run.

    .venv-package/bin/python benches/examples.py --photos PHOTOS [--rounds 5] [--seconds 3]

PHOTOS is a folder of class folders of JPEGs. Boxes with classes (one to eight per photo), captions of twelve words, and
the lower 8 bits of the 16-bit pictures are synthetic. The sides take turns with a warm page cache. The first round is
dropped, and the rates are medians of the others. Each side uses two threads or two worker processes on two cores.
"""

import os
import shutil
import statistics
import time
from pathlib import Path

import bench
import numpy as np
import shardpack as sp
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset

THREADS = 2
SIDE, CROP = 384, 224
WORDS = "a photo of the small large old red dog cat house tree on under beside grass water road".split()


def annotated(photos, out):
    rng = np.random.default_rng(0)
    schema = {"image": "image", "boxes": "array", "classes": "array", "caption": "text"}
    with sp.Writer(out, schema) as writer:
        for path in photos:
            with Image.open(path) as file:
                sides = np.array(file.size)
            corners = np.sort(rng.random((rng.integers(1, 9), 2, 2)), axis=1) * sides
            boxes = corners.reshape(-1, 4).astype(np.float32)
            classes, words = rng.integers(0, 80, len(boxes)), rng.choice(WORDS, 12)
            writer.write({"image": path.read_bytes(), "boxes": boxes, "classes": classes, "caption": " ".join(words)})
    return sp.Dataset(out)


def of_16_bits(photos, out):
    """Writes the centre of each photo as a grey 16-bit PNG. Photos that are too small are left out."""
    rng = np.random.default_rng(0)
    for number, path in enumerate(photos):
        grey = np.asarray(Image.open(path).convert("L"), np.uint16)
        top, left = ((length - SIDE) // 2 for length in grey.shape)
        if min(top, left) >= 0:
            kind = out / f"{number % 10}"
            kind.mkdir(parents=True, exist_ok=True)
            levels = grey[top : top + SIDE, left : left + SIDE] * 256 + rng.integers(0, 256, (SIDE, SIDE), np.uint16)
            Image.fromarray(levels).save(kind / f"{number}.png")
    return sorted(out.rglob("*.png"))


class Files(Dataset):
    """Reads 16-bit PNGs without our loader, as random normalised crops."""

    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, number):
        levels = np.asarray(Image.open(self.files[number]), np.uint16)
        top, left = (int(torch.randint(SIDE - CROP + 1, ())) for _ in range(2))
        crop = levels[None, top : top + CROP, left : left + CROP].astype(np.float32)
        return torch.from_numpy((crop - 32_768) / 8_192)


def rate(loader, seconds):
    """Returns the rows per second, measured over whole epochs that together take at least `seconds`."""
    begun, rows = time.perf_counter(), 0
    while (spent := time.perf_counter() - begun) < seconds or rows == 0:
        for batch in loader:
            rows += len(batch)
    return rows / spent


def rates(options, name, base, sides):
    """Returns the rows of the table: the median rate of each side, and its ratio to the side `base`."""
    found = {side: [] for side in sides}
    for number in range(options.rounds + 1):
        for side, loader in sides.items():
            one = rate(loader, options.seconds)
            if number > 0:
                found[side].append(one)
    medians = {side: statistics.median(values) for side, values in found.items()}
    return [
        {
            "what": f"{name}, a second",
            "side": side,
            "median": value,
            "÷ the first": value / medians[base],
            "all": [round(one, 1) for one in found[side]],
        }
        for side, value in medians.items()
    ]


def weeks(options, photos, folder):
    """Measures the seconds to add 100 photos for the third time, and the seconds to pack all photos again."""
    parts = [photos[:-300], photos[-300:-200], photos[-200:-100], photos[-100:]]
    for week, part in enumerate([*parts, photos]):
        for path in part:
            copy = folder / f"week-{week}" / path.parent.name / path.name
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)
    times = {"packed anew": [], "added": []}
    for number in range(options.rounds + 1):
        for out in ("grown", "anew"):
            bench.remove(folder / out)
        sp.pack(folder / "week-0", folder / "grown")
        for week in (1, 2):
            sp.add(folder / "grown", folder / f"week-{week}")
        os.sync()
        anew = bench.seconds(lambda: sp.pack(folder / "week-4", folder / "anew"))
        os.sync()
        added = bench.seconds(lambda: sp.add(folder / "grown", folder / "week-3"))
        if number > 0:
            times["packed anew"].append(anew)
            times["added"].append(added)
    medians = {side: statistics.median(values) for side, values in times.items()}
    counts = {"packed anew": len(photos), "added": 100}
    return [
        {
            "what": "weekly additions, seconds",
            "side": f"{counts[side]} {side}",
            "median": value,
            "÷ the first": value / medians["packed anew"],
            "all": [round(one, 2) for one in times[side]],
        }
        for side, value in medians.items()
    ]


def main():
    options = bench.arguments(
        __doc__,
        photos=(Path(), "a folder of class folders"),
        seconds=(3.0, "of each rate"),
        build=("release", "how the package was built"),
    )
    photos = sorted(options.photos.glob("*/*"))
    torch.set_num_threads(1)
    with bench.scratch(options) as scratch:
        folder = Path(scratch)
        dataset = annotated(photos, folder / "annotated")
        common = {"image": "rrc224", "layout": "chw", "to": "torch", "threads": THREADS}
        align = {"boxes": sp.align.boxes(visible=0.4), "classes": sp.align.rows_of("boxes")}
        boxes = ["image", "boxes", "classes"]
        rows = rates(options, "random crops 224 of photos", "pictures alone", {
            "pictures alone": sp.Loader(dataset, 64, fields=["image"], **common),
            "with boxes and classes": sp.Loader(dataset, 64, fields=boxes, align=align, **common),
            "with captions": sp.Loader(dataset, 64, fields=["image", "caption"], **common),
        })  # fmt: skip
        files = of_16_bits(photos, folder / "sixteen")
        sp.pack(folder / "sixteen", folder / "packed", kind="cubes", class_folders="on")
        levels = {"mean": {"cube": 32_768.0}, "std": {"cube": 8_192.0}, "dtype": {"cube": "float32"}, "layout": "chw"}
        packed = sp.Dataset(folder / "packed")
        patch = {"cube": f"patch{CROP}x{CROP}", "fields": ["cube"], "to": "torch", "threads": THREADS}
        own = sp.Loader(packed, 64, **patch, **levels)
        workers = {"num_workers": THREADS, "persistent_workers": True}
        theirs = DataLoader(Files(files), 64, shuffle=True, drop_last=True, **workers)
        sides = {"DataLoader over PNGs": theirs, "shardpack": own}
        rows += rates(options, f"patches {CROP} of {len(files)} 16-bit pictures", "DataLoader over PNGs", sides)
        rows += weeks(options, photos, folder)
        facts = {
            "photos": len(photos),
            "build": options.build,
            "load at the end": os.getloadavg()[0],
            "16-bit PNGs, bytes": bench.tree_bytes(folder / "sixteen"),
            "the same packed": bench.tree_bytes(folder / "packed"),
        }
        bench.finish("examples", options, facts, rows)


if __name__ == "__main__":
    main()
