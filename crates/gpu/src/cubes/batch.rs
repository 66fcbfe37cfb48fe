//! A batch of cubes, prepared by one thread: compressed bytes and tables in one piece of memory, uploaded
//! once.

use super::ask::Ask;
use super::place::{CONSTANT_BYTES, write_constants};
use super::prepared::PreparedArray;
use super::scratch::{ALIGN, most_scratch_bytes};
use super::staged::{DecodedArray, StagedArray};
use super::wire::{BLOCK_ELEMENTS, CubeRow, PieceTask, Plane, StreamTask, Wire};
use super::work::{CubeWork, assemble};
use crate::driver::ArenaPart;
use shardpack_array::{Finish, Region, ZstdDecoder};
use shardpack_format::{ArrayDescriptor, Codec, Error, Limits, Result, Transform};

/// Makes batches one after the other. Reuses its memory and the zstd context.
#[derive(Default)]
pub struct CubeStager {
    zstd: ZstdDecoder,
    entries: Vec<StagedArray>,
    tables: Vec<u8>,
}

/// A payload to be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Anywhere in memory; the bytes that the device needs are copied into the slot.
    Bytes(&'a [u8]),
    /// The first bytes of [`CubeBatch::room`], already filled by the caller.
    Staged(usize),
}

/// An unfinished batch, in the part of a slot that is uploaded.
///
/// ```
/// use shardpack_array::{Array, ArrayEncoder, ArrayOptions, As, trial};
/// use shardpack_format::{Dtype, Limits};
/// use shardpack_gpu::kernels::{Payload, CubeStager};
///
/// let cube = Array::new(Dtype::U16, vec![8, 8, 4], (0..512).map(|i| i as u8).collect())?;
/// let encoded = ArrayEncoder::new(trial(&[(&cube, None)], &ArrayOptions::default())?.settings)?.encode(&cube, None)?;
///
/// let (mut stager, mut slot) = (CubeStager::default(), vec![0; 16 << 10]);
/// let mut batch = stager.begin(&mut slot)?;
/// let payload = Payload::Bytes(&encoded.payload);
/// let staged = batch.push(encoded.codec, &encoded.descriptor, payload, None, &As::F32.into(), 0, &Limits::default())?;
/// assert_eq!((staged.shape, staged.bytes), (vec![8, 8, 4], 1024));
/// let work = batch.finish()?;
/// assert!(work.upload_bytes() > encoded.payload.len() && work.cubes() == 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct CubeBatch<'a> {
    stager: &'a mut CubeStager,
    slot: &'a mut [u8],
    /// Bytes in use.
    filled: usize,
    /// End of the used scratch, which begins after the uploaded part.
    scratch: u64,
}

impl CubeStager {
    /// Begins a batch in `slot`, the part of a slot that is uploaded: normally pinned memory. It must have
    /// room for the payloads (decoded, if they are plain zstd) and for the tables,
    /// [`CubeStager::table_bytes`] per cube.
    ///
    /// # Errors
    /// `Limit` if the slot is too small for any batch.
    pub fn begin<'a>(&'a mut self, slot: &'a mut [u8]) -> Result<CubeBatch<'a>> {
        self.entries.clear();
        self.tables.clear();
        let held = slot.len();
        let Some((constants, _)) = slot.split_at_mut_checked(CONSTANT_BYTES) else {
            return Err(Error::limit("slot", "bytes of the slot", held as u64, CONSTANT_BYTES as u64));
        };
        write_constants(constants);
        let scratch = held.next_multiple_of(ALIGN) as u64;
        Ok(CubeBatch { stager: self, slot, filled: CONSTANT_BYTES, scratch })
    }

    /// Returns the most bytes of tables for a cube, besides its payload.
    ///
    /// # Errors
    /// `Format` if the shape overflows; `Usage` if the region is not within the array.
    pub fn table_bytes(descriptor: &ArrayDescriptor, region: Option<&Region>) -> Result<u64> {
        let ask = Ask::new(descriptor, region, &Finish::NOTHING)?;
        let width = descriptor.stored.bytes().max(1);
        // Blocks: a short or a joined block also has a stream, and a piece, for each byte.
        let blocks = descriptor.stored_bytes()?.div_ceil(BLOCK_ELEMENTS as u64 * width);
        let each = Plane::BYTES + StreamTask::BYTES + PieceTask::BYTES;
        // For each pick: the pick, its chunk, and two factors.
        let picks = ask.picks.count().max(1).saturating_mul(8 + 4 + 8) + 8;
        let fixed = match descriptor.transform {
            Transform::Fixed { .. } => descriptor.bands().saturating_mul(8),
            _ => 0,
        };
        let tables = blocks.saturating_mul(width * each as u64);
        Ok(tables.saturating_add(picks).saturating_add(fixed).saturating_add((CubeRow::BYTES + 5 * ALIGN) as u64))
    }

