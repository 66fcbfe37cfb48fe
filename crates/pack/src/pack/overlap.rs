//! Source and output that are not apart.

use crate::sources::Files;
use anyhow::{Context, bail};
use shardpack_format::Hinted;
use shardpack_reader::is_url;
use std::fmt::Display;
use std::path::Path;

/// Refuses an output folder that is the source, is inside it, or contains it: a second run would
/// pack the first run's shards.
pub(crate) fn refuse_overlap(src: &Path, out: &Path, files: &Files) -> anyhow::Result<()> {
    files.check(src)?;
    let url =
        |path: &Path| path.to_str().filter(|text| is_url(text)).map(|url| format!("{}/", url.trim_end_matches('/')));
    if files.has(src) || url(out).is_some() {
        return match (url(src), url(out)) {
            (Some(src), Some(out)) if src.starts_with(&out) || out.starts_with(&src) => bail!(overlap(src, out)),
            _ => Ok(()),
        };
    }
    let src_path = src.canonicalize().with_context(|| format!("cannot open the source `{}`", src.display()))?;
    // The part of the output's path that exists, with links resolved, and the rest as given.
    let mut out_path = std::path::absolute(out)?;
    let mut rest = Vec::new();
    let resolved = loop {
        match out_path.canonicalize() {
            Ok(found) => break rest.iter().rev().fold(found, |path, part| path.join(part)),
            Err(_) => match (out_path.file_name().map(ToOwned::to_owned), out_path.parent()) {
                (Some(name), Some(parent)) => {
                    rest.push(name);
                    out_path = parent.to_owned();
                }
                _ => bail!("output: expected a folder, found `{}`", out.display()),
            },
        }
    };
    if resolved.starts_with(&src_path) || src_path.starts_with(&resolved) {
        bail!(overlap(src.display(), out.display()));
    }
    Ok(())
}

fn overlap(src: impl Display, out: impl Display) -> Hinted {
    let text = format!("output: expected a folder outside of the source `{src}`, found `{out}`");
    Hinted::new(text, "choose a folder next to the source")
}
