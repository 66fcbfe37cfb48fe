"""Makes synthetic hyperspectral cubes, float32, [height, width, channels]. Each pixel mixes smooth spectra in
proportions that vary over the picture, plus 1 % noise.
"""

import numpy as np
from PIL import Image

SHAPE = (480, 640, 100)


def noise(rng, height, width, cell):
    """Returns smooth noise between 0 and 1, with features about `cell` pixels wide."""
    coarse = rng.random((height // cell + 2, width // cell + 2), dtype=np.float32)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)).clip(0, 1)


def cube(seed, shape=SHAPE):
    """Returns a cube. The same seed gives the same cube on every machine, up to rounding."""
    height, width, channels = shape
    rng = np.random.default_rng(seed)
    knots = rng.random((8, 9))
    spectra = np.stack([np.interp(np.linspace(0, 8, channels), np.arange(9), row) for row in knots]).astype(np.float32)
    shares = np.stack([noise(rng, height, width, 40) ** 4 + 0.05 * noise(rng, height, width, 5) for _ in spectra], axis=2)
    shares /= shares.sum(axis=2, keepdims=True)
    values = shares.astype(np.float32) @ spectra
    values *= 1 + 0.01 * rng.standard_normal(shape, dtype=np.float32)
    return values


def write(folder, count, shape=SHAPE):
    """Writes `count` cubes as .npy files to a folder and returns the folder."""
    folder.mkdir(parents=True)
    for i in range(count):
        np.save(folder / f"cube{i:02d}.npy", cube(i, shape))
    return folder
