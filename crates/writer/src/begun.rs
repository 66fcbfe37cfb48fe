//! Removes an unfinished generation after an interrupted addition or removal.

use crate::error::{Error, Result};
use crate::folder::{Survey, remove_next};
use crate::growth::{Growth, interrupted, settle};
use crate::journal::Journal;
use crate::names::NEXT;
use shardpack_format::{Hint, Setting};

impl Growth<'_> {
    /// Clears the folder of the next generation, before the samples of that generation are known. An unfinished
    /// generation of a killed program ([`Plan::of_program`](crate::Plan::of_program)) is removed, because its samples
    /// are lost. An unfinished generation of files is removed only if `force` is true. A generation that is complete is
    /// put in place instead.
    ///
    /// ```
    /// use shardpack_writer::Growth;
    /// # use shardpack_format::{Manifest, Metadata};
    /// # let folder = tempfile::tempdir()?;
    /// # let manifest = Manifest::new(shardpack_format::DatasetId([1; 16]), Metadata::default());
    /// # std::fs::write(folder.path().join("manifest.json"), manifest.encode()?)?;
    /// let growth = Growth::take(folder.path())?;
    /// growth.clear(false)?;
    /// assert_eq!(growth.next_generation()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `Usage` if an addition of files, or a removal, is unfinished and `force` is not set; `Io`.
    pub fn clear(&self, force: bool) -> Result<()> {
        // If `write` failed at its very end, it may have left a finished generation that is not yet in place.
        settle(&self.target)?;
        let folder = self.target.below(NEXT);
        if folder.names_if_there()?.is_empty() {
            return Ok(());
        }
        let survey = Survey::take(&folder)?;
        // Without a readable journal, the shards may have been made from files.
        let is_of_program = |journal: &Option<Journal>| journal.as_ref().is_some_and(|it| it.head.is_of_program());
        let all_of_program = !survey.journals.is_empty() && survey.journals.values().all(is_of_program);
        let is_lost = !survey.has_shards() || all_of_program;
        if force || is_lost {
            return remove_next(&self.target);
        }
        let hint = Hint::new("repeat the interrupted command to continue, or use ").and([Setting::on("force")]);
        Err(Error::usage(interrupted(&self.target), hint.then(" to discard the unfinished files")))
    }
}
