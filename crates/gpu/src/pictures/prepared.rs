//! A picture that any thread can prepare, and that can be copied to any free part of the staging memory.

use super::changes::Changes;
use super::coding::CodingTables;
use super::frame::{SegmentGrid, inspect};
use super::indexed::{self, PackedBoundaries, Selection};
use super::kept::{KeptPicture, KeptSegments};
use super::options::{Output, StagingOptions};
use super::segments::{select, select_known};
use super::staged::{Samples, StagedPicture};
use super::totals::Totals;
use super::{Reason, tiles};
use crate::gather::Piece;
use shardpack_augment::Augmentation;
use shardpack_jpeg::{Coding, Crops, Placement, Rendering, StoredCode, StoredPicture};
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct PreparedPicture<'a> {
    scan: Scan<'a>,
    /// Parts of the scan to copy, in order.
    ranges: Vec<Range<usize>>,
    scan_bytes: usize,
    codes: Vec<StoredCode<'a>>,
    /// The table entry, numbered as if this were the first picture of the batch.
    entry: StagedPicture,
}

/// Where the entropy-coded bytes are.
#[derive(Debug)]
enum Scan<'a> {
    /// The bytes are in this slice. They are copied to staging memory, before the codes.
    Here(&'a [u8]),
    /// The bytes are at this offset of the kept memory. They are copied on the device.
    Kept(u64),
}

/// The view of a picture, and its changes.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) how: &'a Rendering,
    pub(crate) changes: &'a [Augmentation],
    /// All crops of the picture, if this is the first of several crops.
    pub(crate) crops: Option<Crops<'a>>,
}

pub(crate) struct Destination<'a> {
    pub(crate) at: usize,
    pub(crate) bytes: &'a mut [u8],
    /// Offset in the slot, a multiple of 16, to which the scan is copied if it is on the device.
    /// [`PreparedPicture::gathered_bytes`] returns the size.
    pub(crate) gathered: u64,
    /// Index of the first element in the output.
    pub(crate) out: u64,
}

impl<'a> PreparedPicture<'a> {
    pub(crate) fn of(picture: &StoredPicture<'a>, how: &Shown<'_>, options: &StagingOptions) -> Result<Self, Reason> {
        let (header, frame, index) = inspect(picture, options)?;
        let jpeg = picture.bytes;
        let mut needs = Self::shown((header.width.into(), header.height.into()), frame, how, options)?;
        let coding = Coding::read(jpeg, &header).ok_or(Reason::Tables)?;
        let scan = usize::try_from(header.scan_offset).ok().and_then(|at| jpeg.get(at..)).ok_or(Reason::Header)?;
        needs.scan = Scan::Here(scan);
        let Self { entry: StagedPicture { shown, segments, edges, .. }, ranges, .. } = &mut needs;
        needs.scan_bytes = match &index {
            None => select(scan, &frame, shown, segments, ranges)?,
            Some(index) => {
                let boundaries = PackedBoundaries::new(index);
                let bytes = indexed::select(boundaries, &frame, shown, Selection { segments, edges, ranges })?;
                indexed::check(scan, &frame, index, ranges, segments)?;
                bytes
            }
        };
        needs.with(CodingTables::of(&coding)?)
    }

    /// Prepares a picture from the tables written by [`keep`](super::keep).
    ///
    /// # Errors
    /// The reason why the kernels do not accept this view of the picture.
    pub(crate) fn of_kept(kept: &'a [u8], how: &Shown<'_>, options: &StagingOptions) -> Result<Self, Reason> {
        let KeptPicture { scan, size, frame, tables, segments: known } =
            KeptPicture::read(kept).ok_or(Reason::Header)?;
        let mut needs = Self::shown(size, frame, how, options)?;
        needs.scan = Scan::Kept(scan);
        let Self { entry: StagedPicture { shown, segments, edges, .. }, ranges, .. } = &mut needs;
        needs.scan_bytes = match known {
            KeptSegments::Starts(starts) => select_known(starts, &frame, shown, segments, ranges)?,
            KeptSegments::Index(kept) => indexed::select(kept, &frame, shown, Selection { segments, edges, ranges })?,
        };
        needs.with(tables)
    }

    /// Prepares another crop of a picture. Uses the samples of the first crop, which has been staged. Returns `None` if
    /// these samples do not cover this crop.
    ///
    /// # Errors
    /// Same as [`of`](Self::of).
    pub(crate) fn of_samples(
        samples: &Samples,
        how: &Shown<'_>,
        options: &StagingOptions,
    ) -> Result<Option<Self>, Reason> {
        let Samples { size, frame, shown } = *samples;
        let mut needs = Self::shown(size, frame, how, options)?;
        let entry = &mut needs.entry;
        if !shown.contains(&entry.shown) {
            return Ok(None);
        }
        entry.shown = shown;
        entry.count().ok_or(Reason::Full)?;
        Ok(Some(needs))
    }

