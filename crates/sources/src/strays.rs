//! Refuses samples outside the split or class folders if other samples are inside.

use crate::bad::{BadInput, BadKind, Flaw};
use crate::classes::folder;
use crate::listing::SourceSample;
use shardpack_format::{Hint, Setting};
use std::collections::HashSet;

/// Turns samples outside the class folders into bad input, because even one of them would leave all samples
/// without labels. Unless the user said that folders are classes (`chosen`), this requires several folders, and
/// more samples inside than outside.
pub(crate) fn refuse_outside_classes(samples: &mut Vec<SourceSample>, bad: &mut Vec<BadInput>, chosen: bool) {
    let folders: HashSet<&str> = samples.iter().filter_map(|sample| folder(&sample.key)).collect();
    let beside = samples.iter().filter(|sample| folder(&sample.key).is_none()).count();
    if folders.is_empty() || !chosen && (folders.len() < 2 || 2 * beside >= samples.len()) {
        return;
    }
    samples.retain(|sample| {
        let inside = folder(&sample.key).is_some();
        if !inside {
            let detail = "this sample is not in any class folder";
            let hint = Hint::new("move the sample into the folder for its class, or pass ");
            let hint = hint.and([Setting::word("class_folders", "off")]).then(" to pack all samples without labels");
            bad.push(Flaw::new(BadKind::NoClass, detail).with_hint(hint).of(sample.key.clone()));
        }
        inside
    });
}

pub(crate) fn refuse_outside_splits(samples: &mut Vec<SourceSample>, bad: &mut Vec<BadInput>) {
    samples.retain(|sample| {
        let inside = folder(&sample.key).is_some();
        if !inside {
            let detail = "this sample is not in any split";
            let hint = Hint::new("move the sample into a split folder, or omit ").and([Setting::named("splits")]);
            bad.push(Flaw::new(BadKind::NoSplit, detail).with_hint(hint).of(sample.key.clone()));
        }
        inside
    });
}
