"""Tests the array job of `examples/slurm`: runs it task by task with a fake `srun`, and resubmits the parts that
`merge` names.
"""

import os
import shutil
import signal
import subprocess
import time
import unittest

from support import COMMAND, ROOT, CommandTest, pictures

SCRIPT = ROOT / "examples" / "slurm" / "pack.sbatch"
OPTIONS = ["--shard-size", "8KiB"]
PARTS = 6


class SlurmTest(CommandTest):
    def setUp(self):
        super().setUp()
        self.source = pictures(self.tmp / "src", 60)
        self.out = self.tmp / "out"
        programs = self.tmp / "bin"
        programs.mkdir()
        # This fake srun logs its own options and runs the rest of its arguments as a command, like the real one.
        (programs / "srun").write_text('#!/bin/sh\nwhile [ "${1#--}" != "$1" ]; do echo "$1" >> "$SRUN_LOG"; shift; done\nexec "$@"\n')
        (programs / "srun").chmod(0o755)
        (programs / "shardpack").symlink_to(COMMAND)
        self.log = self.tmp / "srun.log"
        self.environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "SRUN_LOG": str(self.log)}

    def task(self, number, *arguments, **variables):
        """Return the arguments of Popen for one task of the array."""
        environment = {**self.environment, "SLURM_ARRAY_TASK_ID": str(number), "SLURM_CPUS_PER_TASK": "2", **variables}
        arguments = arguments or (self.source, self.out, PARTS, *OPTIONS)
        return {"args": ["bash", str(SCRIPT), *map(str, arguments)], "env": environment, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}

    def run_task(self, number, *arguments, **variables):
        return subprocess.run(**self.task(number, *arguments, **variables), timeout=300)

    def whole(self):
        self.ok("pack", self.source, self.tmp / "whole", *OPTIONS)
        return self.tmp / "whole"

    def test_an_array_job_and_the_resubmission_of_missing_parts(self):
        for number in (1, 2, 4):
            done = self.run_task(number)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(set(self.log.read_text().split()), {"--ntasks=1", "--cpus-per-task=2"})
        # Simulate two faults. Part 2 has lost a shard, and part 4 was killed before it recorded its last shard.
        journals = {n: self.out / f".shardpack-journal-{n:05}-of-{PARTS:05}.jsonl" for n in (2, 4)}
        shard = journals[2].read_text().split('"name":"shard-')[1].split('"')[0]
        (self.out / f"shard-{shard}").unlink()
        lines = journals[4].read_text().splitlines(keepends=True)
        self.assertGreater(len(lines), 2)
        journals[4].write_text("".join(lines[:-1]))

        refused = self.expect(2, "merge", self.out, "--json")
        found = refused.json()
        self.assertEqual((found["outcome"], found["parts"], found["array"]), ("unfinished", PARTS, "2-6"))
        states = {part["part"]: part["state"] for part in found["unfinished"]}
        self.assertEqual(states, {2: "damaged", 3: "missing", 4: "half done", 5: "missing", 6: "missing"})
        self.assertIn("hint: pack parts 2-6 again, then merge", refused.err)
        self.assertEqual(self.expect(2, "merge", self.out).out, "")
        for number in (2, 3, 4, 5, 6):
            done = self.run_task(number)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.ok("merge", self.out)
        self.assertSameTree(self.whole(), self.out)

    def test_a_task_that_runs_twice_at_once_does_no_harm(self):
        for number in range(1, PARTS + 1):
            twins = [subprocess.Popen(**self.task(number)) for _ in range(3)]
            ends = [(twin.communicate(timeout=300)[1], twin.returncode) for twin in twins]
            self.assertIn(0, [code for _, code in ends], ends)
            for text, code in ends:
                self.assertIn(code, (0, 2), text)
                self.assertTrue(code == 0 or "is being written by another packer" in text, text)
        # Running a task again must not change its complete part.
        before = {path.name: path.read_bytes() for path in self.out.glob("shard-*")}
        self.assertEqual(self.run_task(3).returncode, 0)
        self.assertEqual(before, {path.name: path.read_bytes() for path in self.out.glob("shard-*")})
        self.ok("merge", self.out)
        self.assertSameTree(self.whole(), self.out)

    def test_a_task_that_is_killed_continues_when_it_is_requeued(self):
        # The output must be byte-identical even if a task is killed at an arbitrary moment.
        for number in range(1, PARTS + 1):
            task = subprocess.Popen(**self.task(number, self.source, self.out, PARTS, *OPTIONS, "--check-pixels", "all"))
            journal = self.out / f".shardpack-journal-{number:05}-of-{PARTS:05}.jsonl"
            while task.poll() is None and not (journal.exists() and journal.read_text().count("\n") > 1):
                time.sleep(0.001)
            # The job script and srun both use `exec`, so this process is now the command.
            task.send_signal(signal.SIGKILL)
            task.communicate()
            done = self.run_task(number, self.source, self.out, PARTS, *OPTIONS, "--check-pixels", "all")
            self.assertEqual(done.returncode, 0, done.stderr)
        self.ok("merge", self.out)
        self.ok("pack", self.source, self.tmp / "whole", *OPTIONS, "--check-pixels", "all")
        self.assertSameTree(self.tmp / "whole", self.out)

    def test_parts_with_other_options_name_the_option(self):
        for number in range(1, PARTS + 1):
            options = ["--force", "--seed", "7"] if number in (2, 5, 6) else ["--force"]
            done = self.run_task(number, self.source, self.out, PARTS, *OPTIONS, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
        # Without --force, a part with other options is refused before it writes anything.
        self.assertIn("contains an unfinished dataset", self.run_task(1).stderr)
        refused = self.expect(2, "merge", self.out)
        self.assertIn("do not all have the same shuffle seed: 0 in parts 1, 3-4 and 7 in parts 2, 5-6", refused.err)
        self.assertIn("pack parts 1, 3-4 again with `--force` and the same options and sources as the other parts", refused.err)

    def test_a_job_without_an_array_and_missing_parts(self):
        for number, arguments, text in [
            ("", (self.source, self.out, PARTS), "this is an array job"),
            (7, (self.source, self.out, PARTS), "part 7 of 6 does not exist\nhint: use --array=1-PARTS"),
            (1, (self.source, self.out, "--jpeg"), "part 1 of --jpeg does not exist"),
            (1, (self.source, self.out), "usage: sbatch --array=1-PARTS"),
        ]:
            done = self.run_task(number, *arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)
        self.assertFalse(self.out.exists())
        done = self.run_task(1, self.source, self.out, 1001, *OPTIONS, SHARDPACK_FIRST="1000")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.out / ".shardpack-journal-01001-of-01001.jsonl").exists())

    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed")
    def test_shellcheck_finds_nothing(self):
        done = subprocess.run(["shellcheck", SCRIPT], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
