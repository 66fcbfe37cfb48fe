//! Assembles a batch of pictures in a single block of memory, with one thread.

use super::*;
use crate::pictures::staged::StagedPicture;
use shardpack_augment::Augmentation;
use shardpack_jpeg::StoredPicture;

pub(super) struct Staging<'a> {
    memory: &'a mut [u8],
    options: StagingOptions,
    /// Number of bytes of entropy-coded data and Huffman codes so far.
    used: usize,
    entries: Vec<StagedPicture>,
    totals: Totals,
    elements: u64,
}

impl<'a> Staging<'a> {
    pub(super) fn new(memory: &'a mut [u8], options: StagingOptions) -> Self {
        Self { memory, options, used: 0, entries: Vec::new(), totals: Totals::default(), elements: 0 }
    }

    pub(super) fn push(&mut self, jpeg: &[u8], how: &Rendering) -> Result<usize, Reason> {
        self.push_changed(jpeg, how, &[])
    }

    pub(super) fn push_changed(
        &mut self,
        jpeg: &[u8],
        how: &Rendering,
        changes: &[Augmentation],
    ) -> Result<usize, Reason> {
        self.push_picture(&StoredPicture::new("image/jpeg", jpeg), how, changes)
    }

    pub(super) fn push_picture(
        &mut self,
        picture: &StoredPicture<'_>,
        how: &Rendering,
        changes: &[Augmentation],
    ) -> Result<usize, Reason> {
        let needs = PreparedPicture::of(picture, &Shown { how, changes, crops: None }, &self.options)?;
        let totals = self.totals.and(&needs.totals()).ok_or(Reason::Full)?;
        let end = self.used + needs.bytes();
        let bytes = self.memory.get_mut(self.used..end).ok_or(Reason::Full)?;
        let entry = needs.stage(Destination { at: self.used, bytes, gathered: 0, out: self.elements })?;
        self.elements += entry.elements();
        (self.used, self.totals) = (end, totals);
        self.entries.push(entry);
        Ok(self.entries.len() - 1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn finish(self) -> PictureBatch {
        let start = self.used.next_multiple_of(16) + 16;
        let mut tables = Vec::new();
        let own: Vec<usize> = (0..self.entries.len()).collect();
        let batch = assemble(&self.entries.iter().collect::<Vec<_>>(), &own, start, &mut tables).unwrap();
        self.memory[start..start + tables.len()].copy_from_slice(&tables);
        batch
    }
}
