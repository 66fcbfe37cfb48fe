"""Columns that are added to a dataset: embeddings and predictions next to the samples."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardpack as sp

pa = pytest.importorskip("pyarrow")

SAMPLES = 20


@pytest.fixture
def dataset(tmp_path: Path) -> sp.Dataset:
    with sp.Writer(tmp_path / "out", shard_size="3KiB") as writer:
        for n in range(SAMPLES):
            pixels = np.full((16, 16, 3), n, np.uint8)
            writer.write({"image": pixels, "note": f"sample {n}", "number": n}, key=f"{n:03}.png")
    return sp.Dataset(tmp_path / "out")


def embeddings(numbers: Any) -> np.ndarray[Any, Any]:
    return (np.asarray(numbers)[:, None] * 10 + np.arange(6)).astype(np.float32).reshape(-1, 2, 3)


def test_arrays_in_the_order_of_the_samples(dataset: sp.Dataset) -> None:
    numbers = dataset.columns["number"]
    files = {path.name: path.read_bytes() for path in Path(dataset.path).glob("*.shard")}
    assert len(files) > 1
    scores = numbers.astype(np.float16) / 4
    grown = dataset.add_columns({"score": scores, "good": numbers > 5, "embedding": embeddings(numbers), "rank": np.arange(20)})
    assert (dataset.generation, grown.generation) == (1, 2)
    assert all((Path(dataset.path) / name).read_bytes() == content for name, content in files.items())
    assert [field.name for field in grown.schema][-4:] == ["score", "good", "embedding", "rank"]
    assert grown.column("score").dtype == np.float16 and (grown.column("score") == scores).all()
    assert grown.columns["good"].dtype == bool and (grown.columns["good"] == (numbers > 5)).all()
    for i in (0, 7, 19):
        sample = grown[i]
        assert (sample["embedding"] == embeddings(numbers)[i]).all() and sample["embedding"].dtype == np.float32
        assert sample["rank"] == i and sample["note"] == f"sample {numbers[i]}"
    assert [one["embedding"][0, 0] for one in grown[[3, 1]]] == [numbers[3] * 10, numbers[1] * 10]
    assert "score" in grown.arrow().column_names and grown.arrow()["rank"].to_pylist() == list(range(20))
    assert grown.nbytes > dataset.nbytes
    best = grown.subset(lambda columns: columns["rank"] < 3)
    assert [sample["rank"] for sample in best] == [0, 1, 2]
    again = pickle.loads(pickle.dumps(grown))
    assert (again[4]["embedding"] == grown[4]["embedding"]).all()
    # The older generation does not change.
    assert "score" not in dataset.columns and "score" not in sp.Dataset(dataset.path, generation=1)[0]
    assert sp.verify(dataset.path, deep=True, digest=True)["problems"] == []


def test_batches_have_the_columns_next_to_the_pictures(dataset: sp.Dataset) -> None:
    numbers = dataset.columns["number"]
    grown = dataset.add_columns({"score": numbers / 8, "embedding": embeddings(numbers)})
    loader = sp.Loader(grown, batch_size=4, image="full", fields=["image", "embedding", "score", "number"], seed=3)
    seen = 0
    for batch in loader:
        numbers = np.asarray(batch["number"])
        assert (np.asarray(batch["embedding"]) == embeddings(numbers)).all()
        assert (np.asarray(batch["score"]) == numbers / 8).all()
        assert (np.asarray(batch["image"])[:, 0, 0, 0] == numbers).all()
        seen += len(numbers)
    assert seen == SAMPLES


def rows(dataset: sp.Dataset, order: Any) -> dict[str, Any]:
    numbers = dataset.columns["number"][order]
    return {"key": [dataset.keys[int(i)] for i in order], "score": numbers / 8, "embedding": embeddings(numbers)}


def lists(dataset: sp.Dataset, order: Any) -> Any:
    given = rows(dataset, order)
    flat = pa.array(given["embedding"].reshape(-1))
    nested = pa.FixedSizeListArray.from_arrays(pa.FixedSizeListArray.from_arrays(flat, 3), 2)
    return pa.table({"score": given["score"], "embedding": nested, "key": given["key"]})


def chunks(dataset: sp.Dataset, order: Any) -> Any:
    return pa.concat_tables([lists(dataset, order[:7]), lists(dataset, order[7:]).slice(0)])


def varying_lists(dataset: sp.Dataset, order: Any) -> Any:
    given = rows(dataset, order)
    return pa.table({"key": given["key"], "score": given["score"], "embedding": given["embedding"].tolist()}).cast(
        pa.schema({"key": pa.string(), "score": pa.float64(), "embedding": pa.list_(pa.list_(pa.float32()))})
    )


def tensors(dataset: sp.Dataset, order: Any) -> Any:
    given = rows(dataset, order)
    return pa.table({**given, "embedding": pa.FixedShapeTensorArray.from_numpy_ndarray(given["embedding"])})


@pytest.mark.parametrize("table", [rows, lists, chunks, varying_lists, tensors])
def test_rows_are_matched_by_key(dataset: sp.Dataset, table: Callable[[sp.Dataset, Any], Any]) -> None:
    order = np.random.default_rng(1).permutation(SAMPLES)
    grown = dataset.add_columns(table(dataset, order))
    numbers = dataset.columns["number"]
    assert (grown.columns["score"] == numbers / 8).all()
    assert all((grown[i]["embedding"] == embeddings(numbers)[i]).all() for i in range(SAMPLES))


def test_a_data_frame_is_a_table(dataset: sp.Dataset) -> None:
    pandas = pytest.importorskip("pandas")
    given = rows(dataset, np.arange(SAMPLES)[::-1])
    frame = pandas.DataFrame({"key": given["key"], "score": given["score"]})
    assert (dataset.add_columns(frame).columns["score"] == dataset.columns["number"] / 8).all()


def test_rows_that_do_not_match_the_samples(dataset: sp.Dataset) -> None:
    keys = list(dataset.keys)
    values = np.arange(SAMPLES)
    for wrong, message in [
        (keys[:-1], f"lacks 1 key (`{keys[-1]}`)"),
        ([*keys[:-1], keys[0]], f"repeats 1 key (`{keys[0]}`)"),
        ([*keys, "new.png"], "has 1 unknown key (`new.png`)"),
    ]:
        with pytest.raises(sp.UsageError) as caught:
            dataset.add_columns({"key": wrong, "score": np.resize(values, len(wrong))})
        assert message in str(caught.value)
    with pytest.raises(sp.UsageError, match="'score': expected 20 values, found 19 values"):
        dataset.add_columns({"score": values[1:]})
    with pytest.raises(sp.UsageError, match="'score': expected 20 values, found one value"):
        dataset.add_columns({"score": 3})
    assert sp.Dataset(dataset.path).generation == 1


def test_values_that_cannot_be_added(dataset: sp.Dataset) -> None:
    for values, message in [
        (["a"] * SAMPLES, "expected numbers, found values of type <U1"),
        (np.zeros(SAMPLES, complex), "expected numbers, found values of type complex128"),
        (pa.array([None] + [1] * 19), "has no value in 1 of 20 rows"),
        (pa.array(["a"] * SAMPLES), "expected numbers, found values of type string"),
        (pa.array([[1]] * 19 + [[1, 2]]), "the lists have between 1 and 2 values"),
        (pa.array([[1, None]] * SAMPLES), "a list has a missing value"),
    ]:
        given = pa.table({"score": values}) if isinstance(values, pa.Array) else {"score": values}
        with pytest.raises(sp.UsageError, match=message):
            dataset.add_columns(given)
    with pytest.raises(TypeError, match="expected an Arrow table, or a mapping from names to arrays, found list"):
        dataset.add_columns([1, 2])  # type: ignore[arg-type]
    for name, message in [("number", "has a field with this name"), ("key", "must contain the keys"), ("index", "is reserved")]:
        with pytest.raises((sp.UsageError, TypeError), match=message):
            dataset.add_columns({name: np.arange(SAMPLES)})
    with pytest.raises(sp.UsageError, match="no columns"):
        dataset.add_columns({})


def test_only_the_newest_generation_of_a_whole_dataset(dataset: sp.Dataset) -> None:
    grown = dataset.add_columns({"score": np.arange(SAMPLES)})
    with pytest.raises(sp.UsageError, match="the values belong to generation 1, but the newest generation is 2"):
        dataset.add_columns({"other": np.arange(SAMPLES)})
    assert grown.add_columns({"other": np.arange(SAMPLES)}).generation == 3
    # A repeated call finds equal columns, also through the generation that it was first called on.
    assert dataset.add_columns({"score": np.arange(SAMPLES)}).generation == 3
    assert grown.add_columns({"key": list(grown.keys)[::-1], "other": np.arange(SAMPLES)[::-1]}).generation == 3
    with pytest.raises(sp.UsageError, match="`other`: generation 3 has a field with this name"):
        sp.Dataset(grown.path).add_columns({"other": np.arange(SAMPLES) + 1})
    for part in (grown.subset([1, 2]), sp.concat([grown, grown]), sp.Dataset(Path(grown.path) / "shard-00000.shard")):
        with pytest.raises(sp.UsageError, match="expected a whole dataset, found a"):
            part.add_columns({"third": np.arange(len(part))})


def test_samples_are_removed_but_not_added(dataset: sp.Dataset) -> None:
    numbers = dataset.columns["number"]
    grown = dataset.add_columns({"score": numbers / 8, "embedding": embeddings(numbers)})
    with pytest.raises(sp.UsageError, match="columns that were added later"):
        sp.Writer(grown.path, append=True)
    with pytest.warns(UserWarning, match="all shards were rewritten"):
        report = sp.remove(grown.path, [grown.keys[2]])
    assert report["generation"] == 3
    newest = sp.Dataset(grown.path)
    numbers = newest.columns["number"]
    assert (newest.columns["score"] == numbers / 8).all() and len(newest) == SAMPLES - 1
    assert all((sample["embedding"] == embeddings([sample["number"]])[0]).all() for sample in newest)
    # A program cannot append values for fields that no program has declared.
    with pytest.raises(sp.UsageError, match="cannot create values for its field `score`"):
        sp.Writer(grown.path, append=True)
    assert sp.verify(grown.path, deep=True)["problems"] == []
