"""The loader: batches of a dataset, epoch after epoch."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Any, NoReturn

from shardpack import _shardpack, _warn
from shardpack._arguments import Shuffle, Weights, _number, _place
from shardpack._batch import Batch, lend
from shardpack._configured import Configured
from shardpack._convert import finish
from shardpack._dataset import Dataset
from shardpack._device import check_process
from shardpack._iteration import Iteration, changed
from shardpack._options import State
from shardpack._state import checked
from shardpack._workers import Workers

__all__ = ["Loader", "Shuffle", "Weights"]

_changing = threading.RLock()
"""Held while a loader takes another core, or is closed."""


def _unlock_in_child() -> None:
    # A thread that is not there may hold it.
    global _changing
    _changing = threading.RLock()


os.register_at_fork(after_in_child=_unlock_in_child)


class Loader(Configured):
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

    def _begin(self) -> None:
        # Whether it was said that pictures lose bits.
        self._told = False
        self._closed = False
        self._resume: State | None = None
        self._pid = os.getpid()
        # Ends the threads of a loader that decodes on a device before the driver goes, at the end of the program; and
        # those that call a transform before the interpreter goes.
        self._ending: weakref.finalize[..., Loader] | None = None
        self._core = self._open()

    def _open(self) -> _shardpack.Loader:
        if self._stage is not None:
            check_process(self._pid)
        core = _shardpack.Loader(self._dataset._core, self._options)
        self._pid = os.getpid()
        if self._stage is not None or self._options.transform is not None:
            if self._ending is not None:
                self._ending.detach()
            self._ending = weakref.finalize(self, _end, core, self._workers, self._pid)
        if core.positions() == 0:
            _warn.warn("the dataset has no samples: there will be no batch")
        if self._resume is not None:
            core.restore(*self._resume)
        return core

    def _ask(self) -> None:
        """Takes the place among the ranks that there is by now."""
        if not self._may_change():
            return
        with _changing:
            if not self._may_change():
                return
            rank, world_size = _place(None, None)
            before = self._options
            if world_size == 1 or (rank, world_size) == (before.rank, before.world_size):
                return
            self._options = replace(before, rank=rank, world_size=world_size)
            if self._stage is not None:
                # Its memory on the device: there may not be room for two loaders.
                self._core.close(None)
            try:
                self._change()
            except BaseException:
                self._options = before
                if self._stage is not None:
                    self._change()
                raise

    def _may_change(self) -> bool:
        return self._asks and not self._core.has_threads and not self._closed

    def _change(self) -> None:
        """Takes another core: an iteration goes on there."""
        core = self._open()
        core.follow(self._core)
        self._core = core

    def _ready(self) -> _shardpack.Loader:
        """The core, in this process."""
        if not self._closed and self._core.has_threads:
            # From now on it stays; in a fork the core itself says that it cannot be used there.
            return self._core
        with _changing:
            if self._closed:
                raise RuntimeError("loader: expected an open one, found one that was closed")
            # What has no threads yet can be made anew in a fork.
            if os.getpid() != self._pid and not self._core.has_threads:
                self._change()
            self._ask()
            return self._core

    # Iterating

    def __iter__(self) -> Iterator[Batch]:
        """Begins an epoch: see the class."""
        return Iteration(self, self._ready().begin())

    def _next(self, turn: int) -> Batch:
        core = self._ready()
        batch = core.next(turn)
        if batch is None:
            raise StopIteration
        if not self._told and core.narrowed_pictures() > 0:
            self._told = True
            _warn.of_lost_bits(name for name in self._fields if name in self._pictures)
        members = self._dataset._members
        lent = lend(batch, self._convert, self._fields, self._objects, self._pictures, self._unpacks, members)
        return lent if self._change_batch is None else changed(self._change_batch, lent)

    def __len__(self) -> int:
        """Number of batches in the whole epoch on this rank. It is exact, and known before the first batch. After
        ``load_state_dict`` it still counts the whole epoch, that of the state, as PyTorch's loaders do: the iteration
        that goes on from the state has only those that are left of it. Epochs have one length, but for grids of patches
        whose scenes are drawn by weights or from several datasets.
        """
        return len(self._ready())

    @property
    def epoch(self) -> int:
        """The epoch of the running iteration, or, between two iterations, of the next one."""
        (_, _, epoch, _, _), phase = self._ready().state()
        return epoch + (phase == "ended")

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration epoch ``epoch``, from its start. If a state of that epoch was just loaded, the next
        iteration is the rest of it. So the same loop begins a run and resumes it:
        ``for epoch in range(loader.epoch, 90): loader.set_epoch(epoch)``. An iteration that is running cannot continue
        after this call.
        """
        core = self._ready()
        core.set_epoch(_number("epoch", epoch, 0, 2**32 - 1))
        if not core.has_threads:
            # For a fork that makes the core anew.
            self._resume, _ = core.state()

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
        (fingerprint, seed, epoch, consumed, unit), phase = self._ready().state()
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
        resume = checked(state, self._dataset.generation)
        core = self._ready()
        core.restore(*resume)
        self._resume = None if core.has_threads else resume

    def __getitem__(self, index: object) -> NoReturn:
        # A DataLoader that is given a loader takes it for a map-style dataset.
        raise TypeError(
            "a loader has batches, not items: iterate over it, or index its dataset\n"
            "hint: for a torch DataLoader wrap it: DataLoader(shardpack.torch.IterableDataset(loader), batch_size=None)"
        )

    def __repr__(self) -> str:
        state = " (closed)" if self._closed else ""
        return f"Loader({self._dataset!r}, batch_size={self.batch_size}, rank {self.rank} of {self.world_size}){state}"

    # Ending

    def close(self) -> None:
        """Ends the threads; the loader cannot be used any more. Batches that you hold stay valid."""
        with _changing:
            was_closed, self._closed = self._closed, True
        if not was_closed and os.getpid() == self._pid:
            finish(self._convert)
            _end(self._core, self._workers, self._pid)
        # The last batch takes the device with it.
        self._stage, self._options = None, replace(self._options, stage=None)

    def __enter__(self) -> Loader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Elsewhere

    def __reduce__(self) -> tuple[Any, ...]:
        # What travels is how it was made and where it stands; no threads, no batches.
        return self._travelling(self.state_dict())

    def _travelling(self, state: dict[str, int | str]) -> tuple[Any, ...]:
        # A place that was found travels: a worker of a DataLoader cannot ask for it. Where there was none yet, the copy
        # asks again: it may be on its way to the processes that become the ranks.
        asks = self._asks and self.world_size == 1
        place = {"rank": None, "world_size": None} if asks else {"rank": self.rank, "world_size": self.world_size}
        return _made, (self._dataset, self._arguments | place, state)

    def _next_state(self) -> dict[str, int | str]:
        """The state at which the next iteration begins; after a broken-off epoch, the start of the next epoch."""
        state, phase = self._state()
        if phase in ("running", "broken"):
            return state | {"epoch": int(state["epoch"]) + 1, "samples_consumed": 0}
        return state

    def _refuse_workers(self) -> None:
        if self._stage is not None:
            raise RuntimeError(
                "workers of a DataLoader: expected a loader that decodes on the host, found one that decodes on a device: "
                "one process does that for each device\n"
                'hint: iterate over the loader itself, or use num_workers=0; decode="host" lets workers decode'
            )
        if self._workers is not None:
            raise RuntimeError(
                f"workers of a DataLoader: expected transform_workers=0, found {self._workers.count}: a worker may not start processes\n"
                "hint: iterate over the loader itself, which has its own workers, or leave transform_workers out"
            )

    def _for_worker(self, worker: int, workers: int) -> Loader:
        """A loader for one of several workers of this rank."""
        self._refuse_workers()
        # First the state, which asks for the place among the ranks.
        state = self._next_state()
        place = {"rank": self.rank * workers + worker, "world_size": self.world_size * workers}
        return _made(self._dataset, self._arguments | place, state)


def _end(core: _shardpack.Loader, workers: Workers | None, pid: int) -> None:
    if os.getpid() == pid:
        core.close(workers)


def _made(dataset: Dataset, arguments: dict[str, Any], state: dict[str, Any]) -> Loader:
    loader = Loader(dataset, **arguments)
    loader.load_state_dict(state)
    return loader
