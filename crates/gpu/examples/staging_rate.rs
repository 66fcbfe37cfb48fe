//! Times how the loader moves large cubes to staging memory, and from there to a device.
//!
//! `cargo run --release -p shardpack-gpu --example staging_rate [CUBES [THREADS [BATCH [ROUNDS]]]]`
//!
//! Loads CUBES (default 24) synthetic cubes of 480 × 640 × 100 in float16 with 1 % noise, from a warm page cache,
//! with THREADS (default 2) threads in batches of BATCH (default 6). Prints medians of ROUNDS (default 5) epochs
//! after one warm-up round. The ways below alternate.
//!
//! *one thread a record*: a thread reads a record into a buffer, checks it there, and copies it. *in parts*: all
//! threads read a record directly into staging memory. *memory*: a stage in ordinary memory that ignores submitted
//! batches. *cuda:0*: the first device decodes to float32, if there is a device. Times are sums over all threads.
#![allow(clippy::print_stdout, clippy::cast_precision_loss, clippy::cast_possible_truncation)]

#[path = "shared/cube.rs"]
mod cube;

use cube::synthetic;
use shardpack_array::{
    ArrayEncoder, ArrayLayout, ArraySettings, Coder, EncodedArray, Filter, Units, ValueRule, ZstdDecoder,
};
use shardpack_format::{
    DatasetId, Dtype, Field, FieldKind, Footer, Identity, IndexBuilder, Metadata, RecordBuilder, Schema, StoredField,
    shard_name,
};
use shardpack_gpu::CudaStage;
use shardpack_gpu::GpuError;
use shardpack_gpu::kernels::{Arena, Heap, Loan, LoanPart};
use shardpack_loader::order::End;
use shardpack_loader::stage::{
    ArrayValue, DeviceId, FieldRows, FieldSource, FieldSpec, Prepared, RecordValue, SlotRoom, Spot, Stage, StageSlot,
    StagedPart, StagedParts, StagedRoom, StreamHandle, Ticket,
};
use shardpack_loader::{ArrayDtype, Loader, LoaderOptions, LoaderStats};
use shardpack_reader::Dataset;
use std::error::Error;
use std::io;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// A way to load cubes, with the elapsed time and the thread time of each epoch in seconds.
struct Way {
    name: String,
    loader: Loader,
    laps: Vec<[f64; 4]>,
}

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u32>());
    let mut next = |default| arguments.next().unwrap_or(Ok(default));
    let (cubes, threads, batch_size, rounds) = (next(24)?, next(2)? as usize, next(6)?, next(5)?);
    let cuda = match CudaStage::open(0) {
        Ok(stage) => Some(Arc::new(stage)),
        Err(error @ (GpuError::NoDriver | GpuError::NoDevice { .. })) => {
            println!("{}", error.to_string().lines().next().unwrap_or_default());
            None
        }
        Err(error) => return Err(error.into()),
    };
    let samples = [synthetic(1)?, synthetic(2)?];
    for (coder, filter, band_difference, layout) in [
        (Coder::Blosc2Lz4, Filter::Bitshuffle, true, ArrayLayout::BandMajor),
        (Coder::Blosc2Lz4, Filter::Shuffle, false, ArrayLayout::AsShape),
        (Coder::Raw, Filter::None, false, ArrayLayout::AsShape),
    ] {
        let settings = ArraySettings { values: ValueRule::Keep, coder, level: None, filter, band_difference, layout };
        let encoded = samples.iter().map(|cube| ArrayEncoder::new(settings)?.encode(cube, None));
        let folder = tempfile::tempdir()?;
        write(folder.path(), cubes, &encoded.collect::<Result<Vec<_>, _>>()?)?;
        let dataset = Dataset::open(folder.path().join(shard_name(0)))?;
        let mut ways = Vec::new();
        let stages = [("memory", Some(Arc::new(Memory) as Arc<dyn Stage>)), ("cuda:0", cuda.clone().map(|s| s as _))];
        for (device, stage) in stages.into_iter().filter(|(_, stage)| stage.is_some()) {
            for (name, part_bytes) in
                [("one thread a record", usize::MAX), ("in parts", LoaderOptions::default().resources.part_bytes)]
            {
                let (slots, end) = (LoaderOptions::default_slots(true), End::Uneven);
                let dtype = ArrayDtype::Cubes(Dtype::F32.into());
                let stage = stage.clone();
                let options = {
                    let mut options = LoaderOptions::default()
                        .batch_size(batch_size)
                        .threads(threads)
                        .slots(slots)
                        .end(end)
                        .part_bytes(part_bytes)
                        .dtype(dtype)
                        .begins_ahead(false);
                    options.resources.stage = stage;
                    options
                };
                let loader = Loader::open(&dataset, options)?;
                ways.push(Way { name: format!("{device}, {name}"), loader, laps: Vec::new() });
            }
        }
        for round in 0..=rounds {
            for way in &mut ways {
                let lap = epoch(&mut way.loader, round)?;
                if round > 0 {
                    way.laps.push(lap);
                }
            }
        }
        println!("{settings}, {threads} threads, batches of {batch_size}, {rounds} rounds of {cubes} cubes");
        for Way { name, loader, laps } in &ways {
            let [seconds, read, crc, copy] = [0, 1, 2, 3].map(|k| median(laps.iter().map(|lap| lap[k]).collect()));
            let stats = loader.stats();
            let rate = f64::from(cubes) / seconds;
            let bytes = stats.read_bytes as f64 / f64::from(cubes * (rounds + 1));
            let each = |seconds: f64| 1e3 * seconds / f64::from(cubes);
            println!(
                "  {name:<28} {rate:>7.1} cubes/s {:>6.2} GB/s; ms a cube: read {:>6.2}, CRC {:>6.2}, to the stage \
                 {:>6.2}; \
                 {:.0} MB predicted, {} refused",
                rate * bytes / 1e9,
                each(read),
                each(crc),
                each(copy),
                stats.predicted_bytes as f64 / 1e6,
                loader.refusals().iter().map(|refusal| refusal.rows).sum::<u64>(),
            );
        }
    }
    Ok(())
}

