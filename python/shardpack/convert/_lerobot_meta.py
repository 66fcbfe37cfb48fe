"""Reads the metadata of LeRobot datasets: the features, the episodes with the files of their frames, and the tasks.

The layouts are those of LeRobot 2.0 and 2.1, with one data file and one video file for each episode, and of 3.0, where
several episodes share a file. ``meta/info.json`` has the templates of the file names.
"""

from __future__ import annotations

import errno
import math
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ._files import Elsewhere, open_inside, open_regular
from ._source import Problem, SourceError, option, shown
from ._values import DTYPES, parse_json, shorten
from .parquet import Table, rows_of

_MOST_INFO = 64 << 20
"""Maximum size of info.json in bytes."""
_MOST_LINE = 16 << 20
"""Maximum size of a line of a `.jsonl` file in bytes."""
_MOST_FEATURES = 1000
_MOST_EPISODES = 10_000_000
_MOST_NUMBER = 1 << 53
_PLACE = re.compile(r"\{(\w+)(?::(?:0?(\d)d)?)?\}")
"""Matches a number or a name in the template of a file name, such as ``{episode_index:06d}``."""


class Folder:
    """Opens the files of a dataset by the names in its metadata, which are not trusted."""

    def __init__(self, src: str | os.PathLike[str], follow_links: bool) -> None:
        self.path = Path(src)
        if not self.path.exists():
            raise FileNotFoundError(errno.ENOENT, "no such folder", str(self.path))
        if not self.path.is_dir():
            raise SourceError(f"`{shown(self.path)}`: expected the folder of a LeRobot dataset, found a file")
        self._root = self.path.resolve()
        self._follow_links = follow_links

    def named(self, name: str) -> str:
        """Return the path of a file for messages."""
        return f"`{shown(shorten(str(self.path / name), 1000))}`"

    def open(self, name: str) -> BinaryIO:
        """Open a file. If it is missing or outside the folder, raise a ValueError that names it."""
        try:
            return open_regular(self.path / name) if self._follow_links else open_inside(self._root, name)
        except FileNotFoundError:
            raise ValueError(f"the file {self.named(name)} is missing") from None
        except Elsewhere as error:
            hint = f"pass {option(follow_links=True)} to follow such links"
            raise ValueError(f"{self.named(name)}: {error}\nhint: {hint}") from None
        except ValueError as error:
            raise ValueError(f"{self.named(name)}: {error}") from error
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
                raise ValueError(f"{self.named(name)}: {error.strerror}") from None
            raise

    @contextmanager
    def table(self, name: str) -> Iterator[Table]:
        """Open a Parquet file. If it is missing or damaged, raise a ValueError that names it."""
        with self.open(name) as stream:
            yield Table(self.path / name, stream, os.fstat(stream.fileno()).st_size)


class Feature(NamedTuple):

    name: str
    dtype: str
    """``"video"``, ``"image"``, ``"string"``, or the NumPy name of an element type."""
    shape: tuple[int, ...]
    """Shape of the value of one frame. ``(1,)`` means one number. Empty for text."""

    @property
    def is_camera(self) -> bool:
        return self.dtype in ("image", "video")


class Clip(NamedTuple):
    """The part of a video file that shows an episode."""

    file: str
    start: float
    """Time of the first frame in seconds."""
    is_whole: bool
    """True if the file has no frames of other episodes."""


class Episode(NamedTuple):

    number: int
    length: int
    """Number of frames."""
    file: str
    """Data file, relative to the folder."""
    clips: Mapping[str, Clip]
    """Mapping from the name of a video feature to the frames of the episode. Only for the features that are converted.
    """


class Meta(NamedTuple):

    fps: float
    names: list[str]
    """Names of all features."""
    features: list[Feature]
    """The features that are converted, in the order of info.json."""
    episodes: list[Episode]
    """All episodes, by number."""
    tasks: dict[int, str] | None
    """Mapping from number to task. None if the frames have no task."""


