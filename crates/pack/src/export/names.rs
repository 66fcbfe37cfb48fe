//! Chooses a unique name for each unpacked file, for any set of keys.

use super::file::is_temporary;
use shardpack_format::{Error, Field, FieldKind, Result, Schema};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hasher};

/// Returns the usual name of a field's file:
///
/// - for the first image field of the schema, the key itself
/// - for the first array field if there is no image field, `<key>.npy` (a key that ends in `.npy` is unchanged)
/// - for other fields, `<key>.<field>.<extension>`, without the key's own `.npy`
///
/// Two keys can lead to the same usual name: `a.tif` and `a.tif.npy` both lead to `a.tif.npy`. [`FileNames`]
/// then gives both files their full names.
#[must_use]
pub fn file_name(key: &str, field: &str, kind: FieldKind, is_main: bool) -> String {
    let stem = key.strip_suffix(".npy").unwrap_or(key);
    match (kind, is_main) {
        (FieldKind::Image, true) => key.to_owned(),
        (FieldKind::Array, true) => format!("{stem}.npy"),
        (FieldKind::Array | FieldKind::Text | FieldKind::Json, _) => full_name(stem, field, kind),
        _ => full_name(key, field, kind),
    }
}

fn full_name(key: &str, field: &str, kind: FieldKind) -> String {
    let extension = match kind {
        FieldKind::Array => "npy",
        FieldKind::Text => "txt",
        FieldKind::Json => "json",
        _ => "bin",
    };
    format!("{key}.{field}.{extension}")
}

/// A field that is written to a separate file.
#[derive(Debug, Clone)]
pub struct FileField {
    /// Field whose values are written.
    pub field: Field,
    is_main: bool,
}

/// The names of all files that a dataset is unpacked to. They are distinct, and none of them is the name of a
/// folder that another file needs.
///
/// The full name of a file is `<key>.<field>.<extension>`, with the whole key. A file gets its full name if its
/// usual name ([`file_name`]) is also needed for another file or a folder, or looks like the name of an
/// incomplete file. The names depend only on the set of keys, not on their order. If the full name is taken
/// too, the file has no name.
#[derive(Debug)]
pub struct FileNames {
    fields: Vec<FileField>,
    /// Hashes of usual names that cannot be used. If two hashes happen to collide, both files get their full names.
    crowded: HashSet<u64>,
    stuck: HashSet<u64>,
}

impl FileNames {
    /// Plans names for the fields of `schema` that `wanted` accepts. Segment indexes belong to their pictures
    /// and get no files. Each call of `keys` must return an iterator over all keys. Names in `taken` are
    /// avoided.
    ///
    /// # Errors
    /// `Format` if a key occurs twice.
    pub fn plan<'k, I: Iterator<Item = &'k str>>(
        schema: &Schema,
        wanted: impl Fn(&Field) -> bool,
        taken: &[&str],
        keys: impl Fn() -> I,
    ) -> Result<Self> {
        // In a dataset with pictures, arrays are usually masks, so only a picture's file is named
        // after the bare key.
        let has_images = schema.stored().any(|field| field.kind == FieldKind::Image);
        let mut kinds = Vec::new();
        let stored = schema.stored().filter(|field| !schema.is_segment_index(field) && wanted(field));
        let fields = stored.map(|field| {
            let is_main = !(kinds.contains(&field.kind) || has_images && field.kind == FieldKind::Array);
            kinds.push(field.kind);
            FileField { field: field.clone(), is_main }
        });
        let mut names = Self { fields: fields.collect(), crowded: HashSet::new(), stuck: HashSet::new() };
        loop {
            let mut crowd = names.crowd(taken, keys());
            crowd.retain(|name| !names.stuck.contains(name));
            // Find names that several files would still share after getting their full names.
            let stuck: Vec<u64> = crowd.iter().copied().filter(|name| names.crowded.contains(name)).collect();
            if let Some(key) = stuck.first().and_then(|&name| names.twice(name, keys())) {
                return Err(Error::format("sample keys", "unique keys", format!("`{key}` twice")));
            }
            names.stuck.extend(stuck);
            if crowd.is_empty() {
                return Ok(names);
            }
            names.crowded.extend(crowd);
        }
    }

