//! Creates errors for Blosc2 features that the decoder does not support.

use shardpack_format::Error;

pub(super) fn unsupported(found: &str) -> Error {
    let error = Error::usage(format!("{found} is not supported"));
    error.with_hint("write the array again with `codec=blosc2.Codec.ZSTD` and the default filters")
}
