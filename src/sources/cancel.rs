//! Stopping early when the caller asks for it.

use super::error::{Result, SourceError};
use std::sync::atomic::{AtomicBool, Ordering};

/// A flag that the caller may raise, if there is one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cancel<'a>(Option<&'a AtomicBool>);

impl<'a> Cancel<'a> {
    pub(crate) const fn new(flag: Option<&'a AtomicBool>) -> Self {
        Self(flag)
    }

    pub(crate) fn is_raised(self) -> bool {
        self.0.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    /// `Cancelled` if the flag is raised.
    pub(crate) fn check(self) -> Result<()> {
        if self.is_raised() { Err(SourceError::Cancelled) } else { Ok(()) }
    }
}
