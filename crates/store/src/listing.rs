//! All objects below a folder.

use crate::client::Shared;
use crate::failure::Failure;
use crate::fetch::{FIRST_ATTEMPTS, pause};
use futures_util::TryStreamExt;
use object_store::ObjectMeta;
use object_store::path::Path as Key;
use shardpack_io::Listed;
use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use tokio::time::{Instant, sleep, timeout};

/// Stores give a thousand names an answer, one answer after the other. What fails is asked again, and
/// goes on behind the last name that came.
pub(crate) async fn list_all(shared: &Shared) -> Result<Vec<Listed>, Failure> {
    let mut found: Vec<ObjectMeta> = Vec::new();
    let (mut begun, mut attempt) = (Instant::now(), 1);
    loop {
        let before = found.len();
        let Err(failure) = list_on(shared, &mut found).await else { break };
        if failure.slow_down {
            shared.state().tuner.slow_down();
        }
        if found.len() > before {
            (begun, attempt) = (Instant::now(), 1);
        }
        let salt = shared.counters.retries.fetch_add(1, Ordering::Relaxed);
        let pause = pause(shared.options.backoff, attempt, salt);
        let late = begun.elapsed().saturating_add(pause) > shared.options.retry_timeout;
        let answered = shared.counters.answers.load(Ordering::Relaxed) > 0;
        let most = if answered { shared.options.max_attempts } else { shared.options.max_attempts.min(FIRST_ATTEMPTS) };
        if !failure.again || attempt >= most || late {
            let words = format!("{} (after {} names, attempt {attempt})", failure.words, found.len());
            return Err(Failure { words, ..failure });
        }
        attempt += 1;
        sleep(pause).await;
    }
    let folder = shared.folder();
    // Some programs make an empty object of the folder's own name.
    let inside = found.into_iter().filter(|object| object.location != *folder);
    inside.map(|object| listed(folder, object)).collect()
}

/// Adds the names that follow those that are there.
async fn list_on(shared: &Shared, found: &mut Vec<ObjectMeta>) -> Result<(), Failure> {
    let folder = Some(shared.folder()).filter(|folder| !folder.is_root());
    let mut names = match found.last() {
        Some(last) if found.is_sorted_by(|a, b| a.location < b.location) => {
            shared.store.list_with_offset(folder, &last.location)
        }
        // A store without an order is asked from the beginning.
        _ => {
            found.clear();
            shared.store.list(folder)
        }
    };
    shared.counters.requests.fetch_add(1, Ordering::Relaxed);
    let most = shared.options.first_byte_timeout.max(shared.options.stall_timeout);
    loop {
        match timeout(most, names.try_next()).await {
            Ok(Ok(Some(object))) => {
                shared.counters.answers.fetch_add(1, Ordering::Relaxed);
                found.push(object);
            }
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(refused(&error, shared)),
            Err(_) => return Err(Failure::again(ErrorKind::TimedOut, format!("no answer within {most:?}"))),
        }
    }
}

/// What an error of a listing means: a name that is not there is that of the bucket.
fn refused(error: &object_store::Error, shared: &Shared) -> Failure {
    let text = error.to_string();
    if text.contains("NoSuchBucket") || text.contains("404 Not Found") || text.contains("ContainerNotFound") {
        return Failure::last(ErrorKind::NotFound, "there is no such bucket or container");
    }
    Failure::of(error, &shared.secrets)
}

fn listed(folder: &Key, object: ObjectMeta) -> Result<Listed, Failure> {
    let outside = || Failure::last(ErrorKind::InvalidData, format!("the listing names `{}`", object.location));
    let parts = object.location.prefix_match(folder).ok_or_else(outside)?;
    let name = parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/");
    let modified_ns = object.last_modified.timestamp_nanos_opt().unwrap_or(i64::MAX);
    // Azure lists ETags without the quotes that its answers have.
    let quoted = |tag: String| if tag.ends_with('"') { tag } else { format!("\"{tag}\"") };
    Ok(Listed { name, bytes: object.size, modified_ns, e_tag: object.e_tag.map(quoted) })
}
