//! One range of one object, by as many attempts as it takes.

use crate::client::Shared;
use crate::failure::Failure;
use crate::object::Pin;
use crate::options::StoreOptions;
use crate::readers::Readers;
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

/// Attempts as long as the store has never answered: a wrong name of a host is said soon.
pub(crate) const FIRST_ATTEMPTS: u32 = 3;

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Want {
    Range(Range<u64>),
    /// The last bytes.
    Suffix(u64),
    /// All, unless it is more than this: then only what is known of it.
    Whole(u64),
    /// What is known of it.
    Meta,
}

/// What an answer says of the object.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) range: Range<u64>,
    pub(crate) size: u64,
    pub(crate) e_tag: Option<String>,
    /// Seconds.
    pub(crate) modified: i64,
}

impl Answer {
    fn new(meta: &ObjectMeta, range: Range<u64>) -> Self {
        Self { range, size: meta.size, e_tag: meta.e_tag.clone(), modified: meta.last_modified.timestamp() }
    }

    /// Whether both are of one object: by its size and its ETag, or the time of its change where
    /// there is no ETag.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let times = self.e_tag.is_some() || self.modified == other.modified;
        self.size == other.size && self.e_tag == other.e_tag && times
    }

    fn of_pin(pin: &Pin) -> Self {
        Self { range: 0..0, size: pin.size, e_tag: pin.e_tag.clone(), modified: pin.modified }
    }
}

/// Hands what was asked for to `push`, piece by piece and in order. An attempt goes on where the one
/// before it broke off. Ends early once its readers have given up.
pub(crate) async fn fetch(
    shared: &Shared,
    key: &Key,
    want: Want,
    pin: Option<&Pin>,
    readers: &Readers,
    push: &mut (dyn FnMut(Bytes) + Send),
) -> Result<Answer, Failure> {
    let begun = Instant::now();
    let mut at = Progress { known: pin.map(Answer::of_pin), range: None, arrived: 0 };
    let mut attempt = 1;
    loop {
        if readers.is_abandoned() {
            return Err(Failure::abandoned());
        }
        let failure = match try_once(shared, key, &want, &mut at, readers, push).await {
            Ok(answer) => return Ok(answer),
            Err(failure) if failure.is_abandoned() => return Err(failure),
            Err(failure) => failure,
        };
        if failure.slow_down {
            shared.state().tuner.slow_down();
        }
        let answered = shared.counters.answers.load(Ordering::Relaxed) > 0;
        let most = if answered { shared.options.max_attempts } else { shared.options.max_attempts.min(FIRST_ATTEMPTS) };
        let pause = pause(shared.options.backoff, attempt, shared.counters.requests.load(Ordering::Relaxed));
        let late = begun.elapsed().saturating_add(pause) > shared.options.retry_timeout;
        if !failure.again || attempt >= most || late {
            return Err(at.named(failure, &want, attempt));
        }
        attempt += 1;
        shared.counters.retries.fetch_add(1, Ordering::Relaxed);
        sleep(pause).await;
    }
}

/// Half of a time that doubles with each attempt, and a part of the other half that differs from
/// request to request, so that those that failed together do not come back together.
pub(crate) fn pause(first: Duration, attempt: u32, salt: u64) -> Duration {
    let whole = first.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)).min(100));
    let part = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    let part = u32::try_from(part).unwrap_or_default();
    (whole / 2).saturating_add((whole / 512).saturating_mul(part))
}

/// How far the attempts came.
#[derive(Debug)]
struct Progress {
    /// Which object it is, once one has answered.
    known: Option<Answer>,
    /// The range, once it is known as numbers.
    range: Option<Range<u64>>,
    arrived: u64,
}

impl Progress {
    fn named(&self, failure: Failure, want: &Want, attempt: u32) -> Failure {
        let range = match (&self.range, want) {
            (Some(range), _) | (None, Want::Range(range)) => format!("bytes {} to {}, ", range.start, range.end),
            (None, Want::Suffix(bytes)) => format!("last {bytes} bytes, "),
            (None, Want::Whole(_) | Want::Meta) => String::new(),
        };
        let words = format!("{} ({range}attempt {attempt})", failure.words);
        Failure { words, ..failure }
    }

    fn request(&self, want: &Want) -> GetOptions {
        let range = match (&self.range, want) {
            (Some(range), _) | (None, Want::Range(range)) => {
                Some(GetRange::Bounded(range.start + self.arrived..range.end))
            }
            (None, Want::Suffix(bytes)) => Some(GetRange::Suffix(*bytes)),
            (None, Want::Whole(_) | Want::Meta) => None,
        };
        // Weak ones never match, by the rules of HTTP: they are compared in the answer.
        let e_tag = self.known.as_ref().and_then(|known| known.e_tag.clone()).filter(|tag| !tag.starts_with("W/"));
        GetOptions { range, if_match: e_tag, head: *want == Want::Meta, ..GetOptions::default() }
    }
}

