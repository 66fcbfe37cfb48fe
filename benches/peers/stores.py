"""Stores the same samples in the file format of each peer: unchanged pictures from class folders, and float16 cubes
from .npy files.
"""

import io
import tarfile
from pathlib import Path

SUFFIXES = {".jpg", ".jpeg"}
TARS = 8


def jpegs(source):
    """Returns all JPEGs below a folder of class folders, with their class numbers."""
    classes = sorted(path for path in Path(source).iterdir() if path.is_dir())
    return [(path, label) for label, folder in enumerate(classes) for path in sorted(folder.rglob("*")) if path.suffix.lower() in SUFFIXES]


def mixed(items):
    """Returns the items in a fixed order that mixes the classes. Peers that shuffle only within a buffer need this."""
    import random

    items = list(items)
    random.Random(0).shuffle(items)
    return items


def tar(source, out):
    """Writes WebDataset tar files with `<number>.jpg` and `<number>.cls`: eight files, so that workers can share them.
    """
    out.mkdir()
    samples = mixed(jpegs(source))
    for number in range(TARS):
        with tarfile.open(out / f"part-{number}.tar", "w") as file:
            for i, (path, label) in list(enumerate(samples))[number::TARS]:
                for suffix, data in (("jpg", path.read_bytes()), ("cls", str(label).encode())):
                    entry = tarfile.TarInfo(f"{i:08d}.{suffix}")
                    entry.size = len(data)
                    file.addfile(entry, io.BytesIO(data))


def mds(source, out):
    from streaming import MDSWriter

    with MDSWriter(out=str(out), columns={"image": "bytes", "label": "int"}) as writer:
        for path, label in mixed(jpegs(source)):
            writer.write({"image": path.read_bytes(), "label": label})


def tfrecord(source, out):
    """Writes as many TFRecord files as there are tar files."""
    import tensorflow as tf

    out.mkdir()
    samples = mixed(jpegs(source))
    for number in range(TARS):
        with tf.io.TFRecordWriter(str(out / f"part-{number}.tfrecord")) as writer:
            for path, label in samples[number::TARS]:
                features = {
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[path.read_bytes()])),
                    "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
                writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())


def halves(source):
    """Yields the name of each cube, and the cube as float16."""
    import numpy as np

    for path in sorted(Path(source).glob("*.npy")):
        yield path.stem, np.load(path).astype(np.float16)


def npy(source, out):
    import numpy as np

    out.mkdir()
    for name, cube in halves(source):
        np.save(out / f"{name}.npy", cube)


def rows_of(cube):
    """Returns the number of cube rows per chunk. All compressed stores have chunks of about 4 MiB."""
    return max(1, min(len(cube), (4 << 20) // max(1, cube[0].nbytes)))


def blosc2_file(source, out, codec, level, filter):
    """Writes one contiguous Blosc2 frame per cube, in chunks of about 4 MiB, and compresses on all cores."""
    import blosc2

    out.mkdir()
    settings = {"codec": codec, "clevel": level, "typesize": 2, "filters": [filter]}
    for name, cube in halves(source):
        chunk = rows_of(cube) * cube[0].nbytes
        blosc2.SChunk(chunksize=chunk, data=cube, contiguous=True, urlpath=str(out / f"{name}.b2frame"), cparams=settings, meta=None)
        (out / f"{name}.shape").write_text(" ".join(map(str, cube.shape)))


def blosc2_lz4(source, out):
    import blosc2

    blosc2_file(source, out, blosc2.Codec.LZ4, 5, blosc2.Filter.BITSHUFFLE)


def blosc2_zstd(source, out):
    import blosc2

    blosc2_file(source, out, blosc2.Codec.ZSTD, 1, blosc2.Filter.SHUFFLE)


def hdf5(source, out):
    import h5py
    import hdf5plugin

    out.mkdir()
    with h5py.File(out / "cubes.h5", "w") as file:
        for name, cube in halves(source):
            chunks = (rows_of(cube), *cube.shape[1:])
            file.create_dataset(name, data=cube, chunks=chunks, compression=hdf5plugin.Blosc2(cname="zstd", clevel=1, filters=hdf5plugin.Blosc2.SHUFFLE))


def zarr(source, out):
    """Writes one Zarr v3 array per cube. Does not use sharding, because one file per chunk is Zarr's fastest layout on
    disk.
    """
    import zarr as library
    from zarr.codecs import BloscCodec

    out.mkdir()
    for name, cube in halves(source):
        codec = BloscCodec(cname="zstd", clevel=1, shuffle="shuffle")
        library.create_array(str(out / name), data=cube, chunks=(rows_of(cube), *cube.shape[1:]), compressors=codec)


WRITERS = {"tar": tar, "mds": mds, "tfrecord": tfrecord, "npy": npy, "blosc2-lz4": blosc2_lz4, "blosc2-zstd": blosc2_zstd, "hdf5": hdf5, "zarr": zarr}
