"""Arguments of a loader: checked, and turned into what the compiled part takes."""

from __future__ import annotations

import difflib
import operator
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
from shardpack._dataset import Dataset, names
from shardpack._options import Numbers
from shardpack._warn import warn

Shuffle: TypeAlias = "bool | Literal['windowed', 'full']"
"""Of a loader: whether and how samples are mixed."""
Weights: TypeAlias = "Literal['balanced'] | Mapping[int, float] | Mapping[str, float] | ArrayLike"
"""Of a loader: how often samples are drawn."""

# Habits that come with a torch DataLoader, and what stands for them here.
_HABITS = {
    "batch": "did you mean 'batch_size'?",
    "num_workers": "threads read and decode, one for each core: threads=… changes that",
    "prefetch_factor": "prefetch=… is the number of batches in memory",
    "persistent_workers": "threads last as long as the loader",
    "worker_init_fn": "there are no workers, and seed=… decides about all that is random",
    "generator": "seed=… decides about all that is random",
    "drop_last": 'end="drop" (the default), "pad" or "uneven" says what becomes of the last samples',
    "pin_memory": 'to="torch", device="cuda" decodes on the GPU',
    "normalize": 'dtype="float32" with mean=… and std=… does, as torchvision does',
    "collate_fn": "batches are tensors already: change batch[field] in the loop",
    "sampler": "weights=… draws by weight, and dataset.subset(…) chooses samples",
    "batch_sampler": "weights=… draws by weight, and dataset.subset(…) chooses samples",
}


def _number(name: str, value: Any, least: int, most: int) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name}: expected a whole number, found {value!r}") from None
    if not least <= number <= most:
        raise _shardpack.UsageError(f"{name}: expected {least} to {most}, found {number}")
    return number


def _frames(frames: int | str) -> str:
    return frames if isinstance(frames, str) else str(_number("frames", frames, 1, 2**16))


def _place(rank: int | None, world_size: int | None) -> tuple[int, int]:
    """Rank and world size: as given, else those of ``torch.distributed``, else 0 of 1."""
    if rank is not None and world_size is not None:
        return rank, world_size
    if rank is not None or world_size is not None:
        raise _shardpack.UsageError("rank and world_size: expected both or none, found one")
    # Who has not imported torch has not initialised it.
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank(), distributed.get_world_size()
    return 0, 1


def _threads(threads: int | None, workers: int) -> int:
    """Threads of a loader, as given; 0 for one for each core, unless the launcher says that several ranks share the
    machine: then this rank's share of the cores. At least one for each worker process, whose rows it decodes.
    """
    if threads is not None:
        if (threads := _number("threads", threads, 1, 4096)) < workers:
            raise ValueError(f"transform_workers: expected at most one for each thread, {threads}, found {workers}")
        return threads
    share = _share()
    return share if workers <= (share or _shardpack.cores()) else workers


def _share() -> int:
    text = os.environ.get("LOCAL_WORLD_SIZE", "")
    ranks, cores = int(text) if text.isdecimal() else 1, _shardpack.cores()
    if ranks < 2 or _is_bound(ranks, cores):
        return 0
    share = max(1, cores // ranks)
    # The ranks of a machine would all say the same.
    if os.environ.get("RANK", os.environ.get("LOCAL_RANK", "0")) == "0":
        _say_share(share, cores, ranks)
    return share


def _is_bound(ranks: int, cores: int) -> bool:
    """Whether each rank has cores of its own already: it was bound to fewer than its launcher has, and all ranks find room
    on those. The cores of the machine say nothing: a container may have a few of them, for all ranks.
    """
    ours = len(os.sched_getaffinity(0))
    if cores < ours:
        # A quota of the container, which counts for all ranks.
        return False
    try:
        launcher = len(os.sched_getaffinity(os.getppid() or os.getpid()))
    except OSError:
        # It has ended, or is somebody else's.
        return False
    return ours < launcher and ours * ranks <= launcher


@cache
def _say_share(share: int, cores: int, ranks: int) -> None:
    """Says once how many threads a loader has."""
    warn(
        f"threads: {share}, a share of the {cores} cores that {ranks} ranks have here (LOCAL_WORLD_SIZE)\n"
        f"hint: threads={share} says that this is meant; bind each rank to cores of its own, or give another number"
    )


def _order(shuffle: Shuffle, weights: Weights | None) -> str:
    orders: dict[Any, str] = {False: "stored", True: "windowed", "windowed": "windowed", "full": "full"}
    if not isinstance(shuffle, bool | str) or shuffle not in orders:
        raise _shardpack.UsageError(f"shuffle: expected True, False, windowed or full, found {shuffle!r}")
    if weights is not None and shuffle is not True:
        raise _shardpack.UsageError(
            f"weights: expected shuffle=True, found shuffle={shuffle!r}: what is drawn by weight has no other order"
        )
    return orders[shuffle]


def _lanes(lanes: int | None, shuffle: Shuffle, weights: Weights | None) -> int:
    if lanes is None:
        return _shardpack.LANES
    if weights is not None or shuffle not in (True, "windowed"):
        found = f"shuffle={shuffle!r}" if weights is None else "weights"
        raise _shardpack.UsageError(f"lanes: expected shuffle=True, without weights, found {found}: no other order has lanes")
    return _number("lanes", lanes, 1, 2**32 - 1)


def _known(unknown: Mapping[str, object], known: Iterable[str]) -> None:
    """Refuses options of a loader that there are not."""
    for name in unknown:
        near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.7)
        hint = _HABITS.get(name) or (f"did you mean {near[0]!r}?" if near else "help(shardpack.Loader) lists them")
        raise TypeError(f"Loader() got an unexpected keyword argument {name!r}\nhint: {hint}")


