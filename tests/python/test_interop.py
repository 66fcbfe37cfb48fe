"""Tests that python-blosc2 and zstandard can decode stored arrays. Also tests that the command and the reader of the
specification both accept, or both refuse, chunks from python-blosc2.
"""

import struct
import subprocess
import sys
import unittest

import blosc2
import numpy as np
import zstandard
from shardfile import UNIT_BYTES, Descriptor, blosc2_chunks, records, with_value
from support import ROOT, CommandTest, cube, cubes, shards

FILTERS = {"none": [], "shuffle": [1], "bitshuffle": [2], "bytedelta": [1, 35]}
BLOSC2_CODECS = {"blosc2-lz4": 1, "blosc2-lz4hc": 1, "blosc2-zstd": 4}
STREAM_BYTES = 64 << 10


def decode(field):
    """Return the payload of a field, decompressed by python-blosc2 or zstandard."""
    if field.codec == "blosc2":
        return b"".join(blosc2.decompress2(chunk) for chunk in blosc2_chunks(field.data))
    if field.codec == "zstd":
        out, rest = [], field.data
        while rest:
            frame = zstandard.ZstdDecompressor().decompressobj()
            out.append(frame.decompress(rest))
            assert zstandard.frame_content_size(rest) == len(out[-1]), "each frame says its size"
            rest = frame.unused_data
        return b"".join(out)
    assert field.codec == "raw", field.codec
    return field.data


class Interop(CommandTest):
    def read_all(self, dataset):
        """Return the `cube` field of every sample of a dataset, by the stem of its key."""
        found = {}
        for shard in shards(dataset):
            for key, fields in records(shard):
                found[key.removesuffix(".npy")] = fields["cube"]
        return found

    def check(self, dataset, sources):
        """Assert that other libraries can decode every cube, and that the values are equal or within float16's
        rounding.
        """
        fields = self.read_all(dataset)
        self.assertEqual(sorted(fields), sorted(sources))
        for stem, source in sources.items():
            descriptor = Descriptor.parse(fields[stem].descriptor)
            payload = decode(fields[stem])
            self.assertEqual(len(payload), fields[stem].decoded_bytes)
            got = descriptor.values(payload)
            if descriptor.transform in (0, 2):
                self.assertEqual(got.dtype, source.dtype.newbyteorder("="))
                np.testing.assert_array_equal(got, source)
            else:
                self.assertCloseAsFloat16(source, got)
        return fields

    def pack(self, name, source, *options):
        out = self.tmp / name
        self.ok("pack", source, out, *options)
        return out

    def test_every_blosc2_codec_and_filter(self):
        source = self.tmp / "src"
        source.mkdir()
        for seed in range(2):
            # Repeat the columns, so that every codec compresses the cube even without a filter. Otherwise the cube
            # would be stored raw.
            np.save(source / f"cube{seed}.npy", np.tile(cube(seed, shape=(40, 8, 50)), (1, 4, 1)))
        expected = {path.stem: np.load(path) for path in source.iterdir()}
        for codec, format_code in BLOSC2_CODECS.items():
            for filter_name, ids in FILTERS.items():
                with self.subTest(codec=codec, filter=filter_name):
                    out = self.pack(f"{codec}-{filter_name}", source, "--codec", codec, "--filter", filter_name, "--layout", "as-given")
                    for field in self.check(out, expected).values():
                        self.assertEqual(field.codec, "blosc2")
                        for chunk in blosc2_chunks(field.data):
                            self.check_chunk(chunk, format_code, ids)

    def check_chunk(self, chunk, format_code, filter_ids):
        """Assert that the header of a Blosc2 chunk is as the specification requires, with split blocks of a fixed size.
        """
        flags, typesize, nbytes, blocksize = struct.unpack_from("<BBii", chunk, 2)
        self.assertEqual(typesize, 2)
        self.assertEqual(nbytes, len(blosc2.decompress2(chunk)))
        self.assertEqual(blocksize, min(STREAM_BYTES * typesize, nbytes))
        self.assertEqual(flags >> 5, format_code)
        self.assertEqual(flags & 0x10, 0, "blocks are split")
        self.assertEqual([f for f in chunk[16:22] if f], filter_ids)

    def test_zstd_and_raw(self):
        source = cubes(self.tmp / "src", 2)
        expected = {path.stem: np.load(path) for path in source.iterdir()}
        for codec in ("zstd", "raw"):
            with self.subTest(codec=codec):
                for field in self.check(self.pack(codec, source, "--codec", codec), expected).values():
                    self.assertEqual(field.codec, codec)

    def test_layouts_and_differences_along_the_bands(self):
        source = cubes(self.tmp / "src", 2)
        expected = {path.stem: np.load(path) for path in source.iterdir()}
        for layout in ("as-given", "band-major"):
            for difference in ("on", "off"):
                with self.subTest(layout=layout, difference=difference):
                    options = ["--codec", "blosc2-lz4", "--filter", "shuffle", "--layout", layout, "--band-difference", difference]
                    for field in self.check(self.pack(f"{layout}-{difference}", source, *options), expected).values():
                        descriptor = Descriptor.parse(field.descriptor)
                        self.assertEqual((descriptor.band_major, descriptor.band_difference), (layout == "band-major", difference == "on"))

    def test_every_dtype_without_loss(self):
        source, expected = self.tmp / "src", {}
        for name in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8"):
            (source / name).mkdir(parents=True)
            array = cube(3, dtype=np.float64)
            # Use the whole range of the type, because the values must not fit a narrower integer type.
            info = np.iinfo(name) if name[0] in "ui" else None
            array = (info.min + array * (info.max - float(info.min)) * 0.9).astype(name) if info else array.astype(name)
            np.save(source / name / "a.npy", array)
            expected = {"a": array}
            with self.subTest(dtype=name):
                self.check(self.pack(f"out-{name}", source / name, "--values", "keep"), expected)

    def test_fixed_point_keeps_its_bound(self):
        source = cubes(self.tmp / "src", 3, shape=(24, 20, 17))
        for error in (0.002, 0.00002):
            with self.subTest(error=error):
                out = self.pack(f"fixed-{error}", source, "--values", "fixed", "--max-error", str(error))
                for stem, field in self.read_all(out).items():
                    descriptor = Descriptor.parse(field.descriptor)
                    self.assertEqual(descriptor.transform, 3)
                    got = descriptor.values(decode(field)).astype(np.float64)
                    difference = np.abs(got - np.load(source / f"{stem}.npy").astype(np.float64))
                    self.assertLessEqual(difference.max(), error)

    def test_integers_in_floats_are_stored_as_integers(self):
        source = self.tmp / "src"
        source.mkdir()
        counts = (cube(5) * 10000).round()
        counts[0, 0, :] = np.nan
        np.save(source / "counts.npy", counts)
        field = self.read_all(self.pack("out", source))["counts"]
        descriptor = Descriptor.parse(field.descriptor)
        self.assertEqual((descriptor.transform, descriptor.stored.itemsize), (2, 2))
        np.testing.assert_array_equal(descriptor.values(decode(field)), counts)

    def test_arrays_larger_than_a_unit(self):
        source = cubes(self.tmp / "src", 1, shape=(160, 200, 100))
        expected = {"cube000": np.load(source / "cube000.npy")}
        for codec in ("blosc2-lz4", "zstd"):
            with self.subTest(codec=codec):
                field = self.check(self.pack(codec, source, "--codec", codec), expected)["cube000"]
                if codec == "blosc2-lz4":
                    sizes = [len(blosc2.decompress2(chunk)) for chunk in blosc2_chunks(field.data)]
                    self.assertEqual(sizes, [UNIT_BYTES, 6_400_000 - UNIT_BYTES])


