use super::error::{PATIENCE, RequestError};
use super::pin::Pin;
use super::readers::Readers;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// An object that is being opened. Several readers may wait for it.
#[derive(Debug, Default)]
pub(crate) struct Opening {
    pub(crate) readers: Readers,
    done: Mutex<Option<Result<Arc<Pin>, RequestError>>>,
    changed: Condvar,
}

impl Opening {
    pub(crate) fn finish(&self, result: Result<Arc<Pin>, RequestError>) {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(result);
        self.changed.notify_all();
    }

    pub(crate) fn wait(&self, is_cancelled: impl Fn() -> bool) -> Result<Arc<Pin>, RequestError> {
        let _waiting = self.readers.wait();
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(result) = &*done {
                return result.clone();
            }
            if is_cancelled() {
                return Err(RequestError::given_up());
            }
            done = self.changed.wait_timeout(done, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
