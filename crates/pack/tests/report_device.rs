//! Tests reports that time decoding on a device, using a fake device.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use shardpack_pack::pack::{self, PackOptions};
use shardpack_pack::report::{CandidateRecipe, DecodingDevice, Hooks, MetricCommand, ReportOptions, open};
use shardpack_reader::Dataset;
use shardpack_recipe::{Jpeg, PictureOptions};
use shardpack_sources::SourceOptions;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// A fake device. Its rate is the number of samples in the dataset, and it fails to decode the second dataset
/// that it gets.
#[derive(Debug, Default)]
struct Fake(Mutex<Vec<PathBuf>>);

impl DecodingDevice for Fake {
    fn name(&self) -> &str {
        "a fake"
    }

    fn samples_per_s(&self, dataset: &Path) -> shardpack_pack::Result<f64> {
        let mut seen = self.0.lock().unwrap();
        seen.push(dataset.to_owned());
        if seen.len() == 2 {
            shardpack_pack::bail!("out of order");
        }
        Ok(f64::from(u32::try_from(Dataset::open(dataset)?.len())?))
    }
}

fn pictures(folder: &Path, count: u8) {
    for number in 0..count {
        let mut bmp = b"BM\x3A\0\0\0\0\0\0\0\x36\0\0\0\x28\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\x18\0".to_vec();
        bmp.extend([0; 24]);
        bmp.extend([number, 2, 3, 0]);
        std::fs::write(folder.join(format!("{number}.bmp")), bmp).unwrap();
    }
}

fn plan(name: &str, jpeg: Jpeg) -> CandidateRecipe {
    let pictures = PictureOptions::of(jpeg);
    let options = PackOptions { pictures, ..Default::default() };
    CandidateRecipe { name: name.to_owned(), group: name.to_owned(), own: Vec::new(), options }
}

#[test]
fn the_device_gets_every_candidate_as_a_dataset() {
    let source = tempfile::tempdir().unwrap();
    pictures(source.path(), 7);
    let device = Arc::new(Fake::default());
    let options = ReportOptions {
        samples: Some(5),
        seed: 0,
        want: Vec::new(),
        gallery: 0,
        metrics: Vec::new(),
        baseline_runs: 0,
        device: Some(Arc::clone(&device) as _),
        threads: 2,
        memory_bytes: None,
    };
    let cancel = AtomicBool::new(false);
    let hooks = Hooks { on_progress: &|_, _, _| {}, cancel: &cancel };
    let opened = open(source.path(), &SourceOptions::default(), 2).unwrap();
    let plans = [plan("tile", Jpeg::Tile), plan("keep", Jpeg::Keep), plan("again", Jpeg::Tile)];
    let report = opened.measure(&plans, &options, &hooks).unwrap();
    let rates: Vec<_> = report.candidates.iter().map(|candidate| candidate.rates.decode_device_per_s).collect();
    assert_eq!(rates, [Some(5.0), None, Some(5.0)], "the samples that were drawn");
    let said = "could not measure the decode rate of keep on the device: out of order";
    assert!(report.notes.iter().any(|note| note == said), "{:?}", report.notes);
    assert_eq!(report.provenance.device.unwrap().name, "a fake");
    assert!(!report.provenance.not_measured.iter().any(|what| what.starts_with("A device")));
    assert!(device.0.lock().unwrap().iter().all(|path| !path.exists()), "nothing is left behind");

    // If the run is cancelled before the candidates are packed, the report still has the measurements made so far.
    let stopped = AtomicBool::new(false);
    let stop = |_, _, what| stopped.fetch_or(what == "drawing", Ordering::Relaxed);
    let hooks_that_stop = Hooks { on_progress: &|done, of, what| _ = stop(done, of, what), cancel: &stopped };
    let metric = MetricCommand { name: "n".to_owned(), command: "echo 1; true".to_owned() };
    let with_metric = ReportOptions { metrics: vec![metric], baseline_runs: 2, ..options.clone() };
    let report = opened.measure(&plans, &with_metric, &hooks_that_stop).unwrap();
    assert_eq!(report.candidates.len(), 3);
    assert!(report.candidates.iter().all(|candidate| candidate.rows.len() == 5));
    assert_eq!((report.metrics.len(), report.metrics[0].baseline.len()), (1, 0));
    assert_eq!(report.metrics[0].failures, ["interrupted before all runs were done"]);

    // For a packed dataset, the device decodes the dataset itself. The report must not delete it afterwards.
    let packed = tempfile::tempdir().unwrap();
    let out = packed.path().join("out");
    let quiet = pack::Hooks { on_plan: &|_| {}, on_progress: &|_| {}, cancel: &cancel };
    pack::pack(source.path(), &out, &PackOptions::default(), &quiet).unwrap();
    let report = opened.measure_dataset(&Dataset::open(&out).unwrap(), &options, &hooks).unwrap();
    assert_eq!(report.candidates[0].rates.decode_device_per_s, Some(7.0));
    assert_eq!(device.0.lock().unwrap().last(), Some(&out.join("manifest.json")));
    assert!(out.join("manifest.json").exists());
}
