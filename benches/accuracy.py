"""Tests whether the decoder changes what a model learns: one small classifier, trained on the same photos in five ways.

    python benches/accuracy.py PHOTOS                needs shardpack, PyTorch and torchvision; a minute or more on a GPU
    python benches/accuracy.py PHOTOS --seeds 2 --photos-used 6 --epochs 2 --batch 16         a trial without a GPU

PHOTOS is a folder that contains JPEGs at any depth. The bench cuts each photo into 4 × 4 parts and stores them as
JPEGs. The model trains on 12 of the parts and must name the photo of each of the other 4, so there are as many classes
as photos. It recognises a part by colours, texture and noise, which a decoder could change.

One side is torchvision's ImageFolder with a DataLoader. The others are shardpack with unchanged files (decoded on the
host, and on the GPU), with tiled files (on the GPU), and with files re-encoded at quality 75 (on the GPU). Each side
trains and evaluates with its own decoder. All sides have the same model, crop, flip and optimiser, and the same initial
weights for a given seed. A round trains each side once with the same seed. The bench prints a table, and draws the
accuracies of each side as a band in accuracy.svg.
"""

import argparse
import contextlib
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import bands
import bench
from device_others import MEAN, STD
from pack_keep import REAL

GRID = 4
# Places of the held-out parts in the grid: one in each row and in each column.
HELD_OUT = {(0, 1), (1, 3), (2, 0), (3, 2)}
SIDE = 64


def main():
    options = arguments()
    sides = SIDES
    if options.device.type != "cuda":
        # Without a GPU, the host decodes for every side, so two of the sides are equal.
        host = {name.replace("on the device", "on the host"): side for name, side in SIDES.items()}
        sides = host | {name: side for name, side in SIDES.items() if name in host}
    rows = {name: [] for name in sides}
    spent = dict.fromkeys(sides, 0.0)
    with bench.scratch(options) as folder:
        facts = prepare(Path(folder), options)
        began = time.perf_counter()
        for seed in range(options.seeds):
            round_began = time.perf_counter()
            for name, side in sides.items():
                accuracy, seconds = one(side, seed, Path(folder), options, facts)
                rows[name].append(accuracy)
                spent[name] += seconds
                print(f"seed {seed}: {name}: {show(accuracy)}, {seconds:.1f} s", file=sys.stderr, flush=True)
            now = time.perf_counter()
            if now - began + (now - round_began) > options.limit and seed + 1 < options.seeds:
                print(f"stopped after {seed + 1} seeds: --limit {options.limit:.0f}", file=sys.stderr)
                break
    first = next(iter(rows.values()))
    table = [
        {
            "side": name, "median": show(bench.median(values)),
            "lowest to highest": f"{show(min(values))} to {show(max(values))}",
            "overlaps the first": "yes" if bands.overlap(values, first) else "no",
            "s a run": spent[name] / len(values),
        }
        for name, values in rows.items()
    ]  # fmt: skip
    options.rounds = len(first)
    facts |= {"epochs": options.epochs, "batch": options.batch, "crop": SIDE, "device": str(options.device), "accuracies": rows}
    bench.finish("accuracy", options, facts, table)
    title = "Accuracy on parts of photos that the model has not seen"
    classes, parts = facts["classes"], facts["parts"]
    subtitle = f"{classes} classes, {parts['train']} parts, {options.epochs} epochs, {len(first)} seeds"
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "accuracy.svg").write_text(bands.svg(title, subtitle, list(rows.items()), show))
    print(f"\n{options.out / 'accuracy.svg'}")


def show(accuracy):
    return f"{100 * accuracy:.1f} %"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cores, target = len(os.sched_getaffinity(0)), bench.ROOT / "target"
    add = parser.add_argument
    add("photos", nargs="?", type=Path, default=REAL, help="folder of JPEGs (default: the sample of ImageNet)")
    add("--photos-used", type=int, default=1000, help="photos, one class for each (default 1000)")
    add("--seeds", type=int, default=5, help="runs of each side (default 5)")
    add("--epochs", type=int, default=12, help="epochs of a run (default 12)")
    add("--batch", type=int, default=256, help="parts in a batch (default 256)")
    add("--limit", type=float, default=200, help="seconds: begin no round that would end later (default 200)")
    add("--workers", type=int, default=cores, help="threads or workers (default all cores)")
    add("--device", help="default cuda:0, or cpu without a GPU")
    add("--dir", type=Path, default=target / "bench", help="folder for files (default target/bench)")
    add("--out", type=Path, default=target / "accuracy", help="folder of accuracy.svg (default target/accuracy)")
    add("--no-save", action="store_true", help="do not write a file to benches/runs")
    options = parser.parse_args()
    if not options.photos.is_dir():
        parser.error(f"no folder of JPEGs: {options.photos}")
    import torch

    options.device = torch.device(options.device or ("cuda:0" if torch.cuda.is_available() else "cpu"))
    return options


