//! Errors in single rows: the sample, and whether the error counts as damage.

use rustix::io::Errno;
use shardpack_reader::{Error, SampleName, Shard};
use std::io;

/// Adds the record to a read error; other errors name it already.
pub(crate) fn of_record(error: Error, shard: &Shard, record: u64) -> Error {
    error.of_sample(|| SampleName { record, key: shard.index().key(record).unwrap_or_default().to_owned() })
}

/// Returns true if only these bytes of the file may be unreadable: a bad sector (`EIO`), a wrong
/// checksum of the file system (`EBADMSG`), a file that ends too early. Errors of a network or a
/// mount concern more samples.
pub(crate) fn is_local(error: &Error) -> bool {
    let Error::Io { source, .. } = error else { return error.is_about_data() };
    let bad = [Errno::IO, Errno::BADMSG].map(|errno| Some(errno.raw_os_error()));
    source.kind() == io::ErrorKind::UnexpectedEof || bad.contains(&source.raw_os_error())
}
