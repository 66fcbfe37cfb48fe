//! Samples beside the folders that hold the others: of splits, or of classes.

use crate::bad::{BadInput, BadKind, Flaw};
use crate::classes::folder;
use crate::listing::SourceSample;
use shardpack_format::{Hint, Setting};
use std::collections::HashSet;

/// Turns samples beside the folders of classes into bad input: one of them would leave all samples
/// without labels. Unless the user has said that folders are classes (`chosen`), only if there are
/// several such folders, and more samples in them than beside them.
pub(crate) fn refuse_outside_classes(samples: &mut Vec<SourceSample>, bad: &mut Vec<BadInput>, chosen: bool) {
    let folders: HashSet<&str> = samples.iter().filter_map(|sample| folder(&sample.key)).collect();
    let beside = samples.iter().filter(|sample| folder(&sample.key).is_none()).count();
    if folders.is_empty() || !chosen && (folders.len() < 2 || 2 * beside >= samples.len()) {
        return;
    }
    samples.retain(|sample| {
        let inside = folder(&sample.key).is_some();
        if !inside {
            let detail = "expected samples in the folders of classes alone, found one beside them";
            let hint = Hint::new("move it into the folder of its class; ");
            let hint = hint.and([Setting::word("class_folders", "off")]).then(" packs all samples without labels");
            bad.push(Flaw::new(BadKind::NoClass, detail).with_hint(hint).of(sample.key.clone()));
        }
        inside
    });
}

/// Takes samples that are in no split out of `samples`.
pub(crate) fn refuse_outside_splits(samples: &mut Vec<SourceSample>, bad: &mut Vec<BadInput>) {
    samples.retain(|sample| {
        let inside = folder(&sample.key).is_some();
        if !inside {
            let detail = "expected samples in the folders of splits alone, found one beside them";
            let hint = Hint::new("move it into a split, or leave ").and([Setting::named("splits")]).then(" out");
            bad.push(Flaw::new(BadKind::NoSplit, detail).with_hint(hint).of(sample.key.clone()));
        }
        inside
    });
}
