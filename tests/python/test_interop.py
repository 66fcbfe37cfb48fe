"""Stored arrays are read by the libraries that the formats come from: python-blosc2 and zstandard, and put together by NumPy."""

import struct
import unittest

import blosc2
import numpy as np
import zstandard
from shardfile import UNIT_BYTES, Descriptor, blosc2_chunks, records
from support import CommandTest, cube, cubes, shards

FILTERS = {"none": [], "shuffle": [1], "bitshuffle": [2], "bytedelta": [1, 35]}
BLOSC2_CODECS = {"blosc2-lz4": 1, "blosc2-lz4hc": 1, "blosc2-zstd": 4}
STREAM_BYTES = 64 << 10


def decode(field):
    """The bytes of a field's payload once the codec is undone, by the codec's own library."""
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
        """Every sample of a dataset: stem of the key to its `cube` field."""
        found = {}
        for shard in shards(dataset):
            for key, fields in records(shard):
                found[key.removesuffix(".npy")] = fields["cube"]
        return found

    def check(self, dataset, sources):
        """Every cube comes back through foreign libraries, equal or within float16's rounding."""
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
            # Columns that repeat: every codec finds matches, also without a filter, and none falls back to raw.
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
        """The header says what the specification asks for, so that streams are many and of one size."""
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
            # Spread over the whole range of integers, so that narrowing is possible for none but one.
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


if __name__ == "__main__":
    unittest.main()
