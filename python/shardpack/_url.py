"""Checks paths that may be URLs, and converts the options of stores."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from shardpack import _shardpack

_URL = re.compile(r"[A-Za-z][A-Za-z0-9]*://")


def is_url(path: object) -> bool:
    return isinstance(path, str) and _URL.match(path) is not None


def refuse(function: str, *, hint: str = "copy the data to this machine first, or mount the store", **paths: object) -> None:
    """Raise an error for URLs in functions that need local folders."""
    for name, path in paths.items():
        if is_url(path):
            raise _shardpack.UsageError(
                f"{name}: {function} works only with local paths, not with URLs: {_shardpack.plain_urls(str(path))}\n"
                f"hint: {hint}"
            )


def absolute(path: str | os.PathLike[str]) -> str:
    """Return the absolute path, so that it stays valid when the working directory changes. URLs are returned
    unchanged.
    """
    return path if isinstance(path, str) and is_url(path) else os.path.abspath(path)


def settings(options: Mapping[str, Any] | None, **more: object) -> list[tuple[str, str]]:
    """Return the store options as strings (``True`` becomes ``"true"``), plus the options in ``more`` that are not
    ``None``.
    """
    if options is not None and not isinstance(options, Mapping):
        raise TypeError(f"storage_options: expected a mapping from option names to values, found {type(options).__name__}")
    given = {name: value for name, value in more.items() if value is not None}
    for name in given:
        if name in (options or {}):
            raise TypeError(f"{name} is passed twice: as an argument and in storage_options")
    both = {**(options or {}), **given}
    text = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in both.items()}
    return list(text.items())


def store_keywords(
    spool: str | os.PathLike[str] | None, take_over: bool, storage_options: Mapping[str, Any] | None
) -> tuple[str | None, bool, list[tuple[str, str]]]:
    """Return the keywords about a store, as the functions in Rust take them."""
    return None if spool is None else os.fspath(spool), take_over, settings(storage_options)
