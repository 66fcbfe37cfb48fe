//! Tests that a cut decodes to the same pixels as the whole picture, bit for bit.

use super::*;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, ..ProptestConfig::default() })]
    #[test]
    fn a_cut_decodes_to_the_pixels_of_the_whole(case in cases(200)) {
        let mut random = Random(case.seed);
        let jpeg = case.jpeg(&mut random);
        let whole = decode(&jpeg).unwrap();
        for _ in 0..2 {
            check_equal(&jpeg, &whole, random.rect(case.width, case.height));
        }
    }
}
