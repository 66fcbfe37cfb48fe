//! Tests of the whole packing engine. `source` generates samples from numbers, and `memory_fs` is an in-memory file
//! system that can fail and lose data.

mod begun;
mod behaviour;
mod bucket;
mod columns;
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
mod store_growth;
mod uploads;

fn said(error: &crate::Error) -> String {
    shardpack_format::told(error, &error.hint(), shardpack_format::Voice::Command)
}
