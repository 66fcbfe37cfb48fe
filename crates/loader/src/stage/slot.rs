//! The part of a slot that is on a device, and what is put into it.

use super::row_mix::RowMix;
use super::stream::StreamHandle;
use super::ticket::Ticket;
use super::value::RecordValue;
use shardpack_array::ZstdDecoder;
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The part of a slot that is on a device: staging memory and the output of one batch.
pub trait StageSlot: Send + Sync + fmt::Debug {
    /// Where it is.
    fn device(&self) -> DeviceId;

    /// The room that it has, at least.
    fn room(&self) -> SlotRoom;

    /// Begins a batch of so many bytes of output: whatever was prepared before is forgotten.
    /// Nobody else uses the slot. Called with the loader's lock held: it does not wait.
    fn begin(&self, output_bytes: usize);

    /// Takes a value: copies the bytes that the device needs. `zstd` is for those that are to be
    /// decompressed first.
    ///
    /// A value that is damaged is refused: the host says what is wrong with it.
    fn prepare(&self, spot: &Spot, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared;

    /// SlotRoom in the staging memory for a value of `bytes` bytes, as it is stored, cut into parts of
    /// `step` bytes. Several threads read it there, and then it is prepared as it stands, without a
    /// copy ([`StagedRoom::prepare`]). `None` if there is none. Does not wait.
    ///
    /// All that is returned is dropped before the batch is submitted, and before the slot begins
    /// another.
    fn room_for(self: Arc<Self>, spot: &Spot, bytes: usize, step: usize) -> Option<StagedParts> {
        let _ = (spot, bytes, step);
        None
    }

    /// Takes a value that is on the device, by the number that
    /// [`Keeper::keep`](super::Keeper::keep) gave it. `value` says how it is shown, and has no bytes.
    fn prepare_kept(&self, spot: &Spot, number: u64, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared {
        let _ = (spot, value, zstd);
        Prepared::Refused(format!("a value {number} that is not on the device").into())
    }

    /// A row that the host has decoded: all bytes of `spot`.
    ///
    /// # Errors
    /// Whatever keeps it from being kept until the upload; it becomes the error of the row.
    fn put(&self, spot: &Spot, bytes: &[u8]) -> io::Result<()>;

    /// The bytes of `spot` are to be zero, whatever was prepared for it.
    fn clear(&self, spot: &Spot);

    /// All rows are prepared: begins to upload and to decode them. `host` are the first bytes of
    /// the output, the fields that the stage does not take, and is copied before this returns.
    /// Once all is done, or has failed, the stage calls [`Ticket::done`], from any thread, also
    /// before this returns.
    fn submit(self: Arc<Self>, host: &[u8], ticket: Ticket);

    /// Address of the output on the device.
    fn address(&self) -> u64;

    /// A consumer uses the output on this stream of the device: the next batch in this slot waits
    /// for what is in that stream when the batch is given back.
    fn used_on(&self, stream: StreamHandle);

    /// The consumer has given the batch back.
    fn release(&self);

    /// Copies a part of the output to the host, and waits for it.
    ///
    /// # Errors
    /// The device's, or the range is not in the output.
    fn read(&self, from: usize, to: &mut [u8]) -> io::Result<()>;

    /// Copies to a part of the output, and waits for it. Called by a thread of the loader for a
    /// batch that is done, before the consumer gets it.
    ///
    /// # Errors
    /// The device's, or the range is not in the output.
    fn write(&self, to: usize, bytes: &[u8]) -> io::Result<()>;

    /// Mixes rows of a batch that is done, in the output, and waits for it: what
    /// [`RowMix::apply`] does. Called by the consumer's thread, before it gets the batch.
    ///
    /// # Errors
    /// The device's, a range is not in the output, or the stage does not mix.
    fn mix(&self, rows: &[Range<usize>], mix: &RowMix) -> io::Result<()> {
        let _ = (rows, mix);
        Err(io::Error::new(io::ErrorKind::Unsupported, "the device does not mix batches"))
    }
}

/// Room in staging memory for one value.
pub trait StagedRoom: Send + Sync + fmt::Debug {
    /// The bytes of the value; `None` while there are parts.
    fn bytes(&self) -> Option<&[u8]>;

    /// As [`StageSlot::prepare`], of a value whose bytes are [`bytes`](Self::bytes).
    fn prepare(&self, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared;
}

/// A part of a [`StagedRoom`], for one thread.
pub trait StagedPart: Send + fmt::Debug {
    /// Its bytes. What they hold is left from before.
    fn bytes(&mut self) -> &mut [u8];
}

/// SlotRoom that [`StageSlot::room_for`] has found, and its parts in order.
#[derive(Debug)]
pub struct StagedParts {
    /// The room.
    pub room: Box<dyn StagedRoom>,
    /// Its parts.
    pub parts: Vec<Box<dyn StagedPart>>,
}

/// A device, as DLPack names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceId {
    /// The kind: `kDLCUDA` is 2.
    pub kind: i32,
    /// Number of the device of this kind.
    pub number: i32,
}

/// How much a slot can hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotRoom {
    /// Rows of a batch.
    pub rows: usize,
    /// Bytes of all fields.
    pub output_bytes: usize,
    /// Bytes of those fields that the host decodes; they are the first of the output.
    pub host_bytes: usize,
    /// The sum of [`Stage::staged_bytes`](super::Stage::staged_bytes) over the rows of a batch.
    pub staged_bytes: usize,
    /// The sum of [`Stage::between_bytes`](super::Stage::between_bytes).
    pub between_bytes: usize,
}

impl SlotRoom {
    /// Whether what needs `other` fits.
    #[must_use]
    pub const fn holds(&self, other: &Self) -> bool {
        self.rows >= other.rows
            && self.output_bytes >= other.output_bytes
            && self.host_bytes >= other.host_bytes
            && self.staged_bytes >= other.staged_bytes
            && self.between_bytes >= other.between_bytes
    }

    /// More than this, by an eighth: for a batch like the largest so far.
    pub(crate) const fn grown(&self) -> Self {
        const fn more(bytes: usize) -> usize {
            bytes.saturating_add(bytes / 8)
        }
        Self {
            rows: self.rows,
            output_bytes: more(self.output_bytes),
            host_bytes: more(self.host_bytes),
            staged_bytes: more(self.staged_bytes),
            between_bytes: more(self.between_bytes),
        }
    }

    /// Room for both.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Self {
            rows: self.rows.max(other.rows),
            output_bytes: self.output_bytes.max(other.output_bytes),
            host_bytes: self.host_bytes.max(other.host_bytes),
            staged_bytes: self.staged_bytes.max(other.staged_bytes),
            between_bytes: self.between_bytes.max(other.between_bytes),
        }
    }
}

/// A place in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// The row, from 0.
    pub row: u32,
    /// The field, by its number in the batch.
    pub field: u32,
    /// Bytes of the output.
    pub bytes: Range<usize>,
}

/// The answer of a stage to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepared {
    /// The device will decode it. Of a picture: height and width of what it will write.
    Taken(Option<[u32; 2]>),
    /// The host has to, for this reason. Reasons are counted, so they name no sample.
    Refused(Cow<'static, str>),
}
