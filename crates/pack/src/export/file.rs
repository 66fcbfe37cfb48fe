//! Writes files that get their final names only when complete, and never replace another file.

use super::{FileContent, durable};
use rustix::fs::{Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use shardpack_format::{to_hex, visible};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Suffix of incomplete files. A killed run leaves one per thread behind, and the next run replaces them.
const SUFFIX: &str = ".shardpack-tmp";
/// Suffix of temporary names that are digests of long file names. The separate suffix prevents collisions with
/// short names.
const DIGEST_SUFFIX: &str = ".shardpack-long-tmp";
const MAX_NAME_BYTES: usize = 255;

/// Tells whether a file was written, or why not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// The file did not exist and was written.
    New,
    /// The file already existed with the same content.
    AlreadyThere,
    /// The name belongs to another file, a folder or a link. It was left unchanged.
    Occupied,
}

/// A folder for files whose names come from data. It stays open, as do its subfolders during a write. Writing
/// therefore never follows a link, even if another program creates one in the meantime.
#[derive(Debug)]
pub struct OutFolder(OwnedFd);

impl OutFolder {
    /// Opens a folder that the user named. The path to it may contain links.
    ///
    /// # Errors
    /// Fails if the folder cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        durable::open_folder(path).map(Self)
    }

    /// Writes a file unless this name exists. Creates parent folders as needed.
    ///
    /// # Errors
    /// Fails if the file cannot be written. The kind is `NotADirectory` if a parent folder in the name is a
    /// link or a file. An error leaves no file behind.
    pub fn place(&self, name: &str, content: &FileContent<'_>) -> io::Result<Placed> {
        let (folder, name) = self.below(name)?;
        match stands_at(&folder, &name)? {
            Standing::Nothing => {}
            Standing::File(file) if file.metadata()?.len() == content.len() => return compare(content.reader(), file),
            Standing::File(_) | Standing::Other => return Ok(Placed::Occupied),
        }
        let mut pending = Pending::create_in(folder, name)?;
        content.write_to(&mut pending)?;
        pending.commit()
    }

    /// Starts a file, and creates the folders in its name.
    ///
    /// # Errors
    /// Same as [`OutFolder::place`].
    pub fn begin(&self, name: &str) -> io::Result<Pending> {
        let (folder, name) = self.below(name)?;
        Pending::create_in(folder, name)
    }

    fn below(&self, name: &str) -> io::Result<(OwnedFd, PathBuf)> {
        let (folders, file) = name.rsplit_once('/').map_or(("", name), |(folders, file)| (folders, file));
        if file.is_empty() || name.split('/').any(|part| matches!(part, "." | "..")) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the name points outside the folder"));
        }
        let mut folder = self.0.try_clone()?;
        for part in folders.split('/').filter(|part| !part.is_empty()) {
            folder = folder_in(&folder, part)?;
        }
        Ok((folder, file.into()))
    }
}

fn folder_in(folder: &OwnedFd, name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || openat(folder, name, flags, Mode::empty());
    let opened = match open() {
        Err(Errno::NOENT) => match mkdirat(folder, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => open(),
            Err(error) => Err(error),
        },
        opened => opened,
    };
    opened.map_err(|error| match error {
        Errno::LOOP | Errno::NOTDIR => {
            let text = format!("`{}` in the path is a file or a symbolic link, not a folder", visible(name));
            io::Error::new(io::ErrorKind::NotADirectory, text)
        }
        other => other.into(),
    })
}

/// A file that is written next to its final location, and removed unless it is completed.
#[derive(Debug)]
pub struct Pending {
    folder: OwnedFd,
    file: File,
    temporary: PathBuf,
    name: PathBuf,
}

