"""What the rows of a batch show of their pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Views:
    """What each row of a batch shows of its picture, and how. Rows without a picture are zeros.

    All arrays are NumPy's, one row for each row of the batch. Coordinates are those of pixels: the first one reaches
    from 0 to 1, and its centre is 0.5.
    """

    source: NDArray[np.int64]
    """Height and width of the whole picture, upright: ``[rows, 2]``."""
    crop: NDArray[np.float64]
    """Left, top, width and height of what the row covers, in pixels of the whole picture: ``[rows, 4]``. Of a padded
    picture (``sp.view.pad``) it reaches beyond that, by what the borders take: left or top are negative then."""
    size: NDArray[np.int64]
    """Height and width of what the part became: ``[rows, 2]``."""
    flipped: NDArray[np.bool_]
    """Whether it is mirrored left to right: ``[rows]``."""

    def to_source(self, row: int, points: ArrayLike) -> NDArray[np.float64]:
        """Points in a row of the batch as points in its whole picture: to put back what a model predicts.

        Parameters
        ----------
        row : int
            Which row.
        points : array_like
            ``[…, 2]``: x and y in pixels of the row. Boxes are two points each: ``boxes.reshape(-1, 2, 2)``; those of a
            mirrored row have left and right exchanged afterwards.

        Returns
        -------
        numpy.ndarray
            As many, float64.
        """
        there = _points(points)
        left, top, width, height = self.crop[row]
        x = self.size[row, 1] - there[..., 0] if self.flipped[row] else there[..., 0]
        return np.stack([left + x * width / self.size[row, 1], top + there[..., 1] * height / self.size[row, 0]], axis=-1)

    def from_source(self, row: int, points: ArrayLike) -> NDArray[np.float64]:
        """The inverse of :meth:`to_source`: points in the whole picture as points in the row, which may lie outside."""
        here = _points(points)
        left, top, width, height = self.crop[row]
        x = (here[..., 0] - left) * self.size[row, 1] / width
        x = self.size[row, 1] - x if self.flipped[row] else x
        return np.stack([x, (here[..., 1] - top) * self.size[row, 0] / height], axis=-1)


def _points(points: ArrayLike) -> NDArray[np.float64]:
    there = np.asarray(points, np.float64)
    if there.ndim == 0 or there.shape[-1] != 2:
        raise ValueError(f"points: expected x and y along the last axis, found the shape {there.shape}")
    return there
