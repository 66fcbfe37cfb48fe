//! A batch of pictures, made by one thread in memory from which it is uploaded.

use super::assembly::{Totals, assemble};
use super::needs::{Entry, Needs, To};
use super::{Batch, Output, Reason};
use shardpack_augment::Augmentation;
use shardpack_jpeg::{JpegHeader, Rendering};

/// What is staged, and what is left to the host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StagingOptions {
    /// What the kernels write.
    pub output: Output,
    /// Most blocks of a segment. One thread decodes it, so that the longest segment sets the time
    /// of a batch. Default 2048.
    pub max_segment_blocks: u32,
    /// Most bytes of a whole picture, at 4 for each of its pixels, as `DecodeOptions::limits` count
    /// them: larger ones are left to the host, which says so. Default: no limit.
    pub max_bytes: u64,
}

impl Default for StagingOptions {
    fn default() -> Self {
        Self {
            output: Output::default(),
            max_segment_blocks: JpegHeader::DEVICE_SEGMENT_BLOCKS,
            max_bytes: u64::MAX,
        }
    }
}

/// Pictures of a batch on their way to the device.
///
/// ```
/// use shardpack_jpeg::Rendering;
/// use shardpack_gpu::pictures::{Reason, Staging, StagingOptions};
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
    entries: Vec<Entry>,
    totals: Totals,
    elements: u64,
}

impl<'a> Staging<'a> {
    /// Begins a batch in `memory`, from which it is uploaded.
    pub fn new(memory: &'a mut [u8], options: StagingOptions) -> Self {
        Self { memory, options, used: 0, entries: Vec::new(), totals: Totals::default(), elements: 0 }
    }

    /// Adds a picture, and returns its row in the batch.
    ///
    /// # Errors
    /// Why it is not for the kernels. Then the batch is as it was.
    pub fn push(&mut self, jpeg: &[u8], how: &Rendering) -> Result<usize, Reason> {
        self.push_changed(jpeg, how, &[])
    }

    /// Adds a picture that is changed once it is decoded, by the draws of `how.key`, and returns its
    /// row in the batch.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn push_changed(&mut self, jpeg: &[u8], how: &Rendering, changes: &[Augmentation]) -> Result<usize, Reason> {
        let needs = Needs::of(jpeg, how, changes, &self.options)?;
        let totals = self.totals.and(&needs.totals()).ok_or(Reason::Full)?;
        let end = self.used + needs.bytes();
        let bytes = self.memory.get_mut(self.used..end).ok_or(Reason::Full)?;
        let entry = needs.stage(To { at: self.used, bytes, gathered: 0, out: self.elements })?;
        self.elements += entry.elements();
        (self.used, self.totals) = (end, totals);
        self.entries.push(entry);
        Ok(self.entries.len() - 1)
    }

    /// Pictures so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Ends the batch: writes the tables behind the bytes.
    ///
    /// # Errors
    /// `Full` if there is no room for them.
    pub fn finish(self) -> Result<Batch, Reason> {
        let start = self.used.next_multiple_of(16) + 16;
        let mut tables = Vec::new();
        let entries: Vec<_> = self.entries.iter().collect();
        let batch = assemble(&entries, start, &mut tables)?;
        self.memory.get_mut(self.used..start).ok_or(Reason::Full)?.fill(0);
        self.memory.get_mut(start..start + tables.len()).ok_or(Reason::Full)?.copy_from_slice(&tables);
        Ok(batch)
    }
}
