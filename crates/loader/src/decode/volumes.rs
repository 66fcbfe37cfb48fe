//! Boxes of volumes. A volume is decoded as a whole, once for all of its boxes, and these are cut out
//! of it.

use super::array_row::{ArrayRows, check_alike, fill, plain_bytes, set_turn, vary};
use super::recipe::Recipe;
use super::record::FieldOf;
use crate::fields::{CutOf, Volume, loses};
use crate::patches::PatchAt;
use crate::sample::SampleAt;
use shardpack_array::{As, Finish, decoded_as};
use shardpack_format::{
    ArrayDescriptor, ElementType, Error as FormatError, FieldValue, Layout, Result as FormatResult, to_usize,
};

impl Volume {
    /// Where a box lies in a volume of these sides; `None` if it is larger.
    fn origin(&self, recipe: &Recipe, at: SampleAt, sides: [u64; 3]) -> FormatResult<Option<[u64; 3]>> {
        match &recipe.fields.patches {
            Some(patches) if patches.grid.is_some() => patches.in_grid((at.sample, at.patch), sides),
            _ => Ok(at.origin.or_else(|| self.place.origin_in_volume(&recipe.key(at), sides, self.size))),
        }
    }
}

impl ArrayRows {
    /// Decodes a volume and cuts the boxes `draws` out of it, each into its own part of `outs`.
    pub(crate) fn decode_boxes(
        &mut self,
        recipe: &Recipe,
        of: &FieldOf<'_>,
        value: &FieldValue<'_>,
        volume: &Volume,
        draws: &[SampleAt],
        outs: &mut [&mut [u8]],
    ) -> FormatResult<Vec<PatchAt>> {
        let limits = &of.shard.options().limits;
        let source = ArrayDescriptor::parse(value.descriptor, limits)?;
        let descriptor = match (volume.finish.to, of.field.dtype) {
            (As::Decoded, ElementType::Dtype(dtype)) if source.decoded != dtype => {
                decoded_as(&source, dtype).ok_or_else(|| loses(&of.field.name, &source, dtype))?
            }
            _ => source,
        };
        let (expected, found) = (&of.field.shape, &descriptor.shape);
        let (&[depth, height, width], true) = (found.get(..3).unwrap_or_default(), found.len() == expected.len())
        else {
            return Err(FormatError::usage("axes of a volume", expected.len(), format!("{found:?}")));
        };
        if found.get(3) != expected.get(3) {
            return Err(FormatError::usage("channels of a volume", format!("{expected:?}"), format!("{found:?}")));
        }
        let sides = [depth, height, width];
        check_alike("arrays to cut alike", sides, of, &mut self.cut)?;
        // All places before anything is decoded: what does not fit costs nothing.
        let mut origins = Vec::with_capacity(draws.len());
        for &at in draws {
            let origin = volume.origin(recipe, at, sides)?.ok_or_else(|| {
                let ([a, b, c], [d, h, w]) = (volume.size, sides);
                let expected = format!("at most {d} × {h} × {w}, the array's size");
                FormatError::usage("patch", expected, format!("{a} × {b} × {c}"))
            })?;
            origins.push(origin);
        }
        let mut finish = Finish { fill: fill(volume.fill, &descriptor), ..volume.finish.clone() };
        let base = volume.finish.factors.as_ref().filter(|_| volume.is_banded);
        let bytes = plain_bytes(descriptor.decoded, found, limits)?;
        let whole = &mut self.volume;
        if whole.len() < bytes {
            whole.resize(bytes, 0);
        }
        let whole = whole.get_mut(..bytes).unwrap_or_default();
        self.decoder.decode_into(value.codec, &descriptor, value.bytes, whole, limits)?;
        let channels = expected.get(3).copied().unwrap_or(1);
        let pixel = channels.saturating_mul(descriptor.decoded.bytes());
        let mut cut = Vec::new();
        let [a, b, c] = volume.size;
        for ((origin, &at), out) in origins.iter().zip(draws).zip(outs) {
            let of = FieldOf { at, ..*of };
            set_turn(&mut finish, recipe, &of, [b, c]);
            vary(&mut finish, base, recipe, &of, (false, expected))?;
            if finish.is_nothing(descriptor.decoded) {
                copy_box(whole, (sides, pixel), (*origin, volume.size), out)?;
                continue;
            }
            let length = a.saturating_mul(b).saturating_mul(c).saturating_mul(pixel);
            cut.resize(to_usize(length), 0);
            copy_box(whole, (sides, pixel), (*origin, volume.size), &mut cut)?;
            if finish.turn.is_none() {
                finish.apply(descriptor.decoded, ([a * b, c, channels], Layout::AsShape), &cut, out)?;
                continue;
            }
            // Each plane is turned by itself.
            let planes = to_usize(a).max(1);
            let [from, to] = [cut.len(), out.len()].map(|bytes| (bytes / planes).max(1));
            for (plane, out) in cut.chunks(from).zip(out.chunks_mut(to)) {
                finish.apply(descriptor.decoded, ([b, c, channels], Layout::AsShape), plane, out)?;
            }
        }
        let place = |(at, origin): (&SampleAt, &[u64; 3])| {
            CutOf { size: sides, origin: Some(*origin), is_volume: true }.at(at.patch)
        };
        self.cut = origins.last().map(|&origin| CutOf { size: sides, origin: Some(origin), is_volume: true });
        Ok(draws.iter().zip(&origins).map(place).collect())
    }
}

/// Copies a box of `size` pixels at `origin` out of a volume, row after row.
pub(crate) fn copy_box(
    whole: &[u8],
    (sides, pixel): ([u64; 3], u64),
    (origin, size): ([u64; 3], [u64; 3]),
    out: &mut [u8],
) -> FormatResult<()> {
    let row = to_usize(size[2].saturating_mul(pixel));
    let rows = (0..size[0]).flat_map(|plane| (0..size[1]).map(move |row| (plane, row)));
    let expected = out.len();
    let mut copied = 0;
    for ((plane, line), to) in rows.zip(out.chunks_exact_mut(row.max(1))) {
        // In a volume that was decoded: the products were made for it.
        let start = (((origin[0] + plane) * sides[1] + origin[1] + line) * sides[2] + origin[2]) * pixel;
        let from = usize::try_from(start).ok().and_then(|start| whole.get(start..start.checked_add(row)?));
        to.copy_from_slice(from.ok_or_else(|| FormatError::internal("row of a volume", sides[2], start))?);
        copied += row;
    }
    if copied != expected {
        return Err(FormatError::internal("bytes of a box", expected, copied));
    }
    Ok(())
}
