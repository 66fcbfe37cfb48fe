"""Tests `pack --masks` with pictures: masks are stored without loss, and have the size of their pictures."""

import io
import shutil

import numpy as np
from PIL import Image

from support import CommandTest

SIZE = (60, 90)


class Masks(CommandTest):
    def source(self, count=6, orientation=None, kind="png"):
        """Make pictures of a few rectangles, and masks in which each rectangle has its class number."""
        rng = np.random.default_rng(0)
        masks = {}
        for number in range(count):
            mask = np.zeros(SIZE, np.uint8)
            mask[int(rng.integers(20)) : 40, int(rng.integers(30)) : 70] = number + 1
            picture = Image.fromarray(np.array([[0, 0, 0], [200, 40, 40]], np.uint8)[(mask > 0).astype(int)])
            exif = Image.Exif()
            if orientation:
                exif[0x0112] = orientation
            path = self.tmp / "images" / "a" / f"{number:02}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            picture.save(path, exif=exif.tobytes() if orientation else b"")
            # A mask has the shape of the upright picture. Orientation 6 turns the stored picture by 90 degrees
            # clockwise, so turn the mask in the same way.
            masks[f"a/{number:02}.jpg"] = mask = np.rot90(mask, 3) if orientation == 6 else mask
            self.write_mask(f"a/{number:02}", mask, kind)
        return masks

    def write_mask(self, stem, mask, kind="png"):
        path = self.tmp / "labels" / f"{stem}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "npy":
            np.save(path, mask)
            return
        image = Image.fromarray(np.ascontiguousarray(mask))
        if kind == "png" and stem.endswith("1"):
            image = image.convert("P")
            image.putpalette([value for n in range(256) for value in (n, 255 - n, n // 2)])
            image = Image.fromarray(np.ascontiguousarray(mask), "P") if np.asarray(image).tolist() != mask.tolist() else image
        image.save(path)

    def pack(self, *options):
        return self.ok("pack", self.tmp / "images", self.tmp / "out", "--masks", self.tmp / "labels", *options)

    def mask(self, key, dataset="out"):
        return np.load(io.BytesIO(self.ok("cat", self.tmp / dataset, key, "--field", "mask").bytes))

    def test_a_mask_comes_back_as_it_was(self):
        for kind in ("png", "npy", "tif"):
            for options in ((), ("--jpeg", "keep"), ("--jpeg", "reencode", "--quality", "70")):
                with self.subTest(kind=kind, options=options):
                    masks = self.source(kind=kind)
                    self.pack("--force", *options)
                    self.ok("verify", self.tmp / "out", "--deep", "--digest")
                    for key, mask in masks.items():
                        found = self.mask(key)
                        self.assertEqual(found.dtype, np.uint8)
                        np.testing.assert_array_equal(found, mask)
            for path in (self.tmp / "labels").rglob("*.*"):
                path.unlink()

    def test_the_mask_of_a_rotated_picture_is_upright(self):
        masks = self.source(orientation=6)
        for options in ((), ("--jpeg", "keep"), ("--upright",)):
            self.pack("--force", *options)
            np.testing.assert_array_equal(self.mask("a/02.jpg"), masks["a/02.jpg"])

    def test_a_mask_shrinks_with_its_picture(self):
        for orientation in (None, 6):
            masks = self.source(orientation=orientation)
            self.pack("--force", "--jpeg", "reencode", "--short-side", "20")
            shape = (30, 20) if orientation else (20, 30)
            for key, mask in masks.items():
                found = self.mask(key)
                self.assertEqual(found.shape, shape)
                # Pictures shrink to a third, so each pixel of a mask comes from the centre of 3 × 3 pixels of the
                # source.
                np.testing.assert_array_equal(found, mask[1::3, 1::3])

    def test_unpacking_and_packing_again_gives_the_same(self):
        masks = self.source()
        self.pack("--jpeg", "keep", "--no-shuffle")
        self.ok("unpack", self.tmp / "out", self.tmp / "files")
        self.assertTrue((self.tmp / "files/a/00.jpg.mask.npy").exists())
        self.ok("pack", self.tmp / "files", self.tmp / "again", "--jpeg", "keep", "--no-shuffle")
        for key, mask in masks.items():
            np.testing.assert_array_equal(self.mask(key, "again"), mask)

    def test_pictures_without_a_matching_mask_are_named(self):
        self.source()
        (self.tmp / "labels/a/00.png").unlink()
        self.write_mask("a/01", np.zeros((90, 60), np.uint8))
        Image.new("RGB", SIZE[::-1]).save(self.tmp / "labels/a/02.png")
        # The header is intact, so the error appears only when the picture is packed.
        content = (self.tmp / "labels/a/03.png").read_bytes()
        (self.tmp / "labels/a/03.png").write_bytes(content[: len(content) - 40] + bytes(40))
        where = (self.tmp / "images", self.tmp / "out", "--masks", self.tmp / "labels")
        stopped = self.expect(2, "pack", *where)
        self.assertIn("`a/00.jpg`: there is no mask `a/00.*`", stopped.err)
        self.assertIn("01.png` has 90 × 60 pixels, but the upright picture has 60 × 90", stopped.err)
        self.assertIn("02.png`: a label mask must be a grey or palette PNG, but this one has the colour type Rgb", stopped.err)
        self.assertFalse((self.tmp / "out").exists())
        skipped = self.expect(1, "pack", *where, "--on-bad-input", "skip", "--json").json()
        self.assertEqual((skipped["samples"], len(skipped["skipped"])), (2, 4))
        self.assertIn("03.png`: cannot decode the PNG: ", str(skipped["skipped"]))

    def test_masks_accept_a_codec_but_no_options_of_cubes(self):
        self.source()
        report = self.ok(
            "pack", self.tmp / "images", self.tmp / "out", "--masks", self.tmp / "labels", "--codec", "zstd", "--json"
        ).json()
        self.assertEqual(report["settings"]["mask"]["codec"], "zstd")
        refused = self.expect(
            2, "pack", self.tmp / "images", self.tmp / "other", "--masks", self.tmp / "labels", "--values", "f16"
        )
        self.assertIn("--values: applies only to cubes, but the source has pictures", refused.err)
        refused = self.expect(2, "pack", self.tmp / "images", self.tmp / "other", "--codec", "zstd")
        self.assertIn("--codec: applies only to cubes, but the source has pictures", refused.err)

    def test_added_pictures_get_their_masks(self):
        masks = self.source()
        self.pack()
        more = self.tmp / "more/a"
        more.mkdir(parents=True)
        (self.tmp / "images/a/00.jpg").rename(more / "new.jpg")
        self.write_mask("a/new", masks["a/00.jpg"])
        self.ok("add", self.tmp / "out", self.tmp / "more", "--masks", self.tmp / "labels")
        np.testing.assert_array_equal(self.mask("a/new.jpg"), masks["a/00.jpg"])
        self.ok("verify", self.tmp / "out", "--deep")

    def test_parts_and_a_plan_agree_with_a_whole_run(self):
        self.source(12)
        options = ("--masks", self.tmp / "labels", "--shard-size", "16KiB")
        self.ok("plan", self.tmp / "images", self.tmp / "parts", "--parts", "2", "--listing", self.tmp / "listing", *options)
        for part in ("1/2", "2/2"):
            self.ok("pack", self.tmp / "images", self.tmp / "parts", "--part", part, "--listing", self.tmp / "listing", *options)
        self.ok("merge", self.tmp / "parts")
        self.ok("pack", self.tmp / "images", self.tmp / "whole", *options)
        self.assertSameTree(self.tmp / "parts", self.tmp / "whole")

    def test_a_hint_names_the_option(self):
        self.source()
        # Keep the output outside the folder of the source, because the test removes that folder.
        out = self.tmp.parent / f"{self.tmp.name}-out"
        self.addCleanup(shutil.rmtree, out)
        result = self.ok("pack", self.tmp, out, "--class-folders", "off", "--kind", "images")
        self.assertIn("hint: pack `SRC/images` with `--masks SRC/labels`", result.err)
