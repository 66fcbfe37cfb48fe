//! Collects the rows of a batch in staging memory, on their way to the device.

use super::assembled::Assembled;
use super::noted::noted;
use super::prepared_row::{HostBytes, PreparedRow};
use super::scenes::Scenes;
use super::sharing::{Identity, Sharing};
use super::stored_array::{KeptValue, Refusal, ValueBytes, check_fits, prepared, refusal};
use crate::cubes::{self, KeptPayload, PreparedArray, StagedArray};
use crate::driver::{Arena, ArenaPart, Block, GpuError, Loan, LoanPart};
use crate::gather::{Gather, Piece};
use crate::pictures::{
    self, Destination, Output, PreparedPicture, Reason, Samples, Shown, StagedLevels, StagedPicture, StagingOptions,
    Totals,
};
use shardpack_array::ZstdDecoder;
use shardpack_format::{Limits, Note};
use shardpack_loader::stage::{DeviceArray, PictureElements, Prepared, RecordValue, Spot, StageFailure};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const FIXED_BYTES: usize = Totals::GAPS + cubes::GAPS + Gather::GAP + StagedLevels::GAP + 256;

#[derive(Debug)]
pub(crate) struct Staging<M> {
    /// Staging memory. Threads that prepare rows share it. Beginning or ending a batch locks it exclusively.
    arena: RwLock<Arena<M>>,
    rows: Mutex<BatchRows>,
    sharing: Sharing,
    scenes: Option<Arc<dyn Scenes>>,
    /// Offset in the slot of the first free byte after the upload. The scratch memory of cubes and the copies on the
    /// device use the bytes from there on.
    scratch: AtomicU64,
    /// Bytes of staging memory that are reserved for fields that the host decodes.
    host_bytes: usize,
    /// Error of the device, if it failed while it was using the staging memory.
    lost: Mutex<Option<GpuError>>,
}

/// Prepared rows, sorted so that the batch does not depend on the order in which threads prepared them.
#[derive(Default)]
struct BatchRows {
    output_bytes: usize,
    prepared: BTreeMap<(u32, u32), (Spot, PreparedRow)>,
    totals: Totals,
    cubes: usize,
}

impl std::fmt::Debug for BatchRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchRows").field("prepared", &self.prepared.len()).finish_non_exhaustive()
    }
}

const FULL: Refusal = Cow::Borrowed("no room left in the staging memory");

impl<M: Block> Staging<M> {
    /// Creates a [`Staging`] in `memory`, with `host_bytes` bytes for fields that the host decodes.
    pub(crate) fn new(memory: M, host_bytes: usize) -> Result<Self, GpuError> {
        let fill = Self {
            arena: RwLock::new(Arena::new(memory)?),
            rows: Mutex::default(),
            sharing: Sharing::default(),
            scenes: None,
            scratch: AtomicU64::new(0),
            host_bytes,
            lost: Mutex::default(),
        };
        fill.begin(0);
        Ok(fill)
    }

    pub(super) fn with_scenes(self, scenes: Option<Arc<dyn Scenes>>) -> Self {
        Self { scenes, ..self }
    }

    /// Returns the size in bytes of the staging memory for `rows` rows with `staged_bytes` bytes in total.
    pub(crate) const fn memory_bytes(rows: usize, staged_bytes: usize, host_bytes: usize) -> usize {
        // Claims begin at multiples of 16.
        let gaps = FIXED_BYTES + cubes::CONSTANT_BYTES + 32 * rows + 64;
        staged_bytes.saturating_add(host_bytes).saturating_add(gaps)
    }

    pub(crate) fn begin(&self, output_bytes: usize) {
        let mut arena = self.alone();
        // If the device has failed, nothing can be claimed. All rows are then rejected, and `assemble` returns the
        // driver's error.
        *self.lost() = arena.reset().err();
        if let Some(constants) = arena.claim(cubes::CONSTANT_BYTES) {
            cubes::write_constants(constants.bytes);
        }
        _ = arena.reserve(FIXED_BYTES + self.host_bytes);
        self.scratch.store(scratch_start(&arena), Ordering::Relaxed);
        *self.rows() = BatchRows { output_bytes, ..BatchRows::default() };
        drop(self.sharing.take());
    }

