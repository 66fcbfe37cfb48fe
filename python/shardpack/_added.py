"""Converts tables and arrays to the columns that ``Dataset.add_columns`` adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shardpack import _shardpack, _warn
from shardpack._url import store_keywords

if TYPE_CHECKING:
    from shardpack._dataset import Dataset
    from shardpack._pack import Progress, StrPath

KEY = "key"


class Table(Protocol):
    """A table of Arrow, pandas or Polars: anything that exports an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Export the table."""


def add(
    dataset: Dataset,
    columns: Table | Mapping[str, ArrayLike],
    *,
    force: bool,
    threads: int | None,
    progress: Progress | None,
    spool: StrPath | None,
    take_over: bool,
) -> str:
    """Add columns to a dataset as its next generation. Returns the folder or URL of the dataset."""
    core = dataset._core
    folder = core.folder
    if folder is None or dataset._members is not None:
        found = "a subset" if dataset._members is not None else "a concatenation or a single shard"
        raise _shardpack.UsageError(
            f"add_columns: expected a whole dataset, found {found}: {dataset!r}\n"
            "hint: call add_columns of the dataset in the folder, with values for all of its samples"
        )
    values = _of_mapping(columns) if isinstance(columns, Mapping) else _of_table(columns)
    keys = values.pop(KEY, None)
    if keys is not None and not all(isinstance(key, str) for key in keys):
        raise TypeError(f"add_columns: the column {KEY!r} must contain the keys of the samples as strings")
    keys = None if keys is None else list(keys)
    rows = len(dataset) if keys is None else len(keys)
    given = [_column(name, np.asarray(column), rows) for name, column in values.items()]
    generation = core.generation if keys is None else None
    store = store_keywords(spool, take_over, dict(dataset._settings))
    _, notes = _shardpack.add_columns(
        folder, given, keys, generation, force, threads, dataset._max_record, progress, store
    )
    _warn.of_notes(notes)
    return folder


def _column(name: str, values: NDArray[Any], rows: int) -> tuple[str, str, list[int], NDArray[np.uint8]]:
    """Return a column as the extension takes it: name, type, shape of a value, and the bytes of all values."""
    if values.dtype.kind not in "biuf" or values.dtype.itemsize > 8:
        raise _shardpack.UsageError(
            f"add_columns: column {name!r}: expected numbers, found values of type {values.dtype}\n"
            "hint: only numbers, and arrays of numbers of one shape, can be added"
        )
    if values.ndim == 0 or len(values) != rows:
        found = "one value" if values.ndim == 0 else f"{len(values)} values"
        raise _shardpack.UsageError(f"add_columns: column {name!r}: expected {rows} values, found {found}")
    plain = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
    return name, values.dtype.name, list(values.shape[1:]), plain.reshape(-1).view(np.uint8)


def _of_mapping(columns: Mapping[str, ArrayLike]) -> dict[str, Any]:
    wrong = [name for name in columns if not isinstance(name, str)]
    if wrong:
        raise TypeError(f"add_columns: expected names of columns as strings, found {wrong[0]!r}")
    return dict(columns)


def _of_table(table: Any) -> dict[str, Any]:
    if not hasattr(table, "__arrow_c_stream__"):
        raise TypeError(
            f"add_columns: expected an Arrow table, or a mapping from names to arrays, found {type(table).__name__}"
        )
    try:
        import pyarrow as pa
    except ImportError as missing:
        raise _shardpack.UsageError(
            "add_columns() of a table needs the package `pyarrow`, which is not installed\n"
            "hint: pip install 'shardpack[parquet]', or pass a mapping from names to arrays"
        ) from missing
    arrow = pa.table(table)
    twice = sorted({name for name in arrow.column_names if arrow.column_names.count(name) > 1})
    if twice:
        raise _shardpack.UsageError(f"add_columns: the table has two columns {twice[0]!r}")
    return {name: _of_arrow(name, arrow.column(name)) for name in arrow.column_names}


def _of_arrow(name: str, column: Any) -> Iterable[Any]:
    """Return the values of an Arrow column as an array ``[rows, ...]``, or the strings of the column of keys."""
    import pyarrow as pa

    if column.null_count:
        raise _shardpack.UsageError(f"add_columns: column {name!r} has no value in {column.null_count} of {len(column)} rows")
    if name == KEY:
        keys: list[Any] = column.to_pylist()
        return keys
    joined = column.combine_chunks()
    values = pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined
    shape = [len(values)]
    if isinstance(values.type, pa.FixedShapeTensorType):
        shape += values.type.shape
        if values.type.permutation not in (None, list(range(len(values.type.shape)))):
            raise _shardpack.UsageError(f"add_columns: column {name!r}: tensors with permuted axes cannot be added")
        values = values.storage.flatten()
    while pa.types.is_fixed_size_list(values.type) or pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
        rows, lengths = len(values), np.asarray(values.value_lengths())
        if rows and (lengths != lengths[0]).any():
            raise _shardpack.UsageError(
                f"add_columns: column {name!r}: the lists have between {lengths.min()} and {lengths.max()} values\n"
                "hint: only lists of one length can be added"
            )
        values = values.flatten()
        shape.append(len(values) // rows if rows else 0)
        if values.null_count:
            raise _shardpack.UsageError(f"add_columns: column {name!r}: a list has a missing value")
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_boolean(values.type)):
        raise _shardpack.UsageError(
            f"add_columns: column {name!r}: expected numbers, found values of type {values.type}\n"
            "hint: only numbers, and lists of numbers of one length, can be added"
        )
    flat: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    return flat.reshape(shape)
