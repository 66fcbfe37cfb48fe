//! Predicts a loader's memory before anything is allocated.

use super::pieces;
use crate::decode::{
    RowMemory, is_in_parts, mask_scratch_bytes, part_bytes, patches_bytes, scratch_bytes, scratch_bytes_in_parts,
};
use crate::fields::{ArrayField, Col, FieldPlan, FieldType, Fields, MOVED_BYTES, MaskField, PictureField, RowSize};
use crate::options::{BatchMix, ClipLayout, LoaderOptions};
use crate::order::{Dealing, End, OpenReads, Positions, Sources};
use crate::patches::PatchPlan;
use crate::plan::{aligned, alignment};
use crate::stage::{FieldRows, SlotRoom};
use crate::supply::size_class;
use shardpack_format::{ArrayDescriptor, Codec, Hint, Setting, saturating_u32, to_usize};
use shardpack_jpeg::{Framing, View};
use shardpack_reader::{Dataset, Error, Result, Shard};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Predicted {
    pub(crate) room: SlotRoom,
    /// Maximum size of runs in bytes: the order's window, plus the bytes read ahead.
    pub(crate) run_bytes: u64,
    pub(crate) record_bytes: u64,
    /// Size in bytes of the largest record that a thread reads alone.
    alone_bytes: u64,
    /// Size in bytes of the slots and of the threads' scratch memory.
    fixed: u64,
    /// `run_bytes`, limited by the size of the dataset.
    pub(crate) held: u64,
    threads: u64,
    /// Size in bytes of the host's tables for values that stay on a device.
    pub(crate) kept_bytes: u64,
    pub(crate) scenes_ahead: u64,
}

impl Predicted {
    /// Returns the total memory in bytes. The window is in memory if `in_memory`, and otherwise in the page cache.
    pub(crate) fn total(&self, in_memory: bool) -> u64 {
        // Without a window in memory, each thread has a buffer for the record that it reads and decodes.
        let alone = self.alone_bytes.saturating_mul(self.threads);
        let reads = if in_memory { self.held } else { alone };
        self.fixed.saturating_add(reads).saturating_add(self.kept_bytes)
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    count: f64,
    mean: f64,
    squares: f64,
    largest: f64,
}

impl Spread {
    /// Adds a value to the running mean and variance with Welford's method, which needs one pass and avoids
    /// cancellation.
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let delta = value - self.mean;
        self.mean += delta / self.count;
        self.squares += delta * (value - self.mean);
        self.largest = self.largest.max(value);
    }

    /// Returns a size in bytes that a batch of `rows` rows rarely exceeds: four standard deviations above the
    /// mean, but at most `rows` times the largest row.
    fn batch(&self, rows: f64) -> f64 {
        let deviation = if self.count > 0.0 { (self.squares / self.count).sqrt() } else { 0.0 };
        (self.mean * rows + 4.0 * deviation * rows.sqrt()).min(self.largest * rows)
    }
}

/// Number of shards to examine. Most datasets have fewer, and a dataset of 10⁸ samples still opens within a second.
const SHARDS: usize = 256;

