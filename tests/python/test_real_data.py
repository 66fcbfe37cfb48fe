"""Tests with real pictures and cubes from `../shared/data`, which is outside the repository. The tests are skipped if
that folder is missing.
"""

import json
import unittest
from pathlib import Path

import numpy as np
import scipy.io
import tifffile
from support import DATA, CommandTest, unpacked


def envi_values(header):
    """Read a little-endian ENVI cube with NumPy alone, and return it as [height, width, channels]."""
    text = "\n".join(line for line in header.read_text(errors="replace").splitlines() if not line.startswith(";"))
    keys = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    keys = {key.strip().lower(): value.strip() for key, value in keys.items()}
    height, width, bands = (int(keys[key]) for key in ("lines", "samples", "bands"))
    dtype = {"4": "<f4", "12": "<u2"}[keys["data type"]]
    data = next(p for p in (header.with_suffix(""), header.with_suffix(".raw")) if p.exists())
    values = np.fromfile(data, dtype, height * width * bands)
    if keys["interleave"].lower() == "bil":
        return values.reshape(height, bands, width).transpose(0, 2, 1)
    return values.reshape(bands, height, width).transpose(1, 2, 0)


@unittest.skipUnless((DATA / "imagenet-sample").is_dir(), "no ../shared/data/imagenet-sample")
class RealPictures(CommandTest):
    def test_a_thousand_photos_come_back_to_the_byte(self):
        source = DATA / "imagenet-sample"
        summary = self.ok("pack", source, self.tmp / "out", "--jpeg", "keep", "--shard-size", "32MiB", "--json").json()
        self.assertEqual((summary["samples"], summary["classes"]), (1000, 1000))
        self.ok("verify", self.tmp / "out", "--deep", "--digest")
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        self.assertSameTree(source, self.tmp / "back")


@unittest.skipUnless((DATA / "hsi").is_dir(), "no ../shared/data/hsi")
class RealCubes(CommandTest):
    def check(self, source, truths, *options):
        """Pack with `--values auto` and with `keep`. Compare the unpacked cubes with `truths`, the values that other
        libraries read from the same files.
        """
        for values in ("auto", "keep"):
            out, back = self.tmp / f"out-{values}", self.tmp / f"back-{values}"
            self.ok("pack", source, out, "--values", values, *options)
            self.ok("verify", out, "--deep", "--digest")
            self.ok("unpack", out, back)
            stated = json.loads((out / "manifest.json").read_text())["fidelity"]["cube"]
            largest = 0.0
            for stem, truth in truths.items():
                got = unpacked(back, stem)
                if values == "keep" or truth.dtype.kind in "ui" or np.all(np.isfinite(truth) & (truth == np.round(truth))):
                    self.assertEqual(got.dtype, truth.dtype)
                    self.assertEqual(got.tobytes(), np.ascontiguousarray(truth).tobytes(), f"{stem}: equal to the bit")
                else:
                    self.assertCloseAsFloat16(truth, got)
                    largest = max(largest, np.nanmax(np.abs(got.astype(np.float64) - truth)))
            if values == "auto":
                self.assertAlmostEqual(stated["max_abs_error"], largest, delta=1e-9 + 1e-6 * largest)

    def folder(self, *paths):
        folder = self.tmp / "src"
        folder.mkdir()
        for path in paths:
            (folder / path.name).write_bytes(path.read_bytes())
        return folder

    def test_enmap_tiles_are_equal_to_the_bit_with_their_masks(self):
        images, labels = DATA / "hsi/enmap-potsdam-tiles/images", DATA / "hsi/enmap-potsdam-tiles/labels"
        truths = {path.stem: np.moveaxis(tifffile.imread(path), 0, -1) for path in sorted(images.glob("*.tif"))}
        self.assertEqual(len(truths), 18)
        self.check(images, truths, "--masks", labels)
        for path in labels.glob("*.tif"):
            np.testing.assert_array_equal(unpacked(self.tmp / "back-auto", path.stem, "mask"), tifffile.imread(path))

    def test_envi(self):
        for stem in ("corn-kernel-hyperspectral", "cubus_gamsberg_subset"):
            with self.subTest(stem):
                header = DATA / "hsi/envi" / f"{stem}.hdr"
                data = next(p for p in (header.with_suffix(""), header.with_suffix(".raw")) if p.exists())
                self.setUp()
                self.check(self.folder(header, data), {stem: envi_values(header)})

    def mat(self, name, variable, array, *options):
        self.check(self.folder(DATA / "hsi/mat" / name), {Path(name).stem: array}, "--variable", variable, *options)

    def load(self, name):
        # A file may store doubles as a smaller integer type. With `mat_dtype`, SciPy returns doubles, as MATLAB does.
        return scipy.io.loadmat(DATA / "hsi/mat" / name, mat_dtype=True)

    def test_salton_sea_with_its_nan(self):
        self.mat("salton_sea_roi.mat", "I", self.load("salton_sea_roi.mat")["I"])

    def test_pavia(self):
        self.mat("reg_pavia_dataset.mat", "I1", self.load("reg_pavia_dataset.mat")["I1"])

    def test_jasper_ridge_bands_by_pixels(self):
        flat = self.load("jasperRidge2_R198.mat")["Y"]
        self.mat("jasperRidge2_R198.mat", "Y", flat.reshape(198, 100, 100).transpose(2, 1, 0), "--spatial", "100x100")

    def test_samson_bands_by_pixels(self):
        flat = self.load("Samson.mat")["Y"]
        self.mat("Samson.mat", "Y", flat.reshape(156, 95, 95).transpose(2, 1, 0), "--spatial", "95x95")


if __name__ == "__main__":
    unittest.main()
