//! Mixes boxes, points, polygons and object masks. A mixed row has the objects of all its pictures, one picture after
//! another.

use super::{Lent, Mixing};
use crate::decode::{PictureMove, Shape, VisiblePart, align};
use crate::fields::{Followed, Follows, Object, ObjectPlan};
use shardpack_array::Array;
use shardpack_augment::Mixed;
use shardpack_format::{Dtype, ElementType, Error, Limits, Result, to_usize};
use shardpack_jpeg::{Area, Crop, Rect};
use std::iter;
use std::mem;
use std::sync::Arc;

/// A picture that a mixed row shows: the index of the picture's own row among the mixed rows, and the weight of the
/// picture.
struct MixedPart {
    number: usize,
    weight: f64,
}

/// Replaces the objects of the mixed rows.
pub(super) fn mix(mixing: &Mixing<'_>, lent: &mut Lent) -> shardpack_reader::Result<()> {
    let (fields, limits) = (Arc::clone(&lent.fields), lent.dataset.limits().clone());
    let plans = &fields.objects;
    if plans.iter().all(|plan| plan.follows == Follows::Nothing) {
        return Ok(());
    }
    let mut before: Vec<Option<Vec<Option<Object>>>> = vec![None; lent.plan.indices.len()];
    let mut after = Vec::new();
    for (row, objects) in mem::take(&mut lent.plan.objects) {
        match before.get_mut(to_usize(row)) {
            Some(to) if mixing.rows.binary_search(&to_usize(row)).is_ok() => *to = Some(objects),
            _ => after.push((row, objects)),
        }
    }
    let of = |number: usize| mixing.rows.get(number).and_then(|&row| before.get(row)?.as_deref());
    for (number, row) in (0..).zip(&mixing.rows) {
        let Some(own) = of(number) else { continue };
        let row = u32::try_from(*row).unwrap_or(u32::MAX);
        let parts = mixing.parts(number);
        if parts.is_empty() {
            after.push((row, own.to_vec()));
            continue;
        }
        let mut aligned = Vec::new();
        for (place, part) in parts.iter().enumerate() {
            let mut objects = of(part.number).map_or_else(|| vec![None; plans.len()], <[_]>::to_vec);
            align(plans, &mut objects, &limits, |picture| Ok(mixing.shape(number, place, part, picture)))?;
            aligned.push((objects, part.weight));
        }
        let mut joined = Vec::new();
        let mut weights = Vec::new();
        for (index, plan) in plans.iter().enumerate() {
            let each = || aligned.iter().filter_map(|(of, weight)| Some((of.get(index)?.as_ref()?, *weight)));
            joined.push(match &plan.follows {
                Follows::Nothing => own.get(index).cloned().flatten(),
                _ => join(plan, each().map(|(object, _)| object), &limits)?,
            });
            weights.push(if plan.follows == Follows::Nothing { Vec::new() } else { weights_of(each()) });
        }
        after.push((row, joined));
        if parts.iter().any(|part| part.weight != 1.0) {
            lent.plan.weights.push((row, weights));
        }
    }
    lent.plan.objects = after;
    Ok(())
}

