"""Tests batches with arrays of several lengths, missing values, and samples of a subset."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import shardpack as sp


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    """Writes 20 samples with 0 to 3 tokens. Every fifth sample has no `depth`."""
    out = tmp_path_factory.mktemp("odd") / "odd"
    with sp.Writer(out, {"depth": "array:float32", "tokens": "array:int32", "number": "int64"}) as writer:
        for number in range(20):
            tokens = np.full(number % 4, number, np.int32)
            depth = None if number % 5 == 0 else np.full((2, 3), number, np.float32)
            writer.write({"tokens": tokens, "depth": depth, "number": number}, key=f"{number:02}")
    return sp.Dataset(out)


@pytest.mark.parametrize("to", ["numpy", "torch"])
def test_arrays_of_several_lengths_come_as_a_list(odd: sp.Dataset, to: str) -> None:
    if to == "torch":
        pytest.importorskip("torch")
    seen = 0
    for batch in sp.Loader(odd, 8, end="pad", to=to):  # type: ignore[arg-type]
        assert list(batch.keys())[:3] == ["depth", "tokens", "number"]
        for real, number, tokens in zip(batch.mask, batch["number"], batch["tokens"], strict=True):
            assert (tokens is not None) == bool(real)
            if real:
                assert tuple(tokens.shape) == (int(number) % 4,) and bool((tokens == int(number)).all())
                seen += 1
    assert seen == 20


def test_patches_and_names_do_without_them(odd: sp.Dataset) -> None:
    (batch, *_) = sp.Loader(odd, 8, fields=["number"])
    assert list(batch.keys()) == ["number"]
    with pytest.raises(sp.UsageError, match="fields: 'number' is listed more than once"):
        sp.Loader(odd, 8, fields=["number", "number"])


def test_a_missing_value_is_told_from_zeros(odd: sp.Dataset) -> None:
    for batch in sp.Loader(odd, 8, end="pad"):
        there = (batch["number"] % 5 != 0) & batch.mask
        assert batch.present("depth").tolist() == there.tolist()
        assert not batch["depth"][~there].any()
        assert batch.present("tokens").tolist() == batch.mask.tolist()
    with pytest.raises(KeyError, match="the batch has no field deep; its fields are depth"):
        batch.present("deep")


def test_indices_count_in_the_subset(odd: sp.Dataset) -> None:
    subset = odd.subset(lambda columns: columns["number"] % 3 == 0)
    for batch in sp.Loader(subset, 4, end="pad"):
        for real, index, key in zip(batch.mask, batch.indices, batch.sample_keys, strict=True):
            assert (index == -1) == (not real)
            if real:
                assert subset[int(index)]["__key__"] == key


def test_lists_of_tensors_move_with_the_batch(odd: sp.Dataset) -> None:
    pytest.importorskip("torch")
    (batch, *_) = sp.Loader(odd, 8, to="torch")
    moved = batch.to("meta")
    assert {str(tokens.device) for tokens in moved["tokens"]} == {"meta"} == {str(moved["depth"].device)}


def test_a_program_may_go_to_another_folder(
    odd: sp.Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(odd.path.parent)
    there = sp.Dataset("odd")
    assert (str(there.path), repr(there).startswith("Dataset('odd'")) == ("odd", True)
    monkeypatch.chdir(tmp_path)
    copy = pickle.loads(pickle.dumps(there))
    assert copy[3]["number"] == there[3]["number"]
    with sp.Writer("out") as writer:
        writer.write({"x": 1})
        monkeypatch.chdir("/")
    assert len(sp.Dataset(tmp_path / "out")) == 1


def test_classes_are_weighed_by_label_or_by_name(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out", classes=["cat", "dog"]) as writer:
        for number in range(40):
            writer.write({"number": number, "label": number % 2})
    dataset = sp.Dataset(tmp_path / "out")
    by_label, by_name = (
        [key for batch in sp.Loader(dataset, 8, weights=weights) for key in batch.sample_keys]  # type: ignore[arg-type]
        for weights in ({0: 1.0, 1: 3.0}, {"cat": 1.0, "dog": 3.0})
    )
    assert by_label == by_name
    with pytest.raises(sp.UsageError, match="has no class 'dug'\nhint: did you mean 'dog'"):
        sp.Loader(dataset, 8, weights={"dug": 1.0})
    with pytest.raises(TypeError, match="concat: dataset 1 must be a shardpack.Dataset, but is a str"):
        sp.concat([dataset, "out"])  # type: ignore[list-item]


def test_a_masked_array_is_refused(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out") as writer:
        writer.write({"x": np.zeros(3)})
        with pytest.raises(TypeError, match=r"field 'x': masked arrays cannot be stored\nhint: fill"):
            writer.write({"x": np.ma.masked_array(np.zeros(3), [True, False, False])})
    assert len(sp.Dataset(tmp_path / "out")) == 1


def test_element_types_of_other_libraries(odd: sp.Dataset) -> None:
    torch = pytest.importorskip("torch")
    (batch, *_) = sp.Loader(odd, 8, dtype={"depth": torch.float64})
    assert batch["depth"].dtype == np.float64
    with pytest.raises(TypeError, match="dtype: expected an element type"):
        sp.Loader(odd, 8, dtype="half-ish")


def test_bands_that_are_none(odd: sp.Dataset) -> None:
    with pytest.raises(sp.UsageError, match=r"bands: slice\(5, 5, None\) selects no bands"):
        sp.Loader(odd, 8, bands=slice(5, 5))


def test_jax_gets_integers_unchanged_or_not_at_all(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    for name, large in (("small", 7), ("large", 2**40)):
        with sp.Writer(tmp_path / name) as writer:
            writer.write({"number": large})
    (batch,) = sp.Loader(sp.Dataset(tmp_path / "small"), 1, to="jax")
    assert batch["number"].tolist() == [7]
    (batch,) = sp.Loader(sp.Dataset(tmp_path / "large"), 1, to="jax")
    with pytest.raises(sp.UsageError, match="jax_enable_x64"):
        batch["number"]


def test_the_state_of_a_loader_is_checked(odd: sp.Dataset) -> None:
    loader = sp.Loader(odd, 8)
    state = json.loads(json.dumps(loader.state_dict()))
    for name, bad in (("epoch", -1), ("epoch", "1"), ("samples_consumed", 2**70), ("fingerprint", 3)):
        with pytest.raises(ValueError, match="loader state"):
            loader.load_state_dict(state | {name: bad})
    for bad, said in ((json.dumps(state), "expected a dict, found str\nhint: parse the text"), ([], "found list"), ({}, "but has nothing")):
        with pytest.raises(ValueError, match=f"loader state: .*{said}"):
            loader.load_state_dict(bad)  # type: ignore[arg-type]
    loader.load_state_dict(state)
