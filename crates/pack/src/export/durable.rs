//! Giving files their names so that nothing is ever replaced, also where the file system can do
//! little: FAT, exFAT and many network mounts have no hard links, and not all can refuse to rename
//! over a file.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// The two calls that not every file system has.
trait Names {
    /// Renames unless something has the new name.
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file one more name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
}

struct System;

impl Names for System {
    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        Ok(renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)?)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    fn rename_new(&self, _: &Path, _: &Path) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }
}

/// Renames a file unless something stands at `to`: then it says `false`, and both stay as they are.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<bool> {
    rename_new_by(&System, from, to)
}

fn rename_new_by(names: &dyn Names, from: &Path, to: &Path) -> io::Result<bool> {
    // A way that fails for want of support and one that fails for good look alike on too many
    // systems: the last way tells why.
    match names.rename_new(from, to) {
        Ok(()) => return Ok(true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(_) => {}
    }
    match names.link(from, to) {
        Ok(()) => return fs::remove_file(from).map(|()| true),
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(_) => {}
    }
    // The name is taken by an empty file that is ours alone, and only that is replaced. A crash in
    // between leaves the empty file.
    match File::create_new(to) {
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
        Err(e) => return Err(e),
    }
    fs::rename(from, to).map(|()| true).inspect_err(|_| drop(fs::remove_file(to)))
}

/// Keeps what stands at `path`, whatever it is, under the first of `names` that is free. A regular
/// file also stays where it is.
pub(crate) fn keep(path: &Path, names: impl Iterator<Item = PathBuf>) -> io::Result<PathBuf> {
    keep_by(&System, path, names)
}

fn keep_by(system: &dyn Names, path: &Path, names: impl Iterator<Item = PathBuf>) -> io::Result<PathBuf> {
    for name in names {
        let kept = match system.link(path, &name) {
            Ok(()) => Ok(true),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(_) if path.symlink_metadata()?.is_file() => copy_new(path, &name),
            // Links, pipes and the like are moved, never opened.
            Err(_) => rename_new_by(system, path, &name),
        };
        if kept? {
            return Ok(name);
        }
    }
    let text = format!("every name that `{}` could be kept under is taken", path.display());
    Err(io::Error::new(ErrorKind::AlreadyExists, text))
}

fn copy_new(from: &Path, to: &Path) -> io::Result<bool> {
    let mut source = File::open(from)?;
    let mut copy = match File::create_new(to) {
        Err(e) if e.kind() == ErrorKind::AlreadyExists => return Ok(false),
        created => created?,
    };
    let copied = io::copy(&mut source, &mut copy).and_then(|_| copy.sync_all());
    copied.map(|()| true).inspect_err(|_| drop(fs::remove_file(to)))
}

/// Writes a file under a temporary name of ours, durably; what stands there goes first, and is
/// never written through.
pub(crate) fn write_new(temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::remove_file(temporary) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = File::create_new(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes the names in a folder durable, where the file system can do that for folders.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        Err(e) if matches!(e.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput) => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a file system has of the two calls; those that it has not fail as FAT does (EPERM) and
    /// as old kernels do (EINVAL).
    struct Some {
        renames: bool,
        links: bool,
    }

    impl Names for Some {
        fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
            if self.renames { System.rename_new(from, to) } else { Err(io::Error::from_raw_os_error(22)) }
        }

        fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
            if self.links { System.link(from, to) } else { Err(io::Error::from_raw_os_error(1)) }
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
            fs::write(path("new"), "new").unwrap();
            fs::write(path("old"), "old").unwrap();
            fs::create_dir(path("folder")).unwrap();
            for taken in ["old", "folder"] {
                assert!(!rename_new_by(system, &path("new"), &path(taken)).unwrap());
            }
            assert_eq!(fs::read(path("old")).unwrap(), b"old");
            assert!(rename_new_by(system, &path("new"), &path("free")).unwrap());
            assert_eq!(fs::read(path("free")).unwrap(), b"new");
            assert!(!path("new").exists());
            assert!(rename_new_by(system, &path("old"), &path("missing/old")).is_err());
            assert_eq!(fs::read(path("old")).unwrap(), b"old");
        }
    }

    #[test]
    fn what_is_to_be_kept_is_kept_with_and_without_hard_links() {
        for system in &ALL {
            let folder = tempfile::tempdir().unwrap();
            let names = || (0..3).map(|n| folder.path().join(format!("kept-{n}")));
            let path = folder.path().join("file");
            for n in 0..3 {
                fs::write(&path, format!("content {n}")).unwrap();
                assert_eq!(keep_by(system, &path, names()).unwrap(), folder.path().join(format!("kept-{n}")));
                // A file that is replaced, as a manifest is, takes nothing from what was kept.
                fs::remove_file(&path).unwrap();
            }
            for n in 0..3 {
                let kept = fs::read_to_string(folder.path().join(format!("kept-{n}"))).unwrap();
                assert_eq!(kept, format!("content {n}"));
            }
            fs::write(&path, "more").unwrap();
            assert_eq!(keep_by(system, &path, names()).unwrap_err().kind(), ErrorKind::AlreadyExists);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_kept_as_a_link() {
        for system in &ALL {
            let folder = tempfile::tempdir().unwrap();
            let (path, kept) = (folder.path().join("link"), folder.path().join("kept"));
            std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
            keep_by(system, &path, std::iter::once(kept.clone())).unwrap();
            assert_eq!(fs::read_link(kept).unwrap(), Path::new("/dev/zero"));
        }
    }
}
