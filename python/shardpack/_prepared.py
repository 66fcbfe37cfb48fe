"""Checks the keywords of a loader against each other and the dataset, and makes the options of the compiled loader."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from numpy.typing import DTypeLike

from shardpack import _shardpack
from shardpack._aligned import align_texts, check_aligned, check_rows
from shardpack._arguments import (
    Numbered,
    Shuffle,
    Weights,
    _augment,
    _bands,
    _crops,
    _dtype,
    _fields,
    _holds,
    _lanes,
    _mix,
    _mix_batch,
    _no_data,
    _normalised,
    _number,
    _order,
    _frames,
    _patches,
    _text,
    _threads,
    _weights,
)
from shardpack._batch import Batch, BatchFormat
from shardpack._convert import Convert, Framework, converter
from shardpack._dataset import Dataset
from shardpack._device import stage_for
from shardpack._options import Options
from shardpack._size import Size, size
from shardpack._transform import Rows, Transform
from shardpack._workers import Workers
from shardpack.view import Crop


@dataclass(frozen=True)
class LoaderKeywords:
    """The keywords of a loader before they are checked. :class:`shardpack.Loader` describes them."""

    batch_size: int
    shuffle: Shuffle
    lanes: int | None
    seed: int
    epoch: int
    rank: int | None
    world_size: int | None
    image: str
    crops: Sequence[str | Crop] | None
    frames: int | str
    cube: str
    patches_per_sample: int
    patches: Literal["random", "grid", "balanced"] | Mapping[int, float]
    overlap: int | Sequence[int]
    open_scenes: int | None
    bands: slice | Sequence[int] | str | None
    layout: Literal["hwc", "chw", "cthw"]
    dtype: DTypeLike | Mapping[str, DTypeLike] | None
    fields: Sequence[str] | None
    align: Mapping[str, str | None] | None
    weights: Weights | None
    mix: Sequence[float] | None
    threads: int | None
    prefetch: int | None
    window: Literal["auto", "memory", "page-cache"]
    max_batch: Size
    end: Literal["drop", "pad", "uneven"]
    skip_corrupt: int
    to: Framework | None
    device: str | None
    decode: Literal["auto", "device", "host"]
    resident: bool
    mean: Numbered
    std: Numbered
    no_data: float | Mapping[str, float] | None
    augment: str | Sequence[str] | None
    augment_batch: str | Sequence[str] | None
    num_classes: int | None
    transform: Transform | None
    transform_workers: int
    transform_batch: Callable[[Batch], Batch | None] | None


@dataclass(frozen=True)
class Prepared:
    """The options of the compiled loader and the format of its batches, from checked keywords."""

    options: Options
    workers: Workers | None
    batches: BatchFormat
    change_batch: Callable[[Batch], Batch | None] | None

    @classmethod
    def of(cls, dataset: Dataset, given: LoaderKeywords) -> Prepared:
        types = _dtype(given.dtype)
        _holds(types, given.to)
        convert, stage = _on_device(given)
        scaling, normalise = _normalised(given.mean, given.std, dataset)
        aligned = align_texts(given.align)
        fields, tensors, arrays = _fields(given.fields, dataset, given.cube, aligned)
        crops = _crops(given.crops)
        augment = _augment(given.augment)
        check_aligned(crops[0].view if crops else given.image, augment, fields, dataset, given.align)
        check_rows(fields, dataset, given.align)
        workers = _workers(given.transform, given.transform_workers)
        options = Options(
            batch_size=_number("batch_size", given.batch_size, 1, 2**32 - 1),
            seed=_number("seed", given.seed, 0, 2**64 - 1),
            epoch=_number("epoch", given.epoch, 0, 2**32 - 1),
            rank=_number("rank", given.rank, 0, 2**32 - 1),
            world_size=_number("world_size", given.world_size, 1, 2**32 - 1),
            order=_order(given.shuffle, given.weights),
            lanes=_lanes(given.lanes, given.shuffle, given.weights),
            end=_text("end", given.end, "pad"),
            image=_text("image", given.image, "rrc224"),
            crops=crops,
            frames=_frames(given.frames),
            cube=_text("cube", given.cube, "patch64x64"),
            **_patches(given.patches_per_sample, given.patches, given.overlap, given.open_scenes, str(given.cube)),
            layout=_text("layout", given.layout, "chw"),
            bands=_bands(given.bands),
            dtype=types,
            scaling=scaling,
            normalise=normalise,
            no_data=_no_data(given.no_data),
            augment=augment,
            mix_batch=_mix_batch(given.augment_batch, given.num_classes, dataset, bool(given.align)),
            transform=workers or (None if given.transform is None else Rows(_function("transform", given.transform))),
            transform_workers=0 if workers is None else workers.count,
            fields=tensors,
            objects=[name for name in fields if name not in tensors],
            align=aligned,
            members=dataset._members,
            **_weights(given.weights, dataset),
            mix=_mix(given.mix, dataset, given.weights),
            threads=_threads(given.threads, given.transform_workers),
            slots=None if given.prefetch is None else _number("prefetch", given.prefetch, 1, 2**16),
            window=_text("window", given.window, "memory"),
            max_batch=size("max_batch", given.max_batch),
            skip_corrupt=_number("skip_corrupt", given.skip_corrupt, 0, 2**64 - 1),
            stage=stage,
            resident=bool(given.resident),
        )
        change_batch = None if given.transform_batch is None else _function("transform_batch", given.transform_batch)
        pictures = [field.name for field in dataset.schema if field.kind == "image"]
        cropped = {name: [crop.name or f"{name}_{n}" for n, crop in enumerate(crops)] for name in pictures} if crops else {}
        batches = BatchFormat(
            convert=convert,
            fields=[name for field in fields for name in cropped.get(field, [field])],
            # Do not use a bound method here. It would refer to the loader, so a batch that the program keeps would keep
            # the loader's threads alive.
            objects=partial(_read, arrays, convert),
            pictures=frozenset(pictures).union(*cropped.values()),
            # Without `fields`, the program has not chosen an order of the values, so unpacking would be ambiguous.
            unpacks=given.fields is not None,
            members=dataset._members,
        )
        return cls(options, workers, batches, change_batch)


def _on_device(given: LoaderKeywords) -> tuple[Convert, _shardpack.Stage | None]:
    """Return the conversion of tensors, and the stage that makes batches on a device, if any."""
    device = "cpu" if given.device is None else str(given.device)
    convert = converter(given.to or "numpy", device)
    stage = stage_for(given.decode, given.to, device, given.transform)
    if given.resident and (stage is None or not stage.decodes):
        raise _shardpack.UsageError(
            f"resident=True needs decoding on a GPU, but this loader decodes on the host (device={device!r}, "
            f'decode={given.decode!r})\nhint: pass device="cuda:0" and decode="device"'
        )
    if stage is not None and given.to != "jax":
        # Fix the device number now, because the program may change the current device later.
        convert = converter(given.to or "numpy", f"cuda:{stage.number}")
    return convert, stage


def _function(name: str, value: Any) -> Any:
    if not callable(value):
        raise TypeError(f"{name}: expected a function, found {value!r}")
    return value


def _workers(transform: Transform | None, count: int) -> Workers | None:
    """Return the worker processes of a transform, or ``None`` if ``count`` is 0."""
    count = _number("transform_workers", count, 0, 4096)
    if count == 0:
        return None
    if transform is None:
        raise ValueError(f"transform_workers={count} needs a transform")
    return Workers(_function("transform", transform), count)


def _read(
    arrays: frozenset[str], convert: Convert, batch: _shardpack.Batch, fields: Sequence[str]
) -> dict[str, list[Any]]:
    """Return the fields of a batch that are not tensors. Rows without a sample are ``None``."""
    values = {field: batch.objects(field) for field in fields}
    for field in arrays.intersection(fields):
        values[field] = [None if value is None else convert(value) for value in values[field]]
    return values
