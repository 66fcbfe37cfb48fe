//! `pack --recipe`: inserts the options of a recipe into a command line.

use super::show;
use crate::recipe::{Chosen, choose};
use shardpack_format::Voice;
use std::ffi::OsString;

/// Returns the command line with the recipe's options before its own. If `recipe` does not name a candidate, prints the
/// chosen one to stderr.
pub(super) fn inserted(command_line: &[OsString], recipe: &str) -> crate::Result<Vec<OsString>> {
    let Chosen { arguments, note } = choose(recipe)?;
    if let Some(note) = note {
        show::note(&format!("note: {}", note.told(Voice::Command)));
    }
    let (start, rest) = command_line.split_at(command_line.len().min(2));
    Ok([start, &arguments, rest].concat())
}
