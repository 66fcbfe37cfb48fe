"""Tests the Python code of docs/tiled-jpeg.md: it must return the same pixels as a full decode, also with another
encoder and decoder. Also tests that the worked example and the pictures on the page are up to date.
"""

import io
import random
import subprocess
import sys
import unittest
from pathlib import Path

import numpy as np
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "docs"))

import cut_jpeg  # noqa: E402


def decode(jpeg):
    """Return the pixels decoded by libjpeg-turbo with default settings."""
    return np.asarray(Image.open(io.BytesIO(jpeg)))


def picture(rng, width, height, mode):
    noise = np.random.default_rng(rng.randrange(2**32))
    slopes = np.add.outer(np.arange(height) * 3, np.arange(width) * 2)[..., None] * np.array([1, 2, 3])
    pixels = ((slopes + noise.integers(0, 120, (height, width, 3))) % 256).astype(np.uint8)
    return Image.fromarray(pixels).convert(mode)


class TiledJpeg(unittest.TestCase):
    def test_cuts_are_equal_to_the_bit(self):
        rng = random.Random(1)
        smaller = 0
        for case in range(600):
            mode, sampling, mcu = rng.choice([("L", None, 8), ("RGB", "4:4:4", 8), ("RGB", "4:2:2", 16), ("RGB", "4:2:0", 16)])
            width, height = rng.randint(1, 150), rng.randint(1, 150)
            per_row = -(-width // mcu)
            interval = rng.choice([k for k in range(1, per_row + 1) if per_row % k == 0] + [2 * per_row])
            more = {"subsampling": sampling} if sampling else {}
            file = io.BytesIO()
            picture(rng, width, height, mode).save(file, "JPEG", quality=80, restart_marker_blocks=interval, **more)
            jpeg = file.getvalue()
            x, y = rng.randrange(width), rng.randrange(height)
            w, h = rng.randint(1, width - x), rng.randint(1, height - y)
            with self.subTest(case=case, mode=mode, sampling=sampling, size=(width, height), interval=interval, rect=(x, y, w, h)):
                out, (left, top, shown_width, shown_height) = cut_jpeg.cut(jpeg, x, y, w, h)
                pixels = decode(out)
                self.assertEqual(pixels.shape[:2], (shown_height, shown_width))
                found = pixels[y - top : y - top + h, x - left : x - left + w]
                np.testing.assert_array_equal(found, decode(jpeg)[y : y + h, x : x + w])
                smaller += len(out) < len(jpeg)
        self.assertGreater(smaller, 300, "most of the rectangles leave tiles out")

    def test_pictures_whose_markers_do_not_divide_the_row_are_not_cut(self):
        rng = random.Random(2)
        file = io.BytesIO()
        # A row has seven MCUs, which is not a multiple of the restart interval of three.
        picture(rng, 56, 40, "RGB").save(file, "JPEG", subsampling="4:4:4", restart_marker_blocks=3)
        jpeg = file.getvalue()
        self.assertEqual(cut_jpeg.cut(jpeg, 8, 8, 8, 8), (jpeg, (0, 0, 56, 40)))

    def test_the_worked_example(self):
        jpeg = (ROOT / "crates/jpeg/testdata/tiles.jpg").read_bytes()
        out, shown = cut_jpeg.cut(jpeg, 17, 17, 31, 15)
        self.assertEqual((len(out), shown), (305, (16, 16, 32, 16)))
        page = (ROOT / "docs/tiled-jpeg.md").read_text(encoding="utf-8")
        dump = "".join(f"{at:04x}  {out[at : at + 16].hex(' ')}\n" for at in range(0, len(out), 16))
        self.assertIn(dump, page)

    def test_the_pictures_are_up_to_date(self):
        script = ROOT / "docs/pictures/make.py"
        done = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
