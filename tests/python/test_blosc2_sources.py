"""Tests that `pack` and `report` read Blosc2 files (`.b2nd`) of python-blosc2 with the same values as NumPy."""

import itertools
import shutil
import unittest

import blosc2
import numpy as np
from support import CommandTest, cube, shardpack, unpacked

DTYPES = ["|b1", "|u1", "|i1", "<u2", ">i2", "<i4", ">u4", "<f2", "<f4", ">f4", "<f8", ">f8", "<i8", ">u8"]
CODECS = [blosc2.Codec.BLOSCLZ, blosc2.Codec.LZ4, blosc2.Codec.LZ4HC, blosc2.Codec.ZLIB, blosc2.Codec.ZSTD]
FILTERS = [
    ([], []),
    ([blosc2.Filter.SHUFFLE], [0]),
    ([blosc2.Filter.BITSHUFFLE], [0]),
    ([blosc2.Filter.DELTA, blosc2.Filter.SHUFFLE], [0, 0]),
    ([blosc2.Filter.SHUFFLE, blosc2.Filter.BYTEDELTA], [0, 0]),
]
SPLITS = [blosc2.SplitMode.ALWAYS_SPLIT, blosc2.SplitMode.NEVER_SPLIT, blosc2.SplitMode.AUTO_SPLIT]
# Shape, chunk shape and block shape of arrays. With None, the library chooses the shape.
GRIDS = [
    ((24, 20, 17), (24, 20, 17), (24, 20, 17)),
    ((24, 20, 17), (10, 7, 17), (3, 4, 17)),
    ((24, 20, 17), (11, 13, 5), (4, 13, 2)),
    ((5, 6, 130), (2, 6, 64), (1, 5, 33)),
    ((33, 40), (32, 9), (5, 9)),
    ((1, 9, 8, 7), (1, 4, 8, 7), (1, 2, 3, 7)),
    ((64, 65, 66), None, None),
]


def values(seed, shape, dtype):
    dtype = np.dtype(dtype)
    smooth = cube(seed, (*shape[-3:-1], shape[-1]) if len(shape) > 2 else (*shape, 1), np.float64).reshape(shape)
    if dtype.kind == "b":
        return smooth > 0.5
    # Smooth values with noise make Blosc2 compress some streams, store others, and find runs in others.
    return (smooth * (100 if dtype.kind in "iu" else 1)).astype(dtype)


def write(path, array, chunks=None, blocks=None, **cparams):
    blosc2.asarray(array, chunks=chunks, blocks=blocks, urlpath=str(path), mode="w", cparams=cparams)


