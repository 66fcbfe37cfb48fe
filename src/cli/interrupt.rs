//! Ctrl-C and SIGTERM: the first asks the command to stop, the second ends the process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Installs the handler and returns the flag that it raises.
pub(super) fn flag() -> anyhow::Result<Arc<AtomicBool>> {
    let flag = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&flag);
    ctrlc::set_handler(move || {
        if raised.swap(true, Ordering::SeqCst) {
            // Nothing finished is lost: final names only ever hold whole files.
            std::process::exit(130);
        }
    })?;
    Ok(flag)
}
