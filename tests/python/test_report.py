"""Tests `shardpack report`: the page and its data, for sources of every kind and for datasets."""

import json
import os
import signal
import time
import unittest

import numpy as np
from support import CommandTest, catches, cubes, jpeg, pictures, png, start, wait_until

QUICK = ["--samples", "4", "--gallery", "1"]


class ReportTest(CommandTest):
    def report(self, src, *args, code=0):
        """Make a report, check that the page contains the same data as the JSON output, and return the data and the
        page."""
        page = self.tmp / "page.html"
        found = self.expect(code, "report", src, "-o", page, "--json", *args).json()
        text = page.read_text(encoding="utf-8")
        embedded = text.split('<script id="report-data" type="application/json">')[1].split("</script>")[0]
        self.assertEqual(json.loads(embedded)["verdict"], found["verdict"])
        return found, text

    def size_of(self, dataset):
        return sum(path.stat().st_size for path in dataset.glob("*.shard"))


class Pictures(ReportTest):
    def test_a_report_names_candidates_figures_and_a_recipe(self):
        found, _ = self.report(pictures(self.tmp / "in", 12), *QUICK, "--threads", "2")
        names = [candidate["name"] for candidate in found["candidates"]]
        self.assertEqual(names[0], "tile")
        self.assertEqual((len(names), names[-1]), (9, "keep, with index"))
        self.assertEqual([found["candidates"][number]["lossless"] for number in (0, -1)], [True, True])
        for candidate in found["candidates"]:
            self.assertEqual([row["sample"] for row in candidate["rows"]], [0, 1, 2, 3])
            bytes_ = candidate["predictions"]["bytes"]
            self.assertLess(bytes_["low"], bytes_["value"])
            self.assertLess(bytes_["value"], bytes_["high"])
            self.assertGreater(candidate["rates"]["decode_all_cores_per_s"], 0)
            spread = candidate["scores"]["ssimulacra2"]
            self.assertLessEqual(spread["worst"], spread["p10"])
            self.assertLessEqual(spread["p10"], spread["best"])
        lossy = [candidate["scores"]["ssimulacra2"]["mean"] for candidate in found["candidates"][1:5]]
        self.assertEqual(lossy, sorted(lossy, reverse=True))
        self.assertEqual((found["whole"]["samples"], found["provenance"]["drawn"]), (12, 4))
        self.assertIn("--samples=4", found["provenance"]["command"])
        # The same seed must draw the same samples and give the same figures to the last digit.
        again, _ = self.report(self.tmp / "in", *QUICK, "--threads", "1")
        self.assertEqual([c["rows"] for c in again["candidates"]], [c["rows"] for c in found["candidates"]])
        other, _ = self.report(self.tmp / "in", *QUICK, "--seed", "1")
        self.assertNotEqual(other["samples"], found["samples"])

    def test_a_user_metric_is_run_on_each_candidate(self):
        source = pictures(self.tmp / "in", 6)
        script = self.tmp / "metric.sh"
        # This metric adds the run's number to the size of the candidate's shards, so two runs differ by 1.
        script.write_text('test -f "$1/manifest.json" || exit 7\necho "of $2"\nexpr $(cat "$2"/*.shard | wc -c) + $SHARDPACK_METRIC_RUN\n')
        metric = ["--metric", f"bytes=sh '{script}'", "--metric", "bad=echo lost >&2; exit 3 #", "--metric-baseline-runs", "2"]
        found, page = self.report(source, *QUICK, "--quality", "80,30", *metric)
        mine, bad = found["metrics"]
        low, high = mine["baseline"]
        self.assertEqual((mine["name"], high - low, mine.get("failures", [])), ("bytes", 1, []))
        values = [one["value"] for one in mine["values"]]
        self.assertEqual([one["candidate"] for one in mine["values"]], [0, 1, 2])
        self.assertEqual([one["within_spread"] for one in mine["values"]], [low <= value <= high for value in values])
        self.assertGreater(values[1], values[2])
        self.assertEqual((bad["baseline"], bad["values"], len(bad["failures"])), ([], [], 5))
        self.assertRegex(bad["failures"][0], "original, run 0: .*3: lost")
        self.assertIn("Your metric", page)
        text = self.expect(0, "report", source, *QUICK, "--quality", "80", "-o", self.tmp / "b.html", *metric[:2], "--metric-baseline-runs", "1").out
        self.assertIn(f"bytes: {low:.0f} in 1 run on the original", text)
        # The page shows a command that repeats the run. It must include this option.
        self.assertIn("--metric-baseline-runs=2", found["provenance"]["command"])
        for wrong in ("accuracy", "=true", "accuracy="):
            error = self.expect(2, "report", source, "--metric", wrong).err
            self.assertIn("NAME=COMMAND", error)
        self.assertEqual([path.name for path in self.tmp.iterdir() if "shardpack-report-" in path.name], [])

    def test_the_prediction_holds_what_pack_writes(self):
        source = pictures(self.tmp / "in", 60, 4)
        options = ["--samples", "30", "--gallery", "0", "--quality", "90,70", "--subsampling", "keep,420"]
        found, _ = self.report(source, *options)
        self.assertEqual(len(found["candidates"]), 5)
        for candidate in found["candidates"]:
            out = self.tmp / f"out{candidate['number']}"
            self.ok("pack", source, out, "--recipe", f"{self.tmp / 'page.html'}#{candidate['number']}")
            bytes_ = candidate["predictions"]["bytes"]
            self.assertLess(bytes_["low"], self.size_of(out), candidate["name"])
            self.assertLess(self.size_of(out), bytes_["high"], candidate["name"])

    def test_a_recipe_packs_as_its_command_does(self):
        source = pictures(self.tmp / "in", 6)
        data = self.tmp / "report.json"
        found = self.ok("report", source, *QUICK, "--json", "--quality", "60")
        data.write_text(found.out)
        self.assertFalse((self.tmp / "report.html").exists())
        self.ok("pack", source, self.tmp / "a", "--recipe", f"{data}#2")
        self.ok("pack", source, self.tmp / "b", "--jpeg", "reencode", "--quality", "60")
        self.assertSameTree(self.tmp / "a", self.tmp / "b")
        for recipe, part in [
            (f"{data}#9", "choose one of the candidates: 1 tile, 2 q60"),
            (f"{data}#two", "such as report.html#2"),
            (f"{source}#1", "cannot read the report"),
            (f"{self.tmp / 'a' / 'manifest.json'}#1", "the file is JSON, but not a report"),
        ]:
            refused = self.expect(2, "pack", source, self.tmp / "c", "--recipe", recipe)
            self.assertIn(part, refused.err)
        # `--recipe` without a candidate's number means the recommended candidate.
        chosen = found.json()["candidates"][found.json()["verdict"]["chosen"]]
        recommended = self.ok("pack", source, self.tmp / "d", "--recipe", data)
        said = f"note: recipe: using candidate {chosen['number']} of `{data}`, {chosen['name']}, which the report recommends"
        self.assertIn(said, recommended.err)
        self.ok("pack", source, self.tmp / "e", "--recipe", f"{data}#{chosen['number']}")
        self.assertSameTree(self.tmp / "d", self.tmp / "e")
        undecided = json.loads(found.out)
        undecided["verdict"]["chosen"] = None
        (self.tmp / "undecided.json").write_text(json.dumps(undecided))
        refused = self.expect(2, "pack", source, self.tmp / "c", "--recipe", self.tmp / "undecided.json")
        self.assertIn("does not recommend a candidate", refused.err)
        twice = self.expect(2, "pack", source, self.tmp / "c", "--recipe", f"{data}#2", "--quality", "3")
        self.assertIn("--quality", twice.err)
        # A recipe may contain only options. A positional argument could make `pack` use another source or output.
        evil = json.loads(found.out)
        evil["candidates"][0]["arguments"] = ["/etc"]
        data.write_text(json.dumps(evil))
        self.assertIn("contains `/etc`, which is not a `pack` option", self.expect(2, "pack", source, self.tmp / "c", "--recipe", f"{data}#1").err)

    def test_conditions_choose(self):
        source = pictures(self.tmp / "in", 6)
        verdict = lambda *want: self.report(source, *QUICK, "--quality", "95,30", *want)[0]["verdict"]
        self.assertEqual(verdict("--want", "ssimulacra2>=-999")["chosen"], 2)
        strict = verdict("--want", "ssimulacra2.p10>=99.99")
        self.assertEqual((strict["chosen"], strict["met"]), (0, True))
        impossible = verdict("--want", "size<=1B", "--want", "psnr>=10")
        self.assertEqual((impossible["chosen"], impossible["met"]), (0, False))
        self.assertEqual(impossible["want"], ["size<=1B", "psnr>=10"])
        for want in ["ssimulacra2.mean>=3", "size>=3", "nonsense", "ssimulacra2<=3"]:
            self.assertIn("--want", self.expect(2, "report", source, "--want", want).err)

    def test_candidates_from_a_file(self):
        source, file = pictures(self.tmp / "in", 6), self.tmp / "c.toml"
        file.write_text('[[candidate]]\nname = "<b>mine</b>"\njpeg = "reencode"\nquality = 55\nshort-side = 32\n[[candidate]]\njpeg = "keep"\n')
        found, page = self.report(source, *QUICK, "--candidates", file)
        self.assertEqual([candidate["name"] for candidate in found["candidates"]], ["<b>mine</b>", "jpeg keep"])
        self.assertFalse(found["candidates"][0]["lossless"])
        self.assertNotIn("<b>mine", page)
        file.write_text("[[candidate]]\nquality = 55\n")
        refused = self.expect(2, "report", source, "--candidates", file)
        self.assertIn("candidate `quality 55`", refused.err)
        self.assertIn("--jpeg reencode", refused.err)

    def test_hostile_names_stay_text(self):
        folder = self.tmp / "in" / "a&b"
        folder.mkdir(parents=True)
        names = ["<script>alert(1)</script>.jpg".replace("/", "\u2215"), "'\"--><img src=x onerror=alert(2)>.jpg", "${x}{{y}}\u202e.jpg"]
        for i, name in enumerate(names):
            (folder / name).write_bytes(jpeg(i))
        found, page = self.report(self.tmp / "in", "--gallery", "3", "--quality", "50")
        self.assertEqual(len(found["samples"]), 3)
        self.assertNotIn("<script>alert", page)
        self.assertNotIn("<img src=x", page)

    def test_one_sample_equal_samples_and_pictures_of_one_pixel(self):
        from PIL import Image

        one = self.tmp / "one"
        one.mkdir()
        (one / "a.jpg").write_bytes(jpeg(1))
        found, _ = self.report(one)
        self.assertEqual(found["provenance"]["drawn"], 1)
        bytes_ = found["candidates"][0]["predictions"]["bytes"]
        self.ok("pack", one, self.tmp / "packed")
        self.assertLessEqual(abs(self.size_of(self.tmp / "packed") - bytes_["value"]), 4096)
        equal = self.tmp / "equal"
        equal.mkdir()
        for i in range(9):
            (equal / f"{i}.jpg").write_bytes(jpeg(1))
        found, _ = self.report(equal, *QUICK)
        spread = found["candidates"][1]["scores"]["ssimulacra2"]
        self.assertEqual(spread["worst"], spread["best"])
        dots = self.tmp / "dots"
        dots.mkdir()
        for i in range(3):
            Image.new("RGB", (1, 1), (i * 90, 3, 200)).save(dots / f"{i}.jpg")
        found, _ = self.report(dots, "--quality", "30")
        self.assertEqual(len(found["candidates"][1]["rows"]), 3)

    def test_unreadable_sources_are_listed(self):
        source = pictures(self.tmp / "in", 6)
        (source / "class 0" / "empty.jpg").write_bytes(b"")
        (source / "class 0" / "text.jpg").write_bytes(b"not a picture")
        cut = jpeg(3)
        (source / "class 0" / "cut.jpg").write_bytes(cut[: len(cut) // 2])
        found, page = self.report(source, "--quality", "70", code=1)
        paths = [one["path"].split("/")[1] for one in found["unreadable"]]
        self.assertEqual(paths, ["cut.jpg", "empty.jpg", "text.jpg"])
        self.assertIn("could not be read", page)
        self.assertIn("--on-bad-input skip", found["verdict"]["command"])
        bad = self.tmp / "bad"
        bad.mkdir()
        (bad / "a.jpg").write_bytes(b"not a picture")
        self.expect(2, "report", bad, "-o", self.tmp / "none.html")
        self.assertFalse((self.tmp / "none.html").exists())

    def test_pictures_of_other_kinds_keep_their_bytes(self):
        source = self.tmp / "in"
        source.mkdir()
        (source / "a.png").write_bytes(png(1))
        (source / "b.jpg").write_bytes(jpeg(1))
        found, _ = self.report(source, "--quality", "50", "--short-side", "16")
        self.assertEqual(len(found["candidates"][1]["rows"]), 2)
        self.assertEqual(found["candidates"][1]["rows"][0]["scores"]["ssimulacra2"], 100)

    def test_other_files_are_not_replaced(self):
        source, page = pictures(self.tmp / "in", 3), self.tmp / "report.html"
        page.write_text("my thesis")
        refused = self.expect(2, "report", source, *QUICK, "-o", page)
        self.assertIn("is not a report", refused.err)
        self.assertEqual(page.read_text(), "my thesis")
        self.ok("report", source, *QUICK, "--quality", "50", "-o", page, "--force")
        self.ok("report", source, *QUICK, "--quality", "50", "-o", page)
        self.assertIn("no folder", self.expect(2, "report", source, "-o", self.tmp / "no" / "a.html").err)

    def test_options_of_the_other_kind_are_refused(self):
        source = pictures(self.tmp / "in", 3)
        self.assertIn("--max-error: applies only to cubes", self.expect(2, "report", source, "--max-error", "0.1", "-o", self.tmp / "a.html").err)

    def test_an_interrupted_run_reports_what_it_has(self):
        source = self.tmp / "in"
        source.mkdir()
        content = jpeg(1, 512, 768)
        for i in range(200):
            (source / f"{i:03}.jpg").write_bytes(content)
        process = start("report", source, "--samples", "200", "--threads", "1", "-o", self.tmp / "page.html", "--json", "--target", "ssimulacra2=90,ssimulacra2=80")
        self.addCleanup(process.kill)
        # The whole run takes minutes, so the signal may arrive before or after the first sample is finished.
        self.assertTrue(wait_until(lambda: catches(process, signal.SIGINT), process))
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 130, err)
        if out:
            found = json.loads(out)
            part = found["provenance"]["interrupted"]
            self.assertLess(part["done"], part["of"])
            self.assertEqual(len(found["samples"]), part["done"])
            self.assertIn("Interrupted", (self.tmp / "page.html").read_text())
        else:
            self.assertIn(b"before anything was measured", err)


class Cubes(ReportTest):
    def test_cubes_have_errors_spectra_and_a_bound(self):
        found, _ = self.report(cubes(self.tmp / "in", 5))
        by_name = {candidate["name"]: candidate for candidate in found["candidates"]}
        self.assertTrue(by_name["keep"]["lossless"])
        fixed = [candidate for candidate in found["candidates"] if candidate["group"] == "fixed"]
        self.assertGreaterEqual(len(fixed), 2)
        for candidate in fixed:
            bound = float(candidate["options"]["max-error"])
            worst = candidate["scores"]["max_abs_error"]["worst"]
            self.assertLessEqual(worst, bound)
            self.assertGreater(worst, bound / 2)
            for measure in ["psnr", "ssim", "noise_ratio", "spectral_angle_p50", "spectral_angle_max", "max_rel_error", "altered"]:
                self.assertIn(measure, candidate["scores"])
        self.assertEqual(found["verdict"]["want"], ["noise_ratio<=1", "spectral_angle_p99<=0.5"])
        panel = found["cubes"][0]
        self.assertEqual(len(panel["bands"]), 17)
        self.assertEqual([pair["why"] for pair in panel["spectra"]], ["worst", "median"])
        # The cubes contain noise of 0.01, so the estimate for each band must be close to that.
        for band in panel["bands"]:
            self.assertTrue(0.005 < band["noise"] < 0.015, band)
        self.assertLess(abs(panel["autocorrelation_columns"][0]), 0.2)

    def test_quiet_bands_and_dark_pixels_limit_the_recommendation(self):
        # One band has a hundredth of the noise of the others, and a few pixels are nearly dark. A maximum error that
        # suits a typical band would ruin them.
        rng = np.random.default_rng(3)
        source = self.tmp / "in"
        source.mkdir()
        shape = (40, 48, 16)
        light = np.where(rng.random(shape[:2]) < 0.03, 0.01, 1.0)[..., None]
        noise = np.full(16, 20.0)
        noise[5] = 0.2
        for number in range(2):
            cube = light * (1000 + 50 * np.arange(16)) + noise * rng.normal(size=shape)
            np.save(source / f"{number}.npy", cube.astype(np.float32))
        found, page = self.report(source, "--max-error", "0.05,20")
        by_name = {candidate["name"]: candidate for candidate in found["candidates"]}
        coarse = by_name["fixed ±20"]
        self.assertGreater(coarse["scores"]["noise_ratio"]["worst"], 5)
        self.assertGreater(coarse["scores"]["spectral_angle_p99"]["worst"], 5)
        self.assertLess(coarse["scores"]["spectral_angle_p50"]["worst"], 1)
        chosen = found["candidates"][found["verdict"]["chosen"]]
        self.assertLess(chosen["scores"]["noise_ratio"]["worst"], 1.0001)
        self.assertLess(chosen["scores"]["spectral_angle_p99"]["worst"], 0.5)
        self.assertTrue(chosen["lossless"] or "smaller than without loss" in found["verdict"]["sentence"])
        self.assertIn("would be", found["verdict"]["reason"])
        self.assertIn("The spectral angle to the original is at most ", found["verdict"]["reason"])
        self.assertIn("noise_ratio&lt;=1", page)
        # With `--want`, the smallest candidate that meets the user's own conditions is recommended.
        found, _ = self.report(source, "--max-error", "0.05,20", "--want", "max_abs_error<=20")
        self.assertTrue(found["candidates"][found["verdict"]["chosen"]]["name"].startswith("fixed ±20"))

    def test_figures_equal_those_of_numpy(self):
        source = cubes(self.tmp / "in", 1)
        self.report(source, "--max-error", "0.02")
        found, _ = self.report(source, "--max-error", "0.02")
        number = next(c["number"] for c in found["candidates"] if c["name"] == "fixed ±0.02")
        scores = {name: spread["worst"] for name, spread in found["candidates"][number - 1]["scores"].items()}
        self.ok("pack", source, self.tmp / "out", "--recipe", f"{self.tmp / 'page.html'}#{number}")
        self.ok("unpack", self.tmp / "out", self.tmp / "back")
        before = np.load(source / "cube000.npy").astype(np.float64)
        after = np.load(self.tmp / "back" / "cube000.npy").astype(np.float64)
        error = after - before
        self.assertAlmostEqual(scores["max_abs_error"], np.abs(error).max(), 12)
        self.assertAlmostEqual(scores["max_rel_error"], (np.abs(error) / np.abs(before)).max(), 12)
        self.assertAlmostEqual(scores["psnr"], 10 * np.log10(np.ptp(before) ** 2 / (error**2).mean()), 9)
        cosine = (before * after).sum(2) / np.linalg.norm(before, axis=2) / np.linalg.norm(after, axis=2)
        angles = np.degrees(np.arccos(np.clip(cosine, -1, 1)))
        for percent, name in [(50, "p50"), (95, "p95"), (99, "p99"), (100, "max")]:
            expected = np.percentile(angles, percent, method="inverted_cdf")
            self.assertAlmostEqual(scores[f"spectral_angle_{name}"], expected, 5)
        self.assertAlmostEqual(scores["altered"], (before != after).mean(), 12)

    def test_nothing_but_nan_and_integers(self):
        nan = self.tmp / "nan"
        nan.mkdir()
        np.save(nan / "a.npy", np.full((8, 9, 5), np.nan, np.float32))
        found, _ = self.report(nan)
        self.assertTrue(found["candidates"][0]["lossless"])
        self.assertTrue(found["candidates"][found["verdict"]["chosen"]]["lossless"])
        found, _ = self.report(cubes(self.tmp / "int", 3, dtype=np.uint8))
        self.assertTrue(all(candidate["lossless"] for candidate in found["candidates"]))
        self.assertNotIn("gallery", found)

    def test_the_prediction_holds_what_pack_writes(self):
        source = cubes(self.tmp / "in", 12)
        found, _ = self.report(source, "--samples", "6", "--max-error", "0.01,0.1")
        for candidate in found["candidates"]:
            out = self.tmp / f"out{candidate['number']}"
            self.ok("pack", source, out, "--recipe", f"{self.tmp / 'page.html'}#{candidate['number']}")
            bytes_ = candidate["predictions"]["bytes"]
            self.assertLess(bytes_["low"], self.size_of(out), candidate["name"])
            self.assertLess(self.size_of(out), bytes_["high"], candidate["name"])


class Datasets(ReportTest):
    def test_a_dataset_compared_with_its_sources(self):
        source = pictures(self.tmp / "in", 12)
        out = self.tmp / "out"
        self.expect(0, "pack", source, out, "--jpeg", "reencode", "--quality", "60", "--short-side", "40", "--score", "none")
        found, page = self.report(out, "--source", source, "--gallery", "2", "--samples", "8", "--want", "ssimulacra2.p10>=99")
        [candidate] = found["candidates"]
        self.assertEqual((found["subject"], found["source"], len(found["samples"])), ("dataset", str(out), 8))
        self.assertEqual(candidate["predictions"]["bytes"]["value"], self.size_of(out))
        self.assertEqual([set(row["scores"]) >= {"ssimulacra2", "psnr"} for row in candidate["rows"]], [True] * 8)
        self.assertFalse(candidate["lossless"])
        self.assertGreater(candidate["rates"]["decode_all_cores_per_s"], 0)
        self.assertNotIn("pack_s", candidate["predictions"])
        self.assertEqual(len(found["gallery"]), 4)
        self.assertEqual((found["verdict"]["met"], found["verdict"]["command"]), (False, ""))
        self.assertRegex(found["verdict"]["sentence"], "^Stored as reencode q60\\. .* became .*B\\. (All 8|7 of the 8) samples that were drawn reach ")
        self.assertIn("--source=", found["provenance"]["command"])
        # A report on the packed dataset must measure the same loss as a report on the source with the same recipe.
        before, _ = self.report(source, "--gallery", "0", "--samples", "8", "--quality", "60", "--short-side", "40")
        scores = lambda report, at: [row["scores"]["ssimulacra2"] for row in report["candidates"][at]["rows"]]
        self.assertEqual(scores(found, 0), scores(before, 1))
        # The file was added to the source after packing. It is listed as unreadable, and the other files are compared.
        (source / "new.jpg").write_bytes(jpeg(16, 16))
        later, _ = self.report(out, "--source", source, "--samples", "13", code=1)
        self.assertEqual([one["path"] for one in later["unreadable"]], ["new.jpg"])
        self.assertIn("no sample has the key `new.jpg`", later["unreadable"][0]["reason"])
        self.assertTrue(any("the source has 13 samples, but the dataset has 12" in note for note in later["notes"]))
        self.assertIn("is not a dataset, so it cannot be compared with the source files in", self.expect(2, "report", source, "--source", source, "-o", self.tmp / "a.html").err)
        wrong = cubes(self.tmp / "cubes", 2)
        self.assertIn("contains cubes, but the dataset contains pictures", self.expect(2, "report", out, "--source", wrong, "-o", self.tmp / "a.html").err)

    def test_cubes_of_a_dataset_compared_with_their_sources(self):
        source, out = cubes(self.tmp / "in", 3), self.tmp / "out"
        self.expect(0, "pack", source, out, "--values", "f16")
        found, page = self.report(out, "--source", source)
        [candidate] = found["candidates"]
        self.assertEqual([set(row["scores"]) >= {"psnr", "max_abs_error", "spectral_angle_p99"} for row in candidate["rows"]], [True] * 3)
        self.assertEqual(len(found["cubes"]), 1)
        self.assertIn("Error in each band", page)

    def test_a_dataset_reports_the_figures_of_packing(self):
        source = pictures(self.tmp / "in", 9)
        self.ok("pack", source, self.tmp / "out", "--jpeg", "reencode", "--quality", "60", "--score", "all")
        found, _ = self.report(self.tmp / "out")
        self.assertEqual((found["subject"], len(found["samples"])), ("dataset", 9))
        self.assertEqual(found["candidates"][0]["name"], "reencode q60")
        scores = self.ok("inspect", self.tmp / "out", "--json").json()["fidelity"]["image"]["ssimulacra2"]
        self.assertAlmostEqual(found["candidates"][0]["scores"]["ssimulacra2"]["worst"], scores["min"], 4)
        self.assertIn("has no options", self.expect(2, "pack", source, self.tmp / "b", "--recipe", f"{self.tmp / 'page.html'}#1").err)
        self.assertIn("is a dataset", self.expect(2, "report", self.tmp / "out", "--quality", "3", "-o", self.tmp / "a.html").err)

    def test_cubes_and_a_missing_shard(self):
        self.ok("pack", cubes(self.tmp / "in", 8), self.tmp / "out", "--values", "f16", "--shard-size", "20KiB")
        found, _ = self.report(self.tmp / "out")
        self.assertGreater(found["candidates"][0]["scores"]["max_abs_error"]["worst"], 0)
        os.remove(sorted((self.tmp / "out").glob("*.shard"))[1])
        found, _ = self.report(self.tmp / "out", code=1)
        self.assertEqual(len(found["unreadable"]), 1)


if __name__ == "__main__":
    unittest.main()
