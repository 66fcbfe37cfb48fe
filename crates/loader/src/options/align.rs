//! Options for aligning a field with its picture.

use shardpack_format::{Error as FormatError, Result as FormatResult};
use shardpack_reader::{Error, Result};
use std::str::FromStr;

/// How a field follows the picture of its sample. The field follows the view, which crops, scales and mirrors the
/// picture, and the augmentations that move its pixels. All coordinates refer to the upright picture.
///
/// The text form is `mask`, `instances`, `boxes`, `keypoints`, `polygons` or `rows`, followed by any settings
/// that differ from the defaults, such as `boxes,format=xywh,visible=0.25`.
///
/// ```
/// use shardpack_loader::{Align, LoaderOptions, View};
/// let align = [("mask", "mask".parse()?), ("boxes", "boxes,format=xywh".parse()?)];
/// let options = LoaderOptions::default().image(View::resize(224)).align(align);
/// assert!(matches!(options.view.align[0].1, Align::Mask { .. }));
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Align {
    /// An array `[height, width]` or `[height, width, channels]` with the picture's height and width. Each
    /// pixel of the view gets the value at its centre (nearest neighbour), so no new values appear. The field
    /// is loaded as a tensor with the view's height and width.
    Mask {
        /// Picture to follow. Default: the only picture.
        picture: Option<String>,
        /// Value of the padding around the picture, in the element type of the batch. Default 255, which
        /// segmentation losses usually ignore. Pixels that an augmentation moves in from outside get the same
        /// value, unless the augmentation has a [`mask_fill`](shardpack_augment::Outside::mask_fill).
        fill: f64,
    },
    /// Any number of object masks, as an array `[masks, height, width]` with the picture's height and width.
    /// Each mask is aligned like [`Align::Mask`], with zeros in the padding and outside the picture. The
    /// field is loaded as objects of the stored type, `[masks, height, width]`, with the view's height and
    /// width.
    Instances {
        /// Picture to follow. Default: the only picture.
        picture: Option<String>,
        /// Field with one box for each mask. If a box is left out, so is its mask. Default none, which keeps
        /// all masks, even those outside the view.
        rows: Option<String>,
    },
    /// Boxes `[boxes, 4]` of any number type. They are moved and clipped to the view. A box is left out if too little
    /// of it is visible. If an augmentation rotates a box, the result is the upright box around the rotated corners.
    /// The field is loaded as float32 objects in the same format.
    Boxes {
        /// Picture to follow. Default: the only picture.
        picture: Option<String>,
        /// Format of the four numbers. Default [`BoxFormat::Xyxy`].
        format: BoxFormat,
        /// True if coordinates are relative (1 is the width or height of the picture or view), and false if they are
        /// in pixels. Default false.
        relative: bool,
        /// Smallest share of a box's area that must be visible: the product of the shares that remain visible after
        /// the view and after each augmentation. Boxes outside the view or without an area are always left out.
        /// Default 0.
        visible: f64,
    },
    /// Points `[points, 2]`, `[points, 3]`, or `[objects, points, 2 or 3]`. Each point is x, y and,
    /// optionally, a visibility flag as in COCO. Points outside the view become 0, 0, 0 if they have three
    /// numbers, and NaN otherwise. The field is loaded as float32 objects of the same shape.
    Keypoints {
        /// Picture to follow. Default: the only picture.
        picture: Option<String>,
        /// Same as in [`Align::Boxes`].
        relative: bool,
        /// Pairs of points, by index, that are swapped if the view is mirrored, such as the left and the right hand.
        swap: Vec<(u32, u32)>,
        /// Field with one box for each object. If a box is left out, so are its points. Default none.
        rows: Option<String>,
    },
    /// Polygons, either as an array `[points, 2]` or `[polygons, points, 2]`, or as JSON. The outermost list
    /// of the JSON has one item for each object, and the innermost lists are x, y, x, y and so on, like
    /// COCO's `segmentation`. Points move as with [`Align::Keypoints`], but none are hidden or clipped: a
    /// polygon keeps all its points and may extend beyond the view. The field is loaded as float32 objects of
    /// the same shape, or as JSON of the same form. An item that is not a list, such as a COCO run-length
    /// encoding, becomes `null`.
    Polygons {
        /// Picture to follow. Default: the only picture.
        picture: Option<String>,
        /// Same as in [`Align::Boxes`].
        relative: bool,
        /// Field with one box for each object. If a box is left out, so are its polygons. Default none.
        rows: Option<String>,
    },
    /// An array with one row for each box, such as an array of classes `[boxes]`. If a box is left out, so is its row.
    /// The field is loaded as objects of the stored type.
    Rows {
        /// Field with the boxes that the rows belong to.
        of: String,
    },
}

