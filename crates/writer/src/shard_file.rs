//! A shard that is being written. Collects records into large writes and their entries into the index, and passes all
//! bytes to the hash thread.

use crate::commit::Finished;
use crate::error::{Error, Result};
use crate::gate::Gate;
use crate::journal::JournalEntry;
use crate::record_buffers::RecordBuffers;
use crate::report::SkippedSample;
use crate::source::{EncodedSample, Tally};
use crate::target::Target;
use crossbeam_channel::{Receiver, Sender, bounded};
use sha2::{Digest, Sha256};
use shardpack_format::{Footer, Identity, IndexBuilder, Metadata, ShardEntry, shard_name};
use shardpack_io::GrowingFile;
use std::path::PathBuf;
use std::sync::Arc;

/// Size of a write in bytes. Records of at least this size are written directly, without a copy.
pub(crate) const CHUNK_BYTES: usize = 4 << 20;
pub(crate) const CHUNKS_WAITING: usize = 2;

pub(crate) enum HashMessage {
    /// Bytes of the file, in a buffer that the hash thread returns.
    Chunk(Vec<u8>),
    /// A large record, which is hashed and written at the same time. Whichever thread finishes last returns the
    /// record's memory to the budget.
    Record { bytes: Arc<Vec<u8>>, charge: u64 },
    /// The end of a file. The hash thread sends back the SHA-256 of the file.
    Finish(Sender<[u8; 32]>),
}

/// Computes the SHA-256 of each file in parallel with the writes, because hashing on one core is hardly faster than
/// writing to a disk.
pub(crate) fn hash<T>(
    messages: &Receiver<HashMessage>,
    free: &Sender<Vec<u8>>,
    gate: &Gate<T>,
    buffers: &RecordBuffers,
) {
    let mut sha256 = Sha256::new();
    for message in messages {
        match message {
            HashMessage::Chunk(mut bytes) => {
                sha256.update(&bytes);
                bytes.clear();
                // Fails if the writer has ended and no longer needs the buffer.
                let _ = free.send(bytes);
            }
            HashMessage::Record { bytes, charge } => {
                sha256.update(bytes.as_slice());
                if let Some(bytes) = Arc::into_inner(bytes) {
                    buffers.give_back(bytes);
                    gate.release(charge);
                }
            }
            HashMessage::Finish(answer) => {
                let _ = answer.send(sha256.finalize_reset().into());
            }
        }
    }
}

pub(crate) struct HashLine {
    pub(crate) messages: Sender<HashMessage>,
    pub(crate) free: Receiver<Vec<u8>>,
}

impl HashLine {
    fn chunk(&self) -> Vec<u8> {
        self.free.try_recv().unwrap_or_else(|_| Vec::with_capacity(CHUNK_BYTES))
    }

    fn send(&self, message: HashMessage) {
        // Fails only if the hash thread has died. `Finish` then gets no reply, and the commit thread reports the
        // error.
        let _ = self.messages.send(message);
    }
}

pub(crate) struct ShardFile<'a, T> {
    pub(crate) number: u32,
    pub(crate) temporary: String,
    path: PathBuf,
    identity: Identity,
    file: Arc<dyn GrowingFile>,
    hash: &'a HashLine,
    chunk: Vec<u8>,
    written: u64,
    index: IndexBuilder,
    source_bytes: u64,
    tally: T,
    skipped: Vec<SkippedSample>,
}

impl<'a, T: Tally> ShardFile<'a, T> {
    pub(crate) fn create(
        target: &Target<'_>,
        temporary: String,
        identity: Identity,
        metadata: &Metadata,
        hash: &'a HashLine,
    ) -> Result<Self> {
        let file = target.create_scratch(&temporary)?;
        let path = target.scratch_file(&temporary);
        let mut chunk = hash.chunk();
        chunk.extend(identity.encode_header());
        Ok(Self {
            number: identity.shard_number,
            temporary,
            path,
            identity,
            file,
            hash,
            chunk,
            written: 0,
            index: IndexBuilder::new(&metadata.schema),
            source_bytes: 0,
            tally: T::default(),
            skipped: Vec::new(),
        })
    }

