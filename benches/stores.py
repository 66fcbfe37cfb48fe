"""Compares loading from an object store with loading from the local disk, and with other loaders that use the same
server.

    python3 benches/stores.py [--photos PHOTOS] [--python PYTHON]

PHOTOS is a folder of class folders of JPEGs. Without it, the bench makes pictures from smoothed noise. The store is
`peers/bucket.py` on the loopback interface. Server and readers share the cores. The sides take turns. Each runs some
epochs in its own process. The median epoch is reported, or the first epoch if the cache starts empty. Two plain clients
(`peers/plain_client.py`) show the limit of the server: one requests as many bytes as a sample has, the other 4 MiB. The
peers are webdataset, mosaicml-streaming and s3torchconnector, if `--python` has them.
"""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import bench

BENCHES = Path(__file__).resolve().parent
LOADS = {"stored bytes": ("--image", "raw"), "random crops of 224": ("--image", "rrc224")}
KEYS = {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "something", "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}

# Each script creates a `loader` that reads the stored bytes of all pictures once per epoch, and sets the number of
# `epochs`. Only the last epoch is reported: the first for the peer that caches files on disk, otherwise the second, as
# for shardpack.
PEERS = {
    "webdataset, 2 workers": """
import webdataset as wds, torch
names = [f"{url}/tars/{i:03}.tar" for i in range(count)]
data = wds.WebDataset([f"pipe:curl -s -f {name}" for name in names], shardshuffle=False)
loader, epochs = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2, persistent_workers=True), 2
""",
    "mosaicml-streaming, 2 workers": """
import os, tempfile
os.environ["S3_ENDPOINT_URL"] = endpoint
from streaming import StreamingDataset
import torch
local = tempfile.TemporaryDirectory()
data = StreamingDataset(remote="s3://bucket/mds", local=local.name, batch_size=64, shuffle=False)
loader, epochs = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2), 1
""",
    "s3torchconnector, 2 workers": """
from s3torchconnector import S3IterableDataset, S3ClientConfig
import torch
data = S3IterableDataset.from_prefix("s3://bucket/photos/", region="us-east-1", endpoint=endpoint,
    s3client_config=S3ClientConfig(force_path_style=True), transform=lambda item: item.read(), enable_sharding=True)
loader, epochs = torch.utils.data.DataLoader(data, batch_size=None, num_workers=2, persistent_workers=True), 2
""",
}


@contextlib.contextmanager
def server(folder, delay=0.0):
    """Starts a server for this folder and yields its endpoint."""
    process = subprocess.Popen([sys.executable, BENCHES / "peers/bucket.py", folder, "--delay", str(delay)], stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()


def photos(folder, count):
    """Makes pictures of about 100 kB in ten classes."""
    import numpy as np
    from PIL import Image

    for number in range(count):
        noise = np.random.default_rng(number).integers(0, 256, (60, 80, 3), np.uint8)
        picture = Image.fromarray(noise).resize((500, 375), Image.BICUBIC)
        path = folder / f"class{number % 10}" / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        picture.save(path, quality=95)


def tars(source, folder, per_tar=100):
    """Writes the pictures as WebDataset tars and returns the number of tars."""
    folder.mkdir()
    files = sorted(source.rglob("*.jpg"))
    for number in range(0, len(files), per_tar):
        with tarfile.open(folder / f"{number // per_tar:03}.tar", "w") as tar:
            for file in files[number : number + per_tar]:
                info = tarfile.TarInfo(f"{file.stem}.jpg")
                info.size = file.stat().st_size
                tar.addfile(info, io.BytesIO(file.read_bytes()))
    return -(-len(files) // per_tar)


MDS = """
import sys; from pathlib import Path; from streaming import MDSWriter
with MDSWriter(out=sys.argv[2], columns={"image": "bytes"}) as out:
    for path in sorted(Path(sys.argv[1]).rglob("*.jpg")): out.write({"image": path.read_bytes()})
"""


def peer(python, code, endpoint, count, samples):
    """Returns the samples per second of one epoch, or the last line of the error."""
    text = f"endpoint, url, count = {endpoint!r}, {endpoint + '/bucket'!r}, {count}\nimport time\n{code}\nfor _ in range(epochs):\n    started = time.perf_counter()\n    seen = sum(1 for _ in loader)\n    rate = seen / (time.perf_counter() - started)\nassert seen == {samples}, seen\nprint(rate)"
    done = subprocess.run([python, "-c", text], capture_output=True, text=True, env={**os.environ, **KEYS}, timeout=600)
    return float(done.stdout.split()[-1]) if done.returncode == 0 else done.stderr.strip().splitlines()[-1:]


# Bytes of a request of a plain client (None: the mean of a sample), processes, and connections of each.
PLAIN = {"plain client, single samples": (None, 2, 4), "plain client, 4 MiB": (4 << 20, 2, 2)}


def plain(root, endpoint, size, processes, threads):
    """Returns the bytes per second that a plain client reads."""
    return float(bench.run(sys.executable, BENCHES / "peers/plain_client.py", endpoint.rsplit(":", 1)[1], root, "bucket/train", size, processes, threads))


def main():
    options = bench.arguments(
        __doc__.splitlines()[0],
        photos=("", "folder of class folders of JPEGs"),
        count=(1500, "photos to make without PHOTOS"),
        python=("", "interpreter of the peers"),
        load=("", f"only one of: {', '.join(LOADS)}"),
        shardpack=("", "command to measure instead of a new build"),
    )
    command = options.shardpack
    if not command:
        bench.build()
        command = bench.SHARDPACK
    with bench.scratch(options) as folder:
        folder = Path(folder)
        bucket = folder / "bucket"
        bucket.mkdir()
        if options.photos:
            shutil.copytree(options.photos, bucket / "photos")
        else:
            photos(bucket / "photos", options.count)
        samples = sum(1 for _ in (bucket / "photos").rglob("*.jpg"))
        bench.run(command, "pack", bucket / "photos", bucket / "train", "--jpeg", "keep", "--shard-size", "16MiB")
        count = tars(bucket / "photos", bucket / "tars")
        chosen = dict(PEERS) if options.python else {}
        if options.python and subprocess.run([options.python, "-c", MDS, bucket / "photos", bucket / "mds"], capture_output=True).returncode:
            del chosen["mosaicml-streaming, 2 workers"]
        bench.warm(bucket)
        rows, notes, network = measure(options, command, folder, bucket, count, samples, chosen)
        facts = {"samples": samples, "bytes": bench.tree_bytes(bucket / "train"), "notes": notes, "network": network}
        bench.finish("stores", options, facts, rows)
        print("\n" + "\n".join(f"- {note}" for note in notes))


def measure(options, command, folder, bucket, count, samples, chosen):
    """Returns a table with the rates of all sides. They are measured in turns."""
    rates, times, notes, network = {}, {}, [], {}
    loads = [options.load] if options.load else list(LOADS)
    with server(folder) as near, server(folder, 0.1) as far:

        def own(name, place, endpoint, load, *more, epochs=3):
            environment = {**os.environ, **KEYS, "AWS_ENDPOINT": endpoint or ""}
            done = bench.run(command, "bench", place, *LOADS[load], "--epochs", epochs, "--json", *more, env=environment)
            found = json.loads(done)
            rates.setdefault((name, load), []).append(found["samples_per_s"])
            times.setdefault((name, load), []).append(found["cpu_s_per_sample"])
            network[f"{name}, {load}"] = found["network"]

        for _ in range(options.rounds):
            for load in loads:
                bench.remove(folder / "cache")
                own("store, an empty cache", "s3://bucket/train", near, load, "--cache", folder / "cache", epochs=1)
                # An epoch of stored bytes takes less than 0.1 s here, so several are measured, and both sides in turns.
                epochs = 20 if load == "stored bytes" else 3
                own("local disk", bucket / "train", None, load, epochs=epochs)
                own("store, from the cache", "s3://bucket/train", near, load, "--cache", folder / "cache", epochs=epochs)
                own("store", "s3://bucket/train", near, load)
                own("store, runs of 4 MiB", "s3://bucket/train", near, load, "--lanes", 4)
                own("store, 100 ms more", "s3://bucket/train", far, load)
            mean = bench.tree_bytes(bucket / "train") / samples
            for name, (size, processes, threads) in PLAIN.items() if "stored bytes" in loads else []:
                rates.setdefault((name, "stored bytes"), []).append(plain(folder, near, size or round(mean), processes, threads) / mean)
            for name, code in list(chosen.items()) if "stored bytes" in loads else []:
                found = peer(options.python, code, near, count, samples)
                if isinstance(found, float):
                    rates.setdefault((name, "stored bytes"), []).append(found)
                else:
                    notes.append(f"{name} did not run: {found}")
                    del chosen[name]
    middle = {side: bench.median(some) for side, some in rates.items()}
    row = lambda name, load: {"load": load, "side": name, "samples/s": middle[name, load], "÷ local disk": middle[name, load] / middle["local disk", load], "÷ store": middle[name, load] / middle["store", load], "CPU µs of a sample": bench.median(times[name, load]) * 1e6 if (name, load) in times else ""}
    return [row(name, load) for load in loads for name, of in middle if of == load], notes, network


if __name__ == "__main__":
    main()
