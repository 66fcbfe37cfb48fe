"""Describes which part of the picture each row of a batch shows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class Views:
    """The view of each row of a batch: the visible part of its picture, the size of that part in the batch, and whether
    it is mirrored. Rows without a picture have zeros.

    All attributes are NumPy arrays with one entry per row of the batch. Coordinates are in pixels. The first pixel
    extends from 0 to 1, so its centre is 0.5.
    """

    source: NDArray[np.int64]
    """Height and width of the whole picture, upright: ``[rows, 2]``."""
    crop: NDArray[np.float64]
    """Left, top, width and height of the visible part, in pixels of the whole picture: ``[rows,
    4]``. For a padded picture (``sp.view.pad``) it includes the borders, so left or top may be
    negative."""
    size: NDArray[np.int64]
    """Height and width of the visible part in the batch: ``[rows, 2]``."""
    flipped: NDArray[np.bool_]
    """True for rows that are mirrored left to right: ``[rows]``."""

    def to_source(self, row: int, points: ArrayLike) -> NDArray[np.float64]:
        """Map points in a row, such as predictions of a model, to the row's whole picture.

        Parameters
        ----------
        row : int
            Number of the row.
        points : array_like
            Points ``[…, 2]``: x and y in pixels of the row. A box is two points: pass ``boxes.reshape(-1, 2, 2)``.
            If the row is mirrored, exchange left and right afterwards.

        Returns
        -------
        numpy.ndarray
            The mapped points, float64 ``[…, 2]``.
        """
        there = _points(points)
        left, top, width, height = self.crop[row]
        x = self.size[row, 1] - there[..., 0] if self.flipped[row] else there[..., 0]
        return np.stack([left + x * width / self.size[row, 1], top + there[..., 1] * height / self.size[row, 0]], axis=-1)

    def from_source(self, row: int, points: ArrayLike) -> NDArray[np.float64]:
        """Map points in the whole picture to the row. This is the inverse of :meth:`to_source`. The results may lie
        outside the row.
        """
        here = _points(points)
        left, top, width, height = self.crop[row]
        x = (here[..., 0] - left) * self.size[row, 1] / width
        x = self.size[row, 1] - x if self.flipped[row] else x
        return np.stack([x, (here[..., 1] - top) * self.size[row, 0] / height], axis=-1)


def _points(points: ArrayLike) -> NDArray[np.float64]:
    there = np.asarray(points, np.float64)
    if there.ndim == 0 or there.shape[-1] != 2:
        shape = list(there.shape)
        raise ValueError(f"points: expected shape […, 2], with x and y on the last axis, found shape {shape}")
    return there
