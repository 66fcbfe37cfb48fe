"""Tests the size limits for files, and that Python and the command have the same defaults."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

import shardpack as sp
from shardpack import _shardpack


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Packs four cubes of 768 KiB each, which compress well."""
    out = tmp_path_factory.mktemp("limits") / "large"
    with sp.Writer(out, codec="blosc2-zstd", values="keep") as writer:
        for number in range(4):
            rows = np.arange(256, dtype=np.int16)[:, None, None] + np.zeros((1, 256, 6), np.int16)
            writer.write({"cube": rows + number, "number": number}, key=f"{number}")
    return out


def test_the_defaults_are_those_of_the_command() -> None:
    defaults = [inspect.signature(of).parameters["max_record"].default for of in (sp.Dataset, sp.verify)]
    assert [_shardpack.size(default) for default in defaults] == [_shardpack.MAX_RECORD_BYTES] * 2 == [4 << 30] * 2
    assert inspect.signature(sp.Loader).parameters["max_batch"].default == "8GiB"


def test_a_field_over_the_limit_is_named_with_the_argument(large: Path) -> None:
    small = sp.Dataset(large, max_record="512KiB")
    expected = "over the limit `max_[a-z_]+`: .*\nhint: raise `max_record` if you trust"
    for refused in (small, pickle.loads(pickle.dumps(small)), small.subset([0, 1]), sp.concat([small])):
        with pytest.raises(sp.LimitError, match=expected):
            refused[0]
    with pytest.raises(sp.LimitError, match=expected):
        list(sp.Loader(small, 2))
    assert sp.Dataset(large, max_record=1 << 20)[0]["cube"].shape == (256, 256, 6)
    assert sp.verify(large, deep=True)["whole"]
    report = sp.verify(large, deep=True, max_record="512KiB")
    assert not report["whole"] and len(report["problems"]) == 4


def test_a_part_counts_by_its_own_size(large: Path) -> None:
    whole, small = sp.Dataset(large), sp.Dataset(large, max_record="512KiB")
    for options in ({"cube": "patch64x64"}, {"cube": "cycle100x100"}, {"cube": "center8x8", "bands": [1]}, {"bands": "0..2"}):
        both = zip(sp.Loader(small, 2, **options), sp.Loader(whole, 2, **options), strict=True)  # type: ignore[arg-type]
        assert [np.array_equal(one["cube"], other["cube"]) for one, other in both] == [True, True]
    # A patch that exceeds the limit is refused.
    with pytest.raises(sp.LimitError, match="raise `max_record`"):
        list(sp.Loader(small, 2, cube="patch250x250"))


def test_a_batch_over_the_limit_is_named_with_the_argument(large: Path) -> None:
    dataset = sp.Dataset(large)
    with pytest.raises(sp.UsageError, match="but the limit is 1048576\n(.|\n)*raise `max_batch`"):
        sp.Loader(dataset, 2, max_batch="1MiB")
    loader = sp.Loader(dataset, 2, max_batch=2 << 20)
    assert len(list(loader)) == len(list(copy.copy(loader))) == 2


def test_a_child_of_a_fork_opens_it_with_the_same_limits(large: Path) -> None:
    small = sp.Dataset(large, max_record="512KiB")
    child = os.fork()
    if child == 0:
        try:
            small[0]
        except sp.LimitError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("value", ["much", "", "-1", "0"])
def test_sizes_are_checked(large: Path, value: str) -> None:
    with pytest.raises(sp.UsageError, match="max_record: .*(expected|above 0)"):
        sp.Dataset(large, max_record=value)
    with pytest.raises(sp.UsageError, match="max_batch: .*(expected|above 0)"):
        sp.Loader(sp.Dataset(large), 1, max_batch=value)


def test_sizes_are_numbers_or_text(large: Path) -> None:
    for wrong in (1.5, None, True, b"4GiB"):
        with pytest.raises(TypeError, match="max_record: expected a number of bytes, or a string such as"):
            sp.Dataset(large, max_record=wrong)  # type: ignore[arg-type]
    for wrong in (0, -1, 1 << 64):
        with pytest.raises(sp.UsageError, match=r"max_record: expected a size from 1 to 2\^63 bytes"):
            sp.Dataset(large, max_record=wrong)
    assert len(sp.Dataset(large, max_record=np.int64(4096))) == 4
