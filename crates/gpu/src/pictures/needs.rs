//! What the device needs of one picture, found by any thread and copied to wherever there is room.

use super::assembly::Totals;
use super::changes::{CHANGE_BYTES, CHANGED_BYTES, Changes};
use super::frame::{Frame, Shown};
use super::kept::Kept;
use super::record::{CODE_BYTES, PICTURE_BYTES, SEGMENT_BYTES, TILE_BYTES};
use super::segments::{Segment, select, select_known};
use super::{Output, Reason, StagingOptions, tiles};
use crate::gather::Piece;
use shardpack_augment::Augmentation;
use shardpack_jpeg::{Coding, JpegHeader, Placement, Rendering, StoredCode};
use std::ops::Range;

/// What the device needs of a picture: known, and not copied yet.
#[derive(Debug)]
pub(crate) struct Needs<'a> {
    scan: Scan<'a>,
    /// The parts of the scan that are copied, one behind the other.
    ranges: Vec<Range<usize>>,
    /// Bytes of these parts.
    scan_bytes: usize,
    codes: Vec<StoredCode<'a>>,
    /// Its numbers, as if it stood at the start of everything.
    entry: Entry,
}

/// Where the entropy-coded bytes are.
#[derive(Debug)]
enum Scan<'a> {
    /// Here, to be copied to staging memory, in front of the codes.
    Here(&'a [u8]),
    /// At this place of the memory that stays on the device, to be copied there.
    Kept(u64),
}

/// The codes and quantisers of a picture, each code once.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Tables<'a> {
    pub(super) codes: Vec<StoredCode<'a>>,
    /// Number of each component's code.
    pub(super) dc: [u32; 3],
    pub(super) ac: [u32; 3],
    pub(super) quantisers: [[u8; 64]; 3],
}

/// Where what a picture needs is put.
pub(crate) struct To<'a> {
    /// In staging memory.
    pub(crate) at: usize,
    pub(crate) bytes: &'a mut [u8],
    /// In the slot, a multiple of 16: [`Needs::gathered_bytes`] of a scan that is on the device.
    pub(crate) gathered: u64,
    /// Its first element in the output.
    pub(crate) out: u64,
}

/// A picture in staging memory: what its tables are made of. Numbers count from its own first
/// segment, code and so on; what comes before them is known when the batch is complete.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(super) output: Output,
    /// What is done to its levels before they are written.
    pub(super) changes: Changes,
    pub(super) place: Placement,
    pub(super) frame: Frame,
    pub(super) shown: Shown,
    /// Its first element in the output.
    pub(super) out: u64,
    pub(super) taps: (u32, u32),
    pub(super) tile: (u32, u32),
    /// Its segments, and an end. Their bytes are in staging memory, ascending.
    pub(super) segments: Vec<Segment>,
    /// Place in staging memory and number of symbols of each Huffman code.
    pub(super) codes: Vec<[u32; 2]>,
    /// Number of each component's code.
    pub(super) dc: [u32; 3],
    pub(super) ac: [u32; 3],
    pub(super) quantisers: [[u8; 64]; 3],
    /// Blocks of luma, and of each chroma.
    pub(super) blocks: (u32, u32),
    /// Spans and weights of the first axis.
    pub(super) spans: u32,
    pub(super) weights: u32,
    /// What is copied on the device.
    pieces: Vec<Piece>,
    totals: Totals,
}

impl<'a> Needs<'a> {
    /// Looks at a picture.
    ///
    /// # Errors
    /// Why it is not for the kernels.
    pub(crate) fn of(
        jpeg: &'a [u8],
        how: &Rendering,
        changes: &[Augmentation],
        options: &StagingOptions,
    ) -> Result<Self, Reason> {
        let (header, frame) = looked(jpeg, options)?;
        let mut needs = Self::shown((header.width.into(), header.height.into()), frame, (how, changes), options)?;
        let coding = Coding::read(jpeg, &header).ok_or(Reason::Tables)?;
        let scan = usize::try_from(header.scan_offset).ok().and_then(|at| jpeg.get(at..)).ok_or(Reason::Header)?;
        needs.scan = Scan::Here(scan);
        let Entry { shown, segments, .. } = &mut needs.entry;
        needs.scan_bytes = select(scan, &frame, shown, segments, &mut needs.ranges)?;
        needs.with(Tables::of(&coding)?)
    }

