//! Tests of the engine as a whole. `source` makes samples out of numbers; `memory_fs` is a file system that fails and forgets.

mod behaviour;
mod claim;
mod crashes;
mod faults;
mod folder;
mod limits;
mod memory_fs;
mod parts;
mod resume;
mod source;
