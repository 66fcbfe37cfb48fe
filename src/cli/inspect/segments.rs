//! Counts the segment indexes of pictures by reading the heads of records.

use crate::cli::units;
use serde_json::{Value, json};
use shardpack_format::{Record, SEGMENT_INDEXES};
use shardpack_reader::raw::read_head;
use shardpack_reader::{Dataset, Result, Shard};
use std::sync::Arc;

/// Maximum number of heads to read from a disk (`NEAR`) and over a network (`FAR`).
const NEAR: u64 = 10_000;
const FAR: u64 = 64;

/// Number and size of the segment indexes in the records whose heads were read.
#[derive(Debug, Default)]
pub(super) struct SegmentFacts {
    samples: u64,
    looked_at: u64,
    pictures: u64,
    indexed: u64,
    bytes: u64,
}

impl SegmentFacts {
    /// Reads the heads of all records or, in a large dataset, of evenly spaced records. Returns `None` if no
    /// shard has segment indexes.
    pub(super) fn of(dataset: &Dataset, shards: &[(u64, Arc<Shard>)]) -> Result<Option<Self>> {
        if shards.iter().all(|(_, shard)| shard.identity().optional_features & SEGMENT_INDEXES == 0) {
            return Ok(None);
        }
        let most = if dataset.read_ahead_bytes() > 0 { FAR } else { NEAR };
        let samples: u64 = shards.iter().map(|(_, shard)| shard.len()).sum();
        let step = samples.div_ceil(most).max(1);
        let mut facts = Self { samples, ..Self::default() };
        let mut next = 0;
        for (_, shard) in shards {
            while next < shard.len() {
                facts.look(shard, next)?;
                next += step;
            }
            next -= shard.len();
        }
        Ok(Some(facts))
    }

    fn look(&mut self, shard: &Shard, record: u64) -> Result<()> {
        let (frame, head) = read_head(shard, record)?;
        let places = Record::places(&frame, &head).map_err(|error| shard.in_record(record, error))?;
        let place = |position: usize| places.get(position).and_then(Option::as_ref);
        self.looked_at += 1;
        for position in (0..places.len()).filter(|&position| place(position).is_some()) {
            let Some(segments) = shard.segments_at(position) else { continue };
            self.pictures += 1;
            if let Some(index) = place(segments) {
                self.indexed += 1;
                self.bytes += index.bytes.end - index.bytes.start;
            }
        }
        Ok(())
    }

    pub(super) fn to_text(&self) -> String {
        if self.looked_at == self.samples {
            let pictures = units::plural(self.pictures, "picture");
            return format!("{} of {pictures}, {}", units::count(self.indexed), units::bytes(self.bytes));
        }
        let all = |part: u64| u128::from(part) * u128::from(self.samples) / u128::from(self.looked_at.max(1));
        let bytes = shardpack_format::saturating_u64(all(self.bytes));
        format!(
            "about {} % of the pictures, about {} (estimated from {})",
            self.indexed * 100 / self.pictures.max(1),
            units::bytes(bytes),
            units::plural(self.looked_at, "record")
        )
    }

    pub(super) fn to_json(&self) -> Value {
        let Self { samples, looked_at, pictures, indexed, bytes } = self;
        json!({ "samples": samples, "looked_at": looked_at, "pictures": pictures, "indexed": indexed, "bytes": bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_sample_are_approximate() {
        let all = SegmentFacts { samples: 3, looked_at: 3, pictures: 2, indexed: 1, bytes: 1_500 };
        assert_eq!(all.to_text(), "1 of 2 pictures, 1.50 kB");
        let some = SegmentFacts { samples: 300, ..all };
        assert_eq!(some.to_text(), "about 50 % of the pictures, about 150 kB (estimated from 3 records)");
    }
}
