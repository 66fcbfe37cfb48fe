"""Tests how `pack` tiles and re-encodes pictures: their pixels, metadata and messages."""

import io
import json
import unittest

import numpy as np
from PIL import Image, ImageCms, ImageOps
from support import CommandTest, jpeg, pictures, png, shards

PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def photo(seed, size=(160, 120), mode="RGB", **options):
    rng = np.random.default_rng(seed)
    small, bands = (max(size[0] // 8, 1), max(size[1] // 8, 1)), len(mode)
    coarse = rng.integers(0, 256, small[0] * small[1] * bands, dtype=np.uint8).tobytes()
    picture = Image.frombytes(mode, small, coarse).resize(size, Image.Resampling.BICUBIC)
    out = io.BytesIO()
    picture.save(out, "JPEG", quality=90, **options)
    return out.getvalue()


def pixels(path_or_bytes):
    """Return the pixels that Pillow decodes, before any Exif orientation is applied."""
    source = io.BytesIO(path_or_bytes) if isinstance(path_or_bytes, bytes) else path_or_bytes
    with Image.open(source) as picture:
        return np.asarray(picture)


def exif(orientation):
    data = Image.Exif()
    data[0x0112] = orientation
    data[0x010E] = "somebody's secret"
    return data


def kinds(folder):
    """Make one picture of each kind that cameras, scanners and web sites produce, for example a grey and a progressive
    JPEG."""
    files = {
        "420.jpg": photo(1, subsampling=2),
        "422.jpg": photo(2, subsampling=1),
        "444.jpg": photo(3, subsampling=0),
        "grey.jpg": photo(4, mode="L"),
        "progressive.jpg": photo(5, progressive=True),
        "odd.jpg": photo(6, size=(127, 65)),
        "tiny.jpg": photo(7, size=(8, 8)),
        "cmyk.jpg": photo(8, mode="CMYK"),
        "profile.jpg": photo(9, icc_profile=PROFILE),
        "turned.jpg": photo(10, size=(160, 128), exif=exif(6)),
        "turned and odd.jpg": photo(11, size=(129, 77), exif=exif(5)),
        "picture.png": png(1),
    }
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


class Tiled(CommandTest):
    def test_pixels_profile_and_orientation_come_back(self):
        source = kinds(self.tmp / "src")
        summary = self.ok("pack", source, self.tmp / "out", "--check-pixels", "all", "--json").json()
        figures = summary["fidelity"]["image"]
        self.assertEqual(figures["samples"], 12)
        self.assertEqual(figures["kept_because"], {"cmyk": 1, "image/png": 1})
        self.assertEqual(figures["pixels_checked"], 10)
        self.assertEqual(figures["tiled"] + figures["in_rows"], 10)
        self.ok("verify", self.tmp / "out", "--deep", "--digest")
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        self.assertEqual(sorted(p.name for p in (self.tmp / "back").iterdir()), sorted(p.name for p in source.iterdir()))
        for path in sorted(source.iterdir()):
            with self.subTest(path.name), Image.open(path) as before, Image.open(self.tmp / "back" / path.name) as after:
                self.assertEqual(before.mode, after.mode)
                np.testing.assert_array_equal(np.asarray(before), np.asarray(after))
                self.assertEqual(before.getexif().get(0x0112, 1), after.getexif().get(0x0112, 1))
                self.assertEqual(before.info.get("icc_profile"), after.info.get("icc_profile"))
        self.assertNotIn(b"secret", (self.tmp / "back" / "turned.jpg").read_bytes())

    def test_stored_pictures_are_baseline_with_restart_markers(self):
        source = kinds(self.tmp / "src")
        self.ok("pack", source, self.tmp / "out")
        for name in ("420.jpg", "progressive.jpg", "grey.jpg"):
            stored = self.ok("cat", self.tmp / "out", name).bytes
            self.assertIn(b"\xff\xc0", stored, "a baseline frame")
            self.assertIn(b"\xff\xdd\x00\x04", stored, "a restart interval")
            self.assertNotIn(b"\xff\xc2", stored)

    def test_metadata_is_kept_on_request(self):
        source = kinds(self.tmp / "src")
        self.ok("pack", source, self.tmp / "out", "--keep-metadata")
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        self.assertIn(b"secret", (self.tmp / "back" / "turned.jpg").read_bytes())
        with Image.open(self.tmp / "back" / "profile.jpg") as picture:
            self.assertEqual(picture.info["icc_profile"], PROFILE)
        self.assertNotIn("icc", [f["name"] for f in self.manifest()["schema"]["fields"]])

    def test_a_profile_that_cannot_be_extracted_stays_in_the_picture(self):
        source = self.tmp / "src"
        source.mkdir()
        (source / "odd.jpg").write_bytes(photo(1, icc_profile=b"no profile at all" * 20))
        self.ok("pack", source, self.tmp / "out")
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        with Image.open(self.tmp / "back" / "odd.jpg") as picture:
            self.assertEqual(picture.info["icc_profile"], b"no profile at all" * 20)

    def test_a_picture_too_large_to_decode_is_refused_before_the_run(self):
        source = pictures(self.tmp / "src", 3)
        huge = bytearray(jpeg(1))
        frame = huge.index(b"\xff\xc0")
        huge[frame + 5 : frame + 9] = b"\xff\xff\xff\xff"
        (source / "class 0" / "huge.jpg").write_bytes(huge)
        result = self.expect(2, "pack", source, self.tmp / "out")
        self.assertIn("65535 × 65535", result.err)
        result = self.expect(1, "pack", source, self.tmp / "out", "--on-bad-input", "skip", "--json")
        self.assertEqual([entry["key"] for entry in result.json()["skipped"]], ["class 0/huge.jpg"])
        self.assertNotIn("hint", result.json()["skipped"][0]["reason"])
        self.ok("pack", source, self.tmp / "kept", "--jpeg", "keep")

    def test_upright_turns_pictures_of_whole_blocks(self):
        source = kinds(self.tmp / "src")
        self.ok("pack", source, self.tmp / "out", "--upright", "--check-pixels", "all")
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        for name in ("turned.jpg", "turned and odd.jpg"):
            with Image.open(source / name) as before, Image.open(self.tmp / "back" / name) as after:
                upright = np.asarray(ImageOps.exif_transpose(before)).astype(int)
                self.assertLessEqual(abs(upright - np.asarray(ImageOps.exif_transpose(after))).max(), 4, name)
        with Image.open(self.tmp / "back" / "turned.jpg") as after:
            self.assertEqual((after.size, after.getexif().get(0x0112, 1)), ((128, 160), 1))

    def manifest(self):
        return json.loads((self.tmp / "out" / "manifest.json").read_text())

    def test_any_number_of_threads_gives_the_same_bytes(self):
        source = pictures(self.tmp / "src", 60)
        (source / "class 0" / "profile.jpg").write_bytes(photo(9, icc_profile=PROFILE))
        for how in (("tile",), ("reencode", "--quality", "70", "--score", "all"), ("reencode", "--short-side", "40")):
            outs = [self.tmp / f"{how[-1]}-{threads}" for threads in (1, 2, 7)]
            for threads, out in zip((1, 2, 7), outs, strict=True):
                self.ok("pack", source, out, "--jpeg", *how, "--threads", threads, "--shard-size", "20KiB")
            self.assertSameTree(outs[0], outs[1])
            self.assertSameTree(outs[0], outs[2])

    def test_damaged_scan_data_stops_the_run_and_names_the_file(self):
        source = pictures(self.tmp / "src")
        whole = jpeg(3, height=128, width=128)
        (source / "class 1" / "damaged.jpg").write_bytes(whole[:-800] + whole[-400:])
        result = self.expect(2, "pack", source, self.tmp / "out")
        self.assertIn("damaged.jpg", result.err)
        self.assertIn("--on-bad-input skip", result.err)
        result = self.expect(1, "pack", source, self.tmp / "rest", "--on-bad-input", "skip", "--json")
        self.assertEqual([entry["key"] for entry in result.json()["skipped"]], ["class 1/damaged.jpg"])
        self.assertEqual(result.json()["samples"], 30)
        self.ok("verify", self.tmp / "rest", "--deep")

    def test_a_lost_manifest_is_rebuilt_with_its_figures(self):
        self.ok("pack", pictures(self.tmp / "src"), self.tmp / "out", "--jpeg", "reencode", "--score", "all")
        before = self.manifest()["fidelity"]
        (self.tmp / "out" / "manifest.json").unlink()
        self.ok("salvage", self.tmp / "out", self.tmp / "out", "--all-generations")
        self.assertEqual(self.manifest()["fidelity"], before)

    def test_options_without_effect_are_refused(self):
        source = pictures(self.tmp / "src", 3)
        for options in (
            ("--quality", "80"),
            ("--target", "ssimulacra2=80"),
            ("--short-side", "32"),
            ("--jpeg", "keep", "--check-pixels", "all"),
            ("--jpeg", "keep", "--keep-metadata"),
            ("--jpeg", "reencode", "--upright"),
            ("--jpeg", "reencode", "--quality", "0"),
            ("--jpeg", "reencode", "--quality", "80", "--target", "ssimulacra2=80"),
            ("--jpeg", "reencode", "--short-side", "32", "--long-side", "32"),
        ):
            self.expect(2, "pack", source, self.tmp / "out", *options)
            self.assertFalse((self.tmp / "out").exists(), options)


class SegmentIndexes(CommandTest):
    def source(self):
        source = self.tmp / "src"
        source.mkdir()
        for seed in range(3):
            (source / f"{seed}.jpg").write_bytes(jpeg(seed, height=128, width=160))
        (source / "tiny.jpg").write_bytes(jpeg(9, height=8, width=8))
        Image.new("RGB", (9, 9)).save(source / "other.png")
        return source

    def test_kept_jpegs_have_an_index_that_is_no_field_of_the_user(self):
        source, out = self.source(), self.tmp / "out"
        self.ok("pack", source, out, "--jpeg", "keep")
        self.assertEqual(json.loads((out / "manifest.json").read_text())["recipe"]["image"], {"jpeg": "keep", "segment_index": True})
        text = self.ok("inspect", out).out
        self.assertRegex(text, r"segment index +3 of 5 pictures, [0-9.]+ k?B\n")
        self.assertNotIn("image.segments", text)
        found = self.ok("inspect", out, "--json").json()
        self.assertEqual((found["segment_index"]["indexed"], found["segment_index"]["pictures"]), (3, 5))
        self.assertNotIn("image.segments", [field["name"] for field in found["schema"]["fields"]])
        self.assertNotIn("image.segments", self.expect(2, "cat", out, "0.jpg", "--field", "none").err)
        self.ok("verify", out, "--deep")
        self.ok("unpack", out, self.tmp / "back")
        self.assertSameTree(source, self.tmp / "back")

    def test_indexes_are_declined_and_added_later(self):
        source, out = self.source(), self.tmp / "out"
        self.ok("pack", source, out, "--jpeg", "keep", "--no-segment-index")
        self.assertNotIn("segment index", self.ok("inspect", out).out)
        manifest = json.loads((out / "manifest.json").read_text())
        self.assertEqual(manifest["recipe"]["image"], {"jpeg": "keep"})
        self.assertNotIn("image.segments", [field["name"] for field in manifest["schema"]["fields"]])
        said = self.ok("compact", out, "--segment-index")
        self.assertRegex(said.out, r"added segment indexes \(.*\) to 3 pictures of `.*`, which makes generation 2; rewrote 1 shard \(")
        self.assertIn("deleted 1 older generation", said.out)
        self.assertRegex(self.ok("inspect", out).out, r"segment index +3 of 5 pictures")
        self.ok("verify", out, "--deep", "--digest")
        self.ok("unpack", out, self.tmp / "back")
        self.assertSameTree(source, self.tmp / "back")
        again = self.ok("compact", out, "--segment-index", "--json").json()
        self.assertEqual((again["segment_index"]["shards"], again["generations"]), (0, []))

    def test_without_kept_jpegs_there_is_nothing_to_index(self):
        source = self.source()
        for options in (("--jpeg", "tile", "--no-segment-index"), ("--jpeg", "reencode", "--no-segment-index")):
            self.assertIn("use the option with `--jpeg keep`", self.expect(2, "pack", source, self.tmp / "out", *options).err)
        self.ok("pack", source, self.tmp / "tiled")
        self.assertIn("no pictures that were stored unchanged", self.expect(2, "compact", self.tmp / "tiled", "--segment-index").err)


class Reencoded(CommandTest):
    def test_quality_size_and_score_are_stored_and_summarised(self):
        source = pictures(self.tmp / "src")
        how = ("--jpeg", "reencode", "--quality", "60", "--score", "all")
        summary = self.ok("pack", source, self.tmp / "out", *how, "--json").json()
        figures = summary["fidelity"]["image"]
        self.assertEqual((figures["samples"], figures["reencoded"] + figures["kept"]), (30, 30))
        self.assertEqual((figures["quality"]["min"], figures["quality"]["max"]), (60, 60))
        self.assertTrue(0 < figures["ssimulacra2"]["mean"] < 100)
        self.assertLess(summary["bytes_out"], summary["bytes_in"])
        self.assertIn("SSIMULACRA2", self.ok("inspect", self.tmp / "out").out)
        self.ok("verify", self.tmp / "out", "--deep")

    def test_resized_pictures_have_the_requested_side(self):
        source = kinds(self.tmp / "src")
        self.ok("pack", source, self.tmp / "out", "--jpeg", "reencode", "--short-side", "64")
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        with Image.open(self.tmp / "back" / "420.jpg") as picture:
            self.assertEqual(min(picture.size), 64)
        with Image.open(self.tmp / "back" / "grey.jpg") as picture:
            self.assertEqual((picture.mode, min(picture.size)), ("L", 64))
        with Image.open(self.tmp / "back" / "tiny.jpg") as picture:
            self.assertEqual(picture.size, (8, 8), "never enlarged")

    def test_a_target_is_reached(self):
        source = pictures(self.tmp / "src", 6)
        how = ("--jpeg", "reencode", "--target", "ssimulacra2=70", "--score", "all")
        figures = self.ok("pack", source, self.tmp / "out", *how, "--json").json()["fidelity"]["image"]
        self.assertGreaterEqual(figures["ssimulacra2"]["min"], 69.9)
        self.assertNotIn("below_target", figures)

    def test_a_warning_names_an_unreachable_target(self):
        source = self.tmp / "src"
        source.mkdir()
        noise = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
        Image.fromarray(noise).save(source / "noise.jpg", quality=100, subsampling=0)
        how = ("--jpeg", "reencode", "--target", "ssimulacra2=100", "--subsampling", "420")
        result = self.ok("pack", source, self.tmp / "out", *how)
        self.assertIn("did not reach", result.err)
        self.assertIn("below target", result.out)

    def test_shards_have_about_the_requested_size(self):
        source = pictures(self.tmp / "src", 60)
        self.ok("pack", source, self.tmp / "out", "--jpeg", "reencode", "--quality", "30", "--shard-size", "20KiB")
        sizes = [path.stat().st_size for path in shards(self.tmp / "out")]
        self.assertGreater(len(sizes), 1)
        for size in sizes[:-1]:
            self.assertGreater(size, 12 << 10)


if __name__ == "__main__":
    unittest.main()
