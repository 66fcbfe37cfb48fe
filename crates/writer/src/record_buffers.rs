//! Keeps record buffers for reuse.

use std::sync::{Mutex, PoisonError};

/// Keeps record buffers for reuse: at most one for each thread, and one more.
pub(crate) struct RecordBuffers {
    free: Mutex<Vec<Vec<u8>>>,
    max: usize,
}

impl RecordBuffers {
    pub(crate) fn new(max: usize) -> Self {
        Self { free: Mutex::default(), max }
    }

    pub(crate) fn take(&self) -> Vec<u8> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    pub(crate) fn give_back(&self, buffer: Vec<u8>) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < self.max {
            free.push(buffer);
        }
    }
}
