"""Reads WebDataset tars, in which the members of a sample have the same name up to the first dot. Only the standard
library is used.
"""

from __future__ import annotations

import io
import itertools
import json
import lzma
import os
import re
import tarfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from .._url import is_url
from ._bounds import check_whole
from ._files import Paths
from ._masks import as_masks
from ._objects import ObjectFile, list_objects
from ._source import Item, Problem, Sample, Source, SourceError, option, shown
from ._values import looks_pickled, not_picture, parse_int, parse_json, parse_npy, picture_type, shorten

PICTURES = frozenset(["jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff"])
NUMBERS = frozenset(["cls", "cls2", "class", "count", "index", "inx", "id"])
TEXTS = frozenset(["txt", "text", "transcript"])
PICKLES = frozenset(["pyd", "pickle", "pkl", "pth", "pt"])

_SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_MAX_HEADER = 1 << 20
"""Maximum size in bytes of a member's extended header. It is limited because tarfile reads the whole header."""
_MOST_HEADERS = 16
"""Maximum number of extended headers before a member (valid tars have up to four), because tarfile recurses for each.
"""
_MAX_GLOBAL = 1 << 20
"""Maximum total size in bytes of all global headers. It is limited because tarfile keeps them in memory."""
_MAX_NAME = 4096
"""Maximum size of a member's name in bytes, equal to PATH_MAX on Linux."""
_MAX_CLASSES = 64 << 20
_PIECE = 1 << 16
_MOST_WINDOW = 1 << 30
"""Maximum memory in bytes that an .xz header may require."""
_MOST_MEMBERS = 1000
"""Maximum number of members of one sample, not counting the frames of its clips."""
MOST_FRAMES = 100_000
"""Maximum number of frames in all clips of a sample: more than an hour at 25 frames per second."""
_NAME = re.compile(r"((?:.*/|)[^./]+)[.]([^/]*)")


def open(
    src: Paths,
    *,
    drop: Collection[str] = (),
    prefix_keys: bool = False,
    max_sample_bytes: int = 1 << 30,
    frames: str | None = None,
    masks: Collection[str] = (),
    storage_options: Mapping[str, Any] | None = None,
) -> Source:
    """Open WebDataset tars.

    Consecutive members ``KEY.EXT`` with the same ``KEY`` form a sample. ``EXT`` in lower case is the column, for
    example ``jpg``, ``cls``, ``json`` or ``seg.png``. Pictures become the field ``image``, ``cls`` becomes ``label``,
    and ``seg.png`` becomes ``seg``. ``.txt`` is text, ``.json`` is JSON (a number alone is a scalar), ``.npy`` is an
    array, ``.cls`` and similar are numbers, and everything else is bytes. Pickles (``.pyd``, ``.pth``, ``.pt``) are
    refused.

    Parameters
    ----------
    src
        A tar (also .gz, .bz2, .xz), a folder of them, a pattern, or a list. A ``classes.json`` in the folder contains
        the class names. Tars may be URLs in a store: ``"s3://bucket/train-{000..012}.tar"``.
    drop
        Extensions to skip.
    prefix_keys
        Put the name of the tar before each key, for sets of tars whose keys all count from zero.
    max_sample_bytes
        Largest decompressed size of a sample, counting all its members together. Default 1 GiB. A larger sample
        cannot be converted. If the tar is compressed, the rest of it cannot be converted either, because skipping
        the sample would decompress it.
    frames
        Common name of the members that are frames of a clip: ``frames="frame"`` for ``clip7.frame0.jpg``. Members
        ``FRAMES0.jpg``, ``FRAMES1.jpg`` … of a sample become one field of that name, which is a clip in the order of
        the numbers. Members with a dot before three or more digits, such as ``clip7.image.000.jpg`` from
        :func:`shardpack.export`, are always frames of a clip, in this example ``image``. The numbers may start
        anywhere, but must have no gaps. A sample has at most 100,000 frames, and at most 1000 other members.
    masks
        Extensions or fields of pictures that hold class numbers: ``masks=["seg"]``. As with ``shardpack pack
        --masks``, they become arrays of palette indices (PNG) or grey values (PNG or TIFF, 8 or 16 bits). It is an
        error if a mask is in colour, or if its size differs from the size of the upright picture.
    storage_options
        With URLs: options of the store, as for :class:`shardpack.Dataset`.
    """
    check_whole("max_sample_bytes", max_sample_bytes)
    files, listed = list_objects(src, _SUFFIXES, "WebDataset", storage_options)
    classes = None
    if listed is not None:
        classes = _names(listed, listed.open().read(_MAX_CLASSES))
    elif isinstance(src, (str, os.PathLike)) and not is_url(src):
        classes = _classes(Path(os.fspath(src)))
    return Source(
        _samples(files, frozenset(drop), prefix_keys, max_sample_bytes, frames),
        classes=classes,
        field_name=field_name,
        repeated_keys=f"pass {option(prefix_keys=True)} to put the tar's name before each key",
        masks=as_masks(masks),
    )


