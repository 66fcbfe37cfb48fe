//! Checks that the source and the output do not overlap.

use crate::{Context, bail};
use shardpack_format::{Note, visible_path};
use shardpack_io::is_url;
use shardpack_sources::Files;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Fails if the output folder equals, contains or is inside the source. A second run would otherwise pack the
/// shards of the first.
pub(crate) fn refuse_overlap(src: &Path, out: &Path, files: &Files) -> crate::Result<()> {
    files.check(src)?;
    let url =
        |path: &Path| path.to_str().filter(|text| is_url(text)).map(|url| format!("{}/", url.trim_end_matches('/')));
    if files.has(src) || url(out).is_some() {
        return match (url(src), url(out)) {
            (Some(src), Some(out)) if src.starts_with(&out) || out.starts_with(&src) => bail!(overlap(src, out)),
            _ => Ok(()),
        };
    }
    let src_path = src.canonicalize().with_context(|| format!("cannot open the source `{}`", visible_path(src)))?;
    let resolved = resolved(out)?;
    if resolved.starts_with(&src_path) || src_path.starts_with(&resolved) {
        bail!(overlap(visible_path(src), visible_path(out)));
    }
    Ok(())
}

/// Fails if files would be written into the folder of a dataset. They would disturb programs that
/// write the dataset.
///
/// # Errors
/// Fails if `out` is that folder or inside it.
pub fn refuse_inside(dataset: &Path, out: &Path) -> crate::Result<()> {
    // A dataset without a local path has no folder to protect.
    let Ok(path) = dataset.canonicalize() else { return Ok(()) };
    let folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
    // A lone shard without a manifest may be in any folder.
    let folder = folder.filter(|folder| path.is_dir() || folder.join(shardpack_format::MANIFEST_NAME).exists());
    if folder.is_some_and(|folder| resolved(out).is_ok_and(|out| out.starts_with(folder))) {
        let text = format!("the output `{}` is inside the dataset `{}`", visible_path(out), visible_path(dataset));
        bail!(Note::new(text).with_hint("choose a folder next to the dataset"));
    }
    Ok(())
}

/// Returns the path of an output, with links resolved in the part that exists.
fn resolved(out: &Path) -> crate::Result<PathBuf> {
    let mut out_path = std::path::absolute(out)?;
    let mut rest = Vec::new();
    loop {
        match out_path.canonicalize() {
            Ok(found) => return Ok(rest.iter().rev().fold(found, |path, part| path.join(part))),
            Err(_) => match (out_path.file_name().map(ToOwned::to_owned), out_path.parent()) {
                (Some(name), Some(parent)) => {
                    rest.push(name);
                    out_path = parent.to_owned();
                }
                _ => bail!("the output `{}` is not a folder", visible_path(out)),
            },
        }
    }
}

fn overlap(src: impl Display, out: impl Display) -> Note {
    let text = format!("the output `{out}` overlaps the source `{src}`");
    Note::new(text).with_hint("choose a folder next to the source")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_written_into_a_dataset() {
        let scratch = tempfile::tempdir().unwrap();
        let path = |name: &str| scratch.path().join(name);
        std::fs::create_dir(path("d")).unwrap();
        for name in ["d/manifest.json", "d/0.shard", "lone.shard"] {
            std::fs::write(path(name), "").unwrap();
        }
        let refused = |dataset: &str, out: &str| refuse_inside(&path(dataset), &path(out)).is_err();
        for dataset in ["d", "d/manifest.json", "d/0.shard"] {
            assert!(refused(dataset, "d") && refused(dataset, "d/new/deep") && refused(dataset, "d/../d"), "{dataset}");
            assert!(!refused(dataset, "d-files") && !refused(dataset, "."), "{dataset}");
        }
        assert!(!refused("lone.shard", "files") && !refused("nothing", "nothing/files"));
        let error = refuse_inside(&path("d"), &path("d")).unwrap_err().to_string();
        assert!(error.contains("is inside the dataset"), "{error}");
    }
}