class ForeignChunks(CommandTest):
    """Tests arrays whose only chunk is replaced with a chunk from python-blosc2."""

    SHAPE = (10, 50, 100)

    def setUp(self):
        super().setUp()
        self.shells = {}

    def shell(self, dtype):
        """Return a shard with one Blosc2 cube of this type, whose chunk the tests replace."""
        if dtype not in self.shells:
            source = self.tmp / f"src-{dtype}"
            source.mkdir()
            np.save(source / "a.npy", np.tile(np.arange(100), 500).reshape(self.SHAPE).astype(dtype))
            out = self.tmp / f"shell-{dtype}"
            options = ["--values", "keep", "--codec", "blosc2-lz4", "--filter", "shuffle", "--layout", "as-given", "--band-difference", "off"]
            self.ok("pack", source, out, *options)
            (shard,) = shards(out)
            ((_, fields),) = records(shard)
            assert fields["cube"].codec == "blosc2", fields
            self.shells[dtype] = shard.read_bytes()
        return self.shells[dtype]

    def shard(self, dtype, chunk):
        path = self.tmp / "foreign.shard"
        path.write_bytes(with_value(self.shell(dtype), chunk))
        ((_, fields),) = records(path)
        assert fields["cube"].data == chunk
        return path

    def check(self, expected, chunk):
        """Assert that both readers decode the array. The specification's reader is slow, so it reads only float32."""
        shard = self.shard(expected.dtype.name, chunk)
        np.testing.assert_array_equal(blosc2.decompress2(chunk), expected.tobytes())
        out = self.tmp / "cube.npy"
        out.write_bytes(self.ok("cat", shard, "0", "--field", "cube").bytes)
        np.testing.assert_array_equal(np.load(out), expected)
        if expected.dtype == "float32":
            read = subprocess.run([sys.executable, ROOT / "format-spec" / "reader.py", "verify", shard], capture_output=True, text=True)
            self.assertEqual(read.returncode, 0, read.stdout + read.stderr)

    def refuse(self, dtype, chunk, *words):
        """Assert that both readers refuse the chunk with these words, although c-blosc2 can decode it."""
        shard = self.shard(dtype, chunk)
        verified = self.expect(1, "verify", shard, "--deep")
        for word in words:
            self.assertIn(word, verified.out + verified.err)
        read = subprocess.run([sys.executable, ROOT / "format-spec" / "reader.py", "verify", shard], capture_output=True, text=True)
        self.assertEqual(read.returncode, 1, read.stdout + read.stderr)

    @staticmethod
    def chunk(array, **given):
        """Make a chunk with the compression parameters that the format requires, except for those given as
        arguments.
        """
        size = array.dtype.itemsize
        filters = given.pop("filters", [blosc2.Filter.SHUFFLE])
        options = {
            "codec": blosc2.Codec.LZ4, "clevel": 5, "typesize": size, "nthreads": 1, "filters": filters,
            "filters_meta": [size if f == blosc2.Filter.BYTEDELTA else 0 for f in filters],
            "blocksize": min(STREAM_BYTES * size, array.nbytes), "splitmode": blosc2.SplitMode.ALWAYS_SPLIT, **given,
        }  # fmt: skip
        return blosc2.compress2(array, **options)

    def arrays(self):
        rng = np.random.default_rng(0)
        for dtype in ("uint8", "int16", "float32", "float64"):
            steps = np.tile(np.arange(100), 500) + rng.integers(0, 3, 50_000)
            yield steps.reshape(self.SHAPE).astype(dtype)

    def test_every_codec_and_filter_of_the_format(self):
        filters = [[], [blosc2.Filter.SHUFFLE], [blosc2.Filter.BITSHUFFLE], [blosc2.Filter.BYTEDELTA], [blosc2.Filter.SHUFFLE, blosc2.Filter.BYTEDELTA]]
        for array in self.arrays():
            for codec in (blosc2.Codec.LZ4, blosc2.Codec.LZ4HC, blosc2.Codec.ZSTD):
                for chosen in filters:
                    with self.subTest(dtype=array.dtype, codec=codec, filters=chosen):
                        self.check(array, self.chunk(array, codec=codec, filters=chosen or [blosc2.Filter.NOFILTER]))

    def test_every_kind_of_chunk_of_the_format(self):
        noise = np.random.default_rng(0).integers(0, 1 << 16, self.SHAPE).astype("uint16")
        stored = self.chunk(noise)
        self.assertTrue(stored[2] & 2, "stored as it is")
        self.check(noise, stored)
        for array in (np.zeros(self.SHAPE, "uint16"), np.full(self.SHAPE, 7, "uint16"), np.full(self.SHAPE, np.nan, "float32")):
            self.check(array, self.chunk(array))
        for kind, value, array in [
            (blosc2.SpecialValue.ZERO, None, np.zeros(self.SHAPE, "uint16")),
            (blosc2.SpecialValue.NAN, None, np.full(self.SHAPE, np.nan, "float32")),
            (blosc2.SpecialValue.NAN, None, np.full(self.SHAPE, np.nan, "float64")),
            (blosc2.SpecialValue.VALUE, (513).to_bytes(2, "little"), np.full(self.SHAPE, 513, "uint16")),
        ]:
            with self.subTest(kind=kind):
                self.check(array, self.special(kind, array, value))

    @staticmethod
    def special(kind, array, value=None):
        chunks = blosc2.SChunk(chunksize=array.nbytes, cparams={"typesize": array.dtype.itemsize, "codec": blosc2.Codec.LZ4})
        chunks.fill_special(array.size, kind, *[] if value is None else [value])
        return chunks.get_chunk(0)

    def test_chunks_that_the_format_forbids_are_refused_with_a_reason(self):
        array = np.tile(np.arange(100), 500).reshape(self.SHAPE).astype("uint16")
        cases = {
            "block size": {"blocksize": 8192},
            "split": {"splitmode": blosc2.SplitMode.NEVER_SPLIT},
            "coder": {"codec": blosc2.Codec.ZLIB},
            "filter": {"filters": [blosc2.Filter.DELTA]},
        }
        for word, given in cases.items():
            with self.subTest(word):
                self.refuse("uint16", self.chunk(array, **given), "a.npy", word)
        with self.subTest("blosclz"):
            self.refuse("uint16", self.chunk(array, codec=blosc2.Codec.BLOSCLZ), "a.npy")
        with self.subTest("not initialised"):
            self.refuse("uint16", self.special(blosc2.SpecialValue.UNINIT, array), "a.npy")
        with self.subTest("lazy"):
            path = self.tmp / "frame.b2frame"
            cparams = {"typesize": 2, "codec": blosc2.Codec.LZ4, "blocksize": array.nbytes, "splitmode": blosc2.SplitMode.ALWAYS_SPLIT}
            blosc2.SChunk(chunksize=array.nbytes, data=array, urlpath=str(path), cparams=cparams)
            self.refuse("uint16", blosc2.open(str(path)).get_lazychunk(0), "a.npy")
        with self.subTest("cut short, and longer"):
            whole = self.chunk(array)
            self.refuse("uint16", whole[:-1], "a.npy")
            self.refuse("uint16", whole + b"\0", "a.npy")


if __name__ == "__main__":
    unittest.main()
