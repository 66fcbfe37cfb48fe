"""Which device decodes for a loader, and the streams in which programs use what it decoded."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

from shardpack import _shardpack, _warn
from shardpack._convert import Framework, jax_device

_CUDA = re.compile(r"cuda(?::(\d{1,9}))?")
_MEANT = 'hint: decode="host" says that the host is meant to decode'


def stage_for(decode: str, to: Framework | None, device: str) -> _shardpack.Stage | None:
    """What decodes on ``device``; ``None`` if the host does, after a warning if ``decode`` leaves the choice and there
    is no device.
    """
    if decode not in ("auto", "device", "host"):
        raise _shardpack.UsageError(f"decode: expected auto, device or host, found {decode!r}")
    number = None if decode == "host" else _number(to, device)
    if number is None:
        if decode == "device":
            raise _shardpack.UsageError(
                f'decode="device": expected a CUDA device, found device={device!r}\nhint: device="cuda:0"'
            )
        return None
    try:
        return _shardpack.Stage(number)
    except RuntimeError as error:
        reason = str(error)
        # A machine without a GPU is no error. One whose driver refuses has a GPU that was asked for.
        if decode == "device" or not isinstance(error, _shardpack.NoDeviceError):
            hint = "" if decode == "device" else f"\n{_MEANT}"
            raise RuntimeError(f"cannot decode on {device}: {reason}{hint}") from None
        _warn.warn(f"{device} does not decode, the host does: {reason}\n{_MEANT}")
        return None


def _number(to: Framework | None, device: str) -> int | None:
    """The number of a CUDA device, as its driver counts; ``None`` if ``device`` is none."""
    named = _CUDA.fullmatch(device)
    if named is None:
        return None
    if to == "jax":
        return int(jax_device(device).local_hardware_id)
    if named[1] is not None:
        return int(named[1])
    # The one that the program has chosen, as the framework means it by this name. Who has not imported the framework
    # has not chosen.
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if to == "torch" and torch is not None and torch.cuda.is_available():
        return int(torch.cuda.current_device())
    if to == "cupy" and cupy is not None:
        return int(cupy.cuda.Device().id)
    return 0


def check_process(pid: int) -> None:
    """Refuses to open a loader of a device in a fork: the driver does not work there."""
    if os.getpid() != pid:
        raise RuntimeError(
            "loader that decodes on a device: expected the process that made it, found a fork of that process\n"
            "hint: make the loader in the child, or start workers with spawn"
        )


def stream_of(stream: Any) -> int:
    """The driver's handle of a stream: an integer, or a stream of PyTorch, CuPy, Numba or cuda.core."""
    handle = stream
    for name in ("cuda_stream", "ptr"):
        handle = getattr(stream, name, handle)
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        handle = (protocol() if callable(protocol) else protocol)[1]
    # That of Numba is an object of ctypes, or an integer.
    handle = getattr(handle, "handle", handle)
    handle = getattr(handle, "value", handle) if not isinstance(handle, int) else handle
    if handle is None:
        handle = 0
    if isinstance(handle, bool) or not isinstance(handle, int) or handle < 0:
        raise TypeError(f"stream: expected a CUDA stream or its handle, found {stream!r}")
    # The default stream, whichever is meant: the legacy one waits for that of each thread.
    return handle or 1
