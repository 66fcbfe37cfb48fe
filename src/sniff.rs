//! Checks that a path can be a dataset at all, because other files should not be reported as
//! damaged datasets.

use shardpack_format::{FOOTER_BYTES, Footer, HEADER_MAGIC, Limits, MANIFEST_NAME, Note, visible_path};
use shardpack_pack::bail;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Number of bytes searched for a manifest's first key, `"format": "shardpack"`.
const START_BYTES: u64 = 4096;

/// Fails for a file unless its start, its end or its name suggests a shard or a manifest. Accepts
/// folders, and files that are missing or unreadable.
pub(crate) fn check(path: &Path) -> crate::Result<()> {
    let named = path.extension().is_some_and(|e| e == "shard") || path.file_name().is_some_and(|n| n == MANIFEST_NAME);
    if named || !fs::metadata(path).is_ok_and(|m| m.is_file()) {
        return Ok(());
    }
    let mut start = Vec::new();
    let mut end = Vec::new();
    let mut read = || {
        let mut file = File::open(path)?;
        file.by_ref().take(START_BYTES).read_to_end(&mut start)?;
        let bytes = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(bytes.saturating_sub(FOOTER_BYTES)))?;
        file.take(FOOTER_BYTES).read_to_end(&mut end)?;
        std::io::Result::Ok(bytes)
    };
    let Ok(bytes) = read() else { return Ok(()) };
    let manifest = start.trim_ascii_start().starts_with(b"{") && start.windows(11).any(|w| w == b"\"shardpack\"");
    if manifest || start.starts_with(&HEADER_MAGIC) || Footer::parse(&end, bytes, &Limits::default()).is_ok() {
        return Ok(());
    }
    let text = format!("`{}` is not a dataset: the file is neither a manifest nor a shard", visible_path(path));
    bail!(Note::new(text).with_hint("if it is a damaged shard, rename it so that its name ends in .shard"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_or_name_must_speak_for_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let is_refused = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            fs::write(&path, content).unwrap();
            check(&path).is_err()
        };
        assert!(is_refused("passwd", b"root:x:0:0::/root:/bin/sh\n"));
        assert!(is_refused("package.json", b"{\"name\": \"left-pad\"}"));
        assert!(is_refused("empty", b""));
        assert!(!is_refused("manifest.json", b"root:x"));
        assert!(!is_refused("a.shard", b""));
        assert!(!is_refused("copy of a shard", &HEADER_MAGIC));
        assert!(!is_refused("train.json", b"\n{\"format\": \"shardpack\"}"));
        assert!(check(folder.path()).is_ok() && check(&folder.path().join("nowhere")).is_ok());
    }
}
