//! Walks through a shard from record to record, and finds the next record after damage.
//!
//! A frame contains the length of its record and has its own CRC32, so the walk needs no index. After damage,
//! the index gives the offset of the next record if there is an index. Otherwise, the walk searches all
//! multiples of 64 for a frame whose CRC32 matches.

use crate::error::Result;
use crate::handles::ShardFile;
use crate::scratch::room;
use shardpack_format::{
    ALIGNMENT, Error as FormatError, FRAME_BYTES, Frame, HEADER_BYTES, Index, Limits, RECORD_MAGIC, Record, to_usize,
};
use std::ops::Range;

/// Number of bytes to read at a time while searching for a frame.
const WINDOW_BYTES: u64 = 1 << 20;
/// Number of bytes to skip after a failed disk read.
const BAD_BYTES: u64 = 4096;
const INDEX_MAGIC: &[u8] = b"SHRDINDX";

#[derive(Debug)]
pub(crate) enum Step {
    /// A record whose frame, CRC32 and structure are intact.
    Record { offset: u64, frame: Frame, bytes: Vec<u8> },
    Lost {
        range: Range<u64>,
        /// Number of the index row with this offset, if any.
        row: Option<u64>,
        key: Option<String>,
        why: crate::Error,
    },
}

struct Damage {
    frame: Option<Frame>,
    key: Option<String>,
    why: crate::Error,
}

#[derive(Debug)]
pub(crate) struct Walk {
    file: ShardFile,
    limits: Limits,
    position: u64,
    end: u64,
    index: Option<Index>,
    shard_number: Option<u32>,
    /// Remaining number of bytes that may be read for records whose CRC32 turns out not to match. Without this limit,
    /// malicious frames could make the total work quadratic.
    patience: u64,
    window: Vec<u8>,
    window_range: Range<u64>,
}

impl Walk {
    /// Starts at the first record. If `shard_number` is known, ignores records of other shards.
    pub(crate) fn new(
        file: ShardFile,
        end: u64,
        index: Option<Index>,
        shard_number: Option<u32>,
        limits: &Limits,
    ) -> Self {
        let patience = file.len().saturating_mul(4).saturating_add(64 << 20);
        Self {
            file,
            limits: limits.clone(),
            position: HEADER_BYTES,
            end,
            index,
            shard_number,
            patience,
            window: Vec::new(),
            window_range: 0..0,
        }
    }

    pub(crate) const fn file(&self) -> &ShardFile {
        &self.file
    }

    /// Returns the next record or gap, or `None` at the end.
    pub(crate) fn step(&mut self) -> Option<Step> {
        if self.position >= self.end || self.at_index() {
            return None;
        }
        let offset = self.position;
        match self.record_at(offset) {
            Ok((frame, bytes)) => {
                self.position = offset.saturating_add(frame.padded_bytes());
                Some(Step::Record { offset, frame, bytes })
            }
            Err(damage) => {
                let Damage { frame, key, why } = *damage;
                self.position = self.resume(offset, frame);
                let row = self.row_at(offset);
                let known = row.and_then(|row| self.index.as_ref()?.key(row)).map(str::to_owned);
                Some(Step::Lost { range: offset..self.position, row, key: known.or(key), why })
            }
        }
    }

    /// Reads a record. If it is damaged, the error contains its frame and key, as far as they could be read.
    fn record_at(&mut self, offset: u64) -> std::result::Result<(Frame, Vec<u8>), Box<Damage>> {
        let damage = |frame, key, why| Box::new(Damage { frame, key, why });
        let file_path = self.file.path().to_string_lossy().into_owned();
        let place = |e: FormatError| crate::Error::from(e.at(offset).in_file(file_path.as_str()));
        let frame = match self.frame_at(offset) {
            Ok(Ok(frame)) => frame,
            Ok(Err(e)) => return Err(damage(None, None, place(e))),
            Err(e) => return Err(damage(None, None, e)),
        };
        if let Err(e) = self.check_plausible(offset, &frame) {
            return Err(damage(Some(frame), None, place(e)));
        }
        let mut bytes = Vec::new();
        let read = room(&mut bytes, frame.record_bytes).and_then(|room| self.file.read_exact_at(room, offset));
        if let Err(e) = read {
            return Err(damage(Some(frame), None, e));
        }
        match Record::parse(&bytes, &self.limits).map(|_| ()) {
            Ok(()) => Ok((frame, bytes)),
            Err(e) => {
                self.patience = self.patience.saturating_sub(frame.record_bytes);
                let key = Record::parse_trusted(frame, &bytes, &self.limits).ok().map(|r| r.key.to_owned());
                Err(damage(Some(frame), key, place(e)))
            }
        }
    }

