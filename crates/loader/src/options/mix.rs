//! Options for mixing the samples of a batch.

use shardpack_augment::Mix;

/// How the pictures and labels of a batch are mixed. The field `label` is loaded as float32 `[rows,
/// classes]`, with a weight for each class. Rows without a sample are not mixed.
///
/// The draws come from the first sample of the batch in this epoch. They therefore do not depend on threads,
/// and a resumed loader with the same batch size and number of ranks draws the same numbers.
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
    /// Ways to mix; each batch uses one, with equal probability.
    pub choices: Vec<Mix>,
    /// Number of classes; every label must be below it.
    pub classes: u32,
}
