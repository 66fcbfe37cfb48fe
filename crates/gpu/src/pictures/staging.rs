//! From a record to what the device needs of it, in memory from which it is uploaded.

use super::batch::{Batch, Row, Sections};
use super::record::Writer;
use super::segments::{Segment, select};
use super::{Output, Reason, tiles};
use shardpack_codec::jpeg::{Coding, JpegHeader, Placement, Rendering, Sampling, StoredCode};

/// What is staged, and what is left to the host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StagingOptions {
    /// What the kernels write.
    pub output: Output,
    /// Whether the host decodes pictures that shrink to half or less at a smaller scale, as
    /// `DecodeOptions::scaled` says. Then they are left to it, so that the pixels are the same
    /// whoever decodes them. Default on, as there.
    pub scaled: bool,
    /// Most blocks of a segment. One thread decodes it, so that the longest segment sets the time
    /// of a batch. Default 2048.
    pub max_segment_blocks: u32,
}

impl Default for StagingOptions {
    fn default() -> Self {
        Self { output: Output::default(), scaled: true, max_segment_blocks: 2048 }
    }
}

/// What a picture's frame header says, in MCUs unless it says otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) columns: u32,
    pub(super) rows: u32,
    pub(super) interval: u32,
    pub(super) components: u32,
    /// Blocks of luma in an MCU, side by side and above each other.
    pub(super) h: u32,
    pub(super) v: u32,
    /// Samples.
    pub(super) chroma_width: u32,
    pub(super) chroma_height: u32,
}

/// MCUs whose samples are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) left: u32,
    pub(super) top: u32,
    pub(super) right: u32,
    pub(super) bottom: u32,
}

/// A staged picture.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) place: Placement,
    pub(super) frame: Frame,
    pub(super) shown: Shown,
    /// Its first element in the output.
    pub(super) out: u64,
    pub(super) taps: (u32, u32),
    pub(super) spans: (u32, u32),
    pub(super) weights: (u32, u32),
    pub(super) tile: (u32, u32),
    /// First segment, and how many.
    pub(super) segments: (u32, u32),
    /// First block of each component.
    pub(super) planes: [u32; 3],
    pub(super) dc: [u32; 3],
    pub(super) ac: [u32; 3],
    pub(super) quantisers: [[u8; 64]; 3],
}

impl Frame {
    fn of(header: &JpegHeader, options: &StagingOptions) -> Result<Self, Reason> {
        let one_scan = usize::from(header.scan_components) == header.components().len();
        if !matches!(header.sof, 0 | 1) || header.precision != 8 || !one_scan {
            return Err(Reason::Process);
        }
        if header.is_rgb() || !matches!(header.components().len(), 1 | 3) {
            return Err(Reason::Colours);
        }
        let (h, v, components) = match header.sampling() {
            Sampling::Gray => (1, 1, 1),
            Sampling::S444 => (1, 1, 3),
            Sampling::S422 => (2, 1, 3),
            Sampling::S420 => (2, 2, 3),
            Sampling::S440 => (1, 2, 3),
            Sampling::S411 | Sampling::S410 | Sampling::Other => return Err(Reason::Sampling),
        };
        let (width, height) = (u32::from(header.width), u32::from(header.height));
        let (columns, rows) = (width.div_ceil(8 * h), height.div_ceil(8 * v));
        let (chroma_width, chroma_height) = (width.div_ceil(h), height.div_ceil(v));
        // So narrow a row, libjpeg does not interpolate.
        if h == 2 && chroma_width <= 2 {
            return Err(Reason::Sampling);
        }
        let mcus = columns * rows;
        let interval = match u32::from(header.restart_interval) {
            0 => mcus,
            interval => interval.min(mcus),
        };
        let blocks = if components == 1 { 1 } else { h * v + 2 };
        if interval.saturating_mul(blocks) > options.max_segment_blocks {
            return Err(Reason::LongSegments);
        }
        Ok(Self { columns, rows, interval, components, h, v, chroma_width, chroma_height })
    }

    /// The MCUs that hold the window, and what upsampling needs beside it.
    fn shown(&self, place: &Placement) -> Shown {
        let span = |start: u32, end: u32, factor: u32, most: u32| {
            let margin = u32::from(factor > 1);
            (start.saturating_sub(margin) / (8 * factor), (end + margin).div_ceil(8 * factor).min(most))
        };
        let window = place.window;
        let (left, right) = span(window.x, window.right(), self.h, self.columns);
        let (top, bottom) = span(window.y, window.bottom(), self.v, self.rows);
        Shown { left, top, right, bottom }
    }
}

