"""A batch: the fields of several samples, as views of the loader's memory."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, Mapping, MutableMapping, Sequence, ValuesView
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from shardpack import _shardpack
from shardpack._views import Views
from shardpack._convert import Convert
from shardpack._device import stream_of

Objects = Callable[["_shardpack.Batch", "Sequence[str]"], "dict[str, list[Any]]"]
"""Reads the fields of a batch that are not tensors, as a mapping from name to a list of one value per row."""


@dataclass(frozen=True)
class BatchFormat:
    """Properties that all batches of a loader share."""

    convert: Convert
    fields: Sequence[str]
    objects: Objects
    pictures: frozenset[str]
    unpacks: bool
    """True if the program passed ``fields``. A batch can then be unpacked in that order."""
    members: NDArray[np.uint64] | None
    """For a subset, the numbers of its samples in the whole dataset, in ascending order."""


class Ragged:
    """A field whose rows differ in size: whole pictures, cubes of several shapes, or stored bytes.

    ``ragged[i]`` is row ``i`` in its own shape. It is a view of :attr:`values`.
    """

    __slots__ = ("offsets", "shapes", "values")

    values: Any
    """The elements of all rows on one axis. There may be unused elements between rows."""
    offsets: NDArray[np.int64]
    """Start of each row in :attr:`values`, in elements: ``[rows]``."""
    shapes: NDArray[np.int64]
    """Shape of each row: ``[rows, axes]``, zero for padding and skipped samples."""

    def __init__(self, values: Any, offsets: NDArray[np.int64], shapes: NDArray[np.int64]) -> None:
        self.values, self.offsets, self.shapes = values, offsets, shapes

    def __getattr__(self, name: str) -> Any:
        """Raise an error that explains why a tensor attribute is missing."""
        message = f"Ragged has no attribute {name!r}: its rows have different sizes"
        if not name.startswith("_"):
            message += "\nhint: pass image=\"rrc224\" or cube=\"patch64x64\" to get one tensor for all rows, or use ragged[i] for one row"
        raise AttributeError(message, name=name, obj=self)

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, row: int) -> Any:
        """Row ``row`` in its own shape. Negative numbers count from the end."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} is out of range for a Ragged of length {len(self)}")
        shape = tuple(int(axis) for axis in self.shapes[row])
        start = int(self.offsets[row])
        return self.values[start : start + int(np.prod(shape, dtype=np.int64))].reshape(shape)

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        return f"Ragged({len(self)} rows of {self.shapes.shape[1]} axes, {self.values.dtype})"

    def to(self, *args: Any, **kwargs: Any) -> Ragged:
        """Torch only: return the same rows on another device, using ``torch.Tensor.to``."""
        return Ragged(self.values.to(*args, **kwargs), self.offsets, self.shapes)

    def pin_memory(self, *args: Any) -> Ragged:
        """Torch only: return the same rows in pinned memory. Rows on a GPU are returned unchanged."""
        return Ragged(_pinned(self.values, *args), self.offsets, self.shapes)


def _pinned(value: Any, *args: Any) -> Any:
    if isinstance(value, Ragged):
        return value.pin_memory(*args)
    # PyTorch can pin only host memory.
    return value if getattr(value, "is_cuda", False) else value.pin_memory(*args)


# Types of values that are left unchanged when a batch moves to another device, because they are not tensors.
_PLAIN = (list, dict, str, bytes, int, float, type(None))


_UNKNOWN = (
    "batch.{} is not available: another library, such as Accelerate, copied this batch and kept only its fields\n"
    "hint: iterate over the Loader directly instead of passing it to accelerator.prepare() or a similar function"
)


