use super::*;
use proptest::prelude::*;

/// Builds libjpeg's code step by step, as in T.81, figures K.1 to K.4. Returns its lengths and symbols.
fn naive(counts: &[u32; CODE_SYMBOLS]) -> Option<([u8; LONGEST], Vec<u8>)> {
    let mut counts: Vec<u64> = counts.iter().map(|&count| count.into()).chain([1]).collect();
    let (mut sizes, mut others) = ([0_usize; 257], [None; 257]);
    loop {
        // Finds the rarest symbol, or the last of several equally rare symbols.
        let rarest = |not: usize| (0..257).rev().filter(|&n| n != not && counts[n] > 0).min_by_key(|&n| counts[n]);
        let one = rarest(usize::MAX)?;
        let Some(other) = rarest(one) else { break };
        counts[one] += counts[other];
        counts[other] = 0;
        let mut end = one;
        sizes[end] += 1;
        while let Some(next) = others[end] {
            end = next;
            sizes[end] += 1;
        }
        others[end] = Some(other);
        while let Some(next) = others[end] {
            end = next;
            sizes[end] += 1;
        }
    }
    let mut lengths = [0_i32; 64];
    for size in sizes.into_iter().filter(|&size| size > 0) {
        lengths[size] += 1;
    }
    if lengths[LONGEST_MADE + 1..].iter().any(|&count| count > 0) {
        return None;
    }
    let mut i = LONGEST_MADE;
    while i > LONGEST {
        if lengths[i] == 0 {
            i -= 1;
            continue;
        }
        let j = (1..i - 1).rev().find(|&j| lengths[j] > 0).unwrap();
        lengths[i] -= 2;
        lengths[i - 1] += 1;
        lengths[j + 1] += 2;
        lengths[j] -= 1;
    }
    let longest = (1..=LONGEST).rev().find(|&i| lengths[i] > 0)?;
    lengths[longest] -= 1;
    let of_size = |size: usize| (0..256_usize).filter(move |&n| sizes[n] == size).map(|n| n as u8);
    Some((std::array::from_fn(|n| lengths[n + 1] as u8), (1..=LONGEST_MADE).flat_map(of_size).collect()))
}

fn check(counts: &[u32; CODE_SYMBOLS]) -> Option<OptimalCode> {
    let made = OptimalCode::of(counts);
    assert_eq!(made.as_ref().map(|code| (code.lengths, code.symbols().to_vec())), naive(counts));
    made
}

/// Returns Fibonacci numbers as counts, because they lead to the longest possible codes.
fn fibonacci(symbols: usize) -> [u32; CODE_SYMBOLS] {
    let (mut counts, mut next) = ([0; CODE_SYMBOLS], (1, 2));
    for count in counts.iter_mut().take(symbols) {
        *count = next.0;
        next = (next.1, next.0 + next.1);
    }
    counts
}

proptest! {
    #[test]
    fn codes_are_those_of_the_standard(
        counts in prop::collection::vec((0_usize..256, 0_u32..24, any::<u32>()), 1..300),
    ) {
        let mut all = [0; CODE_SYMBOLS];
        for (symbol, bits, count) in counts {
            // Values have at most eleven bits.
            all[(symbol & 0xF0) | (symbol % 12)] = 1 + count % (1 << bits);
        }
        let code = check(&all).unwrap();
        let mut words = [CodeWord::default(); CODE_SYMBOLS];
        code.fill(&mut words).unwrap();
        // No code is a prefix of another code, and no code consists only of ones.
        let mut codes: Vec<(u32, u32)> = Vec::new();
        for (symbol, word) in words.iter().enumerate().filter(|(symbol, _)| all[*symbol] > 0) {
            let (value_bits, bits) = (symbol as u32 & 15, word.bits());
            let length = bits - value_bits;
            let code = word.word() >> value_bits;
            prop_assert!((1..=16).contains(&length) && code < (1 << length) - 1);
            codes.push((code << (16 - length), length));
        }
        codes.sort_unstable();
        for pair in codes.windows(2) {
            prop_assert!(pair[0].0 + (1 << (16 - pair[0].1)) <= pair[1].0);
        }
    }
}

#[test]
fn the_longest_codes_are_shortened() {
    for symbols in 1..=40 {
        let made = check(&fibonacci(symbols));
        // With the reserved code, n symbols lead to codes of up to n bits.
        assert_eq!(made.is_some(), symbols <= LONGEST_MADE, "{symbols}");
    }
    let all = [7; CODE_SYMBOLS];
    assert_eq!(check(&all).unwrap().lengths.iter().map(|&count| usize::from(count)).sum::<usize>(), CODE_SYMBOLS);
}

#[test]
fn a_picture_without_chroma_has_no_codes_for_it() {
    let none = OptimalCode::of(&[0; CODE_SYMBOLS]).unwrap();
    assert!(none.symbols().is_empty() && none.lengths == [0; LONGEST]);
}

#[test]
fn more_symbols_than_libjpeg_counts_are_left_to_it() {
    let mut counts = [0; CODE_SYMBOLS];
    counts[3] = MOST_SYMBOLS as u32 - 1;
    assert!(OptimalCode::of(&counts).is_some());
    counts[4] = 1;
    assert!(OptimalCode::of(&counts).is_none());
}
