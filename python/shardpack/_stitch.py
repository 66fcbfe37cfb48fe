"""Joins predictions of patches into whole scenes."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from shardpack import _shardpack
from shardpack._batch import Batch
from shardpack._loader import Loader

__all__ = ["Scene", "Stitcher", "stitch"]


@dataclass(frozen=True)
class Scene:
    """A whole scene, joined from the predictions of its patches."""

    key: str
    """Key of the sample."""
    index: int
    """Index of the sample in the loader's dataset."""
    values: NDArray[Any]
    """``[height, width]``, ``[height, width, channels]`` or ``[channels, height, width]``, like the predictions."""


@dataclass
class _Open:
    """A scene that still lacks some patches."""

    key: str
    sums: NDArray[np.floating[Any]]
    weights: NDArray[np.floating[Any]]
    wanted: int
    came: set[tuple[int, ...]] = field(default_factory=set)


def stitch(
    loader: Loader, *, window: Literal["uniform", "hann"] = "uniform", dtype: Literal["float64", "float32"] = "float64"
) -> Stitcher:
    """Join predictions for the patches of a loader with ``patches="grid"`` into whole scenes.

    Where patches overlap, a pixel is the weighted mean of their predictions. The mean of equal predictions is exactly
    that value if the sums are float64, ``window="uniform"``, and the predictions are float32, float16 or integers of up
    to 53 bits. Otherwise the last bit may differ.

    An unfinished scene takes ``height × width × (channels + 1) × 8`` bytes of memory. For 5,000 × 5,000 pixels and 10
    classes, this is 2.2 GB, and 1 GB more while the scene is converted to float32. With ``dtype="float32"`` the same
    scene takes 1.1 GB, and 1 GB more at the end if channels are first. With ``shuffle=False`` only one scene is in
    memory at a time; otherwise all open scenes of the loader are.

    Parameters
    ----------
    loader : Loader
        The loader of the batches. It must yield every patch: ``patches="grid"``, one rank, ``end="pad"`` or
        ``"uneven"``, and no ``augment``, ``weights`` or ``mix``.
    window : "uniform" or "hann", default "uniform"
        Weights of the pixels of a patch. ``"uniform"``: all weights are equal. ``"hann"``: the weights rise from
        almost 0 at the borders to 1 in the middle, which hides seams between patches that overlap by half.
    dtype : "float64" or "float32", default "float64"
        Type of the sums. ``"float32"`` halves the memory. Where patches overlap, the last bits of float32
        predictions may then differ, and integers are exact only up to 24 bits.

    Returns
    -------
    Stitcher
        An object that takes batches and predictions, and returns whole scenes.

    Raises
    ------
    UsageError
        The loader does not yield every patch of a grid exactly once and unchanged.

    Examples
    --------
    >>> import shardpack as sp
    >>> options = {"cube": "patch64x64", "patches": "grid", "overlap": 32, "shuffle": False, "end": "uneven"}
    >>> loader = sp.Loader(sp.Dataset("scenes"), 16, fields=["cube"], **options)               # doctest: +SKIP
    >>> with sp.stitch(loader, window="hann") as stitcher:                                      # doctest: +SKIP
    ...     for batch in loader:
    ...         for scene in stitcher.add(batch, model(batch["cube"])):
    ...             np.save(scene.key, scene.values)
    """
    return Stitcher(loader, window, dtype)


