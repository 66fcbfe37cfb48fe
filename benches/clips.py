"""Measures frames per second of clips: decoded on a GPU, by the host, and by torchcodec from H.264.

    python benches/clips.py [PHOTOS]        needs shardpack, NumPy and Pillow, and PyTorch for the GPU

Each clip has 32 frames of 256 x 340 pixels, cut from the photos or, without a folder, made of noise. The clips are
packed as tiled JPEGs. Each side loads 16 consecutive frames of each clip as crops of 224 x 224, normalised to float16,
[rows, channels, time, height, width]. torchcodec decodes uint8 frames of videos with the same content and resizes them
on the host. If torchcodec is missing, the output says so instead. The bench prints JSON to standard output.
"""

import argparse
import io
import json
import os
import platform
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import shardpack as sp
from PIL import Image

HEIGHT, WIDTH, FRAMES, TAKEN = 256, 340, 32, 16
DISTINCT = 64
VIEW = {"image": "rrc224", "frames": f"window{TAKEN}", "layout": "cthw", "fields": ["clip"]}
VIEW |= {"dtype": "float16", "mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", nargs="?", type=Path, help="folder of JPEGs (default: noise)")
    parser.add_argument("--clips", type=int, default=1024, help="number of clips (default 1024)")
    parser.add_argument("--batch", type=int, default=32, help="clips of a batch (default 32)")
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds of each side (default 3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads (default all cores)")
    parser.add_argument("--device", default="cuda:0", help="the GPU (default cuda:0)")
    return parser.parse_args()


def scene(photos, number):
    """Return a picture larger than a frame, so that a window can move over it."""
    size = (HEIGHT + 64, WIDTH + 64)
    if photos:
        picture = Image.open(photos[number % len(photos)]).convert("RGB")
        scale = max(size[0] / picture.height, size[1] / picture.width)
        sides = (max(size[1], round(picture.width * scale)), max(size[0], round(picture.height * scale)))
        return np.asarray(picture.resize(sides, Image.Resampling.BICUBIC))
    rng = np.random.default_rng(number)
    coarse = Image.fromarray(rng.integers(0, 256, (size[0] // 8, size[1] // 8, 3), dtype=np.uint8))
    smooth = np.asarray(coarse.resize((size[1], size[0]), Image.Resampling.BICUBIC), dtype=np.int16)
    return np.clip(smooth + rng.normal(0, 2, smooth.shape), 0, 255).astype(np.uint8)


def frames_of(photos, number):
    """Return the frames of a clip, cut from a scene by a moving window."""
    whole = scene(photos, number)
    return np.stack([whole[2 * n : 2 * n + HEIGHT, n : n + WIDTH] for n in range(FRAMES)])


def encoded(pixels):
    jpegs = []
    for frame in pixels:
        jpeg = io.BytesIO()
        Image.fromarray(frame).save(jpeg, "JPEG", quality=85)
        jpegs.append(jpeg.getvalue())
    return jpegs


def loaded(dataset, options, **sides):
    """Load batches for some seconds after a warm-up epoch. Return the frames per second and other measurements."""
    with sp.Loader(dataset, options.batch, threads=options.threads, **VIEW, **sides) as loader:
        last = None
        for batch in loader:
            last = batch["clip"]
        wait(last)
        frames, start = 0, time.perf_counter()
        while time.perf_counter() - start < options.seconds:
            for batch in loader:
                last = batch["clip"]
                frames += len(last) * TAKEN
        wait(last)
        seconds = time.perf_counter() - start
        stats = loader.stats()
        facts = {"frames_per_s": round(frames / seconds), **{name: stats[name] for name in ("refused", "grown_slots")}}
        if "device" in sides:
            facts["predicted_device_bytes"] = loader.predicted_device_bytes
        return facts


def wait(tensor):
    if not isinstance(tensor, np.ndarray):
        import torch

        torch.cuda.synchronize(tensor.device)


def of_torchcodec(folder, photos, options):
    """Decode clips from H.264 videos, with one decoder per thread, and resize the frames."""
    import torch
    from torchcodec.decoders import VideoDecoder
    from torchcodec.encoders import VideoEncoder

    torch.set_num_threads(1)
    videos = []
    for number in range(DISTINCT):
        path = folder / f"{number}.mp4"
        VideoEncoder(torch.from_numpy(frames_of(photos, number)).permute(0, 3, 1, 2), frame_rate=30).to_file(path)
        videos.append(path)

    def one(task):
        decoder = VideoDecoder(videos[task % DISTINCT], seek_mode="approximate", num_ffmpeg_threads=1)
        first = task * 7 % (FRAMES - TAKEN + 1)
        window = decoder.get_frames_in_range(first, first + TAKEN).data[:, :, :224, :298].float()
        return torch.nn.functional.interpolate(window, (224, 224), mode="bilinear", antialias=True).shape[0]

    with ThreadPoolExecutor(options.threads) as pool:
        sum(pool.map(one, range(DISTINCT)))
        frames, start = 0, time.perf_counter()
        while time.perf_counter() - start < options.seconds:
            frames += sum(pool.map(one, range(DISTINCT)))
        return {"frames_per_s": round(frames / (time.perf_counter() - start))}


def measured(side):
    """Return the measurements of a side, or the reason why it cannot run."""
    try:
        return side()
    except (ImportError, RuntimeError, OSError, ValueError) as error:
        return {"not measured": str(error).splitlines()[0]}


def main():
    options = arguments()
    files = options.photos.rglob("*") if options.photos else []
    photos = sorted(path for path in files if path.suffix.lower() in (".jpg", ".jpeg"))
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        with ThreadPoolExecutor(options.threads) as pool:
            clips = list(pool.map(lambda number: encoded(frames_of(photos, number)), range(DISTINCT)))
        with sp.Writer(folder / "clips") as writer:
            for number in range(options.clips):
                writer.write({"clip": clips[number % DISTINCT], "label": number}, key=f"{number}")
        dataset = sp.Dataset(folder / "clips")
        on_device = {"device": options.device, "decode": "device", "to": "torch"}
        sizes = [len(jpeg) for clip in clips for jpeg in clip]
        result = {
            "bench": "clips",
            "machine": {"cpu": platform.processor() or platform.machine(), "threads": options.threads},
            "data": {
                "clips": options.clips,
                "frames": FRAMES,
                "size": [HEIGHT, WIDTH],
                "frame_bytes": round(np.mean(sizes)),
            },
            "device": measured(lambda: loaded(dataset, options, **on_device)),
            "device, resident": measured(lambda: loaded(dataset, options, resident=True, **on_device)),
            "host": measured(lambda: loaded(dataset, options)),
            "torchcodec": measured(lambda: of_torchcodec(folder, photos, options)),
        }
        print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
