//! Mixup, CutMix and mosaics. A batch is mixed just before the caller gets it: its tensors by the caller's thread or
//! on the device, and boxes, points, polygons and object masks always by the caller's thread.

mod objects;

use crate::batch::{Lent, shown};
use crate::fields::{FieldPlan, FieldType, Fields};
use crate::options::LoaderOptions;
use crate::rows::Rows;
use crate::stage::{MosaicRow, MosaicTile, PictureElements, RowMix, RowMosaic, StageSlot};
use shardpack_augment::{Augmentation, Mix, Mixed, Mosaic, MosaicPlan};
use shardpack_base::Draws;
use shardpack_format::{ErrorKind, Explain as _, bug, to_usize};
use shardpack_jpeg::PixelLayout;
use shardpack_reader::{Error, Result};
use std::io;
use std::sync::Arc;

/// Mixes the rows of a batch before the caller gets it, if the options request it. The host uses `threads` threads
/// for mosaics.
///
/// # Errors
/// `Io` if the device cannot mix the batch, or a record cannot be read again; `Limit` if the objects of a row become
/// too large; `Usage` if the objects of pictures that are combined have different shapes.
pub(crate) fn mix(options: &LoaderOptions, threads: usize, lent: &mut Lent) -> Result<()> {
    let Some(mix) = &options.output.mix else { return Ok(()) };
    let Some(mixing) = Mixing::of(&mix.choices, lent)? else { return Ok(()) };
    mixing.mix_tensors(options.output.layout, threads, lent)?;
    objects::mix(&mixing, lent)
}

/// The rows of a batch to mix, and the ways to mix them.
struct Mixing<'a> {
    choices: &'a [Mix],
    /// Indices of the rows to mix, ascending.
    rows: Vec<usize>,
    /// Random draws of each row.
    draws: Vec<Draws>,
    pictures: Vec<MixedPicture>,
}

struct MixedPicture {
    /// Position of the field among the stored fields.
    position: usize,
    /// Height and width.
    size: [u32; 2],
    /// For each of the mixed rows, the rectangle that contains the picture: left, top, right, bottom.
    contents: Vec<[u32; 4]>,
}

/// Height and width of a decoded picture or mask, and its number of channels.
#[derive(Clone, Copy)]
struct Sides {
    size: [u32; 2],
    channels: usize,
}

/// Returns the sides of a field if they are fixed.
fn sides(field: &FieldPlan, layout: PixelLayout) -> Option<Sides> {
    let [height, width, channels] = match (&*field.shape, layout) {
        (&[height, width], _) => [height, width, 1],
        (&[height, width, channels], PixelLayout::HeightWidthChannels) => [height, width, channels],
        (&[channels, height, width], PixelLayout::ChannelsHeightWidth) => [height, width, channels],
        _ => return None,
    };
    let side = |side: u64| u32::try_from(side).ok();
    Some(Sides { size: [side(height)?, side(width)?], channels: to_usize(channels) })
}

impl<'a> Mixing<'a> {
    /// Selects the rows of a batch to mix. Returns `None` if there are fewer than two.
    fn of(choices: &'a [Mix], lent: &Lent) -> Result<Option<Self>> {
        let plan = &lent.plan;
        let is_whole = |row: &usize| {
            let missing = |&(at, _): &(u32, u32)| usize::try_from(at) == Ok(*row);
            plan.mask.get(*row) == Some(&true) && !plan.missing.iter().any(missing)
        };
        let rows: Vec<usize> = (0..plan.indices.len()).filter(is_whole).collect();
        let draws_of = |&row: &usize| Some(lent.draw_key(*plan.indices.get(row)?, plan.rows.get(row)?).draws());
        let draws: Vec<Draws> = rows.iter().filter_map(draws_of).collect();
        if rows.len() < 2 || draws.len() != rows.len() {
            return Ok(None);
        }
        let mut mixing = Self { choices, rows, draws, pictures: Vec::new() };
        let Some(how) = mixing.how([1, 1]) else { return Ok(None) };
        mixing.pictures = pictures(&mixing.rows, matches!(how, Mixed::Mosaic(_)), lent)?;
        Ok(Some(mixing))
    }

    /// Chooses how to mix pictures of this height and width. It uses the draws of the first row.
    fn how(&self, [height, width]: [u32; 2]) -> Option<Mixed> {
        Mix::resolve(self.choices, self.draws.first()?, height as usize, width as usize)
    }

    fn picture(&self, position: usize) -> Option<&MixedPicture> {
        self.pictures.iter().find(|picture| picture.position == position)
    }

    /// Returns the index, among the mixed rows, of the row that is `back` rows before row `number`.
    fn before(&self, number: usize, back: usize) -> usize {
        let count = self.rows.len();
        (number + count - back % count) % count
    }

    fn plan_of(&self, mosaic: &Mosaic, number: usize, [height, width]: [u32; 2]) -> Option<MosaicPlan> {
        mosaic.resolve(self.draws.get(number)?, height, width)
    }

    /// Returns the pictures of a mosaic: row `number` itself, and the three rows before it.
    fn tiles(&self, plan: &MosaicPlan, number: usize, contents: &[[u32; 4]]) -> [MosaicTile; 4] {
        [0, 1, 2, 3].map(|tile| {
            let row = self.before(number, tile);
            let content = contents.get(row).copied().unwrap_or_default();
            MosaicTile { row, offset: plan.offset(tile, content), content }
        })
    }