    fn shown(size: (u32, u32), frame: SegmentGrid, how: &Shown<'_>, options: &StagingOptions) -> Result<Self, Reason> {
        let Shown { how, changes, crops } = *how;
        let place = Placement::new(how, size.0, size.1).map_err(|error| Reason::View(error.to_string()))?;
        let tile = tiles::tile(&place).ok_or(Reason::Shrinks)?;
        let all = crops.and_then(|crops| frame.shown_by_all(crops.placements(how, size.0, size.1)));
        let shown = all.unwrap_or_else(|| frame.shown(&place));
        let changes = Changes::resolve(changes, how, [place.height, place.width]);
        Ok(Self {
            scan: Scan::Here(&[]),
            ranges: Vec::new(),
            scan_bytes: 0,
            codes: Vec::new(),
            entry: StagedPicture {
                output: options.output,
                changes,
                size,
                frame,
                shown,
                is_shared: all.is_some(),
                out: 0,
                taps: (tiles::taps(&place.x), tiles::taps(&place.y)),
                tile,
                segments: Vec::new(),
                edges: Vec::new(),
                codes: Vec::new(),
                dc: [0; 3],
                ac: [0; 3],
                quantisers: [[0; 64]; 3],
                blocks: (0, 0),
                spans: place.x.resized,
                weights: 0,
                pieces: Vec::new(),
                totals: Totals::default(),
                place,
            },
        })
    }

    fn with(mut self, tables: CodingTables<'a>) -> Result<Self, Reason> {
        let CodingTables { codes, dc, ac, quantisers } = tables;
        let entry = &mut self.entry;
        (entry.dc, entry.ac, entry.quantisers) = (dc, ac, quantisers);
        entry.codes.resize(codes.len(), [0; 2]);
        self.codes = codes;
        entry.count().ok_or(Reason::Full)?;
        Ok(self)
    }

    /// Returns the number of bytes that [`stage`](Self::stage) copies.
    pub(crate) fn bytes(&self) -> usize {
        let codes: usize = self.codes.iter().map(|code| 16 + code.symbols.len()).sum();
        match self.scan {
            Scan::Here(_) => self.scan_bytes + codes,
            Scan::Kept(_) => codes,
        }
    }

    /// Returns the size in bytes of the scan's copy in the slot, or 0 if the scan is on the host.
    pub(crate) const fn gathered_bytes(&self) -> u64 {
        match self.scan {
            Scan::Here(_) => 0,
            // The copy keeps the position of the first part modulo 16, so that whole words can be copied. This takes up
            // to 16 more bytes.
            Scan::Kept(_) => self.scan_bytes as u64 + 16,
        }
    }

    pub(crate) const fn size(&self) -> [u32; 2] {
        [self.entry.place.height, self.entry.place.width]
    }

    pub(crate) const fn output(&self) -> &Output {
        &self.entry.output
    }

    pub(crate) fn out_bytes(&self) -> u64 {
        self.entry.elements().saturating_mul(self.output().dtype.bytes() as u64)
    }

    /// Returns the distance, in output elements, from the start of this frame of a clip to the start of the next.
    pub(crate) fn frame_step(&self) -> u64 {
        let is_planar = self.output().planes_between > 0;
        if is_planar { self.entry.elements() / 3 } else { self.entry.elements() }
    }

    pub(crate) const fn totals(&self) -> Totals {
        self.entry.totals
    }

    /// Copies the picture to its destination.
    ///
    /// # Errors
    /// `Full` if the bytes do not fit, or a position exceeds 32 bits.
    pub(crate) fn stage(self, to: Destination<'_>) -> Result<StagedPicture, Reason> {
        let Self { scan, ranges, scan_bytes, codes, mut entry } = self;
        let Destination { at, bytes: to, gathered, out } = to;
        let place = |at: u64| u32::try_from(at).map_err(|_| Reason::Full);
        place((at as u64).saturating_add(to.len() as u64))?;
        let mut end = 0;
        let mut copy = |bytes: &[u8]| {
            let begin = end;
            end += bytes.len();
            to.get_mut(begin..end).ok_or(Reason::Full)?.copy_from_slice(bytes);
            place((at + begin) as u64)
        };
        let base = match scan {
            Scan::Here(scan) => {
                for range in ranges {
                    copy(scan.get(range).ok_or(Reason::Markers)?)?;
                }
                place(at as u64)?
            }
            Scan::Kept(scan) => {
                let first = ranges.first().map_or(0, |range| scan + range.start as u64);
                let base = gathered + first % 16;
                place(base.saturating_add(scan_bytes as u64))?;
                let mut to = base;
                for Range { start, end } in ranges {
                    Piece::cut(scan + start as u64..scan + end as u64, to, &mut entry.pieces);
                    to += (end - start) as u64;
                }
                place(base)?
            }
        };
        for (stored, code) in codes.iter().zip(&mut entry.codes) {
            *code = [copy(stored.counts)?, place(stored.symbols.len() as u64)?];
            copy(stored.symbols)?;
        }
        entry.segments.iter_mut().for_each(|segment| segment.offset += base);
        entry.out = out;
        Ok(entry)
    }
}
