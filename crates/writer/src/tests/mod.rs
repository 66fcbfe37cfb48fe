//! Tests of the whole engine. `source` makes samples from numbers; `memory_fs` is a file system
//! that fails and forgets.

mod begun;
mod behaviour;
mod bucket;
mod compact;
mod crashes;
mod faults;
mod folder;
mod growth;
mod limits;
mod memory_fs;
mod parts;
mod reservation;
mod resume;
mod source;

/// Text of an error as the command prints it.
fn said(error: &crate::Error) -> String {
    shardpack_format::told(error, &error.hint(), shardpack_format::Voice::Command)
}
