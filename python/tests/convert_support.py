"""Functions shared by the tests of `convert` and `export`. They make pictures, and return the content of a dataset by
key.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack as sp
from shardpack.export._samples import added

pil = pytest.importorskip("PIL.Image")


def jpeg(seed: int, width: int = 40, height: int = 24) -> bytes:
    """Returns a small JPEG that differs for each seed."""
    return picture(seed, "JPEG", width, height)


def picture(seed: int, format: str, width: int = 40, height: int = 24) -> bytes:
    out = io.BytesIO()
    pil.fromarray(pixels(seed, width, height)).save(out, format)
    return out.getvalue()


def pixels(seed: int, width: int = 40, height: int = 24) -> np.ndarray[Any, Any]:
    """Returns uint8 pixels `[height, width, 3]` that differ for each seed."""
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def content(dataset: Any, *raw: str) -> dict[str, dict[str, Any]]:
    """Returns the values of every sample by key. Fields in `raw` are returned as stored bytes."""
    dataset = sp.Dataset(dataset) if isinstance(dataset, (str, Path)) else dataset
    found = {}
    for index in range(len(dataset)):
        sample = dict(dataset[index])
        key = sample.pop("__key__")
        found[key] = sample | {name: bytes(dataset.raw(index, name)) for name in raw}
    return found


def kinds(path: Path) -> dict[str, str]:
    """Returns the kind of each field (the type for numbers), without the columns that the writer adds."""
    dataset = sp.Dataset(path)
    ours = added(dataset)
    return {field.name: str(field.dtype or field.kind) for field in dataset.schema if field.name not in ours}


CHILD = """
import importlib, json, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (60, 60))
module, src, options, memory = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_AS, (int(memory), int(memory)))
try:
    for item in importlib.import_module(f"shardpack.convert.{module}").open(src, **json.loads(options)).items:
        print(getattr(item, "message", None) or f"sample {item.key}")
except ValueError as error:
    print(error)
"""


def bounded(module: str, src: Path, memory: int = 3 << 30, **options: Any) -> str:
    """Opens a source in a process with limited memory. Returns the keys of its samples and its errors, line by line."""
    pytest.importorskip("resource")
    command = [sys.executable, "-c", CHILD, module, str(src), json.dumps(options), str(memory)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    # Limit the wall time too, because waiting for a pipe uses no CPU time.
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout
