"""Reads NIfTI files with nibabel. Each file is a volume. Masks are in a separate folder."""

from __future__ import annotations

import gzip
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ._files import open_regular
from ._same import SameType
from ._source import Item, Problem, Sample, Source, SourceError, check_drop, library, option, shown
from ._tree import Open, PathLike, find
from ._values import check_array

_COLUMNS = ("volume", "mask", "affine", "meta")
_ENDINGS = (".nii", ".nii.gz")
_HEADER_BYTES = 540
# nnU-Net appends the channel number to the names of images, but not to the names of masks.
_CHANNEL = "_0000"
_APART = 0.1
"""Largest accepted offset of a mask from its volume, in voxels. Some offset is normal, because programs round affines,
and affines stored as quaternions are less precise.
"""


def open(
    src: PathLike,
    *,
    drop: Collection[str] = (),
    masks: str | None = None,
    any_affine: bool = False,
    scaled: bool = True,
    dtype: str | None = None,
    channels: str | None = None,
    max_sample_bytes: int = 4 << 30,
    follow_links: bool = False,
) -> Source:
    """Open NIfTI files (``.nii``, ``.nii.gz``).

    Each file is a sample, and its path below `src` is the key. ``volume`` is an array `[z, y, x]` or `[t, z, y, x]`:
    the axes of the file in reverse order, so that slices are contiguous. With ``channels="last"`` it is `[z, y, x, c]`,
    the layout from which loaders cut boxes. ``affine`` is the file's `[4, 4]` matrix in float64, which maps a voxel (x,
    y, z) to the scanner's millimetres. ``meta`` holds the axes and zooms in the order of the array, the units, and the
    description in the header.

    Parameters
    ----------
    src
        A file, a folder (searched at any depth), or a list of them.
    drop
        Columns to leave out.
    masks
        Folder of label volumes. They must have the same paths as the volumes below `src`, but ``_0000`` before the
        extension may be missing. They become the field ``mask``, `[z, y, x]`. Every volume needs a mask of the same
        shape and affine. Corners may differ by at most a tenth of a voxel.
    any_affine
        Accept masks with any affine, because some programs do not write the affine.
    scaled
        Apply the slope and intercept in the header, as nibabel does, which gives float64. ``False`` keeps the stored
        numbers and adds ``slope`` and ``intercept`` to ``meta``.
    dtype
        Element type of all volumes, such as ``"float32"``. Default: the type of the first volume. A volume whose
        values do not fit cannot be converted. Only floats are rounded, and only to a float type that you name.
    channels
        Meaning of the fourth axis, which the header does not specify. ``"last"``: the axis has channels, such as the
        modalities of BraTS, and is stored as `[z, y, x, c]`; a volume of three axes then has one channel. ``"first"``:
        the axis has channels and is stored as `[c, z, y, x]`. Default: the axis is time and is stored as `[t, z, y,
        x]`, with a warning.
    max_sample_bytes
        Largest size of a decoded volume. Default 4 GiB.
    follow_links
        Follow links that lead out of the folder. Default: they are an error.
    """
    nibabel = library("nibabel", "nifti")
    if channels not in (None, "first", "last"):
        raise ValueError(f"channels: expected 'first' or 'last', found: {channels!r}")
    check_drop("nifti", drop, _COLUMNS if masks is not None else [name for name in _COLUMNS if name != "mask"])
    files, open_found = find(src, "NIfTI", lambda path: path.name.lower().endswith(_ENDINGS), follow_links)
    types = (SameType("volume", dtype), SameType("mask"))
    notes: list[str] = []
    items = _samples(nibabel, open_found, files, masks, any_affine, scaled, types, frozenset(drop), max_sample_bytes, channels, notes)
    return Source(items, total=len(files), notes=notes, types=types)