    /// Returns the fields that are written to files, in schema order.
    #[must_use]
    pub fn fields(&self) -> &[FileField] {
        &self.fields
    }

    /// Returns the file name of one field of one sample, relative to the folder and with `/`. Returns `None` if
    /// both names are taken, or if a folder in the name looks like an incomplete file.
    #[must_use]
    pub fn name(&self, key: &str, field: &FileField) -> Option<String> {
        let name = self.wanted(key, field);
        let is_in_temporary = parents(&name).any(is_temporary);
        (!is_in_temporary && !self.stuck.contains(&hash(&name))).then_some(name)
    }

    fn wanted(&self, key: &str, field: &FileField) -> String {
        let FileField { field: Field { name, kind, .. }, is_main } = field;
        let usual = file_name(key, name, *kind, *is_main);
        if is_temporary(&usual) || self.crowded.contains(&hash(&usual)) { full_name(key, name, *kind) } else { usual }
    }

    /// Returns the hashes of names shared by several files, or by a file and a folder. Uses 8 bytes of memory per file.
    fn crowd<'k>(&self, taken: &[&str], keys: impl Iterator<Item = &'k str>) -> HashSet<u64> {
        let mut files: Vec<u64> = taken.iter().map(|name| hash(name)).collect();
        let mut folders = HashSet::new();
        for key in keys {
            for field in &self.fields {
                let name = self.wanted(key, field);
                files.push(hash(&name));
                folders.extend(parents(&name).map(hash));
            }
        }
        files.sort_unstable();
        let twice = files.windows(2).filter(|pair| pair.first() == pair.last());
        let twice = twice.filter_map(|pair| pair.first().copied());
        twice.chain(files.iter().copied().filter(|name| folders.contains(name))).collect()
    }

    /// Finds a key that occurs twice, among the keys whose files would have this name.
    fn twice<'k>(&self, name: u64, keys: impl Iterator<Item = &'k str>) -> Option<String> {
        let mut owners = HashSet::new();
        for key in keys {
            let is_owner = self.fields.iter().any(|field| hash(&self.wanted(key, field)) == name);
            if is_owner && !owners.insert(key) {
                return Some(key.escape_debug().to_string());
            }
        }
        None
    }
}

/// Returns the parent folders of a name, outermost first.
fn parents(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').filter_map(|(end, _)| name.get(..end))
}

