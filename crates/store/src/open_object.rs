//! Opens an object. One round trip fetches its size, its ETag, and the bytes that every reader needs first.

use crate::fetch::{Answer, Extent, fetch};
use crate::folder::StoreFolder;
use crate::schedule::{ObjectStatus, Pin, Readers, RequestError};
use bytes::Bytes;
use object_store::path::Path as Key;
use std::io::ErrorKind;
use std::sync::Arc;

/// Maximum size of a manifest that is fetched as a whole. Larger manifests are fetched range by range.
const MOST_WHOLE_BYTES: u64 = 64 << 20;
const HEAD_BYTES: u64 = 64;

struct Arrived {
    start: u64,
    pieces: Vec<Bytes>,
}

/// Opens an object and passes the fetched bytes to the schedule. Manifests are fetched as a whole, other
/// objects only at their start and end.
pub(crate) async fn open(folder: &StoreFolder, name: &str, readers: &Readers) -> Result<Arc<Pin>, RequestError> {
    let key = folder.key(name)?;
    let (answer, arrived) = match name.ends_with(".json") {
        true => whole(folder, &key, readers).await?,
        false => ends(folder, &key, readers).await?,
    };
    let mut schedule = folder.schedule();
    let id = schedule.next_id();
    let pin = Arc::new(Pin { id, key, size: answer.size, e_tag: answer.e_tag, modified: answer.modified });
    for Arrived { start, pieces } in arrived {
        schedule.put_arrived(&pin, start, pieces);
    }
    schedule.opened_bytes = schedule.opened_bytes.saturating_add(pin.size);
    schedule.names.insert(name.to_owned(), ObjectStatus::Open(Arc::clone(&pin)));
    Ok(pin)
}

async fn whole(folder: &StoreFolder, key: &Key, readers: &Readers) -> Result<(Answer, Vec<Arrived>), RequestError> {
    let mut pieces = Vec::new();
    let answer =
        fetch(folder, key, Extent::Whole(MOST_WHOLE_BYTES), None, readers, &mut |piece| pieces.push(piece)).await?;
    Ok((answer, vec![Arrived { start: 0, pieces }]))
}

async fn ends(folder: &StoreFolder, key: &Key, readers: &Readers) -> Result<(Answer, Vec<Arrived>), RequestError> {
    let tail_bytes = folder.schedule().tail_bytes();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let (head, tail) = futures_util::future::join(
        async {
            let extent = Extent::Range(0..HEAD_BYTES);
            fetch(folder, key, extent, None, readers, &mut |piece| first.push(piece)).await
        },
        async {
            let extent = Extent::Suffix(tail_bytes);
            fetch(folder, key, extent, None, readers, &mut |piece| last.push(piece)).await
        },
    )
    .await;
    let tail = match tail {
        // Azure does not support suffix ranges, and an empty object has no last bytes. In both cases, first
        // ask for the size.
        Err(error) if matches!(error.kind, ErrorKind::Unsupported | ErrorKind::InvalidData) => {
            last.clear();
            let answer = fetch(folder, key, Extent::Meta, None, readers, &mut |_| {}).await?;
            if answer.size == 0 {
                return Ok((answer, Vec::new()));
            }
            let range = answer.size.saturating_sub(tail_bytes)..answer.size;
            let pin =
                Pin { id: 0, key: key.clone(), size: answer.size, e_tag: answer.e_tag, modified: answer.modified };
            fetch(folder, key, Extent::Range(range), Some(&pin), readers, &mut |piece| last.push(piece)).await?
        }
        other => other?,
    };
    let mut arrived = vec![Arrived { start: tail.range.start, pieces: last }];
    // Drop the first bytes if the object was replaced between the two requests. The next read reports the
    // change.
    if head.is_ok_and(|head| head.is_same(&tail)) && tail.range.start >= HEAD_BYTES {
        arrived.push(Arrived { start: 0, pieces: first });
    }
    Ok((tail, arrived))
}
