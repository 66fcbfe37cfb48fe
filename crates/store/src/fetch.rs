//! Fetches a range of an object, with several attempts if needed.

use crate::attempts::Attempts;
use crate::diagnosis::diagnose;
use crate::folder::StoreFolder;
use crate::options::StoreOptions;
use crate::schedule::{Pin, Readers, RequestError};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::{Either, select};
use object_store::path::Path as Key;
use object_store::{Attribute, GetOptions, GetRange, GetResult, ObjectMeta};
use std::io::ErrorKind;
use std::ops::Range;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Extent {
    Range(Range<u64>),
    Suffix(u64),
    /// Fetch the whole object if it has at most this many bytes, and only the metadata of a larger object.
    Whole(u64),
    Meta,
}

#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) range: Range<u64>,
    pub(crate) size: u64,
    pub(crate) e_tag: Option<String>,
    /// Time of the last change, in seconds since 1970.
    pub(crate) modified: i64,
}

impl Answer {
    fn new(meta: &ObjectMeta, range: Range<u64>) -> Self {
        Self { range, size: meta.size, e_tag: meta.e_tag.clone(), modified: meta.last_modified.timestamp() }
    }

    /// Compares sizes and ETags, or sizes and modification times if there are no ETags.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let times = self.e_tag.is_some() || self.modified == other.modified;
        self.size == other.size && self.e_tag == other.e_tag && times
    }

    fn of_pin(pin: &Pin) -> Self {
        Self { range: 0..0, size: pin.size, e_tag: pin.e_tag.clone(), modified: pin.modified }
    }
}

/// Passes the bytes to `push` in order, piece by piece. A new attempt continues where the failed one ended. Stops
/// early once no reader is waiting.
pub(crate) async fn fetch(
    folder: &StoreFolder,
    key: &Key,
    extent: Extent,
    pin: Option<&Pin>,
    readers: &Readers,
    push: &mut (dyn FnMut(Bytes) + Send),
) -> Result<Answer, RequestError> {
    let mut at = FetchProgress { known: pin.map(Answer::of_pin), range: None, arrived: 0 };
    let mut attempts = Attempts::to_read(folder);
    loop {
        if readers.is_abandoned() {
            return Err(RequestError::abandoned());
        }
        let error = match try_once(folder, key, &extent, &mut at, readers, push).await {
            Ok(answer) => return Ok(answer),
            Err(error) if error.is_abandoned() => return Err(error),
            Err(error) => error,
        };
        attempts.pause_after(error).await.map_err(|error| at.named(error, &extent, attempts.number))?;
    }
}

#[derive(Debug)]
struct FetchProgress {
    /// Version of the object in the first response.
    known: Option<Answer>,
    /// The requested byte range, once it is known.
    range: Option<Range<u64>>,
    arrived: u64,
}

impl FetchProgress {
    fn named(&self, error: RequestError, extent: &Extent, attempt: u32) -> RequestError {
        let range = match (&self.range, extent) {
            (Some(range), _) | (None, Extent::Range(range)) => format!("bytes {} to {}, ", range.start, range.end),
            (None, Extent::Suffix(bytes)) => format!("last {bytes} bytes, "),
            (None, Extent::Whole(_) | Extent::Meta) => String::new(),
        };
        let words = format!("{} ({range}attempt {attempt})", error.words);
        RequestError { words, ..error }
    }

    fn request(&self, extent: &Extent) -> GetOptions {
        let range = match (&self.range, extent) {
            (Some(range), _) | (None, Extent::Range(range)) => {
                Some(GetRange::Bounded(range.start + self.arrived..range.end))
            }
            (None, Extent::Suffix(bytes)) => Some(GetRange::Suffix(*bytes)),
            (None, Extent::Whole(_) | Extent::Meta) => None,
        };
        // Weak ETags never match in the conditions of an HTTP request. They are compared after the response has
        // arrived.
        let e_tag = self.known.as_ref().and_then(|known| known.e_tag.clone()).filter(|tag| !tag.starts_with("W/"));
        GetOptions { range, if_match: e_tag, head: *extent == Extent::Meta, ..GetOptions::default() }
    }
}