def field_name(extension: str) -> str:
    """Return the name of the field for an extension.

    >>> field_name("jpg"), field_name("seg.png"), field_name("cls"), field_name("wav")
    ('image', 'seg', 'label', 'wav')
    """
    name, _, last = extension.rpartition(".")
    if name:
        return name if last in PICTURES | NUMBERS | TEXTS | {"json", "npy", "bin"} else extension
    if last in PICTURES:
        return "image"
    return {"cls": "label", "txt": "text", "npy": "array"}.get(last, last)


def _classes(src: Path) -> list[str] | None:
    file = src / "classes.json"
    if not file.is_file():
        return None
    return _names(file, file.read_bytes())


def _names(file: Path | ObjectFile, text: bytes) -> list[str]:
    try:
        names = parse_json(text)
    except ValueError as error:
        raise SourceError(f"`{shown(file)}`: {error}") from error
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SourceError(f"`{shown(file)}`: expected a list of class names, found: {json.dumps(names)[:80]}")
    return names


def _samples(
    files: list[Path | ObjectFile], drop: frozenset[str], prefix_keys: bool, max_bytes: int, frames: str | None
) -> Iterator[Item]:
    named = None if frames is None else re.compile(f"({re.escape(frames)})[.]?([0-9]{{1,9}})[.]jpe?g")
    for file, after in zip(files, [*files[1:], None]):
        if isinstance(after, ObjectFile):
            after.announce()
        prefix = f"{file.name.split('.')[0]}/" if prefix_keys else ""
        for item in _one_tar(file, drop, max_bytes, named):
            if isinstance(item, Sample):
                try:
                    item = item._replace(values=_with_clips(item.values, frames, named))
                except ValueError as error:
                    yield Problem(f"{item.where}: {error}")
                    continue
            yield item._replace(key=f"{prefix}{item.key}") if isinstance(item, Sample) else item


_FRAME = re.compile(r"(.+)[.]([0-9]{3,9})[.]jpe?g")


def _frame(extension: str, named: re.Pattern[str] | None) -> re.Match[str] | None:
    """Match the name of a frame. The groups are the name of the clip and the number. Return None for other members."""
    return (named and named.fullmatch(extension)) or _FRAME.fullmatch(extension)


def _with_clips(values: Mapping[str, Any], name: str | None, named: re.Pattern[str] | None) -> dict[str, Any]:
    """Return the values, with one list per clip in place of the members ``name0.jpg``, ``name1.jpg`` … and
    ``other.000.jpg``, ``other.001.jpg`` ….

    Raises
    ------
    ValueError
        If the numbers of a clip have a gap. Three or more frames may have equal steps, such as 0, 10, 20.
    """
    others: dict[str, Any] = {}
    clips: dict[str, dict[int, Any]] = {} if name is None else {name: {}}
    for extension, value in values.items():
        found = _frame(extension, named)
        clip = clips.setdefault(found[1], {}) if found else {}
        # If two members have the same number, such as `frame1.jpg` and `frame01.jpg`, keep the second as a column, so
        # that it is not lost.
        if found and int(found[2]) not in clip:
            clip[int(found[2])] = value
        else:
            others[extension] = value
    lists: dict[str, Any] = {}
    for name, frames in clips.items():
        numbers = sorted(frames)
        steps = {b - a: (a, b) for a, b in itertools.pairwise(numbers)}
        if len(steps) > 1 or (len(numbers) == 2 and 1 not in steps):
            before, after = steps[max(steps)]
            raise ValueError(f"clip `{shown(name)}`: at least one frame is missing between frames {before} and {after}")
        lists[name] = [frames[number] for number in numbers] or None
    return {**others, **lists}


