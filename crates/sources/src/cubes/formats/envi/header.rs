//! Parses the text of an ENVI header: lines of `key = value`, values in braces that may span several lines, and
//! comments that start with `;`.

use crate::cubes::error::Result;
use crate::cubes::source::CubeFile;
use std::collections::HashMap;

/// Maximum size of a header. The names of 100,000 bands fit in 16 MiB.
const MAX_HEADER: u64 = 16 << 20;

/// Maximum number of keys. ENVI defines about fifty.
const MAX_KEYS: usize = 4096;

/// Maximum total number of list items. An item takes tens of times more bytes in memory than in the header.
const MAX_ITEMS: usize = 1 << 20;

/// Keys and values in file order. Keys are lower-case with single blanks. Values are unchanged.
pub(super) struct Header(Vec<(String, String)>);

impl Header {
    pub(super) fn read(source: &CubeFile) -> Result<Self> {
        if source.len() > MAX_HEADER {
            return Err(source.damaged(format_args!(
                "the ENVI header has {} bytes, but at most {MAX_HEADER} are allowed",
                source.len()
            )));
        }
        let bytes = source.read_at("ENVI header", 0, source.len())?;
        // Place names may be in Latin-1. A garbled letter in one of them does no harm.
        Self::parse(source, &String::from_utf8_lossy(&bytes))
    }

    fn parse(source: &CubeFile, text: &str) -> Result<Self> {
        let mut fields: Vec<(String, String)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        let items = text.bytes().filter(|byte| *byte == b',').count();
        if items > MAX_ITEMS {
            return Err(source.damaged(format_args!(
                "the lists in the ENVI header have {items} items in total, but at most {MAX_ITEMS} are allowed"
            )));
        }
        // The first line is the signature. Old Macintosh files end lines with just a carriage return.
        let mut lines = text.split(['\n', '\r']).skip(1).filter(|line| !line.trim_start().starts_with(';'));
        while let Some(line) = lines.next() {
            // Skip blank lines and stray text, as other readers do. Missing keys are reported below.
            let Some((key, value)) = line.split_once('=') else { continue };
            let key = key.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
            let mut value = value.trim().to_owned();
            let mut closed = !value.starts_with('{') || value.contains('}');
            while !closed {
                let next = lines.next().ok_or_else(|| {
                    let key = key.escape_debug();
                    source.damaged(format_args!("the list `{key}` in the ENVI header has no closing `}}`"))
                })?;
                value.push('\n');
                value.push_str(next.trim());
                closed = next.contains('}');
            }
            if let Some(end) = value.rfind('}').filter(|_| value.starts_with('{')) {
                value.truncate(end + 1);
            }
            // The last occurrence of a key wins, as in ENVI and SPy.
            if let Some(&place) = places.get(&key) {
                if let Some((_, known)) = fields.get_mut(place) {
                    *known = value;
                }
                continue;
            }
            if fields.len() == MAX_KEYS {
                return Err(source.damaged(format_args!("the ENVI header has more than {MAX_KEYS} keys")));
            }
            places.insert(key.clone(), fields.len());
            fields.push((key, value));
        }
        Ok(Self(fields))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.iter().find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    pub(super) fn required(&self, source: &CubeFile, key: &str) -> Result<&str> {
        self.get(key).ok_or_else(|| source.damaged(format_args!("the ENVI header lacks the key `{key}`")))
    }

    pub(super) fn integer(&self, source: &CubeFile, key: &str) -> Result<u64> {
        let text = self.required(source, key)?;
        text.parse().map_err(|_| {
            source.format(format_args!("`{key}` in the ENVI header"), "a non-negative integer", quote(text))
        })
    }
}

fn quote(text: &str) -> String {
    let start: String = text.trim().chars().take(40).collect();
    format!("`{}`", start.escape_debug())
}
