"""What a lossy choice costs, before it is made: the report of the command, as a function."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from shardpack import _shardpack, _warn
from shardpack._keywords import keywords
from shardpack._pack import StrPath
from shardpack._url import refuse

if TYPE_CHECKING:
    from typing_extensions import Unpack


class ReportOptions(TypedDict, total=False):
    """Options of :func:`report`: the long options of ``shardpack report``, with ``_`` for ``-``. Lists are what several values are given in."""

    force: bool
    """Replace a file that is no report."""
    source: StrPath
    """What a dataset was packed from: its samples are compared with their sources."""
    samples: int
    """Samples to draw. Default: as many as make the predicted size known to ±2 %, from 64 to 512."""
    seed: int
    """Seed of the draw. Default 0."""
    gallery: int
    """Samples in the gallery: so many of the worst, and so many at random. Default 6."""
    want: str | Sequence[str]
    """Conditions on the recommended candidate, such as ``"ssimulacra2.p10>=80"``."""
    metric: str | Sequence[str]
    """A metric of your own, ``"NAME=COMMAND"``: the command gets the paths of the original and of a candidate, and prints a number."""
    metric_baseline_runs: int
    """Times that each metric is run on the original alone. Default 3."""
    candidates: StrPath
    """A TOML file of candidates."""
    quality: int | Sequence[int]
    """Qualities to re-encode pictures at."""
    target: str | Sequence[str]
    """Scores to re-encode each picture to, such as ``"ssimulacra2=80"``."""
    subsampling: Literal["keep", "420", "444"] | Sequence[Literal["keep", "420", "444"]]
    """Chroma subsamplings of re-encoded pictures."""
    short_side: int | Sequence[int]
    """Shorter sides to shrink re-encoded pictures to, in pixels."""
    long_side: int | Sequence[int]
    """Longer sides to shrink re-encoded pictures to, in pixels."""
    max_error: float | Sequence[float]
    """Largest errors for cubes in fixed point, in the units of the data."""
    codec: str | Sequence[str]
    """Codecs of cubes, beside what auto chooses."""
    filter: str | Sequence[str]
    """Filters before these codecs."""
    kind: Literal["images", "cubes"]
    """What the source holds."""
    labels: StrPath
    """Table of labels, as for :func:`pack`."""
    key_column: str
    """Name of the column of ``labels`` that holds the keys."""
    label_column: str
    """Name of the column of ``labels`` that holds the labels."""
    class_folders: Literal["auto", "on", "off"]
    """Whether the names of first-level folders are labels."""
    masks: StrPath
    """Folder of label masks."""
    follow_links: bool
    """Follow symbolic links that lead out of the source."""
    variable: str | Sequence[str]
    """Variable to read from ``.mat``, ``.npz`` and HDF5 files, as for :func:`pack`."""
    spatial: tuple[int, int] | str
    """Height and width of 2-D arrays in ``.mat`` files."""
    max_cube: int | str
    """Largest cube to accept, as decoded. Default 4 GiB."""
    device: str
    """Also time how fast a GPU decodes: ``"cuda:0"``, or ``"cpu"`` for none. Default: the first GPU, if there is one."""
    threads: int
    """Worker threads. Default: all cores."""
    memory: int | str
    """Limit on the memory of samples that are being measured."""


class Report(dict[str, Any]):
    """What :func:`report` found, as ``shardpack report --json`` prints it. In a notebook it shows its verdict and its curve."""

    def __init__(self, data: dict[str, Any], html: str) -> None:
        super().__init__(data)
        self._html = html

    def _repr_html_(self) -> str:
        return self._html

    def __repr__(self) -> str:
        verdict = self["verdict"]
        return f"<shardpack.Report of {self['source']!r}: {verdict['sentence'] or 'nothing was measured'}>"


def report(
    src: StrPath, output: StrPath | None = None, *, progress: Callable[[dict[str, Any]], object] | None = None, **options: Unpack[ReportOptions]
) -> Report:
    """Measure what a lossy choice costs, before a dataset is packed, or what it cost in one that is.

    A sample of the sources is encoded under a set of candidates as :func:`pack` would, decoded and scored.

    Parameters
    ----------
    src : str or os.PathLike
        Folder (or single file) of pictures or cubes, or a dataset.
    output : str or os.PathLike, optional
        The page to write: one HTML file that needs nothing else. Default: none.
    progress : callable, optional
        Called about ten times a second with a dict: ``done`` and ``total`` in encodings, ``doing`` (what is being done).
    **options : ReportOptions
        The command's long options with ``_`` for ``-``: ``samples=100``, ``quality=[90, 80]``, ``want="ssimulacra2.p10>=80"``.

    Returns
    -------
    Report
        A dict: what ``shardpack report --json`` prints. ``verdict`` (the recommendation, and the command that packs with it),
        ``candidates`` (scores, sizes, rates, predictions with intervals), ``samples``, ``unreadable``, ``provenance``, ….

    Raises
    ------
    TypeError
        An unknown option, or a value of the wrong type.
    UsageError
        The source or the options cannot be used, or nothing could be measured.
    OSError
        A file cannot be read or written.

    Examples
    --------
    >>> found = sp.report("photos", "report.html", samples=100)   # doctest: +SKIP
    >>> found["verdict"]["sentence"]                              # doctest: +SKIP
    'Pack with q85. 110 GB become 59 GB. …'
    """
    refuse("report", src=src)
    given = keywords("report", options, ReportOptions)
    page = None if output is None else os.fspath(output)
    text, html, notes = _shardpack.report(os.fspath(src), page, given, progress)
    for note in notes:
        _warn.warn(note)
    return Report(json.loads(text), html)
