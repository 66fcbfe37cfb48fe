//! The part of a slot on a device: the trait that a stage implements, and the values that it receives and returns.

use super::row_mix::RowMix;
use super::row_mosaic::RowMosaic;
use super::stream::StreamHandle;
use super::ticket::Ticket;
use super::value::RecordValue;
use shardpack_array::ZstdDecoder;
use shardpack_format::{Dtype, ElementType, to_usize};
use shardpack_jpeg::{FloatTable, PixelLayout, Scaling};
use std::borrow::Cow;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The part of a slot on a device: staging memory and the output of one batch.
pub trait StageSlot: Send + Sync + fmt::Debug {
    /// Returns the device.
    fn device(&self) -> DeviceId;

    /// Returns the room of the slot. The slot may have more room than that, but not less.
    fn room(&self) -> SlotRoom;

    /// Begins a batch with `output_bytes` bytes of output, and discards everything prepared earlier. The slot
    /// has no other user at that time. The loader holds its lock during this call, so it must not block.
    fn begin(&self, output_bytes: usize);

    /// Accepts a value, and copies the bytes that the device needs. `zstd` decompresses values that the host
    /// must decompress first.
    ///
    /// Refuses a damaged value. The host then reports the damage.
    fn prepare(&self, spot: &Spot, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared;

    /// Reserves staging memory for a stored value of `bytes` bytes, divided into parts of `step` bytes.
    /// Several threads read the value into this memory, where it is then prepared ([`StagedRoom::prepare`]).
    /// Returns `None` if there is not enough room. Must not block.
    ///
    /// The loader drops all returned parts before it submits the batch, and before the slot begins another batch.
    fn room_for(self: Arc<Self>, spot: &Spot, bytes: usize, step: usize) -> Option<StagedParts> {
        let _ = (spot, bytes, step);
        None
    }

    /// Accepts a value that is already on the device, by its number from
    /// [`Keeper::keep`](super::Keeper::keep). `value` describes how to decode it, but has no bytes.
    fn prepare_kept(&self, spot: &Spot, number: u64, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared {
        let _ = (spot, value, zstd);
        Prepared::Refused(format!("value {number} is not on the device").into())
    }

    /// Accepts a row that the host has decoded. `bytes` are all bytes of `spot`.
    ///
    /// # Errors
    /// An error if the bytes cannot be kept until the upload. The row then fails with this error.
    fn put(&self, spot: &Spot, bytes: &[u8]) -> io::Result<()>;

    /// Accepts a picture that the host decodes to levels. The device computes the elements of the row from the
    /// levels, so fewer bytes are uploaded. `fill` is called once, with memory to which it writes one level per
    /// element. It returns true to keep the row.
    ///
    /// # Errors
    /// Same as [`put`](Self::put).
    fn put_levels(
        &self,
        spot: &Spot,
        elements: &PictureElements,
        fill: &mut dyn FnMut(&mut [u8]) -> bool,
    ) -> io::Result<()> {
        let mut levels = vec![0; elements.levels(spot.bytes.len())];
        if fill(&mut levels) { self.put(spot, &elements.of(&levels)?) } else { Ok(()) }
    }

    /// Fills the bytes of `spot` with zeros, even if a value was prepared for them.
    fn clear(&self, spot: &Spot);

    /// Starts to upload and decode the rows, which are all prepared. `host` contains the fields that the host
    /// decodes, which are the first bytes of the output. It is copied before this method returns. When the batch is
    /// complete or has failed, the stage calls [`Ticket::done`], from any thread and possibly before this method
    /// returns.
    fn submit(self: Arc<Self>, host: &[u8], ticket: Ticket);

    /// Returns the address of the output on the device.
    fn address(&self) -> u64;

    /// Records that a consumer uses the output on this device stream. The next batch in this slot waits for
    /// the work that is in the stream when this batch is released.
    fn used_on(&self, stream: StreamHandle);

    /// Records that the consumer has released the batch.
    fn release(&self);

    /// Copies a part of the output to the host and waits until the copy is complete.
    ///
    /// # Errors
    /// An error if the device fails, or if the range is outside the output.
    fn read(&self, from: usize, to: &mut [u8]) -> io::Result<()>;

    /// Writes a part of the output and waits until the copy is complete. A thread of the loader calls this
    /// when the batch is done, before the consumer gets the batch.
    ///
    /// # Errors
    /// An error if the device fails, or if the range is outside the output.
    fn write(&self, to: usize, bytes: &[u8]) -> io::Result<()>;

    /// Mixes rows in the output of a finished batch like [`RowMix::apply`], and waits until that is complete.
    /// The consumer's thread calls this before it gets the batch.
    ///
    /// # Errors
    /// An error if the device fails, if the range is outside the output, or if the stage cannot mix.
    fn mix(&self, rows: &[Range<usize>], mix: &RowMix) -> io::Result<()> {
        let _ = (rows, mix);
        Err(io::Error::new(io::ErrorKind::Unsupported, "the device cannot mix batches"))
    }

    /// Makes mosaics of rows in the output of a finished batch like [`RowMosaic::apply`], and waits for completion.
    /// The slot's [`between_bytes`](SlotRoom::between_bytes) are enough for a copy of the rows of a field.
    ///
    /// # Errors
    /// Same as [`mix`](Self::mix).
    fn mosaic(&self, rows: &[Range<usize>], mosaic: &RowMosaic) -> io::Result<()> {
        let _ = (rows, mosaic);
        Err(io::Error::new(io::ErrorKind::Unsupported, "the device cannot make mosaics"))
    }
}

/// How to compute a row's elements from the levels of a picture.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PictureElements {
    /// Element type: uint8 for levels, or a float type.
    pub dtype: ElementType,
    /// Axis order of both levels and elements.
    pub layout: PixelLayout,
    /// How levels are converted to floats.
    pub scaling: Scaling,
}

impl PictureElements {
    /// Returns the number of levels for a row of this many bytes.
    #[must_use]
    pub fn levels(&self, row_bytes: usize) -> usize {
        row_bytes / to_usize(self.dtype.bytes()).max(1)
    }

