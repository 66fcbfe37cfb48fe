use super::*;
use proptest::prelude::*;

fn slow(elements: &[u64], bands: usize, mut before: u64) -> Vec<u64> {
    let sums = elements.chunks(bands).flat_map(|pixel| {
        let mut sum = std::mem::take(&mut before);
        let add = |z: &u64| {
            let difference = if z.is_multiple_of(2) { z / 2 } else { (z / 2 + 1).wrapping_neg() };
            sum = sum.wrapping_add(difference);
            sum
        };
        pixel.iter().map(add).collect::<Vec<u64>>()
    });
    sums.collect()
}

proptest! {
    #[test]
    fn sums_agree_with_one_element_at_a_time(
        bands in 1..70_usize, before: u16, raw in prop::collection::vec(any::<u8>(), 1..700),
    ) {
        let mut fast = raw.clone();
        sum8(&mut fast, bands, before.to_le_bytes()[0]);
        let wide: Vec<u64> = raw.iter().map(|x| u64::from(*x)).collect();
        let expected: Vec<u8> = slow(&wide, bands, before.into()).iter().map(|x| *x as u8).collect();
        prop_assert_eq!(fast, expected);

        let mut fast = raw[..raw.len() / 2 * 2].to_vec();
        let wide: Vec<u64> = fast.as_chunks().0.iter().map(|x| u64::from(u16::from_le_bytes(*x))).collect();
        sum16(&mut fast, bands, before);
        let expected: Vec<u8> = slow(&wide, bands, before.into()).iter().flat_map(|x| (*x as u16).to_le_bytes()).collect();
        prop_assert_eq!(fast, expected);
    }

    #[test]
    fn sums_of_planes_agree_with_one_element_at_a_time(bands in 16..120_usize, pixels in 4..30_usize, seed: u64) {
        let mut state = seed | 1;
        let mut byte = || { state ^= state << 13; state ^= state >> 7; state ^= state << 17; (state >> 24) as u8 };
        let low: Vec<u8> = (0..bands * pixels).map(|_| byte()).collect();
        let high: Vec<u8> = (0..bands * pixels).map(|_| byte()).collect();
        let wide: Vec<u64> = low.iter().zip(&high).map(|(l, h)| u64::from(u16::from_le_bytes([*l, *h]))).collect();
        let mut fast = vec![0; 2 * bands * pixels];
        prop_assert!(planes::fits(pixels, bands));
        planes::sum(&low, &high, bands, &mut fast).unwrap();
        let expected: Vec<u8> = slow(&wide, bands, 0).iter().flat_map(|x| (*x as u16).to_le_bytes()).collect();
        prop_assert_eq!(fast, expected);
    }
}

#[test]
fn planes_that_do_not_fit_are_errors() {
    for (low, high, bands, out) in
        [(80, 79, 20, 160), (80, 80, 20, 158), (80, 80, 0, 160), (80, 80, 19, 160), (60, 60, 20, 120)]
    {
        let result = planes::sum(&vec![0; low], &vec![0; high], bands, &mut vec![0; out]);
        assert!(matches!(result, Err(shardpack_format::Error::Internal { .. })), "{low} {high} {bands} {out}");
    }
}
