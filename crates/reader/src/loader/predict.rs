//! How much memory a loader will take, before it takes any.

use super::fields::{Fields, From, Size};
use super::options::LoaderOptions;
use crate::dataset::Dataset;
use crate::error::Result;
use crate::order::Positions;
use shardpack_codec::Bands;

/// What the prediction is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Predicted {
    /// One slot.
    pub(super) slot_bytes: u64,
    /// Most that runs may take: the window of the order, and what may be read ahead.
    pub(super) run_bytes: u64,
    pub(super) total: u64,
}

/// Rows of one field: mean, largest, and standard deviation.
#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
    largest: f64,
}

impl Spread {
    /// Welford's recurrence: one pass, and no cancellation.
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (value - self.mean);
        self.largest = self.largest.max(value);
    }

    /// What a batch of `rows` hardly ever exceeds: four standard deviations above its mean, and never more than its rows at their largest.
    fn batch(&self, rows: f64) -> f64 {
        let deviation = if self.count > 0.0 { (self.squares / self.count).sqrt() } else { 0.0 };
        (self.mean * rows + 4.0 * deviation * rows.sqrt()).min(self.largest * rows)
    }
}

/// Predicts slots, runs and scratch. Opens every shard if a field is ragged, because the sizes of its rows stand in their indexes; touches no record.
pub(super) fn predict(
    dataset: &Dataset,
    options: &LoaderOptions,
    fields: &Fields,
    epoch: &dyn Positions,
    threads: usize,
) -> Result<Predicted> {
    let rows = u64::from(options.batch_size);
    let mut slot_bytes = 0_u64;
    let mut scratch = 0_u64;
    for field in &fields.plans {
        let (mean_row, batch) = match field.size {
            Size::Dense { bytes } => (bytes as u64, (bytes as u64).saturating_mul(rows)),
            _ => {
                let spread = spread(dataset, field)?;
                (whole(spread.largest), whole(spread.batch(rows as f64)))
            }
        };
        slot_bytes = slot_bytes.next_multiple_of(64).saturating_add(batch);
        scratch = scratch.saturating_add(match &field.from {
            // Stored elements of the part alone, up to the last band of it, and a block: 64 KiB for each byte of an element.
            From::Array { cut: Some(cut), .. } => {
                let (asked, fetched) = match &cut.region.bands {
                    Bands::All => (1, 1),
                    Bands::Range(bands) => (bands.end.saturating_sub(bands.start), bands.end),
                    Bands::List(bands) => (bands.len() as u64, bands.iter().max().map_or(0, |last| last + 1)),
                };
                let stored = (mean_row / asked.max(1)).saturating_mul(fetched.max(asked));
                stored.saturating_add(field.dtype.bytes() << 16)
            }
            // The stored elements, and the same turned to channels first.
            From::Array { channels_first, .. } => mean_row.saturating_mul(1 + u64::from(*channels_first)),
            // Pixels of the picture before it is resized are not known from here: one megapixel.
            From::Picture { .. } if !field.is_ragged() => 3 << 20,
            _ => 0,
        });
    }
    let slot_bytes = slot_bytes.min(options.max_batch_bytes);
    let bytes = dataset.shards().fold(0_u64, |sum, shard| sum.saturating_add(shard.bytes));
    let mean = bytes.checked_div(dataset.len()).unwrap_or(0);
    let window = epoch.open_samples_max(options.world_size.into()).saturating_mul(mean);
    let run_bytes = window.saturating_add(options.read_ahead_bytes.max(1 << 20));
    // What will be held besides the window: for each thread a run that it reads and one that it decodes out of.
    let run = if window > mean { crate::order::Runs::BYTES.max(mean) } else { mean };
    let ahead = run.saturating_mul(2 * threads as u64).min(options.read_ahead_bytes.max(2 * mean));
    let held = window.saturating_add(ahead).min(bytes.saturating_add(2 * mean));
    let total = slot_bytes
        .saturating_mul(options.slots as u64)
        .saturating_add(held)
        .saturating_add(scratch.saturating_mul(threads as u64));
    Ok(Predicted { slot_bytes, run_bytes, total })
}

fn spread(dataset: &Dataset, field: &super::fields::FieldPlan) -> Result<Spread> {
    /// Rows that are looked at: enough to know their spread, few enough to open a dataset of 10⁸ samples.
    const ROWS: u64 = 1 << 20;
    let mut spread = Spread::default();
    let step = usize::try_from(dataset.len().div_ceil(ROWS)).unwrap_or(usize::MAX).max(1);
    let mut dims = vec![0; field.shape.len()];
    for (number, info) in dataset.shards().enumerate() {
        if info.samples == 0 {
            continue;
        }
        let shard = dataset.shard(number)?;
        for record in (0..shard.len()).step_by(step) {
            // What is wrong with a row is said when its batch comes.
            if let Ok(bytes) = field.row(&shard, record, &mut dims) {
                spread.add(bytes as f64);
            }
        }
    }
    Ok(spread)
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is never negative")]
fn whole(value: f64) -> u64 {
    value.ceil() as u64
}