/// Meaning of the four numbers of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum BoxFormat {
    /// Left, top, right, bottom.
    #[default]
    Xyxy,
    /// Left, top, width, height, as in COCO.
    Xywh,
    /// Centre x and y, width, height, as in YOLO.
    Cxcywh,
}

impl BoxFormat {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Xyxy => "xyxy",
            Self::Xywh => "xywh",
            Self::Cxcywh => "cxcywh",
        }
    }
}

impl Align {
    /// Describes in words the values that the declaration expects.
    pub(crate) fn said(&self) -> String {
        let with_unit = |what: &str, relative: bool| match relative {
            true => format!("relative {what}"),
            false => format!("{what} in pixels"),
        };
        match self {
            Self::Mask { .. } => "a mask".into(),
            Self::Instances { .. } => "masks of objects".into(),
            Self::Polygons { relative, .. } => with_unit("polygons", *relative),
            Self::Boxes { format, relative, .. } => with_unit(&format!("{} boxes", format.name()), *relative),
            Self::Keypoints { relative, .. } => with_unit("keypoints", *relative),
            Self::Rows { of } => format!("rows of `{}`", of.escape_debug()),
        }
    }

    pub(crate) const fn rows(&self) -> Option<&String> {
        match self {
            Self::Keypoints { rows, .. } | Self::Polygons { rows, .. } | Self::Instances { rows, .. } => rows.as_ref(),
            Self::Rows { of } => Some(of),
            Self::Mask { .. } | Self::Boxes { .. } => None,
        }
    }

    pub(crate) fn picture(&self) -> Option<&str> {
        match self {
            Self::Mask { picture, .. }
            | Self::Instances { picture, .. }
            | Self::Boxes { picture, .. }
            | Self::Keypoints { picture, .. }
            | Self::Polygons { picture, .. } => picture.as_deref(),
            Self::Rows { .. } => None,
        }
    }

    /// Checks that shares are between 0 and 1.
    ///
    /// # Errors
    /// `Usage` if a share is not between 0 and 1.
    pub(crate) fn check(&self) -> FormatResult<()> {
        match self {
            Self::Boxes { visible, .. } if !(0.0..=1.0).contains(visible) => Err(FormatError::usage(format!(
                "the minimum visible share of a box (`visible`) must be from 0 to 1, but is {visible}"
            ))),
            _ => Ok(()),
        }
    }
}

/// Class that segmentation losses ignore by default.
const MASK_FILL: f64 = 255.0;

const KINDS: &str = "mask, instances, boxes, keypoints, polygons or `rows,of=FIELD`";

