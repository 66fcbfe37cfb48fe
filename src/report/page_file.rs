//! Writes the page completely or not at all.

use shardpack_format::{Hint, Note, Setting};
use shardpack_pack::{Context, bail};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Marker near the start of every page written by this program.
const MARK: &[u8] = b"name=\"generator\" content=\"shardpack";
const START_BYTES: u64 = 4096;

/// Fails if the file exists and is not a page written by this program. Called before anything is measured.
pub(crate) fn check(path: &Path, force: bool) -> crate::Result<()> {
    let parent = folder(path);
    if !parent.is_dir() {
        bail!("cannot write the report: there is no folder `{}`", parent.display());
    }
    if path.is_dir() {
        bail!("cannot write the report: `{}` is a folder", path.display());
    }
    if force || !path.exists() || is_report(path) {
        return Ok(());
    }
    let hint = Hint::new("pass ").and([Setting::any("output", "FILE")]).then(" to write to another file, or ");
    let hint = hint.and([Setting::on("force")]).then(" to replace this file");
    bail!(Note::new(format!("`{}` already exists and is not a report", path.display())).with_hint(hint))
}

fn is_report(path: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(START_BYTES).read_to_end(&mut start));
    read.is_ok() && start.windows(MARK.len()).any(|window| window == MARK)
}

pub(crate) fn data_of_page(page: &str) -> Option<&str> {
    let (_, rest) = page.split_once("<script id=\"report-data\" type=\"application/json\">")?;
    Some(rest.split_once("</script>")?.0)
}

/// Writes the page under a temporary name, and renames it once it is on disk.
pub(crate) fn write(path: &Path, page: &str) -> crate::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let temporary = folder(path).join(format!(".{name}.{}.tmp", std::process::id()));
    let written = File::create(&temporary).and_then(|mut file| {
        file.write_all(page.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    });
    if written.is_err() {
        // Ignore an error here, because the error of the write is reported.
        let _ = fs::remove_file(&temporary);
    }
    written.with_context(|| format!("cannot write the report `{}`", path.display()))
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_reports_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.html");
        check(&path, false).unwrap();
        write(&path, "<!DOCTYPE html><meta name=\"generator\" content=\"shardpack 1\">").unwrap();
        check(&path, false).unwrap();
        fs::write(&path, "my thesis").unwrap();
        assert!(check(&path, false).unwrap_err().to_string().contains("is not a report"));
        check(&path, true).unwrap();
        assert!(check(&folder.path().join("no/report.html"), true).is_err());
        assert!(check(folder.path(), true).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing temporary is left");
    }
}
