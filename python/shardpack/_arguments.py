"""Checks the arguments of a loader and converts them for the Rust extension."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from math import isfinite
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shardpack import _shardpack
from shardpack._concat import Concat
from shardpack._dataset import Dataset
from shardpack._keywords import names
from shardpack._numbers import whole
from shardpack._options import Numbers
from shardpack._similar import did_you_mean, similar
from shardpack._warn import warn
from shardpack.view import Crop, crop

Shuffle: TypeAlias = "bool | Literal['windowed', 'full']"
"""Order in which a loader draws samples."""
Weights: TypeAlias = "Literal['balanced'] | Mapping[int, float] | Mapping[str, float] | ArrayLike"
"""Weights by which a loader draws samples."""

# Hints for keywords that programs pass out of habit, because PyTorch's DataLoader has them.
_HABITS = {
    "batch": "did you mean 'batch_size'?",
    "num_workers": "pass threads=…, the number of threads that read and decode (default: one for each core)",
    "prefetch_factor": "pass prefetch=…, the number of batches in memory",
    "persistent_workers": "remove this argument: the loader keeps its threads until it is closed",
    "worker_init_fn": "pass seed=…, which seeds all random draws; there are no worker processes",
    "generator": "pass seed=…, which seeds all random draws",
    "drop_last": 'pass end="drop" (the default), "pad" or "uneven" to choose what happens to an incomplete last batch',
    "pin_memory": 'pass to="torch" and device="cuda" to decode on the GPU',
    "normalize": 'pass dtype="float32", mean=… and std=… to normalise as torchvision does',
    "collate_fn": "remove this argument: the values of a batch are already tensors, which you can change in your loop",
    "sampler": "pass weights=… to draw samples by weight, or select samples with dataset.subset(…)",
    "batch_sampler": "pass weights=… to draw samples by weight, or select samples with dataset.subset(…)",
}


def _number(name: str, value: Any, least: int, most: int) -> int:
    number = whole(name, value)
    if not least <= number <= most:
        raise _shardpack.UsageError(f"{name}: expected a number from {least} to {most}, found {number}")
    return number


def _frames(frames: int | str) -> str:
    return frames if isinstance(frames, str) else str(_number("frames", frames, 1, 2**16))


def _place(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Return the given rank and world size. Default: the values of ``torch.distributed`` if it is initialised,
    otherwise 0 and 1.
    """
    if rank is not None and world_size is not None:
        return rank, world_size
    if rank is not None or world_size is not None:
        raise _shardpack.UsageError("pass both rank and world_size, or neither")
    # No need to import torch: if the program has not imported it, torch.distributed is not initialised.
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def _threads(threads: int | None, workers: int) -> int:
    """Return the number of loader threads. If several ranks share the machine, the default is this rank's share of the
    cores. Otherwise it is 0, which means one per core. Each worker process gets at least one thread.
    """
    if threads is not None:
        if (threads := _number("threads", threads, 1, 4096)) < workers:
            raise ValueError(f"transform_workers={workers} is more than threads={threads}, but each worker process needs a thread")
        return threads
    share = _share()
    return share if workers <= (share or _shardpack.cores()) else workers


