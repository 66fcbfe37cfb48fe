//! Lets a stage store information about an array that several rows share.

use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

/// Stores a stage's note about an array that several rows share. The stage then inspects the array once instead of
/// once per row.
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

/// A stage's information about an array.
#[derive(Debug, Default)]
pub struct ArrayNote {
    /// Tables of the array, in the stage's own form, or `None` if the array is decoded without tables.
    pub tables: Option<Vec<u8>>,
    /// The array on the device, if the device has it.
    pub on_device: Option<Arc<dyn DeviceArray>>,
}

/// An array on the device, in stored form. Dropping this frees its memory.
pub trait DeviceArray: Debug + Send + Sync {
    /// Returns the offset of the array from the start of the values that the device keeps.
    fn at(&self) -> u64;
}

impl Memo {
    /// Creates an empty memo for an array. About `rows` rows use parts of the array. `id` must be unique within the
    /// loader.
    #[must_use]
    pub const fn new(id: u64, rows: u64) -> Self {
        Self { id, rows, note: OnceLock::new() }
    }

    /// Returns the approximate number of rows that use parts of the array.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the memo's number, which is unique within its loader.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Returns the note. If there is none yet, `make` creates the note while other threads wait.
    pub fn get_or_make(&self, make: impl FnOnce() -> ArrayNote) -> &ArrayNote {
        self.note.get_or_init(make)
    }
}
