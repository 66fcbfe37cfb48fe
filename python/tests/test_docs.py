"""Runs the Python blocks of the documentation pages and compares their output.

The blocks of a page run in order, in one namespace and one temporary folder. A ``text`` block right after a ``python``
block is its expected output, in which ``…`` matches anything. The functions below make the files that a page assumes.
They are registered by the name of the page.
"""

from __future__ import annotations

import contextlib
import io
import re
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import shardpack as sp

DOCS = Path(__file__).resolve().parents[2] / "docs" / "python"
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.M | re.S)

PAGES: dict[str, Callable[[Path], None]] = {}


def page(name: str) -> Callable[[Callable[[Path], None]], Callable[[Path], None]]:
    """Registers the function that prepares the folder for a page."""

    def note(setup: Callable[[Path], None]) -> Callable[[Path], None]:
        PAGES[name] = setup
        return setup

    return note


def photos(folder: Path, count: int = 90) -> None:
    rng = np.random.default_rng(0)
    for number in range(count):
        kind = ("cat", "dog", "owl")[number % 3]
        (folder / kind).mkdir(parents=True, exist_ok=True)
        rows, columns = np.mgrid[: 64 + number % 5 * 4, : 80 + number % 4 * 8]
        waves = [127 + 100 * np.sin((rows * a + columns * b) / 9 + number) for a, b in rng.uniform(0, 2, (3, 2))]
        Image.fromarray(np.stack(waves, -1).astype(np.uint8)).save(folder / kind / f"{number:03}.jpg", quality=90)


