//! Choices that are spelled as words. A single table of words serves all front ends, both as the parser and as the
//! list of choices.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};

/// A choice that is spelled as a word.
///
/// ```
/// use shardpack_array::Values;
/// use shardpack_recipe::Word;
/// assert_eq!(Values::parse("fixed"), Ok(Values::Fixed));
/// assert_eq!(Values::Fixed.spelled(), "fixed");
/// assert_eq!(Values::parse("float").unwrap_err(), "expected auto, keep, f16 or fixed, found `float`");
/// ```
pub trait Word: Copy + PartialEq + Sized + 'static {
    /// All words, with the value that each word stands for.
    const WORDS: &'static [(&'static str, Self)];

    /// Parses a word.
    ///
    /// # Errors
    /// A message that lists the allowed words.
    fn parse(text: &str) -> Result<Self, String> {
        if let Some((_, value)) = Self::WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(*value);
        }
        let words: Vec<&str> = Self::WORDS.iter().map(|(word, _)| *word).collect();
        let (last, others) = words.split_last().ok_or("there are no words")?;
        Err(format!("expected {} or {last}, found `{}`", others.join(", "), text.escape_debug()))
    }

    /// Returns the word of this value.
    fn spelled(self) -> &'static str {
        // The fallback is never used: a test checks that every value has a word.
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }
}

pub(crate) fn serialize<T: Word, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(value.spelled())
}

pub(crate) fn deserialize<'de, T: Word, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    T::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}
