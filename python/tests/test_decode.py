"""Tests pictures as floats, and how a loader behaves without a GPU."""

from __future__ import annotations

import pickle
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import shardpack as sp
from numpy.typing import NDArray
from shardpack import _convert, _shardpack
from shardpack._device import stream_of
from shardpack._travel import for_worker

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def rounded(exact: Fraction) -> np.float32:
    """Returns the nearest float32, with ties to even."""
    near = np.float32(float(exact))
    around = [np.nextafter(near, np.float32(side)) for side in (-np.inf, np.inf)]
    even = lambda value: int(value.view(np.uint32)) % 2  # noqa: E731
    return min([near, *around], key=lambda value: (abs(Fraction(float(value)) - exact), even(value)))


def expected(levels: NDArray[np.uint8], scale: list[np.float32], bias: list[np.float32], dtype: str) -> NDArray[Any]:
    """Returns ``level · scale + bias`` for pixels ``[…, 3]``, rounded once to float32 and then to ``dtype``."""
    table = np.array(
        [
            [rounded(level * Fraction(float(a)) + Fraction(float(b))) for level in range(256)]
            for a, b in zip(scale, bias, strict=True)
        ],
        np.float32,
    )
    return table[np.arange(3), levels].astype(dtype)


def factors(mean: Any, std: Any) -> tuple[list[np.float32], list[np.float32]]:
    means, stds = np.broadcast_to(mean, 3).tolist(), np.broadcast_to(std, 3).tolist()
    return [np.float32(1 / (255 * s)) for s in stds], [np.float32(-m / s) for m, s in zip(means, stds, strict=True)]


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(("mean", "std"), [(MEAN, STD), (0.5, np.array([0.25])), (None, STD), (0.3, None)])
def test_normalised_pictures_are_one_fused_product_and_sum(photos: Path, dtype: str, mean: Any, std: Any) -> None:
    options: dict[str, Any] = {"image": "rrc32", "seed": 3, "fields": ["image"]}
    scale, bias = factors(0.0 if mean is None else mean, 1.0 if std is None else std)
    with (
        sp.Loader(sp.Dataset(photos), 20, **options) as levels,
        sp.Loader(sp.Dataset(photos), 20, **options, dtype=dtype, mean=mean, std=std) as floats,
        sp.Loader(sp.Dataset(photos), 20, **options, dtype=dtype, mean=mean, std=std, layout="chw") as planes,
    ):
        for (level,), (value,), (plane,) in zip(levels, floats, planes, strict=True):
            assert (value.dtype, value.shape, plane.shape) == (dtype, (20, 32, 32, 3), (20, 3, 32, 32))
            assert value.tobytes() == expected(level, scale, bias, dtype).tobytes()
            assert np.array_equal(plane, value.transpose(0, 3, 1, 2))


def test_pictures_that_are_named_come_from_0_to_1(photos: Path) -> None:
    scale = [np.float32(1) / np.float32(255)] * 3
    with (
        sp.Loader(sp.Dataset(photos), 20, shuffle=False) as levels,
        sp.Loader(sp.Dataset(photos), 20, shuffle=False, dtype={"image": "float32"}) as floats,
    ):
        for level, value in zip(levels, floats, strict=True):
            assert np.array_equal(value["image"].shapes, level["image"].shapes)
            for mine, theirs in zip(value["image"], level["image"], strict=True):
                assert mine.tobytes() == expected(theirs, scale, [np.float32(0)] * 3, "float32").tobytes()


def test_mean_and_std_alone_make_float32(photos: Path) -> None:
    dataset = sp.Dataset(photos)
    options: dict[str, Any] = {"image": "center32", "mean": MEAN, "std": STD, "shuffle": False}
    plain = next(iter(sp.Loader(dataset, 20, **options)))["image"]
    named = next(iter(sp.Loader(dataset, 20, **options, dtype="float32")))["image"]
    assert plain.dtype == np.float32 and np.array_equal(plain, named)


