//! An in-memory store that counts requests, fails some of them, and can stop responding.

use async_trait::async_trait;
use futures_util::stream::{BoxStream, StreamExt};
use object_store::memory::InMemory;
use object_store::multipart::{MultipartStore, PartId};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartId, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A fault of the store. Requests are counted from 1.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    None,
    /// Every n-th request fails with a temporary error.
    EachNth(u64),
    /// Every n-th request succeeds, but its response is lost.
    LostNth(u64),
    /// This request and all later ones get no response.
    Dead(u64),
    /// Requests that create, fill or complete a multipart upload take some time. They fail if this function
    /// returns true for their number, counted from 0. All other requests succeed.
    Parts(fn(u64) -> bool),
}

#[derive(Debug, Clone)]
pub(crate) struct Faulty {
    pub(crate) memory: Arc<InMemory>,
    pub(crate) fault: Fault,
    pub(crate) asked: Arc<AtomicU64>,
    pub(crate) puts: Arc<AtomicU64>,
    pub(crate) parts: Arc<Parts>,
}

#[derive(Debug, Default)]
pub(crate) struct Parts {
    asked: AtomicU64,
    under_way: AtomicU64,
    pub(crate) most_under_way: AtomicU64,
    pub(crate) aborted: AtomicU64,
}

impl Faulty {
    pub(crate) fn new(memory: &Arc<InMemory>, fault: Fault) -> Self {
        Self { memory: Arc::clone(memory), fault, asked: Arc::default(), puts: Arc::default(), parts: Arc::default() }
    }

    async fn ask<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
        let passing = || Err(Error::Generic { store: "test", source: "broke".into() });
        match self.fault {
            Fault::EachNth(n) if number.is_multiple_of(n) => passing(),
            Fault::LostNth(n) if number.is_multiple_of(n) => request.await.and_then(|_| passing()),
            Fault::Dead(first) if number >= first => {
                Err(Error::PermissionDenied { path: "p".into(), source: "dead".into() })
            }
            _ => request.await,
        }
    }
}

impl Faulty {
    async fn ask_part<T>(&self, request: impl Future<Output = Result<T>>) -> Result<T> {
        let Fault::Parts(fails) = self.fault else { return self.ask(request).await };
        if fails(self.parts.asked.fetch_add(1, Ordering::Relaxed)) {
            return Err(Error::Generic { store: "test", source: "hunter2 broke".into() });
        }
        request.await
    }
}

impl std::fmt::Display for Faulty {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(&self, path: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        self.ask(self.memory.put_opts(path, payload, options)).await
    }

    async fn put_multipart_opts(&self, path: &Path, o: PutMultipartOptions) -> Result<Box<dyn MultipartUpload>> {
        self.memory.put_multipart_opts(path, o).await
    }

    async fn get_opts(&self, path: &Path, options: GetOptions) -> Result<GetResult> {
        self.ask(self.memory.get_opts(path, options)).await
    }

    fn delete_stream(&self, paths: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        let remove = move |path| {
            let store = store.clone();
            async move {
                let path: Path = path?;
                let one = futures_util::stream::iter([Ok(path.clone())]).boxed();
                store.ask(async { store.memory.delete_stream(one).next().await.unwrap_or(Ok(path)) }).await
            }
        };
        paths.then(remove).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.memory.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.ask(self.memory.list_with_delimiter(prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.memory.copy_opts(from, to, options).await
    }
}

#[async_trait]
impl MultipartStore for Faulty {
    async fn create_multipart(&self, path: &Path) -> Result<MultipartId> {
        self.ask_part(self.memory.create_multipart(path)).await
    }

    async fn put_part(&self, path: &Path, id: &MultipartId, part: usize, data: PutPayload) -> Result<PartId> {
        let now = self.parts.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.parts.most_under_way.fetch_max(now, Ordering::Relaxed);
        if matches!(self.fault, Fault::Parts(_)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.parts.under_way.fetch_sub(1, Ordering::Relaxed);
        self.ask_part(self.memory.put_part(path, id, part, data)).await
    }

    async fn complete_multipart(&self, path: &Path, id: &MultipartId, parts: Vec<PartId>) -> Result<PutResult> {
        self.puts.fetch_add(1, Ordering::SeqCst);
        self.ask_part(self.memory.complete_multipart(path, id, parts)).await
    }

    async fn abort_multipart(&self, path: &Path, id: &MultipartId) -> Result<()> {
        self.parts.aborted.fetch_add(1, Ordering::Relaxed);
        self.ask(self.memory.abort_multipart(path, id)).await
    }
}
