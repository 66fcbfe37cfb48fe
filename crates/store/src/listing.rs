//! Lists all objects below a folder.

use crate::attempts::Attempts;
use crate::diagnosis::diagnose;
use crate::folder::StoreFolder;
use crate::schedule::RequestError;
use futures_util::TryStreamExt;
use object_store::ObjectMeta;
use shardpack_io::Listed;
use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use tokio::time::timeout;

/// Lists all objects, with up to a thousand names per response. After a failure, the listing resumes after the last
/// received name.
pub(crate) async fn list_all(folder: &StoreFolder) -> Result<Vec<Listed>, RequestError> {
    let mut found: Vec<ObjectMeta> = Vec::new();
    let mut attempts = Attempts::to_read(folder);
    loop {
        let before = found.len();
        let Err(error) = list_on(folder, &mut found).await else { break };
        if found.len() > before {
            attempts.restart();
        }
        attempts.pause_after(error).await.map_err(|error| {
            let words = format!("{} (after {} names, attempt {})", error.words, found.len(), attempts.number);
            RequestError { words, ..error }
        })?;
    }
    found.into_iter().filter_map(|object| listed(folder, object).transpose()).collect()
}

async fn list_on(folder: &StoreFolder, found: &mut Vec<ObjectMeta>) -> Result<(), RequestError> {
    let mut names = match found.last() {
        Some(last) if found.is_sorted_by(|a, b| a.location < b.location) => {
            folder.store.list_with_offset(folder.prefix(), &last.location)
        }
        // The store lists names in an arbitrary order, so start again from the beginning.
        _ => {
            found.clear();
            folder.store.list(folder.prefix())
        }
    };
    folder.counters.requests.fetch_add(1, Ordering::Relaxed);
    let most = folder.options.first_byte_timeout.max(folder.options.stall_timeout);
    loop {
        match timeout(most, names.try_next()).await {
            Ok(Ok(Some(object))) => {
                folder.counters.answers.fetch_add(1, Ordering::Relaxed);
                found.push(object);
            }
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(diagnose(&error, &folder.secrets)),
            Err(_) => return Err(RequestError::again(ErrorKind::TimedOut, format!("no response within {most:?}"))),
        }
    }
}

/// Returns the entry of an object, or `None` if the object has the same name as the folder.
fn listed(folder: &StoreFolder, object: ObjectMeta) -> Result<Option<Listed>, RequestError> {
    let Some(name) = folder.name_of(&object.location) else {
        let words = format!("the store listed `{}`, which is outside the folder", object.location);
        return Err(RequestError::last(ErrorKind::InvalidData, words));
    };
    // Some programs create an empty object with the folder's name.
    if name.is_empty() {
        return Ok(None);
    }
    let modified_ns = object.last_modified.timestamp_nanos_opt().unwrap_or(i64::MAX);
    // Azure's listings omit the quotes around ETags that its other responses have.
    let quoted = |tag: String| if tag.ends_with('"') { tag } else { format!("\"{tag}\"") };
    Ok(Some(Listed { name, bytes: object.size, modified_ns, e_tag: object.e_tag.map(quoted) }))
}
