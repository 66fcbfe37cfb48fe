//! Reads and checks a dataset once, with all threads and before the first batch. Its values stay on a device.

use super::{ArrayForm, Residence, Resident, ResidentValue};
use crate::fields::{
    ArrayField, FieldPlan, FieldType, Fields, Followed, JPEG, MaskField, PictureField, limits_of_a_part, mask_size,
    media_type_of, orientation_of, segments_of,
};
use crate::patches::ClassPlan;
use crate::stage::{ArrayValue, Clip, Keeper, RecordValue, slots};
use crate::supply::record::{check, read_alone};
use crate::supply::run::LoadedRun;
use shardpack_array::{ArrayDecoder, Finish};
use shardpack_format::{
    ArrayDescriptor, Dtype, Error as FormatError, FieldValue, Frame, Hint, Limits, Record, Setting,
};
use shardpack_io::Cause;
use shardpack_jpeg::{FRAMES, PictureDecoder, Rendering, StoredPicture};
use shardpack_reader::raw::{name_field, read_head};
use shardpack_reader::{Dataset, Error, Result, Shard};
use std::any::Any;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const PIECE_BYTES: u64 = 8 << 20;

/// Lets the caller follow and cancel the reading of a dataset.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Flag that stops the reading when set to true.
    pub cancel: &'a AtomicBool,
    /// Callback with the number of bytes read so far and their total. Any thread may call it.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

/// Records of a shard. `sample` is the index of the first record in the dataset.
#[derive(Debug)]
struct Piece {
    shard: Arc<Shard>,
    records: Range<u64>,
    sample: u64,
    bytes: u64,
}

struct Filling<'a> {
    fields: &'a Fields,
    limits: &'a Limits,
    keeper: &'a dyn Keeper,
    watch: Watch<'a>,
    pieces: Vec<Piece>,
    all_bytes: u64,
    done_bytes: AtomicU64,
    resident: Mutex<Resident>,
    /// First error in a record. `failed` contains the error that ended the work.
    first: Mutex<Option<Error>>,
    failed: Mutex<Option<Error>>,
}

struct StoredValue<'a> {
    sample: u64,
    field: usize,
    value: FieldValue<'a>,
    descriptor: Option<ArrayDescriptor>,
    segments: Option<&'a [u8]>,
    orientation: u8,
    /// Frames to load, if the value is a list of pictures.
    clip: Option<Clip>,
}

impl StoredValue<'_> {
    /// Returns the media type. A stage keeps only JPEGs, so there is no need to read the type of a single picture.
    const fn media_type(&self) -> &'static str {
        if self.clip.is_some() { FRAMES } else { JPEG }
    }
}

/// Reads all of `dataset`, and keeps the values of the fields that the stage of `keeper` takes. Slots will
/// need `slot_bytes` bytes on the device.
///
/// # Errors
/// `Usage` if there is nothing to keep, or if reading was cancelled; `Io` if the device fails or has too little
/// memory. An unreadable or damaged record becomes the error of its row. The first of these errors is returned only
/// if no value can be kept.
pub(crate) fn fill(
    dataset: &Dataset,
    fields: &Fields,
    keeper: &Arc<dyn Keeper>,
    threads: usize,
    slot_bytes: u64,
    watch: Watch<'_>,
) -> Result<Resident> {
    if !fields.plans.iter().any(|field| field.staged) {
        let hint = Hint::new("name a picture or cube field in ").and([Setting::named("fields")]);
        let error = Error::usage("`resident` cannot be used: the device cannot decode any field in the batch");
        return Err(error.with_hint(hint));
    }
    let resident = Resident::new(Arc::clone(keeper), fields, dataset.len());
    let resident = resident.ok_or_else(|| {
        Error::io(dataset.path(), "allocate memory for a table of all samples", io::ErrorKind::OutOfMemory)
    })?;
    let (first, pieces) = pieces(dataset);
    let all_bytes = pieces.iter().map(|piece| piece.bytes).sum();
    let filling = Filling {
        fields,
        limits: dataset.limits(),
        keeper: &**keeper,
        watch,
        pieces,
        all_bytes,
        done_bytes: AtomicU64::new(0),
        resident: Mutex::new(resident),
        first: Mutex::new(first),
        failed: Mutex::default(),
    };
    let needed = filling.needed(threads)?;
    filling.reserve(dataset, needed, slot_bytes)?;
    filling.on_threads(threads, |buffer, piece| filling.piece(buffer, piece))?;
    let Filling { resident, first, done_bytes, .. } = filling;
    let mut resident = resident.into_inner().unwrap_or_else(PoisonError::into_inner);
    resident.read_bytes = done_bytes.into_inner();
    resident.seal();
    match first.into_inner().unwrap_or_else(PoisonError::into_inner) {
        _ if resident.values > 0 || dataset.is_empty() => Ok(resident),
        Some(error) => Err(error),
        None => {
            let hint = Hint::new("pack pictures with ").and([Setting::word("jpeg", "tile")]).then(", or cubes with ");
            let hint = hint.and([Setting::word("codec", "blosc2-lz4")]);
            Err(Error::usage("`resident` cannot be used: the device cannot decode any value in the dataset")
                .with_hint(hint))
        }
    }
}

