//! Counts the attempts at a request, and pauses between them.

use crate::diagnosis::diagnose;
use crate::folder::StoreFolder;
use crate::schedule::RequestError;
use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// Maximum number of attempts before the store's first response. It is low, so that a wrong host name is reported
/// soon.
const FIRST_ATTEMPTS: u32 = 3;

#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    folder: &'a StoreFolder,
    begun: Instant,
    /// Number of the current attempt, counted from 1.
    pub(crate) number: u32,
    is_patient: bool,
}

impl<'a> Attempts<'a> {
    /// Counts the attempts at a read. Allows only a few before the store's first response.
    pub(crate) fn to_read(folder: &'a StoreFolder) -> Self {
        Self { folder, begun: Instant::now(), number: 1, is_patient: false }
    }

    pub(crate) fn to_write(folder: &'a StoreFolder) -> Self {
        Self { is_patient: true, ..Self::to_read(folder) }
    }

    /// Restarts the count after an attempt that made progress.
    pub(crate) fn restart(&mut self) {
        (self.begun, self.number) = (Instant::now(), 1);
    }

    /// Sends a request, and repeats it if needed.
    ///
    /// # Errors
    /// Returns the error of the last attempt, with the number of attempts.
    pub(crate) async fn ask<T>(
        mut self,
        mut request: impl AsyncFnMut() -> object_store::Result<T>,
    ) -> Result<T, RequestError> {
        let (options, counters) = (&self.folder.options, &self.folder.counters);
        // The store responds to a write only after the whole part has been uploaded, and to a listing only with all
        // names. On a slow link, this may take longer than the first-byte timeout.
        let most = (options.retry_timeout / 4).max(options.first_byte_timeout);
        loop {
            counters.requests.fetch_add(1, Ordering::Relaxed);
            let error = match timeout(most, request()).await {
                Ok(Ok(answer)) => {
                    counters.answers.fetch_add(1, Ordering::Relaxed);
                    return Ok(answer);
                }
                Ok(Err(error)) => diagnose(&error, &self.folder.secrets),
                Err(_) => RequestError::again(ErrorKind::TimedOut, format!("no response within {most:?}")),
            };
            self.pause_after(error).await.map_err(|error| {
                let words = format!("{} (attempt {})", error.words, self.number);
                RequestError { words, ..error }
            })?;
        }
    }

    /// Pauses before the next attempt at the request.
    ///
    /// # Errors
    /// Returns `error` if no attempts are left.
    pub(crate) async fn pause_after(&mut self, error: RequestError) -> Result<(), RequestError> {
        let (options, counters) = (&self.folder.options, &self.folder.counters);
        // Reduce only the rate of reads, because writes send only a few parts in parallel.
        if error.slow_down && !self.is_patient {
            self.folder.schedule().tuner.slow_down();
        }
        let answered = self.is_patient || counters.answers.load(Ordering::Relaxed) > 0;
        let most = if answered { options.max_attempts } else { options.max_attempts.min(FIRST_ATTEMPTS) };
        let pause = pause(options.backoff, self.number, counters.requests.load(Ordering::Relaxed));
        let late = self.begun.elapsed().saturating_add(pause) > options.retry_timeout;
        if !error.again || self.number >= most || late {
            return Err(error);
        }
        self.number += 1;
        counters.retries.fetch_add(1, Ordering::Relaxed);
        sleep(pause).await;
        Ok(())
    }
}

/// Returns a random pause of 50 to 100 % of a time that doubles with each attempt. The randomness spreads out
/// requests that failed together.
fn pause(first: Duration, attempt: u32, salt: u64) -> Duration {
    let whole = first.saturating_mul(2_u32.saturating_pow(attempt.saturating_sub(1)).min(100));
    let part = salt.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    let part = u32::try_from(part).unwrap_or_default();
    (whole / 2).saturating_add((whole / 512).saturating_mul(part))
}

#[cfg(test)]
mod tests {
    use super::*;

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
