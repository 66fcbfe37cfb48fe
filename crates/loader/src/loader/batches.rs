//! Iterates over the batches of an epoch.

use super::Loader;
use crate::batch::Batch;
use shardpack_reader::{Error, Result};

/// The batches of an epoch, starting at the loader's current position.
#[derive(Debug)]
pub struct Batches<'a> {
    loader: &'a mut Loader,
    /// Error from starting the epoch, if any. The iterator then returns only this error.
    refused: Option<Option<Error>>,
}

impl Loader {
    /// Iterates over the batches of an epoch: calls [`Loader::set_epoch`], then [`Loader::next_batch`] until
    /// the end. If the loop exits early, the next call restarts the epoch.
    ///
    /// ```no_run
    /// # use shardpack_loader::{Dataset, LoaderOptions};
    /// let mut loader = LoaderOptions::default().of(&Dataset::open("train")?).open()?;
    /// for epoch in loader.current_epoch()..90 {
    ///     for batch in loader.epoch(epoch) {
    ///         let batch = batch?;
    ///     }
    /// }
    /// # Ok::<(), shardpack_loader::Error>(())
    /// ```
    pub fn epoch(&mut self, epoch: u32) -> Batches<'_> {
        let refused = self.set_epoch(epoch).err().map(Some);
        Batches { loader: self, refused }
    }
}

impl Batches<'_> {
    /// Returns the loader, for example to get its state or its statistics.
    #[must_use]
    pub const fn loader(&self) -> &Loader {
        self.loader
    }
}

impl Iterator for Batches<'_> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.refused {
            Some(refused) => refused.take().map(Err),
            None => self.loader.next_batch(),
        }
    }
}
