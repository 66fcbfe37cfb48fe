"""The compiled loader behind a :class:`Loader`: made anew where a fork or a place among ranks asks for it."""

from __future__ import annotations

import os
import threading
import weakref
from dataclasses import replace
from typing import Any

from shardpack import _shardpack, _warn
from shardpack._arguments import _place
from shardpack._device import check_process
from shardpack._options import Options, State
from shardpack._workers import Workers

_changing = threading.RLock()
"""Held while a loader takes another core, or is closed."""


def _unlock_in_child() -> None:
    # A thread that is not there may hold it.
    global _changing
    _changing = threading.RLock()


os.register_at_fork(after_in_child=_unlock_in_child)


class Core:
    """A compiled loader of ``dataset``. With ``asks``, ``torch.distributed`` is asked for rank and world size until
    there are threads: frameworks may begin their process group when they have been given their loaders.
    """

    def __init__(self, dataset: _shardpack.Dataset, options: Options, workers: Workers | None, asks: bool) -> None:
        self.options = options
        self.asks = asks
        self.is_closed = False
        self._dataset = dataset
        self._workers = workers
        self._resume: State | None = None
        self._pid = os.getpid()
        # Ends the threads of a loader that decodes on a device before the driver goes, at the end of the program; and
        # those that call a transform before the interpreter goes.
        self._ending: weakref.finalize[..., Core] | None = None
        self._inner = self._open()

    def _open(self) -> _shardpack.Loader:
        if self.options.stage is not None:
            check_process(self._pid)
        inner = _shardpack.Loader(self._dataset, self.options)
        self._pid = os.getpid()
        if self.options.stage is not None or self.options.transform is not None:
            if self._ending is not None:
                self._ending.detach()
            self._ending = weakref.finalize(self, _end, inner, self._workers, self._pid)
        if inner.positions() == 0:
            _warn.warn("the dataset has no samples: there will be no batch")
        if self._resume is not None:
            inner.restore(*self._resume)
        return inner

    def find_place(self) -> None:
        """Takes the place among the ranks that there is by now."""
        if not self._may_change():
            return
        with _changing:
            if not self._may_change():
                return
            rank, world_size = _place(None, None)
            before = self.options
            if world_size == 1 or (rank, world_size) == (before.rank, before.world_size):
                return
            self.options = replace(before, rank=rank, world_size=world_size)
            if before.stage is not None:
                # Its memory on the device: there may not be room for two loaders.
                self._inner.close(None)
            try:
                self._change()
            except BaseException:
                self.options = before
                if before.stage is not None:
                    self._change()
                raise

    def _may_change(self) -> bool:
        return self.asks and not self._inner.has_threads and not self.is_closed

    def _change(self) -> None:
        """Takes another compiled loader: an iteration goes on there."""
        inner = self._open()
        inner.follow(self._inner)
        self._inner = inner

    def ready(self) -> _shardpack.Loader:
        """The compiled loader, in this process."""
        if not self.is_closed and self._inner.has_threads:
            # From now on it stays; in a fork it says itself that it cannot be used there.
            return self._inner
        with _changing:
            if self.is_closed:
                raise RuntimeError("loader: expected an open one, found one that was closed")
            # What has no threads yet can be made anew in a fork.
            if os.getpid() != self._pid and not self._inner.has_threads:
                self._change()
            self.find_place()
            return self._inner

    def set_epoch(self, epoch: int) -> None:
        """Makes the next iteration this epoch, from its start."""
        inner = self.ready()
        inner.set_epoch(epoch)
        if not inner.has_threads:
            # For a fork that makes the loader anew.
            self._resume, _ = inner.state()

    def restore(self, state: State) -> None:
        """Makes the next iteration go on from a state."""
        inner = self.ready()
        inner.restore(*state)
        self._resume = None if inner.has_threads else state

    def close(self, before: Any) -> None:
        """Ends the threads, once ``before`` was called."""
        with _changing:
            was_closed, self.is_closed = self.is_closed, True
        if not was_closed and os.getpid() == self._pid:
            before()
            _end(self._inner, self._workers, self._pid)
        # The last batch takes the device with it.
        self.options = replace(self.options, stage=None)


def _end(inner: _shardpack.Loader, workers: Workers | None, pid: int) -> None:
    if os.getpid() == pid:
        inner.close(workers)
