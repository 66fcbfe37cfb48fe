//! Packs a folder or a URL into a dataset.

use crate::Result;
use crate::place::{Destination, for_packing};
use shardpack_pack::pack::{Hooks, PackOptions, PackReport};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Packs the files in `src` into the dataset `out`. With the feature `store`, both may be URLs. After an interruption,
/// repeat the call to continue.
///
/// ```no_run
/// use shardpack::PackOptions;
/// let packed = shardpack::pack("photos", "train", PackOptions { shard_bytes: 256 << 20, ..Default::default() })?;
/// println!("{}", packed.to_json());
/// # Ok::<(), shardpack::Error>(())
/// ```
///
/// # Errors
/// Fails if there is nothing to pack, if a file is damaged, or if the dataset cannot be written.
pub fn pack(src: impl AsRef<Path>, out: impl AsRef<Path>, options: PackOptions) -> Result<PackReport> {
    let (mut src, mut options) = (src.as_ref().to_owned(), options);
    let to = Destination { path: out.as_ref().to_owned(), ..Destination::default() };
    let cancel = Arc::new(AtomicBool::new(false));
    let out = for_packing(&mut src, &mut options.source, &to, &[], Some(Arc::clone(&cancel)))?;
    let hooks = Hooks { on_plan: &|_| {}, on_progress: &|_| {}, cancel: &cancel };
    shardpack_pack::pack::pack(&src, out, &options, &hooks)
}
