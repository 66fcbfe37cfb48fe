"""The functions ``add``, ``remove`` and ``compact``, which change the samples of a dataset."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from shardpack import _shardpack
from shardpack._keywords import keywords
from shardpack._pack import Progress, StrPath, reported
from shardpack._size import Size, size
from shardpack._url import store_keywords

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AddOptions(TypedDict, total=False):
    """Options of :func:`add`. They are the long options of ``shardpack add``, with ``_`` in place of ``-``."""

    labels: StrPath
    """Label table of the new samples. Required if the dataset was packed with one."""
    key_column: str
    """Name of the column of ``labels`` that holds the keys. Default: as when the dataset was packed."""
    label_column: str
    """Name of the column of ``labels`` that holds the labels. Default: as when the dataset was packed."""
    masks: StrPath
    """Folder of label masks, paired with the new samples by stem."""
    follow_links: bool
    """Follow symbolic links that lead out of ``src``. Circular links are bad input."""
    on_bad_input: Literal["stop", "skip"]
    """Stop at files that cannot be packed, or skip them. Default: as when the dataset was packed."""
    on_known_key: Literal["stop", "skip"]
    """Stop at samples whose keys the dataset already has, or skip them. Default stop."""
    max_cube: int | str
    """Largest decoded cube to accept. Default 4 GiB."""
    force: bool
    """Discard the unfinished work of an interrupted addition or removal of other samples."""
    threads: int | None
    """Worker threads. Default: all cores."""
    memory: int | str
    """Memory limit for the samples being packed."""


def add(
    dataset: StrPath,
    src: StrPath,
    *,
    progress: Progress | None = None,
    spool: StrPath | None = None,
    take_over: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[AddOptions],
) -> dict[str, Any]:
    """Pack more files into a dataset as its next generation, using the options with which it was packed.

    The new samples go into new shards in the same folder. Existing shards are not rewritten. Classes are matched by
    name, and new classes get the next numbers. Older generations stay available: ``Dataset(path, generation=1)``
    opens the dataset as it was first packed. If the call is interrupted, the dataset is unchanged; repeat the call
    to continue.

    Parameters
    ----------
    dataset : str or os.PathLike
        Folder of the dataset, or its URL.
    src : str or os.PathLike
        Folder (or single file) with the new samples, or the URL of a folder.
    progress : callable, optional
        Called about ten times a second: see :data:`Progress`.
    spool, take_over, storage_options
        With a URL, as for :func:`pack`. The spool holds all new shards until they are uploaded.
    **options : AddOptions
        The long options of the command, with ``_`` in place of ``-``.

    Returns
    -------
    dict
        The output of ``shardpack add --json``. It has all keys that :func:`pack` returns, and also ``generation``,
        ``samples_of_dataset``, ``new_classes`` and ``known`` (samples that were left out because the dataset already
        has their keys). ``fidelity`` describes the whole dataset; all other figures describe the new samples.
        ``outcome`` is ``"already-complete"`` if there was nothing to add.

    Raises
    ------
    UsageError
        There is no dataset at the path, it was not packed from files, it already has one of the keys, or the new
        samples do not fit its fields.
    TypeError, FormatError, OSError
        As for :func:`pack`.

    Examples
    --------
    >>> sp.add("train", "week-2", on_known_key="skip")["samples"]   # doctest: +SKIP
    120
    """
    given = keywords("add", options, AddOptions)
    store = store_keywords(spool, take_over, storage_options)
    return reported(*_shardpack.add(os.fspath(dataset), os.fspath(src), given, progress, store))


def remove(
    dataset: StrPath,
    keys: Iterable[str],
    *,
    force: bool = False,
    threads: int | None = None,
    max_record: Size = "4GiB",
    progress: Progress | None = None,
    spool: StrPath | None = None,
    take_over: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Remove samples from a dataset by making a generation without them.

    Only the shards that contain these samples are rewritten. Older generations keep the samples until :func:`compact`
    deletes them. If the call is interrupted, the dataset is unchanged; repeat the call to continue.

    Parameters
    ----------
    dataset : str or os.PathLike
        Folder of the dataset, or its URL.
    keys : iterable of str
        Keys of the samples to remove.
    force : bool, default False
        Discard the unfinished work of an interrupted call that added or removed other samples.
    threads : int, optional
        Number of reading threads. Default: one per core.
    max_record : int or str, default "4GiB"
        Largest record to accept.
    progress : callable, optional
        Called about ten times a second: see :data:`Progress`.
    spool, take_over, storage_options
        With a URL, as for :func:`pack`. The spool holds all rewritten shards until they are uploaded.

    Returns
    -------
    dict
        ``removed``, ``samples`` (number of samples left), ``generation``, ``shards`` (number of rewritten shards),
        ``bytes_out``, and ``empty_classes`` (classes left without samples; their names stay in the dataset).

    Raises
    ------
    UsageError
        A key is not in the dataset (nothing is removed then), no key is given, or no sample would be left.
    FormatError, OSError
        A remaining record is damaged, or a file cannot be read or written.
    """
    if isinstance(keys, str):
        raise TypeError(f"keys: expected a sequence of keys, found the string {keys!r}\nhint: pass [{keys!r}]")
    store = store_keywords(spool, take_over, storage_options)
    limit = size("max_record", max_record)
    return reported(*_shardpack.remove(os.fspath(dataset), list(keys), force, threads, limit, progress, store))


