//! Turns staged cubes into kernel launches: determines the position of each cube in the tables and writes the tables.

use super::places::BlockPlaces;
use super::staged::{EXTREMES_BYTES, StagedArray, align};
use super::view::VIEW_THREADS;
use super::volume::VOLUME_THREADS;
use super::wire::{
    AFFINE_WARPS, CubeRow, GAMMA_THREADS, MEANS_WARPS, NOISE_THREADS, PIECE_THREADS, PieceTask, STREAM_WARPS,
    StreamSource, StreamTask, TILE_WARPS, Wire,
};
use crate::config::STATUS_BYTES;
use crate::driver::{Launch, Params};
use shardpack_format::{Error, Result, bug, to_usize};
use std::cmp::Reverse;
use std::ops::Range;

/// Number of bytes past the last used byte that kernels may read.
const MARGIN: u64 = 64;
/// Maximum number of cubes in a batch: the largest grid along one axis.
pub(crate) const MOST_CUBES: usize = 65_535;
/// Maximum total size of the gaps before and between the tables, in bytes.
pub(crate) const GAPS: usize = 5 * 16;

/// Appends the tables of a batch to `tables`, whose first byte is at `start` in the slot, a multiple of 16. Scratch
/// memory ends at `scratch`. If an entry has no blocks of its own, the index next to it selects the `shared` array
/// whose blocks the entry uses.
pub(crate) fn assemble(
    entries: &[(&StagedArray, Option<usize>)],
    shared: &[&BlockPlaces],
    start: usize,
    scratch: u64,
    tables: &mut Vec<u8>,
) -> Result<CubeWork> {
    let count = |n: usize| {
        u32::try_from(n)
            .map_err(|_| Error::limit("number of table entries in a batch", "u32::MAX", u32::MAX.into(), n as u64))
    };
    if entries.len() > MOST_CUBES {
        return Err(Error::limit("number of arrays in a batch", "MOST_CUBES", MOST_CUBES as u64, entries.len() as u64));
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
        for at in [&mut row.picks, &mut row.chunk_picks, &mut row.tables, &mut row.factors, &mut row.view.at] {
            *at += base;
        }
        rows.push(row);
    }
    let streams_at = start + align(tables);
    let mut streams = Vec::new();
    // The status words of the rows come first. The status words of the shared arrays follow.
    let own = (0..).zip(entries).filter_map(|(row, (entry, _))| Some((row, entry.places.as_ref()?)));
    let places: Vec<(u32, &BlockPlaces)> = own.chain((count(rows.len())?..).zip(shared.iter().copied())).collect();
    for (row, places) in &places {
        streams.extend(places.tasks.streams.iter().map(|&task| StreamTask { row: *row, ..task }));
    }
    // Both lists begin with the longest tasks, so that no warp starts a long task when all other warps are done.
    let is_zstd = |task: &StreamTask| matches!(task.source, StreamSource::Zstd(_));
    streams.sort_unstable_by_key(|task| (!is_zstd(task), Reverse(task.toil())));
    let frames = streams.partition_point(is_zstd);
    streams.iter().for_each(|task| task.put(tables));
    let pieces_at = start + align(tables);
    let pieces: Vec<&PieceTask> = places.iter().flat_map(|(_, places)| &places.tasks.pieces).collect();
    pieces.iter().for_each(|task| task.put(tables));
    // Kernels require zeroed status words, and zeroed extremes after them.
    let status_at = start + align(tables);
    tables.resize(tables.len() + STATUS_BYTES * (rows.len() + shared.len()) + EXTREMES_BYTES * rows.len(), 0);
    let cubes_at = start + align(tables);
    rows.iter().for_each(|row| row.put(tables));
    let most = |of: fn(&CubeRow) -> u64| {
        let most = rows.iter().map(of).max().unwrap_or(0);
        u32::try_from(most).map_err(|_| Error::limit("number of pixels in an array", "u32::MAX", u32::MAX.into(), most))
    };
    Ok(CubeWork {
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
        moved_units: most(CubeRow::moved_units)?,
        means_units: most(CubeRow::means_units)?,
        viewed: most(CubeRow::viewed)?,
        volumes: most(CubeRow::volumes)?,
        powers: most(CubeRow::powers)?,
        noise: most(CubeRow::noise)?,
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CubeWork {
    slot_bytes: u64,
    cubes: u32,
    /// Number of arrays whose blocks several cubes share.
    shared: u32,
    /// Offset and number of the zstd streams (`frames`), and of all other streams (`streams`).
    frames: (u64, u32),
    streams: (u64, u32),
    pieces: (u64, u32),
    status_at: u64,
    cubes_at: u64,
    /// Maxima over all cubes: warps for `cube_values`, blocks for `cube_quads`, warps for `cube_affine` and
    /// `cube_means`, and blocks for `cube_view`, `cube_volume`, `cube_gamma` and `cube_noise`.
    units: u32,
    quads: u32,
    moved_units: u32,
    means_units: u32,
    viewed: u32,
    volumes: u32,
    powers: u32,
    noise: u32,
}

impl CubeWork {
    /// Returns the size of the slot on the device in bytes: first uploaded bytes, then scratch memory.
    #[must_use]
    pub(crate) const fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// Returns the range of the status words in the slot. There is one word per cube, followed by one word per shared
    /// array; see [`Fault::of`](super::Fault::of). The upload sets the words to zero, and kernels write them.
    #[must_use]
    pub(crate) fn statuses(&self) -> Range<usize> {
        let start = to_usize(self.status_at);
        start..start.saturating_add(STATUS_BYTES * (self.cubes as usize + self.shared as usize))
    }

    /// Returns the kernel launches, in order. The parameters are the addresses of the slot, of the values kept on the
    /// device (if any), and of the output.
    #[must_use]
    pub(crate) fn launches(&self, slot: u64, kept: u64, out: u64) -> [Launch; 12] {
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
                .u32(self.cubes.saturating_add(self.shared)),
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
            of_cubes("cube_affine", self.moved_units.div_ceil(AFFINE_WARPS), 32 * AFFINE_WARPS),
            of_cubes("cube_means", self.means_units.div_ceil(MEANS_WARPS), 32 * MEANS_WARPS),
            of_cubes("cube_view", self.viewed, VIEW_THREADS),
            of_cubes("cube_volume", self.volumes, VOLUME_THREADS),
            of_cubes("cube_extremes", self.powers, GAMMA_THREADS),
            of_cubes("cube_gamma", self.powers, GAMMA_THREADS),
            of_cubes("cube_noise", self.noise, NOISE_THREADS),
        ]
    }
}
