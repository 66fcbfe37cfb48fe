//! Made-up reports for rendering and inspecting the page without packing anything.
#![allow(missing_docs, dead_code, clippy::unwrap_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

use shardpack_report::data::*;
use shardpack_report::stats::{distribution, histogram, pareto_front};
use std::collections::BTreeMap;

pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn even(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as f64 / f64::from(1_u32 << 31)
    }

    /// Returns an approximately normal random number with mean 0 and a standard deviation of about 1.
    pub(crate) fn bell(&mut self) -> f64 {
        (0..6).map(|_| self.even()).sum::<f64>() * 1.4 - 4.2
    }
}

const CLASSES: [&str; 8] = [
    "n01440764_tench",
    "n01443537_goldfish",
    "n01484850_great_white_shark",
    "n01491361_tiger_shark",
    "n01498041_stingray",
    "n01514668_cock",
    "n01518878_ostrich",
    "n01530575_brambling",
];

pub(crate) fn pictures() -> Report {
    let mut numbers = Numbers::new(1);
    let samples: Vec<DrawnSample> = (0..100)
        .map(|i| {
            let class = i % CLASSES.len();
            let bytes = 110_000.0 * (numbers.bell() * 0.35).exp();
            DrawnSample {
                key: format!("{0}/{0}_{i:04}.JPEG", CLASSES[class]),
                class: Some(class as u32),
                source_bytes: bytes as u64,
                shape: vec![375, 500],
            }
        })
        .collect();
    let rungs: [(&str, &str, f64, f64, f64); 9] = [
        ("tile", "tile", 0.97, 100.0, 0.0),
        ("reencode q95 4:4:4", "reencode 4:4:4", 0.92, 92.0, 0.8),
        ("reencode q90 4:4:4", "reencode 4:4:4", 0.66, 88.5, 1.3),
        ("reencode q80 4:4:4", "reencode 4:4:4", 0.46, 82.9, 2.1),
        ("reencode q70 4:4:4", "reencode 4:4:4", 0.36, 77.5, 3.0),
        ("reencode q90 4:2:0", "reencode 4:2:0", 0.55, 85.4, 2.0),
        ("reencode q80 4:2:0", "reencode 4:2:0", 0.38, 78.6, 2.8),
        ("reencode q70 4:2:0", "reencode 4:2:0", 0.30, 73.2, 3.7),
        ("ssimulacra2=85, 4:4:4", "target", 0.505, 85.6, 0.4),
    ];
    let mut candidates: Vec<Candidate> = rungs
        .iter()
        .enumerate()
        .map(|(i, (name, group, ratio, score, spread))| {
            let rows: Vec<StoredSample> = samples
                .iter()
                .enumerate()
                .map(|(s, sample)| {
                    // The error has a part that depends only on the sample, because some samples
                    // must have large errors with every candidate.
                    let own = Numbers::new(s as u64 + 7).bell() + 0.3 * numbers.bell();
                    let value = (score + own * spread - f64::from(u8::from(s == 41)) * spread * 3.0).min(100.0);
                    let noise = 1.0 + 0.08 * numbers.bell();
                    StoredSample {
                        sample: s,
                        bytes: (sample.source_bytes as f64 * ratio * noise) as u64,
                        scores: [(Measure::Ssimulacra2, value), (Measure::Psnr, value * 0.36 + 8.0 + own * 0.5)].into(),
                    }
                })
                .collect();
            let mut arguments = vec!["--jpeg".to_owned(), group.split(' ').next().unwrap_or_default().to_owned()];
            if i > 0 {
                arguments.extend(["--quality".into(), "80".into()]);
            }
            candidate(i, name, group, rows, arguments, 1100.0 + 700.0 * (1.0 - ratio), 1_281_167)
        })
        .collect();
    candidates[0].lossless = true;
    candidates[2].bjontegaard_percent = Some(-28.4);
    candidates[3].notes.push("12 pictures were smaller than their re-encoding and are kept as they were".into());
    candidates[6].bjontegaard_percent = Some(4.1);
    candidates[7].failures = vec![FailedSample { sample: 3, reason: "arithmetic coding is not supported".into() }];
    front(&mut candidates, Measure::Ssimulacra2);
    candidates[3].meets = true;
    let gallery = [(Why::Worst, 41), (Why::Worst, 12), (Why::Random, 5)]
        .map(|(why, sample)| item(3, sample, why, &candidates[3].rows[sample].scores, 224, 160))
        .into();
    Report {
        shardpack_report: VERSION,
        subject: Subject::Sources,
        content: SampleKind::Pictures,
        source: "imagenet/train".into(),
        whole: Whole {
            samples: 1_281_167,
            source_bytes: 140_000_000_000,
            classes: CLASSES.map(str::to_owned).into(),
            recipe: None,
        },
        samples,
        candidates,
        verdict: Verdict {
            want: vec!["ssimulacra2.p10>=80".into()],
            want_given: false,
            chosen: Some(3),
            met: true,
            sentence: "Re-encode at quality 80 with 4:4:4: 140 GB become 64.4 GB, and an epoch takes 0.77 of the time."
                .into(),
            reason: "It is the smallest of the candidates that reach SSIMULACRA2 80 on nine samples of ten.".into(),
            command: "shardpack pack imagenet/train OUT --jpeg reencode --quality 80 --subsampling 444".into(),
        },
        gallery,
        cubes: Vec::new(),
        metrics: vec![metric()],
        unreadable: vec![Unreadable {
            path: "n01440764_tench/broken.JPEG".into(),
            reason: "not a picture: expected FF D8, found `<!DOC`".into(),
        }],
        notes: vec!["3 pictures have an orientation other than the usual one.".into()],
        provenance: provenance(100, 1_281_167),
    }
}

