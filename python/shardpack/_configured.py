"""What a loader was asked for: its options, checked against each other and the dataset."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, NoReturn

from numpy.typing import DTypeLike

from shardpack import _shardpack
from shardpack._aligned import align_texts, check_aligned, check_rows
from shardpack._arguments import (
    Numbered,
    Shuffle,
    Weights,
    _augment,
    _bands,
    _dtype,
    _expect_dataset,
    _fields,
    _holds,
    _known,
    _lanes,
    _mix,
    _mix_batch,
    _no_data,
    _normalised,
    _number,
    _order,
    _frames,
    _patches,
    _place,
    _text,
    _threads,
    _weights,
)
from shardpack._batch import Batch
from shardpack._convert import Convert, Framework, converter
from shardpack._dataset import Dataset
from shardpack._device import stage_for
from shardpack._options import Options
from shardpack._size import Size, size
from shardpack._transform import Rows, Transform
from shardpack._workers import Workers


class Configured:
    """A loader that knows what it was asked for. :class:`Loader` describes the options, and makes batches."""

    def __init__(
        self,
        dataset: Dataset,
        batch_size: int = 32,
        *,
        shuffle: Shuffle = True,
        lanes: int | None = None,
        seed: int = 0,
        epoch: int = 0,
        rank: int | None = None,
        world_size: int | None = None,
        image: str = "full",
        frames: int | str = "all",
        cube: str = "whole",
        patches_per_sample: int = 1,
        patches: Literal["random", "grid", "balanced"] | Mapping[int, float] = "random",
        overlap: int | Sequence[int] = 0,
        open_scenes: int | None = None,
        bands: slice | Sequence[int] | str | None = None,
        layout: Literal["hwc", "chw"] = "hwc",
        dtype: DTypeLike | Mapping[str, DTypeLike] | None = None,
        fields: Sequence[str] | None = None,
        align: Mapping[str, str | None] | None = None,
        weights: Weights | None = None,
        mix: Sequence[float] | None = None,
        threads: int | None = None,
        prefetch: int | None = None,
        window: Literal["auto", "memory", "page-cache"] = "auto",
        max_batch: Size = "8GiB",
        end: Literal["drop", "pad", "uneven"] = "drop",
        skip_corrupt: int = 0,
        to: Framework | None = None,
        device: str = "cpu",
        decode: Literal["auto", "device", "host"] = "auto",
        resident: bool = False,
        mean: Numbered = None,
        std: Numbered = None,
        no_data: float | Mapping[str, float] | None = None,
        augment: str | Sequence[str] | None = None,
        augment_batch: str | Sequence[str] | None = None,
        num_classes: int | None = None,
        transform: Transform | None = None,
        transform_workers: int = 0,
        transform_batch: Callable[[Batch], Batch | None] | None = None,
        **unknown: NoReturn,
    ) -> None:
        _known(unknown, ("batch_size", *(Configured.__init__.__kwdefaults__ or ())))
        _expect_dataset(dataset)
        # Whether to ask torch.distributed: again until there are threads, since frameworks may begin their process
        # group when they have been given their loaders.
        self._asks = rank is None and world_size is None
        rank, world_size = _place(rank, world_size)
        # A copy first: Python 3.12 adds the names of a comprehension to `locals()` while a debugger or a profiler looks.
        given = dict(locals())
        self._arguments: dict[str, Any] = {
            name: value for name, value in given.items() if name not in ("self", "dataset", "unknown")
        }
        self._dataset = dataset
        device = str(device)
        types = _dtype(dtype)
        _holds(types, to)
        self._convert = converter(to or "numpy", device)
        scaling, normalise = _normalised(mean, std, dataset)
        self._stage = stage_for(decode, to, device)
        if resident and self._stage is None:
            raise _shardpack.UsageError(
                f"resident=True: expected a GPU that decodes, found that the host does (device={device!r}, "
                f'decode={decode!r})\nhint: device="cuda:0", decode="device"'
            )
        if self._stage is not None and to != "jax":
            # The same one for as long as the loader lives, whichever the program chooses later.
            self._convert = converter(to or "numpy", f"cuda:{self._stage.number}")
        aligned = align_texts(align)
        self._fields, tensors, arrays = _fields(fields, dataset, cube, aligned)
        check_aligned(image, self._fields, dataset, align)
        check_rows(self._fields, dataset, align)
        self._workers = _workers(transform, transform_workers)
        self._options = Options(
            batch_size=_number("batch_size", batch_size, 1, 2**32 - 1),
            seed=_number("seed", seed, 0, 2**64 - 1),
            epoch=_number("epoch", epoch, 0, 2**32 - 1),
            rank=_number("rank", rank, 0, 2**32 - 1),
            world_size=_number("world_size", world_size, 1, 2**32 - 1),
            order=_order(shuffle, weights),
            lanes=_lanes(lanes, shuffle, weights),
            end=_text("end", end, "pad"),
            image=_text("image", image, "rrc224"),
            frames=_frames(frames),
            cube=_text("cube", cube, "patch64x64"),
            **_patches(patches_per_sample, patches, overlap, open_scenes, str(cube)),
            layout=_text("layout", layout, "chw"),
            bands=_bands(bands),
            dtype=types,
            scaling=scaling,
            normalise=normalise,
            no_data=_no_data(no_data),
            augment=_augment(augment),
            mix_batch=_mix_batch(augment_batch, num_classes, dataset),
            transform=self._workers or (None if transform is None else Rows(_function("transform", transform))),
            transform_workers=0 if self._workers is None else self._workers.count,
            fields=tensors,
            objects=[name for name in self._fields if name not in tensors],
            align=aligned,
            members=dataset._members,
            **_weights(weights, dataset),
            mix=_mix(mix, dataset, weights),
            threads=_threads(threads, transform_workers),
            slots=None if prefetch is None else _number("prefetch", prefetch, 1, 2**16),
            window=_text("window", window, "memory"),
            max_batch=size("max_batch", max_batch),
            skip_corrupt=_number("skip_corrupt", skip_corrupt, 0, 2**64 - 1),
            stage=self._stage,
            resident=bool(resident),
        )
        self._change_batch = None if transform_batch is None else _function("transform_batch", transform_batch)
        # Not a method: a batch that is kept must not keep the threads.
        self._objects = partial(_read, arrays, self._convert)
        self._pictures = frozenset(field.name for field in dataset.schema if field.kind == "image")
        # Whoever names the fields knows their order.
        self._unpacks = fields is not None
        self._begin()

    def _begin(self) -> None:
        """Makes the core, now that the options are known."""
        raise NotImplementedError

    def _ask(self) -> None:
        """Takes the place among the ranks that there is by now."""
        raise NotImplementedError

    def _ready(self) -> _shardpack.Loader:
        """The core, in this process."""
        raise NotImplementedError

    # What is known of it

    @property
    def dataset(self) -> Dataset:
        """The dataset."""
        return self._dataset

    @property
    def batch_size(self) -> int:
        """Rows in a batch, on this rank."""
        return self._options.batch_size

    @property
    def rank(self) -> int:
        """This rank."""
        self._ask()
        return self._options.rank

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        self._ask()
        return self._options.world_size

    @property
    def predicted_bytes(self) -> int:
        """The most memory that the loader takes, in bytes. Indexes of the dataset and batches that you keep are not
        counted.
        """
        return self._ready().predicted_bytes()

    @property
    def predicted_device_bytes(self) -> int:
        """Memory of the slots on the device, of what stays there, and about that of scenes that lie there while their
        patches come, in bytes; 0 if the host decodes. Batches that you keep, and slots that grow for a larger batch, are
        not counted.
        """
        return self._ready().predicted_device_bytes()

    def stats(self) -> dict[str, Any]:
        """Figures since the loader was made. Seconds are summed over its threads.

        ``consumer_wait_s`` is what the loop waited for batches. If it is small, the model is the limit; else
        ``decode_s`` beside ``idle_for_data_s`` says whether cores or disk are. ``extra_slots`` counts batches beyond
        ``prefetch`` that were made because you kept the others, ``skipped`` damaged samples, ``narrowed_pictures`` those
        of more than 8 bits a sample, of which 8 are left. ``window_in_page_cache``
        is 1 where ``window`` came to that in the epoch at hand.

        Of a dataset behind a URL, ``requests`` counts what its store was asked since the dataset was opened, by this
        loader or by others, ``retried_requests`` what was asked again after an error or a time-out,
        ``fetched_bytes`` what arrived. ``peak_requests_in_flight`` and ``peak_fetched_bytes_held`` are the most of
        both at a time. ``cache_hits``, ``cache_misses``, ``cache_hit_bytes``, ``cache_evicted``, ``cache_dropped`` and
        ``cache_failed_writes`` count what a cache on the local disk did (``storage_options={"cache": …}``).

        If a device decodes, ``device_rows`` counts what it has decoded, each field of a sample on its own. ``refused``
        counts the rows that the host decoded in its place, by reason, and ``refused_first`` has up to three keys for
        each reason. ``grown_slots`` counts slots that needed more memory than was predicted, ``resident_values`` what
        stays on the device.
        """
        core = self._ready()
        refusals = core.refusals()
        return core.stats() | {
            "predicted_device_bytes": core.predicted_device_bytes(),
            "refused": {reason: rows for reason, rows, _ in refusals},
            "refused_first": {reason: keys for reason, _, keys in refusals},
        }


def _function(name: str, value: Any) -> Any:
    if not callable(value):
        raise TypeError(f"{name}: expected a function, found {value!r}")
    return value


def _workers(transform: Transform | None, count: int) -> Workers | None:
    """Processes for a transform, if there are to be any."""
    count = _number("transform_workers", count, 0, 4096)
    if count == 0:
        return None
    if transform is None:
        raise ValueError(f"transform_workers={count}: expected a transform, found none")
    return Workers(_function("transform", transform), count)


def _read(
    arrays: frozenset[str], convert: Convert, batch: _shardpack.Batch, fields: Sequence[str]
) -> dict[str, list[Any]]:
    """The fields of a batch that are no tensors; ``None`` in rows without a sample."""
    values = {field: batch.objects(field) for field in fields}
    for field in arrays.intersection(fields):
        values[field] = [None if value is None else convert(value) for value in values[field]]
    return values
