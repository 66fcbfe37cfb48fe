"""A dataset: samples by index, columns, metadata."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, SupportsIndex, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from shardpack import _index, _shardpack, _split, _warn
from shardpack._columns import Columns, Keys, UnknownKey
from shardpack._index import Indices
from shardpack._size import Size, size
from shardpack._url import is_url, settings

Sample: TypeAlias = "dict[str, Any]"
"""A sample: ``"__key__"`` and every field by its name.

Pictures are uint8 ``[height, width, 3]``, upright. Arrays are ``ndarray``, scalars Python numbers,
text ``str``, JSON the result of ``json.loads``, bytes ``bytes``, and missing values ``None``.
Figures measured by packing are in :attr:`Dataset.columns`.
"""


class Field(NamedTuple):
    """One field of a dataset's samples."""

    name: str
    """Name of the field."""
    kind: str
    """``"image"``, ``"array"``, ``"text"``, ``"json"``, ``"bytes"`` or ``"scalar"``."""
    dtype: np.dtype[Any] | None
    """Element type of a scalar; ``None`` for other fields, whose samples may differ in type."""


class Dataset:
    """A packed dataset: a folder with a manifest, or a lone shard, on this machine or in an object store.

    Samples are numbered in stored order. Opening reads only the manifest; shards are opened on first use. All methods
    may be called from several threads, and release the GIL while they read and decode. A pickled dataset holds its
    path, its ``storage_options`` and its id, which is checked when the dataset is reopened. After a fork, files are
    reopened.

    Parameters
    ----------
    path : str or os.PathLike
        The dataset's folder, its manifest, or one shard; or the URL of one, as text: ``"s3://bucket/train"``, also
        ``gs://``, ``az://``, ``http://``, ``https://`` and ``file://``.
    verify_crc : bool, default True
        Check the CRC32 of each record before it is returned.
    max_record : int or str, default "4GiB"
        Largest record and largest decoded field to accept, in bytes or as text such as ``"16GiB"``. This limits the
        memory that an untrusted file can take. If a :class:`Loader` takes a patch or some bands of an array, only that
        part counts.
    generation : int, optional
        Generation of a dataset that has grown or shrunk (:func:`add`, :func:`remove`), from 1. Default: the
        newest. ``path`` is then the folder.
    storage_options : mapping from str to str, optional
        For a URL: options of its store (``"aws_region"``, ``"endpoint"``, ``"allow_http"``, …) and of the reader
        (``"stall_timeout"``, ``"max_attempts"``, ``"read_ahead_bytes"``, …). They override environment variables
        (``AWS_REGION``, …); prefer these for credentials. docs/stores.md lists all names.
    cache : str or os.PathLike, optional
        For a URL: local folder that caches the bytes read, for all processes. It must be empty or already a cache.
        Default: ``SHARDPACK_CACHE``, else none.
    cache_bytes : int or str, optional
        Size limit of that folder, in bytes or as text such as ``"500GB"``; at least 64 MiB. Default 100 GB.

    Warns
    -----
    UserWarning
        Warns once that a picture of more than 8 bits a sample was decoded to 8 bits.

    Raises
    ------
    OSError
        A file cannot be read; ``FileNotFoundError`` if there is none.
    UsageError
        There is no dataset at the path.
    FormatError, LimitError
        The manifest is damaged, or exceeds the limits.

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

    # True after the warning that pictures lose bits.
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
            raise ValueError(f"generation: expected an integer from 1, found {generation!r}")
        self._path: Path | str = path if isinstance(path, str) and is_url(path) else Path(path)
        self._verify_crc, self._max_record = verify_crc, size("max_record", max_record)
        # Made absolute because files are opened later and the program may change its working directory.
        self._place = self._path if isinstance(self._path, str) else self._path.absolute()
        self._settings = settings(storage_options, cache=cache, cache_bytes=None if cache_bytes is None else size("cache_bytes", cache_bytes))
        self._opened = _shardpack.Dataset(self._place, verify_crc, self._max_record, generation, self._settings)
        self._pid = os.getpid()
        self._columns = Columns(self)

    @property
    def _core(self) -> _shardpack.Dataset:
        # After a fork, the lock of the open files may be held by a thread of the parent.
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

    # Samples

    @overload
    def __getitem__(self, index: int | np.integer[Any], /) -> Sample: ...
    @overload
    def __getitem__(self, index: Indices, /) -> list[Sample]: ...
    def __getitem__(self, index: int | np.integer[Any] | Indices, /) -> Sample | list[Sample]:
        """Return one sample for an integer index, or a list of samples for a slice, a list of indices or a boolean mask."""
        if _index.is_one(index):
            return self.get(index)
        return self.get_many(index)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    def get(self, index: SupportsIndex, fields: Sequence[str] | None = None) -> Sample:
        """One sample, or some of its fields. Only the fields named are decoded.

        Parameters
        ----------
        index : int
            Number of the sample.
        fields : sequence of str, optional
            Fields to decode, including figures measured by packing (``"cube.max_abs_error"``). Default: as
            ``dataset[i]``.

        Returns
        -------
        dict
            ``"__key__"`` and the fields: see :data:`Sample`.

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
        sample = core.get(self._stored(index), names(fields))
        self._tell(core)
        return sample

    def get_many(self, indices: Indices, fields: Sequence[str] | None = None) -> list[Sample]:
        """Samples in the order of ``indices``. Neighbouring samples are read together.

        Parameters
        ----------
        indices : slice, sequence of int, or ndarray
            Numbers of the samples, or a boolean mask.
        fields : sequence of str, optional
            Fields to decode, as in :meth:`get`.

        Returns
        -------
        list of dict
            As ``dataset[i]``. All samples are in memory at once.

        Raises
        ------
        IndexError
            There is no such sample.
        UsageError
            There is no such field.
        FormatError, LimitError, OSError
            A sample is damaged, exceeds the limits, or cannot be read; the message names it.
        """
        numbers = _index.many(indices, len(self))
        core = self._core
        samples = core.get_many(numbers if self._members is None else self._members[numbers], names(fields))
        self._tell(core)
        return samples

    def _tell(self, core: _shardpack.Dataset) -> None:
        """Warn once if pictures lost bits."""
        if not self._told and (fields := core.narrowed()):
            self._told = True
            _warn.of_lost_bits(fields)

    def __getitems__(self, indices: Sequence[int]) -> list[Sample]:
        """Same as :meth:`get_many`; ``torch.utils.data.DataLoader`` calls it for a batch."""
        return self.get_many(indices)

    @overload
    def raw(self, index: SupportsIndex) -> dict[str, bytes | None]: ...
    @overload
    def raw(self, index: SupportsIndex, field: str) -> bytes | None: ...
    def raw(self, index: SupportsIndex, field: str | None = None) -> bytes | dict[str, bytes | None] | None:
        """The stored bytes of a sample, such as a JPEG file, Blosc2 chunks or a zstd frame. Scalars have none.

        Parameters
        ----------
        index : int
            Number of the sample.
        field : str, optional
            Name of the field. Default: all fields.

        Returns
        -------
        bytes, or dict from field to bytes
            ``None`` for a missing value.

        Raises
        ------
        UsageError
            There is no stored field of this name.
        """
        number = self._stored(index)
        return self._core.raw_all(number) if field is None else self._core.raw(number, field)

    def by_key(self, key: str) -> Sample:
        """The sample with this key. Raises ``KeyError`` with similar keys if there is none."""
        return self[self.index_of(key)]

    def index_of(self, key: str) -> int:
        """Number of the sample with this key. Raises ``KeyError`` if there is none.

        The first call reads all indexes and takes 16 bytes of memory per sample.
        """
        number = self._place_of(key)
        if number is None:
            raise UnknownKey(key, self)
        return number

    def _place_of(self, key: str) -> int | None:
        """Return the number of the sample with this key, or ``None``."""
        return self._core.index_of(key)

    def _stored(self, index: SupportsIndex) -> int:
        """Return the number of a sample in stored order."""
        number = _index.one(index, len(self))
        return number if self._members is None else int(self._members[number])

    # Metadata, without reading a record

    @property
    def labels(self) -> NDArray[np.int64]:
        """The class of every sample: the scalar field ``label`` as int64 ``[samples]``. ``UsageError`` without such a
        field.
        """
        return self._columns.labels

    @property
    def columns(self) -> Mapping[str, NDArray[Any]]:
        """Every scalar field, and every figure measured by packing, as a read-only array ``[samples]`` of its own
        type. Each is read from the indexes on first use.
        """
        return self._columns

    def column(self, name: str) -> NDArray[Any]:
        """One of :attr:`columns`; ``UsageError`` if there is no scalar field of this name."""
        return self._columns.load(name)

    @property
    def keys(self) -> Sequence[str]:
        """The key of every sample. Each is looked up on access."""
        return Keys(self)

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes, indexed by label; ``None`` if the dataset has none."""
        return self._core.classes

    @property
    def schema(self) -> list[Field]:
        """The fields of a sample, in order. Figures measured by packing (``cube.max_abs_error``) are only in
        :attr:`columns`.
        """
        fields = self._core.schema()
        return [Field(name, kind, None if dtype is None else np.dtype(dtype)) for name, kind, dtype in fields]

    @property
    def recipe(self) -> dict[str, Any]:
        """Every option that made the dataset."""
        return self._core.recipe()

    @property
    def fidelity(self) -> dict[str, Any] | None:
        """The errors of lossy steps, by field, as measured by packing; ``None`` for a lone shard."""
        return self._core.fidelity()

    @property
    def path(self) -> Path | str:
        """The opened path, or the URL as text."""
        return self._path

    @property
    def generation(self) -> int:
        """The dataset's generation: 1 as packed, one more after each :func:`add` or :func:`remove`. 1 for a concat."""
        return self._core.generation

    @property
    def id(self) -> str:
        """The id that all shards of the dataset share: 32 hexadecimal digits."""
        return self._core.id

    @property
    def nbytes(self) -> int:
        """Total size of all shards in bytes."""
        return self._core.nbytes

    # Subsets

    def subset(self, which: Indices | Callable[[Mapping[str, NDArray[Any]]], Any]) -> Subset:
        """Some samples of the dataset, each once, in stored order.

        Parameters
        ----------
        which : indices, boolean mask, or callable
            A callable gets :attr:`columns` and returns indices or a mask.

        Returns
        -------
        Subset
            A dataset of those samples. It can be indexed and loaded like any other.

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

        Samples are sorted by a hash of ``seed`` and key and cut at the shares, so the parts do not depend on how the
        dataset is stored, and no later version changes them.

        Parameters
        ----------
        shares : float or sequence of float
            One share (``0.8``) gives two parts: 0.8 and the rest. Several must sum to 1: ``[0.8, 0.1, 0.1]``. A part
            has its share of the samples, rounded up or down, and at least one sample.
        stratify : str or sequence, optional
            A scalar field of integers, such as ``"label"``, or a value for each sample: an integer, a boolean or a text.
            Each part gets its share of each value's samples, to within one or two samples.
        groups : str, sequence or callable, optional
            A scalar field, a value for each sample, or a function of the key. Samples with the same value, such as all
            pictures of one patient, stay in one part. Parts are then cut between groups, as near to the shares as
            possible. With ``stratify``, a group has the class of most of its samples.
        seed : int, default 0
            Seed of the hash; a different seed gives different parts.
        growing : bool, default False
            Place each sample (or group) by its own hash alone, so that it stays in its part when the dataset grows or
            shrinks (:func:`add`, :func:`remove`). The sizes of the parts are then random, and ``stratify`` is refused.
            Default: exact sizes; after an addition, samples next to a cut may change to another part.

        Returns
        -------
        list of Subset
            One for each share, in order.

        Raises
        ------
        UsageError
            A part would be empty, the shares do not sum to 1, or there is no such scalar field of integers.

        Examples
        --------
        >>> train, val = dataset.split(0.8, stratify="label")                                # doctest: +SKIP
        >>> train, val, test = dataset.split([0.8, 0.1, 0.1], groups=lambda key: key.split("/")[0])   # doctest: +SKIP
        """
        return [Subset(self, part) for part in _split.parts(self, shares, stratify, groups, seed, growing)]


