//! What the device needs of one array, found by any thread and copied to wherever there is room.

use super::Staged;
use super::ask::{Ask, Picks};
use super::batch::most_scratch_bytes;
use super::blocks::Blocks;
use super::kept::Kept;
use super::place::{Placer, Room, Tasks, needed_bytes};
use super::wire::{
    BF16, BLOCK_ELEMENTS, CubeRow, Mode, NoData, NoiseRow, PLACE_KEPT, PieceTask, Plane, StreamTask, Walk, Wire,
    chunk_bands,
};
use crate::config::STATUS_BYTES;
use shardpack_array::{Factors, Finish, Region, Units, ZstdDecoder, reserved_values};
use shardpack_augment::Noise;
use shardpack_format::{ArrayDescriptor, Codec, Dtype, ElementType, Error, Layout, Limits, Result, Transform};

/// Chunks of bands that a warp takes where nothing ties one to the next.
const CHUNKS_EACH: u32 = 4;
/// Scratch begins at multiples of this.
const ALIGN: u64 = 256;

/// What the device needs of an array: known, and not copied yet.
pub(crate) struct Needs<'a> {
    payload: Payload<'a>,
    ask: Ask,
    blocks: Blocks,
    staged: Staged,
    factors: Option<&'a Factors>,
    no_data: NoData,
    noise: NoiseRow,
    stored_bytes: usize,
    /// Bytes of a stored element.
    width: usize,
    scratch_bytes: u64,
}

/// What is decoded.
enum Payload<'a> {
    Here(Units<'a>),
    /// On the device, outside of the slot.
    Kept(Kept),
}

/// An array in staging memory: its tables, and the work that it makes. Places are those of the slot
/// but for its own tables, which count from the first of them, and its row, which is 0: they are
/// known when the batch is complete.
pub(crate) struct Entry {
    pub(super) tasks: Tasks,
    pub(super) tables: Vec<u8>,
    pub(super) row: CubeRow,
    /// Where its part of the output ends.
    pub(super) out_end: u64,
}

impl<'a> Needs<'a> {
    /// Looks at an array, as [`Batch::push`](super::Batch::push) says.
    pub(crate) fn of(
        codec: Codec,
        descriptor: &ArrayDescriptor,
        payload: &'a [u8],
        region: Option<&Region>,
        finish: &'a Finish,
        limits: &Limits,
    ) -> Result<Self> {
        let units = Units::walk(codec, descriptor, payload, limits)?;
        Self::asked(Payload::Here(units), descriptor, region, finish, limits)
    }

    /// Looks at an array of which [`keep`](super::keep) has kept this.
    ///
    /// # Errors
    /// As of others.
    pub(crate) fn of_kept(
        kept: &[u8],
        descriptor: &ArrayDescriptor,
        region: Option<&Region>,
        finish: &'a Finish,
        limits: &Limits,
    ) -> Result<Self> {
        let kept = Kept::read(kept).ok_or_else(|| Error::internal("kept array", "what was written", "other bytes"))?;
        // The payload was walked with these limits, as another type perhaps.
        let (most, bytes) = (limits.max_decoded_bytes, descriptor.decoded_bytes()?.max(descriptor.stored_bytes()?));
        if bytes > most {
            return Err(Error::limit("array", "max_decoded_bytes", most, bytes));
        }
        Self::asked(Payload::Kept(kept), descriptor, region, finish, limits)
    }

    fn asked(
        payload: Payload<'a>,
        descriptor: &ArrayDescriptor,
        region: Option<&Region>,
        finish: &'a Finish,
        limits: &Limits,
    ) -> Result<Self> {
        let ask = Ask::new(descriptor, region, finish)?;
        let element = finish.to.of(ask.descriptor.decoded)?;
        check_types(&ask.descriptor)?;
        for (what, elements) in
            [("elements of an array", ask.pixels.saturating_mul(ask.bands)), ("elements of an output", ask.elements())]
        {
            number(what, elements)?;
        }
        let staged =
            Staged { element, shape: ask.shape.clone(), bytes: ask.elements().saturating_mul(element.bytes()) };
        if staged.bytes > limits.max_decoded_bytes {
            return Err(Error::limit("output", "max_decoded_bytes", limits.max_decoded_bytes, staged.bytes));
        }
        let stored = descriptor.stored_bytes()?;
        let (Ok(stored_bytes), Ok(width)) = (usize::try_from(stored), usize::try_from(descriptor.stored.bytes()))
        else {
            return Err(Error::limit("stored array", "bytes of an address", usize::MAX as u64, stored));
        };
        let blocks = Blocks::of(&ask);
        let block_bytes = BLOCK_ELEMENTS as u64 * width as u64;
        let decoded = blocks.count(stored.div_ceil(block_bytes)).saturating_mul(block_bytes).min(stored);
        let scratch_bytes = most_scratch_bytes(decoded, width as u64, 1).next_multiple_of(ALIGN);
        let factors = finish.factors.as_ref();
        let no_data = NoData::of(finish.fill.as_ref(), ask.descriptor.decoded);
        let noise = NoiseRow::NONE;
        Ok(Self { payload, ask, blocks, staged, factors, no_data, noise, stored_bytes, width, scratch_bytes })
    }

