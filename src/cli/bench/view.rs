//! `--image` and `--cube`: views of pictures and of arrays by their names.

use shardpack_codec::jpeg::View;
use shardpack_format::Dtype;
use shardpack_reader::{ArrayDtype, Bands, CubeMode, ImageMode, Place};

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

/// Reads `whole`, `raw`, `patch64x64`.
pub(in crate::cli) fn parse_array_view(text: &str) -> Result<ArrayView, String> {
    let fail =
        || format!("expected whole, raw or patchHxW with H rows and W columns, such as patch64x64, found `{text}`");
    let mode = match (text, text.strip_prefix("patch")) {
        ("whole", _) => CubeMode::Whole,
        ("raw", _) => CubeMode::Raw,
        (_, Some(size)) => {
            let sides = size.split_once('x').and_then(|(height, width)| number(height).zip(number(width)));
            let (height, width) = sides.filter(|&(height, width)| height > 0 && width > 0).ok_or_else(fail)?;
            CubeMode::Patch { height, width, place: Place::Random }
        }
        _ => return Err(fail()),
    };
    Ok(ArrayView { name: text.into(), mode })
}

/// What `--bands` asks for.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct BandsView {
    /// As typed.
    pub(super) name: String,
    pub(super) bands: Bands,
}

/// Reads `10..50`, without 50, and `3,7,12`.
pub(in crate::cli) fn parse_bands(text: &str) -> Result<BandsView, String> {
    let fail = || format!("expected START..END, such as 10..50, or bands with commas between them, found `{text}`");
    let bands = match text.split_once("..") {
        Some((start, end)) => {
            let range = number(start).zip(number(end)).map(|(start, end)| u64::from(start)..u64::from(end));
            Bands::Range(range.filter(|range| !range.is_empty()).ok_or_else(fail)?)
        }
        None => {
            let list: Option<Vec<u64>> = text.split(',').map(|band| number(band).map(u64::from)).collect();
            Bands::List(list.ok_or_else(fail)?)
        }
    };
    Ok(BandsView { name: text.into(), bands })
}

/// What `--dtype` asks for.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::cli) struct DtypeView {
    /// As typed.
    pub(super) name: String,
    pub(super) dtype: ArrayDtype,
}

/// Reads `float16`, for all cubes, and `cube=float16,mask=int64`.
pub(in crate::cli) fn parse_dtype(text: &str) -> Result<DtypeView, String> {
    let dtype = |name: &str| Dtype::ALL.iter().copied().find(|dtype| dtype.name() == name);
    let dtype = match dtype(text) {
        Some(dtype) => ArrayDtype::Cubes(dtype),
        None => {
            let field =
                |part: &str| part.split_once('=').and_then(|(field, name)| Some((field.to_owned(), dtype(name)?)));
            let fields: Option<Vec<(String, Dtype)>> = text.split(',').map(field).collect();
            ArrayDtype::Fields(fields.ok_or_else(|| {
                let names: Vec<&str> = Dtype::ALL.iter().map(|dtype| dtype.name()).collect();
                format!(
                    "expected a type of [{}], or FIELD=TYPE with commas between them, found `{text}`",
                    names.join(", ")
                )
            })?)
        }
    };
    Ok(DtypeView { name: text.into(), dtype })
}

/// Digits alone: `parse` would take a sign.
fn number(digits: &str) -> Option<u32> {
    digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Reads `full`, `raw`, `rrc224`, `center224`.
pub(in crate::cli) fn parse_view(text: &str) -> Result<PictureView, String> {
    let fail =
        || format!("expected full, raw, rrcN or centerN with N from 1 to {SIDE_MAX}, such as rrc224, found `{text}`");
    let side = |digits: &str| number(digits).filter(|side| (1..=SIDE_MAX).contains(side)).ok_or_else(fail);
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
    fn arrays_come_whole_in_part_or_as_stored() {
        assert_eq!(parse_array_view("whole"), Ok(ArrayView::whole()));
        assert_eq!(parse_array_view("raw").unwrap().mode, CubeMode::Raw);
        let patch = CubeMode::Patch { height: 64, width: 7, place: Place::Random };
        assert_eq!(parse_array_view("patch64x7").unwrap().mode, patch);
        for bad in [
            "half",
            "",
            "patch",
            "patch64",
            "patch64x",
            "patchx64",
            "patch0x4",
            "patch4x0",
            "patch+4x4",
            "patch4x4x4",
            "Patch4x4",
        ] {
            let error = parse_array_view(bad).unwrap_err();
            assert!(error.contains("such as patch64x64") && error.ends_with(&format!("`{bad}`")), "{error}");
        }
    }

    #[test]
    fn bands_are_a_range_or_a_list() {
        let bands = |text| parse_bands(text).unwrap().bands;
        assert_eq!(bands("10..50"), Bands::Range(10..50));
        assert_eq!(bands("3,7,3"), Bands::List(vec![3, 7, 3]));
        assert_eq!(bands("12"), Bands::List(vec![12]));
        for bad in ["", "..", "5..", "..5", "5..5", "7..5", "1..=4", "1,", "1, 2", "-1", "a", "1...4"] {
            let error = parse_bands(bad).unwrap_err();
            assert!(error.contains("10..50") && error.ends_with(&format!("`{bad}`")), "{error}");
        }
    }

    #[test]
    fn element_types_are_of_all_cubes_or_of_fields() {
        let dtype = |text| parse_dtype(text).unwrap().dtype;
        assert_eq!(dtype("float16"), ArrayDtype::Cubes(Dtype::F16));
        let fields = [("cube", Dtype::F16), ("mask", Dtype::I64)].map(|(name, dtype)| (name.to_owned(), dtype));
        assert_eq!(dtype("cube=float16,mask=int64"), ArrayDtype::Fields(fields.to_vec()));
        for bad in ["", "half", "cube=", "cube=half", "float16,float32", "cube=float16,", "Float16"] {
            let error = parse_dtype(bad).unwrap_err();
            assert!(error.contains("float16, float32") && error.ends_with(&format!("`{bad}`")), "{error}");
        }
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
