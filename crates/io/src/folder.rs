//! Storage in a folder on a local or mounted file system.

use crate::error::{Error, Result};
use crate::file::{OPEN, open_error, regular};
use crate::read_at::ReadAt;
use crate::storage::{Storage, check_name};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder on a local or mounted file system.
///
/// Files are opened relative to a handle on the folder. Symlinks below the folder are followed only if the
/// caller allows it, so that no name in a manifest can lead out of the folder.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    handle: OwnedFd,
    follow_symlinks: bool,
}

impl Folder {
    /// Opens a folder. If `follow_symlinks` is true, shards may be symlinks to anywhere, as in caches that
    /// keep the files elsewhere.
    ///
    /// # Errors
    /// `Io` if it cannot be opened.
    pub fn open(path: impl Into<PathBuf>, follow_symlinks: bool) -> Result<Self> {
        let path = path.into();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle =
            rustix::fs::open(&path, flags, Mode::empty()).map_err(|e| Error::io(&path, "open", io::Error::from(e)))?;
        Ok(Self { path, handle, follow_symlinks })
    }
}

impl Storage for Folder {
    fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        // Names from manifests have already been checked, but other callers might pass deeper folders or `..`.
        check_name(name)?;
        let path = self.path.join(name);
        let follow = if self.follow_symlinks { OFlags::empty() } else { OFlags::NOFOLLOW };
        let refuse_link = |errno| match errno {
            // On a symlink, NOFOLLOW alone fails with LOOP. If DIRECTORY is set too, it fails with NOTDIR.
            Errno::LOOP | Errno::NOTDIR if !self.follow_symlinks => Error::usage(format!(
                "`{}` is a symbolic link, or its folder is one: links in a dataset folder are not followed",
                path.display()
            ))
            .with_hint("replace the link with the file that it points to, or open that file directly"),
            other => open_error(&path, other),
        };
        let mut folder = None;
        let mut file_name = name;
        if let Some((parent, rest)) = name.split_once('/') {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | follow;
            let handle = rustix::fs::openat(&self.handle, parent, flags, Mode::empty());
            folder = Some(handle.map_err(refuse_link)?);
            file_name = rest;
        }
        let base = folder.as_ref().unwrap_or(&self.handle);
        let fd = rustix::fs::openat(base, file_name, OPEN | follow, Mode::empty()).map_err(refuse_link)?;
        regular(&path, fd)
    }

    fn names(&self) -> Result<Vec<String>> {
        let fail = |e: io::Error| Error::io(&self.path, "list", e);
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(fail)? {
            // Skip names that are not UTF-8, because they cannot be in a manifest.
            if let Ok(name) = entry.map_err(fail)?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}
