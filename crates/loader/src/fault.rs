//! What goes wrong with single rows: errors that name their sample, and which of them are damage.

use rustix::io::Errno;
use shardpack_reader::{Error, SampleName, Shard};
use std::io;

/// Adds to an error of reading which record it was; others say so themselves.
pub(crate) fn of_record(error: Error, shard: &Shard, record: u64) -> Error {
    error.of_sample(|| SampleName { record, key: shard.index().key(record).unwrap_or_default().to_owned() })
}

/// Whether these bytes cannot be had, while others of the same file may: a bad sector (`EIO`), a
/// checksum of the file system that does not match (`EBADMSG`), a file that ends too early. What a
/// network or a mount has is no matter of one sample.
pub(crate) fn is_local(error: &Error) -> bool {
    let Error::Io { source, .. } = error else { return error.is_about_data() };
    let bad = [Errno::IO, Errno::BADMSG].map(|errno| Some(errno.raw_os_error()));
    source.kind() == io::ErrorKind::UnexpectedEof || bad.contains(&source.raw_os_error())
}