async fn try_once(
    folder: &StoreFolder,
    key: &Key,
    extent: &Extent,
    at: &mut FetchProgress,
    readers: &Readers,
    push: &mut (dyn FnMut(Bytes) + Send),
) -> Result<Answer, RequestError> {
    let result = first_byte(folder, key, at.request(extent)).await?;
    folder.counters.answers.fetch_add(1, Ordering::Relaxed);
    let answer = Answer::new(&result.meta, result.range.clone());
    if let Some(known) = &at.known
        && !known.is_same(&answer)
    {
        return Err(RequestError::changed());
    }
    at.known = Some(answer.clone());
    if let Some(coding) = result.attributes.get(&Attribute::ContentEncoding)
        && let Some(found) = CODINGS.into_iter().find(|known| coding.eq_ignore_ascii_case(known))
    {
        let words = format!("the server sends the object compressed (Content-Encoding: {found})");
        return Err(
            RequestError::last(ErrorKind::Unsupported, words).with_hint("store and serve the object uncompressed")
        );
    }
    let all = match extent {
        Extent::Meta => return Ok(answer),
        Extent::Whole(most) if answer.size > *most => return Ok(Answer { range: 0..0, ..answer }),
        _ => at.range.get_or_insert(answer.range.clone()).clone(),
    };
    let mut body = result.into_stream();
    let whole = all.end.saturating_sub(all.start);
    let mut pace = Pace::new(&folder.options);
    loop {
        let next = timeout(folder.options.stall_timeout, body.next()).await;
        let piece = match next {
            Err(_) => {
                let words = format!("no data arrived for {:?}", folder.options.stall_timeout);
                return Err(RequestError::again(ErrorKind::TimedOut, words));
            }
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(diagnose(&error, &folder.secrets)),
            Ok(Some(Ok(piece))) => piece,
        };
        let arrived = at.arrived.saturating_add(piece.len() as u64);
        if arrived > whole {
            let words = format!("the response is longer than the expected {whole} bytes");
            return Err(RequestError::again(ErrorKind::InvalidData, words));
        }
        at.arrived = arrived;
        pace.count(piece.len() as u64);
        folder.counters.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        push(piece);
        if readers.is_abandoned() {
            return Err(RequestError::abandoned());
        }
        if at.arrived < whole {
            pace.check(Instant::now())?;
        }
    }
    if at.arrived < whole {
        let words = format!("the response was cut off after {} of {whole} bytes", at.arrived);
        return Err(RequestError::again(ErrorKind::ConnectionReset, words));
    }
    Ok(Answer { range: all, ..answer })
}

/// Content codings that are refused. All other values are accepted, because some programs write objects with values
/// such as `aws-chunked` and never remove them.
const CODINGS: [&str; 5] = ["gzip", "br", "deflate", "zstd", "compress"];

/// Detects responses that are too slow. A response that trickles in never counts as stalled, but could take forever.
struct Pace {
    least: u64,
    window: Duration,
    begun: Instant,
    bytes: u64,
}

impl Pace {
    fn new(options: &StoreOptions) -> Self {
        Self { least: options.min_rate, window: options.stall_timeout, begun: Instant::now(), bytes: 0 }
    }

    const fn count(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    fn check(&mut self, now: Instant) -> Result<(), RequestError> {
        let took = now.saturating_duration_since(self.begun);
        if took < self.window {
            return Ok(());
        }
        let (bytes, least) = (self.bytes, self.least);
        if u128::from(bytes) * 1000 < u128::from(least) * took.as_millis() {
            let words = format!(
                "only {bytes} bytes arrived in {took:.1?}, which is slower than the option `min_rate` allows \
                 ({least} bytes/s)"
            );
            return Err(RequestError::again(ErrorKind::TimedOut, words));
        }
        (self.begun, self.bytes) = (now, 0);
        Ok(())
    }
}

async fn first_byte(folder: &StoreFolder, key: &Key, options: GetOptions) -> Result<GetResult, RequestError> {
    let counters = &folder.counters;
    let begun = Instant::now();
    let ask = || {
        counters.requests.fetch_add(1, Ordering::Relaxed);
        folder.store.get_opts(key, options.clone())
    };
    let one = async {
        let first = ask();
        let slow = if folder.options.hedge { folder.latencies.slow_after() } else { None };
        let Some(slow) = slow else { return first.await };
        let first = match select(first, pin!(sleep(slow))).await {
            Either::Left((result, _)) => return result,
            Either::Right(((), first)) => first,
        };
        counters.hedges.fetch_add(1, Ordering::Relaxed);
        match select(first, ask()).await {
            Either::Left((result, _)) | Either::Right((result, _)) => result,
        }
    };
    let result = timeout(folder.options.first_byte_timeout, one).await.map_err(|_| {
        let words = format!("no response within {:?}", folder.options.first_byte_timeout);
        RequestError::again(ErrorKind::TimedOut, words)
    })?;
    if folder.options.hedge {
        folder.latencies.add(begun.elapsed());
    }
    result.map_err(|error| diagnose(&error, &folder.secrets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drip_is_too_slow_at_the_end_of_a_window() {
        let options = StoreOptions { stall_timeout: Duration::from_secs(10), min_rate: 100, ..StoreOptions::default() };
        let mut pace = Pace::new(&options);
        let begun = pace.begun;
        let at = |seconds| begun + Duration::from_secs(seconds);
        pace.count(1);
        assert!(pace.check(at(9)).is_ok(), "the window is not over");
        pace.count(999);
        assert!(pace.check(at(10)).is_ok());
        pace.count(999);
        let error = pace.check(at(20)).unwrap_err();
        let words = "999 bytes arrived in 10.0s, which is slower than the option `min_rate` allows (100 bytes/s)";
        assert!(error.again && error.words.contains(words));
        let mut pace = Pace::new(&StoreOptions { min_rate: 0, ..options });
        assert!(pace.check(pace.begun + Duration::from_secs(1000)).is_ok());
    }
}