def _share() -> int:
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    ranks, cores = int(text) if text.isdecimal() else 1, _shardpack.cores()
    if ranks < 2 or _is_bound(ranks, cores):
        return 0
    share = max(1, cores // ranks)
    # Only one rank of each machine warns.
    if os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0":
        _say_share(share, cores, ranks)
    return share


def _is_bound(ranks: int, cores: int) -> bool:
    """True if each rank is already bound to its own cores: the rank may use fewer cores than its launcher, and the
    launcher has enough for all ranks. The core count of the machine is not used, because a container may have fewer
    cores.
    """
    ours = len(os.sched_getaffinity(0))
    if cores < ours:
        # All ranks share the CPU quota of the container.
        return False
    try:
        launcher = len(os.sched_getaffinity(os.getppid() or os.getpid()))
    except OSError:
        # The affinity of the launcher is unknown: the launcher has ended or belongs to another user.
        return False
    return ours < launcher and ours * ranks <= launcher


@cache
def _say_share(share: int, cores: int, ranks: int) -> None:
    warn(
        f"the loader of each rank uses threads={share}, because {ranks} ranks share {cores} cores (LOCAL_WORLD_SIZE)\n"
        f"hint: to silence this warning, pass threads={share} or a different number, or bind each rank to separate cores"
    )


def _order(shuffle: Shuffle, weights: Weights | None) -> str:
    orders: dict[Any, str] = {False: "stored", True: "windowed", "windowed": "windowed", "full": "full"}
    if not isinstance(shuffle, bool | str) or shuffle not in orders:
        raise _shardpack.UsageError(f"shuffle: expected True, False, 'windowed' or 'full', found {shuffle!r}")
    if weights is not None and shuffle is not True:
        raise _shardpack.UsageError(
            f"weights need shuffle=True, but shuffle is {shuffle!r}"
        )
    return orders[shuffle]


def _lanes(lanes: int | None, shuffle: Shuffle, weights: Weights | None) -> int:
    if lanes is None:
        return _shardpack.LANES
    if weights is not None:
        raise _shardpack.UsageError("lanes and weights cannot be combined")
    if shuffle not in (True, "windowed"):
        raise _shardpack.UsageError(f"lanes={lanes!r} needs shuffle=True, but shuffle is {shuffle!r}")
    return _number("lanes", lanes, 1, 2**32 - 1)


def _known(unknown: Mapping[str, object], known: Iterable[str]) -> None:
    for name in unknown:
        hint = _HABITS.get(name) or similar(name, known, cutoff=0.7) or "see help(shardpack.Loader) for all keywords"
        raise TypeError(f"Loader() got an unexpected keyword argument {name!r}\nhint: {hint}")


def _expect_dataset(dataset: object) -> None:
    if isinstance(dataset, Dataset):
        return
    hint = ""
    if isinstance(dataset, str | os.PathLike):
        hint = f"\nhint: pass shardpack.Dataset({os.fspath(dataset)!r})"
    elif isinstance(getattr(dataset, "dataset", None), Dataset) and hasattr(dataset, "indices"):
        # torch.utils.data.random_split returns such an object.
        hint = "\nhint: for a part that random_split returned, pass part.dataset.subset(part.indices)"
    raise TypeError(f"dataset: expected a shardpack.Dataset, found {type(dataset).__name__}{hint}")


def _text(name: str, value: object, such_as: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a string such as {such_as!r}, found {value!r}")
    return value


def _fields(
    fields: Sequence[str] | None, dataset: Dataset, cube: str, align: Sequence[tuple[str, str]]
) -> tuple[list[str], list[str], frozenset[str]]:
    """Return three groups of names: all fields of a batch, the tensors among them, and the arrays returned as lists."""
    kinds = {field.name: field.kind for field in dataset.schema}
    plain = {name for name, kind in kinds.items() if kind in ("text", "json", "bytes")}
    # Patches all have the same size, so they form a tensor even if the arrays differ in shape.
    varying = frozenset(dataset._core.varying_arrays()) if cube == "whole" else frozenset[str]()
    for name, text in align:
        if text.split(",")[0] == "mask":
            varying -= {name}
        elif kinds.get(name) == "array":
            varying |= {name}
    chosen = names("fields", fields)
    if chosen is None:
        # Aligned polygons are loaded by default too, although they are JSON.
        polygons = {name for name, _ in align if kinds.get(name) == "json"}
        chosen = [name for name in kinds if name not in plain or name in polygons]
    if len(set(chosen)) < len(chosen):
        twice = next(name for name in chosen if chosen.count(name) > 1)
        raise _shardpack.UsageError(f"fields: {twice!r} is listed more than once")
    return chosen, [name for name in chosen if name not in plain and name not in varying], varying


def _dtype(dtype: Any) -> str | None:
    """Return the element types of arrays as a string, such as ``float16`` or ``cube=float16,mask=int64``."""
    if dtype is None:
        return None
    if isinstance(dtype, Mapping):
        return ",".join(f"{field}={_type(of)}" for field, of in dtype.items()) or None
    return _type(dtype)


def _type(dtype: Any) -> str:
    """Return the name of a NumPy, PyTorch (``torch.float16``) or JAX element type."""
    name = str(dtype)
    if type(dtype).__module__ == "torch":
        name = name.removeprefix("torch.")
    if name == _BFLOAT16:
        # NumPy knows bfloat16 only after `ml_dtypes` is imported.
        return name
    try:
        return str(np.dtype(dtype if name == str(dtype) else name).name)
    except TypeError:
        raise TypeError(f"dtype: expected an element type such as 'float16', found {dtype!r}") from None


_BFLOAT16 = "bfloat16"


def _holds(dtype: str | None, to: str | None) -> None:
    """Raise an error if the tensor library ``to`` does not support the element type ``dtype``."""
    if dtype is None or _BFLOAT16 not in (part.rpartition("=")[2] for part in dtype.split(",")):
        return
    if to in (None, "numpy") and find_spec("ml_dtypes") is None:
        raise _shardpack.UsageError(
            'dtype: NumPy has no bfloat16\nhint: pass to="torch" or to="jax", or run: pip install ml_dtypes'
        )
    if to == "cupy":
        raise _shardpack.UsageError('dtype: CuPy has no bfloat16\nhint: pass to="torch" or to="jax"')


Numbered: TypeAlias = "ArrayLike | Mapping[str, ArrayLike] | None"
"""Numbers for pictures, or a mapping from field name to numbers."""


def _normalised(
    mean: Numbered, std: Numbered, dataset: Dataset
) -> tuple[tuple[Numbers, Numbers] | None, list[tuple[str, Numbers, Numbers]]]:
    """Return the means and standard deviations: for pictures (or ``None``), and for each array field."""
    if mean is None and std is None:
        return None, []
    if not isinstance(mean, Mapping) and not isinstance(std, Mapping):
        return (_numbers("mean", mean, 0.0), _numbers("std", std, 1.0)), []
    means, stds = ({} if one is None else one for one in (mean, std))
    if not isinstance(means, Mapping) or not isinstance(stds, Mapping):
        raise TypeError("pass mean and std in the same form: both as numbers, or both as dicts {field: numbers}")
    pictures: tuple[Numbers, Numbers] | None = None
    arrays: list[tuple[str, Numbers, Numbers]] = []
    kinds = {field.name: field.kind for field in dataset.schema}
    for name in {**means, **stds}:
        pair = _numbers(f"mean of {name}", means.get(name), 0.0), _numbers(f"std of {name}", stds.get(name), 1.0)
        if kinds.get(name) != "image":
            arrays.append((name, *pair))
        elif pictures in (None, pair):
            pictures = pair
        else:
            raise _shardpack.UsageError("mean and std must be the same for all picture fields")
    return pictures, arrays


def _numbers(name: str, given: Any, default: float) -> Numbers:
    """Return the number or numbers of an option as a list of floats. The Rust extension checks their range."""
    try:
        numbers = np.asarray(default if given is None else given, np.float64)
    except (TypeError, ValueError):
        numbers = np.empty((0, 0))
    if numbers.ndim > 1:
        expected = "a number, or one for each channel or band"
        raise TypeError(f"{name}: expected {expected}, found {given!r}")
    return [float(number) for number in np.atleast_1d(numbers)]


def _no_data(given: float | Mapping[str, float] | None) -> float | list[tuple[str, float]] | None:
    """Return the replacement for no-data values: one number for all cubes, or one per field."""
    if isinstance(given, Mapping):
        return [(str(name), _single(f"no_data of {name}", value)) for name, value in given.items()]
    return None if given is None else _single("no_data", given)


def _single(name: str, value: Any) -> float:
    """Return the number as a float. It must be within the range of float32."""
    if isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name}: expected a number, found {value!r}")
    number = float(value)
    if isfinite(number) and abs(number) > float(np.finfo(np.float32).max):
        raise _shardpack.UsageError(f"{name}: expected a number within the range of float32, found {number!r}")
    return number


def _crops(crops: Sequence[str | Crop] | None) -> list[Crop]:
    """Expand ``times``: return one crop per field."""
    if crops is None:
        return []
    if isinstance(crops, str) or not isinstance(crops, Sequence):
        raise TypeError(f"crops: expected a list of views, such as ['rrc224', 'rrc224'], found {crops!r}")
    several = []
    for given in crops:
        one = crop(given) if isinstance(given, str) else given
        if not isinstance(one, Crop):
            raise TypeError(f"crops: expected a view such as 'rrc224' or shardpack.view.crop('rrc224', times=2), found {given!r}")
        own = [one.name] if one.name is None or one.times == 1 else [f"{one.name}_{n}" for n in range(one.times)]
        several += [Crop(one.view, one.augment, 1, name) for name in own * (one.times // len(own))]
    if not several:
        raise _shardpack.UsageError("crops: the list is empty; pass at least one view")
    return several


def _augment(augment: str | Sequence[str] | None) -> str | None:
    if augment is None:
        return None
    words = [augment] if isinstance(augment, str) else list(augment)
    if not all(isinstance(word, str) for word in words):
        raise TypeError(f"augment: expected augmentations such as 'hflip' or shardpack.augment.color_jitter(...), found {augment!r}")
    return ",".join(words) if words else None


def _mix_batch(
    augment: str | Sequence[str] | None, num_classes: int | None, dataset: Dataset, has_aligned: bool
) -> tuple[list[str], int] | None:
    """Return the batch augmentations as strings, and the number of classes. The number is 0 if no label is mixed."""
    texts = [augment] if isinstance(augment, str) else list(augment or ())
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"augment_batch: expected the result of shardpack.augment.mixup, cutmix or mosaic, found {augment!r}")
    if not texts:
        if num_classes is not None:
            raise _shardpack.UsageError("num_classes has an effect only with augment_batch")
        return None
    if num_classes is None:
        # No label is needed, or the loader itself checks for one.
        if dataset.classes is None and (has_aligned or all(text.startswith("mosaic") for text in texts)):
            return texts, 0
        if dataset.classes is None:
            raise _shardpack.UsageError(
                "augment_batch: the dataset has no class names, so the number of classes is unknown\nhint: pass the number of classes, such as num_classes=1000"
            )
        num_classes = len(dataset.classes)
    return texts, _number("num_classes", num_classes, 1, 2**24)


def _bands(bands: slice | Sequence[int] | str | None) -> str | list[int] | None:
    """Return the bands as a string or as a list of numbers. ``None`` means all bands."""
    if bands is None or isinstance(bands, str):
        return bands
    if isinstance(bands, slice):
        if bands.stop is None or (bands.start or 0) < 0 or bands.stop < 0:
            raise _shardpack.UsageError(
                f"bands: {bands} must have an end, and its start and end must not be negative\n"
                "hint: get the number of bands from ds[0]['cube'].shape[2]"
            )
        chosen = list(range(bands.start or 0, bands.stop, bands.step or 1))
        if not chosen:
            raise _shardpack.UsageError(f"bands: {bands} selects no bands")
        return chosen
    given = list(bands)
    if any(isinstance(band, (bool, np.bool_)) for band in given):
        # In Python, True equals 1, so a mask would pass as band numbers.
        raise TypeError("bands: expected band numbers, found a boolean mask\nhint: pass bands=np.flatnonzero(mask)")
    return [_number("bands", band, 0, 2**32 - 1) for band in given]


def _patches(each: int, kind: str | Mapping[int, float], overlap: int | Sequence[int], scenes: int | None, cube: str) -> dict[str, Any]:
    """Return the options for patches. ``patches`` is the number of patches per sample, or 0 for a grid.

    ``overlap`` always has three axes. For two-dimensional patches, the overlap of planes is 0.
    """
    weights = None
    if isinstance(kind, Mapping):
        given = kind.items()
        weights = {_number("class in patches", label, -(2**63), 2**63 - 1): float(weight) for label, weight in given}
    elif _text("patches", kind, "grid") not in ("random", "grid", "balanced"):
        raise _shardpack.UsageError(f"patches: expected 'random', 'grid', 'balanced' or class weights, found {kind!r}")
    each = _number("patches_per_sample", each, 1, 2**32 - 1)
    axes = 3 if cube.count("x") == 2 else 2
    sides = list(overlap) if isinstance(overlap, Sequence) and not isinstance(overlap, str) else [overlap] * axes
    if len(sides) != axes:
        raise _shardpack.UsageError(
            f"overlap: expected a number of pixels, or one for each of the {axes} axes of {cube!r}, found {overlap!r}"
        )
    numbers = [_number("overlap", side, 0, 2**32 - 1) for side in sides]
    planes, rows, columns = numbers if axes == 3 else [0, *numbers]
    is_grid = kind == "grid"
    by_class = kind == "balanced" or weights is not None
    if by_class and each == 1:
        raise _shardpack.UsageError("drawing patches by class needs more than one patch per sample\nhint: pass a larger number, such as patches_per_sample=8")
    if is_grid and each != 1:
        raise _shardpack.UsageError(f'patches_per_sample={each} cannot be combined with patches="grid", which returns all patches')
    if not is_grid and any(numbers):
        raise _shardpack.UsageError(f'overlap={overlap!r} needs patches="grid", but patches is {kind!r}')
    if scenes is not None and not is_grid and each == 1:
        raise _shardpack.UsageError(f"open_scenes={scenes!r} needs more than one patch per sample\nhint: pass a larger number, such as patches_per_sample=8")
    open_scenes = 0 if scenes is None else _number("open_scenes", scenes, 1, 2**32 - 1)
    return {
        "patches": 0 if is_grid else each,
        "overlap": (planes, rows, columns),
        "open_scenes": open_scenes,
        "patches_balanced": kind == "balanced",
        "patch_weights": weights,
    }


def _weights(weights: Weights | None, dataset: Dataset) -> dict[str, Any]:
    """Return the weights as options: one per class, or one per sample of the whole dataset. Samples outside the subset
    have weight 0.
    """
    none: dict[str, Any] = {"weights": None, "class_weights": None, "balanced": False}
    members = dataset._members
    if weights is None:
        return none
    if isinstance(weights, str):
        if weights != "balanced":
            raise _shardpack.UsageError(f"weights: expected 'balanced', a mapping from label to weight, or an array, found {weights!r}")
        if members is None:
            return none | {"balanced": True}
        labels = np.unique(dataset.labels)
        # Labels below 0 are not classes, so samples with such labels are never drawn.
        classes = dict.fromkeys(labels[labels >= 0].tolist(), 1.0)
        if not classes:
            raise _shardpack.UsageError(f"weights: none of the {len(dataset)} samples has a class (a label of 0 or more)")
        return none | {"weights": _spread(_of_classes(dataset, classes), dataset)}
    if isinstance(weights, Mapping):
        given = {_label(label, dataset): float(weight) for label, weight in weights.items()}
        if members is None:
            return none | {"class_weights": given}
        return none | {"weights": _spread(_of_classes(dataset, given), dataset)}
    each = np.asarray(weights, np.float64)
    if each.shape != (len(dataset),):
        raise _shardpack.UsageError(
            f"weights: expected shape [{len(dataset)}], with one weight for each sample, found shape {list(each.shape)}"
        )
    return none | {"weights": _spread(each, dataset)}


def _label(label: object, dataset: Dataset) -> int:
    if not isinstance(label, str):
        return _number("label in weights", label, -(2**63), 2**63 - 1)
    classes = dataset.classes or []
    if label not in classes:
        raise _shardpack.UsageError(f"weights: the dataset has no class {label!r}{did_you_mean(label, classes)}")
    return classes.index(label)


def _mix(
    mix: Sequence[float] | None, dataset: Dataset, weights: Weights | None
) -> list[tuple[_shardpack.Dataset, float]] | None:
    """Return the datasets of a concat and their weights."""
    if mix is None:
        return None
    if not isinstance(dataset, Concat):
        raise _shardpack.UsageError(f"mix needs a dataset made by sp.concat, found {dataset!r}")
    if weights is not None:
        raise _shardpack.UsageError("mix and weights cannot be combined")
    if len(mix) != len(dataset.parts):
        raise _shardpack.UsageError(
            f"mix: expected {len(dataset.parts)} numbers, one for each dataset, found {len(mix)}"
        )
    return [(part._core, float(share)) for part, share in zip(dataset.parts, mix, strict=True)]


def _of_classes(dataset: Dataset, classes: Mapping[int, float]) -> NDArray[np.float64]:
    """Return a weight for each sample, so that classes are drawn in proportion to their weights."""
    found, place, counts = np.unique(dataset.labels, return_inverse=True, return_counts=True)
    absent = [label for label, weight in classes.items() if weight > 0 and label not in found]
    if absent:
        raise _shardpack.UsageError(
            f"weights: class {absent[0]} has no samples"
        )
    each = np.array([classes.get(int(label), 0.0) for label in found]) / counts
    return np.asarray(each[place], np.float64)


def _spread(weights: NDArray[np.float64], dataset: Dataset) -> NDArray[np.float64]:
    """Extend the weights from a subset to the whole dataset."""
    if dataset._members is None:
        return np.ascontiguousarray(weights)
    spread = np.zeros(len(dataset._core), np.float64)
    spread[dataset._members] = weights
    return spread
