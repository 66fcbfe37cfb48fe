"""Tests conversion of LeRobot datasets, against the layouts of versions 2.1 and 3.0 and, if it is installed, against
LeRobot itself.
"""

from __future__ import annotations

import inspect
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import command
from convert_support import bounded, content, jpeg, kinds
from lerobot_support import (
    CAMERA, FPS, TASKS, info, png, rows, shown, state, write_json, write_lerobot, write_lines, write_table, write_video,
)  # fmt: skip

import shardpack as sp

pytest.importorskip("pyarrow")
VERSIONS = ["v2.1", "v3.0"]
LENGTHS = (5, 3, 4)


def data_file(root: Path, episode: int = 0) -> Path:
    """Returns the data file of an episode, in either layout."""
    old = root / f"data/chunk-000/episode_{episode:06d}.parquet"
    return old if old.exists() else root / f"data/chunk-000/file-{episode // 2:03d}.parquet"


def video_file(root: Path, episode: int = 0) -> Path:
    old = root / f"videos/chunk-000/{CAMERA}/episode_{episode:06d}.mp4"
    return old if old.exists() else root / f"videos/{CAMERA}/chunk-000/file-{episode // 2:03d}.mp4"


def edit_info(root: Path, **changes: Any) -> None:
    file = root / "meta" / "info.json"
    write_json(root, json.loads(file.read_text()) | changes)


def refused(root: Path, out: Path, **options: Any) -> str:
    with pytest.raises(sp.SourceError) as caught:
        sp.convert("lerobot", root, out, **options)
    assert not out.exists() or not list(out.iterdir())
    return str(caught.value)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("camera", ["image", "video"])
def test_each_episode_becomes_a_clip_with_its_arrays_and_task(version: str, camera: str, tmp_path: Path) -> None:
    if camera == "video":
        pytest.importorskip("av")
    write_lerobot(tmp_path / "in", version, LENGTHS, camera)
    report = sp.convert("lerobot", tmp_path / "in", tmp_path / "out")
    assert report["samples"] == 3
    assert report["kinds"] == {
        CAMERA: "frames", "observation.state": "array:float32", "action": "array:float32", "next.done": "array:bool",
        "timestamp": "array:float32", "frame_index": "array:int64", "episode_index": "int64", "index": "array:int64",
        "task_index": "array:int64", "task": "text",
    }  # fmt: skip
    found = content(tmp_path / "out")
    assert sorted(found) == [f"episode_{episode:06d}" for episode in range(3)]
    first = 0
    for episode, length in enumerate(LENGTHS):
        sample = found[f"episode_{episode:06d}"]
        assert sample["observation.state"].dtype == np.float32
        assert sample["observation.state"].tolist() == [state(episode, frame) for frame in range(length)]
        assert sample["action"].tolist() == [state(episode, frame + 1) for frame in range(length)]
        assert sample["next.done"].dtype == np.bool_ and sample["next.done"].tolist() == [False] * (length - 1) + [True]
        assert sample["index"].tolist() == list(range(first, first + length))
        assert sample["timestamp"].dtype == np.float32
        assert sample["episode_index"] == episode and sample["task"] == TASKS[episode % 2]
        assert sample[CAMERA].shape == (length, 48, 64, 3)
        # Every frame must be nearer to its own picture than to its neighbours, so that none is shifted.
        for frame in range(length):
            errors = [np.abs(sample[CAMERA][frame].astype(int) - shown(episode, other)).mean() for other in range(length)]
            assert int(np.argmin(errors)) == frame and errors[frame] < 2
        first += length


