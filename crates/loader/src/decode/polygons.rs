//! Moves polygons with the view of their picture. Polygons are stored as an array of points, or as nested JSON lists
//! as in COCO.

use super::shape::{RemainingRows, Shape, check_rows, floats};
use super::unit::UnitEvidence;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use shardpack_array::Array;
use shardpack_format::{Error, Limits, Result};
use std::fmt;

/// Aligns an array of points, `[…, points, 2]`, with the view. No point is hidden or clipped, and NaN stays NaN.
pub(crate) fn of_array(shape_of: &[u64], numbers: &[f64], relative: bool, shape: &Shape) -> Result<Array> {
    if !numbers.is_empty() && !matches!(shape_of, [_, .., 2]) {
        let expected = "[points, 2] or [polygons, points, 2]";
        return Err(Error::usage(format!("the shape must be {expected}, but is {shape_of:?}")));
    }
    let mut unit = UnitEvidence::default();
    let (points, _) = numbers.as_chunks::<2>();
    let mut out = Vec::with_capacity(numbers.len());
    for point in points {
        unit.see(*point);
        out.extend(placed(*point, relative, shape));
    }
    if shape.is_stored {
        unit.check(relative, "polygons", "one point")?;
    }
    floats(&out, shape_of.to_vec())
}

/// Aligns JSON polygons with the view. Lists of numbers are read as x, y, x, y and so on. Lists may be nested to any
/// depth. The outermost list has one item per object. An object without lists, such as a COCO run-length mask,
/// becomes `null`. `kept` lists the objects that remain.
///
/// # Errors
/// `Usage` if a list contains anything but numbers and lists, has an odd count of numbers, or has numbers
/// clearly in the wrong unit, or if the number of objects differs from the number of boxes. `Format` if the
/// text is not JSON; `Limit` if the result exceeds the limit for a decoded field.
pub(crate) fn of_json(
    text: &str,
    relative: bool,
    shape: &Shape,
    kept: Option<&RemainingRows>,
    limits: &Limits,
) -> Result<String> {
    let mut walk = PolygonWalk {
        out: String::with_capacity(text.len()),
        relative,
        shape,
        kept,
        objects: 0,
        unit: UnitEvidence::default(),
        most_bytes: limits.max_decoded_bytes,
        problem: None,
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let read = Items { walk: &mut walk, depth: 0 }.deserialize(&mut json).and_then(|()| json.end());
    if let Some(problem) = walk.problem {
        return Err(problem);
    }
    read.map_err(|error| Error::format("polygons", "valid JSON", format_args!("invalid JSON ({error})")))?;
    if shape.is_stored {
        walk.unit.check(relative, "polygons", "one point")?;
    }
    if let Some(kept) = kept {
        check_rows(walk.objects, kept)?;
    }
    Ok(walk.out)
}

fn placed([x, y]: [f64; 2], relative: bool, shape: &Shape) -> [f64; 2] {
    let (from, to) = shape.units(relative);
    let [x, y] = shape.moved([x * from[0], y * from[1]]);
    [x / to[0], y / to[1]]
}

struct PolygonWalk<'a> {
    out: String,
    relative: bool,
    shape: &'a Shape,
    kept: Option<&'a RemainingRows>,
    /// Number of items read so far from the outermost list.
    objects: usize,
    unit: UnitEvidence<2>,
    most_bytes: u64,
    problem: Option<Error>,
}

impl PolygonWalk<'_> {
    fn refuse<E: serde::de::Error>(&mut self, expected: &'static str, found: impl Into<String>) -> E {
        self.problem.get_or_insert(Error::usage(format!("polygons: expected {expected}, found {}", found.into())));
        E::custom(expected)
    }
}

struct Items<'w, 'a> {
    walk: &'w mut PolygonWalk<'a>,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Items<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

const LISTS: &str = "[x, y, x, y, …] or nested lists of this form";

/// Implements methods of a visitor that refuse values of other types.
macro_rules! refuse {
    ($($visit:ident($value:ty) => $found:literal,)+) => {$(
        fn $visit<E: serde::de::Error>(self, _: $value) -> Result<(), E> {
            Err(self.walk.refuse(LISTS, $found))
        }
    )+};
}

impl<'de> Visitor<'de> for Items<'_, '_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(LISTS)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { walk, depth } = self;
        walk.out.push('[');
        let mut list = List::default();
        loop {
            if depth == 0
                && let Some(kept) = walk.kept
                && kept.rows.binary_search(&walk.objects).is_err()
            {
                if items.next_element::<IgnoredAny>()?.is_none() {
                    break;
                }
                walk.objects += 1;
                continue;
            }
            if items.next_element_seed(Item { walk, depth, list: &mut list })?.is_none() {
                break;
            }
            if depth == 0 {
                walk.objects += 1;
            }
        }
        if list.x.is_some() {
            return Err(walk.refuse("pairs of x and y", "a list with an odd number of values"));
        }
        if list.has_points && list.has_lists {
            return Err(walk.refuse(LISTS, "a list that mixes numbers and lists"));
        }
        walk.out.push(']');
        Ok(())
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Err(self.walk.refuse(LISTS, "null"))
    }

    fn visit_map<A: MapAccess<'de>>(self, _: A) -> Result<(), A::Error> {
        Err(self.walk.refuse(LISTS, "an object"))
    }

    refuse! {
        visit_str(&str) => "a string",
        visit_bool(bool) => "a boolean",
        visit_f64(f64) => "a number",
        visit_i64(i64) => "a number",
        visit_u64(u64) => "a number",
    }
}

