//! Defines a box within a volume.

use shardpack_format::{ArrayDescriptor, Error, Result};

/// A box of planes, rows and columns of a volume. The shape of a volume is `[depth, height, width]` or `[depth, height,
/// width, channels]`. A box includes all channels.
///
/// ```
/// use shardpack_array::Voxels;
/// use shardpack_format::{ArrayDescriptor, Dtype};
/// let volume = ArrayDescriptor::plain(Dtype::F32, vec![20, 48, 40]);
/// let part = Voxels { origin: [12, 0, 8], size: [8, 16, 32] };
/// assert_eq!(part.sides_of(&volume)?, ([20, 48, 40], None));
/// assert!(Voxels { origin: [13, 0, 8], ..part }.sides_of(&volume).is_err());
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Voxels {
    /// First plane, row and column.
    pub origin: [u64; 3],
    /// Number of planes, rows and columns.
    pub size: [u64; 3],
}

impl Voxels {
    /// Returns the depth, height and width of the volume, and its number of channels. The number is `None` if there is
    /// no channel axis.
    ///
    /// # Errors
    /// `Usage` if the array has neither three nor four axes, or the box is not within it.
    pub fn sides_of(&self, descriptor: &ArrayDescriptor) -> Result<([u64; 3], Option<u64>)> {
        let (sides, channels) = match *descriptor.shape {
            [depth, height, width] => ([depth, height, width], None),
            [depth, height, width, channels] => ([depth, height, width], Some(channels)),
            _ => {
                let axes = descriptor.shape.len();
                return Err(Error::usage(format!(
                    "a box can be cut only from an array with three or four axes, but this array has {axes}"
                )));
            }
        };
        let ends = self.origin.iter().zip(self.size).map(|(origin, size)| origin.checked_add(size));
        match ends.zip(sides).all(|(end, side)| end.is_some_and(|end| end <= side)) {
            true => Ok((sides, channels)),
            false => Err(Error::usage(format!(
                "the box at {:?} of size {:?} is not within the volume of size {sides:?}",
                self.origin, self.size
            ))),
        }
    }
}
