//! Runs work on a thread pool of its own, which ends with the work.

/// Runs `work` on a new rayon pool of `threads` threads.
pub(crate) fn on_pool<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> crate::Result<T> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?.install(work))
}
