//! Helpers that several tests of this crate share.

mod files;
pub(crate) use files::*;

use crate::{Listing, SourceError};
use shardpack_format::{Explain, Voice, told as with_hints};

pub(crate) fn said(error: &SourceError) -> String {
    with_hints(error, &error.hints(), Voice::Command)
}

pub(crate) fn told(listing: &Listing) -> Vec<String> {
    listing.notes.iter().map(|note| note.told(Voice::Command)).collect()
}
