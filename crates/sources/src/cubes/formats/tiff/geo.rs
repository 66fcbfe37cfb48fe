//! Reads metadata from geographic tags and from GDAL's XML, which may contain wavelengths.

use super::ifd::{Ifd, TiffSource, text};
use crate::cubes::error::Result;
use crate::cubes::meta;
use serde_json::{Map, Value};
use shardpack_base::tiff::TiffValues;
use shardpack_format::to_usize;
use std::num::ParseIntError;

/// Returns the metadata and the no-data value of a page with `channels` bands.
pub(super) fn read(file: &TiffSource<'_>, ifd: &Ifd<'_>, channels: u64) -> Result<(Map<String, Value>, Option<f64>)> {
    let mut out = Map::new();
    for (tag, key) in [(270, "description"), (306, "datetime")] {
        if let Some(text) = text(ifd, tag)?.filter(|text| !text.is_empty()) {
            out.insert(key.into(), text.into());
        }
    }
    for (tag, key) in [(33550, "model_pixel_scale"), (33922, "model_tiepoint"), (34264, "model_transformation")] {
        if let Some(values) = ifd.values(tag)?.as_ref().and_then(TiffValues::doubles) {
            out.insert(key.into(), meta::floats(&values));
        }
    }
    if let Some(keys) = file.integers(ifd, 34735)? {
        out.insert("geo_key_directory".into(), keys.into());
    }
    if let Some(values) = ifd.values(34736)?.as_ref().and_then(TiffValues::doubles) {
        out.insert("geo_double_params".into(), meta::floats(&values));
    }
    if let Some(text) = text(ifd, 34737)? {
        out.insert("geo_ascii_params".into(), text.into());
    }
    if let Some(xml) = text(ifd, 42112)? {
        gdal(&xml, channels, &mut out);
    }
    let mut no_data = None;
    if let Some(text) = text(ifd, 42113)? {
        no_data = text.parse().ok();
        if no_data.is_none() {
            out.insert("gdal_nodata".into(), text.into());
        }
    }
    Ok((out, no_data))
}

/// Maximum number of band values: enough for 1,000 bands with 1,000 values each.
const MAX_BAND_VALUES: u64 = 1 << 20;

/// Adds GDAL's metadata. Items of the file keep their names. Items of bands become lists with one value per
/// band, or `null` for a band without a value.
fn gdal(xml: &str, channels: u64, out: &mut Map<String, Value>) {
    let mut bands: Map<String, Value> = Map::new();
    for item in items(xml) {
        let key = meta::snake_case(&item.name);
        let band = item.band.as_ref().and_then(|band| band.as_ref().ok().copied());
        let band = band.filter(|band| *band < channels).map(to_usize);
        match band {
            None if item.band.is_none() => {
                let inner = item.value.strip_prefix('{').and_then(|inner| inner.strip_suffix('}'));
                let value = inner.map_or_else(|| meta::scalar(&item.value), |list| meta::list(list.split(',')));
                let per_channel = value.as_array().is_some_and(|list| list.len() as u64 == channels);
                let key = if key == "wavelength" && per_channel { "wavelengths" } else { key.as_str() };
                meta::insert_new(out, key, value);
            }
            Some(band) if (bands.len() as u64 + 1).saturating_mul(channels) <= MAX_BAND_VALUES => {
                let list = bands.entry(key).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    if list.len() <= band {
                        list.resize(band + 1, Value::Null);
                    }
                    if let Some(place) = list.get_mut(band) {
                        *place = meta::scalar(&item.value);
                    }
                }
            }
            _ => {}
        }
    }
    let full = |list: &Value| {
        list.as_array().is_some_and(|list| list.len() as u64 == channels && list.iter().all(Value::is_number))
    };
    for (key, mut list) in bands {
        if let Value::Array(values) = &mut list {
            values.resize(usize::try_from(channels).unwrap_or(values.len()), Value::Null);
        }
        // The key `central_wavelength_um`, from GDAL's own metadata domain, is in micrometres.
        let micrometres = key == "central_wavelength_um";
        let key = match key.as_str() {
            "wavelength" | "central_wavelength_um" if full(&list) && !out.contains_key("wavelengths") => {
                "wavelengths".to_owned()
            }
            "wavelength_units" => {
                let same = list
                    .as_array()
                    .and_then(|list| list.first().filter(|first| list.iter().all(|unit| unit == *first)));
                if let Some(unit) = same.cloned() {
                    list = unit;
                }
                key
            }
            "description" => "band_names".to_owned(),
            _ => key,
        };
        if micrometres && key == "wavelengths" {
            meta::insert_new(out, "wavelength_units", "Micrometers".into());
        }
        meta::insert_new(out, &key, list);
    }
}

struct Item {
    name: String,
    /// Band index, counted from 0, or the parse error of an invalid number.
    band: Option<Result<u64, ParseIntError>>,
    value: String,
}

/// Parses `<Item name="…" sample="…">value</Item>` as GDAL writes it. Skips anything else.
fn items(xml: &str) -> impl Iterator<Item = Item> {
    xml.split("<Item").skip(1).filter_map(|item| {
        let (attributes, rest) = item.split_once('>')?;
        let (value, _) = rest.split_once("</Item>")?;
        let attribute = |name: &str| {
            let (_, rest) = attributes.split_once(&format!(" {name}=\""))?;
            rest.split_once('"').map(|(value, _)| unescape(value))
        };
        let band = attribute("sample").map(|band| band.parse());
        // GDAL escapes values twice.
        Some(Item { name: attribute("name")?, band, value: unescape(&unescape(value.trim())) })
    })
}

fn unescape(text: &str) -> String {
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'").replace("&amp;", "&")
}
