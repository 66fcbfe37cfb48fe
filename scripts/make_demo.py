"""Make the demo's two sources, a folder of pictures and a folder of cubes with masks. The output is deterministic.

    make_demo.py OUT [--pictures 300] [--seed 1]

    OUT/pictures/<class>/…       JPEGs, one PNG, and one PNG named .jpg; file names as in real trees
    OUT/cubes/…                  twelve cubes: .npy, ENVI, GeoTIFF with a no-data value, MATLAB v5
    OUT/masks/…                  a label mask for each cube, paired by stem
    OUT/truth/<stem>.npy         the values of each cube, [height, width, channels], to compare with after unpacking
    OUT/truth/masks/<stem>.npy   the values of each mask, [height, width]
"""

import argparse
import io
import struct
import zlib
from pathlib import Path

import numpy as np
import tifffile
from PIL import Image

CLASSES = ["finch", "magnolia", "tram", "yellow_lady's_slipper"]
ODD_NAMES = [
    "two words.jpg", "Größe.jpg", "50% off #1.jpg", "UPPER.JPEG", "a'quote.jpg", "plus+minus-.jpg", "dots.in.the.name.jpeg", "写真.jpg",
    "-starts-with-a-dash.jpg", "nested/deeper/still.jpg",
]
HEIGHT, WIDTH, BANDS = 96, 120, 60
WAVELENGTHS = np.linspace(400.0, 1000.0, BANDS).round(3)
NO_DATA = -9999.0


def smooth(rng, height, width, cell):
    """Return noise between 0 and 1 with features about `cell` pixels wide, [height, width]."""
    coarse = rng.random((height // cell + 2, width // cell + 2))
    image = Image.fromarray((coarse * 255).astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC)
    return np.asarray(image, dtype=np.float32) / 255


def picture(rng):
    """Return a picture with large shapes, texture and noise, uint8, [height, width, 3]."""
    height, width = int(rng.integers(180, 420)), int(rng.integers(200, 520))
    planes = [0.65 * smooth(rng, height, width, 64) + 0.25 * smooth(rng, height, width, 9) for _ in range(3)]
    pixels = np.stack(planes, axis=2) + rng.normal(0, 0.02, (height, width, 3))
    y, x = np.mgrid[:height, :width]
    for _ in range(4):
        centre_y, centre_x, radius = rng.integers(0, height), rng.integers(0, width), rng.integers(15, 70)
        inside = (y - centre_y) ** 2 + (x - centre_x) ** 2 < radius**2
        pixels[inside] = 0.6 * pixels[inside] + 0.4 * rng.random(3)
    return (pixels.clip(0, 1) * 255).astype(np.uint8)


def encode(pixels, kind, **options):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, kind, **options)
    return out.getvalue()


def make_pictures(root, count, rng):
    for number in range(count):
        name = ODD_NAMES[number] if number < len(ODD_NAMES) else f"{number:05d}.jpg"
        path = root / CLASSES[number % len(CLASSES)] / name
        pixels = picture(rng)
        if number % 23 == 11:
            pixels = pixels[:, :, 0]  # real sets have a few grey ones
        options = {"quality": int(rng.integers(80, 96)), "subsampling": int(rng.integers(0, 3)), "progressive": number % 31 == 30}
        data = encode(pixels, "JPEG", **options)
        if number == count - 1:
            path, data = path.with_suffix(".png"), encode(pixels, "PNG")
        if number == count - 2:
            data = encode(pixels, "PNG")  # still called .jpg
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def cube(rng):
    """Return reflectances between 0 and 1: mixtures of smooth spectra with sensor noise, float32, [height, width,
    channels].
    """
    members = np.stack([np.interp(WAVELENGTHS, np.linspace(400, 1000, 7), rng.random(7)) for _ in range(5)])
    shares = np.stack([smooth(rng, HEIGHT, WIDTH, 24) ** 3 for _ in members], axis=2)
    shares /= shares.sum(axis=2, keepdims=True)
    return (shares @ members + rng.normal(0, 0.004, (HEIGHT, WIDTH, BANDS))).clip(0.001, 1).astype(np.float32)


def envi(path, values, interleave, big_endian, data_suffix):
    order = {"bsq": (2, 0, 1), "bil": (0, 2, 1), "bip": (0, 1, 2)}[interleave]
    code = {"float32": 4, "float64": 5, "uint16": 12}[values.dtype.name]
    stored = values.transpose(order).astype(values.dtype.newbyteorder(">" if big_endian else "<"))
    path.with_suffix(data_suffix).write_bytes(stored.tobytes())
    lines = ["ENVI", "; made for the demo", f"samples = {values.shape[1]}", f"lines = {values.shape[0]}", f"bands = {values.shape[2]}"]
    lines += [f"data type = {code}", f"interleave = {interleave}", f"byte order = {int(big_endian)}"]
    lines += ["wavelength units = Nanometers", "wavelength = {", ", ".join(map(str, WAVELENGTHS)) + "}", ""]
    path.with_suffix(".hdr").write_text("\n".join(lines))


def geotiff(path, values, **options):
    pixel_scale, tie_point = (30.0, 30.0, 0.0), (0.0, 0.0, 0.0, 380000.0, 5820000.0, 0.0)
    extra = [(33550, "d", 3, pixel_scale, True), (33922, "d", 6, tie_point, True), (42113, "s", 0, str(int(NO_DATA)), True)]
    bands_first = np.ascontiguousarray(values.transpose(2, 0, 1)) if options.get("planarconfig") == "separate" else values
    tifffile.imwrite(path, bands_first, photometric="minisblack", extratags=extra, metadata=None, **options)


def savemat(path, variables, compress=False):
    """Write real arrays to a MATLAB 5 file without SciPy. SciPy takes 140 MB, and nothing else in the demo needs it."""

    def element(kind, data):
        return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)

    def matrix(name, values):
        matlab_class, kind = {"float64": (6, 9), "float32": (7, 7), "uint8": (9, 2)}[values.dtype.name]
        parts = element(6, struct.pack("<II", matlab_class, 0))
        parts += element(5, struct.pack(f"<{values.ndim}i", *values.shape))
        return element(14, parts + element(1, name.encode()) + element(kind, values.tobytes(order="F")))

    out = b"MATLAB 5.0 MAT-file, made for the demo".ljust(116) + bytes(8) + struct.pack("<H", 0x0100) + b"IM"
    for name, values in variables.items():
        stored = matrix(name, np.atleast_2d(values))
        if compress:
            packed = zlib.compress(stored)
            stored = struct.pack("<II", 15, len(packed)) + packed
        out += stored
    path.write_bytes(out)


