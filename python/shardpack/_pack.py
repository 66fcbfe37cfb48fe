"""The functions ``pack``, ``plan``, ``merge`` and ``verify``."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict

from shardpack import _shardpack, _warn
from shardpack._keywords import keywords
from shardpack._size import Size, size
from shardpack._url import settings, store_keywords

if TYPE_CHECKING:
    from typing_extensions import Unpack

StrPath: TypeAlias = "str | os.PathLike[str]"
Progress: TypeAlias = Callable[["dict[str, int]"], object]
"""Called about ten times a second with a dict: ``samples`` and ``samples_total``, ``skipped``, ``bytes_in`` and
``bytes_in_total`` (of the sources), ``bytes_out``, ``shards`` and ``shards_total``, and for an output at a URL
``bytes_sent`` and ``bytes_to_send``: the bytes that this run has sent to the store, and the size of the shards that are
complete so far. In a folder both are 0. If it raises an exception, the work stops and the caller gets the exception.
"""


class StorageOptions(TypedDict, total=False):
    """Storage options common to :func:`pack` and :class:`Writer`."""

    jpeg: Literal["tile", "keep", "reencode"]
    """How to store JPEG pictures: in tiles, with the same pixels (default), as the unchanged file, or re-encoded."""
    quality: int
    """Quality of re-encoded pictures, 1 to 100. Default 90."""
    target: str
    """Target score, such as ``"ssimulacra2=80"``. The quality of each re-encoded picture is chosen to reach it."""
    subsampling: Literal["keep", "420", "444"]
    """Chroma subsampling of re-encoded pictures. Default keep."""
    short_side: int
    """Maximum length of the shorter side in pixels: larger re-encoded pictures are shrunk."""
    long_side: int
    """Maximum length of the longer side in pixels: larger re-encoded pictures are shrunk."""
    score: Literal["none", "sample", "all"]
    """Re-encoded pictures to compare with their sources by score. Default sample."""
    check_pixels: Literal["none", "sample", "all"]
    """Tiled pictures to compare with their sources, pixel by pixel. Default sample."""
    no_segment_index: bool
    """Store no segment index next to kept JPEGs, so that loaders must decode each from its start."""
    upright: bool
    """Turn tiled pictures upright losslessly, by moving JPEG coefficients, if their edges allow it."""
    keep_metadata: bool
    """Keep Exif, ICC profile and comments inside tiled JPEGs, and the profile inside re-encoded ones."""
    values: Literal["auto", "keep", "f16", "fixed"]
    """How to store float arrays: auto (integers lossless, others float16), keep, f16, or fixed point within
    ``max_error``.
    """
    max_error: float
    """Maximum absolute error of a stored value, in the data's units: required with fixed, a bound for auto."""
    codec: Literal["auto", "blosc2-lz4", "blosc2-lz4hc", "blosc2-zstd", "zstd", "raw"]
    """Codec for arrays. auto chooses one by trial encodings."""
    level: int
    """Compression level for the codec."""
    filter: Literal["auto", "none", "shuffle", "bitshuffle", "bytedelta"]
    """Filter applied before the codec."""
    layout: Literal["auto", "as-given", "band-major"]
    """Order of the axes in stored arrays."""
    band_difference: Literal["auto", "on", "off"]
    """Store each band as its difference from the previous band."""
    prefer: Literal["speed", "device", "size"]
    """Criterion by which auto chooses."""
    shard_size: int | str
    """Size of a shard, in bytes or as a string such as ``"256MiB"``. Default 1 GiB."""
    seed: int
    """Seed of the stored order. Default 0."""
    force: bool
    """Replace a dataset that shardpack wrote."""
    spool: StrPath
    """With a URL: local folder for shards that are not uploaded yet. Default: the folder for temporary files."""
    take_over: bool
    """With a URL: continue a run that was killed on another machine, or with another spool."""
    threads: int | None
    """Worker threads. Default: all cores."""
    memory: int | str
    """Memory limit for the samples being packed, in bytes or as a string such as ``"2GiB"``."""


