//! Reserves an output folder for a program that does not know its samples yet.

use crate::error::{Error, Result};
use crate::folder::Survey;
use crate::journal::Journal;
use crate::lock::RunLock;
use crate::options::WriteOptions;
use crate::output::Output;
use crate::plan::Plan;
use crate::report::Report;
use crate::source::SampleSource;
use crate::write::write_locked;
use shardpack_format::{DatasetId, bug};
use shardpack_io::Holder;
use std::fs;

/// A folder that is reserved for a program, which writes a dataset there once it has all samples.
///
/// [`write_dataset`](crate::write_dataset) can refuse an unusable folder only once there is a plan. If a program
/// computes its samples, this may be hours after its start. A reservation refuses such a folder at once, and holds the
/// folder's lock to keep out other reservations and packers. The lock ends with the process: a killed program leaves
/// only a lock file, which does not block later runs. Dropping a reservation removes the folder if the reservation
/// created it and it is empty.
///
/// ```
/// use shardpack_writer::Reservation;
/// let parent = tempfile::tempdir()?;
/// let out = parent.path().join("train");
/// let reservation = Reservation::take(&out, false)?;
/// assert!(out.is_dir() && Reservation::take(&out, false).is_err());
/// drop(reservation);
/// assert!(!out.exists());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Reservation {
    out: Output,
    made: bool,
    lock: Option<RunLock>,
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation").field("out", &self.out.path()).finish_non_exhaustive()
    }
}

impl Reservation {
    /// Reserves `out` and creates it if needed.
    ///
    /// # Errors
    /// `Usage` if the folder contains other files, or if it contains a dataset (finished or not) and `force` is not
    /// set; `Damaged`; `Locked` if there is another reservation or a running packer; `Io`.
    pub fn take(out: impl Into<Output>, force: bool) -> Result<Self> {
        let out = out.into();
        let target = &out.target();
        let made = !out.folder().exists();
        target.create()?;
        let lock = RunLock::take(target, None, &Holder::this_process())?;
        // If the folder was created here and is refused below, dropping the reservation removes it again.
        let reservation = Self { out: out.clone(), made, lock: Some(lock) };
        let survey = Survey::take(target)?;
        survey.refuse(target, DatasetId([0; 16]), force)?;
        let content = match (&survey.manifest, survey.journals.is_empty() && !survey.is_being_removed) {
            _ if force => return Ok(reservation),
            (None, true) => return Ok(reservation),
            (Some(manifest), _) => format!("already contains a dataset of {}", crate::error::samples(manifest.samples)),
            (None, false) => "contains an unfinished dataset".to_owned(),
        };
        // Samples cannot be added to an incomplete dataset.
        let hint = match survey.manifest {
            Some(_) => crate::prepare::replace_or_append(),
            _ => crate::prepare::replace(),
        };
        Err(Error::usage(format!("output folder `{}` {content}", target.path().display()), hint))
    }

    /// Same as [`write_dataset`](crate::write_dataset), for the reserved folder.
    ///
    /// # Errors
    /// Same as [`write_dataset`](crate::write_dataset). Also `Usage` for a part, because parts share their folder.
    pub fn write_dataset<S: SampleSource>(
        &self,
        plan: &Plan,
        source: &S,
        options: &WriteOptions<'_>,
    ) -> Result<Report> {
        if let Some(part) = options.part {
            return Err(Error::usage(
                format!(
                    "part {part} cannot be written through a reservation: parts share a folder, but a reservation \
                     locks other runs out of it"
                ),
                "call the function `write_dataset`, which needs no reservation",
            ));
        }
        options.check()?;
        let lock =
            self.lock.as_ref().unwrap_or_else(|| bug("a reservation keeps its lock until the reservation is dropped"));
        write_locked(&self.out.target(), plan, source, options, lock)
    }

    /// True if [`write_dataset`](Self::write_dataset) has started the dataset `id` in this folder but not finished it.
    ///
    /// # Errors
    /// `Io` if the folder cannot be read.
    pub fn has_begun(&self, id: DatasetId) -> Result<bool> {
        let survey = Survey::take(&self.out.target())?;
        let is_it = |journal: &Journal| journal.head.dataset_id == id.to_string();
        Ok(survey.manifest.is_none() && survey.journals.values().flatten().any(is_it))
    }

    /// Removes the unfinished dataset `id`, for callers that do not want to continue it.
    ///
    /// # Errors
    /// `Io` if the folder cannot be read or changed.
    pub fn discard(&self, id: DatasetId) -> Result<()> {
        if self.has_begun(id)? {
            let target = &self.out.target();
            Survey::take(target)?.remove_all(target)?;
        }
        Ok(())
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.lock = None;
        if self.made {
            // Fails if the folder is not empty, which is intended.
            let _ = fs::remove_dir(self.out.folder());
        }
    }
}
