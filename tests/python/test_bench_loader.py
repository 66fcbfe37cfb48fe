"""Tests that `benches/loader.py` runs on tiny data, with shardpack, the limits, and the peers installed here."""

import json
import subprocess
import sys

from support import COMMAND, ROOT, CommandTest, cubes, names, pictures

BENCH = ROOT / "benches" / "loader.py"


class LoaderBench(CommandTest):
    def bench(self, *args, code=0):
        """Run the bench on three small cubes and on 70 small pictures, more than fit into one batch."""
        tiny = ["--rounds", "2", "--seconds", "0.05", "--cubes", "3", "--cube-shape", "24x40x17", "--threads", "2"]
        fixed = ["--shardpack", COMMAND, "--python", sys.executable, "--no-save", "--dir", self.tmp / "bench"]
        command = [sys.executable, BENCH, *fixed, *tiny, *args]
        done = subprocess.run([str(arg) for arg in command], capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def rows(self, table):
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")]
        return [dict(zip(lines[0], line)) for line in lines[2:]]

    def test_shardpack_limits_and_peers(self):
        done = self.bench(pictures(self.tmp / "src", 70), "--peers", "npy,blosc2-lz4,blosc2-zstd", "--modes", "rrc224,full,raw,compressed,uncompressed")
        rows = self.rows(done.stdout)
        sides = {}
        for row in rows:
            sides.setdefault(row["load"], []).append(row["side"])
            self.assertGreater(float(row["samples/s"]), 0, row)
            self.assertGreater(float(row["peak MB"]), 5, "at least an interpreter or the command: " + str(row))
        for load in ("random-resized-crop 224", "whole pictures", "stored bytes"):
            self.assertLessEqual({"shardpack, tiled as `pack` does", "shardpack, files kept to the byte"}, set(sides[load]))
        self.assertEqual(len(sides["cubes, compressed"]), 4, "shardpack, Blosc2 alone, and two peers")
        self.assertEqual(len(sides["cubes, uncompressed"]), 3, "shardpack, a plain read, and a peer")
        # All sides deliver cubes as float16, so the bytes per sample (MB/s divided by samples/s) must be equal.
        sizes = [float(row["MB/s"]) / float(row["samples/s"]) for row in rows if row["load"].startswith("cubes") and "plain read" not in row["side"]]
        for size in sizes:
            self.assertAlmostEqual(size / (24 * 40 * 17 * 2 / 1e6), 1, delta=0.1, msg="scalars may come along")
        # The column is relative to the best peer, so the best peer has 1.
        peers = [float(row["÷ best peer"]) for row in rows if "Blosc2 file" in row["side"]]
        self.assertEqual(max(peers), 1)
        limits = [float(row["÷ limit"]) for row in rows if row["side"].startswith("limit:")]
        self.assertEqual(set(limits), {1})
        self.assertEqual(names(self.tmp / "bench"), [], "the datasets are gone")

    def test_a_missing_peer_is_named_and_left_out(self):
        done = self.bench(pictures(self.tmp / "src", 70), "--peers", "npy", "--modes", "uncompressed", "--python", self.interpreter_without("numpy"))
        self.assertRegex(done.stdout, "not measured: npy: numpy: .*no numpy here")
        self.assertEqual(len(self.rows(done.stdout)), 2, "shardpack and the plain read")

    def interpreter_without(self, package):
        """Return an interpreter that refuses to import this package."""
        (self.tmp / "without").mkdir()
        (self.tmp / "without" / f"{package}.py").write_text(f"raise ImportError('no {package} here')\n")
        script = self.tmp / "python"
        script.write_text(f'#!/bin/sh\nPYTHONPATH="{self.tmp / "without"}" exec "{sys.executable}" "$@"\n')
        script.chmod(0o755)
        return script

    def test_a_worker_counts_what_it_delivers(self):
        source = cubes(self.tmp / "src", 5, shape=(12, 10, 7))
        for store, name in (("npy", "npy"), ("blosc2-lz4", "blosc2-lz4")):
            out = self.tmp / store
            self.worker("convert", store, source, out)
            result = json.loads(self.worker("run", name, "compressed", out, "--threads", "2", "--batch", "2", "--seconds", "0"))
            self.assertEqual((result["samples"], result["samples_an_epoch"], result["epochs"]), (5, 5, 1))
            self.assertEqual(result["bytes"], 5 * 12 * 10 * 7 * 2, "float16")

    def test_cold(self):
        done = self.bench(self.tmp, "--peers", "npy", "--modes", "uncompressed", "--cold")
        self.assertEqual(len(self.rows(done.stdout)), 3, "shardpack, the plain read, and a peer")

    def test_a_run_below_the_tick_of_the_clock_has_no_ratio(self):
        code = """if True:
            import loader
            mode = next(iter(loader.MODES))
            run = {"mode": mode, "label": "x", "samples_per_s": 9.0, "output_mb_per_s": 1.0, "peak_bytes": 1, "others": 0.0}
            runs = [run | {"side": side, "role": role, "cpu_s_per_sample": cpu} for side, role, cpu in [("a", "own", 0.0), ("b", "peer", 0.5)]]
            print(sorted(str(row["least CPU of a peer ÷ own"]) for row in loader.summary(runs)))
        """
        done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "benches", capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "['', '1.0']\n")

    def worker(self, *args):
        command = [sys.executable, "-m", "peers.worker", *map(str, args)]
        return subprocess.run(command, cwd=ROOT / "benches", capture_output=True, text=True, check=True).stdout

    def test_wrong_words_are_refused(self):
        for args, words in [(("--peers", "keras"), "--peers: unknown: keras;"), (("--peers", "plain-read"), "--peers: unknown: plain-read;"), (("--modes", "half"), "--modes: unknown: half;"), (("--cube-shape", "3x4"), "expected height x width x channels, found: 3x4")]:
            self.assertIn(words, self.bench(self.tmp, *args, code=2).stderr)


if __name__ == "__main__":
    import unittest

    unittest.main()