def _expect_dataset(dataset: object) -> None:
    if isinstance(dataset, Dataset):
        return
    hint = ""
    if isinstance(dataset, str | os.PathLike):
        hint = f"\nhint: open it: shardpack.Dataset({os.fspath(dataset)!r})"
    elif isinstance(getattr(dataset, "dataset", None), Dataset) and hasattr(dataset, "indices"):
        # What torch.utils.data.random_split makes.
        hint = "\nhint: take the same samples by split.dataset.subset(split.indices)"
    raise TypeError(f"dataset: expected a shardpack.Dataset, found {type(dataset).__name__}{hint}")


def _text(name: str, value: object, such_as: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected a string such as {such_as!r}, found {value!r}")
    return value


def _fields(
    fields: Sequence[str] | None, dataset: Dataset, cube: str, align: Sequence[tuple[str, str]]
) -> tuple[list[str], list[str], frozenset[str]]:
    """Names of all fields of a batch, of those that are tensors, and of the arrays that are not."""
    kinds = {field.name: field.kind for field in dataset.schema}
    plain = {name for name, kind in kinds.items() if kind in ("text", "json", "bytes")}
    # A patch of one size can be cut out of all.
    varying = frozenset(dataset._core.varying_arrays()) if cube == "whole" else frozenset[str]()
    for name, text in align:
        if text.split(",")[0] == "mask":
            varying -= {name}
        elif kinds.get(name) == "array":
            varying |= {name}
    chosen = names(fields)
    if chosen is None:
        # Polygons follow a picture, so they are asked for, also if they are JSON.
        polygons = {name for name, _ in align if kinds.get(name) == "json"}
        chosen = [name for name in kinds if name not in plain or name in polygons]
    if len(set(chosen)) < len(chosen):
        raise _shardpack.UsageError(f"fields: expected each name once, found {', '.join(chosen)}")
    return chosen, [name for name in chosen if name not in plain and name not in varying], varying


def _dtype(dtype: Any) -> str | None:
    """Types of arrays as text: ``float16``, or ``cube=float16,mask=int64``."""
    if dtype is None:
        return None
    if isinstance(dtype, Mapping):
        return ",".join(f"{field}={_type(of)}" for field, of in dtype.items()) or None
    return _type(dtype)


def _type(dtype: Any) -> str:
    """The name of an element type of NumPy, PyTorch (``torch.float16``) or JAX."""
    name = str(dtype)
    if type(dtype).__module__ == "torch":
        name = name.removeprefix("torch.")
    if name == _BFLOAT16:
        # Which NumPy knows only if `ml_dtypes` was imported.
        return name
    try:
        return str(np.dtype(dtype if name == str(dtype) else name).name)
    except TypeError:
        raise TypeError(f"dtype: expected an element type such as 'float16', found {dtype!r}") from None


_BFLOAT16 = "bfloat16"


def _holds(dtype: str | None, to: str | None) -> None:
    """Fails if the library of the tensors has no such type."""
    if dtype is None or _BFLOAT16 not in (part.rpartition("=")[2] for part in dtype.split(",")):
        return
    if to in (None, "numpy") and find_spec("ml_dtypes") is None:
        raise _shardpack.UsageError(
            'dtype: expected a type that NumPy has, found bfloat16\nhint: to="torch" or to="jax", or pip install ml_dtypes'
        )
    if to == "cupy":
        raise _shardpack.UsageError('dtype: expected a type that CuPy has, found bfloat16\nhint: to="torch" or to="jax"')


Numbered: TypeAlias = "ArrayLike | Mapping[str, ArrayLike] | None"
"""Of a loader: numbers for pictures, or for each field that is named."""


def _normalised(
    mean: Numbered, std: Numbered, dataset: Dataset
) -> tuple[tuple[Numbers, Numbers] | None, list[tuple[str, Numbers, Numbers]]]:
    """Means and standard deviations of pictures, if there are any, and of fields of arrays."""
    if mean is None and std is None:
        return None, []
    if not isinstance(mean, Mapping) and not isinstance(std, Mapping):
        return (_numbers("mean", mean, 0.0), _numbers("std", std, 1.0)), []
    means, stds = ({} if one is None else one for one in (mean, std))
    if not isinstance(means, Mapping) or not isinstance(stds, Mapping):
        raise TypeError("mean and std: expected both by the names of fields, or neither, found one")
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
            raise _shardpack.UsageError("mean and std: expected the same for all fields of pictures, found others")
    return pictures, arrays


def _numbers(name: str, given: Any, default: float) -> Numbers:
    """One number, or a sequence of them. What they may be is checked where they are used."""
    try:
        numbers = np.asarray(default if given is None else given, np.float64)
    except (TypeError, ValueError):
        numbers = np.empty((0, 0))
    if numbers.ndim > 1:
        expected = "a number, or one for each channel or band"
        raise TypeError(f"{name}: expected {expected}, found {given!r}")
    return [float(number) for number in np.atleast_1d(numbers)]


def _no_data(given: float | Mapping[str, float] | None) -> float | list[tuple[str, float]] | None:
    """What comes in the place of no-data: in all cubes, or in the fields that are named."""
    if isinstance(given, Mapping):
        return [(str(name), _single(f"no_data of {name}", value)) for name, value in given.items()]
    return None if given is None else _single("no_data", given)


def _single(name: str, value: Any) -> float:
    """A number that float32 holds, about."""
    if isinstance(value, (str, bytes, bool)) or not hasattr(value, "__float__"):
        raise TypeError(f"{name}: expected a number, found {value!r}")
    number = float(value)
    if isfinite(number) and abs(number) > float(np.finfo(np.float32).max):
        raise _shardpack.UsageError(f"{name}: expected a number that float32 holds, found {number!r}")
    return number


def _augment(augment: str | Sequence[str] | None) -> str | None:
    """Words and augmentations of pictures, with commas between them."""
    if augment is None:
        return None
    words = [augment] if isinstance(augment, str) else list(augment)
    if not all(isinstance(word, str) for word in words):
        raise TypeError(f"augment: expected words such as 'hflip', or what shardpack.augment gives, found {augment!r}")
    return ",".join(words) if words else None


def _mix_batch(
    augment: str | Sequence[str] | None, num_classes: int | None, dataset: Dataset
) -> tuple[list[str], int] | None:
    """Ways to mix a batch, and the number of classes."""
    texts = [augment] if isinstance(augment, str) else list(augment or ())
    if not all(isinstance(text, str) for text in texts):
        raise TypeError(f"augment_batch: expected what shardpack.augment.mixup or cutmix gives, found {augment!r}")
    if not texts:
        if num_classes is not None:
            raise _shardpack.UsageError("num_classes: expected with augment_batch, found alone")
        return None
    if num_classes is None:
        if dataset.classes is None:
            raise _shardpack.UsageError(
                "augment_batch: expected a dataset that names its classes, found none\nhint: num_classes=1000"
            )
        num_classes = len(dataset.classes)
    return texts, _number("num_classes", num_classes, 1, 2**24)


def _bands(bands: slice | Sequence[int] | str | None) -> str | list[int] | None:
    """What names bands: text, or their numbers; ``None`` for all."""
    if bands is None or isinstance(bands, str):
        return bands
    if isinstance(bands, slice):
        if bands.stop is None or (bands.start or 0) < 0 or bands.stop < 0:
            raise _shardpack.UsageError(
                f"bands: expected a slice from 0 on with an end, found {bands}\n"
                "hint: which band is the last, the sample says: ds[0]['cube'].shape[2]"
            )
        chosen = list(range(bands.start or 0, bands.stop, bands.step or 1))
        if not chosen:
            raise _shardpack.UsageError(f"bands: expected at least one, found none in {bands}")
        return chosen
    given = list(bands)
    if any(isinstance(band, (bool, np.bool_)) for band in given):
        # To Python, True is the number 1.
        raise TypeError("bands: expected their numbers, found a mask\nhint: bands=np.flatnonzero(mask)")
    return [_number("band", band, 0, 2**32 - 1) for band in given]


def _patches(each: int, kind: str | Mapping[int, float], overlap: int | Sequence[int], scenes: int | None, cube: str) -> dict[str, Any]:
    """Several patches of a sample as options: 0 of each stands for a grid. An overlap has three sides: patches of two
    axes share no planes.
    """
    weights = None
    if isinstance(kind, Mapping):
        weights = {_number("class", label, -(2**63), 2**63 - 1): float(weight) for label, weight in kind.items()}
    elif _text("patches", kind, "grid") not in ("random", "grid", "balanced"):
        raise _shardpack.UsageError(f"patches: expected random, grid, balanced or weights of classes, found {kind!r}")
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
        raise _shardpack.UsageError("patches: by class: expected several of each sample, found one\nhint: patches_per_sample=8")
    if is_grid and each != 1:
        raise _shardpack.UsageError(f'patches_per_sample: expected none beside patches="grid", which are all, found {each}')
    if not is_grid and any(numbers):
        raise _shardpack.UsageError(f'overlap: expected patches="grid", found {overlap!r} beside patches="random"')
    if scenes is not None and not is_grid and each == 1:
        raise _shardpack.UsageError(f"open_scenes: expected several patches of a sample, found one, and {scenes!r} scenes")
    open_scenes = 0 if scenes is None else _number("open_scenes", scenes, 1, 2**32 - 1)
    return {
        "patches": 0 if is_grid else each,
        "overlap": (planes, rows, columns),
        "open_scenes": open_scenes,
        "patches_balanced": kind == "balanced",
        "patch_weights": weights,
    }


def _weights(weights: Weights | None, dataset: Dataset) -> dict[str, Any]:
    """The weights as options: of classes, or one for each sample of the whole dataset, 0 for those that are not in a
    subset.
    """
    none: dict[str, Any] = {"weights": None, "class_weights": None, "balanced": False}
    members = dataset._members
    if weights is None:
        return none
    if isinstance(weights, str):
        if weights != "balanced":
            raise _shardpack.UsageError(f"weights: expected balanced, label → weight, or an array, found {weights!r}")
        if members is None:
            return none | {"balanced": True}
        labels = np.unique(dataset.labels)
        # As of the whole dataset: a label below 0 is no class.
        classes = dict.fromkeys(labels[labels >= 0].tolist(), 1.0)
        if not classes:
            raise _shardpack.UsageError(f"weights: expected classes among the {len(dataset)} samples, found no label of 0 or more")
        return none | {"weights": _spread(_of_classes(dataset, classes), dataset)}
    if isinstance(weights, Mapping):
        given = {_label(label, dataset): float(weight) for label, weight in weights.items()}
        if members is None:
            return none | {"class_weights": given}
        return none | {"weights": _spread(_of_classes(dataset, given), dataset)}
    each = np.asarray(weights, np.float64)
    if each.shape != (len(dataset),):
        raise _shardpack.UsageError(
            f"weights: expected one for each of {len(dataset)} samples, found shape {list(each.shape)}"
        )
    return none | {"weights": _spread(each, dataset)}


def _label(label: object, dataset: Dataset) -> int:
    """A label, or the place of a class that is named."""
    if not isinstance(label, str):
        return _number("label of a weight", label, -(2**63), 2**63 - 1)
    names = dataset.classes or []
    if label not in names:
        near = difflib.get_close_matches(label, names, n=1)
        hint = f"\nhint: did you mean {near[0]!r}?" if near else ""
        raise _shardpack.UsageError(f"weights: expected labels or names of classes, found {label!r}{hint}")
    return names.index(label)


def _mix(
    mix: Sequence[float] | None, dataset: Dataset, weights: Weights | None
) -> list[tuple[_shardpack.Dataset, float]] | None:
    """The parts of a concat and how often each comes."""
    if mix is None:
        return None
    if not isinstance(dataset, Concat):
        raise _shardpack.UsageError(f"mix: expected a dataset made by `concat`, found {dataset!r}")
    if weights is not None:
        raise _shardpack.UsageError("mix: expected no weights of samples beside it, found both")
    if len(mix) != len(dataset.parts):
        raise _shardpack.UsageError(
            f"mix: expected one number for each of {len(dataset.parts)} datasets, found {len(mix)}"
        )
    return [(part._core, float(share)) for part, share in zip(dataset.parts, mix, strict=True)]


def _of_classes(dataset: Dataset, classes: Mapping[int, float]) -> NDArray[np.float64]:
    """A weight for each sample, so that each class comes by its own."""
    found, place, counts = np.unique(dataset.labels, return_inverse=True, return_counts=True)
    absent = [label for label, weight in classes.items() if weight > 0 and label not in found]
    if absent:
        raise _shardpack.UsageError(
            f"weights of classes: expected classes that have samples, found class {absent[0]}, without one"
        )
    each = np.array([classes.get(int(label), 0.0) for label in found]) / counts
    return np.asarray(each[place], np.float64)


def _spread(weights: NDArray[np.float64], dataset: Dataset) -> NDArray[np.float64]:
    """Weights of a subset over the whole dataset."""
    if dataset._members is None:
        return np.ascontiguousarray(weights)
    spread = np.zeros(len(dataset._core), np.float64)
    spread[dataset._members] = weights
    return spread