    /// Appends a record. If the record's buffer is no longer needed, returns it, and the caller must recycle it and
    /// return its charge to the budget. Otherwise the hash thread does both.
    pub(crate) fn append(
        &mut self,
        sample: u64,
        key: &str,
        encoded: EncodedSample<T>,
        charge: u64,
    ) -> Result<Option<Vec<u8>>> {
        let EncodedSample { record, frame, scalars, source_bytes, tally } = encoded;
        let stated = (frame.shard_number, frame.sample_id, u64::from(frame.key_bytes), frame.padded_bytes());
        let expected = (self.number, sample, key.len() as u64, record.len() as u64);
        if stated != expected {
            let words = |(shard, sample, key, bytes)| {
                format!("sample {sample} in shard {shard} ({key}-byte key, {bytes}-byte record)")
            };
            let (key, expected, stated) = (key.escape_debug(), words(expected), words(stated));
            let text =
                format!("the source returned a wrong record for sample `{key}`: expected {expected}, found {stated}");
            return Err(Error::usage(text, ""));
        }
        self.index.push(&frame, key, &scalars)?;
        self.source_bytes = self.source_bytes.saturating_add(source_bytes);
        self.tally.merge(tally);
        if record.len() >= CHUNK_BYTES {
            self.write_chunk()?;
            // Hash and write at the same time. If the write fails, the run ends and the hash is discarded.
            let record = Arc::new(record);
            self.hash.send(HashMessage::Record { bytes: Arc::clone(&record), charge });
            self.write(&record)?;
            return Ok(Arc::into_inner(record));
        }
        self.put(&record)?;
        Ok(Some(record))
    }

    pub(crate) fn skip(&mut self, key: String, reason: String) {
        self.skipped.push(SkippedSample { key, reason });
    }

    pub(crate) const fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn handle(&self) -> Arc<dyn GrowingFile> {
        Arc::clone(&self.file)
    }

    /// Completes the file, but does not sync it.
    pub(crate) fn finish(&mut self, metadata: &[u8]) -> Result<Finished> {
        let index = self.index.encode(metadata)?;
        let footer = Footer {
            identity: self.identity,
            record_count: self.index.len(),
            index_offset: self.index.index_offset(),
            index_bytes: index.len() as u64,
            index_crc32: crc32fast::hash(&index),
        };
        let footer_bytes = footer.encode();
        self.put(&index)?;
        self.put(&footer_bytes)?;
        self.write_chunk()?;
        if self.written != footer.file_bytes() {
            return Err(Error::internal("shard size in bytes", footer.file_bytes(), self.written));
        }
        let (answer, sha256) = bounded(1);
        self.hash.send(HashMessage::Finish(answer));
        let tally = serde_json::to_value(&self.tally).map_err(|e| {
            Error::usage(format!("the statistics of shard {} cannot be written as JSON: {e}", self.number), "")
        })?;
        let file = ShardEntry {
            name: shard_name(self.number),
            bytes: self.written,
            samples: footer.record_count,
            footer_crc32: footer.crc32(),
            sha256: [0; 32],
        };
        let skipped = std::mem::take(&mut self.skipped);
        let entry = JournalEntry { number: self.number, file, source_bytes: self.source_bytes, tally, skipped };
        Ok(Finished { temporary: self.temporary.clone(), file: self.handle(), sha256, entry })
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            // There is always room, because a full chunk is written at once.
            let room = CHUNK_BYTES.saturating_sub(self.chunk.len());
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.chunk.extend_from_slice(now);
            bytes = later;
            if self.chunk.len() >= CHUNK_BYTES {
                self.write_chunk()?;
            }
        }
        Ok(())
    }

    fn write_chunk(&mut self) -> Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let chunk = std::mem::replace(&mut self.chunk, self.hash.chunk());
        self.write(&chunk)?;
        self.hash.send(HashMessage::Chunk(chunk));
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.append(bytes).map_err(|e| Error::io("write", &self.path, e))?;
        self.written += bytes.len() as u64;
        Ok(())
    }
}
