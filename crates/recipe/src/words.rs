//! The words for choices whose types are defined in other crates.

use crate::Word;
use shardpack_array::{ArrayLayout, BandDifference, Coder, Filter, Prefer, Values};
use shardpack_jpeg::ChromaSampling;

impl Word for Option<bool> {
    const WORDS: &'static [(&'static str, Self)] = &[("auto", None), ("on", Some(true)), ("off", Some(false))];
}

impl Word for ChromaSampling {
    const WORDS: &'static [(&'static str, Self)] = &[("keep", Self::Keep), ("420", Self::S420), ("444", Self::S444)];
}

impl Word for Values {
    const WORDS: &'static [(&'static str, Self)] =
        &[("auto", Self::Auto), ("keep", Self::Keep), ("f16", Self::F16), ("fixed", Self::Fixed)];
}

impl Word for BandDifference {
    const WORDS: &'static [(&'static str, Self)] = &[("auto", Self::Auto), ("on", Self::On), ("off", Self::Off)];
}

impl Word for Option<Coder> {
    const WORDS: &'static [(&'static str, Self)] = &{
        let mut words = [("auto", None); 1 + Coder::ALL.len()];
        let mut n = 0;
        while n < Coder::ALL.len() {
            words[n + 1] = (Coder::ALL[n].name(), Some(Coder::ALL[n]));
            n += 1;
        }
        words
    };
}

impl Word for Option<Filter> {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", None),
        (Filter::None.name(), Some(Filter::None)),
        (Filter::Shuffle.name(), Some(Filter::Shuffle)),
        (Filter::Bitshuffle.name(), Some(Filter::Bitshuffle)),
        (Filter::Bytedelta.name(), Some(Filter::Bytedelta)),
    ];
}

impl Word for Option<ArrayLayout> {
    const WORDS: &'static [(&'static str, Self)] =
        &[("auto", None), ("as-given", Some(ArrayLayout::AsShape)), ("band-major", Some(ArrayLayout::BandMajor))];
}

impl Word for Prefer {
    const WORDS: &'static [(&'static str, Self)] =
        &[("speed", Self::Speed), ("device", Self::Device), ("size", Self::Size)];
}