    /// With noise that is added to what comes out, but for values that are kept as they are. Of floats of
    /// at most 32 bits.
    pub(crate) fn noisy(self, noise: Option<(Noise, Option<f32>)>) -> Self {
        Self { noise: noise.map_or(NoiseRow::NONE, |(noise, keep)| NoiseRow::of(&noise, keep)), ..self }
    }

    /// What comes out.
    pub(crate) const fn staged(&self) -> &Staged {
        &self.staged
    }

    /// Bytes that are uploaded, besides tables: compressed ones as they are, unless the payload is
    /// in the slot already; of plain zstd, what it had coded.
    pub(crate) fn bytes(&self, is_in_slot: bool) -> usize {
        let Payload::Here(units) = &self.payload else { return 0 };
        match units {
            _ if self.staged.bytes == 0 => 0,
            Units::Raw(_) | Units::Blosc2(_) if is_in_slot => 0,
            _ => needed_bytes(units, &self.blocks, self.stored_bytes, self.width),
        }
    }

    /// Most bytes of scratch that it takes, a multiple of 256.
    pub(crate) const fn scratch_bytes(&self) -> u64 {
        self.scratch_bytes
    }

    /// Copies what the device needs to `to`, which stands at `at` in the slot, unless the payload
    /// is in the slot itself, at `payload_at`. Scratch is taken from `scratch` on, a multiple of
    /// 16; values go to the output from its byte `out` on. Returns how many bytes of `to` it took,
    /// too, and of scratch.
    pub(super) fn stage_in(
        &self,
        (at, to): (usize, &mut [u8]),
        payload_at: Option<u64>,
        scratch: u64,
        out: u64,
        zstd: &mut ZstdDecoder,
    ) -> Result<(Entry, usize, u64)> {
        let element = self.staged.element;
        if !out.is_multiple_of(element.bytes()) {
            return Err(Error::usage("place in the output", format!("a multiple of {}", element.bytes()), out));
        }
        let mut room = Room { free: to, at: at as u64, scratch };
        let mut tasks = Tasks::default();
        let mut placer = Placer {
            room: &mut room,
            tasks: &mut tasks,
            zstd,
            payload_at,
            blocks: &self.blocks,
            width: self.width,
            number: 0,
            planes: Vec::new(),
        };
        // Of an empty region nothing is needed.
        match &self.payload {
            _ if self.staged.bytes == 0 => {}
            Payload::Here(units) => placer.place(units, self.stored_bytes)?,
            Payload::Kept(kept) => placer.place_kept(kept.chunks.as_deref(), self.stored_bytes)?,
        }
        let planes = placer.planes;
        let mut tables = Vec::new();
        let row = self.row(&planes, out, &mut tables)?;
        let taken = usize::try_from(room.at).unwrap_or(usize::MAX).saturating_sub(at);
        let scratch_taken = room.scratch - scratch;
        if scratch_taken > self.scratch_bytes {
            return Err(Error::internal(
                "scratch of an array",
                format!("at most {}", self.scratch_bytes),
                scratch_taken,
            ));
        }
        let out_end = out.saturating_add(self.staged.bytes);
        Ok((Entry { tasks, tables, row, out_end }, taken, scratch_taken))
    }

    /// As `stage_in`, to as many bytes as [`bytes`](Self::bytes) says. A payload that is on the
    /// device is read there.
    pub(crate) fn stage(
        &self,
        to: (usize, &mut [u8]),
        payload_at: Option<u64>,
        scratch: u64,
        out: u64,
        zstd: &mut ZstdDecoder,
    ) -> Result<Entry> {
        let payload_at = match &self.payload {
            Payload::Kept(kept) => Some(PLACE_KEPT | kept.payload),
            Payload::Here(_) => payload_at,
        };
        Ok(self.stage_in(to, payload_at, scratch, out, zstd)?.0)
    }

