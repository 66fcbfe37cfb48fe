"""Tests that hostile Exif, ICC, XMP and comments in JPEGs neither stop packing nor change a pixel."""

from __future__ import annotations

import io
import os
import random
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import shardpack as sp
from PIL import Image

EDGES = (0, 1, 2, 8, 9, 12, 0x7F, 0xFF, 0x100, 0x112, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF)
COUNT = int(os.environ.get("SHARDPACK_HOSTILE_METADATA", "240"))


def exif(rng: random.Random) -> bytes:
    """Returns a TIFF structure with entries of any type and count, offsets past its end, and directories that form a
    cycle.
    """
    order = rng.choice("<>")
    entries = []
    for _ in range(rng.randrange(6)):
        tag = rng.choice((0x112, 0x112, 0x112, 0x8769, 0x8825, 0x10F, 0x927C, rng.randrange(0x10000)))
        kind, count = rng.randrange(15), rng.choice((1, 1, *EDGES)) & 0xFFFFFFFF
        value = rng.choice((rng.randrange(10), rng.choice(EDGES))) & 0xFFFFFFFF
        short = struct.pack(order + "HH", value & 0xFFFF, 0)
        entries.append(struct.pack(order + "HHI", tag, kind, count) + (short if rng.random() < 0.6 else struct.pack(order + "I", value)))
    start = rng.choice((8, 8, 8, 8, *EDGES)) & 0xFFFFFFFF
    said = rng.choice((len(entries), len(entries), rng.choice(EDGES) & 0xFFFF))
    # Link to this directory again, or to an arbitrary offset.
    behind = rng.choice((0, 8, start, rng.choice(EDGES))) & 0xFFFFFFFF
    head = {"<": b"II", ">": b"MM"}[order] if rng.random() < 0.95 else rng.randbytes(2)
    tiff = head + struct.pack(order + "HI", rng.choice((42, 42, 42, 43)), start)
    tiff += struct.pack(order + "H", said) + b"".join(entries) + struct.pack(order + "I", behind)
    return b"Exif\0\0" + tiff[: rng.choice((len(tiff), len(tiff), rng.randrange(len(tiff) + 1)))]


def profile(rng: random.Random) -> bytes:
    """Returns a chunk of an ICC profile with an arbitrary number, size and tags."""
    body = bytearray(rng.randbytes(rng.choice((0, 1, 127, 128, 132, 500))))
    if len(body) >= 132:
        body[36:40] = b"acsp"
        struct.pack_into(">I", body, 0, rng.choice((len(body), rng.choice(EDGES))) & 0xFFFFFFFF)
        struct.pack_into(">I", body, 128, rng.choice(EDGES) & 0xFFFFFFFF)
    return b"ICC_PROFILE\0" + bytes((rng.choice((0, 1, 1, 2, 255)), rng.choice((0, 1, 1, 2, 255)))) + bytes(body)


def hostile(rng: random.Random, plain: bytes) -> bytes:
    """Returns the picture with up to eight hostile segments added."""
    segments = []
    for _ in range(1 + rng.randrange(8)):
        marker, body = rng.choice(
            (
                (0xE1, exif(rng)),
                (0xE1, exif(rng)),
                (0xE1, b"Exif\0" + rng.randbytes(rng.randrange(40))),
                (0xE2, profile(rng)),
                (0xE1, b"http://ns.adobe.com/xap/1.0/\0" + b"<x:xmpmeta><tiff:Orientation>6" + rng.randbytes(rng.randrange(2000))),
                (0xE2, b"MPF\0" + rng.randbytes(rng.randrange(80))),
                (0xED, b"Photoshop 3.0\0" + b"8BIM" + rng.randbytes(rng.randrange(200))),
                (0xFE, rng.randbytes(rng.choice((0, 1, 60, 65533)))),
                (0xEF, b""),
            )
        )
        segments.append(bytes((0xFF, marker)) + struct.pack(">H", len(body) + 2) + body)
    end = 2 + 2 + struct.unpack_from(">H", plain, 4)[0]
    return plain[:end] + b"".join(segments) + plain[end:]


def bare(jpeg: bytes) -> bytes:
    """Returns the picture without its metadata. Pillow cannot open some of the pictures with it."""
    out, at = jpeg[:2], 2
    while jpeg[at + 1] != 0xDA:
        end = at + 2 + struct.unpack_from(">H", jpeg, at + 2)[0]
        if not (0xE1 <= jpeg[at + 1] <= 0xEF or jpeg[at + 1] == 0xFE):
            out += jpeg[at:end]
        at = end
    return out + jpeg[at:]


def turned(pixels: np.ndarray) -> list[bytes]:
    """Returns the picture in each of the eight Exif orientations."""
    flips = [pixels, pixels[:, ::-1], pixels[::-1], pixels[::-1, ::-1]]
    return [view.tobytes() + bytes(str(view.shape), "ascii") for flip in flips for view in (flip, flip.swapaxes(0, 1))]


@pytest.mark.parametrize("jpeg", ["tile", "keep"])
def test_no_metadata_stops_packing_or_changes_a_pixel(tmp_path: Path, jpeg: str) -> None:
    rng = random.Random(5)
    source = tmp_path / "source"
    source.mkdir()
    plains, views = [], []
    for seed in range(6):
        smooth = Image.fromarray(np.random.default_rng(seed).integers(0, 255, (5, 4, 3), dtype=np.uint8))
        out = io.BytesIO()
        smooth.resize((50 + 9 * seed, 40 + 5 * seed), Image.Resampling.BICUBIC).save(out, "JPEG", quality=85, subsampling=seed % 3)
        plains.append(out.getvalue())
    for seed, plain in enumerate(plains):
        (source / f"plain-{seed}.jpg").write_bytes(plain)
    for number in range(COUNT):
        (source / f"h{number:05}.jpg").write_bytes(hostile(rng, plains[number % 6]))
    sp.pack(source, tmp_path / "out", jpeg=jpeg)
    dataset = sp.Dataset(tmp_path / "out")
    views = [set(turned(dataset.by_key(f"plain-{seed}.jpg")["image"])) for seed in range(6)]
    single = {}
    for number in range(COUNT):
        pixels = dataset.by_key(f"h{number:05}.jpg")["image"]
        single[f"h{number:05}.jpg"] = pixels
        assert pixels.tobytes() + bytes(str(pixels.shape), "ascii") in views[number % 6], number
    with sp.Loader(dataset, batch_size=16, fields=["image"], image="full", end="uneven") as loader:
        seen = 0
        for batch in loader:
            for key, pixels in zip(batch.sample_keys, batch["image"]):
                if key in single:
                    assert np.array_equal(np.asarray(pixels), single[key]), key
                    seen += 1
        assert seen == COUNT
    done = subprocess.run(
        [sys.executable, "-m", "shardpack", "unpack", str(tmp_path / "out"), str(tmp_path / "files")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for number in range(COUNT):
        name, back = f"h{number:05}.jpg", tmp_path / "files"
        if jpeg == "keep":
            assert (back / name).read_bytes() == (source / name).read_bytes(), number
            continue
        with Image.open(io.BytesIO(bare((back / name).read_bytes()))) as shown, Image.open(io.BytesIO(plains[number % 6])) as plain:
            assert shown.size == plain.size and np.array_equal(np.asarray(shown), np.asarray(plain)), number