impl Pending {
    /// Starts a file at `path`, which the user named. The folder must exist.
    ///
    /// # Errors
    /// Fails if the file cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        let name = path.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        Self::create_in(durable::open_folder(path.parent().unwrap_or(Path::new("")))?, name.into())
    }

    fn create_in(folder: OwnedFd, name: PathBuf) -> io::Result<Self> {
        let temporary = temporary_of(&name);
        let file = match durable::create_new(&folder, &temporary) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                durable::remove(&folder, &temporary)?;
                durable::create_new(&folder, &temporary)?
            }
            created => created?,
        };
        Ok(Self { folder, file, temporary, name })
    }

    /// Gives the file its final name, unless that name is taken.
    ///
    /// # Errors
    /// Fails if the file cannot be renamed, or if the existing file of that name cannot be read.
    pub fn commit(mut self) -> io::Result<Placed> {
        // Let the file system itself refuse an existing name. If it ignores case, another thread could create
        // the same name after a check of our own.
        if durable::rename_new(&self.folder, &self.temporary, &self.name)? {
            // The temporary name no longer exists, so dropping `self` removes nothing.
            return Ok(Placed::New);
        }
        match stands_at(&self.folder, &self.name)? {
            Standing::Nothing => {
                Err(io::Error::other("the existing file disappeared during the run: run the command again"))
            }
            Standing::File(other) => {
                self.file.rewind()?;
                compare(&self.file, other)
            }
            Standing::Other => Ok(Placed::Occupied),
        }
    }
}

impl Write for Pending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        let _ = durable::remove(&self.folder, &self.temporary);
    }
}

enum Standing {
    Nothing,
    File(File),
    /// A folder, device or link.
    Other,
}

fn stands_at(folder: &OwnedFd, name: &Path) -> io::Result<Standing> {
    match durable::is_regular(folder, name) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Standing::Nothing),
        Ok(false) => Ok(Standing::Other),
        Ok(true) => durable::open(folder, name).map(Standing::File),
        Err(error) => Err(error),
    }
}

fn compare(new: impl Read, old: impl Read) -> io::Result<Placed> {
    let (mut new, mut old) = (BufReader::with_capacity(1 << 16, new), BufReader::with_capacity(1 << 16, old));
    loop {
        let (a, b) = (new.fill_buf()?, old.fill_buf()?);
        let n = a.len().min(b.len());
        if a.get(..n) != b.get(..n) || (n == 0 && a.len() != b.len()) {
            return Ok(Placed::Occupied);
        }
        if n == 0 {
            return Ok(Placed::AlreadyThere);
        }
        new.consume(n);
        old.consume(n);
    }
}

/// Returns `.<name>.shardpack-tmp` in the same folder. If that name is too long, uses a digest of `<name>`.
fn temporary_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    let mut out = OsString::from(".");
    if name.len() + 1 + SUFFIX.len() <= MAX_NAME_BYTES {
        out.push(name);
        out.push(SUFFIX);
    } else {
        let mut digest = to_hex(&Sha256::digest(name.as_encoded_bytes()));
        digest.truncate(32);
        out.push(digest);
        out.push(DIGEST_SUFFIX);
    }
    path.with_file_name(out)
}

