//! Tests slots that are reused, kept by the caller, or cannot be allocated.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{Disk, RowOf, base, in_the_end, seen};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{Allocate, Heap, Loader, LoaderOptions, SlotMemory, Window};
use shardpack_reader::Error;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn options(batch_size: u32) -> LoaderOptions {
    base().batch_size(batch_size).threads(2).mode(Mode::Stored).end(End::Uneven)
}

#[test]
fn kept_batches_get_slots_of_their_own_and_outlive_the_loader() {
    let disk = Disk::alike(&[80]);
    let mut loader = Loader::open(&disk.open(), options(8).slots(2)).unwrap();
    let mut kept = Vec::new();
    while let Some(batch) = loader.next_batch() {
        kept.push(batch.unwrap());
    }
    assert_eq!(loader.stats().extra_slots, 8);
    drop(loader);
    for (batch, number) in kept.iter().zip(0..) {
        assert_eq!(batch.indices()[0], number * 8);
        for (i, &index) in batch.indices().iter().enumerate() {
            assert_eq!(batch.field("cube").unwrap().row_of(i), disk.samples[index as usize].cube());
        }
    }
    let clone = kept[0].clone();
    drop(kept);
    assert_eq!(clone.len(), 8);
}

#[test]
fn slots_are_used_again() {
    #[derive(Debug, Default)]
    struct Counted(AtomicU64);
    impl Allocate for Counted {
        fn allocate(&self, bytes: usize) -> io::Result<Box<dyn SlotMemory>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Heap.allocate(bytes)
        }
    }
    let disk = Disk::alike(&[400]);
    let memory = Arc::new(Counted::default());
    let mut loader = Loader::open(&disk.open(), options(4).memory(memory.clone()).slots(3)).unwrap();
    for epoch in 0..3 {
        loader.set_epoch(epoch).unwrap();
        while let Some(batch) = loader.next_batch() {
            assert!(seen(&batch.unwrap()).1.iter().all(|&there| there));
        }
    }
    assert_eq!(memory.0.load(Ordering::Relaxed), 3);
}

#[test]
fn memory_that_cannot_be_had_is_an_error() {
    #[derive(Debug)]
    struct None;
    impl Allocate for None {
        fn allocate(&self, _: usize) -> io::Result<Box<dyn SlotMemory>> {
            Err(io::ErrorKind::OutOfMemory.into())
        }
    }
    let disk = Disk::alike(&[8]);
    let options = options(4).memory(Arc::new(None));
    // With a stage, slots are allocated when the loader opens, so opening fails.
    if options.resources.stage.is_some() {
        let text = Loader::open(&disk.open(), options).unwrap_err().to_string();
        assert!(text.starts_with("`slot 1 of 3 ("), "{text}");
        return;
    }
    let mut loader = Loader::open(&disk.open(), options).unwrap();
    for number in 0..2 {
        let text = loader.next_batch().unwrap().unwrap_err().to_string();
        assert!(text.starts_with(&format!("`batch {number} (")), "{text}");
    }
    assert!(loader.next_batch().is_none());
}

/// An allocator that fails for some of the allocations.
#[derive(Debug)]
struct Scarce(AtomicU64, fn(u64) -> bool);

impl Allocate for Scarce {
    fn allocate(&self, bytes: usize) -> io::Result<Box<dyn SlotMemory>> {
        match (self.1)(self.0.fetch_add(1, Ordering::SeqCst)) {
            true => Err(io::ErrorKind::OutOfMemory.into()),
            false => Heap.allocate(bytes),
        }
    }
}

#[test]
fn a_failed_allocation_is_the_error_of_one_batch() {
    let disk = Disk::alike(&[40, 24]);
    for (mode, slots) in [(Mode::Stored, 1), (Mode::Stored, 4), (Mode::Full, 2), (Mode::Full, 5)] {
        for fails in [|k| k == 0, |k| k == 1, |k| k % 2 == 0, |k| k < 5] as [fn(u64) -> bool; 4] {
            let memory = Arc::new(Scarce(AtomicU64::new(0), fails));
            let options = options(4).mode(mode).slots(slots).memory(memory.clone()).window(Window::Memory);
            let at_open = options.resources.stage.is_some() && (0..slots as u64).any(fails);
            let opened = Loader::open(&disk.open(), options);
            assert_eq!(opened.is_err(), at_open);
            let Ok(mut loader) = opened else { continue };
            for epoch in 0..2 {
                loader.set_epoch(epoch).unwrap();
                let mut errors = 0;
                let mut samples = 0;
                while let Some(batch) = loader.next_batch() {
                    match batch {
                        Ok(batch) => samples += batch.len(),
                        Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::OutOfMemory => errors += 1,
                        Err(other) => panic!("{other}"),
                    }
                }
                assert_eq!(samples + 4 * errors, 64, "epoch {epoch} of {mode:?} with {slots} slots");
                // Batches may fail only while there is no memory.
                assert!(errors <= 6, "{errors}");
            }
        }
    }
}

#[test]
fn memory_that_is_too_small_is_an_error() {
    #[derive(Debug)]
    struct Half;
    impl Allocate for Half {
        fn allocate(&self, bytes: usize) -> io::Result<Box<dyn SlotMemory>> {
            Heap.allocate(bytes / 2)
        }
    }
    let disk = Disk::alike(&[8]);
    let opened = Loader::open(&disk.open(), options(4).memory(Arc::new(Half)));
    let error = in_the_end(move || match opened {
        Ok(mut loader) => loader.next_batch().unwrap().unwrap_err().to_string(),
        Err(error) => error.to_string(),
    });
    assert!(error.contains("bytes of memory, but only"), "{error}");
}
