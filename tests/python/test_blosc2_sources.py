"""Folders of Blosc2 files (`.b2nd`) that python-blosc2 writes: packed, reported on, and compared with NumPy."""

import itertools
import json
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
# Shape, chunk shape and block shape; the last are chosen by the library.
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
    # Values from neighbours and noise, so that some streams are coded, some are stored, and some are runs.
    return (smooth * (100 if dtype.kind in "iu" else 1)).astype(dtype)


def write(path, array, chunks=None, blocks=None, **cparams):
    blosc2.asarray(array, chunks=chunks, blocks=blocks, urlpath=str(path), mode="w", cparams=cparams)


class Blosc2Sources(CommandTest):
    def pack(self, *options):
        self.ok("pack", self.tmp / "src", self.tmp / "out", "--kind", "cubes", "--values", "exact", *options)
        self.ok("verify", self.tmp / "out", "--deep")
        self.ok("unpack", self.tmp / "out", self.tmp / "back")

    def assert_packed(self, name, array):
        got = unpacked(self.tmp / "back", name)
        expected = array if array.ndim == 3 else array.reshape(*array.shape, 1) if array.ndim == 2 else array[0]
        self.assertEqual(got.dtype, expected.dtype.newbyteorder("<"), name)
        np.testing.assert_array_equal(got, expected, name)

    def check(self, dtype, cases):
        """Pack one file for each case, (name, array, chunks, blocks, cparams), and compare."""
        (self.tmp / "src").mkdir()
        for name, array, chunks, blocks, cparams in cases:
            write(self.tmp / "src" / f"{name}.b2nd", array, chunks, blocks, **cparams)
        self.pack()
        for name, array, *_ in cases:
            self.assert_packed(name, array)

    def test_codecs_filters_and_splits_are_read_as_by_the_library(self):
        cases = []
        for number, (codec, filters, split) in enumerate(itertools.product(CODECS, FILTERS, SPLITS)):
            shape, chunks, blocks = GRIDS[number % 4]
            options = {"codec": codec, "filters": filters[0], "filters_meta": filters[1], "splitmode": split, "clevel": number % 9 + 1}
            cases.append((f"n{number:03}", values(number, shape, "<f4"), chunks, blocks, options))
        self.check("<f4", cases)
