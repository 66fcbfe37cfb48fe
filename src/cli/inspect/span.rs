//! Computes the range of values of a scalar field.

use crate::cli::units;
use shardpack_format::Field;
use shardpack_reader::Scalar;

pub(super) struct Span {
    pub(super) field: Field,
    /// Minimum and maximum of the values, ignoring NaN.
    pub(super) range: Option<(Scalar, Scalar)>,
    pub(super) nan: u64,
}

impl Span {
    pub(super) fn of(field: &Field, values: impl Iterator<Item = Scalar>) -> Self {
        let mut span = Self { field: field.clone(), range: None, nan: 0 };
        let below = |a: Scalar, b: Scalar| a.as_f64().total_cmp(&b.as_f64()).is_lt();
        for value in values {
            if value.as_f64().is_nan() {
                span.nan += 1;
                continue;
            }
            let (min, max) = span.range.get_or_insert((value, value));
            if below(value, *min) {
                *min = value;
            }
            if below(*max, value) {
                *max = value;
            }
        }
        span
    }

    pub(super) fn text(&self) -> String {
        let range = self.range.map(|(min, max)| if min == max { min.to_string() } else { format!("{min} to {max}") });
        let nan = (self.nan > 0).then(|| format!("{} NaN", units::count(self.nan)));
        range.into_iter().chain(nan).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::Dtype;

    #[test]
    fn a_range_is_of_numbers_and_the_others_are_counted() {
        let text = |values: &[f64]| {
            let span = Span::of(&Field::scalar("x", Dtype::F64), values.iter().map(|&v| Scalar::Float(v)));
            span.text()
        };
        let inf = f64::INFINITY;
        assert_eq!(text(&[f64::NAN, -f64::NAN, inf]), "inf, 2 NaN");
        assert_eq!(text(&[f64::NAN, 2.0, -1.5, 3.0]), "-1.5 to 3, 1 NaN");
        assert_eq!(text(&[-inf, 2.0]), "-inf to 2");
        assert_eq!((text(&[f64::NAN]), text(&[]), text(&[4.0, 4.0])), ("1 NaN".into(), String::new(), "4".into()));
    }
}
