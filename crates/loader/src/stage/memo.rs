//! What a stage notes about a value, for the next row that takes a part of it.

use std::any::Any;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static NEXT: AtomicU64 = AtomicU64::new(0);

/// What a stage notes about a value of which several rows take a part, so that it looks at it once.
///
/// ```
/// use shardpack_loader::stage::Memo;
/// let memo = Memo::new(12);
/// assert_eq!(memo.get_or_make(|| 7_u8), Some(&7));
/// assert_eq!(memo.get_or_make(|| 8_u8), Some(&7));
/// assert_eq!(memo.get_or_make(|| 9_u16), None, "of another type");
/// assert!(memo.rows() == 12 && memo.id() != Memo::new(1).id());
/// ```
pub struct Memo {
    id: u64,
    rows: u64,
    note: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Memo {
    /// Without a note, for a value of which about so many rows take a part.
    #[must_use]
    pub fn new(rows: u64) -> Self {
        Self { id: NEXT.fetch_add(1, Ordering::Relaxed), rows, note: OnceLock::new() }
    }

    /// How many rows take a part of it, about.
    #[must_use]
    pub const fn rows(&self) -> u64 {
        self.rows
    }

    /// A number that no other memo of this process has.
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
