//! Reading a run into a buffer, as a whole, or, where that fails, record by record; reading a record
//! alone; and what a record is checked for before it is decoded.

mod held;
mod scene;

pub(crate) use held::WholeScene;
pub(crate) use scene::{Patch, Scene, SceneRead, SceneRecord};

use crate::fault;
use crate::sample::Key;
use shardpack_format::{Error as FormatError, Frame, Record, to_usize};
use shardpack_reader::raw::slice;
use shardpack_reader::{Error, Result};
use shardpack_reader::{Shard, raw::room};
use std::ops::Range;
use std::sync::Arc;

/// A run's bytes, as they stand in the file.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    pub(crate) shard: Option<Arc<Shard>>,
    /// Offset in the file.
    pub(crate) start: u64,
    /// Never shorter than when it was new, so that it is filled with zeros once.
    pub(crate) buffer: Vec<u8>,
    used: usize,
    /// Nothing is here: records are read when they are decoded.
    pub(crate) is_cached: bool,
    /// They are large: several threads share one.
    pub(crate) is_large: bool,
    /// Records that could not be read; the others are there.
    pub(crate) faults: Vec<(u64, Error)>,
    /// The patches of a sample, decoded, in place of its bytes.
    pub(crate) scene: Option<Scene>,
}

impl Loaded {
    /// What stands for all runs of a shard that the page cache holds.
    pub(crate) fn cached(shard: Arc<Shard>) -> Self {
        Self { shard: Some(shard), is_cached: true, ..Self::default() }
    }

    /// What stands for the large records of a shard.
    pub(crate) fn large(shard: Arc<Shard>) -> Self {
        Self { is_large: true, ..Self::cached(shard) }
    }

    /// The bytes of a record, padding included.
    ///
    /// # Errors
    /// Why it could not be read.
    pub(crate) fn record(&self, shard: &Shard, record: u64) -> Result<&[u8]> {
        if let Some((_, error)) = self.faults.iter().find(|(failed, _)| *failed == record) {
            return Err(fault::copy(error));
        }
        slice(shard, record, self.start, self.buffer.get(..self.used).unwrap_or_default())
    }
}

/// A run to be read, and the buffer for it.
#[derive(Debug)]
pub(crate) struct ReadJob {
    pub(crate) generation: u64,
    pub(crate) key: Key,
    pub(crate) shard: Arc<Shard>,
    pub(crate) records: Range<u64>,
    pub(crate) into: Arc<Loaded>,
    /// What the buffer takes.
    pub(crate) bytes: u64,
    /// Of a run that is a scene, its patches.
    pub(crate) scene: Option<Arc<SceneRead>>,
}

impl ReadJob {
    /// Reads the run. Its bytes are not compared with anything yet. If it cannot be read as a
    /// whole, its records are read one by one, so that one bad sector costs one sample.
    ///
    /// # Errors
    /// `Usage` if there is no memory for it. A record that cannot be read is an error of its row.
    pub(crate) fn read(&mut self) -> Result<u64> {
        let Some(loaded) = Arc::get_mut(&mut self.into) else {
            return Err(Error::internal("buffer of a run", "one that nobody else uses", "one in use"));
        };
        let shard = &self.shard;
        let span = shard.span(&self.records)?;
        (loaded.start, loaded.used) = (span.start, 0);
        loaded.faults.clear();
        loaded.shard = Some(Arc::clone(shard));
        let allowed = self.records.clone().try_for_each(|record| shard.check_length(record));
        if let (Err(error), 1) = (&allowed, self.records.end - self.records.start) {
            // Before memory is taken for it.
            loaded.faults.push((self.records.start, fault::copy(error)));
            return Ok(0);
        }
        let length = span.end - span.start;
        let bytes = class_room(&mut loaded.buffer, length)?;
        let (room, wanted) = (bytes.len(), to_usize(length));
        let Some(bytes) = bytes.get_mut(..wanted) else {
            return Err(Error::internal("buffer of a run", format!("{length} bytes"), room));
        };
        loaded.used = bytes.len();
        let Err(error) = allowed.and_then(|()| shard.file().read_exact_at(bytes, span.start)) else {
            return Ok(length);
        };
        let mut read = 0;
        for record in self.records.clone() {
            match read_one(shard, record, span.start, bytes, &error) {
                Ok(more) => read += more,
                Err(error) => loaded.faults.push((record, fault::of_record(error, shard, record))),
            }
        }
        Ok(read)
    }
}

