//! `--image`, `--cube`, `--bands`, `--dtype` and `--window`: what they mean to the loader, and as
//! they were typed.

use shardpack_jpeg::View;
use shardpack_loader::{ArrayDtype, CubeMode, ImageMode, Window};
use shardpack_reader::{Bands, Error};

/// What `--image` asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PictureView {
    /// As typed.
    pub(super) name: String,
    pub(super) mode: ImageMode,
    /// Pixels on a side, if the view has a size.
    pub(super) side: Option<u32>,
}

impl PictureView {
    /// Whole pictures.
    pub(super) fn full() -> Self {
        Self { name: "full".into(), mode: ImageMode::View(View::whole()), side: None }
    }
}

/// What `--cube` asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ArrayView {
    /// As typed.
    pub(super) name: String,
    pub(super) mode: CubeMode,
}

impl ArrayView {
    /// Whole arrays.
    pub(super) fn whole() -> Self {
        Self { name: "whole".into(), mode: CubeMode::Whole }
    }
}

/// What `--bands` asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BandsView {
    /// As typed.
    pub(super) name: String,
    pub(super) bands: Bands,
}

/// What `--window` asks for.
#[derive(Debug, Clone)]
pub(crate) struct WindowView {
    pub(super) name: String,
    pub(super) window: Window,
}

pub(crate) fn parse_window(text: &str) -> Result<WindowView, Error> {
    Ok(WindowView { name: text.into(), window: text.parse()? })
}

/// What `--dtype` asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DtypeView {
    /// As typed.
    pub(super) name: String,
    pub(super) dtype: ArrayDtype,
}

/// Reads `float16`, for all cubes, and `cube=float16,mask=int64`.
pub(crate) fn parse_dtype(text: &str) -> Result<DtypeView, Error> {
    Ok(DtypeView { name: text.into(), dtype: text.parse()? })
}

/// Reads `full`, `raw`, `rrc224`, `center224`.
pub(crate) fn parse_view(text: &str) -> Result<PictureView, Error> {
    let mode: ImageMode = text.parse()?;
    let side = match mode {
        ImageMode::View(view) => view.size().map(|(height, _)| height),
        _ => None,
    };
    Ok(PictureView { name: text.into(), mode, side })
}

/// Reads `whole`, `raw`, `patch64x64`, `center64x64`, `grid64x64`.
pub(crate) fn parse_array_view(text: &str) -> Result<ArrayView, Error> {
    Ok(ArrayView { name: text.into(), mode: text.parse()? })
}

/// Reads `10..50`, without 50, and `3,7,12`.
pub(crate) fn parse_bands(text: &str) -> Result<BandsView, Error> {
    Ok(BandsView { name: text.into(), bands: shardpack_loader::parse_bands(text)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_knows_its_side() {
        assert_eq!(parse_view("rrc176").unwrap().side, Some(176));
        assert_eq!(parse_view("center224").unwrap().side, Some(224));
        assert_eq!(parse_view("raw").unwrap().side, None);
        assert_eq!(parse_view("full").unwrap(), PictureView::full());
        assert_eq!(parse_array_view("whole").unwrap(), ArrayView::whole());
    }
}
