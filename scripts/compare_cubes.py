"""Compare unpacked cubes and masks with the originals of the demo.

    compare_cubes.py TRUTH UNPACKED DATASET

Integers, integers stored as floats, and masks must be equal bit for bit. Other floats may differ by float16's rounding,
up to the largest error that the dataset's manifest states. NaN and no-data values must be in the same places.
"""

import json
import sys
from pathlib import Path

import numpy as np

NO_DATA = -9999.0


def stated_error(dataset):
    """Return the largest absolute error that the manifest states for the field `cube`."""
    fidelity = json.loads((dataset / "manifest.json").read_text())["fidelity"]["cube"]
    return float(fidelity["max_abs_error"])


def find(folder, stem, suffixes):
    """Return the file of the only unpacked array of a sample. The extension in the sample's key does not matter."""
    found = [p for p in folder.rglob("*.npy") if any(p.name == stem + suffix for suffix in suffixes)]
    if len(found) != 1:
        raise SystemExit(f"`{stem}`: expected one unpacked array in `{folder}`, found: {[str(p) for p in found]}")
    return np.load(found[0])


def compare(stem, truth, got, bound):
    """Return the largest absolute error of one cube, or exit with an error if it is too large."""
    if truth.shape != got.shape:
        raise SystemExit(f"`{stem}`: expected shape {truth.shape}, found: {got.shape}")
    if not np.array_equal(np.isnan(truth), np.isnan(got)):
        raise SystemExit(f"`{stem}`: NaN values are in different places")
    if truth.dtype.kind in "ui" or np.all(truth == np.round(truth)):
        if truth.dtype != got.dtype or not np.array_equal(truth, got):
            raise SystemExit(f"`{stem}`: expected integers unchanged, as {truth.dtype}, found: {got.dtype}")
        return 0.0
    valid = ~np.isnan(truth) & (truth != NO_DATA)
    if not np.array_equal(got == NO_DATA, truth == NO_DATA):
        raise SystemExit(f"`{stem}`: no-data values are in different places")
    exact, found = truth[valid].astype(np.float64), got[valid].astype(np.float64)
    error = np.abs(exact - found)
    rounding = np.maximum(np.abs(exact) * 2.0**-11, 2.0**-25)
    if np.any(error > rounding):
        raise SystemExit(f"`{stem}`: expected float16's rounding at most, found: {np.max(error / rounding):.3g} times that")
    if error.max() > bound * (1 + 1e-12):
        raise SystemExit(f"`{stem}`: expected at most the stated error {bound:g}, found: {error.max():g}")
    return error.max()


def main():
    truth, unpacked, dataset = map(Path, sys.argv[1:4])
    bound = stated_error(dataset)
    cube_suffixes = [f"{ext}{tail}" for ext in ("", ".npy", ".hdr", ".tif", ".mat", ".raw", ".img") for tail in (".npy", ".cube.npy", "")]
    mask_suffixes = [f"{ext}.mask.npy" for ext in ("", ".npy", ".hdr", ".tif", ".mat", ".raw", ".img")]
    largest = 0.0
    paths = sorted(truth.glob("*.npy"))
    for path in paths:
        largest = max(largest, compare(path.stem, np.load(path), find(unpacked, path.stem, cube_suffixes), bound))
        mask = find(unpacked, path.stem, mask_suffixes)
        if not np.array_equal(mask, np.load(truth / "masks" / path.name)):
            raise SystemExit(f"`{path.stem}`: the mask changed")
    print(f"{len(paths)} cubes and their masks compared: largest error {largest:.3g}, stated {bound:.3g}")


if __name__ == "__main__":
    main()
