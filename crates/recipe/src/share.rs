use crate::Word;
use serde::{Deserialize, Serialize};

/// The share of pictures on which an expensive check is performed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Share {
    /// No picture.
    None,
    /// One picture in 64, but at least 16 pictures if there are that many. The choice depends only on the number of
    /// pictures.
    #[default]
    Sample,
    /// Every picture.
    All,
}

impl Word for Share {
    const WORDS: &'static [(&'static str, Self)] =
        &[("none", Self::None), ("sample", Self::Sample), ("all", Self::All)];
}

impl Share {
    /// True if the share includes picture `position` of `count`.
    #[must_use]
    pub const fn takes(self, position: u64, count: u64) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Sample => {
                // Take one picture from each run of neighbours, at a position that varies from run to run. With a
                // fixed position, every chosen picture might be the first of its class.
                let stride = count / 16;
                let stride = if stride > 64 { 64 } else { stride };
                if stride == 0 {
                    return true;
                }
                let block = (position / stride + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                position % stride == (block >> 32) % stride
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Share;

    #[test]
    fn a_sample_is_sixteen_pictures_and_more_of_many() {
        let taken = |count| (0..count).filter(|&i| Share::Sample.takes(i, count)).count();
        assert_eq!(taken(7), 7);
        assert_eq!(taken(31), 31);
        assert!((16..=17).contains(&taken(1000)), "{}", taken(1000));
        assert_eq!(taken(64_000), 1000);
        let firsts = (0..64_000).filter(|&i| Share::Sample.takes(i, 64_000) && i % 64 == 0).count();
        assert!(firsts < 50, "{firsts} of 1000 are the first of their block");
        assert!((0..100).all(|i| Share::All.takes(i, 100) && !Share::None.takes(i, 100)));
    }
}
