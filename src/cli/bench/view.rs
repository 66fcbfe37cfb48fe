//! `--image` and `--cube`: views of pictures and of arrays by their names.

use shardpack_codec::jpeg::View;
use shardpack_reader::{CubeMode, ImageMode};

/// Largest side of a view: that of a JPEG.
const SIDE_MAX: u32 = 65_535;
/// Evaluation resizes to 8/7 of what it crops: 256 for 224.
const CENTER: (u32, u32) = (8, 7);
/// Half of the random views are reflected, as in training.
const FLIP: f64 = 0.5;

/// What `--image` asks for.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct PictureView {
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
pub(in crate::cli) struct ArrayView {
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

/// Reads `whole`, `raw`.
pub(in crate::cli) fn parse_array_view(text: &str) -> Result<ArrayView, String> {
    let mode = match text {
        "whole" => CubeMode::Whole,
        "raw" => CubeMode::Raw,
        _ => return Err(format!("expected whole or raw, found `{text}`")),
    };
    Ok(ArrayView { name: text.into(), mode })
}

/// Reads `full`, `raw`, `rrc224`, `center224`.
pub(in crate::cli) fn parse_view(text: &str) -> Result<PictureView, String> {
    let fail =
        || format!("expected full, raw, rrcN or centerN with N from 1 to {SIDE_MAX}, such as rrc224, found `{text}`");
    let side = |digits: &str| {
        // `parse` would take a sign.
        let side = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
        side.filter(|side| (1..=SIDE_MAX).contains(side)).ok_or_else(fail)
    };
    let (view, side) = match (text, text.strip_prefix("rrc"), text.strip_prefix("center")) {
        ("full", ..) => return Ok(PictureView::full()),
        ("raw", ..) => return Ok(PictureView { name: text.into(), mode: ImageMode::Raw, side: None }),
        (_, Some(digits), _) => {
            let side = side(digits)?;
            (View::random_resized_crop(side, side).with_flip(FLIP), side)
        }
        (_, _, Some(digits)) => {
            let side = side(digits)?;
            (View::center_crop((side * CENTER.0).div_ceil(CENTER.1), side, side), side)
        }
        _ => return Err(fail()),
    };
    Ok(PictureView { name: text.into(), mode: ImageMode::View(view), side: Some(side) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_come_whole_or_as_stored() {
        assert_eq!(parse_array_view("whole"), Ok(ArrayView::whole()));
        assert_eq!(parse_array_view("raw").unwrap().mode, CubeMode::Raw);
        assert_eq!(parse_array_view("half").unwrap_err(), "expected whole or raw, found `half`");
    }

    #[test]
    fn views_are_called_by_their_names() {
        let mode = |text| parse_view(text).unwrap().mode;
        assert_eq!(mode("full"), ImageMode::View(View::whole()));
        assert_eq!(mode("raw"), ImageMode::Raw);
        assert_eq!(mode("rrc176"), ImageMode::View(View::random_resized_crop(176, 176).with_flip(0.5)));
        assert_eq!(mode("center224"), ImageMode::View(View::center_crop(256, 224, 224)));
        assert_eq!(mode("center1"), ImageMode::View(View::center_crop(2, 1, 1)));
        assert!(matches!(mode("center65535"), ImageMode::View(view) if view.check().is_ok()));
        for bad in [
            "",
            "rrc",
            "rrc0",
            "rrc-224",
            "rrc+224",
            "rrc65536",
            "center",
            "center2.5",
            "Full",
            "crop224",
            "rrc224x224",
        ] {
            let error = parse_view(bad).unwrap_err();
            assert!(error.contains("rrc224") && error.ends_with(&format!("`{bad}`")), "{error}");
        }
    }
}
