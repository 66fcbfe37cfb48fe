"""Tests `add`, `remove` and `compact` from Python, and the generations of a dataset."""

from __future__ import annotations

import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import shardpack as sp
from shardpack import _shardpack
from shardpack._command import run
from shardpack._keywords import types_of


def photos(folder: Path, names: list[str]) -> Path:
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng([number, len(names)])
        Image.fromarray(random.integers(0, 256, (40, 40, 3), np.uint8)).save(path, quality=90)
    return folder


@pytest.fixture
def grown(tmp_path: Path) -> Path:
    """Packs six photos of two classes, then adds four photos, one of which has a new class."""
    sp.pack(photos(tmp_path / "first", [f"{'ab'[i % 2]}/{i}.jpg" for i in range(6)]), tmp_path / "out")
    report = sp.add(tmp_path / "out", photos(tmp_path / "week", [f"{'ab0'[i % 3]}/w{i}.jpg" for i in range(4)]))
    assert (report["samples"], report["samples_of_dataset"], report["generation"]) == (4, 10, 2)
    assert report["new_classes"] == ["0"]
    return tmp_path / "out"


def test_the_table_of_options_is_the_typed_dict() -> None:
    assert set(types_of(sp.AddOptions)) == set(_shardpack.option_names("add"))
    with pytest.raises(TypeError, match="did you mean 'on_known_key'"):
        sp.add("a", "b", on_known_keys="skip")  # type: ignore[call-arg]


def test_generations_are_opened_by_number(grown: Path) -> None:
    first, newest = sp.Dataset(grown, generation=1), sp.Dataset(grown)
    assert (len(first), first.generation, first.classes) == (6, 1, ["a", "b"])
    assert (len(newest), newest.generation, newest.classes) == (10, 2, ["a", "b", "0"])
    for key, label in [("a/0.jpg", 0), ("b/1.jpg", 1), ("0/w2.jpg", 2)]:
        assert newest[newest.index_of(key)]["label"] == label
    with pytest.raises(sp.UsageError, match="has no generation 3: the newest is 2"):
        sp.Dataset(grown, generation=3)
    with pytest.raises(ValueError, match="expected a positive integer"):
        sp.Dataset(grown, generation=0)
    with pytest.raises(sp.UsageError, match="cannot open generation 1 of .*, which is a file: only the folder of a dataset has generations"):
        sp.Dataset(grown / "manifest.json", generation=1)
    for generation in (1, 2, None):
        report = sp.verify(grown, deep=True, digest=True, generation=generation)
        assert report["whole"], report["problems"]


def test_the_command_exports_a_generation(grown: Path, tmp_path: Path) -> None:
    for options, count in (([], 10), (["--generation", "1"], 6)):
        out = tmp_path / f"tars of {count}"
        assert run(["export", str(grown), "webdataset", str(out), *options]) == 0
        tars = [tarfile.open(path) for path in sorted(out.glob("*.tar"))]
        assert len([name for tar in tars for name in tar.getnames() if name.endswith(".jpg")]) == count


def test_a_table_with_a_column_of_keys_of_its_own(tmp_path: Path) -> None:
    first, week = photos(tmp_path / "first", ["a.jpg"]), photos(tmp_path / "week", ["b.jpg"])
    for name, rows in (("first", "photo,id\na.jpg,1\n"), ("week", "scan,id\nb.jpg,2\n")):
        (tmp_path / f"{name}.csv").write_text(rows)
    sp.pack(first, tmp_path / "out", labels=tmp_path / "first.csv", key_column="photo")
    with pytest.raises(sp.UsageError, match='the table has no column `photo` for the keys; .*\nhint: pass `key_column=NAME` to select another column'):
        sp.add(tmp_path / "out", week, labels=tmp_path / "week.csv")
    sp.add(tmp_path / "out", week, labels=tmp_path / "week.csv", key_column="scan")
    assert sorted(sp.Dataset(tmp_path / "out").columns["id"]) == [1, 2]


def test_a_pickle_means_the_generation_that_was_open(grown: Path, tmp_path: Path) -> None:
    pickled = pickle.dumps(sp.Dataset(grown))
    sp.add(grown, photos(tmp_path / "more", ["a/more.jpg"]))
    again = pickle.loads(pickled)
    assert (again.generation, len(again)) == (2, 10)
    assert pickle.loads(pickle.dumps(sp.Dataset(grown, generation=1))).generation == 1


def test_a_pickle_of_a_manifest_means_it_too(grown: Path, tmp_path: Path) -> None:
    pickled = pickle.dumps(sp.Dataset(grown / "manifest.json"))
    sp.add(grown, photos(tmp_path / "more", ["a/more.jpg"]))
    again = pickle.loads(pickled)
    assert (again.generation, len(again)) == (2, 10)


