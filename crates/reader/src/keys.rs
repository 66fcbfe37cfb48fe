//! Maps sample keys to sample indexes. The first lookup builds a table from the indexes of all shards.

use crate::dataset::Dataset;
use crate::error::{Error, Result};
use crate::key_table::KeyTable;
use crate::shard::Shard;
use shardpack_format::{Error as FormatError, bug};
use std::hash::{BuildHasher, RandomState};

fn key_of(shard: &Shard, record: u64) -> &str {
    shard.index().key(record).unwrap_or_else(|| bug("a record in a shard has no key"))
}

fn key_table(dataset: &Dataset) -> Result<KeyTable> {
    let hasher = RandomState::new();
    let mut entries = Vec::new();
    for (number, slot) in dataset.shard_numbers().zip(&dataset.0.slots) {
        let shard = dataset.shard(number)?;
        entries.extend((0..shard.len()).map(|record| (hasher.hash_one(key_of(&shard, record)), slot.first + record)));
    }
    entries.sort_unstable();
    let table = KeyTable { hasher, entries };
    for ((first_hash, first), (second_hash, second)) in table.entries.iter().zip(table.entries.iter().skip(1)) {
        if first_hash == second_hash {
            check_distinct(dataset, *first, *second)?;
        }
    }
    Ok(table)
}

fn check_distinct(dataset: &Dataset, first: u64, second: u64) -> Result<()> {
    let key = dataset.key(first)?;
    if key == dataset.key(second)? {
        let part = |index| dataset.parts().iter().position(|part| part.contains(&index)).unwrap_or(0);
        if let (ours, theirs) = (part(first), part(second))
            && ours != theirs
        {
            let text = format!("sample key `{}` occurs in datasets {ours} and {theirs}", key.escape_debug());
            return Err(Error::usage(text).with_hint("look the key up in one of the two datasets"));
        }
        let (number, record) = dataset.locate(second)?;
        let error = FormatError::malformed(format!("the sample key is not unique: sample {first} has it too"))
            .in_record(record)
            .in_sample(key)
            .in_file(dataset.shard(number)?.path().to_string_lossy());
        return Err(error.into());
    }
    Ok(())
}

impl Dataset {
    /// Returns the key of sample `index`, from the index of its shard.
    ///
    /// # Errors
    /// `Usage` past the end; otherwise the same as [`Dataset::shard`].
    pub fn key(&self, index: u64) -> Result<String> {
        let (number, record) = self.locate(index)?;
        let shard = self.shard(number)?;
        Ok(key_of(&shard, record).to_owned())
    }

    /// Returns the index of the sample with this key, or `None` if there is no such sample. The first call
    /// opens every shard and allocates 16 bytes per sample.
    ///
    /// # Errors
    /// `Format` if a key occurs twice in the dataset, `Usage` if concatenated datasets share a key; otherwise
    /// the same as [`Dataset::shard`].
    pub fn by_key(&self, key: &str) -> Result<Option<u64>> {
        let table = match self.0.keys.get() {
            Some(table) => table,
            None => {
                let table = key_table(self)?;
                self.0.keys.get_or_init(|| table)
            }
        };
        let hash = table.hasher.hash_one(key);
        let start = table.entries.partition_point(|(h, _)| *h < hash);
        for (_, index) in table.entries.iter().skip(start).take_while(|(h, _)| *h == hash) {
            let (number, record) = self.locate(*index)?;
            if self.shard(number)?.index().key(record) == Some(key) {
                return Ok(Some(*index));
            }
        }
        Ok(None)
    }

    /// Returns up to three keys similar to `text`, best first, for error messages: keys that differ from `text`
    /// only in folders, extension, case or leading zeros or, if there are none, the keys with the most similar
    /// spelling. Ignores shards that cannot be opened.
    #[must_use]
    pub fn keys_like(&self, text: &str) -> Vec<String> {
        let wanted = stem(text);
        let mut best: Vec<(f64, String)> = Vec::new();
        for number in self.shard_numbers() {
            let Ok(shard) = self.shard(number) else { continue };
            for key in (0..shard.len()).filter_map(|record| shard.index().key(record)) {
                let score = match stem(key) == wanted {
                    true => 2.0 + strsim::jaro(text, key),
                    false => strsim::jaro_winkler(text, key),
                };
                let worst = if best.len() < KEYS_LIKE { ALIKE } else { best.last().map_or(ALIKE, |last| last.0) };
                if score > worst {
                    let at = best.partition_point(|(other, _)| *other >= score);
                    best.insert(at, (score, key.to_owned()));
                    best.truncate(KEYS_LIKE);
                }
            }
        }
        let same = best.first().is_some_and(|(score, _)| *score >= 2.0);
        best.into_iter().filter(|(score, _)| !same || *score >= 2.0).map(|(_, key)| key).collect()
    }
}

/// Maximum number of suggested keys, and their minimum similarity from 0 to 1.
const KEYS_LIKE: usize = 3;
const ALIKE: f64 = 0.85;

/// Returns the last component of a key in lower case, without its extension and without leading zeros in numbers.
fn stem(key: &str) -> String {
    let name = key.rsplit('/').next().unwrap_or(key);
    let name = name.split_once('.').map_or(name, |(stem, _)| stem);
    let mut stem = String::with_capacity(name.len());
    let mut characters = name.chars().peekable();
    let mut in_number = false;
    while let Some(character) = characters.next() {
        let leads = character == '0' && !in_number && characters.peek().is_some_and(char::is_ascii_digit);
        if !leads {
            stem.extend(character.to_lowercase());
            in_number = character.is_ascii_digit();
        }
    }
    stem
}

#[cfg(test)]
mod tests {
    use super::stem;

    #[test]
    fn a_stem_has_no_folder_extension_case_or_leading_zeros() {
        for (key, expected) in [
            ("cat/001.jpg", "1"),
            ("cat/01.JPG", "1"),
            ("Scene-007_b10.tar.gz", "scene-7_b10"),
            ("a/100.png", "100"),
            ("000", "0"),
            ("", ""),
            ("x/Ärger", "ärger"),
        ] {
            assert_eq!(stem(key), expected, "{key}");
        }
    }
}
