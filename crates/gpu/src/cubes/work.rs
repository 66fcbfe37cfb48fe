//! From staged cubes to what is launched: each gets its place among the others, and the tables are
//! written.

use super::places::BlockPlaces;
use super::staged::{StagedArray, align};
use super::wire::{
    CubeRow, NOISE_THREADS, PIECE_THREADS, PieceTask, STREAM_WARPS, StreamSource, StreamTask, TILE_WARPS, Wire,
};
use crate::config::STATUS_BYTES;
use crate::driver::{Launch, Params};
use shardpack_format::{Error, Result, bug, to_usize};
use std::cmp::Reverse;
use std::ops::Range;

/// Bytes behind the last one in use that kernels may read.
const MARGIN: u64 = 64;
/// Most cubes of a batch: blocks of a grid along one axis.
pub(crate) const MOST_CUBES: usize = 65_535;
/// Most bytes between the tables and before them.
pub(crate) const GAPS: usize = 5 * 16;

/// Appends the tables of a batch to `tables`, whose first byte stands at `start` of the slot, a
/// multiple of 16. Scratch ends at `scratch`. With each entry comes the number of the `shared` array
/// whose blocks it takes, if it has none of its own.
pub(crate) fn assemble(
    entries: &[(&StagedArray, Option<usize>)],
    shared: &[&BlockPlaces],
    start: usize,
    scratch: u64,
    tables: &mut Vec<u8>,
) -> Result<CubeWork> {
    let count =
        |n: usize| u32::try_from(n).map_err(|_| Error::limit("streams of a batch", "u32", u32::MAX.into(), n as u64));
    if entries.len() > MOST_CUBES {
        return Err(Error::limit("cubes of a batch", "blocks of a grid", MOST_CUBES as u64, entries.len() as u64));
    }
    let put_planes = |places: &BlockPlaces, tables: &mut Vec<u8>| {
        let at = start + align(tables);
        places.planes.iter().for_each(|plane| plane.put(tables));
        at as u64
    };
    let shared_planes: Vec<u64> = shared.iter().map(|places| put_planes(places, tables)).collect();
    let mut rows: Vec<CubeRow> = Vec::with_capacity(entries.len());
    for (number, (entry, sharing)) in (0..).zip(entries) {
        let planes = match (&entry.places, sharing.and_then(|number| shared_planes.get(number))) {
            (Some(own), _) => put_planes(own, tables),
            (None, Some(planes)) => *planes,
            (None, None) => bug("the blocks of an array have no places"),
        };
        let base = (start + align(tables)) as u64;
        tables.extend_from_slice(&entry.tables);
        let mut row = CubeRow { row: number, planes, ..entry.row.clone() };
        for at in [&mut row.picks, &mut row.chunk_picks, &mut row.tables, &mut row.factors] {
            *at += base;
        }
        rows.push(row);
    }
    let streams_at = start + align(tables);
    let mut streams = Vec::new();
    // Behind those of the rows come the status words of what they share.
    let own = (0..).zip(entries).filter_map(|(row, (entry, _))| Some((row, entry.places.as_ref()?)));
    let places: Vec<(u32, &BlockPlaces)> = own.chain((count(rows.len())?..).zip(shared.iter().copied())).collect();
    for (row, places) in &places {
        streams.extend(places.tasks.streams.iter().map(|&task| StreamTask { row: *row, ..task }));
    }
    // Zstd has a kernel of its own. Of each, those that take longest first: else a few warps work on when
    // all others are done.
    let is_zstd = |task: &StreamTask| matches!(task.source, StreamSource::Zstd(_));
    streams.sort_unstable_by_key(|task| (!is_zstd(task), Reverse(task.toil())));
    let frames = streams.partition_point(is_zstd);
    streams.iter().for_each(|task| task.put(tables));
    let pieces_at = start + align(tables);
    let pieces: Vec<&PieceTask> = places.iter().flat_map(|(_, places)| &places.tasks.pieces).collect();
    pieces.iter().for_each(|task| task.put(tables));
    // Zero, as the kernels want them.
    let status_at = start + align(tables);
    tables.resize(tables.len() + STATUS_BYTES * (rows.len() + shared.len()), 0);
    let cubes_at = start + align(tables);
    rows.iter().for_each(|row| row.put(tables));
    let most = |of: fn(&CubeRow) -> u64| {
        let most = rows.iter().map(of).max().unwrap_or(0);
        u32::try_from(most).map_err(|_| Error::limit("pixels of a cube", "2^31 warps", u32::MAX.into(), most))
    };
    Ok(CubeWork {
        upload_bytes: start + tables.len(),
        slot_bytes: scratch + MARGIN,
        cubes: count(rows.len())?,
        shared: count(shared.len())?,
        frames: (streams_at as u64, count(frames)?),
        streams: ((streams_at + frames * StreamTask::BYTES) as u64, count(streams.len() - frames)?),
        pieces: (pieces_at as u64, count(pieces.len())?),
        status_at: status_at as u64,
        cubes_at: cubes_at as u64,
        units: most(CubeRow::units)?,
        quads: most(CubeRow::quads)?,
        noise: most(CubeRow::noise)?,
        out_bytes: entries.iter().map(|(entry, _)| entry.out_end).max().unwrap_or(0),
    })
}