@pytest.mark.parametrize("version", VERSIONS)
def test_windows_cut_episodes_and_keep_every_frame(version: str, tmp_path: Path) -> None:
    write_lerobot(tmp_path / "in", version, LENGTHS)
    totals = set()
    report = sp.convert("lerobot", tmp_path / "in", tmp_path / "out", window=2, progress=lambda now: totals.add(now["total"]))
    assert report["samples"] == 7 and totals == {7}
    found = content(tmp_path / "out")
    assert sorted(found)[:4] == ["episode_000000/000000", "episode_000000/000002", "episode_000000/000004", "episode_000001/000000"]
    assert found["episode_000000/000004"][CAMERA].shape[0] == 1
    assert found["episode_000002/000002"]["frame_index"].tolist() == [2, 3]
    assert found["episode_000002/000002"]["observation.state"].tolist() == [state(2, 2), state(2, 3)]


def test_jpegs_keep_their_bytes_and_quality_applies_to_others(tmp_path: Path) -> None:
    write_lerobot(tmp_path / "in", lengths=(2,))
    table = rows(0, 2, 0, "image")
    table[0][CAMERA]["bytes"], table[1][CAMERA]["bytes"] = jpeg(1), jpeg(2)
    write_table(data_file(tmp_path / "in"), table)
    sp.convert("lerobot", tmp_path / "in", tmp_path / "out")
    sp.export(tmp_path / "out", "webdataset", tmp_path / "tars")
    packed = b"".join(file.read_bytes() for file in (tmp_path / "tars").glob("*.tar"))
    assert jpeg(1) in packed and jpeg(2) in packed
    sizes = []
    for quality in (95, 30):
        write_lerobot(tmp_path / f"png{quality}", lengths=(2,))
        sp.convert("lerobot", tmp_path / f"png{quality}", tmp_path / f"out{quality}", frame_quality=quality)
        sizes.append(sp.Dataset(tmp_path / f"out{quality}").nbytes)
    assert sizes[1] < sizes[0]


def test_pictures_of_other_kinds_become_rgb_and_16_bits_are_refused(tmp_path: Path) -> None:
    write_lerobot(tmp_path / "in", lengths=(3,))
    table = rows(0, 3, 0, "image")
    for row, mode in zip(table, ("RGBA", "L", "P")):
        row[CAMERA]["bytes"] = png(0, row["frame_index"], mode)
    write_table(data_file(tmp_path / "in"), table)
    sp.convert("lerobot", tmp_path / "in", tmp_path / "out")
    assert content(tmp_path / "out")["episode_000000"][CAMERA].shape == (3, 48, 64, 3)
    table[1][CAMERA]["bytes"] = png(0, 1, "I;16")
    write_table(data_file(tmp_path / "in"), table)
    said = refused(tmp_path / "in", tmp_path / "none")
    assert "episode 0: frame 1: feature 'observation.images.top': pictures of mode I;16 are not supported" in said


@pytest.mark.parametrize("version", VERSIONS)
def test_a_range_of_episodes_can_be_appended_later(version: str, tmp_path: Path) -> None:
    write_lerobot(tmp_path / "in", version, LENGTHS)
    sp.convert("lerobot", tmp_path / "in", tmp_path / "out", episodes="0:1")
    report = sp.convert("lerobot", tmp_path / "in", tmp_path / "out", append=True, on_known_key="skip")
    assert report["known"] == 1 and report["samples_of_dataset"] == 3
    sp.convert("lerobot", tmp_path / "in", tmp_path / "whole")
    grown, whole = content(tmp_path / "out"), content(tmp_path / "whole")
    assert grown.keys() == whole.keys()
    for key, sample in whole.items():
        assert all(np.array_equal(grown[key][name], value) for name, value in sample.items())
    for text, expected in (("1", ["episode_000001"]), ("1:", ["episode_000001", "episode_000002"]), (":1", ["episode_000000"])):
        sp.convert("lerobot", tmp_path / "in", tmp_path / "some", episodes=text, force=(tmp_path / "some").exists())
        assert sorted(content(tmp_path / "some")) == expected
    assert "no episodes in the range '7:'; its episodes are 0 to 2" in refused(tmp_path / "in", tmp_path / "none", episodes="7:")
    for wrong in (":", "a", "1:2:3", "-1", "1,2"):
        with pytest.raises(ValueError, match="episodes: expected a range such as '0:50', or a number, found"):
            sp.convert("lerobot", tmp_path / "in", tmp_path / "none", episodes=wrong)


