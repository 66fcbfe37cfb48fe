//! Options for mixing the rows of a batch.

use shardpack_augment::Mix;

/// Mixes the rows of each batch. With Mixup and CutMix, the field `label` is loaded as float32 `[rows, classes]`,
/// with a weight for each class. Fields that follow their picture ([`Align`](crate::Align)) are mixed with it, and
/// may replace the label: a row has the boxes, points, polygons and masks of objects of all its pictures
/// ([`Batch::weights`](crate::Batch::weights)). Rows without a sample are not mixed.
///
/// The draws depend on the epoch and on the first sample of the batch or, for a mosaic, on the sample of its row.
/// Threads do not affect them, and a resumed loader with the same batch size and number of ranks draws the same
/// numbers.
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
    /// Mixing methods. Each batch uses one, chosen with equal probability.
    pub choices: Vec<Mix>,
    /// Number of classes. Every label must be below this number. Unused if no label is mixed.
    pub classes: u32,
}

impl BatchMix {
    pub(crate) fn has_mosaics(&self) -> bool {
        self.choices.iter().any(|mix| matches!(mix, Mix::Mosaic(_)))
    }
}
