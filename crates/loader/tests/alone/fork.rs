//! Tests loaders in forked processes, such as the worker processes of other libraries. In the child, the loader is
//! usable if the parent's threads have not started yet. Otherwise it returns an error.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{Disk, said};
use shardpack_loader::order::End;
use shardpack_loader::{Loader, LoaderOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};

fn in_a_fork(work: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child uses nothing that another thread of this process may have locked. It works with data
    // made by its own thread, and exits with `_exit`. The C library makes its allocator usable in the child.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // SAFETY: no preconditions. The signal ends a child that hangs.
        unsafe { libc::alarm(20) };
        let fine = catch_unwind(AssertUnwindSafe(work)).unwrap_or(false);
        // SAFETY: no preconditions. Ends the child without running the parent's destructors.
        unsafe { libc::_exit(if fine { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: `status` lives until the call returns.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

fn open(disk: &Disk) -> Loader {
    let options = LoaderOptions::default().batch_size(8).threads(2).end(End::Uneven);
    Loader::open(&disk.open(), options).unwrap()
}

fn samples(loader: &mut Loader) -> usize {
    std::iter::from_fn(|| loader.next_batch()).map(|batch| batch.unwrap().len()).sum()
}

#[test]
fn a_loader_that_has_not_started_works_in_the_child_and_in_the_parent() {
    let _alone = crate::alone();
    let disk = Disk::alike(&[50]);
    let mut loader = open(&disk);
    loader.set_epoch(1).unwrap();
    for _ in 0..3 {
        assert!(in_a_fork(|| {
            let whole = samples(&mut loader) == 50;
            loader.set_epoch(2).unwrap();
            whole && samples(&mut loader) == 50
        }));
    }
    assert_eq!(samples(&mut loader), 50);
}

#[test]
fn a_started_loader_is_an_error_in_a_fork() {
    let _alone = crate::alone();
    let disk = Disk::alike(&[50]);
    let mut loader = open(&disk);
    let first = loader.next_batch().unwrap().unwrap();
    let kept = first.clone();
    assert!(in_a_fork(|| {
        let readable = kept.field("cube").unwrap().row(0).unwrap().len() == 16 * 24 * 3 * 2;
        let text = said(&loader.next_batch().unwrap().unwrap_err());
        let is_told = text.contains("fork") && text.contains("hint: open the loader after the fork");
        let once = loader.next_batch().is_none() && loader.set_epoch(1).is_err();
        drop(kept);
        drop(loader);
        readable && is_told && once
    }));
    drop(first);
}
