"""Tests that PyTorch, JAX and CuPy can use GPU batches as their own tensors. Some tests need JAX or CuPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from device_support import NORMALISED, big, gpu, loader, on_host  # noqa: F401


def test_dlpack_for_a_device(squares: Path) -> None:
    with loader(squares, image="rrc32", seed=1) as device, on_host(squares, image="rrc32", seed=1) as host:
        core, expected = next(iter(device))._core, next(iter(host))["image"]
        assert core is not None and core.device() == (2, 0)
        tensor = core.tensor("image")
        assert tensor.__dlpack_device__() == (2, 0)
        for stream in (None, -1, 1, 2):
            assert "dltensor" in repr(tensor.__dlpack__(stream=stream))
        assert "dltensor_versioned" in repr(tensor.__dlpack__(max_version=(1, 0), dl_device=(2, 0)))
        with pytest.raises(ValueError, match="stream: .*found 0\nhint"):
            tensor.__dlpack__(stream=0)
        with pytest.raises(ValueError, match="stream: .*found -2"):
            tensor.__dlpack__(stream=-2)
        for wrong in ({"copy": True}, {"dl_device": (1, 0), "copy": False}, {"dl_device": (2, 9)}):
            with pytest.raises(BufferError, match="DLPack"):
                tensor.__dlpack__(**wrong)  # type: ignore[arg-type]
        assert np.array_equal(np.from_dlpack(_OnHost(tensor)), expected)
        assert np.array_equal(tensor.to_host(), expected)
        assert not hasattr(tensor, "__array_interface__")


class _OnHost:
    """Requests a host copy of a device tensor."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        return self.tensor.__dlpack__(dl_device=(1, 0))


def test_the_cuda_array_interface(squares: Path) -> None:
    import torch

    with loader(squares, image="rrc32", **NORMALISED) as device:
        batch = next(iter(device))
        core = batch._core
        assert core is not None
        tensor = core.tensor("image")
        interface = tensor.__cuda_array_interface__
        assert (interface["version"], interface["typestr"], interface["stream"]) == (3, "<f2", None)
        assert interface["shape"] == (16, 32, 32, 3) and interface["data"] == (batch["image"].data_ptr(), False)
        assert torch.equal(torch.as_tensor(tensor, device="cuda"), batch["image"])


def test_cupy(big: Path) -> None:
    cupy = pytest.importorskip("cupy")
    options: dict[str, Any] = {"image": "rrc64", "seed": 4, "prefetch": 2, **NORMALISED}
    side = cupy.cuda.Stream(non_blocking=True)
    with on_host(big, **options) as host:
        expected = [(batch["image"].copy(), batch["label"].copy()) for batch in host]
    with loader(big, to="cupy", device="cuda", **options) as device:
        seen = []
        for batch in device:
            with side:
                image, label = batch["image"], batch["label"]
                assert isinstance(image, cupy.ndarray) and image.device.id == 0
                seen.append((image.copy(), label.copy()))
            assert isinstance(batch.indices, cupy.ndarray)
            del image, label, batch
        side.synchronize()
    for mine, theirs in zip(seen, expected, strict=True):
        for one, other in zip(mine, theirs, strict=True):
            assert one.get().tobytes() == other.tobytes()
    # Use only the array interface, without the loader's conversion.
    with loader(big, **options) as device:
        core = next(iter(device))._core
        assert core is not None
        tensor = core.tensor("image")
        assert cupy.asarray(tensor).get().tobytes() == tensor.to_host().tobytes()


def test_cupy_from_the_host(squares: Path) -> None:
    cupy = pytest.importorskip("cupy")
    with loader(squares, to="cupy", decode="host", image="rrc32") as device, on_host(squares, image="rrc32") as host:
        mine, theirs = next(iter(device))["image"], next(iter(host))["image"]
        assert isinstance(mine, cupy.ndarray) and np.array_equal(mine.get(), theirs)


def test_jax(big: Path, cubes: Path) -> None:
    jax = pytest.importorskip("jax")
    try:
        gpu = jax.devices("cuda")[0]
    except RuntimeError as error:
        pytest.skip(f"JAX finds no GPU: {error}")
    square = jax.jit(lambda x: (x.astype("float32") ** 2).sum())
    options: dict[str, Any] = {"image": "rrc64", "seed": 4, "prefetch": 2, **NORMALISED}
    with on_host(big, **options) as host:
        expected = [(batch["image"].copy(), batch["label"].copy()) for batch in host]
    with loader(big, to="jax", **options) as device:
        seen, sums = [], []
        for batch in device:
            image, label = batch["image"], batch["label"]
            assert image.devices() == {gpu} and label.dtype == "int32"
            sums.append(square(image))
            seen.append((image, label))
            del batch
        assert len(seen) == len(expected)
        for (image, label), (their_image, their_label) in zip(seen, expected, strict=True):
            assert np.asarray(image).tobytes() == their_image.tobytes()
            assert np.array_equal(np.asarray(label), their_label)
        assert all(np.isfinite(float(one)) for one in sums)
    with loader(cubes, 6, to="jax") as device, on_host(cubes, 6) as host:
        for mine, theirs in zip(device, host, strict=True):
            assert np.asarray(mine["cube"]).tobytes() == theirs["cube"].tobytes()
            assert np.asarray(mine["mask"]).tobytes() == theirs["mask"].tobytes()


def test_a_data_loader_takes_it_without_workers(squares: Path, big: Path) -> None:
    import torch

    with loader(squares, image="rrc32") as device:
        wrapped = torch.utils.data.DataLoader(sp.torch.IterableDataset(device), batch_size=None)
        batches = list(wrapped)
        assert len(batches) == 3 and all(batch["image"].is_cuda for batch in batches)
        pinned = batches[0].pin_memory()
        assert pinned["image"].data_ptr() == batches[0]["image"].data_ptr() and pinned.indices.is_cuda
        many = torch.utils.data.DataLoader(sp.torch.IterableDataset(device), batch_size=None, num_workers=1)
        with pytest.raises(RuntimeError, match="cannot run in DataLoader workers"):
            next(iter(many))
    with loader(big) as device:
        assert next(iter(device)).pin_memory()["image"].values.is_cuda