/// Predicts the memory of a loader. Reads no record, but opens every shard if a field is ragged, because only
/// the indexes contain the sizes of its rows.
pub(crate) fn predict(
    dataset: &Dataset,
    options: &LoaderOptions,
    fields: &Fields,
    epoch: &dyn Positions,
    sources: &Sources,
    threads: usize,
) -> Result<Predicted> {
    // If the dataset is smaller than a batch, only padding fills the batch.
    let rows = match options.order.end {
        End::Pad => u64::from(options.order.batch_size),
        _ => u64::from(options.order.batch_size).min(epoch.len().div_ceil(u64::from(options.order.world_size.max(1)))),
    };
    let dense = fields.plans.iter().map(|field| match field.size {
        RowSize::Dense { bytes } => (bytes as u64).saturating_mul(rows),
        _ => 0,
    });
    let dense = dense.fold(0, u64::saturating_add);
    if dense > options.resources.max_batch_bytes {
        let most = options.resources.max_batch_bytes;
        let hint = Hint::new("choose a smaller `batch_size`, smaller views or patches, or fewer bands, or raise ")
            .and([Setting::named("max_batch").in_rust("max_batch_bytes")]);
        let text = format!("a batch of {rows} rows needs {dense} bytes, but the limit is {most}");
        return Err(Error::usage(text).with_hint(hint));
    }
    let alignment = alignment(options.resources.stage.is_some());
    let (mut host_bytes, mut device_bytes, mut staged_bytes, mut between_bytes) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut scratch = 0_u64;
    let bytes_in = |file: &Shard, record| file.index().row(record).map_or(0, |row| row.length);
    let added =
        |shard: &Shard, record| fields.columns_files(shard).map(|(_, file)| bytes_in(file, record)).sum::<u64>();
    let length = |shard: &Shard, record| Some(bytes_in(shard, record).saturating_add(added(shard, record)));
    let records = options.resources.stage.as_ref().map(|_| spread(dataset, SHARDS, rows, length)).transpose()?;
    let open = epoch.open_reads_max(options.order.world_size.into());
    let reads = reads(dataset, &open, sources, fields.large_bytes)?;
    if dataset.has_columns_files() {
        // Each thread reads the added values of its row.
        let (spread, _) = spread(dataset, SHARDS, rows, |shard: &Shard, record| Some(added(shard, record)))?;
        scratch = scratch.saturating_add(whole(spread.largest));
    }
    let (mut parts, mut resized, mut cropped) = (0_u64, 0_u64, 0_u64);
    for field in &fields.plans {
        let (largest_row, batch) = match field.size {
            RowSize::Dense { bytes } => (bytes as u64, (bytes as u64).saturating_mul(rows)),
            _ => {
                let mut dims = vec![0; field.shape.len()];
                // Ignore invalid row sizes. The batches of these rows report them.
                let row = |shard: &Shard, record| Some(field.row(shard, record, None, &mut dims).ok()? as u64);
                let (spread, neighbours) = spread(dataset, usize::MAX, rows, row)?;
                let batch = match epoch.dealing() {
                    // In stored order, all rows of a batch are neighbours and may be large.
                    Dealing::Sliced => neighbours.largest,
                    Dealing::Interleaved => spread.batch(rows as f64),
                };
                (whole(spread.largest), whole(batch))
            }
        };
        let bytes = if field.staged { &mut device_bytes } else { &mut host_bytes };
        *bytes = aligned(*bytes, alignment).saturating_add(batch);
        if let (true, Some(stage), Some((records, _))) = (field.staged, &options.resources.stage, &records) {
            let spec = field.spec(fields.layout, fields.scaling, &fields.changes);
            let staged = staged(dataset, field, rows, records)?;
            let staged = FieldRows { output_bytes: batch, ..staged };
            staged_bytes = staged_bytes.saturating_add(stage.staged_bytes(&spec, &staged));
            between_bytes = between_bytes.saturating_add(stage.between_bytes(&spec, &staged));
        }
        // A transform needs memory for a copy of the row and for its output.
        scratch =
            scratch.saturating_add(options.output.transform.as_ref().map_or(0, |_| largest_row.saturating_mul(2)));
        scratch = scratch.saturating_add(scratch_of(field, largest_row, options, fields, &reads));
        parts = parts.max(parts_of(field, fields, &reads));
        if matches!(field.kind, FieldType::Picture(_)) && (!field.is_ragged() || field.is_drawn()) {
            let bytes = resized_bytes(dataset, rows, field, threads)?;
            match &field.kind {
                FieldType::Picture(PictureField { crop: Some(_), .. }) => cropped = cropped.max(bytes),
                _ => resized = resized.saturating_add(bytes),
            }
        }
    }
    // Mosaics are made from a copy of the rows.
    if options.output.mix.as_ref().is_some_and(BatchMix::has_mosaics) {
        let is_copied = |field: &&FieldPlan| matches!(field.kind, FieldType::Picture(_) | FieldType::Mask(_));
        let row = |field: &FieldPlan| if let RowSize::Dense { bytes } = field.size { bytes as u64 } else { 0 };
        let copied = fields.plans.iter().filter(is_copied).map(row).max().unwrap_or(0).saturating_mul(rows);
        match options.resources.stage {
            Some(_) => between_bytes = between_bytes.max(copied),
            None => resized = resized.saturating_add(copied),
        }
    }
    // All crops use the same memory. The pixels that they share are needed in addition to the decoder's memory.
    let resized = resized.saturating_add(cropped.saturating_mul(2));
    let output_bytes = aligned(host_bytes, alignment).saturating_add(device_bytes);
    let bytes = |bytes: u64| to_usize(bytes);
    let room = SlotRoom {
        rows: bytes(rows),
        output_bytes: bytes(output_bytes.min(options.resources.max_batch_bytes)),
        host_bytes: bytes(host_bytes.min(options.resources.max_batch_bytes)),
        staged_bytes: bytes(staged_bytes),
        between_bytes: bytes(between_bytes),
    };
    let staging = options.resources.stage.as_ref().map_or(0, |stage| stage.host_bytes(&room));
    let slot_bytes = (room.host_bytes as u64).saturating_add(staging);
    let stored = dataset.shards().fold(0_u64, |sum, shard| sum.saturating_add(shard.bytes));
    // Each thread has a buffer for reading parts of large records.
    scratch = scratch.saturating_add(if parts > 0 { size_class(parts) } else { 0 });
    let run_bytes = run_bytes(options, rows, &open, &reads, threads as u64);
    // A small dataset is never in memory twice. At most, a thread is still decoding records of a dropped run while
    // one part of that run is read again.
    let held = run_bytes.min(stored.saturating_add(reads.largest.saturating_mul(2)));
    let threads = threads as u64;
    let mut scenes_ahead = 0;
    let (run_bytes, held) = match &fields.patches {
        None => (run_bytes, held),
        Some(patches) => {
            // While the patches of one round of scenes are copied to batches, each thread decodes one of the next
            // scenes.
            let window = open.iter().map(|open| open.reads).fold(0, u64::saturating_add);
            scenes_ahead = window.saturating_add(threads);
            let all = epoch.len().div_ceil(patches.most.max(1).into()).max(1);
            scene_bytes(patches, size_class(reads.record), scenes_ahead, all, threads)
        }
    };
    let fixed =
        slot_bytes.saturating_mul(options.resources.slots as u64).saturating_add(scratch.saturating_mul(threads));
    let fixed = fixed.saturating_add(dataset.read_ahead_bytes()).saturating_add(resized);
    let (record_bytes, alone_bytes) = (reads.record, reads.alone);
    Ok(Predicted { room, run_bytes, record_bytes, alone_bytes, fixed, held, threads, kept_bytes: 0, scenes_ahead })
}

