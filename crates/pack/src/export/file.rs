//! Files that appear under their names only once they are complete, and never replace another file.

use super::{Content, durable};
use crate::regular;
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Suffix of the names of incomplete files. A killed run leaves one for each thread; the next run
/// replaces them.
const SUFFIX: &str = ".shardpack-tmp";
/// The same where a digest stands in place of a name: no two names share a temporary one.
const DIGEST_SUFFIX: &str = ".shardpack-long-tmp";
/// Longest file name that file systems take.
const MAX_NAME_BYTES: usize = 255;

/// What happened to a file that was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placed {
    /// It was written.
    New,
    /// It already existed with the same content.
    AlreadyThere,
    /// Something else is there. It was left unchanged.
    Occupied,
}

/// Writes a file, unless something is already there. Its folder must exist.
///
/// # Errors
/// If it cannot be written. Then no part of it is left.
pub fn place(path: &Path, content: &Content<'_>) -> io::Result<Placed> {
    match stands_at(path)? {
        Standing::Nothing => {}
        Standing::File(file) if file.metadata()?.len() == content.len() => return compare(content.reader(), file),
        Standing::File(_) | Standing::Other => return Ok(Placed::Occupied),
    }
    let mut pending = Pending::create(path)?;
    content.write_to(&mut pending)?;
    pending.commit()
}

/// A file that is being written next to its final place, and removed unless it is completed.
#[derive(Debug)]
pub struct Pending {
    file: File,
    temporary: PathBuf,
    path: PathBuf,
}

impl Pending {
    /// Begins a file that will be at `path`. Its folder must exist.
    ///
    /// # Errors
    /// If no file can be created there.
    pub fn create(path: &Path) -> io::Result<Self> {
        let temporary = temporary_of(path);
        let create = || File::options().read(true).write(true).create_new(true).open(&temporary);
        let file = match create() {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_file(&temporary)?;
                create()?
            }
            created => created?,
        };
        Ok(Self { file, temporary, path: path.to_owned() })
    }

    /// Gives the file its name, unless something is already there.
    ///
    /// # Errors
    /// If it cannot be renamed, or the existing file cannot be read.
    pub fn commit(mut self) -> io::Result<Placed> {
        // Refused by the file system, not looked up before: where case does not count, another
        // thread may give the same name at the same time.
        if durable::rename_new(&self.temporary, &self.path)? {
            // Dropped afterwards: there is nothing left under the temporary name.
            return Ok(Placed::New);
        }
        match stands_at(&self.path)? {
            Standing::Nothing => Err(io::Error::other("what stood in its place went away meanwhile: run again")),
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
        let _ = fs::remove_file(&self.temporary);
    }
}

enum Standing {
    Nothing,
    File(File),
    /// A folder, a device, a link that leads nowhere.
    Other,
}

fn stands_at(path: &Path) -> io::Result<Standing> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Standing::Nothing),
        found => found?,
    };
    match regular::open(path) {
        Ok((file, _)) => Ok(Standing::File(file)),
        Err(_) if !fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) => Ok(Standing::Other),
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

/// `.<name>.shardpack-tmp` in the same folder, with a digest instead of a name that would become
/// too long.
fn temporary_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default();
    let mut out = OsString::from(".");
    if name.len() + 1 + SUFFIX.len() <= MAX_NAME_BYTES {
        out.push(name);
        out.push(SUFFIX);
    } else {
        let digest = Sha256::digest(name.as_encoded_bytes());
        out.push(digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>());
        out.push(DIGEST_SUFFIX);
    }
    path.with_file_name(out)
}

/// Whether a file of this name could be taken for one that is not complete: no file is unpacked
/// under such a name, or one would be written over the other.
pub(super) fn is_temporary(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    // In any case of letters, because not every file system tells them apart.
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

    fn content(text: &str) -> Content<'_> {
        Content { head: text.as_bytes()[..1].to_vec(), body: Cow::Borrowed(&text.as_bytes()[1..]) }
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
}