def scenes(folder: Path, count: int = 12) -> None:
    """Makes cubes of 48 × 48 pixels and 20 bands as ``.npy``, and their masks."""
    rng = np.random.default_rng(0)
    spectra = np.linspace(500, [1000, 2000, 3000], 20).T
    for part in ("cubes", "masks"):
        (folder / part).mkdir(parents=True)
    for number in range(count):
        mask = (np.add.outer(np.arange(48), np.arange(48)) // (20 + number) % 3).astype(np.uint8)
        np.save(folder / "masks" / f"scene-{number:02}.npy", mask)
        cube = spectra[mask] + rng.normal(0, 20, (48, 48, 20))
        np.save(folder / "cubes" / f"scene-{number:02}.npy", cube.round().astype(np.float32))


def tars(folder: Path, source: Path) -> None:
    """Makes two WebDataset tars with ``NAME.jpg`` and ``NAME.cls``."""
    folder.mkdir()
    files = sorted(source.glob("*/*.jpg"))
    for number in range(2):
        with tarfile.open(folder / f"train-{number:06}.tar", "w") as tar:
            for file in files[number::2]:
                tar.add(file, file.name)
                label = b"%d" % sorted(path.name for path in source.iterdir()).index(file.parent.name)
                member = tarfile.TarInfo(f"{file.stem}.cls")
                member.size = len(label)
                tar.addfile(member, io.BytesIO(label))


@page("patches.md")
def patches(folder: Path) -> None:
    scenes(folder / "source")
    sp.pack(folder / "source" / "cubes", folder / "scenes", masks=folder / "source" / "masks", values="keep")


@page("tutorial.md")
def tutorial(folder: Path) -> None:
    photos(folder / "photos")
    scenes(folder / "scenes")


@page("augmentation.md")
def augmentation(folder: Path) -> None:
    photos(folder / "photos")
    scenes(folder / "scenes")
    sp.pack(folder / "scenes" / "cubes", folder / "land", masks=folder / "scenes" / "masks")


@page("alignment.md")
def alignment(folder: Path) -> None:
    """Makes pictures of three rectangles each, with masks, boxes, classes and a caption."""
    rng = np.random.default_rng(0)
    schema = {"image": "image", "mask": "array", "boxes": "array", "classes": "array", "caption": "text"}
    schema |= {"masks": "array", "segmentation": "json"}
    with sp.Writer(folder / "scenes", schema, shuffle=False) as writer:
        for number in range(40):
            mask = np.zeros((128, 160), np.uint8)
            boxes = []
            for kind in range(3):
                left, top = kind * 50 + int(rng.integers(12)), int(rng.integers(90))
                mask[top : top + 30, left : left + 35] = kind + 1
                boxes.append([left, top, 35, 30])
            picture = np.array([[0, 0, 0], [200, 0, 0], [0, 200, 0], [0, 0, 200]], np.uint8)[mask]
            values = {"boxes": np.array(boxes, np.float32), "classes": np.arange(3), "caption": f"scene {number}"}
            corners = [[[x, y, x + w, y, x + w, y + h, x, y + h]] for x, y, w, h in boxes]
            objects = {"masks": np.stack([mask == kind + 1 for kind in range(3)]), "segmentation": corners}
            writer.write({"image": picture, "mask": mask, **values, **objects})


@page("folders.md")
def folders(folder: Path) -> None:
    """Makes animals in class folders of two splits, birds with a table of labels, and streets with masks."""
    photos(folder / "animals" / "train", 60)
    photos(folder / "animals" / "val", 30)
    (folder / "birds" / "night").mkdir(parents=True)
    for number in range(4):
        Image.new("RGB", (40, 30), (number, 0, 0)).save(folder / "birds" / "night" / f"{number:03}.jpg")
    for name in ("images", "labels"):
        (folder / "streets" / name).mkdir(parents=True)
    for number in range(4):
        mask = np.full((90, 120), number, np.uint8)
        Image.fromarray(np.stack([mask] * 3, -1)).save(folder / "streets" / "images" / f"{number}.jpg")
        Image.fromarray(mask).save(folder / "streets" / "labels" / f"{number}.png")


@page("clips.md")
def clips(folder: Path) -> None:
    """Makes folders of 9 to 12 frames in two classes."""
    rng = np.random.default_rng(0)
    for number in range(24):
        clip = folder / "clips" / ("left", "right")[number % 2] / f"{number:03}"
        clip.mkdir(parents=True)
        for frame in range(9 + number % 4):
            pixels = rng.integers(0, 40, (64, 96, 3)) + 8 * frame
            Image.fromarray(pixels.astype(np.uint8)).save(clip / f"{frame}.jpg", quality=90)


@page("growing.md")
def growing(folder: Path) -> None:
    photos(folder / "all")
    for path in sorted((folder / "all").glob("*/*.jpg")):
        week = folder / ("week-0" if int(path.stem) < 60 else "week-1") / path.parent.name
        week.mkdir(parents=True, exist_ok=True)
        path.rename(week / path.name)


@page("../slow.md")
def slow(folder: Path) -> None:
    photos(folder / "photos")
    sp.pack(folder / "photos", folder / "train")


@page("README.md")
def index(folder: Path) -> None:
    photos(folder / "photos")


@page("../../python/README.md")
def package(folder: Path) -> None:
    photos(folder / "photos")


@page("../../README.md")
def readme(folder: Path) -> None:
    """Makes small versions of the datasets in the README. They have only one batch of pictures, because the model is
    large.
    """
    pytest.importorskip("torchvision")
    photos(folder / "photos", 64)
    sp.pack(folder / "photos", folder / "train")
    sp.pack(folder / "photos", folder / "val", seed=1)
    (folder / "scenes").mkdir()
    for number in range(8):
        np.save(folder / "scenes" / f"{number}.npy", np.full((80, 72, 5), number, np.float32))
    sp.pack(folder / "scenes", folder / "cubes")
    tars(folder / "wds", folder / "photos")


@page("coming-from.md")
def coming_from(folder: Path) -> None:
    photos(folder / "photos")
    scenes(folder / "scenes")
    tars(folder / "wds", folder / "photos")


def blocks(text: str) -> Iterator[tuple[int, str, str]]:
    """Yields the line, the code, and the expected output (or nothing) of each Python block."""
    found = list(BLOCK.finditer(text))
    for block, following in zip(found, [*found[1:], None], strict=True):
        if block[1] == "python":
            printed = following and following[1] == "text" and not text[block.end() : following.start()].strip()
            yield text[: block.start()].count("\n") + 2, block[2], following[2] if following and printed else ""


def matches(expected: str, printed: str) -> bool:
    pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
    return re.fullmatch(pattern, printed.strip(), re.S) is not None


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_blocks_of_a_page_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    PAGES[name](tmp_path)
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for line, code, expected in blocks((DOCS / name).read_text()):
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                # Keep the line numbers of the page, so that tracebacks point into it.
                exec(compile("\n" * (line - 1) + code, str(DOCS / name), "exec"), namespace)
        except Exception as error:
            raise AssertionError(f"{name}, block at line {line}: {type(error).__name__}: {error}") from error
        if expected:
            printed = out.getvalue()
            assert matches(expected, printed), f"{name}, line {line}: expected\n{expected}\nfound\n{printed}"


def test_the_index_lists_every_page() -> None:
    index = (DOCS / "README.md").read_text()
    assert [path.name for path in DOCS.glob("*.md") if path.name != "README.md" and f"({path.name})" not in index] == []
    examples = {path.name for path in (DOCS.parents[1] / "python" / "examples").glob("*.py")} - {"bars.py", "rates.py", "timeline.py", "tiny.py", "unet.py"}
    assert {name for name in examples if name not in index} == set()


def test_links_lead_somewhere() -> None:
    for path in DOCS.glob("*.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
            assert link.startswith("http") or (path.parent / link).exists(), f"{path.name}: {link}"