class _Bounded(tarfile.TarInfo):
    """A tar member whose headers are limited in size and number. Without limits, a few compressed bytes could become a
    header of gibibytes, and a negative size could lead back to earlier data.
    """

    def _block(self, count: int) -> int:
        # `count` is the size of a member or of a header. Newer versions of Python treat a negative size as the end of
        # the tar, not as an error.
        if count < 0:
            raise tarfile.ReadError(f"a header contains an invalid size: {count} bytes")
        return int(super()._block(count))  # type: ignore[misc]

    def _proc_member(self, tar: tarfile.TarFile) -> Any:
        if self.size < 0:
            raise tarfile.ReadError(f"`{shown(shorten(self.name))}` has an invalid size: {self.size} bytes")
        lengthy = (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, tarfile.XHDTYPE, tarfile.XGLTYPE)
        if self.type not in (*lengthy, tarfile.SOLARIS_XHDTYPE):
            tar.headers = 0  # type: ignore[attr-defined]
            return super()._proc_member(tar)  # type: ignore[misc]
        if self.size > _MAX_HEADER:
            raise tarfile.ReadError(f"an extended header claims {self.size} bytes, but the limit is {_MAX_HEADER}")
        tar.headers += 1  # type: ignore[attr-defined]
        if tar.headers > _MOST_HEADERS:  # type: ignore[attr-defined]
            raise tarfile.ReadError(f"the next file has more than {_MOST_HEADERS} extended headers")
        if self.type == tarfile.XGLTYPE:
            tar.global_bytes += self.size  # type: ignore[attr-defined]
            if tar.global_bytes > _MAX_GLOBAL:  # type: ignore[attr-defined]
                raise tarfile.ReadError(f"its global headers take more than {_MAX_GLOBAL} bytes in total")
        return super()._proc_member(tar)  # type: ignore[misc]


class _Tar(tarfile.TarFile):
    """A tar that counts headers for `_Bounded`."""

    tarinfo = _Bounded
    headers = 0
    """Number of headers since the last member."""
    global_bytes = 0
    """Total size of the global headers in bytes."""


_DAMAGE = (
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    # tarfile raises this for an invalid size in a header.
    OverflowError,
    # tarfile raises this for invalid numbers in a sparse member.
    ValueError,
)
"""Errors that tarfile and its decompressors raise on damaged files."""