/// Returns a hash of a name that is the same in every run, so that a second run finds the first run's files.
fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(name.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cubes() -> Schema {
        let kinds = [("cube", FieldKind::Array), ("mask", FieldKind::Array), ("meta", FieldKind::Json)];
        Schema::new(kinds.map(|(name, kind)| Field::stored(name, kind)).to_vec()).unwrap()
    }

    fn plan(schema: &Schema, taken: &[&str], keys: &[&str]) -> Result<Vec<String>> {
        let names = FileNames::plan(schema, |_| true, taken, || keys.iter().copied())?;
        Ok(keys
            .iter()
            .flat_map(|key| names.fields().iter().map(|f| names.name(key, f).unwrap_or_default()).collect::<Vec<_>>())
            .collect())
    }

    #[test]
    fn names_tell_the_fields_apart() {
        assert_eq!(file_name("a/b.JPEG", "image", FieldKind::Image, true), "a/b.JPEG");
        assert_eq!(file_name("a/b.tif", "cube", FieldKind::Array, true), "a/b.tif.npy");
        assert_eq!(file_name("a/b.npy", "cube", FieldKind::Array, true), "a/b.npy");
        assert_eq!(file_name("a/b.npy", "mask", FieldKind::Array, false), "a/b.mask.npy");
        assert_eq!(file_name("a/b.npy", "meta", FieldKind::Json, true), "a/b.meta.json");
        assert_eq!(file_name("a/b.npy", "blob", FieldKind::Bytes, true), "a/b.npy.blob.bin");
    }

    #[test]
    fn keys_that_ask_for_one_name_get_their_full_names() {
        let expected = [
            ["a.tif.cube.npy", "a.tif.mask.npy", "a.tif.meta.json"].map(str::to_owned),
            ["a.tif.npy.cube.npy", "a.tif.npy.mask.npy", "a.tif.npy.meta.json"].map(str::to_owned),
            ["b.npy", "b.mask.npy", "b.meta.json"].map(str::to_owned),
        ];
        assert_eq!(plan(&cubes(), &[], &["a.tif", "a.tif.npy", "b.npy"]).unwrap(), expected.concat());
        let turned = plan(&cubes(), &[], &["b.npy", "a.tif.npy", "a.tif"]).unwrap();
        assert_eq!(
            turned,
            expected.into_iter().rev().collect::<Vec<_>>().concat(),
            "the order of the keys plays no part"
        );
    }

    #[test]
    fn a_full_name_that_is_the_usual_name_of_another_moves_that_one_on() {
        let one = Schema::new(vec![Field::stored("cube", FieldKind::Array)]).unwrap();
        let names = plan(&one, &[], &["a", "a.npy", "a.cube", "z"]).unwrap();
        assert_eq!(names, ["a.cube.npy", "a.npy.cube.npy", "a.cube.cube.npy", "z.npy"]);
    }

    #[test]
    fn no_file_takes_the_name_of_a_folder_or_one_that_is_taken() {
        let one = Schema::new(vec![Field::stored("cube", FieldKind::Array)]).unwrap();
        assert_eq!(plan(&one, &[], &["a", "a.npy/b"]).unwrap(), ["a.cube.npy", "a.npy/b.npy"]);
        let image = Schema::new(vec![Field::stored("image", FieldKind::Image)]).unwrap();
        assert_eq!(plan(&image, &["labels.jsonl"], &["labels.jsonl", "b"]).unwrap(), ["labels.jsonl.image.bin", "b"]);
    }

    #[test]
    fn no_file_takes_the_name_of_one_that_is_not_complete() {
        let image = Schema::new(vec![Field::stored("image", FieldKind::Image)]).unwrap();
        let names = plan(&image, &[], &[".b.png.shardpack-tmp", "b.png", "x/.Y.SHARDPACK-tmp"]).unwrap();
        let expected = [".b.png.shardpack-tmp.image.bin", "b.png", "x/.Y.SHARDPACK-tmp.image.bin"];
        assert_eq!(names, expected);
    }

    #[test]
    fn keys_that_occur_twice_are_an_error_before_anything_is_written() {
        let twice = plan(&cubes(), &[], &["a", "b", "a"]).unwrap_err();
        assert_eq!(twice.to_string(), "sample keys: expected unique keys, found `a` twice");
    }

    #[test]
    fn what_has_no_name_leaves_the_others_theirs() {
        let schema = ["x", "y.z", "z"].map(|name| Field::stored(name, FieldKind::Array)).to_vec();
        let names = plan(&Schema::new(schema).unwrap(), &[], &["a", "a.y", "b"]).unwrap();
        let expected = ["a.npy", "", "a.z.npy", "a.y.npy", "a.y.y.z.npy", "", "b.npy", "b.y.z.npy", "b.z.npy"];
        assert_eq!(names, expected);
        let image = Schema::new(vec![Field::stored("image", FieldKind::Image)]).unwrap();
        let keys = ["a", "a/b", "a.image.bin/c", "d"];
        assert_eq!(plan(&image, &[], &keys).unwrap(), ["", "a/b", "a.image.bin/c", "d"]);
    }

    #[test]
    fn no_folder_takes_the_name_of_a_file_that_is_not_complete() {
        let image = Schema::new(vec![Field::stored("image", FieldKind::Image)]).unwrap();
        let keys = [".b.jpg.shardpack-tmp/x.jpg", "b.jpg", "c/.d.Shardpack-tmp/e/f.jpg"];
        assert_eq!(plan(&image, &[], &keys).unwrap(), ["", "b.jpg", ""]);
    }
}
