//! Implements [`Objects`] for a folder in a store.

use crate::object::Object;
use crate::upload::Upload;
use bytes::Bytes;
use futures_util::future::try_join;
use object_store::{ObjectStoreExt, PutMode, UpdateVersion};
use shardpack_io::{Cause, Ends, Objects, ReadAt, Result, Storage, Traffic};
use std::io::{ErrorKind, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

impl Upload {
    fn all_names(&self) -> Result<Vec<String>, Cause> {
        let folder = self.client.folder();
        let found = self.ask(async || self.store.list_with_delimiter(folder.prefix()).await)?;
        Ok(folder.names(&found))
    }

    fn object(&self, name: &str) -> Result<Object, Cause> {
        let key = self.key(name)?;
        let found = self.ask(async || self.store.head(&key).await)?;
        let pin = self.client.pin(key, found.size, found.e_tag, found.last_modified.timestamp())?;
        Ok(Object::new(&self.client, pin, true))
    }

    fn whole(&self, name: &str, max_bytes: u64) -> Result<Vec<u8>, Cause> {
        let key = self.key(name)?;
        let bytes = self.ask(async || {
            let answer = self.store.get(&key).await?;
            let size = answer.meta.size;
            if size > max_bytes { Ok(Err(size)) } else { Ok(Ok(answer.bytes().await?.to_vec())) }
        })?;
        bytes.map_err(|size| {
            Cause::new(
                ErrorKind::FileTooLarge,
                format!("the object has {size} bytes, but at most {max_bytes} are allowed"),
            )
        })
    }

    fn ends(&self, name: &str, head: u64, tail: u64) -> Result<Ends, Cause> {
        let key = self.key(name)?;
        self.wait(async {
            let bytes = self.attempts(async || self.store.head(&key).await).await?.size;
            let read = async |range: Range<u64>| {
                if range.is_empty() {
                    return Ok(Bytes::new());
                }
                self.attempts(async || self.store.get_range(&key, range.clone()).await).await
            };
            let ends = try_join(read(0..head.min(bytes)), read(bytes.saturating_sub(tail)..bytes));
            let (head, tail) = ends.await?;
            Ok(Ends { bytes, head: head.into(), tail: tail.into() })
        })
    }

    fn replace(&self, name: &str, old: &[u8], new: &[u8]) -> Result<bool, Cause> {
        let key = self.key(name)?;
        let found = self.ask(async || {
            let answer = self.store.get(&key).await?;
            let version = UpdateVersion { e_tag: answer.meta.e_tag.clone(), version: answer.meta.version.clone() };
            // An object of a different size differs from `old`. Do not read it, because it may be arbitrarily large.
            let is_like = answer.meta.size == old.len() as u64;
            Ok((version, if is_like { Some(answer.bytes().await?) } else { None }))
        });
        match found {
            Err(error) if error.kind() == ErrorKind::NotFound => self.put_if(name, new, &PutMode::Create),
            Err(error) => Err(error),
            Ok((version, Some(bytes))) if bytes == old => self.put_if(name, new, &PutMode::Update(version)),
            Ok(_) => Ok(false),
        }
    }

    fn remove_any(&self, name: &str) -> Result<(), Cause> {
        let key = self.key(name)?;
        self.wait(self.delete(&key))
    }
}

impl Storage for Upload {
    fn path(&self) -> &Path {
        self.folder_path()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn ReadAt>> {
        Ok(Arc::new(self.object(name).map_err(|e| self.failed(name, "open", e))?))
    }

    fn names(&self) -> Result<Vec<String>> {
        self.all_names().map_err(|e| self.failed("", "list", e))
    }

    fn read(&self, name: &str, max_bytes: u64) -> Result<Vec<u8>> {
        self.whole(name, max_bytes).map_err(|e| self.failed(name, "read", e))
    }

    fn read_ends(&self, name: &str, head: u64, tail: u64) -> Result<Ends> {
        self.ends(name, head, tail).map_err(|e| self.failed(name, "read", e))
    }

    fn traffic(&self) -> Traffic {
        self.client.traffic()
    }
}

impl Objects for Upload {
    fn send(&self, name: &str, source: &mut dyn Read, on_sent: &dyn Fn(u64)) -> Result<u64> {
        self.put(name, source, on_sent).map_err(|e| self.failed(name, "write", e))
    }

    fn create(&self, name: &str, bytes: &[u8]) -> Result<bool> {
        self.put_if(name, bytes, &PutMode::Create).map_err(|e| self.failed(name, "write", e))
    }

    fn exchange(&self, name: &str, old: &[u8], new: &[u8]) -> Result<bool> {
        self.replace(name, old, new).map_err(|e| self.failed(name, "write", e))
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.remove_any(name).map_err(|e| self.failed(name, "remove", e))
    }

    fn release(&self, name: &str, bytes: &[u8]) -> Result<()> {
        self.remove_own(name, bytes).map_err(|e| self.failed(name, "remove", e))
    }
}
