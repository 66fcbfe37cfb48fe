//! The lock of a run that writes to a store: a file in the spool, and a claim among the objects.

use crate::bucket::{Inner, TOKEN_NAME};
use crate::fs::{Fs as _, Held, StdFs};
use crate::lock::LOCK_NAME;
use std::fs;
use std::sync::{Arc, PoisonError};

/// A lock in the spool, and the claim in the store.
pub(crate) struct Claimed {
    pub(crate) inner: Arc<Inner>,
    pub(crate) name: String,
    pub(crate) claim: Claim,
    pub(crate) local: Option<Box<dyn Held>>,
}

/// What is known of the claim of this run.
pub(crate) enum Claim {
    /// It is there, with this text, unless another run has taken over.
    Held(String),
    /// It is another's.
    Refused,
    /// Perhaps it is there: the store did not say. Or this lock needs none.
    Unknown,
}

impl Held for Claimed {
    fn is_by_name(&self) -> bool {
        self.local.as_ref().is_some_and(|local| local.is_by_name())
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        let Inner { objects, spool, claims, .. } = &*self.inner;
        let name = &self.name;
        claims.lock().unwrap_or_else(PoisonError::into_inner).retain(|(held, _)| held != name);
        let is_free = match &self.claim {
            Claim::Unknown => false,
            Claim::Refused => true,
            Claim::Held(text) => match self.inner.read_claim(name) {
                Ok(Some(found)) if found == *text => objects.remove(name).is_ok(),
                other => other.is_ok(),
            },
        };
        // The number goes while the lock is held, the folder once it is empty. A claim that could not
        // be removed is taken over by the next run, if that has the number.
        let ours = [TOKEN_NAME, LOCK_NAME, name];
        if is_free && StdFs.list(spool).is_ok_and(|names| names.iter().all(|name| ours.contains(&name.as_str()))) {
            let _ = fs::remove_file(spool.join(TOKEN_NAME));
        }
        self.local = None;
        let _ = fs::remove_dir(spool);
    }
}