class Batch(MutableMapping[str, Any]):
    """A batch: a mapping from field to the values of its rows.

    The values are a tensor ``[rows, …]``, a :class:`Ragged`, or, for text, JSON and bytes, a list of Python objects.

    Tensors are not copied: they are writable views of the memory of the loader, which has a slot for each batch. The
    loader reuses a slot once its batch and all tensors of that batch are deleted. You may keep batches: if all slots
    are in use, the loader allocates more (``stats()["extra_slots"]`` counts them).

    ``dict(batch)``, ``model(**batch)``, ``batch.items()`` and ``batch.get("label")`` work as for a dict, and you may
    replace or add values. Two things differ: ``len(batch)`` counts rows, and iteration yields values. With
    ``Loader(…, fields=["image", "label"])`` the values come in the order of ``fields``, so ``images, labels =
    batch`` works. Without ``fields``, iteration raises ``TypeError``. Code that iterates over names, such as
    ``ChainMap``, needs ``dict(batch)``. :attr:`sample_keys`, :attr:`mask` and :attr:`indices` are attributes, so
    they cannot clash with fields.

    ``Batch(fields)`` makes a batch from any mapping. Libraries that split and join batches do this, such as Accelerate
    and Hugging Face's Trainer. Such a batch has only fields. Accessing its sample keys, mask or indices raises an
    error.
    """

    # fmt: off
    __slots__ = (
        "_core", "_format", "_indices", "_is_collated", "_is_lent", "_keys", "_mask", "_names", "_patches", "_rows",
        "_unpacks", "_values",
    )
    # fmt: on

    _core: _shardpack.Batch | None
    _format: BatchFormat | None
    _names: list[str]
    _rows: int
    _values: dict[str, Any]
    _keys: list[str] | None
    _mask: Any
    _patches: tuple[NDArray[np.int64], NDArray[np.int64]] | None
    _indices: Any
    _is_lent: bool
    _unpacks: bool
    _is_collated: bool

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._core = self._format = None
        self._values = dict(fields)
        self._names = list(self._values)
        self._rows = next((len(value) for value in self._values.values() if hasattr(value, "__len__")), 0)
        self._keys = self._mask = self._indices = self._patches = None
        self._is_lent = self._unpacks = self._is_collated = False

    # Batches compare by identity, because comparing arrays does not give a single true or false.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __len__(self) -> int:
        """Number of rows, including padding."""
        return self._rows

    def __contains__(self, field: object) -> bool:
        return field in self._names

    def __iter__(self) -> Iterator[Any]:
        """Yield the values in the order of the loader's ``fields``."""
        if self._is_collated:
            return iter(list(self._names))
        if not self._unpacks:
            named = ", ".join(f"batch[{name!r}]" for name in self._names[:2])
            raise TypeError(
                "cannot iterate over this batch: its loader was created without fields=[…], so the order of its fields is undefined\n"
                f"hint: use {named} for the values, batch.items() for names and values, or batch.keys() for the names"
            )
        return iter(self._whole().values())

    def __getitem__(self, field: str) -> Any:
        """The values of a field, converted to the framework's tensor on first use."""
        if not isinstance(field, str):
            hint = "use batch['image'][0] for the first row of a field, or dict(batch) for all fields by name"
            raise TypeError(f"batch[…]: expected the name of a field, found {type(field).__name__}\nhint: {hint}")
        value = self._values.get(field)
        if value is None:
            # If several threads convert the field at once, all of them return the value of the fastest.
            value = self._values.setdefault(field, self._make(field))
        return value

    def __setitem__(self, field: str, value: Any) -> None:
        if field not in self._names:
            self._names.append(field)
        self._values[field] = value

    def __delitem__(self, field: str) -> None:
        if field not in self._names:
            raise self._unknown(field)
        self._names.remove(field)
        self._values.pop(field, None)

    def update(self, other: Any = (), /, **fields: Any) -> None:
        """Replace or add fields. ``other`` is a mapping, a batch, or pairs of name and value."""
        # MutableMapping.update would iterate over `other` to get names, but a batch yields values.
        pairs: Iterable[tuple[str, Any]] = ((name, other[name]) for name in other.keys()) if hasattr(other, "keys") else other
        # Read all values before replacing the first one, so that an error leaves the batch unchanged.
        for name, value in [*pairs, *fields.items()]:
            self[name] = value

    def popitem(self) -> tuple[str, Any]:
        """Remove the last field and return its name and values."""
        if not self._names:
            raise KeyError("the batch has no fields")
        name = self._names[-1]
        return name, self.pop(name)

    def _unknown(self, field: object) -> KeyError:
        return KeyError(f"the batch has no field {field}; its fields are {', '.join(self._names)}")

    def _make(self, field: str) -> Any:
        core, form = self._core, self._format
        if field not in self._names:
            raise self._unknown(field)
        if field in self._values:
            return self._values[field]
        # Only batches from a loader convert on access. Other batches already have all values.
        assert core is not None and form is not None
        tensors = core.names()
        if field not in tensors:
            missing = [name for name in self._names if name not in tensors and name not in self._values]
            for name, value in form.objects(core, missing).items():
                self._values.setdefault(name, value)
            return self._values[field]
        tensor = form.convert(core.tensor(field))
        if not core.is_ragged(field):
            return tensor
        offsets, shapes = core.rows(field)
        return Ragged(tensor, offsets, shapes.reshape(len(offsets), -1))

    def _whole(self) -> dict[str, Any]:
        return {name: self[name] for name in self._names}

    def items(self) -> ItemsView[str, Any]:
        """The name and the values of every field."""
        return self._whole().items()

    def values(self) -> ValuesView[Any]:
        """The values of every field."""
        return self._whole().values()

    def keys(self) -> KeysView[str]:
        """The name of every field."""
        return dict.fromkeys(self._names).keys()

    def weights(self, field: str) -> list[NDArray[np.float32] | None]:
        """The weight of each value of an aligned field, such as one weight per box.

        With Mixup, a row has the boxes of two pictures, and each box has the weight of its picture. Otherwise all
        weights are 1.

        Parameters
        ----------
        field : str
            Name of an aligned field of arrays: boxes, arrays with one row per box, keypoints, polygons or masks of
            objects.

        Returns
        -------
        list of (NDArray of float32, or None)
            Weights ``[values]`` of each row, or ``None`` for a row without values.

        Raises
        ------
        KeyError
            The field is not aligned with a picture, or is not a field of arrays.
        """
        if not self._is_lent:
            raise AttributeError(_UNKNOWN.format("weights"))
        return self._lent("weights").weights(field)

    def _lent(self, method: str) -> _shardpack.Batch:
        """Return the batch in the loader's memory. A copy of a batch has none, which is an error."""
        if not self._is_lent or self._core is None:
            raise RuntimeError(f"{method}() works only on the batch that the loader returned, not on a copy of it")
        return self._core

    @property
    def rows(self) -> int:
        """Number of rows, including padding."""
        return self._rows

    @property
    def sample_keys(self) -> list[str]:
        """The sample key of each row. Padding rows have an empty key."""
        if not self._is_lent:
            raise AttributeError(_UNKNOWN.format("sample_keys"))
        if self._keys is None:
            assert self._core is not None
            self._keys = self._core.keys()
        return self._keys

    @property
    def mask(self) -> Any:
        """True for rows that hold a sample, as bool ``[rows]``. False for padding (``end="pad"``) and for skipped
        damaged samples (``skip_corrupt``).
        """
        if not self._is_lent:
            raise AttributeError(_UNKNOWN.format("mask"))
        if self._mask is None:
            assert self._core is not None and self._format is not None
            self._mask = self._format.convert(self._core.mask())
        return self._mask

    def present(self, field: str) -> Any:
        """True for rows whose sample has a value for ``field``, as bool ``[rows]``. Missing values (written as
        ``None``) and rows without a sample are zeros in the batch.
        """
        core = self._lent("present")
        assert self._format is not None
        if field not in self._names:
            raise self._unknown(field)
        if field in core.names():
            return self._format.convert(core.present(field))
        return self._format.convert(np.array([value is not None for value in self[field]], np.bool_))

    def views(self, field: str | None = None) -> Views:
        """The view of each row: the visible part in pixels of the whole picture, its size in the batch, and whether it
        is mirrored.

        This reads the records of the batch again if the view depends on boxes (``ioucropN``), or if the dataset stores
        no orientations of its pictures. Otherwise it reads no data. The result is the same if the batch is on a GPU.

        Parameters
        ----------
        field : str, optional
            Name of the picture field. Default: the only picture field of the batch.

        Raises
        ------
        UsageError
            The field does not hold decoded pictures, or the dataset does not store their sizes.
        """
        core = self._lent("views")
        if field is None:
            pictures = [name for name in core.names() if self._format is not None and name in self._format.pictures]
            if len(pictures) != 1:
                if not pictures:
                    raise ValueError("views() needs a picture field, but this batch has none")
                raise ValueError(f"this batch has several picture fields, so views() needs the name of one: {', '.join(pictures)}")
            field = pictures[0]
        if field not in self._names:
            raise self._unknown(field)
        source, crop, size, flipped = core.shown(field)
        return Views(source.reshape(-1, 2), crop.reshape(-1, 4), size.reshape(-1, 2), flipped)

    @property
    def origins(self) -> NDArray[np.int64]:
        """Position of each row's patch in its scene: first row and column in pixels, int64 ``[rows, 2]``. For volumes:
        first plane, row and column, ``[rows, 3]``. Rows without a patch have -1. Needs a loader that cuts patches
        (``cube="patch64x64"``).
        """
        return self._places()[0]

    @property
    def scene_sizes(self) -> NDArray[np.int64]:
        """Height and width of the scene from which each row's patch is cut, int64 ``[rows, 2]``. For volumes: depth,
        height and width, ``[rows, 3]``. Rows without a patch have -1.
        """
        return self._places("scene_sizes")[1]

    def _places_if_any(self) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        return self._patches if self._core is None or self._core.patches() is None else self._places()

    def _places(self, name: str = "origins") -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if not self._is_lent:
            raise AttributeError(_UNKNOWN.format(name))
        if self._patches is None:
            patches = None if self._core is None else self._core.patches()
            if patches is None:
                raise AttributeError(f'{name} are not available, because the loader does not cut patches\nhint: pass cube="patch64x64" to the loader')
            axes, origins, scenes = patches
            self._patches = origins.reshape(-1, axes), scenes.reshape(-1, axes)
        return self._patches

    @property
    def indices(self) -> Any:
        """Index of each row's sample in the loader's dataset or subset, int64 ``[rows]``. Padding rows have -1."""
        if not self._is_lent:
            raise AttributeError(_UNKNOWN.format("indices"))
        if self._indices is None:
            assert self._core is not None and self._format is not None
            numbers = self._core.indices()
            members = self._format.members
            if members is not None:
                # Search as int64, because NumPy would promote uint64 and -1 to float.
                numbers = np.where(numbers < 0, -1, np.searchsorted(members.view(np.int64), numbers))
            self._indices = self._format.convert(numbers)
        return self._indices

    def __repr__(self) -> str:
        more = [f"{len(self._names) - 4} more"] if len(self._names) > 5 else self._names[4:]
        return f"Batch({self._rows} rows: {', '.join(self._names[:4] + more)})"

    def to(self, *args: Any, **kwargs: Any) -> Batch:
        """Torch only: return the same rows on another device, using ``torch.Tensor.to``. Lightning and Accelerate call
        this.
        """
        return self._mapped(lambda value: value.to(*args, **kwargs))

    def pin_memory(self, *args: Any) -> Batch:
        """Torch only: return the same rows in pinned memory. Tensors on a GPU stay there. A ``DataLoader`` with
        ``pin_memory=True`` calls this.
        """
        return self._mapped(lambda value: _pinned(value, *args))

    def used_on(self, stream: Any) -> None:
        """Register another CUDA stream that uses this batch. The stream on which a field is first accessed is
        registered automatically.

        ``stream`` is a PyTorch, CuPy or Numba stream, or its handle. After the batch and its tensors are deleted, the
        loader reuses the memory once the work queued on the stream by then has finished. The stream must exist until
        then. No effect on batches decoded on the host.
        """
        handle = stream_of(stream)
        if self._core is not None:
            self._core.used_on(handle)

    def _mapped(self, change: Callable[[Any], Any]) -> Batch:
        def changed(value: Any) -> Any:
            # Arrays that differ in length between rows are in a list.
            if isinstance(value, list):
                return [changed(one) for one in value]
            return value if isinstance(value, _PLAIN) else change(value)

        values = {name: changed(value) for name, value in self.items()}
        if not self._is_lent:
            return Batch(values)
        mask, indices, patches = change(self.mask), change(self.indices), self._places_if_any()
        return _loose(self._rows, values, self.sample_keys, mask, indices, self._unpacks, patches)

    def __copy__(self) -> Batch:
        """Return the same rows and tensors in a new mapping. ``DataLoader`` makes such copies."""
        batch = Batch.__new__(Batch)
        for name in Batch.__slots__:
            setattr(batch, name, getattr(self, name))
        batch._names, batch._values = list(self._names), dict(self._values)
        batch._is_collated = False
        return batch

    def copy(self) -> Batch:
        """Same as ``copy.copy``."""
        return self.__copy__()

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process cannot view the loader's memory, so a batch that is pickled (for example by a DataLoader
        # worker) is copied.
        if not self._is_lent:
            return Batch, (self._whole(),)
        values, patches = self._whole(), self._places_if_any()
        return _loose, (self._rows, values, self.sample_keys, self.mask, self.indices, self._unpacks, patches)


def lend(core: _shardpack.Batch, form: BatchFormat) -> Batch:
    batch = Batch({})
    batch._core, batch._format, batch._is_lent = core, form, True
    batch._names, batch._rows, batch._unpacks = list(form.fields), len(core), form.unpacks
    return batch


def collated(batch: Batch) -> Batch:
    """Return a batch for a ``collate_fn``. Iteration yields field names, as for any mapping. The copy that
    ``DataLoader`` makes yields values again.
    """
    batch._is_collated = True
    return batch


def _loose(
    rows: int,
    values: dict[str, Any],
    keys: Sequence[str],
    mask: Any,
    indices: Any,
    unpacks: bool,
    patches: tuple[NDArray[np.int64], NDArray[np.int64]] | None,
) -> Batch:
    """Make a batch from values that are not in the loader's memory."""
    batch = Batch(values)
    batch._rows, batch._is_lent, batch._unpacks = rows, True, unpacks
    batch._keys, batch._mask, batch._indices, batch._patches = list(keys), mask, indices, patches
    return batch
