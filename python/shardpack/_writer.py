"""Writes samples one at a time as a dataset, from any iterator and any number of threads."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

from shardpack import _shardpack, _warn
from shardpack._given import given, no_fraction
from shardpack._keywords import keywords, names
from shardpack._pack import Progress, StorageOptions, StrPath
from shardpack._url import absolute, settings
from shardpack._voice import option

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class Writer:
    """Writes samples one at a time as a dataset.

    A sample is a dict from field to value. It is encoded in the calling thread, without the GIL, and kept in a
    temporary file in ``path``. At the end, the samples are shuffled and written as shards. As for :func:`pack`, a
    dataset is either complete or does not exist, and a second writer in the same folder is refused. Encoded data are
    written twice, so they take twice their size on disk until the end. Memory use stays small for any number of
    samples.

    Parameters
    ----------
    path : str or os.PathLike
        Folder of the dataset, which is created if it does not exist. It may also be a URL string, such as
        ``"s3://bucket/train"``; ``gs://`` and ``az://`` work too. With a URL, the temporary file is in ``spool``.
    schema : mapping of str to str, optional
        Kind of each field: ``"image"``, ``"frames"`` (a list of JPEGs), ``"array"`` (or ``"array:float32"``),
        ``"text"``, ``"json"``, ``"bytes"``, or a type of numbers: ``"bool"``, ``"int64"``, ``"float32"``, …. By
        default, the first sample decides, as described below. With ``"array"``, lists become arrays. A value that does
        not fit, such as 1.7 or None in ``"array:int32"``, is an error. Only floats may be rounded, to narrower floats.
    classes : sequence of str, optional
        Names of the classes, indexed by the field ``label``. Labels may then be given by name.
    shuffle : bool, default True
        Shuffle the samples, so that sequential reads return them in random order. The shuffle depends only on the keys
        and ``seed``, so the same samples give the same bytes in any order of writing. ``False`` keeps the order in
        which samples are written, or the order given by ``order``.
    append : bool, default False
        Add the samples to the dataset in ``path``, or at this URL, as its next generation, however it was made. See
        the notes.
    on_known_key : {"stop", "skip"}, default "stop"
        With ``append``: ``"stop"`` raises an error for a key that the dataset already has. ``"skip"`` leaves such
        samples out and counts them.
    storage_options : mapping from str to str, optional
        With a URL: options of the store, as for :class:`Dataset`.
    **options : StorageOptions
        Storage options, as for :func:`pack`: ``jpeg``, ``quality``, ``values``, ``codec``, ``shard_size``,
        ``force``, …. ``threads`` is the number of threads that write the shards at the end.

    Notes
    -----
    =================================  ==============================================================================
    value                              stored as
    =================================  ==============================================================================
    ``bytes``                          picture, if they are a whole JPEG, PNG, WebP, BMP or TIFF; else bytes. In a field
                                       with a name for pictures (``image``, ``left_photo``) other bytes are refused,
                                       unless ``schema`` says ``"bytes"``
    ``pathlib.Path``                   the content of the file, like its bytes
    ``PIL.Image``                      picture: its pixels (see below)
    ``list`` of ``bytes`` or ``Path``   list of JPEGs: a clip, or several views, with a column of their number
    array, uint8, in field ``image``   picture, if ``[height, width]`` (grey), ``[height, width, 1]`` or ``[height, width, 3]`` (RGB)
    other array, of any dtype          array; all arrays of a field have one dtype and one number of axes. In field
                                       ``image`` floats and uint8 ``[3, height, width]`` are refused, unless ``schema``
                                       says ``"array"``
    ``bool``, ``int``, ``float``       scalar: bool, int64, float64; NumPy scalars and arrays of no axes: their dtype.
                                       With ``classes``, field ``label`` refuses floats, unless
                                       ``schema`` gives it a float type
    ``str``                            text. In a field with a name for pictures the name of a picture file is refused:
                                       give its ``Path``
    ``dict``, ``list``, ``tuple``      JSON
    ``None``                           no value (not for scalars)
    =================================  ==============================================================================

    ``jpeg`` applies to JPEG files. Other picture files are stored unchanged. Pixels are stored losslessly as PNG, or as
    JPEG with ``jpeg="reencode"``. PIL provides only the pixels of a picture, so pass the ``Path`` of its file instead:
    the file is smaller and loses nothing. Masks are arrays of class numbers, so a field named ``mask`` refuses pictures
    unless ``schema`` says ``"image"``. A dataset with one picture field gets the columns ``height``, ``width``,
    ``orientation`` and ``gpu_jpeg``, as from :func:`pack`. ``check_pixels="sample"`` and ``score="sample"`` check one
    picture in 32, chosen by key.

    With ``values="auto"``, floats in arrays of three axes or more (cubes) become float16 unless all are whole numbers,
    and the loss is measured. Arrays of one or two axes (boxes, embeddings) lose nothing. If values changed and you gave
    neither ``values`` nor ``max_error``, closing issues a ``UserWarning`` with the largest error. ``values="keep"``
    keeps every bit. The first array of a field decides how the field is coded. If several threads write, write one
    sample before they start, so that the same samples give the same bytes.

    A killed program leaves no dataset. The temporary file has no name and disappears with the program.

    ``append=True`` rewrites no existing shard. The dataset stays unchanged until the end, even if the program raises an
    exception or is killed. Fields, shard size and storage options come from the dataset, and giving a different option
    is an error. Each sample must name all fields, with ``None`` for missing values, unless you give a ``schema``.
    Classes are matched by name, and new classes get the next numbers. Labels refer to ``classes`` if you give that.
    Samples without a key get the next numbers as keys. ``force`` drops the unfinished work of an interrupted
    :func:`add` or :func:`remove`. The report has ``generation``, ``samples_of_dataset``, ``new_classes`` and ``known``,
    as for :func:`add`. If all samples are the same as in the last addition, ``outcome`` is ``"already-complete"``.

    Raises
    ------
    UsageError
        The folder already contains other files or a dataset, or options contradict each other or the dataset.
        ``force=True`` replaces an existing dataset when the new one is complete, and ``append=True`` adds to it.
    BlockingIOError
        Another writer is using the folder.
    TypeError
        An option is unknown, or its value has the wrong type.

    Examples
    --------
    >>> with sp.Writer("train", classes=["cat", "dog"], jpeg="keep") as writer:    # doctest: +SKIP
    ...     for file in files:
    ...         writer.write({"image": file, "label": file.parent.name}, key=file.name)
    >>> writer.report["samples"]                                                   # doctest: +SKIP
    2
    >>> with sp.Writer("train", append=True) as writer:                            # doctest: +SKIP
    ...     writer.write({"image": new, "label": "cat"}, key=new.name)
    """

    def __init__(
        self,
        path: StrPath,
        schema: Mapping[str, str] | None = None,
        *,
        classes: Sequence[str] | None = None,
        shuffle: bool = True,
        append: bool = False,
        on_known_key: Literal["stop", "skip"] = "stop",
        storage_options: Mapping[str, Any] | None = None,
        **options: Unpack[StorageOptions],
    ) -> None:
        stored = keywords("Writer", options, StorageOptions)
        if not shuffle and options.get("seed") is not None:
            raise TypeError(f"Writer(): seed sets the order of shuffled samples, but {option(shuffle=False)} keeps their order")
        if not shuffle and not append:
            stored["no_shuffle"] = True
        if not append and on_known_key != "stop":
            raise TypeError(f"Writer(): on_known_key needs {option(append=True)}")
        fields = None if schema is None else list(schema.items())
        self._path = os.fspath(path)
        self._schema = dict(schema or {})
        self._said = frozenset(self._schema)
        self._append = append
        self._options = dict(options)
        self._report: dict[str, Any] | None = None
        self._aborted = False
        # If several threads close the writer, the first one writes the dataset. The lock is reentrant, because
        # `progress` may access the report.
        self._closing = threading.RLock()
        self._pid = os.getpid()
        # Make the path absolute, because the program may change its working directory before the dataset is written.
        named = names("classes", classes)
        self._inner = _shardpack.Writer(
            absolute(self._path), fields, named, stored, settings(storage_options), on_known_key if append else None
        )
        if append and not shuffle and not self._inner.keeps_order():
            self._inner.abort()
            raise _shardpack.UsageError(
                f"cannot append with {option(shuffle=False)}: the existing dataset is shuffled\n"
                f"hint: leave out {option(shuffle=False)} to add the new samples in shuffled order"
            )
        self._classes = self._inner.classes()
        if append:
            # With `append`, the schema of the existing dataset decides how lists and tensors are stored.
            self._schema = dict(self._inner.fields() or ())

    def write(self, sample: Mapping[str, object], key: str | None = None, *, order: int | None = None) -> None:
        """Add a sample. This may be called from several threads.

        Parameters
        ----------
        sample : mapping of str to object
            A value for each field. ``"__key__"`` may hold the key.
        key : str, optional
            The sample's key, unique in the dataset: a relative path such as ``"cats/0001.jpg"``. Default: the number
            of the sample in the order of calls, such as ``"00000000"``.
        order : int, optional
            Position of the sample in the dataset, for ``shuffle=False`` with several threads. Give it either for all
            samples or for none.

        Raises
        ------
        UsageError
            A value does not fit its field or the options, or the key already exists. It is a ``RepeatedKeyError`` if an
            earlier sample has the key, and a ``KnownKeyError`` if the dataset being appended to has it. The message
            names the sample and the field. The sample is left out, and you can write more samples.
        FormatError
            A picture is damaged.
        TypeError
            A value has a type that a dataset cannot store.
        OSError
            The disk is full.
        """
        values = []
        for field, value in sample.items():
            if field == "__key__":
                key = _key(value) if key is None else key
                continue
            taken = given(field, value, self._schema.get(field))
            if field == "label" and self._classes is not None and "label" not in self._said:
                no_fraction(field, taken)
            values.append((field, taken))
        self._inner.write(None if key is None else _key(key), order, values)

    def close(self, progress: Progress | None = None) -> dict[str, Any]:
        """Write the dataset. The end of a ``with`` block calls this.

        After an error or Ctrl-C the samples are kept. You can then call this method again, or :meth:`abort`.

        Parameters
        ----------
        progress : callable, optional
            Called about ten times a second: see :data:`Progress`.

        Returns
        -------
        dict
            ``samples``, ``bytes_in`` (size of the given values), ``bytes_out``, ``shards``, ``seconds``,
            ``fidelity`` (loss by field), ``settings`` (how arrays are stored), …. If the dataset is already
            complete, the same dict is returned again. With ``append`` the dict also has ``generation``,
            ``samples_of_dataset``, ``new_classes``, ``known`` (samples left out) and ``notes`` (each of which is
            also a warning), and ``fidelity`` describes the whole dataset.
        """
        if self._report is None and os.getpid() != self._pid:
            # After a fork, a thread of the parent may hold the lock forever, so do not wait for it. The compiled writer
            # raises the error.
            self._inner.commit(progress)
        with self._closing:
            if self._report is None:
                report: dict[str, Any] = json.loads(self._inner.commit(progress))
                # Set the report before any warning. If a warning is turned into an error, the dataset is still
                # complete.
                self._report = report
                if not self._append:
                    _warn.of_rounding(report, self._options)
                _warn.of_notes(report.get("notes", ()))
                _warn.of_stored_bits(report["pictures_over_8_bits"])
                _warn.of_more_bands(report["pictures_with_more_bands"])
                _warn.of_odd(report["odd_pictures"])
            return self._report

    def abort(self) -> None:
        """Discard everything that was written, and restore the folder. This has no effect once the dataset is
        complete.
        """
        self._inner.abort()
        self._aborted = self._report is None

    @property
    def report(self) -> dict[str, Any] | None:
        """The result of :meth:`close`, or ``None`` before that call."""
        return self._report

    @property
    def fields(self) -> dict[str, str]:
        """Mapping from field to kind, like ``schema``. With ``append``, these are the fields of the existing dataset.
        """
        return dict(self._schema)

    @property
    def classes(self) -> list[str] | None:
        """Class names, ordered by class number in the dataset, or ``None`` if the dataset has no classes."""
        return None if self._classes is None else list(self._classes)

    @property
    def path(self) -> str:
        """The folder of the dataset."""
        return self._path

    def __len__(self) -> int:
        """Number of samples written so far. After :meth:`abort` it is 0."""
        if self._report is not None:
            return int(self._report["samples"])
        return 0 if self._aborted else len(self._inner)

    def __bool__(self) -> bool:
        return True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.abort()
            return
        try:
            self.close()
        except BaseException:
            self.abort()
            raise

    def __repr__(self) -> str:
        state = "complete" if self._report is not None else "aborted" if self._aborted else "open"
        return f"Writer({self._path!r}, {state})"


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise TypeError(f"key: expected a string, found {key!r} ({type(key).__name__})")
    return key
