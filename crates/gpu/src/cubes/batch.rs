//! A batch of cubes made ready for the device: compressed bytes and tables in one piece of memory,
//! uploaded once.

use super::ask::{Ask, Picks};
use super::element::{As, ElementType};
use super::place::{CONSTANT_BYTES, Placer, Room, Tasks};
use super::wire::{
    BLOCK_ELEMENTS, CubeRow, Mode, PIECE_THREADS, STREAM_WARPS, StreamTask, TILE_WARPS, Wire, chunk_bands,
};
use super::wire::{PieceTask, Plane};
use crate::driver::{Launch, Params};
use shardpack_codec::{Region, Units, ZstdDecoder, reserved_values};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, Error, Layout, Limits, Result, Transform};
use std::ops::Range;

/// Places in a slot that tables and scratch begin at.
const ALIGN: usize = 256;
/// Bytes behind the last one in use that kernels may read.
const MARGIN: u64 = 64;
/// Chunks of bands that a warp takes where nothing ties one to the next.
const CHUNKS_EACH: u32 = 4;

/// Makes batches, one after the other; keeps its memory, and zstd's, for the next one.
#[derive(Default)]
pub struct Stager {
    zstd: ZstdDecoder,
    tasks: Tasks,
    rows: Vec<CubeRow>,
    tables: Vec<u8>,
}

/// A payload to be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Anywhere; what the device needs of it is copied into the slot.
    Bytes(&'a [u8]),
    /// The first bytes of [`Batch::room`], where somebody has put them.
    Staged(usize),
}

/// What one cube decodes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Staged {
    /// Type of the elements.
    pub element: ElementType,
    /// Axes.
    pub shape: Vec<u64>,
    /// Bytes of all elements.
    pub bytes: u64,
}

/// A batch in the making, in the part of a slot that is uploaded.
///
/// ```
/// use shardpack_codec::{Array, ArrayEncoder, ArrayOptions, trial};
/// use shardpack_format::{Dtype, Limits};
/// use shardpack_gpu::cubes::{As, Payload, Stager};
///
/// let cube = Array::new(Dtype::U16, vec![8, 8, 4], (0..512).map(|i| i as u8).collect())?;
/// let encoded = ArrayEncoder::new(trial(&[(&cube, None)], &ArrayOptions::default())?.settings)?.encode(&cube, None)?;
///
/// let (mut stager, mut slot) = (Stager::default(), vec![0; 16 << 10]);
/// let mut batch = stager.begin(&mut slot)?;
/// let payload = Payload::Bytes(&encoded.payload);
/// let staged = batch.push(encoded.codec, &encoded.descriptor, payload, None, As::F32, 0, &Limits::default())?;
/// assert_eq!((staged.shape, staged.bytes), (vec![8, 8, 4], 1024));
/// let work = batch.finish()?;
/// assert!(work.upload_bytes() > encoded.payload.len() && work.cubes() == 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Batch<'a> {
    stager: &'a mut Stager,
    slot: &'a mut [u8],
    /// Bytes in use.
    filled: usize,
    /// End of the scratch in use; it begins behind the part that is uploaded.
    scratch: u64,
    /// Bytes of output so far.
    out_bytes: u64,
}

impl Stager {
    /// Begins a batch in `slot`, the part of a slot that is uploaded: pinned memory, as a rule. It
    /// must have room for the payloads (of what is coded by zstd: for what it decodes to) and for
    /// the tables, [`Stager::table_bytes`] a cube.
    ///
    /// # Errors
    /// `Limit` if the slot is too small for anything.
    pub fn begin<'a>(&'a mut self, slot: &'a mut [u8]) -> Result<Batch<'a>> {
        self.tasks.streams.clear();
        self.tasks.pieces.clear();
        self.rows.clear();
        self.tables.clear();
        let held = slot.len();
        let Some((constants, _)) = slot.split_at_mut_checked(CONSTANT_BYTES) else {
            return Err(Error::limit("slot", "bytes of the slot", held as u64, CONSTANT_BYTES as u64));
        };
        for (value, byte) in (0..=u8::MAX).zip(constants) {
            *byte = value;
        }
        let scratch = held.next_multiple_of(ALIGN) as u64;
        Ok(Batch { stager: self, slot, filled: CONSTANT_BYTES, scratch, out_bytes: 0 })
    }

