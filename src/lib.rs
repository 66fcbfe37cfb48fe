//! The shardpack command, as a library.
