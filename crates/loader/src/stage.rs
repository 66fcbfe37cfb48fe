//! What turns checked bytes into rows of a batch where the host does not do it: a device.
//!
//! The host is the default, and needs none of this. With a [`Stage`], each slot of the ring has a
//! part on the device, a [`StageSlot`], and a batch goes through three phases:
//!
//! ```text
//! filling    threads check records; for each field that the stage takes they call `prepare`, which
//!            copies what the device needs into staging memory; the host decodes the other fields;
//!            large arrays that the stage `shares` are read there before they are checked
//! submitted  one thread calls `submit`, without any lock; copies and kernels go on by themselves
//! done       the stage calls `Ticket::done`; the host decodes what the device found odd, and
//!            writes it to its place; the consumer gets the batch
//! ```
//!
//! A row that a stage refuses is decoded by the host and handed over ([`StageSlot::put`]), and so is
//! one that it finds odd later ([`StageSlot::write`]): a batch is the same whoever decodes it.

pub use super::keeping::{Keeper, Keeping};
pub use super::mixing::RowMix;
use super::rows::Rows;
pub use super::stream::StreamHandle;
use shardpack_array::{Finish, Region};
use shardpack_augment::Augmentation;
use shardpack_format::{ArrayDescriptor, Codec, ElementType, Hint, Hinted, Limits, Note, Setting};
use shardpack_jpeg::{PixelLayout, Rendering, Scaling, View};
use shardpack_reader::{Error, Result};
use std::any::Any;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Decodes rows of batches elsewhere than on the host.
///
/// `crates/gpu` has one for CUDA devices. Every method may be called from several threads at a time.
pub trait Stage: Send + Sync + fmt::Debug {
    /// Where the batches are.
    fn device(&self) -> DeviceId;