def _samples(
    nibabel: Any,
    open_found: Open,
    files: list[tuple[str, Path]],
    masks: str | None,
    any_affine: bool,
    scaled: bool,
    types: tuple[SameType, SameType],
    drop: frozenset[str],
    most: int,
    channels: str | None,
    notes: list[str],
) -> Iterator[Item]:
    for key, path in files:
        where = f"`{shown(path)}`"
        try:
            values: dict[str, Any] = _volume(nibabel, open_found, path, scaled, most)
            if masks is not None:
                found = _mask_of(key, Path(masks))
                mask = _volume(nibabel, open_regular, found, True, most)
                shape = values["volume"].shape[-3:]
                values["mask"] = types[1](f"`{shown(found)}`", _labels(mask["volume"], found, shape))
                if not any_affine:
                    _check_affine(mask["affine"], found, values["affine"], path, shape)
            if channels is None and values["volume"].ndim > 3 and not notes and "volume" not in drop:
                notes.append(_unsaid(where, values))
            _place_channels(values, channels, path)
            values["volume"] = types[0](where, values["volume"])
        except MemoryError:
            raise
        except Exception as error:  # A library of a format raises whatever it finds.
            # A SourceError already names the file.
            named = isinstance(error, SourceError)
            yield Problem(str(error) if named else f"{where}: cannot read the NIfTI file: {error}")
            continue
        yield Sample(key, values | dict.fromkeys(drop), where)


def _volume(nibabel: Any, opened: Open, path: Path, scaled: bool, most: int) -> dict[str, Any]:
    with opened(path) as file:
        stream = gzip.GzipFile(fileobj=file) if path.name.lower().endswith(".gz") else file
        head = stream.read(_HEADER_BYTES)
        stream.seek(0)
        versions = (nibabel.Nifti1Image, nibabel.Nifti2Image)
        version = next((one for one in versions if one.header_class.may_contain_header(head)), None)
        if version is None:
            raise ValueError("it has no NIfTI header")
        image = version.from_file_map({"image": nibabel.FileHolder(fileobj=stream)})
        return _values(image, path, scaled, most)


def _values(image: Any, path: Path, scaled: bool, most: int) -> dict[str, Any]:
    proxy = image.dataobj
    shape = tuple(int(side) for side in image.shape)
    item = 8 if scaled and (proxy.slope, proxy.inter) != (1, 0) else image.get_data_dtype().itemsize
    # Check the size before reading anything, because a small file may claim any size.
    size = item * int(np.prod(shape, dtype=object))
    if size > most:
        raise SourceError(f"`{shown(path)}`: a sample needs {size} bytes, but max_sample_bytes is {most}")
    meta: dict[str, Any] = {
        "axes": ["x", "y", "z", "t", "u", "v", "w"][: len(shape)][::-1],
        "zooms": [float(zoom) for zoom in image.header.get_zooms()][::-1],
        "units": list(image.header.get_xyzt_units()),
        "description": bytes(image.header["descrip"].item()).split(b"\0")[0].decode("utf-8", "replace"),
    }
    if not scaled:
        meta |= {"slope": float(proxy.slope), "intercept": float(proxy.inter)}
    array = np.asanyarray(proxy) if scaled else proxy.get_unscaled()
    volume = np.ascontiguousarray(check_array(np.asarray(array)).T)
    return {"volume": volume, "affine": np.asarray(image.affine, np.float64), "meta": meta}


def _unsaid(where: str, values: dict[str, Any]) -> str:
    axes = ", ".join(f"{axis} = {side}" for axis, side in zip(values["meta"]["axes"], values["volume"].shape, strict=True))
    return (
        "field `volume`: the file does not say whether its first axis is time or channels, so it is treated as time: "
        f"[{axes}] ({where})\n"
        f"hint: if it is channels, pass {option(channels='last')} to store [z, y, x, c] (needed to load patches), or "
        f"{option(channels='first')} to store [c, z, y, x]"
    )


