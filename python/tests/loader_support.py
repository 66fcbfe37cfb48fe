"""Common code of the tests of loaders."""

from __future__ import annotations

import shardpack as sp


def keys(loader: sp.Loader) -> list[str]:
    """The keys of one iteration."""
    return [key for batch in loader for key in batch.sample_keys]
