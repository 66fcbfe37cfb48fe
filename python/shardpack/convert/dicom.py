"""Reads DICOM files with pydicom. A sample is either a series, as a volume, or a single file."""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ._same import SameType
from ._source import Item, Problem, Sample, Source, SourceError, check_drop, library, option, shown
from ._tree import Open, PathLike, find
from ._values import check_array

_COLUMNS = ("volume", "image", "meta")
# Attributes that describe the values. None of them identifies a person, a place or a date.
_TAGS = (
    "Modality",
    "PhotometricInterpretation",
    "PixelSpacing",
    "SliceThickness",
    "SpacingBetweenSlices",
    "ImageOrientationPatient",
    "ImagePositionPatient",
    "BitsStored",
    "WindowCenter",
    "WindowWidth",
    "RescaleType",
    "Units",
    "DoseUnits",
    "GridFrameOffsetVector",
    "BodyPartExamined",
    "ConvolutionKernel",
)
# Functional groups that hold these attributes in enhanced (multi-frame) files, either one for all frames or one per
# frame.
_GROUPS = {
    "PixelSpacing": "PixelMeasuresSequence",
    "SliceThickness": "PixelMeasuresSequence",
    "SpacingBetweenSlices": "PixelMeasuresSequence",
    "ImageOrientationPatient": "PlaneOrientationSequence",
    "ImagePositionPatient": "PlanePositionSequence",
    "RescaleSlope": "PixelValueTransformationSequence",
    "RescaleIntercept": "PixelValueTransformationSequence",
    "RescaleType": "PixelValueTransformationSequence",
    "WindowCenter": "FrameVOILUTSequence",
    "WindowWidth": "FrameVOILUTSequence",
    "ConvolutionKernel": "CTReconstructionSequence",
}


_DEFLATED = "1.2.840.10008.1.2.1.99"
"""Transfer syntax of deflated files: everything after the first group is compressed."""
_MOST_HEADER = 16 << 20
"""Maximum unpacked bytes of a deflated file, not counting its pixels."""
_MOST_RATIO = 32
"""Maximum ratio of unpacked to stored bytes of a deflated file. Without this limit, a small file could contain a huge
number of elements, each of which takes time to parse.
"""
_WIDE = (b"OB", b"OD", b"OF", b"OL", b"OV", b"OW", b"SQ", b"SV", b"UC", b"UN", b"UR", b"UT", b"UV")
"""Value representations whose length field has four bytes."""
_UNEVEN = 0.2
"""Maximum deviation of a gap between slices from the median gap, as a fraction of the median. Files store rounded
positions, so the gaps are never quite equal.
"""


class _Slice(NamedTuple):
    """One frame of an enhanced file, or the whole of any other file."""

    dataset: Any
    frame: int = 0

    def get(self, tag: str) -> Any:
        """Return an attribute of this frame. If the frame lacks it, return the attribute of all frames, or None."""
        for group in self._groups(_GROUPS[tag]) if tag in _GROUPS else ():
            if (value := group.get(tag, None)) is not None:
                return value
        return self.dataset.get(tag, None)

    def _groups(self, name: str) -> Iterator[Any]:
        each = self.dataset.get("PerFrameFunctionalGroupsSequence", None) or []
        shared = self.dataset.get("SharedFunctionalGroupsSequence", None) or []
        for functional in (*each[self.frame : self.frame + 1], *shared[:1]):
            yield from (functional.get(name, None) or [])[:1]


def _slices(dataset: Any) -> list[_Slice]:
    """Return the frames of an enhanced file, or any other file as a single slice. Raise an error unless there is a
    functional group for each frame.
    """
    groups = dataset.get("PerFrameFunctionalGroupsSequence", None)
    if not groups:
        return [_Slice(dataset)]
    frames = _frames(dataset)
    if len(groups) != frames:
        raise ValueError(
            f"the file has {frames} frames, but its PerFrameFunctionalGroupsSequence has {len(groups)} items"
        )
    return [_Slice(dataset, frame) for frame in range(frames)]


def _frames(dataset: Any) -> int:
    return int(dataset.get("NumberOfFrames", None) or 1)