def _place_channels(values: dict[str, Any], channels: str | None, path: Path) -> None:
    """Name the channel axis, and move it to the requested position."""
    if channels is None:
        return
    volume, meta = values["volume"], values["meta"]
    if volume.ndim == 5 and volume.shape[1] == 1:
        # NIfTI stores vectors along the fifth axis, after time.
        volume, meta["axes"], meta["zooms"] = volume[:, 0], ["c", *meta["axes"][2:]], [meta["zooms"][0], *meta["zooms"][2:]]
    if volume.ndim == 3:
        volume, meta["axes"], meta["zooms"] = volume[None], ["c", *meta["axes"]], [1.0, *meta["zooms"]]
    if volume.ndim != 4:
        shape = list(volume.shape)
        raise SourceError(
            f"`{shown(path)}`: {option(channels=channels)} needs a volume with 3 or 4 axes, but this volume has shape {shape}"
        )
    meta["axes"][0] = "c"
    if channels == "last":
        volume = np.moveaxis(volume, 0, -1)
        meta["axes"], meta["zooms"] = [*meta["axes"][1:], "c"], [*meta["zooms"][1:], meta["zooms"][0]]
    values["volume"] = np.ascontiguousarray(volume)


def _mask_of(key: str, folder: Path) -> Path:
    """Return the mask file of a volume. Its compression may differ, and its name may lack the channel number."""
    ending = next(ending for ending in sorted(_ENDINGS, key=len, reverse=True) if key.lower().endswith(ending) or not ending)
    stem = key[: -len(ending)]
    stems = [stem, stem.removesuffix(_CHANNEL)]
    names = [stem + ending for stem in dict.fromkeys(stems) for ending in _ENDINGS]
    found = [folder / name for name in names if (folder / name).is_file()]
    if len(found) != 1:
        listed = ", ".join(f"`{shown(path)}`" for path in found)
        why = f"no mask: expected a file such as `{shown(folder / key)}`"
        if found:
            why = f"several masks: {listed}\nhint: keep only one of them"
        raise SourceError(f"`{shown(key)}`: this volume has {why}")
    return found[0]


def _labels(mask: np.ndarray[Any, Any], path: Path, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Return a mask as whole numbers. It must have the shape of its volume."""
    if mask.shape != shape:
        raise SourceError(
            f"`{shown(path)}`: the mask has shape {list(mask.shape)}, but its volume has shape {list(shape)} (z, y, x)"
        )
    if mask.dtype.kind in "iub":
        return mask
    whole = mask.astype(np.int64)
    if not np.array_equal(whole, mask):
        wrong = mask.flat[np.flatnonzero(whole != mask)[0]]
        raise SourceError(f"`{shown(path)}`: class numbers must be integers, found {wrong}")
    narrow = next(dtype for dtype in (np.uint8, np.int16, np.int32, np.int64) if _holds(dtype, whole))
    return whole.astype(narrow)


def _check_affine(
    mask: np.ndarray[Any, Any], path: Path, volume: np.ndarray[Any, Any], of: Path, shape: tuple[int, ...]
) -> None:
    """Refuse a mask that does not cover its volume: one that is flipped, moved, or has voxels of a different size."""
    z, y, x = (side - 1 for side in (1, 1, *shape)[-3:])
    corners = np.array([[i, j, k, 1] for i in (0, x) for j in (0, y) for k in (0, z)], np.float64).T
    apart = np.linalg.norm(((mask - volume) @ corners)[:3], axis=0).max()
    voxel = np.linalg.norm(volume[:3, :3], axis=0).min()
    # `not <=` also refuses NaN, because a damaged header may contain it.
    if not apart <= _APART * voxel:
        raise SourceError(
            f"`{shown(path)}`: the mask is not aligned with its volume `{shown(of)}`: their affines place the corners "
            f"up to {apart:.3g} units apart (mask: {_rows(mask)}, volume: {_rows(volume)})\n"
            f"hint: resample the mask to the volume, or pass {option(any_affine=True)} to ignore affines"
        )


def _rows(affine: np.ndarray[Any, Any]) -> str:
    return "[" + ", ".join("[" + ", ".join(f"{value:.6g}" for value in row) + "]" for row in affine[:3]) + "]"


def _holds(dtype: Any, values: np.ndarray[Any, Any]) -> bool:
    limits = np.iinfo(dtype)
    return not values.size or bool(limits.min <= values.min() and values.max() <= limits.max)