    fn mix_tensors(&self, layout: PixelLayout, threads: usize, lent: &mut Lent) -> Result<()> {
        let Lent { slot: Some(slot), plan, fields, .. } = lent else { return Ok(()) };
        let first = fields.plans.iter().find(|plan| matches!(plan.kind, FieldType::Picture(_)));
        for (number, field) in fields.plans.iter().enumerate() {
            let of = match &field.kind {
                FieldType::Picture(_) | FieldType::Mask(_) => sides(field, layout),
                // For one-hot labels, use the size of the first picture, because a CutMix rectangle is rounded to
                // whole pixels of that picture.
                FieldType::OneHot(_) => first.and_then(|picture| sides(picture, layout)),
                _ => continue,
            };
            let Some(sides @ Sides { size, channels }) = of else { continue };
            let Some(mixed) = self.how(size) else { continue };
            let rows = plan.indices.len();
            let parts = plan.parts.get(number * rows..(number + 1) * rows).unwrap_or_default();
            let parts: Vec<_> = self.rows.iter().filter_map(|&row| parts.get(row).cloned()).collect();
            let done = match (mixed, &field.kind) {
                (Mixed::Mosaic(_), FieldType::OneHot(_)) => continue,
                (Mixed::Mosaic(mosaic), _) => {
                    let mosaic = self.mosaic(&mosaic, field, sides, fields);
                    run(slot, |stage| stage.mosaic(&parts, &mosaic), |memory| mosaic.apply(&parts, memory, threads))
                }
                (how, kind) => {
                    let how =
                        if matches!(kind, FieldType::OneHot(_)) { Mixed::Sum { share: how.share() } } else { how };
                    let mix = RowMix { how, dtype: field.dtype, layout, columns: size[1] as usize, channels };
                    run(slot, |stage| stage.mix(&parts, &mix), |memory| mix.apply(&parts, memory))
                }
            };
            done.map_err(|error| Error::io(format!("batch {}", plan.in_epoch), "mix the batch on the device", error))?;
        }
        Ok(())
    }

    fn mosaic(&self, mosaic: &Mosaic, field: &FieldPlan, sides: Sides, fields: &Fields) -> RowMosaic {
        let Sides { size, channels } = sides;
        let layout = fields.layout;
        let bits = |element: &[u8]| element.iter().rev().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
        let (position, fill, is_bilinear) = match &field.kind {
            FieldType::Mask(mask) => (Some(mask.picture.position), [bits(&mask.fill); 3], false),
            _ => {
                let elements = PictureElements { dtype: field.dtype, layout, scaling: fields.scaling };
                let elements = elements.of(&mosaic.fill).unwrap_or_default();
                let mut of = elements.chunks(to_usize(field.dtype.bytes()).max(1)).map(bits);
                let fill = [0; 3].map(|nothing| of.next().unwrap_or(nothing));
                (field.kind.position(), fill, true)
            }
        };
        let whole = vec![[0, 0, size[1], size[0]]; self.rows.len()];
        let picture = position.and_then(|position| self.picture(position));
        let contents = picture.filter(|picture| picture.size == size);
        let contents = contents.map_or(&whole, |picture| &picture.contents);
        let row = |number: usize| {
            let plan = self.plan_of(mosaic, number, size)?;
            let tiles = self.tiles(&plan, number, contents);
            Some(MosaicRow { inverse: plan.inverse(), centre: plan.centre(), tiles })
        };
        let rows = (0..self.rows.len()).map(row).collect();
        RowMosaic { dtype: field.dtype, layout, size, channels, fill, is_bilinear, rows }
    }
}

/// Returns the picture fields of the batch. If `are_cut` is true and no augmentation has moved the pixels, the
/// rectangle of a picture excludes the borders of its view. Otherwise, each picture fills its row.
fn pictures(rows: &[usize], are_cut: bool, lent: &Lent) -> Result<Vec<MixedPicture>> {
    let of = |plan: &FieldPlan| {
        let FieldType::Picture(field) = &plan.kind else { return Ok(None) };
        let Some(Sides { size, .. }) = sides(plan, lent.fields.layout) else { return Ok(None) };
        let whole = [0, 0, size[1], size[0]];
        let is_padded = field.view.framing.has_border();
        let is_moved = field.changes(&lent.fields.changes).iter().any(Augmentation::moves);
        let shown = match are_cut && is_padded && !is_moved {
            true => match shown(lent, &plan.name) {
                // If the index contains no sizes, the borders count as part of the picture.
                Err(error) if error.kind() == ErrorKind::Usage => Vec::new(),
                shown => shown?,
            },
            false => Vec::new(),
        };
        let content = |row: &usize| match shown.get(*row) {
            Some(Some(shown)) => {
                let inner = shown.crop.inner;
                [inner.x, inner.y, inner.right(), inner.bottom()]
            }
            _ => whole,
        };
        Ok(Some(MixedPicture { position: field.position, size, contents: rows.iter().map(content).collect() }))
    };
    lent.fields.plans.iter().filter_map(|plan| of(plan).transpose()).collect()
}

/// Runs `on_device` if the batch is on a device, and `on_host` on the batch's memory otherwise.
fn run(
    slot: &mut Arc<Rows>,
    on_device: impl FnOnce(&dyn StageSlot) -> io::Result<()>,
    on_host: impl FnOnce(&mut [u8]),
) -> io::Result<()> {
    if let Some(stage) = slot.stage() {
        return on_device(&**stage);
    }
    match Rows::bytes_mut(slot) {
        Some(memory) => on_host(memory),
        None => bug("a batch is mixed while in use"),
    }
    Ok(())
}
