//! Writes views of masks in the form that the kernels read (`kernels/view.cuh`).

use super::put::put_all;
use shardpack_loader::stage::{MaskMove, MaskView};

/// Marks a row or column of a view that shows no part of the mask.
const VIEW_BORDER: u32 = u32::MAX;
/// Threads per block of `cube_view`. Each thread computes one element of the output.
pub(super) const VIEW_THREADS: u32 = 256;

/// A view in the form that the kernels read: the offset of its table, and the size of the view.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct ViewRow {
    pub(super) at: u64,
    pub(super) rows: u32,
    pub(super) columns: u32,
    pub(super) moves: u32,
}

impl ViewRow {
    pub(super) fn put_table(view: &MaskView, out: &mut Vec<u8>) {
        for MaskMove { map, outside } in &view.moves {
            put_all(map.inverse().map(f64::to_bits), &[], out);
            put_all([*outside], &[], out);
        }
        let sides = view.rows.iter().chain(&view.columns);
        out.extend(sides.flat_map(|at| at.unwrap_or(VIEW_BORDER).to_le_bytes()));
    }
}