pub(crate) fn cubes() -> Report {
    let mut numbers = Numbers::new(2);
    let samples: Vec<DrawnSample> = (0..24)
        .map(|i| DrawnSample {
            key: format!("subject_{:02}/2021_04_{:02}#SpecCube.dat", i / 4, i % 4 + 1),
            class: None,
            source_bytes: 61_440_012 * 2,
            shape: vec![480, 640, 100],
        })
        .collect();
    let rungs: [(&str, &str, f64, f64); 7] = [
        ("keep, zstd 3", "keep", 0.71, 0.0),
        ("float16, zstd 3", "float16", 0.29, 1.2e-4),
        ("fixed 0.0005, zstd 3", "fixed zstd", 0.24, 5e-4),
        ("fixed 0.001, zstd 3", "fixed zstd", 0.205, 1e-3),
        ("fixed 0.002, zstd 3", "fixed zstd", 0.172, 2e-3),
        ("fixed 0.001, lz4", "fixed lz4", 0.251, 1e-3),
        ("fixed 0.002, lz4", "fixed lz4", 0.214, 2e-3),
    ];
    let mut candidates: Vec<Candidate> = rungs
        .iter()
        .enumerate()
        .map(|(i, (name, group, ratio, error))| {
            let rows = (0..samples.len())
                .map(|s| {
                    let own = 1.0 + 0.05 * numbers.bell();
                    let mut scores: BTreeMap<Measure, f64> = [
                        (Measure::NoiseRatio, error * 650.0 * own.abs()),
                        (Measure::SpectralAngleP50, error * 35.0 * own.abs()),
                        (Measure::SpectralAngleP95, error * 80.0 * own.abs()),
                        (Measure::SpectralAngleP99, error * 130.0 * own.abs()),
                        (Measure::SpectralAngleMax, error * 900.0 * own.abs()),
                        (Measure::MaxAbsError, (error * own.abs()).min(*error)),
                        (Measure::MaxRelError, error * 4.0 * own.abs()),
                        (Measure::Altered, if *error > 0.0 { 0.97 } else { 0.0 }),
                        (Measure::Ssim, 1.0 - error * own.abs()),
                    ]
                    .into();
                    if *error > 0.0 {
                        scores.insert(Measure::Psnr, -20.0 * error.log10() + numbers.bell());
                    }
                    StoredSample { sample: s, bytes: (122_880_024.0 * ratio * own) as u64, scores }
                })
                .collect();
            candidate(
                i,
                name,
                group,
                rows,
                vec!["--transform".into(), "fixed".into()],
                40.0 + 30.0 * (1.0 - ratio),
                5756,
            )
        })
        .collect();
    candidates[0].lossless = true;
    front(&mut candidates, Measure::MaxAbsError);
    let chosen = 4;
    let spectrum = |numbers: &mut Numbers, noise: f64| -> Vec<Option<f64>> {
        (0..100)
            .map(|b| {
                let x = f64::from(b) / 100.0;
                let value = 0.12 + 0.2 * x + 0.05 * (x * 18.0).sin() + noise * numbers.bell();
                (b != 50).then_some(value)
            })
            .collect()
    };
    let mut pair = |sample, why, angle| {
        let original = spectrum(&mut numbers, 0.002);
        let stored = original.iter().map(|v| v.map(|v| v + 0.004 * numbers.bell())).collect();
        SpectrumPair { sample, row: 12, column: 600, why, angle, original, stored }
    };
    let spectra = vec![pair(3, Why::Worst, 1.93), pair(7, Why::Median, 0.11)];
    let mut numbers = Numbers::new(3);
    let angles: Vec<f64> = (0..20_000).map(|_| (numbers.bell().abs() * 0.12).powf(1.4)).collect();
    let errors: Vec<f64> = (0..20_000).map(|_| (numbers.even() * 2.0 - 1.0) * 0.002).collect();
    let panel = CubePanel {
        candidate: chosen,
        wavelength_unit: "nm".into(),
        bands: (0..100)
            .map(|b| BandError {
                wavelength: Some(500.0 + 5.0 * f64::from(b)),
                rmse: 0.001_15 + 1e-5 * numbers.bell(),
                mean_abs_error: 0.001,
                max_abs_error: 0.002 - 1e-5 * numbers.even(),
                mean: 0.2,
                noise: Some(0.0015 + 0.004 * (f64::from(b) / 100.0 - 0.5).powi(2)),
                noise_ratio: Some(0.002 / (0.0015 + 0.004 * (f64::from(b) / 100.0 - 0.5).powi(2))),
            })
            .collect(),
        spectra,
        angles: histogram(angles.into_iter(), 30),
        errors: histogram(errors.into_iter(), 30),
        bound: Some(0.002),
        autocorrelation_rows: (1..=16).map(|k| 0.04 / f64::from(k)).collect(),
        autocorrelation_columns: (1..=16).map(|k| 0.03 / f64::from(k * k)).collect(),
        autocorrelation_bands: (1..=16).map(|k| 0.21 * (-f64::from(k) / 2.0).exp()).collect(),
    };
    let gallery = [(Why::Worst, 3), (Why::Random, 9)]
        .map(|(why, sample)| {
            let mut item = item(chosen, sample, why, &candidates[chosen].rows[sample].scores, 224, 192);
            item.bands = vec![62, 31, 9];
            item
        })
        .into();
    Report {
        content: SampleKind::Cubes,
        source: "heiporspectral".into(),
        whole: Whole { samples: 5756, source_bytes: 707_000_000_000, classes: Vec::new(), recipe: None },
        samples,
        candidates,
        verdict: Verdict {
            want: vec!["max_abs_error<=0.002".into(), "size<=150GB".into()],
            want_given: true,
            chosen: Some(chosen),
            met: true,
            sentence: "Store fixed-point values with an error of at most 0.002: 707 GB become 122 GB.".into(),
            reason: "It is the smallest of the candidates that meet both conditions.".into(),
            command: "shardpack pack heiporspectral OUT --transform fixed --max-error 0.002".into(),
        },
        gallery,
        cubes: vec![panel.clone(), CubePanel { candidate: 1, bound: None, ..panel }],
        metrics: Vec::new(),
        unreadable: Vec::new(),
        notes: Vec::new(),
        provenance: provenance(24, 5756),
        ..pictures()
    }
}

