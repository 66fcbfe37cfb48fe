//! Salvage options.

use shardpack_format::Limits;

/// Salvage options.
///
/// ```
/// assert!(!shardpack_pack::salvage::SalvageOptions::default().all_generations);
/// ```
#[derive(Debug, Clone, Default)]
pub struct SalvageOptions {
    /// Limits on the sizes that the files declare.
    pub limits: Limits,
    /// Take the samples of all shards, including older generations and removed samples. Otherwise the newest
    /// manifest decides, and salvage fails if that manifest is damaged.
    pub all_generations: bool,
}
