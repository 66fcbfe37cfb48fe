//! Tables of a picture whose scan stays on the device. The host determines them once, so no row of a batch has to read
//! or parse the picture's bytes.
//!
//! ```text
//! offset  8   where the scan begins in the kept memory
//! size    4   width and height
//! frame   6   restart interval, blocks of an MCU across and down, components, number of codes
//! tables  198 numbers of the DC and AC codes and quantisers of three components
//! codes   …   for each: number of symbols, 16 counts, symbols
//! index   4   MCUs of a segment in the segment index, 0 if there is no index
//! starts  …   where each segment begins in the scan, and the end: 4 bytes each, in bytes, with an index in bits
//! dc      …   with an index, the last DC coefficients before each of these positions: 6 bytes each
//! ```
//!
//! The index is kept unpacked, because unpacking it again for each crop would take most of the host's time.

use super::Reason;
use super::coding::CodingTables;
use super::frame::{SegmentGrid, inspect};
use super::indexed::{self, Boundaries};
use super::options::StagingOptions;
use super::segments::starts;
use shardpack_jpeg::{Coding, McuGrid, SegmentBoundary, SegmentIndex, StoredCode, StoredPicture};
use std::ops::Range;

#[derive(Debug)]
pub(super) struct KeptPicture<'a> {
    /// Offset of the scan in the kept memory.
    pub(super) scan: u64,
    pub(super) size: (u32, u32),
    pub(super) frame: SegmentGrid,
    pub(super) tables: CodingTables<'a>,
    pub(super) segments: KeptSegments<'a>,
}

#[derive(Debug)]
pub(super) enum KeptSegments<'a> {
    /// Start of each segment, and the end of the last one.
    Starts(&'a [[u8; 4]]),
    Index(KeptBoundaries<'a>),
}

/// The boundaries of all segments of a segment index, unpacked.
#[derive(Debug)]
pub(super) struct KeptBoundaries<'a> {
    starts: &'a [[u8; 4]],
    last_dc: &'a [[u8; 6]],
}

impl<'a> KeptBoundaries<'a> {
    /// Appends the boundaries of all segments of an index. Returns an error if a position exceeds 32 bits.
    fn write(index: &SegmentIndex<'_>, out: &mut Vec<u8>) -> Result<(), Reason> {
        let all = || index.boundaries(0..index.segments(), 0);
        out.reserve(10 * (index.segments() as usize + 1));
        for SegmentBoundary { start, .. } in all() {
            out.extend(u32::try_from(start).map_err(|_| Reason::Full)?.to_le_bytes());
        }
        out.extend(all().flat_map(|boundary| boundary.last_dc).flat_map(i16::to_le_bytes));
        Ok(())
    }

    fn read(bytes: &'a [u8], segments: u32) -> Option<Self> {
        let count = segments as usize + 1;
        let (starts, rest) = bytes.split_at_checked(4 * count)?;
        Some(Self { starts: starts.as_chunks().0, last_dc: rest.as_chunks().0.get(..count)? })
    }
}

impl Boundaries for KeptBoundaries<'_> {
    fn of(&mut self, run: Range<u32>) -> Result<impl Iterator<Item = SegmentBoundary>, Reason> {
        let run = run.start as usize..=run.end as usize;
        let (starts, last_dc) = (self.starts.get(run.clone()), self.last_dc.get(run));
        let all = starts.zip(last_dc).ok_or(Reason::Index)?;
        Ok(all.0.iter().zip(all.1).map(|(start, &[a0, a1, b0, b1, c0, c1])| SegmentBoundary {
            start: u32::from_le_bytes(*start).into(),
            last_dc: [[a0, a1], [b0, b1], [c0, c1]].map(i16::from_le_bytes),
        }))
    }
}