/// What is to be done for a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CubeWork {
    upload_bytes: usize,
    slot_bytes: u64,
    cubes: u32,
    /// Arrays of which several of them take a part.
    shared: u32,
    /// Of zstd, and others.
    frames: (u64, u32),
    streams: (u64, u32),
    pieces: (u64, u32),
    status_at: u64,
    cubes_at: u64,
    /// Of the cube that needs most of them, warps of `cube_values`, blocks of `cube_quads` and of
    /// `cube_noise`.
    units: u32,
    quads: u32,
    noise: u32,
    out_bytes: u64,
}

impl CubeWork {
    /// Bytes at the start of the slot that are to be uploaded.
    #[must_use]
    pub const fn upload_bytes(&self) -> usize {
        self.upload_bytes
    }

    /// Bytes that the slot must have on the device: what is uploaded, and scratch behind it.
    #[must_use]
    pub const fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// Cubes of the batch.
    #[must_use]
    pub const fn cubes(&self) -> u32 {
        self.cubes
    }

    /// Bytes that the output must have.
    #[must_use]
    pub const fn out_bytes(&self) -> u64 {
        self.out_bytes
    }

    /// Where in the slot the statuses are once the kernels have run: a word for each cube, and then one
    /// for each array that several of them share, see [`Fault::of`](super::Fault::of). An upload sets
    /// them to zero.
    #[must_use]
    pub fn statuses(&self) -> Range<usize> {
        let start = to_usize(self.status_at);
        start..start.saturating_add(STATUS_BYTES * (self.cubes as usize + self.shared as usize))
    }

    /// The kernels to run, in this order, with the slot, the values that stay on the device (of
    /// which there may be none) and the output at these addresses.
    #[must_use]
    pub fn launches(&self, slot: u64, kept: u64, out: u64) -> [Launch; 6] {
        let status = slot + self.status_at;
        let launch = |kernel, grid, threads, table, count| Launch {
            kernel,
            grid,
            block: [threads, 1, 1],
            params: Params::new()
                .address(slot)
                .address(kept)
                .address(out)
                .address(status)
                .address(table)
                .u32(count)
                .u32(0),
        };
        let ((frames_at, frames), (streams_at, streams)) = (self.frames, self.streams);
        let (pieces_at, pieces) = self.pieces;
        let of_cubes = |kernel, blocks, threads| {
            let grid = [blocks, self.cubes, u32::from(self.cubes > 0)];
            launch(kernel, grid, threads, self.cubes_at, self.units)
        };
        [
            launch("cube_frames", [frames, 1, 1], 32, frames_at, frames),
            launch("cube_streams", [streams.div_ceil(STREAM_WARPS), 1, 1], 32 * STREAM_WARPS, streams_at, streams),
            launch("cube_pieces", [pieces, 1, 1], PIECE_THREADS, pieces_at, pieces),
            of_cubes("cube_values", self.units.div_ceil(TILE_WARPS), 32 * TILE_WARPS),
            of_cubes("cube_quads", self.quads, 32 * TILE_WARPS),
            of_cubes("cube_noise", self.noise, NOISE_THREADS),
        ]
    }
}
