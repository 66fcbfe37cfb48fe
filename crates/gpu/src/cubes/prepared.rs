//! An array that any thread can prepare, and that can then be copied to any free part of the slot.

use super::affine::AffineRow;
use super::ask::{Ask, Picks};
use super::blocks::Blocks;
use super::kept::{KeptArray, keep};
use super::payload::{KeptPayload, PayloadSource};
use super::place::{Copies, Placer, SlotMemory, Tasks, needed_bytes};
use super::places::BlockPlaces;
use super::scratch::{ALIGN, most_scratch_bytes};
use super::staged::{StagedArray, align};
use super::view::ViewRow;
use super::volume::VolumeRow;
use super::wire::{BF16, BLOCK_ELEMENTS, CubeRow, Mode, NoData, NoiseRow, PLACE_KEPT, ValueWalk, Wire, chunk_bands};
use crate::driver::ArenaPart;
use shardpack_array::{Factors, Finish, Units, ZstdDecoder, reserved_values};
use shardpack_format::{ArrayDescriptor, Codec, Dtype, ElementType, Error, Layout, Result, Transform, bug};
use shardpack_loader::stage::{ArrayPart, ArrayValue, MaskView, RowNoise};

/// Number of chunks of bands per warp. Used if each chunk can be decoded without the previous one.
const CHUNKS_EACH: u32 = 4;
pub(crate) struct PreparedArray<'a> {
    payload: PayloadSource<'a>,
    ask: Ask<'a>,
    blocks: Blocks,
    element: ElementType,
    out_bytes: u64,
    factors: Option<&'a Factors>,
    no_data: NoData,
    noise: NoiseRow,
    gamma: f64,
    affine: AffineRow,
    view: Option<&'a MaskView>,
    volume: Option<VolumeRow<'a>>,
    stored_bytes: usize,
    width: usize,
}

#[derive(Clone, Copy)]
pub(crate) enum AfterDecoding<'a> {
    /// A conversion of the elements, which may also move pixels.
    Finish(&'a Finish),
    /// A view that shows single pixels of the requested region.
    View(&'a MaskView),
}

impl<'a> From<&'a Finish> for AfterDecoding<'a> {
    fn from(finish: &'a Finish) -> Self {
        Self::Finish(finish)
    }
}

impl<'a> From<&'a MaskView> for AfterDecoding<'a> {
    fn from(view: &'a MaskView) -> Self {
        Self::View(view)
    }
}

impl<'a> PreparedArray<'a> {
    /// Prepares an array or its part. `steps` is the conversion or the view that follows decoding.
    ///
    /// Makes the same checks that the host's decoder makes before it decodes. The kernels check the content of
    /// compressed streams.
    ///
    /// # Errors
    /// `Format` if the payload is damaged, its length does not fit the array, or its codec does not support arrays;
    /// `Limit` if the array exceeds a limit or has more than 2³² elements; `Usage` if the part is outside the array, or
    /// for the reasons in [`Finish::check`].
    pub(crate) fn of(array: ArrayValue<'a>, steps: impl Into<AfterDecoding<'a>>) -> Result<Self> {
        let units = Units::walk(array.codec, array.descriptor, array.bytes, array.limits)?;
        Self::asked(PayloadSource::Walked(units, array.bytes), array, steps.into())
    }

    /// Prepares an array from the tables that [`keep`](super::keep) wrote.
    ///
    /// # Errors
    /// Same as [`of`](Self::of).
    pub(crate) fn of_kept(
        kept: &'a [u8],
        payload: KeptPayload<'a>,
        array: ArrayValue<'a>,
        steps: impl Into<AfterDecoding<'a>>,
    ) -> Result<Self> {
        let ArrayValue { descriptor, limits, .. } = array;
        let kept = KeptArray::read(kept).unwrap_or_else(|| bug("the decoding tables of an array were overwritten"));
        if matches!(payload, KeptPayload::Host(bytes) if bytes.len() as u64 != kept.bytes) {
            return Err(Error::usage(format!(
                "the size of the stored array differs from the {} bytes that its decoding tables were made for",
                kept.bytes
            )));
        }
        // The array was parsed under the same limits, but perhaps as a different type.
        let (most, bytes) = (limits.max_decoded_bytes, descriptor.decoded_bytes()?.max(descriptor.stored_bytes()?));
        if bytes > most {
            return Err(Error::limit("array", "max_decoded_bytes", most, bytes));
        }
        Self::asked(PayloadSource::Kept(kept, payload), array, steps.into())
    }

