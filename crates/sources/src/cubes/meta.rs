//! Converts metadata to JSON. Numeric text becomes numbers, and keys are normalised to snake_case.

use serde_json::{Map, Number, Value};

/// Parses `text` as a number if possible, otherwise as a string. Integers remain integers.
pub(super) fn scalar(text: &str) -> Value {
    let text = text.trim();
    if let Ok(integer) = text.parse::<i64>() {
        return Value::Number(integer.into());
    }
    match number(text) {
        Some(number) => float(number),
        None => Value::String(text.to_owned()),
    }
}

/// Returns a list of numbers if every item is a number, otherwise a list of strings.
pub(super) fn list<'a>(items: impl Iterator<Item = &'a str> + Clone) -> Value {
    let numbers = items.clone().all(|item| number(item).is_some());
    items.map(|item| if numbers { scalar(item) } else { Value::String(item.trim().to_owned()) }).collect()
}

/// Converts numbers to JSON. NaN and infinity become `null`, because JSON lacks them.
pub(super) fn floats(values: &[f64]) -> Value {
    values.iter().map(|&value| float(value)).collect()
}

fn float(value: f64) -> Value {
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// Parses a decimal number, but not `nan` or `inf`, which may be band names.
fn number(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.bytes().any(|byte| byte.is_ascii_digit());
    if digits { text.parse().ok().filter(|value: &f64| value.is_finite()) } else { None }
}

/// Converts a key such as `Wavelength Units` to `wavelength_units`.
pub(super) fn snake_case(key: &str) -> String {
    let mut out = String::with_capacity(key.len());
    for ch in key.trim().chars() {
        if ch.is_alphanumeric() {
            out.extend(ch.to_lowercase());
        } else if !out.ends_with('_') && !out.is_empty() {
            out.push('_');
        }
    }
    out.truncate(out.trim_end_matches('_').len());
    out
}

/// Returns the canonical key of a per-channel vector that is stored with the cube, or `None` if the name of the
/// vector is unknown.
pub(super) fn per_channel_key(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "wavelength" | "wavelengths" | "wl" => Some("wavelengths"),
        "fwhm" => Some("fwhm"),
        "bbl" => Some("bbl"),
        _ => None,
    }
}

pub(super) fn is_vector(dims: &[u64], channels: u64) -> bool {
    dims == [channels] || dims == [1, channels] || dims == [channels, 1]
}

/// Inserts a value unless the key exists, because the first occurrence of a key takes precedence.
pub(super) fn insert_new(meta: &mut Map<String, Value>, key: &str, value: Value) {
    if !meta.contains_key(key) {
        meta.insert(key.to_owned(), value);
    }
}