class Stitcher:
    """Joins predictions, as described in :func:`stitch`. Holds the sums and weights of unfinished scenes."""

    def __init__(self, loader: Loader, window: str = "uniform", dtype: str = "float64") -> None:
        if not isinstance(loader, Loader):
            raise TypeError(f"stitch: expected a Loader, found {type(loader).__name__}")
        options = loader._core.options
        sides = options.cube.removeprefix("patch").split("x")
        if options.patches != 0:
            raise _shardpack.UsageError('stitch: the loader must have patches="grid"')
        if options.augment is not None:
            raise _shardpack.UsageError(f"stitch: the loader must be created without augment, but has augment={options.augment!r}")
        if options.mix is not None or options.balanced or options.weights is not None or options.class_weights is not None:
            raise _shardpack.UsageError("stitch: the loader must return each scene exactly once, so weights and mix cannot be used")
        if loader.world_size > 1:
            raise _shardpack.UsageError(
                f"stitch: rank {loader.rank} of {loader.world_size} gets only some of the patches of each scene\n"
                "hint: assign whole scenes to each rank: "
                "Loader(dataset.subset(range(rank, len(dataset), ranks)), rank=0, world_size=1, …)"
            )
        if options.end == "drop":
            raise _shardpack.UsageError(
                'stitch: end="drop" would drop patches\nhint: pass end="uneven" or end="pad"'
            )
        if window not in ("uniform", "hann"):
            raise _shardpack.UsageError(f"window: expected 'uniform' or 'hann', found {window!r}")
        if dtype not in ("float64", "float32"):
            raise _shardpack.UsageError(f"dtype: expected 'float64' or 'float32', found {dtype!r}")
        self._size = tuple(int(side) for side in sides)
        self._overlap = options.overlap[-len(self._size) :]
        self._channels_first = options.layout != "hwc"
        self._type: np.dtype[np.floating[Any]] = np.dtype(dtype)
        self._weights = _weights(window, self._size).astype(self._type)
        self._open: dict[int, _Open] = {}
        # Number of missing patches of each damaged scene that the loader skipped, by key.
        self._skipped: Counter[str] = Counter()
        self._adding = threading.Lock()

    def add(self, batch: Batch, predictions: Any) -> list[Scene]:
        """Add the predictions for a batch. This may be called from several threads.

        Parameters
        ----------
        batch : Batch
            A batch of the loader.
        predictions : array_like
            Predictions of shape ``[rows, height, width]`` or ``[rows, height, width, channels]``, or ``[rows, channels,
            height, width]`` if the loader has ``layout="chw"``. Height and width are the size of the patch. For
            volumes, depth comes before height. PyTorch tensors may be on a device. Rows without a sample are ignored.

        Returns
        -------
        list of Scene
            The scenes that this batch completed. They have the element type of the predictions if it is a float type,
            otherwise the type of the sums.
        """
        values = _array(predictions)
        axes = len(self._size)
        first = self._channels_first and values.ndim == axes + 2
        fits = values.ndim in (axes + 1, axes + 2) and values.shape[0] == len(batch)
        if not fits or values.shape[2 if first else 1 :][:axes] != self._size:
            sides, rows = ", ".join(map(str, self._size)), len(batch)
            with_channels = f"channels, {sides}" if self._channels_first else f"{sides}, channels"
            raise ValueError(
                f"predictions: expected the shape [{rows}, {sides}] or [{rows}, {with_channels}], found {list(values.shape)}"
            )
        if not (np.issubdtype(values.dtype, np.number) or values.dtype == np.bool_) or np.iscomplexobj(values):
            raise TypeError(f"predictions: expected numbers, found {values.dtype}")
        if first:
            values = np.moveaxis(values, 1, -1)
        mask, indices = _array(batch.mask).astype(np.bool_), _array(batch.indices).astype(np.int64)
        with self._adding:
            return self._add(batch, values, (mask, indices), first)

    def _add(
        self, batch: Batch, values: NDArray[Any], rows: tuple[NDArray[np.bool_], NDArray[np.int64]], first: bool
    ) -> list[Scene]:
        axes, (mask, indices) = len(self._size), rows
        origins, sizes = batch.origins, batch.scene_sizes
        done = []
        self._skipped.update(batch.sample_keys[row] for row in np.flatnonzero(~mask & (indices >= 0)).tolist())
        # A sample without the array has no scene.
        for row in np.flatnonzero(mask & (sizes >= 0).all(axis=1)).tolist():
            index, origin = int(indices[row]), tuple(origins[row].tolist())
            scene = self._open.get(index)
            if scene is None:
                scene = self._begin(batch.sample_keys[row], sizes[row].tolist(), values.shape[1 + axes :])
                self._open[index] = scene
            self._put(scene, origin, values[row])
            if len(scene.came) == scene.wanted:
                del self._open[index]
                done.append(Scene(scene.key, index, self._whole(scene, values.dtype, first)))
        return done

    def _begin(self, key: str, size: list[int], channels: tuple[int, ...]) -> _Open:
        wanted = 1
        for length, side, overlap in zip(size, self._size, self._overlap, strict=True):
            wanted *= 1 + -((side - length) // (side - overlap))
        return _Open(key, np.zeros((*size, *channels), self._type), np.zeros(size, self._type), wanted)

    def _put(self, scene: _Open, origin: tuple[int, ...], values: NDArray[Any]) -> None:
        if origin in scene.came:
            raise _shardpack.UsageError(f"scene {scene.key!r}: the patch at {list(origin)} was added twice")
        axes = len(self._size)
        if values.shape[axes:] != scene.sums.shape[axes:]:
            raise ValueError(
                f"scene {scene.key!r}: the predictions have {_channels(values.shape[axes:])}, "
                f"but those for earlier patches had {_channels(scene.sums.shape[axes:])}"
            )
        scene.came.add(origin)
        here = tuple(slice(start, start + side) for start, side in zip(origin, self._size, strict=True))
        weights = self._weights if values.ndim == axes else self._weights[..., None]
        scene.sums[here] += values * weights
        scene.weights[here] += self._weights

    def _whole(self, scene: _Open, dtype: np.dtype[Any], first: bool) -> NDArray[Any]:
        weights = scene.weights if scene.sums.ndim == scene.weights.ndim else scene.weights[..., None]
        values = scene.sums
        values /= weights
        to = dtype if np.issubdtype(dtype, np.floating) else self._type
        # This copies the values at most once, because `moveaxis` returns a view.
        return np.ascontiguousarray(np.moveaxis(values, -1, 0), to) if first else values.astype(to, copy=False)

    @property
    def missing(self) -> dict[str, int]:
        """Number of missing patches by key, for unfinished scenes and for damaged scenes that the loader skipped."""
        begun = {scene.key: scene.wanted - len(scene.came) for scene in self._open.values()}
        return dict(self._skipped) | begun

    def close(self) -> None:
        """Finish and check that no patches are missing. Scenes that received no patch are not reported.

        Raises
        ------
        UsageError
            Patches of some scenes are missing, because the epoch stopped early or damaged scenes were skipped.
        """
        missing = self.missing
        if not missing:
            return
        wanted = dict(self._skipped) | {scene.key: scene.wanted for scene in self._open.values()}
        self._open.clear()
        self._skipped.clear()
        some = ", ".join(f"{count} of {wanted[key]} in scene {key!r}" for key, count in list(missing.items())[:3])
        others = len(missing) - 3
        more = f", and some in {others} more scene{'' if others == 1 else 's'}" if others > 0 else ""
        raise _shardpack.UsageError(
            f"patches are missing: {some}{more}\n"
            "hint: pass every batch of the epoch to add(), and repair or leave out the damaged scenes that the loader "
            "skipped"
        )

    def __enter__(self) -> Stitcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # An error about missing patches must not hide an error that the block has raised.
        if error is None:
            self.close()

    def __repr__(self) -> str:
        count = len(self._open)
        return f"Stitcher({'x'.join(map(str, self._size))}, {count} unfinished scene{'' if count == 1 else 's'})"


def _channels(shape: tuple[int, ...]) -> str:
    return f"{shape[0]} channel{'' if shape[0] == 1 else 's'}" if shape else "no channel axis"


def _weights(window: str, size: tuple[int, ...]) -> NDArray[np.float64]:
    weights = np.ones(size)
    if window == "hann":
        for axis, side in enumerate(size):
            # Sample the window at pixel centres, so that no weight is 0 and every pixel gets a value.
            one = np.sin(np.pi * (np.arange(side) + 0.5) / side) ** 2
            weights *= one.reshape([-1 if other == axis else 1 for other in range(len(size))])
    return weights


def _array(values: Any) -> NDArray[Any]:
    """Return a NumPy array. Copies PyTorch tensors to the host first."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":
            values = values.float()
    return np.asarray(values.get() if hasattr(values, "get") and hasattr(values, "__cuda_array_interface__") else values)
