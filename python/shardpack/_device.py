"""Finds the device on which a loader makes its batches, and the CUDA streams that use the batches."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from shardpack import _shardpack, _warn
from shardpack._convert import Framework, jax_device

_CUDA = re.compile(r"cuda(?::(\d{1,9}))?")
_ON_HOST = 'hint: pass decode="host" to decode on the host'


def stage_for(decode: str, to: Framework | None, device: str, transform: object) -> _shardpack.Stage | None:
    """Return the stage that makes batches on ``device``, or ``None`` if the framework copies batches there.

    The stage also decodes, except with ``decode="host"``, or with ``decode="auto"`` and a transform. If
    ``decode="auto"`` would decode on a device but there is none, warn and return ``None``.
    """
    if decode not in ("auto", "device", "host"):
        raise _shardpack.UsageError(f"decode: expected 'auto', 'device' or 'host', found {decode!r}")
    number = _number(to, device)
    if number is None:
        if decode == "device":
            raise _shardpack.UsageError(
                f'decode="device" needs a CUDA device, but device is {device!r}\nhint: pass device="cuda:0"'
            )
        return None
    decodes = decode == "device" or (decode == "auto" and transform is None)
    try:
        return _shardpack.Stage(number, decodes)
    except RuntimeError as error:
        reason = str(error)
        # A missing GPU is fine. A GPU whose driver fails is an error, because the user asked for it.
        if decode == "device" or not isinstance(error, _shardpack.NoDeviceError):
            hint = f"\n{_ON_HOST}" if decodes and decode == "auto" else ""
            raise RuntimeError(f"cannot {'decode on' if decodes else 'use'} {device}: {reason}{hint}") from None
        if decodes:
            _warn.warn(f"decoding on the host instead of {device}: {reason}\n{_ON_HOST} without this warning")
        return None


def _number(to: Framework | None, device: str) -> int | None:
    """Return the driver's index of a CUDA device, or ``None`` for other devices."""
    named = _CUDA.fullmatch(device)
    if named is None:
        return None
    if to == "jax":
        return int(jax_device(device).local_hardware_id)
    if named[1] is not None:
        return int(named[1])
    # "cuda" means the current device of the framework, or the default device if the framework is not imported yet.
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if to == "torch" and torch is not None and torch.cuda.is_available():
        return int(torch.cuda.current_device())
    if to == "cupy" and cupy is not None:
        return int(cupy.cuda.Device().id)
    return 0


def check_process(pid: int) -> None:
    """Raise an error in a forked process, because the CUDA driver does not work there."""
    if os.getpid() != pid:
        raise RuntimeError(
            "a loader that decodes on a device cannot be used after a fork\n"
            "hint: create the loader in the child process, or use the `spawn` start method for workers"
        )


def stream_of(stream: Any) -> int:
    """Return the driver's handle of a stream. ``stream`` is the handle itself, or a PyTorch, CuPy, Numba or cuda.core
    stream.
    """
    handle = stream
    for name in ("cuda_stream", "ptr"):
        handle = getattr(stream, name, handle)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        handle = (protocol() if callable(protocol) else protocol)[1]
    # Numba's handle is a ctypes object or an integer.
    handle = getattr(handle, "handle", handle)
    handle = getattr(handle, "value", handle) if not isinstance(handle, int) else handle
    if handle is None:
        handle = 0
    if isinstance(handle, bool) or not isinstance(handle, int) or handle < 0:
        raise TypeError(f"stream: expected a CUDA stream or its handle, found {stream!r}")
    # 0 may mean either of the two default streams. Use the legacy stream, because it waits for the per-thread streams.
    return handle or 1
