//! Converts reports to the JSON objects that the command prints and the Python package returns.

use super::report::PackReport;
use serde_json::{Value, json};
use shardpack_base::peak_rss_bytes;
use shardpack_writer::{Outcome as Written, Report, Unfinished, UnfinishedPart};

/// Returns the writer's report as `--json` prints it.
#[must_use]
pub fn report_json(report: &Report) -> Value {
    json!({
        "outcome": match report.outcome {
            Written::Complete => "complete",
            Written::AlreadyComplete => "already-complete",
            _ => "part-complete",
        },
        "dataset_id": report.dataset_id.to_string(),
        "samples": report.samples,
        "bytes_in": report.bytes_in,
        "bytes_out": report.bytes_out,
        "shards": report.shards,
        "shards_reused": report.shards_reused,
        "seconds": report.elapsed.as_secs_f64(),
        "peak_rss_bytes": peak_rss_bytes(),
        "fidelity": report.fidelity,
        "skipped": report.skipped,
    })
}

/// Returns the unfinished parts that a merge is missing, as `merge --json` prints them.
#[must_use]
pub fn unfinished_json(unfinished: &Unfinished) -> Value {
    let part = |part: &UnfinishedPart| {
        json!({
            "part": part.part.index().saturating_add(1),
            "state": part.state(),
            "shards": part.shards,
            "finished": part.finished,
            "damage": part.damage,
        })
    };
    json!({
        "outcome": "unfinished",
        "parts": unfinished.parts,
        "shards": unfinished.shards,
        "array": unfinished.parts.map(|_| unfinished.array()),
        "unfinished": unfinished.unfinished.iter().map(part).collect::<Vec<_>>(),
    })
}

impl PackReport {
    /// Returns the JSON object printed by `pack --json`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let packed = self;
        let mut out = report_json(&packed.report);
        out["classes"] = json!(packed.classes);
        out["labels_from"] = json!(packed.labels_from.to_string());
        out["memory_bytes"] = json!(packed.memory_bytes);
        out["pictures_over_8_bits"] = json!(packed.deep_pictures);
        let bad = packed.bad.iter().map(|b| json!({ "key": b.key, "reason": b.to_string() }));
        let later = packed.report.skipped.iter().map(|skipped| json!(skipped));
        out["skipped"] = bad.chain(later).collect();
        out["odd_pictures"] = json!(packed.odd_pictures);
        let settings = packed.trials.iter().map(|(field, trial)| (field.clone(), json!(trial.settings)));
        out["settings"] = Value::Object(settings.collect());
        out
    }
}