class Subset(Dataset):
    """Some samples of a dataset, renumbered from 0 in stored order; made by :meth:`Dataset.subset`."""

    _members: NDArray[np.uint64]

    def __init__(self, dataset: Dataset, members: NDArray[np.uint64]) -> None:
        self._whole: Dataset = dataset._whole if isinstance(dataset, Subset) else dataset
        self._members = np.unique(members)
        if len(self._members) != len(members):
            twice = np.sort(members)[:-1][np.diff(np.sort(members)) == 0][0]
            raise _shardpack.UsageError(
                f"subset: sample {twice} occurs twice\n"
                "hint: to draw samples more often, pass weights to the Loader"
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


def names(fields: Sequence[str] | None) -> list[str] | None:
    if isinstance(fields, str):
        raise TypeError(f"fields: expected a sequence of names, found the string {fields!r}\nhint: fields=[{fields!r}]")
    return None if fields is None else list(fields)


def _reopened(
    path: Path | str,
    verify_crc: bool,
    max_record: int,
    expected: str,
    storage_options: Mapping[str, str] | None = None,
    generation: int = 1,
) -> Dataset:
    """Reopen a pickled dataset in another process; an error if the dataset has changed."""
    dataset = Dataset(path, verify_crc=verify_crc, max_record=max_record, storage_options=storage_options)
    if dataset.generation != generation:
        # The dataset has grown since then.
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
            f"`{path}` was packed again: generation {generation} was {expected} and is now "
            f"{dataset._opened.version}\n"
            "hint: make the loader again from the new dataset"
        )
    return dataset
