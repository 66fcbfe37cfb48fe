//! Parses the text forms of options for arrays, such as `patch64x64` for patches and `10..50` for bands. The command
//! and the Python package accept the same strings.

use super::{ArrayDtype, Augment, CubeMode};
use crate::patches::PatchPlace;
use shardpack_array::Bands;
use shardpack_augment::{Augmentation, BandAugmentation, Mix, split};
use shardpack_format::{ElementType, Error as FormatError, Hint, Setting};
use shardpack_reader::{Error, Result};
use std::str::FromStr;

/// Parses a number that consists of digits only. Plain `parse` would also accept a sign.
pub(crate) fn number(digits: &str) -> Option<u32> {
    digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Parses `whole`, `raw`, `patchHxW` (H rows and W columns at a random position), `centerHxW` (in the middle) or
/// `cycleHxW` (the next tile in each epoch: [`PatchPlace::Cycle`]). For volumes, parses `patchDxHxW` and
/// `centerDxHxW`, with D planes.
///
/// ```
/// use shardpack_loader::{CubeMode, PatchPlace};
/// let mode: CubeMode = "patch64x32".parse()?;
/// assert_eq!(mode, CubeMode::Patch { height: 64, width: 32, place: PatchPlace::Random });
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
impl FromStr for CubeMode {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let fail = || {
            let expected = "`whole`, `raw`, `patch64x64`, `center64x64` or `cycle64x64` with any height and width, or \
                 for volumes `patch16x64x64` or `center16x64x64` with any depth, height and width";
            Error::usage(format!("invalid array view `{text}`: expected {expected}"))
        };
        let places = [("patch", PatchPlace::Random), ("center", PatchPlace::Center), ("cycle", PatchPlace::Cycle)];
        let placed = places.iter().find_map(|(name, place)| Some((text.strip_prefix(name)?, *place)));
        match (text, placed) {
            ("whole", _) => Ok(Self::Whole),
            ("raw", _) => Ok(Self::Raw),
            (_, Some((size, place))) => {
                if let [depth, height, width] = *size.split('x').map(number).collect::<Vec<_>>() {
                    let size = depth.zip(height).zip(width).map(|((depth, height), width)| [depth, height, width]);
                    let size = size.filter(|size| !size.contains(&0) && place != PatchPlace::Cycle).ok_or_else(fail)?;
                    return Ok(Self::Volume { size, place });
                }
                let sides = size.split_once('x').and_then(|(height, width)| number(height).zip(number(width)));
                let (height, width) = sides.filter(|&(height, width)| height > 0 && width > 0).ok_or_else(fail)?;
                Ok(Self::Patch { height, width, place })
            }
            _ => Err(fail()),
        }
    }
}

/// Parses the words `hflip`, `vflip`, `dflip` and `rot90`, separated by commas.
///
/// ```
/// use shardpack_loader::Augment;
/// let augment: Augment = "hflip,rot90".parse()?;
/// assert!(augment.flip_columns && augment.rotate && !augment.flip_rows);
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
impl FromStr for Augment {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut augment = Self::default();
        for word in text.split(',') {
            // An unknown word fails like a repeated one, because `place` is then a flag that is already set.
            let mut unknown = true;
            let place = match word {
                "hflip" => &mut augment.flip_columns,
                "vflip" => &mut augment.flip_rows,
                "dflip" => &mut augment.flip_planes,
                "rot90" => &mut augment.rotate,
                _ => &mut unknown,
            };
            if std::mem::replace(place, true) {
                let expected = "any of hflip, vflip, dflip and rot90, each at most once, separated by commas";
                return Err(Error::usage(format!("invalid augmentation `{text}`: expected {expected}")));
            }
        }
        Ok(augment)
    }
}

/// Augmentations of arrays, bands and pictures.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Augments {
    /// How arrays are flipped and rotated.
    pub arrays: Augment,
    /// Augmentations of array bands, in the order in which they are applied.
    pub bands: Vec<BandAugmentation>,
    /// Augmentations of pictures, in the order in which they are applied.
    pub pictures: Vec<Augmentation>,
}