def open(
    src: PathLike,
    *,
    drop: Collection[str] = (),
    samples: str = "series",
    uneven: bool = False,
    dtype: str | None = None,
    max_sample_bytes: int = 4 << 30,
    follow_links: bool = False,
) -> Source:
    """Open DICOM files, which are recognised by their content.

    Rescale slope and intercept are applied (Hounsfield units). The result is int16 or int32 if both are whole numbers,
    otherwise float64. Doses are scaled, and a modality table is applied. If a file has none of these, the stored
    numbers are kept. All samples get the type of the first sample. ``meta`` holds spacing, orientation, position,
    window, units and modality. In enhanced files, which hold a whole volume, these attributes and the slopes come from
    the functional groups of each frame. **Patient names, patient numbers and dates are not stored**, but pixels may
    still show them.

    Parameters
    ----------
    src
        A file, a folder (searched at any depth), or a list of them.
    drop
        Columns to leave out.
    samples
        ``"series"`` (default): each series is a sample, ``volume`` `[slices, rows, columns]`. Its slices are sorted
        by position along their normal, and its key is the UID of the series. ``"files"``: each file is a sample,
        ``image`` `[rows, columns]`, `[rows, columns, 3]` or `[frames, rows, columns]`, in the order of the file. Its
        key is the path below `src`.
    uneven
        Accept series with uneven gaps between slices. Default: gaps that differ by more than a fifth are an error,
        because a slice is probably missing.
    dtype
        Element type of all samples, such as ``"int16"`` or ``"float32"``. Default: the type of the first sample. A
        sample whose values do not fit cannot be converted. Only floats are rounded, and only to a float type that
        you name.
    max_sample_bytes
        Largest size of a decoded sample. Default 4 GiB.
    follow_links
        Follow links that lead out of the folder. Default: they are an error.
    """
    pydicom = library("pydicom", "dicom")
    if samples not in ("series", "files"):
        raise SourceError(f"samples: expected 'series' or 'files', found: {samples!r}")
    check_drop("dicom", drop, ["volume" if samples == "series" else "image", "meta"])
    files, open_found = find(src, "DICOM", _is_dicom, follow_links)
    if samples == "files":
        same = SameType("image", dtype)
        items = _files(pydicom, open_found, files, same, frozenset(drop), max_sample_bytes)
        return Source(items, kinds={"image": "array"}, total=len(files), types=[same])
    same = SameType("volume", dtype)
    return Source(_series(pydicom, open_found, files, same, frozenset(drop), max_sample_bytes, uneven), types=[same])