def test_normalised_integers_are_float32(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    values = np.arange(4 * 3 * 2, dtype=np.uint16).reshape(4, 3, 2)
    np.save(tmp_path / "src" / "a.npy", values)
    sp.pack(tmp_path / "src", tmp_path / "out")
    dataset = sp.Dataset(tmp_path / "out")
    batch = next(iter(sp.Loader(dataset, 1, fields=["cube"], mean={"cube": 1}, std={"cube": 2})))["cube"]
    assert batch.dtype == np.float32 and np.array_equal(batch[0], (values.astype(np.float32) - 1) / 2)
    assert next(iter(sp.Loader(dataset, 1, fields=["cube"])))["cube"].dtype == np.uint16


def test_a_dtype_alone_is_for_cubes(photos: Path) -> None:
    with pytest.raises(sp.UsageError, match="the dtype float16 applies only to decoded arrays.*\nhint: to load pictures with this dtype, name their field in `dtype`, or pass mean and std"):
        sp.Loader(sp.Dataset(photos), 20, image="center32", dtype="float16")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"mean": MEAN, "dtype": {"image": "uint8"}}, r"mean and std need pictures that are loaded as floats, but none are.*\n.*load the pictures as float16, bfloat16 or float32"),
        ({"mean": MEAN, "dtype": {"label": "float16"}}, r"`dtype` cannot be set for `label`, only for decoded pictures and arrays \(image\)"),
        ({"mean": MEAN, "dtype": "float16", "image": "raw"}, "the dtype float16 applies only to decoded arrays with three axes, but none is loaded"),
        ({"mean": (1, 2), "dtype": "float16"}, r"mean must be one number, or three .*not 2"),
        ({"mean": np.nan, "dtype": "float16"}, "the mean must be a finite number, but is NaN"),
        ({"std": (0.1, 0.0, 0.1), "dtype": "float16"}, "the std must be a finite number above 0, but is 0"),
        ({"mean": [124, 116, 104], "std": [58, 57, 57], "dtype": "float16"}, "mean is 124, but must be at most 1: .*\nhint: divide the numbers by 255 .*; if the numbers are for an array field, name the field"),
        ({"mean": MEAN, "std": [58, 57, 57], "dtype": "float16"}, "std is 58, but must be at most 1: .*\nhint: divide the numbers by 255"),
        ({"std": -1.0, "dtype": "float16"}, "the std must be a finite number above 0, but is -1"),
        ({"std": 1e-300, "dtype": "float32"}, "1 / std and mean / std must fit in float32"),
        ({"mean": MEAN, "dtype": "float64"}, "as uint8, float16, bfloat16 or float32, but not as float64"),
        ({"dtype": {"image": "int32"}}, "as uint8, float16, bfloat16 or float32, but not as int32"),
        ({"device": "cuda:0"}, "NumPy arrays are always on the CPU, but device is 'cuda:0'\nhint: .*to=\"cupy\""),
        ({"decode": "gpu"}, "decode: expected 'auto', 'device' or 'host', found 'gpu'"),
        ({"decode": "device"}, "decode=\"device\" needs a CUDA device, but device is 'cpu'"),
        ({"resident": True}, r"resident=True needs decoding on a GPU, but this loader decodes on the host \(device='cpu'"),
        ({"to": "cupy"}, "CuPy arrays need a CUDA device, but device is 'cpu'"),
        ({"to": "cupy", "device": "cuda:x"}, "CuPy arrays need .*device is 'cuda:x'"),
    ],
)
def test_arguments_that_do_not_fit(photos: Path, options: dict[str, Any], match: str) -> None:
    with pytest.raises(sp.UsageError, match=match):
        sp.Loader(sp.Dataset(photos), 20, **options)


@pytest.mark.parametrize("value", ["white", object(), (MEAN, 1)])
def test_a_mean_that_is_no_number(photos: Path, value: object) -> None:
    with pytest.raises(TypeError, match="mean: expected a number, or one for each"):
        sp.Loader(sp.Dataset(photos), 20, mean=value, dtype="float16")  # type: ignore[arg-type]