/// Returns the sizes of the rows that a stage decodes for a batch, without their output.
fn staged(dataset: &Dataset, field: &FieldPlan, rows: u64, records: &Spread) -> Result<FieldRows> {
    let of_batch = |size: fn(&FieldRows) -> u64| {
        let row = |shard: &Shard, record| Some(size(&field.staged_row(shard, record, 0)));
        spread(dataset, SHARDS, rows, row).map(|(spread, _)| whole(spread.batch(rows as f64)))
    };
    let mut staged = FieldRows { rows, record_bytes: whole(records.batch(rows as f64)), ..FieldRows::default() };
    match field.kind {
        FieldType::Picture(PictureField { clip: Some(_), .. }) => {
            staged.rows = of_batch(|row| row.rows)?;
            staged.record_bytes = of_batch(|row| row.record_bytes)?;
        }
        // The other crops use the samples of the first.
        FieldType::Picture(PictureField { crop: Some(_), .. }) if !field.is_further_crop() => {
            staged.pixels = of_batch(|row| row.pixels)?;
        }
        _ => {}
    }
    Ok(staged)
}

/// Returns the scratch bytes for a row, without the row itself.
fn scratch_of(field: &FieldPlan, largest_row: u64, options: &LoaderOptions, fields: &Fields, reads: &Reads) -> u64 {
    match &field.kind {
        FieldType::Array(ArrayField { cut, finish, stored, sampling, .. }) => {
            let elements = largest_row / field.dtype.bytes();
            let row = RowMemory {
                bytes: largest_row,
                element_bytes: field.dtype.bytes(),
                is_finished: finish.is_some(),
                held_bytes: match sampling {
                    Some(_) => elements.saturating_mul(MOVED_BYTES),
                    None if options.view.augment.rotate => largest_row,
                    None => 0,
                },
            };
            // If all records are large, none is decoded whole.
            let in_parts = fields.large_bytes.is_some() && reads.alone == 0 && is_in_parts(&field.kind);
            let bytes = |stored| match in_parts {
                true => scratch_bytes_in_parts(stored, row).ok(),
                false => scratch_bytes(stored, cut.as_ref(), row).ok(),
            };
            let several = |stored: &(Codec, ArrayDescriptor)| {
                let finished = if finish.is_some() { elements.saturating_mul(stored.1.decoded.bytes()) } else { 0 };
                patches_bytes(stored, cut.as_ref()?, fields.patches.as_deref()?.most.into(), finished)
            };
            stored.iter().filter_map(bytes).chain(stored.iter().filter_map(several)).max().unwrap_or(0)
        }
        FieldType::Volume(volume) => volume.scratch_bytes(),
        FieldType::Mask(MaskField { stored, .. }) => stored.iter().map(mask_scratch_bytes).max().unwrap_or(0),
        // Augmentation needs the levels, copies of the levels, and the sums of a blur: at most 18 bytes per pixel.
        FieldType::Picture(picture) if !picture.changes(&options.view.augment_pictures).is_empty() => {
            let decoding = largest_row.saturating_mul(2).saturating_add(1 << 20);
            (largest_row / field.dtype.bytes()).saturating_mul(6).saturating_add(decoding)
        }
        // The decoder needs rows of blocks and samples, and segments without markers. A frame of a clip with
        // channels first is decoded before its planes are copied to the row.
        FieldType::Picture(_) if field.is_ragged() && !field.is_drawn() => {
            (1 << 20) + if options.output.clip_layout == ClipLayout::ChannelsFirst { largest_row } else { 0 }
        }
        // A resized picture needs the same memory as a whole picture, plus the row before it is rotated or padded. The
        // pixels of the whole picture are counted in `resized_bytes`.
        FieldType::Picture(_) => largest_row.saturating_mul(2).saturating_add(1 << 20),
        FieldType::Scalar(_) | FieldType::OneHot(_) | FieldType::Raw(_) => 0,
    }
}