    /// Converts levels to elements on the host.
    ///
    /// # Errors
    /// `InvalidInput` if the element type is neither uint8 nor a float type, or if the levels are not whole pixels.
    pub fn of(&self, levels: &[u8]) -> io::Result<Vec<u8>> {
        if self.dtype == ElementType::Dtype(Dtype::U8) {
            return Ok(levels.to_vec());
        }
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let table = FloatTable::new(self.scaling, self.dtype).map_err(invalid)?;
        let mut floats = vec![0; levels.len() * table.element_bytes()];
        table.convert(levels, self.layout, &mut floats).map_err(invalid)?;
        Ok(floats)
    }
}

/// Room for one value in staging memory.
pub trait StagedRoom: Send + Sync + fmt::Debug {
    /// Returns the bytes of the value, or `None` while parts exist.
    fn bytes(&self) -> Option<&[u8]>;

    /// Same as [`StageSlot::prepare`], for a value whose bytes are in [`bytes`](Self::bytes).
    fn prepare(&self, value: &RecordValue<'_>, zstd: &mut ZstdDecoder) -> Prepared;
}

/// A part of a [`StagedRoom`], which one thread fills.
pub trait StagedPart: Send + fmt::Debug {
    /// Returns the bytes of the part. Their initial content is unspecified.
    fn bytes(&mut self) -> &mut [u8];
}

/// The room that [`StageSlot::room_for`] reserved, with its parts in order.
#[derive(Debug)]
pub struct StagedParts {
    /// Room for the whole value.
    pub room: Box<dyn StagedRoom>,
    /// The room's parts, in order. Each part is filled by one thread.
    pub parts: Vec<Box<dyn StagedPart>>,
}

/// A device, identified by the same numbers as in DLPack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeviceId {
    /// DLPack's device type. CUDA is 2 (`kDLCUDA`).
    pub kind: i32,
    /// Index of the device among the devices of its type.
    pub number: i32,
}

/// The memory that a slot has, or that a batch needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SlotRoom {
    /// Number of rows of a batch.
    pub rows: usize,
    /// Size of all fields in bytes.
    pub output_bytes: usize,
    /// Size in bytes of the fields that the host decodes. They come first in the output.
    pub host_bytes: usize,
    /// Sum of [`Stage::staged_bytes`](super::Stage::staged_bytes) over the fields.
    pub staged_bytes: usize,
    /// Sum of [`Stage::between_bytes`](super::Stage::between_bytes) over the fields.
    pub between_bytes: usize,
}

impl SlotRoom {
    /// Returns true if a batch that needs the room `other` fits into this one.
    #[must_use]
    pub fn holds(&self, other: &Self) -> bool {
        self.max(*other) == *self
    }

    /// Returns this room enlarged by an eighth, to fit batches slightly larger than the largest one so far.
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

    /// Returns the maximum of the two rooms, field by field.
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

/// Identifies one field of one row in a batch, and its bytes in the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spot {
    /// Index of the row.
    pub row: u32,
    /// Index of the field in the batch.
    pub field: u32,
    /// Byte range in the output.
    pub bytes: Range<usize>,
}

/// A stage's response to a value that the loader passes to it for decoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepared {
    /// The device will decode the value. For a picture, this contains the height and width of the output.
    Taken(Option<[u32; 2]>),
    /// The host must decode the value. Contains the stage's reason. Rows are counted by reason, so a reason must not
    /// name a sample.
    Refused(Cow<'static, str>),
}
