//! Runs requests on the fetching threads, in the order of the schedule.

use crate::fill::bring;
use crate::folder::StoreFolder;
use crate::open_object::open;
use crate::schedule::{ObjectStatus, Request, RequestError};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::Handle;

#[derive(Debug)]
pub(crate) struct Fetcher {
    pub(crate) folder: StoreFolder,
    pub(crate) handle: Handle,
    begun: Instant,
}

impl Fetcher {
    pub(crate) fn new(folder: StoreFolder, handle: Handle) -> Self {
        Self { folder, handle, begun: Instant::now() }
    }

    /// Sends a request. The schedule has already counted it as in flight.
    pub(crate) fn spawn(self: &Arc<Self>, request: Request) {
        let running = RunningRequest { fetcher: Arc::clone(self), request, result: Err(RequestError::given_up()) };
        self.handle.spawn(async move {
            // Move the whole struct into the closure. Otherwise the closure would capture only some fields, and
            // `drop` of the struct would not run here.
            let mut running = running;
            let folder = &running.fetcher.folder;
            running.result = match &running.request {
                Request::Transfer(pin, transfer) => {
                    let bytes = transfer.range.end - transfer.range.start;
                    bring(folder, pin, transfer).await.map(|()| bytes)
                }
                Request::Open(name, opening) => {
                    let result = open(folder, name, &opening.readers).await;
                    // Report only success here. A failure is reported later, when a new request for this name is
                    // possible again.
                    result.map(|pin| {
                        opening.finish(Ok(pin));
                        0
                    })
                }
            };
        });
    }

    pub(crate) fn pump(self: &Arc<Self>) {
        loop {
            let request = self.folder.schedule().next();
            match request {
                Some(request) => self.spawn(request),
                None => return,
            }
        }
    }
}

/// A request in progress. When dropped, notifies the waiting readers, even during a panic.
struct RunningRequest {
    fetcher: Arc<Fetcher>,
    request: Request,
    /// Number of bytes that have arrived. Initially an error, which readers get if the request panics.
    result: Result<u64, RequestError>,
}

impl Drop for RunningRequest {
    fn drop(&mut self) {
        let Self { fetcher, request, result } = self;
        {
            let mut schedule = fetcher.folder.schedule();
            schedule.count_out(request.requests());
            match request {
                Request::Transfer(pin, transfer) => {
                    schedule.finished(pin, transfer, result.is_ok());
                    let is_full = schedule.is_full();
                    let bytes = result.as_ref().map_or(0, |bytes| *bytes);
                    schedule.tuner.done(fetcher.begun.elapsed(), bytes, is_full);
                }
                Request::Open(name, opening) => {
                    if result.is_err()
                        && let Some(ObjectStatus::Opening(known)) = schedule.names.get(name)
                        && Arc::ptr_eq(known, opening)
                    {
                        schedule.names.remove(name);
                    }
                }
            }
        }
        if let Err(error) = result {
            match request {
                Request::Transfer(_, transfer) => transfer.fail(error.clone()),
                Request::Open(_, opening) => opening.finish(Err(error.clone())),
            }
        }
        fetcher.pump();
    }
}
