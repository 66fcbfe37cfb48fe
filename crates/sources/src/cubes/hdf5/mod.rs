//! HDF5 files, and MATLAB files of version 7.3, which are HDF5: with the cargo feature `hdf5`.

#[cfg(feature = "hdf5")]
mod metered;
#[cfg(feature = "hdf5")]
mod read;
#[cfg(feature = "hdf5")]
mod stack;
#[cfg(not(feature = "hdf5"))]
mod without;

#[cfg(feature = "hdf5")]
pub(super) use read::{load, peek};
#[cfg(not(feature = "hdf5"))]
pub(super) use without::{load, peek};
