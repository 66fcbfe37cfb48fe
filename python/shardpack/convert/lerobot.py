"""Reads LeRobot datasets, with one sample for each episode or for each window of frames."""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Union

import numpy as np

from ._bounds import check_whole
from ._frames import FrameOptions, Video, jpeg_of_picture
from ._lerobot_meta import Clip, Episode, Feature, Folder, Meta, read_meta, refused
from ._source import ANY, Item, Problem, Sample, Source, SourceError, check_drop, library, option, refuse_columns, shown
from ._values import looks_pickled, shorten
from .parquet import Table, rows_of
from .webdataset import MOST_FRAMES


def open(
    src: Union[str, "os.PathLike[str]"],
    *,
    drop: Collection[str] = (),
    episodes: str | None = None,
    window: int | None = None,
    frame_quality: int = 95,
    max_sample_bytes: int = 1 << 30,
    follow_links: bool = False,
) -> Source:
    """Open the folder of a LeRobot dataset, of version 2.0, 2.1 or 3.0.

    Each episode becomes a sample, or each `window` of frames. Features of type ``video`` and ``image`` become clips.
    Other features become arrays ``[frames]`` or ``[frames, …]`` of the type in ``meta/info.json``. ``episode_index``
    becomes a number, and features of text become JSON. A column ``task`` has the task as text, with a line for each
    if the frames have several. Keys are ``episode_000007``, or ``episode_000007/000064`` with the number of the first
    frame of a window. Depth maps are refused.

    JPEGs are stored unchanged. Frames of videos and other pictures are stored as JPEG, which loses a little. The time
    of each frame of a video is checked against the number of the frame.

    Parameters
    ----------
    src
        The folder that contains ``meta``, ``data`` and ``videos``.
    drop
        Features to leave out, or ``"task"``. Videos that are left out are not opened.
    episodes
        Episodes to convert: a range without its end, as in Python (``"0:50"``, ``"50:"``), or one number. Default: all.
    window
        Number of frames of a sample. The last window of an episode may have fewer. Default: whole episodes.
    frame_quality
        JPEG quality, from 1 to 100, of frames that are not JPEG yet. Default 95.
    max_sample_bytes
        Largest size of a sample, with its encoded frames, and of the pixels of one frame. Default 1 GiB.
    follow_links
        Follow links that lead out of the folder, as in the cache of the Hugging Face Hub. Default: they are refused.
    """
    check_whole("max_sample_bytes", max_sample_bytes)
    if window is not None and check_whole("window", window) > MOST_FRAMES:
        raise ValueError(f"window: expected at most {MOST_FRAMES} frames, found: {window}")
    if check_whole("frame_quality", frame_quality) > 100:
        raise ValueError(f"frame_quality: expected a number from 1 to 100, found: {frame_quality}")
    library("pyarrow", "lerobot")
    if not isinstance(src, (str, os.PathLike)):
        raise SourceError("lerobot: expected one folder, found a list")
    folder = Folder(src, follow_links)
    meta = read_meta(folder, drop)
    where = folder.named("meta/info.json")
    columns = [one.name for one in meta.features] + ([] if meta.tasks is None else ["task"])
    check_drop(where, drop, [*meta.names, "task"])
    if len(set(columns)) < len(columns):
        what = "a feature has the name `task`, which is the column of the tasks"
        raise SourceError(f"{where}: {what}\nhint: pass {option(drop=['task'])}")
    refuse_columns(where, refused(meta.features))
    if any(one.dtype == "video" for one in meta.features):
        library("av", "lerobot")
        library("PIL.Image", "lerobot")
    chosen = _chosen(meta.episodes, episodes)
    lengths = (1 if window is None else -(-one.length // window) for one in chosen)
    reader = _Reader(folder, meta, window, FrameOptions(meta.fps, frame_quality, max_sample_bytes), frozenset(drop))
    return Source(reader.samples(chosen), kinds=_kinds(meta), total=sum(lengths))


def _kinds(meta: Meta) -> dict[str, str]:
    kinds = {}
    for one in meta.features:
        if one.is_camera:
            kinds[one.name] = "frames"
        elif one.name == "episode_index":
            kinds[one.name] = "int64"
        else:
            kinds[one.name] = "json" if one.dtype == "string" else f"array:{one.dtype}"
    return kinds | ({} if meta.tasks is None else {"task": "text"})


def _chosen(episodes: list[Episode], text: str | None) -> list[Episode]:
    if text is None:
        return episodes
    found = re.fullmatch(r"(\d{0,15})(:?)(\d{0,15})", text) if isinstance(text, str) else None
    if found is None or not (found[1] or found[3]):
        raise ValueError(f"episodes: expected a range such as '0:50', or a number, found: {text!r}")
    first = int(found[1] or 0)
    end = (int(found[3]) if found[3] else math.inf) if found[2] else first + 1
    chosen = [one for one in episodes if first <= one.number < end]
    if not chosen:
        known = f"{episodes[0].number} to {episodes[-1].number}" if episodes else "none"
        raise SourceError(f"lerobot: the dataset has no episodes in the range {text!r}; its episodes are {known}")
    return chosen


class _Window:
    """The values of consecutive frames, by column."""

    def __init__(self, first: int) -> None:
        self.first = first
        """Number of the first frame in its episode."""
        self.columns: dict[str, list[Any]] = {}
        self.tasks: dict[str, None] = {}
        self.frames = 0
        self.bytes = 0


class _Reader:

    def __init__(
        self, folder: Folder, meta: Meta, window: int | None, options: FrameOptions, drop: frozenset[str]
    ) -> None:
        self._folder = folder
        self._meta = meta
        self._window = window
        self._options = options
        self._drop = drop
        self._known = {one.number: one for one in meta.episodes}
        self._stored = [one for one in meta.features if one.dtype != "video"]
        """The features that are columns of the data files."""

    def samples(self, episodes: list[Episode]) -> Iterator[Item]:
        files: dict[str, dict[int, Episode]] = {}
        for episode in episodes:
            files.setdefault(episode.file, {})[episode.number] = episode
        for file, wanted in files.items():
            try:
                with self._folder.table(file) as table:
                    yield from self._file(file, table, wanted)
            except ValueError as error:
                yield Problem(f"{self._where(min(wanted))}: {error}", samples=None)

    def _where(self, episode: int) -> str:
        return f"`{shown(self._folder.path)}`, episode {episode}"

    def _file(self, file: str, table: Table, wanted: Mapping[int, Episode]) -> Iterator[Item]:
        """Yield the samples of the wanted episodes of a data file, in the order of the file."""
        named = self._folder.named(file)
        columns = dict.fromkeys(["episode_index", "frame_index", *(one.name for one in self._stored)])
        if self._meta.tasks is not None:
            columns["task_index"] = None
        missing = next((name for name in columns if name not in table.schema.names), None)
        if missing is not None:
            raise ValueError(f"{named} has no column {shorten(missing)!r}")
        seen: set[int] = set()
        for index, rows in itertools.groupby(rows_of(table, list(columns)), _episode_of):
            if index is None:
                yield from (Problem(row.message, samples=None) for row in rows if isinstance(row, Problem))
                continue
            known = self._known.get(index)
            if known is None or known.file != file:
                elsewhere = "" if known is None else f"says that it is in {self._folder.named(known.file)}"
                yield Problem(f"{named} has frames of episode {index}, but `meta` {elsewhere or 'lists no such episode'}")
            elif index in seen:
                yield Problem(f"{self._where(index)}: its frames are not in consecutive rows of {named}")
            elif index in wanted:
                try:
                    yield from self._episode(wanted[index], rows)
                except ValueError as error:
                    yield Problem(f"{self._where(index)}: {error}")
            seen.add(index)
        for index in wanted:
            if index not in seen:
                yield Problem(f"{self._where(index)}: {named} has no frames of this episode")

    def _episode(self, episode: Episode, rows: Iterator[Any]) -> Iterator[Sample]:
        most = episode.length if self._window is None else min(episode.length, self._window)
        if most > MOST_FRAMES:
            raise ValueError(
                f"{most} frames in one sample are too many: the limit is {MOST_FRAMES}\n"
                f"hint: pass {option(window=ANY)} to make a sample of each window of frames"
            )
        named = self._folder.named(episode.file)
        with ExitStack() as stack:
            frames = {name: self._frames(stack, clip, episode) for name, clip in episode.clips.items()}
            window, number = _Window(0), 0
            for _, values in rows:
                if number == episode.length:
                    raise ValueError(f"`meta` says that it has {number} frames, but {named} has more")
                if values["frame_index"] != number:
                    found = shorten(repr(values["frame_index"]))
                    raise ValueError(f"expected frame {number} as the next row of {named}, found frame {found}")
                if window.frames == self._window:
                    yield self._sample(episode, window)
                    window = _Window(number)
                self._add(window, values, frames)
                number += 1
            if number != episode.length:
                raise ValueError(f"`meta` says that it has {episode.length} frames, but {named} has {number}")
            for name, clip in episode.clips.items():
                if clip.is_whole and next(frames[name], None) is not None:
                    raise ValueError(f"{self._folder.named(clip.file)} has more than {number} frames")
            yield self._sample(episode, window)

    def _frames(self, stack: ExitStack, clip: Clip, episode: Episode) -> Iterator[bytes]:
        """Yield the frames of a video. Raise an error if they are too few."""
        named = self._folder.named(clip.file)
        stream = stack.enter_context(self._folder.open(clip.file))
        try:
            video = Video(stream, clip.start, self._options)
            stack.callback(video.close)
            if clip.is_whole and video.declared not in (0, episode.length):
                raise ValueError(f"it has {video.declared} frames, but the episode has {episode.length}")
        except ValueError as error:
            raise ValueError(f"{named}: {error}") from error
        return self._named_frames(named, video, episode.length)

    def _named_frames(self, named: str, video: Video, length: int) -> Iterator[bytes]:
        number = 0
        try:
            for number, frame in enumerate(video.frames(), 1):
                yield frame
        except ValueError as error:
            raise ValueError(f"{named}: {error}") from error
        if number < length:
            raise ValueError(f"{named} ends after frame {number} of the {length} frames of the episode")

    def _add(self, window: _Window, values: Mapping[str, Any], frames: Mapping[str, Iterator[bytes]]) -> None:
        for one in self._meta.features:
            if one.dtype == "video":
                value: Any = next(frames[one.name])
            else:
                try:
                    value = self._value(one, values[one.name])
                except ValueError as error:
                    at = f"frame {window.first + window.frames}: feature {shorten(one.name)!r}"
                    raise ValueError(f"{at}: {error}") from error
            window.bytes += value.nbytes if isinstance(value, np.ndarray) else len(value)
            window.columns.setdefault(one.name, []).append(value)
        if window.bytes > self._options.most_bytes:
            raise ValueError(
                f"a sample takes more than {self._options.most_bytes} bytes\n"
                f"hint: raise max_sample_bytes, or pass {option(window=ANY)} to make a sample of each window of frames"
            )
        if self._meta.tasks is not None:
            task = self._meta.tasks.get(values["task_index"])
            if task is None:
                raise ValueError(f"`meta` has no task {shorten(repr(values['task_index']))}")
            window.tasks[task] = None
        window.frames += 1

    def _value(self, feature: Feature, value: Any) -> Any:
        """Return the value of a frame: a JPEG, a text or an array."""
        if value is None:
            raise ValueError("the value is null")
        if feature.dtype == "image":
            return self._picture(value)
        if feature.dtype == "string":
            if not isinstance(value, str):
                raise ValueError(f"expected text, found: {shorten(repr(value))}")
            return value
        return _array(value, np.dtype(feature.dtype), feature.shape)

    def _picture(self, value: Any) -> bytes:
        data = value.get("bytes") if isinstance(value, dict) else value
        if data is None and isinstance(value, dict):
            raise ValueError(
                f"expected the bytes of a picture, found only its path: {shorten(repr(value.get('path')))}\n"
                "hint: embed the files first with `datasets.table.embed_table_storage`"
            )
        if not isinstance(data, bytes) or looks_pickled(data):
            raise ValueError(f"expected the bytes of a picture, found: {shorten(repr(data))}")
        return jpeg_of_picture(data, self._options)

    def _sample(self, episode: Episode, window: _Window) -> Sample:
        values: dict[str, Any] = {}
        for one in self._meta.features:
            column = window.columns[one.name]
            if one.name == "episode_index":
                values[one.name] = episode.number
            else:
                values[one.name] = column if one.is_camera or one.dtype == "string" else np.stack(column)
        if self._meta.tasks is not None:
            values["task"] = "\n".join(window.tasks)
        key = f"episode_{episode.number:06d}"
        where = self._where(episode.number)
        if self._window is not None:
            key += f"/{window.first:06d}"
            where += f", frames {window.first} to {window.first + window.frames - 1}"
        return Sample(key, values | dict.fromkeys(self._drop), where)


def _episode_of(row: Any) -> int | None:
    """Return the episode of a row: None for rows that cannot be read, and -1 if the row has no valid number."""
    if isinstance(row, Problem):
        return None
    index = row[1]["episode_index"]
    return index if isinstance(index, int) and not isinstance(index, bool) else -1


def _array(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return the numbers of a frame, with the element type of the feature. One number has no axes."""
    try:
        array = np.array(value)
    except ValueError:
        raise ValueError("the lists differ in length") from None
    if shape == (1,):
        shape, array = (), array.reshape(()) if array.shape == (1,) else array
    if array.shape != shape:
        raise ValueError(f"expected a value of shape {list(shape)}, found shape {list(array.shape)}")
    kinds = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}[dtype.kind]
    if array.dtype.kind not in kinds:
        raise ValueError(f"expected {dtype} numbers, found {array.dtype}: {shorten(repr(value))}")
    if dtype.kind in "iu" and array.size:
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise ValueError(f"a number does not fit into {dtype}: {shorten(repr(value))}")
    return array.astype(dtype)