async fn try_once(
    shared: &Shared,
    key: &Key,
    want: &Want,
    at: &mut Progress,
    readers: &Readers,
    push: &mut (dyn FnMut(Bytes) + Send),
) -> Result<Answer, Failure> {
    let result = first_byte(shared, key, at.request(want)).await?;
    shared.counters.answers.fetch_add(1, Ordering::Relaxed);
    let answer = Answer::new(&result.meta, result.range.clone());
    if let Some(known) = &at.known
        && !known.is_same(&answer)
    {
        return Err(Failure::changed());
    }
    at.known = Some(answer.clone());
    if let Some(coding) = result.attributes.get(&Attribute::ContentEncoding)
        && let Some(found) = CODINGS.into_iter().find(|known| coding.eq_ignore_ascii_case(known))
    {
        let words = format!("the server sends it compressed (Content-Encoding: {found})");
        return Err(Failure::last(ErrorKind::Unsupported, words).with_hint("have it stored, and sent, as it is"));
    }
    let all = match want {
        Want::Meta => return Ok(answer),
        Want::Whole(most) if answer.size > *most => return Ok(Answer { range: 0..0, ..answer }),
        // A range that was asked for before is known; else the answer says what it brings.
        _ => at.range.get_or_insert(answer.range.clone()).clone(),
    };
    let mut body = result.into_stream();
    let whole = all.end.saturating_sub(all.start);
    let mut pace = Pace::new(&shared.options);
    loop {
        let next = timeout(shared.options.stall_timeout, body.next()).await;
        let piece = match next {
            Err(_) => {
                let words = format!("no byte arrived for {:?}", shared.options.stall_timeout);
                return Err(Failure::again(ErrorKind::TimedOut, words));
            }
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(Failure::of(&error, &shared.secrets)),
            Ok(Some(Ok(piece))) => piece,
        };
        let arrived = at.arrived.saturating_add(piece.len() as u64);
        if arrived > whole {
            let words = format!("the answer is longer than {whole} bytes, which it should be");
            return Err(Failure::again(ErrorKind::InvalidData, words));
        }
        at.arrived = arrived;
        pace.count(piece.len() as u64);
        shared.counters.bytes.fetch_add(piece.len() as u64, Ordering::Relaxed);
        push(piece);
        if readers.is_abandoned() {
            return Err(Failure::abandoned());
        }
        if at.arrived < whole {
            pace.check(Instant::now())?;
        }
    }
    if at.arrived < whole {
        let words = format!("the answer ends after {} of {whole} bytes", at.arrived);
        return Err(Failure::again(ErrorKind::ConnectionReset, words));
    }
    Ok(Answer { range: all, ..answer })
}

/// Codings of an answer that are not the bytes of the object. Others, such as `aws-chunked`, some
/// programs leave behind when they write.
const CODINGS: [&str; 5] = ["gzip", "br", "deflate", "zstd", "compress"];

/// How fast an answer comes. One that drips never stalls, and never ends.
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

    /// At the end of each window, whether enough came in it.
    fn check(&mut self, now: Instant) -> Result<(), Failure> {
        let took = now.saturating_duration_since(self.begun);
        if took < self.window {
            return Ok(());
        }
        let (bytes, least) = (self.bytes, self.least);
        if u128::from(bytes) * 1000 < u128::from(least) * took.as_millis() {
            let words = format!("only {bytes} bytes arrived in {took:.1?}: slower than {least} bytes/s (`min_rate`)");
            return Err(Failure::again(ErrorKind::TimedOut, words));
        }
        (self.begun, self.bytes) = (now, 0);
        Ok(())
    }
}

/// Asks, and waits until the answer begins.
async fn first_byte(shared: &Shared, key: &Key, options: GetOptions) -> Result<GetResult, Failure> {
    let counters = &shared.counters;
    let begun = Instant::now();
    let ask = || {
        counters.requests.fetch_add(1, Ordering::Relaxed);
        shared.store.get_opts(key, options.clone())
    };
    let one = async {
        let first = ask();
        let Some(slow) = shared.slow_after() else { return first.await };
        let first = match select(first, pin!(sleep(slow))).await {
            Either::Left((result, _)) => return result,
            Either::Right(((), first)) => first,
        };
        counters.hedges.fetch_add(1, Ordering::Relaxed);
        match select(first, ask()).await {
            Either::Left((result, _)) | Either::Right((result, _)) => result,
        }
    };
    let result = timeout(shared.options.first_byte_timeout, one).await.map_err(|_| {
        let words = format!("no answer within {:?}", shared.options.first_byte_timeout);
        Failure::again(ErrorKind::TimedOut, words)
    })?;
    shared.first_byte_took(begun.elapsed());
    result.map_err(|error| Failure::of(&error, &shared.secrets))
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
        let failure = pace.check(at(20)).unwrap_err();
        assert!(failure.again && failure.words.contains("999 bytes arrived in 10.0s: slower than 100 bytes/s"));
        let mut pace = Pace::new(&StoreOptions { min_rate: 0, ..options });
        assert!(pace.check(pace.begun + Duration::from_secs(1000)).is_ok());
    }

    #[test]
    fn pauses_double_and_differ() {
        let first = Duration::from_millis(100);
        for attempt in 1..12 {
            let whole = first * 2_u32.pow(attempt - 1).min(100);
            let all: Vec<Duration> = (0..50).map(|salt| pause(first, attempt, salt)).collect();
            assert!(all.iter().all(|pause| (whole / 2..=whole).contains(pause)));
            assert!(all.iter().max() > all.iter().min());
        }
        assert!(pause(first, u32::MAX, 1) <= first * 100);
    }
}