    /// Looks at a picture of which [`keep`](super::keep) has kept this.
    ///
    /// # Errors
    /// Why this view of it is not for the kernels.
    pub(crate) fn of_kept(
        kept: &'a [u8],
        how: &Rendering,
        changes: &[Augmentation],
        options: &StagingOptions,
    ) -> Result<Self, Reason> {
        let Kept { scan, size, frame, tables, starts } = Kept::read(kept).ok_or(Reason::Header)?;
        let mut needs = Self::shown(size, frame, (how, changes), options)?;
        needs.scan = Scan::Kept(scan);
        let Entry { shown, segments, .. } = &mut needs.entry;
        needs.scan_bytes = select_known(starts, &frame, shown, segments, &mut needs.ranges)?;
        needs.with(tables)
    }

    /// What is shown of a picture of this width and height; nothing is selected yet.
    fn shown(
        size: (u32, u32),
        frame: Frame,
        (how, changes): (&Rendering, &[Augmentation]),
        options: &StagingOptions,
    ) -> Result<Self, Reason> {
        let place = Placement::new(how, size.0, size.1).map_err(|error| Reason::View(error.to_string()))?;
        if place.is_incomplete {
            return Err(Reason::OnHost);
        }
        let tile = tiles::tile(&place.x, &place.y).ok_or(Reason::Shrinks)?;
        let shown = frame.shown(&place);
        let changes = Changes::resolve(changes, how, [place.height, place.width]);
        Ok(Self {
            scan: Scan::Here(&[]),
            ranges: Vec::new(),
            scan_bytes: 0,
            codes: Vec::new(),
            entry: Entry {
                output: options.output,
                changes,
                frame,
                shown,
                out: 0,
                taps: (tiles::taps(&place.x), tiles::taps(&place.y)),
                tile,
                segments: Vec::new(),
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

    /// With its tables, it is complete.
    fn with(mut self, tables: Tables<'a>) -> Result<Self, Reason> {
        let Tables { codes, dc, ac, quantisers } = tables;
        let entry = &mut self.entry;
        (entry.dc, entry.ac, entry.quantisers) = (dc, ac, quantisers);
        entry.codes.resize(codes.len(), [0; 2]);
        self.codes = codes;
        entry.count().ok_or(Reason::Full)?;
        Ok(self)
    }

    /// Bytes that [`stage`](Self::stage) copies.
    pub(crate) fn bytes(&self) -> usize {
        let codes: usize = self.codes.iter().map(|code| 16 + code.symbols.len()).sum();
        match self.scan {
            Scan::Here(_) => self.scan_bytes + codes,
            Scan::Kept(_) => codes,
        }
    }

    /// Bytes of the slot that it takes besides, for what is copied on the device.
    pub(crate) const fn gathered_bytes(&self) -> u64 {
        match self.scan {
            Scan::Here(_) => 0,
            // It begins where the first part does within 16 bytes, so that whole words are copied.
            Scan::Kept(_) => self.scan_bytes as u64 + 16,
        }
    }

    /// Height and width of what comes out.
    pub(crate) const fn size(&self) -> [u32; 2] {
        [self.entry.place.height, self.entry.place.width]
    }

    /// What is written of it.
    pub(crate) const fn output(&self) -> &Output {
        &self.entry.output
    }

    /// Bytes of the output that it takes.
    pub(crate) fn out_bytes(&self) -> u64 {
        self.entry.elements().saturating_mul(self.output().dtype.bytes() as u64)
    }

    /// What it adds to a batch.
    pub(crate) const fn totals(&self) -> Totals {
        self.entry.totals
    }

    /// Copies it.
    ///
    /// # Errors
    /// `Full` if there are not as many bytes, or a place is beyond what 32 bits count.
    pub(crate) fn stage(self, to: To<'_>) -> Result<Entry, Reason> {
        let Self { scan, ranges, scan_bytes, codes, mut entry } = self;
        let To { at, bytes: to, gathered, out } = to;
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

/// The header of a picture, and the grid of its MCUs.
///
/// # Errors
/// Why it is not for the kernels.
pub(super) fn looked(jpeg: &[u8], options: &StagingOptions) -> Result<(JpegHeader, Frame), Reason> {
    let header = JpegHeader::parse(jpeg).map_err(|_| Reason::Header)?;
    // libjpeg warns of bytes between segments, and refuses segments that it does not know: the host
    // says what comes of that.
    if header.stray_bytes > 0 || header.unknown_segment {
        return Err(Reason::Header);
    }
    if u64::from(header.width) * u64::from(header.height) * 4 > options.max_bytes {
        return Err(Reason::Limit);
    }
    let frame = Frame::of(&header, options)?;
    Ok((header, frame))
}

impl<'a> Tables<'a> {
    /// Gives each code of the picture a number.
    pub(super) fn of(coding: &Coding<'a>) -> Result<Self, Reason> {
        let mut all = Self { codes: Vec::new(), dc: [0; 3], ac: [0; 3], quantisers: [[0; 64]; 3] };
        let mut known: [[Option<u32>; 16]; 2] = [[None; 16]; 2];
        for (n, component) in coding.components().iter().enumerate() {
            let stored = [(component.dc_number, component.dc), (component.ac_number, component.ac)];
            let mut tables = [0; 2];
            for ((known, (number, code)), table) in known.iter_mut().zip(stored).zip(&mut tables) {
                let known = known.get_mut(usize::from(number)).ok_or(Reason::Tables)?;
                *table = *known.get_or_insert_with(|| {
                    all.codes.push(code);
                    u32::try_from(all.codes.len() - 1).unwrap_or(u32::MAX)
                });
            }
            let places = (all.dc.get_mut(n), all.ac.get_mut(n), all.quantisers.get_mut(n));
            let (Some(dc), Some(ac), Some(quantisers)) = places else { return Err(Reason::Colours) };
            ([*dc, *ac], *quantisers) = (tables, *component.quantisers);
        }
        Ok(all)
    }
}

impl Entry {
    /// Elements that it writes.
    pub(super) fn elements(&self) -> u64 {
        u64::from(self.place.height) * u64::from(self.place.width) * 3
    }

    /// What it adds to a batch.
    pub(crate) const fn totals(&self) -> Totals {
        self.totals
    }

    /// What is copied on the device.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether its levels are changed before they are written.
    pub(super) const fn is_changed(&self) -> bool {
        !self.changes.operations.is_empty()
    }

    /// Rows and columns of what comes out.
    pub(super) const fn size(&self) -> [u32; 2] {
        [self.place.height, self.place.width]
    }

    /// Columns and rows of its tiles.
    pub(super) const fn tiles(&self) -> (u32, u32) {
        (self.place.x.resized.div_ceil(self.tile.0), self.place.y.resized.div_ceil(self.tile.1))
    }

    /// The first segments of the groups that are decoded by a warp each.
    pub(super) fn groups(&self) -> impl Iterator<Item = u32> {
        (0..self.totals.segments.saturating_sub(1)).step_by(32)
    }

    /// Counts all that it has. `None` if that is more than 32 bits count.
    fn count(&mut self) -> Option<()> {
        let narrow = |n: u64| u32::try_from(n).ok();
        let (place, frame, shown) = (&self.place, &self.frame, &self.shown);
        let (across, down) = (u64::from(shown.right - shown.left), u64::from(shown.bottom - shown.top));
        let luma = narrow(across * u64::from(frame.h) * (down * u64::from(frame.v)))?;
        let chroma = if frame.components == 1 { 0 } else { narrow(across * down)? };
        let weights = |pixels: u32, taps: u32| u64::from(pixels) * u64::from(taps);
        let x_weights = weights(place.x.resized, self.taps.0);
        let (columns, rows) = self.tiles();
        // A tile's place is two numbers of 16 bits.
        if columns > 0x1_0000 || rows > 0x1_0000 {
            return None;
        }
        let segments = narrow(self.segments.len() as u64)?;
        let operations = narrow(self.changes.operations.len() as u64)?;
        // The kernel that changes levels counts them by 32 bits.
        narrow(self.elements())?;
        self.blocks = (luma, chroma);
        self.weights = narrow(x_weights)?;
        self.totals = Totals {
            pictures: 1,
            segments,
            groups: (segments - 1).div_ceil(32),
            tiles: columns.checked_mul(rows)?,
            codes: narrow(self.codes.len() as u64)?,
            spans: place.x.resized.checked_add(place.y.resized)?,
            weights: narrow(x_weights + weights(place.y.resized, self.taps.1))?,
            blocks: narrow(u64::from(luma) + 2 * u64::from(chroma))?,
            changed: operations.min(1),
            changes: operations,
            blur_weights: narrow(self.changes.weights.len() as u64)?,
        };
        Some(())
    }
}

impl Totals {
    /// Bytes of all tables but for what lies between them.
    pub(crate) const fn table_bytes(&self) -> usize {
        let Self { pictures, segments, groups, tiles, codes, changed, changes, blur_weights, .. } = *self;
        PICTURE_BYTES as usize * pictures as usize
            + SEGMENT_BYTES * (segments as usize + groups as usize)
            + TILE_BYTES * tiles as usize
            + CODE_BYTES * codes as usize
            + CHANGED_BYTES as usize * changed as usize
            + CHANGE_BYTES as usize * changes as usize
            + 4 * blur_weights as usize
    }
}