def make_cubes(root, rng):
    cubes, masks, truth = root / "cubes", root / "masks", root / "truth"
    for folder in (cubes, masks, truth / "masks"):
        folder.mkdir(parents=True, exist_ok=True)

    values = {}
    for stem in ["plain", "fortran", "big endian", "double", "bsq", "bil", "bip", "planar", "interleaved", "counts", "single", "matlab"]:
        values[stem] = cube(rng)
    np.save(cubes / "plain.npy", values["plain"])
    np.save(cubes / "fortran.npy", np.asfortranarray(values["fortran"]))
    np.save(cubes / "big endian.npy", values["big endian"].astype(">f4"))
    values["double"] = values["double"].astype(np.float64)
    values["double"][3:6, 7, :] = np.nan
    np.save(cubes / "double.npy", values["double"])

    envi(cubes / "bsq", values["bsq"], "bsq", False, ".raw")
    values["bil"] = (values["bil"] * 4095).astype(np.uint16)
    envi(cubes / "bil", values["bil"], "bil", False, "")
    envi(cubes / "bip", values["bip"], "bip", True, ".img")

    values["planar"][:10, :20] = NO_DATA
    geotiff(cubes / "planar.tif", values["planar"], planarconfig="separate")
    geotiff(cubes / "interleaved.tif", values["interleaved"], planarconfig="contig", compression="zlib", predictor=False, bigtiff=True)
    # Make one cube of integers stored as float32, as in satellite products. Packing must store it without loss.
    values["counts"] = (values["counts"] * 10000).round()
    values["counts"][:, :5] = NO_DATA
    geotiff(cubes / "counts.tif", values["counts"], planarconfig="separate", byteorder=">")

    savemat(cubes / "single.mat", {"cube": values["single"], "wl": WAVELENGTHS}, compress=True)
    values["matlab"] = values["matlab"].astype(np.float64)
    savemat(cubes / "matlab.mat", {"scene": values["matlab"]})

    for number, (stem, array) in enumerate(values.items()):
        np.save(truth / f"{stem}.npy", array)
        labels = (smooth(rng, HEIGHT, WIDTH, 30) * 4.999).astype(np.uint8)
        np.save(truth / "masks" / f"{stem}.npy", labels)
        match number % 4:
            case 0: np.save(masks / f"{stem}.npy", labels.astype(np.int64))
            case 1: Image.fromarray(labels).save(masks / f"{stem}.png")
            case 2: tifffile.imwrite(masks / f"{stem}.tif", labels.astype(np.float32), metadata=None)
            case 3: savemat(masks / f"{stem}.mat", {"gt": labels})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--pictures", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    make_pictures(options.out / "pictures", options.pictures, np.random.default_rng(options.seed))
    make_cubes(options.out, np.random.default_rng([options.seed, 2]))


if __name__ == "__main__":
    main()
