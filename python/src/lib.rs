//! Shardpack for Python: thin classes over the reader, the loader and the packer. This crate only converts values.
//!
//! The classes are private to the package (`shardpack._shardpack`). `python/shardpack/` wraps them and adds
//! documentation, types and Python's conventions.
// Unsafe code is allowed only for DLPack's C structs (in one file), and where Python passes a stream.
#![deny(unsafe_code)]

mod arguments;
mod batch;
mod columns;
#[cfg(feature = "cli")]
mod command;
mod dataset;
mod device;
mod dlpack;
mod errors;
mod loader;
mod objects;
mod options;
mod pack;
mod report;
mod transform;
mod values;
mod watch;
mod workers;
mod writer;

/// The Rust extension of the package `shardpack`. It needs no GIL, because its classes are frozen and use their own
/// locks.
#[pyo3::pymodule(gil_used = false)]
mod _shardpack {
    #[pymodule_export]
    use crate::arguments::{cores, option_names};
    #[pymodule_export]
    use crate::batch::{PyBatch, PyTensor};
    #[pymodule_export]
    use crate::columns::add_columns;
    #[cfg(feature = "cli")]
    #[pymodule_export]
    use crate::command::command;
    #[pymodule_export]
    use crate::dataset::PyDataset;
    #[pymodule_export]
    use crate::device::Stage;
    #[pymodule_export]
    use crate::errors::plain_urls;
    #[pymodule_export]
    use crate::errors::{FormatError, KnownKeyError, LimitError, NoDeviceError, RepeatedKeyError, UsageError};
    #[pymodule_export]
    use crate::loader::PyLoader;
    #[pymodule_export]
    use crate::objects::{Object, Objects};
    #[pymodule_export]
    use crate::options::check_augmentation;
    #[pymodule_export]
    use crate::pack::{add, add_indexes, compact, merge, pack, plan, remove, size, verify};
    #[pymodule_export]
    use crate::report::report;
    #[pymodule_export]
    use crate::transform::described;
    #[pymodule_export]
    use crate::writer::{PyWriter, is_mask, mask_of};

    /// Default size limit of a record or a decoded field, as in the command.
    #[pymodule_export]
    const MAX_RECORD_BYTES: u64 = shardpack::MAX_RECORD_BYTES;

    /// Default number of lanes in the windowed order.
    #[pymodule_export]
    const LANES: u64 = shardpack_loader::order::Order::LANES;

    /// The version of the package, the command and the library.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "the name in Python")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