/// Returns true if `path` looks like the name of an incomplete file. Unpacking never writes to these paths,
/// because two files could then overwrite each other.
pub(super) fn is_temporary(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    // Ignore case, because some file systems do.
    let ends = |suffix: &str| {
        let start = name.len().checked_sub(suffix.len());
        start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(suffix))
    };
    name.starts_with('.') && (ends(SUFFIX) || ends(DIGEST_SUFFIX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;
    use std::fs;
    use std::sync::atomic::{AtomicBool, Ordering};

    fn place(path: &Path, content: &FileContent<'_>) -> io::Result<Placed> {
        OutFolder::open(path.parent().unwrap()).unwrap().place(path.file_name().unwrap().to_str().unwrap(), content)
    }

    fn content(text: &str) -> FileContent<'_> {
        FileContent { head: text.as_bytes()[..1].to_vec(), body: Cow::Borrowed(&text.as_bytes()[1..]) }
    }

    fn names(folder: &Path) -> Vec<OsString> {
        let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_written_once_and_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        assert_eq!(place(&path, &content("one")).unwrap(), Placed::New);
        assert_eq!(place(&path, &content("one")).unwrap(), Placed::AlreadyThere);
        assert_eq!(place(&path, &content("two")).unwrap(), Placed::Occupied);
        assert_eq!(place(&path, &content("longer")).unwrap(), Placed::Occupied);
        assert_eq!(fs::read(&path).unwrap(), b"one");
        fs::create_dir(folder.path().join("b")).unwrap();
        assert_eq!(place(&folder.path().join("b"), &content("one")).unwrap(), Placed::Occupied);
        assert_eq!(names(folder.path()), ["a", "b"]);
    }

    #[test]
    fn a_file_that_is_not_committed_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mut pending = Pending::create(&path).unwrap();
        pending.write_all(b"half").unwrap();
        assert_eq!(names(folder.path()), [".a.shardpack-tmp"]);
        drop(pending);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn what_a_killed_run_left_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(temporary_of(&path), "half of something longer").unwrap();
        assert_eq!(place(&path, &content("one")).unwrap(), Placed::New);
        assert_eq!((fs::read(&path).unwrap(), names(folder.path())), (b"one".to_vec(), vec!["a".into()]));
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_compared() {
        let folder = tempfile::tempdir().unwrap();
        for (theirs, expected) in [("one", Placed::AlreadyThere), ("on", Placed::Occupied), ("ones", Placed::Occupied)]
        {
            let path = folder.path().join(theirs);
            let mut pending = Pending::create(&path).unwrap();
            pending.write_all(b"one").unwrap();
            fs::write(&path, theirs).unwrap();
            assert_eq!(pending.commit().unwrap(), expected);
            assert_eq!(fs::read_to_string(&path).unwrap(), theirs);
        }
    }

    #[test]
    fn temporary_names_are_known_by_their_ends() {
        let long = "n".repeat(250);
        for name in ["a", "b.png", ".b.png.shardpack-tmp", &long] {
            let temporary = temporary_of(Path::new(name));
            assert!(is_temporary(temporary.to_str().unwrap()), "{temporary:?}");
        }
        assert!(is_temporary("a/b/.c.Shardpack-TMP"));
        assert!(!is_temporary("a.shardpack-tmp") && !is_temporary(".shardpack-tmp/a") && !is_temporary(".a.tmp"));
    }

    #[test]
    fn the_longest_names_have_room_for_a_temporary_one() {
        let folder = tempfile::tempdir().unwrap();
        let name = "n".repeat(MAX_NAME_BYTES);
        assert_eq!(place(&folder.path().join(&name), &content("one")).unwrap(), Placed::New);
        assert_eq!(names(folder.path()), [name.as_str()]);
    }

    #[test]
    fn no_part_of_a_name_is_followed_through_a_link() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let link = |name: &str| std::os::unix::fs::symlink(outside.path(), folder.path().join(name)).unwrap();
        link("a");
        fs::create_dir(folder.path().join("b")).unwrap();
        link("b/c");
        let out = OutFolder::open(folder.path()).unwrap();
        for name in ["a/x", "b/c/x", "b/c/d/x"] {
            let error = out.place(name, &content("one")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory, "{error}");
            assert!(error.to_string().contains("a file or a symbolic link, not a folder"), "{error}");
        }
        for name in ["../x", "b/../../x", "b/./x", "b/"] {
            assert_eq!(out.place(name, &content("one")).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        }
        // A link with the file's name is neither read nor replaced.
        fs::write(outside.path().join("secret"), "one").unwrap();
        std::os::unix::fs::symlink(outside.path().join("secret"), folder.path().join("link")).unwrap();
        assert_eq!(out.place("link", &content("one")).unwrap(), Placed::Occupied);
        assert_eq!(out.place("b/d/e/x", &content("one")).unwrap(), Placed::New);
        assert_eq!(names(outside.path()), ["secret"]);
    }

    #[test]
    fn a_folder_that_turns_into_a_link_meanwhile_leads_nowhere() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("real")).unwrap();
        std::os::unix::fs::symlink(outside.path(), path("link")).unwrap();
        fs::create_dir(path("sub")).unwrap();
        let stop = AtomicBool::new(false);
        let (mut placed, mut refused, mut swaps) = (0, 0, 0_u64);
        std::thread::scope(|scope| {
            let swapper = scope.spawn(|| {
                let mut swaps = 0;
                while !stop.load(Ordering::Relaxed) {
                    // The name `sub` always exists. It alternates between the folder and the link.
                    rustix::fs::renameat_with(
                        rustix::fs::CWD,
                        path("sub"),
                        rustix::fs::CWD,
                        path("link"),
                        rustix::fs::RenameFlags::EXCHANGE,
                    )
                    .unwrap();
                    swaps += 1;
                }
                swaps
            });
            let out = OutFolder::open(folder.path()).unwrap();
            for number in 0..3_000 {
                match out.place(&format!("sub/{number}"), &content("one")) {
                    Ok(_) => placed += 1,
                    Err(_) => refused += 1,
                }
            }
            stop.store(true, Ordering::Relaxed);
            swaps = swapper.join().unwrap();
        });
        assert!(placed > 0 && swaps > 100, "{placed} placed, {refused} refused, {swaps} swaps");
        assert_eq!(names(outside.path()), [""; 0]);
    }
}
