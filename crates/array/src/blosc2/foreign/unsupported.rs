//! The error for features of Blosc2 that are not decoded.

use shardpack_format::Error;

pub(super) fn unsupported(found: &str) -> Error {
    let error = Error::usage(format!("{found} is not supported"));
    error.with_hint("write the array again with `codec=blosc2.Codec.ZSTD` and the default filters")
}
