//! Tests that packing a folder in a store produces the same dataset as from disk, and that errors name the object.

use crate::pack::{Hooks, PackOptions, pack};
use crate::testing::{npy_of, png, put};
use sha2::{Digest, Sha256};
use shardpack_io::{Cause, Error, Listed, ReadAt, Storage};
use shardpack_sources::{Files, Listing, OnBadInput, SourceError, SourceOptions, enumerate, listing_file};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

/// A store with the files of a folder. An object's version is derived from its bytes.
#[derive(Debug, Default)]
struct Bucket {
    folder: PathBuf,
    url: PathBuf,
    read_ahead_bytes: u64,
    /// Three counts of bytes: all announced bytes, the announced bytes that are not yet dropped,
    /// and the maximum of the second count.
    announced: Arc<Mutex<(u64, u64, u64)>>,
    lists: Mutex<u32>,
    broken: Option<&'static str>,
}

#[derive(Debug)]
struct Object {
    path: PathBuf,
    listed: Listed,
    is_broken: bool,
    held: Mutex<u64>,
    announced: Arc<Mutex<(u64, u64, u64)>>,
}

fn tag(bytes: &[u8]) -> String {
    format!("\"{:?}\"", Sha256::digest(bytes))
}

impl ReadAt for Object {
    fn len(&self) -> u64 {
        self.listed.bytes
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> shardpack_io::Result<usize, Cause> {
        if self.is_broken {
            return Err(Cause::new(ErrorKind::TimedOut, "no response within 20s (attempt 10)"));
        }
        let bytes = fs::read(&self.path)?;
        if Some(tag(&bytes)) != self.listed.e_tag {
            return Err(Cause::new(ErrorKind::InvalidData, "the object has changed since it was first read"));
        }
        let rest = &bytes[(offset as usize).min(bytes.len())..];
        // Deliver the object in pieces, as a network does.
        let count = rest.len().min(buffer.len()).min(1000);
        buffer[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn advise_soon(&self, _: u64, bytes: u64) {
        *self.held.lock().unwrap() += bytes;
        let mut announced = self.announced.lock().unwrap();
        announced.0 += bytes;
        announced.1 += bytes;
        announced.2 = announced.2.max(announced.1);
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.announced.lock().unwrap().1 -= *self.held.lock().unwrap();
    }
}

impl Storage for Bucket {
    fn path(&self) -> &Path {
        &self.url
    }

    fn open(&self, name: &str) -> shardpack_io::Result<Arc<dyn ReadAt>> {
        let all = self.list()?;
        self.open_listed(all.iter().find(|listed| listed.name == name).unwrap())
    }

    fn names(&self) -> shardpack_io::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn read_ahead_bytes(&self) -> u64 {
        self.read_ahead_bytes
    }

    fn list(&self) -> shardpack_io::Result<Vec<Listed>> {
        *self.lists.lock().unwrap() += 1;
        if self.broken == Some("listing") {
            let source = Cause::new(ErrorKind::PermissionDenied, "the store refuses");
            return Err(Error::io(self.url.clone(), "list", source));
        }
        let (mut found, mut folders) = (Vec::new(), vec![self.folder.clone()]);
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let bytes = fs::read(&path).unwrap();
                let name = path.strip_prefix(&self.folder).unwrap().to_str().unwrap().to_owned();
                let listed =
                    Listed { name, bytes: bytes.len() as u64, modified_ns: 7_000_000_000, e_tag: Some(tag(&bytes)) };
                found.push(listed);
            }
        }
        Ok(found)
    }

    fn open_listed(&self, listed: &Listed) -> shardpack_io::Result<Arc<dyn ReadAt>> {
        let is_broken = self.broken == Some(listed.name.as_str());
        let (path, announced) = (self.folder.join(&listed.name), Arc::clone(&self.announced));
        Ok(Arc::new(Object { path, listed: listed.clone(), is_broken, held: Mutex::default(), announced }))
    }
}

fn jpeg() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../jpeg/testdata/tiles.jpg")).unwrap()
}

