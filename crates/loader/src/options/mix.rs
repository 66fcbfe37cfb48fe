//! Options for mixing the rows of a batch.

use shardpack_augment::Mix;

/// Mixing of the pictures and labels of a batch. The field `label` is loaded as float32 `[rows, classes]`,
/// with a weight for each class. Rows without a sample are not mixed.
///
/// The draws depend on the epoch and on the first sample of the batch. So threads do not affect them, and a
/// resumed loader with the same batch size and number of ranks draws the same numbers.
///
/// ```
/// use shardpack_loader::{BatchMix, LoaderOptions};
/// let choices = vec!["mixup(alpha=0.2)".parse()?, "cutmix".parse()?];
/// let options = LoaderOptions::default().mix(BatchMix { choices, classes: 1000 });
/// assert!(options.output.mix.is_some());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct BatchMix {
    /// Ways to mix. Each batch uses one, chosen with equal probability.
    pub choices: Vec<Mix>,
    /// Number of classes. Every label must be below this number.
    pub classes: u32,
}
