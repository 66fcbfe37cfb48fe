//! Rebuilds the manifest of a folder that has lost it.

use super::folder::taken_from;
use super::options::SalvageOptions;
use crate::Context;
use crate::encode::FidelityTotals;
use crate::export::durable;
use shardpack_format::{MANIFEST_NAME, Note, visible_path};
use shardpack_reader::{Rebuilt, SalvageFolder, rebuild_manifest};
use shardpack_writer::Tally as _;
use std::path::Path;

/// The result of [`restore_manifest`].
#[derive(Debug)]
pub struct Restored {
    /// The new manifest, and the shards that are not in it.
    pub rebuilt: Rebuilt,
    /// Notes for the user, for example on the manifest that was used.
    pub notes: Vec<Note>,
}

/// Restores a folder's manifest. For a dataset with generations, uses the newest undamaged copy of a manifest.
/// Otherwise rebuilds the manifest from the shards, which must be undamaged. Renames the existing manifest
/// instead of deleting it.
///
/// # Errors
/// Fails if the newest generation is unknown and [`SalvageOptions::all_generations`] is not set, if a shard is
/// damaged or missing, or if the manifest cannot be written.
pub fn restore_manifest(folder: &Path, options: &SalvageOptions) -> crate::Result<Restored> {
    let newest = SalvageFolder::open(folder)?.newest(&options.limits)?;
    newest.known_or(options.all_generations, folder)?;
    let mut notes = Vec::new();
    let taken = taken_from(&newest);
    let rebuilt = match newest.manifest {
        Some((_, manifest)) if newest.is_certain && manifest.generation() > 1 => {
            notes.extend(taken);
            Rebuilt { manifest, left_out: Vec::new() }
        }
        _ => {
            let mut total = FidelityTotals::default();
            rebuild_manifest(folder, &options.limits, &mut |shard, manifest| {
                total.merge(FidelityTotals::of_shard(shard));
                manifest.fidelity = total.fidelity();
                Ok(())
            })?
        }
    };
    replace_manifest(folder, &rebuilt.manifest.encode()?)
        .with_context(|| format!("cannot write `{}`", visible_path(&folder.join(MANIFEST_NAME))))?;
    Ok(Restored { rebuilt, notes })
}

/// Replaces a manifest atomically and durably. The old manifest gets the first free name of the form
/// `manifest.json.damaged…`.
fn replace_manifest(folder: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = durable::open_folder(folder)?;
    let (name, temporary) = (Path::new(MANIFEST_NAME), Path::new(".manifest.json.tmp"));
    // An earlier run may have left a file with the temporary name, or another program may have
    // placed a link there. Remove it first, so that nothing is written through a link.
    durable::write_new(&folder, temporary, bytes)?;
    match durable::is_regular(&folder, name) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
        found => {
            found?;
            let kept = (0..1000).map(|n| match n {
                0 => "manifest.json.damaged".to_owned(),
                n => format!("manifest.json.damaged-{n}"),
            });
            durable::keep(&folder, name, kept)?;
        }
    }
    durable::replace(&folder, temporary, name)?;
    durable::sync_folder(&folder)
}
