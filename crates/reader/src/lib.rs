//! shardpack reader
