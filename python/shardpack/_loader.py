"""The loader, which yields the batches of a dataset."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, NoReturn

from numpy.typing import DTypeLike

from shardpack import _metrics, _warn
from shardpack._arguments import Numbered, Shuffle, Weights, _expect_dataset, _known, _number, _place
from shardpack._batch import Batch, lend
from shardpack._convert import Framework, finish
from shardpack._core import Core
from shardpack._dataset import Dataset
from shardpack._iteration import Iteration, changed
from shardpack._prepared import LoaderKeywords, Prepared
from shardpack._size import Size
from shardpack._state import checked
from shardpack._transform import Transform
from shardpack._travel import travelling
from shardpack.view import Crop

__all__ = ["Loader", "Shuffle", "Weights"]


class Loader:
    """Batches of a dataset for a training loop.

    A pool of threads reads, checks and decodes the samples and writes them directly into the memory of the batch.

    **Epochs.** Each ``for batch in loader`` runs one epoch. The first ``for`` runs epoch number ``epoch``, and each
    later ``for`` starts the next epoch, even after a ``break``. Each epoch has a new order, which depends only on the
    dataset, the seed and the epoch, not on the batch size or the number of threads or ranks. ``set_epoch(e)`` chooses
    the epoch of the next ``for``, as for a ``DistributedSampler``, but you need not call it.

    **Resuming.** Call ``state_dict()`` at any time, even inside the loop. Batches that you have received count as
    done. After ``load_state_dict(state)`` the next ``for`` yields the rest of that epoch, each sample exactly once,
    with any batch size and any number of ranks.

    **Ranks.** Without ``rank`` and ``world_size``, the loader takes both from ``torch.distributed`` if that is
    initialised when the first batch is requested. Otherwise the loader is rank 0 of 1. Ranks do not communicate.

    **Memory** is fixed at the start (:attr:`predicted_bytes`): room for ``prefetch`` batches and the samples being
    mixed. Threads start with the first batch. They end at :meth:`close`, at the end of a ``with`` block, or when the
    loader is deleted. A loader whose threads have started cannot be used after a fork.

    Parameters
    ----------
    dataset : Dataset or Subset
        The samples to load.
    batch_size : int, default 32
        Rows in a batch, on this rank.
    shuffle : bool, "windowed" or "full", default True
        ``True`` and ``"windowed"``: large sequential reads in random order; the samples of 240 reads are mixed at a
        time. ``"full"``: all samples in random order, each read separately. ``False``: stored order.
    lanes : int, optional
        Number of 4 MiB reads whose samples are mixed at a time, over all ranks together. Default: 240. More lanes mix
        better and need more memory. If ``lanes`` is a multiple of the number of ranks, no two ranks need the same read.
        With hundreds of ranks, use 15 lanes per rank (15360 lanes for 1,024 ranks). Otherwise each rank uses only small
        parts of each read. The order depends on ``lanes``, so a state is valid only for the same number of lanes. A
        dataset is fully mixed if it has no more reads than lanes.
    seed : int, default 0
        Seed of the order and of random views, patches and turns.
    epoch : int, default 0
        The first epoch.
    rank, world_size : int, optional
        Index of this rank, from 0, and number of ranks. Pass both or neither.
    image : str, default "full"
        View of pictures: ``"full"`` (whole, in their own sizes, ragged), ``"rrcN"`` (a random part, scaled to N × N
        pixels and mirrored at random, for training), ``"centerN"`` (scaled to a shorter side of 8/7 N, then the
        central N × N pixels, for evaluation), ``"resizeN"`` (the whole picture at N × N), ``"padN"`` (the whole
        picture at its own proportions, centred on grey), ``"raw"`` (stored bytes, ragged). :mod:`shardpack.view` has
        all views, with more parameters: ``sp.view.random_resized_crop((224, 160), scale=(0.25, 1))``. Pixels are
        uint8, or floats (see ``dtype`` and ``mean``). Pictures are turned upright.
    crops : sequence of str or Crop, optional
        Several crops of each picture, instead of ``image``, for contrastive and self-supervised training. Each crop is
        a separate field and is drawn independently: ``crops=["rrc224", "rrc224"]`` gives ``image_0`` and ``image_1``.
        :func:`shardpack.view.crop` adds augmentations, a number and a name: ``crops=[sp.view.crop("rrc224", times=2,
        name="global"), sp.view.crop("rrc96", times=8, name="local")]`` gives ``global_0``, ``global_1``, ``local_0`` …
        ``local_7``. The augmentations of ``augment`` are applied first. Order and state do not change. Each picture is
        read once, and decoded once for all crops. In ``fields``, ``dtype``, ``mean`` and ``std``, use the name of the
        dataset's picture field (``image``).
    frames : int or str, default "all"
        Frames of clips, ``[rows, time, height, width, 3]`` (``[rows, time, 3, height, width]`` with
        ``layout="chw"``, ``[rows, 3, time, height, width]`` with ``layout="cthw"``). ``8``: eight frames, evenly
        spaced. ``"window8"``: eight consecutive frames from a random start. ``"window8,every=2"``: eight frames from a
        random start, taking every other frame. In short clips, frames are repeated. ``"all"``: all frames of each
        clip, ragged. All frames of a sample get the same view and augmentation.
    cube : str, default "whole"
        View of arrays: ``"whole"``, ``"patchHxW"`` (H rows and W columns at a random place), ``"centerHxW"``,
        ``"cycleHxW"`` (the next tile in each epoch), ``"raw"``. For volumes ``[depth, height, width]`` and ``[depth,
        height, width, channels]``: ``"patchDxHxW"`` and ``"centerDxHxW"``. All arrays of a sample, such as a cube
        and its mask, are cut at the same place.
    patches_per_sample : int, default 1
        Number of patches of each sample in an epoch. ``cube="patchHxW"`` sets their size. Each patch is cut at a random
        place. The length, the order and the states of the epoch then count patches instead of samples. A scene is read
        and decoded once for all its patches. The fields may be scalars, arrays that are cut, and arrays that have the
        same shape in all samples.
    patches : "random", "grid", "balanced" or mapping from class to weight, default "random"
        ``"grid"``: all patches of each scene, side by side, each once per epoch. The last patch of a row or column is
        moved back so that it ends at the border. With ``shuffle=False`` each scene ends before the next begins.
        :func:`shardpack.stitch` joins predictions for these patches. ``"balanced"``: for each of the
        ``patches_per_sample`` patches, the loader draws a class of the scene's mask (all equally likely), a pixel of
        that class, and a patch that contains the pixel. With weights such as ``{0: 1, 3: 5}``, only these classes are
        drawn, by their weights. A scene without any of these classes yields patches at random places.
    overlap : int or sequence of int, default 0
        Overlap of neighbouring grid patches in pixels: one number for all axes, or one each for rows and columns (for
        volumes: planes, rows and columns).
    open_scenes : int, optional
        Number of scenes whose patches are mixed, over all ranks together. The remaining patches of these scenes are in
        memory. A state is valid only for the same number of scenes. Default: 16, or 4 for grids, or 1 with
        ``shuffle=False``.
    bands : slice, range, sequence of int or str, optional
        Bands to take from arrays of three axes, in the given order. ``"10..50"`` means ``range(10, 50)``. Default:
        all bands.
    layout : "hwc", "chw" or "cthw", default "hwc"
        Axes of pictures and of arrays of three axes: ``[rows, height, width, channels]`` or ``[rows, channels, height,
        width]``. ``"cthw"`` is like ``"chw"``, but in clips the time axis comes after the channels.
    dtype : dtype, or mapping from field to dtype, optional
        Element type of arrays of three axes (``"float16"``), or by field (``{"cube": "float16", "mask": "int64"}``). It
        is an error if a conversion would change a value. The message names the sample. Only normalised values and
        ``"bfloat16"`` are rounded, to the nearest value, with ties to even. Default: the type of the source, or a type
        that can hold the values of all sources. Pictures are uint8 by default. With ``mean`` or ``std``, or a type of
        their own (``{"image": "float16"}``), they are float16, bfloat16 or float32. With ``mean`` or ``std`` but no
        type, pictures and arrays of integers or float64 become float32. For bfloat16, NumPy needs ``ml_dtypes``, and
        CuPy does not support it.
    fields : sequence of str, optional
        Fields to load. Default: all scalars, pictures and arrays, except figures measured by packing
        (``cube.max_abs_error``). Text, JSON and bytes are loaded only if you name them, and come as lists of Python
        objects. Arrays whose length differs between samples (boxes, token ids) come as lists of one array per row.
        These lists do not count towards :attr:`predicted_bytes`. If you pass ``fields``, batches can be unpacked in
        that order: ``images, labels = batch``.
    align : mapping from field to str or None, optional
        Fields that are cropped, scaled and mirrored with their picture: masks, boxes, keypoints, polygons, and
        arrays with a row for each box. :mod:`shardpack.align` has a function for each kind: ``{"mask":
        sp.align.mask(), "boxes": sp.align.boxes("xywh")}``. Masks are tensors of the view's size. Other fields are
        lists of one array per row. ``None`` leaves a field as it is stored. It also turns off the warning for names
        such as ``boxes``, and the error for arrays with one row per aligned box.
    weights : "balanced", mapping or array, optional
        Draw samples by weight, with replacement. An epoch still has the size of the dataset. ``"balanced"`` draws
        all classes equally often, and never draws samples with a label below 0. A mapping gives the weight of each
        class by its label or name. An array has one weight for each sample. Default: each sample once.
    mix : sequence of float, optional
        For a :func:`concat`: the weight of each dataset. Each dataset keeps its own order. An epoch has the size of
        all datasets together. Default: every sample once.
    threads : int, optional
        Threads that read and decode. Default: one for each core that the process may use. If a launcher such as
        ``torchrun`` has started several ranks on the machine (``LOCAL_WORLD_SIZE``), and they are not bound to cores
        of their own, the default is this rank's share of the cores, and rank 0 warns once.
    prefetch : int, optional
        Number of batches in memory: the batch in use and the batches being filled. Default: 3, or 4 if a device
        decodes.
    window : "auto", "memory" or "page-cache", default "auto"
        Where to hold samples while they are mixed. ``"memory"``: in the process, up to 1 GiB divided by the number of
        ranks. ``"page-cache"``: in the page cache of the operating system; each sample is read again when its batch
        needs it. ``"auto"``: in the page cache if samples take 16 KiB to 1 MiB, the dataset is on a local disk or in
        the ``cache`` there, and there is room; otherwise in memory.
    max_batch : int or str, default "8GiB"
        Largest batch to accept, in bytes or as a string such as ``"16GiB"``. This protects against huge sizes in
        untrusted files. For records and decoded fields, ``max_record`` of the :class:`Dataset` is the limit.
    end : "drop", "pad" or "uneven", default "drop"
        What to do with the last samples, which do not fill a batch on every rank. ``"drop"`` leaves them out. ``"pad"``
        fills the batch with zeros, which ``batch.mask`` marks, so that all batches have one shape. ``"uneven"`` makes
        the last batch shorter, and some ranks may have one batch fewer. For evaluation use ``"pad"`` or ``"uneven"``,
        which return every sample.
    skip_corrupt : int, default 0
        Maximum number of damaged samples to skip during the life of the loader. ``batch.mask`` is false for skipped
        samples. The next damaged sample raises an error. A sample that is not damaged but contradicts ``align`` or
        another option is never skipped: a ``UsageError`` names it.
    to : "numpy", "torch", "jax", "cupy" or None
        Library of the tensors. ``None`` is NumPy.
    device : str or None, default "cpu"
        Device of the tensors, as the framework names it; ``None`` is the CPU. For ``"cuda"`` or ``"cuda:1"``, the
        loader makes batches on that GPU. The GPU also decodes, with the same values. Without a driver or such a device,
        the loader warns once and works as for any other device: the host decodes, and the framework copies each field
        on first use.
    decode : "auto", "device" or "host", default "auto"
        ``"host"``: the host decodes. For batches on a GPU, it uploads pictures as uint8, and the GPU converts them to
        floats. ``"device"``: the device decodes; a missing device is an error instead of a warning. ``"auto"``: the
        host decodes if there is a ``transform``; otherwise the device decodes if it can.
    resident : bool, default False
        Keep the encoded pictures and cubes in GPU memory. They are read and checked once, when the loader is made, and
        the GPU decodes them from its memory in every epoch. Batches are the same. Each rank keeps all samples, because
        it loads different samples in each epoch. It is an error if the samples do not fit or if the host decodes. The
        message gives the sizes.
    mean, std : float, or three, or mapping from field to floats, optional
        Normalise pictures as torchvision's ``Normalize`` does: ``(level / 255 − mean) / std`` for red, green and blue.
        ``dtype`` is float16, bfloat16 or float32 (the default). The result is computed as one product and one sum in
        float32 with a single rounding, and is then rounded to ``dtype``. A mean or deviation above 1 is an error:
        divide levels of 0 to 255 by 255. By default, pictures as floats are ``level / 255``. A mapping such as
        ``mean={"cube": means}`` normalises arrays: ``(value − mean) / std``, with one number for each stored band
        (before ``bands`` selects some), or one number for all bands.
    no_data : float, or mapping from field to float, optional
        Number that replaces no-data values. It is in the units of the batch, so 0 is the mean if ``mean`` and ``std``
        are given. A source file declares its no-data value (``data ignore value`` of ENVI, ``GDAL_NODATA`` of GeoTIFF).
        That value is compared with the source values before ``mean``, ``std`` and ``dtype`` are applied. Packing keeps
        it exactly, even if other floats are rounded. If the declared value is NaN, every NaN is no-data; otherwise NaNs
        stay. A single number applies to all arrays of three axes that declare a no-data value, except masks. A field
        named in a mapping must declare a no-data value. These arrays are float16, bfloat16 or float32. Augmentation of
        bands and noise leave the replacement unchanged. Default: no-data values are treated like any other number.
    augment : str or sequence of str, optional
        Augmentations, applied in this order. Pictures are augmented right after decoding: :mod:`shardpack.augment` has
        TrivialAugmentWide, RandAugment, colour jitter, erasing and others, as torchvision defines them. The draws
        depend on seed, epoch and sample. A device that decodes also augments, with bit-identical results. Arrays of two
        and three axes are augmented after patches are cut: ``"hflip"`` and ``"vflip"`` flip half of the samples left to
        right and top to bottom; ``"rot90"`` turns by 0, 90, 180 or 270 degrees, or by 0 or 180 if they are not square.
        ``"dflip"`` flips half of the boxes of volumes front to back. All arrays of a sample, such as a cube and its
        mask, are turned in the same way. Pictures are mirrored by their view (``rrcN``). If no picture is loaded, one
        :func:`shardpack.augment.random_affine` or :func:`~shardpack.augment.random_rotation` moves arrays before they
        are flipped and turned. The bands of arrays of three axes, and volumes, are augmented after ``mean`` and
        ``std``, also on a device: :func:`shardpack.augment.random_gain`, :func:`~shardpack.augment.band_jitter` and
        :func:`~shardpack.augment.band_dropout`. These arrays must be floats of at most 32 bits.
    augment_batch : str or sequence of str, optional
        :func:`shardpack.augment.mixup`, :func:`~shardpack.augment.cutmix` or :func:`~shardpack.augment.mosaic`. If you
        give several, each batch gets one of them, all equally likely. With Mixup and CutMix, ``batch["label"]`` is
        float32 ``[rows, classes]``: the weight of each class. Fields of ``align`` are mixed with their picture; then no
        label is needed. All pictures must have the same size. Draws depend on seed, epoch and the first sample of the
        batch (for a mosaic, the sample of its row), so a resumed loader repeats them with the same batch size and
        number of ranks.
    num_classes : int, optional
        Number of classes for the labels of ``augment_batch``. Default: the number of classes that the dataset names.
    transform : function, optional
        Function that the loader's threads call for every row as the last step. Its argument is a :class:`Row` with a
        NumPy array for each field. It may write to the arrays, or return a mapping from field to array of the same
        shape and type. Python code runs in one thread at a time. Seed random draws with ``row.seed``, so that a resumed
        loader repeats them. If the function raises an exception, the batch raises an error that names the sample. With
        a transform, the host decodes. The loader prepares no epoch in advance, so the function may change between
        epochs.
    transform_workers : int, default 0
        Number of processes that call ``transform``, each with its own interpreter. The threads still read and decode,
        and batches, order and states do not change. The function must be picklable, unless cloudpickle is installed.
        Each process gets a copy of the function from the time when the loader is made. There can be at most ``threads``
        processes; the default of ``threads`` is at least this number.
    transform_batch : function, optional
        Function to call for every batch, in your thread, when you take the batch. The batch may be on a device. The
        function writes to tensors of the batch, replaces them (``batch["image"] = …``), or returns another batch.

    Raises
    ------
    UsageError
        Options contradict each other or the dataset, or there would be no batch.
    FormatError, LimitError, OSError
        Raised in the loop: a sample is damaged or cannot be read. The message names the sample.

    Examples
    --------
    >>> import shardpack as sp
    >>> options = {"image": "rrc224", "layout": "chw", "fields": ["image", "label"], "to": "torch"}
    >>> loader = sp.Loader(sp.Dataset("train"), batch_size=256, **options)                      # doctest: +SKIP
    >>> for images, labels in loader:                                                           # doctest: +SKIP
    ...     loss = criterion(model(images.float() / 255), labels)
    """

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
        crops: Sequence[str | Crop] | None = None,
        frames: int | str = "all",
        cube: str = "whole",
        patches_per_sample: int = 1,
        patches: Literal["random", "grid", "balanced"] | Mapping[int, float] = "random",
        overlap: int | Sequence[int] = 0,
        open_scenes: int | None = None,
        bands: slice | Sequence[int] | str | None = None,
        layout: Literal["hwc", "chw", "cthw"] = "hwc",
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
        device: str | None = "cpu",
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
        _known(unknown, ("batch_size", *(Loader.__init__.__kwdefaults__ or ())))
        _expect_dataset(dataset)
        asks = rank is None and world_size is None
        rank, world_size = _place(rank, world_size)
        # fmt: off
        self._keywords = LoaderKeywords(
            batch_size=batch_size, shuffle=shuffle, lanes=lanes, seed=seed, epoch=epoch, rank=rank,
            world_size=world_size, image=image, crops=crops, frames=frames, cube=cube,
            patches_per_sample=patches_per_sample, patches=patches, overlap=overlap, open_scenes=open_scenes,
            bands=bands, layout=layout, dtype=dtype, fields=fields, align=align, weights=weights, mix=mix,
            threads=threads, prefetch=prefetch, window=window,
            max_batch=max_batch, end=end, skip_corrupt=skip_corrupt, to=to, device=device, decode=decode,
            resident=resident, mean=mean, std=std, no_data=no_data, augment=augment, augment_batch=augment_batch,
            num_classes=num_classes, transform=transform, transform_workers=transform_workers,
            transform_batch=transform_batch,
        )
        # fmt: on
        self._dataset = dataset
        prepared = Prepared.of(dataset, self._keywords)
        self._batches, self._change_batch = prepared.batches, prepared.change_batch
        # True once the user was warned that pictures are decoded to fewer bits.
        self._told = False
        self._core = Core(dataset._core, prepared.options, prepared.workers, asks)

    @property
    def dataset(self) -> Dataset:
        """The dataset being loaded."""
        return self._dataset

    @property
    def batch_size(self) -> int:
        """Number of rows in a batch on this rank."""
        return self._core.options.batch_size

    @property
    def rank(self) -> int:
        """Index of this rank, from 0."""
        self._core.find_place()
        return self._core.options.rank

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        self._core.find_place()
        return self._core.options.world_size

    @property
    def predicted_bytes(self) -> int:
        """Maximum memory of the loader in bytes, except the dataset's indexes and the batches that you keep."""
        return self._core.ready().predicted_bytes()

    @property
    def predicted_device_bytes(self) -> int:
        """Predicted device memory in bytes: batches in flight, resident samples, and (approximately) open scenes. It
        excludes batches that you keep and slots that grow for a larger batch. 0 without a device.
        """
        return self._core.ready().predicted_device_bytes()

    def stats(self) -> dict[str, Any]:
        """Figures counted since the loader was made. Seconds are summed over its threads.

        ``consumer_wait_s`` is the time that your loop waited for batches. If it is small, the model is the bottleneck.
        Otherwise compare ``decode_s`` (limited by cores) with ``idle_for_data_s`` (limited by the disk).
        ``extra_slots`` counts the batches allocated beyond ``prefetch`` because you kept the others. ``skipped`` counts
        damaged samples. ``narrowed_pictures`` counts pictures with more than 8 bits per sample that were decoded to 8
        bits. ``wrong_indexes`` counts pictures that were decoded without their segment index because it was wrong.
        ``window_in_page_cache`` is 1 if the current epoch uses the page cache as its ``window``.

        For a dataset behind a URL, the following figures cover all its loaders since the dataset was opened:
        ``requests``, ``retried_requests`` (after an error or a timeout) and ``fetched_bytes``.
        ``peak_requests_in_flight`` and ``peak_fetched_bytes_held`` are maxima. ``cache_hits``, ``cache_misses``,
        ``cache_hit_bytes``, ``cache_evicted``, ``cache_dropped`` and ``cache_failed_writes`` describe the cache on the
        local disk (``storage_options={"cache": …}``).

        If a device decodes, there are more figures. ``device_rows`` counts decoded values: one per field of a sample.
        ``refused`` counts rows that the host decoded instead, by reason. ``refused_first`` has up to three sample keys
        per reason. ``grown_slots`` counts slots that needed more memory than predicted. ``resident_values`` counts
        values kept on the device.
        """
        core = self._core.ready()
        refusals = core.refusals()
        return core.stats() | {
            "predicted_device_bytes": core.predicted_device_bytes(),
            "refused": {reason: rows for reason, rows, _ in refusals},
            "refused_first": {reason: keys for reason, _, keys in refusals},
        }

    def metrics(self, labels: Mapping[str, object] | None = None) -> str:
        """Return :meth:`stats` as OpenMetrics text, which Prometheus and its node exporter read.

        The names begin with ``shardpack_loader_``, and units are written out: ``read_s`` becomes
        ``shardpack_loader_read_seconds_total``. Every metric has the label ``rank``, and ``labels`` adds more.
        """
        return _metrics.text(self.stats(), {"rank": str(self.rank), **(labels or {})})

    def __iter__(self) -> Iterator[Batch]:
        """Begin an epoch. See the class documentation."""
        return Iteration(self, self._core.ready().begin())

    def _next(self, turn: int) -> Batch:
        core = self._core.ready()
        batch = core.next(turn)
        if batch is None:
            raise StopIteration
        if not self._told and core.narrowed_pictures() > 0:
            self._told = True
            _warn.of_lost_bits(name for name in self._batches.fields if name in self._batches.pictures)
        lent = lend(batch, self._batches)
        return lent if self._change_batch is None else changed(self._change_batch, lent)

    def __len__(self) -> int:
        """Number of batches in the whole epoch on this rank. It is exact, and known before the first batch.

        After ``load_state_dict`` it still counts the whole epoch, although the next iteration yields only the rest of
        it. PyTorch's loaders do the same. All epochs have the same length, with one exception: grids of patches whose
        scenes are drawn by weights or from several datasets.
        """
        return len(self._core.ready())

    @property
    def epoch(self) -> int:
        """The epoch of the running iteration. If none is running, the epoch of the next iteration."""
        (_, _, epoch, _, _), phase = self._core.ready().state()
        return epoch + (phase == "ended")

    def set_epoch(self, epoch: int) -> None:
        """Start the next iteration at the beginning of ``epoch``. If a state of that epoch was just loaded, the next
        iteration yields the rest of the epoch instead.

        So the same loop starts and resumes a run: ``for epoch in range(loader.epoch, 90): loader.set_epoch(epoch)``. A
        running iteration cannot continue after this call.
        """
        self._core.set_epoch(_number("epoch", epoch, 0, 2**32 - 1))

    def state_dict(self) -> dict[str, int | str]:
        """The position of the loader: ``seed``, ``epoch`` and ``samples_consumed`` (integers) and
        ``fingerprint`` (text).

        The state also has ``generation`` if the dataset has grown or shrunk, and ``unit`` if the epoch counts patches.
        It is the same on every rank after the same number of batches. Batches that you have received count as done. At
        the end of an epoch, the state is the start of the next epoch. Save the state as JSON or with ``torch.save`` to
        a temporary file, then move that file with ``os.replace``. Then the previous state survives if the program is
        killed while saving.
        """
        return self._state()[0]

    def _state(self) -> tuple[dict[str, int | str], str]:
        """Return the state, and the phase of its epoch."""
        (fingerprint, seed, epoch, consumed, unit), phase = self._core.ready().state()
        # Every rank is at the end of the epoch, or will get there without another batch.
        if phase == "ended":
            epoch, consumed = epoch + 1, 0
        state: dict[str, int | str] = {"fingerprint": fingerprint, "seed": seed, "epoch": epoch, "samples_consumed": consumed}
        if unit != "samples":
            state["unit"] = unit
        # The state of a dataset that never changed has no generation.
        return (state if self._dataset.generation == 1 else state | {"generation": self._dataset.generation}), phase

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from ``state``. The next iteration yields the rest of its epoch, but ``len`` still counts the whole
        epoch.

        The state may come from a run with a different batch size, number of ranks or number of threads.

        Raises
        ------
        UsageError
            The state belongs to another dataset, generation, subset, seed, order or weights.
        ValueError
            The value is not a state of a loader.
        """
        self._core.restore(checked(state, self._dataset.generation))

    def __getitem__(self, index: object) -> NoReturn:
        # A DataLoader must not mistake the loader for a map-style dataset.
        raise TypeError(
            "a loader cannot be indexed: iterate over the loader, or index its dataset\n"
            "hint: for a torch DataLoader, use DataLoader(shardpack.torch.IterableDataset(loader), batch_size=None)"
        )

    def __repr__(self) -> str:
        state = " (closed)" if self._core.is_closed else ""
        return f"Loader({self._dataset!r}, batch_size={self.batch_size}, rank {self.rank} of {self.world_size}){state}"

    def close(self) -> None:
        """End the threads. The loader cannot be used after this, but batches that you hold stay valid."""
        self._core.close(partial(finish, self._batches.convert))

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return travelling(self, self.state_dict())
