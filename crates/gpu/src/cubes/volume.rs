//! Writes boxes of volumes that are moved across planes, in the form that the kernels read (`kernels/volume.cuh`).

use super::put::put_all;
use shardpack_array::{Finish, VolumeWarp, Voxels};
use shardpack_format::{ArrayDescriptor, Error, Result};

/// Threads per block of `cube_volume`. Each thread computes one element of the output.
pub(super) const VOLUME_THREADS: u32 = 256;

/// Mirrors `struct VolumeMove` of the kernels.
#[derive(Debug, Clone)]
pub(super) struct VolumeRow<'a> {
    warp: &'a VolumeWarp,
    part: Voxels,
    /// Depth, height and width of the volume.
    sides: [u64; 3],
}

impl<'a> VolumeRow<'a> {
    pub(super) const BYTES: usize = 160;

    /// Creates the table entry of box `part` if `finish` moves the box across planes.
    ///
    /// # Errors
    /// `Usage` if the box, or the part that the map may read, is not within the volume.
    pub(super) fn of(finish: &'a Finish, descriptor: &ArrayDescriptor, part: Option<&Voxels>) -> Result<Option<Self>> {
        let Some(warp) = &finish.volume else { return Ok(None) };
        let Some(&part) = part else {
            return Err(Error::usage(
                "three-dimensional operations such as `random_affine_3d` apply only to patches of volumes",
            ));
        };
        let (sides, _) = part.sides_of(descriptor)?;
        warp.within.sides_of(descriptor)?;
        Ok(Some(Self { warp, part, sides }))
    }

    /// Returns the box of all voxels that may be read.
    pub(super) fn reach(&self) -> Voxels {
        self.warp.reach(self.part)
    }

    /// Appends the table.
    ///
    /// # Errors
    /// `Limit` if a side is too long for the device.
    pub(super) fn put_table(&self, out: &mut Vec<u8>) -> Result<()> {
        let number =
            |n: u64| u32::try_from(n).map_err(|_| Error::limit("side of a volume", "u32::MAX", u32::MAX.into(), n));
        let (VolumeWarp { map, within, low, .. }, part) = (self.warp, self.part);
        put_all(map.map(f64::to_bits), &[], out);
        let [_, height, width] = self.sides;
        let channels = low.len() as u64;
        let words = [within.origin, within.size, part.origin, part.size];
        for word in words.as_flattened().iter().chain(&[height, width, channels, 0]) {
            put_all([], &[number(*word)?], out);
        }
        for word in low.iter().flat_map(|low| low.unwrap_or_default()) {
            put_all([], &[number(word)?], out);
        }
        Ok(())
    }
}