    fn asked(payload: PayloadSource<'a>, array: ArrayValue<'a>, steps: AfterDecoding<'a>) -> Result<Self> {
        let ArrayValue { descriptor, part, limits, .. } = array;
        let (ask, finish, view) = match (steps, part) {
            (AfterDecoding::Finish(finish), _) => (Ask::new(descriptor, part, finish)?, finish, None),
            (AfterDecoding::View(view), Some(ArrayPart::Region(region))) => {
                (Ask::of_view(descriptor, region)?, &Finish::NOTHING, Some(view))
            }
            (AfterDecoding::View(_), _) => bug("a view of a mask has no region"),
        };
        let element = finish.to.of(ask.descriptor.decoded)?;
        let out_elements = view.map_or(ask.elements(), |view| ask.viewed_elements(view));
        check_types(ask.descriptor)?;
        for (what, elements) in [
            ("number of elements in an array", ask.pixels.saturating_mul(ask.bands)),
            ("number of elements in a region", ask.elements()),
            ("number of elements in an output", out_elements),
        ] {
            number(what, elements)?;
        }
        let out_bytes = out_elements.saturating_mul(element.bytes());
        if out_bytes > limits.max_decoded_bytes {
            return Err(Error::limit("output", "max_decoded_bytes", limits.max_decoded_bytes, out_bytes));
        }
        let stored = descriptor.stored_bytes()?;
        let (Ok(stored_bytes), Ok(width)) = (usize::try_from(stored), usize::try_from(descriptor.stored.bytes()))
        else {
            return Err(Error::limit("stored array", "usize::MAX", usize::MAX as u64, stored));
        };
        let voxels = if let Some(ArrayPart::Voxels(voxels)) = part { Some(voxels) } else { None };
        let volume = VolumeRow::of(finish, descriptor, voxels)?;
        let blocks = match &volume {
            Some(volume) => {
                let reach = volume.reach();
                Blocks::of(&Ask::new(descriptor, Some(ArrayPart::Voxels(&reach)), &Finish::NOTHING)?)
            }
            None => Blocks::of(&ask),
        };
        let factors = finish.factors.as_ref();
        let no_data = NoData::of(finish.fill.as_ref(), ask.descriptor.decoded);
        let affine = match view {
            Some(view) => AffineRow::of_view(view.border),
            None => AffineRow::of(finish, element),
        };
        let (noise, gamma) = (NoiseRow::NONE, 0.0);
        Ok(Self {
            payload,
            ask,
            blocks,
            element,
            out_bytes,
            factors,
            no_data,
            noise,
            gamma,
            affine,
            view,
            volume,
            stored_bytes,
            width,
        })
    }

    /// Applies gamma and noise to all output values except those that must not change. The output must be floats of
    /// at most 32 bits.
    pub(crate) fn changed(self, changes: Option<RowNoise>) -> Self {
        let Some(RowNoise { noise, gamma, keep }) = changes else { return self };
        Self { noise: NoiseRow::of(noise.as_ref(), keep), gamma: gamma.map_or(0.0, |gamma| gamma.exponent()), ..self }
    }

    pub(crate) const fn out_bytes(&self) -> u64 {
        self.out_bytes
    }

    pub(crate) const fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// Returns the needed blocks that are not yet placed.
    pub(crate) fn missing(&self, places: &mut BlockPlaces) -> Blocks {
        places.missing(&self.blocks, self.stored_bytes.div_ceil(self.block_bytes()))
    }

    /// Returns the number of bytes to upload for `blocks`, without tables. For parts of plain zstd arrays, these are
    /// the decoded bytes. Otherwise, they are the compressed bytes, or none if the payload is already in the slot.
    pub(crate) fn bytes(&self, blocks: &Blocks, is_in_slot: bool) -> usize {
        match &self.payload {
            _ if self.out_bytes == 0 => 0,
            PayloadSource::Kept(_, KeptPayload::Device(_)) => 0,
            PayloadSource::Walked(Units::Raw(_) | Units::Blosc2(_), _) if is_in_slot => 0,
            PayloadSource::Walked(Units::Zstd(_), _) if is_in_slot && blocks.is_all() => 0,
            payload => needed_bytes(payload, blocks, self.stored_bytes, self.width),
        }
    }

    /// Returns the maximum size in bytes of the scratch memory for `blocks`, a multiple of 256.
    pub(crate) fn scratch_bytes(&self, blocks: &Blocks) -> u64 {
        let (stored, block_bytes) = (self.stored_bytes as u64, self.block_bytes() as u64);
        let decoded = blocks.count(stored.div_ceil(block_bytes)).saturating_mul(block_bytes).min(stored);
        most_scratch_bytes(decoded, self.width as u64, 1).next_multiple_of(ALIGN as u64)
    }

