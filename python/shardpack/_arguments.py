"""Arguments of a loader: checked, and turned into what the compiled part takes."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from shardpack import _shardpack
from shardpack._dataset import Concat, Dataset, names
from shardpack._options import Channels

Shuffle: TypeAlias = "bool | Literal['windowed', 'full']"
"""Of a loader: whether and how samples are mixed."""
Weights: TypeAlias = "Literal['balanced'] | Mapping[int, float] | Mapping[str, float] | ArrayLike"
"""Of a loader: how often samples are drawn."""

# Habits that come with a torch DataLoader, and what stands for them here.
_HABITS = {
    "num_workers": "threads read and decode, one for each core: threads=… changes that",
    "prefetch_factor": "prefetch=… is the number of batches in memory",
    "persistent_workers": "threads last as long as the loader",
    "worker_init_fn": "there are no workers, and seed=… decides about all that is random",
    "generator": "seed=… decides about all that is random",
    "drop_last": 'end="drop" (the default), "pad" or "uneven" says what becomes of the last samples',
    "pin_memory": 'to="torch", device="cuda" decodes on the GPU',
    "transform": "work on whole batches, in the first line of the model; for a function of single samples there is "
    "DataLoader(shardpack.torch.MapDataset(dataset, transform), …)",
    "collate_fn": "batches are tensors already: change batch[field] in the loop",
    "sampler": "weights=… draws by weight, and dataset.subset(…) chooses samples",
    "batch_sampler": "weights=… draws by weight, and dataset.subset(…) chooses samples",
}


def _number(name: str, value: Any, least: int, most: int) -> int:
    number = int(value.__index__())
    if not least <= number <= most:
        raise _shardpack.UsageError(f"{name}: expected {least} to {most}, found {number}")
    return number


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


def _order(shuffle: Shuffle, weights: Weights | None) -> str:
    orders: dict[Any, str] = {False: "stored", True: "windowed", "windowed": "windowed", "full": "full"}
    if not isinstance(shuffle, bool | str) or shuffle not in orders:
        raise _shardpack.UsageError(f"shuffle: expected True, False, windowed or full, found {shuffle!r}")
    if weights is not None and shuffle is not True:
        raise _shardpack.UsageError(
            f"weights: expected shuffle=True, found shuffle={shuffle!r}: what is drawn by weight has no other order"
        )
    return orders[shuffle]


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


def _fields(fields: Sequence[str] | None, dataset: Dataset, cube: str) -> tuple[list[str], list[str], frozenset[str]]:
    """Names of all fields of a batch, of those that are tensors, and of the arrays that are not."""
    kinds = {field.name: field.kind for field in dataset.schema}
    plain = {name for name, kind in kinds.items() if kind in ("text", "json", "bytes")}
    # A patch of one size can be cut out of all.
    varying = frozenset(dataset._core.varying_arrays()) if cube == "whole" else frozenset[str]()
    chosen = names(fields)
    if chosen is None:
        chosen = [name for name in kinds if name not in plain]
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
    try:
        return str(np.dtype(dtype if name == str(dtype) else name).name)
    except TypeError:
        raise TypeError(f"dtype: expected an element type such as 'float16', found {dtype!r}") from None


def _scaling(mean: Any, std: Any, dtype: Any) -> tuple[Channels, Channels] | None:
    """Mean and standard deviation of red, green and blue; ``None`` if neither is given."""
    if mean is None and std is None:
        return None
    if dtype is None:
        raise _shardpack.UsageError(
            "mean and std: expected pictures that come as floats, found none that does\n"
            'hint: dtype="float16", or dtype={"image": "float32"}'
        )
    means, stds = _channels("mean", 0.0 if mean is None else mean), _channels("std", 1.0 if std is None else std)
    if min(stds) <= 0:
        raise _shardpack.UsageError(f"std: expected numbers above 0, found {min(stds)}")
    # A level is multiplied by the one and added to the other, in float32.
    largest = max(max(1 / (255 * one), abs(other / one)) for one, other in zip(stds, means, strict=True))
    if largest > float(np.finfo(np.float32).max):
        raise _shardpack.UsageError(f"mean and std: expected pixels that float32 can hold, found mean {means}, std {stds}")
    return means, stds


def _channels(name: str, given: Any) -> Channels:
    """A number for each channel, of three or of one."""
    try:
        numbers = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name}: expected a number, or three for red, green and blue, found {given!r}") from None
    if numbers.shape not in ((), (1,), (3,)) or not np.isfinite(numbers).all():
        raise _shardpack.UsageError(f"{name}: expected a number, or three for red, green and blue, found {given!r}")
    red, green, blue = np.broadcast_to(numbers, (3,)).tolist()
    return red, green, blue


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
    return [_number("band", band, 0, 2**32 - 1) for band in bands]


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
        return none | {
            "weights": _spread(_of_classes(dataset, dict.fromkeys(np.unique(dataset.labels).tolist(), 1.0)), dataset)
        }
    if isinstance(weights, Mapping):
        classes = {_label(label, dataset): float(weight) for label, weight in weights.items()}
        if members is None:
            return none | {"class_weights": classes}
        return none | {"weights": _spread(_of_classes(dataset, classes), dataset)}
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
