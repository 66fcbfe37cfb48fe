"""Runs each example of docs/python/trainers.md with the real library, if it is installed."""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_docs import photos

import shardpack as sp

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python" / "trainers.md"
SECTIONS = re.findall(r"^## ([^\n]+)\n.*?^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
NEEDS = {
    "Hugging Face Trainer": ("torch", "transformers", "accelerate"),
    "Ray Data": ("ray.data",),
    "Grain": ("grain",),
    "tf.data": ("tensorflow",),
    "timm": ("torch", "timm"),
    "MONAI": ("torch", "monai"),
    "TorchGeo": ("torch", "torchgeo.models", "torchgeo.transforms"),
}
PRINTS = {
    "Hugging Face Trainer": "10 steps",
    "Ray Data": "48 (3,)",
    "Grain": "(16, 48, 48, 3) (16,)",
    "tf.data": "(16, 64, 64, 3) (16,)",
    "timm": "True",
    "MONAI": "True",
    "TorchGeo": "True",
}


def datasets(folder: Path) -> None:
    """Makes the datasets that the page assumes."""
    photos(folder / "photos", 48)
    sp.pack(folder / "photos", folder / "train")
    rng = np.random.default_rng(0)
    with sp.Writer(folder / "scans", values="keep") as scans:
        for number in range(4):
            scan = rng.normal(0, 100, (20, 48, 40)).astype(np.float32)
            scans.write({"scan": scan, "mask": (scan > 50).astype(np.uint8)}, key=f"{number}")
    with sp.Writer(folder / "scenes", values="keep") as scenes:
        for number in range(4):
            cube = rng.uniform(1, 2, (64, 64, 20)).astype(np.float32)
            scenes.write({"cube": cube, "mask": rng.integers(0, 3, (64, 64), np.uint8)}, key=f"{number}")


def test_every_section_has_one_example() -> None:
    assert [name for name, _ in SECTIONS] == list(NEEDS) == list(PRINTS)


@pytest.mark.parametrize(("name", "code"), SECTIONS, ids=[name for name, _ in SECTIONS])
def test_the_example_runs(name: str, code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for library in NEEDS[name]:
        pytest.importorskip(library, exc_type=ImportError)
    datasets(tmp_path)
    monkeypatch.chdir(tmp_path)
    # Ray sends usage statistics unless they are turned off.
    monkeypatch.setitem(os.environ, "RAY_USAGE_STATS_ENABLED", "0")
    printed, names = io.StringIO(), {"__name__": "example"}
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(code, f"{PAGE.name}: {name}", "exec"), names)
        finally:
            _shut_down(name)
    assert printed.getvalue().strip().splitlines()[-1] == PRINTS[name]


def _shut_down(name: str) -> None:
    if name == "Ray Data":
        ray: Any = pytest.importorskip("ray")
        ray.shutdown()
