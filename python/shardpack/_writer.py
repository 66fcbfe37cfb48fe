"""Writing a dataset from a program: samples one at a time, from any iterator and any number of threads."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from shardpack import _shardpack
from shardpack._pack import _TYPES, Progress, StorageOptions, StrPath, arguments

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

# As the compiled part takes them: see `Given` in python/src/writer.rs.
_Given: TypeAlias = "tuple[Any, ...] | bytes | None"

_DTYPES = frozenset(
    "bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float16 float32 float64".split()
)  # fmt: skip
_OPTIONS = {name: types for name, types in _TYPES.items() if name in StorageOptions.__annotations__}


class Writer:
    """Writes a dataset of samples that a program makes.

    A sample is a dict of field to value. It is encoded in the thread that writes it, without the GIL, and kept in a temporary file in ``path``; at the end
    the samples are mixed and written as shards, with all guarantees of :func:`pack`: the dataset is there as a whole, or not at all, and two writers of
    one folder are refused. The encoded data are written twice and take their space twice until the end; memory stays small, whatever the number of samples.

    Parameters
    ----------
    path : str or os.PathLike
        Folder of the dataset. It is created if need be.
    schema : mapping of str to str, optional
        What each field holds: ``"image"``, ``"array"`` (or ``"array:float32"``), ``"text"``, ``"json"``, ``"bytes"``, or a type of numbers: ``"bool"``,
        ``"int64"``, ``"float32"``, …. By default the first sample says it: see below.
    classes : sequence of str, optional
        Names of the classes that the field ``label`` counts into, from 0. Labels may then be given by name.
    shuffle : bool, default True
        Mix the samples, as their keys sort and ``seed`` says, so that a sequential read is random already. The same samples then give the same bytes, in whatever
        order they were written. ``False`` keeps the order of writing (that of ``order``, where it is given).
    **options : StorageOptions
        How values are stored, as :func:`pack` has it: ``jpeg``, ``quality``, ``values``, ``codec``, ``shard_size``, ``force``, …. ``threads`` are
        those that write the shards at the end.

    Notes
    -----
    =================================  ==============================================================================
    value                              stored as
    =================================  ==============================================================================
    ``bytes``                          picture, if they are a whole JPEG, PNG, WebP, BMP or TIFF; else bytes
    ``PIL.Image``                      picture: its pixels (see below)
    array, uint8, in field ``image``   picture, if ``[height, width]`` (grey), ``[height, width, 1]`` or ``[height, width, 3]`` (RGB)
    other array, of any dtype          array; all arrays of a field have one dtype and one number of axes. In field
                                       ``image`` floats and uint8 ``[3, height, width]`` are refused, unless ``schema``
                                       says that it holds arrays
    ``bool``, ``int``, ``float``       scalar: bool, int64, float64; NumPy scalars and arrays of no axes: their dtype
    ``str``                            text
    ``dict``, ``list``, ``tuple``      JSON
    ``None``                           no value (not for scalars)
    =================================  ==============================================================================

    JPEG files are stored as ``jpeg`` says; other files to the byte. Pixels are stored as PNG, to the bit, unless ``jpeg="reencode"`` makes JPEGs of them. A
    picture that PIL has opened is nothing but pixels: where there is a file, give its bytes (``Path.read_bytes()``), which are smaller and lose nothing. A
    dataset of one picture field has the columns ``height``, ``width``, ``orientation`` and ``gpu_jpeg`` as :func:`pack` writes them. The looks that
    ``check_pixels`` and ``score`` take at a sample of the pictures are taken at one in 32, chosen by their keys.

    With ``values="auto"`` floats in arrays of three axes and more (cubes) become float16 where they are not integers, and what that lost is measured;
    arrays of one or two axes (boxes, embeddings) lose nothing. ``values="keep"`` keeps every bit of all. How the arrays of a field are coded is
    chosen on the first of them. Where several threads race for being first, write one sample before they begin: the same samples then give the same bytes.

    A program that is killed leaves no dataset, and its temporary file, which has no name, goes with it.

    Raises
    ------
    UsageError
        The folder holds a dataset already (``force=True`` replaces it once this one is complete), or files of others; options that contradict each other.
    BlockingIOError
        Another writer is at work in the folder.
    TypeError
        An option that there is not, or one of another type.

    Examples
    --------
    >>> with sp.Writer("train", classes=["cat", "dog"], jpeg="keep") as writer:    # doctest: +SKIP
    ...     for file in files:
    ...         writer.write({"image": file.read_bytes(), "label": file.parent.name}, key=file.name)
    >>> writer.report["samples"]                                                   # doctest: +SKIP
    2
    """

    def __init__(
        self,
        path: StrPath,
        schema: Mapping[str, str] | None = None,
        *,
        classes: Sequence[str] | None = None,
        shuffle: bool = True,
        **options: Unpack[StorageOptions],
    ) -> None:
        args = arguments("Writer", options, _OPTIONS)
        if not shuffle:
            if options.get("seed") is not None:
                raise TypeError("Writer(): seed: has a meaning with shuffle=True only")
            args.append("--no-shuffle")
        fields = None if schema is None else list(schema.items())
        self._path = os.fspath(path)
        self._schema = dict(schema or {})
        self._report: dict[str, Any] | None = None
        self._aborted = False
        # Where it is, also if the program goes to another folder before the end.
        self._inner = _shardpack.Writer(os.path.abspath(self._path), fields, None if classes is None else list(classes), args)

    def write(self, sample: Mapping[str, object], key: str | None = None, *, order: int | None = None) -> None:
        """Add a sample. May be called from several threads at once.

        Parameters
        ----------
        sample : mapping of str to object
            A value for each field. ``"__key__"`` may hold the key.
        key : str, optional
            The sample's key, unique in the dataset: a relative path such as ``"cats/0001.jpg"``. Default: the number of the call, ``"00000000"``.
        order : int, optional
            Its place, with ``shuffle=False`` and several threads. For all samples or for none.

        Raises
        ------
        UsageError
            A value does not fit its field, or cannot be stored as the options ask; a key that is taken. The message names sample and field. The
            sample is not in the dataset then, the others are, and more can be written.
        FormatError
            A picture is damaged.
        TypeError
            A value of a type that has no place in a dataset.
        OSError
            The disk is full.
        """
        values = []
        for field, value in sample.items():
            if field == "__key__":
                key = _key(value) if key is None else key
                continue
            values.append((field, _given(field, value, self._schema.get(field))))
        self._inner.write(None if key is None else _key(key), order, values)

    def close(self, progress: Progress | None = None) -> dict[str, Any]:
        """Write the dataset. The end of a ``with`` block does it, too.

        After an error, Ctrl-C included, the samples are still there: call it again, or :meth:`abort`.

        Parameters
        ----------
        progress : callable, optional
            Called about ten times a second: see :data:`Progress`.

        Returns
        -------
        dict
            ``samples``, ``bytes_in`` (of the values as they came), ``bytes_out``, ``shards``, ``seconds``, ``fidelity`` (what was lost, by field), ``settings`` (how
            arrays are stored), …. The same again if the dataset is complete already.
        """
        if self._report is None:
            report: dict[str, Any] = json.loads(self._inner.commit(progress))
            self._report = report
        return self._report

    def abort(self) -> None:
        """Let everything go that was written. The folder is as it was; nothing happens if the dataset is complete."""
        self._inner.abort()
        self._aborted = self._report is None

    @property
    def report(self) -> dict[str, Any] | None:
        """What :meth:`close` returned; ``None`` before."""
        return self._report

    @property
    def path(self) -> str:
        """The folder of the dataset."""
        return self._path

    def __len__(self) -> int:
        """Number of samples so far; none after :meth:`abort`."""
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
        raise TypeError(f"key: expected str, found {type(key).__name__} {key!r}")
    return key


def _given(field: str, value: Any, kind: str | None) -> _Given:
    """A value as the compiled part takes it."""
    if value is None:
        return None
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return (_utf8(field, value), False)
    if isinstance(value, np.generic):
        return _number(field, value)
    if isinstance(value, (bool, int, float)):
        if isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
            raise _shardpack.UsageError(f"field {field!r}: expected an integer of at most 64 bits, found {value}")
        return (value, None)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, np.ndarray):
        return _array(field, _no_tensor(field, value, kind), False)
    if isinstance(value, (dict, list, tuple)):
        if kind is not None and kind.startswith("array"):
            _, _, dtype = kind.partition(":")
            return _array(field, np.asarray(value, dtype or None), False)
        # NaN is refused below, where sample and field have a name.
        return (_utf8(field, json.dumps(value, default=_json, ensure_ascii=False)), True)
    if all(hasattr(value, name) for name in ("mode", "size", "tobytes", "convert")):
        return _picture(field, value)
    if hasattr(value, "__array__"):
        # Tensors of PyTorch, JAX and the like.
        return _array(field, _no_tensor(field, np.asarray(value), kind), False)
    hint = "\nhint: give what is in the file: read_bytes()" if isinstance(value, os.PathLike) else ""
    expected = "bytes, str, a number, an array, a PIL picture, a dict, a list or None"
    raise TypeError(f"field {field!r}: expected {expected}, found {type(value).__name__}{hint}")


def _no_tensor(field: str, array: np.ndarray[Any, Any], kind: str | None) -> np.ndarray[Any, Any]:
    """Refuses what a program made of a picture for its model: stored as an array it could not be loaded as a picture."""
    if field != "image" or kind not in (None, "image"):
        return array
    keep = '; schema={"image": "array"} stores it as it is'
    shape, found = array.shape, f"{array.dtype.name} of shape {list(array.shape)}"
    if np.issubdtype(array.dtype, np.floating):
        hint = "give the picture's file (read_bytes()) or its pixels as they were"
    elif array.dtype == np.uint8 and len(shape) == 3 and shape[0] in (1, 3) and shape[2] not in (1, 3):
        axes = "array.transpose(1, 2, 0), of a torch tensor .permute(1, 2, 0)"
        hint = f"put the channels last: {axes}"
    else:
        return array
    expected = "pixels of a picture, uint8 [height, width], [height, width, 1] or [height, width, 3]"
    raise _shardpack.UsageError(f"field {field!r}: expected {expected}, found {found}\nhint: {hint}{keep}")


def _utf8(field: str, text: str) -> str:
    """Text that can be stored; the common case costs nothing."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise _shardpack.UsageError(f"field {field!r}: expected text that is Unicode, found {error}") from None
    return str(text)


