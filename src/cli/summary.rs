//! Describes recipes and fidelity figures in words, for `pack` and `inspect`.

use super::{show, units};
use serde_json::Value;
use shardpack_array::ArraySettings;
use shardpack_pack::pack::{ArraySummary, FieldSummary, PictureSummary, SpreadSummary};

pub(super) fn recipe_value(value: &Value) -> String {
    match value {
        Value::String(text) => show::plain(text),
        Value::Array(items) => items.iter().map(recipe_value).collect::<Vec<_>>().join(", "),
        // This object describes how an array field is stored. Only `--json` shows the requested options and the
        // candidates.
        Value::Object(map) if map.contains_key("settings") => map.get("settings").map(settings).unwrap_or_default(),
        Value::Object(map) => map
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| format!("{} {}", show::plain(k), recipe_value(v)))
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
    }
}

/// Describes storage settings. Settings from another version are formatted as JSON.
fn settings(value: &Value) -> String {
    serde_json::from_value::<ArraySettings>(value.clone())
        .map_or_else(|_| recipe_value(value), |known| known.to_string())
}

/// Formats a field's entry under `fidelity` in a manifest. An entry from another version is shown unchanged.
pub(super) fn fidelity_text(entry: &Value) -> String {
    match FieldSummary::parse(entry) {
        Some(FieldSummary::Pictures(pictures)) => pictures_text(&pictures),
        Some(FieldSummary::Array(arrays)) => arrays_text(&arrays),
        _ => format!("{}\n", recipe_value(entry)),
    }
}

fn arrays_text(of: &ArraySummary) -> String {
    let share = |n: u64| format!("{} ({:.2} %)", units::count(n), 100.0 * n as f64 / of.values.max(1) as f64);
    let equal = format!("{} of {}, in all values", units::count(of.equal_samples), units::plural(of.samples, "sample"));
    let mut rows = vec![("unchanged", equal)];
    if of.equal_samples < of.samples {
        rows.push(("changed values", share(of.changed)));
        let (largest, mean) = (units::significant(of.max_abs_error, 3), units::significant(of.mean_abs_error, 3));
        let measured = units::count(of.measured);
        rows.push((
            "absolute error",
            format!(
                "at most {largest}, on average {mean}, over the {measured} values stored with loss, in the units of \
                 the data"
            ),
        ));
        rows.push((
            "relative error",
            format!("at most {} % of the value", units::significant(100.0 * of.max_rel_error, 3)),
        ));
        if of.spectra > 0 {
            let degrees = |radians: f64| units::significant(radians.to_degrees(), 3);
            let (largest, mean) = (degrees(of.max_angle_rad), degrees(of.mean_angle_rad));
            let text = match of.angle_percentiles_rad {
                Some(angles) => format!(
                    "median {}°, 95th percentile {}°, 99th percentile {}°, maximum {largest}°, between a pixel and \
                     its source",
                    degrees(angles.p50),
                    degrees(angles.p95),
                    degrees(angles.p99),
                ),
                None => format!("{largest}° at most, {mean}° on average, between a pixel and its source"),
            };
            rows.push(("spectral angle", text));
        }
        rows.extend(of.worst_sample.as_ref().map(|worst| ("worst sample", worst.clone())));
    }
    let special = [
        (of.nan, "NaN"),
        (of.no_data, "no-data"),
        (of.infinite, "infinite"),
        (of.clipped, "clipped to the range"),
        (of.subnormal, "below 2^-14 in float16"),
    ];
    rows.extend(special.into_iter().filter(|(n, _)| *n > 0).map(|(n, label)| (label, share(n))));
    show::pairs(&rows)
}

fn pictures_text(of: &PictureSummary) -> String {
    let share = |n: u64| format!("{} of {}", units::count(n), units::count(of.samples));
    let mut rows = Vec::new();
    if of.reencoded > 0 {
        rows.push(("re-encoded", share(of.reencoded)));
        rows.extend(of.quality.as_ref().map(|quality| ("quality", spread(quality, 0))));
    }
    let how = [
        (of.tiled, "in tiles", "a crop reads and decodes only its part, on CPU and GPU"),
        (of.in_rows, "in rows", "a crop decodes all rows of blocks that it touches"),
        (of.kept, "unchanged files", "a crop decodes the picture from its start"),
    ];
    let how = how.into_iter().filter(|(n, ..)| *n > 0);
    rows.extend(how.map(|(n, label, means)| (label, format!("{}: {means}", share(n)))));
    rows.extend(of.kept_because.iter().map(|(why, n)| ("", format!("{}: {why}", units::count(*n)))));
    if of.pixels_checked > 0 {
        rows.push(("pixels", format!("{} compared with their sources, all equal", share(of.pixels_checked))));
    }
    if of.profiles_dropped > 0 {
        let dropped = units::count(of.profiles_dropped);
        rows.push((
            "ICC profiles",
            format!("{dropped} dropped, because each is damaged or does not match the stored colours"),
        ));
    }
    if of.below_target > 0 {
        rows.push(("below target", share(of.below_target)));
    }
    if let Some(score) = &of.ssimulacra2 {
        let likeness = "100 is identical, 90 looks identical, 70 is high quality";
        rows.push((
            "SSIMULACRA2",
            format!("{} of {} scored ({likeness})", spread(score, 1), units::count(score.count)),
        ));
        rows.extend(of.worst_sample.as_ref().map(|worst| ("worst sample", worst.clone())));
    }
    show::pairs(&rows)
}

pub(super) fn compared(before: u64, after: u64) -> String {
    let ratio = before as f64 / after.max(1) as f64;
    match ratio {
        _ if before == 0 => "nothing new was packed".to_owned(),
        0.975..1.025 => "about the same".to_owned(),
        1.0.. => format!("{} times smaller", units::significant(ratio, 3)),
        _ => format!("{} times larger", units::significant(ratio.recip(), 3)),
    }
}

/// Formats figures as `82.1 mean, 74.0 to 90.3`, or as a single value if they are all equal.
fn spread(of: &SpreadSummary, decimals: usize) -> String {
    let SpreadSummary { min, mean, max, .. } = *of;
    match min < max {
        true => format!("{mean:.1} mean, {min:.decimals$} to {max:.decimals$}"),
        false => format!("{mean:.decimals$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{compared, recipe_value};
    use serde_json::json;

    #[test]
    fn sizes_are_compared_in_words() {
        assert_eq!(
            [(100, 101), (100, 20), (10, 80)].map(|(before, after)| compared(before, after)),
            ["about the same", "5.00 times smaller", "8.00 times larger"]
        );
        assert_eq!(compared(0, 7), "nothing new was packed");
    }

    #[test]
    fn a_recipe_is_told_in_the_words_of_the_options() {
        assert_eq!(recipe_value(&json!({ "columns": ["label", "age"] })), "columns label, age");
        assert_eq!(recipe_value(&json!({ "shuffle_seed": 7, "none": null })), "shuffle_seed 7");
        let settings = json!({
            "values": "integer-or-f16", "codec": "blosc2-zstd", "level": 1, "filter": "shuffle",
            "band_difference": false, "layout": "as-shape"
        });
        let entry = json!({ "settings": settings, "asked": {}, "candidates": [] });
        assert_eq!(recipe_value(&entry), "values auto, blosc2-zstd level 1, shuffle, as-given");
        assert_eq!(recipe_value(&json!({ "settings": { "codec": "of-tomorrow" } })), "codec of-tomorrow");
    }
}
