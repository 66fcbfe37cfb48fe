//! Which chroma samples a pixel uses: the rules of libjpeg(-turbo)'s upsampling, as far as cutting
//! must know them.
//!
//! libjpeg's default ("fancy") upsampling of a component at half the resolution of an axis is a
//! triangle filter: a pixel takes three quarters of the sample that covers it and a quarter of that
//! sample's neighbour on the pixel's side. So the first pixel column of an MCU needs the last
//! chroma column of the MCU before it, the last pixel column needs the first of the MCU after it,
//! and no other column needs anything from outside. The same applies to rows. Every other ratio is
//! replicated and needs nothing (`jdsample.c`, `jdmaster.c`).

use super::header::Component;
use super::turbo::Scale;

/// Samples that a DCT block has on an axis.
pub(super) const BLOCK: u32 = 8;

/// What upsampling needs beyond the MCUs that a rectangle touches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Needs {
    /// A pixel needs the pixel columns next to it.
    pub(super) beside: bool,
    /// A pixel needs the pixel rows above and below it.
    pub(super) above: bool,
    /// Least width of a cut, in pixels of the stored picture: if it is narrower, libjpeg
    /// replicates, but interpolates in the whole picture.
    pub(super) min_width: u32,
}

/// The largest sampling factors, (horizontal, vertical).
pub(super) fn max_factors(components: &[Component]) -> (u32, u32) {
    let max = |factor: fn(&Component) -> u8| components.iter().map(factor).max().unwrap_or(1).max(1);
    (u32::from(max(|c| c.h)), u32::from(max(|c| c.v)))
}

impl Needs {
    /// What a picture of these components needs when it is decoded at `scale`.
    pub(super) fn of(components: &[Component], width: u32, scale: Scale) -> Self {
        let mut needs = Self { min_width: 1, ..Self::default() };
        let (max_h, max_v) = max_factors(components);
        let block = BLOCK / scale.denominator();
        if block == 1 {
            // At an eighth libjpeg has no context rows, and replicates everything.
            return needs;
        }
        for component in components {
            let (h, v) = (u32::from(component.h), u32::from(component.v));
            // If it can, libjpeg compensates for subsampling by scaling the component's DCT less
            // than the others': 4:2:0 at a half needs no upsampling at all.
            let mut scaled = block;
            while scaled < BLOCK
                && (max_h * block).is_multiple_of(h * scaled * 2)
                && (max_v * block).is_multiple_of(v * scaled * 2)
            {
                scaled *= 2;
            }
            let (h_in, v_in) = (h * scaled / block, v * scaled / block);
            // Samples of this component in a row of the first `pixels` columns.
            let samples = |pixels: u32| u64::from(pixels) * u64::from(h * scaled);
            let per_row = u64::from(max_h * BLOCK);
            let interpolates = samples(width).div_ceil(per_row) > 2;
            if h_in * 2 == max_h && (v_in == max_v || v_in * 2 == max_v) && interpolates {
                needs.beside = true;
                needs.above |= v_in * 2 == max_v;
                // More than two samples: the first width whose samples, rounded up, are three.
                let min_width =
                    u32::try_from(2 * per_row / u64::from(h * scaled)).unwrap_or(u32::MAX).saturating_add(1);
                needs.min_width = needs.min_width.max(min_width);
            } else if h_in == max_h && v_in * 2 == max_v {
                needs.above = true;
            }
        }
        needs
    }
}

#[cfg(all(test, feature = "turbo"))]
mod tests {
    use super::*;

    fn needs(y: (u8, u8), scale: Scale) -> (bool, bool, u32) {
        let component = |(h, v)| Component { id: 1, h, v, table: 0 };
        let needs = Needs::of(&[component(y), component((1, 1)), component((1, 1))], 500, scale);
        (needs.beside, needs.above, needs.min_width)
    }

    #[test]
    fn margins_of_the_usual_samplings() {
        let table = [
            // luma factors → full, half, quarter, eighth
            ((1, 1), [(false, false, 1); 4]),
            ((2, 1), [(true, false, 5), (true, false, 9), (true, false, 17), (false, false, 1)]),
            ((1, 2), [(false, true, 1), (false, true, 1), (false, true, 1), (false, false, 1)]),
            ((2, 2), [(true, true, 5), (false, false, 1), (false, false, 1), (false, false, 1)]),
            ((4, 1), [(false, false, 1); 4]),
            // At a half, chroma of 4:1:0 is decoded at full size, and only a factor of two is left
            // to interpolate.
            ((4, 2), [(false, false, 1), (true, false, 9), (true, false, 17), (false, false, 1)]),
        ];
        for (y, expected) in table {
            let found = [Scale::Full, Scale::Half, Scale::Quarter, Scale::Eighth].map(|scale| needs(y, scale));
            assert_eq!(found, expected, "{y:?}");
        }
    }

    #[test]
    fn narrow_pictures_and_lone_components_need_nothing() {
        let component = |h, v| Component { id: 1, h, v, table: 0 };
        let none = Needs { min_width: 1, ..Needs::default() };
        assert_eq!(Needs::of(&[component(2, 2), component(1, 1), component(1, 1)], 4, Scale::Full), none);
        assert_eq!(Needs::of(&[component(2, 2)], 500, Scale::Full), none);
    }
}
