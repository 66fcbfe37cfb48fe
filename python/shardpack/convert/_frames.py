"""Decodes the frames of videos with PyAV, and stores frames as JPEG with Pillow."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ._source import library
from ._values import first_bytes, picture_type


class FrameOptions(NamedTuple):

    fps: float
    quality: int
    """JPEG quality of frames that are not JPEG yet."""
    most_bytes: int
    """Maximum size of the pixels of a frame in bytes."""


def as_jpeg(pixels: Any, quality: int) -> bytes:
    """Encode a PIL image as JPEG. The chroma has half the resolution, as in almost all videos."""
    out = io.BytesIO()
    pixels.save(out, "JPEG", quality=quality, subsampling=2)
    return out.getvalue()


def jpeg_of_picture(data: bytes, options: FrameOptions) -> bytes:
    """Return a picture as JPEG: unchanged if it is one, and otherwise encoded. Raise an error if it has more than 8
    bits, or is damaged.
    """
    kind = picture_type(data)
    if kind == "jpeg":
        return data
    if kind not in ("png", "webp", "bmp"):
        raise ValueError(f"expected a picture in JPEG, PNG, WebP or BMP, found other data: {first_bytes(data)}")
    image = library("PIL.Image", "lerobot")
    try:
        with image.open(io.BytesIO(data), formats=[kind.upper()]) as opened:
            width, height = opened.size
            _check_bytes(width, height, options)
            if opened.mode not in ("RGB", "L", "RGBA", "P", "1"):
                raise ValueError(f"pictures of mode {opened.mode} are not supported: expected 8 bits for each value")
            return as_jpeg(opened if opened.mode in ("RGB", "L") else opened.convert("RGB"), options.quality)
    except (OSError, SyntaxError, image.DecompressionBombError) as error:
        raise ValueError(f"cannot decode the picture: {error}") from error


def _check_bytes(width: int, height: int, options: FrameOptions) -> None:
    if 3 * width * height > options.most_bytes:
        raise ValueError(
            f"a frame of {width} × {height} pixels takes {3 * width * height} bytes, but the limit is "
            f"{options.most_bytes}\nhint: raise max_sample_bytes"
        )


class Video:
    """Yields the frames of a part of a video file, each as JPEG."""

    def __init__(self, stream: BinaryIO, start: float, options: FrameOptions) -> None:
        self._av = library("av", "lerobot")
        self._options = options
        self._start = start
        with self._damage("open"):
            # Name the format. Recognised by content, a playlist would make FFmpeg open other files.
            self._container = self._av.open(stream, format="mp4", metadata_errors="replace")
        videos = self._container.streams.video
        if not videos or videos[0].codec_context is None:
            self._container.close()
            raise ValueError("FFmpeg has no decoder for the codec of the video" if videos else "the file has no video stream")
        self._stream = videos[0]
        self._stream.thread_type = "AUTO"
        self.declared: int = self._stream.frames
        """Number of frames in the file by its header. 0 if the header does not give it."""

    def close(self) -> None:
        self._container.close()

    def size(self) -> tuple[int, int]:
        """Return the height and width by the header of the file."""
        context = self._stream.codec_context
        _check_bytes(context.width, context.height, self._options)
        return context.height, context.width

    def frames(self) -> Iterator[bytes]:
        """Yield the frames from the start on. Raise an error if the time of a frame differs by half a frame or more
        from its number, so that no frame is missing or doubled.
        """
        half = 0.5 / self._options.fps
        size = self.size()
        image = library("PIL.Image", "lerobot")
        number = 0
        for frame in self._decoded(half):
            if frame.time is None:
                raise ValueError("a frame has no time")
            if frame.time <= self._start - half:
                continue
            expected = self._start + number / self._options.fps
            if abs(frame.time - expected) >= half:
                raise ValueError(
                    f"frame {number} should be at {expected:.3f} s, but the next frame of the video is at "
                    f"{frame.time:.3f} s"
                )
            if (frame.height, frame.width) != size:
                found = f"frame {number} has {frame.width} × {frame.height} pixels"
                raise ValueError(f"{found}, but the video has {size[1]} × {size[0]}")
            number += 1
            pixels: np.ndarray[Any, Any] = frame.to_ndarray(format="rgb24")
            yield as_jpeg(image.fromarray(pixels), self._options.quality)

    def _decoded(self, half: float) -> Iterator[Any]:
        with self._damage("decode"):
            if self._start > half and self._stream.time_base:
                at = int((self._start - half) / self._stream.time_base)
                self._container.seek(at, stream=self._stream, backward=True)
            yield from self._container.decode(self._stream)

    @contextmanager
    def _damage(self, verb: str) -> Iterator[None]:
        """Turn the errors of FFmpeg into a ValueError. A failure to read the file is not damage and stays an OSError.
        """
        try:
            yield
        except (self._av.FFmpegError, OSError) as error:
            # FFmpeg may follow an invalid offset in a damaged file, for which the seek fails.
            if not isinstance(error, self._av.FFmpegError) and error.errno != errno.EINVAL:
                raise
            raise ValueError(f"cannot {verb} the video: {error}") from error
