//! Recipes and fidelity figures in words, for `pack` and `inspect`.

use super::{show, units};
use serde_json::Value;
use shardpack_array::ArraySettings;

/// A recipe entry on one line.
pub(super) fn recipe_value(value: &Value) -> String {
    match value {
        Value::String(text) => show::plain(text),
        Value::Array(items) => items.iter().map(recipe_value).collect::<Vec<_>>().join(", "),
        // How an array field is stored. What was requested, and the candidates, are only in
        // `--json`.
        Value::Object(map) if map.contains_key("settings") => map.get("settings").map(settings).unwrap_or_default(),
        Value::Object(map) => map
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| format!("{k} {}", recipe_value(v)))
            .collect::<Vec<_>>()
            .join(", "),
        other => other.to_string(),
    }
}

/// Settings in the words of the options; as they stand in the recipe if another version wrote them.
fn settings(value: &Value) -> String {
    serde_json::from_value::<ArraySettings>(value.clone())
        .map_or_else(|_| recipe_value(value), |known| known.to_string())
}

/// One field's entry under `fidelity` in a manifest.
pub(super) fn fidelity_text(figures: &Value) -> String {
    if figures.get("tiled").is_some() {
        return pictures_text(figures);
    }
    let int = |name: &str| figures.get(name).and_then(Value::as_u64).unwrap_or(0);
    let float = |name: &str| figures.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let share = |n: u64| format!("{} ({:.2} %)", units::count(n), 100.0 * n as f64 / int("values").max(1) as f64);
    let (samples, equal) = (int("samples"), int("equal_samples"));
    let mut rows = vec![("bit-equal", format!("{} of {}", units::count(equal), units::plural(samples, "sample")))];
    if equal < samples {
        rows.push(("altered values", share(int("changed"))));
        let error = |name| units::significant(float(name), 3);
        let measured = units::count(int("measured"));
        let (largest, mean) = (error("max_abs_error"), error("mean_abs_error"));
        rows.push((
            "absolute error",
            format!("{largest} largest, {mean} mean of the {measured} values stored with loss"),
        ));
        rows.push(("relative error", format!("{} largest", error("max_rel_error"))));
        if int("spectra") > 0 {
            let degrees = |name| units::significant(float(name).to_degrees(), 3);
            rows.push((
                "spectral angle",
                format!("{}° largest, {}° mean", degrees("max_angle_rad"), degrees("mean_angle_rad")),
            ));
        }
        if let Some(worst) = figures.get("worst_sample").and_then(Value::as_str) {
            rows.push(("worst sample", show::plain(worst)));
        }
    }
    for (name, label) in [
        ("nan", "NaN"),
        ("no_data", "no-data"),
        ("infinite", "infinite"),
        ("clipped", "clipped"),
        ("subnormal", "below 2^-14 in float16"),
    ] {
        if int(name) > 0 {
            rows.push((label, share(int(name))));
        }
    }
    show::pairs(&rows)
}

/// What was done with pictures.
fn pictures_text(figures: &Value) -> String {
    let int = |name: &str| figures.get(name).and_then(Value::as_u64).unwrap_or(0);
    let samples = int("samples");
    let of = |n: u64| format!("{} of {}", units::count(n), units::count(samples));
    let mut rows = Vec::new();
    if int("reencoded") > 0 {
        rows.push(("re-encoded", of(int("reencoded"))));
        rows.push(("quality", spread(&figures["quality"], 0)));
    }
    rows.push(("in segments", of(int("tiled"))));
    for (name, label) in [("in_rows", "in whole rows"), ("kept", "unchanged")] {
        if int(name) > 0 {
            rows.push((label, of(int(name))));
        }
    }
    let reasons = figures.get("kept_because").and_then(Value::as_object);
    for (why, count) in reasons.into_iter().flatten() {
        rows.push(("", format!("{}: {}", units::count(count.as_u64().unwrap_or(0)), why.escape_debug())));
    }
    if int("pixels_checked") > 0 {
        rows.push(("pixels", format!("{} compared, all equal to the source", of(int("pixels_checked")))));
    }
    if int("profiles_dropped") > 0 {
        rows.push((
            "ICC profiles",
            format!(
                "dropped from {}: damaged, or of colours that the picture no longer has",
                units::count(int("profiles_dropped"))
            ),
        ));
    }
    if int("below_target") > 0 {
        rows.push(("below target", of(int("below_target"))));
    }
    if let Some(score) = figures.get("ssimulacra2") {
        let count = score.get("count").and_then(Value::as_u64).unwrap_or(0);
        rows.push(("SSIMULACRA2", format!("{} of {} scored", spread(score, 1), units::count(count))));
        if let Some(worst) = figures.get("worst_sample").and_then(Value::as_str) {
            rows.push(("worst sample", worst.escape_debug().to_string()));
        }
    }
    show::pairs(&rows)
}

/// `82.1 mean, 74.0 to 90.3`, or the one value that all have.
fn spread(figures: &Value, decimals: usize) -> String {
    let float = |name: &str| figures.get(name).and_then(Value::as_f64).unwrap_or(0.0);
    let (min, mean, max) = (float("min"), float("mean"), float("max"));
    match min < max {
        true => format!("{mean:.1} mean, {min:.decimals$} to {max:.decimals$}"),
        false => format!("{mean:.decimals$}"),
    }
}

#[cfg(test)]
mod tests {
    use super::recipe_value;
    use serde_json::json;

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
