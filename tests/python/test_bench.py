"""Tests `shardpack bench`: its table, its JSON object, options without effect, damaged datasets, and exit codes."""

import os
import shutil
import signal
import unittest

import numpy as np
from shardfile import records
from support import CommandTest, catches, cubes, jpeg, pictures, shards, start, wait_until

LIMITS = {"disk", "memory", "crc", "decode", "cores", "consumer", "slots", "device", "unclear"}
STAGES = {"read", "crc", "decode", "waiting_for_data", "waiting_for_slot", "other"}


def hurt_record(shard, which=1):
    """Flip a bit in the first field of one record, and return the record's key."""
    key, fields = list(records(shard))[which]
    field = next(iter(fields.values())).data
    data = bytearray(shard.read_bytes())
    data[data.index(field) + len(field) // 2] ^= 0x10
    shard.write_bytes(data)
    return key


class BenchTest(CommandTest):
    def packed(self, source, *args):
        self.ok("pack", source, self.tmp / "out", *args)
        return self.tmp / "out"

    def pictures(self, count=24):
        return self.packed(pictures(self.tmp / "src", count))

    def cubes(self, count=6, **options):
        return self.packed(cubes(self.tmp / "src", count, **options))

    def bench(self, *args):
        return self.ok("bench", *args, "--json").json()


class Figures(BenchTest):
    def test_json_is_complete_and_plausible(self):
        out = self.pictures()
        stored = sum(path.stat().st_size for path in shards(out))
        got = self.bench(out, "--image", "rrc32", "--batch-size", 5, "--threads", 2, "--epochs", 4, "--seed", 7)
        self.assertEqual((got["samples"], got["batches"], len(got["epochs"])), (24, 5, 3))
        self.assertIsNotNone(got["warm_up"])
        self.assertAlmostEqual(got["samples_per_s"], 24 / got["seconds"], delta=1e-6 * got["samples_per_s"])
        # A sample has 32 × 32 × 3 bytes of pixels and an 8-byte label. Fields begin at multiples of 64 bytes, so
        # padding adds less than 192 bytes.
        per_sample = got["output_mb_per_s"] * 1e6 / got["samples_per_s"]
        self.assertTrue(32 * 32 * 3 + 8 <= per_sample <= 32 * 32 * 3 + 200, per_sample)
        # Three epochs are measured. Part of each epoch is read before the previous one ends, so the measurement covers
        # between two and four times the dataset. Allow 10 % more for rounding.
        read = sum(epoch["read_mb_per_s"] * 1e6 * epoch["seconds"] for epoch in got["epochs"])
        self.assertTrue(2 * 0.9 * stored < read < 4 * 1.1 * stored, (read, stored))
        self.assertTrue(0 < got["cpu_s_per_sample"] < 1)
        self.assertEqual(set(got["thread_s"]), STAGES)
        self.assertTrue(all(seconds >= 0 for seconds in got["thread_s"].values()))
        # Two threads together spend more time than the epoch takes, but not exactly twice the time. A wait counts when
        # it ends, and that may be in the next epoch.
        self.assertGreater(sum(got["thread_s"].values()), got["seconds"])
        self.assertTrue(0 <= got["consumer_wait_s"] <= got["seconds"])
        self.assertTrue(0 <= got["queue_fill"] <= 3)
        self.assertIn(got["limit"], LIMITS)
        self.assertGreater(len(got["advice"]), 20)
        self.assertEqual(got["skipped"], 0)
        self.assertGreater(got["peak_rss_bytes"], 1 << 20)
        self.assertGreater(got["predicted_bytes"], got["loader_bytes"])
        # The peak may be well below the prediction, because pages of the program count only once they are loaded.
        self.assertTrue(0.3 < got["peak_rss_bytes"] / got["predicted_bytes"] < 2, got)
        options = got["options"]
        asked = {"image": "rrc32", "cube": None, "bands": None, "batch_size": 5, "threads": 2, "seed": 7, "order": "windowed", "lanes": 240, "slots": 3, "read_ahead_bytes": 32 << 20, "max_batch_bytes": 8 << 30, "window": "auto", "cold": False}
        self.assertEqual({name: options[name] for name in asked}, asked)
        self.assertIn("image", options["fields"])

    def test_the_median_epoch_is_reported(self):
        got = self.bench(self.pictures(), "--epochs", 6)
        seconds = sorted(epoch["seconds"] for epoch in got["epochs"])
        self.assertEqual((len(seconds), got["seconds"]), (5, seconds[2]))

    def test_a_single_epoch_and_cold_ones_have_no_warm_up(self):
        out = self.pictures()
        for args, count in ((["--epochs", 1], 1), (["--epochs", 2, "--cold"], 2)):
            got = self.bench(out, *args)
            self.assertEqual((got["warm_up"], len(got["epochs"])), (None, count))

    def test_a_batch_that_is_too_large_names_the_option_that_allows_it(self):
        out = self.pictures()
        refused = self.expect(2, "bench", out, "--image", "rrc64", "--max-batch", "4KiB")
        self.assertIn("--max-batch", refused.err)
        self.ok("bench", out, "--image", "rrc64", "--max-batch", "4MiB")

    def test_a_cold_epoch_is_not_read_ahead(self):
        got = self.bench(self.pictures(), "--epochs", 4, "--cold")
        read = [epoch["read_mb_per_s"] * epoch["seconds"] for epoch in got["epochs"]]
        for bytes_of_epoch in read:
            self.assertAlmostEqual(bytes_of_epoch, read[0], delta=read[0] * 1e-6)

    def test_text(self):
        text = self.ok("bench", self.pictures(), "--image", "center32", "--order", "stored", "--threads", "2", "--slots", "4").out
        first = text.splitlines()[0]
        for words in ("24 samples in 1 shard", "images center32", "batches of 24", "order stored", "2 threads", "4 slots", "warm"):
            self.assertIn(words, first)
        for row in ("warm-up", "1", "2", "median"):
            self.assertRegex(text, rf"(?m)^  {row} .* [\d,]+ .*B/s")
        for stage in ("reading", "CRC32", "decoding", "waiting for data", "waiting for a slot", "anything else"):
            self.assertRegex(text, rf"(?m)^  {stage} +\d+ % ")
        self.assertIn("time of the 2 threads", text)
        self.assertIn("0 damaged samples skipped", text)
        self.assertRegex(text, r"memory: [\d.]+ MB at most, [\d.]+ MB predicted")
        self.assertRegex(text.splitlines()[-1], r"limit|too little")


class Views(BenchTest):
    def test_batches_have_the_requested_shape_and_type(self):
        out = self.pictures()
        bytes_of = lambda *args: (got := self.bench(out, *args))["output_mb_per_s"] * 1e6 * got["seconds"] / 24
        self.assertAlmostEqual(bytes_of(), 64 * 96 * 3, delta=200)
        self.assertAlmostEqual(bytes_of("--image", "full"), 64 * 96 * 3, delta=200)
        self.assertAlmostEqual(bytes_of("--image", "rrc48"), 48 * 48 * 3, delta=200)
        self.assertAlmostEqual(bytes_of("--image", "center16"), 16 * 16 * 3, delta=200)
        self.assertLess(bytes_of("--image", "raw"), 10_000)
        self.assertLess(bytes_of("--fields", "label"), 100)

    def test_pictures_of_all_shapes(self):
        source = pictures(self.tmp / "src", 6)
        for i, size in enumerate(((40, 24), (16, 200))):
            (source / "class 0" / f"other{i}.jpg").write_bytes(jpeg(90 + i, *size))
        out = self.packed(source)
        got = self.bench(out, "--image", "full", "--epochs", 1)
        pixels = 6 * 64 * 96 + 40 * 24 + 16 * 200
        self.assertAlmostEqual(got["output_mb_per_s"] * 1e6 * got["seconds"], 3 * pixels, delta=1000)

    def test_cubes_whole_and_raw(self):
        out = self.cubes()
        whole, raw = self.bench(out), self.bench(out, "--cube", "raw")
        sizes = [got["output_mb_per_s"] * 1e6 * got["seconds"] / 6 for got in (whole, raw)]
        self.assertAlmostEqual(sizes[0], 24 * 20 * 17 * 4, delta=200)
        self.assertLess(sizes[1], sizes[0] / 1.5)
        self.assertEqual((whole["options"]["cube"], whole["options"]["image"], raw["options"]["cube"]), ("whole", None, "raw"))

    def test_patches_and_bands(self):
        out = self.cubes()
        for args, values in ((["--cube", "patch8x6"], 8 * 6 * 17), (["--cube", "patch8x6", "--bands", "3..10"], 8 * 6 * 7), (["--bands", "16,0"], 24 * 20 * 2)):
            got = self.bench(out, *args)
            self.assertAlmostEqual(got["output_mb_per_s"] * 1e6 * got["seconds"] / 6, values * 4, delta=200)
        self.assertEqual((got["options"]["cube"], got["options"]["bands"]), ("whole", "16,0"))
        self.assertIn("arrays patch8x6 with bands 3..10,", self.ok("bench", out, "--cube", "patch8x6", "--bands", "3..10").out)

    def test_large_cubes_come_in_small_batches(self):
        (self.tmp / "src").mkdir()
        for i in range(4):
            # Each decoded cube takes 96 MiB, so the default batch has two cubes. The stored bytes are tiny, so a raw
            # batch has all four.
            np.save(self.tmp / "src" / f"{i}.npy", np.full((512, 512, 96), i + 0.5, np.float32))
        out = self.packed(self.tmp / "src")
        batch_size = lambda *args: self.bench(out, "--epochs", 1, *args)["options"]["batch_size"]
        self.assertEqual(batch_size(), 2)
        self.assertEqual(batch_size("--batch-size", 1), 1)
        self.assertEqual(batch_size("--batch-size", 3), 3)
        self.assertEqual(batch_size("--cube", "raw"), 4, "all that there are")

    def test_pictures_and_batches_are_augmented(self):
        out = self.pictures(6)
        augment, mix = "trivial_augment_wide,random_erasing(p=0.5,value=9)", "mixup(alpha=0.2),cutmix"
        result = self.bench(out, "--image", "rrc32", "--fields", "image,label", "--augment", augment)
        self.assertEqual((result["options"]["augment"], result["options"]["augment_batch"]), (augment, None))
        self.assertIn(f"augmented by {augment}, ", self.expect(0, "bench", out, "--image", "rrc32", "--augment", augment, "--fields", "image").out)
        self.assertIn(f"augmented by {mix}, ", self.expect(0, "bench", out, "--image", "rrc32", "--augment-batch", mix, "--fields", "image,label").out)
        for arguments, said in [
            (["--augment", "blur"], "unknown augmentation `blur`: expected one of hflip, vflip"),
            (["--augment-batch", "blend"], "unknown batch augmentation `blend`: expected mixup, cutmix or mosaic"),
        ]:
            with self.subTest(arguments=arguments):
                self.assertIn(said, self.expect(2, "bench", out, "--image", "rrc32", *arguments).err)

    def test_every_order_sees_every_sample(self):
        out = self.pictures()
        for order in ("stored", "windowed", "full"):
            got = self.bench(out, "--order", order, "--batch-size", 7, "--epochs", 2)
            self.assertEqual((got["samples"], got["batches"], got["options"]["order"]), (24, 4, order))

    def test_lanes_apply_to_the_windowed_order(self):
        out = self.pictures()
        got = self.bench(out, "--lanes", 30, "--epochs", 1)
        self.assertEqual((got["samples"], got["options"]["lanes"]), (24, 30))
        self.assertIsNone(self.bench(out, "--order", "full", "--epochs", 1)["options"]["lanes"])
        self.assertIn("order windowed with 30 lanes", self.ok("bench", out, "--lanes", 30, "--epochs", 1).out)
        for order in ("stored", "full"):
            said = self.expect(2, "bench", out, "--lanes", 30, "--order", order).err
            self.assertIn("`--lanes 30` applies only to `--order windowed`", said)

    def test_a_single_shard(self):
        got = self.bench(shards(self.pictures())[0], "--epochs", 1)
        self.assertEqual(got["samples"], 24)


class Refused(BenchTest):
    def test_invalid_options_are_refused(self):
        out = self.pictures(4)
        for args, said in (
            (["--image", "rrc0"], "rrcN"),
            (["--image", "thumbnail"], "thumbnail"),
            (["--cube", "half"], "half"),
            (["--cube", "patch8"], "patch64x64"),
            (["--bands", "9..3"], "9..3"),
            (["--stream", "--bands", "3"], "--bands"),
            (["--order", "random"], "random"),
            (["--batch-size", "0"], "--batch-size"),
            (["--slots", "0"], "--slots"),
            (["--threads", "0"], "--threads"),
            (["--epochs", "0"], "--epochs"),
            (["--read-ahead", "lots"], "lots"),
            (["--fields", "image,nose"], "nose"),
            (["--decode"], "--stream"),
            (["--stream", "--image", "full"], "--image"),
            (["--stream", "--order", "full"], "--order"),
        ):
            with self.subTest(args=args):
                result = self.expect(2, "bench", out, *args)
                self.assertEqual(result.out, "")
                self.assertIn(said, result.err)

    def test_floats_of_pictures(self):
        out = self.pictures(4)
        result = self.expect(0, "bench", out, "--json", "--image", "rrc32", "--dtype", "float16", "--mean", "0.485,0.456,0.406", "--std", "0.229,0.224,0.225").json()
        self.assertEqual(result["options"]["mean"], [0.485, 0.456, 0.406])
        plain = self.expect(0, "bench", out, "--json", "--image", "rrc32").json()
        rate = lambda run: run["output_mb_per_s"] / run["samples_per_s"]
        # Each of the 3 × 32 × 32 levels becomes a 2-byte float. This adds one byte per level. Scalars do not change.
        self.assertAlmostEqual(rate(result) - rate(plain), 3 * 32 * 32 / 1e6, places=5)
        for args, said in [
            (["--mean", "0.5", "--dtype", "image=uint8"], "mean and std need pictures that are loaded as floats, but none are"),
            (["--dtype", "float16", "--std", "0"], "the std must be a finite number above 0, but is 0"),
            (["--dtype", "float16", "--std=-0.5"], "the std must be a finite number above 0, but is -0.5"),
            (["--dtype", "float16", "--mean", "0.1,0.2"], "mean must be one number, or three for red, green and blue, not 2"),
            (["--dtype", "float64", "--mean", "0"], "as uint8, float16, bfloat16 or float32, but not as float64"),
            (["--dtype", "float16"], "hint: to load pictures with this dtype, name their field in `--dtype`, or pass mean and std"),
        ]:
            with self.subTest(args=args):
                self.assertIn(said, self.expect(2, "bench", out, "--image", "rrc32", *args).err)

    def test_a_missing_device_is_refused(self):
        out = self.pictures(4)
        self.assertIn("expected `cpu`, `cuda` or `cuda:N`, found `tpu`", self.expect(2, "bench", out, "--device", "tpu").err)
        error = self.expect(2, "bench", out, "--device", "cuda:63").err
        self.assertIn("cannot decode on cuda:63", error)
        self.assertIn("hint: omit `--device` to decode on the CPU", error)
        self.assertIn("--device <DEVICE>", self.expect(2, "bench", out, "--resident").err)
        self.assertIn("a device that decodes", self.expect(2, "bench", out, "--resident", "--device", "cpu").err)

    def test_options_that_do_not_fit_the_dataset(self):
        out = self.pictures(4)
        self.assertIn("no arrays are loaded; the dataset has", self.expect(2, "bench", out, "--cube", "raw").err)
        self.expect(2, "bench", out, "--fields", "label", "--image", "rrc32")
        shutil.rmtree(out)
        shutil.rmtree(self.tmp / "src")
        out = self.cubes(2)
        result = self.expect(2, "bench", out, "--image", "rrc224")
        self.assertRegex(result.err, r"`--image rrc224` has no effect, because no pictures are loaded; the dataset has the fields .*cube")
        self.assertRegex(self.expect(2, "bench", out, "--cube", "patch25x6").err, "sample 0, .*the patch [(]25 × 6[)] does not fit in the array [(]24 × 20[)]")
        self.assertRegex(self.expect(2, "bench", out, "--bands", "16..18").err, "sample 0, .*the region has 2 bands starting at 16, but the array has only 17 bands")
        self.assertIn("`--bands 3` has no effect with `--cube raw`", self.expect(2, "bench", out, "--bands", "3", "--cube", "raw").err)

    @unittest.skipIf(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") > 400 << 30, "a machine with room for everything")
    def test_more_memory_than_the_machine_has_is_refused(self):
        out = self.cubes(2, shape=(512, 512, 64))
        result = self.expect(2, "bench", out, "--batch-size", 2, "--slots", 4000)
        self.assertRegex(result.err, r"not enough memory for the batches: .*B needed, .*B free")
        self.assertIn("hint: lower `--batch-size`", result.err)


class Damage(BenchTest):
    def test_a_damaged_sample_is_named(self):
        out = self.pictures()
        key = hurt_record(shards(out)[0])
        result = self.expect(1, "bench", out, "--image", "rrc32")
        self.assertEqual(result.out, "")
        self.assertIn(key, result.err)
        self.assertIn("error: stopped at a damaged sample: ", result.err)
        self.assertIn("CRC32: expected 0x", result.err)
        self.assertIn("--skip N", result.err.splitlines()[-1])

    def test_skipped_samples_are_counted(self):
        out = self.pictures()
        hurt_record(shards(out)[0], 1)
        hurt_record(shards(out)[0], 5)
        for epochs in (1, 3):
            few = self.expect(1, "bench", out, "--skip", 1, "--epochs", epochs)
            self.assertEqual(few.out, "", "no figures where the budget of an epoch is exceeded")
        result = self.expect(1, "bench", out, "--skip", 2, "--epochs", 3, "--json")
        self.assertEqual((result.json()["skipped"], result.json()["samples"]), (6, 22))
        self.assertIn("6 damaged samples skipped", result.err)
        self.assertIn("verify", result.err)


class Ending(BenchTest):
    def test_an_interrupt_ends_the_run_at_once(self):
        out = self.pictures()
        for args in ([], ["--stream"]):
            process = start("bench", out, "--epochs", 1_000_000, *args)
            self.addCleanup(process.kill)
            self.assertTrue(wait_until(lambda: catches(process, signal.SIGINT), process))
            process.send_signal(signal.SIGINT)
            # These epochs would otherwise take hours.
            self.assertEqual(process.wait(600), 130)
            self.assertEqual(process.stdout.read(), b"")
            process.stdout.close()
            process.stderr.close()

    @unittest.skipUnless(os.path.exists("/dev/shm"), "no tmpfs")
    def test_a_note_says_that_cold_had_no_effect(self):
        out = self.pictures()
        memory = f"/dev/shm/shardpack-bench-{os.getpid()}"
        self.addCleanup(shutil.rmtree, memory, ignore_errors=True)
        shutil.copytree(out, memory)
        # Run five epochs and use their median, because a page of the program may be read from disk in a single epoch,
        # which would hide that the dataset is in memory.
        self.assertIn("tmpfs", self.ok("bench", memory, "--cold", "--epochs", 5).err)
        self.assertNotIn("tmpfs", self.ok("bench", memory, "--epochs", 1).err)


class Stream(BenchTest):
    def test_a_note_says_that_pictures_stay_encoded(self):
        out = self.pictures(6)
        result = self.ok("bench", out, "--stream", "--decode")
        self.assertIn("streamed 6 samples", result.out)
        self.assertNotIn("decoded", result.out)
        self.assertIn("nothing is decoded", result.err)
        self.assertFalse(self.bench(out, "--stream", "--decode")["decode"])

    def test_arrays_are_decoded_on_request(self):
        out = self.cubes(3)
        result = self.ok("bench", out, "--stream", "--decode", "--epochs", "1")
        self.assertIn("arrays decoded to", result.out)
        self.assertIn("1 pass)", result.out)
        self.assertIn("2 passes)", self.ok("bench", out, "--stream", "--epochs", "2").out)
        self.assertGreater(self.bench(out, "--stream", "--decode")["decoded_mb_per_s"], 0)

    def test_keys_that_the_benches_read_exist(self):
        got = self.bench(self.pictures(6), "--stream", "--epochs", "1")
        self.assertGreater(float(got["seconds"]), 0)
        self.assertEqual(got["samples"], 6)
        self.assertGreater(got["read_mb_per_s"], 0)

    def test_damage(self):
        out = self.pictures(6)
        hurt_record(shards(out)[0])
        self.expect(1, "bench", out, "--stream")


if __name__ == "__main__":
    unittest.main()
