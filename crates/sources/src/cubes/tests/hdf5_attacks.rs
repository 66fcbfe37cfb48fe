//! Tests limits on HDF5 files whose structures form many paths, and on files whose chunks are far
//! larger than their array.

use super::*;
use crate::bounded;

/// An HDF5 file under construction. New structures are appended at the end.
struct Hdf5(Vec<u8>);

impl Hdf5 {
    fn new() -> Self {
        let mut out = b"\x89HDF\r\n\x1a\n\0\0\0\0\0\x08\x08\0\x04\0\x10\0\0\0\0\0".to_vec();
        out.extend([0u64, u64::MAX, 0, u64::MAX, 0, 0].map(u64::to_le_bytes).concat());
        out.extend([0; 24]);
        Self(out)
    }

    fn object(&mut self, messages: &[(u16, Vec<u8>)]) -> u64 {
        self.0.resize(self.0.len().next_multiple_of(8), 0);
        let at = self.0.len() as u64;
        let padded = |content: &Vec<u8>| content.len().next_multiple_of(8);
        let bytes: usize = messages.iter().map(|(_, content)| 8 + padded(content)).sum();
        self.0.extend([1, 0]);
        self.0.extend((messages.len() as u16).to_le_bytes());
        self.0.extend(1u32.to_le_bytes());
        self.0.extend((bytes as u32).to_le_bytes());
        self.0.extend([0; 4]);
        for (kind, content) in messages {
            self.0.extend([kind.to_le_bytes(), (padded(content) as u16).to_le_bytes()].concat());
            self.0.extend([0; 4]);
            self.0.extend(content);
            self.0.resize(self.0.len() + padded(content) - content.len(), 0);
        }
        at
    }

    fn group(&mut self, links: &[(String, u64)]) -> u64 {
        // The link info has no heap, because the links are stored in messages.
        let mut messages = vec![(2, [vec![0, 0], u64::MAX.to_le_bytes().repeat(2)].concat())];
        messages.extend(
            links
                .iter()
                .map(|(name, to)| (6, [&[1, 0, name.len() as u8][..], name.as_bytes(), &to.to_le_bytes()].concat())),
        );
        self.object(&messages)
    }

    fn finish(mut self, root: u64) -> Vec<u8> {
        let end = self.0.len() as u64;
        self.0[40..48].copy_from_slice(&end.to_le_bytes());
        self.0[64..72].copy_from_slice(&root.to_le_bytes());
        self.0
    }
}

fn uint16(dims: &[u64]) -> Vec<(u16, Vec<u8>)> {
    let space =
        [&[1, dims.len() as u8, 0, 0, 0, 0, 0, 0][..], &dims.iter().flat_map(|d| d.to_le_bytes()).collect::<Vec<_>>()];
    vec![(1, space.concat()), (3, vec![0x10, 0, 0, 0, 2, 0, 0, 0, 0, 0, 16, 0])]
}

/// Returns a file with a dataset of one chunk. `stored` is the deflated chunk.
fn chunked(dims: &[u64], chunk: &[u32], stored: &[u8]) -> Vec<u8> {
    let mut file = Hdf5::new();
    let data = file.0.len() as u64;
    file.0.extend(stored);
    let tree = file.0.len() as u64;
    file.0.extend(b"TREE\x01\0\x01\0");
    file.0.extend(u64::MAX.to_le_bytes().repeat(2));
    for (size, offset) in [(stored.len() as u32, 0u64), (0, u64::from(chunk[0]))] {
        file.0.extend([size.to_le_bytes(), [0; 4]].concat());
        file.0.extend(offset.to_le_bytes());
        file.0.extend([0; 8].repeat(dims.len()));
        if size > 0 {
            file.0.extend(data.to_le_bytes());
        }
    }
    let sides: Vec<u8> = chunk.iter().chain(&[2]).flat_map(|side| side.to_le_bytes()).collect();
    let layout = [&[3, 2, dims.len() as u8 + 1][..], &tree.to_le_bytes(), &sides].concat();
    let deflate = vec![1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0];
    let messages = [uint16(dims), vec![(8, layout), (11, deflate)]].concat();
    let dataset = file.object(&messages);
    let root = file.group(&[("cube".to_owned(), dataset)]);
    file.finish(root)
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut zlib, bytes).unwrap();
    zlib.finish().unwrap()
}