/// Parses augmentations separated by commas: `hflip`, `vflip`, `dflip` and `rot90` for arrays, augmentations
/// such as `band_dropout(p=0.1)` for the bands of arrays, and augmentations such as
/// `rand_augment(num_ops=2,magnitude=9)` for pictures.
///
/// ```
/// use shardpack_loader::parse_augment;
/// let found = parse_augment("hflip,trivial_augment_wide,band_dropout(p=0.1),random_erasing(p=0.1,value=99)")?;
/// assert!(found.arrays.flip_columns && found.bands.len() == 1 && found.pictures.len() == 2);
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
///
/// # Errors
/// `Usage` if an augmentation is unknown, an array augmentation is repeated, or there are more than
/// [`BandAugmentation::MOST`] augmentations of bands.
pub fn parse_augment(text: &str) -> Result<Augments> {
    let (arrays, others): (Vec<&str>, Vec<&str>) = split(text).partition(|part| ARRAYS.contains(part));
    let (bands, pictures): (Vec<&str>, Vec<&str>) =
        others.into_iter().partition(|part| BandAugmentation::is_named(part));
    let bands = bands.into_iter().map(str::parse).collect::<Result<Vec<BandAugmentation>, FormatError>>()?;
    if bands.len() > BandAugmentation::MOST {
        let (most, found) = (BandAugmentation::MOST, bands.len());
        return Err(Error::usage(format!("at most {most} band augmentations are supported, not {found}")));
    }
    let arrays = match &*arrays {
        [] => Augment::default(),
        words => words.join(",").parse()?,
    };
    if let Some(unknown) = pictures.iter().find(|part| !Augmentation::NAMES.contains(&name_of(part))) {
        return Err(unknown_augmentation(unknown));
    }
    let pictures = pictures.into_iter().map(str::parse).collect::<Result<_, FormatError>>()?;
    Ok(Augments { arrays, bands, pictures })
}

fn unknown_augmentation(part: &str) -> Error {
    if name_of(part).parse::<Mix>().is_ok() {
        let hint = Hint::new("use ")
            .and([Setting::named("mix").in_python("augment_batch")])
            .then(" to mix the samples of a batch");
        let text = format!("`{part}` mixes the samples of a batch, so it cannot augment single samples");
        return Error::usage(text).with_hint(hint);
    }
    let arrays = [&ARRAYS[..], &BandAugmentation::NAMES].concat().join(", ");
    let pictures = Augmentation::NAMES.join(", ");
    Error::usage(format!(
        "unknown augmentation `{part}`: expected one of {arrays} for arrays, or one of {pictures} for pictures, with \
         options in brackets, such as random_erasing(p=0.25)"
    ))
}

fn name_of(part: &str) -> &str {
    part.split('(').next().unwrap_or_default().trim()
}

/// Parses mixing methods, separated by commas, such as `mixup(alpha=0.2),cutmix` or `mosaic`.
///
/// ```
/// assert_eq!(shardpack_loader::parse_mixes("mixup(alpha=0.2),cutmix")?.len(), 2);
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
///
/// # Errors
/// `Usage` if a method is unknown.
pub fn parse_mixes(text: &str) -> Result<Vec<Mix>> {
    Ok(split(text).map(str::parse).collect::<Result<_, FormatError>>()?)
}

const ARRAYS: [&str; 4] = ["hflip", "vflip", "dflip", "rot90"];

/// Parses one type for all cubes, such as `float16`, or a type for each named field, such as
/// `cube=float16,mask=int64`.
///
/// ```
/// use shardpack_format::Dtype;
/// use shardpack_loader::ArrayDtype;
/// let dtype: ArrayDtype = "mask=int64".parse()?;
/// assert_eq!(dtype, ArrayDtype::Fields(vec![("mask".into(), Dtype::I64.into())]));
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
impl FromStr for ArrayDtype {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let dtype = ElementType::named;
        if let Some(dtype) = dtype(text) {
            return Ok(Self::Cubes(dtype));
        }
        let field = |part: &str| part.split_once('=').and_then(|(field, name)| Some((field.to_owned(), dtype(name)?)));
        let fields: Option<Vec<(String, ElementType)>> = text.split(',').map(field).collect();
        fields.map(Self::Fields).ok_or_else(|| {
            let names: Vec<&str> = ElementType::all().map(ElementType::name).collect();
            let expected = format!("one of [{}], or FIELD=TYPE pairs separated by commas", names.join(", "));
            Error::usage(format!("invalid element type `{text}`: expected {expected}"))
        })
    }
}