/// Runs one epoch. Returns the elapsed seconds, and the thread seconds for reads, for CRC32s and for the rest.
fn epoch(loader: &mut Loader, number: u32) -> Outcome<[f64; 4]> {
    let of = |stats: LoaderStats| [stats.read_s, stats.crc_s, stats.decode_s];
    let (before, start) = (of(loader.stats()), Instant::now());
    loader.set_epoch(number)?;
    while let Some(batch) = loader.next_batch() {
        drop(batch?);
    }
    let seconds = start.elapsed().as_secs_f64();
    let [[a, b, c], [x, y, z]] = [of(loader.stats()), before];
    Ok([seconds, a - x, b - y, c - z])
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A stage in ordinary memory. It finishes batches immediately.
#[derive(Debug)]
struct Memory;

#[derive(Debug)]
struct Slot {
    room: SlotRoom,
    arena: RwLock<Arena<Heap>>,
}

#[derive(Debug)]
struct InSlot(Loan<Heap>);

#[derive(Debug)]
struct Part(LoanPart<Heap>);

impl Stage for Memory {
    fn device(&self) -> DeviceId {
        DeviceId { kind: 1, number: 0 }
    }

    fn takes(&self, field: &FieldSpec<'_>) -> bool {
        matches!(field.source, FieldSource::Array { .. })
    }

    fn shares(&self, _: &RecordValue<'_>) -> bool {
        true
    }

    fn staged_bytes(&self, _: &FieldSpec<'_>, rows: &FieldRows) -> u64 {
        rows.record_bytes + 64
    }

    fn device_bytes(&self, _: &SlotRoom) -> u64 {
        0
    }

    fn host_bytes(&self, room: &SlotRoom) -> u64 {
        room.staged_bytes as u64
    }

    fn slot(&self, room: &SlotRoom) -> io::Result<Arc<dyn StageSlot>> {
        let arena = RwLock::new(Arena::new(Heap::new(room.staged_bytes)).map_err(io::Error::other)?);
        Ok(Arc::new(Slot { room: *room, arena }))
    }
}

/// Reads every number in the tables, like the stage of a device.
fn walk(value: &RecordValue<'_>) -> Prepared {
    let RecordValue::Array { array, .. } = *value else {
        return Prepared::Refused("odd".into());
    };
    match Units::walk(array.codec, array.descriptor, array.bytes, array.limits) {
        Ok(units) => {
            std::hint::black_box(units);
            Prepared::Taken(None)
        }
        Err(error) => Prepared::Refused(error.to_string().into()),
    }
}

impl StageSlot for Slot {
    fn device(&self) -> DeviceId {
        Memory.device()
    }

    fn room(&self) -> SlotRoom {
        self.room
    }

    fn begin(&self, _: usize) {
        // Ignore a failure here. Preparing the rows then fails too, and reports it.
        _ = self.arena.write().unwrap_or_else(PoisonError::into_inner).reset();
    }

    fn prepare(&self, _: &Spot, value: &RecordValue<'_>, _: &mut ZstdDecoder) -> Prepared {
        let RecordValue::Array { array: ArrayValue { bytes, .. }, .. } = *value else {
            return Prepared::Refused("odd".into());
        };
        let arena = self.arena.read().unwrap_or_else(PoisonError::into_inner);
        let Some(claim) = arena.claim(bytes.len()) else { return Prepared::Refused("full".into()) };
        claim.bytes.copy_from_slice(bytes);
        walk(value)
    }

    fn room_for(self: Arc<Self>, _: &Spot, bytes: usize, step: usize) -> Option<StagedParts> {
        let (loan, parts) = self.arena.read().unwrap_or_else(PoisonError::into_inner).lend(bytes, step)?;
        let parts = parts.into_iter().map(|part| Box::new(Part(part)) as Box<dyn StagedPart>).collect();
        Some(StagedParts { room: Box::new(InSlot(loan)), parts })
    }

    fn put(&self, _: &Spot, _: &[u8]) -> io::Result<()> {
        Ok(())
    }

    fn clear(&self, _: &Spot) {}

    fn submit(self: Arc<Self>, _: &[u8], ticket: Ticket) {
        ticket.done(Ok(Vec::new()));
    }

    fn address(&self) -> u64 {
        0
    }

    fn used_on(&self, _: StreamHandle) {}

    fn release(&self) {}

    fn read(&self, _: usize, _: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn write(&self, _: usize, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl StagedRoom for InSlot {
    fn bytes(&self) -> Option<&[u8]> {
        self.0.bytes()
    }

    fn prepare(&self, value: &RecordValue<'_>, _: &mut ZstdDecoder) -> Prepared {
        walk(value)
    }
}

impl StagedPart for Part {
    fn bytes(&mut self) -> &mut [u8] {
        self.0.bytes()
    }
}

/// Writes a one-shard dataset of `cubes` cubes by repeating the encoded ones.
fn write(folder: &Path, cubes: u32, encoded: &[EncodedArray]) -> Outcome<()> {
    let schema = Schema::new(vec![Field::stored("cube", FieldKind::Array)])?;
    let metadata = Metadata { schema: schema.clone(), shards: Some(1), ..Metadata::default() };
    let identity = Identity::new(DatasetId([7; 16]), 0);
    let (mut out, mut index) = (identity.encode_header().to_vec(), IndexBuilder::new(&schema));
    for (id, cube) in (0..u64::from(cubes)).zip(encoded.iter().cycle()) {
        let (key, descriptor) = (format!("cube-{id}"), cube.descriptor.encode()?);
        let stored_bytes = cube.payload.len() as u64;
        let decoded_bytes = cube.descriptor.stored_bytes()?;
        let field = StoredField { codec: cube.codec, stored_bytes, decoded_bytes, descriptor: &descriptor };
        let mut record = RecordBuilder::new(Vec::new(), &schema, 0, id, &key, &[], &[Some(field)])?;
        record.field_mut(0).copy_from_slice(&cube.payload);
        let (record, frame) = record.finish();
        index.push(&frame, &key, &[])?;
        out.extend(record);
    }
    let index = index.encode(&metadata.encode()?)?;
    let index_crc32 = crc32fast::hash(&index);
    let (index_offset, index_bytes) = (out.len() as u64, index.len() as u64);
    let footer = Footer { identity, record_count: cubes.into(), index_offset, index_bytes, index_crc32 };
    out.extend(index);
    out.extend(footer.encode());
    std::fs::write(folder.join(shard_name(0)), out)?;
    Ok(())
}
