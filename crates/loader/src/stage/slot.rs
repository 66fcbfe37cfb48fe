//! The part of a slot on a device, and its content.

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

/// The part of a slot on a device: staging memory and the output of one batch.
pub trait StageSlot: Send + Sync + fmt::Debug {
    /// The device.
    fn device(&self) -> DeviceId;

    /// Least room of the slot.
    fn room(&self) -> SlotRoom;

    /// Begins a batch with `output_bytes` of output; discards everything prepared before. The slot has
    /// no other user. Called under the loader's lock, so it must not wait.
    fn begin(&self, output_bytes: usize);

    /// Accepts a value: copies the bytes that the device needs. `zstd` decompresses values that must be
    /// decompressed first.
    ///
    /// A damaged value is refused, and the host reports the damage.
    fn prepare(&self, spot: &Spot, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared;

    /// Room in the staging memory for a stored value of `bytes` bytes, cut into parts of `step` bytes.
    /// Several threads read the value into it, and then it is prepared in place, without a copy
    /// ([`StagedRoom::prepare`]). `None` if there is not enough room. Must not wait.
    ///
    /// The returned parts are all dropped before the batch is submitted, and before the slot begins
    /// another.
    fn room_for(self: Arc<Self>, spot: &Spot, bytes: usize, step: usize) -> Option<StagedParts> {
        let _ = (spot, bytes, step);
        None
    }

    /// Accepts a value that is on the device, by its number from [`Keeper::keep`](super::Keeper::keep).
    /// `value` gives its rendering, and has no bytes.
    fn prepare_kept(&self, spot: &Spot, number: u64, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared {
        let _ = (spot, value, zstd);
        Prepared::Refused(format!("value {number} is not on the device").into())
    }

    /// Accepts a row that the host has decoded: all bytes of `spot`.
    ///
    /// # Errors
    /// Any reason why the bytes cannot be kept until the upload; it becomes the error of the row.
    fn put(&self, spot: &Spot, bytes: &[u8]) -> io::Result<()>;

    /// Makes the bytes of `spot` zero, whatever was prepared for it.
    fn clear(&self, spot: &Spot);

    /// Starts to upload and decode the rows, which are all prepared. `host` are the first bytes of the
    /// output, the fields that the stage does not accept; they are copied before this returns. When
    /// everything is done, or has failed, the stage calls [`Ticket::done`], from any thread, possibly
    /// before this returns.
    fn submit(self: Arc<Self>, host: &[u8], ticket: Ticket);

    /// Address of the output on the device.
    fn address(&self) -> u64;

    /// Records that a consumer uses the output on this stream of the device: the next batch in this
    /// slot waits for the work in that stream at the time when the batch is released.
    fn used_on(&self, stream: StreamHandle);

    /// Records that the consumer has released the batch.
    fn release(&self);

    /// Copies a part of the output to the host, and waits for it.
    ///
    /// # Errors
    /// An error if the device fails or the range is outside the output.
    fn read(&self, from: usize, to: &mut [u8]) -> io::Result<()>;

    /// Copies to a part of the output, and waits for the copy. Called by a thread of the loader for a
    /// batch that is done, before the consumer gets it.
    ///
    /// # Errors
    /// An error if the device fails or the range is outside the output.
    fn write(&self, to: usize, bytes: &[u8]) -> io::Result<()>;

    /// Mixes rows of a finished batch, in the output, and waits for completion; equal to
    /// [`RowMix::apply`]. Called by the consumer's thread, before it gets the batch.
    ///
    /// # Errors
    /// An error if the device fails, the range is outside the output, or the stage cannot mix.
    fn mix(&self, rows: &[Range<usize>], mix: &RowMix) -> io::Result<()> {
        let _ = (rows, mix);
        Err(io::Error::new(io::ErrorKind::Unsupported, "the device does not mix batches"))
    }
}

/// Room in staging memory for one value.
pub trait StagedRoom: Send + Sync + fmt::Debug {
    /// The bytes of the value; `None` while parts exist.
    fn bytes(&self) -> Option<&[u8]>;

    /// Same as [`StageSlot::prepare`], for a value whose bytes are [`bytes`](Self::bytes).
    fn prepare(&self, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared;
}

/// A part of a [`StagedRoom`], for one thread.
pub trait StagedPart: Send + fmt::Debug {
    /// The bytes of the part. Their initial content is unspecified.
    fn bytes(&mut self) -> &mut [u8];
}

/// Room from [`StageSlot::room_for`], and its parts in order.
#[derive(Debug)]
pub struct StagedParts {
    /// The room.
    pub room: Box<dyn StagedRoom>,
    /// Its parts.
    pub parts: Vec<Box<dyn StagedPart>>,
}

/// A device, with the numbers of DLPack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceId {
    /// The kind: `kDLCUDA` is 2.
    pub kind: i32,
    /// Index of the device among those of its kind.
    pub number: i32,
}

/// Capacity of a slot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotRoom {
    /// Rows of a batch.
    pub rows: usize,
    /// Bytes of all fields.
    pub output_bytes: usize,
    /// Bytes of the fields that the host decodes; they come first in the output.
    pub host_bytes: usize,
    /// The sum of [`Stage::staged_bytes`](super::Stage::staged_bytes) over the rows of a batch.
    pub staged_bytes: usize,
    /// The sum of [`Stage::between_bytes`](super::Stage::between_bytes).
    pub between_bytes: usize,
}

impl SlotRoom {
    /// Returns true if a batch that needs `other` fits.
    #[must_use]
    pub const fn holds(&self, other: &Self) -> bool {
        self.rows >= other.rows
            && self.output_bytes >= other.output_bytes
            && self.host_bytes >= other.host_bytes
            && self.staged_bytes >= other.staged_bytes
            && self.between_bytes >= other.between_bytes
    }

    /// A room larger by an eighth: for more batches like the largest so far.
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

    /// The larger of both in each dimension.
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
    /// The device will decode it. For a picture: height and width of its output.
    Taken(Option<[u32; 2]>),
    /// The host must decode it, for this reason. Reasons are counted, so they name no sample.
    Refused(Cow<'static, str>),
}