    /// Whether it decodes rows of this field. Asked once for each field, when a loader opens.
    /// Fields that it does not take are decoded by the host and uploaded.
    fn takes(&self, field: &FieldSpec<'_>) -> bool;

    /// Whether large values like this one, of a field of arrays that it takes, are to be read straight
    /// into staging memory, by several threads ([`StageSlot::room_for`]): because the device needs
    /// their bytes as they are stored. Asked about examples, when a loader opens.
    fn shares(&self, example: &Value<'_>) -> bool {
        let _ = example;
        false
    }

    /// Bytes of staging memory for a row of a field that it takes: `record_bytes` are those of the
    /// record that holds its value, `row_bytes` those of the row in the output. If they turn out
    /// to be too few, the row is refused.
    fn staged_bytes(&self, field: &FieldSpec<'_>, record_bytes: u64, row_bytes: u64) -> u64;

    /// Bytes of a slot on the device for what lies between decoding and output of `rows` rows of a
    /// field that it takes, besides what [`Stage::device_bytes`] counts for every field. `row_bytes` are
    /// those of all these rows in the output.
    fn between_bytes(&self, field: &FieldSpec<'_>, rows: u64, row_bytes: u64) -> u64 {
        let _ = (field, rows, row_bytes);
        0
    }

    /// Bytes that a slot takes on the device.
    fn device_bytes(&self, room: &Room) -> u64;

    /// Bytes that a slot takes on the host: staging memory.
    fn host_bytes(&self, room: &Room) -> u64;

    /// Makes the part of a slot that is on the device. Called when the loader opens, for each of its
    /// slots, and later by a thread of the loader, if a batch needs a larger one. May wait.
    ///
    /// # Errors
    /// Whatever keeps it from being had; it becomes the error of opening, or of the batch that
    /// needed it.
    fn slot(&self, room: &Room) -> io::Result<Arc<dyn StageSlot>>;

    /// How often a batch needed more memory on the device than [`Stage::device_bytes`] says, and
    /// its slot got it.
    fn growths(&self) -> u64 {
        0
    }

    /// What one thread works with: scratch memory, used again for every row.
    fn bench(&self) -> Box<dyn Any + Send>;

    /// For a loader whose values stay on the device. `None` if none can.
    fn keeping(&self) -> Option<Keeping> {
        None
    }
}

/// The part of a slot that is on a device: staging memory and the output of one batch.
pub trait StageSlot: Send + Sync + fmt::Debug {
    /// Where it is.
    fn device(&self) -> DeviceId;

    /// What it was made for, at least.
    fn room(&self) -> Room;

    /// Begins a batch of so many bytes of output: whatever was prepared before is forgotten.
    /// Nobody else uses the slot. Called with the loader's lock held: it does not wait.
    fn begin(&self, output_bytes: usize);

    /// Takes a value: copies what the device needs of it. `bench` is one of [`Stage::bench`].
    ///
    /// A value that is damaged is refused: the host says what is wrong with it.
    fn prepare(&self, spot: &Spot, value: &Value<'_>, bench: &mut (dyn Any + Send)) -> Prepared;

    /// Room in the staging memory for a value of `bytes` bytes, as it is stored, cut into parts of
    /// `step` bytes. Several threads read it there, and then it is prepared as it stands, without a
    /// copy ([`StagedRoom::prepare`]). `None` if there is none. Does not wait.
    ///
    /// All that is returned is dropped before the batch is submitted, and before the slot begins
    /// another.
    fn room_for(self: Arc<Self>, spot: &Spot, bytes: usize, step: usize) -> Option<StagedParts> {
        let _ = (spot, bytes, step);
        None
    }

    /// Takes a value that is on the device, by the number that [`Keeper::keep`] gave it. `value`
    /// says how it is shown, and has no bytes.
    fn prepare_kept(&self, spot: &Spot, number: u64, value: &Value<'_>, bench: &mut (dyn Any + Send)) -> Prepared {
        let _ = (spot, value, bench);
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
    fn prepare(&self, value: &Value<'_>, bench: &mut (dyn Any + Send)) -> Prepared;
}

/// A part of a [`StagedRoom`], for one thread.
pub trait StagedPart: Send + fmt::Debug {
    /// Its bytes. What they hold is left from before.
    fn bytes(&mut self) -> &mut [u8];
}

/// What [`StageSlot::room_for`] has found: room, and its parts in order.
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

/// What a field of a batch is made of, as far as a stage has to know.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FieldSpec<'a> {
    /// Its name.
    pub name: &'a str,
    /// Type of the elements of a row.
    pub dtype: ElementType,
    /// What its values are.
    pub source: FieldSource<'a>,
}

/// What the values of a field are.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum FieldSource<'a> {
    /// Pictures.
    Picture {
        /// How they are shown.
        view: View,
        /// Order of the axes.
        layout: PixelLayout,
        /// How floats are made of levels, if [`FieldSpec::dtype`] is one.
        scaling: Scaling,
        /// How their levels are changed.
        changes: &'a [Augmentation],
    },
    /// Arrays.
    Array {
        /// Examples of how they are stored, before they are finished.
        stored: &'a [(Codec, ArrayDescriptor)],
        /// Whether a row is only a part of an array: a patch, or bands.
        is_cut: bool,
    },
    /// Columns of the index, and stored bytes.
    Other,
}

/// How much a slot can hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Room {
    /// Rows of a batch.
    pub rows: usize,
    /// Bytes of all fields.
    pub output_bytes: usize,
    /// Bytes of those fields that the host decodes; they are the first of the output.
    pub host_bytes: usize,
    /// The sum of [`Stage::staged_bytes`] over the rows of a batch.
    pub staged_bytes: usize,
    /// The sum of [`Stage::between_bytes`].
    pub between_bytes: usize,
}

impl Room {
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
    pub(super) const fn grown(&self) -> Self {
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

/// A value of a record that was checked.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Value<'a> {
    /// A picture.
    Picture {
        /// By which its encoding is known.
        media_type: &'a str,
        /// As stored.
        bytes: &'a [u8],
        /// Which part of it is shown, and how.
        how: &'a Rendering,
        /// How its levels are changed before anything else is made of them, by the draws of
        /// [`Rendering::key`].
        changes: &'a [Augmentation],
        /// Type of the elements to make.
        dtype: ElementType,
        /// How floats are made of levels.
        scaling: &'a Scaling,
        /// What decoding may take.
        limits: &'a Limits,
    },
    /// An array.
    Array {
        /// How the payload is encoded.
        codec: Codec,
        /// What it decodes to; `decoded` is the type that is asked for, or that of which `finish` makes
        /// it.
        descriptor: &'a ArrayDescriptor,
        /// The payload.
        bytes: &'a [u8],
        /// The part that is asked for, in the order that is asked for; all, as the descriptor has
        /// it, if there is none.
        region: Option<&'a Region>,
        /// What becomes of the decoded elements.
        finish: &'a Finish,
        /// What decoding may take.
        limits: &'a Limits,
    },
}

/// What became of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prepared {
    /// The device will decode it. Of a picture: height and width of what it will write.
    Taken(Option<[u32; 2]>),
    /// The host has to, for this reason. Reasons are counted, so they name no sample.
    Refused(Cow<'static, str>),
}

/// A value that the device took and found odd. The host decodes it, or says what is wrong with it;
/// what its bytes in the output are until then does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowFault {
    /// The row.
    pub row: u32,
    /// The field, by its number.
    pub field: u32,
    /// What the device found. Reasons are counted, so they name no sample.
    pub reason: Cow<'static, str>,
}

/// The option of how many slots there are, by which memory is saved.
pub(super) fn slots() -> Setting {
    Setting::named("slots").in_python("prefetch")
}

/// What helps where there is no memory for a slot.
#[must_use]
pub fn fewer_slots() -> Hint {
    Hint::new("take fewer slots (").and([slots()]).then("), or smaller batches")
}

/// Why a batch is not on the device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// It cannot be had, for want of memory: an error of this batch. The loader goes on.
    Batch(Note),
    /// The device has failed, and nothing more can be decoded on it: the end of the loader.
    Device(Note),
}

/// What became of a batch that was submitted.
#[derive(Debug)]
pub(super) enum Ending {
    /// It is on the device, but for these values.
    Decoded(Vec<RowFault>),
    /// It is an error.
    Failed(Error),
    /// Nothing more will be decoded.
    Lost(Error),
}

/// Who is told that a batch is done.
pub(super) trait Completed: Send + Sync {
    fn completed(&self, generation: u64, batch: u64, ending: Ending);
}

/// A batch that was submitted. Whoever drops it without [`Ticket::done`] breaks the loader, in
/// words: nobody waits for ever.
pub struct Ticket {
    pub(super) home: Weak<dyn Completed>,
    pub(super) generation: u64,
    pub(super) batch: u64,
    /// Keeps the slot from being used again.
    pub(super) slot: Option<Arc<Rows>>,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ticket").field("batch", &self.batch).finish_non_exhaustive()
    }
}

