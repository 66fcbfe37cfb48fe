//! A batch of pictures, made by one thread in the memory that is uploaded.

use super::Reason;
use super::assembly::assemble;
use super::batch::PictureBatch;
use super::options::StagingOptions;
use super::prepared::{Destination, PreparedPicture};
use super::staged::StagedPicture;
use super::totals::Totals;
use shardpack_augment::Augmentation;
use shardpack_jpeg::Rendering;

/// Pictures of a batch on their way to the device.
///
/// ```
/// use shardpack_jpeg::Rendering;
/// use shardpack_gpu::kernels::{Reason, Staging, StagingOptions};
/// let mut memory = vec![0; 1 << 20];
/// let mut staging = Staging::new(&mut memory, StagingOptions::default());
/// assert_eq!(staging.push(b"\x89PNG", &Rendering::default()), Err(Reason::Header));
/// assert_eq!(staging.finish().map(|batch| batch.rows().len()), Ok(0));
/// ```
#[derive(Debug)]
pub struct Staging<'a> {
    memory: &'a mut [u8],
    options: StagingOptions,
    /// Bytes of entropy-coded data and codes so far.
    used: usize,
    entries: Vec<StagedPicture>,
    totals: Totals,
    elements: u64,
}

impl<'a> Staging<'a> {
    /// Begins a batch in `memory`, which is uploaded later.
    pub fn new(memory: &'a mut [u8], options: StagingOptions) -> Self {
        Self { memory, options, used: 0, entries: Vec::new(), totals: Totals::default(), elements: 0 }
    }

    /// Adds a picture, and returns its row in the batch.
    ///
    /// # Errors
    /// Reason why the kernels do not take the picture. The batch then does not change.
    pub fn push(&mut self, jpeg: &[u8], how: &Rendering) -> Result<usize, Reason> {
        self.push_changed(jpeg, how, &[])
    }

    /// Adds a picture that is changed after decoding, with the draws of `how.key`, and returns its row in the
    /// batch.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_changed(&mut self, jpeg: &[u8], how: &Rendering, changes: &[Augmentation]) -> Result<usize, Reason> {
        let needs = PreparedPicture::of(jpeg, how, changes, &self.options)?;
        let totals = self.totals.and(&needs.totals()).ok_or(Reason::Full)?;
        let end = self.used + needs.bytes();
        let bytes = self.memory.get_mut(self.used..end).ok_or(Reason::Full)?;
        let entry = needs.stage(Destination { at: self.used, bytes, gathered: 0, out: self.elements })?;
        self.elements += entry.elements();
        (self.used, self.totals) = (end, totals);
        self.entries.push(entry);
        Ok(self.entries.len() - 1)
    }

    /// Number of pictures so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are no pictures yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Ends the batch: writes the tables after the pictures' bytes.
    ///
    /// # Errors
    /// `Full` if there is no room for the tables.
    pub fn finish(self) -> Result<PictureBatch, Reason> {
        let start = self.used.next_multiple_of(16) + 16;
        let mut tables = Vec::new();
        let entries: Vec<_> = self.entries.iter().collect();
        let batch = assemble(&entries, start, &mut tables)?;
        self.memory.get_mut(self.used..start).ok_or(Reason::Full)?.fill(0);
        self.memory.get_mut(start..start + tables.len()).ok_or(Reason::Full)?.copy_from_slice(&tables);
        Ok(batch)
    }
}
