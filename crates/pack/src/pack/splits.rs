//! Packs each split of a source into a separate dataset. The datasets share classes, fields and codecs.

use super::fields::FolderFields;
use super::options::PackOptions;
use super::overlap::refuse_overlap;
use super::report::PackReport;
use super::run::{Destination, Hooks, pack_into};
use crate::pool::on_pool;
use crate::{Context, bail};
use serde_json::{Map, Value, json};
use shardpack_format::{MANIFEST_NAME, Note};
use shardpack_sources::{BadInput, splits};
use shardpack_writer::Output;
use std::path::Path;

/// The result of [`pack_splits`].
#[derive(Debug)]
pub struct PackedSplits {
    /// The report on each split, by name. A split's dataset is in the output's subfolder of the same name.
    pub splits: Vec<(String, PackReport)>,
    /// Files outside all splits that were skipped. Empty unless the policy is to skip them.
    pub bad: Vec<BadInput>,
    /// Notes for the user about all splits together.
    pub notes: Vec<Note>,
}

impl PackedSplits {
    /// Returns the JSON object printed by `pack --splits --json`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let splits: Map<String, Value> =
            self.splits.iter().map(|(name, packed)| (name.clone(), packed.to_json())).collect();
        json!({
            "samples": self.splits.iter().map(|(_, packed)| packed.report.samples).sum::<u64>(),
            "splits": splits,
            "skipped": self.bad.iter().map(|b| json!({ "key": b.key, "reason": b.to_string() })).collect::<Vec<_>>(),
        })
    }
}

/// Packs each first-level folder of `src` into a dataset, in the subfolder of `out` with the same name.
///
/// # Errors
/// Same as [`pack`](super::pack); also fails if `out` is a dataset or not a folder, or if the options name a
/// listing. Finished datasets are kept, and repeating the call continues after them.
pub fn pack_splits(
    src: &Path,
    out: impl Into<Output>,
    options: &PackOptions,
    hooks: &Hooks<'_>,
) -> crate::Result<PackedSplits> {
    let out = match out.into() {
        Output::Folder(folder) => folder,
        other => bail!(
            Note::new(format!("splits can be packed only into a local folder, not into `{}`", other.path().display()))
                .with_hint("pack each split with a separate call")
        ),
    };
    refuse_overlap(src, &out, &options.source.files)?;
    options.arrays.check()?;
    if options.source.listing.is_some() {
        bail!("splits cannot be packed from a listing, because a listing describes a single dataset");
    }
    if out.join(MANIFEST_NAME).exists() {
        let text = format!("`{}` is already a dataset, so the splits cannot be written into it", out.display());
        bail!(Note::new(text).with_hint("choose another folder"));
    }
    let (found, fields) = on_pool(options.threads, || {
        let found = splits::enumerate(src, &options.source)?;
        let fields = FolderFields::of(&found.whole, options)?;
        crate::Result::<_>::Ok((found, fields))
    })??;
    let pack = |split: splits::Split| {
        let out = Output::from(&out.join(&split.name));
        let destination = Destination::New { out: &out, split: Some(&split.name) };
        let packed = pack_into(&destination, &split.listing, fields.clone(), options, hooks)
            .with_context(|| format!("split `{}`", split.name.escape_debug()))?;
        Ok((split.name, packed))
    };
    let splits = found.splits.into_iter().map(pack).collect::<crate::Result<_>>()?;
    Ok(PackedSplits { splits, bad: found.bad, notes: found.notes })
}