def prepare(folder, options):
    """Cuts the photos, and packs the parts in three ways."""
    import shardpack as sp

    paths = sorted(path for path in options.photos.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg"))
    # Leave out photos that are smaller than the crop, because they would be enlarged.
    with ProcessPoolExecutor(options.workers) as pool:
        counts = list(pool.map(partial(cut, folder), paths[: options.photos_used], chunksize=8))
    classes = sum(count > 0 for count in counts)
    if classes < 2:
        raise SystemExit(f"expected at least two photos of {GRID * SIDE} pixels or more, found {classes}")
    parts = {}
    for split in ("train", "val"):
        parts[split] = sum(1 for _ in (folder / split).rglob("*.jpg"))
        for store, how in STORES.items():
            sp.pack(folder / split, folder / f"{store}-{split}", **how)
    return {"classes": classes, "parts": parts}


def cut(folder, path):
    """Writes the parts of a photo and returns how many it wrote: none if the photo is too small."""
    from PIL import Image

    with Image.open(path) as file:
        photo = file.convert("RGB")
    width, height = (length // GRID for length in photo.size)
    if min(width, height) < SIDE:
        return 0
    for row in range(GRID):
        for column in range(GRID):
            to = folder / ("val" if (row, column) in HELD_OUT else "train") / path.stem
            to.mkdir(parents=True, exist_ok=True)
            box = (column * width, row * height, (column + 1) * width, (row + 1) * height)
            photo.crop(box).save(to / f"{path.stem}-{row}{column}.jpg", quality=92, subsampling=0)
    return GRID * GRID


STORES = {"kept": {"jpeg": "keep"}, "tiled": {}, "q75": {"jpeg": "reencode", "quality": 75}}


# A side is a function that opens a split and returns an iterator over its epochs. Batches are normalised float32
# pictures on the device, and labels.


@contextlib.contextmanager
def image_folder(split, seed, folder, options):
    import torch
    from torch.utils.data import DataLoader
    from torchvision.datasets import ImageFolder
    from torchvision.transforms import v2

    view = [v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip()]
    if split == "val":
        # The same size as the loader's `center` view.
        view = [v2.Resize(SIDE * 8 // 7, antialias=True), v2.CenterCrop(SIDE)]
    photos = ImageFolder(folder / split, v2.Compose([*view, v2.PILToTensor()]))
    batches = DataLoader(
        photos, options.batch, shuffle=split == "train", drop_last=split == "train", num_workers=options.workers,
        persistent_workers=True, pin_memory=options.device.type == "cuda", prefetch_factor=4,
        generator=torch.Generator().manual_seed(seed),
    )  # fmt: skip
    mean, std = (torch.tensor(values, device=options.device).view(3, 1, 1) * 255 for values in (MEAN, STD))

    def epoch():
        for images, labels in batches:
            images = images.to(options.device, non_blocking=True).float().sub_(mean).div_(std)
            yield images, labels.to(options.device, non_blocking=True)

    yield epoch


def shardpack(store, decode):
    @contextlib.contextmanager
    def opened(split, seed, folder, options):
        import shardpack as sp

        is_training = split == "train"
        with sp.Loader(
            sp.Dataset(folder / f"{store}-{split}"), options.batch,
            image=f"rrc{SIDE}" if is_training else f"center{SIDE}",
            shuffle=is_training, seed=seed, end="drop" if is_training else "uneven", layout="chw", dtype="float32",
            mean=MEAN, std=STD, fields=["image", "label"], to="torch", device=str(options.device),
            threads=options.workers, decode=decode if options.device.type == "cuda" else "host",
        ) as loader:  # fmt: skip
            yield lambda: iter(loader)

    return opened


SIDES = {
    "ImageFolder and DataLoader": image_folder,
    "shardpack, kept, on the host": shardpack("kept", "host"),
    "shardpack, kept, on the device": shardpack("kept", "device"),
    "shardpack, tiled, on the device": shardpack("tiled", "device"),
    "shardpack, quality 75, on the device": shardpack("q75", "device"),
}


def network(classes):
    from torch import nn

    def block(channels, out, stride):
        return nn.Sequential(nn.Conv2d(channels, out, 3, stride, 1, bias=False), nn.BatchNorm2d(out), nn.ReLU())

    layers = [block(3, 64, 1), block(64, 128, 2), block(128, 256, 2), block(256, 256, 1), block(256, 512, 2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(512, classes))


def one(side, seed, folder, options, facts):
    """Trains one model. Returns its accuracy on the held-out parts, and the total time in seconds."""
    import torch

    began = time.perf_counter()
    torch.manual_seed(seed)
    device = options.device
    model = network(facts["classes"]).to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=5e-4)
    steps = options.epochs * (facts["parts"]["train"] // options.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=steps, pct_start=0.2)
    loss_of = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    with side("train", seed, folder, options) as epoch:
        for _ in range(options.epochs):
            for images, labels in epoch():
                with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                    loss = loss_of(model(images.to(memory_format=torch.channels_last)), labels)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                schedule.step()
    model.eval()
    right = seen = 0
    with side("val", seed, folder, options) as epoch, torch.inference_mode():
        for images, labels in epoch():
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                guesses = model(images.to(memory_format=torch.channels_last)).argmax(1)
            right += (guesses == labels).sum().item()
            seen += len(labels)
    return right / seen, time.perf_counter() - began


if __name__ == "__main__":
    main()
