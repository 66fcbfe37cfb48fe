"""From tensors of the loader to those of a framework, without a copy. Frameworks are imported when they are asked
for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from shardpack import _shardpack

Framework: TypeAlias = Literal["numpy", "torch", "jax"]

Convert: TypeAlias = Callable[["_shardpack.Tensor | NDArray[Any]"], Any]
"""Makes a framework's tensor of what the loader, or NumPy, holds."""


def converter(to: Framework, device: str) -> Convert:
    """How tensors get to framework ``to`` and to ``device``: by DLPack, or NumPy's array interface, and from the CPU
    to another device by the framework's own copy.
    """
    if to == "numpy":
        if device != "cpu":
            raise _shardpack.UsageError(
                f'device of NumPy arrays: expected cpu, found {device}\nhint: use to="torch" or to="jax"'
            )
        return np.asarray
    makers = {"torch": _to_torch, "jax": _to_jax}
    if to in makers:
        try:
            return makers[to](device)
        except ModuleNotFoundError as error:
            if error.name != to:
                raise
            message = f'to="{to}" needs the package `{to}`: {error}\nhint: pip install shardpack[{to}]'
            raise ModuleNotFoundError(message, name=to) from None
    raise _shardpack.UsageError(f"to: expected numpy, torch or jax, found {to}")


def _to_torch(device: str) -> Convert:
    import torch
    from torch.utils.dlpack import from_dlpack

    if torch.device(device).type == "cpu":
        return from_dlpack
    return lambda tensor: from_dlpack(tensor).to(device, non_blocking=True)


def _to_jax(device: str) -> Convert:
    import jax

    place = None if device == "cpu" else _jax_device(device)

    def convert(tensor: _shardpack.Tensor | NDArray[Any]) -> Any:
        array = jax.dlpack.from_dlpack(_narrow(tensor) if not jax.config.values["jax_enable_x64"] else tensor)
        return array if place is None else jax.device_put(array, place)

    return convert


def _narrow(tensor: _shardpack.Tensor | NDArray[Any]) -> _shardpack.Tensor | NDArray[Any]:
    """Integers of 64 bits as JAX holds them by default, with 32: without a change, or not at all."""
    host = np.asarray(tensor)
    if host.dtype not in (np.int64, np.uint64):
        return tensor
    narrow = np.int32 if host.dtype == np.int64 else np.uint32
    limits = np.iinfo(narrow)
    if host.size and (host.min() < limits.min or host.max() > limits.max):
        raise _shardpack.UsageError(
            f"integers: expected at most 32 bits, as JAX holds them, found {host.min()} to {host.max()}\n"
            'hint: jax.config.update("jax_enable_x64", True)'
        )
    return host.astype(narrow)


def _jax_device(device: str) -> Any:
    import jax

    platform, _, number = device.partition(":")
    return jax.devices(platform)[int(number or 0)]
