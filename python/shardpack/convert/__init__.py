"""Converts datasets of other formats: `shardpack.convert`, and one module for each format.

Each format's module opens a dataset as a :class:`~shardpack.convert._source.Source`, a stream of samples. Everything
else, from the field names to the report, is the same for all formats and is implemented here and in ``_run``.
"""

from __future__ import annotations

import importlib
import inspect
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Union

from .._keywords import names
from .._similar import did_you_mean
from .._url import is_url
from ._fields import Fields
from ._run import Progress, Run
from ._source import RAW, Source, SourceError, option, shown

__all__ = ["FORMATS", "SourceError", "convert"]

FORMATS = (
    "webdataset", "mds", "tfrecord", "hdf5", "zarr", "lmdb", "parquet", "torchvision", "coco", "voc", "yolo", "nifti", "dicom",
    "hf", "beton", "lerobot",
)  # fmt: skip
"""Names of the formats. Each format has a module in this package."""


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
    """Convert a dataset from another format.

    By default, JPEG files are stored unchanged, and arrays keep every bit. With ``jpeg="tile"``, a random crop needs to
    decode only about half of a picture. With ``values="auto"``, floats may become float16, and the error is measured.
    The dataset appears at `out` once it is complete. An error leaves no dataset.

    Parameters
    ----------
    format
        ``"webdataset"``, ``"mds"``, ``"tfrecord"``, ``"hdf5"``, ``"zarr"``, ``"lmdb"``, ``"parquet"``,
        ``"torchvision"``, ``"coco"``, ``"voc"``, ``"yolo"``, ``"nifti"``, ``"dicom"``, ``"hf"``, ``"beton"`` or
        ``"lerobot"``.
    src
        The source, usually a file, a folder, a pattern such as ``"train-{000..012}.tar"``, or a list of them. For
        ``"torchvision"``, it is the dataset object; for ``"hf"``, the name of a dataset on the Hugging Face Hub. See the
        ``open`` function of the format.
    out
        Folder of the dataset to write.
    image, label
        The column that becomes the field ``image`` or ``label``. Default: the one column with a usual name (``img``,
        ``jpg``, ``cls``, ``target`` …).
    classes
        Class names, indexed by label. Default: the names in the source. Labels that are strings are looked up in these
        names.
    rename
        Mapping from any other column to the name of its field.
    drop
        Columns to leave out. Every column that cannot be converted must be named here. An unknown name is an error, or
        a warning at the end if the source does not know its columns in advance.
    schema
        Mapping from field to kind (``"image"``, ``"array"``, ``"text"``, ``"json"``, ``"bytes"``, ``"int64"``,
        ``"float32"`` …), for fields whose kind would otherwise be guessed wrong from the source and its first sample.
    on_bad_input
        ``"stop"`` (default): the first sample that cannot be converted raises an error. ``"skip"``: such samples are
        left out, and the report counts and lists them.
    append
        Add the samples to the dataset at `out` as its next generation, as ``shardpack.Writer(out, append=True)``
        does. Field kinds, element types and storage options come from the dataset. Options of the format must be
        given again.
    on_known_key
        With ``append``, for keys that the dataset already has: ``"stop"`` (default) raises an error. ``"skip"`` leaves
        the sample out and counts it as ``known`` in the report.
    progress
        Called about ten times a second with a dict of ``phase``, ``samples`` and ``total`` (or None) of that phase,
        ``skipped``, and ``seconds``. The phase ``"convert"`` reads and encodes samples; the phase ``"write"`` writes
        them in their final order.
    **options
        Options of the format (see its ``open``) and of :class:`shardpack.Writer` (``jpeg``, ``values``,
        ``shard_size``, ``shuffle``, ``seed``, ``force`` …).

    Returns
    -------
    dict
        The writer's report (with ``append`` also ``generation``, ``samples_of_dataset``, ``new_classes``,
        ``known``), and in addition: ``format``, ``fields`` (column to field), ``kinds`` (field to kind), ``skipped``
        (``key``, if known, and ``reason``, for up to 1000 samples or parts of files that were left out),
        ``samples_skipped`` (number of samples left out), ``samples_skipped_exact`` (False if that number is only a
        minimum, because the rest of a file could not be read), ``dropped`` (column to the number of samples that had
        it), ``notes`` (about the fields; each note is also a warning after the first sample), and ``seconds`` (time
        of the whole conversion).

    Raises
    ------
    SourceError
        If a source, a sample or a column cannot be converted. A subclass of ValueError. The message names the file and
        the sample.
    ImportError
        If the format's library is not installed. The hint says how to install it.
    FileNotFoundError
        If a source does not exist.
    TypeError
        If an option is unknown to the format and to the writer.

    Examples
    --------
    >>> import shardpack as sp
    >>> report = sp.convert("webdataset", "train-{000..012}.tar", "train/")  # doctest: +SKIP
    >>> report = sp.convert("webdataset", "week-2/*.tar", "train/", append=True)  # doctest: +SKIP
    """
    if format not in FORMATS:
        is_folder = format.lower().replace("_", "") in ("folder", "imagefolder", "images", "jpeg", "jpg", "png", "tiff", "envi", "npy", "mat")
        hint = "\nhint: use shardpack.pack(src, out) for folders of files" if is_folder else did_you_mean(format, FORMATS)
        raise ValueError(f"format: expected one of {', '.join(FORMATS)}, found: {format!r}{hint}")
    if on_bad_input not in ("stop", "skip"):
        raise ValueError(f"on_bad_input: expected 'stop' or 'skip', found: {on_bad_input!r}")
    if on_known_key not in ("stop", "skip"):
        raise ValueError(f"on_known_key: expected 'stop' or 'skip', found: {on_known_key!r}")
    if on_known_key != "stop" and not append:
        raise TypeError(f"on_known_key needs {option(append=True)}")
    if isinstance(drop, str):
        raise TypeError(f"drop: expected a list of columns, found: {drop!r}\nhint: pass {option(drop=[drop])}")
    classes = names("classes", classes)
    module = importlib.import_module(f".{format}", __name__)
    of_format, of_writer = _split_options(format, module.open, options, append)
    if append:
        of_writer |= {"append": True, "on_known_key": on_known_key}
    if of_format.get("storage_options") is not None and is_url(out):
        of_writer["storage_options"] = of_format["storage_options"]
        if not any(is_url(part) for part in ([src] if isinstance(src, (str, os.PathLike)) else list(src))):
            del of_format["storage_options"]
    where: dict[str, Any] = {name: of_writer[name] for name in ("force", "spool", "take_over", "storage_options") if name in of_writer}
    fields = Fields(rename or {}, image, label, frozenset(drop), schema or {}, classes, known=_fields_of(out, where) if append else None)
    try:
        source: Source = module.open(src, drop=frozenset(drop), **of_format)
    except RAW as error:
        named = f"`{shown(os.fspath(src))}`: " if isinstance(src, (str, os.PathLike)) else ""
        raise SourceError(f"{format}: {named}cannot read the source: {type(error).__name__}: {error}") from error
    run = Run(format, source, fields, skip=on_bad_input == "skip", progress=progress)
    return run.write(out, of_writer)


def _fields_of(out: Union[str, os.PathLike[str]], where: dict[str, Any]) -> dict[str, str]:
    """Return the fields of the dataset at `out`, as a mapping from field to kind. Raise an error if nothing can be
    appended to it.
    """
    from .. import Writer

    writer = Writer(out, append=True, **where)
    try:
        return writer.fields
    finally:
        writer.abort()


def _split_options(
    format: str, opener: Callable[..., Source], options: Mapping[str, Any], append: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    from .._pack import StorageOptions

    own = set(inspect.signature(opener).parameters) - {"src", "drop"}
    of_writer = {"shuffle", *StorageOptions.__annotations__}
    for name in options:
        if name not in own | of_writer:
            hint = did_you_mean(name, own | of_writer)
            raise TypeError(f"unknown option {name!r} for format {format!r}{hint}")
    kept = {"jpeg": "keep"} if "max_error" in options else {"jpeg": "keep", "values": "keep"}
    if append:
        kept = {}
    to_writer = kept | {name: value for name, value in options.items() if name not in own}
    return {name: value for name, value in options.items() if name in own}, to_writer
