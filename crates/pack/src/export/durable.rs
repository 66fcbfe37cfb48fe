//! Gives files their names without replacing an existing file, even on file systems that lack the
//! usual calls. FAT, exFAT and many network mounts have no hard links, and some cannot refuse to
//! rename over an existing file. All names are relative to an open folder, so no other program can
//! replace that folder with a link.

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, linkat, openat, renameat, renameat_with, statat, unlinkat};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The two system calls that some file systems lack.
trait Names {
    fn rename_new(&self, folder: BorrowedFd<'_>, from: &Path, to: &Path) -> io::Result<()>;
    fn link(&self, folder: BorrowedFd<'_>, from: &Path, to: &Path) -> io::Result<()>;
}

struct System;

impl Names for System {
    fn rename_new(&self, folder: BorrowedFd<'_>, from: &Path, to: &Path) -> io::Result<()> {
        Ok(renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE)?)
    }

    fn link(&self, folder: BorrowedFd<'_>, from: &Path, to: &Path) -> io::Result<()> {
        Ok(linkat(folder, from, folder, to, AtFlags::empty())?)
    }
}

/// Opens a folder that the user named, following links.
pub(crate) fn open_folder(path: &Path) -> io::Result<OwnedFd> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    Ok(rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

pub(crate) fn create_new(folder: impl AsFd, name: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(File::from(openat(folder, name, flags, Mode::from_raw_mode(0o666))?))
}

/// Removes a file. A link itself is removed, not its target.
pub(crate) fn remove(folder: impl AsFd, name: &Path) -> io::Result<()> {
    Ok(unlinkat(folder, name, AtFlags::empty())?)
}

/// Renames a file. Returns `false` and changes nothing if `to` exists.
pub(crate) fn rename_new(folder: impl AsFd, from: &Path, to: &Path) -> io::Result<bool> {
    rename_new_by(&System, folder.as_fd(), from, to)
}

fn rename_new_by(names: &dyn Names, folder: BorrowedFd<'_>, from: &Path, to: &Path) -> io::Result<bool> {
    // Systems often return the same error for an unsupported call as for other failures. So try every method,
    // and report the result of the last one.
    match names.rename_new(folder, from, to) {
        Ok(()) => return Ok(true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(_) => {}
    }
    match names.link(folder, from, to) {
        Ok(()) => return remove(folder, from).map(|()| true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(_) => {}
    }
    // Reserve the name with an empty file of our own, then replace only that file. A crash in between leaves
    // the empty file behind.
    match create_new(folder, to) {
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(e) => return Err(e),
    }
    replace(folder, from, to).map(|()| true).inspect_err(|_| drop(remove(folder, to)))
}

pub(crate) fn replace(folder: impl AsFd, from: &Path, to: &Path) -> io::Result<()> {
    Ok(renameat(&folder, from, &folder, to)?)
}

/// Gives the file `name` the first free name in `names`. A regular file also keeps its old name.
pub(crate) fn keep(folder: impl AsFd, name: &Path, names: impl Iterator<Item = String>) -> io::Result<String> {
    keep_by(&System, folder.as_fd(), name, names)
}

fn keep_by(
    system: &dyn Names,
    folder: BorrowedFd<'_>,
    name: &Path,
    names: impl Iterator<Item = String>,
) -> io::Result<String> {
    for kept in names {
        let to = Path::new(&kept);
        let done = match system.link(folder, name, to) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(_) if is_regular(folder, name)? => copy_new(folder, name, to),
            // Rename links, pipes and other special files without opening them.
            Err(_) => rename_new_by(system, folder, name, to),
        };
        if done? {
            return Ok(kept);
        }
    }
    let text = format!("there are too many backups of `{}`: delete old ones", name.display());
    Err(io::Error::new(ErrorKind::AlreadyExists, text))
}

pub(crate) fn is_regular(folder: impl AsFd, name: &Path) -> io::Result<bool> {
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file())
}

/// Opens a regular file for reading. Fails for a link, a pipe or a device, without blocking.
pub(crate) fn open(folder: impl AsFd, name: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::empty())?);
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, "not a regular file")),
    }
}

