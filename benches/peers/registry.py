"""Lists the sides and their modes. The bench imports this module without the peers' packages, so it uses only the
standard library.
"""

from typing import NamedTuple

PICTURES = ("rrc224", "full", "raw")
COMPRESSED = ("compressed",)
UNCOMPRESSED = ("uncompressed",)


class Side(NamedTuple):
    """A peer or a limit. Its function in `peers.<module>` has the same name with `_` in place of `-`."""

    name: str
    label: str
    module: str
    store: str
    modes: tuple
    imports: tuple


PEERS = [
    Side("torchvision", "torchvision ImageFolder + DataLoader", "pictures", "folder", PICTURES, ("torch", "torchvision")),
    Side("webdataset", "WebDataset + DataLoader", "pictures", "tar", PICTURES, ("torch", "torchvision", "webdataset")),
    Side("mds", "MosaicML Streaming + DataLoader", "pictures", "mds", PICTURES, ("torch", "torchvision", "streaming")),
    Side("dali", "DALI on the CPU, from tar files", "pictures", "tar", PICTURES, ("nvidia.dali",)),
    Side("spdl", "SPDL's pipeline, torchvision's decoder", "pictures", "folder", PICTURES, ("spdl.pipeline", "torch", "torchvision")),
    Side("tf-data", "tf.data, decode_and_crop_jpeg", "pictures", "tfrecord", PICTURES, ("tensorflow",)),
    Side("npy", "npy float16, read into the batch", "cubes", "npy", UNCOMPRESSED, ("numpy",)),
    Side("npy-dataloader", "npy float16, np.load + DataLoader", "cubes", "npy", UNCOMPRESSED, ("numpy", "torch")),
    Side("blosc2-lz4", "a Blosc2 file per cube, lz4 + bitshuffle", "cubes", "blosc2-lz4", COMPRESSED, ("blosc2",)),
    Side("blosc2-zstd", "a Blosc2 file per cube, zstd 1 + shuffle", "cubes", "blosc2-zstd", COMPRESSED, ("blosc2",)),
    Side("hdf5", "HDF5 + hdf5plugin, Blosc2 zstd 1", "cubes", "hdf5", COMPRESSED, ("h5py", "hdf5plugin")),
    Side("zarr", "Zarr v3, Blosc zstd 1", "cubes", "zarr", COMPRESSED, ("zarr",)),
]

# The minimum work of a loader in each mode. `tiled`, `packed` and `plain` are shardpack datasets.
LIMITS = [
    Side("libjpeg-turbo", "limit: libjpeg-turbo alone, whole pictures", "limits", "folder", ("rrc224", "full"), ("simplejpeg",)),
    Side("plain-read", "limit: a plain read of the shards", "limits", "tiled", ("raw",), ()),
    Side("plain-read-cubes", "limit: a plain read of the shards", "limits", "plain", UNCOMPRESSED, ()),
    Side("blosc2", "limit: Blosc2 alone, the same chunks", "limits", "packed", COMPRESSED, ("blosc2",)),
]

SIDES = {side.name: side for side in PEERS + LIMITS}

# Loaders that are not measured, with the reason. The output lists them, because one of them may be the fastest.
LEFT_OUT = {
    "ffcv": "has no wheel; its source needs the headers of OpenCV and libturbojpeg, and it encodes the pictures anew",
}
