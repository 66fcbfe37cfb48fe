//! shardpack writer