def _one_tar(
    file: Path | ObjectFile, drop: frozenset[str], max_bytes: int, named: re.Pattern[str] | None = None
) -> Iterator[Item]:
    group = _Group(file, drop, max_bytes, named)
    length = file.size() if isinstance(file, ObjectFile) else os.stat(file).st_size
    opened = file.open() if isinstance(file, ObjectFile) else None
    try:
        _check_window(file, opened)
        with _Tar.open(str(file), "r:*", opened) as tar:
            plain = isinstance(tar.fileobj, io.BufferedReader)
            at = -1
            # For an empty tar, `open` has already reached the end, where `next` may fail.
            empty = getattr(tar, "firstmember", None) is None
            while True:
                member = None if empty else tar.next()
                if member is None:
                    if not _goes_on(tar, plain, max_bytes):
                        break
                    # Another tar follows in the same file, and no sample continues in it. Finish the current sample.
                    yield from group.finish()
                    empty = False
                    continue
                # Clear tarfile's list of members. It would otherwise grow with the tar.
                tar.members.clear()  # type: ignore[attr-defined]
                # Check the size again here, because it may also come from an extended header.
                if member.size < 0 or tar.offset <= at:
                    raise tarfile.ReadError(f"`{shown(shorten(member.name))}` has an invalid size: {member.size} bytes")
                if plain and tar.offset > length + tarfile.BLOCKSIZE:
                    yield from group.before(member)
                    name = shown(shorten(member.name))
                    raise tarfile.ReadError(f"the file ends inside `{name}`, which should be {member.size} bytes long")
                at = tar.offset
                if not plain and member.size > max_bytes:
                    hint = "hint: decompress the tar, or raise max_sample_bytes"
                    yield from group.before(member)
                    what = f"member `{shown(shorten(member.name))}` is {member.size} bytes long"
                    raise _TooLarge(f"{what}, but members of a compressed tar are limited to {max_bytes} bytes\n{hint}")
                if not member.isdir():
                    yield from group.add(member, tar)
    except _TooLarge as error:
        yield Problem(f"`{shown(file)}`, {group.place()}: {error}", samples=None)
        return
    except _DAMAGE as error:
        if isinstance(file, ObjectFile) and file.failed is not None:
            # This is an error of the store, not damage in the tar.
            raise file.failed from None
        if isinstance(error, OSError) and error.errno is not None:
            raise
        why = error if str(error) else type(error).__name__
        # Leave out the current sample too, because it may lack some members.
        yield Problem(f"`{shown(file)}`: the tar is damaged {group.place()}: {why}", samples=None)
        return
    finally:
        if opened is not None:
            opened.close()
    yield from group.finish()


def _check_window(file: Path | ObjectFile, opened: BinaryIO | None) -> None:
    """Refuse an .xz file that needs more memory than `_MOST_WINDOW`."""
    if not str(file).lower().endswith(".xz"):
        return
    if opened is None:
        with io.open(str(file), "rb") as local:
            head = local.read(_PIECE)
    else:
        head = opened.read(_PIECE)
        opened.seek(0)
    lzma.LZMADecompressor(lzma.FORMAT_AUTO, _MOST_WINDOW).decompress(head, 1)


def _goes_on(tar: tarfile.TarFile, plain: bool, max_bytes: int) -> bool:
    """True if another tar follows this one (concatenated tars). The next member is then read from there.

    Raises
    ------
    tarfile.ReadError
        If the tar has no proper end (`tarfile` itself accepts a tar that is cut between two members, or whose next
        header is damaged), or if more zeros follow a compressed tar than a sample may have bytes.
    """
    assert tar.fileobj is not None
    tar.fileobj.seek(tar.offset)
    if tar.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise tarfile.ReadError(f"its end marker is missing at offset {tar.offset}; the file may be truncated")
    at = tar.offset + tarfile.BLOCKSIZE
    while piece := tar.fileobj.read(_PIECE):
        if rest := piece.lstrip(b"\0"):
            at += len(piece) - len(rest)
            tar.offset = at - (at - tar.offset) % tarfile.BLOCKSIZE
            tar.pax_headers = {}
            return True
        at += len(piece)
        if not plain and at - tar.offset > max_bytes:
            raise tarfile.ReadError(
                f"more than {max_bytes} bytes of zeros follow its last member\n"
                "hint: raise max_sample_bytes to accept them"
            )
    return False


class _TooLarge(Exception):
    """A member is too large to be unpacked, so the rest of the tar cannot be read."""