    /// Prepares a value, or returns the reason why it is left to the host.
    pub(crate) fn prepare(&self, spot: &Spot, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared {
        self.take(spot, value, ValueBytes::Here, zstd).map_or_else(Prepared::Refused, Prepared::Taken)
    }

    /// Prepares a value that is kept on the device, from its number and its tables.
    pub(super) fn prepare_kept(
        &self,
        spot: &Spot,
        kept: KeptValue<'_>,
        value: &RecordValue<'_>,
        zstd: &mut ZstdDecoder,
    ) -> Prepared {
        self.take(spot, value, ValueBytes::Kept(kept), zstd).map_or_else(Prepared::Refused, Prepared::Taken)
    }

    /// Lends `bytes` bytes for a value, in parts of `step` bytes.
    pub(crate) fn lend(&self, spot: &Spot, bytes: usize, step: usize) -> Option<(Loan<M>, Vec<LoanPart<M>>)> {
        if self.has(spot) { self.shared().lend(bytes, step) } else { None }
    }

    /// Prepares an array whose bytes are already in a loan of the staging memory, without copying them. Returns the
    /// reason if the array is left to the host.
    pub(crate) fn prepare_there(
        &self,
        spot: &Spot,
        value: &RecordValue<'_>,
        loan: &Loan<M>,
        zstd: &mut ZstdDecoder,
    ) -> Prepared {
        self.take(spot, value, ValueBytes::There(loan), zstd).map_or_else(Prepared::Refused, Prepared::Taken)
    }

    fn take(
        &self,
        spot: &Spot,
        value: &RecordValue<'_>,
        stored: ValueBytes<'_, M>,
        zstd: &mut ZstdDecoder,
    ) -> Result<Option<[u32; 2]>, Refusal> {
        if !self.has(spot) {
            return Err("row outside the batch".into());
        }
        match *value {
            RecordValue::Picture { picture, how, crops, changes, dtype, scaling, limits, clip } => {
                let dtype = pictures::PixelType::of(dtype).ok_or("device does not support this output dtype")?;
                let output = Output { dtype, layout: how.layout, scaling: *scaling, planes_between: 0 };
                let options = StagingOptions { output, ..staging_options(limits) };
                let first = crops.map(|crops| (crops.first_field, spot.row));
                let own = Shown { how, changes, crops: None };
                if let Some(first) = first.filter(|&(field, _)| field != spot.field)
                    && let Some(samples) = self.samples(first)
                    && let Some(needs) = PreparedPicture::of_samples(&samples, &own, &options).map_err(reason)?
                {
                    return self.pictures(spot, vec![needs], first).map(Some);
                }
                let is_first = first.is_some_and(|(field, _)| field == spot.field);
                let how = Shown { crops: crops.filter(|_| is_first).map(|crops| crops.all), ..own };
                let kept = if let ValueBytes::Kept(kept) = stored { Some(kept.tables) } else { None };
                let needs = match (clip, kept) {
                    (None, None) => PreparedPicture::of(&picture, &how, &options).map(|needs| vec![needs]),
                    (None, Some(kept)) => PreparedPicture::of_kept(kept, &how, &options).map(|needs| vec![needs]),
                    (Some(clip), None) => PreparedPicture::of_clip(&picture, clip, &how, &options),
                    (Some(clip), Some(kept)) => PreparedPicture::of_kept_clip(kept, clip, &how, &options),
                };
                self.pictures(spot, needs.map_err(reason)?, (spot.field, spot.row)).map(Some)
            }
            RecordValue::Array { array, finish, noise, memo: _ } => {
                let known = noted(value, self.scenes.as_ref());
                let known = known.and_then(|(id, note)| Some((id, note.tables.as_deref()?, &note.on_device)));
                let shared = match (&stored, known) {
                    (ValueBytes::Kept(kept), _) => Some((Identity::Kept(kept.number), None)),
                    (ValueBytes::Here, Some((id, _, scene))) => Some((Identity::Read(id), scene.as_ref())),
                    _ => None,
                };
                let (needs, at) = match (&stored, known) {
                    (ValueBytes::Here, Some((_, known, scene))) => {
                        let at = scene.as_ref().map(|scene| KeptPayload::Device(scene.at()));
                        let payload = at.unwrap_or(KeptPayload::Host(array.bytes));
                        let needs = PreparedArray::of_kept(known, payload, array, finish);
                        (needs.map_err(refusal)?, None)
                    }
                    _ => prepared(array, finish, &stored)?,
                };
                let needs = needs.changed(noise);
                check_fits(&needs, spot)?;
                match shared.filter(|_| array.part.is_some() && needs.out_bytes() > 0) {
                    Some((identity, scene)) => self.part(spot, &needs, identity, scene, zstd).map(|()| None),
                    None => self.cube(spot, &needs, at, zstd).map(|()| None),
                }
            }
            RecordValue::Mask { array, view } => {
                let (needs, at) = prepared(array, view, &stored)?;
                check_fits(&needs, spot)?;
                self.cube(spot, &needs, at, zstd)?;
                Ok(Some([view.rows.len(), view.columns.len()].map(shardpack_format::saturating_u32)))
            }
        }
    }

    /// Returns the samples of a picture if several crops of its row use them.
    fn samples(&self, first: (u32, u32)) -> Option<Samples> {
        match self.rows().prepared.get(&first)? {
            (_, PreparedRow::Pictures(entries, _)) => entries.first().and_then(StagedPicture::samples),
            _ => None,
        }
    }

    /// Stages the picture of a row, or all frames of a clip. `samples_of` is the field and the row of the picture
    /// that provides the samples.
    fn pictures(
        &self,
        spot: &Spot,
        needs: Vec<PreparedPicture<'_>>,
        samples_of: (u32, u32),
    ) -> Result<[u32; 2], Refusal> {
        let Some(first) = needs.first() else { return Err("clip without frames".into()) };
        let (size, width) = (first.size(), first.output().dtype.bytes());
        let out_bytes = needs.iter().fold(0_u64, |sum, needs| sum.saturating_add(needs.out_bytes()));
        if needs.iter().any(|needs| needs.size() != size) {
            return Err("frames of a clip differ in size".into());
        }
        if out_bytes != spot.bytes.len() as u64 || !spot.bytes.start.is_multiple_of(width) {
            return Err("value has another size than its row in the batch".into());
        }
        let step = first.frame_step();
        let (bytes, table_bytes) = needs
            .iter()
            .fold((0, 0), |(bytes, tables), needs| (bytes + needs.bytes(), tables + needs.totals().table_bytes()));
        let arena = self.shared();
        let claim = claim(&arena, bytes, table_bytes)?;
        let (mut at, mut rest, mut out) = (claim.at, claim.bytes, (spot.bytes.start / width) as u64);
        let (mut entries, mut totals) = (Vec::with_capacity(needs.len()), Totals::default());
        for needs in needs {
            let gathered = self.scratch.fetch_add(needs.gathered_bytes().next_multiple_of(256), Ordering::Relaxed);
            let (bytes, after) = rest.split_at_mut_checked(needs.bytes()).ok_or(FULL)?;
            let entry = needs.stage(Destination { at, bytes, gathered, out }).map_err(reason)?;
            if !arena.reserve(entry.pieces().len() * Piece::BYTES) {
                return Err(FULL);
            }
            totals = totals.and(&entry.totals()).ok_or(FULL)?;
            (at, rest, out) = (at + bytes.len(), after, out + step);
            entries.push(entry);
        }
        let mut rows = self.rows();
        rows.totals = rows.totals.and(&totals).ok_or(FULL)?;
        rows.set(spot, PreparedRow::Pictures(entries, samples_of));
        Ok(size)
    }

    /// Stages an array that shares no blocks. `payload_at` is the offset of a payload that is already in the staging
    /// memory.
    fn cube(
        &self,
        spot: &Spot,
        needs: &PreparedArray<'_>,
        payload_at: Option<usize>,
        zstd: &mut ZstdDecoder,
    ) -> Result<(), Refusal> {
        let arena = self.shared();
        let claim = claim(&arena, needs.bytes(needs.blocks(), payload_at.is_some()), 0)?;
        let scratch = self.scratch.fetch_add(needs.scratch_bytes(needs.blocks()), Ordering::Relaxed);
        let (payload_at, out) = (payload_at.map(|at| at as u64), spot.bytes.start as u64);
        let entry = needs.stage(claim, payload_at, scratch, out, zstd).map_err(refusal)?;
        self.set_cube(spot, &arena, entry, None)
    }

    /// Stages an array that shares blocks with other rows. Places only the blocks that no other row has placed.
    fn part(
        &self,
        spot: &Spot,
        needs: &PreparedArray<'_>,
        identity: Identity,
        scene: Option<&Arc<dyn DeviceArray>>,
        zstd: &mut ZstdDecoder,
    ) -> Result<(), Refusal> {
        let arena = self.shared();
        let array = self.sharing.of(identity, scene);
        let mut places = array.places.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = needs.missing(&mut places);
        if !missing.is_empty() {
            let claim = claim(&arena, needs.bytes(&missing, false), 0)?;
            let scratch = self.scratch.fetch_add(needs.scratch_bytes(&missing), Ordering::Relaxed);
            let (more, copies) = needs.place(&missing, claim, None, scratch, zstd).map_err(refusal)?;
            let planes = if places.is_empty() { more.plane_bytes() } else { 0 };
            if !arena.reserve(more.task_bytes() + planes) {
                return Err(FULL);
            }
            // From here on, other rows rely on these blocks, even if this row fails. The batch cannot be completed
            // before the blocks are copied.
            places.add(&missing, more);
            drop(places);
            copies.into_iter().for_each(|(to, from)| to.copy_from_slice(from));
        } else {
            drop(places);
        }
        let entry = needs.entry(None, spot.bytes.start as u64).map_err(refusal)?;
        self.set_cube(spot, &arena, entry, Some(identity))
    }

    fn set_cube(
        &self,
        spot: &Spot,
        arena: &Arena<M>,
        entry: StagedArray,
        shared: Option<Identity>,
    ) -> Result<(), Refusal> {
        if !arena.reserve(entry.table_bytes()) {
            return Err(FULL);
        }
        let mut rows = self.rows();
        if rows.cubes == cubes::MOST_CUBES {
            return Err("batch has too many arrays for one launch".into());
        }
        rows.cubes += 1;
        rows.set(spot, PreparedRow::Cube(Box::new(entry), shared));
        Ok(())
    }

    /// Stores a row that the host decoded.
    pub(super) fn put(&self, spot: &Spot, bytes: &[u8]) -> io::Result<()> {
        if !self.has(spot) || bytes.len() != spot.bytes.len() {
            let (size, start, end) = (bytes.len(), spot.bytes.start, spot.bytes.end);
            let text = format!("a row of {size} bytes cannot be stored at bytes {start} to {end} of the batch");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let kept = HostBytes::copy(&self.shared(), bytes);
        self.rows().set(spot, PreparedRow::Host(kept));
        Ok(())
    }

    /// Stores a picture whose levels `fill` writes into the staging memory. If that memory is full, converts the
    /// levels on the host instead.
    pub(super) fn put_levels(
        &self,
        spot: &Spot,
        elements: &PictureElements,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        let count = elements.levels(spot.bytes.len());
        let arena = self.shared();
        let Some((staged, levels)) = self.claim_levels(&arena, spot, elements, count) else {
            drop(arena);
            let mut levels = vec![0; count];
            return if fill(&mut levels) { self.put(spot, &elements.of(&levels)?) } else { Ok(()) };
        };
        if fill(levels.bytes) {
            self.rows().set(spot, PreparedRow::Levels(staged));
        }
        Ok(())
    }

    fn claim_levels<'a>(
        &self,
        arena: &'a Arena<M>,
        spot: &Spot,
        elements: &PictureElements,
        count: usize,
    ) -> Option<(StagedLevels, ArenaPart<'a>)> {
        let PictureElements { dtype, layout, scaling } = *elements;
        let output = Output { dtype: pictures::PixelType::of(dtype)?, layout, scaling, planes_between: 0 };
        let width = output.dtype.bytes();
        if !self.has(spot) || !spot.bytes.len().is_multiple_of(width) || !spot.bytes.start.is_multiple_of(width) {
            return None;
        }
        let levels = claim(arena, count, StagedLevels::TABLE_BYTES).ok()?;
        let number = |bytes: usize| u32::try_from(bytes).ok();
        let out = (spot.bytes.start / width) as u64;
        Some((StagedLevels { at: number(levels.at)?, count: number(count)?, output, out }, levels))
    }

    pub(super) fn clear(&self, spot: &Spot) {
        if self.has(spot) {
            self.rows().set(spot, PreparedRow::Zero);
        }
    }

    /// Writes the tables after all rows are prepared. Returns the batch together with the staging memory.
    /// `host` holds the first bytes of the output. No more rows can be prepared before the next
    /// [`begin`](Self::begin).
    ///
    /// # Errors
    /// `Device` if the device failed while it was using the staging memory; `Batch` if this batch is too large.
    pub(crate) fn assemble(&self, host: &[u8]) -> Result<(Assembled, Upload<'_, M>), StageFailure> {
        if let Some(error) = &*self.lost() {
            return Err(StageFailure::Device(error.to_string().into()));
        }
        let mut arena = self.alone();
        arena.release();
        let host = HostBytes::copy(&arena, host);
        let prepared = std::mem::take(&mut self.rows().prepared);
        let scratch = scratch_start(&arena)..self.scratch.load(Ordering::Relaxed);
        let assembled = Assembled::new(prepared.into_values(), self.sharing.take(), host, arena.used(), scratch);
        let (assembled, tables) = assembled.map_err(|text| StageFailure::Batch(text.into()))?;
        let full = || StageFailure::Batch(Note::new("no room left for tables in the staging memory"));
        let to = arena.claim(tables.len()).ok_or_else(full)?;
        to.bytes.copy_from_slice(&tables);
        Ok((assembled, Upload(arena)))
    }

    /// Returns the staging memory, for another upload of the assembled batch.
    pub(super) fn upload(&self) -> Upload<'_, M> {
        Upload(self.alone())
    }

