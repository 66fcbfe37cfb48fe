//! Finds the files that `shardpack unpack` writes next to a sample. A cube `a.npy` gets the mask `a.mask.npy`
//! and the metadata `a.meta.json`. A picture `a.jpg` gets the mask `a.jpg.mask.npy`. Packing assigns these
//! files to the sample again.

use crate::bad::{BadInput, Flaw};
use crate::files::Files;
use crate::files::listed::SideFile;
use crate::files::listed::SourceFile;
use crate::listing::SourceSample;
use crate::tree::Tree;
use crate::words::{plural, verb};
use serde_json::{Map, Value};
use shardpack_format::{Limits, check_json};
use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

const CUBE: &str = ".npy";
const MASK: &str = ".mask.npy";
const META: &str = ".meta.json";
const MAX_META_BYTES: u64 = 16 << 20;

#[derive(Default)]
pub(crate) struct Unpacked {
    masks: HashMap<String, SideFile>,
    metas: HashMap<String, SideFile>,
}

impl Unpacked {
    /// Moves the side files out of `tree`, except for mask files if the masks come from another folder.
    pub(crate) fn take(tree: &mut Tree, with_masks: bool) -> Self {
        let mut found = Self::default();
        let has = |key: &str| tree.files.binary_search_by(|file| file.key.as_str().cmp(key)).is_ok();
        let cube_of = |key: &str, ending: &str| {
            let cube = format!("{}{CUBE}", key.strip_suffix(ending)?);
            has(&cube).then_some(cube)
        };
        let owner_of_mask = |key: &str| {
            cube_of(key, MASK).or_else(|| key.strip_suffix(MASK).filter(|owner| has(owner)).map(str::to_owned))
        };
        let root = tree.root.clone();
        let side_file = |file: &SourceFile| {
            let path = root.join(&file.key);
            SideFile { path, bytes: file.bytes, mtime_ns: file.mtime_ns }
        };
        let mut taken = Vec::with_capacity(tree.files.len());
        for file in &tree.files {
            let mask = if with_masks { owner_of_mask(&file.key) } else { None };
            let meta = cube_of(&file.key, META);
            taken.push(mask.is_some() || meta.is_some());
            found.masks.extend(mask.map(|owner| (owner, side_file(file))));
            found.metas.extend(meta.map(|cube| (cube, side_file(file))));
        }
        let mut taken = taken.into_iter();
        tree.files.retain(|_| !taken.next().unwrap_or(false));
        found
    }

    /// Adds masks by the key of their sample. Masks written by `unpack` take precedence.
    pub(crate) fn add_masks(&mut self, masks: Vec<(String, SideFile)>) {
        masks.into_iter().for_each(|(key, file)| _ = self.masks.entry(key).or_insert(file));
    }

    /// Returns the mask of each sample from the unpacked dataset, or `None` if no sample has one.
    pub(crate) fn masks(&mut self, samples: &[SourceSample]) -> Option<Vec<Option<SideFile>>> {
        (!self.masks.is_empty()).then(|| samples.iter().map(|sample| self.masks.remove(&sample.key)).collect())
    }

    pub(crate) fn without_masks(masks: &[Option<SideFile>], samples: &[SourceSample]) -> Option<String> {
        let mut wanting = masks.iter().zip(samples).filter(|(mask, _)| mask.is_none()).map(|(_, sample)| &sample.key);
        let first = wanting.next()?;
        let count = wanting.count() as u64 + 1;
        let name = format!("{}{MASK}", first.strip_suffix(CUBE).unwrap_or(first));
        Some(format!(
            "{count} of {} {} no mask, and {} packed without one (first: `{}` has no `{}`)",
            plural(samples.len() as u64, "sample"),
            verb(count, "has", "have"),
            verb(count, "is", "are"),
            first.escape_debug(),
            name.escape_debug()
        ))
    }

