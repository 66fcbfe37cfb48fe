"""Datasets that grow and shrink: what `shardpack add`, `remove` and `compact` do, as functions."""

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
    """Name of the column of ``labels`` that holds the paths. Default: the one that the dataset was packed with."""
    label_column: str
    """Name of the column of ``labels`` that holds the labels. Default: the one that the dataset was packed with."""
    masks: StrPath
    """Folder of label masks, paired with the new samples by stem."""
    follow_links: bool
    """Follow symbolic links that lead out of ``src``. Links that lead in a circle are bad input."""
    on_bad_input: Literal["stop", "skip"]
    """What to do about files that cannot be packed. Default: as the dataset was packed."""
    on_known_key: Literal["stop", "skip"]
    """What to do about samples whose keys the dataset holds already. Default stop."""
    max_cube: int | str
    """Largest cube to accept, as decoded. Default 4 GiB."""
    force: bool
    """Drop what an interrupted addition or removal of other samples has made so far."""
    threads: int | None
    """Worker threads. Default: all cores."""
    memory: int | str
    """Limit on the memory of samples that are being packed."""


def add(dataset: StrPath, src: StrPath, *, progress: Progress | None = None, **options: Unpack[AddOptions]) -> dict[str, Any]:
    """Pack more files behind a dataset, by its own recipe: its next generation.

    The new samples go into new shards in the same folder. Nothing there is written anew, and the call takes the time
    of the new files alone. Classes are matched by their names; new ones get the next numbers. Older generations stay:
    ``Dataset(path, generation=1)`` is the dataset as it was packed. If a call is interrupted, the dataset is as it was;
    make the same call again, and it continues.

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
        What ``shardpack add --json`` prints: as of :func:`pack`, where ``samples`` are the new ones, and ``generation``,
        ``samples_of_dataset``, ``new_classes``, and ``known``, the samples that were left out.
        ``fidelity`` is that of the whole dataset, all else that of the new samples. ``outcome`` is
        ``"already-complete"`` if there was nothing to add.

    Raises
    ------
    UsageError
        There is no dataset, or one that was not packed from files; a key is there already; the new samples do not fit
        its fields.
    TypeError, FormatError, OSError
        As of :func:`pack`.

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
    """Leave samples out of a dataset: a generation without them.

    The shards that hold them are written anew without them; all others stay as they are. Older generations still hold
    the samples, until :func:`compact` deletes those. If a call is interrupted, the dataset is as it was; make the same
    call again, and it continues.

    Parameters
    ----------
    dataset : str or os.PathLike
        Folder of the dataset.
    keys : iterable of str
        Keys of the samples.
    force : bool, default False
        Drop what an interrupted addition or removal of other samples has made so far.
    threads : int, optional
        Threads that read. Default: all cores.
    max_record : int or str, default "4GiB"
        Largest record to accept.
    progress : callable, optional
        Called about ten times a second: see :data:`Progress`.

    Returns
    -------
    dict
        ``removed``, ``samples`` (that are left), ``generation``, ``shards`` (written anew), ``bytes_out``, and
        ``empty_classes``: those that no sample has any more, whose names stay.

    Raises
    ------
    UsageError
        A key is not in the dataset (nothing is removed then), there is none, or nothing would be left.
    FormatError, OSError
        A record that stays is damaged; a file cannot be read or written.
    """
    if isinstance(keys, str):
        raise TypeError(f"keys: expected several keys, found a str {keys!r}\nhint: a list of one: [{keys!r}]")
    refuse("remove", hint=COPY_AND_SEND, dataset=dataset)
    found, notes = _shardpack.remove(os.fspath(dataset), list(keys), force, threads, size("max_record", max_record), progress)
    for note in notes:
        _warn.warn(note)
    report: dict[str, Any] = json.loads(found)
    return report


def compact(dataset: StrPath) -> dict[str, Any]:
    """Delete all generations of a dataset but the newest, and the shards that only they have.

    After :func:`remove` this is what makes the bytes of the removed samples go: no file of the folder holds them any
    more. Copies of the folder, backups and the blocks of the disk are beyond it, and so are names of classes: they stay
    in the manifest and in every shard, also of classes without samples.

    Returns
    -------
    dict
        ``generations`` that are gone, the ``shards`` that went with them, their ``bytes``, and ``empty_classes``: those
        of the dataset that no sample has.

    Raises
    ------
    UsageError
        There is no dataset, or an addition or a removal was begun and not finished.
    FormatError, OSError
        The newest generation is not whole; a file cannot be removed.
    """
    refuse("compact", hint=COPY_AND_DELETE, dataset=dataset)
    report: dict[str, Any] = json.loads(_shardpack.compact(os.fspath(dataset)))
    return report
