//! The options of adding, by their names.

use super::value::Named;
use super::{Result, Value};
use crate::grow::AddOptions;

impl AddOptions {
    /// Names of the options that [`set`](Self::set) takes.
    pub const NAMES: [&str; 8] =
        ["labels", "masks", "on_bad_input", "on_known_key", "force", "threads", "memory", "max_cube"];

    /// Sets the option `name`. False if there is no such option.
    ///
    /// # Errors
    /// If the option cannot have this value.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<bool> {
        let Some(option) = Self::NAMES.into_iter().find(|option| *option == name) else { return Ok(false) };
        let given = Named { option, value };
        match option {
            "labels" => self.labels = Some(given.path()),
            "masks" => self.masks = Some(given.path()),
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
}
