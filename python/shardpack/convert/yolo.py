"""Reads YOLO datasets: pictures, each with a text file of labels."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np

from ._detection import PICTURES, check_names, folder, is_folder, numbers, outside, picture, short, text
from ._files import SPLITS
from ._source import Item, Problem, Sample, Source, SourceError, check_drop, library, option, shown
from ._values import parse_int

_CONFIG = "data.yaml"
_NOT_LABELS = ("classes.txt", "README.txt")
"""Files in the label folder that labelling programs write and that are not label files."""


def open(
    src: Union[str, "os.PathLike[str]"],
    *,
    drop: Collection[str] = (),
    split: str | None = None,
    names: Sequence[str] | None = None,
    points: tuple[int, int] | None = None,
    root: Union[str, "os.PathLike[str]", None] = None,
    follow_links: bool = False,
) -> Source:
    """Open a folder with ``images`` and ``labels``. A ``data.yaml``, in the folder or given instead of it, contains the
    classes and the splits.

    The key of a sample is the path of its picture below the picture folder. Columns: ``image``, the unchanged file;
    ``boxes``, float32 ``[objects, 4]``: x and y of the centre, width and height, as fractions of the picture;
    ``classes``, int64 ``[objects]``. With `points` also ``keypoints``, float32 ``[objects, points, 2 or 3]``, as
    fractions. A picture without a label file has no objects. A label file without a picture counts as a bad sample. It
    is an error if no picture has labels, because the names probably do not match.

    Parameters
    ----------
    src
        The folder, or a ``data.yaml``. Reading a ``data.yaml`` needs PyYAML.
    drop
        Columns to leave out.
    split
        ``"train"``, ``"val"`` …: an entry of the ``data.yaml``, or else a folder below ``images`` and ``labels``.
        Default: the only split of the ``data.yaml``. Without that file, all of ``images`` is converted, with a
        warning if it contains several splits.
    names
        Class names in order. Default: the names in the ``data.yaml``, or no names without that file.
    points
        Number of points per object and of numbers per point, like ``kpt_shape``: ``(17, 3)``.
    root
        The folder of the dataset, if it is not the folder of the ``data.yaml``. Paths outside it are not read.
    follow_links
        Follow links that lead out of this folder. Default: they are refused.
    """
    path = Path(src)
    config_path = path if path.is_file() else path / _CONFIG
    notes: list[str] = []
    # If the caller has given `names`, the `data.yaml` is optional, so a missing PyYAML is not an error.
    if path.is_file() or (config_path.is_file() and (not names or importlib.util.find_spec("yaml") is not None)):
        config = _yaml(config_path)
        names = names or _names(config_path, config.get("names"))
        key, points = ("points", points) if points else ("kpt_shape", config.get("kpt_shape"))
        base = config_path.parent if root is None else folder(Path(root), "with the dataset (`root`)")
        inside = None if follow_links else base.resolve()
        images = _pictures(config_path, config, split, base, inside)
        said = f"`{shown(config_path)}`: "
    else:
        key, base = "points", folder(path, "with `images` and `labels`")
        inside = None if follow_links else base.resolve()
        images = folder(base / "images" / (split or ""), "with the pictures", inside)
        notes += _merged(images) if split is None else []
        said = ""
    names = check_names(names, f"{said}names") if names else None
    pair = isinstance(points, (tuple, list)) and len(points) == 2 and all(isinstance(one, int) for one in points)
    if points is not None and (not pair or points[0] < 1 or points[1] not in (2, 3)):
        raise SourceError(
            f"{said}`{key}` must be (POINTS, VALUES) with 2 or 3 values per point, such as (17, 3), "
            f"found: {short(points)}"
        )
    check_drop(f"`{shown(path)}`", drop, ["image", "boxes", "classes", *(["keypoints"] if points else [])])
    files = sorted(file for file in images.rglob("*") if file.suffix.lower() in PICTURES and file.is_file())
    if not files:
        raise SourceError(f"`{shown(images)}`: found no pictures")
    labels = _labels(images, inside)
    stray = _stray(images, labels, files)
    shape = None if points is None else (points[0], points[1])
    reader = _Reader(images, labels, len(names) if names else None, shape, inside)
    return Source(_samples(files, reader, stray), classes=list(names) if names else None, total=len(files), notes=notes, numbered=frozenset(["classes"]))


def _pictures(path: Path, config: Mapping[str, Any], split: str | None, base: Path, inside: Path | None) -> Path:
    """Return the picture folder of a split, from a ``data.yaml``."""
    splits = {name: config[name] for name in SPLITS if config.get(name)}
    if split is None and len({short(entry) for entry in splits.values()}) > 1:
        raise SourceError(
            f"`{shown(path)}` lists several splits: {', '.join(splits)}\n"
            f"hint: pass {option(split=next(iter(splits)))}, or convert each split and join them with sp.concat"
        )
    split = split or next(iter(splits), None)
    entry = config.get(split, f"images/{split}") if split else "images"
    if not isinstance(entry, str):
        raise SourceError(f"`{shown(path)}`: expected one folder of pictures for the split {split!r}, found: {short(entry)}")
    # Many files write `../train/images` for a folder next to them, or contain a `path` from another machine.
    entries = [entry, entry[3:]] if entry.startswith("../") else [entry]
    # Try the folder of the file first, because a copied file may still contain its original path.
    bases = [base, base / named if isinstance(named := config.get("path"), str) else base]
    places = [one / name for one in bases for name in entries]
    found = next((place for place in places if is_folder(place)), places[0])
    try:
        return folder(found, f"with the pictures for {split!r}" if split else "with the pictures", inside)
    except SourceError as error:
        hint = "" if is_folder(base) and not is_folder(found) else f"\nhint: set the dataset's folder with {option(root='FOLDER')}"
        raise SourceError(f"`{shown(path)}`: {error}{hint}") from None


def _merged(root: Path) -> list[str]:
    """Return a note if several splits are converted together."""
    splits = [name for name in SPLITS if (root / name).is_dir()]
    if len(splits) < 2:
        return []
    return [f"`{shown(root)}`: all splits are converted into one dataset: {', '.join(splits)}\nhint: pass {option(split=splits[0])} to convert only one"]


def _labels(root: Path, inside: Path | None) -> Path:
    """Return the label folder: the path of the pictures with ``labels`` in place of the last ``images``."""
    parts = list(root.parts)
    if "images" not in parts:
        raise SourceError(
            f"`{shown(root)}`: the pictures must be in a folder named `images`, with the labels next to it in a folder "
            "named `labels`"
        )
    parts[len(parts) - 1 - parts[::-1].index("images")] = "labels"
    return folder(Path(*parts), "with the labels", inside)


def _stray(root: Path, labels: Path, files: Sequence[Path]) -> list[Path]:
    """Return the label files that have no picture. Raise an error if no picture has labels."""
    found = {file for file in labels.rglob("*.txt") if file.name not in _NOT_LABELS and not file.name.startswith(".")}
    expected = {_of_picture(file, root, labels) for file in files}
    if found.isdisjoint(expected):
        some = f"only files such as `{shown(min(found))}`" if found else "no label files"
        raise SourceError(
            f"`{shown(labels)}`: no picture has a label file: expected files such as `{shown(min(expected))}`, "
            f"found {some}\n"
            "hint: give each label file the name of its picture, with the extension .txt, in the same subfolder"
        )
    return sorted(found - expected)


def _of_picture(file: Path, root: Path, labels: Path) -> Path:
    return (labels / file.relative_to(root)).with_suffix(".txt")


def _yaml(path: Path) -> Mapping[str, Any]:
    yaml = library("yaml", "YOLO's data.yaml")
    try:
        config = yaml.safe_load(text(path))
    except MemoryError:
        raise
    except Exception as error:  # Its constructors of dates and numbers raise anything.
        raise SourceError(f"`{shown(path)}`: not valid YAML: {error}") from None
    if not isinstance(config, dict):
        raise SourceError(f"`{shown(path)}`: expected a mapping, as in a YOLO data.yaml, found: {type(config).__name__}")
    return config


def _names(path: Path, names: Any) -> list[str] | None:
    if names is None:
        return None
    if isinstance(names, dict):
        if set(names) != set(range(len(names))):
            keys = short(list(names))
            raise SourceError(f"`{shown(path)}`: the keys of `names` must be 0 to {len(names) - 1}, found: {keys}")
        names = [names[number] for number in range(len(names))]
    if not isinstance(names, list):
        raise SourceError(f"`{shown(path)}`: `names` must be a list or a mapping, found: {type(names).__name__}")
    wrong = next((name for name in names if not isinstance(name, (str, int, float))), None)
    if wrong is not None:
        raise SourceError(f"`{shown(path)}`: expected class names, found: {short(wrong)}")
    return [str(name) for name in names]


class _Reader:

    def __init__(self, root: Path, labels: Path, classes: int | None, points: tuple[int, int] | None, inside: Path | None) -> None:
        self.root, self.labels, self.classes, self.points, self.inside = root, labels, classes, points, inside

    def read(self, file: Path) -> dict[str, Any]:
        path = _of_picture(file, self.root, self.labels)
        rows: list[list[float]] = []
        classes: list[int] = []
        lines: list[int] = []
        width = 4 if self.points is None else 4 + self.points[0] * self.points[1]
        for number, line in enumerate(text(path, self.inside).splitlines() if os.path.lexists(path) else [], 1):
            words = line.split()
            if not words:
                continue
            if len(words) != width + 1:
                hint = "" if self.points or len(words) < 7 else f"\nhint: pass {option(points=(17, 3))} for poses; polygons are not supported"
                raise ValueError(
                    f"`{shown(path)}`, line {number}: expected a class and {width} numbers, found {len(words)} "
                    f"values{hint}"
                )
            try:
                of_class, row = parse_int(words[0]), [float(word) for word in words[1:]]
            except ValueError:
                raise ValueError(f"`{shown(path)}`, line {number}: expected a class and {width} numbers, found: {line[:100]!r}") from None
            most = 2**31 if self.classes is None else self.classes
            if not 0 <= of_class < most:
                raise ValueError(f"`{shown(path)}`, line {number}: expected a class from 0 to {most - 1}, found: {words[0][:100]}")
            if not all(-0.01 <= share <= 1.01 for share in row[:4]):
                raise ValueError(
                    f"`{shown(path)}`, line {number}: a box must be given as fractions of the picture's width and "
                    f"height, from 0 to 1, found: {line[:100]!r}"
                )
            classes.append(of_class)
            rows.append(row)
            lines.append(number)
        all_numbers = numbers(rows, width, f"an object of `{shown(path.name)}`")
        boxes = all_numbers[:, :4].copy()
        beyond = outside(np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1), 1, 1)
        if beyond.any():
            at = int(np.argmax(beyond))
            raise ValueError(f"`{shown(path)}`, line {lines[at]}: the box lies outside the picture: {rows[at][:4]}")
        values = {"image": picture(file, self.inside), "boxes": boxes, "classes": np.array(classes, np.int64)}
        if self.points is not None:
            values["keypoints"] = all_numbers[:, 4:].reshape(-1, *self.points).copy()
        return values


def _samples(files: Sequence[Path], reader: _Reader, stray: Sequence[Path]) -> Iterator[Item]:
    for file in files:
        where = f"`{shown(file)}`"
        try:
            values = reader.read(file)
        except (ValueError, OSError) as error:
            yield Problem(f"{where}: {error}")
            continue
        yield Sample(file.relative_to(reader.root).as_posix(), values, where)
    for file in stray:
        name = file.relative_to(reader.labels).with_suffix("").as_posix()
        yield Problem(f"`{shown(file)}`: these labels have no picture: there is no `{shown(name)}` in `{shown(reader.root)}`")
