"""Tests the Apache Arrow table of the keys and columns of a dataset."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import shardpack as sp
from shardpack import _arrow

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def dataset(tmp_path: Path) -> sp.Dataset:
    with sp.Writer(tmp_path / "letters", classes=["a", "b"]) as writer:
        for number in range(20):
            writer.write({"text": "x", "label": number % 2, "score": number / 4}, key=f"s/{number:02}")
    return sp.Dataset(tmp_path / "letters")


def test_a_filtered_table_selects_a_subset(dataset: sp.Dataset) -> None:
    import pyarrow.compute as pc

    table = dataset.arrow()
    assert table.column_names == ["index", "key", "class", *dataset.columns]
    assert table["key"].to_pylist() == list(dataset.keys)
    numbers = [int(key[2:]) for key in dataset.keys]
    assert table["class"].to_pylist() == ["ab"[number % 2] for number in numbers]
    assert table["score"].to_pylist() == [number / 4 for number in numbers]
    chosen = table.filter((pc.field("class") == "b") & (pc.field("score") > 2))
    subset = dataset.subset(chosen["index"].to_numpy())
    assert list(subset.keys) == chosen["key"].to_pylist() and len(subset) == 6
    inner = subset.arrow()
    assert inner["index"].to_pylist() == list(range(6)) and inner["key"].to_pylist() == list(subset.keys)


def test_labels_without_a_name_are_null() -> None:
    assert _arrow._names(np.array([0, -1, 1]), ["a"]).to_pylist() == ["a", None, None]


def test_a_column_of_a_taken_name_is_an_error(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "taken") as writer:
        writer.write({"index": 5})
    with pytest.raises(sp.UsageError, match="column 'index'"):
        sp.Dataset(tmp_path / "taken").arrow()


def test_without_pyarrow_the_error_says_how_to_install_it(dataset: sp.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(sp.UsageError, match="pip install pyarrow"):
        dataset.arrow()
