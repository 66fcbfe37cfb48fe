"""Returns the keys and columns of a dataset as an Apache Arrow table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from shardpack import _shardpack

if TYPE_CHECKING:
    import pyarrow

    from shardpack._dataset import Dataset


def table(dataset: Dataset) -> pyarrow.Table:
    """Make the table that ``Dataset.arrow`` returns."""
    try:
        import pyarrow as pa
    except ImportError as missing:
        raise _shardpack.UsageError(
            "arrow() needs the package `pyarrow`, which is not installed\nhint: pip install 'shardpack[parquet]', or pip install pyarrow"
        ) from missing
    made: dict[str, Any] = {
        "index": np.arange(len(dataset), dtype=np.int64),
        "key": pa.array(list(dataset.keys), pa.string()),
    }
    classes = dataset.classes
    if classes is not None and "label" in dataset.columns:
        made["class"] = _names(dataset.labels, classes)
    for name, values in dataset.columns.items():
        if name in made:
            raise _shardpack.UsageError(
                f"arrow: the dataset has a column {name!r}, but arrow() adds a column with the same name\n"
                f"hint: read this column with dataset.columns[{name!r}]"
            )
        made[name] = values
    return pa.table(made)


def _names(labels: np.ndarray[Any, Any], classes: list[str]) -> Any:
    """Return the class name of each sample as an Arrow dictionary array. Labels without a name become null."""
    import pyarrow as pa

    indices = pa.array(labels, pa.int64(), mask=(labels < 0) | (labels >= len(classes)))
    return pa.DictionaryArray.from_arrays(indices, pa.array(classes, pa.string()))
