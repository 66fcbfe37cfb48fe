//! Options whose values are words: the table of words is the parser, for every front end.

use super::Result;
use super::pack::HowJpeg;
use crate::grow::OnKnownKey;
use crate::pack::Share;
use shardpack_array::{ArrayLayout, BandDifference, Coder, Filter, Prefer, Values};
use shardpack_jpeg::ChromaSampling;
use shardpack_sources::{Kind, OnBadInput};

/// A choice that is spelled as a word.
///
/// ```
/// use shardpack_array::Values;
/// use shardpack_pack::arguments::Word;
/// assert_eq!(Values::parse("fixed"), Ok(Values::Fixed));
/// assert_eq!(Values::Fixed.spelled(), "fixed");
/// assert_eq!(Values::parse("float").unwrap_err(), "expected auto, keep, f16 or fixed, found `float`");
/// ```
pub trait Word: Copy + PartialEq + Sized + 'static {
    /// Each word, what it stands for, and what a help text adds to it, or nothing.
    const WORDS: &'static [(&'static str, Self, &'static str)];

    /// Reads a word.
    ///
    /// # Errors
    /// Which words there are.
    fn parse(text: &str) -> Result<Self, String> {
        if let Some((_, value, _)) = Self::WORDS.iter().find(|(word, ..)| *word == text) {
            return Ok(*value);
        }
        let words: Vec<&str> = Self::WORDS.iter().map(|(word, ..)| *word).collect();
        let (last, others) = words.split_last().ok_or("there are no words")?;
        Err(format!("expected {} or {last}, found `{}`", others.join(", "), text.escape_debug()))
    }

    /// The word.
    fn spelled(self) -> &'static str {
        // A test asks this of every value.
        Self::WORDS.iter().find(|(_, value, _)| *value == self).map_or("", |(word, ..)| word)
    }
}

impl Word for Kind {
    const WORDS: &'static [(&'static str, Self, &'static str)] =
        &[("images", Self::Images, ""), ("cubes", Self::Cubes, "")];
}

impl Word for OnBadInput {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[("stop", Self::Stop, ""), ("skip", Self::Skip, "")];
}

impl Word for OnKnownKey {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[("stop", Self::Stop, ""), ("skip", Self::Skip, "")];
}

/// Yes, no, or as it fits.
impl Word for Option<bool> {
    const WORDS: &'static [(&'static str, Self, &'static str)] =
        &[("auto", None, ""), ("on", Some(true), ""), ("off", Some(false), "")];
}

impl Word for HowJpeg {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("tile", Self::Tile, "The same pixels, in tiles; lossless"),
        ("keep", Self::Keep, "The file as it is, to the byte"),
        ("reencode", Self::Reencode, "Encoded again, in tiles; lossy, with `--quality` or `--target`"),
    ];
}

impl Word for ChromaSampling {
    const WORDS: &'static [(&'static str, Self, &'static str)] =
        &[("keep", Self::Keep, "That of the source"), ("420", Self::S420, "4:2:0"), ("444", Self::S444, "4:4:4")];
}

impl Word for Share {
    const WORDS: &'static [(&'static str, Self, &'static str)] =
        &[("none", Self::None, ""), ("sample", Self::Sample, "One in 64, and at least 16"), ("all", Self::All, "")];
}

impl Word for Values {
    const WORDS: &'static [(&'static str, Self, &'static str)] =
        &[("auto", Self::Auto, ""), ("keep", Self::Keep, ""), ("f16", Self::F16, ""), ("fixed", Self::Fixed, "")];
}

impl Word for BandDifference {
    const WORDS: &'static [(&'static str, Self, &'static str)] =
        &[("auto", Self::Auto, ""), ("on", Self::On, ""), ("off", Self::Off, "")];
}

impl Word for Option<Coder> {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("auto", None, ""),
        (Coder::Blosc2Lz4.name(), Some(Coder::Blosc2Lz4), ""),
        (Coder::Blosc2Lz4hc.name(), Some(Coder::Blosc2Lz4hc), ""),
        (Coder::Blosc2Zstd.name(), Some(Coder::Blosc2Zstd), ""),
        (Coder::Zstd.name(), Some(Coder::Zstd), ""),
        (Coder::Raw.name(), Some(Coder::Raw), ""),
    ];
}

impl Word for Option<Filter> {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("auto", None, ""),
        (Filter::None.name(), Some(Filter::None), ""),
        (Filter::Shuffle.name(), Some(Filter::Shuffle), ""),
        (Filter::Bitshuffle.name(), Some(Filter::Bitshuffle), ""),
        (Filter::Bytedelta.name(), Some(Filter::Bytedelta), ""),
    ];
}

impl Word for Option<ArrayLayout> {
    const WORDS: &'static [(&'static str, Self, &'static str)] = &[
        ("auto", None, ""),
        ("as-given", Some(ArrayLayout::AsShape), ""),
        ("band-major", Some(ArrayLayout::BandMajor), ""),
    ];
}

impl Word for Prefer {
    const WORDS: &'static [(&'static str, Self, &'static str)] =
        &[("speed", Self::Speed, ""), ("device", Self::Device, ""), ("size", Self::Size, "")];
}
