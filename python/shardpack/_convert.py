"""Converts the loader's tensors to a framework's tensors, without a copy if the framework allows it.

Frameworks are imported on first use.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shardpack import _shardpack

Framework: TypeAlias = Literal["numpy", "torch", "jax", "cupy"]

Convert: TypeAlias = Callable[["_shardpack.Tensor | NDArray[Any]"], Any]
"""Converts a loader tensor, or a NumPy array, to a framework tensor."""


def finish(convert: Convert) -> None:
    """Wait for all copies that ``convert`` has started, and release the loader's memory that they read."""
    getattr(convert, "finish", lambda: None)()


def converter(to: Framework, device: str) -> Convert:
    """Return a function that converts to framework ``to`` on ``device``.

    Tensors are passed by DLPack or by NumPy's array interface. The framework copies tensors on the CPU to ``device``.
    Tensors that are already there are not copied.
    """
    if to == "numpy":
        if device != "cpu":
            raise _shardpack.UsageError(
                f'NumPy arrays are always on the CPU, but device is {device!r}\nhint: pass to="torch", to="jax" or to="cupy" for arrays on a GPU'
            )
        return _to_numpy
    makers: dict[str, Callable[[str], Convert]] = {"torch": _to_torch, "jax": _to_jax, "cupy": _to_cupy}
    if to in makers:
        try:
            return makers[to](device)
        except ModuleNotFoundError as error:
            if error.name != to:
                raise
            how = f"shardpack[{to}]" if to != "cupy" else "cupy-cuda12x"
            message = f'to="{to}" needs the package `{to}`: {error}\nhint: pip install {how}'
            raise ModuleNotFoundError(message, name=to) from None
    raise _shardpack.UsageError(f"to: expected 'numpy', 'torch', 'jax' or 'cupy', found {to!r}")


def _to_numpy(tensor: _shardpack.Tensor | NDArray[Any]) -> NDArray[Any]:
    if isinstance(tensor, np.ndarray) or tensor.typestr != "bfloat16":
        return np.asarray(tensor)
    # NumPy gets bfloat16 from `ml_dtypes`.
    import ml_dtypes

    return np.asarray(tensor.bits()).view(ml_dtypes.bfloat16)


def _is_on_device(tensor: _shardpack.Tensor | NDArray[Any]) -> bool:
    return not isinstance(tensor, np.ndarray) and tensor.__dlpack_device__() != _CPU


_CPU = (1, 0)


def _to_torch(device: str) -> Convert:
    import torch
    from torch.utils.dlpack import from_dlpack

    if torch.device(device).type == "cpu":
        return from_dlpack
    # `to` returns the tensor itself if it is already on the device.
    return lambda tensor: from_dlpack(tensor).to(device, non_blocking=True)


def _to_cupy(device: str) -> Convert:
    platform, _, number = device.partition(":")
    if platform != "cuda" or (number and not number.isdecimal()):
        raise _shardpack.UsageError(f'CuPy arrays need a CUDA device, but device is {device!r}\nhint: pass device="cuda"')
    import cupy

    place = cupy.cuda.Device(int(number)) if number else cupy.cuda.Device()

    def convert(tensor: _shardpack.Tensor | NDArray[Any]) -> Any:
        with place:
            return cupy.from_dlpack(tensor) if _is_on_device(tensor) else cupy.array(np.asarray(tensor))

    return convert


def _to_jax(device: str) -> Convert:
    import jax

    place = None if device == "cpu" else jax_device(device)
    lent = _Lent()

    def convert(tensor: _shardpack.Tensor | NDArray[Any]) -> Any:
        wide = jax.config.values["jax_enable_x64"]
        if not isinstance(tensor, np.ndarray) and _is_on_device(tensor):
            if wide or tensor.typestr not in ("<i8", "<u8"):
                return lent.copy(tensor)
            tensor = tensor.to_host()
        array = jax.dlpack.from_dlpack(tensor if wide else _narrow(tensor))
        return array if place is None else jax.device_put(array, place)

    convert.finish = lent.finish  # type: ignore[attr-defined]
    return convert


class _Lent:
    """Copies tensors on the device, for JAX.

    JAX releases borrowed memory before its work on that memory has finished, and does not expose its stream. So JAX
    gets a copy, and this class keeps the loader's memory until the copy has finished.
    """

    def __init__(self) -> None:
        # Pairs of an array that becomes ready after a copy has finished, and the source of the copy.
        self._held: deque[tuple[Any, Any]] = deque()
        # Zero on each device, from which the arrays in `_held` are computed.
        self._seeds: dict[Any, Any] = {}
        self._lock = threading.Lock()

    def copy(self, tensor: Any) -> Any:
        with self._lock:
            return self._copy(tensor)

    def _copy(self, tensor: Any) -> Any:
        import jax

        while self._held and self._held[0][0].is_ready():
            self._held.popleft()
        view = jax.dlpack.from_dlpack(tensor)
        copy = jax.numpy.array(view, copy=True)
        # The device runs operations in order, so this array becomes ready after the copy. The copy itself cannot be
        # queried, because the program may donate it.
        (device,) = view.devices()
        if device not in self._seeds:
            self._seeds[device] = jax.device_put(np.int32(0), device)
        self._held.append((self._seeds[device] + 1, view))
        return copy

    def finish(self) -> None:
        with self._lock:
            while self._held:
                self._held[0][0].block_until_ready()
                self._held.popleft()


def _narrow(tensor: _shardpack.Tensor | NDArray[Any]) -> _shardpack.Tensor | NDArray[Any]:
    """Convert 64-bit integers to JAX's default of 32 bits. Raise an error if a value does not fit."""
    if not isinstance(tensor, np.ndarray) and tensor.typestr == "bfloat16":
        return tensor
    host = np.asarray(tensor)
    if host.dtype not in (np.int64, np.uint64):
        return tensor
    narrow = np.int32 if host.dtype == np.int64 else np.uint32
    limits = np.iinfo(narrow)
    if host.size and (host.min() < limits.min or host.max() > limits.max):
        raise _shardpack.UsageError(
            f"JAX has only 32-bit integers by default, but the values range from {host.min()} to {host.max()}\n"
            'hint: call jax.config.update("jax_enable_x64", True)'
        )
    return host.astype(narrow)


def jax_device(device: str) -> Any:
    import jax

    platform, _, number = device.partition(":")
    return jax.devices(platform)[int(number or 0)]
