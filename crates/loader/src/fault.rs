//! What goes wrong with single rows: errors that name their sample, and which of them are damage.

use shardpack_format::Hinted;
use shardpack_reader::Error;
use shardpack_reader::Shard;
use std::fmt;
use std::io;

/// An answer of the operating system, and the sample that was being read.
#[derive(Debug)]
struct OfSample {
    source: io::Error,
    record: u64,
    key: String,
}

impl fmt::Display for OfSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: record {}, sample `{}`", self.source, self.record, self.key.escape_debug())
    }
}

impl std::error::Error for OfSample {
    /// What stands in it, if that is more than a code: a hint is asked of it.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.source.get_ref() {
            Some(inner) => Some(inner),
            None => Some(&self.source),
        }
    }
}

/// Adds to an error of reading which record it was; others say so themselves.
pub(crate) fn of_record(error: Error, shard: &Shard, record: u64) -> Error {
    match error {
        Error::Io { path, action, offset, source } => {
            let key = shard.index().key(record).unwrap_or_default().to_owned();
            let source = io::Error::new(source.kind(), OfSample { source, record, key });
            Error::Io { path, action, offset, source }
        }
        other => other,
    }
}

/// The code of the operating system, also of an error that names its sample.
fn code(error: &io::Error) -> Option<i32> {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<OfSample>());
    inner.map_or_else(|| error.raw_os_error(), |of| of.source.raw_os_error())
}

/// Whether these bytes cannot be had, while others of the same file may: a bad sector (`EIO`), a
/// checksum of the file system that does not match (`EBADMSG`), a file that ends too early. What a
/// network or a mount has is no matter of one sample.
pub(crate) fn is_local(error: &Error) -> bool {
    let Error::Io { source, .. } = error else { return error.is_about_data() };
    use rustix::io::Errno;
    let bad = [Errno::IO, Errno::BADMSG].map(|errno| Some(errno.raw_os_error()));
    source.kind() == io::ErrorKind::UnexpectedEof || bad.contains(&code(source))
}

/// The same error for another row.
pub(crate) fn copy(error: &Error) -> Error {
    match error {
        Error::Io { path, action, offset, source } => {
            Error::Io { path: path.clone(), action, offset: *offset, source: copy_io(source) }
        }
        Error::Format(error) => Error::Format(error.clone()),
        Error::Limit(error) => Error::Limit(error.clone()),
        Error::Internal(error) => Error::Internal(error.clone()),
        Error::Usage(error) => Error::Usage(error.clone()),
        other => Error::internal("an error for another row", "of a family of errors", other),
    }
}

fn copy_io(error: &io::Error) -> io::Error {
    if let Some(of) = error.get_ref().and_then(|inner| inner.downcast_ref::<OfSample>()) {
        let of = OfSample { source: copy_io(&of.source), record: of.record, key: of.key.clone() };
        return io::Error::new(error.kind(), of);
    }
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => match error.get_ref().and_then(|inner| Hinted::hint_in(inner)) {
            Some(hint) => io::Error::new(error.kind(), Hinted::new(error.to_string(), hint)),
            None => io::Error::new(error.kind(), error.to_string()),
        },
    }
}
