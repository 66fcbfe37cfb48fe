//! The note of a stage about an array, for other rows that take a part of it.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

/// The note of a stage about an array from which several rows take a part, so that it is inspected
/// once.
///
/// ```
/// use shardpack_loader::stage::{ArrayNote, Memo};
/// let memo = Memo::new(3, 12);
/// let note = |byte| ArrayNote { tables: Some(vec![byte]), on_device: None };
/// assert_eq!(memo.get_or_make(|| note(7)).tables, Some(vec![7]));
/// assert_eq!(memo.get_or_make(|| note(8)).tables, Some(vec![7]));
/// assert_eq!((memo.id(), memo.rows()), (3, 12));
/// ```
#[derive(Debug)]
pub struct Memo {
    id: u64,
    rows: u64,
    note: OnceLock<ArrayNote>,
}

/// Facts that a stage has determined about an array.
#[derive(Debug, Default)]
pub struct ArrayNote {
    /// The tables of the array, in the stage's own form; `None` if it is decoded without tables.
    pub tables: Option<Vec<u8>>,
    /// The array itself, if it is on the device.
    pub on_device: Option<Arc<dyn DeviceArray>>,
}

/// An array on the device, as it is stored. Dropping it frees its memory.
pub trait DeviceArray: Debug + Send + Sync {
    /// Its offset from the start of the kept values.
    fn at(&self) -> u64;
}

impl Memo {
    /// An empty memo for an array from which about `rows` rows take a part. Each memo of the loader has
    /// a different `id`.
    #[must_use]
    pub const fn new(id: u64, rows: u64) -> Self {
        Self { id, rows, note: OnceLock::new() }
    }

    /// Approximate number of rows that take a part of it.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// A number that is unique among the memos of this loader.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The note; `make` creates it if there is none, while other threads wait for it.
    pub fn get_or_make(&self, make: impl FnOnce() -> ArrayNote) -> &ArrayNote {
        self.note.get_or_init(make)
    }
}
