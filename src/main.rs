//! The shardpack command.
fn main() {}