impl Ticket {
    /// The batch is on the device, but for these values; or why it is not.
    pub fn done(mut self, result: Result<Vec<RowFault>, Failure>) {
        let error = |note: Note| {
            let source = io::Error::other(Hinted::from(note));
            Error::io(format!("batch {}", self.batch), DECODE, source)
        };
        let ending = match result {
            Ok(faults) => Ending::Decoded(faults),
            Err(Failure::Batch(note)) => Ending::Failed(error(note)),
            Err(Failure::Device(note)) => Ending::Lost(error(note)),
        };
        self.end(ending);
    }

    fn end(&mut self, ending: Ending) {
        // Before threads look for a slot that nobody uses.
        let Some(slot) = self.slot.take() else { return };
        drop(slot);
        if let Some(home) = self.home.upgrade() {
            home.completed(self.generation, self.batch, ending);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let found = "one that was dropped";
        self.end(Ending::Lost(Error::internal("batch on the device", "one that is done or has failed", found)));
    }
}

const DECODE: &str = "decode it on the device";

/// Rows that a stage refused, or found odd, for one reason; the host decoded them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The reason, as the stage says it.
    pub reason: String,
    /// How many.
    pub rows: u64,
    /// Keys of the first three samples.
    pub first: Vec<String>,
}

/// All refusals of a loader.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<BTreeMap<Cow<'static, str>, Refusal>>);

impl Refusals {
    pub(super) fn add(&self, reason: Cow<'static, str>, key: impl FnOnce() -> String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let refusal = all.entry(reason).or_default();
        refusal.rows += 1;
        if refusal.first.len() < 3 {
            refusal.first.push(key());
        }
    }

    pub(super) fn list(&self) -> Vec<Refusal> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().map(|(reason, refusal)| Refusal { reason: reason.to_string(), ..refusal.clone() }).collect()
    }
}