#[derive(Default)]
struct List {
    /// The x coordinate of a point whose y coordinate has not been read yet.
    x: Option<f64>,
    has_points: bool,
    has_lists: bool,
}

struct Item<'w, 'a> {
    walk: &'w mut PolygonWalk<'a>,
    depth: usize,
    list: &'w mut List,
}

impl<'de> DeserializeSeed<'de> for Item<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl Item<'_, '_> {
    fn begin(&mut self) {
        if self.list.has_lists {
            self.walk.out.push(',');
        }
        self.list.has_lists = true;
    }
}

impl<'de> Visitor<'de> for Item<'_, '_> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(LISTS)
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, items: A) -> Result<(), A::Error> {
        self.begin();
        Items { walk: self.walk, depth: self.depth + 1 }.visit_seq(items)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        self.begin();
        self.walk.out.push_str("null");
        Ok(())
    }

    fn visit_unit<E: serde::de::Error>(mut self) -> Result<(), E> {
        self.begin();
        self.walk.out.push_str("null");
        Ok(())
    }

    #[expect(clippy::cast_possible_truncation, reason = "rounded to the nearest")]
    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        let Self { walk, list, depth } = self;
        if depth == 0 && walk.kept.is_some() {
            return Err(walk.refuse("one list of polygons per box", "a number"));
        }
        let Some(x) = list.x.take() else {
            list.x = Some(number);
            return Ok(());
        };
        walk.unit.see([x, number]);
        let [x, y] = placed([x, number], walk.relative, walk.shape).map(|number| number as f32);
        if !(x.is_finite() && y.is_finite()) {
            return Err(walk.refuse("numbers in the range of float32", format!("{number:?}")));
        }
        let comma = if list.has_points { "," } else { "" };
        list.has_points = true;
        walk.out.push_str(&format!("{comma}{x:?},{y:?}"));
        let bytes = walk.out.len() as u64;
        if bytes > walk.most_bytes {
            let error = Error::limit("size of the polygons", "max_decoded_bytes", walk.most_bytes, bytes);
            let text = error.to_string();
            walk.problem.get_or_insert(error);
            return Err(E::custom(text));
        }
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        self.visit_f64(number as f64)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        self.visit_f64(number as f64)
    }

    refuse! {
        visit_str(&str) => "a string",
        visit_bool(bool) => "a boolean",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode::shape::VisiblePart;
    use shardpack_jpeg::{Area, Crop, Rect};

    fn doubled(flip: bool) -> Shape {
        let area = Area { x: 0.0, y: 0.0, width: 8.0, height: 8.0 };
        let inner = Rect { x: 0, y: 0, width: 16, height: 16 };
        let crop = Crop { area, window: inner, height: 16, width: 16, flip, inner, fill: [0; 3] };
        Shape {
            picture: [16, 16],
            crop,
            moves: Vec::new(),
            visible: VisiblePart::All,
            has_centres: false,
            is_stored: true,
        }
    }

    #[test]
    fn lists_keep_their_form() {
        let moved = |text: &str| of_json(text, false, &doubled(false), None, &Limits::default());
        for (text, expected) in [
            ("[]", "[]"),
            ("[[]]", "[[]]"),
            ("[1, 2, 30, -4.5]", "[2.0,4.0,60.0,-9.0]"),
            ("[[1,2],[3,4]]", "[[2.0,4.0],[6.0,8.0]]"),
            (
                "[[[1,2,3,4,0.1,6]],[[7,8,9,10,1e1,12],[1,1,2,2]]]",
                "[[[2.0,4.0,6.0,8.0,0.2,12.0]],[[14.0,16.0,18.0,20.0,20.0,24.0],[2.0,2.0,4.0,4.0]]]",
            ),
            (r#"[{"size":[16,16],"counts":[3,9]},null,[[5,5,6,6]]]"#, "[null,null,[[10.0,10.0,12.0,12.0]]]"),
        ] {
            assert_eq!(moved(text).unwrap(), expected, "{text}");
        }
        assert_eq!(of_json("[[3,4]]", false, &doubled(true), None, &Limits::default()).unwrap(), "[[10.0,8.0]]");
        assert_eq!(of_json("[[0.25,0.5]]", true, &doubled(false), None, &Limits::default()).unwrap(), "[[0.5,1.0]]");
    }

    #[test]
    fn objects_out_of_sight_are_left_out() {
        let kept = |of, rows: &[usize]| RemainingRows { of, rows: rows.to_vec() };
        let moved =
            |text: &str, kept: &RemainingRows| of_json(text, false, &doubled(false), Some(kept), &Limits::default());
        let three = "[[[1,2,3,4]],[[5,6,7,8]],[[9,10,11,12]]]";
        assert_eq!(moved(three, &kept(3, &[0, 2])).unwrap(), "[[[2.0,4.0,6.0,8.0]],[[18.0,20.0,22.0,24.0]]]");
        assert_eq!(moved(three, &kept(3, &[])).unwrap(), "[]");
        assert_eq!(moved("[null,[[2,2,3,3]]]", &kept(2, &[1])).unwrap(), "[[[4.0,4.0,6.0,6.0]]]");
        let error = moved(three, &kept(2, &[0])).unwrap_err().to_string();
        assert!(error.contains("expected one row for each of 2 boxes, found 3 rows"), "{error}");
        let error = moved("[1,2]", &kept(1, &[0])).unwrap_err().to_string();
        assert!(error.contains("expected one list of polygons per box, found a number"), "{error}");
    }

    #[test]
    fn other_json_than_polygons_is_refused() {
        for (text, said) in [
            ("3", "nested lists of this form, found a number"),
            ("null", "found null"),
            ("{}", "found an object"),
            ("[[1,2,3]]", "an odd number of values"),
            ("[[1,2,[3,4]]]", "a list that mixes numbers and lists"),
            (r#"[["a"]]"#, "found a string"),
            ("[[true]]", "found a boolean"),
            ("[[1e300,5]]", "numbers in the range of float32"),
            ("[[0.25,0.5]]", "polygons must be in pixels, but all numbers in the sample are from 0 to 1"),
        ] {
            let error = of_json(text, false, &doubled(false), None, &Limits::default()).unwrap_err();
            assert!(matches!(error, Error::Usage { .. }) && error.to_string().contains(said), "{text}: {error}");
        }
        let error = of_json("[[100,50]]", true, &doubled(false), None, &Limits::default()).unwrap_err().to_string();
        assert!(error.contains("relative polygon"), "{error}");
        let deep = "[".repeat(100_000);
        for text in ["[[1,2]", "[[1,2]]x", "[[NaN,2]]", "", &deep] {
            let error = of_json(text, false, &doubled(false), None, &Limits::default()).unwrap_err();
            assert!(!matches!(error, Error::Usage { .. }), "{error}");
        }
    }

    #[test]
    fn aligned_json_has_a_limit() {
        let text = format!("[[{}]]", vec!["3,3"; 1000].join(","));
        let limits = |max_decoded_bytes| Limits { max_decoded_bytes, ..Limits::default() };
        let moved = |limits| of_json(&text, false, &doubled(false), None, &limits);
        assert_eq!(moved(limits(8003)).unwrap().len(), 8003);
        let error = moved(limits(8000)).unwrap_err();
        assert!(matches!(error, Error::Limit { .. }), "{error}");
    }

    #[test]
    fn arrays_keep_their_shape() {
        let moved = |shape: &[u64], numbers: &[f64]| of_array(shape, numbers, false, &doubled(false));
        let numbers = |array: Array| -> Vec<f32> {
            array.bytes().as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
        };
        assert_eq!(numbers(moved(&[2, 2], &[1.0, 2.0, 40.0, -4.0]).unwrap()), [2.0, 4.0, 80.0, -8.0]);
        // Polygons with fewer points than others in their array are padded with NaN.
        let padded = numbers(moved(&[1, 2, 2], &[1.0, 2.0, f64::NAN, f64::NAN]).unwrap());
        assert!(padded[..2] == [2.0, 4.0] && padded[2..].iter().all(|number| number.is_nan()));
        assert_eq!(moved(&[0], &[]).unwrap().shape(), [0]);
        assert!(moved(&[1, 3], &[1.0, 2.0, 3.0]).unwrap_err().to_string().contains("[points, 2]"));
        assert!(moved(&[2], &[1.0, 2.0]).is_err());
    }
}