impl FromStr for Align {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fail =
            |expected: &str| Error::usage(format!("invalid alignment `{}`: expected {expected}", text.escape_debug()));
        let mut options = text.split(',');
        let kind = options.next().unwrap_or_default();
        let mut options: Vec<(&str, &str)> =
            options.map(|option| option.split_once('=')).collect::<Option<_>>().ok_or_else(|| fail(KINDS))?;
        let mut take = |name: &str| {
            let at = options.iter().position(|(known, _)| *known == name)?;
            Some(options.remove(at).1)
        };
        let unit = |unit: Option<&str>| match unit {
            None | Some("pixel") => Ok(false),
            Some("relative") => Ok(true),
            Some(_) => Err(fail("unit=pixel or unit=relative")),
        };
        let align = match kind {
            "mask" => {
                let fill = take("fill").map_or(Ok(MASK_FILL), str::parse);
                let fill = fill.map_err(|_| fail("fill=NUMBER, such as fill=0"))?;
                Self::Mask { picture: take("picture").map(str::to_owned), fill }
            }
            "boxes" => {
                let format = match take("format") {
                    None | Some("xyxy") => BoxFormat::Xyxy,
                    Some("xywh") => BoxFormat::Xywh,
                    Some("cxcywh") => BoxFormat::Cxcywh,
                    Some(_) => return Err(fail("format=xyxy, format=xywh or format=cxcywh")),
                };
                let visible = take("visible").map_or(Ok(0.0), str::parse);
                let visible = visible.map_err(|_| fail("visible=FRACTION, such as visible=0.25"))?;
                let relative = unit(take("unit"))?;
                Self::Boxes { picture: take("picture").map(str::to_owned), format, relative, visible }
            }
            "keypoints" => {
                let swap = take("swap").map_or(Some(Vec::new()), |pairs| pairs.split('/').map(pair).collect());
                let swap = swap.ok_or_else(|| fail("swap=A-B/C-D with point numbers, such as swap=1-2/3-4"))?;
                let relative = unit(take("unit"))?;
                let rows = take("rows").map(str::to_owned);
                Self::Keypoints { picture: take("picture").map(str::to_owned), relative, swap, rows }
            }
            "polygons" => {
                let relative = unit(take("unit"))?;
                let rows = take("rows").map(str::to_owned);
                Self::Polygons { picture: take("picture").map(str::to_owned), relative, rows }
            }
            "instances" => {
                let rows = take("rows").map(str::to_owned);
                Self::Instances { picture: take("picture").map(str::to_owned), rows }
            }
            "rows" => Self::Rows { of: take("of").ok_or_else(|| fail("rows,of=FIELD"))?.to_owned() },
            _ => return Err(fail(KINDS)),
        };
        if let Some((unknown, _)) = options.first() {
            return Err(Error::usage(format!(
                "invalid alignment `{}`: the option `{}` is repeated or does not apply to `{kind}`; the options are \
                 picture=FIELD (all kinds but rows), fill=NUMBER (mask), rows=FIELD (instances, keypoints, polygons), \
                 format=NAME and visible=FRACTION (boxes), unit=NAME (boxes, keypoints, polygons), swap=A-B \
                 (keypoints), of=FIELD (rows)",
                text.escape_debug(),
                unknown.escape_debug()
            )));
        }
        align.check()?;
        Ok(align)
    }
}

fn pair(text: &str) -> Option<(u32, u32)> {
    let (a, b) = text.split_once('-')?;
    Some((a.parse().ok()?, b.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alignments_have_names() {
        let parse = |text: &str| text.parse::<Align>().unwrap();
        assert_eq!(parse("mask"), Align::Mask { picture: None, fill: 255.0 });
        assert_eq!(parse("mask,fill=-1,picture=left"), Align::Mask { picture: Some("left".into()), fill: -1.0 });
        let boxes = Align::Boxes { picture: None, format: BoxFormat::Cxcywh, relative: true, visible: 0.5 };
        assert_eq!(parse("boxes,visible=0.5,format=cxcywh,unit=relative"), boxes);
        let points =
            Align::Keypoints { picture: None, relative: false, swap: vec![(1, 2), (3, 4)], rows: Some("boxes".into()) };
        assert_eq!(parse("keypoints,swap=1-2/3-4,rows=boxes"), points);
        let polygons = Align::Polygons { picture: None, relative: true, rows: Some("boxes".into()) };
        assert_eq!(parse("polygons,unit=relative,rows=boxes"), polygons);
        assert_eq!(parse("instances,picture=left"), Align::Instances { picture: Some("left".into()), rows: None });
        assert_eq!(parse("rows,of=boxes"), Align::Rows { of: "boxes".into() });
    }

    #[test]
    fn unknown_alignments_are_refused_by_name() {
        for (bad, said) in [
            ("", "mask, instances, boxes"),
            ("box", "mask, instances, boxes"),
            ("mask,nearest", "mask, instances, boxes"),
            ("polygons,swap=1-2", "is repeated or does not apply"),
            ("instances,fill=0", "is repeated or does not apply"),
            ("mask,format=xyxy", "is repeated or does not apply"),
            ("boxes,fill=0", "is repeated or does not apply"),
            ("mask,fill=ignore", "fill=0"),
            ("mask,picture=a,picture=b", "is repeated or does not apply"),
            ("boxes,format=yxyx", "format=xyxy"),
            ("boxes,unit=cm", "unit=pixel"),
            ("boxes,visible=half", "visible=0.25"),
            ("keypoints,swap=1", "swap=1-2/3-4"),
            ("keypoints,swap=", "swap=1-2/3-4"),
            ("rows", "of=FIELD"),
        ] {
            let error = bad.parse::<Align>().unwrap_err().to_string();
            assert!(error.contains(said) && error.starts_with(&format!("invalid alignment `{bad}`")), "{error}");
        }
        for bad in ["boxes,visible=1.5", "boxes,visible=NaN"] {
            assert!(bad.parse::<Align>().unwrap_err().to_string().contains("0 to 1"));
        }
    }
}