class _Template:
    """The template of a file name. ``str.format`` would also read attributes, and pad numbers to any length."""

    def __init__(self, where: str, key: str, text: object, known: Collection[str]) -> None:
        if not isinstance(text, str):
            raise SourceError(f"{where}: `{key}` must be a template of file names, found: {shorten(repr(text))}")
        self._where = where
        self._key = key
        self._text = text
        without = _PLACE.sub("", text)
        unknown = next((found[1] for found in _PLACE.finditer(text) if found[1] not in known), None)
        if "{" in without or "}" in without or unknown is not None:
            example = " and ".join(f"{{{name}}}" for name in known)
            raise SourceError(
                f"{where}: `{key}` may contain only the numbers and names {example}, found: {shorten(text)!r}"
            )

    def file(self, values: Mapping[str, int | str]) -> str:
        """Return a file name. Raise an error if it leads out of the folder."""

        def put(found: re.Match[str]) -> str:
            return str(values[found[1]]).zfill(int(found[2] or 0))

        name = _PLACE.sub(put, self._text)
        if name.startswith(("/", "\\")) or ".." in re.split(r"[/\\]", name) or ":" in name or "\0" in name:
            raise SourceError(f"{self._where}: `{self._key}` leads out of the folder: {shorten(name)!r}")
        return name


def read_meta(folder: Folder, drop: Collection[str]) -> Meta:
    """Read the metadata of a dataset.

    Raises
    ------
    SourceError
        If a file is missing or malformed, or if the version of the layout is unknown.
    """
    where = folder.named("meta/info.json")
    info = _info(folder, where)
    version = info.get("codebase_version")
    if not isinstance(version, str) or not re.fullmatch(r"v[23][.]\d{1,3}", version):
        raise SourceError(
            f"{where}: expected `codebase_version` v2.0, v2.1 or v3.0, found: {shorten(repr(version))}\n"
            "hint: convert older datasets with the scripts of LeRobot first"
        )
    fps = info.get("fps")
    if not isinstance(fps, (int, float)) or isinstance(fps, bool) or not math.isfinite(fps) or not 0 < fps <= 1e6:
        raise SourceError(f"{where}: `fps` must be a positive number, found: {shorten(repr(fps))}")
    features = [_feature(where, name, one) for name, one in _features(where, info).items()]
    kept = [one for one in features if one.name not in drop]
    videos = [one.name for one in kept if one.dtype == "video"]
    read = _episodes_3 if version.startswith("v3") else _episodes_2
    episodes = read(folder, where, info, videos)
    declared = info.get("total_episodes")
    if declared is not None and declared != len(episodes):
        raise SourceError(
            f"{where}: `total_episodes` is {shorten(repr(declared))}, but `meta` lists {len(episodes)} episodes"
        )
    has_task = "task" not in drop and any(one.name == "task_index" for one in features)
    tasks = (_tasks_3 if version.startswith("v3") else _tasks_2)(folder) if has_task else None
    return Meta(float(fps), [one.name for one in features], kept, episodes, tasks)


def _info(folder: Folder, where: str) -> dict[str, Any]:
    try:
        with folder.open("meta/info.json") as stream:
            text = stream.read(_MOST_INFO + 1)
    except ValueError as error:
        raise SourceError(f"`{shown(folder.path)}` is not a LeRobot dataset: {error}") from error
    if len(text) > _MOST_INFO:
        raise SourceError(f"{where}: expected at most {_MOST_INFO} bytes")
    try:
        info = parse_json(text)
    except ValueError as error:
        raise SourceError(f"{where}: {error}") from error
    if not isinstance(info, dict):
        raise SourceError(f"{where}: expected a JSON object, found: {shorten(repr(info))}")
    return info


def _features(where: str, info: dict[str, Any]) -> dict[str, Any]:
    features = info.get("features")
    if not isinstance(features, dict) or not 0 < len(features) <= _MOST_FEATURES:
        raise SourceError(f"{where}: `features` must be an object with 1 to {_MOST_FEATURES} features")
    for name in ("episode_index", "frame_index"):
        if name not in features:
            raise SourceError(f"{where}: `features` lacks `{name}`, which every LeRobot dataset has")
    return features


