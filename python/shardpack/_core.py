"""The compiled loader behind a :class:`Loader`. It is recreated after a fork or a change of rank."""

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
"""Guards the replacement and the closing of cores."""


def _unlock_in_child() -> None:
    # A thread of the parent may have held the lock at the fork, so the child needs a new lock.
    global _changing
    _changing = threading.RLock()


os.register_at_fork(after_in_child=_unlock_in_child)


class Core:
    """Holds a compiled loader of ``dataset``, and replaces it when necessary.

    With ``asks``, each use of the loader rereads rank and world size from ``torch.distributed`` until the threads
    start, because frameworks may create loaders before they initialise the process group.
    """

    def __init__(self, dataset: _shardpack.Dataset, options: Options, workers: Workers | None, asks: bool) -> None:
        self.options = options
        self.asks = asks
        self.is_closed = False
        self._dataset = dataset
        self._workers = workers
        self._resume: State | None = None
        self._pid = os.getpid()
        # At exit, threads that decode on a device must end before the driver is unloaded, and threads that call a
        # transform must end before the interpreter.
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
            _warn.warn("the dataset has no samples, so the loader returns no batches")
        if self._resume is not None:
            inner.restore(*self._resume)
        return inner

    def find_place(self) -> None:
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
                # Free the device memory of the old loader first, because two loaders may not fit at once.
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
        """Replace the compiled loader. A running iteration continues with the new one."""
        inner = self._open()
        inner.follow(self._inner)
        self._inner = inner

    def ready(self) -> _shardpack.Loader:
        """Return the compiled loader of this process."""
        if not self.is_closed and self._inner.has_threads:
            # A loader with running threads is never replaced. In a forked process, using it raises an error.
            return self._inner
        with _changing:
            if self.is_closed:
                raise RuntimeError("the loader is closed")
            # In a forked process, recreate the loader if its threads had not started.
            if os.getpid() != self._pid and not self._inner.has_threads:
                self._change()
            self.find_place()
            return self._inner

    def set_epoch(self, epoch: int) -> None:
        """Start the next iteration at the beginning of this epoch."""
        inner = self.ready()
        inner.set_epoch(epoch)
        if not inner.has_threads:
            # If the loader is recreated after a fork, it starts at this position.
            self._resume, _ = inner.state()

    def restore(self, state: State) -> None:
        inner = self.ready()
        inner.restore(*state)
        self._resume = None if inner.has_threads else state

    def close(self, before: Any) -> None:
        """Call ``before``, then stop the threads of the loader."""
        with _changing:
            was_closed, self.is_closed = self.is_closed, True
        if not was_closed and os.getpid() == self._pid:
            before()
            _end(self._inner, self._workers, self._pid)
        # Drop the reference to the stage, so that the last batch releases the device.
        self.options = replace(self.options, stage=None)


def _end(inner: _shardpack.Loader, workers: Workers | None, pid: int) -> None:
    if os.getpid() == pid:
        inner.close(workers)