/// Pictures of a batch on their way to the device.
///
/// ```
/// use shardpack_codec::jpeg::Rendering;
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
    rows: Vec<Row>,
    segments: Vec<Segment>,
    /// Offset and number of symbols of each Huffman table.
    codes: Vec<[u32; 2]>,
    spans: u32,
    weights: u32,
    blocks: u32,
    elements: u64,
}

impl<'a> Staging<'a> {
    /// Begins a batch in `memory`, from which it is uploaded.
    pub fn new(memory: &'a mut [u8], options: StagingOptions) -> Self {
        Self {
            memory,
            options,
            used: 0,
            entries: Vec::new(),
            rows: Vec::new(),
            segments: Vec::new(),
            codes: Vec::new(),
            spans: 0,
            weights: 0,
            blocks: 0,
            elements: 0,
        }
    }

    /// Adds a picture, and returns its row in the batch.
    ///
    /// # Errors
    /// Why it is not for the kernels. Then the batch is as it was.
    pub fn push(&mut self, jpeg: &[u8], how: &Rendering) -> Result<usize, Reason> {
        let (segments, codes) = (self.segments.len(), self.codes.len());
        let staged = self.stage(jpeg, how);
        if staged.is_err() {
            self.segments.truncate(segments);
            self.codes.truncate(codes);
        }
        staged
    }

    fn stage(&mut self, jpeg: &[u8], how: &Rendering) -> Result<usize, Reason> {
        let header = JpegHeader::parse(jpeg).map_err(|_| Reason::Header)?;
        // libjpeg warns of bytes between segments, and the host says what comes of that.
        if header.stray_bytes > 0 {
            return Err(Reason::Header);
        }
        let frame = Frame::of(&header, &self.options)?;
        let place = Placement::new(how, header.width.into(), header.height.into())
            .map_err(|error| Reason::View(error.to_string()))?;
        if self.options.scaled && place.is_scaled {
            return Err(Reason::Shrinks);
        }
        let tile = tiles::tile(&place.x, &place.y).ok_or(Reason::Shrinks)?;
        let coding = Coding::read(jpeg, &header).ok_or(Reason::Tables)?;
        let shown = frame.shown(&place);

        // All numbers are made sure of before anything is kept.
        let across = shown.right - shown.left;
        let luma = u64::from(across * frame.h) * u64::from((shown.bottom - shown.top) * frame.v);
        let chroma = if frame.components == 1 { 0 } else { u64::from(across) * u64::from(shown.bottom - shown.top) };
        let narrow = |value: u64| u32::try_from(value).map_err(|_| Reason::Full);
        let plane = |n: u64| narrow(u64::from(self.blocks) + luma + n * chroma);
        let planes = [self.blocks, plane(0)?, plane(1)?];
        let blocks = plane(2)?;
        let taps = (tiles::taps(&place.x), tiles::taps(&place.y));
        let spans = [u64::from(self.spans), u64::from(self.spans) + u64::from(place.x.resized)];
        let spans_end = narrow(spans[1] + u64::from(place.y.resized))?;
        let weights =
            [u64::from(self.weights), u64::from(self.weights) + u64::from(place.x.resized) * u64::from(taps.0)];
        let weights_end = narrow(weights[1] + u64::from(place.y.resized) * u64::from(taps.1))?;

        let first = narrow(self.segments.len() as u64)?;
        let scan = usize::try_from(header.scan_offset).ok().and_then(|at| jpeg.get(at..)).ok_or(Reason::Header)?;
        let mut at = select(scan, &frame, &shown, self.memory, self.used, &mut self.segments)?;
        let count = narrow(self.segments.len() as u64)? - first - 1;
        let mut entry = Entry {
            place,
            frame,
            shown,
            out: self.elements,
            taps,
            spans: (narrow(spans[0])?, narrow(spans[1])?),
            weights: (narrow(weights[0])?, narrow(weights[1])?),
            tile,
            segments: (first, count),
            planes,
            dc: [0; 3],
            ac: [0; 3],
            quantisers: [[0; 64]; 3],
        };
        self.code(&coding, &mut entry, &mut at)?;

        self.used = at;
        (self.blocks, self.spans, self.weights) = (blocks, spans_end, weights_end);
        self.rows.push(Row { first: self.elements, height: place.height, width: place.width });
        self.elements += u64::from(place.height) * u64::from(place.width) * 3;
        self.entries.push(entry);
        Ok(self.entries.len() - 1)
    }