def test_cupy_is_named_if_it_is_not_installed(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(ModuleNotFoundError, match='to="cupy" needs the package `cupy`.*\nhint: pip install cupy-cuda12x'):
        sp.Loader(sp.Dataset(photos), 20, to="cupy", device="cuda")


@pytest.fixture
def framework(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replaces PyTorch's conversion with NumPy arrays, and simulates a machine without a CUDA driver."""

    def no_driver(number: int, decodes: bool) -> None:
        raise _shardpack.NoDeviceError(f"device {number}: no driver")

    monkeypatch.setattr(_convert, "_to_torch", lambda device: np.asarray)
    monkeypatch.setattr(_shardpack, "Stage", no_driver)


@pytest.mark.usefixtures("framework")
def test_without_a_driver_the_loader_says_so_once_and_the_host_decodes(photos: Path) -> None:
    options: dict[str, Any] = {"image": "rrc32", "to": "torch", "device": "cuda:1"}
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with sp.Loader(sp.Dataset(photos), 20, **options) as loader, sp.Loader(sp.Dataset(photos), 20, image="rrc32") as host:
            for _ in range(2):
                for mine, theirs in zip(loader, host, strict=True):
                    assert np.array_equal(mine["image"], theirs["image"])
                    mine.used_on(7)
            assert loader.predicted_device_bytes == 0
            stats = loader.stats()
            assert (stats["refused"], stats["refused_first"], stats["predicted_device_bytes"]) == ({}, {}, 0)
    assert [str(one.message) for one in said] == [
        "decoding on the host instead of cuda:1: device 1: no driver\n"
        'hint: pass decode="host" to decode on the host without this warning'
    ]
    assert said[0].filename == __file__


@pytest.mark.usefixtures("framework")
def test_who_means_the_host_is_not_warned_and_who_means_the_device_gets_an_error(photos: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sp.Loader(sp.Dataset(photos), 20, to="torch", device="cuda", decode="host").close()
    with pytest.raises(RuntimeError, match="cannot decode on cuda:3: device 3: no driver$"):
        sp.Loader(sp.Dataset(photos), 20, to="torch", device="cuda:3", decode="device")


@pytest.mark.usefixtures("framework")
def test_a_transform_lets_the_host_decode_and_the_device_gets_the_batches(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[int, bool]] = []

    def no_driver(number: int, decodes: bool) -> None:
        opened.append((number, decodes))
        raise _shardpack.NoDeviceError(f"device {number}: no driver")

    monkeypatch.setattr(_shardpack, "Stage", no_driver)
    options: dict[str, Any] = {"image": "rrc32", "to": "torch", "device": "cuda:1"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sp.Loader(sp.Dataset(photos), 20, transform=lambda row: None, **options).close()
        sp.Loader(sp.Dataset(photos), 20, decode="host", **options).close()
    assert opened == [(1, False), (1, False)]


@pytest.mark.usefixtures("framework")
def test_a_driver_that_refuses_is_an_error(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(number: int, decodes: bool) -> None:
        raise RuntimeError("cuModuleLoadData: CUDA_ERROR_OUT_OF_MEMORY: out of memory")

    monkeypatch.setattr(_shardpack, "Stage", refuses)
    with pytest.raises(RuntimeError, match='cannot decode on cuda:1: cuModuleLoadData.*\nhint: pass decode="host"'):
        sp.Loader(sp.Dataset(photos), 20, to="torch", device="cuda:1")


def test_copies_under_way_are_waited_for_at_the_end() -> None:
    """A batch's memory is kept until JAX's copies have finished or the loader is closed."""
    waited: list[int] = []
    lent = _convert._Lent()
    for number in range(3):
        ready = SimpleNamespace(is_ready=lambda: False, block_until_ready=lambda number=number: waited.append(number))
        lent._held.append((ready, object()))
    lent.finish()
    assert waited == [0, 1, 2] and not lent._held


def test_this_machine_has_a_device_or_a_reason(photos: Path) -> None:
    """Uses the real driver, not a stand-in."""
    try:
        device = _shardpack.Stage(0)
    except RuntimeError as error:
        assert str(error).strip(), "a reason in words"
    else:
        assert device.number == 0
    with pytest.raises(_shardpack.NoDeviceError):
        _shardpack.Stage(4000)


@pytest.mark.usefixtures("framework")
def test_a_loader_travels_with_its_device(photos: Path) -> None:
    options: dict[str, Any] = {"image": "center32", "dtype": "float16", "mean": MEAN, "std": STD}
    with sp.Loader(sp.Dataset(photos), 20, to="torch", device="cuda:1", decode="host", **options) as loader:
        with pickle.loads(pickle.dumps(loader)) as copy:
            assert {copy._keywords.device, copy._keywords.decode} == {"cuda:1", "host"}
            assert np.array_equal(next(iter(copy))["image"], next(iter(loader))["image"])


@pytest.mark.parametrize(
    ("stream", "handle"),
    [
        (4096, 4096),
        (0, 1),
        (2, 2),
        (SimpleNamespace(cuda_stream=77), 77),
        (SimpleNamespace(ptr=78), 78),
        (SimpleNamespace(handle=SimpleNamespace(value=79)), 79),
        (SimpleNamespace(handle=SimpleNamespace(value=None)), 1),
        (SimpleNamespace(__cuda_stream__=lambda: (0, 80)), 80),
        (SimpleNamespace(__cuda_stream__=(0, 81)), 81),
    ],
)
def test_streams_of_all_libraries(stream: object, handle: int) -> None:
    assert stream_of(stream) == handle


@pytest.mark.parametrize("stream", ["7", -1, True, 1.5, object()])
def test_what_is_no_stream(photos: Path, stream: object) -> None:
    with sp.Loader(sp.Dataset(photos), 20) as loader, pytest.raises(TypeError, match="stream: expected a CUDA stream"):
        next(iter(loader)).used_on(stream)


def test_tensors_on_the_host_know_no_streams_and_no_device(photos: Path) -> None:
    with sp.Loader(sp.Dataset(photos), 20, image="rrc32") as loader:
        core = next(iter(loader))._core
        assert core is not None and core.device() is None
        tensor = core.tensor("image")
        assert tensor.__dlpack_device__() == (1, 0) and tensor.typestr == "|u1"
        assert not hasattr(tensor, "__cuda_array_interface__")
        assert np.from_dlpack(tensor).shape == (20, 32, 32, 3)
        refused: list[Callable[[], Any]] = [
            lambda: tensor.__dlpack__(dl_device=(2, 0)),
            lambda: tensor.__dlpack__(copy=True),
        ]
        for call in refused:
            with pytest.raises(BufferError, match="DLPack"):
                call()


def test_workers_are_refused_a_loader_that_decodes_on_a_device(photos: Path) -> None:
    with sp.Loader(sp.Dataset(photos), 20) as loader:
        for_worker(loader, 0, 2).close()
        loader._core.options = replace(loader._core.options, stage=object())  # type: ignore[arg-type]
        with pytest.raises(RuntimeError, match='cannot run in DataLoader workers.*\nhint: .*device="cpu"'):
            for_worker(loader, 0, 2)