class PackOptions(StorageOptions, total=False):
    """Options of :func:`pack`. They are the long options of ``shardpack pack``, with ``_`` in place of ``-``."""

    kind: Literal["images", "cubes"]
    """Kind of the samples. Default: recognised from the contents of the files."""
    labels: StrPath
    """CSV, JSON Lines or a list of JSON objects with a ``key`` column (or ``path``, ``file_name``, ``image``, ``id`` …); every other column becomes a field."""
    key_column: str
    """Name of the column of ``labels`` that holds the keys."""
    label_column: str
    """Name of the column of ``labels`` that holds the labels; strings become classes. Default: ``label``, or ``class``;
    else the only column of strings whose values repeat, with a warning.
    """
    class_folders: Literal["auto", "on", "off"]
    """Use the names of first-level folders as labels. Default: on if all pictures are in such folders. If only most of
    them are, the others are bad input.
    """
    splits: bool
    """Pack each first-level folder, such as ``train`` or ``val``, into its own dataset, all with the same classes."""
    clips: bool
    """Pack each folder of JPEGs as one sample, a clip, with its frames sorted by name."""
    masks: StrPath
    """Folder of label masks, paired with pictures or cubes by stem."""
    follow_links: bool
    """Follow symbolic links that lead out of the source."""
    on_bad_input: Literal["stop", "skip"]
    """Stop at files that cannot be packed, or skip them."""
    recipe: str
    """Use the storage options of a report's candidate: ``"report.html#2"``, or ``"report.html"`` for the recommended
    candidate.
    """
    variable: str | Sequence[str]
    """Variable to read from ``.mat``, ``.npz`` and HDF5 files, one array per file. If several names are given, the
    first name found in a file is used. ``*`` matches any characters (``"*_corrected"``). For samples of several arrays
    use :class:`Writer`, or for HDF5 ``convert("hdf5", …)``.
    """
    spatial: tuple[int, int] | str
    """Height and width of 2-D arrays of bands × pixels in ``.mat`` files."""
    max_cube: int | str
    """Largest decoded cube to accept. Default 4 GiB."""
    no_shuffle: bool
    """Keep the order of the sources."""
    listing: StrPath
    """File list that :func:`plan` wrote for the same options. Used instead of scanning the source."""
    part: tuple[int, int] | str
    """Pack part i of n, ``(1, 4)`` … ``(4, 4)``. Call :func:`merge` when all parts are packed."""


def pack(
    src: StrPath,
    out: StrPath,
    *,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[PackOptions],
) -> dict[str, Any]:
    """Convert a folder of pictures or cubes into a dataset.

    JPEGs are stored in tiles, so that readers decode only the part that they need. The pixels are the same as in the
    source. ``jpeg="keep"`` stores the files unchanged. Cubes of integers, including integers held as floats, are stored
    without loss. Other cubes are stored as float16, and the error is measured; ``values="keep"`` keeps every bit. If
    the call is interrupted, for example by Ctrl-C, repeat it to continue.

    Parameters
    ----------
    src : str or os.PathLike
        Folder (or single file) to pack: class folders, a flat folder, or nested folders. It may also be the URL string
        of a folder in a store, such as ``"s3://bucket/photos"``; ``gs://`` and ``az://`` work too.
    out : str or os.PathLike
        Folder of the dataset to write, or its URL as a string, such as ``"s3://bucket/train"``; ``gs://`` and ``az://``
        work too. Each shard is uploaded when it is complete (see docs/stores.md).
    progress : callable, optional
        Called about ten times a second: see :data:`Progress`.
    storage_options : mapping from str to str, optional
        With a URL: options of the store, as for :class:`Dataset`. They apply to the source, the masks, the table of
        labels and the output.
    **options : PackOptions
        The long options of the command, with ``_`` in place of ``-``: ``shard_size="256MiB"``, ``no_shuffle=True``.

    Returns
    -------
    dict
        The output of ``shardpack pack --json``: ``samples``, ``bytes_in``, ``bytes_out``, ``shards``, ``seconds``,
        ``fidelity`` (loss by field), ``skipped`` (files left out, and why), ``settings``, …. With ``splits=True`` it
        has ``samples``, ``splits`` (one such dict for each split), and ``skipped`` (files in no split).

    Warns
    -----
    UserWarning
        Floats were rounded to float16 although neither ``values`` nor ``max_error`` was given (the warning says how
        many, and the largest error); pictures have more than 8 bits per sample and will be decoded to 8 bits; pictures
        kept unchanged have damaged markers; and all other notes of the command.

    Raises
    ------
    TypeError
        An unknown option, or a value of the wrong type.
    UsageError
        The source, the folder or the options cannot be used.
    FormatError
        A file cannot be packed, and ``on_bad_input`` is ``"stop"``.
    OSError
        A file cannot be read or written.

    Examples
    --------
    >>> report = sp.pack("photos", "train", shard_size="256MiB", jpeg="keep")   # doctest: +SKIP
    >>> report["samples"]                                                       # doctest: +SKIP
    334
    """
    if not isinstance(src, (str, os.PathLike)):
        hint = "convert a dataset object with shardpack.convert(\"torchvision\", dataset, out), or write it with Writer"
        raise TypeError(f"src: expected the path of a folder or a file, found {type(src).__name__}\nhint: {hint}")
    given = keywords("pack", options, PackOptions)
    packed = reported(*_shardpack.pack(os.fspath(src), os.fspath(out), given, progress, settings(storage_options)))
    for one in packed["splits"].values() if "splits" in packed else [packed]:
        _warn.of_rounding(one, options)
    return packed


