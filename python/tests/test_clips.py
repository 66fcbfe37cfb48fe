"""Tests clips, samples of several pictures: packed from folders, written by a program, loaded, and exported."""

from __future__ import annotations

import io
import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import shardpack as sp
from PIL import Image

from conftest import command, photo


def jpeg(number: int, height: int = 48, width: int = 64) -> bytes:
    out = io.BytesIO()
    photo(number, height, width).save(out, "JPEG", quality=90)
    return out.getvalue()


def pixels(frame: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(frame)).convert("RGB"))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes eight clips of 5 to 12 frames in two classes. Frame 10 must come after frame 9."""
    root = tmp_path_factory.mktemp("clips")
    for number in range(8):
        folder = root / ("run", "walk")[number % 2] / f"clip{number}"
        folder.mkdir(parents=True)
        for frame in range(5 + number):
            (folder / f"frame{frame}.jpg").write_bytes(jpeg(number * 20 + frame))
    return root


@pytest.fixture(scope="module")
def clips(source: Path, tmp_path_factory: pytest.TempPathFactory) -> sp.Dataset:
    out = tmp_path_factory.mktemp("packed") / "clips"
    report = sp.pack(source, out, clips=True, no_shuffle=True)
    assert report["samples"] == 8
    return sp.Dataset(out)


def test_a_folder_of_frames_is_a_sample(source: Path, clips: sp.Dataset) -> None:
    assert clips.classes == ["run", "walk"]
    assert list(clips.keys)[:2] == ["run/clip0", "run/clip2"]
    for key in ("run/clip0", "walk/clip7"):
        sample = clips.by_key(key)
        files = sorted((source / key).iterdir(), key=lambda file: int(file.stem.removeprefix("frame")))
        assert sample["image.frames"] == len(files)
        assert sample["image"].shape == (len(files), 48, 64, 3)
        for frame, file in zip(sample["image"], files):
            assert np.abs(frame.astype(int) - pixels(file.read_bytes()).astype(int)).max() <= 4
    for words in (["verify", "--deep"], ["ls"], ["inspect"]):
        done = subprocess.run([*command(), *words, clips.path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def test_unpack_gives_back_what_packs_again(clips: sp.Dataset, tmp_path: Path) -> None:
    subprocess.run([*command(), "unpack", clips.path, tmp_path / "files"], check=True, capture_output=True)
    frames = sorted((tmp_path / "files/walk/clip7").iterdir())
    assert [frame.name for frame in frames] == [f"{number:06}.jpg" for number in range(12)]
    sp.pack(tmp_path / "files", tmp_path / "again", clips=True, no_shuffle=True)
    again = sp.Dataset(tmp_path / "again")
    for index in range(8):
        assert (again[index]["image"] == clips[index]["image"]).all()
    done = subprocess.run([*command(), "cat", clips.path, "walk/clip7"], check=True, capture_output=True)
    # The output is the concatenated JPEGs, which video players can read.
    assert done.stdout == b"".join(frame.read_bytes() for frame in frames)


def test_a_report_shows_clips_by_their_first_frame(clips: sp.Dataset, tmp_path: Path) -> None:
    done = subprocess.run([*command(), "report", clips.path, "-o", tmp_path / "page.html"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "page.html").stat().st_size > 1000


def test_rows_have_an_axis_of_time(clips: sp.Dataset) -> None:
    batch = next(iter(sp.Loader(clips, 8, image="resize32", frames=4, shuffle=False, fields=["image", "label"])))
    images, labels = batch
    assert images.shape == (8, 4, 32, 32, 3) and images.dtype == np.uint8 and sorted(labels) == [0] * 4 + [1] * 4
    # Four evenly spaced frames of 12 are 2, 5, 8 and 11.
    whole = sp.Loader(clips, 8, image="full", shuffle=False, fields=["image"])
    everything = next(iter(whole))["image"]
    assert [clip.shape for clip in everything] == [(clips[i]["image.frames"], 48, 64, 3) for i in range(8)]
    four = next(iter(sp.Loader(clips, 8, image="full", frames=4, shuffle=False, fields=["image"])))["image"]
    for clip, chosen in zip(everything, four):
        count = len(clip)
        assert (np.asarray(chosen) == clip[[(2 * i + 1) * count // 8 for i in range(4)]]).all()


def test_windows_are_in_a_row_and_drawn_by_key(clips: sp.Dataset) -> None:
    options = {"image": "full", "shuffle": False, "fields": ["image"], "seed": 3}
    everything = next(iter(sp.Loader(clips, 8, **options)))["image"]
    firsts = set()
    for epoch in range(4):
        for threads in (1, 3):
            got = next(iter(sp.Loader(clips, 8, frames="window4", threads=threads, epoch=epoch, **options)))["image"]
            rows = []
            for clip, window in zip(everything, got):
                first = [i for i in range(len(clip) - 3) if (np.asarray(window) == clip[i : i + 4]).all()]
                assert len(first) == 1
                rows.append(first[0])
            firsts.add(tuple(rows))
    # Each epoch has its own draw, which does not depend on the number of threads.
    assert len(firsts) == 4
    short = next(iter(sp.Loader(clips, 8, frames="window6,every=3", **options)))["image"]
    assert (np.asarray(short[0]) == everything[0][[0, 3, 4, 4, 4, 4]]).all()


def test_all_frames_get_one_view_and_one_augmentation(tmp_path: Path) -> None:
    still = jpeg(7)
    with sp.Writer(tmp_path / "still") as writer:
        for number in range(6):
            writer.write({"clip": [still] * (3 + number % 2), "label": number}, key=f"{number}")
    dataset = sp.Dataset(tmp_path / "still")
    assert [(field.name, field.kind) for field in dataset.schema][:2] == [("clip", "image"), ("label", "scalar")]
    assert dataset.by_key("1")["clip.frames"] == 4
    augment = [sp.augment.trivial_augment_wide(), sp.augment.random_erasing(p=1.0)]
    loader = sp.Loader(dataset, 6, image="rrc24", frames=3, layout="chw", dtype={"clip": "float32"}, augment=augment, fields=["clip"])
    clip = next(iter(loader))["clip"]
    assert clip.shape == (6, 3, 3, 24, 24) and clip.dtype == np.float32
    assert (clip == clip[:, :1]).all(), "a still picture stays still"
    assert len({row.tobytes() for row in clip}) == 6, "samples differ"


def test_axes_of_clips(clips: sp.Dataset) -> None:
    options = {"frames": 4, "shuffle": False, "augment": [sp.augment.trivial_augment_wide()], "mean": 0.5, "std": 0.25}

    def rows(layout: str, image: str) -> list[np.ndarray]:
        batch = next(iter(sp.Loader(clips, 8, image=image, layout=layout, fields=["image"], **options)))
        return [np.asarray(row) for row in batch["image"]]

    for image, (height, width) in {"rrc24": (24, 24), "full": (48, 64)}.items():
        last, first, outside = (rows(layout, image) for layout in ("hwc", "chw", "cthw"))
        assert last[0].shape == (4, height, width, 3) and last[0].dtype == np.float32
        assert (first[0].shape, outside[0].shape) == ((4, 3, height, width), (3, 4, height, width))
        for a, b, c in zip(last, first, outside, strict=True):
            assert (a.transpose(0, 3, 1, 2) == b).all() and (a.transpose(3, 0, 1, 2) == c).all()
    every = next(iter(sp.Loader(clips, 8, image="full", layout="cthw", shuffle=False, fields=["image"])))["image"]
    assert [row.shape for row in every] == [(3, clips[i]["image.frames"], 48, 64) for i in range(8)]


def test_views_of_several_sizes(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "views", schema={"views": "frames"}, jpeg="keep") as writer:
        writer.write({"views": [jpeg(1, 40, 60), jpeg(2, 80, 30)]}, key="a")
        writer.write({"views": None}, key="b")
    dataset = sp.Dataset(tmp_path / "views")
    rows = next(iter(sp.Loader(dataset, 2, image="resize16", frames=2, shuffle=False)))["views"]
    assert rows.shape == (2, 2, 16, 16, 3)
    assert sorted(bool(row.any()) for row in rows) == [False, True]
    with pytest.raises(sp.UsageError, match=r"frame 1 has 80 × 30 pixels, but the first frame has 40 × 60"):
        dataset.by_key("a")


def test_what_is_no_clip_is_refused(clips: sp.Dataset, photos: Path, tmp_path: Path) -> None:
    with pytest.raises(sp.UsageError, match="clip frames: no clip field is decoded"):
        sp.Loader(sp.Dataset(photos), 4, image="rrc24", frames=4)
    with pytest.raises(sp.UsageError, match="clip layout: no clip field is decoded"):
        sp.Loader(sp.Dataset(photos), 4, image="rrc24", layout="cthw")
    with pytest.raises(sp.UsageError, match="invalid clip frames `window`: expected `all`, a number such as `8`"):
        sp.Loader(clips, 4, image="rrc24", frames="window")
    with pytest.raises(sp.UsageError, match="frames: expected a number from 1 to 65536, found 0"):
        sp.Loader(clips, 4, image="rrc24", frames=0)
    with pytest.raises(sp.UsageError, match="mixing a batch needs decoded pictures of a fixed size"):
        sp.Loader(clips, 4, image="rrc24", frames=4, fields=["image", "label"], augment_batch=sp.augment.mixup(0.2))
    png = io.BytesIO()
    photo(1, 8, 8).save(png, "PNG")
    with sp.Writer(tmp_path / "out", schema={"clip": "frames"}) as writer:
        writer.write({"clip": [jpeg(1)]})
        for value, said in [
            ([jpeg(1), png.getvalue()], "frame 1 must be a JPEG, not image/png"),
            ([b"text"], "frame 0 must be a JPEG, but is not a picture"),
            ([], "found an empty list"),
        ]:
            with pytest.raises(sp.UsageError, match=said):
                writer.write({"clip": value})
        with pytest.raises(TypeError, match="each frame must be a JPEG, as bytes or as a pathlib.Path, but one is of type int"):
            writer.write({"clip": [3]})
    with pytest.raises(sp.UsageError, match="this picture is not in a folder"):
        (tmp_path / "flat").mkdir()
        (tmp_path / "flat/1.jpg").write_bytes(jpeg(1))
        sp.pack(tmp_path / "flat", tmp_path / "none", clips=True)


def test_a_stopped_run_goes_on(clips: sp.Dataset) -> None:
    options = {"image": "rrc16", "frames": "window3", "seed": 5, "fields": ["image"]}
    whole = [batch["image"].copy() for batch in sp.Loader(clips, 2, **options)]
    first = sp.Loader(clips, 2, **options)
    next(iter(first))
    second = sp.Loader(clips, 4, **options)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    rest = np.concatenate([batch["image"].copy() for batch in sp.Loader(clips, 2, **options)][1:])
    assert (np.concatenate(whole[1:]) == rest).all()
    assert (next(iter(second))["image"] == rest[:4]).all()


def test_webdataset_frames(tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(tmp_path / "clips.tar", "w") as tar:
        for number in range(3):
            for frame in range(11):
                name, content = f"clip{number}.frame{frame}.jpg", jpeg(number * 11 + frame, 16, 16)
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    sp.convert("webdataset", tmp_path / "clips.tar", tmp_path / "out", frames="frame")
    dataset = sp.Dataset(tmp_path / "out")
    clip = dataset.by_key("clip1")["frame"]
    assert clip.shape == (11, 16, 16, 3)
    assert np.abs(clip[10].astype(int) - pixels(jpeg(21, 16, 16)).astype(int)).max() <= 4


def members(folder: Path) -> dict[str, bytes]:
    import tarfile

    found = {}
    for file in sorted(folder.glob("*.tar")):
        with tarfile.open(file) as tar:
            found |= {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    return found


def test_exported_clips_are_frames_and_come_back_as_clips(clips: sp.Dataset, tmp_path: Path) -> None:
    report = sp.export(clips, "webdataset", tmp_path / "tars")
    assert report["fields"] == {"image": "image.000.jpg", "label": "cls"}
    found = members(tmp_path / "tars")
    assert [name for name in found if name.startswith("walk/clip7.")] == [
        *(f"walk/clip7.image.{frame:03}.jpg" for frame in range(12)),
        "walk/clip7.cls",
    ]
    subprocess.run([*command(), "unpack", clips.path, tmp_path / "files"], check=True, capture_output=True)
    assert found["walk/clip7.image.010.jpg"] == (tmp_path / "files/walk/clip7/000010.jpg").read_bytes()
    report = sp.convert("webdataset", tmp_path / "tars", tmp_path / "again")
    assert report["fields"]["image"] == "image"
    again = sp.Dataset(tmp_path / "again")
    assert again.classes == clips.classes
    for key in clips.keys:
        before, after = clips.by_key(key), again.by_key(key)
        assert after["image.frames"] == before["image.frames"] and after["label"] == before["label"]
        assert (after["image"] == before["image"]).all()
    batch = next(iter(sp.Loader(again, 8, image="resize32", frames=4, fields=["image"])))
    assert batch["image"].shape == (8, 4, 32, 32, 3)


def test_exported_clips_of_one_frame_and_of_none(tmp_path: Path) -> None:
    with sp.Writer(tmp_path / "out", schema={"views": "frames", "image": "image"}, jpeg="keep", shuffle=False) as writer:
        writer.write({"views": [jpeg(1)], "image": jpeg(2)}, key="a")
        writer.write({"views": None, "image": jpeg(3)}, key="b")
    sp.export(tmp_path / "out", "webdataset", tmp_path / "tars")
    assert members(tmp_path / "tars") == {"a.views.000.jpg": jpeg(1), "a.jpg": jpeg(2), "b.jpg": jpeg(3)}
    # Pass the name of the frames, because the first sample may not have any.
    sp.convert("webdataset", tmp_path / "tars", tmp_path / "again", frames="views")
    again = sp.Dataset(tmp_path / "again")
    assert again.by_key("a")["views"].shape == (1, 48, 64, 3) and again.by_key("b")["views"] is None


def test_clips_are_added(source: Path, tmp_path: Path) -> None:
    sp.pack(source, tmp_path / "out", clips=True, no_shuffle=True)
    for key in ("walk/clip8", "jump/clip9"):
        (tmp_path / "week" / key).mkdir(parents=True)
        for frame in range(3):
            (tmp_path / "week" / key / f"{frame}.jpg").write_bytes(jpeg(200 + frame))
    report = sp.add(tmp_path / "out", tmp_path / "week")
    assert (report["samples"], report["samples_of_dataset"], report["new_classes"]) == (2, 10, ["jump"])
    dataset = sp.Dataset(tmp_path / "out")
    assert dataset.classes == ["run", "walk", "jump"]
    added = dataset.by_key("jump/clip9")
    assert (added["image.frames"], added["label"]) == (3, 2)
    assert np.abs(added["image"][2].astype(int) - pixels(jpeg(202)).astype(int)).max() <= 4
    batches = list(sp.Loader(dataset, 5, image="resize32", frames=4, fields=["image"]))
    assert [batch["image"].shape for batch in batches] == [(5, 4, 32, 32, 3)] * 2
    # Files next to the clip folders are not clips, as with ``pack``.
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat/1.jpg").write_bytes(jpeg(1))
    with pytest.raises(sp.UsageError, match="this picture is not in a folder"):
        sp.add(tmp_path / "out", tmp_path / "flat")
    assert len(sp.Dataset(tmp_path / "out")) == 10


def test_two_frames_of_one_number_are_both_told(tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(tmp_path / "clips.tar", "w") as tar:
        for name in ("a.cam.001.jpg", "a.cam.0001.jpg"):
            member = tarfile.TarInfo(name)
            member.size = len(jpeg(1))
            tar.addfile(member, io.BytesIO(jpeg(1)))
    report = sp.convert("webdataset", tmp_path / "clips.tar", tmp_path / "out")
    assert report["fields"] == {"cam": "cam", "cam.0001.jpg": "cam.0001"}
