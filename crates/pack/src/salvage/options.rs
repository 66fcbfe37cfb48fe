//! Options for salvaging a damaged dataset.

use shardpack_format::Limits;

/// Options for salvaging a damaged dataset.
///
/// ```
/// assert!(!shardpack_pack::salvage::SalvageOptions::default().all_generations);
/// ```
#[derive(Debug, Clone, Default)]
pub struct SalvageOptions {
    /// Limits on the sizes that the files may declare.
    pub limits: Limits,
    /// Take the samples of all shards, including samples of older generations and samples that were removed.
    /// Otherwise use the newest manifest, and fail if it is damaged.
    pub all_generations: bool,
}