def _is_dicom(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(132)[128:] == b"DICM" and path.name != "DICOMDIR"
    except OSError:
        # Accept the file here. Opening it later will raise the error.
        return path.suffix.lower() == ".dcm"


def _read(pydicom: Any, open_found: Open, path: Path, most: int, **options: Any) -> Any:
    """Read a file with pydicom.

    Raises
    ------
    ValueError
        If a deflated file unpacks to more bytes than the limit for a sample, or to more than `_MOST_RATIO` times its
        stored size. pydicom itself has no such limits.
    """
    with open_found(path) as file:
        # pydicom closes its descriptor, so pass a duplicate.
        meta = pydicom.filereader.read_file_meta_info(os.dup(file.fileno()))
        if str(meta.get("TransferSyntaxUID", "")) == _DEFLATED:
            allowed = min(most + _MOST_HEADER, max(_MOST_HEADER, _MOST_RATIO * os.fstat(file.fileno()).st_size))
            unpacking, left = zlib.decompressobj(-zlib.MAX_WBITS), allowed
            file.seek(_end_of_meta(file))
            while left > 0 and not unpacking.eof and (piece := unpacking.unconsumed_tail or file.read(1 << 16)):
                left -= len(unpacking.decompress(piece, min(left, 1 << 20)))
            if left <= 0:
                raise ValueError(
                    f"the deflated file unpacks to more than {allowed} bytes, the limit for its size and "
                    f"max_sample_bytes={most}"
                )
        file.seek(0)
        return pydicom.dcmread(file, **options)


def _end_of_meta(file: BinaryIO) -> int:
    """Return the position where the file meta information (group 2) ends. It is never compressed, and always encoded as
    explicit VR little endian.
    """
    at = 132
    while True:
        file.seek(at)
        head = file.read(12)
        if len(head) < 8 or head[:2] != b"\x02\0":
            return at
        wide = head[4:6] in _WIDE
        at += (12 + int.from_bytes(head[8:12], "little")) if wide else 8 + int.from_bytes(head[6:8], "little")


def _files(
    pydicom: Any, open_found: Open, files: list[tuple[str, Path]], same: SameType, drop: frozenset[str], most: int
) -> Iterator[Item]:
    for key, path in files:
        try:
            dataset = _read(pydicom, open_found, path, most)
            _check_size(f"`{shown(path)}`", [dataset], most)
            slices = _slices(dataset)
            values = {"image": same(f"`{shown(path)}`", _pixels(slices)), "meta": _meta(slices)}
        except MemoryError:
            raise
        except Exception as error:  # A library of a format raises whatever it finds.
            yield _problem(path, error)
            continue
        yield Sample(key, values | dict.fromkeys(drop), f"`{shown(path)}`")


def _series(
    pydicom: Any, open_found: Open, files: list[tuple[str, Path]], same: SameType, drop: frozenset[str], most: int, uneven: bool
) -> Iterator[Item]:
    series: dict[str, list[Path]] = {}
    for _, path in files:
        try:
            head = _read(pydicom, open_found, path, most, stop_before_pixels=True, specific_tags=["SeriesInstanceUID"])
            uid = str(head.SeriesInstanceUID)
        except MemoryError:
            raise
        except Exception as error:  # As above.
            yield _problem(path, error)
            continue
        series.setdefault(uid, []).append(path)
    for uid, paths in sorted(series.items()):
        where = f"series `{shown(uid)}` (first file: `{shown(paths[0])}`)"
        path = paths[0]
        try:
            files = []
            for path in paths:
                files.append(_read(pydicom, open_found, path, most))
                # Check the size of all slices so far, because the whole series will be in memory.
                _check_size(where, files, most)
            slices, planes = [], []
            for path, dataset in zip(paths, files, strict=True):
                found = _slices(dataset)
                slices += found
                planes += _planes(dataset, found)
            order = _in_order(slices, where, uneven)
            slices = [slices[i] for i in order]
            volume = same(where, _stacked([planes[i] for i in order], where))
        except MemoryError:
            raise
        except Exception as error:  # As above.
            yield _problem(path, error)
            continue
        yield Sample(uid, {"volume": volume, "meta": _meta(slices)} | dict.fromkeys(drop), where)


def _problem(path: Path, error: Exception) -> Problem:
    # A SourceError already names the file or the series.
    named = isinstance(error, SourceError)
    return Problem(str(error) if named else f"`{shown(path)}`: cannot read the DICOM file: {error}")


def _check_size(where: str, slices: list[Any], most: int) -> None:
    def size(dataset: Any) -> int:
        frames, samples = _frames(dataset), int(dataset.get("SamplesPerPixel", 1))
        # After decoding and rescaling, a value takes at most 8 bytes.
        return 8 * frames * samples * int(dataset.Rows) * int(dataset.Columns)

    found = sum(map(size, slices)) if len(slices) == 1 else size(slices[-1]) * len(slices)
    if found > most:
        raise SourceError(f"{where}: a sample needs up to {found} bytes, but max_sample_bytes is {most}")


def _planes(dataset: Any, slices: list[_Slice]) -> list[np.ndarray[Any, Any]]:
    """Return the values of each slice of a file. Raise an error if they are in colour."""
    if int(dataset.get("SamplesPerPixel", 1)) > 1:
        raise ValueError(
            f"a volume needs greyscale slices, but this file has {dataset.SamplesPerPixel} values per pixel\n"
            f"hint: pass {option(samples='files')} to make each file a sample"
        )
    pixels = _pixels(slices)
    return [pixels] if len(slices) == 1 else list(pixels)


def _pixels(slices: list[_Slice]) -> np.ndarray[Any, Any]:
    """Return the values of all slices of a file. Each slice has its own slope and intercept."""
    dataset = slices[0].dataset
    stored = check_array(np.asarray(dataset.pixel_array))
    if dataset.get("ModalityLUTSequence", None):
        # The file has a lookup table instead of a slope.
        return check_array(np.asarray(library("pydicom.pixels", "dicom").apply_modality_lut(stored, dataset)))
    if len(slices) > 1 and len(stored) != len(slices):
        raise ValueError(f"the file should have {len(slices)} frames, but its pixels have shape {list(stored.shape)}")
    slopes, intercepts = (
        np.array([float(default if (value := one.get(tag)) is None else value) for one in slices])
        # Doses have their own scaling attribute.
        for tag, default in (("RescaleSlope", dataset.get("DoseGridScaling", 1)), ("RescaleIntercept", 0))
    )
    if (slopes == 1).all() and (intercepts == 0).all():
        return stored
    # If there is a frame axis, slope and intercept must be broadcast along it.
    shape = (len(slices), *[1] * (stored.ndim - 1)) if len(slices) > 1 else ()
    slope, intercept = slopes.reshape(shape), intercepts.reshape(shape)
    whole = (slopes == np.floor(slopes)).all() and (intercepts == np.floor(intercepts)).all()
    if not whole or np.abs(slopes).max() > 2**15 or np.abs(intercepts).max() > 2**30:
        return np.asarray(stored * slope + intercept)
    values = stored.astype(np.int64) * slope.astype(np.int64) + intercept.astype(np.int64)
    narrow = np.iinfo(np.int16)
    fits = not values.size or (narrow.min <= values.min() and values.max() <= narrow.max)
    return values.astype(np.int16 if fits else np.int64 if np.abs(values).max() > 2**31 - 1 else np.int32)


def _in_order(slices: list[_Slice], where: str, uneven: bool) -> list[int]:
    """Return the order of the slices by position along their normal or, without positions, by instance number and place
    in the file.

    Raises
    ------
    SourceError
        If two slices have the same position, or if positions are uneven and `uneven` is false.
    """
    if len(slices) == 1:
        return [0]
    positions = [one.get("ImagePositionPatient") for one in slices]
    orientations = [one.get("ImageOrientationPatient") for one in slices]
    placed = all(value is not None for value in (*positions, *orientations))
    if not placed:
        numbers = [one.get("InstanceNumber") for one in slices]
        if len({id(one.dataset) for one in slices}) == 1:
            numbers = [0] * len(slices)
        if any(number is None for number in numbers):
            files = len({id(one.dataset) for one in slices})
            raise SourceError(f"{where}: some of the {files} files have neither a slice position nor an instance number")
        places = [(float(number), float(one.frame)) for number, one in zip(numbers, slices, strict=True)]
    else:
        row, column = np.reshape(np.asarray(orientations[0], np.float64), (2, 3))
        normal = np.cross(row, column)
        if any(list(one) != list(orientations[0]) for one in orientations):
            raise SourceError(f"{where}: the slices have different orientations\nhint: pass {option(samples='files')} to make each file a sample")
        places = [(float(np.dot(normal, np.asarray(one, np.float64))), 0.0) for one in positions]
    order = sorted(range(len(slices)), key=places.__getitem__)
    twice = next((places[a] for a, b in zip(order, order[1:], strict=False) if places[a] == places[b]), None)
    if twice is not None:
        raise SourceError(f"{where}: two slices have the same {'position' if placed else 'instance number'}, {twice[0]:g}\nhint: pass {option(samples='files')} to make each file a sample")
    if placed and not uneven:
        _check_even([places[i][0] for i in order], where)
    return order


def _check_even(places: list[float], where: str) -> None:
    """Refuse sorted slices if their gaps are uneven, because a slice may be missing."""
    gaps = np.diff(places)
    # Use the lower median, because it is one of the gaps. With an even number of gaps, the usual median is a mean of
    # two.
    usual = float(np.sort(gaps)[(len(gaps) - 1) // 2])
    odd = np.abs(gaps - usual) > _UNEVEN * usual
    if not odd.any():
        return
    at = int(np.argmax(np.where(odd, np.abs(gaps - usual), 0)))
    others = "" if odd.sum() == 1 else f" (uneven gaps in total: {odd.sum()})"
    raise SourceError(
        f"{where}: the gaps between the {len(places)} slices are uneven: the median is {usual:g} mm, but the slices at "
        f"{places[at]:g} mm and {places[at + 1]:g} mm are {gaps[at]:g} mm apart{others}\n"
        f"hint: look for a missing slice, or pass {option(uneven=True)} to accept the series"
    )


def _stacked(planes: list[np.ndarray[Any, Any]], where: str) -> np.ndarray[Any, Any]:
    """Stack all slices into one array. Slices may differ in type. A multi-frame file is already a volume."""
    shapes = sorted({plane.shape for plane in planes})
    if len(shapes) > 1:
        found = " and ".join(str(list(shape)) for shape in shapes[:2])
        raise SourceError(f"{where}: the slices have different shapes: {found}\nhint: pass {option(samples='files')} to make each file a sample")
    if len(planes) == 1 and planes[0].ndim == 3:
        return planes[0]
    # NumPy chooses the smallest integer type that can hold the values of all slices.
    return np.stack(planes)


def _meta(slices: list[_Slice]) -> dict[str, Any]:
    """Return the first slice's attributes that describe the values, and the positions of all slices."""
    found: dict[str, Any] = {}
    for tag in _TAGS:
        value = slices[0].get(tag)
        if value is not None and value != "":
            found[tag] = _plain(value)
    positions = [one.get("ImagePositionPatient") for one in slices]
    if len(slices) > 1 and all(position is not None for position in positions):
        found["ImagePositionsPatient"] = [_plain(position) for position in positions]
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) or hasattr(value, "as_tuple"):
        return float(value)
    return [_plain(one) for one in value]
