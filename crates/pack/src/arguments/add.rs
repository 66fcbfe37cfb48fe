//! The options of adding, by their names.

use super::source::check_columns;
use super::value::Named;
use super::{Result, Value};
use crate::grow::AddOptions;
use shardpack_format::Hint;

impl AddOptions {
    /// Names of the options that [`set`](Self::set) takes.
    pub const NAMES: [&str; 11] = [
        "labels",
        "key_column",
        "label_column",
        "masks",
        "follow_links",
        "on_bad_input",
        "on_known_key",
        "force",
        "threads",
        "memory",
        "max_cube",
    ];

    /// Sets the option `name`. False if there is no such option.
    ///
    /// # Errors
    /// If the option cannot have this value.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<bool> {
        let Some(option) = Self::NAMES.into_iter().find(|option| *option == name) else { return Ok(false) };
        let given = Named { option, value };
        match option {
            "labels" => self.labels = Some(given.path()),
            "key_column" => self.key_column = Some(given.text()),
            "label_column" => self.label_column = Some(given.text()),
            "masks" => self.masks = Some(given.path()),
            "follow_links" => self.follow_links = given.switch()?,
            "on_bad_input" => self.on_bad_input = Some(given.word()?),
            "on_known_key" => self.on_known_key = given.word()?,
            "force" => self.force = given.switch()?,
            "threads" => self.threads = given.threads()?,
            "memory" => self.memory_bytes = Some(given.size()?),
            "max_cube" => self.max_cube = given.size()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether `hint` names options of adding alone. Others are said by what packing and adding share:
    /// how samples are stored and found is the recipe's to say when adding.
    ///
    /// ```
    /// use shardpack_format::{Hint, Setting};
    /// use shardpack_pack::grow::AddOptions;
    /// assert!(AddOptions::can_follow(&Hint::set([Setting::on("follow_links")])));
    /// assert!(!AddOptions::can_follow(&Hint::set([Setting::word("kind", "images")])));
    /// ```
    #[must_use]
    pub fn can_follow(hint: &Hint) -> bool {
        hint.options().all(|option| Self::NAMES.contains(&option))
    }

    /// Checks what the options mean together.
    pub(crate) fn check(&self) -> Result<()> {
        check_columns(self.key_column.as_ref(), self.label_column.as_ref(), self.labels.is_some())
    }
}