impl Mixing<'_> {
    /// Returns the pictures that row `number` shows. The list is empty if the row stays unchanged.
    fn parts(&self, number: usize) -> Vec<MixedPart> {
        let part = |back: usize, weight: f64| MixedPart { number: self.before(number, back), weight };
        match self.how([1, 1]) {
            None => Vec::new(),
            Some(Mixed::Sum { share }) => vec![part(0, share), part(1, 1.0 - share)],
            Some(Mixed::Rectangle { .. }) => vec![part(0, 1.0), part(1, 1.0)],
            Some(Mixed::Mosaic(mosaic)) => match self.plan_of(&mosaic, number, [1, 1]) {
                Some(_) => (0..4).map(|back| part(back, 1.0)).collect(),
                None => Vec::new(),
            },
        }
    }

    /// Returns where row `number` shows the picture of `part`, for values that follow `picture`. The values are
    /// already aligned with their own row, so that whole row counts as the picture.
    fn shape(&self, number: usize, place: usize, part: &MixedPart, picture: &Followed) -> Option<Shape> {
        let (height, width) = picture.view.size()?;
        let size = [height, width];
        let inner = Rect::whole(width, height);
        let area = Area { x: 0.0, y: 0.0, width: width.into(), height: height.into() };
        let crop = Crop { area, window: inner, height, width, flip: false, inner, fill: [0; 3] };
        let shape = Shape {
            picture: size,
            crop,
            moves: Vec::new(),
            visible: VisiblePart::All,
            has_centres: false,
            is_stored: false,
        };
        Some(match self.how(size)? {
            Mixed::Sum { .. } => shape,
            Mixed::Rectangle { origin: [top, left], size: [rows, columns], .. } => {
                let rectangle = [left, top, left + columns, top + rows].map(|side| side as f64);
                let visible = if place == 0 { VisiblePart::Outside(rectangle) } else { VisiblePart::Inside(rectangle) };
                Shape { visible, ..shape }
            }
            Mixed::Mosaic(mosaic) => {
                let plan = self.plan_of(&mosaic, number, size)?;
                let whole = [0, 0, width, height];
                let of = self.picture(picture.position).filter(|of| of.size == size);
                let content = of.and_then(|of| of.contents.get(part.number)).copied().unwrap_or(whole);
                let map = plan.map(plan.offset(place, content));
                Shape { moves: vec![PictureMove { map, augmentation: 0 }], ..shape }
            }
        })
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounded to the nearest")]
fn weights_of<'a>(parts: impl Iterator<Item = (&'a Object, f64)>) -> Vec<f32> {
    let of = |(object, weight): (&Object, f64)| {
        let rows = if let Object::Array(array) = object { array.shape().first().copied().unwrap_or(0) } else { 0 };
        iter::repeat_n(weight as f32, to_usize(rows))
    };
    parts.flat_map(of).collect()
}

/// Concatenates the values of several pictures along the first axis.
///
/// # Errors
/// `Usage` if arrays have different shapes; `Limit` if the result exceeds the limit for a decoded field.
fn join<'a>(plan: &ObjectPlan, parts: impl Iterator<Item = &'a Object>, limits: &Limits) -> Result<Option<Object>> {
    let parts: Vec<&Object> = parts.collect();
    let arrays: Vec<&Array> =
        parts.iter().filter_map(|part| if let Object::Array(array) = part { Some(array) } else { None }).collect();
    if parts.is_empty() {
        return Ok(None);
    }
    if arrays.is_empty() {
        let texts = parts.iter().filter_map(|part| if let Object::Json(text) = part { Some(&**text) } else { None });
        return Ok(Some(Object::Json(joined_json(texts))));
    }
    // Ignore arrays without rows, because their shape does not matter.
    let filled: Vec<&Array> = arrays.iter().copied().filter(|array| !array.bytes().is_empty()).collect();
    let (Some(first), rows) = (filled.first(), filled.iter().filter_map(|array| array.shape().first()).sum()) else {
        return Ok(arrays.first().map(|array| Object::Array((*array).clone())));
    };
    let rest = |array: &Array| array.shape().get(1..).unwrap_or_default().to_vec();
    let longest = filled.iter().map(|array| rest(array)).max().unwrap_or_default();
    let bytes_of = |rest: &[u64]| ElementType::from(first.dtype()).array_bytes(rest).map(to_usize);
    let (mut bytes, most) = (Vec::new(), bytes_of(&longest)?);
    for array in &filled {
        let own = rest(array);
        // Polygons with fewer points are padded with NaN.
        let is_shorter = matches!((&*own, &*longest), ([_, 2], [_, 2])) && first.dtype() == Dtype::F32;
        if array.dtype() != first.dtype() || own != longest && !is_shorter {
            let name = plan.name.escape_debug();
            let text = format!(
                "the rows of field `{name}` must have the same shape and type, but have the shapes {longest:?} and \
                 {own:?}, and the types {} and {}",
                first.dtype(),
                array.dtype()
            );
            return Err(Error::usage(text)
                .with_hint("leave the field out, or pack all its arrays with the same shape and type"));
        }
        let own = bytes_of(&own)?;
        for row in array.bytes().chunks_exact(own.max(1)) {
            bytes.extend_from_slice(row);
            bytes.extend(iter::repeat_n(f32::NAN.to_le_bytes(), most.saturating_sub(own) / 4).flatten());
        }
    }
    let size = bytes.len() as u64;
    if size > limits.max_decoded_bytes {
        return Err(Error::limit("size of the mixed values", "max_decoded_bytes", limits.max_decoded_bytes, size));
    }
    let shape = iter::once(rows).chain(longest).collect();
    Array::new(first.dtype(), shape, bytes).map(|array| Some(Object::Array(array)))
}

