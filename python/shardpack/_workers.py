"""Calls a row transform in worker processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import socket
import struct
import sys
import threading
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardpack import _shardpack
from shardpack._transform import Rows, Transform

__all__ = ["Workers"]

_PATIENCE_S = 5.0
"""Time limit for a process to end, and interval between its checks that the parent is alive, in seconds."""


class Workers:
    """Starts and ends worker processes for the compiled loader. See ``python/src/workers.rs``."""

    def __init__(self, function: Transform, count: int) -> None:
        self._pickled = _pickled(function)
        self.count = count
        self._processes: dict[int, SpawnProcess] = {}
        # Reentrant, because the garbage collector may close a loader in a thread that is starting a process.
        self._lock = threading.RLock()
        self._closed = False

    def start(self, number: int, descriptor: int) -> None:
        """Start process ``number``. It receives its rows through the socket ``descriptor``."""
        with socket.socket(fileno=descriptor) as theirs:
            # Spawn, because a forked process would inherit locks held by threads that do not exist in it.
            process = multiprocessing.get_context("spawn").Process(
                target=_serve, args=(theirs, self._pickled, os.getpid()), name=f"shardpack-transform-{number}", daemon=True
            )
            with self._lock:
                if self._closed:
                    raise RuntimeError("the loader is closed")
                self._processes[number] = process
                process.start()

    def ended(self, number: int) -> str:
        """Describe how process ``number`` ended."""
        with self._lock:
            process = self._processes.pop(number, None)
        if process is None or process.pid is None:
            return "ended"
        process.join(_PATIENCE_S)
        if process.exitcode is None:
            process.kill()
            process.join()
            return "sent invalid data"
        if process.exitcode >= 0:
            return f"ended with exit code {process.exitcode}"
        return f"was killed by {signal.Signals(-process.exitcode).name}"

    def close(self) -> None:
        """End all processes, even in the middle of a row."""
        with self._lock:
            self._closed = True
            processes, self._processes = list(self._processes.values()), {}
        for process in processes:
            if process.pid is not None:
                process.terminate()
        for process in processes:
            if process.pid is not None:
                process.join(_PATIENCE_S)
                if process.exitcode is None:
                    process.kill()
                    process.join()


def _pickled(function: Transform) -> bytes:
    """Pickle the function. For functions without a name, and for programs without a file (such as notebooks), use
    cloudpickle if it is installed.
    """
    file = getattr(sys.modules["__main__"], "__file__", None)
    if file is not None and not os.path.exists(file):
        # A spawned process runs the program's file, so the file must exist.
        raise RuntimeError(
            "transform_workers needs a program that is run from a file: worker processes import it, but "
            f"{file} does not exist\n"
            "hint: save the program to a file and run that file, or leave out transform_workers"
        )
    try:
        pickled = pickle.dumps(function)
        # The worker process imports the function from its module or the program's file.
        if b"__main__" not in pickled or file is not None:
            return pickled
        reason = "it is not defined in a file, so worker processes cannot import it"
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    try:
        import cloudpickle
    except ModuleNotFoundError:
        raise TypeError(
            f"transform: cannot pickle {function!r} for transform_workers: {reason}\n"
            "hint: define the function at the top level of a module, or install cloudpickle"
        ) from None
    by_value: bytes = cloudpickle.dumps(function)
    return by_value


def _serve(asked: socket.socket, pickled: bytes, parent: int) -> None:
    """Main loop of a worker process. It transforms rows until the socket is closed."""
    # Ctrl-C reaches all processes of a program. Ignore it here, because this process ends with its parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    try:
        rows = Rows(pickle.loads(pickled))
    except Exception as error:
        _answer(asked, _shardpack.described(error))
        return
    _one_thread()
    try:
        _answer(asked)
        while True:
            said = json.loads(_taken(asked, *struct.unpack("<I", _taken(asked, 4))))
            arrays = {name: np.empty(shape, _dtype(dtype)) for name, dtype, shape in said["fields"]}
            buffers = [_bytes_of(array) for array in arrays.values()]
            for buffer in buffers:
                _fill(asked, buffer)
            try:
                rows(arrays, said["index"], said["key"], said["epoch"], said["seed"])
            except Exception as error:
                _answer(asked, _shardpack.described(error))
            else:
                _answer(asked, "", buffers)
    except (EOFError, ConnectionError):
        # The loader is closed, or its process has ended.
        return


def _one_thread() -> None:
    """Limit each loaded library to one thread, because the worker processes together already use all cores."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)
    if (cv2 := sys.modules.get("cv2")) is not None:
        cv2.setNumThreads(0)


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, even in the middle of a row."""
    process = multiprocessing.parent_process()
    while os.getppid() == parent:
        # A fork of the parent may keep the sentinel open after the parent has ended, so wait with a timeout.
        wait([] if process is None else [process.sentinel], _PATIENCE_S)
    os._exit(1)


def _dtype(name: str) -> np.dtype[Any]:
    if name == "bfloat16":
        # Importing ml_dtypes registers the name with NumPy.
        import ml_dtypes as _
    return np.dtype(name)


def _bytes_of(array: NDArray[Any]) -> memoryview:
    return array.reshape(-1).view(np.uint8).data


def _taken(asked: socket.socket, count: int) -> bytearray:
    taken = bytearray(count)
    _fill(asked, memoryview(taken))
    return taken


def _fill(asked: socket.socket, rest: memoryview) -> None:
    while rest:
        count = asked.recv_into(rest)
        if count == 0:
            raise EOFError
        rest = rest[count:]


def _answer(asked: socket.socket, error: str = "", buffers: list[memoryview] | None = None) -> None:
    text = error.encode(errors="replace")[: 1 << 20]
    asked.sendall(struct.pack("<I", len(text)) + text)
    for buffer in buffers or ():
        asked.sendall(buffer)
