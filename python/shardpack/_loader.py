"""The loader: batches of a dataset, epoch after epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Literal, NoReturn

from numpy.typing import DTypeLike

from shardpack import _warn
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

__all__ = ["Loader", "Shuffle", "Weights"]


class Loader:
    """Batches of a dataset for a training loop: read, checked and decoded by a pool of threads, straight into the
    memory that you get.

    **Epochs.** Each ``for batch in loader`` is one epoch: the first is ``epoch``, and each later one is the next,
    also after a ``break``. ``set_epoch(e)`` chooses the epoch of the next ``for``, from its start. You may call it
    before each epoch, as for a ``DistributedSampler``; if you do not, each epoch has a new order all the same. The
    order depends on dataset, seed and epoch alone, not on batch size, threads or ranks.

    **Resuming.** Call ``state_dict()`` at any time, also in the loop: batches that were handed out count as done.
    After ``load_state_dict(state)`` the next ``for`` gives the rest of that epoch, with any batch size and any number
    of ranks: every sample that was not handed out comes exactly once.

    **Ranks.** If you give neither ``rank`` nor ``world_size``, the loader takes them from ``torch.distributed``, if
    that is initialised when you ask for the first batch. Otherwise it is rank 0 of 1. Ranks do not communicate.

    **Memory** is fixed at the start (:attr:`predicted_bytes`): ``prefetch`` batches and the window of the order.
    Threads start with the first batch. They end with :meth:`close`, with the end of a ``with`` block, or with the
    loader. A loader that has begun cannot be used in a fork of its process: it raises an error that says so.

    Parameters
    ----------
    dataset : Dataset or Subset
        What to load.
    batch_size : int, default 32
        Rows in a batch, on this rank.
    shuffle : bool, "windowed" or "full", default True
        ``True`` and ``"windowed"``: large sequential reads in random order; the samples of 240 reads are mixed at a
        time. ``"full"``: all samples in random order, each read separately. ``False``: the stored order.
    lanes : int, optional
        Reads whose samples are mixed at a time, over all ranks together; default 240. More mix better, and take more
        memory: a read is 4 MiB. Numbers of ranks that divide it have reads of their own. With hundreds of ranks, 240
        lanes leave each rank small parts of each read: give 15 for each rank (15360 with 1,024). The order depends on
        it, so a state belongs to one number. A dataset of no more reads than lanes is mixed as a whole.
    seed : int, default 0
        Seed of the order, of random views, patches and turns.
    epoch : int, default 0
        The first epoch.
    rank, world_size : int, optional
        This rank and the number of ranks. Give both or neither.
    image : str, default "full"
        Pictures: ``"full"`` (whole, in their own sizes, ragged), ``"rrcN"`` (a random part, scaled to N × N pixels and
        mirrored at random, for training), ``"centerN"`` (scaled to a shorter side of 8/7 N, then the centre N × N
        pixels, for evaluation), ``"resizeN"`` (the whole picture at N × N), ``"padN"`` (the same at its own proportions,
        in the middle of grey), ``"raw"`` (stored bytes, ragged).
        :mod:`shardpack.view` writes these texts, with other parameters: ``sp.view.random_resized_crop((224, 160),
        scale=(0.25, 1))``. Pixels are uint8, or floats (``dtype``, ``mean``); pictures are upright.
    frames : int or str, default "all"
        Frames of clips, which come as ``[rows, time, height, width, 3]`` (with ``layout="chw"`` as ``[rows, time, 3,
        height, width]``). ``8``: eight, evenly spaced. ``"window8"``: eight in a row, from a random place on;
        ``"window8,every=2"`` every other one. Clips that have too few show frames twice. ``"all"``: as many as each
        clip has, ragged. All frames of a sample get one view and the same augmentation.
    cube : str, default "whole"
        Arrays: ``"whole"``, ``"patchHxW"`` (H rows and W columns at a random place), ``"centerHxW"``, ``"cycleHxW"``
        (the next tile in each epoch), ``"raw"``. Of volumes ``[depth, height, width]`` and ``[depth, height, width,
        channels]``, by the order of their axes, ``"patchDxHxW"`` and ``"centerDxHxW"``. All arrays of a sample are cut at the same place, such as a cube and
        its mask.
    patches_per_sample : int, default 1
        Patches of each sample in an epoch, of the size in ``cube="patchHxW"``, each at a random place. The epoch is one
        of patches then: its length, its order, its states. A scene is read, and what is needed of it decoded, once for
        all of its patches. Fields are scalars, arrays that are cut, and arrays of one shape.
    patches : "random", "grid", "balanced" or mapping from class to weight, default "random"
        ``"grid"``: all patches of each scene, side by side, each once in an epoch. The last ones of a row or column
        are moved back to the border. In random order, or, with ``shuffle=False``, scene after scene.
        :func:`shardpack.stitch` puts predictions of them together.
        ``"balanced"``: each of ``patches_per_sample`` shows a class of the mask among the fields, all classes of its
        scene equally often; by weights (``{0: 1, 3: 5}``) those classes alone. A pixel of the class is drawn, and the
        place of the patch around it. A scene without any of them gives patches at random places.
    overlap : int or sequence of int, default 0
        Pixels that neighbours in a grid share: of rows and columns, or of planes, rows and columns.
    open_scenes : int, optional
        Scenes whose patches are mixed, over all ranks together: the loader holds what is left of their patches. A state
        belongs to one number. Default: 16, and 4 for grids; one with ``shuffle=False``.
    bands : slice, range, sequence of int or str, optional
        Bands of arrays of three axes, in this order; ``"10..50"`` is ``range(10, 50)``. Default: all.
    layout : "hwc" or "chw", default "hwc"
        Axes of pictures and of arrays of three axes: ``[rows, height, width, channels]`` or ``[rows, channels,
        height, width]``.
    dtype : dtype, or mapping from field to dtype, optional
        Element type of arrays of three axes (``"float16"``), or of each field that is named (``{"cube": "float16",
        "mask": "int64"}``). Values never change: if one would, the batch is an error that names the sample. But
        ``"bfloat16"`` and normalised values are rounded to the nearest, ties to even.
        Default: the type of the source; where sources differ, one that holds all their values. Pictures are uint8,
        and with ``mean``, with ``std`` or by their name (``{"image": "float16"}``) float16, bfloat16 or float32. With
        ``mean`` or ``std`` and no type, pictures and arrays of integers or float64 come as float32.
        NumPy has bfloat16 if ``ml_dtypes`` is installed, CuPy has not.
    fields : sequence of str, optional
        Fields to load. Default: all scalars, pictures and arrays, without the figures that packing measured
        (``cube.max_abs_error``). Text, JSON and bytes are loaded only if you name them, as lists of Python objects.
        Arrays whose length differs from sample to sample (boxes, token ids) are a list with one array for each row.
        These lists are not part of :attr:`predicted_bytes`. Batches of named fields can be unpacked in that order: ``images, labels = batch``.
    align : mapping from field to str or None, optional
        Fields that follow the view of their picture, which crops, scales and mirrors it: masks, boxes, keypoints,
        polygons, and what belongs to each box (:mod:`shardpack.align`): ``{"mask": sp.align.mask(), "boxes": sp.align.boxes("xywh")}``.
        Masks are tensors of the view's size, the others lists with one array for each row. ``None`` in place of a text:
        the field comes as it is stored, which would be a warning for names such as ``boxes``, and an error for an array
        with a row for each box of a field of boxes that is aligned.
    weights : "balanced", mapping or array, optional
        Draw samples by weight, with replacement, as many as there are samples: ``"balanced"`` (all classes equally
        often; a label below 0 is no class, and such samples never come), label or name of a class → weight, or one
        weight for each sample. Default: each sample once.
    mix : sequence of float, optional
        For a :func:`concat`: how often each of its datasets comes, in any proportion. Each dataset goes through its
        own order, epoch after epoch, independently of the others. An epoch has as many samples as all datasets
        together. Default: every sample once.
    threads : int, optional
        Threads that read and decode. Default: one for each core that the process may use; if a launcher such as
        ``torchrun`` started several ranks on the machine (``LOCAL_WORLD_SIZE``), this rank's share of them, unless each rank is bound to cores of its own. Rank 0 warns of
        that once.
    prefetch : int, optional
        Batches in memory: one in your hands, the others being filled. Default: 3, and 4 if a device decodes, where one
        more is under way.
    window : "auto", "memory" or "page-cache", default "auto"
        Where the samples that are being mixed wait for their batch. ``"memory"``: in the process, up to 1 GiB divided
        by the number of ranks. ``"page-cache"``: in the page cache of the operating system; each sample is read from
        there when its turn comes. ``"auto"``: in the page cache, if samples take 16 KiB to 1 MiB, the disk belongs to
        this machine, and there is room; else in memory.
    max_batch : int or str, default "8GiB"
        Largest batch to accept, in bytes or as text such as ``"16GiB"``. It is a limit because sizes come from the
        files. The limit for a record and for a decoded field is that of the :class:`Dataset` (``max_record``).
    end : "drop", "pad" or "uneven", default "drop"
        What happens to samples that do not fill a batch on every rank. ``"drop"`` leaves them out. ``"pad"`` fills the
        batch up with zeros, which ``batch.mask`` marks, so that all batches have one shape. ``"uneven"`` makes the
        last batch shorter, and some ranks may have one batch fewer. Evaluate with ``"pad"`` or ``"uneven"``: both give
        every sample.
    skip_corrupt : int, default 0
        How many damaged samples to skip in the life of the loader (``batch.mask`` is false for them). One more is an
        error of its batch. Default: the first is an error. Samples that are whole but do not fit what ``align`` and the
        other options say of them are not skipped: a ``UsageError`` names them.
    to : "numpy", "torch", "jax", "cupy" or None
        The library whose tensors you get. ``None`` is NumPy.
    device : str, default "cpu"
        Where tensors are, as the framework names it. ``"cuda"`` and ``"cuda:1"``: the loader decodes on that GPU,
        into memory that it has there. The values are the same. If it finds no driver or no such device, it warns once
        and works as for any other device: the host decodes, and the framework copies each field when you ask for it.
    decode : "auto", "device" or "host", default "auto"
        ``"host"``: the host decodes, whatever the device. ``"device"``: what would be a warning is an error.
    resident : bool, default False
        Whether the encoded pictures and cubes stay on the GPU: they are read and checked once, when the loader is made,
        and every epoch is decoded from there. Batches are the same. Of all samples of the dataset: a rank is dealt
        others in each epoch. It is an error if they do not fit, with figures, or if the host decodes.
    mean, std : float, or three, or mapping from field to floats, optional
        Makes pictures floats as torchvision's ``Normalize`` does: ``(level / 255 − mean) / std`` for red, green and
        blue. ``dtype`` is float16, bfloat16 or float32, the default. One product and one sum in float32, rounded once, and
        then to ``dtype``. A number above 1 is an error: divide numbers of levels from 0 to 255 by 255. Default for
        pictures that are floats: ``level / 255``.
        By name, ``mean={"cube": means}``, arrays are normalised as well: ``(value − mean) / std``, with one number
        for each band of the stored array, of which ``bands`` take their own, or one for all.
    no_data : float, or mapping from field to float, optional
        What comes in the place of no-data, in the units of the batch: after ``mean`` and ``std``, 0 is the mean. No-data
        are the values that equal the one which the array declares to mean "nothing was measured here": ``data ignore
        value`` of ENVI, ``GDAL_NODATA`` of GeoTIFF. The values of the source are compared, before ``mean``, ``std`` and
        ``dtype``; packing keeps no-data exactly, also where it rounds floats. If the declared value is NaN, every NaN is
        no-data; else NaNs stay. A number is for arrays of three axes but masks, as far as they declare no-data; with
        names, each field must. Such arrays come as float16, bfloat16 or float32. Augmentation of bands and noise do not
        change it. The host decodes such arrays. Default: no-data is a number like any other.
    augment : str or sequence of str, optional
        What is done to pictures, in this order, right after they are decoded: :mod:`shardpack.augment` has
        TrivialAugmentWide, RandAugment, colour jitter, erasing and others, as torchvision defines them. All of it is
        drawn from seed, epoch and sample. A device that decodes does it too, to the bit.
        Three words are about arrays of two and three axes, and turn all of a sample alike, such as a cube and its mask;
        patches after they are cut: ``"hflip"`` and ``"vflip"`` flip half of the samples, left to right and top to
        bottom, ``"rot90"`` turns by 0, 90, 180 or 270 degrees, by 0 or 180 if they are not square. Pictures are mirrored
        by their view: ``rrcN``.
        :func:`shardpack.augment.random_gain`, :func:`~shardpack.augment.band_jitter` and
        :func:`~shardpack.augment.band_dropout` change the bands of arrays of three axes, after ``mean`` and ``std``, on a
        device too. Such arrays come as floats of at most 32 bits.
    augment_batch : str or sequence of str, optional
        :func:`shardpack.augment.mixup` and :func:`~shardpack.augment.cutmix`, of which each batch gets one, all equally
        likely. ``batch["label"]`` is then float32 ``[rows, classes]``, the weight of each class. Pictures have one size.
        It is done where the batch is, also on a device. Drawn from seed and epoch, and from the first sample of the batch: a resumed loader of the
        same batch size and number of ranks goes on with the same draws.
    num_classes : int, optional
        Classes of these labels. Default: as many as the dataset names.
    transform : function, optional
        Called for every row after all else, in the loader's threads, with a :class:`Row`: for each field a NumPy array,
        which it may write to. Or it returns a mapping from field to array, of the same shape and type. The threads take
        the interpreter for it: what it does in Python, one thread does at a time. Draw from ``row.seed``, and a resumed
        loader goes on with the same draws. An exception is the error of its batch, which names the sample. The host must
        decode. You may change what it does between two epochs: none is begun ahead.
    transform_workers : int, default 0
        Processes that call ``transform``, each with its own interpreter, so that what it does in Python is done for as
        many rows at a time. Reading and decoding stay in the threads, and batches, order and states are the same. The
        function has to be one that can be pickled, or cloudpickle has to be installed; each process has a copy
        of what it was when the loader was made. At most ``threads``, which are at least as many by default.
    transform_batch : function, optional
        Called for every batch when it is asked for, in your thread, also on a device. It writes to tensors of the
        batch, replaces them (``batch["image"] = …``), or returns another batch.

    Raises
    ------
    UsageError
        Options contradict each other or the dataset, or would give no batch at all.
    FormatError, LimitError, OSError
        From the loop: a sample is damaged or cannot be read. The message names it.

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
        _known(unknown, ("batch_size", *(Loader.__init__.__kwdefaults__ or ())))
        _expect_dataset(dataset)
        asks = rank is None and world_size is None
        rank, world_size = _place(rank, world_size)
        # fmt: off
        self._keywords = LoaderKeywords(
            batch_size=batch_size, shuffle=shuffle, lanes=lanes, seed=seed, epoch=epoch, rank=rank,
            world_size=world_size, image=image, frames=frames, cube=cube, patches_per_sample=patches_per_sample,
            patches=patches, overlap=overlap, open_scenes=open_scenes, bands=bands, layout=layout, dtype=dtype,
            fields=fields, align=align, weights=weights, mix=mix, threads=threads, prefetch=prefetch, window=window,
            max_batch=max_batch, end=end, skip_corrupt=skip_corrupt, to=to, device=device, decode=decode,
            resident=resident, mean=mean, std=std, no_data=no_data, augment=augment, augment_batch=augment_batch,
            num_classes=num_classes, transform=transform, transform_workers=transform_workers,
            transform_batch=transform_batch,
        )
        # fmt: on
        self._dataset = dataset
        prepared = Prepared.of(dataset, self._keywords)
        self._batches, self._change_batch = prepared.batches, prepared.change_batch
        # Whether it was said that pictures lose bits.
        self._told = False
        self._core = Core(dataset._core, prepared.options, prepared.workers, asks)

    # Facts about it

    @property
    def dataset(self) -> Dataset:
        """The dataset."""
        return self._dataset

    @property
    def batch_size(self) -> int:
        """Rows in a batch, on this rank."""
        return self._core.options.batch_size

    @property
    def rank(self) -> int:
        """This rank."""
        self._core.find_place()
        return self._core.options.rank

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        self._core.find_place()
        return self._core.options.world_size

    @property
    def predicted_bytes(self) -> int:
        """The most memory that the loader takes, in bytes. Indexes of the dataset and batches that you keep are not
        counted.
        """
        return self._core.ready().predicted_bytes()

    @property
    def predicted_device_bytes(self) -> int:
        """Memory of the slots on the device, of what stays there, and about that of scenes that lie there while their
        patches come, in bytes; 0 if the host decodes. Batches that you keep, and slots that grow for a larger batch, are
        not counted.
        """
        return self._core.ready().predicted_device_bytes()

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
        core = self._core.ready()
        refusals = core.refusals()
        return core.stats() | {
            "predicted_device_bytes": core.predicted_device_bytes(),
            "refused": {reason: rows for reason, rows, _ in refusals},
            "refused_first": {reason: keys for reason, _, keys in refusals},
        }

    # Iterating

    def __iter__(self) -> Iterator[Batch]:
        """Begins an epoch: see the class."""
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
        """Number of batches in the whole epoch on this rank. It is exact, and known before the first batch. After
        ``load_state_dict`` it still counts the whole epoch, that of the state, as PyTorch's loaders do: the iteration
        that goes on from the state has only those that are left of it. Epochs have one length, but for grids of patches
        whose scenes are drawn by weights or from several datasets.
        """
        return len(self._core.ready())

    @property
    def epoch(self) -> int:
        """The epoch of the running iteration, or, between two iterations, of the next one."""
        (_, _, epoch, _, _), phase = self._core.ready().state()
        return epoch + (phase == "ended")

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration epoch ``epoch``, from its start. If a state of that epoch was just loaded, the next
        iteration is the rest of it. So the same loop begins a run and resumes it:
        ``for epoch in range(loader.epoch, 90): loader.set_epoch(epoch)``. An iteration that is running cannot continue
        after this call.
        """
        self._core.set_epoch(_number("epoch", epoch, 0, 2**32 - 1))

    # Resuming

    def state_dict(self) -> dict[str, int | str]:
        """The position of the loader: ``seed``, ``epoch`` and ``samples_consumed`` (integers) and ``fingerprint`` (a
        string), the same on every rank that got the same number of batches. ``generation`` is there if the dataset has
        grown or shrunk, ``unit`` if the epoch counts patches. Batches that were handed out count as done. At the end of
        an epoch it is the start of the next one. Save it as JSON, or with ``torch.save``, to a temporary file that
        ``os.replace`` then puts in place: a kill while saving must not destroy the last state.
        """
        return self._state()[0]

    def _state(self) -> tuple[dict[str, int | str], str]:
        """The state, and how far its epoch is."""
        (fingerprint, seed, epoch, consumed, unit), phase = self._core.ready().state()
        # Then every rank is at the end, or will be without another batch.
        if phase == "ended":
            epoch, consumed = epoch + 1, 0
        state: dict[str, int | str] = {"fingerprint": fingerprint, "seed": seed, "epoch": epoch, "samples_consumed": consumed}
        if unit != "samples":
            state["unit"] = unit
        # States of a dataset that never grew stay what they were.
        return (state if self._dataset.generation == 1 else state | {"generation": self._dataset.generation}), phase

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Makes the next iteration continue from ``state``: it has the batches that are left of the epoch, of which
        ``len`` still counts all. The state may come from a run with another batch size, number of ranks or number of
        threads.

        Raises
        ------
        UsageError
            The state is of another dataset, generation, subset, seed, order or weights.
        ValueError
            It is not a state of a loader.
        """
        self._core.restore(checked(state, self._dataset.generation))

    def __getitem__(self, index: object) -> NoReturn:
        # A DataLoader that is given a loader takes it for a map-style dataset.
        raise TypeError(
            "a loader has batches, not items: iterate over it, or index its dataset\n"
            "hint: for a torch DataLoader wrap it: DataLoader(shardpack.torch.IterableDataset(loader), batch_size=None)"
        )

    def __repr__(self) -> str:
        state = " (closed)" if self._core.is_closed else ""
        return f"Loader({self._dataset!r}, batch_size={self.batch_size}, rank {self.rank} of {self.world_size}){state}"

    # Ending

    def close(self) -> None:
        """Ends the threads; the loader cannot be used any more. Batches that you hold stay valid."""
        self._core.close(partial(finish, self._batches.convert))

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # In another process

    def __reduce__(self) -> tuple[Any, ...]:
        return travelling(self, self.state_dict())