    /// How many bytes of tables a cube takes at most, besides its payload.
    ///
    /// # Errors
    /// `Format` if the shape overflows; `Usage` if the region is not within the array.
    pub fn table_bytes(descriptor: &ArrayDescriptor, region: Option<&Region>) -> Result<u64> {
        let ask = Ask::new(descriptor, region)?;
        let width = descriptor.stored.bytes().max(1);
        // Each block: a short or a joined one has a stream, and a piece, for each byte too.
        let blocks = descriptor.stored_bytes()?.div_ceil(BLOCK_ELEMENTS as u64 * width);
        let each = Plane::BYTES + StreamTask::BYTES + PieceTask::BYTES;
        let picks = ask.picks.count().saturating_mul(8 + 4) + 8;
        let fixed = match descriptor.transform {
            Transform::Fixed { .. } => descriptor.bands().saturating_mul(8),
            _ => 0,
        };
        let tables = blocks.saturating_mul(width * each as u64);
        Ok(tables.saturating_add(picks).saturating_add(fixed).saturating_add((CubeRow::BYTES + 4 * ALIGN) as u64))
    }

    /// How many bytes of scratch a cube takes at most, behind the part of a slot that is uploaded.
    ///
    /// # Errors
    /// `Format` if the shape overflows.
    pub fn scratch_bytes(descriptor: &ArrayDescriptor) -> Result<u64> {
        let stored = descriptor.stored_bytes()?;
        let block = (BLOCK_ELEMENTS as u64 * descriptor.stored.bytes()).min(stored);
        // The last block of each unit may be joined before it is turned.
        Ok(stored.saturating_add(block).saturating_add(2 * ALIGN as u64))
    }
}

