"""Shardpack: a dataset in a few large shards, and a loader that feeds a training loop from them.

>>> import shardpack as sp
>>> dataset = sp.Dataset("train")                      # doctest: +SKIP
>>> for batch in sp.Loader(dataset, batch_size=256):   # doctest: +SKIP
...     images, labels = batch["image"], batch["label"]
"""

from shardpack._dataset import Dataset
from shardpack._pack import merge, pack, verify
from shardpack._shardpack import FormatError, LimitError, UsageError, __version__
from shardpack._writer import Writer
from shardpack.convert import SourceError, convert
from shardpack.export import export

__all__ = [
    "Dataset",
    "FormatError",
    "LimitError",
    "SourceError",
    "UsageError",
    "Writer",
    "__version__",
    "convert",
    "export",
    "merge",
    "pack",
    "verify",
]