/// Reads one record to its place in the buffer of a run that failed with `whole`: once more, even
/// if it is all of the run.
fn read_one(shard: &Shard, record: u64, start: u64, buffer: &mut [u8], whole: &Error) -> Result<u64> {
    shard.check_length(record)?;
    if !fault::is_local(whole) {
        return Err(fault::copy(whole));
    }
    let span = shard.span(&(record..record + 1))?;
    let range = to_usize(span.start - start)..to_usize(span.end - start);
    let place = buffer.get_mut(range).ok_or_else(|| Error::internal("record", "inside the run", record))?;
    shard.file().read_exact_at(place, span.start)?;
    Ok(span.end - span.start)
}

/// Most heads are shorter.
pub(crate) const HEAD_BYTES: usize = 4 << 10;

/// Frame and head of a record, by its own CRC32 and the index: the body's was not compared.
pub(crate) fn head(shard: &Shard, record: u64) -> Result<(Frame, Vec<u8>)> {
    let span = shard.span(&(record..record.saturating_add(1)))?;
    let length = to_usize(span.end - span.start);
    let mut bytes = vec![0; length.min(HEAD_BYTES)];
    shard.file().read_exact_at(&mut bytes, span.start)?;
    let frame = Frame::parse(&bytes)?;
    shard.index().check_frame(record, shard.identity().shard_number, &frame)?;
    let wanted = to_usize(frame.head_bytes).min(length);
    if wanted > bytes.len() {
        // Bounded by the record, whose length the limits bound.
        shard.check_length(record)?;
        bytes.resize(wanted, 0);
        shard.file().read_exact_at(&mut bytes, span.start)?;
    }
    bytes.truncate(wanted);
    Ok((frame, bytes))
}

/// Reads a record into the front of `buffer`, which grows when it must. Its bytes, padding
/// included, are not compared with anything yet.
///
/// # Errors
/// `Io`, naming the sample, if it cannot be read; `Limit` if it is too large.
pub(crate) fn alone<'b>(shard: &Shard, record: u64, buffer: &'b mut Vec<u8>) -> Result<&'b [u8]> {
    shard.read_record(record, buffer).map_err(|error| fault::of_record(error, shard, record))
}

/// Compares a record with the index and with its CRC32. What is left out of the checks of
/// [`Shard::record`] are the parts that the loader takes from the index instead: key and scalars.
pub(crate) fn check(shard: &Shard, record: u64, bytes: &[u8]) -> Result<Frame, FormatError> {
    let frame = Frame::parse(bytes)?;
    shard.index().check_frame(record, shard.identity().shard_number, &frame)?;
    if shard.options().check_crc {
        Record::check_body_crc(&frame, bytes)?;
    }
    Ok(frame)
}

/// Room for so many bytes in a buffer of their size class. What is in it does not matter: where it has
/// to grow it is made anew, as large as its class. One that doubles, or that is there twice while it
/// is copied, takes more than is predicted.
///
/// # Errors
/// `Usage` if there is no memory for it.
pub(crate) fn class_room(buffer: &mut Vec<u8>, bytes: u64) -> Result<&mut [u8]> {
    let class = size_class(bytes);
    if (buffer.len() as u64) < class {
        *buffer = Vec::new();
        // What fails here fails there.
        _ = buffer.try_reserve_exact(to_usize(class));
    }
    room(buffer, class)
}

/// Size of the buffer for a run: steps of 6 to 12 %, and whole pages, so that buffers fit again and
/// again though no two runs are alike.
pub(crate) fn size_class(bytes: u64) -> u64 {
    let step = (bytes.checked_next_power_of_two().unwrap_or(bytes) / 16).max(4096);
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_grows_is_as_large_as_its_class() {
        let mut buffer = Vec::new();
        for bytes in [2_700_000, 3_000_000, 2_900_000, 3_100_000] {
            let length = class_room(&mut buffer, bytes).unwrap().len();
            assert_eq!(length as u64, size_class(bytes));
        }
        assert_eq!(buffer.capacity() as u64, size_class(3_100_000));
    }
}