def plan(
    src: StrPath,
    out: StrPath,
    parts: int,
    *,
    storage_options: Mapping[str, Any] | None = None,
    **options: Unpack[PackOptions],
) -> dict[str, Any]:
    """Predict time, size and memory of packing each part with :func:`pack` and ``part=(i, parts)``, without packing.

    Parameters
    ----------
    src, out, storage_options, **options
        As for :func:`pack`, except ``part`` and ``force``. ``listing`` names a file to which the file list of the
        source is written. :func:`pack` with the same ``listing`` reads that file, so that the source is scanned only
        once.
    parts : int
        Number of parts.

    Returns
    -------
    dict
        The output of ``shardpack plan --json``: ``samples``, ``source_bytes``, ``stored_bytes`` (estimated),
        ``shards``, ``memory_bytes``, ``listing_seconds``, ``seconds`` and ``longest_part_seconds`` (both at the rate
        ``measured`` on a few samples), ``empty_parts``, and ``parts`` (one dict for each part).

    Raises
    ------
    TypeError, UsageError, FormatError, OSError
        The errors that :func:`pack` raises before it writes.
    """
    given = keywords("plan", options, PackOptions)
    return reported(_shardpack.plan(os.fspath(src), os.fspath(out), parts, given, settings(storage_options)))


def merge(
    out: StrPath,
    *,
    spool: StrPath | None = None,
    take_over: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Join the parts of a dataset that several machines packed with ``part``.

    Parameters
    ----------
    out : str or os.PathLike
        Folder of the parts, or its URL.
    spool, take_over, storage_options
        With a URL, as for :func:`pack`.

    Returns
    -------
    dict
        The output of ``shardpack merge --json``, as for :func:`pack`.

    Raises
    ------
    UsageError
        Parts are missing, unfinished or damaged, or they were made with different options. Unless the options differ,
        the error's attribute ``array``, such as ``"17,203-210"``, lists the parts to pack again.
    FormatError
        The dataset is complete, but one of its shards is damaged.
    """
    return reported(_shardpack.merge(os.fspath(out), store_keywords(spool, take_over, storage_options)))


def verify(
    path: StrPath,
    deep: bool = False,
    *,
    digest: bool = False,
    threads: int | None = None,
    max_record: Size = "4GiB",
    generation: int | None = None,
    progress: Progress | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Check every byte of a dataset and list the damaged samples.

    Parameters
    ----------
    path : str or os.PathLike
        Folder of a dataset, its manifest, or a lone shard. It may also be a URL, as for :class:`Dataset`.
    deep : bool, default False
        Also decode every field.
    digest : bool, default False
        Also compare the SHA-256 of every shard with the manifest.
    threads : int, optional
        Number of worker threads. Default: one per core.
    max_record : int or str, default "4GiB"
        Largest record or decoded field to accept.
    generation : int, optional
        Generation of the dataset to check. Generations count from 1. Default: the newest.
    progress : callable, optional
        Called about ten times a second with a dict of ``samples``, ``bytes`` and ``bytes_total``, and ``samples_total``
        if the manifest gives it.
    storage_options : mapping from str to str, optional
        With a URL: options of the store, as for :class:`Dataset`.

    Returns
    -------
    dict
        The output of ``shardpack verify --json``: ``whole`` (true if nothing is wrong), ``problems`` (a list of
        dicts with place, expected and found), ``samples``, ``damaged_samples``, ``missing_samples`` (samples of
        shards that are missing or cut short), ….

    Raises
    ------
    UsageError, OSError
        There is no dataset. Damage is not an error: it is listed in ``problems``.
    """
    limit = size("max_record", max_record)
    return reported(
        _shardpack.verify(os.fspath(path), settings(storage_options), deep, digest, threads or 0, limit, generation, progress)
    )


def reported(text: str, notes: Iterable[str] = ()) -> dict[str, Any]:
    """Issue the notes of a call as warnings, and return its report, which is JSON."""
    _warn.of_notes(notes)
    report: dict[str, Any] = json.loads(text)
    return report
