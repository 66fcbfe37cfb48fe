"""Writes small LeRobot datasets in the layouts of versions 2.1 and 3.0, for tests."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest


CAMERA = "observation.images.top"
FPS = 10
TASKS = ["push the block", "stack the block"]
DEFAULTS = {"timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64", "task_index": "int64"}


def shown(episode: int, frame: int) -> np.ndarray[Any, Any]:
    """Returns the pixels `[48, 64, 3]` of a frame, smooth and different for each frame."""
    rows, columns = np.mgrid[0:48, 0:64]
    channels = [4 * rows + 20 * episode, 3 * columns + 8 * frame, rows + columns + 30 * episode]
    return np.stack([np.clip(channel, 0, 255) for channel in channels], 2).astype(np.uint8)


def state(episode: int, frame: int) -> list[float]:
    return [float(np.float32(episode + frame / 7)), float(np.float32(-frame / 3)), 0.5]


def info(version: str, lengths: list[int], camera: str | None) -> dict[str, Any]:
    features: dict[str, Any] = {} if camera is None else {
        CAMERA: {"dtype": camera, "shape": [48, 64, 3], "names": ["height", "width", "channels"]}
    }
    features["observation.state"] = {"dtype": "float32", "shape": [3], "names": ["x", "y", "z"]}
    features["action"] = {"dtype": "float32", "shape": [3], "names": None}
    features["next.done"] = {"dtype": "bool", "shape": [1], "names": None}
    features |= {name: {"dtype": dtype, "shape": [1], "names": None} for name, dtype in DEFAULTS.items()}
    split = version == "v3.0"
    return {
        "codebase_version": version, "robot_type": "none", "total_episodes": len(lengths), "total_frames": sum(lengths),
        "total_tasks": len(TASKS), "chunks_size": 1000, "fps": FPS, "splits": {"train": f"0:{len(lengths)}"},
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet" if split
        else "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet",
        "video_path": None if camera != "video" else "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4" if split
        else "videos/chunk-{episode_chunk:03d}/{video_key}/episode_{episode_index:06d}.mp4",
        "features": features,
    }  # fmt: skip


def rows(episode: int, length: int, first: int, camera: str | None) -> list[dict[str, Any]]:
    found = []
    for frame in range(length):
        row: dict[str, Any] = {
            "observation.state": state(episode, frame), "action": state(episode, frame + 1), "next.done": frame == length - 1,
            "timestamp": frame / FPS, "frame_index": frame, "episode_index": episode, "index": first + frame,
            "task_index": episode % 2,
        }  # fmt: skip
        if camera == "image":
            row[CAMERA] = {"bytes": png(episode, frame), "path": f"frame-{frame:06d}.png"}
        found.append(row)
    return found


def png(episode: int, frame: int, mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    pytest.importorskip("PIL.Image").fromarray(shown(episode, frame)).convert(mode).save(out, "PNG")
    return out.getvalue()


def write_table(file: Path, rows: list[dict[str, Any]], group: int = 1 << 20) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    picture_type = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    types = {
        "observation.state": pyarrow.list_(pyarrow.float32(), 3), "action": pyarrow.list_(pyarrow.float32(), 3),
        "timestamp": pyarrow.float32(), CAMERA: picture_type,
    }  # fmt: skip
    columns = {name: pyarrow.array([row[name] for row in rows], types.get(name)) for name in rows[0]}
    file.parent.mkdir(parents=True, exist_ok=True)
    pytest.importorskip("pyarrow.parquet").write_table(pyarrow.table(columns), file, row_group_size=group)


def write_lines(file: Path, lines: list[dict[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def write_video(file: Path, frames: list[np.ndarray[Any, Any]], fps: int = FPS) -> None:
    """Writes a video of almost no loss, with the codec and pixel format of LeRobot's older datasets."""
    av = pytest.importorskip("av")
    file.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(file), "w") as container:
        stream = container.add_stream("libx264", rate=fps, options={"crf": "4", "g": "2"})
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        for pixels in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())


def write_lerobot(root: Path, version: str = "v2.1", lengths: tuple[int, ...] = (5, 3, 4), camera: str | None = "image") -> Path:
    """Writes a dataset whose camera is stored as `"image"` or `"video"`, or that has no camera. With version 3.0, each
    file has two episodes.
    """
    firsts = [sum(lengths[:episode]) for episode in range(len(lengths))]
    write_json(root, info(version, list(lengths), camera))
    tasks = [{"task_index": number, "task": task} for number, task in enumerate(TASKS)]
    if version == "v3.0":
        write_table(root / "meta" / "tasks.parquet", tasks)
        episodes = []
        for file, begin in enumerate(range(0, len(lengths), 2)):
            inside = range(begin, min(begin + 2, len(lengths)))
            table = [row for episode in inside for row in rows(episode, lengths[episode], firsts[episode], camera)]
            write_table(root / f"data/chunk-000/file-{file:03d}.parquet", table, group=3)
            if camera == "video":
                shots = [shown(episode, frame) for episode in inside for frame in range(lengths[episode])]
                write_video(root / f"videos/{CAMERA}/chunk-000/file-{file:03d}.mp4", shots)
            for episode in inside:
                start = (firsts[episode] - firsts[begin]) / FPS
                one: dict[str, Any] = {
                    "episode_index": episode, "tasks": [TASKS[episode % 2]], "length": lengths[episode],
                    "data/chunk_index": 0, "data/file_index": file, "dataset_from_index": firsts[episode],
                    "dataset_to_index": firsts[episode] + lengths[episode], "stats/action/min": [0.0],
                }  # fmt: skip
                if camera == "video":
                    at = f"videos/{CAMERA}"
                    one |= {f"{at}/chunk_index": 0, f"{at}/file_index": file, f"{at}/from_timestamp": start, f"{at}/to_timestamp": start + lengths[episode] / FPS}
                episodes.append(one)
        write_table(root / "meta/episodes/chunk-000/file-000.parquet", episodes)
        return root
    write_lines(root / "meta" / "tasks.jsonl", tasks)
    write_lines(root / "meta" / "episodes.jsonl", [{"episode_index": episode, "tasks": [TASKS[episode % 2]], "length": length} for episode, length in enumerate(lengths)])
    for episode, length in enumerate(lengths):
        write_table(root / f"data/chunk-000/episode_{episode:06d}.parquet", rows(episode, length, firsts[episode], camera))
        if camera == "video":
            write_video(root / f"videos/chunk-000/{CAMERA}/episode_{episode:06d}.mp4", [shown(episode, frame) for frame in range(length)])
    return root


def write_json(root: Path, value: object) -> None:
    (root / "meta").mkdir(parents=True, exist_ok=True)
    (root / "meta" / "info.json").write_text(json.dumps(value), encoding="utf-8")


