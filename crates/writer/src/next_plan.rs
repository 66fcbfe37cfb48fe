//! Plans for later generations, which add shards after the existing ones or rewrite some of them.

use crate::error::{Error, Result};
use crate::names::shard_count;
use crate::plan::{Fingerprint, Ids, Plan, PlanOptions, PlannedShard, refuse_too_many, room_for_shards};
use sha2::{Digest, Sha256};
use shardpack_format::{Manifest, Metadata};

/// A record that is kept when its shard is rewritten.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptSample {
    /// Id of the sample. It does not change.
    pub sample_id: u64,
    /// Size of the record in bytes.
    pub record_bytes: u64,
    /// CRC32 of the record's body.
    pub crc32: u32,
}

impl Plan {
    /// Turns this plan into an addition to a dataset. The shard numbers continue after the shards of `manifest`, and
    /// the sample ids begin at `first_id`.
    ///
    /// # Errors
    /// `Limit` if a manifest cannot list this number of shards; `Usage` if the ids run out.
    pub fn behind(mut self, manifest: &Manifest, first_id: u64) -> Result<Self> {
        let limit = room_for_shards(&self.metadata)?;
        let count = manifest.shards.len() as u64 + self.shards.len() as u64;
        refuse_too_many(count, limit)?;
        if first_id.checked_add(self.sample_count()).is_none() {
            let added = crate::error::samples(self.sample_count());
            return Err(Error::usage(
                format!("cannot add {added}: too few sample ids are left between {first_id} and 2^64"),
                "",
            ));
        }
        for shard in &mut self.shards {
            shard.number += shard_count(manifest.shards.len());
        }
        self.metadata.shards = Some(shard_count(manifest.shards.len() + self.shards.len()));
        self.ids = Ids::From(first_id);
        self.identity.inputs = follow(&self.identity.inputs, manifest, first_id)?;
        self.identity.dataset_id = manifest.dataset_id;
        Ok(self)
    }

    /// Plans to rewrite these shards of a dataset with only the given samples. The source numbers the samples of all
    /// these shards consecutively, in the given order.
    ///
    /// # Errors
    /// `Usage` unless the shards are in ascending order.
    pub fn anew(manifest: &Manifest, metadata: Metadata, shards: &[(u32, Vec<KeptSample>)]) -> Result<Self> {
        if !shards.is_sorted_by(|(a, _), (b, _)| a < b) {
            return Err(Error::usage("the shards to rewrite are not in ascending order", ""));
        }
        let count = shards.iter().map(|(_, samples)| samples.len()).sum::<usize>();
        let too_many = |_| Error::Limit {
            what: "number of samples to rewrite".into(),
            limit: u64::from(u32::MAX),
            found: count as u64,
            hint: "".into(),
        };
        let order: Vec<u32> = (0..u32::try_from(count).map_err(too_many)?).collect();
        let (mut planned, mut ids, mut inputs, mut first) = (Vec::new(), Vec::new(), Sha256::new(), 0);
        for (number, samples) in shards {
            inputs.update(number.to_le_bytes());
            inputs.update((samples.len() as u64).to_le_bytes());
            for sample in samples {
                inputs.update(sample.sample_id.to_le_bytes());
                inputs.update(sample.crc32.to_le_bytes());
                ids.push(sample.sample_id);
            }
            let bytes = samples.iter().fold(0_u64, |sum, sample| sum.saturating_add(sample.record_bytes));
            let end = first + samples.len();
            planned.push(PlannedShard {
                number: *number,
                samples: first..end,
                source_bytes: bytes,
                stored_bytes: bytes,
            });
            first = end;
        }
        let inputs = follow(&inputs.finalize().into(), manifest, 0)?;
        let identity = Fingerprint {
            dataset_id: manifest.dataset_id,
            options: PlanOptions { shuffle: None, ..PlanOptions::default() },
            samples: count as u64,
            inputs,
            mtimes: [0; 32],
        };
        let metadata = Metadata { shards: Some(shard_count(manifest.shards.len())), ..metadata };
        Ok(Self { identity, metadata, order, shards: planned, ids: Ids::Listed(ids), is_columns: false })
    }
}

/// Returns a digest of the inputs and the previous generation. An unfinished generation may be continued only if both
/// are the same.
fn follow(inputs: &[u8; 32], manifest: &Manifest, first_id: u64) -> Result<[u8; 32]> {
    let mut digest = Sha256::new();
    digest.update(inputs);
    digest.update(Sha256::digest(manifest.encode()?));
    digest.update(first_id.to_le_bytes());
    Ok(digest.finalize().into())
}
