//! Handles Ctrl-C and SIGTERM. The first signal tells the command to stop. The process then ends within two
//! seconds, unless it still has a result to write. A second signal ends it at once.

use shardpack_format::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Exit code of an interrupted command: 128 plus 2, the number of SIGINT.
pub(super) const EXIT_CODE: i32 = 130;
/// Time between the first signal and the end of the process. A worker that is still writing a large cube may
/// leave a temporary file. The next run removes it.
const GRACE: Duration = Duration::from_secs(2);

pub(super) struct Interrupt {
    /// Set to true by the first signal.
    pub(super) raised: Arc<AtomicBool>,
    /// True if there is something to clean up, such as the claim of a run that writes to a store. Otherwise the first
    /// signal ends the process at once.
    pub(super) graceful: AtomicBool,
}

impl Interrupt {
    /// True if the user has stopped the command, and `error` is the consequence. A request to the store of `dataset`
    /// that was stopped has failed like any other request.
    pub(super) fn has_caused(&self, error: &crate::Error, dataset: &Path) -> bool {
        let is_request = error.kind() == ErrorKind::Io && crate::place::is_url(dataset);
        self.raised.load(Ordering::SeqCst) && (is_request || error.kind() == ErrorKind::Cancelled)
    }
}

/// Installs the handler. For `graceful`, see [`Interrupt::graceful`].
pub(super) fn install(graceful: bool) -> crate::Result<Arc<Interrupt>> {
    install_with(graceful, Some(GRACE))
}

/// Installs a handler without a time limit, for a command that still has a result to write. A second signal
/// ends it at once.
pub(super) fn install_patient() -> crate::Result<Arc<Interrupt>> {
    install_with(true, None)
}

fn install_with(graceful: bool, grace: Option<Duration>) -> crate::Result<Arc<Interrupt>> {
    let interrupt = Arc::new(Interrupt { raised: Arc::default(), graceful: AtomicBool::new(graceful) });
    let shared = Arc::clone(&interrupt);
    ctrlc::set_handler(move || {
        // No finished work is lost, because files get their final names only when complete.
        if shared.raised.swap(true, Ordering::SeqCst) || !shared.graceful.load(Ordering::SeqCst) {
            std::process::exit(EXIT_CODE);
        }
        if let Some(grace) = grace {
            std::thread::spawn(move || {
                std::thread::sleep(grace);
                std::process::exit(EXIT_CODE);
            });
        }
    })
    .map_err(crate::Error::other)?;
    Ok(interrupt)
}
