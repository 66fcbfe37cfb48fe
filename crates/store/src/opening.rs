//! Opening an object: its size, its ETag, and what every reader looks at first, in one wait.

use crate::client::Shared;
use crate::failure::{Failure, PATIENCE};
use crate::fetch::{Answer, Want, fetch};
use crate::object::Pin;
use crate::readers::Readers;
use crate::state::Known;
use bytes::Bytes;
use object_store::path::Path as Key;
use std::io::ErrorKind;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A manifest of more bytes is read range by range.
const MOST_WHOLE_BYTES: u64 = 64 << 20;
/// The header of a shard.
const HEAD_BYTES: u64 = 64;

/// An object that is being opened; many may wait for it.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    pub(crate) readers: Readers,
    done: Mutex<Option<Result<Arc<Pin>, Failure>>>,
    changed: Condvar,
}

impl Opening {
    pub(crate) fn finish(&self, result: Result<Arc<Pin>, Failure>) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(result);
        self.changed.notify_all();
    }

    pub(crate) fn wait(&self, is_cancelled: impl Fn() -> bool) -> Result<Arc<Pin>, Failure> {
        let _waiting = self.readers.wait();
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = &*done {
                return result.clone();
            }
            if is_cancelled() {
                return Err(Failure::given_up());
            }
            done = self.changed.wait_timeout(done, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// What came with the opening: offset and bytes.
type Came = (u64, Vec<Bytes>);

/// Opens `name`, and leaves what it found in the state. A manifest comes as a whole; of anything
/// else the first bytes and the last.
pub(crate) async fn open(shared: &Shared, name: &str, readers: &Readers) -> Result<Arc<Pin>, Failure> {
    let key = shared.key(name)?;
    let (answer, came) = match name.ends_with(".json") {
        true => whole(shared, &key, readers).await?,
        false => ends(shared, &key, readers).await?,
    };
    let mut state = shared.state();
    let id = state.next_id();
    let pin = Arc::new(Pin { id, key, size: answer.size, e_tag: answer.e_tag, modified: answer.modified });
    for (start, pieces) in came {
        state.put_arrived(&pin, start, pieces);
    }
    state.opened_bytes = state.opened_bytes.saturating_add(pin.size);
    state.names.insert(name.to_owned(), Known::Open(Arc::clone(&pin)));
    Ok(pin)
}

async fn whole(shared: &Shared, key: &Key, readers: &Readers) -> Result<(Answer, Vec<Came>), Failure> {
    let mut pieces = Vec::new();
    let answer =
        fetch(shared, key, Want::Whole(MOST_WHOLE_BYTES), None, readers, &mut |piece| pieces.push(piece)).await?;
    Ok((answer, vec![(0, pieces)]))
}

async fn ends(shared: &Shared, key: &Key, readers: &Readers) -> Result<(Answer, Vec<Came>), Failure> {
    let tail_bytes = shared.state().tail_bytes();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    let (head, tail) = futures_util::future::join(
        async {
            let want = Want::Range(0..HEAD_BYTES);
            fetch(shared, key, want, None, readers, &mut |piece| first.push(piece)).await
        },
        async {
            let want = Want::Suffix(tail_bytes);
            fetch(shared, key, want, None, readers, &mut |piece| last.push(piece)).await
        },
    )
    .await;
    let tail = match tail {
        // Azure has no such ranges, and an object without a byte has no last ones.
        Err(failure) if matches!(failure.kind, ErrorKind::Unsupported | ErrorKind::InvalidData) => {
            last.clear();
            let answer = fetch(shared, key, Want::Meta, None, readers, &mut |_| {}).await?;
            if answer.size == 0 {
                return Ok((answer, Vec::new()));
            }
            let range = answer.size.saturating_sub(tail_bytes)..answer.size;
            let pin =
                Pin { id: 0, key: key.clone(), size: answer.size, e_tag: answer.e_tag, modified: answer.modified };
            fetch(shared, key, Want::Range(range), Some(&pin), readers, &mut |piece| last.push(piece)).await?
        }
        other => other?,
    };
    let mut came = vec![(tail.range.start, last)];
    // Of another object that has taken its place meanwhile, nothing is kept: the next read says so.
    if head.is_ok_and(|head| head.is_same(&tail)) && tail.range.start >= HEAD_BYTES {
        came.push((0, first));
    }
    Ok((tail, came))
}
