"""Exports a dataset as WebDataset tars or as a Zarr v3 group."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Union

from .._keywords import names
from .._similar import did_you_mean
from .._url import refuse
from ._samples import Samples

__all__ = ["FORMATS", "export"]

FORMATS = ("webdataset", "zarr")
"""Names of the formats. Each format has a module in this package."""


def export(
    dataset: Any,
    format: str,
    out: Union[str, os.PathLike[str]],
    *,
    fields: Collection[str] | None = None,
    progress: Callable[[dict[str, Any]], object] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Write a dataset in another format.

    Parameters
    ----------
    dataset
        A :class:`shardpack.Dataset`, a subset of one, or a path.
    format
        ``"webdataset"``: tars with the stored JPEGs. Tiled JPEGs are written as plain JPEGs, with profile and
        orientation. ``"zarr"``: a Zarr v3 group with arrays of decoded pixels.
    out
        Local folder to write. It must be empty, a link to an empty folder, or not exist. The export appears there once
        it is complete.
    fields
        Fields to write. Default: all except the fields that packing adds (sizes and orientation of pictures, sizes of
        cubes, figures such as `cube.max_abs_error`). Your own fields are written even if they have such names.
    progress
        Called about ten times a second, and once at the end, with a dict of ``samples`` (number of samples written),
        ``total`` and ``seconds``.
    **options
        For ``"webdataset"``: ``shard_size`` is the maximum size of a tar, unless one sample is larger; default
        ``"1GiB"``. ``keys`` is ``"dataset"`` or ``"number"``. ``"dataset"``, the default, uses the sample's key without
        the extension of its picture and with ``_`` in place of dots in its last part, because a tar's key ends at the
        first dot. ``"number"`` uses running numbers. For ``"zarr"``: ``shard_size`` is the uncompressed size of the
        part of an array in one file, which is also the memory taken per field; default ``"64MiB"``.

    Returns
    -------
    dict
        ``format``, ``samples``, ``files`` (tars) or ``arrays``, ``bytes`` written, ``seconds``, and
        ``fields`` (field to its place in the output).

    Raises
    ------
    ValueError
        If the format or a field is unknown, `out` is a URL or lies inside the dataset's folder, two samples get the
        same key, a sample has no value that could be written to a tar, or a value that Zarr needs is missing.
    FileExistsError
        If `out` is not empty.
    ImportError
        If the format's library is not installed.
    TypeError
        If an option is unknown.

    Examples
    --------
    >>> import shardpack as sp
    >>> report = sp.export("train/", "webdataset", "tars/", shard_size="256MiB")  # doctest: +SKIP
    """
    if format not in FORMATS:
        raise ValueError(
            f"format: expected one of {', '.join(FORMATS)}, found {format!r}{did_you_mean(format, FORMATS)}"
        )
    module = importlib.import_module(f".{format}", __name__)
    for name in options:
        if name not in module.OPTIONS:
            raise TypeError(
                f"unknown option {name!r}; the options are {', '.join(module.OPTIONS)}"
                f"{did_you_mean(name, module.OPTIONS)}"
            )
    refuse("export()", hint="write to a local folder, and copy it to the store", out=out)
    target = _target(out)
    started = time.monotonic()
    samples = Samples(dataset, names("fields", fields), progress, started)
    held = str(getattr(samples.dataset, "path", ""))
    # `out` can lie inside the dataset only if the dataset is a local folder, not a lone shard or a URL.
    if held and target.resolve().is_relative_to(Path(held).resolve()):
        raise ValueError(
            f"out: {str(target)!r} is inside the dataset `{held}`\nhint: pass a folder outside the dataset"
        )
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    # Write next to the final place, so that a single rename moves the result there.
    partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.partial-", dir=parent))
    try:
        report: dict[str, Any] = module.write(samples, partial, **options)
        partial.chmod(0o755)
        os.replace(partial, target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    samples.report(last=True)
    written = sum(file.stat().st_size for file in target.rglob("*") if file.is_file())
    return (
        {"format": format, "samples": len(samples)} | report | {"bytes": written, "seconds": time.monotonic() - started}
    )


def _target(out: Union[str, os.PathLike[str]]) -> Path:
    """Check the output folder. It must be empty, a link to an empty folder, or not exist. A link is kept.

    Raises
    ------
    ValueError
        If the name is invalid.
    FileExistsError
        If anything else exists there.
    """
    target = Path(out)
    if "\0" in str(target):
        raise ValueError(f"out: a folder name cannot contain a null character: {str(target)!r}")
    if target.is_symlink() and target.is_dir():
        target = target.resolve()
    if os.path.lexists(target) and (target.is_symlink() or not target.is_dir()):
        raise FileExistsError(17, "the output exists and is not a folder", str(target))
    if target.is_dir() and any(target.iterdir()):
        raise FileExistsError(17, "the output folder is not empty", str(target))
    return target
