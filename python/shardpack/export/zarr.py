"""Writes a Zarr v3 group with one array per field. The array's first axis counts the samples. A field of varying
shape becomes a group with one array per sample.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, Union

import numpy as np

from .._size import Size, size
from .._voice import option
from ..convert._source import library
from ._samples import Samples

OPTIONS = ("shard_size",)

_TAKEN = ("zarr.json", "__key__")
"""Names that no field can have, because Zarr's metadata file and the array of keys use them."""

_CHUNK_BYTES = 1 << 20


def write(samples: Samples, out: Path, *, shard_size: Size = "64MiB") -> dict[str, Any]:
    """Write the group, as described for `shardpack.export`.

    Pictures become uint8 `[samples, height, width, 3]`. Arrays become `[samples, …]` and keep their element type.
    Scalars become `[samples]`. Text and JSON become arrays of strings (JSON has the attribute ``kind``: ``"json"``),
    and byte strings become uint8 arrays, one per sample. The keys are in ``__key__``, and the class names are in the
    group's attribute ``classes``. Arrays are stored in shards of about `shard_size`, with chunks of about 1 MiB or
    one sample.
    """
    zarr = library("zarr", "zarr")
    shard_bytes = size("shard_size", shard_size)
    if taken := [name for name in samples.kinds if name in _TAKEN]:
        others = [name for name in samples.kinds if name not in _TAKEN]
        hint = f"\nhint: pass {option(fields=others)} to leave the field out" if others else ""
        raise ValueError(f"field `{taken[0]}` cannot be exported: the Zarr group itself uses this name{hint}")
    with warnings.catch_warnings():
        # Zarr warns that variable-length strings are not part of the core specification.
        warnings.simplefilter("ignore")
        group = zarr.create_group(store=str(out), zarr_format=3)
        if samples.classes is not None:
            group.attrs["classes"] = samples.classes
        fields: dict[str, Union[_Texts, _Arrays]] = {
            name: _Texts(group, name, kind) if kind in ("text", "json") else _Arrays(group, name, len(samples), shard_bytes)
            for name, kind in samples.kinds.items()
        }
        keys = _Texts(group, "__key__", "text")
        for key, values in samples.values():
            keys.add(key)
            for name, field in fields.items():
                field.add(values[name])
        keys.finish()
        for field in fields.values():
            field.finish()
    places = {name: field.place for name, field in fields.items()}
    return {"arrays": len(places) + 1, "fields": places}


class _Texts:
    """A field of strings, kept in memory until the end."""

    def __init__(self, group: Any, name: str, kind: str) -> None:
        self.group = group
        self.name = self.place = name
        self.kind = kind
        self.values: list[str] = []

    def add(self, value: Any) -> None:
        if value is None:
            raise ValueError(
                f"field `{self.name}`: sample {len(self.values)} has no value, and Zarr cannot store missing values"
            )
        self.values.append(json.dumps(value, ensure_ascii=False) if self.kind == "json" else str(value))

    def finish(self) -> None:
        attributes = {"kind": "json"} if self.kind == "json" else {}
        array = self.group.create_array(self.name, shape=(len(self.values),), dtype="string", attributes=attributes)
        array[:] = np.array(self.values, dtype=object)


class _Arrays:
    """A field of numbers: one array as long as all samples have the same shape and type, otherwise one array per
    sample.
    """

    def __init__(self, group: Any, name: str, samples: int, shard_bytes: int) -> None:
        self.group = group
        self.name = name
        self.samples = samples
        self.shard_bytes = shard_bytes
        self.digits = len(str(max(0, samples - 1)))
        self.array: Any = None
        self.ragged: Any = None
        self.block: list[np.ndarray[Any, Any]] = []
        self.written = 0

    @property
    def place(self) -> str:
        return self.name if self.ragged is None else f"{self.name}/{'0' * self.digits} …"

    def add(self, value: Any) -> None:
        if value is None:
            raise ValueError(
                f"field `{self.name}`: sample {self.written + len(self.block)} has no value, and Zarr cannot store missing values"
            )
        array = np.frombuffer(value, np.uint8) if isinstance(value, (bytes, memoryview)) else np.asarray(value)
        if self.ragged is not None:
            self._write_one(array)
            return
        if self.array is None:
            self._begin(array)
        elif array.shape != self.array.shape[1:] or array.dtype != self.array.dtype:
            self._become_ragged()
            self._write_one(array)
            return
        self.block.append(array)
        if len(self.block) == self.rows:
            self._flush()

    def finish(self) -> None:
        self._flush()

    def _begin(self, first: np.ndarray[Any, Any]) -> None:
        row_bytes = max(1, first.nbytes)
        chunk = max(1, min(self.samples, _CHUNK_BYTES // row_bytes))
        chunks = max(1, min(-(-self.samples // chunk), self.shard_bytes // (chunk * row_bytes)))
        self.rows = chunk * chunks
        self.array = self.group.create_array(
            self.name,
            shape=(self.samples, *first.shape),
            dtype=first.dtype,
            chunks=(chunk, *(max(1, axis) for axis in first.shape)),
            shards=(self.rows, *(max(1, axis) for axis in first.shape)),
        )

    def _flush(self) -> None:
        if self.block:
            end = self.written + len(self.block)
            self.array[self.written : end] = np.stack(self.block)
            self.written = end
            self.block = []

    def _become_ragged(self) -> None:
        """Move the values written so far into a group, because the next value has a different shape."""
        self._flush()
        before = self.array
        done, self.written = self.written, 0
        moved = f".{self.name}"
        self.ragged = self.group.create_group(moved)
        for index in range(done):
            self._write_one(np.asarray(before[index]))
        self.array = None
        del self.group[self.name]
        # Zarr cannot rename arrays, so move the folder of the array.
        root = Path(str(self.group.store.root))
        (root / moved).rename(root / self.name)
        self.ragged = self.group[self.name]

    def _write_one(self, array: np.ndarray[Any, Any]) -> None:
        name = str(self.written).zfill(self.digits)
        self.ragged.create_array(
            name, data=np.ascontiguousarray(array), chunks=tuple(max(1, axis) for axis in array.shape) or "auto"
        )
        self.written += 1
