//! Decodes samples and writes their files on several threads.

use crate::cli::show;
use rustix::io::Errno;
use shardpack_format::{Error as FormatError, Explain, check_key};
use shardpack_pack::Context;
use shardpack_pack::export::{self, FileContent, FileField, FileNames, OutFolder, Placed};
use shardpack_reader::{ArrayDecoder, Dataset, RecordView, Sample};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Maximum number of samples waiting for a worker.
const QUEUE: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Number of samples with all their files written.
    pub(super) samples: u64,
    pub(super) files: u64,
    pub(super) bytes: u64,
    /// Number of files that already existed with the same content.
    pub(super) already_there: u64,
    /// Paths that already exist with different content.
    pub(super) occupied: Vec<String>,
    /// Files that the file system cannot store, with the reason. For example, their names are too long.
    pub(super) impossible: Vec<String>,
    /// Errors by sample index. Errors of skipped records or shards have the index of the next readable sample.
    damaged: BTreeMap<u64, Vec<String>>,
}

impl Tally {
    pub(super) fn add_damage(&mut self, index: u64, error: impl std::fmt::Display) {
        self.damaged.entry(index).or_default().push(error.to_string());
    }

    pub(super) fn damaged(&self) -> Vec<&str> {
        self.damaged.values().flatten().map(String::as_str).collect()
    }
}

/// Returns true if the file system cannot store the file name. Unlike a full disk, this affects only one sample.
fn is_about_name(error: &crate::Error) -> bool {
    use io::ErrorKind::{InvalidFilename, InvalidInput, IsADirectory, NotADirectory};
    // The name is too long, not allowed, or cannot be represented in the file system's encoding (EILSEQ).
    matches!(error.system_kind(), Some(InvalidFilename | InvalidInput | IsADirectory | NotADirectory))
        || error.system_error().is_some_and(|cause| cause.code == Some(Errno::ILSEQ.raw_os_error()))
}

pub(super) struct Unpacker<'a> {
    dir: &'a Path,
    out: &'a OutFolder,
    names: FileNames,
    cancel: &'a AtomicBool,
    stop: AtomicBool,
    tally: Mutex<Tally>,
}

impl<'a> Unpacker<'a> {
    pub(super) fn new(dir: &'a Path, out: &'a OutFolder, names: FileNames, cancel: &'a AtomicBool) -> Self {
        Self { dir, out, names, cancel, stop: AtomicBool::new(false), tally: Mutex::default() }
    }

    /// Unpacks all readable samples, and passes each to `on_sample` in stored order. The first error that is not about
    /// the data stops all threads, and is returned.
    pub(super) fn run(
        self,
        dataset: &Dataset,
        threads: usize,
        mut on_sample: impl FnMut(&RecordView<'_>) -> crate::Result<()>,
        on_progress: impl Fn(u64, u64),
    ) -> crate::Result<Tally> {
        let (send, receive) = crossbeam_channel::bounded::<Sample>(QUEUE);
        std::thread::scope(|scope| -> crate::Result<()> {
            let workers: Vec<_> = (0..threads)
                .map(|_| {
                    let receive = receive.clone();
                    scope.spawn(|| self.work(receive))
                })
                .collect();
            drop(receive);
            let (mut samples, mut bytes, mut next) = (0, 0, 0);
            let mut first = Ok(());
            for sample in dataset.iter()? {
                if self.is_stopped() {
                    break;
                }
                match sample {
                    Ok(sample) => {
                        bytes += sample.record_bytes().len() as u64;
                        samples += 1;
                        next = sample.index() + 1;
                        first = on_sample(&sample.view());
                        if first.is_err() {
                            self.stop.store(true, Ordering::Relaxed);
                            break;
                        }
                        // Sending fails only if all workers have panicked. The code below reports that.
                        if send.send(sample).is_err() {
                            break;
                        }
                    }
                    Err(error) => self.tally().add_damage(next, error),
                }
                on_progress(samples, bytes);
            }
            drop(send);
            for worker in workers {
                let ended = worker.join().map_err(|panic| FormatError::panicked("unpacking", &*panic).into());
                first = first.and(ended.and_then(|ended| ended));
            }
            first
        })?;
        Ok(self.tally.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.cancel.load(Ordering::Relaxed)
    }

    fn work(&self, samples: crossbeam_channel::Receiver<Sample>) -> crate::Result<()> {
        let mut decoder = ArrayDecoder::new();
        for sample in samples {
            // Receive the remaining samples, because otherwise the sender would wait forever on a full queue.
            if self.is_stopped() {
                continue;
            }
            if let Err(error) = self.unpack(&sample.view(), &mut decoder) {
                self.stop.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Writes all intact fields of a sample.
    fn unpack(&self, view: &RecordView<'_>, decoder: &mut ArrayDecoder) -> crate::Result<()> {
        let mut whole = true;
        for field in self.names.fields() {
            if let Err(error) = self.write(view, field, decoder).map(|complete| whole &= complete) {
                whole = false;
                if show::is_about_data(&error) {
                    self.tally().add_damage(view.index(), error);
                } else if is_about_name(&error) {
                    self.tally().impossible.push(error.to_string());
                } else {
                    return Err(error);
                }
            }
        }
        self.tally().samples += u64::from(whole);
        Ok(())
    }

    /// Writes the files of a field. Returns true if the files now exist, or if the sample has no value in this field.
    fn write(&self, view: &RecordView<'_>, field: &FileField, decoder: &mut ArrayDecoder) -> crate::Result<bool> {
        let files = match export::frames(view, &field.field)? {
            Some(frames) => frames,
            None => export::content(view, &field.field, decoder)?
                .map(|content| (String::new(), content))
                .into_iter()
                .collect(),
        };
        if files.is_empty() {
            return Ok(true);
        }
        let Some(name) = self.names.name(view.key(), field) else {
            let (key, field) = (view.key().escape_debug(), &field.field.name);
            let why = format!(
                "field `{field}` of sample `{key}`: the file name is already used, or is reserved for temporary files"
            );
            self.tally().impossible.push(why);
            return Ok(false);
        };
        let mut whole = true;
        for (frame, content) in files {
            // The frames of a clip are in a folder named after the clip.
            let name = if frame.is_empty() { name.clone() } else { format!("{name}/{frame}") };
            check_key(&name)?;
            whole &= self.place(view, &name, &content)?;
        }
        Ok(whole)
    }

    /// Writes a file. Returns true if it now exists.
    fn place(&self, view: &RecordView<'_>, name: &str, content: &FileContent<'_>) -> crate::Result<bool> {
        let path = self.dir.join(name);
        let placed = self.out.place(name, content);
        let placed = placed
            .with_context(|| format!("cannot write `{}` for sample `{}`", path.display(), view.key().escape_debug()))?;
        let mut tally = self.tally();
        match placed {
            Placed::New => {
                tally.files += 1;
                tally.bytes += content.len();
            }
            Placed::AlreadyThere => tally.already_there += 1,
            Placed::Occupied => tally.occupied.push(path.display().to_string()),
        }
        Ok(placed != Placed::Occupied)
    }
}