pub(super) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let values: Vec<u8> = (0..8 * 8 * 8u16).flat_map(u16::to_le_bytes).collect();
    vec![
        ("chunk", chunked(&[2, 3, 4], &[8, 8, 8], &zlib(&values))),
        ("contiguous", linked(1)),
        ("bad-chunk", chunked(&[2, 3, 4], &[1024, 1024, 512], &zlib(&values))),
        ("bad-links", linked(14)),
        ("bad-size", wide_elements()),
        ("bad-types", nested_types(8180)),
    ]
}

/// Returns a dataset with elements of 2²⁹ bytes, which is 2³² bits.
fn wide_elements() -> Vec<u8> {
    let mut file = Hdf5::new();
    let mut messages = uint16(&[2, 3, 4]);
    messages[1].1[4..8].copy_from_slice(&(1u32 << 29).to_le_bytes());
    messages.push((8, [&[3, 1][..], &u64::MAX.to_le_bytes(), &48u64.to_le_bytes()].concat()));
    let dataset = file.object(&messages);
    let root = file.group(&[("cube".to_owned(), dataset)]);
    file.finish(root)
}

#[test]
fn elements_of_half_a_gibibyte() {
    let folder = Folder::new();
    let found = message(load(&folder.write("a.h5", wide_elements()), &CubeOptions::default()));
    assert!(found.contains("no numeric array"), "{found}");
}

/// Returns a dataset whose type nests `levels` variable-length types. A message has room for 8190.
fn nested_types(levels: usize) -> Vec<u8> {
    let mut file = Hdf5::new();
    let mut messages = uint16(&[2, 3, 4]);
    messages[1].1 = [[0x19, 0, 0, 0, 16, 0, 0, 0].repeat(levels), messages[1].1.clone()].concat();
    messages.push((8, [&[3, 1][..], &u64::MAX.to_le_bytes(), &48u64.to_le_bytes()].concat()));
    let dataset = file.object(&messages);
    let root = file.group(&[("cube".to_owned(), dataset)]);
    file.finish(root)
}

#[test]
fn types_as_deep_as_a_message() {
    bounded::run(concat!(module_path!(), "::types_as_deep_as_a_message"), || {
        let folder = Folder::new();
        let path = folder.write("a.h5", nested_types(8180));
        for found in [message(peek(&path, &CubeOptions::default())), message(load(&path, &CubeOptions::default()))] {
            assert!(found.contains("no numeric array"), "{found}");
        }
    });
}

/// Returns a dataset of zeros below `levels` groups. Each group but the innermost has six links to the next.
fn linked(levels: usize) -> Vec<u8> {
    let mut file = Hdf5::new();
    let contiguous = [&[3, 1][..], &u64::MAX.to_le_bytes(), &48u64.to_le_bytes()].concat();
    let mut inner = file.object(&[uint16(&[2, 3, 4]), vec![(8, contiguous)]].concat());
    for level in 0..levels {
        let links: Vec<_> = (0..if level == 0 { 1 } else { 6 }).map(|link| (format!("{link}"), inner)).collect();
        inner = file.group(&links);
    }
    file.finish(inner)
}

#[test]
fn hard_links_that_multiply() {
    bounded::run(concat!(module_path!(), "::hard_links_that_multiply"), || {
        let folder = Folder::new();
        let path = folder.write("a.h5", linked(14));
        for found in [message(peek(&path, &CubeOptions::default())), message(load(&path, &CubeOptions::default()))] {
            assert!(found.contains("the HDF5 file has more than 10000 groups"), "{found}");
        }
    });
}

#[test]
fn a_chunk_of_a_gibibyte_for_a_cube_of_48_bytes() {
    bounded::run(concat!(module_path!(), "::a_chunk_of_a_gibibyte_for_a_cube_of_48_bytes"), || {
        let folder = Folder::new();
        let path = folder.write("a.h5", chunked(&[2, 3, 4], &[1024, 1024, 512], &zlib(&vec![0; 1 << 20])));
        let found = message(load(&path, &CubeOptions::default()));
        let expected = "the HDF5 dataset `cube` has chunks of shape [1024, 1024, 512], which are too large for an \
                        array of 48 bytes: at most 67108864 bytes are allowed for all chunks";
        assert!(found.contains(expected), "{found}");
        // A chunk may be larger than its array.
        let values: Vec<u8> = (0..8 * 8 * 8u16).flat_map(u16::to_le_bytes).collect();
        let path = folder.write("b.h5", chunked(&[2, 3, 4], &[8, 8, 8], &zlib(&values)));
        let cube = load(&path, &CubeOptions::default()).unwrap();
        assert_eq!(cube.array.bytes()[..10], [0, 0, 1, 0, 2, 0, 3, 0, 8, 0]);
    });
}
