//! Finds samples by the names used in a table.
//!
//! A key is a path below the source. Users often omit the extension, the folders, or both. A shortened name is
//! accepted only if it matches exactly one file.

use std::cell::OnceCell;

/// Parts of a key that a name may omit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Omission {
    Extension,
    Folders,
    Both,
}

/// All omissions in order of preference, smallest first.
pub(super) const OMISSIONS: &[Omission] = &[Omission::Extension, Omission::Folders, Omission::Both];

impl Omission {
    fn of(self, key: &str) -> &str {
        match self {
            Self::Extension => stem(key),
            Self::Folders => bare(key),
            Self::Both => bare(stem(key)),
        }
    }
}

fn stem(key: &str) -> &str {
    let name = bare(key);
    match name.rfind('.') {
        Some(dot) if dot > 0 => key.get(..key.len() - name.len() + dot).unwrap_or(key),
        _ => key,
    }
}

fn bare(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(_, name)| name)
}

/// Index of keys by name. Shortened keys are indexed on demand, because most tables have complete keys.
pub(super) struct KeyIndex<'a> {
    /// Sorted keys.
    keys: &'a [&'a str],
    orders: [OnceCell<Vec<u32>>; 3],
}

impl<'a> KeyIndex<'a> {
    pub(super) const fn new(keys: &'a [&'a str]) -> Self {
        Self { keys, orders: [const { OnceCell::new() }; 3] }
    }

    pub(super) fn key(&self, place: usize) -> &'a str {
        self.keys.get(place).copied().unwrap_or_default()
    }

    pub(super) fn exact(&self, key: &str) -> Option<usize> {
        self.keys.binary_search(&key).ok()
    }

    /// Returns at most two keys that equal `name` after the omission.
    pub(super) fn by(&self, way: Omission, name: &str) -> Vec<usize> {
        let rest = |place: &u32| way.of(self.key(*place as usize));
        let Some(order) = self.orders.get(way as usize) else { return Vec::new() };
        let order = order.get_or_init(|| {
            let mut order: Vec<u32> = (0..).take(self.keys.len()).collect();
            order.sort_by(|a, b| rest(a).cmp(rest(b)));
            order
        });
        let start = order.partition_point(|place| rest(place) < name);
        let same = order.iter().skip(start).take_while(|place| rest(place) == name);
        same.take(2).map(|place| *place as usize).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyIndex, OMISSIONS};

    #[test]
    fn names_match_shortened_keys() {
        let keys = ["a/1.jpg", "a/1.png", "a/2.tar.gz", "b/.hidden", "b/1.jpg", "c"];
        let names = KeyIndex::new(&keys);
        let found = |name: &str| OMISSIONS.iter().map(|way| names.by(*way, name)).collect::<Vec<_>>();
        assert_eq!(found("a/1"), [vec![0, 1], vec![], vec![]]);
        assert_eq!(found("1.jpg"), [vec![], vec![0, 4], vec![]]);
        assert_eq!(found("1"), [vec![], vec![], vec![0, 1]]);
        assert_eq!(found("2.tar"), [vec![], vec![], vec![2]]);
        assert_eq!(found(".hidden"), [vec![], vec![3], vec![3]]);
        assert_eq!(found("c"), [[5], [5], [5]]);
        assert_eq!(found(""), [vec![0usize; 0], vec![], vec![]]);
        assert_eq!(names.exact("a/1.png"), Some(1));
    }
}