/// Returns the pieces of all readable shards, and the error of the first shard that cannot be read.
fn pieces(dataset: &Dataset) -> (Option<Error>, Vec<Piece>) {
    let (mut pieces, mut first) = (Vec::new(), None);
    for number in dataset.shard_numbers() {
        let sample = dataset.samples_in(number).start;
        let shard = match dataset.shard(number) {
            Ok(shard) => shard,
            Err(error) => {
                first.get_or_insert(error);
                continue;
            }
        };
        let (mut start, mut bytes) = (0, 0);
        for record in 0..shard.len() {
            bytes = shard.index().row(record).map_or(0, |row| row.length).saturating_add(bytes);
            if bytes >= PIECE_BYTES || record + 1 == shard.len() {
                let records = start..record + 1;
                pieces.push(Piece { shard: Arc::clone(&shard), records, sample: sample + start, bytes });
                (start, bytes) = (record + 1, 0);
            }
        }
    }
    (first, pieces)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Filling<'_> {
    fn on_threads(&self, threads: usize, work: impl Fn(&mut Vec<u8>, &Piece) -> Result<()> + Sync) -> Result<()> {
        let next = AtomicUsize::new(0);
        let run = || {
            let mut buffer = Vec::new();
            while let Some(piece) = self.pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                if self.watch.cancel.load(Ordering::Relaxed) || locked(&self.failed).is_some() {
                    break;
                }
                let done = catch_unwind(AssertUnwindSafe(|| work(&mut buffer, piece)));
                let panicked = |panic: Box<dyn Any + Send>| {
                    let what = format!("reading sample {} and the samples after it", piece.sample);
                    Err(FormatError::panicked(what, &*panic).into())
                };
                if let Err(error) = done.unwrap_or_else(panicked) {
                    locked(&self.failed).get_or_insert(error);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(self.pieces.len()) {
                let named = std::thread::Builder::new().name("shardpack-keep".into());
                // Continue with fewer threads, which is only slower.
                if named.spawn_scoped(scope, run).is_err() {
                    break;
                }
            }
            run();
        });
        if self.watch.cancel.load(Ordering::Relaxed) {
            return Err(Error::usage("reading the dataset for `resident` was cancelled"));
        }
        locked(&self.failed).take().map_or(Ok(()), Err)
    }

    /// Returns the fields whose values are kept. All crops of a picture use one value.
    fn kept(&self) -> impl Iterator<Item = (usize, &FieldPlan)> {
        self.fields.plans.iter().enumerate().filter(|(_, field)| field.staged && !field.is_further_crop())
    }

    fn needed(&self, threads: usize) -> Result<u64> {
        let staged: Vec<usize> = self.kept().filter_map(|(_, field)| field.kind.position()).collect();
        let sum = AtomicU64::new(0);
        self.on_threads(threads, |_, piece| {
            let shard = &piece.shard;
            // A picture's segment index is kept with it.
            let own: Vec<usize> = staged
                .iter()
                .flat_map(|&position| [shard.stored_at(position), shard.segments_at(position)])
                .flatten()
                .collect();
            let schema = &shard.index().metadata().schema;
            let only_these = schema.stored_count() == own.len() && (0..own.len()).all(|p| own.contains(&p));
            for record in piece.records.clone() {
                let length = shard.index().row(record).map_or(0, |row| row.length);
                // If records also contain other values, only the head contains the length of each value. A
                // record with an unreadable head is not kept.
                let bytes = match only_these {
                    true => length,
                    false => value_bytes(shard, record, &own).unwrap_or(0),
                };
                let each = self.keeper.value_bytes(0).saturating_mul(staged.len() as u64);
                sum.fetch_add(bytes.saturating_add(each), Ordering::Relaxed);
            }
            Ok(())
        })?;
        Ok(sum.into_inner())
    }

    fn reserve(&self, dataset: &Dataset, needed: u64, slot_bytes: u64) -> Result<()> {
        let failed = |cause: Cause| Error::io(dataset.path(), "keep the dataset on the device", cause);
        let (free, total) = self.keeper.free_bytes().map_err(|error| failed(error.into()))?;
        let all = needed.saturating_add(slot_bytes);
        if all > free {
            let text = format!(
                "{all} bytes are needed ({needed} for the dataset, {slot_bytes} for slots), but only {free} of {total} \
                 bytes are free on the device"
            );
            let hint = Hint::new("lower ")
                .and([slots()])
                .then(", leave ")
                .and([Setting::named("resident")])
                .then(" out, or pack the dataset again to make it smaller: lower ")
                .and([Setting::named("short_side")])
                .then(" or ")
                .and([Setting::named("quality")])
                .then(" for pictures, or store cubes as float16");
            return Err(failed(Cause::new(io::ErrorKind::OutOfMemory, text).with_hint(hint)));
        }
        self.keeper.reserve(needed).map_err(|error| failed(error.into()))
    }

    fn piece(&self, buffer: &mut Vec<u8>, piece: &Piece) -> Result<()> {
        let Piece { shard, records, sample, bytes } = piece;
        let run = match LoadedRun::read(shard, records, std::mem::take(buffer)) {
            Ok((run, _)) => run,
            Err(error) => {
                locked(&self.first).get_or_insert(error);
                return Ok(());
            }
        };
        let mut found = Vec::new();
        for record in records.clone() {
            let sample = sample + (record - records.start);
            if let Err(error) = self.look(&run, record, sample, &mut found) {
                locked(&self.first).get_or_insert(error);
            }
        }
        let how = Rendering::default();
        let values: Vec<RecordValue<'_>> = found.iter().map(|found| self.value(shard, found, &how)).collect();
        let kept = self.keeper.keep(&values);
        let kept = kept.map_err(|error| Error::io(shard.path(), "keep the dataset on the device", error))?;
        let mut resident = locked(&self.resident);
        for (found, number) in found.iter().zip(kept) {
            let detail = match found.descriptor {
                Some(_) => {
                    let FieldValue { codec, decoded_bytes, descriptor, .. } = found.value;
                    resident.name(&ArrayForm { codec, decoded_bytes, descriptor: descriptor.to_vec() })
                }
                None => Some(found.orientation.into()),
            };
            let value = number.zip(detail).map(|(number, detail)| ResidentValue { number, detail });
            let known = value.map_or(Residence::Absent, Residence::Present);
            resident.note(found.sample, found.field, known);
        }
        drop(resident);
        *buffer = run.into_buffer();
        let done = self.done_bytes.fetch_add(*bytes, Ordering::Relaxed) + bytes;
        (self.watch.progress)(done, self.all_bytes);
        Ok(())
    }

    fn look<'r>(&self, run: &'r LoadedRun, record: u64, sample: u64, found: &mut Vec<StoredValue<'r>>) -> Result<()> {
        let (shard, bytes) = (run.shard(), run.record(record)?);
        let place = |error| Error::from(shard.in_record(record, error));
        let frame = check(shard, record, bytes).map_err(place)?;
        for (number, field) in self.kept() {
            let limits = &shard.options().limits;
            let limits = match &field.kind {
                FieldType::Array(ArrayField { cut: Some(_), .. }) => limits_of_a_part(limits),
                _ => limits.clone(),
            };
            let Some(position) = field.kind.position() else { continue };
            // Values in columns files are read for every row.
            if shard.added_at(position).is_some() {
                continue;
            }
            let value = match shard.stored_at(position) {
                Some(position) => Record::field_at(&frame, bytes, position, &limits).map_err(place)?,
                None => None,
            };
            let Some(value) = value else {
                locked(&self.resident).note(sample, number, Residence::Missing);
                continue;
            };
            let mut stored = StoredValue {
                sample,
                field: number,
                value,
                descriptor: None,
                segments: None,
                orientation: 1,
                clip: None,
            };
            match &field.kind {
                FieldType::Array(_) | FieldType::Volume(_) => {
                    stored.descriptor = Some(ArrayDescriptor::parse(value.descriptor, &limits).map_err(place)?);
                }
                FieldType::Mask(MaskField { picture, .. }) => {
                    let descriptor = ArrayDescriptor::parse(value.descriptor, &limits).map_err(place)?;
                    // If the mask's size differs from the picture's, read the mask for every row, which reports the
                    // error.
                    match picture_size(shard, record, &frame, bytes, picture).map_err(place)? {
                        Some(size) if mask_size(&descriptor) == Some(size) => stored.descriptor = Some(descriptor),
                        Some(_) => continue,
                        None => {
                            locked(&self.resident).note(sample, number, Residence::Missing);
                            continue;
                        }
                    }
                }
                FieldType::Picture(PictureField { orientation, clip: Some(of), .. }) => {
                    stored.orientation = orientation_of(*orientation, shard, record, &value);
                    stored.clip = Some(of.clip);
                }
                FieldType::Picture(PictureField { orientation, .. }) => {
                    stored.orientation = orientation_of(*orientation, shard, record, &value);
                    if let Some(position) = shard.segments_at(position) {
                        stored.segments = segments_of(Record::field_at(&frame, bytes, position, &limits));
                    }
                }
                _ => continue,
            }
            found.push(stored);
        }
        let classes = self.fields.patches.as_ref().and_then(|patches| patches.classes.as_ref());
        let Some((classes, (file, position))) = classes.and_then(|of| Some((of, shard.file_of(of.position)?))) else {
            return Ok(());
        };
        let place = |error| Error::from(file.in_record(record, error));
        let limits = &shard.options().limits;
        let mut added = Vec::new();
        let mask = if shard.added_at(classes.position).is_some() {
            let bytes = read_alone(file, record, &mut added)?;
            let frame = check(file, record, bytes).map_err(place)?;
            Record::field_at(&frame, bytes, position, limits)
        } else {
            Record::field_at(&frame, bytes, position, limits)
        };
        if let Some(mask) = mask.map_err(place)? {
            let map = ClassPlan::map(&mask, &mut ArrayDecoder::new(), limits);
            let map = map.map_err(|error| place(name_field(&classes.field, error)))?;
            locked(&self.resident).note_map(sample, map);
        }
        Ok(())
    }

    fn value<'v>(&'v self, shard: &'v Shard, found: &'v StoredValue<'v>, how: &'v Rendering) -> RecordValue<'v> {
        let FieldValue { codec, bytes, .. } = found.value;
        match &found.descriptor {
            Some(descriptor) => {
                let array = ArrayValue { codec, descriptor, bytes, part: None, limits: &shard.options().limits };
                RecordValue::Array { array, finish: &Finish::NOTHING, noise: None, memo: None }
            }
            None => RecordValue::Picture {
                picture: StoredPicture { media_type: found.media_type(), bytes, segments: found.segments },
                how,
                crops: None,
                changes: &[],
                dtype: Dtype::U8.into(),
                scaling: &self.fields.scaling,
                limits: self.limits,
                clip: found.clip,
            },
        }
    }
}

/// Returns the height and width of an upright picture, or `None` if the sample has no picture.
fn picture_size(
    shard: &Shard,
    record: u64,
    frame: &Frame,
    bytes: &[u8],
    picture: &Followed,
) -> Result<Option<[u32; 2]>, FormatError> {
    let limits = &shard.options().limits;
    let Some(position) = shard.stored_at(picture.position) else { return Ok(None) };
    let Some(value) = Record::field_at(frame, bytes, position, limits)? else { return Ok(None) };
    let media_type = media_type_of(&value)?;
    let orientation = orientation_of(picture.orientation, shard, record, &value);
    let (height, width) = PictureDecoder::new(limits.clone()).size_of(media_type, value.bytes, orientation)?;
    Ok(Some([height, width]))
}

fn value_bytes(shard: &Shard, record: u64, positions: &[usize]) -> Result<u64> {
    let (frame, head) = read_head(shard, record)?;
    let places = Record::places(&frame, &head).map_err(|error| shard.in_record(record, error))?;
    let places = positions.iter().filter_map(|&position| places.get(position)?.as_ref());
    Ok(places.fold(0, |sum, place| sum.saturating_add(place.bytes.end - place.bytes.start)))
}
