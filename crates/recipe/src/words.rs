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

/// The word `auto`, and the name of each value in `$type::ALL`.
macro_rules! auto_or_name {
    ($type:ty) => {
        impl Word for Option<$type> {
            const WORDS: &'static [(&'static str, Self)] = &{
                let mut words = [("auto", None); 1 + <$type>::ALL.len()];
                let mut n = 0;
                while n < <$type>::ALL.len() {
                    words[n + 1] = (<$type>::ALL[n].name(), Some(<$type>::ALL[n]));
                    n += 1;
                }
                words
            };
        }
    };
}

auto_or_name!(Coder);
auto_or_name!(Filter);

impl Word for Option<ArrayLayout> {
    const WORDS: &'static [(&'static str, Self)] =
        &[("auto", None), ("as-given", Some(ArrayLayout::AsShape)), ("band-major", Some(ArrayLayout::BandMajor))];
}

impl Word for Prefer {
    const WORDS: &'static [(&'static str, Self)] =
        &[("speed", Self::Speed), ("device", Self::Device), ("size", Self::Size)];
}
