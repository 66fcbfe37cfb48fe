"""Tests conversion from DICOM files."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from convert_support import bounded, content, kinds

import shardpack as sp

pydicom = pytest.importorskip("pydicom")
SERIES = "1.2.826.0.1.3680043.8.498.1"


def plane(seed: int, shape: tuple[int, ...] = (6, 5)) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(0, 4000, shape).astype(np.uint16)


def save(path: Path, pixels: np.ndarray[Any, Any], *, series: str = SERIES, **tags: Any) -> None:
    from pydicom.dataset import FileDataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID, meta.MediaStorageSOPInstanceUID = CTImageStorage, generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    slice = FileDataset(str(path), {}, file_meta=meta, preamble=b"\0" * 128)
    slice.SOPClassUID, slice.SOPInstanceUID = CTImageStorage, meta.MediaStorageSOPInstanceUID
    slice.PatientName, slice.PatientID, slice.StudyDate = "Doe^Jane", "4711", "20200101"
    slice.SeriesInstanceUID, slice.Modality = series, "CT"
    slice.Rows, slice.Columns = pixels.shape[-2:]
    slice.SamplesPerPixel, slice.PhotometricInterpretation, slice.PixelRepresentation = 1, "MONOCHROME2", 0
    slice.BitsAllocated, slice.BitsStored, slice.HighBit = 16, 12, 11
    slice.PixelSpacing, slice.SliceThickness = [0.5, 0.5], 2
    if pixels.ndim == 3:
        slice.NumberOfFrames = len(pixels)
    for name, value in tags.items():
        setattr(slice, name, value)
    slice.PixelData = pixels.astype("<u2").tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    slice.save_as(path, enforce_file_format=True)


def oriented(z: float) -> dict[str, Any]:
    return {"ImageOrientationPatient": [1, 0, 0, 0, 1, 0], "ImagePositionPatient": [-10, 5, z]}


def test_a_series_is_a_volume_in_the_order_of_its_places(tmp_path: Path) -> None:
    # The positions are in neither the order of the file names nor the order of the instance numbers.
    for number, z in enumerate([4.0, -2.0, 10.0]):
        save(tmp_path / "src" / f"IM{number}", plane(number), InstanceNumber=number, RescaleSlope=1, RescaleIntercept=-1024, **oriented(z))
    save(tmp_path / "src" / "other" / "x.dcm", plane(7, (3, 6, 5)), series=SERIES + ".9", WindowCenter=[40, 50])
    (tmp_path / "src" / "notes.txt").write_text("no slice")
    report = sp.convert("dicom", tmp_path / "src", tmp_path / "out")
    assert report["samples"] == 2 and kinds(tmp_path / "out") == {"meta": "json", "volume": "array"}
    found = content(tmp_path / "out")
    stacked = np.stack([plane(1), plane(0), plane(2)]).astype(np.int16) - 1024
    assert found[SERIES]["volume"].dtype == np.int16 and np.array_equal(found[SERIES]["volume"], stacked)
    frames = found[SERIES + ".9"]["volume"]
    assert frames.dtype == np.int16 and np.array_equal(frames, plane(7, (3, 6, 5))), "the type of the first series holds it"
    meta = found[SERIES]["meta"]
    assert meta["PixelSpacing"] == [0.5, 0.5] and meta["Modality"] == "CT" and meta["SliceThickness"] == 2
    assert [place[2] for place in meta["ImagePositionsPatient"]] == [-2, 4, 10]
    assert found[SERIES + ".9"]["meta"]["WindowCenter"] == [40, 50]


def test_nothing_that_names_a_patient_is_taken(tmp_path: Path) -> None:
    save(tmp_path / "src" / "a.dcm", plane(0), InstitutionName="St. Elsewhere", **oriented(0))
    sp.convert("dicom", tmp_path / "src", tmp_path / "out")
    written = b"".join(path.read_bytes() for path in (tmp_path / "out").iterdir())
    sample = str(content(tmp_path / "out"))
    for word in ("Doe", "Jane", "4711", "20200101", "Elsewhere"):
        assert word.encode() not in written and word not in sample


def test_each_file_is_a_sample_on_request(tmp_path: Path) -> None:
    save(tmp_path / "src" / "a.dcm", plane(0), RescaleSlope=0.5, RescaleIntercept=0)
    save(tmp_path / "src" / "deep" / "b", plane(1, (4, 4)), RescaleSlope=1000, RescaleIntercept=0)
    sp.convert("dicom", tmp_path / "src", tmp_path / "out", samples="files")
    found = content(tmp_path / "out")
    assert sorted(found) == ["a.dcm", "deep/b"]
    assert found["a.dcm"]["image"].dtype == np.float64 and np.array_equal(found["a.dcm"]["image"], plane(0) * 0.5)
    assert np.array_equal(found["deep/b"]["image"], plane(1, (4, 4)).astype(int) * 1000)
    save(tmp_path / "src" / "0.dcm", plane(2))
    with pytest.raises(ValueError, match=r"a.dcm`: field `image`: cannot store float64 values from .* exactly as uint16 .the type of the first sample."):
        sp.convert("dicom", tmp_path / "src", tmp_path / "b", samples="files")
    sp.convert("dicom", tmp_path / "src", tmp_path / "b", samples="files", dtype="float32")
    assert content(tmp_path / "b")["0.dcm"]["image"].dtype == np.float32


def test_tables_and_doses_give_the_values_of_the_modality(tmp_path: Path) -> None:
    from pydicom.dataset import Dataset
    from pydicom.sequence import Sequence

    table = Dataset()
    table.LUTDescriptor, table.ModalityLUTType, table.LUTData = [4096, 0, 16], "US", (np.arange(4096) * 2).astype("<u2").tobytes()
    save(tmp_path / "table" / "a", plane(0), ModalityLUTSequence=Sequence([table]))
    sp.convert("dicom", tmp_path / "table", tmp_path / "a")
    (sample,) = content(tmp_path / "a").values()
    assert np.array_equal(sample["volume"][0], plane(0) * 2)
    dose = {"Modality": "RTDOSE", "DoseGridScaling": 0.25, "DoseUnits": "GY", "GridFrameOffsetVector": [0.0, 2.5]}
    save(tmp_path / "dose" / "a", plane(0, (2, 6, 5)), **dose)
    sp.convert("dicom", tmp_path / "dose", tmp_path / "b")
    (sample,) = content(tmp_path / "b").values()
    assert sample["volume"].dtype == np.float64 and np.array_equal(sample["volume"], plane(0, (2, 6, 5)) * 0.25)
    assert sample["meta"]["DoseUnits"] == "GY" and sample["meta"]["GridFrameOffsetVector"] == [0.0, 2.5]


def groups(slopes: list[float], places: list[float]) -> dict[str, Any]:
    """Returns the functional groups of an enhanced CT, per frame and for all frames."""
    from pydicom.dataset import Dataset
    from pydicom.sequence import Sequence

    def group(**parts: dict[str, Any]) -> Any:
        found = Dataset()
        for name, tags in parts.items():
            inner = Dataset()
            for tag, value in tags.items():
                setattr(inner, tag, value)
            setattr(found, name, Sequence([inner]))
        return found

    shared = group(
        PixelMeasuresSequence={"PixelSpacing": [0.25, 0.5], "SliceThickness": 3},
        PlaneOrientationSequence={"ImageOrientationPatient": [1, 0, 0, 0, 1, 0]},
        FrameVOILUTSequence={"WindowCenter": 40, "WindowWidth": 400},
    )
    each = [
        group(
            PlanePositionSequence={"ImagePositionPatient": [-10, 5, place]},
            PixelValueTransformationSequence={"RescaleSlope": slope, "RescaleIntercept": -1000, "RescaleType": "HU"},
        )
        for slope, place in zip(slopes, places, strict=True)
    ]
    return {"SharedFunctionalGroupsSequence": Sequence([shared]), "PerFrameFunctionalGroupsSequence": Sequence(each)}


def enhanced(path: Path, pixels: np.ndarray[Any, Any], slopes: list[float], places: list[float], **tags: Any) -> None:
    """Saves an enhanced multi-frame file without frame attributes at the top level, as newer scanners do."""
    save(path, pixels, PixelSpacing=None, SliceThickness=None, NumberOfFrames=len(pixels), **groups(slopes, places), **tags)


def test_an_enhanced_file_is_a_volume_in_the_order_of_its_places(tmp_path: Path) -> None:
    frames = plane(0, (3, 6, 5))
    enhanced(tmp_path / "src" / "a", frames, [1, 2, 3], [4.0, -2.0, 10.0])
    sp.convert("dicom", tmp_path / "src", tmp_path / "out")
    (sample,) = content(tmp_path / "out").values()
    values = frames.astype(int) * np.array([1, 2, 3])[:, None, None] - 1000
    assert sample["volume"].dtype == np.int16 and np.array_equal(sample["volume"], values[[1, 0, 2]])
    meta = sample["meta"]
    assert meta["PixelSpacing"] == [0.25, 0.5] and meta["SliceThickness"] == 3
    assert meta["WindowCenter"] == 40 and meta["ImageOrientationPatient"] == [1, 0, 0, 0, 1, 0]
    assert [place[2] for place in meta["ImagePositionsPatient"]] == [-2, 4, 10]
    # A single file keeps the order of its frames, and the metadata contain their positions.
    sp.convert("dicom", tmp_path / "src", tmp_path / "files", samples="files")
    (sample,) = content(tmp_path / "files").values()
    assert np.array_equal(sample["image"], values) and [place[2] for place in sample["meta"]["ImagePositionsPatient"]] == [4, -2, 10]
    # Two files of one series become one volume, even if the slopes are fractional.
    enhanced(tmp_path / "src" / "b", frames, [0.5, 1, 1], [7.0, 13.0, 1.0])
    sp.convert("dicom", tmp_path / "src", tmp_path / "both")
    (sample,) = content(tmp_path / "both").values()
    more = frames * np.array([0.5, 1, 1])[:, None, None] - 1000
    assert np.array_equal(sample["volume"], np.concatenate([values, more])[[1, 5, 0, 3, 2, 4]])
    assert sample["volume"].dtype == np.float64


def test_frames_that_are_no_volume_are_refused(tmp_path: Path) -> None:
    enhanced(tmp_path / "twice" / "a", plane(0, (2, 6, 5)), [1, 1], [3.0, 3.0])
    with pytest.raises(ValueError, match="two slices have the same position, 3"):
        sp.convert("dicom", tmp_path / "twice", tmp_path / "out")
    enhanced(tmp_path / "less" / "a", plane(0, (3, 6, 5)), [1, 1], [3.0, 4.0])
    with pytest.raises(ValueError, match="a`: .*the file has 3 frames, but its PerFrameFunctionalGroupsSequence has 2 items"):
        sp.convert("dicom", tmp_path / "less", tmp_path / "out")
    save(tmp_path / "colours" / "a", plane(0, (6, 5, 3)), SamplesPerPixel=3, PlanarConfiguration=0, PhotometricInterpretation="RGB", Rows=6, Columns=5, NumberOfFrames=1)
    with pytest.raises(ValueError, match="a volume needs greyscale slices, but this file has 3 values per pixel\nhint: pass samples='files'"):
        sp.convert("dicom", tmp_path / "colours", tmp_path / "out")


def test_a_missing_slice_is_named(tmp_path: Path) -> None:
    for number in range(6):
        save(tmp_path / "src" / f"{number}.dcm", plane(number), **oriented(2.5 * number - 5))
    sp.convert("dicom", tmp_path / "src", tmp_path / "whole")
    (tmp_path / "src" / "3.dcm").unlink()
    save(tmp_path / "src" / "other.dcm", plane(9), series=SERIES + ".9", **oriented(0))
    said = r"series `1.2.826.0.1.3680043.8.498.1` .*: the gaps between the 5 slices are uneven: the median is 2.5 mm, but the slices at 0 mm and 5 mm are 5 mm apart\nhint: look for a missing slice"
    with pytest.raises(sp.SourceError, match=said):
        sp.convert("dicom", tmp_path / "src", tmp_path / "out")
    report = sp.convert("dicom", tmp_path / "src", tmp_path / "some", on_bad_input="skip")
    assert (report["samples"], report["samples_skipped"]) == (1, 1) and set(content(tmp_path / "some")) == {SERIES + ".9"}
    sp.convert("dicom", tmp_path / "src", tmp_path / "uneven", uneven=True)
    assert content(tmp_path / "uneven")[SERIES]["volume"].shape == (5, 6, 5)
    (tmp_path / "src" / "1.dcm").unlink()
    with pytest.raises(sp.SourceError, match="4 slices are uneven: the median is 5 mm, but the slices at 5 mm and 7.5 mm are 2.5 mm apart"):
        sp.convert("dicom", tmp_path / "src", tmp_path / "out")
    # These positions are rounded.
    for number, z in enumerate([0, 0.6, 1.3, 1.9, 2.5, 3.1]):
        save(tmp_path / "rounded" / f"{number}.dcm", plane(number), **oriented(z))
    sp.convert("dicom", tmp_path / "rounded", tmp_path / "even")


def test_what_is_no_volume_is_refused(tmp_path: Path) -> None:
    def why(name: str, *slices: dict[str, Any]) -> str:
        for number, tags in enumerate(slices):
            shape = tags.pop("shape", (6, 5))
            save(tmp_path / name / f"{number}.dcm", plane(number, shape), **tags)
        with pytest.raises(ValueError) as raised:
            sp.convert("dicom", tmp_path / name, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        return str(raised.value)

    assert "two slices have the same position, 3" in why("twice", oriented(3), oriented(3))
    turned = oriented(4) | {"ImageOrientationPatient": [0, 1, 0, 0, 0, 1]}
    assert "the slices have different orientations" in why("turned", oriented(3), turned)
    assert "the slices have different shapes: [4, 5] and [6, 5]" in why("shapes", oriented(3), oriented(4) | {"shape": (4, 5)})
    assert "some of the 2 files have neither a slice position nor an instance number" in why("bare", {}, {"InstanceNumber": 1})
    assert "but max_sample_bytes is" in why("huge", {"Rows": 65535, "Columns": 65535})
    save(tmp_path / "cut" / "a.dcm", plane(0))
    whole = (tmp_path / "cut" / "a.dcm").read_bytes()
    (tmp_path / "cut" / "a.dcm").write_bytes(whole[:-9])
    assert "a.dcm`: cannot read the DICOM file" in why("cut")
    save(tmp_path / "cut" / "b.dcm", plane(0), series=SERIES + ".2")
    report = sp.convert("dicom", tmp_path / "cut", tmp_path / "some", on_bad_input="skip")
    assert report["samples"] == 1 and report["samples_skipped"] == 1
    with pytest.raises(ValueError, match="samples: expected 'series' or 'files', found: 'slices'"):
        sp.convert("dicom", tmp_path / "cut", tmp_path / "out", samples="slices")


def deflated(pieces: int) -> bytes:
    """Returns a deflated file that contains an element and zeros."""
    uid = b"1.2.840.10008.1.2.1.99"
    meta = b"\x02\x00\x10\x00UI" + struct.pack("<H", len(uid)) + uid
    packer = zlib.compressobj(1, wbits=-15)
    packed = packer.compress(b"\x08\x00\x60\x00CS\x02\x00CT") + packer.flush(zlib.Z_FULL_FLUSH)
    piece = packer.compress(bytes(1 << 24)) + packer.flush(zlib.Z_FULL_FLUSH)
    return bytes(128) + b"DICM\x02\0\0\0UL\x04\0" + struct.pack("<I", len(meta)) + meta + packed + piece * pieces + packer.flush()


def test_a_deflated_file_that_unpacks_to_gibibytes(tmp_path: Path) -> None:
    (tmp_path / "a.dcm").write_bytes(deflated(256))
    for samples in ("series", "files"):
        out = bounded("dicom", tmp_path / "a.dcm", samples=samples)
        assert "the deflated file unpacks to more than" in out


def test_a_deflated_file_is_read(tmp_path: Path) -> None:
    save(tmp_path / "plain.dcm", plane(1))
    one = pydicom.dcmread(tmp_path / "plain.dcm")
    one.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
    one.save_as(tmp_path / "a.dcm")
    (tmp_path / "plain.dcm").unlink()
    sp.convert("dicom", tmp_path, tmp_path / "out", samples="files")
    assert np.array_equal(content(tmp_path / "out")["a.dcm"]["image"].squeeze(), plane(1))


def test_links_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    save(tmp_path / "secret.dcm", plane(1))
    (tmp_path / "in/a.dcm").symlink_to(tmp_path / "secret.dcm")
    with pytest.raises(ValueError, match="is a link that points outside `.*, to `.*secret.dcm`\nhint: pass follow_links=True"):
        sp.convert("dicom", tmp_path / "in", tmp_path / "out")
    assert sp.convert("dicom", tmp_path / "in", tmp_path / "out", follow_links=True)["samples"] == 1