impl Batch<'_> {
    /// What is free of the slot: whoever reads a record can put its payload at the start of it, and
    /// hand it over as [`Payload::Staged`].
    #[must_use]
    pub fn room(&mut self) -> &mut [u8] {
        self.slot.get_mut(self.filled..).unwrap_or_default()
    }

    /// Takes a cube, or another array, into the batch. `region` is what comes out of it, by default
    /// all in the order of the shape; `out` is where that begins in the output of the batch, in
    /// bytes.
    ///
    /// All that the host's decoder checks before it decodes is checked here. What is inside of LZ4
    /// streams is checked by the device, which says so in the cube's status. After an error the
    /// batch is what it was before.
    ///
    /// # Errors
    /// `Format` if the payload is damaged, has another length than the array's, or its codec is not
    /// for arrays; `Limit` if the array is over a limit, too large for the device (2³² elements),
    /// or the slot has no room left; `Usage` if the region is not within the array, `out` is not a
    /// multiple of the element size, or a boolean is to become a float.
    #[expect(clippy::too_many_arguments, reason = "one thing each")]
    pub fn push(
        &mut self,
        codec: Codec,
        descriptor: &ArrayDescriptor,
        payload: Payload<'_>,
        region: Option<&Region>,
        to: As,
        out: u64,
        limits: &Limits,
    ) -> Result<Staged> {
        let Stager { zstd, tasks, rows, tables, .. } = &mut *self.stager;
        let (streams, pieces, table_bytes) = (tasks.streams.len(), tasks.pieces.len(), tables.len());
        let (head, payload_at, tail) = match payload {
            Payload::Bytes(_) => {
                let (_, tail) = self.slot.split_at_mut_checked(self.filled).unwrap_or_default();
                (&[][..], None, tail)
            }
            Payload::Staged(len) => {
                let end = self.filled.checked_add(len).filter(|end| *end <= self.slot.len()).ok_or_else(|| {
                    let room = self.slot.len() - self.filled;
                    Error::usage("staged payload", format!("at most {room} bytes"), len)
                })?;
                let (head, tail) = self.slot.split_at_mut_checked(end).unwrap_or_default();
                (head.get(self.filled..).unwrap_or_default(), Some(self.filled as u64), tail)
            }
        };
        let bytes = match payload {
            Payload::Bytes(bytes) => bytes,
            Payload::Staged(_) => head,
        };
        let at = (self.filled + head.len()) as u64;
        let mut room = Room { free: tail, at, scratch: self.scratch };
        let cube = Cube { codec, descriptor, bytes, region, to, out, limits };
        let row = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        match cube.stage(&mut room, tasks, zstd, tables, payload_at, row) {
            Ok((row, staged)) => {
                self.filled = usize::try_from(room.at).unwrap_or(self.filled);
                self.scratch = room.scratch;
                self.out_bytes = self.out_bytes.max(out.saturating_add(staged.bytes));
                rows.push(row);
                Ok(staged)
            }
            Err(error) => {
                tasks.streams.truncate(streams);
                tasks.pieces.truncate(pieces);
                tables.truncate(table_bytes);
                Err(error)
            }
        }
    }

    /// Writes the tables behind the payloads. What is uploaded is complete then.
    ///
    /// # Errors
    /// `Limit` if the slot has no room for them.
    pub fn finish(self) -> Result<Work> {
        let Self { stager, slot, filled, scratch, out_bytes } = self;
        let Stager { tasks, rows, tables, .. } = stager;
        let base = filled.next_multiple_of(ALIGN);
        let streams_at = base + align(tables);
        tasks.streams.iter().for_each(|task| task.put(tables));
        let pieces_at = base + align(tables);
        tasks.pieces.iter().for_each(|task| task.put(tables));
        // Zero, as the kernels want them.
        let status_at = base + align(tables);
        tables.resize(tables.len() + 4 * rows.len(), 0);
        let cubes_at = base + align(tables);
        for row in rows.iter_mut() {
            for at in [&mut row.planes, &mut row.picks, &mut row.chunk_picks, &mut row.tables] {
                *at += base as u64;
            }
            row.put(tables);
        }
        let end = base + tables.len();
        let held = slot.len();
        match slot.get_mut(base..end) {
            Some(to) => to.copy_from_slice(tables),
            None => return Err(Error::limit("tables in a slot", "bytes of the slot", held as u64, end as u64)),
        }
        // Between the payloads and the tables, for those who look at what they upload.
        slot.get_mut(filled..base).unwrap_or_default().fill(0);
        let count = |n: usize| {
            u32::try_from(n).map_err(|_| Error::limit("streams of a batch", "u32", u32::MAX.into(), n as u64))
        };
        let units = rows.iter().map(CubeRow::units).max().unwrap_or(0);
        let units =
            u32::try_from(units).map_err(|_| Error::limit("pixels of a cube", "2^31 warps", u32::MAX.into(), units))?;
        let cubes = count(rows.len())?;
        if cubes > u16::MAX.into() {
            return Err(Error::limit("cubes of a batch", "blocks of a grid", u16::MAX.into(), cubes.into()));
        }
        Ok(Work {
            upload_bytes: end,
            slot_bytes: scratch + MARGIN,
            cubes,
            streams: (streams_at as u64, count(tasks.streams.len())?),
            pieces: (pieces_at as u64, count(tasks.pieces.len())?),
            status_at: status_at as u64,
            cubes_at: cubes_at as u64,
            units,
            out_bytes,
        })
    }
}

/// Fills up to a multiple of 16, and returns the length then.
fn align(tables: &mut Vec<u8>) -> usize {
    tables.resize(tables.len().next_multiple_of(16), 0);
    tables.len()
}

/// One cube to be staged.
struct Cube<'a> {
    codec: Codec,
    descriptor: &'a ArrayDescriptor,
    bytes: &'a [u8],
    region: Option<&'a Region>,
    to: As,
    out: u64,
    limits: &'a Limits,
}