def test_tasks_that_change_within_an_episode(tmp_path: Path) -> None:
    write_lerobot(tmp_path / "in", lengths=(4,), camera=None)
    table = rows(0, 4, 0, None)
    for row in table[2:]:
        row["task_index"] = 1
    write_table(data_file(tmp_path / "in"), table)
    sp.convert("lerobot", tmp_path / "in", tmp_path / "out")
    sample = content(tmp_path / "out")["episode_000000"]
    assert sample["task"] == "\n".join(TASKS) and sample["task_index"].tolist() == [0, 0, 1, 1]
    sp.convert("lerobot", tmp_path / "in", tmp_path / "windows", window=2)
    assert [sample["task"] for _, sample in sorted(content(tmp_path / "windows").items())] == TASKS
    table[3]["task_index"] = 7
    write_table(data_file(tmp_path / "in"), table)
    assert "episode 0: `meta` has no task 7" in refused(tmp_path / "in", tmp_path / "none")


def test_the_index_of_older_task_tables_has_no_name(tmp_path: Path) -> None:
    write_lerobot(tmp_path / "in", "v3.0", (2,), None)
    write_table(tmp_path / "in/meta/tasks.parquet", [{"task_index": 0, "__index_level_0__": "wave"}])
    sp.convert("lerobot", tmp_path / "in", tmp_path / "out")
    assert content(tmp_path / "out")["episode_000000"]["task"] == "wave"


def test_dropped_videos_are_not_opened(tmp_path: Path) -> None:
    pytest.importorskip("av")
    write_lerobot(tmp_path / "in", "v2.1", LENGTHS, "video")
    shutil.rmtree(tmp_path / "in" / "videos")
    sp.convert("lerobot", tmp_path / "in", tmp_path / "out", drop=[CAMERA, "task"])
    assert CAMERA not in content(tmp_path / "out")["episode_000000"] and "task" not in kinds(tmp_path / "out")
    said = refused(tmp_path / "in", tmp_path / "none", drop=["observation.images.tap"])
    assert "did you mean 'observation.images.top'?" in said


def test_without_pyav_the_error_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_json(tmp_path / "in", info("v2.1", [1], "video"))
    write_lines(tmp_path / "in/meta/episodes.jsonl", [{"episode_index": 0, "tasks": [], "length": 1}])
    write_lines(tmp_path / "in/meta/tasks.jsonl", [])
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(ImportError, match=r"cannot import `av`, which is needed for lerobot: .*\nhint: pip install av$"):
        sp.convert("lerobot", tmp_path / "in", tmp_path / "out")