    fn has(&self, spot: &Spot) -> bool {
        spot.bytes.start <= spot.bytes.end && spot.bytes.end <= self.rows().output_bytes
    }

    fn rows(&self) -> MutexGuard<'_, BatchRows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self) -> MutexGuard<'_, Option<GpuError>> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shared(&self) -> RwLockReadGuard<'_, Arena<M>> {
        self.arena.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, Arena<M>> {
        self.arena.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BatchRows {
    fn set(&mut self, spot: &Spot, row: PreparedRow) {
        self.prepared.insert((spot.field, spot.row), (spot.clone(), row));
    }
}

pub(crate) struct Upload<'a, M>(RwLockWriteGuard<'a, Arena<M>>);

impl<M: Block> Upload<'_, M> {
    /// Returns the staging memory itself.
    ///
    /// # Errors
    /// `Lent` if threads are still filling the memory.
    pub(crate) fn memory(&mut self) -> Result<&mut M, GpuError> {
        self.0.memory()
    }
}

pub(super) fn staging_options(limits: &Limits) -> StagingOptions {
    StagingOptions { max_bytes: limits.max_decoded_bytes, ..StagingOptions::default() }
}

/// Returns the offset of the scratch memory, which starts after the largest possible upload.
fn scratch_start<M: Block>(arena: &Arena<M>) -> u64 {
    arena.size().next_multiple_of(256) as u64
}

fn claim<M: Block>(arena: &Arena<M>, bytes: usize, table_bytes: usize) -> Result<ArenaPart<'_>, Refusal> {
    if !arena.reserve(table_bytes) {
        return Err(FULL);
    }
    arena.claim(bytes).ok_or(FULL)
}

/// Returns the reason as text. Omits the details of single pictures, so that equal reasons can be counted.
fn reason(reason: Reason) -> Refusal {
    match reason {
        Reason::View(_) => "view does not fit the picture".into(),
        other => other.to_string().into(),
    }
}
