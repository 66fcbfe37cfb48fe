"""Pack, verify and load the pictures and cubes of a folder with the package installed in a bare system. Run by
scripts/try_release.sh.

    try_wheel.py SOURCE OUT COMPAT     one line of JSON: seconds of each step, and a SHA-256 of every file written

COMPAT holds shards written by an earlier version. Needs the package and NumPy.
"""

import hashlib
import json
import sys
import time
from pathlib import Path

import numpy as np

import shardpack as sp


def main() -> None:
    source, out, compat = map(Path, sys.argv[1:])
    seconds: dict[str, float] = {}

    def step(name, work):
        start = time.perf_counter()
        result = work()
        seconds[name] = round(time.perf_counter() - start, 2)
        return result

    step("pack", lambda: [sp.pack(source / kind, out / kind, values="auto") for kind in ("pictures", "cubes")])
    written = [out / kind for kind in ("pictures", "cubes")]
    older = sorted(compat.rglob("*.shard"))
    # The older shards contain fake pictures, which cannot be decoded.
    for name, datasets, deep in (("verify", written, True), ("verify older", older, False)):
        reports = step(name, lambda datasets=datasets, deep=deep: [sp.verify(dataset, deep=deep) for dataset in datasets])
        wrong = [problem for report in reports for problem in report["problems"]]
        if wrong or not reports or not all(report["whole"] for report in reports):
            raise SystemExit(f"try: {name}: expected whole datasets, found {wrong}")

    def load():
        pictures = sp.Loader(sp.Dataset(out / "pictures"), 16, image="rrc96", layout="chw", end="uneven", seed=1)
        cubes = sp.Loader(sp.Dataset(out / "cubes"), 4, cube="patch32x32", end="uneven", seed=1)
        return [sum((np.asarray(batch[field], np.float64).sum() for batch in loader), 0.0)
                for loader, field in ((pictures, "image"), (cubes, "cube"))]  # fmt: skip

    sums = step("load", load)
    if not all(np.isfinite(total) and total > 0 for total in sums):
        raise SystemExit(f"try: the sums of the loaded values are not above 0: {sums}")
    files = sorted(path for path in out.rglob("*") if path.is_file())
    digests = {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    samples = [len(sp.Dataset(out / kind)) for kind in ("pictures", "cubes")]
    print(json.dumps({"version": sp.__version__, "seconds": seconds, "samples": samples, "sums": sums,
                      "digests": digests}))  # fmt: skip


if __name__ == "__main__":
    main()