impl Cube<'_> {
    fn stage(
        &self,
        room: &mut Room<'_>,
        tasks: &mut Tasks,
        zstd: &mut ZstdDecoder,
        tables: &mut Vec<u8>,
        payload_at: Option<u64>,
        row: u32,
    ) -> Result<(CubeRow, Staged)> {
        let units = Units::walk(self.codec, self.descriptor, self.bytes, self.limits)?;
        let ask = Ask::new(self.descriptor, self.region)?;
        let element = self.to.of(ask.descriptor.decoded)?;
        check_types(&ask.descriptor)?;
        let staged =
            Staged { element, shape: ask.shape.clone(), bytes: ask.elements().saturating_mul(element.bytes()) };
        if staged.bytes > self.limits.max_decoded_bytes {
            return Err(Error::limit("output", "max_decoded_bytes", self.limits.max_decoded_bytes, staged.bytes));
        }
        if !self.out.is_multiple_of(element.bytes()) {
            return Err(Error::usage("place in the output", format!("a multiple of {}", element.bytes()), self.out));
        }
        let stored = self.descriptor.stored_bytes()?;
        let (Ok(stored), Ok(width)) = (usize::try_from(stored), usize::try_from(self.descriptor.stored.bytes())) else {
            return Err(Error::limit("stored array", "bytes of an address", usize::MAX as u64, stored));
        };
        let mut placer = Placer { room, tasks, zstd, payload_at, width, row, number: 0, planes: Vec::new() };
        // Of an empty region nothing is needed.
        if staged.bytes > 0 {
            placer.place(&units, stored)?;
        }
        let planes = placer.planes;
        Ok((self.row(&ask, element, &planes, tables, row)?, staged))
    }

    /// The cube's entry, with its own tables behind those of the others.
    fn row(
        &self,
        ask: &Ask,
        element: ElementType,
        planes: &[Plane],
        tables: &mut Vec<u8>,
        row: u32,
    ) -> Result<CubeRow> {
        let number = |what: &'static str, n: u64| {
            u32::try_from(n).map_err(|_| Error::limit(what, "u32 of the device", u32::MAX.into(), n))
        };
        let descriptor = &ask.descriptor;
        let width = usize::try_from(descriptor.stored.bytes()).unwrap_or(8);
        number("elements of an array", ask.pixels.saturating_mul(ask.bands))?;
        number("elements of an output", ask.elements())?;
        let (first_chunk, chunks) = ask.chunks(width);
        let planes_at = align(tables);
        planes.iter().for_each(|plane| plane.put(tables));
        let picks_at = align(tables);
        let (mut chunk_picks, mut picked, mut first_band) = (0, false, 0);
        match &ask.picks {
            Picks::Run { first, .. } => first_band = *first,
            Picks::List(list) => {
                picked = true;
                list.iter().for_each(|pick| pick.put(tables));
                chunk_picks = align(tables);
                for chunk in first_chunk..=first_chunk + chunks {
                    let before = list.partition_point(|pick| u64::from(pick.band) < chunk * chunk_bands(width));
                    tables.extend(number("bands", before as u64)?.to_le_bytes());
                }
            }
        }
        let fixed_at = align(tables);
        let mut top = 0;
        if let Transform::Fixed { bits, scale, offset } = &descriptor.transform {
            tables.extend(scale.iter().chain(offset).flat_map(|v| v.to_le_bytes()));
            top = (1 << (*bits).min(16)) - 1;
        }
        let chunks = number("bands", chunks)?;
        Ok(CubeRow {
            planes: planes_at as u64,
            picks: picks_at as u64,
            chunk_picks: chunk_picks as u64,
            tables: fixed_at as u64,
            out: self.out,
            reserved: reserved_values(descriptor),
            width: number("bytes of an element", width as u64)?,
            stored: descriptor.stored.code().into(),
            decoded: descriptor.decoded.code().into(),
            output: element.code(),
            transform: descriptor.transform.code().into(),
            mode: mode(descriptor, element),
            by_band: descriptor.layout == Layout::BandMajor,
            difference: descriptor.band_difference,
            out_by_band: ask.out_by_band,
            columns: number("columns", ask.columns)?,
            pixels: number("pixels", ask.pixels)?,
            bands: number("bands", ask.bands)?,
            table_bands: number("bands", ask.table_bands)?,
            first_pixel: number("pixels", ask.y * ask.columns + ask.x)?,
            region_rows: number("rows", ask.rows)?,
            region_columns: number("columns", ask.region_columns)?,
            picks_count: number("bands", ask.picks.count())?,
            picked,
            first_band: number("bands", first_band)?,
            first_chunk: number("bands", first_chunk)?,
            chunks,
            chunks_each: if descriptor.band_difference { chunks.max(1) } else { CHUNKS_EACH },
            top,
            row,
        })
    }
}

