//! Augmentations of pictures: on the levels of a row, right after they were decoded.

use super::fields::{FieldPlan, From};
use super::options::LoaderOptions;
use shardpack_augment::{Augmentation, Picture, Scratch};
use shardpack_format::Error as FormatError;
use shardpack_jpeg::{PixelLayout, Rendering};
use shardpack_reader::mask_names::is_mask;
use shardpack_reader::{Error, Result};

/// One thread's memory for augmentations.
#[derive(Default)]
pub(super) struct Changes {
    scratch: Scratch,
    /// A picture whose rows are wanted channel by channel, before it is.
    pixels: Vec<u8>,
}

impl Changes {
    /// Decodes a picture and changes it; returns its height and width.
    ///
    /// # Errors
    /// Those of `decode`.
    pub(super) fn decode(
        &mut self,
        changes: &[Augmentation],
        how: &Rendering,
        out: &mut [u8],
        decode: impl FnOnce(&Rendering, &mut [u8]) -> Result<[u32; 2], FormatError>,
    ) -> Result<[u32; 2], FormatError> {
        let draws = how.key.draws();
        let mut change = |levels: &mut [u8], size: [u32; 2]| -> Result<(), FormatError> {
            let [height, width] = size.map(|side| side as usize);
            let bytes = height * width * 3;
            let room = levels.len();
            let Some(levels) = levels.get_mut(..bytes) else {
                return Err(FormatError::internal("bytes of a decoded picture", bytes, room));
            };
            let mut picture = Picture::new(levels, height, width)?;
            for (place, change) in (0..).zip(changes) {
                for operation in change.resolve(&draws, place, height, width) {
                    operation.apply(&mut picture, &mut self.scratch);
                }
            }
            Ok(())
        };
        if how.layout == PixelLayout::HeightWidthChannels {
            let size = decode(how, out)?;
            change(out, size)?;
            return Ok(size);
        }
        if self.pixels.len() < out.len() {
            self.pixels.resize(out.len(), 0);
        }
        let pixels = self.pixels.get_mut(..out.len()).unwrap_or_default();
        let size = decode(&Rendering { layout: PixelLayout::HeightWidthChannels, ..*how }, pixels)?;
        change(pixels, size)?;
        let area = size.iter().map(|&side| side as usize).product::<usize>();
        for (channel, plane) in out.chunks_exact_mut(area.max(1)).enumerate() {
            let levels = pixels.iter().skip(channel).step_by(3);
            plane.iter_mut().zip(levels).for_each(|(to, &level)| *to = level);
        }
        Ok(size)
    }
}

/// Refuses augmentations of pictures that do nothing, or train nonsense.
///
/// # Errors
/// `Usage` if there is no picture, an augmentation is not valid, a mask is stored as a picture, or
/// pixels move that an array of the sample still has at the old place.
pub(super) fn check(plans: &[FieldPlan], options: &LoaderOptions) -> Result<()> {
    let changes = &options.augment_pictures;
    if changes.is_empty() {
        return Ok(());
    }
    changes.iter().try_for_each(Augmentation::check)?;
    if changes.len() > Augmentation::MOST as usize {
        let expected = format!("at most {}", Augmentation::MOST);
        return Err(Error::usage("augmentations of pictures", expected, changes.len()));
    }
    let refuse = |expected: &str, found: String| Err(Error::usage("augmentation of pictures", expected, found));
    let is_picture = |plan: &&FieldPlan| matches!(plan.from, From::Picture { .. });
    let Some(first) = plans.iter().find(is_picture) else {
        return refuse("a field of pictures that are decoded", "none".into());
    };
    if let Some(mask) = plans.iter().filter(is_picture).find(|plan| is_mask(&plan.name)) {
        let found = format!("`{}`, a mask, whose classes would become others", mask.name.escape_debug());
        return refuse("pictures that are no masks", found)
            .map_err(|error| error.with_hint("leave it out of the fields, or pack masks as arrays"));
    }
    let fits = |plan: &&FieldPlan| matches!(plan.from, From::Array { indexed, .. } if indexed || is_mask(&plan.name));
    if let (Some(_), Some(array)) = (changes.iter().find(|change| change.moves()), plans.iter().find(fits)) {
        let found = format!(
            "one that moves the pixels of `{}`, and not those of `{}`",
            first.name.escape_debug(),
            array.name.escape_debug()
        );
        return refuse("one that leaves pixels at the place that arrays of the sample have", found).map_err(|error| {
            error.with_hint("leave one of the two out of the fields, or choose augmentations of colours")
        });
    }
    Ok(())
}