fn copy_new(folder: BorrowedFd<'_>, from: &Path, to: &Path) -> io::Result<bool> {
    let mut source = open(folder, from)?;
    let mut copy = match create_new(folder, to) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
        created => created?,
    };
    let copied = io::copy(&mut source, &mut copy).and_then(|_| copy.sync_all());
    copied.map(|()| true).inspect_err(|_| drop(remove(folder, to)))
}

/// Writes a file durably under a temporary name. Removes an existing file of that name first.
pub(crate) fn write_new(folder: impl AsFd, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    match remove(&folder, temporary) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = create_new(folder, temporary)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the names in a folder durable if the file system supports it.
pub(crate) fn sync_folder(folder: impl AsFd) -> io::Result<()> {
    match folder.as_fd().try_clone_to_owned().and_then(|folder| File::from(folder).sync_all()) {
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The calls that this simulated file system supports. All others fail, as on FAT (EPERM) or on old kernels
    /// (EINVAL).
    struct Some {
        renames: bool,
        links: bool,
    }

    impl Names for Some {
        fn rename_new(&self, folder: BorrowedFd<'_>, from: &Path, to: &Path) -> io::Result<()> {
            if self.renames { System.rename_new(folder, from, to) } else { Err(io::Error::from_raw_os_error(22)) }
        }

        fn link(&self, folder: BorrowedFd<'_>, from: &Path, to: &Path) -> io::Result<()> {
            if self.links { System.link(folder, from, to) } else { Err(io::Error::from_raw_os_error(1)) }
        }
    }

    const ALL: [Some; 4] = [
        Some { renames: true, links: true },
        Some { renames: false, links: true },
        Some { renames: true, links: false },
        Some { renames: false, links: false },
    ];

    #[test]
    fn a_file_gets_its_name_by_whatever_there_is_and_replaces_nothing() {
        for system in &ALL {
            let folder = tempfile::tempdir().unwrap();
            let path = |name: &str| folder.path().join(name);
            let open = open_folder(folder.path()).unwrap();
            let rename = |from: &str, to: &str| rename_new_by(system, open.as_fd(), Path::new(from), Path::new(to));
            fs::write(path("new"), "new").unwrap();
            fs::write(path("old"), "old").unwrap();
            fs::create_dir(path("folder")).unwrap();
            for taken in ["old", "folder"] {
                assert!(!rename("new", taken).unwrap());
            }
            assert_eq!(fs::read(path("old")).unwrap(), b"old");
            assert!(rename("new", "free").unwrap());
            assert_eq!(fs::read(path("free")).unwrap(), b"new");
            assert!(!path("new").exists());
            assert!(rename("old", "missing/old").is_err());
            assert_eq!(fs::read(path("old")).unwrap(), b"old");
        }
    }

    #[test]
    fn what_is_to_be_kept_is_kept_with_and_without_hard_links() {
        for system in &ALL {
            let folder = tempfile::tempdir().unwrap();
            let names = || (0..3).map(|n| format!("kept-{n}"));
            let open = open_folder(folder.path()).unwrap();
            let keep = || keep_by(system, open.as_fd(), Path::new("file"), names());
            let path = folder.path().join("file");
            for n in 0..3 {
                fs::write(&path, format!("content {n}")).unwrap();
                assert_eq!(keep().unwrap(), format!("kept-{n}"));
                // Replacing a file, such as a manifest, must not change its kept copy.
                fs::remove_file(&path).unwrap();
            }
            for n in 0..3 {
                let kept = fs::read_to_string(folder.path().join(format!("kept-{n}"))).unwrap();
                assert_eq!(kept, format!("content {n}"));
            }
            fs::write(&path, "more").unwrap();
            assert_eq!(keep().unwrap_err().kind(), ErrorKind::AlreadyExists);
        }
    }

    #[test]
    fn a_link_is_kept_as_a_link() {
        for system in &ALL {
            let folder = tempfile::tempdir().unwrap();
            let (path, kept) = (folder.path().join("link"), folder.path().join("kept"));
            std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
            let open = open_folder(folder.path()).unwrap();
            keep_by(system, open.as_fd(), Path::new("link"), std::iter::once("kept".into())).unwrap();
            assert_eq!(fs::read_link(kept).unwrap(), Path::new("/dev/zero"));
        }
    }
}
