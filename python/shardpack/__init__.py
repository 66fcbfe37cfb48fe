"""Shardpack stores a dataset in a few large shards, and its loader feeds a training loop from them.

>>> import shardpack as sp
>>> dataset = sp.Dataset("train")                                                            # doctest: +SKIP
>>> options = {"image": "rrc224", "layout": "chw", "fields": ["image", "label"], "to": "torch"}
>>> for images, labels in sp.Loader(dataset, batch_size=256, **options):                     # doctest: +SKIP
...     loss = criterion(model(images.float() / 255), labels)
"""

import importlib
from typing import TYPE_CHECKING

from shardpack import _start

if _start.is_command():
    # The imports below are slow, so prepare for Ctrl-C before them. Only the command does this: a program that
    # imports the package keeps its own Ctrl-C handler.
    _start.end_at_once()

from shardpack import align, augment, presets, view
from shardpack._batch import Batch, Ragged
from shardpack._concat import Concat, concat
from shardpack._dataset import Dataset, Field, Sample, Subset
from shardpack._grow import AddOptions, add, compact, remove
from shardpack._index import Indices
from shardpack._loader import Loader, Shuffle, Weights
from shardpack._pack import PackOptions, StorageOptions, merge, pack, plan, verify
from shardpack._report import Report, ReportOptions, report
from shardpack._shardpack import FormatError, KnownKeyError, LimitError, RepeatedKeyError, UsageError, __version__
from shardpack._stitch import Scene, Stitcher, stitch
from shardpack._transform import Row
from shardpack._views import Views
from shardpack._writer import Writer
from shardpack.convert import SourceError, convert
from shardpack.export import export

__all__ = [
    "AddOptions",
    "Batch",
    "Concat",
    "Dataset",
    "Field",
    "FormatError",
    "Indices",
    "KnownKeyError",
    "LimitError",
    "Loader",
    "PackOptions",
    "Ragged",
    "RepeatedKeyError",
    "Report",
    "ReportOptions",
    "Row",
    "Sample",
    "Scene",
    "Shuffle",
    "SourceError",
    "Stitcher",
    "StorageOptions",
    "Subset",
    "UsageError",
    "Views",
    "Weights",
    "Writer",
    "__version__",
    "add",
    "align",
    "augment",
    "compact",
    "concat",
    "convert",
    "export",
    "merge",
    "pack",
    "plan",
    "presets",
    "remove",
    "report",
    "stitch",
    "verify",
    "view",
]

if TYPE_CHECKING:
    from shardpack import torch as torch
else:

    def __getattr__(name):
        # `shardpack.torch` imports PyTorch, so load it only on first use.
        if name == "torch":
            return importlib.import_module("shardpack.torch")
        raise AttributeError(f"module 'shardpack' has no attribute {name!r}")