    const fn block_bytes(&self) -> usize {
        BLOCK_ELEMENTS * self.width
    }

    /// Places blocks in `to`, which has [`bytes`](Self::bytes) bytes, unless the payload is on the device or already
    /// in the slot, at `payload_at`. Decoded bytes are placed in scratch memory from `scratch` on, which must be a
    /// multiple of 16. The caller must perform the returned copies.
    pub(crate) fn place<'t>(
        &'t self,
        blocks: &'t Blocks,
        to: ArenaPart<'t>,
        payload_at: Option<u64>,
        scratch: u64,
        zstd: &mut ZstdDecoder,
    ) -> Result<(BlockPlaces, Copies<'t>)> {
        let payload_at = match &self.payload {
            PayloadSource::Kept(kept, KeptPayload::Device(at)) => Some(PLACE_KEPT | (at + kept.payload)),
            PayloadSource::Kept(..) | PayloadSource::Walked(..) => payload_at,
        };
        let mut room = SlotMemory { free: to.bytes, at: to.at as u64, scratch, copies: Vec::new() };
        let mut tasks = Tasks::default();
        let mut placer = Placer {
            room: &mut room,
            tasks: &mut tasks,
            zstd,
            payload_at,
            blocks,
            width: self.width,
            number: 0,
            planes: Vec::new(),
        };
        if self.out_bytes > 0 {
            placer.place(&self.payload, self.stored_bytes)?;
        }
        let places = BlockPlaces::new(placer.planes, tasks);
        if room.scratch - scratch > self.scratch_bytes(blocks) {
            bug("an array takes more scratch than was claimed for it");
        }
        Ok((places, room.copies))
    }

    /// Returns the entry of the array in the batch. Its values start at byte `out` of the output. `places` is
    /// `None` if the blocks are shared with other rows.
    pub(crate) fn entry(&self, places: Option<BlockPlaces>, out: u64) -> Result<StagedArray> {
        let element = self.element;
        if !out.is_multiple_of(element.bytes()) {
            return Err(Error::usage(format!("offset {out} in the output is not a multiple of {}", element.bytes())));
        }
        let mut tables = Vec::new();
        let row = self.row(out, &mut tables)?;
        Ok(StagedArray { places, tables, row })
    }

    /// Places all needed blocks, as [`place`](Self::place) does, and copies them. The kernels will write the values
    /// to the output from byte `out` on.
    pub(crate) fn stage(
        &self,
        to: ArenaPart<'_>,
        payload_at: Option<u64>,
        scratch: u64,
        out: u64,
        zstd: &mut ZstdDecoder,
    ) -> Result<StagedArray> {
        let (places, copies) = self.place(&self.blocks, to, payload_at, scratch, zstd)?;
        copies.into_iter().for_each(|(to, from)| to.copy_from_slice(from));
        self.entry(Some(places), out)
    }

    /// Returns the table row of the array, without the offset of the planes, which is not known yet. Appends the
    /// array's own tables to `tables`. The row refers to them by offsets relative to the first table.
    fn row(&self, out: u64, tables: &mut Vec<u8>) -> Result<CubeRow> {
        let (ask, element) = (&self.ask, self.element);
        let descriptor = ask.descriptor;
        let width = usize::try_from(descriptor.stored.bytes()).unwrap_or(8);
        let (first_chunk, chunks) = ask.chunks(width);
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
                    tables.extend(number("number of bands", before as u64)?.to_le_bytes());
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
            factor_bands = number("number of bands", of.len() as u64)?;
            tables.extend(of.pairs().flat_map(|(scale, bias)| [scale, bias]).flat_map(f32::to_le_bytes));
        }
        let mut view = ViewRow::default();
        if let Some(of) = self.view {
            let side = |side: usize| number("pixels of a view", side as u64);
            let at = align(tables) as u64;
            view = ViewRow {
                at,
                rows: side(of.rows.len())?,
                columns: side(of.columns.len())?,
                moves: side(of.moves.len())?,
            };
            ViewRow::put_table(of, tables);
        }
        if let Some(of) = &self.volume {
            view.at = align(tables) as u64;
            of.put_table(tables)?;
        }
        let chunks = number("number of bands", chunks)?;
        Ok(CubeRow {
            planes: 0,
            picks: picks_at as u64,
            chunk_picks: chunk_picks as u64,
            tables: fixed_at as u64,
            factors: factors as u64,
            out,
            reserved: reserved_values(descriptor),
            width: number("element size in bytes", width as u64)?,
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
            bands: number("number of bands", ask.bands)?,
            table_bands: number("number of bands", ask.table_bands)?,
            first_pixel: number("pixels", ask.y * ask.columns + ask.x)?,
            region_rows: number("number of rows", ask.rows)?,
            region_columns: number("columns", ask.region_columns)?,
            picks_count: number("number of bands", ask.picks.count())?,
            steps: ask.steps()?,
            plane_rows: number("number of rows", ask.plane_rows.max(1))?,
            plane_gap: number("pixels", ask.plane_gap)?,
            factor_bands,
            picked,
            first_band: number("number of bands", first_band)?,
            first_chunk: number("number of bands", first_chunk)?,
            chunks,
            chunks_each: if descriptor.band_difference { chunks.max(1) } else { CHUNKS_EACH },
            top,
            row: 0,
            no_data: self.no_data,
            noise: self.noise,
            gamma: self.gamma,
            affine: self.affine,
            view,
            flat: ask.is_moved && (ask.is_flat || ask.is_box() && !ask.has_planes()),
            boxed: ask.is_moved && ask.is_box(),
            means: self.has_quick_means(),
        })
    }
}

