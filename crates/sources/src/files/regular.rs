//! Opens regular files at untrusted paths. The reader and the writer open the files of datasets in other ways.

use rustix::fs::{AtFlags, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};
use std::sync::{PoisonError, RwLock};

/// Opens a regular file for reading.
///
/// Checks the type before opening, because opening a pipe waits for a writer, and opening a device can have
/// side effects. As the file may be replaced in between, flags keep `open` from blocking, and the type is
/// checked again afterwards.
///
/// # Errors
/// Fails with an error of the operating system, or with `InvalidInput` if the path is not a regular file.
pub(crate) fn open(path: &Path) -> io::Result<(File, Metadata)> {
    check(&std::fs::metadata(path)?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    check(&metadata)?;
    Ok((file, metadata))
}

/// A user's folder. Links must not lead out of it.
#[derive(Debug)]
pub(crate) struct Bounds {
    /// Real path, with links resolved.
    root: PathBuf,
    folder: OwnedFd,
}

impl Bounds {
    /// Creates the bounds for the folder with this real path.
    ///
    /// # Errors
    /// Fails if the folder cannot be opened.
    pub(crate) fn of(root: PathBuf) -> io::Result<Self> {
        let folder = open_folder(&root)?;
        Ok(Self { root, folder })
    }

    /// Opens a regular file below the folder for reading. Returns `None` if the path leads elsewhere. Links
    /// inside the folder are followed. Each component is checked as it is opened, so a link that appears in the
    /// meantime is not followed.
    pub(crate) fn open(&self, path: &Path) -> Option<io::Result<(File, Metadata)>> {
        let below = path.strip_prefix(&self.root).ok()?;
        Some(match self.open_plain(below) {
            // A component of the path is a link, or the folder does not exist.
            Err(error)
                if matches!(error.raw_os_error().map(Errno::from_raw_os_error), Some(Errno::LOOP | Errno::NOTDIR)) =>
            {
                self.open_real(path)
            }
            opened => opened,
        })
    }

    fn open_real(&self, path: &Path) -> io::Result<(File, Metadata)> {
        let real = std::fs::canonicalize(path)?;
        let outside = || io::Error::new(io::ErrorKind::InvalidInput, "the link points outside the source");
        self.open_plain(real.strip_prefix(&self.root).map_err(|_| outside())?)
    }

    /// Opens a path that contains no links, each component relative to the previous one.
    fn open_plain(&self, below: &Path) -> io::Result<(File, Metadata)> {
        const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
        let name = below.file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let mut folder = None;
        for part in below.parent().into_iter().flat_map(Path::components) {
            let Component::Normal(part) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
            folder = Some(openat(folder.as_ref().unwrap_or(&self.folder), part, FOLDER, Mode::empty())?);
        }
        let folder = folder.as_ref().unwrap_or(&self.folder);
        let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            FileType::Symlink => return Err(Errno::LOOP.into()),
            other => return Err(not_regular(other.is_dir())),
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(openat(folder, name, flags, Mode::empty())?);
        let metadata = file.metadata()?;
        check(&metadata)?;
        Ok((file, metadata))
    }
}

/// The folders of a source. Files outside them cannot be opened. An empty list allows all files.
#[derive(Debug, Default)]
pub(crate) struct Confines(RwLock<Vec<Bounds>>);

impl Confines {
    /// Adds the folder with this real path. Reopens a folder that is already known, and keeps it only once.
    ///
    /// # Errors
    /// Fails if the folder cannot be opened.
    pub(crate) fn confine(&self, root: &Path) -> io::Result<()> {
        let new = Bounds::of(root.to_owned())?;
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match all.iter_mut().find(|bounds| bounds.root == root) {
            Some(bounds) => *bounds = new,
            None => all.push(new),
        }
        Ok(())
    }

    /// Opens a regular file for reading.
    ///
    /// # Errors
    /// Fails with an error of the operating system, or with `InvalidInput` if the path is not a regular file or
    /// is outside all folders.
    pub(crate) fn open(&self, path: &Path) -> io::Result<(File, Metadata)> {
        let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return open(path);
        }
        let outside = "the file is outside the source";
        all.iter()
            .find_map(|bounds| bounds.open(path))
            .unwrap_or_else(|| Err(io::Error::new(io::ErrorKind::InvalidInput, outside)))
    }
}

fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

fn not_regular(is_folder: bool) -> io::Error {
    let found = if is_folder { "a folder" } else { "a pipe, socket or device" };
    io::Error::new(io::ErrorKind::InvalidInput, format!("expected a regular file, found {found}"))
}

fn check(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        return Ok(());
    }
    Err(not_regular(metadata.is_dir()))
}

#[cfg(test)]
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

    #[test]
    fn outside_of_all_bounds_nothing_is_opened_once_there_are_some() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (root, other) = (fs_real(folder.path()), fs_real(outside.path()));
        for folder in [&root, &other] {
            std::fs::write(folder.join("file"), b"abc").unwrap();
        }
        let confines = Confines::default();
        assert!(confines.open(&other.join("file")).is_ok());
        for _ in 0..3 {
            confines.confine(&root).unwrap();
        }
        assert_eq!(confines.0.read().unwrap().len(), 1, "one descriptor for each folder");
        assert!(confines.open(&root.join("file")).is_ok());
        let error = confines.open(&other.join("file")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
        confines.confine(&other).unwrap();
        assert!(confines.open(&other.join("file")).is_ok());
    }

    fn fs_real(path: &Path) -> PathBuf {
        std::fs::canonicalize(path).unwrap()
    }

    #[test]
    fn links_lead_to_files_inside_the_bounds_and_to_no_others() {
        use std::os::unix::fs::symlink;
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = std::fs::canonicalize(folder.path()).unwrap();
        let bounds = Bounds::of(root.clone()).unwrap();
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        std::fs::write(root.join("a/b/file"), b"abc").unwrap();
        std::fs::write(outside.path().join("file"), b"secret").unwrap();
        symlink("../b/file", root.join("a/b/inner")).unwrap();
        symlink(root.join("a/b"), root.join("whole")).unwrap();
        symlink(outside.path().join("file"), root.join("a/out")).unwrap();
        symlink(outside.path(), root.join("elsewhere")).unwrap();
        symlink("nowhere", root.join("dangling")).unwrap();
        let open = |name: &str| bounds.open(&root.join(name)).unwrap().map(|(_, metadata)| metadata.len());
        for name in ["a/b/file", "a/b/inner", "whole/file", "whole/inner"] {
            assert_eq!(open(name).unwrap(), 3, "{name}");
        }
        for name in ["a/out", "elsewhere/file", "a/../a/b/file", "dangling", "a/b/none", "a/b/file/x", "a"] {
            assert!(open(name).is_err(), "{name}");
        }
        assert!(bounds.open(outside.path()).is_none());
        assert!(open("a/out").unwrap_err().to_string().contains("the link points outside the source"));
    }
}
