//! Parses `--image`, `--cube`, `--bands`, `--dtype` and `--window` into loader options. Keeps their
//! text for the report.

use shardpack_jpeg::View;
use shardpack_loader::{CubeMode, ImageMode};
use shardpack_reader::{Bands, Error};
use std::str::FromStr;

/// A loader option, and its text from the command line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Argument<T> {
    pub(super) text: String,
    pub(super) value: T,
}

impl<T: FromStr> Argument<T> {
    pub(super) fn parse(text: &str) -> Result<Self, T::Err> {
        Ok(Self { text: text.into(), value: text.parse()? })
    }
}

impl Argument<ImageMode> {
    pub(super) fn full() -> Self {
        Self { text: "full".into(), value: ImageMode::View(View::whole()) }
    }

    /// Returns the side of the view in pixels, or `None` if the view has no size.
    pub(super) fn side(&self) -> Option<u32> {
        match self.value {
            ImageMode::View(view) => view.size().map(|(height, _)| height),
            _ => None,
        }
    }
}

impl Argument<CubeMode> {
    pub(super) fn whole() -> Self {
        Self { text: "whole".into(), value: CubeMode::Whole }
    }
}

/// Parses bands such as `10..50`, which excludes 50, or `3,7,12`.
pub(super) fn parse_bands(text: &str) -> Result<Argument<Bands>, Error> {
    Ok(Argument { text: text.into(), value: shardpack_loader::parse_bands(text)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_knows_its_side() {
        let side = |text| Argument::<ImageMode>::parse(text).unwrap().side();
        assert_eq!(["rrc176", "center224", "raw", "full"].map(side), [Some(176), Some(224), None, None]);
        assert_eq!(Argument::parse("full").unwrap(), Argument::full());
        assert_eq!(Argument::parse("whole").unwrap(), Argument::whole());
    }
}
