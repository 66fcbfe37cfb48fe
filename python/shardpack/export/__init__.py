"""Going back: a dataset as WebDataset tars or as a Zarr v3 group, so that nobody is locked in."""

from __future__ import annotations

import importlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, Union

from .._url import refuse
from ..convert._source import did_you_mean
from ._samples import Samples

__all__ = ["FORMATS", "export"]

FORMATS = ("webdataset", "zarr")
"""Names of the formats, each with a module of its own in this package."""


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
        ``"webdataset"``: tars with the stored JPEGs (tiled ones get back the profile and the orientation that are kept
        beside them). ``"zarr"``: arrays of a Zarr v3 group, with the decoded pixels.
    out
        Folder to write, on this machine. It must be empty, a link to such a folder, or not exist. It appears when it is complete.
    fields
        Fields to write. Default: all, without those that a packer adds to describe others (sizes and orientation of
        pictures, sizes of cubes, figures such as `cube.max_abs_error`). Fields of yours with such names are written.
    progress
        Called about ten times a second, and once at the end, with a dict: ``samples`` written, ``total``, ``seconds``.
    **options
        For ``"webdataset"``: ``shard_size`` (``"1GiB"``, or a number of bytes: no tar is larger, unless a single sample
        is), ``keys`` (``"dataset"``: the key without the extension of its picture, and with ``_`` for the dots in its
        last part, since a tar's key ends at the first dot; or ``"number"``: running numbers). For ``"zarr"``:
        ``shard_size`` (``"64MiB"``: how much of an array is in one file, uncompressed; as much is in memory for each
        field).

    Returns
    -------
    dict
        ``format``, ``samples``, ``files`` (tars) or ``arrays``, ``bytes`` written, ``seconds``, and ``fields``: field
        to its place in the output.

    Raises
    ------
    ValueError
        If the format is unknown, `out` is a URL or inside the dataset's folder, a field is not there, two samples get the same key, or a sample has nothing that the
        format can hold: no value at all in a tar, one that is missing in Zarr.
    FileExistsError
        If `out` holds something.
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
            f"format: expected one of {', '.join(FORMATS)}, found: {format!r}{did_you_mean(format, FORMATS)}"
        )
    module = importlib.import_module(f".{format}", __name__)
    for name in options:
        if name not in module.OPTIONS:
            raise TypeError(
                f"option: expected one of {', '.join(module.OPTIONS)}, "
                f"found: {name!r}{did_you_mean(name, module.OPTIONS)}"
            )
    refuse("export", hint="write into a folder of this machine, and copy that into the store", out=out)
    target = _target(out)
    started = time.monotonic()
    samples = Samples(dataset, fields, progress, started)
    held = str(getattr(samples.dataset, "path", ""))
    # A shard, or a URL, is no folder that something could be in.
    if held and target.resolve().is_relative_to(Path(held).resolve()):
        raise ValueError(f"out: expected a folder outside of the dataset `{held}`, found: {str(target)!r}")
    parent = target.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    # Beside the final place, so that moving it there is one rename.
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
    """The folder to write: nothing is there, or an empty folder, or a link to one, which stays.

    Raises
    ------
    ValueError
        If no folder can have this name.
    FileExistsError
        If something else is there.
    """
    target = Path(out)
    if "\0" in str(target):
        raise ValueError(f"out: expected the name of a folder, found: {str(target)!r}")
    if target.is_symlink() and target.is_dir():
        target = target.resolve()
    if os.path.lexists(target) and (target.is_symlink() or not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(17, "expected no folder, or an empty one", str(target))
    return target


def parse_size(size: Union[int, str]) -> int:
    """A size in bytes.

    >>> parse_size("64MiB"), parse_size(1000)
    (67108864, 1000)

    Raises
    ------
    ValueError
        If it is none.
    """
    units = {
        "B": 1,
        "KB": 10**3,
        "MB": 10**6,
        "GB": 10**9,
        "TB": 10**12,
        "KIB": 2**10,
        "MIB": 2**20,
        "GIB": 2**30,
        "TIB": 2**40,
    }
    text = str(size).strip().upper()
    number = text.rstrip("ABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    unit = text[len(number) :].strip() or "B"
    try:
        value = int(float(number) * units[unit]) if isinstance(size, str) else size
    except (ValueError, KeyError, OverflowError):
        value = 0
    if value < 1:
        raise ValueError(f"shard_size: expected a number of bytes, or a size such as '256MiB', found: {size!r}")
    return value