/// Text that would break out of the page if it were not escaped.
pub(crate) const HOSTILE: &str =
    "</script><script>document.title='gone'</script><img src=x onerror=\"document.title='gone'\">'\"&amp;]]>--><!--";

pub(crate) fn hostile() -> Report {
    let mut report = pictures();
    report.source = HOSTILE.into();
    report.whole.classes.iter_mut().for_each(|class| *class = format!("{class}{HOSTILE}"));
    report.whole.recipe = Some(serde_json::json!({ HOSTILE: HOSTILE }));
    report.samples.iter_mut().for_each(|sample| sample.key = format!("{HOSTILE}{}", sample.key));
    for candidate in &mut report.candidates {
        candidate.name = format!("{HOSTILE}{}", candidate.name);
        candidate.group = HOSTILE.into();
        candidate.arguments = vec![HOSTILE.into()];
        candidate.notes = vec![HOSTILE.into()];
        candidate.failures = vec![FailedSample { sample: 0, reason: HOSTILE.into() }];
    }
    let verdict = &mut report.verdict;
    for text in [&mut verdict.sentence, &mut verdict.reason, &mut verdict.command] {
        *text = HOSTILE.into();
    }
    verdict.want.push(HOSTILE.into());
    report.metrics.iter_mut().for_each(|metric| {
        metric.name = HOSTILE.into();
        metric.command = HOSTILE.into();
        metric.failures = vec![HOSTILE.into()];
    });
    report.unreadable = vec![Unreadable { path: HOSTILE.into(), reason: HOSTILE.into() }];
    report.notes = vec![HOSTILE.into()];
    let provenance = &mut report.provenance;
    for text in
        [&mut provenance.command, &mut provenance.version, &mut provenance.date, &mut provenance.machine.processor]
    {
        *text = HOSTILE.into();
    }
    provenance.device = Some(TimedDevice { name: HOSTILE.into() });
    provenance.not_measured = vec![HOSTILE.into()];
    report.cubes = cubes().cubes;
    report.cubes.iter_mut().for_each(|panel| panel.wavelength_unit = HOSTILE.into());
    report
}

