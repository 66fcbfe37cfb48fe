//! Row errors. Adds the name of the sample, and decides whether the sample counts as damaged.

use rustix::io::Errno;
use shardpack_format::Explain as _;
use shardpack_reader::{Error, SampleName, Shard};
use std::io;

/// Adds the record's name to a read error. Other errors already contain it.
pub(crate) fn of_record(error: Error, shard: &Shard, record: u64) -> Error {
    error.of_sample(|| SampleName { record, key: shard.index().key(record).unwrap_or_default().to_owned() })
}

/// Returns true if the error may affect only these bytes of the file: a bad sector (`EIO`), a wrong file
/// system checksum (`EBADMSG`), or a truncated file. Network and mount errors affect more samples.
pub(crate) fn is_local(error: &Error) -> bool {
    let Error::Io { source, .. } = error else { return error.kind().is_about_data() };
    let bad = [Errno::IO, Errno::BADMSG].map(|errno| Some(errno.raw_os_error()));
    source.kind() == io::ErrorKind::UnexpectedEof || bad.contains(&source.raw_os_error())
}