def test_a_generation_of_the_same_number_is_not_taken_for_another(grown: Path, tmp_path: Path) -> None:
    opened = sp.Dataset(grown)
    pickled = pickle.dumps(opened)
    with sp.Loader(opened, 2, image="rrc32", threads=1) as running:
        next(iter(running))
        state = running.state_dict()
    # Pack the same files again, and add four other files, so that the id, the generation and the counts are the same.
    sp.pack(tmp_path / "first", grown, force=True)
    sp.add(grown, photos(tmp_path / "other", [f"{'ab0'[i % 3]}/x{i}.jpg" for i in range(4)]))
    other = sp.Dataset(grown)
    assert (other.id, other.generation, len(other)) == (opened.id, 2, 10)
    with sp.Loader(other, 2, image="rrc32", threads=1) as running, pytest.raises(sp.UsageError, match="fingerprint"):
        running.load_state_dict(state)
    with pytest.raises(sp.UsageError, match="was packed again"):
        pickle.loads(pickled)


def test_a_dataset_that_shrinks_while_it_is_verified_is_whole(grown: Path) -> None:
    seen = []

    def shrink(progress: dict[str, int]) -> None:
        if not seen:
            sp.remove(grown, ["a/0.jpg"])
        seen.append(progress)

    report = sp.verify(grown, progress=shrink)
    assert seen and sp.Dataset(grown).generation == 3
    assert (report["whole"], report["samples"]) == (True, 10), report["problems"]


def test_a_state_belongs_to_a_generation(grown: Path) -> None:
    def loader(generation: int) -> sp.Loader:
        return sp.Loader(sp.Dataset(grown, generation=generation), 2, image="rrc32", threads=1)

    states = []
    for generation in (1, 2):
        with loader(generation) as running:
            next(iter(running))
            states.append(running.state_dict())
    assert "generation" not in states[0] and states[1]["generation"] == 2
    for state, generation in [(states[0], 2), (states[1], 1)]:
        with loader(generation) as other, pytest.raises(
            sp.UsageError, match=f"the state is from generation {3 - generation}, but the dataset is at generation {generation}"
        ):
            other.load_state_dict(state)
    # The fingerprint must differ too, because some programs compare only the fingerprint.
    with loader(2) as other, pytest.raises(sp.UsageError, match="fingerprint"):
        other.load_state_dict({**states[0], "generation": 2})
    with loader(2) as same:
        same.load_state_dict(states[1])
        assert sum(len(batch) for batch in same) == 8


def test_keys_that_are_there(grown: Path, tmp_path: Path) -> None:
    both = photos(tmp_path / "both", ["a/0.jpg", "a/new.jpg"])
    with pytest.raises(sp.UsageError, match="1 of 2 new samples .* `a/0.jpg`"):
        sp.add(grown, both)
    report = sp.add(grown, both, on_known_key="skip")
    assert (report["samples"], report["known"]) == (1, 1)
    assert sp.add(grown, both, on_known_key="skip")["outcome"] == "already-complete"


def test_removed_and_compacted(grown: Path) -> None:
    with pytest.raises(sp.UsageError, match="1 of 2 keys are not in the dataset, so nothing was removed: `a/zzz.jpg`"):
        sp.remove(grown, ["a/0.jpg", "a/zzz.jpg"])
    with pytest.raises(TypeError, match="expected a sequence of keys"):
        sp.remove(grown, "a/0.jpg")
    assert sp.remove(grown, ["a/0.jpg"])["generation"] == 3
    newest = sp.Dataset(grown)
    assert len(newest) == 9
    with pytest.raises(KeyError):
        newest.index_of("a/0.jpg")
    holding = [path for path in grown.iterdir() if b"a/0.jpg" in path.read_bytes()]
    assert holding
    gone = sp.compact(grown)
    assert gone["generations"] == [1, 2] and gone["bytes"] > 0
    assert not [path for path in grown.iterdir() if b"a/0.jpg" in path.read_bytes()]
    assert sp.verify(grown, deep=True, digest=True)["whole"]
    with pytest.raises(sp.UsageError, match="compact"):
        sp.Dataset(grown, generation=1)


def test_what_a_program_wrote_is_not_added_to(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out") as writer:
        writer.write({"text": "a"}, key="a")
    with pytest.raises(sp.UsageError, match="was not packed from a folder"):
        sp.add(tmp_path / "out", photos(tmp_path / "week", ["a.jpg"]))


def test_masks_are_not_left_out(tmp_path: Path) -> None:
    def masks(folder: Path, names: list[str]) -> Path:
        folder.mkdir()
        for name in names:
            Image.fromarray(np.full((40, 40), 7, np.uint8)).save(folder / f"{name}.png")
        return folder

    first, week = photos(tmp_path / "first", ["0.jpg", "1.jpg"]), photos(tmp_path / "week", ["2.jpg", "3.jpg"])
    sp.pack(first, tmp_path / "out", masks=masks(tmp_path / "masks", ["0", "1"]))
    with pytest.raises(sp.UsageError, match="2 of 2 new samples have none.*\nhint: pass a mask for each new sample with `masks=DIR`"):
        sp.add(tmp_path / "out", week)
    sp.add(tmp_path / "out", week, masks=masks(tmp_path / "week-masks", ["2", "3"]))
    assert all((sample["mask"] == 7).all() for sample in sp.Dataset(tmp_path / "out"))


def test_urls_are_refused_in_words(tmp_path: Path) -> None:
    for call, hint in (
        (lambda: sp.report("s3://bucket/train"), "copy the data to this machine first"),
    ):
        with pytest.raises(sp.UsageError, match=rf"works only with local paths, not with URLs: s3://.*\nhint: .*{hint}"):
            call()