    /// Assigns metadata to each sample. Returns samples with unreadable metadata as bad input.
    pub(crate) fn add_metas(&mut self, samples: &mut Vec<SourceSample>, files: &Files) -> Vec<BadInput> {
        let mut bad = Vec::new();
        samples.retain_mut(|sample| {
            let Some(meta) = self.metas.remove(&sample.key) else { return true };
            match read_meta(&meta.path, files) {
                Ok(_) => sample.meta = Some(Box::new(meta)),
                Err(flaw) => bad.push(flaw.of(sample.key.clone())),
            }
            sample.meta.is_some()
        });
        bad
    }
}

/// Reads a cube's metadata from a side file.
pub fn read_meta(path: &Path, files: &Files) -> Result<Map<String, Value>, Flaw> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let flaw = |what: String| Flaw::damaged(format!("metadata `{}`: {what}", name.escape_debug()));
    let file = files.open(path)?;
    let mut text = Vec::new();
    (&file).take(MAX_META_BYTES + 1).read_to_end(&mut text)?;
    if text.len() as u64 > MAX_META_BYTES {
        return Err(flaw(format!("the file is larger than {MAX_META_BYTES} bytes")));
    }
    check_json(&text, &Limits::default()).map_err(|error| flaw(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| flaw(format!("cannot parse the JSON object: {error}")))
}

#[cfg(test)]
mod tests {
    use crate::testing::{npy, npy_of, put};
    use crate::{OnBadInput, SourceError, SourceOptions, enumerate};

    #[test]
    fn masks_and_metadata_next_to_a_cube_belong_to_it() {
        let root = tempfile::tempdir().unwrap();
        let file = |path: &str, bytes: Vec<u8>| put(root.path(), path, bytes);
        file("a/x.npy", npy_of(&[2, 3, 4]));
        file("a/x.meta.json", br#"{"wavelengths":[1.5]}"#.to_vec());
        file("a/y.npy", npy_of(&[2, 3, 4]));
        let list = |options: &SourceOptions| enumerate(root.path(), options);
        let listing = list(&SourceOptions::default()).unwrap();
        let keys = || listing.samples.iter().map(|sample| sample.key.as_str()).collect::<Vec<_>>();
        assert_eq!(keys(), ["a/x.npy", "a/y.npy"]);
        assert!(listing.samples[0].meta.is_some() && listing.samples[1].meta.is_none());
        assert_eq!(listing.samples[0].source_bytes(), listing.samples[0].bytes + 21);

        // A dataset may have samples without masks, but the user must get a note.
        file("a/x.mask.npy", npy_of(&[2, 3]));
        let one = list(&SourceOptions::default()).unwrap();
        assert_eq!(one.samples.iter().map(|sample| sample.mask.is_some()).collect::<Vec<_>>(), [true, false]);
        let told = "1 of 2 samples has no mask, and is packed without one (first: `a/y.npy` has no `a/y.mask.npy`)";
        assert!(one.notes.iter().any(|note| note.text == told), "{:?}", one.notes);
        file("a/y.mask.npy", npy_of(&[2, 3]));
        let both = list(&SourceOptions::default()).unwrap();
        assert!(both.samples.iter().all(|sample| sample.mask.is_some()));
        // Create a mask of the wrong size and an invalid metadata file.
        file("a/y.mask.npy", npy_of(&[3, 3]));
        file("a/x.meta.json", b"[1]".to_vec());
        let skip = SourceOptions { on_bad_input: OnBadInput::Skip, ..SourceOptions::default() };
        assert!(matches!(list(&skip), Err(SourceError::Empty { bad: 2, .. })));
        // A mask without a cube is an ordinary sample.
        let alone = tempfile::tempdir().unwrap();
        put(alone.path(), "z.mask.npy", npy());
        assert_eq!(enumerate(alone.path(), &SourceOptions::default()).unwrap().samples[0].key, "z.mask.npy");
    }
}
