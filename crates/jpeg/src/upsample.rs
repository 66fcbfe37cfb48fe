//! Determines the chroma samples that a pixel needs. Implements the rules of libjpeg(-turbo)'s upsampling that matter
//! for cutting.
//!
//! If a component has half the resolution along an axis, libjpeg's default ("fancy") upsampling is a triangle filter:
//! three quarters of a pixel come from the sample that covers it, and a quarter comes from the neighbour on the
//! pixel's side. Therefore, the first and last pixel column of an MCU need the nearest chroma column of the
//! neighbouring MCU, and no other column needs samples from outside. The same applies to rows. With all other ratios,
//! samples are only replicated (`jdsample.c`, `jdmaster.c`).

use super::header::{Component, max_factors};

/// Pixels that upsampling needs in addition to the MCUs of a rectangle.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// True if a pixel needs the neighbours to its left and right.
    pub(super) beside: bool,
    /// True if a pixel needs the neighbours above and below it.
    pub(super) above: bool,
    /// Minimum width of a cut, in pixels of the stored picture. In a narrower cut, libjpeg would replicate
    /// chroma that it interpolates in the whole picture.
    pub(super) min_width: u32,
}

impl Needs {
    pub(super) fn of(components: &[Component], width: u32) -> Self {
        let mut needs = Self { min_width: 1, ..Self::default() };
        let (max_h, max_v) = max_factors(components);
        for component in components {
            let (h, v) = (u32::from(component.h), u32::from(component.v));
            // A component is interpolated if each row of the picture has at least three of its samples.
            let interpolates = (width * h).div_ceil(max_h) > 2;
            if h * 2 == max_h && (v == max_v || v * 2 == max_v) && interpolates {
                needs.beside = true;
                needs.above |= v * 2 == max_v;
                // The smallest width in pixels that gives the component at least three samples per row.
                needs.min_width = needs.min_width.max(2 * max_h / h + 1);
            } else if h == max_h && v * 2 == max_v {
                needs.above = true;
            }
        }
        needs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(y: (u8, u8)) -> (bool, bool, u32) {
        let component = |(h, v)| Component { id: 1, h, v, table: 0 };
        let needs = Needs::of(&[component(y), component((1, 1)), component((1, 1))], 500);
        (needs.beside, needs.above, needs.min_width)
    }

    #[test]
    fn margins_of_the_usual_samplings() {
        let table = [
            ((1, 1), (false, false, 1)),
            ((2, 1), (true, false, 5)),
            ((1, 2), (false, true, 1)),
            ((2, 2), (true, true, 5)),
            ((4, 1), (false, false, 1)),
            ((4, 2), (false, false, 1)),
        ];
        for (y, expected) in table {
            assert_eq!(needs(y), expected, "{y:?}");
        }
    }

    #[test]
    fn narrow_pictures_and_lone_components_need_nothing() {
        let component = |h, v| Component { id: 1, h, v, table: 0 };
        let none = Needs { min_width: 1, ..Needs::default() };
        assert_eq!(Needs::of(&[component(2, 2), component(1, 1), component(1, 1)], 4), none);
        assert_eq!(Needs::of(&[component(2, 2)], 500), none);
    }
}