    /// Returns the most bytes of scratch for a cube, after the uploaded part of a slot.
    ///
    /// # Errors
    /// `Format` if the shape overflows.
    pub fn scratch_bytes(descriptor: &ArrayDescriptor) -> Result<u64> {
        Ok(most_scratch_bytes(descriptor.stored_bytes()?, descriptor.stored.bytes(), 1))
    }
}

impl CubeBatch<'_> {
    /// Returns the free part of the slot. A reader of records can put a payload at its start, and push it as
    /// [`Payload::Staged`].
    #[must_use]
    pub fn room(&mut self) -> &mut [u8] {
        self.slot.get_mut(self.filled..).unwrap_or_default()
    }

    /// Adds a cube, or another array, to the batch. `region` is the requested part, by default the whole
    /// array in the order of its shape. `finish` is the conversion of its elements. `out` is the byte offset
    /// of the values in the batch's output.
    ///
    /// Makes all checks that the host's decoder makes before decoding. The device checks the content of LZ4
    /// streams and reports damage in the cube's status. An error does not change the batch.
    ///
    /// # Errors
    /// `Format` if the payload is damaged, its length does not fit the array, or its codec is not for arrays;
    /// `Limit` if the array is over a limit, too large for the device (2³² elements), or the slot has no room
    /// left; `Usage` if the region is not within the array, `out` is not a multiple of the element size, or
    /// as [`Finish::check`].
    #[expect(clippy::too_many_arguments, reason = "one thing each")]
    pub fn push(
        &mut self,
        codec: Codec,
        descriptor: &ArrayDescriptor,
        payload: Payload<'_>,
        region: Option<&Region>,
        finish: &Finish,
        out: u64,
        limits: &Limits,
    ) -> Result<DecodedArray> {
        let (_, free) = self.slot.split_at_mut_checked(self.filled).unwrap_or_default();
        let (bytes, payload_at, tail) = match payload {
            Payload::Bytes(bytes) => (bytes, None, free),
            Payload::Staged(len) => {
                let held = free.len();
                let (bytes, tail) = free.split_at_mut_checked(len).ok_or_else(|| {
                    Error::usage(format!("staged payload: expected at most {held} bytes, found {len}"))
                })?;
                (&*bytes, Some(self.filled as u64), tail)
            }
        };
        let at = self.filled + payload_at.map_or(0, |_| bytes.len());
        let needs = PreparedArray::of(codec, descriptor, bytes, region, finish, limits)?;
        let (entry, taken, scratch) =
            needs.stage_in(ArenaPart { at, bytes: tail }, payload_at, self.scratch, out, &mut self.stager.zstd)?;
        (self.filled, self.scratch) = (at + taken, self.scratch + scratch);
        self.stager.entries.push(entry);
        Ok(needs.staged().clone())
    }

    /// Writes the tables after the payloads, which completes the upload.
    ///
    /// # Errors
    /// `Limit` if the slot has no room for the tables.
    pub fn finish(self) -> Result<CubeWork> {
        let Self { stager: CubeStager { entries, tables, .. }, slot, filled, scratch } = self;
        let base = filled.next_multiple_of(ALIGN);
        let own: Vec<_> = entries.iter().map(|entry| (entry, None)).collect();
        let work = assemble(&own, &[], base, scratch, tables)?;
        let held = slot.len();
        match slot.get_mut(base..work.upload_bytes()) {
            Some(to) => to.copy_from_slice(tables),
            None => {
                let found = work.upload_bytes() as u64;
                return Err(Error::limit("tables in a slot", "bytes of the slot", held as u64, found));
            }
        }
        // Clears the gap between the payloads and the tables, for tools that inspect the upload.
        slot.get_mut(filled..base).unwrap_or_default().fill(0);
        Ok(work)
    }
}
