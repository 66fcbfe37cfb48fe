"""``add``, ``remove`` and ``compact``, which change the samples of a dataset."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from shardpack import _shardpack, _warn
from shardpack._keywords import keywords
from shardpack._pack import Progress, StrPath
from shardpack._size import Size, size
from shardpack._url import COPY_AND_DELETE, COPY_AND_SEND, refuse

if TYPE_CHECKING:
    from typing_extensions import Unpack


class AddOptions(TypedDict, total=False):
    """Options of :func:`add`: the long options of ``shardpack add``, with ``_`` for ``-``."""

    labels: StrPath
    """Table of labels of the new samples; needed if the dataset was packed with one."""
    key_column: str
    """Name of the column of ``labels`` that holds the keys. Default: as the dataset was packed."""
    label_column: str
    """Name of the column of ``labels`` that holds the labels. Default: as the dataset was packed."""
    masks: StrPath
    """Folder of label masks, paired with the new samples by stem."""
    follow_links: bool
    """Follow symbolic links that lead out of ``src``. Links that lead in a circle are bad input."""
    on_bad_input: Literal["stop", "skip"]
    """Stop at files that cannot be packed, or skip them. Default: as the dataset was packed."""
    on_known_key: Literal["stop", "skip"]
    """Stop at samples whose keys the dataset already has, or skip them. Default stop."""
    max_cube: int | str
    """Largest cube to accept, as decoded. Default 4 GiB."""
    force: bool
    """Discard the unfinished work of an interrupted addition or removal of other samples."""
    threads: int | None
    """Worker threads. Default: all cores."""
    memory: int | str
    """Memory limit for samples that are being packed."""


def add(dataset: StrPath, src: StrPath, *, progress: Progress | None = None, **options: Unpack[AddOptions]) -> dict[str, Any]:
    """Pack more files into a dataset, by its own recipe, as its next generation.

    The new samples go into new shards in the same folder. Existing shards are not rewritten. Classes are matched by
    name; new ones get the next numbers. Older generations stay: ``Dataset(path, generation=1)`` is the dataset as
    packed. An interrupted call leaves the dataset unchanged; repeat it to continue.

    Parameters
    ----------
    dataset : str or os.PathLike
        Folder of the dataset.
    src : str or os.PathLike
        Folder (or single file) with the new samples.
    progress : callable, optional
        Called about ten times a second: see :data:`Progress`.
    **options : AddOptions
        The command's long options with ``_`` for ``-``.

    Returns
    -------
    dict
        The output of ``shardpack add --json``: as for :func:`pack`, and ``generation``, ``samples_of_dataset``,
        ``new_classes`` and ``known`` (samples left out because their keys exist). ``fidelity`` describes the whole
        dataset, all other figures the new samples. ``outcome`` is ``"already-complete"`` if there was nothing to add.

    Raises
    ------
    UsageError
        There is no dataset, it was not packed from files, it already has one of the keys, or the new samples do not fit
        its fields.
    TypeError, FormatError, OSError
        As for :func:`pack`.

    Examples
    --------
    >>> sp.add("train", "week-2", on_known_key="skip")["samples"]   # doctest: +SKIP
    120
    """
    refuse("add", hint=COPY_AND_SEND, dataset=dataset)
    refuse("add", src=src)
    given = keywords("add", options, AddOptions)
    report, notes = _shardpack.add(os.fspath(dataset), os.fspath(src), given, progress)
    for note in notes:
        _warn.warn(note)
    found: dict[str, Any] = json.loads(report)
    return found


def remove(
    dataset: StrPath,
    keys: Iterable[str],
    *,
    force: bool = False,
    threads: int | None = None,
    max_record: Size = "4GiB",
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Remove samples from a dataset by making a generation without them.

    Only the shards with these samples are rewritten. Older generations keep the samples until :func:`compact` deletes
    them. An interrupted call leaves the dataset unchanged; repeat it to continue.

    Parameters
    ----------
    dataset : str or os.PathLike
        Folder of the dataset.
    keys : iterable of str
        Keys of the samples.
    force : bool, default False
        Discard the unfinished work of an interrupted addition or removal of other samples.
    threads : int, optional
        Reading threads. Default: all cores.
    max_record : int or str, default "4GiB"
        Largest record to accept.
    progress : callable, optional
        Called about ten times a second: see :data:`Progress`.

    Returns
    -------
    dict
        ``removed``, ``samples`` (left), ``generation``, ``shards`` (rewritten), ``bytes_out``, and ``empty_classes``
        (classes without samples; their names stay).

    Raises
    ------
    UsageError
        A key is not in the dataset (then nothing is removed), no key is given, or no sample would be left.
    FormatError, OSError
        A remaining record is damaged; a file cannot be read or written.
    """
    if isinstance(keys, str):
        raise TypeError(f"keys: expected a sequence of keys, found the string {keys!r}\nhint: [{keys!r}]")
    refuse("remove", hint=COPY_AND_SEND, dataset=dataset)
    found, notes = _shardpack.remove(os.fspath(dataset), list(keys), force, threads, size("max_record", max_record), progress)
    for note in notes:
        _warn.warn(note)
    report: dict[str, Any] = json.loads(found)
    return report


def compact(dataset: StrPath) -> dict[str, Any]:
    """Delete all generations of a dataset but the newest, and the shards that only older ones use.

    After :func:`remove`, this deletes the bytes of the removed samples from every file of the folder, but not from
    copies of the folder, backups or free disk blocks. Class names stay in the manifest and in every shard, even without
    samples.

    Returns
    -------
    dict
        The deleted ``generations`` and ``shards``, their ``bytes``, and ``empty_classes`` (classes without samples).

    Raises
    ------
    UsageError
        There is no dataset, or an addition or removal is unfinished.
    FormatError, OSError
        The newest generation is damaged; a file cannot be deleted.
    """
    refuse("compact", hint=COPY_AND_DELETE, dataset=dataset)
    report: dict[str, Any] = json.loads(_shardpack.compact(os.fspath(dataset)))
    return report
