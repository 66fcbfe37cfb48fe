"""Reads samples in two layouts from HDF5 and Zarr, which both store a tree of groups and arrays.

By rows: the arrays are in one group, and their first axes have the same length. Row `i` of each array belongs to
sample `i`.

By groups: each member of one group (a group or an array) is a sample, and its name is the key.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import Any, Union

import numpy as np

from ._arrays import USUAL_BYTES, Column, Tree, Varying, gathered, length
from ._bounds import Expansion, check_whole
from ._files import SPLITS
from ._source import ANY, Item, Problem, Sample, Source, SourceError, check_drop, dropped_nothing, option, refuse_columns, shown
from ._values import check_array, parse_json

_BLOCK_BYTES = 32 << 20
_PIECE_BYTES = 10_000
"""Bytes counted for each chunk in addition to its values, because even a chunk that was never stored takes time to
read.
"""
_MOST_COLUMNS = 1000
_MOST_OBJECTS = 10_000
"""Maximum number of groups and arrays in a sample. A small file can claim a huge number of them with hard links."""
_MOST_LEVELS = 16
"""Maximum nesting depth of the groups of a sample."""
KEY = "__key__"
"""Default name of the text array that holds the keys."""


def open_tree(
    where: str,
    tree: Tree,
    drop: frozenset[str],
    key: str | None,
    samples: str,
    classes: list[str] | None,
    max_bytes: int,
    expansion: Expansion,
    attributes: bool = False,
) -> Source:
    check_whole("max_sample_bytes", max_bytes)
    if samples not in ("auto", "rows", "groups"):
        raise SourceError(f"samples: expected 'auto', 'rows' or 'groups', found: {samples!r}")
    if not tree:
        raise SourceError(f"{where}: found neither arrays nor groups")
    columns = {} if samples == "groups" else _columns(tree, max_bytes, expansion)
    others = [] if samples == "groups" else _others(tree, columns, drop)
    if samples == "rows" or (columns and not others and _one_length(columns, drop)):
        if len(tree) > _MOST_COLUMNS:
            raise SourceError(
                f"{where}: {len(tree)} arrays and groups would become columns, but the limit is {_MOST_COLUMNS}\n"
                f"hint: pass {option(samples='groups')} to make each array and each group a sample"
            )
        return _by_rows(where, tree, columns, others, drop, key, classes, max_bytes, expansion)
    if samples == "auto":
        try:
            _refuse_doubt(where, tree, columns, others)
        except SourceError as error:
            raise SourceError(f"{error}{dropped_nothing(drop, itertools.islice(tree, _MOST_COLUMNS))}") from None
    return _by_groups(where, tree, drop, key, classes, max_bytes, expansion, attributes)


def _columns(tree: Tree, max_bytes: int, expansion: Expansion) -> dict[str, Column]:
    """Return the arrays of a tree. A group of numbered arrays counts as one array of varying shape."""
    columns = {name: node for name in itertools.islice(tree, _MOST_COLUMNS) if isinstance(node := tree[name], Column)}
    groups = [name for name in itertools.islice(tree, _MOST_COLUMNS) if name not in columns]
    for name in groups:
        if column := _ragged(tree[name], max_bytes, expansion):
            columns[name] = column
    return columns


def _others(tree: Tree, columns: dict[str, Column], drop: frozenset[str]) -> list[str]:
    """Return the members that neither become columns nor are dropped."""
    return [name for name in itertools.islice(tree, _MOST_COLUMNS) if name not in columns and name not in drop]


def _ragged(tree: Tree, max_bytes: int, expansion: Expansion) -> Column | None:
    """Return a group as a column if it has one array per sample, named `0`, `1`, `2` … (with or without leading
    zeros).
    """
    if not all(name.isdigit() for name in tree):
        return None
    names = sorted(tree, key=int)
    if not names or [int(name) for name in names] != list(range(len(names))) or not isinstance(tree[names[0]], Column):
        return None
    return Column(
        (len(names),),
        "ragged",
        "",
        lambda rows: [_whole(tree, name, max_bytes, expansion) for name in names[rows]],
        most_element_bytes=max_bytes,
    )


def _whole(tree: Tree, name: str, max_bytes: int, expansion: Expansion) -> Any:
    node = tree[name]
    if not isinstance(node, Column) or node.refused:
        raise ValueError(
            f"cannot convert array `{shown(name)}`: {node.refused}"
            if isinstance(node, Column)
            else f"`{shown(name)}` must be an array, but is a group"
        )
    _check_size(f"array `{shown(name)}`", {name: node}, 0, max_bytes)
    _claim(expansion, 0, {name: node})
    if node.element_bytes:
        return _value(node, node.read(...))
    value = gathered(node, None, max_bytes)
    expansion.add(0, length(value))
    return _value(node, value)


def _one_length(columns: dict[str, Column], drop: frozenset[str]) -> bool:
    return len({column.shape[:1] for name, column in columns.items() if name not in drop}) <= 1


def _refuse_doubt(where: str, tree: Tree, columns: dict[str, Column], others: list[str]) -> None:
    """Raise an error if it is unclear whether the members of a group are samples or columns."""
    splits = [name for name in itertools.islice(tree, _MOST_COLUMNS) if name.lower() in SPLITS]
    if splits:
        raise SourceError(
            f"{where} contains several splits: {', '.join(splits)}\n"
            f"hint: pass {option(group=splits[0])} to convert one of them"
        )
    if not columns:
        return
    found = ", ".join(f"{name!r} {list(column.shape)}" for name, column in columns.items())
    if others:
        few = others[:10] + [ANY] * (len(others) > 10)
        raise SourceError(
            f"{where} has both arrays and groups, so it is unclear which of them are the samples; the arrays are {found}\n"
            f"hint: pass {option(drop=few)} to leave the groups out, or {option(samples='groups')} to make each array and each "
            "group a sample"
        )
    if (
        len({(column.kind, column.dtype, len(column.shape)) for column in columns.values()}) > 1
        or min(len(c.shape) for c in columns.values()) < 2
    ):
        raise SourceError(
            f"{where}: the first axes of the arrays differ in length, so the number of samples is unclear: {found}\n"
            f"hint: pass {option(drop=[ANY])} to leave arrays out, or {option(samples='groups')} to make each array a sample"
        )


def _by_rows(
    where: str,
    tree: Tree,
    columns: dict[str, Column],
    others: list[str],
    drop: frozenset[str],
    key: str | None,
    classes: list[str] | None,
    max_bytes: int,
    expansion: Expansion,
) -> Source:
    check_drop(where, drop, itertools.islice(tree, _MOST_COLUMNS))
    if key is None and KEY in columns and columns[KEY].kind == "text":
        key = KEY
    taken = {name: column for name, column in columns.items() if name not in drop}
    refused = {
        name: why
        for name, column in taken.items()
        if (why := column.refused or (None if column.shape else "a single value instead of one value per sample"))
    }
    refuse_columns(where, refused | dict.fromkeys(others, "a group, which has no rows"))
    if not taken:
        raise SourceError(f"{where}: `drop` leaves out everything, so there is nothing to convert")
    lengths = {column.shape[0] for column in taken.values()}
    if len(lengths) != 1:
        found = ", ".join(f"{name!r} {list(column.shape)}" for name, column in taken.items())
        raise SourceError(
            f"{where}: the first axes of the arrays differ in length: {found}\nhint: pass {option(drop=[ANY])} to leave arrays out"
        )
    if key is not None and (key not in taken or taken[key].kind != "text"):
        why = f"`drop` leaves out the array {key!r}" if key in columns and key in drop else f"there is no text array {key!r}"
        raise SourceError(f"{where}: {why} to take the sample keys from (`key`)")
    _check_size(where, taken, 1, max_bytes)
    kinds = {name: kind for name, column in taken.items() if name != key and (kind := _kind(column, 1))}
    rows = lengths.pop()
    _claim(expansion, rows, taken)
    return Source(_rows(where, taken, drop, key, rows, max_bytes, expansion), kinds=kinds, classes=classes, total=rows)


def _claim(expansion: Expansion, samples: int, columns: Mapping[str, Column]) -> None:
    """Count samples before reading them. Raise an error if there are too many for the stored bytes."""
    known = sum(column.bytes_of(0) + column.chunks() * _PIECE_BYTES for column in columns.values())
    expansion.add(samples, known)


def _check_size(where: str, columns: Mapping[str, Column], axes_of_samples: int, max_bytes: int) -> None:
    """Raise an error if one sample takes more than `max_bytes`, because a few compressed bytes can become gibibytes."""
    sizes = {name: column.bytes_of(axes_of_samples) for name, column in columns.items() if column.refused is None}
    if sum(sizes.values()) > max_bytes:
        largest = max(sizes, key=lambda name: sizes[name])
        raise SourceError(
            f"{where}: a sample takes {sum(sizes.values())} bytes, but the limit is {max_bytes}; "
            f"array {largest!r} alone takes {sizes[largest]}\nhint: raise max_sample_bytes"
        )


def _kind(column: Column, axes_of_samples: int) -> str | None:
    """Return the field kind if the file determines it. None for bytes and arrays of pixels, because they may be
    pictures.
    """
    if column.kind in ("text", "json"):
        return column.kind
    if column.kind == "numbers" and len(column.shape) == axes_of_samples:
        return column.dtype
    return None


def _rows(
    where: str, columns: dict[str, Column], drop: frozenset[str], key: str | None, rows: int, max_bytes: int, expansion: Expansion
) -> Iterator[Item]:
    varying = [name for name, column in columns.items() if not column.element_bytes and column.kind != "ragged"]
    row_bytes = sum(column.bytes_of(1) if column.element_bytes else USUAL_BYTES for column in columns.values())
    step = max(1, min(4096, _BLOCK_BYTES // max(1, row_bytes)))
    # Prefer blocks of whole chunks, because a chunk that belongs to two blocks is decoded twice.
    of_chunk = max((column.chunk[0] for column in columns.values() if column.chunk and column.chunk[0] <= step), default=1)
    step -= step % of_chunk
    for begin in range(0, rows, step):
        for first, last, blocks in _blocks(columns, begin, min(rows, begin + step), max_bytes):
            if isinstance(blocks, Exception):
                yield Problem(f"{where}, row {first}: {blocks}")
                continue
            for row in range(first, last):
                at = f"{where}, row {row}"
                try:
                    found = {name: block[row - first] for name, block in blocks.items()}
                except MemoryError:
                    raise
                except Exception as error:  # As in `_blocks`.
                    yield Problem(f"{at}: {error}")
                    continue
                try:
                    expansion.add(0, sum(length(found[name]) for name in varying))
                except SourceError as error:
                    yield Problem(f"{at}: {error}", samples=rows - row)
                    return
                try:
                    values = {name: _value(columns[name], value) for name, value in found.items()}
                except ValueError as error:
                    yield Problem(f"{at}: {error}")
                    continue
                sample_key = values.pop(key) if key is not None else None
                yield Sample(sample_key, values | dict.fromkeys(drop), at)


def _blocks(
    columns: dict[str, Column], begin: int, end: int, max_bytes: int
) -> Iterator[tuple[int, int, Union[dict[str, Any], Exception]]]:
    """Yield blocks of rows of all columns: first row, end row, and the values or an error.

    A block that cannot be read is halved repeatedly, down to single rows, so that only damaged rows are lost. A damaged
    chunk is decoded about twice for each of its rows.
    """
    blocks: Union[dict[str, Any], Exception]
    try:
        blocks = {
            name: column.read(slice(begin, end)) if column.element_bytes else Varying(column, begin, end, max_bytes)
            for name, column in columns.items()
        }
    except MemoryError:
        raise
    except Exception as error:  # Libraries of formats, and their codecs, raise anything.
        blocks = error
    if isinstance(blocks, dict) or end - begin == 1:
        yield begin, end, blocks
        return
    middle = (begin + end) // 2
    yield from _blocks(columns, begin, middle, max_bytes)
    yield from _blocks(columns, middle, end, max_bytes)


def _by_groups(
    where: str,
    tree: Tree,
    drop: frozenset[str],
    key: str | None,
    classes: list[str] | None,
    max_bytes: int,
    expansion: Expansion,
    attributes: bool,
) -> Source:
    if key is not None:
        raise SourceError(f"{where}: {option(key=key)} does not apply, because the key of a sample is the name of its group")
    there = list(tree)
    names = [name for name in there if name not in drop]
    left_out = drop.intersection(there)
    notes: list[str] = []
    items = _groups(where, tree, names, drop, left_out, max_bytes, expansion, attributes, notes)
    return Source(items, classes=classes, total=len(names), dropped=left_out, notes=notes)


# Attributes that PyTables writes to every group.
_OF_LIBRARIES = frozenset(["CLASS", "TITLE", "VERSION", "FILTERS"])


def _with_attributes(
    at: str, group: Any, values: dict[str, Any], drop: frozenset[str], taken: bool, notes: list[str]
) -> dict[str, Any]:
    """Add the attributes of a sample's group to its values if the caller requested them. Otherwise add a note that they
    are left out.
    """
    found = {name: value for name, value in group.attributes().items() if name not in _OF_LIBRARIES}
    left = [name for name in found if name not in drop]
    if not taken:
        if left and not notes:
            names = ", ".join(map(repr, left))
            notes.append(
                f"group attributes are not converted: {names} (first found in {at})\n"
                f"hint: pass {option(attributes=True)} to convert them to columns, or {option(drop=left)} to silence this note"
            )
        return values | {name: None for name in found if name in drop}
    for name in found:
        if name in values:
            raise ValueError(f"an array and an attribute are both named {name!r}")
    return values | {name: _attribute(found[name]) if name in left else None for name in found}


def _attribute(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, np.ndarray) and value.dtype.kind in "OSU":
        return [one.decode("utf-8") if isinstance(one, bytes) else one for one in value.ravel().tolist()]
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "SU":
        array = check_array(np.asarray(value))
        return array if array.ndim else array[()]
    return str(value) if isinstance(value, np.generic) else value


def _groups(
    where: str,
    tree: Tree,
    names: list[str],
    drop: frozenset[str],
    left_out: frozenset[str],
    max_bytes: int,
    expansion: Expansion,
    attributes: bool,
    notes: list[str],
) -> Iterator[Item]:
    for number, name in enumerate(names):
        at = f"{where}, sample `{shown(name)}`"
        try:
            node = tree[name]
            members = {"array": node} if isinstance(node, Column) else _flat(node)
            taken = {member: column for member, column in members.items() if member not in drop}
            if (refusal := _refusal(at, taken, max_bytes)) is not None:
                there = [*members, *([] if isinstance(node, Column) else node.attributes())]
                yield Problem(f"{refusal}{dropped_nothing(drop - left_out, there)}")
                continue
            try:
                _claim(expansion, 1, taken)
                read, varying = _members(taken, max_bytes)
                expansion.add(0, varying)
            except SourceError as error:
                yield Problem(f"{at}: {error}", samples=len(names) - number)
                return
            values = {m: _value(column, read[m]) if m in taken else None for m, column in members.items()}
            if not isinstance(node, Column):
                values = _with_attributes(at, node, values, drop, attributes, notes)
        except MemoryError:
            raise
        except Exception as error:  # As above.
            yield Problem(f"{at}: {error}")
            continue
        yield Sample(name, values, at)


def _refusal(at: str, columns: dict[str, Column], max_bytes: int) -> str | None:
    """Return why a sample with these columns cannot be read, or None. The text names the sample."""
    try:
        refuse_columns(at, {name: why for name, column in columns.items() if (why := column.refused)})
        _check_size(at, columns, 0, max_bytes)
    except SourceError as error:
        return str(error)
    return None


def _members(columns: dict[str, Column], max_bytes: int) -> tuple[dict[str, Any], int]:
    """Return the array values of one sample, and the size in bytes of its varying elements. Raise an error if all
    values together exceed `max_bytes`.
    """
    known = sum(column.bytes_of(0) for column in columns.values() if column.element_bytes)
    values, varying = {}, 0
    for name, column in columns.items():
        if column.element_bytes:
            values[name] = column.read(...)
            continue
        try:
            values[name] = gathered(column, None, max_bytes - known - varying)
        except SourceError:
            raise
        except ValueError as error:
            raise ValueError(f"array {name!r}: {error}") from error
        varying += length(values[name])
    return values, varying


def _flat(tree: Tree) -> dict[str, Column]:
    columns: dict[str, Column] = {}
    left = _MOST_OBJECTS

    def enter(group: Tree, prefix: str, levels: int) -> None:
        nonlocal left
        if levels == 0:
            raise ValueError(f"the sample has more than {_MOST_LEVELS} levels of groups")
        for name in group:
            left -= 1
            if left < 0:
                raise ValueError(f"the sample has more than {_MOST_OBJECTS} groups and arrays")
            node = group[name]
            if isinstance(node, Column):
                columns[prefix + name] = node
            else:
                enter(node, f"{prefix}{name}/", levels - 1)

    enter(tree, "", _MOST_LEVELS)
    return columns


def _value(column: Column, value: Any) -> Any:
    if column.kind in ("text", "json"):
        if isinstance(value, np.ndarray):
            if value.ndim:
                return value.tolist()
            value = value.item()
        if not isinstance(value, (str, bytes)):
            raise ValueError(f"expected text, found {type(value).__name__}")
        text = value.decode("utf-8") if isinstance(value, bytes) else str(value)
        return parse_json(text.encode("utf-8")) if column.kind == "json" else text
    if column.kind == "ragged":
        return value
    if column.kind == "bytes":
        value = value.item() if isinstance(value, np.ndarray) and value.ndim == 0 else value
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            raise ValueError("expected one byte string, found an array of byte strings")
        return value.tobytes() if isinstance(value, np.ndarray) else bytes(value)
    array = check_array(np.asarray(value))
    return array if array.ndim else array[()]
