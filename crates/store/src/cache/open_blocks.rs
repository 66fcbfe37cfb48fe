//! The files of blocks that were opened last. They stay open, because opening a file takes as long as reading 35 kB
//! from it.
//!
//! A block never changes, so an open file stays right even after another process has removed the block. Its space on
//! disk is free only when the file is closed.

use super::block::PageSpan;
use rustix::process::{Resource, getrlimit};
use shardpack_format::to_usize;
use std::collections::{HashMap, VecDeque};
use std::fs::{File, Metadata};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of open files of a cache, which hold 1 GiB of blocks.
const MOST: u64 = 1024;
/// Share of the open files that the system allows a process.
const SHARE: u64 = 4;

/// The open file of a block.
#[derive(Debug)]
pub(super) struct OpenBlock {
    pub(super) span: PageSpan,
    pub(super) file: File,
    pub(super) meta: Metadata,
    /// Length of the header, which the block's bytes follow.
    pub(super) head_len: u64,
}

/// Number of an object, and a part of it.
type Key = (u64, PageSpan);

#[derive(Debug)]
pub(super) struct OpenBlocks {
    most: usize,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    blocks: HashMap<Key, Arc<OpenBlock>>,
    /// Keys of the blocks in the order of opening.
    order: VecDeque<Key>,
}

impl OpenBlocks {
    /// Creates a set for at most `bytes` bytes of blocks.
    pub(super) fn new(bytes: u64) -> Self {
        let allowed = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX) / SHARE;
        let most = to_usize((bytes / PageSpan::MOST_BYTES).min(allowed).min(MOST));
        Self { most, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the first of these blocks that is open.
    pub(super) fn find(&self, object: u64, mut spans: impl Iterator<Item = PageSpan>) -> Option<Arc<OpenBlock>> {
        let state = self.state();
        spans.find_map(|span| state.blocks.get(&(object, span)).cloned())
    }

    /// Keeps a block open, and closes the one that was opened first if there are too many.
    pub(super) fn keep(&self, object: u64, block: &Arc<OpenBlock>) {
        let key = (object, block.span);
        let mut state = self.state();
        if state.blocks.insert(key, Arc::clone(block)).is_none() {
            state.order.push_back(key);
        }
        while state.order.len() > self.most {
            let oldest = state.order.pop_front();
            oldest.and_then(|key| state.blocks.remove(&key));
        }
    }

    pub(super) fn close(&self, object: u64, span: PageSpan) {
        let closed = (object, span);
        let mut state = self.state();
        if state.blocks.remove(&closed).is_some() {
            state.order.retain(|key| *key != closed);
        }
    }

    pub(super) fn close_all(&self) {
        *self.state() = State::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_that_were_opened_first_are_closed() {
        let open = OpenBlocks::new(3 * PageSpan::MOST_BYTES);
        let span = |number: u64| PageSpan::of(number..number + 1).next().unwrap();
        let file = tempfile::tempfile().unwrap();
        let block = |number| {
            let (file, meta) = (file.try_clone().unwrap(), file.metadata().unwrap());
            Arc::new(OpenBlock { span: span(number), file, meta, head_len: 0 })
        };
        let found = |object, numbers: &[u64]| {
            let block = open.find(object, numbers.iter().map(|number| span(*number)));
            block.map(|block| block.span)
        };
        for number in 0..4 {
            open.keep(7, &block(number));
        }
        assert_eq!(found(7, &[0]), None);
        assert_eq!(found(7, &[0, 2, 1]), Some(span(2)));
        assert_eq!(found(8, &[2]), None);
        open.close(7, span(2));
        assert_eq!(found(7, &[2]), None);
        // Block 2 is now the one that was opened last.
        open.keep(7, &block(2));
        assert_eq!(found(7, &[1]), Some(span(1)));
        open.keep(7, &block(4));
        assert_eq!(found(7, &[1]), None);
        open.keep(7, &block(5));
        assert_eq!(found(7, &[3]), None);
        assert_eq!(found(7, &[2]), Some(span(2)));
        open.close_all();
        assert_eq!(found(7, &[2, 4, 5]), None);
        let none = OpenBlocks::new(0);
        none.keep(7, &block(1));
        assert!(none.find(7, [span(1)].into_iter()).is_none());
    }
}