/// Creates a report on `samples` equal samples of 1 × 1 pixels. For one of the candidates, nothing was measured.
pub(crate) fn equal(samples: usize) -> Report {
    let mut report = pictures();
    report.samples = (0..samples)
        .map(|i| DrawnSample { key: format!("{i}.png"), class: Some(0), source_bytes: 70, shape: vec![1, 1] })
        .collect();
    let row = |sample| StoredSample { sample, bytes: 400, scores: [(Measure::Ssimulacra2, 100.0)].into() };
    report.candidates =
        vec![candidate(0, "tile", "tile", (0..samples).map(row).collect(), Vec::new(), 9.0, samples as u64)];
    report.candidates[0].lossless = true;
    report.whole = Whole { samples: samples as u64, source_bytes: 70 * samples as u64, ..Whole::default() };
    report.verdict.chosen = (samples > 0).then_some(0);
    report.gallery.clear();
    report.metrics.clear();
    report.unreadable.clear();
    report.provenance = provenance(samples as u64, samples as u64);
    report
}

pub(crate) fn dataset() -> Report {
    let mut report = pictures();
    report.subject = Subject::Dataset;
    report.candidates.truncate(4);
    report.candidates.drain(..3);
    report.gallery.iter_mut().for_each(|item| item.candidate = 0);
    report.metrics.clear();
    report.whole.recipe = Some(serde_json::json!({ "jpeg": "reencode", "quality": 80 }));
    report.verdict =
        Verdict { chosen: Some(0), sentence: "A dataset of re-encoded photos.".into(), ..Verdict::default() };
    report
}

fn candidate(
    i: usize,
    name: &str,
    group: &str,
    rows: Vec<StoredSample>,
    arguments: Vec<String>,
    rate: f64,
    samples: u64,
) -> Candidate {
    let bytes: Vec<(usize, f64)> = rows.iter().map(|row| (row.sample, row.bytes as f64)).collect();
    let bytes = distribution(&bytes, Better::Lower);
    let scores = MEASURES
        .into_iter()
        .filter_map(|measure| {
            let values: Vec<(usize, f64)> =
                rows.iter().filter_map(|row| Some((row.sample, *row.scores.get(&measure)?))).collect();
            Some((measure, distribution(&values, measure.better())?))
        })
        .collect();
    let whole = bytes.map_or(0.0, |b| b.mean) * samples as f64;
    Candidate {
        number: i as u32 + 1,
        name: name.into(),
        group: group.into(),
        arguments,
        bytes,
        scores,
        rates: Rates {
            encode_one_core_per_s: Some(rate / 3.0),
            decode_one_core_per_s: Some(rate),
            decode_all_cores_per_s: Some(rate * 1.93),
            decode_spread: Some(0.021),
            decode_device_per_s: None,
        },
        predictions: Predictions {
            bytes: Some(Estimate { value: whole, low: whole * 0.983, high: whole * 1.017 }),
            pack_s: Some(samples as f64 / rate * 1.5),
            load_per_s: Some(rate * 1.9),
            epoch_s: Some(samples as f64 / rate / 1.9),
        },
        rows,
        ..Candidate::default()
    }
}