/// Appends to `out` the tables that the host keeps for a picture. Returns the scan, which the caller must
/// store at offset `scan` of the kept memory.
///
/// # Errors
/// The reason why the kernels accept no view of the picture. Nothing is then appended.
pub(crate) fn keep<'a>(
    picture: &StoredPicture<'a>,
    options: &StagingOptions,
    scan: u64,
    out: &mut Vec<u8>,
) -> Result<&'a [u8], Reason> {
    let (header, frame, index) = inspect(picture, options)?;
    let coding = Coding::read(picture.bytes, &header).ok_or(Reason::Tables)?;
    let tables = CodingTables::of(&coding)?;
    let bytes =
        usize::try_from(header.scan_offset).ok().and_then(|at| picture.bytes.get(at..)).ok_or(Reason::Header)?;
    let mut table = Vec::new();
    let (end, interval) = match &index {
        Some(index) => {
            KeptBoundaries::write(index, &mut table)?;
            (indexed::whole(bytes, &frame, index)?, index.interval())
        }
        None => (starts(bytes, &frame, &mut table)?, 0),
    };
    let bytes = bytes.get(..end).ok_or(Reason::Markers)?;
    let symbols = |code: &StoredCode<'_>| u16::try_from(code.symbols.len()).map_err(|_| Reason::Tables);
    let counts = tables.codes.iter().map(symbols).collect::<Result<Vec<u16>, Reason>>()?;
    let small = |n: u32| u8::try_from(n).map_err(|_| Reason::Tables);
    let [h, v, components] = [small(frame.grid.h)?, small(frame.grid.v)?, small(frame.grid.components)?];
    let codes = u8::try_from(counts.len()).map_err(|_| Reason::Tables)?;
    let mut numbers = [0; 6];
    for (to, number) in numbers.iter_mut().zip(tables.dc.iter().chain(&tables.ac)) {
        *to = small(*number)?;
    }
    out.extend(scan.to_le_bytes());
    out.extend([header.width, header.height, header.restart_interval].map(u16::to_le_bytes).as_flattened());
    out.extend([h, v, components, codes]);
    out.extend(numbers);
    out.extend(tables.quantisers.as_flattened());
    for (code, count) in tables.codes.iter().zip(counts) {
        out.extend(count.to_le_bytes());
        out.extend(code.counts);
        out.extend(code.symbols);
    }
    out.extend(interval.to_le_bytes());
    out.extend(table);
    Ok(bytes)
}

fn take<'a, const N: usize>(bytes: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(taken)
}

