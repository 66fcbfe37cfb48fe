//! Lets the caller cancel a run.

use crate::error::{Result, SourceError};
#[cfg(test)]
use std::sync::atomic::AtomicU64;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cancel<'a> {
    flag: Option<&'a AtomicBool>,
    #[cfg(test)]
    polls: Option<&'a Polls>,
}

impl<'a> Cancel<'a> {
    pub(crate) const fn new(flag: Option<&'a AtomicBool>) -> Self {
        Self {
            flag,
            #[cfg(test)]
            polls: None,
        }
    }

    pub(crate) fn is_raised(self) -> bool {
        #[cfg(test)]
        if self.polls.is_some_and(Polls::next_is_raised) {
            return true;
        }
        self.flag.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }

    pub(crate) fn check(self) -> Result<()> {
        if self.is_raised() { Err(SourceError::Cancelled) } else { Ok(()) }
    }
}

/// A flag that counts how often it is checked, and is set from the n-th check on.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Polls {
    made: AtomicU64,
    raised_at: u64,
}

#[cfg(test)]
impl Polls {
    pub(crate) const fn raised_at(at: u64) -> Self {
        Self { made: AtomicU64::new(0), raised_at: at }
    }

    pub(crate) const fn cancel(&self) -> Cancel<'_> {
        Cancel { flag: None, polls: Some(self) }
    }

    pub(crate) fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    pub(crate) fn next_is_raised(&self) -> bool {
        self.made.fetch_add(1, Ordering::Relaxed) + 1 >= self.raised_at
    }
}

#[cfg(test)]
impl Default for Polls {
    fn default() -> Self {
        Self::raised_at(u64::MAX)
    }
}