    /// Copies the picture's codes, each of them once.
    fn code(&mut self, coding: &Coding<'_>, entry: &mut Entry, at: &mut usize) -> Result<(), Reason> {
        let mut known: [[Option<u32>; 16]; 2] = [[None; 16]; 2];
        for (n, component) in coding.components().iter().enumerate() {
            let stored = [(component.dc_number, component.dc), (component.ac_number, component.ac)];
            let mut tables = [0; 2];
            for ((known, (number, code)), table) in known.iter_mut().zip(stored).zip(&mut tables) {
                let known = known.get_mut(usize::from(number)).ok_or(Reason::Tables)?;
                *table = match *known {
                    Some(table) => table,
                    None => *known.insert(self.store(code, at)?),
                };
            }
            let places = (entry.dc.get_mut(n), entry.ac.get_mut(n), entry.quantisers.get_mut(n));
            let (Some(dc), Some(ac), Some(quantisers)) = places else { return Err(Reason::Colours) };
            ([*dc, *ac], *quantisers) = (tables, *component.quantisers);
        }
        Ok(())
    }

    fn store(&mut self, code: StoredCode<'_>, at: &mut usize) -> Result<u32, Reason> {
        let end = *at + 16 + code.symbols.len();
        let (counts, symbols) = self.memory.get_mut(*at..end).ok_or(Reason::Full)?.split_at_mut(16);
        counts.copy_from_slice(code.counts);
        symbols.copy_from_slice(code.symbols);
        let narrow = |n: usize| u32::try_from(n).map_err(|_| Reason::Full);
        self.codes.push([narrow(*at)?, narrow(code.symbols.len())?]);
        *at = end;
        narrow(self.codes.len() - 1)
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
        let mut tables = Vec::new();
        let start = self.used.next_multiple_of(16) + 16;
        let mut sections = Sections::default();
        let at = |tables: &mut Vec<u8>| {
            tables.resize(tables.len().next_multiple_of(16), 0);
            start + tables.len()
        };

        sections.pictures = at(&mut tables);
        self.entries.iter().for_each(|entry| Writer(&mut tables).picture(entry));
        sections.segments = at(&mut tables);
        for segment in &self.segments {
            Writer(&mut tables).u32s([segment.offset, segment.number]);
        }
        sections.groups = at(&mut tables);
        let mut groups: Vec<(u32, [u32; 2])> = Vec::new();
        for (picture, entry) in (0..).zip(&self.entries) {
            let work =
                entry.frame.interval * if entry.frame.components == 1 { 1 } else { entry.frame.h * entry.frame.v + 2 };
            groups.extend((0..entry.segments.1).step_by(32).map(|first| (work, [picture, first])));
        }
        // Longest segments first, so that none of them is begun when the others are done.
        groups.sort_by_key(|&(work, _)| std::cmp::Reverse(work));
        groups.iter().for_each(|&(_, group)| Writer(&mut tables).u32s(group));
        sections.tiles = at(&mut tables);
        let mut tile_count = 0_usize;
        for (picture, entry) in (0..).zip(&self.entries) {
            let (columns, rows) =
                (entry.place.x.resized.div_ceil(entry.tile.0), entry.place.y.resized.div_ceil(entry.tile.1));
            for (row, column) in (0..rows).flat_map(|row| (0..columns).map(move |column| (row, column))) {
                if row > 0xFFFF || column > 0xFFFF {
                    return Err(Reason::Full);
                }
                Writer(&mut tables).u32s([picture, row << 16 | column]);
                tile_count += 1;
            }
        }
        sections.codes = at(&mut tables);
        self.codes.iter().for_each(|&code| Writer(&mut tables).u32s(code));

        let end = start + tables.len();
        self.memory.get_mut(self.used..start).ok_or(Reason::Full)?.fill(0);
        self.memory.get_mut(start..end).ok_or(Reason::Full)?.copy_from_slice(&tables);
        let narrow = |n: usize| u32::try_from(n).map_err(|_| Reason::Full);
        narrow(end)?;
        Ok(Batch {
            sections,
            output: self.options.output,
            rows: self.rows,
            entropy_bytes: self.used,
            upload_bytes: end,
            segments: narrow(self.segments.len())?,
            groups: narrow(groups.len())?,
            tiles: narrow(tile_count)?,
            codes: narrow(self.codes.len())?,
            spans: self.spans as usize,
            weights: self.weights as usize,
            blocks: self.blocks as usize,
            elements: self.elements,
        })
    }
}
