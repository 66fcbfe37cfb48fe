//! The note of a stage about a value, for the next row that takes a part of it.

use std::any::Any;
use std::fmt;
use std::sync::OnceLock;

/// The note of a stage about a value of which several rows take a part, so that it looks at it once.
///
/// ```
/// use shardpack_loader::stage::Memo;
/// let memo = Memo::new(3, 12);
/// assert_eq!(memo.get_or_make(|| 7_u8), Some(&7));
/// assert_eq!(memo.get_or_make(|| 8_u8), Some(&7));
/// assert_eq!(memo.get_or_make(|| 9_u16), None, "of another type");
/// assert_eq!((memo.id(), memo.rows()), (3, 12));
/// ```
pub struct Memo {
    id: u64,
    rows: u64,
    note: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Memo {
    /// Without a note, for a value of which about so many rows take a part. No other memo of the
    /// loader has its `id`.
    #[must_use]
    pub const fn new(id: u64, rows: u64) -> Self {
        Self { id, rows, note: OnceLock::new() }
    }

    /// Rows that take a part of it, about.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// A number that no other memo of this loader has.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The note; `make` makes it if there is none, while other threads wait for it. `None` if it is of
    /// another type.
    pub fn get_or_make<T: Any + Send + Sync>(&self, make: impl FnOnce() -> T) -> Option<&T> {
        self.note.get_or_init(|| Box::new(make())).downcast_ref()
    }
}

impl fmt::Debug for Memo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memo").field("id", &self.id).finish_non_exhaustive()
    }
}
