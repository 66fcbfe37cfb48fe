"""Runs the examples in the docstrings of the package."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest

import shardpack

MODULES = sorted(module.name for module in pkgutil.walk_packages(shardpack.__path__, "shardpack.") if "__main__" not in module.name)


@pytest.mark.parametrize("name", ["shardpack", *MODULES])
def test_examples_of_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        module = importlib.import_module(name)
    except ImportError as error:
        if (error.name or "").startswith("shardpack"):
            raise
        pytest.skip(f"could not import {error.name!r}")
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).failed == 0
