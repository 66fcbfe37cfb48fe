//! Options for reading cube files.

use super::run::CubeRun;
use shardpack_format::Limits;

/// Options for reading a cube.
///
/// ```
/// use shardpack_sources::cubes::CubeOptions;
/// let options = CubeOptions { variable: vec!["Y".into()], spatial: Some((95, 95)), ..Default::default() };
/// assert_eq!(options.max_bytes, 1 << 30);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CubeOptions {
    /// Names of the array to read, for files with several arrays (`.npz`, `.mat`, HDF5). The first
    /// name found in the file is used. `*` matches any characters. Default: empty, which reads the
    /// only array with three axes, or else the only array with two. Other formats ignore this.
    pub variable: Vec<String>,
    /// Height and width of the picture, for MATLAB matrices of bands × pixels or pixels × bands. The pixels
    /// must be in MATLAB's column order: pixel `p` is in row `p mod height` and column `p / height`. If both
    /// axes fit, the matrix is read as bands × pixels. Arrays with three axes and other formats ignore this.
    pub spatial: Option<(u64, u64)>,
    /// Maximum size of a cube, in decoded bytes. Default: 1 GiB, as in dataset readers.
    pub max_bytes: u64,
    /// State shared by all cubes of the run. Default: empty, without a cancellation flag.
    pub run: CubeRun,
}

impl Default for CubeOptions {
    fn default() -> Self {
        Self {
            variable: Vec::new(),
            spatial: None,
            max_bytes: Limits::default().max_decoded_bytes,
            run: CubeRun::default(),
        }
    }
}
