//! Opens files that a stranger named: regular files and nothing else. The reader and the writer have
//! a function of their own each, for folders by handle and for files that are written.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a regular file for reading.
///
/// A pipe, a socket or a device is refused before it is opened: opening a pipe waits for a writer,
/// and opening a device can have effects. The file may be replaced in between, so the flags keep
/// `open` from waiting and the type is checked again.
///
/// # Errors
/// The system's errors; `InvalidInput` if it is not a regular file.
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    check(&std::fs::metadata(path)?)?;
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    {
        use rustix::fs::OFlags;
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, flags.bits().cast_signed());
    }
    let file = options.open(path)?;
    let metadata = file.metadata()?;
    check(&metadata)?;
    Ok((file, metadata))
}

fn check(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    let found = if metadata.is_dir() { "a folder" } else { "a pipe, socket or device" };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("expected a regular file, found {found}")))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        for path in [&pipe, &socket, Path::new("/dev/zero"), Path::new("/dev/null")] {
            let error = open(path).unwrap_err().to_string();
            assert_eq!(error, "expected a regular file, found a pipe, socket or device", "{}", path.display());
        }
        assert_eq!(open(folder.path()).unwrap_err().to_string(), "expected a regular file, found a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        assert_eq!(open(&link).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        let plain = folder.path().join("plain");
        std::fs::write(&plain, b"abc").unwrap();
        assert_eq!(open(&plain).unwrap().1.len(), 3);
    }
}