class _Group:
    """Collects consecutive members that belong to the same sample."""

    def __init__(
        self, file: Path | ObjectFile, drop: frozenset[str], max_bytes: int, named: re.Pattern[str] | None
    ) -> None:
        self.file = file
        self.drop = drop
        self.max_bytes = max_bytes
        self.named = named
        self.bytes = 0
        self.members = self.frames = 0
        self.key: str | None = None
        self.last: str | None = None
        """Key of the last finished sample."""
        self.values: dict[str, Any] = {}
        self.fault: str | None = None

    def add(self, member: tarfile.TarInfo, tar: tarfile.TarFile) -> Iterator[Item]:
        """Add a member. If it begins a new sample, yield the previous sample first."""
        path = member.name.removeprefix("./")
        # Ignore hidden files (such as `._x.jpg` from macOS), and names that begin with two underscores. The webdataset
        # library ignores these names too.
        if path.startswith("__") or path.rpartition("/")[2].startswith("."):
            return
        length = len(path.encode("utf-8", "replace"))
        name = _NAME.fullmatch(path) if length <= _MAX_NAME else None
        if name is None:
            expected = f"member names of at most {_MAX_NAME} bytes" if length > _MAX_NAME else "members named `KEY.EXTENSION`"
            yield Problem(f"`{shown(self.file)}`: expected {expected}, found: `{shown(shorten(member.name))}`")
            return
        key, extension = name.group(1), name.group(2).lower()
        if key != self.key:
            yield from self.finish()
            self.key = key
        is_frame = _frame(extension, self.named) is not None
        self.frames += is_frame
        self.members += not is_frame
        if extension not in self.drop:
            self.bytes += member.size + length
        if self.members > _MOST_MEMBERS or self.frames > MOST_FRAMES:
            self.values.clear()
            of = f"{_MOST_MEMBERS} members" if self.members > _MOST_MEMBERS else f"{MOST_FRAMES} frames"
            self.fault = f"the sample has more than {of}"
        elif extension in self.drop:
            self.values[extension] = None
        elif self.bytes > self.max_bytes:
            self.values.clear()
            if self.fault is not None:
                return
            self.fault = (
                f"member `{shown(member.name)}` makes the sample larger than the limit of {self.max_bytes} bytes\n"
                "hint: raise max_sample_bytes"
            )
        elif extension in self.values:
            self.fault = f"`{shown(member.name)}` is the second member with the extension `{shown(extension)}`"
        else:
            try:
                self.values[extension] = _value(extension, member, tar)
            except ValueError as error:
                self.fault = f"member `{shown(member.name)}`: {error}"

    def before(self, member: tarfile.TarInfo) -> Iterator[Item]:
        """Yield the previous sample if this member begins a new one."""
        name = _NAME.fullmatch(member.name.removeprefix("./"))
        if name is not None and name.group(1) != self.key:
            yield from self.finish()

    def place(self) -> str:
        """Return the position in the tar in words: after the current sample, or after the last finished sample."""
        key = self.last if self.key is None else self.key
        return "before the first sample" if key is None else f"after sample `{shown(key)}`"

    def finish(self) -> Iterator[Item]:
        if self.key is None:
            return
        where = f"`{shown(self.file)}`, sample `{shown(self.key)}`"
        yield Problem(f"{where}: {self.fault}") if self.fault else Sample(self.key, self.values, where)
        self.last = self.key
        self.key, self.values, self.fault, self.bytes, self.members, self.frames = None, {}, None, 0, 0, 0


def _value(extension: str, member: tarfile.TarInfo, tar: tarfile.TarFile) -> Any:
    # A sparse file may claim any size.
    if not member.isreg() or member.issparse():
        is_link = member.islnk() or member.issym()
        found = "a sparse file" if member.isreg() else "a link" if is_link else "a special file"
        raise ValueError(f"expected a plain file, found {found}")
    opened = tar.extractfile(member)
    assert opened is not None
    data = opened.read()
    last = extension.rpartition(".")[2]
    if last in PICTURES:
        if picture_type(data) is None:
            raise ValueError(not_picture(data))
        return data
    if last in PICKLES or (last not in TEXTS and looks_pickled(data)):
        raise ValueError(
            "the data is a pickle, and pickles are not loaded because they can run code\n"
            f"hint: pass {option(drop=[extension])} to leave these members out"
        )
    if last in NUMBERS:
        return _number(data)
    if last in TEXTS:
        return data.decode("utf-8")
    if last == "json":
        return parse_json(data)
    if last == "npy":
        array = parse_npy(data)
        return array if array.ndim else array[()]
    return data


def _number(data: bytes) -> int | str:
    text = data.decode("utf-8").strip()
    try:
        return parse_int(text)
    except ValueError:
        # The text may be a class name. `classes` maps it to a label.
        return text
