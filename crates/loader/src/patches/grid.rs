//! Computes the positions of the patches in a grid.

/// Patches that together cover every pixel of a scene and overlap their neighbours by `overlap` pixels. Sides
/// are depth, height and width; the depth of pictures is 1.
///
/// The last patches of each axis are moved back to the border, where they overlap their neighbours by more pixels. No
/// patch needs padding.
///
/// ```
/// use shardpack_loader::Grid;
/// let grid = Grid { size: [1, 64, 64], overlap: [0, 16, 16] };
/// // Rows begin at 0, 48, 96, 136; columns at 0, 36.
/// assert_eq!(grid.count([1, 200, 100]), Some(8));
/// assert_eq!(grid.origin(7, [1, 200, 100]), Some([0, 136, 36]));
/// assert_eq!(grid.origin(8, [1, 200, 100]), None);
/// assert_eq!(grid.count([1, 200, 63]), None, "smaller than a patch");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grid {
    /// Sides of a patch, at least 1.
    pub size: [u64; 3],
    /// Minimum overlap of neighbours in pixels. Must be less than the side.
    pub overlap: [u64; 3],
}

impl Grid {
    /// Returns the number of patches in a scene, or `None` if the scene is smaller than a patch or if the number
    /// exceeds 2⁶⁴.
    #[must_use]
    pub fn count(&self, scene: [u64; 3]) -> Option<u64> {
        let [depth, height, width] = self.counts(scene)?;
        depth.checked_mul(height)?.checked_mul(width)
    }

    /// Returns the first plane, row and column of patch `number`. Patches are numbered plane by plane and row
    /// by row. Returns `None` past the last patch, or if [`Grid::count`] is `None`.
    #[must_use]
    pub fn origin(&self, number: u64, scene: [u64; 3]) -> Option<[u64; 3]> {
        let counts = self.counts(scene)?;
        let places = [number / counts[2] / counts[1], number / counts[2] % counts[1], number % counts[2]];
        let mut origin = [0; 3];
        for (axis, at) in origin.iter_mut().enumerate() {
            let (place, size, overlap) = (places.get(axis)?, self.size.get(axis)?, self.overlap.get(axis)?);
            if place >= counts.get(axis)? {
                return None;
            }
            *at = place.checked_mul(size - overlap)?.min(scene.get(axis)? - size);
        }
        Some(origin)
    }

    fn counts(&self, scene: [u64; 3]) -> Option<[u64; 3]> {
        let mut counts = [0; 3];
        for (((count, size), overlap), length) in counts.iter_mut().zip(self.size).zip(self.overlap).zip(scene) {
            let step = size.checked_sub(overlap).filter(|&step| step > 0)?;
            *count = length.checked_sub(size)?.div_ceil(step) + 1;
        }
        Some(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pixel_is_in_a_patch_and_neighbours_share_the_overlap() {
        for (length, size, overlap) in [(1, 1, 0), (9, 3, 0), (10, 3, 0), (10, 4, 3), (11, 4, 1), (5, 5, 4), (6, 5, 0)]
        {
            let grid = Grid { size: [1, size, 1], overlap: [0, overlap, 0] };
            let scene = [1, length, 1];
            let count = grid.count(scene).unwrap();
            let starts: Vec<u64> = (0..count).map(|n| grid.origin(n, scene).unwrap()[1]).collect();
            assert_eq!((starts[0], *starts.last().unwrap() + size), (0, length));
            for pair in starts.windows(2) {
                assert!(pair[0] < pair[1] && pair[1] + overlap <= pair[0] + size, "{starts:?}");
            }
            assert_eq!(grid.origin(count, scene), None);
            let others = starts.iter().rev().skip(1).rev();
            assert!(others.enumerate().all(|(n, &start)| start == n as u64 * (size - overlap)), "{starts:?}");
        }
    }

    #[test]
    fn numbers_go_plane_by_plane_and_row_by_row() {
        let grid = Grid { size: [2, 3, 4], overlap: [0; 3] };
        let scene = [4, 6, 9];
        let all: Vec<_> = (0..grid.count(scene).unwrap()).map(|n| grid.origin(n, scene).unwrap()).collect();
        assert_eq!(all.len(), 12);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "{all:?}");
        assert_eq!(all[11], [2, 3, 5]);
    }

    #[test]
    fn what_does_not_fit_has_no_place() {
        let grid = |size, overlap| Grid { size: [1, size, size], overlap: [0, overlap, overlap] };
        assert_eq!(grid(5, 0).count([1, 4, 9]), None);
        assert_eq!(grid(5, 0).origin(0, [1, 9, 4]), None);
        assert_eq!(grid(5, 5).count([1, 9, 9]), None);
        assert_eq!(grid(1, 0).count([1, u64::MAX, 2]), None, "too many");
    }
}