    fn check_plausible(&self, offset: u64, frame: &Frame) -> std::result::Result<(), FormatError> {
        if let Some(number) = self.shard_number.filter(|&n| n != frame.shard_number) {
            return Err(FormatError::format("shard number in the record's frame", number, frame.shard_number));
        }
        let room = self.end.saturating_sub(offset);
        if frame.record_bytes > room {
            let needed = frame.record_bytes;
            return Err(FormatError::malformed(format!(
                "the record is cut short: it needs {needed} bytes, but only {room} are left before the index or the \
                 end of the shard"
            )));
        }
        if frame.record_bytes > self.limits.max_record_bytes {
            let limit = self.limits.max_record_bytes;
            return Err(FormatError::limit("record", "max_record_bytes", limit, frame.record_bytes));
        }
        if frame.record_bytes > self.patience {
            return Err(FormatError::malformed(format!(
                "skipped a record of {} bytes, because the shard has too many damaged records (at most {} more bytes \
                 are checked)",
                frame.record_bytes, self.patience
            )));
        }
        Ok(())
    }

    fn resume(&mut self, offset: u64, frame: Option<Frame>) -> u64 {
        // If the frame's own CRC32 matches, its length is correct, unless the frame was copied here
        // from elsewhere.
        let after_frame = frame.map(|f| offset.saturating_add(f.padded_bytes()));
        let after_row = self.next_row_offset(offset);
        for candidate in [after_frame, after_row].into_iter().flatten() {
            if candidate >= self.end {
                if candidate == self.end && after_row.is_none() {
                    return self.end;
                }
            } else if self.is_start(candidate) {
                return candidate;
            }
        }
        self.search(offset)
    }

    /// Finds the next frame after `offset`. Frames start at multiples of 64.
    fn search(&mut self, offset: u64) -> u64 {
        let mut at = offset.saturating_add(FRAME_BYTES);
        while at < self.end {
            match self.load(at) {
                Ok(()) => {}
                Err(_) => {
                    // Skip a bad disk sector. The offset remains a multiple of 64.
                    at = at.saturating_add(BAD_BYTES);
                    continue;
                }
            }
            let window = self.window.get(self.in_window(at)..);
            debug_assert!(window.is_some(), "{at} was loaded, into {:?}", self.window_range);
            let window = window.unwrap_or_default();
            let (cells, _) = window.as_chunks::<64>();
            let hit = cells.iter().position(|cell| cell.starts_with(&RECORD_MAGIC) || cell.starts_with(INDEX_MAGIC));
            let Some(hit) = hit else {
                at = self.window_range.end.max(at.saturating_add(FRAME_BYTES));
                continue;
            };
            at = at.saturating_add(hit as u64 * ALIGNMENT);
            if self.is_start(at) {
                return at;
            }
            at = at.saturating_add(ALIGNMENT);
        }
        self.end
    }

    /// Returns true if a frame of this shard, or the index, starts at `offset`.
    fn is_start(&mut self, offset: u64) -> bool {
        match self.frame_at(offset) {
            Ok(Ok(frame)) => self.check_plausible(offset, &frame).is_ok(),
            _ => self.load(offset).is_ok() && self.window_at(offset).starts_with(INDEX_MAGIC),
        }
    }

    fn at_index(&mut self) -> bool {
        self.load(self.position).is_ok() && self.window_at(self.position).starts_with(INDEX_MAGIC)
    }

    fn frame_at(&mut self, offset: u64) -> Result<std::result::Result<Frame, FormatError>> {
        self.load(offset)?;
        Ok(Frame::parse(self.window_at(offset)))
    }

    fn in_window(&self, offset: u64) -> usize {
        to_usize(offset.saturating_sub(self.window_range.start))
    }

    fn window_at(&self, offset: u64) -> &[u8] {
        let rest = self.window.get(self.in_window(offset)..).unwrap_or_default();
        rest.get(..64).unwrap_or(rest)
    }

    /// Loads the 64 bytes at `offset`, or fewer at the end of the file.
    fn load(&mut self, offset: u64) -> Result<()> {
        let need = offset.saturating_add(FRAME_BYTES).min(self.file.len());
        if self.window_range.start <= offset && need <= self.window_range.end {
            return Ok(());
        }
        // Read little at first, because an intact shard needs only the frame. If the search continues from the end of
        // the window, load a full window.
        let near = self.window_range.end == offset && offset != 0;
        let bytes = if near { WINDOW_BYTES } else { 4096 }.min(self.file.len().saturating_sub(offset));
        self.window_range = 0..0;
        self.window.resize(usize::try_from(bytes).unwrap_or(0), 0);
        self.file.read_exact_at(&mut self.window, offset)?;
        self.window_range = offset..offset.saturating_add(bytes);
        Ok(())
    }

    fn row_at(&self, offset: u64) -> Option<u64> {
        let index = self.index.as_ref()?;
        let row = first_row_from(index, offset);
        (index.row(row)?.offset == offset).then_some(row)
    }

    fn next_row_offset(&self, offset: u64) -> Option<u64> {
        let index = self.index.as_ref()?;
        let row = index.row(first_row_from(index, offset.saturating_add(1)))?;
        Some(row.offset)
    }
}

fn first_row_from(index: &Index, offset: u64) -> u64 {
    let (mut low, mut high) = (0, index.len());
    while low < high {
        let middle = low + (high - low) / 2;
        match index.row(middle) {
            Some(row) if row.offset < offset => low = middle + 1,
            _ => high = middle,
        }
    }
    low
}
