//! A batch of cubes, made ready by one thread: compressed bytes and tables in one piece of memory,
//! uploaded once.

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

/// Makes batches, one after the other; keeps its memory, and zstd's, for the next one.
#[derive(Default)]
pub struct CubeStager {
    zstd: ZstdDecoder,
    entries: Vec<StagedArray>,
    tables: Vec<u8>,
}

/// A payload to be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Anywhere; what the device needs of it is copied into the slot.
    Bytes(&'a [u8]),
    /// The first bytes of [`CubeBatch::room`], where somebody has put them.
    Staged(usize),
}

/// A batch in the making, in the part of a slot that is uploaded.
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
    /// End of the scratch in use; it begins behind the part that is uploaded.
    scratch: u64,
}

impl CubeStager {
    /// Begins a batch in `slot`, the part of a slot that is uploaded: pinned memory, as a rule. It
    /// must have room for the payloads (of what is coded by zstd: for what it decodes to) and for
    /// the tables, [`CubeStager::table_bytes`] a cube.
    ///
    /// # Errors
    /// `Limit` if the slot is too small for anything.
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

    /// How many bytes of tables a cube takes at most, besides its payload.
    ///
    /// # Errors
    /// `Format` if the shape overflows; `Usage` if the region is not within the array.
    pub fn table_bytes(descriptor: &ArrayDescriptor, region: Option<&Region>) -> Result<u64> {
        let ask = Ask::new(descriptor, region, &Finish::NOTHING)?;
        let width = descriptor.stored.bytes().max(1);
        // Each block: a short or a joined one has a stream, and a piece, for each byte too.
        let blocks = descriptor.stored_bytes()?.div_ceil(BLOCK_ELEMENTS as u64 * width);
        let each = Plane::BYTES + StreamTask::BYTES + PieceTask::BYTES;
        // A pick, the chunk of it, and two factors.
        let picks = ask.picks.count().max(1).saturating_mul(8 + 4 + 8) + 8;
        let fixed = match descriptor.transform {
            Transform::Fixed { .. } => descriptor.bands().saturating_mul(8),
            _ => 0,
        };
        let tables = blocks.saturating_mul(width * each as u64);
        Ok(tables.saturating_add(picks).saturating_add(fixed).saturating_add((CubeRow::BYTES + 5 * ALIGN) as u64))
    }

    /// How many bytes of scratch a cube takes at most, behind the part of a slot that is uploaded.
    ///
    /// # Errors
    /// `Format` if the shape overflows.
    pub fn scratch_bytes(descriptor: &ArrayDescriptor) -> Result<u64> {
        Ok(most_scratch_bytes(descriptor.stored_bytes()?, descriptor.stored.bytes(), 1))
    }
}

impl CubeBatch<'_> {
    /// What is free of the slot: whoever reads a record can put its payload at the start of it, and
    /// hand it over as [`Payload::Staged`].
    #[must_use]
    pub fn room(&mut self) -> &mut [u8] {
        self.slot.get_mut(self.filled..).unwrap_or_default()
    }

    /// Takes a cube, or another array, into the batch. `region` is what comes out of it, by default
    /// all in the order of the shape, and `finish` what becomes of it; `out` is where that begins in
    /// the output of the batch, in bytes.
    ///
    /// All that the host's decoder checks before it decodes is checked here. What is inside of LZ4
    /// streams is checked by the device, which says so in the cube's status. After an error the
    /// batch is what it was before.
    ///
    /// # Errors
    /// `Format` if the payload is damaged, has another length than the array's, or its codec is not
    /// for arrays; `Limit` if the array is over a limit, too large for the device (2³² elements),
    /// or the slot has no room left; `Usage` if the region is not within the array, `out` is not a
    /// multiple of the element size, or as [`Finish::check`].
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
                let (bytes, tail) = free
                    .split_at_mut_checked(len)
                    .ok_or_else(|| Error::usage("staged payload", format!("at most {held} bytes"), len))?;
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

    /// Writes the tables behind the payloads. What is uploaded is complete then.
    ///
    /// # Errors
    /// `Limit` if the slot has no room for them.
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
        // Between the payloads and the tables, for those who look at what they upload.
        slot.get_mut(filled..base).unwrap_or_default().fill(0);
        Ok(work)
    }
}
