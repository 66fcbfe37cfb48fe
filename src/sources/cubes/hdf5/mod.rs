//! HDF5 files, and MATLAB files of version 7.3, which are HDF5: with the cargo feature `hdf5`.

#[cfg(feature = "hdf5")]
mod read;

#[cfg(feature = "hdf5")]
pub(super) use read::{load, peek};

#[cfg(not(feature = "hdf5"))]
pub(super) use without::{load, peek};

#[cfg(not(feature = "hdf5"))]
mod without {
    use super::super::cube::{CubeInfo, LoadedCube};
    use super::super::error::{CubeError, Result};
    use super::super::select::Want;
    use super::super::source::Source;

    fn refused(source: &Source, want: &Want) -> CubeError {
        let name = want.options().variable.as_deref().unwrap_or("NAME");
        let path = source.path().with_extension("npy");
        let convert = format!(
            "convert it: `python -c \"import h5py, numpy; numpy.save('{}', h5py.File('{}')['{name}'][()].T)\"` \
             (`.T` for MATLAB files only), or build with `--features hdf5`",
            path.to_string_lossy(),
            source.path().to_string_lossy(),
        );
        source.format("file type", "a format that this build reads", "HDF5 (or MATLAB v7.3)").hint(convert)
    }

    pub(in super::super) fn peek(source: &Source, want: &Want) -> Result<CubeInfo> {
        Err(refused(source, want))
    }

    pub(in super::super) fn load(source: &Source, want: &Want) -> Result<LoadedCube> {
        Err(refused(source, want))
    }
}