/// Returns the memory for the pixels of whole pictures. Each thread keeps enough memory for the largest picture that it
/// has decoded. In the worst case, each of N threads has decoded one of the N largest pictures.
fn resized_bytes(dataset: &Dataset, rows: u64, field: &FieldPlan, threads: usize) -> Result<u64> {
    let largest_side = |height: u64, width: u64| match &field.kind {
        FieldType::Picture(PictureField { view: View { framing: Framing::Shortest(short), .. }, .. }) => {
            let [width, height] = short.resized([width, height].map(saturating_u32), None);
            width.max(height).into()
        }
        _ => field.shape.iter().copied().max().unwrap_or(0),
    };
    let of = |height: u64, width: u64| {
        let side = largest_side(height, width);
        // The RGB pixels, and a copy resized along one axis.
        let pixels = height.saturating_mul(width).saturating_add(height.max(width).saturating_mul(side));
        pixels.saturating_mul(3)
    };
    let columns = ["height", "width"].map(|name| Col::find(dataset.schema(), name));
    let [Some(height), Some(width)] = columns else {
        // The size is unknown, so assume one megapixel.
        return Ok(of(1 << 10, 1 << 10).saturating_mul(threads as u64));
    };
    let mut largest: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let look = |shard: &Shard, record| {
        let bytes = of(height.length(shard, record)?, width.length(shard, record)?);
        let limits = &shard.options().limits;
        let most = shard.index().row(record)?.length.saturating_mul(limits.max_expansion);
        // A picture that exceeds the limits fails before any memory is allocated for it.
        if bytes <= most.min(limits.max_decoded_bytes).max(1 << 20) {
            largest.push(Reverse(bytes));
            if largest.len() > threads {
                largest.pop();
            }
        }
        Some(bytes)
    };
    spread(dataset, SHARDS, rows, look)?;
    Ok(largest.into_iter().fold(0, |sum: u64, Reverse(bytes)| sum.saturating_add(bytes)))
}

