//! Shared test helpers of this crate.

mod files;
pub(crate) use files::*;

use crate::{Listing, SourceError};
use shardpack_format::{Explain, Voice, told as with_hints};

/// Text of an error as the command prints it.
pub(crate) fn said(error: &SourceError) -> String {
    with_hints(error, &error.hints(), Voice::Command)
}

/// Notes of a listing as the command prints them.
pub(crate) fn told(listing: &Listing) -> Vec<String> {
    listing.notes.iter().map(|note| note.told(Voice::Command)).collect()
}