const URL: &str = "s3://bucket/data";

fn bucket(folder: &Path) -> Bucket {
    Bucket { folder: folder.to_owned(), url: URL.into(), read_ahead_bytes: 4096, ..Bucket::default() }
}

fn options(bucket: Bucket) -> (SourceOptions, Arc<Bucket>) {
    let bucket = Arc::new(bucket);
    (SourceOptions { files: Files::default().and(URL, Arc::clone(&bucket) as _), ..Default::default() }, bucket)
}

fn pictures() -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for i in 0..40 {
        put(root.path(), &format!("{}/{i:02}.jpg", ["cat", "dog"][i % 2]), jpeg());
    }
    put(root.path(), "dog/wide.png", png(9, 2));
    put(root.path(), ".cache/x/y.jpg", jpeg());
    put(root.path(), ".cache/z.jpg", jpeg());
    put(root.path(), "cat/.DS_Store", b"any");
    put(root.path(), "README.md", b"words");
    root
}

fn packed(src: &Path, out: &Path, source: SourceOptions) -> crate::Result<Vec<(String, Vec<u8>)>> {
    let options = PackOptions { source, threads: 3, shard_bytes: 9000, ..PackOptions::default() };
    let hooks = Hooks { on_plan: &|_| {}, on_progress: &|_| {}, cancel: &AtomicBool::new(false) };
    pack(src, out, &options, &hooks)?;
    let names = fs::read_dir(out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut files: Vec<_> = names.filter(|name| !name.starts_with('.')).collect();
    files.sort();
    Ok(files.into_iter().map(|name| (name.clone(), fs::read(out.join(name)).unwrap())).collect())
}

/// Packs a folder directly and as a bucket, and checks that the shards are equal.
fn assert_same(root: &Path, change: impl Fn(&mut SourceOptions)) {
    let out = tempfile::tempdir().unwrap();
    let mut local = SourceOptions::default();
    change(&mut local);
    let (mut remote, bucket) = options(bucket(root));
    change(&mut remote);
    let here = packed(root, &out.path().join("here"), local).unwrap();
    let there = packed(Path::new(URL), &out.path().join("there"), remote).unwrap();
    assert!(here.len() > 1 && here == there);
    let (all, left, most) = *bucket.announced.lock().unwrap();
    assert!(all > 0 && left == 0, "{all} bytes were announced, {left} of them are held");
    // Packing announces at most half the limit for reading ahead, plus one sample, plus one sample per thread.
    // Listing announces the ends of a window of objects.
    assert!(most < 1 << 20, "{most}");
}

#[test]
fn pictures_of_a_store_give_the_dataset_of_the_folder() {
    let root = pictures();
    assert_same(root.path(), |_| {});
    let (remote, _) = options(bucket(root.path()));
    let there = enumerate(Path::new(URL), &remote).unwrap();
    let here = enumerate(root.path(), &SourceOptions::default()).unwrap();
    let facts = |listing: &Listing| (listing.classes.clone(), listing.ignored, listing.notes.clone());
    assert_eq!(facts(&there), facts(&here));
    assert_eq!(enumerate(Path::new("s3://bucket/data/"), &remote).unwrap().samples, there.samples);
}

#[test]
fn cubes_masks_and_what_lies_beside_them_come_from_a_store() {
    let root = tempfile::tempdir().unwrap();
    for i in 0..9 {
        put(root.path(), &format!("p{i}/a.npy"), npy_of(&[20, 30, 4 + i]));
        put(root.path(), &format!("p{i}/a.mask.npy"), npy_of(&[20, 30]));
        put(root.path(), &format!("p{i}/a.meta.json"), format!("{{\"patient\": {i}}}").into_bytes());
    }
    let header = "ENVI\nsamples = 3\nlines = 2\nbands = 2\ndata type = 4\ninterleave = bip\nbyte order = 0\n";
    assert_same(root.path(), |_| {});
    let envi = tempfile::tempdir().unwrap();
    for (name, data) in [("a", "a.img"), ("b", "b.rare")] {
        put(envi.path(), &format!("{name}.hdr"), header.as_bytes());
        put(envi.path(), data, vec![name.as_bytes()[0] & 0x3F; 48]);
    }
    assert_same(envi.path(), |_| {});
}

#[test]
fn a_listing_of_a_store_is_read_and_not_made_again() {
    let root = pictures();
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("listing");
    let (anew, _) = options(bucket(root.path()));
    let listing = enumerate(Path::new(URL), &anew).unwrap();
    listing_file::write(&listing, &anew, &file).unwrap();
    let (mut again, bucket) = options(bucket(root.path()));
    again.listing = Some(file.clone());
    assert_eq!(enumerate(Path::new(URL), &again).unwrap().samples, listing.samples);
    let there = packed(Path::new(URL), &out.path().join("there"), again).unwrap();
    assert_eq!(*bucket.lists.lock().unwrap(), 0);
    assert_eq!(there, packed(root.path(), &out.path().join("here"), SourceOptions::default()).unwrap());
    // A listing is only valid for its own URL.
    let here = SourceOptions { listing: Some(file), ..SourceOptions::default() };
    let error = enumerate(root.path(), &here).unwrap_err().to_string();
    assert!(error.contains("this is a listing of ") && error.contains(URL), "{error}");
}

#[test]
fn an_object_that_changes_after_the_listing_is_an_error_that_names_it() {
    let root = pictures();
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("listing");
    let (anew, _) = options(bucket(root.path()));
    listing_file::write(&enumerate(Path::new(URL), &anew).unwrap(), &anew, &file).unwrap();
    // The changed picture has the same length.
    let mut other = jpeg();
    let last = other.len() - 3;
    other[last] ^= 1;
    put(root.path(), "dog/07.jpg", other);
    let (mut again, _) = options(bucket(root.path()));
    again.listing = Some(file);
    let error = format!("{:#}", packed(Path::new(URL), &out.path().join("out"), again).unwrap_err());
    assert!(error.contains("`s3://bucket/data/dog/07.jpg` has changed since it was listed"), "{error}");
}

#[test]
fn a_store_that_fails_is_no_bad_input() {
    for (folder, broken) in [(pictures(), "cat/06.jpg"), (pictures(), "listing")] {
        let failing = Bucket { broken: Some(broken), ..bucket(folder.path()) };
        let (mut source, _) = options(failing);
        // Store errors are not skipped, because an outage would otherwise skip every sample it affects.
        source.on_bad_input = OnBadInput::Skip;
        let error = enumerate(Path::new(URL), &source).unwrap_err();
        assert!(matches!(error, SourceError::Io { .. }), "{error:?}");
        let named = if broken == "listing" { URL.to_owned() } else { format!("{URL}/{broken}") };
        assert!(error.to_string().contains(&format!("`{named}`")), "{error}");
    }
}

#[test]
fn an_empty_or_unknown_place_is_said() {
    let root = tempfile::tempdir().unwrap();
    let (source, _) = options(bucket(root.path()));
    let error = enumerate(Path::new(URL), &source).unwrap_err().to_string();
    assert_eq!(error, "`s3://bucket/data`: the store has no objects with this prefix");
    let error = enumerate(Path::new("s3://other/data"), &source).unwrap_err().to_string();
    assert!(error.contains("expected a local path, found a URL"), "{error}");
    // Some programs create empty objects as placeholders for folders. Any other empty object is bad input.
    put(root.path(), "a/x.png", png(3, 4));
    put(root.path(), "folder", Vec::new());
    put(root.path(), "empty.jpg", Vec::new());
    let (source, _) = options(bucket(root.path()));
    let Err(SourceError::BadInputs(bad)) = enumerate(Path::new(URL), &source) else { panic!("one is empty") };
    assert_eq!(bad.list.len(), 1);
    assert_eq!(bad.list[0].to_string(), "`empty.jpg`: the file is empty");
}
