//! The thread that makes finished shards durable while the next shard is being written.

use crate::error::Error;
use crate::gate::{Gate, StopReason};
use crate::journal::{JournalEntry, OpenJournal};
use crate::target::Target;
use crossbeam_channel::Receiver;
use shardpack_io::GrowingFile;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) enum CommitMessage {
    /// Sync the part of a shard that has been written so far. Little is then left to sync at the end.
    Ahead { number: u32, temporary: PathBuf, file: Arc<dyn GrowingFile> },
    /// Commit a complete shard.
    Shard(Box<Finished>),
}

/// A complete shard under its temporary name.
pub(crate) struct Finished {
    pub(crate) temporary: String,
    pub(crate) file: Arc<dyn GrowingFile>,
    /// Receives the digest once the hash thread has finished.
    pub(crate) sha256: Receiver<[u8; 32]>,
    /// The journal entry, without the digest.
    pub(crate) entry: JournalEntry,
}

pub(crate) type Done = Mutex<BTreeMap<u32, JournalEntry>>;

pub(crate) struct Committer<'a, T> {
    pub(crate) target: &'a Target<'a>,
    pub(crate) journal: &'a OpenJournal,
    pub(crate) done: &'a Done,
    pub(crate) gate: &'a Gate<T>,
}

impl<T> Committer<'_, T> {
    /// Handles messages until the writer closes the channel. Once the run has failed or been stopped, it commits
    /// nothing more and only removes temporary files.
    pub(crate) fn run(&self, messages: &Receiver<CommitMessage>) {
        for message in messages {
            let result = match message {
                _ if self.gate.is_stopped() => {
                    if let CommitMessage::Shard(finished) = message {
                        self.discard(*finished);
                    }
                    continue;
                }
                CommitMessage::Ahead { number, temporary, file } => sync(&*file, &temporary, number),
                CommitMessage::Shard(finished) => self.commit(*finished),
            };
            if let Err(failure) = result {
                self.gate.fail(failure);
            }
        }
    }

    /// Syncs the file, renames it, syncs the folder and writes the journal, in this order. If the machine crashes at
    /// any point, a file with a final name is complete, and the journal lists only shards that exist.
    fn commit(&self, finished: Finished) -> Result<(), StopReason> {
        let Finished { temporary, file, sha256, mut entry } = finished;
        let number = entry.number;
        let path = self.target.scratch_file(&temporary);
        let mut place = || {
            sync(&*file, &path, number)?;
            entry.file.sha256 =
                sha256.recv().map_err(|_| Error::internal("shard digest", "a result from the hash thread", "none"))?;
            self.target.commit(&temporary, &entry.file.name)?;
            Ok(())
        };
        let placed: Result<(), StopReason> = place();
        drop(file);
        if let Err(failure) = placed {
            let _ = self.target.remove_scratch(&temporary);
            return Err(failure);
        }
        self.target.sync().map_err(|error| StopReason::Sync { shard: number, error })?;
        self.journal.add(&entry)?;
        self.done.lock().unwrap_or_else(PoisonError::into_inner).insert(number, entry);
        Ok(())
    }

    fn discard(&self, finished: Finished) {
        drop(finished.file);
        // If this fails, the next run removes the file.
        let _ = self.target.remove_scratch(&finished.temporary);
    }
}

fn sync(file: &dyn GrowingFile, path: &Path, shard: u32) -> Result<(), StopReason> {
    file.sync().map_err(|e| match e.kind() {
        // With delayed allocation, this may be the first call that reports a full disk. Writing the shard again would
        // not help.
        std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
            StopReason::Fatal(Error::io("sync", path, e))
        }
        _ => StopReason::Sync { shard, error: Error::io("sync", path, e) },
    })
}