/// Returns the largest part of a large record, or 0 if the field has no parts, or if they are read directly into
/// staging memory.
fn parts_of(field: &FieldPlan, fields: &Fields, reads: &Reads) -> u64 {
    let FieldType::Array(array) = &field.kind else { return 0 };
    if fields.large_bytes.is_none_or(|large| reads.record < large) || field.is_shared() {
        return 0;
    }
    // Ignore invalid parts. Their batches report the errors.
    let part = |stored| part_bytes(stored, array, array.finish.is_some(), reads.record);
    array.stored.iter().filter_map(part).max().unwrap_or(0)
}

/// Returns the maximum memory of runs in bytes, for epochs that count samples instead of patches.
fn run_bytes(options: &LoaderOptions, rows: u64, open: &[OpenReads], reads: &Reads, threads: u64) -> u64 {
    let twice = reads.largest.saturating_mul(threads.saturating_mul(2));
    if open.iter().all(|open| open.samples <= 1) {
        // Each thread keeps one sample that is read alone, if the slots have enough rows for that. All other
        // buffers are within the read-ahead limit.
        let rows = rows.saturating_mul(options.resources.slots as u64).max(1);
        let busy = reads.largest.saturating_mul(rows.min(threads));
        return busy.max(options.resources.read_ahead_bytes.min(reads.window.saturating_add(twice)));
    }
    // In addition to the window, each thread reads one run and decodes records of another.
    let ahead = twice.min(options.resources.read_ahead_bytes.max(reads.largest.saturating_mul(2)));
    reads.window.saturating_add(ahead)
}

/// Returns the size of scenes in bytes, and the same including their shared fields and the records being decoded. An
/// epoch has `all` scenes, and at most `ahead` are in memory.
fn scene_bytes(patches: &PatchPlan, record: u64, ahead: u64, all: u64, threads: u64) -> (u64, u64) {
    let scene = match patches.is_staged {
        true => record,
        false => u64::from(patches.most).saturating_mul(patches.row_bytes as u64),
    };
    let bytes = scene.saturating_mul(ahead.min(all));
    let shared = (patches.shared_bytes as u64).saturating_mul(ahead);
    let records = if patches.is_staged { 0 } else { record.saturating_mul(threads) };
    (bytes, bytes.saturating_add(shared).saturating_add(records))
}

struct Reads {
    window: u64,
    largest: u64,
    record: u64,
    /// Size in bytes of the largest record that is not decoded in parts.
    alone: u64,
}

