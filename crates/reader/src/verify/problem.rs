//! One finding of `verify`.

use crate::error::Error;
use shardpack_format::{Error as FormatError, REPORT_HINT};
use std::fmt;

/// What is found in the place of a file that is missing.
const NOT_THERE: &str = "none";

/// Something that is wrong in a dataset, with all that is known of its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Problem {
    /// The file, as the user would name it.
    pub file: String,
    /// Byte offset in the file.
    pub offset: Option<u64>,
    /// Record number in the shard.
    pub record: Option<u64>,
    /// Key of the sample that is damaged.
    pub key: Option<String>,
    /// What kind of problem: `format` if the bytes break the specification, `limit` if they ask for
    /// more than the caller allows, `io` if the system could not give them, `internal` if it was
    /// the check that failed, by a defect of this project.
    pub kind: &'static str,
    /// The part of the layout.
    pub what: String,
    /// What should stand there.
    pub expected: String,
    /// What stands there.
    pub found: String,
}

impl Problem {
    pub(crate) fn new(file: impl Into<String>, error: impl Into<Error>) -> Self {
        let mut problem = Self {
            file: file.into(),
            offset: None,
            record: None,
            key: None,
            kind: "io",
            what: String::new(),
            expected: String::new(),
            found: String::new(),
        };
        match error.into() {
            Error::Format(error) | Error::Limit(error) | Error::Internal(error) => problem.fill(error),
            Error::Io { action, offset, source, .. } => {
                problem.offset = offset;
                problem.what = "file".into();
                problem.expected = format!("one that the system can {action}");
                problem.found = match source.kind() {
                    std::io::ErrorKind::NotFound => NOT_THERE.into(),
                    _ => source.to_string(),
                };
            }
            Error::Usage { expected, found, .. } => {
                problem.what = "file".into();
                (problem.expected, problem.found) = (expected, found);
            }
        }
        problem
    }

    fn fill(&mut self, error: FormatError) {
        let place = match error {
            FormatError::Format { place, what, expected, found } => {
                self.kind = "format";
                (self.what, self.expected, self.found) = (what, expected, found);
                place
            }
            FormatError::Limit { place, what, name, limit, found } => {
                self.kind = "limit";
                self.what = what;
                self.expected = format!("at most {limit} (`{name}`)");
                self.found = found.to_string();
                place
            }
            FormatError::Internal { place, what, expected, found } => {
                self.kind = "internal";
                (self.what, self.expected) = (format!("internal error: {what}"), expected);
                self.found = format!("{found}\nhint: {REPORT_HINT}");
                place
            }
            other => {
                self.kind = "format";
                self.what = other.to_string();
                return;
            }
        };
        (self.record, self.key, self.offset) = (place.record, place.key, place.offset);
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.file.escape_debug())?;
        if let Some(record) = self.record {
            write!(f, ", record {record}")?;
        }
        if let Some(key) = &self.key {
            write!(f, ", sample `{}`", key.escape_debug())?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", offset {offset}")?;
        }
        if self.kind == "io" && self.found == NOT_THERE {
            return f.write_str(" is missing");
        }
        write!(f, ": {}: expected {}, found {}", self.what, self.expected, self.found)
    }
}