fn front(candidates: &mut [Candidate], measure: Measure) {
    let points: Vec<(f64, Option<f64>)> =
        candidates.iter().map(|c| (c.bytes.map_or(0.0, |b| b.mean), c.scores.get(&measure).map(|s| s.p10))).collect();
    for (candidate, on_front) in candidates.iter_mut().zip(pareto_front(&points, measure.better())) {
        candidate.on_front = on_front;
    }
}

fn metric() -> Metric {
    Metric {
        name: "top-1 accuracy".into(),
        command: "python train.py --epochs 5".into(),
        baseline: vec![0.7612, 0.7581, 0.7655, 0.7598],
        values: vec![
            MetricValue { candidate: 0, value: 0.7633, within_spread: Some(true) },
            MetricValue { candidate: 3, value: 0.7604, within_spread: Some(true) },
            MetricValue { candidate: 7, value: 0.7449, within_spread: Some(false) },
        ],
        failures: Vec::new(),
    }
}

fn item(
    candidate: usize,
    sample: usize,
    why: Why,
    scores: &BTreeMap<Measure, f64>,
    width: u32,
    height: u32,
) -> GalleryItem {
    let scene = |x: u32, y: u32| {
        let (u, v) = (f64::from(x) / f64::from(width), f64::from(y) / f64::from(height));
        let seed = sample as f64;
        [0.0, 1.3, 2.9].map(|c| 127.0 + 60.0 * (u * 5.0 + seed + c).sin() + 55.0 * (v * 7.0 * u + seed * 2.0 + c).cos())
    };
    let blocks = |x: u32, y: u32| scene(x / 4 * 4 + 2, y / 4 * 4 + 2);
    let difference = |x: u32, y: u32| {
        let (a, b) = (scene(x, y), blocks(x, y));
        [0, 1, 2].map(|c| 128.0 + (b[c] - a[c]) * 8.0)
    };
    GalleryItem {
        candidate,
        sample,
        why,
        region: Rect { x: 120, y: 64, width, height },
        scores: scores.clone(),
        difference_factor: 8.0,
        bands: Vec::new(),
        original: picture(width, height, scene),
        stored: picture(width, height, blocks),
        difference: picture(width, height, difference),
    }
}

fn picture(width: u32, height: u32, pixel: impl Fn(u32, u32) -> [f64; 3]) -> EmbeddedPicture {
    let values: Vec<u8> = (0..height)
        .flat_map(|y| (0..width).map(move |x| (x, y)))
        .flat_map(|(x, y)| pixel(x, y).map(|v| v as u8))
        .collect();
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&values).unwrap();
    EmbeddedPicture { media_type: "image/png", width, height, bytes }
}

fn provenance(drawn: u64, of: u64) -> Provenance {
    Provenance {
        command: format!("shardpack report imagenet/train --samples {drawn} --seed 0"),
        version: "0.1.0".into(),
        strata: Strata::Classes,
        strata_count: 8,
        drawn,
        of,
        confidence: 0.95,
        machine: Machine { processor: "Example CPU @ 3 GHz".into(), threads: 2, system: "linux x86_64".into() },
        date: "2026-01-31".into(),
        wall_s: 141.2,
        scoring_s: 190.0,
        peak_rss_bytes: Some(412_000_000),
        not_measured: vec![
            "Decode rates on a device: there is none on this machine.".into(),
            "Reading from the disk.".into(),
        ],
        ..Provenance::default()
    }
}
