//! Describes a problem found by `verify`.

use crate::error::Error;
use shardpack_format::{Error as FormatError, Hint, sentence, visible};
use std::fmt;

/// One problem in a dataset, with its location if known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Problem {
    /// The file as the user would write it.
    pub file: String,
    /// Byte offset in the file.
    pub offset: Option<u64>,
    /// Index of the record in the shard.
    pub record: Option<u64>,
    /// Key of the damaged sample.
    pub key: Option<String>,
    /// Kind of problem: `format` if the bytes violate the specification, `limit` if they exceed the caller's
    /// limits, `io` if the system could not read them, or `internal` if the check itself failed because of a
    /// bug in shardpack.
    pub kind: &'static str,
    /// The part of the layout that is wrong, or the whole message.
    pub what: String,
    /// The expected value. Empty if `what` is the whole message.
    pub expected: String,
    /// The actual value. Empty if `what` is the whole message.
    pub found: String,
    /// Message that follows the location, if it is not made from `what`, `expected` and `found`.
    #[serde(skip)]
    pub text: Option<String>,
    /// Hint about the next step, which is not part of the message.
    #[serde(skip)]
    pub hint: Option<Hint>,
}

impl Problem {
    pub(crate) fn new(file: impl Into<String>, error: impl Into<Error>) -> Self {
        let error = error.into();
        let mut problem = Self {
            file: file.into(),
            offset: None,
            record: None,
            key: None,
            kind: "io",
            what: String::new(),
            expected: String::new(),
            found: String::new(),
            text: None,
            hint: error.hint(),
        };
        match error {
            Error::Data(error) => problem.fill(error),
            Error::Io { offset, source, .. } => {
                problem.offset = offset;
                problem.what = "file".into();
                problem.expected = "a readable file".into();
                let is_missing = source.kind() == std::io::ErrorKind::NotFound;
                problem.found = if is_missing { "none".into() } else { source.to_string() };
                problem.text = Some(match is_missing {
                    true => " is missing".into(),
                    false => format!(": cannot read the file: {source}"),
                });
            }
        }
        problem
    }

    fn fill(&mut self, error: FormatError) {
        let place = match error {
            FormatError::Format { place, what, expected, found, .. } => {
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
                (self.what, self.expected, self.found) = (format!("internal error: {what}"), expected, found);
                place
            }
            usage => {
                self.what = "file".into();
                self.expected = "a file that can be verified".into();
                self.found = usage.to_string();
                self.text = Some(format!(": {usage}"));
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
        if let Some(text) = &self.text {
            return f.write_str(&visible(text));
        }
        write!(f, ": {}", sentence(&self.what, &self.expected, &self.found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::Voice;

    #[test]
    fn a_hint_is_not_part_of_the_text() {
        let of = |error: FormatError| Problem::new("a.shard", error);
        let limit = of(FormatError::limit("record", "max_record_bytes", 1, 2));
        let step = "raise `--max-record` if you trust this file";
        assert_eq!(limit.hint.as_ref().map(|hint| hint.told(Voice::Command)).as_deref(), Some(step));
        assert!(!limit.to_string().contains("max-record"), "{limit}");
        let ours = of(FormatError::internal("rows", 8, 7));
        assert_eq!(ours.to_string(), "`a.shard`: internal error: rows: expected 8, found 7");
        assert!(ours.hint.is_some_and(|hint| hint.to_string().contains("please report it")));
        assert_eq!(of(FormatError::format("CRC32", 1, 2)).hint, None);
    }
}