def compact(
    dataset: StrPath,
    *,
    segment_index: bool = False,
    force: bool = False,
    threads: int | None = None,
    max_record: Size = "4GiB",
    progress: Progress | None = None,
    spool: StrPath | None = None,
    take_over: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Delete all generations of a dataset except the newest, and the shards that only older generations use.

    After :func:`remove`, this deletes the bytes of the removed samples from every file of the folder. It does not
    delete them from copies of the folder, from backups or from free disk blocks. Class names stay in the manifest and
    in every shard, even if a class no longer has samples.

    With ``segment_index``, all shards are first rewritten as a new generation that has a segment index next to each
    unchanged JPEG file, as :func:`pack` with ``jpeg="keep"`` stores it. The bytes of the pictures do not change.

    Parameters
    ----------
    dataset : str or os.PathLike
        Folder of the dataset, or its URL.
    segment_index : bool, default False
        First add segment indexes to kept JPEGs.
    force : bool, default False
        With ``segment_index``: discard the unfinished work of an interrupted call that added or removed samples.
    threads : int, optional
        Threads that add the indexes. Default: all cores.
    max_record : int or str, default "4GiB"
        With ``segment_index``: largest record to accept.
    progress : callable, optional
        Called about ten times a second while indexes are added: see :data:`Progress`.
    spool, take_over, storage_options
        With a URL, as for :func:`pack`.

    Returns
    -------
    dict
        The deleted ``generations`` and ``shards``, their ``bytes``, and ``empty_classes`` (classes without samples).
        With ``segment_index``, also a dict of that name: ``generation``, ``indexed`` (pictures), ``index_bytes``,
        ``damaged`` (unchanged pictures), ``shards`` (rewritten; 0 if the indexes existed already), ``bytes_out``.

    Raises
    ------
    UsageError
        There is no dataset, an addition or removal is unfinished, or no pictures are kept byte for byte.
    FormatError, OSError
        The newest generation is damaged; a file cannot be written or deleted.
    """
    store = store_keywords(spool, take_over, storage_options)
    path, limit = os.fspath(dataset), size("max_record", max_record)
    if not segment_index:
        return reported(_shardpack.compact(path, store))
    indexed = reported(*_shardpack.add_indexes(path, force, threads, limit, progress, store))
    return reported(_shardpack.compact(path, store)) | {"segment_index": indexed}
