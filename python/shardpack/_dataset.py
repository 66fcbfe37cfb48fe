"""A dataset, with its samples by index, its columns and its metadata."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex, TypeAlias, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shardpack import _added, _arrow, _index, _shardpack, _split, _warn
from shardpack._columns import Columns, Keys, UnknownKey
from shardpack._index import Indices
from shardpack._keywords import names
from shardpack._size import Size, size
from shardpack._url import is_url, settings

if TYPE_CHECKING:
    import pyarrow

    from shardpack._pack import Progress

Sample: TypeAlias = "dict[str, Any]"
"""A sample: ``"__key__"`` and every field by its name.

Pictures are uint8 ``[height, width, 3]``, upright. Arrays are ``ndarray``, scalars Python numbers,
text ``str``, JSON the result of ``json.loads``, bytes ``bytes``, and missing values ``None``.
Packing figures, such as ``cube.max_abs_error``, are in :attr:`Dataset.columns`.
"""


class Field(NamedTuple):
    """One field in the samples of a dataset."""

    name: str
    """Name of the field."""
    kind: str
    """``"image"``, ``"array"``, ``"text"``, ``"json"``, ``"bytes"`` or ``"scalar"``."""
    dtype: np.dtype[Any] | None
    """Element type of a scalar. ``None`` for other fields, because their type may differ between samples."""


class Dataset:
    """A packed dataset: a folder with a manifest, or a lone shard, on this machine or in an object store.

    Samples are numbered in stored order. Opening a dataset reads only the manifest; shards are opened on first use. All
    methods may be called from several threads, and they release the GIL while they read and decode. A pickled dataset
    contains its path, its ``storage_options`` and its id, which is checked when the dataset is reopened. After a fork,
    the files are reopened.

    Parameters
    ----------
    path : str or os.PathLike
        The dataset's folder, its manifest, or a single shard. It may also be a URL string, such as
        ``"s3://bucket/train"``, with the scheme ``s3://``, ``gs://``, ``az://``, ``hf://``, ``http://``, ``https://``
        or ``file://``.
    verify_crc : bool, default True
        Check the CRC32 of each record before it is returned.
    max_record : int or str, default "4GiB"
        Size limit of a record and of a decoded field, in bytes or as a string such as ``"16GiB"``. It limits the memory
        that an untrusted file can take. If a :class:`Loader` reads only a patch or some bands of an array, only that
        part counts.
    generation : int, optional
        Generation to open if the dataset has grown or shrunk (:func:`add`, :func:`remove`). Generations count from
        1. Default: the newest. If this is given, ``path`` must be the folder.
    storage_options : mapping from str to str, optional
        For a URL: options of its store (``"aws_region"``, ``"endpoint"``, ``"allow_http"``, …) and of the reader
        (``"stall_timeout"``, ``"max_attempts"``, ``"read_ahead_bytes"``, …). They override environment variables
        (``AWS_REGION``, …), which are the better place for credentials. docs/stores.md lists all names.
    cache : str or os.PathLike, optional
        For a URL: local folder that caches the bytes read, for all processes. It must be empty or already be a cache.
        Default: the folder named by ``SHARDPACK_CACHE``, or no cache if that is not set.
    cache_bytes : int or str, optional
        Size limit of that folder, in bytes or as a string such as ``"500GB"``. At least 64 MiB. Default 100 GB.

    Warns
    -----
    UserWarning
        A picture with more than 8 bits per sample was decoded to 8 bits. Issued only once.

    Raises
    ------
    OSError
        A file cannot be read. A missing file is a ``FileNotFoundError``.
    UsageError
        There is no dataset at the path.
    FormatError, LimitError
        The manifest is damaged, or it exceeds the limits.

    Examples
    --------
    >>> import shardpack as sp
    >>> dataset = sp.Dataset("train")        # doctest: +SKIP
    >>> dataset[7]["image"].shape            # doctest: +SKIP
    (375, 500, 3)
    >>> dataset.labels[:3]                   # doctest: +SKIP
    array([388,   2, 985])
    """

    _members: NDArray[np.uint64] | None = None

    # True once the user was warned that pictures are decoded to fewer bits.
    _told = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        verify_crc: bool = True,
        max_record: Size = "4GiB",
        generation: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        cache: str | os.PathLike[str] | None = None,
        cache_bytes: Size | None = None,
    ) -> None:
        if generation is not None and (isinstance(generation, bool) or not isinstance(generation, int) or not 0 < generation < 1 << 32):
            raise ValueError(f"generation: expected a positive integer, found {generation!r}")
        self._path: Path | str = path if isinstance(path, str) and is_url(path) else Path(path)
        self._verify_crc, self._max_record = verify_crc, size("max_record", max_record)
        # Make the path absolute, because the program may change its working directory before the files are opened.
        self._place = self._path if isinstance(self._path, str) else self._path.absolute()
        self._settings = settings(storage_options, cache=cache, cache_bytes=None if cache_bytes is None else size("cache_bytes", cache_bytes))
        self._opened = _shardpack.Dataset(self._place, verify_crc, self._max_record, generation, self._settings)
        self._pid = os.getpid()
        self._columns = Columns(self)

    @property
    def _core(self) -> _shardpack.Dataset:
        # After a fork, a thread of the parent may still hold the lock of the open files, so reopen them.
        if os.getpid() != self._pid:
            again = _reopened(*self._again())
            self._opened = again._opened
            self._pid = os.getpid()
        return self._opened

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, self._again()

    def _again(self) -> tuple[Any, ...]:
        opened = self._opened
        return self._place, self._verify_crc, self._max_record, opened.version, dict(self._settings), opened.generation

    def __len__(self) -> int:
        return len(self._core)

    def __repr__(self) -> str:
        found = [field.name for field in self.schema]
        more = [f"{len(found) - 4} more"] if len(found) > 5 else found[4:]
        return f"Dataset({str(self._path)!r}, {len(self)} samples: {', '.join(found[:4] + more)})"

    @overload
    def __getitem__(self, index: int | np.integer[Any], /) -> Sample: ...
    @overload
    def __getitem__(self, index: Indices, /) -> list[Sample]: ...
    def __getitem__(self, index: int | np.integer[Any] | Indices, /) -> Sample | list[Sample]:
        """Return one sample for an integer index. Return a list of samples for a slice, a list of indices or a boolean
        mask.
        """
        if _index.is_one(index):
            return self.get(index)
        return self.get_many(index)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    def get(self, index: SupportsIndex, fields: Sequence[str] | None = None) -> Sample:
        """Return one sample, or some of its fields. Only the named fields are decoded.

        Parameters
        ----------
        index : int
            Number of the sample.
        fields : sequence of str, optional
            Fields to decode. They may include packing figures, such as ``"cube.max_abs_error"``. Default: the same
            fields as ``dataset[i]``.

        Returns
        -------
        dict
            ``"__key__"`` and the fields. See :data:`Sample`.

        Raises
        ------
        IndexError
            There is no such sample.
        UsageError
            There is no such field.
        FormatError, LimitError, OSError
            The sample is damaged, exceeds the limits, or cannot be read.
        """
        core = self._core
        sample = core.get(self._stored(index), names("fields", fields))
        self._tell(core)
        return sample

    def get_many(self, indices: Indices, fields: Sequence[str] | None = None) -> list[Sample]:
        """Return samples in the order of ``indices``. Neighbouring samples are read together.

        Parameters
        ----------
        indices : slice, sequence of int, or ndarray
            Numbers of the samples, or a boolean mask.
        fields : sequence of str, optional
            Fields to decode, as in :meth:`get`.

        Returns
        -------
        list of dict
            The samples in the form of ``dataset[i]``. All of them are in memory at once.

        Raises
        ------
        IndexError
            There is no such sample.
        UsageError
            There is no such field.
        FormatError, LimitError, OSError
            A sample is damaged, exceeds the limits, or cannot be read. The message names the sample.
        """
        numbers = _index.many(indices, len(self))
        core = self._core
        samples = core.get_many(numbers if self._members is None else self._members[numbers], names("fields", fields))
        self._tell(core)
        return samples

    def _tell(self, core: _shardpack.Dataset) -> None:
        """Warn once that pictures were decoded to fewer bits."""
        if not self._told and (fields := core.narrowed()):
            self._told = True
            _warn.of_lost_bits(fields)

    def __getitems__(self, indices: Sequence[int]) -> list[Sample]:
        """Same as :meth:`get_many`. ``torch.utils.data.DataLoader`` calls it to fetch a batch."""
        return self.get_many(indices)

    @overload
    def raw(self, index: SupportsIndex) -> dict[str, bytes | None]: ...
    @overload
    def raw(self, index: SupportsIndex, field: str) -> bytes | None: ...
    def raw(self, index: SupportsIndex, field: str | None = None) -> bytes | dict[str, bytes | None] | None:
        """Return the stored bytes of a sample, such as a JPEG file, Blosc2 chunks or a zstd frame. Scalars have none.

        Parameters
        ----------
        index : int
            Number of the sample.
        field : str, optional
            Name of the field. Default: all fields.

        Returns
        -------
        bytes, or dict from field to bytes
            The stored bytes, or ``None`` for a missing value.

        Raises
        ------
        UsageError
            There is no stored field of this name.
        """
        number = self._stored(index)
        return self._core.raw_all(number) if field is None else self._core.raw(number, field)

    def by_key(self, key: str) -> Sample:
        """Return the sample with this key. If there is none, raise a ``KeyError`` that suggests similar keys."""
        return self[self.index_of(key)]

    def index_of(self, key: str) -> int:
        """Return the number of the sample with this key. Raises ``KeyError`` if there is none.

        The first call reads the indexes of all shards and takes 16 bytes of memory per sample.
        """
        number = self._place_of(key)
        if number is None:
            raise UnknownKey(key, self)
        return number

    def _place_of(self, key: str) -> int | None:
        """Return the number of the sample with this key, or ``None`` if there is none."""
        return self._core.index_of(key)

    def _stored(self, index: SupportsIndex) -> int:
        """Return the position of a sample in stored order."""
        number = _index.one(index, len(self))
        return number if self._members is None else int(self._members[number])

    # These properties do not read any record.

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of every sample: the scalar field ``label`` as int64 ``[samples]``. Raises ``UsageError`` if there
        is no such field.
        """
        return self._columns.labels

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """Every scalar field and every packing figure (``cube.max_abs_error``), as a read-only array ``[samples]`` of
        its stored type. Each column is read from the indexes on first use.
        """
        return self._columns

    def column(self, name: str) -> NDArray[Any]:
        """Return one of :attr:`columns`. Raises ``UsageError`` if no scalar field has this name."""
        return self._columns.load(name)

    @property
    def keys(self) -> Sequence[str]:
        """The key of every sample. Keys are looked up on access."""
        return Keys(self)

    def arrow(self) -> pyarrow.Table:
        """Return keys and :attr:`columns` as an Apache Arrow table, for filtering with DuckDB, Polars or pandas.

        The first columns are ``index`` (the sample's position in this dataset, for :meth:`subset`) and ``key``. If the
        classes have names, ``class`` holds them as a dictionary array. Needs ``pyarrow``.

        Examples
        --------
        >>> import pyarrow.compute as pc     # doctest: +SKIP
        >>> wide = dataset.arrow().filter(pc.field("width") >= 512)     # doctest: +SKIP
        >>> dataset.subset(wide["index"].to_numpy())     # doctest: +SKIP
        """
        return _arrow.table(self)

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes, indexed by label, or ``None`` if the dataset has no names."""
        return self._core.classes

    @property
    def schema(self) -> list[Field]:
        """The fields of a sample, in order. Packing figures (``cube.max_abs_error``) are only in :attr:`columns`.
        """
        fields = self._core.schema()
        return [Field(name, kind, None if dtype is None else np.dtype(dtype)) for name, kind, dtype in fields]

    @property
    def recipe(self) -> dict[str, Any]:
        """All options used to make the dataset."""
        return self._core.recipe()

    @property
    def fidelity(self) -> dict[str, Any] | None:
        """Errors of lossy encoding by field, as measured when the dataset was written. ``None`` for a lone shard."""
        return self._core.fidelity()

    @property
    def path(self) -> Path | str:
        """The path that was opened, or the URL as a string."""
        return self._path

    @property
    def generation(self) -> int:
        """The generation of the dataset. It is 1 after packing, and each :func:`add` or :func:`remove` increases it by
        one. Always 1 for a concat.
        """
        return self._core.generation

    @property
    def id(self) -> str:
        """The common id of all shards of the dataset, as 32 hexadecimal digits."""
        return self._core.id

    @property
    def nbytes(self) -> int:
        """Total size of all shards in bytes."""
        return self._core.nbytes

    def add_columns(
        self,
        columns: _added.Table | Mapping[str, ArrayLike],
        *,
        force: bool = False,
        threads: int | None = None,
        progress: Progress | None = None,
        spool: str | os.PathLike[str] | None = None,
        take_over: bool = False,
    ) -> Dataset:
        """Add fields to all samples, such as embeddings or predictions, as the next generation of the dataset.

        The values go into new files next to the shards, and no shard is rewritten. Afterwards the new fields act as all
        others: in samples, in :attr:`columns`, in batches of a :class:`Loader`. Older generations do not have them:
        ``Dataset(path, generation=1)`` opens the dataset as it was first packed. If the call is interrupted, the dataset
        is unchanged; repeat the call to continue. Repeating a call that succeeded writes nothing, if all values are equal
        in every byte.

        Parameters
        ----------
        columns : Arrow table, or mapping from str to array
            The new fields by name. A table is an Arrow table, or anything that exports one, such as a data frame of
            Polars or pandas. If there is a column ``"key"``, it contains the key of each row, and the rows may be in any
            order, but each sample must be there once. Otherwise the rows are in the order of the samples. Columns of
            numbers become scalar fields. Fixed-size lists of numbers, and arrays with more than one axis
            (``[samples, ...]``), become array fields, which are stored without loss.
        force : bool, default False
            Discard the unfinished work of an interrupted call that added or removed something else.
        threads : int, optional
            Number of threads. Default: one per core.
        progress : callable, optional
            Called about ten times a second: see :data:`Progress`.
        spool, take_over
            With a URL, as for :func:`pack`.

        Returns
        -------
        Dataset
            The new generation. This object stays at its own generation.

        Raises
        ------
        UsageError
            A sample has no row or several, the dataset has a field with one of the names (other than the same columns
            with equal values), a name is reserved, values are not numbers, or this is a subset, a concatenation or not the
            newest generation.
        FormatError, OSError
            The dataset is damaged, or a file cannot be written.

        Examples
        --------
        >>> scores = model.predict(dataset)     # doctest: +SKIP
        >>> dataset = dataset.add_columns({"score": scores, "embedding": embeddings})     # doctest: +SKIP
        >>> dataset[7]["embedding"].shape     # doctest: +SKIP
        (768,)
        """
        folder = _added.add(
            self, columns, force=force, threads=threads, progress=progress, spool=spool, take_over=take_over
        )
        return Dataset(folder, verify_crc=self._verify_crc, max_record=self._max_record, storage_options=dict(self._settings))

    def subset(self, which: Indices | Callable[[Mapping[str, NDArray[Any]]], Any]) -> Subset:
        """Return some samples of the dataset, each once, in stored order.

        Parameters
        ----------
        which : indices, boolean mask, or callable
            The samples to take. A callable gets :attr:`columns` and returns indices or a mask.

        Returns
        -------
        Subset
            A dataset of these samples. It can be indexed and loaded like any other.

        Raises
        ------
        UsageError
            A sample is named twice.

        Examples
        --------
        >>> cats = dataset.subset(lambda columns: columns["label"] == 3)     # doctest: +SKIP
        >>> train, val = dataset.subset(slice(1000, None)), dataset.subset(slice(1000))     # doctest: +SKIP
        """
        numbers = _index.many(which(self.columns) if callable(which) else which, len(self))
        return Subset(self, numbers if self._members is None else self._members[numbers])

    def split(
        self,
        shares: float | Sequence[float],
        *,
        stratify: _split.Attribute | None = None,
        groups: _split.Attribute | Callable[[str], Any] | None = None,
        seed: int = 0,
        growing: bool = False,
    ) -> list[Subset]:
        """Split the dataset into disjoint parts, such as training and validation.

        The samples are sorted by a hash of ``seed`` and key, and the sorted list is cut at the shares. So the parts do
        not depend on how the dataset is stored, and later versions of shardpack produce the same parts.

        Parameters
        ----------
        shares : float or sequence of float
            A single share such as ``0.8`` makes two parts: 0.8 of the samples, and the rest. Several shares must sum to
            1, for example ``[0.8, 0.1, 0.1]``. Each part has its share of the samples, rounded up or down, and at least
            one sample.
        stratify : str or sequence, optional
            A scalar field of integers, such as ``"label"``, or one value per sample: an integer, a boolean or a string.
            Each part gets its share of the samples of every value, to within one or two samples.
        groups : str, sequence or callable, optional
            A scalar field, a value for each sample, or a function of the key. Samples with the same value, such as all
            pictures of one patient, stay in one part. The cuts then fall between groups, as close to the shares as
            possible. With ``stratify``, a group has the value of most of its samples.
        seed : int, default 0
            Seed of the hash; a different seed gives different parts.
        growing : bool, default False
            Place each sample (or group) by its own hash alone, so that it stays in its part when the dataset grows
            or shrinks (:func:`add`, :func:`remove`). The sizes of the parts are then random, and ``stratify`` is
            refused. By default, the sizes are exact, but after an addition, samples near a cut may move to another
            part.

        Returns
        -------
        list of Subset
            One subset per share, in order.

        Raises
        ------
        UsageError
            A part would be empty, the shares do not sum to 1, or there is no scalar field of integers with this name.

        Examples
        --------
        >>> train, val = dataset.split(0.8, stratify="label")                                # doctest: +SKIP
        >>> train, val, test = dataset.split([0.8, 0.1, 0.1], groups=lambda key: key.split("/")[0])   # doctest: +SKIP
        """
        return [Subset(self, part) for part in _split.parts(self, shares, stratify, groups, seed, growing)]


class Subset(Dataset):
    """Some samples of a dataset, renumbered from 0 in stored order. Made by :meth:`Dataset.subset`."""

    _members: NDArray[np.uint64]

    def __init__(self, dataset: Dataset, members: NDArray[np.uint64]) -> None:
        self._whole: Dataset = dataset._whole if isinstance(dataset, Subset) else dataset
        self._members = np.unique(members)
        if len(self._members) != len(members):
            twice = np.sort(members)[:-1][np.diff(np.sort(members)) == 0][0]
            raise _shardpack.UsageError(
                f"subset: the list contains sample {twice} twice\n"
                "hint: pass weights to the Loader to draw samples several times"
            )
        self._path, self._verify_crc = self._whole._path, self._whole._verify_crc
        self._max_record = self._whole._max_record
        self._columns = Columns(self)

    @property
    def _core(self) -> _shardpack.Dataset:
        return self._whole._core

    def __reduce__(self) -> tuple[Any, ...]:
        return Subset, (self._whole, self._members)

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"Subset({str(self._path)!r}, {len(self)} of {len(self._whole)} samples)"

    def _place_of(self, key: str) -> int | None:
        number = self._core.index_of(key)
        if number is None:
            return None
        place = int(np.searchsorted(self._members, np.uint64(number)))
        return place if place < len(self._members) and self._members[place] == number else None


def _reopened(
    path: Path | str,
    verify_crc: bool,
    max_record: int,
    expected: str,
    storage_options: Mapping[str, str] | None = None,
    generation: int = 1,
) -> Dataset:
    """Reopen a pickled dataset in another process. Raises an error if the dataset has changed."""
    dataset = Dataset(path, verify_crc=verify_crc, max_record=max_record, storage_options=storage_options)
    if dataset.generation != generation:
        # The dataset has grown since it was pickled.
        place: Path | str = path
        if isinstance(path, str):
            place = path.rpartition("/")[0] if path.endswith(".json") else path
        elif not path.is_dir():
            place = path.parent
        dataset = Dataset(
            place, verify_crc=verify_crc, max_record=max_record, generation=generation, storage_options=storage_options
        )
    if dataset._opened.version != expected:
        raise _shardpack.UsageError(
            f"`{path}` was packed again after this dataset was opened: its version was {expected}, "
            f"but is now {dataset._opened.version}\n"
            "hint: open the dataset again and create a new loader"
        )
    return dataset
