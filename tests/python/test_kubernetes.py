"""Tests the indexed job of `examples/kubernetes` without a cluster, by running its command once for each index."""

import os
import re
import subprocess

from support import COMMAND, ROOT, CommandTest, pictures, shards

JOB = ROOT / "examples" / "kubernetes" / "pack.yaml"
PARTS = 3


class KubernetesTest(CommandTest):
    def test_the_pods_of_a_job_pack_all_parts(self):
        job = JOB.read_text()
        (script,) = re.findall(r"^ +- (exec shardpack .*)$", job, re.MULTILINE)
        self.assertEqual(re.findall(r"completions: (\d+)", job), re.findall(r'PARTS, value: "(\d+)"', job))
        source, out, programs = pictures(self.tmp / "src", 30), self.tmp / "out", self.tmp / "bin"
        programs.mkdir()
        (programs / "shardpack").symlink_to(COMMAND)
        environment = {
            "PATH": f"{programs}:{os.environ['PATH']}",
            "PARTS": str(PARTS),
            "SRC": str(source),
            "OUT": str(out),
            "THREADS": "2",
        }
        for index in range(PARTS):
            pod = {**environment, "JOB_COMPLETION_INDEX": str(index)}
            done = subprocess.run(["sh", "-ec", script], env=pod, capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.ok("merge", out)
        self.ok("pack", source, self.tmp / "whole", "--shard-size", "256MiB")
        written = [[path.read_bytes() for path in shards(folder)] for folder in (out, self.tmp / "whole")]
        self.assertEqual(*written)
        self.assertTrue(written[0])
