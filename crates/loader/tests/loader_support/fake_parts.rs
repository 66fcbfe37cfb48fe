//! The staging memory of the fake stage, into which threads of the loader read.

use shardpack_loader::stage::StagedPart;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The parts of a value while threads read into them. Each part returns here when it is dropped.
#[derive(Debug)]
pub struct Filling {
    pub parts: Mutex<Vec<Option<Vec<u8>>>>,
    pub lent: Arc<AtomicUsize>,
}

impl Filling {
    pub fn new(lent: &Arc<AtomicUsize>, parts: usize) -> Arc<Self> {
        lent.fetch_add(parts + 1, Ordering::AcqRel);
        Arc::new(Self { parts: Mutex::new(vec![None; parts]), lent: Arc::clone(lent) })
    }
}

#[derive(Debug)]
pub struct FakePart {
    pub number: usize,
    pub bytes: Vec<u8>,
    pub home: Arc<Filling>,
}

impl StagedPart for FakePart {
    fn bytes(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for FakePart {
    fn drop(&mut self) {
        self.home.parts.lock().unwrap()[self.number] = Some(std::mem::take(&mut self.bytes));
        self.home.lent.fetch_sub(1, Ordering::AcqRel);
    }
}
