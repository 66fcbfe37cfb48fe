//! The options of a salvage.

use shardpack_format::Limits;

/// The options of a salvage.
///
/// ```
/// assert!(!shardpack_pack::salvage::SalvageOptions::default().all_generations);
/// ```
#[derive(Debug, Clone, Default)]
pub struct SalvageOptions {
    /// Limits on the sizes that the files declare.
    pub limits: Limits,
    /// Take the samples of all shards, including older generations and removed samples. Otherwise the newest manifest
    /// decides, and salvage fails if it is damaged.
    pub all_generations: bool,
}
