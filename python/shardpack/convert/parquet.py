"""Reads Parquet and Arrow files with pyarrow: Hugging Face's pictures, and columns of numbers, text and lists."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator
from typing import Any, NamedTuple, Union

import numpy as np

from ._bounds import EXPANSION, Expansion
from ._files import PathLike, Paths, list_files
from ._masks import as_masks
from ._source import Item, Problem, Sample, Source, SourceError, check_drop, library, refuse_columns, shown
from ._values import looks_pickled, parse_json, shorten

_SUFFIXES = (".parquet", ".arrow", ".feather")
_BATCH_ROWS = 64
_LARGE_CHUNK_BYTES = 4 << 20
_MOST_RATIO = 100
"""Compression ratio above which the rows of a column are read one by one. In a file that compresses so well, each row
may refer to the same large dictionary entry, so that many rows do not fit into memory.
"""
# Arrow's own `to_pandas_dtype` needs pandas in some versions.
_NUMBERS = {"halffloat": "float16", "float": "float32", "double": "float64", "bool": "bool"} | {
    f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}

Take = Callable[[Any], Any]


def open(src: Paths, *, drop: Collection[str] = (), key: str | None = None, masks: Collection[str] = ()) -> Source:
    """Open Parquet files, or Arrow files and streams (`datasets.save_to_disk`).

    A struct ``{bytes, path}`` becomes a picture. Binary data become a picture if they begin like one, otherwise
    bytes. Numbers and booleans become scalars, and strings become text. Lists of numbers become arrays, or JSON if
    they are nested and not rectangular. Other lists and structs become JSON. The names of a Hugging Face
    ``ClassLabel`` become the classes. A null becomes a missing value, which is not possible for scalars.

    Parameters
    ----------
    src
        A file, a folder, a glob, or a list. All files must have the same columns.
    drop
        Columns to leave out.
    key
        A text column whose values become the keys of the samples, or the path of a picture: ``"image.path"``.
        Default: keys are running numbers.
    masks
        Picture columns that hold class numbers: ``masks=["seg"]``. As with ``shardpack pack --masks``, they become
        arrays of palette indices (PNG) or grey values (PNG or TIFF, 8 or 16 bits). It is an error if a mask is in
        colour, or if its size differs from the size of the upright picture.
    """
    library("pyarrow", "parquet")
    tables = [Table(file) for file in list_files(src, _SUFFIXES, "Parquet")]
    return of_tables(tables, drop, key, masks)


def of_tables(tables: list[Table], drop: Collection[str], key: str | None, masks: Collection[str]) -> Source:
    """Return the source whose samples are the rows of `tables`, one table after another. The options are the same as in
    :func:`open`.
    """
    schema = tables[0].schema
    where = f"`{shown(tables[0].file)}`"
    for table in tables[1:]:
        if table.schema.names != schema.names:
            found, expected = (shown(", ".join(names)) for names in (table.schema.names, schema.names))
            raise SourceError(f"`{shown(table.file)}`: the columns are {found}, but in {where} they are {expected}")
        for name, one, other in zip(schema.names, table.schema.types, schema.types):
            if one != other:
                raise SourceError(
                    f"`{shown(table.file)}`: column {name!r} has type {shown(one)}, but in {where} it has type "
                    f"{shown(other)}"
                )
    classes = _classes(schema, where)
    for table in tables[1:]:
        _check_classes(table, classes or {}, [name for name in schema.names if name not in drop], tables[0].file)
    twice = next((name for name in schema.names if schema.names.count(name) > 1), None)
    if twice is not None:
        raise SourceError(f"{where}: the column name {twice!r} occurs twice")
    check_drop(where, drop, schema.names)
    takes: dict[str, Take] = {}
    kinds: dict[str, str] = {}
    refused: dict[str, str] = {}
    for column in schema:
        if column.name in drop:
            continue
        try:
            kind, takes[column.name] = _column(column.type)
        except ValueError as error:
            refused[column.name] = str(error)
            continue
        if kind is not None and column.name != key:
            kinds[column.name] = kind
    refuse_columns(where, refused)
    key_column, key_of = _key(key, schema, where)
    rows = [table.rows for table in tables]
    total = None if any(count is None for count in rows) else sum(count or 0 for count in rows)
    items = _samples(tables, takes, frozenset(drop), key if key_column == key else None, key_column, key_of)
    return Source(items, kinds=kinds, classes=classes, total=total, masks=as_masks(masks))


class Table:
    """A Parquet or Arrow file, with its rows in parts."""

    def __init__(self, file: PathLike, stream: Any = None, size: int = 0) -> None:
        """Open the local file `file`. With `stream`, open a Parquet file of `size` bytes through the stream instead, and
        use `file` as its name in messages.
        """
        pyarrow, parquet = library("pyarrow", "parquet"), library("pyarrow.parquet", "parquet")
        self.file = file
        self.rows: int | None = None
        try:
            if stream is not None or _begins_with(file, b"PAR1"):
                opened = parquet.ParquetFile(file if stream is None else stream)
                self.schema, self.rows = opened.schema_arrow, opened.metadata.num_rows
                size = os.stat(file).st_size if stream is None else size
                expansion = Expansion(f"`{shown(file)}`", lambda most: min(most, size), EXPANSION, has_option=False)
                expansion.add(opened.metadata.num_rows, 0)
                self.parts = [_row_group(opened, number) for number in range(opened.metadata.num_row_groups)]
            else:
                source = pyarrow.memory_map(os.fspath(file))
                reader = (
                    pyarrow.ipc.open_file(source) if _begins_with(file, b"ARROW1") else pyarrow.ipc.open_stream(source)
                )
                self.schema = reader.schema
                self.parts = [_Part(None, lambda columns: _arrow_batches(reader, columns))]
        except (pyarrow.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise SourceError(f"`{shown(file)}`: cannot open the Parquet or Arrow file: {error}") from error

    def batches(self, part: _Part, columns: list[str]) -> Iterator[Any]:
        """Yield the record batches of a part with only these columns."""
        pyarrow = library("pyarrow", "parquet")
        try:
            yield from part.batches(columns)
        except (pyarrow.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise ValueError(f"the data is damaged: {error}") from error


def _begins_with(file: PathLike, magic: bytes) -> bool:
    import builtins

    with builtins.open(file, "rb") as stream:
        return stream.read(len(magic)) == magic


class _Part(NamedTuple):
    """A part of a file that can be read independently: a Parquet row group, or a whole Arrow file."""

    rows: int | None
    """Number of rows; None if the file does not give it."""
    batches: Callable[[list[str]], Iterator[Any]]


def _row_group(opened: Any, number: int) -> _Part:
    group = opened.metadata.row_group(number)
    at_once = min((_rows_at_once(group.column(column)) for column in range(group.num_columns)), default=_BATCH_ROWS)
    return _Part(group.num_rows, lambda columns: opened.iter_batches(at_once, row_groups=[number], columns=columns))


def _rows_at_once(column: Any) -> int:
    """Return the number of rows to hold in memory at a time. A few bytes can repeat one large dictionary entry."""
    unpacked, stored = column.total_uncompressed_size, column.total_compressed_size
    is_large = unpacked > _LARGE_CHUNK_BYTES and unpacked > _MOST_RATIO * stored
    return 1 if is_large and column.has_dictionary_page else _BATCH_ROWS


def _arrow_batches(reader: Any, columns: list[str]) -> Iterator[Any]:
    count = getattr(reader, "num_record_batches", None)
    batches = reader if count is None else (reader.get_batch(number) for number in range(count))
    for batch in batches:
        selected = batch.select(columns)
        try:
            batch.validate(full=True)
        except library("pyarrow", "parquet").ArrowInvalid:
            # Convert row by row, so that a bad row does not affect the others.
            for row in range(selected.num_rows):
                yield _one_row(selected.slice(row, 1))
            continue
        for begin in range(0, selected.num_rows, _BATCH_ROWS):
            yield selected.slice(begin, _BATCH_ROWS)


def _one_row(batch: Any) -> Union[Any, ValueError]:
    try:
        for column in batch.columns:
            _validate(column)
    except library("pyarrow", "parquet").ArrowInvalid as error:
        return ValueError(f"the data is damaged: {error}")
    return batch


def _validate(array: Any) -> None:
    """Raise an error if a slice of an array is invalid. Arrow's own check covers all rows of a struct's fields, not
    only the slice.
    """
    if not _types().is_struct(array.type):
        array.validate(full=True)
        return
    array.validate()
    for field in array.flatten():
        _validate(field)


def _types() -> Any:
    return library("pyarrow.types", "parquet")


def _column(kind: Any) -> tuple[str | None, Take]:
    """Return the field kind for an Arrow type (None if the first value decides), and the function that converts its
    values. Raise an error if the type is not supported.
    """
    types = _types()
    if types.is_dictionary(kind):
        return _column(kind.value_type)
    if hasattr(kind, "storage_type"):
        # Treat an extension type, such as Hugging Face's Array2D, as its storage type.
        return _column(kind.storage_type)
    if types.is_boolean(kind):
        return "bool", _same
    if types.is_integer(kind) or types.is_floating(kind):
        return _NUMBERS[str(kind)], _same
    if types.is_string(kind) or types.is_large_string(kind):
        return "text", _same
    if types.is_binary(kind) or types.is_large_binary(kind) or types.is_fixed_size_binary(kind):
        return None, _bytes
    if types.is_struct(kind) and {field.name for field in kind} in ({"bytes", "path"}, {"bytes"}):
        return None, _picture
    if _is_list(kind):
        dtype = _element(kind)
        if dtype is not None:
            return "array", lambda value: _array(value, dtype)
    if (types.is_struct(kind) or _is_list(kind)) and _is_json(kind):
        return "json", _same
    raise ValueError(f"the type {kind} is not supported")


def _is_list(kind: Any) -> bool:
    types = _types()
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _element(kind: Any) -> np.dtype[Any] | None:
    types = _types()
    while _is_list(kind):
        kind = kind.value_type
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        return np.dtype(_NUMBERS[str(kind)])
    return None


def _is_json(kind: Any) -> bool:
    types = _types()
    if types.is_struct(kind):
        return all(_is_json(field.type) for field in kind)
    if _is_list(kind):
        return _is_json(kind.value_type)
    plain = (
        types.is_boolean,
        types.is_integer,
        types.is_floating,
        types.is_string,
        types.is_large_string,
        types.is_null,
    )
    return any(is_type(kind) for is_type in plain)


def _same(value: Any) -> Any:
    return value


def _bytes(value: bytes | None) -> bytes | None:
    if value is not None and looks_pickled(value):
        raise ValueError("the value is a pickle, and pickles are not loaded because they can run code")
    return value


def _picture(value: dict[str, Any] | None) -> bytes | None:
    if value is None:
        return None
    if value["bytes"] is None:
        raise ValueError(
            f"expected the picture's bytes, found only its path: {value.get('path')!r}\n"
            "hint: embed the files first with `datasets.table.embed_table_storage`"
        )
    return _bytes(value["bytes"])


def _array(value: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any] | None:
    if value is None:
        return None
    try:
        array = np.array(value)
    except ValueError:
        raise ValueError(
            "the lists differ in length\nhint: to store the lists as JSON, give the column the kind 'json' in `schema`"
        ) from None
    if array.dtype == object:
        raise ValueError("a list of numbers contains nulls")
    return array.astype(dtype)


def _key(key: str | None, schema: Any, where: str) -> tuple[str | None, Callable[[Any], Any]]:
    """Return the column with the keys, and the function that converts its values to keys."""
    types = _types()
    if key is None or (key in schema.names and types.is_string(schema.field(key).type)):
        return key, _same
    column, _, part = key.rpartition(".")
    if part == "path" and column in schema.names and types.is_struct(schema.field(column).type):
        return column, lambda value: None if value is None else value.get("path")
    raise SourceError(
        f"{where}: `key` must be the name of a text column, or 'COLUMN.path' for the paths in a picture column, "
        f"found: {key!r}"
    )


def _samples(
    tables: list[Table],
    takes: dict[str, Take],
    drop: frozenset[str],
    dropped_key: str | None,
    key: str | None,
    key_of: Callable[[Any], Any],
) -> Iterator[Item]:
    columns = list(takes)
    for table in tables:
        for row in rows_of(table, columns if key is None or key in columns else [*columns, key]):
            if isinstance(row, Problem):
                yield row
                continue
            where, values = row
            try:
                name = None if key is None else key_of(values[key])
                if key is not None and not isinstance(name, str):
                    raise ValueError(f"the key in column {key!r} must be text, found: {name!r}")
                sample = {
                    column: _taken(column, take, values[column])
                    for column, take in takes.items()
                    if column != dropped_key
                }
            except ValueError as error:
                yield Problem(f"{where}: {error}")
                continue
            yield Sample(name, sample | dict.fromkeys(drop), where)


def rows_of(table: Table, columns: list[str]) -> Iterator[Union[tuple[str, dict[str, Any]], Problem]]:
    """Yield the position and the values of each row, or a problem for rows that cannot be read."""
    begin = 0
    for part in table.parts:
        row = begin
        try:
            for batch in table.batches(part, columns):
                for values in _values(batch):
                    where = f"`{shown(table.file)}`, row {row}"
                    row += 1
                    yield Problem(f"{where}: {values}") if isinstance(values, ValueError) else (where, values)
        except ValueError as error:
            if part.rows is None:
                yield Problem(f"`{shown(table.file)}`: cannot read row {row} and later rows: {error}", samples=None)
                continue
            end = begin + part.rows
            yield Problem(f"`{shown(table.file)}`, rows {row} to {end - 1}: {error}", samples=end - row)
        begin += part.rows or 0


def _values(batch: Any) -> list[Union[dict[str, Any], ValueError]]:
    """Return the rows of a batch. In a damaged batch, convert each row separately and return its values or its error.
    """
    if isinstance(batch, ValueError):
        return [batch]
    try:
        return list(batch.to_pylist())
    except (ValueError, library("pyarrow", "parquet").ArrowException) as error:
        if batch.num_rows == 1:
            return [ValueError(f"the data is damaged: {error}")]
        return [values for row in range(batch.num_rows) for values in _values(batch.slice(row, 1))]


def _taken(column: str, take: Take, value: Any) -> Any:
    try:
        return take(value)
    except ValueError as error:
        raise ValueError(f"column {column!r}: {error}") from error


def _classes(schema: Any, where: str) -> dict[str, list[str]] | None:
    """Return the class names of each `ClassLabel` in Hugging Face's metadata."""
    stored = (schema.metadata or {}).get(b"huggingface")
    if stored is None:
        return None
    try:
        features = parse_json(stored)["info"]["features"]
        labels = {
            name: kind["names"]
            for name, kind in features.items()
            if isinstance(kind, dict) and kind.get("_type") == "ClassLabel"
        }
        return {name: [str(text) for text in names] for name, names in labels.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SourceError(f"{where}: cannot parse Hugging Face's metadata: {shorten(repr(error))}") from error


def _check_classes(table: Table, classes: dict[str, list[str]], columns: list[str], first: PathLike) -> None:
    """Raise an error if the class names differ from the names in the first file."""
    own = _classes(table.schema, f"`{shown(table.file)}`") or {}
    for column in columns:
        expected, found = classes.get(column), own.get(column)
        if expected != found:
            both = (found, expected)
            here, there = (f"the classes {shorten(str(names))}" if names else "no classes" for names in both)
            raise SourceError(
                f"`{shown(table.file)}`: column {column!r} has {here}, but in `{shown(first)}` it has {there}\n"
                "hint: convert these files separately, and join the datasets with sp.concat, which matches classes by name"
            )