/// Fails unless the host's decoder takes these types too.
fn check_types(descriptor: &ArrayDescriptor) -> Result<()> {
    let (from, to) = (descriptor.stored, descriptor.decoded);
    let fits = match descriptor.transform {
        Transform::None => from == to || (from, to) == (Dtype::F32, Dtype::F64),
        Transform::F16 => from == Dtype::F16 && to.is_float(),
        Transform::Integer => !from.is_float() && to != Dtype::Bool,
        Transform::Fixed { .. } => matches!(from, Dtype::U8 | Dtype::U16) && matches!(to, Dtype::F32 | Dtype::F64),
        _ => false,
    };
    match fits {
        true => Ok(()),
        false => Err(Error::format("array dtypes", "a pair that the transform allows", format!("{from} for {to}"))),
    }
}

fn mode(descriptor: &ArrayDescriptor, element: ElementType) -> Mode {
    let (from, to) = (descriptor.stored, descriptor.decoded);
    let plain = descriptor.codes.is_empty() && matches!(descriptor.transform, Transform::None | Transform::F16);
    match element {
        ElementType::Dtype(out) if plain && from == to && to == out && from != Dtype::Bool => Mode::Copy,
        ElementType::Dtype(Dtype::F32) if plain && from == Dtype::F16 && to != Dtype::F64 => Mode::Widen,
        _ => Mode::Any,
    }
}

/// What is to be done for a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    upload_bytes: usize,
    slot_bytes: u64,
    cubes: u32,
    streams: (u64, u32),
    pieces: (u64, u32),
    status_at: u64,
    cubes_at: u64,
    units: u32,
    out_bytes: u64,
}

impl Work {
    /// Bytes at the start of the slot that are to be uploaded.
    #[must_use]
    pub const fn upload_bytes(&self) -> usize {
        self.upload_bytes
    }

    /// Bytes that the slot must have on the device: what is uploaded, and scratch behind it.
    #[must_use]
    pub const fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// Cubes of the batch.
    #[must_use]
    pub const fn cubes(&self) -> u32 {
        self.cubes
    }

    /// Bytes that the output must have.
    #[must_use]
    pub const fn out_bytes(&self) -> u64 {
        self.out_bytes
    }

    /// Where in the slot the statuses are once the kernels have run: a word for each cube, see
    /// [`Fault::of`](super::Fault::of). An upload sets them to zero.
    #[must_use]
    pub fn statuses(&self) -> Range<usize> {
        let start = usize::try_from(self.status_at).unwrap_or(usize::MAX);
        start..start.saturating_add(4 * self.cubes as usize)
    }

    /// The kernels to run, in this order, with the slot and the output at these addresses of the
    /// device.
    #[must_use]
    pub fn launches(&self, slot: u64, out: u64) -> [Launch; 3] {
        let status = slot + self.status_at;
        let launch = |kernel, grid, threads, table, count| Launch {
            kernel,
            grid,
            block: [threads, 1, 1],
            params: Params::new().address(slot).address(out).address(status).address(table).u32(count).u32(0),
        };
        let ((streams_at, streams), (pieces_at, pieces)) = (self.streams, self.pieces);
        let values = [self.units.div_ceil(TILE_WARPS), self.cubes, u32::from(self.cubes > 0)];
        [
            launch("cube_streams", [streams.div_ceil(STREAM_WARPS), 1, 1], 32 * STREAM_WARPS, streams_at, streams),
            launch("cube_pieces", [pieces, 1, 1], PIECE_THREADS, pieces_at, pieces),
            launch("cube_values", values, 32 * TILE_WARPS, self.cubes_at, self.units),
        ]
    }
}
