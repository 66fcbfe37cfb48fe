//! The options of a salvage.

use shardpack_format::Limits;

/// The options of a salvage.
///
/// ```
/// assert!(!shardpack_pack::salvage::SalvageOptions::default().all_generations);
/// ```
#[derive(Debug, Clone, Default)]
pub struct SalvageOptions {
    /// Limits on the sizes that the files claim.
    pub limits: Limits,
    /// Take the samples of all shards, those of older generations and removed samples too. Without
    /// it, a folder is salvaged by the manifest of its newest generation, and refused if that is not
    /// whole.
    pub all_generations: bool,
}
