"""Functions shared by the tests of the loader."""

from __future__ import annotations

import shardpack as sp


def keys(loader: sp.Loader) -> list[str]:
    return [key for batch in loader for key in batch.sample_keys]
