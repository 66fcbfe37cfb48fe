"""Writes WebDataset tars with the standard library. Each field becomes a member. Pictures are written as their stored
bytes.
"""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np

from .._size import Size, size
from .._voice import option
from ..convert._values import picture_type
from ..convert.webdataset import MOST_FRAMES, PICTURES
from ._samples import Samples

OPTIONS = ("shard_size", "keys")

_SUFFIXES = {"array": "npy", "text": "txt", "json": "json", "bytes": "bin"}
_EXTENSIONS = {"jpeg": "jpg", "png": "png", "webp": "webp", "tiff": "tif", "bmp": "bmp"}


def write(
    samples: Samples, out: Path, *, shard_size: Size = "1GiB", keys: str = "dataset"
) -> dict[str, Any]:
    """Write tars of at most `shard_size` bytes, and a `classes.json` if the dataset has classes, as described for
    `shardpack.export`."""
    if keys not in ("dataset", "number"):
        raise ValueError(f"keys: expected 'dataset' or 'number', found {keys!r}")
    if samples.classes is not None:
        (out / "classes.json").write_text(
            json.dumps(samples.classes, ensure_ascii=False, indent=0) + "\n", encoding="utf-8"
        )
    tars = _Tars(out, size("shard_size", shard_size))
    seen: dict[str, str] = {}
    digits = len(str(max(0, len(samples) - 1)))
    places: dict[str, str] = {}
    try:
        for number, (key, values) in enumerate(samples.files()):
            name = str(number).zfill(digits) if keys == "number" else _member_key(key)
            if name in seen:
                raise ValueError(
                    f"the keys `{seen[name]}` and `{key}` both become `{name}` in a tar\n"
                    f"hint: pass {option(keys='number')} to name the samples by number instead"
                )
            seen[name] = key
            members = []
            for field, value in values.items():
                if isinstance(value, list):
                    if len(value) > MOST_FRAMES:
                        others = [other for other in values if other != field]
                        hint = f"\nhint: pass {option(fields=others)} to leave the field out" if others else ""
                        raise ValueError(
                            f"sample `{key}`, field `{field}`: the clip has {len(value)} frames, but `convert` can read back "
                            f"at most {MOST_FRAMES}{hint}"
                        )
                    places.setdefault(field, f"{field}.000.jpg")
                    members += [(f"{name}.{field}.{at:03}.jpg", frame) for at, frame in enumerate(value)]
                elif value is not None:
                    extension, data = _member(field, samples.kinds[field], value)
                    places.setdefault(field, extension)
                    members.append((f"{name}.{extension}", data))
            if not members:
                raise ValueError(
                    f"sample `{key}` cannot be written to a tar, because all its fields are empty: {', '.join(values)}"
                )
            tars.add(members)
    finally:
        tars.close()
    return {"files": tars.count, "fields": places}


def _member_key(key: str) -> str:
    """Return the key for a tar. Remove the picture extension, and replace dots in the last part, because a tar's key
    ends at the first dot there.

    >>> _member_key("n01440764/tench.v2.JPEG")
    'n01440764/tench_v2'
    """
    folder, slash, name = key.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    if dot and stem and extension.lower() in PICTURES:
        name = stem
    # The webdataset library ignores names that begin with `__`.
    return folder + slash + ("x" + name if not folder and name.startswith("__") else name).replace(".", "_")


def _member(field: str, kind: str, value: Any) -> tuple[str, bytes]:
    """Return the extension and the bytes of a field. `value` comes from `Samples.files`."""
    if kind == "image":
        extension = _EXTENSIONS[picture_type(value) or "jpeg"]
        return (extension if field == "image" else f"{field}.{extension}"), value
    if kind != "scalar":
        return f"{field}.{_SUFFIXES[kind]}", value
    if np.issubdtype(value.dtype, np.integer):
        return ("cls" if field == "label" else f"{field}.cls"), str(int(value)).encode("ascii")
    # Store other scalars as .npy, because text would lose the type, and JSON has no NaN or infinity.
    buffer = io.BytesIO()
    np.save(buffer, value, allow_pickle=False)
    return f"{field}.npy", buffer.getvalue()


class _Tars:
    """Writes tars, and starts a new tar when one is full."""

    def __init__(self, out: Path, size: int) -> None:
        self.out = out
        self.size = size
        self.count = 0
        self.used = 0
        self.tar: tarfile.TarFile | None = None

    def add(self, members: list[tuple[str, bytes]]) -> None:
        # Each member takes a header and its data, both in whole blocks. A long name takes up to three blocks more.
        blocks = sum(
            1 + -(-len(data) // tarfile.BLOCKSIZE) + (3 if len(name.encode()) > 100 else 0) for name, data in members
        )
        taken = blocks * tarfile.BLOCKSIZE
        # A tar ends with at least two empty blocks, and is padded to a whole record.
        if self.tar is None or (
            self.used and self.used + taken + tarfile.RECORDSIZE + 2 * tarfile.BLOCKSIZE > self.size
        ):
            self.close()
            self.tar = tarfile.open(self.out / f"shard-{self.count:06d}.tar", "w", format=tarfile.PAX_FORMAT)
            self.count += 1
            self.used = 0
        for name, data in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            # Leave out the time and the user, so that the same dataset gives the same bytes.
            info.mode = 0o444
            self.tar.addfile(info, io.BytesIO(data))
        self.tar.members.clear()  # type: ignore[attr-defined]
        self.used += taken

    def close(self) -> None:
        if self.tar is not None:
            self.tar.close()
            self.tar = None
