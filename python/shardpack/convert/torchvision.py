"""Reads torchvision's datasets and other map-style datasets. They are recognised by their attributes, so torchvision is
not imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import numpy as np

from ._masks import as_masks
from ._source import Item, Problem, Sample, Source, SourceError, shown
from ._values import check_array, is_picture_object, not_picture, picture_type

PathOf = Union[Sequence[Union[str, "os.PathLike[str]"]], Callable[[int], Union[str, "os.PathLike[str]"]]]


def open(
    src: Any,
    *,
    drop: Collection[str] = (),
    columns: Sequence[str] | None = None,
    paths: PathOf | None = None,
    key: Callable[[int], str] | None = None,
    masks: Collection[str] = (),
) -> Source:
    """Open a map-style dataset: an object with ``len(dataset)`` and ``dataset[i]``.

    If the dataset has a list ``samples`` of ``(path, label)``, as `ImageFolder` and `DatasetFolder` do, the files are
    read directly. JPEG files then stay unchanged, the key is the path below ``root``, and no transform runs. For any
    other dataset, ``dataset[i]`` is called, including its transforms. PIL images and uint8 `[height, width, 3]`
    arrays are stored without loss, tensors as arrays, and numbers as scalars. Entries of a dict keep their names. A
    `Subset` works too.

    Parameters
    ----------
    src
        The dataset. If it has a list ``classes``, that list names the classes.
    drop
        Columns to leave out. The dataset still computes them.
    columns
        Names of the parts of ``dataset[i]``, if that is a tuple. Default: ``("image", "label")``.
    paths
        The picture files, as a list or as a function of the index. The bytes of these files are stored unchanged. The
        other columns come from ``dataset[i]``.
    key
        A function from index to key. Default: the path as described above, or the running number.
    masks
        Picture columns that hold class numbers: ``masks=["mask"]``. They become arrays of palette indices or grey
        values. It is an error if a mask is in colour, or if its size differs from the size of the upright picture.
    """
    dataset, indices = _unwrap(src)
    if (
        isinstance(dataset, (str, os.PathLike))
        or not hasattr(dataset, "__getitem__")
        or not hasattr(dataset, "__len__")
    ):
        raise SourceError(
            f"expected a dataset that supports `len(dataset)` and `dataset[i]`, found: {type(dataset).__name__}\n"
            "hint: use `shardpack.pack` for folders of pictures"
        )
    classes = getattr(dataset, "classes", None)
    names = [str(name) for name in classes] if isinstance(classes, (list, tuple)) else None
    reader = (
        _Files(dataset)
        if paths is None and columns is None and _has_files(dataset)
        else _Items(dataset, columns, paths)
    )
    return Source(_samples(indices, reader, key), classes=names, total=len(indices), masks=as_masks(masks))


def _unwrap(dataset: Any) -> tuple[Any, Sequence[int]]:
    """Return the dataset inside any `Subset`, and the indices into it."""
    chain = []
    while hasattr(dataset, "dataset") and hasattr(dataset, "indices"):
        chain.append(dataset.indices)
        dataset = dataset.dataset
    if not hasattr(dataset, "__len__"):
        raise SourceError(
            f"expected a dataset that supports `len(dataset)` and `dataset[i]`, found: {type(dataset).__name__}"
        )
    indices: Sequence[int] = range(len(dataset))
    for subset in reversed(chain):
        indices = [indices[int(index)] for index in subset]
    return dataset, indices


def _has_files(dataset: Any) -> bool:
    samples = getattr(dataset, "samples", None)
    if (
        not isinstance(samples, list)
        or not samples
        or not isinstance(samples[0], (tuple, list))
        or len(samples[0]) != 2
    ):
        return False
    path, label = samples[0]
    return isinstance(path, (str, os.PathLike)) and isinstance(label, int)


class _Files:
    def __init__(self, dataset: Any) -> None:
        self.samples = dataset.samples
        self.root = getattr(dataset, "root", None)

    def where(self, index: int) -> str:
        return f"`{shown(os.fspath(self.samples[index][0]))}`"

    def read(self, index: int) -> tuple[str | None, Mapping[str, Any]]:
        path, label = self.samples[index]
        return _key_of(path, self.root), {"image": _picture(path), "label": int(label)}


class _Items:
    """The values of `dataset[i]`. With `paths`, the pictures are the bytes of these files."""

    def __init__(self, dataset: Any, columns: Sequence[str] | None, paths: PathOf | None) -> None:
        self.dataset = dataset
        self.columns = tuple(columns or ("image", "label"))
        self.paths = paths
        self.root = getattr(dataset, "root", None)

    def where(self, index: int) -> str:
        return f"`{shown(type(self.dataset).__name__)}`, sample {index}"

    def read(self, index: int) -> tuple[str | None, Mapping[str, Any]]:
        values = {name: _value(value) for name, value in self._named(self.dataset[index]).items()}
        if self.paths is None:
            return None, values
        path = self.paths(index) if callable(self.paths) else self.paths[index]
        return _key_of(path, self.root), values | {"image": _picture(path)}

    def _named(self, item: Any) -> dict[str, Any]:
        if isinstance(item, Mapping):
            return {str(name): value for name, value in item.items()}
        if not isinstance(item, (tuple, list)):
            return {self.columns[0]: item}
        if len(item) != len(self.columns):
            raise ValueError(
                f"expected {len(self.columns)} values ({', '.join(self.columns)}), found: {len(item)}\n"
                "hint: pass a name for every value, such as columns=('image', 'label', …)"
            )
        return dict(zip(self.columns, item))


def _samples(indices: Sequence[int], reader: Union[_Files, _Items], key: Callable[[int], str] | None) -> Iterator[Item]:
    for index in indices:
        where = reader.where(index)
        try:
            own, values = reader.read(index)
        except (ValueError, OSError) as error:
            yield Problem(f"{where}: {error}")
            continue
        yield Sample(own if key is None else key(index), values, where)


def _key_of(path: Union[str, os.PathLike[str]], root: Any) -> str:
    file = Path(path)
    try:
        return file.relative_to(root).as_posix()
    except (TypeError, ValueError):
        return "/".join(file.parts[-2:]) if not file.is_absolute() or len(file.parts) > 2 else file.name


def _picture(path: Union[str, os.PathLike[str]]) -> bytes:
    data = Path(path).read_bytes()
    if picture_type(data) is None:
        raise ValueError(not_picture(data))
    return data


def _value(value: Any) -> Any:
    if is_picture_object(value):
        return value
    if hasattr(value, "detach") and hasattr(value, "numpy"):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        return check_array(value) if value.ndim else check_array(value)[()]
    return value