class Blosc2Sources(CommandTest):
    def check(self, cases):
        """Write a file for each case (array, chunks, blocks, cparams), pack and unpack them, and compare the values."""
        source, out, back = (self.tmp / name for name in ("src", "out", "back"))
        for folder in (source, out, back):
            shutil.rmtree(folder, ignore_errors=True)
        source.mkdir()
        for number, (array, chunks, blocks, cparams) in enumerate(cases):
            write(source / f"n{number:03}.b2nd", array, chunks, blocks, **cparams)
        self.ok("pack", source, out, "--values", "keep")
        self.ok("verify", out, "--deep")
        self.ok("unpack", out, back)
        for number, (array, *rest) in enumerate(cases):
            got = unpacked(back, f"n{number:03}")
            # Packed cubes have three axes. An array with two axes becomes a cube with one band. In an array with four
            # axes, the first has length 1 and is dropped.
            expected = array[0] if array.ndim == 4 else array.reshape(*array.shape, -1)[..., :1] if array.ndim == 2 else array
            self.assertEqual(got.dtype, expected.dtype.newbyteorder("<"), rest)
            np.testing.assert_array_equal(got, expected, str(rest))

    def test_codecs_filters_and_splits(self):
        cases = []
        for number, (codec, (filters, metas), split) in enumerate(itertools.product(CODECS, FILTERS, SPLITS)):
            shape, chunks, blocks = GRIDS[number % 4]
            options = {"codec": codec, "filters": filters, "filters_meta": metas, "splitmode": split}
            cases.append((values(number, shape, "<f4"), chunks, blocks, options | {"clevel": number % 9 + 1}))
        self.check(cases)

    def test_types_and_shapes(self):
        for dtype in DTYPES:
            with self.subTest(dtype=dtype):
                filters = FILTERS if np.dtype(dtype).itemsize > 1 else FILTERS[:3]
                cases = []
                for number, (shape, chunks, blocks) in enumerate(GRIDS):
                    codec, (names, metas) = CODECS[number % len(CODECS)], filters[number % len(filters)]
                    options = {"codec": codec, "filters": names, "filters_meta": metas}
                    cases.append((values(number, shape, dtype), chunks, blocks, options))
                self.check(cases)

    def test_random_grids(self):
        rng = np.random.default_rng(35)
        cases = []
        for number in range(60):
            shape = tuple(int(n) for n in rng.integers(1, 40, rng.integers(2, 4)))
            chunks = tuple(int(rng.integers(1, n + 1)) for n in shape)
            blocks = tuple(int(rng.integers(1, n + 1)) for n in chunks)
            codec = CODECS[number % len(CODECS)]
            cases.append((values(number, shape, "<i2"), chunks, blocks, {"codec": codec}))
        self.check(cases)

    def test_special_chunks(self):
        source = self.tmp / "src"
        source.mkdir()
        shape, grid = (40, 30, 20), {"chunks": (16, 30, 20), "blocks": (4, 30, 20), "mode": "w"}
        blosc2.zeros(shape, dtype="f4", urlpath=str(source / "zeros.b2nd"), **grid)
        blosc2.nans(shape, dtype="f4", urlpath=str(source / "nans.b2nd"), **grid)
        blosc2.full(shape, 3.25, dtype="f4", urlpath=str(source / "full.b2nd"), **grid)
        blosc2.uninit(shape, dtype="f4", urlpath=str(source / "unset.b2nd"), **grid)
        part = blosc2.zeros(shape, dtype="f4", urlpath=str(source / "part.b2nd"), **grid)
        part[20:25] = cube(1, (5, 30, 20))
        # The new chunk is longer than the old one, so Blosc2 writes it elsewhere and leaves a gap in the file.
        part[0:16] = np.random.default_rng(0).random((16, 30, 20), "f4")
        part.resize((45, 30, 20))
        part.vlmeta["spacing"] = [1.0, 2.0]
        self.ok("pack", source, self.tmp / "out", "--values", "keep")
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        for name, expected in {"zeros": 0, "nans": np.nan, "full": 3.25, "unset": 0}.items():
            np.testing.assert_array_equal(unpacked(self.tmp / "back", name), np.full(shape, expected, "f4"), name)
        np.testing.assert_array_equal(unpacked(self.tmp / "back", "part"), part[:])

    def test_the_dataset_is_the_one_of_the_same_arrays_in_npy(self):
        for number in range(6):
            array = cube(number)
            for kind in ("b2nd", "npy"):
                path = self.tmp / kind / f"{number}.{kind}"
                path.parent.mkdir(exist_ok=True)
                np.save(path, array) if kind == "npy" else write(path, array, (7, 20, 17), (2, 9, 17))
        for kind in ("b2nd", "npy"):
            self.ok("pack", self.tmp / kind, self.tmp / f"out {kind}")
            self.ok("unpack", self.tmp / f"out {kind}", self.tmp / f"back {kind}")
            shown = self.ok("inspect", self.tmp / f"out {kind}", "--json").json()
            self.assertEqual(shown["samples"], 6)
            report = self.ok("report", self.tmp / kind, "-o", self.tmp / f"{kind}.html")
            self.assertTrue((self.tmp / f"{kind}.html").is_file(), repr(report))
        for number in range(6):
            got = [unpacked(self.tmp / f"back {kind}", str(number)) for kind in ("b2nd", "npy")]
            np.testing.assert_array_equal(*got)

    def test_masks(self):
        cubes, masks = self.tmp / "cubes", self.tmp / "masks"
        cubes.mkdir()
        masks.mkdir()
        expected = {}
        for number in range(4):
            write(cubes / f"{number}.b2nd", cube(number), (7, 20, 17), (2, 9, 17))
            mask = (cube(number)[:, :, 0] * 4).astype("i1")
            # nnU-Net stores two-dimensional masks with two additional axes.
            write(masks / f"{number}.b2nd", mask if number % 2 else mask[None, None])
            expected[number] = mask
        self.ok("pack", cubes, self.tmp / "out", "--masks", masks)
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        for number, mask in expected.items():
            np.testing.assert_array_equal(unpacked(self.tmp / "back", str(number), "mask"), mask)

    def refused(self, *words):
        result = shardpack("pack", self.tmp / "src", self.tmp / "out")
        self.assertNotEqual(result.code, 0, repr(result))
        for word in words:
            self.assertIn(word, result.err)
        shutil.rmtree(self.tmp / "src")

    def test_frames_that_cannot_be_cubes_are_refused_by_name(self):
        source = self.tmp / "src"
        array = cube(0)
        plugin = {"codec": blosc2.Codec.NDLZ, "codec_meta": 4, "filters": [], "filters_meta": []}

        def case(name, *words, write_file):
            with self.subTest(name=name):
                source.mkdir(exist_ok=True)
                write_file(str(source / name))
                self.refused(*words)

        case(
            "a.b2frame",
            "the Blosc2 frame has no metalayer `b2nd`, so the shape of the array is unknown",
            'write the array with `blosc2.asarray(array, urlpath="FILE.b2nd")`',
            write_file=lambda path: blosc2.SChunk(data=array, urlpath=path, mode="w"),
        )
        case(
            "sparse.b2nd",
            "sparse Blosc2 frames (a folder with a file for each chunk) are not supported",
            "write the array with `contiguous=True`",
            write_file=lambda path: blosc2.asarray(array, urlpath=path, mode="w", contiguous=False),
        )
        case(
            "complex.b2nd",
            "complex numbers", "not supported in Blosc2 files",
            write_file=lambda path: write(path, array.astype("c8")),
        )
        case(
            "dictionary.b2nd",
            "a chunk with a dictionary",
            write_file=lambda path: write(path, np.tile(array, (4, 4, 1)), codec=blosc2.Codec.ZSTD, use_dict=True),
        )
        case(
            "plugin.b2nd",
            "blosc2 codec NDLZ",
            "with `codec=blosc2.Codec.ZSTD` and the default filters",
            write_file=lambda path: write(path, (array[:, :, 0] * 9).astype("u1"), (24, 20), (8, 8), **plugin),
        )
        case(
            "channels.b2nd",
            "the array has 4 axes ([2, 24, 20, 17])",
            write_file=lambda path: write(path, np.stack([array, array])),
        )

    def test_damage_is_an_error_or_leaves_the_values(self):
        """A damaged byte must not make the command panic or hang. It may change values, because Blosc2 has no
        checksums."""
        whole = self.tmp / "whole.b2nd"
        array = cube(0, (9, 8, 7))
        write(whole, array, (5, 8, 7), (2, 5, 7), codec=blosc2.Codec.ZSTD)
        good = whole.read_bytes()
        rng = np.random.default_rng(7)
        (self.tmp / "src").mkdir()
        for number in range(120):
            bytes_ = bytearray(good)
            if number % 3 == 0:
                bytes_ = bytes_[: int(rng.integers(12, len(good)))]
            else:
                for at in rng.integers(10, 260 if number % 3 == 1 else len(good), 2):
                    bytes_[at] = int(rng.integers(256))
            (self.tmp / "src" / f"{number:03}.b2nd").write_bytes(bytes_)
        result = shardpack("pack", self.tmp / "src", self.tmp / "out", "--on-bad-input", "skip", "--json")
        self.assertIn(result.code, (0, 1), repr(result))
        # Every third file is truncated. No truncated file may be packed.
        packed = {line.split(".")[0] for line in self.ok("ls", self.tmp / "out").out.split()} if result.code == 0 else set()
        self.assertFalse(packed & {f"{number:03}" for number in range(0, 120, 3)}, packed)


if __name__ == "__main__":
    unittest.main()
