//! Rejects a URL where a command needs a local folder.

use crate::place::is_url;
use shardpack_format::{Note, visible_path};
use std::path::Path;

/// Fails if the output of a command is a URL. Otherwise the command would write to a local folder named `s3:`.
pub(crate) fn refuse_url_to_write(path: &Path, what: &str) -> crate::Result<()> {
    if is_url(path) {
        let text = format!("`{what}` writes only to local paths, not to URLs: `{}`", visible_path(path));
        shardpack_pack::bail!(Note::new(text).with_hint("use a local path, then copy the files to the store"));
    }
    Ok(())
}