def _number(field: str, value: np.generic) -> _Given:
    name = value.dtype.name
    if name not in _DTYPES:
        raise TypeError(f"field {field!r}: expected a bool, an integer or a float of 16, 32 or 64 bits, found {name}")
    return (value.item(), name)


def _array(field: str, array: np.ndarray[Any, Any], is_picture: bool) -> _Given:
    if np.ma.isMaskedArray(array):
        hint = "fill its masked values first, array.filled(value), or write the mask as a field of its own"
        raise TypeError(f"field {field!r}: expected an array of values, found one with a mask\nhint: {hint}")
    name = array.dtype.name
    if name not in _DTYPES:
        raise TypeError(f"field {field!r}: expected an array of bool, integers or floats of 16, 32 or 64 bits, found {name}")
    if array.ndim == 0 and not is_picture:
        return (array.item(), name)
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return (little.reshape(-1).view(np.uint8), name, array.shape, is_picture)


_READY = {"L": 1, "RGB": 3}
_CONVERTED = {"1": "L", "P": "RGB", "CMYK": "RGB", "YCbCr": "RGB"}


def _picture(field: str, picture: Any) -> _Given:
    """Pixels of a PIL picture, which need not be installed: RGB or grey, as it is or converted without loss of what is seen."""
    mode = picture.mode
    if mode in _CONVERTED and not (mode == "P" and "transparency" in getattr(picture, "info", {})):
        mode = _CONVERTED[mode]
        picture = picture.convert(mode)
    if mode not in _READY:
        hint = 'convert("RGB") drops what else there is; np.asarray(picture) in a field of kind "array" keeps it'
        raise TypeError(f"field {field!r}: expected a picture of mode {', '.join([*_READY, *_CONVERTED])}, found {mode}\nhint: {hint}")
    width, height = picture.size
    pixels = np.frombuffer(picture.tobytes(), np.uint8)
    return _array(field, pixels.reshape((height, width, _READY[mode])), True)


def _json(value: object) -> object:
    """What NumPy has in a document, in the words of JSON."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"a JSON document cannot hold {type(value).__name__}")