/// Concatenates JSON lists: `[a,b]` and `[c]` become `[a,b,c]`. A list of numbers is a single polygon, and becomes
/// one item of the result.
fn joined_json<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut all = String::from("[");
    for text in texts {
        let inner = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or_default();
        if inner.is_empty() {
            continue;
        }
        let is_list = inner.starts_with(['[', 'n']);
        if all.len() > 1 {
            all.push(',');
        }
        all.push_str(if is_list { inner } else { text });
    }
    all.push(']');
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_joined() {
        let joined = |texts: &[&str]| joined_json(texts.iter().copied());
        assert_eq!(joined(&["[[1.0,2.0]]", "[]", "[null,[[3.0,4.0]]]"]), "[[1.0,2.0],null,[[3.0,4.0]]]");
        assert_eq!(joined(&["[1.0,2.0]", "[-3.0,4.0]"]), "[[1.0,2.0],[-3.0,4.0]]");
        assert_eq!(joined(&["[]", "[]"]), "[]");
    }

    #[test]
    fn arrays_are_joined_along_their_first_axis() {
        let plan = ObjectPlan {
            name: "polygons".into(),
            kind: shardpack_format::FieldKind::Array,
            position: 0,
            follows: Follows::Boxes(0),
        };
        let array = |shape: &[u64]| {
            let count: u64 = shape.iter().product();
            let bytes = (0..count).flat_map(|n| (n as f32).to_le_bytes()).collect();
            Object::Array(Array::new(Dtype::F32, shape.to_vec(), bytes).unwrap())
        };
        let join = |parts: &[&Object]| join(&plan, parts.iter().copied(), &Limits::default());
        let Some(Object::Array(two)) = join(&[&array(&[1, 2, 2]), &array(&[0, 4]), &array(&[2, 3, 2])]).unwrap() else {
            panic!("an array");
        };
        let numbers: Vec<f32> = two.bytes().as_chunks().0.iter().map(|x| f32::from_le_bytes(*x)).collect();
        assert_eq!(two.shape(), [3, 3, 2]);
        assert_eq!(numbers[..4], [0.0, 1.0, 2.0, 3.0]);
        assert!(numbers[4].is_nan() && numbers[5].is_nan());
        assert_eq!(numbers[6..], (0..12).map(|n| n as f32).collect::<Vec<_>>());
        assert_eq!(join(&[]).unwrap(), None);
        let error = join(&[&array(&[1, 4]), &array(&[1, 5])]).unwrap_err().to_string();
        assert!(
            error.contains(
                "the rows of field `polygons` must have the same shape and type, but have the shapes [5] and [4]"
            ),
            "{error}"
        );
        let few = Limits { max_decoded_bytes: 20, ..Limits::default() };
        let error = super::join(&plan, [&array(&[2, 4])].into_iter(), &few).unwrap_err();
        assert!(matches!(error, Error::Limit { .. }));
    }
}
