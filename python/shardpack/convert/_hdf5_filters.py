"""Checks the filters of HDF5 datasets before the HDF5 library runs them, because the library would unpack a chunk to
any size.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Sequence
from typing import Any

from ._bounds import MOST_CHUNK_BYTES

_DEFLATE, _SHUFFLE, _FLETCHER32, _NBIT, _SCALE_OFFSET, _LZF = 1, 2, 3, 5, 6, 32000
PACKERS = {_DEFLATE: 1032, _LZF: 88}
"""Mapping from compression filter to the maximum number of bytes to which it can expand one stored byte."""
_NAMES = {_SHUFFLE: "shuffle", _FLETCHER32: "fletcher32", _NBIT: "nbit", _SCALE_OFFSET: "scaleoffset", _DEFLATE: "gzip", _LZF: "lzf"}
_SLACK = 64
"""Maximum number of bytes that checksums and filter headers add to a chunk."""


def refused_filters(filters: Sequence[tuple[int, int, tuple[int, ...], bytes]], chunk_bytes: int) -> str | None:
    """Return the reason to refuse a dataset with these filters, or None if it can be read.

    Parameters
    ----------
    filters
        Number, flags, settings and name of each filter, as returned by h5py, in the order of writing.
    chunk_bytes
        Size in bytes of a decoded chunk.
    """
    packed = False
    for number, _, settings, name in filters:
        if number not in _NAMES:
            known = ", ".join(sorted(_NAMES.values()))
            shown = name.decode("utf-8", "replace") or str(number)
            return f"unsupported filter {shown!r}: expected one of {known}"
        if packed and number != _FLETCHER32:
            return f"filter {_NAMES[number]!r} after compression is not supported"
        packed |= number in PACKERS
        if number == _LZF:
            said = settings[2] if len(settings) > 2 else 0
        elif number == _SCALE_OFFSET or number == _NBIT and len(settings) > 4 and settings[3] == _ATOMIC:
            said = settings[2] * settings[4] if len(settings) > 4 else chunk_bytes + 1
        elif number == _NBIT:
            return "filter 'nbit' is not supported for structured types"
        else:
            continue
        if said > chunk_bytes:
            return f"damaged: filter {_NAMES[number]!r} unpacks to {said} bytes, but a chunk has {chunk_bytes} bytes"
    return None


_ATOMIC = 1
"""Code of a plain number type in the settings of the nbit filter."""


def check_chunks(
    dataset: Any, index: Any, place: int, packer: int, chunk_bytes: int, checked: set[tuple[int, int, int]]
) -> None:
    """Refuse stored chunks that unpack to more than `chunk_bytes`.

    `index` is ``...``, a slice of the first axis, or a slice of each axis. `place` is the position of the
    compressing filter, and `packer` is its number. `checked` holds the chunks that are already checked, as offset,
    stored bytes and `chunk_bytes`.
    """
    most = chunk_bytes + _SLACK
    if index is ...:
        index = ()
    index = index if isinstance(index, tuple) else (index,)
    sides = [
        (rows.start, rows.stop)
        for rows in (range(*one.indices(side)) for one, side in zip((*index, *[slice(None)] * len(dataset.shape)), dataset.shape))
    ]
    corners = [range(begin - begin % part, end, part) for (begin, end), part in zip(sides, dataset.chunks, strict=True)]
    for corner in itertools.product(*corners):
        found = dataset.id.get_chunk_info_by_coord(corner)
        if found.byte_offset is None or found.size * PACKERS[packer] <= max(most, MOST_CHUNK_BYTES):
            continue
        # This chunk is stored uncompressed: HDF5 skips a filter for chunks that it does not shrink.
        if found.filter_mask >> place & 1:
            continue
        chunk = (found.byte_offset, found.size, chunk_bytes)
        if chunk in checked:
            continue
        _, packed = dataset.id.read_direct_chunk(corner)
        if (_inflates if packer == _DEFLATE else _lzf_unpacks)(bytes(packed), most):
            raise ValueError(f"the chunk at {list(corner)} is damaged: it unpacks to more than {most} bytes")
        checked.add(chunk)


def _inflates(data: bytes, most: int) -> bool:
    """True if a zlib stream unpacks to more than `most` bytes."""
    unpacking, left = zlib.decompressobj(), most + 1
    try:
        while data and not unpacking.eof and left > 0:
            left -= len(unpacking.decompress(data, min(left, 1 << 20)))
            data = unpacking.unconsumed_tail
    except zlib.error:
        # The stream is damaged. HDF5 will report it.
        return False
    return left <= 0


def _lzf_unpacks(data: bytes, most: int) -> bool:
    """True if LZF data unpack to more than `most` bytes."""
    at = total = 0
    while at < len(data) and total <= most:
        head = data[at]
        if head < 32:
            total += head + 1
            at += head + 2
        elif head < 224:
            total += (head >> 5) + 2
            at += 2
        else:
            total += (data[at + 1] if at + 1 < len(data) else 0) + 9
            at += 3
    return total > most