def _feature(where: str, name: str, stored: Any) -> Feature:
    dtype, shape = (stored.get("dtype"), stored.get("shape")) if isinstance(stored, dict) else (None, None)
    is_shape = isinstance(shape, list) and len(shape) <= 8 and all(_is_number(n) and n > 0 for n in shape)
    if dtype == "string":
        return Feature(name, dtype, ())
    if not isinstance(dtype, str) or not is_shape or not shape:
        raise SourceError(
            f"{where}: feature {shorten(name)!r}: expected a `dtype` and a `shape` of positive lengths, found: "
            f"{shorten(repr(stored))}"
        )
    if dtype in ("image", "video"):
        if len(shape) != 3:
            what = f"feature {shorten(name)!r}: pictures need a shape of three axes"
            raise SourceError(f"{where}: {what}, found: {shape}")
        about = [stored, *(stored.get(key) for key in ("info", "video_info"))]
        if any(isinstance(one, dict) and (one.get("is_depth_map") or one.get("video.is_depth_map")) for one in about):
            dtype = "depth"
    return Feature(name, dtype, tuple(shape))


def refused(features: Collection[Feature]) -> dict[str, str]:
    """Return a mapping from each feature that cannot be converted to the reason."""
    reasons = {}
    for one in features:
        if one.dtype == "depth":
            reasons[one.name] = "depth maps are not supported"
        elif not one.is_camera and one.dtype != "string" and one.dtype not in DTYPES:
            reasons[one.name] = f"the type {shorten(one.dtype)!r} is not supported"
    return reasons


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_NUMBER


def _whole(where: str, key: str, value: object) -> int:
    if not _is_number(value):
        raise SourceError(f"{where}: `{shorten(key)}` must be a whole number, found: {shorten(repr(value))}")
    assert isinstance(value, int)
    return value


