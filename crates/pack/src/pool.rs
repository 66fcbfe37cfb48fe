//! Runs work on a temporary thread pool.

pub(crate) fn on_pool<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> crate::Result<T> {
    Ok(rayon::ThreadPoolBuilder::new().num_threads(threads).build()?.install(work))
}
