"""Tests the replacement of no-data values in cubes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp

NO_DATA = -9999


def envi(folder: Path, values: np.ndarray[Any, Any], number: int, line: str) -> None:
    code = {np.dtype("int16"): 2, np.dtype("float32"): 4}[values.dtype]
    height, width, bands = values.shape
    (folder / f"{number}.img").write_bytes(values.astype(values.dtype.newbyteorder("<")).tobytes())
    header = f"samples = {width}\nlines = {height}\nbands = {bands}\ndata type = {code}\ninterleave = bip\nbyte order = 0\n"
    (folder / f"{number}.hdr").write_text(f"ENVI\n{header}{line}")


def scenes(folder: Path, dtype: str, line: str = f"data ignore value = {NO_DATA}\n") -> sp.Dataset:
    """Packs eight cubes, a quarter of whose values are no-data. float16 cannot represent −9998, and would round it to a
    neighbour of the no-data value.
    """
    (folder / "source").mkdir()
    rng = np.random.default_rng(0)
    for number in range(8):
        values = rng.integers(1, 4000, (12, 10, 3)).astype(dtype)
        if dtype == "float32":
            values += np.float32(0.3)
        values[:3] = NO_DATA
        values[3, :, 0] = -9998
        envi(folder / "source", values, number, line)
    sp.pack(folder / "source", folder / "out", values="f16" if dtype == "float32" else "keep")
    return sp.Dataset(folder / "out")


@pytest.mark.parametrize("dtype", ["int16", "float32"])
@pytest.mark.parametrize("no_data", [0.0, {"cube": np.float32(-1.5)}, float("nan"), 7])
def test_no_data_comes_as_what_was_chosen(tmp_path: Path, dtype: str, no_data: Any) -> None:
    data = scenes(tmp_path, dtype)
    fill = float(no_data["cube"] if isinstance(no_data, dict) else no_data)
    options: dict[str, Any] = {"dtype": "float32", "mean": {"cube": [1000, 2000, 3000]}, "std": {"cube": 500}}
    for batch in sp.Loader(data, batch_size=4, fields=["cube"], no_data=no_data, **options):
        for row, index in zip(batch["cube"], batch.indices):
            stored = data[int(index)]["cube"].astype(np.float64)
            assert (stored == NO_DATA).sum() == 3 * 10 * 3
            expected = np.where(stored == NO_DATA, fill, (stored - [1000, 2000, 3000]) / 500)
            np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-5)
            assert np.array_equal(row == fill, stored == NO_DATA) or np.isnan(fill)


def test_patches_and_noise_leave_it_as_it_is(tmp_path: Path) -> None:
    data = scenes(tmp_path, "int16")
    options: dict[str, Any] = {"dtype": "float16", "std": {"cube": 1e4}, "fields": ["cube"], "batch_size": 8}
    options |= {"cube": "center8x8", "layout": "chw", "augment": [sp.augment.gaussian_noise(0.5), "hflip"]}
    for batch in sp.Loader(data, no_data=-2.0, **options):
        # Rows 0 to 2 have no data. The view shows rows 2 to 9, so only its first row has no data.
        assert np.all(batch["cube"][:, :, 0] == -2) and not np.any(batch["cube"][:, :, 1:] == -2)


def test_where_none_is_declared_is_said(tmp_path: Path) -> None:
    data = scenes(tmp_path, "int16", line="")
    floats: dict[str, Any] = {"dtype": "float32"}
    with pytest.raises(sp.UsageError, match=r"no decoded array with three axes declares a no-data value\n.*GDAL_NODATA"):
        sp.Loader(data, no_data=0.0, **floats)
    with pytest.raises(sp.UsageError, match=r"field `cube` declares none in the 8 inspected samples"):
        sp.Loader(data, no_data={"cube": 0.0}, **floats)
    with pytest.raises(TypeError, match="no_data of cube: expected a number, found '0'"):
        sp.Loader(data, no_data={"cube": "0"}, **floats)  # type: ignore[dict-item]
    with pytest.raises(sp.UsageError, match="no_data: expected a number within the range of float32, found 1e"):
        sp.Loader(data, no_data=1e300, **floats)


def test_integers_have_to_become_floats(tmp_path: Path) -> None:
    data = scenes(tmp_path, "int16")
    with pytest.raises(sp.UsageError, match=r'is int16, but must be float16, .* for no-data replacement\n.*dtype'):
        sp.Loader(data, no_data=0.0)
