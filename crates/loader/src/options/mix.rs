//! How batches are mixed, as a caller says it.

use shardpack_augment::Mix;

/// How pictures and labels of a batch are mixed. The field `label` comes as float32
/// `[rows, classes]`: the weight of each class. Rows that hold no sample are left out.
///
/// The draws are those of the first sample of the batch in this epoch: so they depend on no thread,
/// and a resumed loader of the same batch size and number of ranks goes on with them.
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
    /// One of these for each batch, all equally likely.
    pub choices: Vec<Mix>,
    /// Number of classes: labels are below it.
    pub classes: u32,
}
