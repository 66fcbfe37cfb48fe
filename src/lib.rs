//! The shardpack command, as a library.

/// Where samples come from.
pub mod sources {
    pub mod cubes;
}