    /// Its entry, and its own tables, counted from the first of them.
    fn row(&self, planes: &[Plane], out: u64, tables: &mut Vec<u8>) -> Result<CubeRow> {
        let (ask, element) = (&self.ask, self.staged.element);
        let descriptor = &ask.descriptor;
        let width = usize::try_from(descriptor.stored.bytes()).unwrap_or(8);
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
        let (mut factors, mut factor_bands) = (0, 0);
        if let Some(of) = self.factors {
            factors = align(tables);
            factor_bands = number("bands", of.len() as u64)?;
            tables.extend(of.pairs().flat_map(|(scale, bias)| [scale, bias]).flat_map(f32::to_le_bytes));
        }
        let chunks = number("bands", chunks)?;
        Ok(CubeRow {
            planes: planes_at as u64,
            picks: picks_at as u64,
            chunk_picks: chunk_picks as u64,
            tables: fixed_at as u64,
            factors: factors as u64,
            out,
            reserved: reserved_values(descriptor),
            width: number("bytes of an element", width as u64)?,
            stored: descriptor.stored.code().into(),
            decoded: descriptor.decoded.code().into(),
            output: code(element),
            transform: descriptor.transform.code().into(),
            mode: match self.no_data == NoData::NONE {
                true => mode(descriptor, element, self.factors.is_some()),
                false => Mode::Any,
            },
            walk: self.walk(),
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
            steps: ask.steps()?,
            factor_bands,
            picked,
            first_band: number("bands", first_band)?,
            first_chunk: number("bands", first_chunk)?,
            chunks,
            chunks_each: if descriptor.band_difference { chunks.max(1) } else { CHUNKS_EACH },
            top,
            row: 0,
            no_data: self.no_data,
            noise: self.noise,
        })
    }
}

impl Needs<'_> {
    /// Four pixels at a time if they stand side by side, at a multiple of four: then no block ends
    /// among them.
    fn walk(&self) -> Walk {
        let (ask, quads) = (&self.ask, |n: u64| n.is_multiple_of(4));
        let side_by_side = ask.region_columns == ask.columns || (quads(ask.columns) && quads(ask.region_columns));
        let from = ask.y * ask.columns + ask.x;
        match ask.descriptor.layout {
            Layout::BandMajor
                if self.width == 2
                    && matches!(ask.picks, Picks::Run { .. })
                    && side_by_side
                    && [ask.pixels, from, ask.rows * ask.region_columns].into_iter().all(quads) =>
            {
                Walk::Quads
            }
            Layout::BandMajor => Walk::Bands,
            _ => Walk::Pixels,
        }
    }
}

impl Entry {
    /// Bytes that its tables take among those of a batch, at most.
    pub(crate) fn table_bytes(&self) -> usize {
        let Self { tasks, tables, .. } = self;
        let work = tasks.streams.len() * StreamTask::BYTES + tasks.pieces.len() * PieceTask::BYTES;
        tables.len().next_multiple_of(16) + work + CubeRow::BYTES + STATUS_BYTES
    }
}

fn number(what: &'static str, n: u64) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::limit(what, "u32 of the device", u32::MAX.into(), n))
}

/// Fills up to a multiple of 16, and returns the length then.
pub(super) fn align(tables: &mut Vec<u8>) -> usize {
    tables.resize(tables.len().next_multiple_of(16), 0);
    tables.len()
}

fn code(element: ElementType) -> u32 {
    match element {
        ElementType::Dtype(dtype) => dtype.code().into(),
        ElementType::Bf16 => BF16,
    }
}

/// Whether the kernels take an array like this one.
pub(crate) fn takes(codec: Codec, descriptor: &ArrayDescriptor) -> bool {
    matches!(codec, Codec::Raw | Codec::Zstd | Codec::Blosc2) && check_types(descriptor).is_ok()
}

/// Whether the device needs the bytes of an array as they are stored: nothing in them is decoded by
/// the host.
pub(crate) fn is_taken_as_stored(codec: Codec, descriptor: &ArrayDescriptor, payload: &[u8], limits: &Limits) -> bool {
    matches!(Units::walk(codec, descriptor, payload, limits), Ok(Units::Raw(_) | Units::Blosc2(_)))
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

fn mode(descriptor: &ArrayDescriptor, element: ElementType, is_normalised: bool) -> Mode {
    let (from, to) = (descriptor.stored, descriptor.decoded);
    let plain = descriptor.codes.is_empty() && matches!(descriptor.transform, Transform::None | Transform::F16);
    let halves = plain && from == Dtype::F16 && to != Dtype::F64;
    match element {
        ElementType::Dtype(out) if !is_normalised && plain && from == to && to == out && from != Dtype::Bool => {
            Mode::Copy
        }
        ElementType::Dtype(Dtype::F32) if !is_normalised && halves => Mode::Widen,
        ElementType::Bf16 | ElementType::Dtype(Dtype::F16 | Dtype::F32) if halves => Mode::Float,
        _ => Mode::Any,
    }
}