impl<'a> KeptPicture<'a> {
    pub(super) fn read(mut bytes: &'a [u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let scan = u64::from_le_bytes(*take(bytes)?);
        let mut number = || take(bytes).map(|number| u16::from_le_bytes(*number));
        let [width, height, interval] = [number()?, number()?, number()?];
        let &[h, v, components, codes] = take(bytes)?;
        let &[d0, d1, d2, a0, a1, a2] = take(bytes)?;
        let quantisers = [*take(bytes)?, *take(bytes)?, *take(bytes)?];
        let mut tables = CodingTables {
            codes: Vec::with_capacity(codes.into()),
            dc: [d0, d1, d2].map(u32::from),
            ac: [a0, a1, a2].map(u32::from),
            quantisers,
        };
        for _ in 0..codes {
            let symbols = usize::from(u16::from_le_bytes(*take(bytes)?));
            let counts = take(bytes)?;
            let (symbols, rest) = bytes.split_at_checked(symbols)?;
            *bytes = rest;
            tables.codes.push(StoredCode { counts, symbols });
        }
        if h == 0 || v == 0 {
            return None;
        }
        let size = (width.into(), height.into());
        let frame = SegmentGrid::new(McuGrid::new(size.0, size.1, [h, v, components].map(u32::from)), interval);
        let kept = Self { scan, size, frame, tables, segments: KeptSegments::Starts(&[]) };
        match u32::from_le_bytes(*take(bytes)?) {
            0 => {
                let starts = bytes.as_chunks().0.get(..=frame.segments() as usize)?;
                Some(Self { segments: KeptSegments::Starts(starts), ..kept })
            }
            interval => {
                let frame = frame.with_interval(interval);
                let boundaries = KeptBoundaries::read(bytes, frame.segments())?;
                Some(Self { frame, segments: KeptSegments::Index(boundaries), ..kept })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pictures::tests::indexed::index_of;
    use crate::pictures::tests::jpegs::Source;

    #[test]
    fn kept_tables_are_read_again() {
        for (n, factors) in [(2, 2), (2, 1), (0, 0), (1, 1), (1, 2)].into_iter().enumerate() {
            let source =
                Source { size: (37 + n as u16, 50), factors, interval: 1 + n as u16, detail: 9, seed: n as u64 };
            let jpeg = source.encoded();
            let picture = StoredPicture::new("image/jpeg", &jpeg);
            let (header, frame, _) = inspect(&picture, &StagingOptions::default()).unwrap();
            let mut out = vec![9; 5];
            let scan = keep(&picture, &StagingOptions::default(), 1 << 40, &mut out).unwrap();
            assert!(jpeg.ends_with(scan) && scan.ends_with(&[0xFF, 0xD9]));
            // Append bytes, because the tables of another picture may follow.
            out.extend([7; 9]);
            let kept = KeptPicture::read(&out[5..]).unwrap();
            assert_eq!((kept.scan, kept.size, kept.frame), (1 << 40, (37 + n as u32, 50), frame));
            assert_eq!(kept.tables, CodingTables::of(&Coding::read(&jpeg, &header).unwrap()).unwrap());
            let KeptSegments::Starts(starts) = kept.segments else { panic!("no index") };
            let starts: Vec<u32> = starts.iter().map(|start| u32::from_le_bytes(*start)).collect();
            assert_eq!((starts[0], starts[starts.len() - 1] as usize), (0, scan.len()));
            assert!(starts[1..].iter().all(|end| scan[*end as usize - 2] == 0xFF));
            for cut in 5..out.len() - 9 {
                assert!(KeptPicture::read(&out[5..cut]).is_none(), "{cut} of {}", out.len());
            }
        }
        let mut out = Vec::new();
        let other = StoredPicture::new("image/jpeg", b"GIF");
        assert_eq!(keep(&other, &StagingOptions::default(), 0, &mut out), Err(Reason::Header));
        assert!(out.is_empty());
    }

    #[test]
    fn kept_indexes_are_read_again() {
        for (factors, interval) in [((2, 2), 0), ((0, 0), 0), ((2, 1), 32)] {
            let jpeg = Source { size: (137, 90), factors, interval, detail: 9, seed: 4 }.encoded();
            let index = index_of(&jpeg).unwrap();
            let picture = StoredPicture { segments: Some(&index), ..StoredPicture::new("image/jpeg", &jpeg) };
            let (header, frame, _) = inspect(&picture, &StagingOptions::default()).unwrap();
            let mut out = Vec::new();
            let scan = keep(&picture, &StagingOptions::default(), 64, &mut out).unwrap();
            assert_eq!(scan, &jpeg[header.scan_offset as usize..jpeg.len() - 2], "all but EOI");
            out.extend([7; 9]);
            let kept = KeptPicture::read(&out).unwrap();
            assert_eq!((kept.scan, kept.frame), (64, frame));
            assert!(frame.interval < frame.restart_interval);
            let KeptSegments::Index(mut found) = kept.segments else { panic!("there is an index") };
            let (index, all) = (SegmentIndex::parse(&index).unwrap(), 0..frame.segments());
            let expected: Vec<_> = index.boundaries(all.clone(), 0).collect();
            assert!(expected.iter().map(|boundary| boundary.start).eq(index.starts()));
            assert!(found.of(all.clone()).unwrap().eq(expected));
            assert!(found.of(0..all.end + 1).is_err());
            for cut in 0..out.len() - 9 {
                assert!(KeptPicture::read(&out[..cut]).is_none(), "{cut} of {}", out.len());
            }
            // A missing byte anywhere in the scan is detected before the picture is kept.
            let at = header.scan_offset as usize + 50;
            let cut = [&jpeg[..at], &jpeg[at + 1..]].concat();
            let picture = StoredPicture { bytes: &cut, ..picture };
            assert_eq!(keep(&picture, &StagingOptions::default(), 64, &mut out), Err(Reason::Index));
        }
    }
}
