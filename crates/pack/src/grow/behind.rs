//! What every addition needs of the samples that are there.

use crate::pack::Tally;
use crate::salvage::tally_of;
use serde_json::{Map, Value, json};
use shardpack_reader::Dataset;
use std::collections::BTreeMap;

/// The first id that no sample has.
pub(crate) fn first_id(opened: &Dataset) -> shardpack_reader::Result<u64> {
    let mut next = 0;
    for number in opened.shard_numbers() {
        let shard = opened.shard(number)?;
        for record in 0..shard.len() {
            next = next.max(shard.row(record)?.sample_id.saturating_add(1));
        }
    }
    Ok(next)
}

/// The figures of all shards, which stay as they are.
pub(crate) fn kept(opened: &Dataset) -> shardpack_reader::Result<BTreeMap<u32, Tally>> {
    let mut kept = BTreeMap::new();
    for number in opened.shard_numbers() {
        let place = u32::try_from(number).map_err(|_| shardpack_format::Error::internal("shard", u32::MAX, number))?;
        kept.insert(place, tally_of(&*opened.shard(number)?));
    }
    Ok(kept)
}

/// Adds to the figures of all samples what only the older manifest knows: why pictures were kept,
/// and what other programs measured.
pub(crate) fn with_notes(mut figures: Map<String, Value>, before: &Map<String, Value>) -> Map<String, Value> {
    for (field, noted) in before {
        let Some(entry) = figures.get_mut(field) else {
            figures.insert(field.clone(), noted.clone());
            continue;
        };
        let (Some(entry), Some(noted)) = (entry.as_object_mut(), noted.as_object()) else { continue };
        for name in ["profiles_dropped", "below_target"] {
            add_count(entry, name, noted.get(name));
        }
        let reasons = noted.get("kept_because").and_then(Value::as_object);
        for (why, count) in reasons.into_iter().flatten() {
            let all = entry.entry("kept_because").or_insert_with(|| json!({}));
            if let Some(all) = all.as_object_mut() {
                add_count(all, why, Some(count));
            }
        }
    }
    figures
}

fn add_count(to: &mut Map<String, Value>, name: &str, count: Option<&Value>) {
    let Some(count) = count.and_then(Value::as_u64).filter(|&count| count > 0) else { return };
    let sum = to.get(name).and_then(Value::as_u64).unwrap_or(0).saturating_add(count);
    to.insert(name.to_owned(), json!(sum));
}
