//! Options for reading a cube.

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
    /// Names to try for the array, in files with several arrays (`.npz`, `.mat`, HDF5). The first name that
    /// is in the file is read; `*` matches any characters. Default empty: the only array of three axes is
    /// read, or else the only array of two axes. Other formats ignore this.
    pub variable: Vec<String>,
    /// Height and width of the picture. It is for MATLAB matrices of bands × pixels, or of pixels × bands,
    /// whose pixels are in MATLAB's column order: pixel `p` is in row `p mod height` and column `p / height`.
    /// If both axes fit, the matrix is read as bands × pixels. Arrays of three axes and other formats ignore
    /// this.
    pub spatial: Option<(u64, u64)>,
    /// Largest cube, in decoded bytes. Default 1 GiB, like the limit of dataset readers.
    pub max_bytes: u64,
    /// State that all cubes of the run share. The default is empty and has no cancellation flag.
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