def _lines(folder: Folder, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the position and the object of each line of a `.jsonl` file."""
    try:
        with folder.open(name) as stream:
            for number in range(1, _MOST_EPISODES + 1):
                line = stream.readline(_MOST_LINE)
                if not line:
                    return
                where = f"{folder.named(name)}, line {number}"
                if len(line) == _MOST_LINE:
                    raise ValueError(f"line {number} has more than {_MOST_LINE} bytes")
                if not line.strip():
                    continue
                try:
                    value = parse_json(line)
                except ValueError as error:
                    raise SourceError(f"{where}: {error}") from error
                if not isinstance(value, dict):
                    raise SourceError(f"{where}: expected a JSON object, found: {shorten(repr(value))}")
                yield where, value
            raise ValueError(f"{folder.named(name)} has more than {_MOST_EPISODES} lines")
    except SourceError:
        raise
    except ValueError as error:
        raise SourceError(str(error)) from error


def _table(folder: Folder, name: str, chosen: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the position and the values of each row of a Parquet file of metadata."""
    try:
        with folder.table(name) as table:
            for column in chosen:
                if column not in table.schema.names:
                    raise SourceError(f"{folder.named(name)} has no column {shorten(column)!r}")
            for row in rows_of(table, list(chosen)):
                if isinstance(row, Problem):
                    raise SourceError(row.message)
                yield row
    except SourceError:
        raise
    except ValueError as error:
        raise SourceError(str(error)) from error


def _in_order(episodes: dict[int, Episode]) -> list[Episode]:
    return [episodes[index] for index in sorted(episodes)]


def _add(episodes: dict[int, Episode], where: str, episode: Episode) -> None:
    if episode.number in episodes:
        raise SourceError(f"{where}: episode {episode.number} is listed twice")
    if episode.length == 0:
        raise SourceError(f"{where}: episode {episode.number} has no frames")
    episodes[episode.number] = episode
    if len(episodes) > _MOST_EPISODES:
        raise SourceError(f"{where}: more than {_MOST_EPISODES} episodes are not supported")


def _episodes_2(folder: Folder, info_where: str, info: dict[str, Any], videos: list[str]) -> list[Episode]:
    size = _whole(info_where, "chunks_size", info.get("chunks_size"))
    if size == 0:
        raise SourceError(f"{info_where}: `chunks_size` must be positive, found: 0")
    numbers = ("episode_chunk", "episode_index")
    data = _Template(info_where, "data_path", info.get("data_path"), numbers)
    video = _Template(info_where, "video_path", info.get("video_path"), (*numbers, "video_key")) if videos else None
    episodes: dict[int, Episode] = {}
    for where, line in _lines(folder, "meta/episodes.jsonl"):
        index, length = (_whole(where, key, line.get(key)) for key in ("episode_index", "length"))
        values = {"episode_chunk": index // size, "episode_index": index}
        clips = {} if video is None else {
            name: Clip(video.file({**values, "video_key": name}), 0.0, is_whole=True) for name in videos
        }
        _add(episodes, where, Episode(index, length, data.file(values), clips))
    return _in_order(episodes)


def _episodes_3(folder: Folder, info_where: str, info: dict[str, Any], videos: list[str]) -> list[Episode]:
    numbers = ("chunk_index", "file_index")
    data = _Template(info_where, "data_path", info.get("data_path"), numbers)
    video = _Template(info_where, "video_path", info.get("video_path"), (*numbers, "video_key")) if videos else None
    columns = ["episode_index", "length", "data/chunk_index", "data/file_index"]
    for name in videos:
        columns += [f"videos/{name}/{key}" for key in (*numbers, "from_timestamp")]
    episodes: dict[int, Episode] = {}
    files = sorted(file.relative_to(folder.path).as_posix() for file in folder.path.glob("meta/episodes/*/*.parquet"))
    if not files:
        raise SourceError(f"{folder.named('meta/episodes')}: found no Parquet files of episodes")
    for file in files:
        for where, row in _table(folder, file, columns):
            index, length = (_whole(where, key, row[key]) for key in ("episode_index", "length"))
            values = {key: _whole(where, f"data/{key}", row[f"data/{key}"]) for key in numbers}
            clips = {} if video is None else {name: _clip(where, row, name, video) for name in videos}
            _add(episodes, where, Episode(index, length, data.file(values), clips))
    return _in_order(episodes)


def _clip(where: str, row: Mapping[str, Any], name: str, video: _Template) -> Clip:
    at = f"videos/{name}"
    values: dict[str, int | str] = {"video_key": name}
    for key in ("chunk_index", "file_index"):
        values[key] = _whole(where, f"{at}/{key}", row[f"{at}/{key}"])
    start = row[f"{at}/from_timestamp"]
    if not isinstance(start, (int, float)) or not 0 <= start < 1e9:
        raise SourceError(f"{where}: `{shorten(at)}/from_timestamp` must be a time in seconds, found: {start!r}")
    return Clip(video.file(values), float(start), is_whole=False)


def _tasks_2(folder: Folder) -> dict[int, str]:
    lines = _lines(folder, "meta/tasks.jsonl")
    return _tasks((where, line.get("task_index"), line.get("task")) for where, line in lines)


def _tasks_3(folder: Folder) -> dict[int, str]:
    name = "meta/tasks.parquet"
    try:
        with folder.table(name) as table:
            # The tasks are the index of a pandas table, which older versions of LeRobot left without a name.
            column = "task" if "task" in table.schema.names else "__index_level_0__"
    except ValueError as error:
        raise SourceError(str(error)) from error
    rows = _table(folder, name, ["task_index", column])
    return _tasks((where, row["task_index"], row[column]) for where, row in rows)


def _tasks(found: Iterator[tuple[str, Any, Any]]) -> dict[int, str]:
    tasks: dict[int, str] = {}
    for where, number, task in found:
        if not isinstance(task, str):
            raise SourceError(f"{where}: `task` must be text, found: {shorten(repr(task))}")
        if tasks.setdefault(_whole(where, "task_index", number), task) != task:
            raise SourceError(f"{where}: task {number} is listed twice")
    return tasks
