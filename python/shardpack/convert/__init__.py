"""Coming from what people hold today: `shardpack.convert` and one module for each format.
 A module opens its format as a :class:`~shardpack.convert._source.Source`, a stream of samples; everything else, from
the names of fields to the report, is the same for all formats and stands here and in ``_run``.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Union

from .._url import is_url
from ._fields import Fields
from ._run import Progress, Run
from ._source import RAW, Source, SourceError, did_you_mean, shown

__all__ = ["FORMATS", "SourceError", "convert"]

FORMATS = (
    "webdataset", "mds", "tfrecord", "hdf5", "zarr", "lmdb", "parquet", "torchvision", "coco", "voc", "yolo", "nifti", "dicom",
)  # fmt: skip
"""Names of the formats, each with a module of its own in this package."""


def convert(
    format: str,
    src: Any,
    out: Union[str, os.PathLike[str]],
    *,
    image: str | None = None,
    label: str | None = None,
    classes: Sequence[str] | None = None,
    rename: Mapping[str, str] | None = None,
    drop: Collection[str] = (),
    schema: Mapping[str, str] | None = None,
    on_bad_input: str = "stop",
    append: bool = False,
    on_known_key: str = "stop",
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Convert a dataset of another format, once.

    JPEG files are kept to the byte, and arrays keep every bit. With ``jpeg="tile"`` a random crop of a picture
    decodes about half of it. With ``values="auto"`` floats may become float16, and the error is measured. The dataset
    appears at `out` when it is complete; after an error there is nothing.

    Parameters
    ----------
    format
        ``"webdataset"``, ``"mds"``, ``"tfrecord"``, ``"hdf5"``, ``"zarr"``, ``"lmdb"``, ``"parquet"``,
        ``"torchvision"``, ``"coco"``, ``"voc"``, ``"yolo"``, ``"nifti"`` or ``"dicom"``.
    src
        What the format's ``open`` takes. That is usually a path, a folder, a pattern such as
        ``"train-{000..012}.tar"``, or a list of them. For ``"torchvision"`` it is the dataset object.
    out
        Folder of the dataset to write.
    image, label
        The column that becomes the field ``image`` or ``label``. Default: the one column with a usual name (``img``,
        ``jpg``, ``cls``, ``target`` …).
    classes
        Names of the classes, in the order of their labels. Default: those that the source holds. A label that is text
        is looked up in them.
    rename
        Column to the name of its field, for any other column.
    drop
        Columns to leave out. A column that cannot be converted must be named here: nothing is left out silently. A name
        that nothing has is an error, or, where a source does not know its columns beforehand, a warning at the end.
    schema
        Field to kind (``"image"``, ``"array"``, ``"text"``, ``"json"``, ``"bytes"``, ``"int64"``, ``"float32"`` …),
        where the source and its first sample do not show it correctly.
    on_bad_input
        ``"stop"`` (default): the first sample that cannot be converted is an error. ``"skip"``: such samples are left
        out, counted and listed in the report. Their neighbours are converted, as far as they can be read.
    append
        Add the samples to the dataset at `out`, as its next generation, instead of writing one: as
        ``shardpack.Writer(out, append=True)``, which says more. Kinds of fields, element types, and how values are stored
        are those of the dataset. Give the options of the format that you gave the first time.
    on_known_key
        With ``append``: ``"stop"`` (default): a sample whose key the dataset holds is an error. ``"skip"``: such samples
        are left out, and counted as ``known`` in the report.
    progress
        Called about ten times a second with a dict: ``phase`` (``"convert"``, then ``"write"``: samples are encoded as
        they are read, and written in their final order at the end), ``samples`` and ``total`` (or None) of that phase,
        ``skipped``, ``seconds``.
    **options
        Options of the format (see its ``open``) and of :class:`shardpack.Writer` (``jpeg``, ``values``, ``shard_size``,
        ``shuffle``, ``seed``, ``force`` …).

    Returns
    -------
    dict
        The writer's report (with ``append`` also ``generation``, ``samples_of_dataset``, ``new_classes``, ``known``), and: ``format``, ``fields`` (column to field), ``kinds`` (field to kind), ``skipped`` (of
        up to 1000 samples, or parts of files, that were left out ``key``, if it is known, and ``reason``),
        ``samples_skipped`` (how many samples), ``samples_skipped_exact`` (False: at least so many, as the rest of a file
        does not say what is in it), ``dropped`` (column to number of samples that had it), ``notes`` (what you should
        know of the fields; each is also a warning, once the first sample was read). ``seconds`` are those of the whole
        conversion.

    Raises
    ------
    SourceError
        A ValueError: a source, a sample or a column cannot be converted. The message names the file, the sample, what
        was expected and what was found.
    ImportError
        If the format's library is not installed. The hint says how to install it.
    FileNotFoundError
        If a source is not there.
    TypeError
        If an option is unknown to the format and to the writer.

    Examples
    --------
    >>> import shardpack as sp
    >>> report = sp.convert("webdataset", "train-{000..012}.tar", "train/")  # doctest: +SKIP
    >>> report = sp.convert("webdataset", "week-2/*.tar", "train/", append=True)  # doctest: +SKIP
    >>> sp.convert("webdatasets", ".", "train/")
    Traceback (most recent call last):
        ...
    ValueError: format: expected one of webdataset, mds, tfrecord, hdf5, zarr, lmdb, parquet, torchvision, coco, voc, yolo,
    nifti, dicom, found: 'webdatasets' hint: did you mean 'webdataset'?
    """
    if format not in FORMATS:
        is_folder = format.lower().replace("_", "") in ("folder", "imagefolder", "images", "jpeg", "jpg", "png", "tiff", "envi", "npy", "mat")
        hint = "\nhint: folders of files are packed: shardpack.pack(src, out)" if is_folder else did_you_mean(format, FORMATS)
        raise ValueError(f"format: expected one of {', '.join(FORMATS)}, found: {format!r}{hint}")
    if on_bad_input not in ("stop", "skip"):
        raise ValueError(f"on_bad_input: expected 'stop' or 'skip', found: {on_bad_input!r}")
    if on_known_key not in ("stop", "skip"):
        raise ValueError(f"on_known_key: expected 'stop' or 'skip', found: {on_known_key!r}")
    if on_known_key != "stop" and not append:
        raise TypeError("on_known_key needs append=True")
    if isinstance(drop, str):
        raise TypeError(f"drop: expected a list of columns, found: {drop!r}\nhint: drop=[{drop!r}]")
    module = importlib.import_module(f".{format}", __name__)
    of_format, of_writer = _split_options(format, module.open, options, append)
    if append:
        of_writer |= {"append": True, "on_known_key": on_known_key}
    if of_format.get("storage_options") is not None and is_url(out):
        of_writer["storage_options"] = of_format["storage_options"]
        if not any(is_url(part) for part in ([src] if isinstance(src, (str, os.PathLike)) else list(src))):
            del of_format["storage_options"]
    fields = Fields(rename or {}, image, label, frozenset(drop), schema or {}, classes, known=_fields_of(out, bool(options.get("force"))) if append else None)
    try:
        source: Source = module.open(src, drop=frozenset(drop), **of_format)
    except RAW as error:
        named = f"`{shown(os.fspath(src))}`" if isinstance(src, (str, os.PathLike)) else "source"
        raise SourceError(f"{format}: {named}: expected a readable source, found: {type(error).__name__}: {error}") from error
    run = Run(format, source, fields, skip=on_bad_input == "skip", progress=progress)
    return run.write(out, of_writer)


def _fields_of(out: Union[str, os.PathLike[str]], force: bool) -> dict[str, str]:
    """Field to kind of a dataset that is to be added to. Says at once if it cannot be."""
    from .. import Writer

    writer = Writer(out, append=True, force=force)
    try:
        return writer.fields
    finally:
        writer.abort()


def _split_options(
    format: str, opener: Callable[..., Source], options: Mapping[str, Any], append: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The options of the format, and those of the writer."""
    from .._pack import StorageOptions

    own = set(inspect.signature(opener).parameters) - {"src", "drop"}
    of_writer = {"shuffle", *StorageOptions.__annotations__}
    for name in options:
        if name not in own | of_writer:
            hint = did_you_mean(name, own | of_writer)
            raise TypeError(f"option: expected one of {format} or of Writer, found: {name!r}{hint}")
    kept = {"jpeg": "keep"} if "max_error" in options else {"jpeg": "keep", "values": "keep"}
    if append:
        kept = {}
    to_writer = kept | {name: value for name, value in options.items() if name not in own}
    return {name: value for name, value in options.items() if name in own}, to_writer
