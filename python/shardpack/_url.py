"""URLs of datasets, and the options of their stores."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from shardpack import _shardpack

_URL = re.compile(r"[A-Za-z][A-Za-z0-9]*://")


def is_url(path: object) -> bool:
    """Whether it is the URL of a place in a store, as text."""
    return isinstance(path, str) and _URL.match(path) is not None


_MANUAL = "(docs/stores.md, \"Changing a dataset in a store\")"
COPY_AND_SEND = f"copy the dataset here, change the copy, and send what is new back, `manifest.json` last {_MANUAL}"
"""What to do about the URL of a dataset that gets other samples."""
COPY_AND_DELETE = f"copy the dataset here, compact the copy, and delete in the store what it has no longer, manifests first {_MANUAL}"
"""What to do about the URL of a dataset of which older generations go."""


def refuse(function: str, *, hint: str = "copy it here first, or mount the store", **paths: object) -> None:
    """Refuses URLs where folders of this machine are expected. ``hint`` says what to do instead."""
    for name, path in paths.items():
        if is_url(path):
            raise _shardpack.UsageError(
                f"{name}: expected a folder of this machine, with which {function} works, found the URL "
                f"{_shardpack.plain_urls(str(path))}\n"
                f"hint: {hint}"
            )


def absolute(path: str | os.PathLike[str]) -> str:
    """The path from the root, which holds also once the program has gone to another folder; a URL as it is."""
    return path if isinstance(path, str) and is_url(path) else os.path.abspath(path)


def settings(options: Mapping[str, Any] | None, **more: object) -> list[tuple[str, str]]:
    """Options of a store as text: ``True`` is ``"true"``. Of those in ``more``, what is not ``None`` counts too."""
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"storage_options: expected a mapping from names to values, found {type(options).__name__}")
    given = {name: value for name, value in more.items() if value is not None}
    for name in given:
        if name in (options or {}):
            raise TypeError(f"{name}: given twice, as an argument and in storage_options")
    both = {**(options or {}), **given}
    text = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in both.items()}
    return list(text.items())
