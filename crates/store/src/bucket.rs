//! A folder in a store as a place that datasets are written to.

use crate::upload::Upload;
use bytes::Bytes;
use futures_util::future::try_join;
use object_store::{ObjectStoreExt, PutMode, UpdateVersion};
use shardpack_writer::{Bucket, Ends, Objects};
use std::io::{self, ErrorKind, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The folder of `upload` as a place for [`shardpack_writer::write_dataset`], with a spool in the
/// folder `spools` of this machine.
///
/// ```no_run
/// use shardpack_store::{StoreOptions, Upload, bucket};
/// let options = StoreOptions::default().environment(std::env::vars());
/// let place = bucket(Upload::at("s3://bucket/train", &options)?, &std::env::temp_dir());
/// assert_eq!(place.name().to_str(), Some("s3://bucket/train"));
/// # Ok::<(), shardpack_reader::Error>(())
/// ```
#[must_use]
pub fn bucket(upload: Upload, spools: &Path) -> Bucket {
    let name = upload.name();
    Bucket::new(&name, Arc::new(upload), spools)
}

impl Objects for Upload {
    fn list(&self) -> io::Result<Vec<String>> {
        let found = self.ask(async || self.store().list_with_delimiter(self.folder()).await)?;
        let keys = found.objects.iter().map(|object| &object.location).chain(&found.common_prefixes);
        // Some programs make an empty object of the folder's own name.
        let inside = keys.filter(|key| Some(*key) != self.folder());
        Ok(inside.filter_map(|key| key.filename()).map(str::to_owned).collect())
    }

    fn read(&self, name: &str, max_bytes: u64) -> io::Result<Vec<u8>> {
        let key = self.key(name)?;
        let bytes = self.ask(async || {
            let answer = self.store().get(&key).await?;
            let size = answer.meta.size;
            if size > max_bytes { Ok(Err(size)) } else { Ok(Ok(answer.bytes().await?.to_vec())) }
        })?;
        bytes.map_err(|size| {
            io::Error::new(ErrorKind::FileTooLarge, format!("expected at most {max_bytes} bytes, found {size}"))
        })
    }

    fn read_ends(&self, name: &str, head: u64, tail: u64) -> io::Result<Ends> {
        let key = self.key(name)?;
        self.wait(async {
            let bytes = self.attempts(async || self.store().head(&key).await).await?.size;
            let read = async |range: Range<u64>| {
                if range.is_empty() {
                    return Ok(Bytes::new());
                }
                self.attempts(async || self.store().get_range(&key, range.clone()).await).await
            };
            let ends = try_join(read(0..head.min(bytes)), read(bytes.saturating_sub(tail)..bytes));
            let (head, tail) = ends.await?;
            Ok(Ends { bytes, head: head.into(), tail: tail.into() })
        })
    }

    fn send(&self, name: &str, source: &mut dyn Read) -> io::Result<u64> {
        self.put(name, source)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<bool> {
        self.put_if(name, bytes, &PutMode::Create)
    }

    fn exchange(&self, name: &str, old: &[u8], new: &[u8]) -> io::Result<bool> {
        let key = self.key(name)?;
        let found = self.ask(async || {
            let answer = self.store().get(&key).await?;
            let version = UpdateVersion { e_tag: answer.meta.e_tag.clone(), version: answer.meta.version.clone() };
            // One of another size is not the old one, and may be of any size.
            let is_like = answer.meta.size == old.len() as u64;
            Ok((version, if is_like { Some(answer.bytes().await?) } else { None }))
        });
        match found {
            Err(error) if error.kind() == ErrorKind::NotFound => Objects::create(self, name, new),
            Err(error) => Err(error),
            Ok((version, Some(bytes))) if bytes == old => self.put_if(name, new, &PutMode::Update(version)),
            Ok(_) => Ok(false),
        }
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let key = self.key(name)?;
        self.ask(async || match self.store().delete(&key).await {
            Err(object_store::Error::NotFound { .. }) => Ok(()),
            other => other,
        })
    }
}