def test_the_command_converts(tmp_path: Path) -> None:
    write_lerobot(tmp_path / "in", "v3.0", LENGTHS)
    options = ["--window", "2", "--episodes", "1:", "--frame-quality", "80"]
    given = [*command(), "convert", "lerobot", str(tmp_path / "in"), str(tmp_path / "out"), *options]
    done = subprocess.run(given, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert len(sp.Dataset(tmp_path / "out")) == 4


@pytest.mark.parametrize(("change", "said"), [
    (b"", "not valid JSON"),
    (b"[1]", "expected a JSON object, found: [1]"),
    (b'{"codebase_version": "v2.1", "codebase_version": "v3.0"}', "the key 'codebase_version' occurs twice"),
    ({"codebase_version": "v1.6"}, "expected `codebase_version` v2.0, v2.1 or v3.0, found: 'v1.6'"),
    ({"fps": 0}, "`fps` must be a positive number, found: 0"),
    ({"fps": "10"}, "`fps` must be a positive number, found: '10'"),
    ({"features": []}, "`features` must be an object"),
    ({"features": {"action": {"dtype": "float32", "shape": [1]}}}, "`features` lacks `episode_index`"),
    ({"chunks_size": 0}, "`chunks_size` must be positive"),
    ({"total_episodes": 4}, "`total_episodes` is 4, but `meta` lists 3 episodes"),
    ({"data_path": None}, "`data_path` must be a template of file names, found: None"),
    ({"data_path": "../data/{episode_index}.parquet"}, "`data_path` leads out of the folder: '../data/0.parquet'"),
    ({"data_path": "/etc/{episode_index}"}, "`data_path` leads out of the folder: '/etc/0'"),
    ({"data_path": "{episode_index.__class__}"}, "`data_path` may contain only the numbers and names"),
    ({"data_path": "{episode_index:0999999999d}"}, "`data_path` may contain only the numbers and names"),
    ({"data_path": "{video_key}"}, "`data_path` may contain only the numbers and names {episode_chunk} and {episode_index}, found"),
])  # fmt: skip
def test_a_malformed_info_is_refused(change: Any, said: str, tmp_path: Path) -> None:
    write_lerobot(tmp_path / "in", "v2.1", LENGTHS, None)
    if isinstance(change, bytes):
        (tmp_path / "in/meta/info.json").write_bytes(change)
    else:
        edit_info(tmp_path / "in", **change)
    message = refused(tmp_path / "in", tmp_path / "out")
    assert said in message and "meta/info.json" in message


def test_features_that_cannot_be_stored_are_listed_together(tmp_path: Path) -> None:
    write_lerobot(tmp_path / "in", "v2.1", LENGTHS, None)
    features = info("v2.1", [1], None)["features"]
    depth = {"dtype": "video", "shape": [4, 4, 1], "names": None, "info": {"video.is_depth_map": True}}
    edit_info(tmp_path / "in", features=features | {"depth": depth, "words": {"dtype": "language", "shape": [1]}})
    said = refused(tmp_path / "in", tmp_path / "out")
    assert "2 columns cannot be converted\n  depth: depth maps are not supported\n  words: the type 'language' is not supported" in said
    sp.convert("lerobot", tmp_path / "in", tmp_path / "out", drop=["depth", "words"])


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        sp.convert("lerobot", tmp_path / "in", tmp_path / "out")
    (tmp_path / "in").mkdir()
    assert "is not a LeRobot dataset: the file" in refused(tmp_path / "in", tmp_path / "out")
    write_lerobot(tmp_path / "in", "v2.1", LENGTHS)
    data_file(tmp_path / "in", 1).unlink()
    assert "episode 1: the file" in refused(tmp_path / "in", tmp_path / "out")
    report = sp.convert("lerobot", tmp_path / "in", tmp_path / "out", on_bad_input="skip")
    assert report["samples"] == 2 and not report["samples_skipped_exact"]
    (tmp_path / "in/meta/tasks.jsonl").unlink()
    assert "meta/tasks.jsonl` is missing" in refused(tmp_path / "in", tmp_path / "none")


@pytest.mark.parametrize("version", VERSIONS)
def test_counts_of_frames_that_disagree_are_refused(version: str, tmp_path: Path) -> None:
    write_lerobot(tmp_path / "in", version, LENGTHS, None)
    good = data_file(tmp_path / "in").read_bytes()
    two = rows(1, 3, 5, None) if version == "v3.0" else []
    cases = [
        ([*rows(0, 4, 0, None), *two], "`meta` says that it has 5 frames, but .* has 4"),
        ([*rows(0, 6, 0, None), *two], "`meta` says that it has 5 frames, but .* has more"),
        ([*rows(0, 5, 0, None)[1:], *two], "expected frame 0 as the next row of .*, found frame 1"),
        ([*rows(2, 4, 0, None), *two], "has frames of episode 2, but `meta` says that it is in"),
        ([*rows(9, 4, 0, None), *two], "has frames of episode 9, but `meta` lists no such episode"),
        ([*rows(0, 5, 0, None), *two, *rows(0, 1, 0, None)], "its frames are not in consecutive rows" if two else "has more"),
    ]
    for table, said in cases:
        write_table(data_file(tmp_path / "in"), table)
        with pytest.raises(sp.SourceError, match=said):
            sp.convert("lerobot", tmp_path / "in", tmp_path / "none")
        report = sp.convert("lerobot", tmp_path / "in", tmp_path / "out", on_bad_input="skip", force=(tmp_path / "out").exists())
        assert report["samples"] >= 2 and report["samples_skipped"] >= 1
    data_file(tmp_path / "in").write_bytes(good[: len(good) // 2])
    assert "cannot open the Parquet" in refused(tmp_path / "in", tmp_path / "none")


def test_an_episode_that_its_file_lacks(tmp_path: Path) -> None:
    write_lerobot(tmp_path / "in", "v3.0", LENGTHS, None)
    write_table(data_file(tmp_path / "in"), rows(0, 5, 0, None))
    assert "episode 1: " in (said := refused(tmp_path / "in", tmp_path / "out")) and "has no frames of this episode" in said


@pytest.mark.parametrize(("change", "said"), [
    ({"action": [0.0, 1.0]}, "expected a value of shape [3], found shape [2]"),
    ({"observation.state": ["a", "b", "c"]}, "expected float32 numbers, found <U1"),
    ({"next.done": 1}, "expected bool numbers, found int64"),
    ({"task_index": None}, "the value is null"),
])  # fmt: skip
def test_values_that_differ_from_their_feature(change: dict[str, Any], said: str, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    write_lerobot(tmp_path / "in", lengths=(1, 2), camera=None)
    table = [row | change for row in rows(0, 1, 0, None)]
    columns = {name: pyarrow.array([row[name] for row in table]) for name in table[0]}
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), data_file(tmp_path / "in"))
    message = refused(tmp_path / "in", tmp_path / "out")
    assert f"episode 0: frame 0: feature {next(iter(change))!r}: {said}" in message


def test_pictures_that_are_not_embedded_or_damaged(tmp_path: Path) -> None:
    write_lerobot(tmp_path / "in", lengths=(1,))
    for data, said in ((None, "found only its path"), (b"\x80\x04N.", "expected the bytes of a picture"), (b"II*\0aa", "expected a picture in JPEG, PNG, WebP or BMP"), (png(0, 0)[:60], "cannot decode the picture")):
        table = rows(0, 1, 0, "image")
        table[0][CAMERA]["bytes"] = data
        write_table(data_file(tmp_path / "in"), table)
        assert said in refused(tmp_path / "in", tmp_path / "out")


@pytest.mark.parametrize("version", VERSIONS)
def test_videos_that_are_missing_damaged_or_of_another_length(version: str, tmp_path: Path) -> None:
    pytest.importorskip("av")
    root = write_lerobot(tmp_path / "in", version, (4, 3), "video")
    file = video_file(root)
    good = file.read_bytes()
    shots = [shown(0, frame) for frame in range(4)] + ([shown(1, frame) for frame in range(3)] if version == "v3.0" else [])
    file.unlink()
    assert f"{file.name}` is missing" in refused(root, tmp_path / "out")
    for data in (b"", b"not a video", good[: len(good) // 2], b"#EXTM3U\n#EXTINF:1\n/etc/passwd\n"):
        file.write_bytes(data)
        assert "cannot open the video" in (said := refused(root, tmp_path / "out")) and file.name in said
    file.write_bytes(good.replace(b"avc1", b"zzzz"))
    assert "FFmpeg has no decoder for the codec of the video" in refused(root, tmp_path / "out")
    write_video(file, shots[:2])
    assert ("it has 2 frames, but the episode has 4" if version == "v2.1" else "ends after frame 2 of the 4 frames") in refused(root, tmp_path / "out")
    write_video(file, shots, fps=2 * FPS)
    assert "frame 1 should be at 0.100 s, but the next frame of the video is at 0.050 s" in refused(root, tmp_path / "out")
    report = sp.convert("lerobot", root, tmp_path / "out", on_bad_input="skip") if version == "v2.1" else None
    assert report is None or report["samples"] == 1


def test_links_that_lead_out_of_the_folder_need_an_option(tmp_path: Path) -> None:
    root = write_lerobot(tmp_path / "in", "v2.1", LENGTHS)
    file = data_file(root)
    shutil.move(file, tmp_path / "blob")
    file.symlink_to(tmp_path / "blob")
    said = refused(root, tmp_path / "out")
    assert "a link points outside the folder" in said and "hint: pass follow_links=True" in said
    assert sp.convert("lerobot", root, tmp_path / "out", follow_links=True)["samples"] == 3


def test_limits(tmp_path: Path) -> None:
    root = write_lerobot(tmp_path / "in", "v2.1", (12, 3))
    said = refused(root, tmp_path / "out", max_sample_bytes=9_300)
    assert "episode 0: a sample takes more than 9300 bytes\nhint: raise max_sample_bytes, or pass window=" in said
    assert sp.convert("lerobot", root, tmp_path / "out", max_sample_bytes=9_300, window=1)["samples"] == 15
    said = refused(root, tmp_path / "none", max_sample_bytes=9_200)
    assert "a frame of 64 × 48 pixels takes 9216 bytes, but the limit is 9200" in said
    edit_info(root, total_episodes=1)
    write_lines(root / "meta/episodes.jsonl", [{"episode_index": 0, "tasks": [], "length": 10**9}])
    assert "1000000000 frames in one sample are too many" in refused(root, tmp_path / "none")
    wrong: list[dict[str, Any]] = [{"window": 0}, {"window": 10**9}, {"frame_quality": 101}, {"frame_quality": 0}, {"max_sample_bytes": 0}]
    for options in wrong:
        with pytest.raises(ValueError, match=f"^{next(iter(options))}: expected"):
            sp.convert("lerobot", root, tmp_path / "none", **options)


def test_memory_does_not_grow_with_an_episode_when_windows_are_small(tmp_path: Path) -> None:
    root = write_lerobot(tmp_path / "in", "v2.1", (300,))
    said = bounded("lerobot", root, window=10)
    assert said.splitlines() == [f"sample episode_000000/{first:06d}" for first in range(0, 300, 10)]


@pytest.mark.parametrize("camera", ["image", "video"])
def test_samples_equal_those_of_lerobot(camera: str, tmp_path: Path) -> None:
    module: Any = pytest.importorskip("lerobot.datasets.lerobot_dataset", exc_type=ImportError)
    picture = {"dtype": camera, "shape": (48, 64, 3), "names": ["height", "width", "channels"]}
    numbers = {"dtype": "float32", "shape": (3,), "names": None}
    features = {CAMERA: picture, "observation.state": numbers, "action": numbers}
    made = module.LeRobotDataset.create("us/made", fps=FPS, features=features, root=tmp_path / "in", use_videos=camera == "video")
    for episode, length in enumerate(LENGTHS):
        for frame in range(length):
            values = {name: np.array(state(episode, frame), np.float32) for name in ("observation.state", "action")}
            task = {"task": TASKS[episode % 2]}
            # Version 2.1 takes the task as an argument, and version 3.0 in the frame.
            apart = "task" in inspect.signature(made.add_frame).parameters
            made.add_frame({CAMERA: shown(episode, frame), **values, **({} if apart else task)}, **(task if apart else {}))
        made.save_episode()
    getattr(made, "finalize", lambda: None)()
    theirs = iter(module.LeRobotDataset("us/made", root=tmp_path / "in", video_backend="pyav"))
    sp.convert("lerobot", tmp_path / "in", tmp_path / "out")
    for _, sample in sorted(content(tmp_path / "out").items()):
        for frame in range(len(sample["index"])):
            row = next(theirs)
            for name in ("observation.state", "action", "timestamp", "index", "task_index"):
                assert np.array_equal(sample[name][frame], row[name].numpy())
            assert sample["task"] == row["task"]
            pixels = 255 * row[CAMERA].numpy().transpose(1, 2, 0)
            assert np.abs(sample[CAMERA][frame] - pixels).mean() < 2
    assert next(theirs, None) is None