impl PreparedArray<'_> {
    /// Returns true if the faster kernel `cube_means` can process the array. It computes means of four pixels from
    /// elements of two bytes that need no check, and it requires a run of bands.
    fn has_quick_means(&self) -> bool {
        self.affine.makes_means()
            && !self.ask.is_flat
            && !self.ask.is_box()
            && self.width == 2
            && !matches!(self.ask.descriptor.transform, Transform::Fixed { .. })
            && matches!(self.ask.picks, Picks::Run { .. })
    }

    /// Returns the order in which elements are read. The kernels read four pixels at a time if pixels are adjacent
    /// and aligned to four, so that no block ends between them.
    fn walk(&self) -> ValueWalk {
        let (ask, quads) = (&self.ask, |n: u64| n.is_multiple_of(4));
        let side_by_side = ask.region_columns == ask.columns || (quads(ask.columns) && quads(ask.region_columns));
        let from = ask.y * ask.columns + ask.x;
        match ask.descriptor.layout {
            Layout::BandMajor
                if self.width == 2
                    && !ask.is_moved
                    && !ask.has_planes()
                    && matches!(ask.picks, Picks::Run { .. })
                    && side_by_side
                    && [ask.pixels, from, ask.rows * ask.region_columns].into_iter().all(quads) =>
            {
                ValueWalk::Quads
            }
            Layout::BandMajor => ValueWalk::Bands,
            _ => ValueWalk::Pixels,
        }
    }
}

/// Returns the tables of an array, as [`keep`](super::keep) writes them, so that several rows can share them.
/// Returns `None` if the device does not decode the array.
pub(crate) fn known(array: &ArrayValue<'_>) -> Option<Vec<u8>> {
    let ArrayValue { codec, descriptor, bytes, limits, .. } = *array;
    let (units, mut known) = (Units::walk(codec, descriptor, bytes, limits).ok()?, Vec::new());
    keep(&units, bytes, 0, &mut known).ok()?;
    known.shrink_to_fit();
    Some(known)
}

fn number(what: &'static str, n: u64) -> Result<u32> {
    u32::try_from(n).map_err(|_| Error::limit(what, "u32::MAX", u32::MAX.into(), n))
}

fn code(element: ElementType) -> u32 {
    match element {
        ElementType::Dtype(dtype) => dtype.code().into(),
        ElementType::Bf16 => BF16,
    }
}

/// Returns true if the kernels accept arrays with the given codec and element types.
pub(crate) fn takes(codec: Codec, descriptor: &ArrayDescriptor) -> bool {
    matches!(codec, Codec::Raw | Codec::Zstd | Codec::Blosc2) && check_types(descriptor).is_ok()
}

/// Returns true if the device decodes the stored bytes of the array or the part, so that the host decodes nothing.
pub(crate) fn is_taken_as_stored(array: &ArrayValue<'_>) -> bool {
    match Units::walk(array.codec, array.descriptor, array.bytes, array.limits) {
        Ok(Units::Raw(_) | Units::Blosc2(_)) => true,
        Ok(Units::Zstd(_)) => array.part.is_none(),
        Err(_) => false,
    }
}

/// Fails if the host's decoder would reject these types.
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
        false => Err(Error::malformed(format!("the transform of the array cannot decode {from} to {to}"))),
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