/// Examines up to [`SHARDS`] shards. Sizes of neighbours are added up, because all records of a run may be
/// large. Records of `large` bytes or more do not count, because they are read in parts.
fn reads(dataset: &Dataset, open: &[OpenReads], sources: &Sources, large: Option<u64>) -> Result<Reads> {
    let mut spreads = vec![Spread::default(); open.len()];
    let (mut record, mut alone) = (0, 0);
    let is_large = |bytes: u64| large.is_some_and(|large| bytes >= large);
    for number in some_shards(dataset, SHARDS) {
        let samples = dataset.samples_in(number);
        let Some(shard) = dataset.shard_unless_damaged(number)? else { continue };
        for (open, spread) in open.iter().zip(&mut spreads) {
            if !sources.samples(open.source).is_some_and(|all| all.contains(&samples.start)) {
                continue;
            }
            let mut start = 0;
            while start < shard.len() {
                let records = start..start.saturating_add(open.samples.max(1)).min(shard.len());
                let span = shard.span(&records)?;
                let lengths = records.clone().filter_map(|record| Some(shard.index().row(record)?.length));
                let parts = lengths.filter(|&length| is_large(length)).fold(0, u64::saturating_add);
                let bytes = (span.end - span.start).saturating_sub(parts);
                spread.add(if parts > 0 && records.end - records.start == 1 { 0.0 } else { size_class(bytes) as f64 });
                start = records.end;
            }
            let lengths = (0..shard.len()).filter_map(|record| Some(shard.index().row(record)?.length));
            for length in lengths {
                record = record.max(length);
                alone = alone.max(if is_large(length) { 0 } else { length });
            }
        }
    }
    let window = open.iter().zip(&spreads).map(|(open, spread)| whole(spread.batch(open.reads as f64)));
    let window = window.fold(0, u64::saturating_add);
    let run = spreads.iter().map(|spread| whole(spread.largest)).max().unwrap_or(0);
    let largest = if alone > 0 { size_class(alone) } else { 0 };
    Ok(Reads { window, largest: largest.max(run.min(pieces::MOST_BYTES)), record, alone })
}

fn some_shards(dataset: &Dataset, most: usize) -> impl Iterator<Item = usize> {
    const AHEAD: usize = 64;
    let step = dataset.shards().len().div_ceil(most).max(1);
    let advise = |number: usize| dataset.advise_shards(number..number.saturating_add(1));
    (0..AHEAD).for_each(|place| advise(place.saturating_mul(step)));
    let numbers = (0..dataset.shards().len()).step_by(step);
    let numbers = numbers.inspect(move |number| advise(number.saturating_add(AHEAD.saturating_mul(step))));
    numbers.filter(|&number| !dataset.samples_in(number).is_empty())
}

/// Returns size statistics of single records, and of `rows` consecutive records. Examines about `shards` shards.
fn spread(
    dataset: &Dataset,
    shards: usize,
    rows: u64,
    mut size: impl FnMut(&Shard, u64) -> Option<u64>,
) -> Result<(Spread, Spread)> {
    /// Number of rows to examine. Enough to determine the spread, but a dataset of 10⁸ samples still opens quickly.
    const ROWS: u64 = 1 << 20;
    let (mut spread, mut neighbours) = (Spread::default(), Spread::default());
    let step = to_usize(dataset.len().div_ceil(ROWS)).max(1);
    let together = to_usize(rows).div_ceil(step);
    let (mut last, mut sum) = (VecDeque::new(), 0.0);
    for number in some_shards(dataset, shards) {
        let Some(shard) = dataset.shard_unless_damaged(number)? else { continue };
        for record in (0..shard.len()).step_by(step) {
            let Some(bytes) = size(&shard, record) else { continue };
            let bytes = bytes as f64;
            spread.add(bytes);
            last.push_back(bytes);
            sum += bytes;
            if last.len() > together {
                sum -= last.pop_front().unwrap_or_default();
            }
            neighbours.add(sum * step as f64);
        }
    }
    Ok((spread, neighbours))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, and is never negative")]
fn whole(value: f64) -> u64 {
    value.ceil() as u64
}