/// Parses bands: a range that excludes its end, `10..50`, or numbers separated by commas, `3,7,12`.
///
/// ```
/// use shardpack_loader::{Bands, parse_bands};
/// assert_eq!(parse_bands("10..50")?, Bands::Range(10..50));
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
///
/// # Errors
/// `Usage` if the text has neither form, or the range is empty.
pub fn parse_bands(text: &str) -> Result<Bands> {
    let fail = || {
        let expected = "START..END, such as 10..50, or band numbers separated by commas";
        Error::usage(format!("invalid bands `{text}`: expected {expected}"))
    };
    match text.split_once("..") {
        Some((start, end)) => {
            let range = number(start).zip(number(end)).map(|(start, end)| u64::from(start)..u64::from(end));
            Ok(Bands::Range(range.filter(|range| !range.is_empty()).ok_or_else(fail)?))
        }
        None => {
            let list: Option<Vec<u64>> = text.split(',').map(|band| number(band).map(u64::from)).collect();
            Ok(Bands::List(list.ok_or_else(fail)?))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::Dtype;

    #[test]
    fn arrays_come_whole_in_part_or_as_stored() {
        let mode = |text: &str| text.parse::<CubeMode>().unwrap();
        assert_eq!(mode("whole"), CubeMode::Whole);
        assert_eq!(mode("raw"), CubeMode::Raw);
        for (name, place) in
            [("patch", PatchPlace::Random), ("center", PatchPlace::Center), ("cycle", PatchPlace::Cycle)]
        {
            let volume = CubeMode::Volume { size: [2, 64, 7], place };
            assert_eq!(
                format!("{name}2x64x7").parse::<CubeMode>().ok(),
                (place != PatchPlace::Cycle).then_some(volume)
            );
            assert_eq!(mode(&format!("{name}64x7")), CubeMode::Patch { height: 64, width: 7, place });
        }
        for bad in [
            "half",
            "",
            "patch",
            "patch64",
            "patch64x",
            "patchx64",
            "patch0x4",
            "cycle4x0",
            "patch+4x4",
            "cycle4x4x4",
            "Patch4x4",
        ] {
            let error = bad.parse::<CubeMode>().unwrap_err().to_string();
            assert!(error.contains("`patch64x64`") && error.contains(&format!(" `{bad}`: expected ")), "{error}");
        }
    }

    #[test]
    fn bands_are_a_range_or_a_list() {
        let bands = |text| parse_bands(text).unwrap();
        assert_eq!(bands("10..50"), Bands::Range(10..50));
        assert_eq!(bands("3,7,3"), Bands::List(vec![3, 7, 3]));
        assert_eq!(bands("12"), Bands::List(vec![12]));
        for bad in ["", "..", "5..", "..5", "5..5", "7..5", "1..=4", "1,", "1, 2", "-1", "a", "1...4"] {
            let error = parse_bands(bad).unwrap_err().to_string();
            assert!(error.contains("10..50") && error.contains(&format!(" `{bad}`: expected ")), "{error}");
        }
    }

    #[test]
    fn augmentation_is_a_list_of_words() {
        let all = Augment { flip_planes: true, flip_rows: true, flip_columns: true, rotate: true };
        assert_eq!("vflip,hflip,dflip,rot90".parse::<Augment>().unwrap(), all);
        assert_eq!("hflip".parse::<Augment>().unwrap(), Augment { flip_columns: true, ..Augment::default() });
        for bad in ["", "flip", "hflip,", "hflip,hflip", "rot90, vflip", "Rot90"] {
            let error = bad.parse::<Augment>().unwrap_err().to_string();
            assert!(
                error.contains("hflip, vflip, dflip and rot90") && error.contains(&format!(" `{bad}`: expected ")),
                "{error}"
            );
        }
    }

    #[test]
    fn element_types_are_of_all_cubes_or_of_fields() {
        let dtype = |text: &str| text.parse::<ArrayDtype>().unwrap();
        assert_eq!(dtype("float16"), ArrayDtype::Cubes(Dtype::F16.into()));
        assert_eq!(dtype("bfloat16"), ArrayDtype::Cubes(ElementType::Bf16));
        let fields = [("cube", Dtype::F16), ("mask", Dtype::I64)].map(|(name, dtype)| (name.to_owned(), dtype.into()));
        assert_eq!(dtype("cube=float16,mask=int64"), ArrayDtype::Fields(fields.to_vec()));
        for bad in ["", "half", "cube=", "cube=half", "float16,float32", "cube=float16,", "Float16"] {
            let error = bad.parse::<ArrayDtype>().unwrap_err().to_string();
            assert!(error.contains("float16, float32") && error.contains(&format!(" `{bad}`: expected ")), "{error}");
        }
    }
}
