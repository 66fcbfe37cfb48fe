//! A small TIFF writer for every byte order, layout, compression and predictor that the reader supports.

use super::*;
use std::io::Write;

/// Type, count and bytes of a tag's value.
type Value = (u64, usize, Vec<u8>);

#[derive(Debug, Clone)]
pub(super) struct TiffSpec {
    pub(super) dtype: Dtype,
    pub(super) shape: [usize; 3],
    pub(super) big_endian: bool,
    pub(super) big_tiff: bool,
    pub(super) planar: bool,
    pub(super) pages: bool,
    /// Height and width of the tiles, or `None` for strips of `rows` rows.
    pub(super) tile: Option<(usize, usize)>,
    pub(super) rows: usize,
    pub(super) compression: u32,
    pub(super) predictor: u32,
    /// Numbers and values of additional text tags.
    pub(super) texts: Vec<(u32, String)>,
}

impl TiffSpec {
    pub(super) fn new(dtype: Dtype, shape: [usize; 3]) -> Self {
        Self {
            dtype,
            shape,
            big_endian: false,
            big_tiff: false,
            planar: false,
            pages: false,
            tile: None,
            rows: shape[0],
            compression: 1,
            predictor: 1,
            texts: Vec::new(),
        }
    }

    pub(super) fn file(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(if self.big_endian { b"MM" } else { b"II" });
        out.extend(self.int(2, if self.big_tiff { 43 } else { 42 }));
        if self.big_tiff {
            out.extend([self.int(2, 8), self.int(2, 0)].concat());
        }
        let mut link = out.len();
        out.extend(self.int(self.word(), 0));
        let pages = if self.pages { self.shape[2] } else { 1 };
        for page in 0..pages {
            out.resize(out.len().next_multiple_of(8), 0);
            let here = self.int(self.word(), out.len() as u64);
            out[link..link + here.len()].copy_from_slice(&here);
            link = self.page(&mut out, page);
        }
        out
    }

    fn word(&self) -> usize {
        if self.big_tiff { 8 } else { 4 }
    }

    fn int(&self, bytes: usize, value: u64) -> Vec<u8> {
        let mut out = value.to_le_bytes()[..bytes].to_vec();
        if self.big_endian {
            out.reverse();
        }
        out
    }

    /// Writes a page, and returns the position of its link to the next page.
    fn page(&self, out: &mut Vec<u8>, page: usize) -> usize {
        let [h, w, c] = self.shape;
        let bands = if self.pages { 1 } else { c };
        let chunks = self.chunks(page);
        let format = match self.dtype {
            Dtype::I8 | Dtype::I16 | Dtype::I32 | Dtype::I64 => 2,
            float if float.is_float() => 3,
            _ => 1,
        };
        let shorts = |value: u64, count: usize| (3u64, count, self.int(2, value).repeat(count));
        let offset_kind = if self.big_tiff { 16 } else { 4 };
        let table = |values: &[u64]| {
            (offset_kind, values.len(), values.iter().flat_map(|&value| self.int(self.word(), value)).collect())
        };
        let zeros = vec![0; chunks.len()];
        let sizes: Vec<u64> = chunks.iter().map(|chunk| chunk.len() as u64).collect();
        let (offsets_tag, sizes_tag) = if self.tile.is_some() { (324, 325) } else { (273, 279) };
        let mut tags: Vec<(u32, Value)> = vec![
            (256, shorts(w as u64, 1)),
            (257, shorts(h as u64, 1)),
            (258, shorts(self.dtype.bytes() * 8, bands)),
            (259, shorts(u64::from(self.compression), 1)),
            (262, shorts(1, 1)),
            (277, shorts(bands as u64, 1)),
            (278, shorts(self.rows as u64, 1)),
            (284, shorts(if self.planar { 2 } else { 1 }, 1)),
            (317, shorts(u64::from(self.predictor), 1)),
            (339, shorts(format, bands)),
            (offsets_tag, table(&zeros)),
            (sizes_tag, table(&sizes)),
        ];
        if let Some((tile_h, tile_w)) = self.tile {
            tags.extend([(322, shorts(tile_w as u64, 1)), (323, shorts(tile_h as u64, 1))]);
        }
        tags.extend(self.texts.iter().map(|(tag, text)| (*tag, (2, text.len() + 1, [text.as_bytes(), &[0]].concat()))));
        tags.sort_by_key(|(tag, _)| *tag);
        let (count_bytes, entry_bytes) = if self.big_tiff { (8, 20) } else { (2, 12) };
        let start = out.len();
        let mut values = start + count_bytes + tags.len() * entry_bytes + self.word();
        let mut offsets_at = 0;
        let mut long = Vec::new();
        out.extend(self.int(count_bytes, tags.len() as u64));
        for (tag, (kind, count, mut value)) in tags {
            out.extend([self.int(2, u64::from(tag)), self.int(2, kind), self.int(self.word(), count as u64)].concat());
            if value.len() <= self.word() {
                offsets_at = if tag == offsets_tag { out.len() } else { offsets_at };
                value.resize(self.word(), 0);
                out.extend(value);
            } else {
                offsets_at = if tag == offsets_tag { values } else { offsets_at };
                out.extend(self.int(self.word(), values as u64));
                values += value.len();
                long.extend(value);
            }
        }
        let link = out.len();
        out.extend(self.int(self.word(), 0));
        out.extend(long);
        for (number, chunk) in chunks.iter().enumerate() {
            let here = self.int(self.word(), out.len() as u64);
            let at = offsets_at + number * self.word();
            out[at..at + here.len()].copy_from_slice(&here);
            out.extend(chunk);
        }
        link
    }

    fn chunks(&self, page: usize) -> Vec<Vec<u8>> {
        let [h, w, c] = self.shape;
        let (tile_h, tile_w) = self.tile.unwrap_or((self.rows, w));
        let planes: Vec<Vec<usize>> = if self.pages {
            vec![vec![page]]
        } else if self.planar {
            (0..c).map(|band| vec![band]).collect()
        } else {
            vec![(0..c).collect()]
        };
        let mut chunks = Vec::new();
        for bands in planes {
            for y0 in (0..h).step_by(tile_h) {
                for x0 in (0..w).step_by(tile_w) {
                    let rows = if self.tile.is_some() { tile_h } else { tile_h.min(h - y0) };
                    let rows = (y0..y0 + rows).map(|y| {
                        let row: Vec<Vec<u8>> = (x0..x0 + tile_w)
                            .flat_map(|x| bands.iter().map(move |&k| element(self.dtype, value(y, x, k))))
                            .collect();
                        self.predict(row, bands.len())
                    });
                    chunks.push(self.compress(&rows.collect::<Vec<_>>().concat()));
                }
            }
        }
        chunks
    }

    fn predict(&self, mut row: Vec<Vec<u8>>, bands: usize) -> Vec<u8> {
        let size = self.dtype.bytes() as usize;
        if self.predictor == 3 {
            let mut bytes: Vec<u8> =
                (0..size).rev().flat_map(|byte| row.iter().map(move |element| element[byte])).collect();
            for at in (bands..bytes.len()).rev() {
                bytes[at] = bytes[at].wrapping_sub(bytes[at - bands]);
            }
            return bytes;
        }
        if self.predictor == 2 {
            let wide = |element: &[u8]| element.iter().rev().fold(0u64, |acc, &byte| acc << 8 | u64::from(byte));
            for at in (bands..row.len()).rev() {
                row[at] = wide(&row[at]).wrapping_sub(wide(&row[at - bands])).to_le_bytes()[..size].to_vec();
            }
        }
        if self.big_endian {
            row.iter_mut().for_each(|element| element.reverse());
        }
        row.concat()
    }

    fn compress(&self, bytes: &[u8]) -> Vec<u8> {
        match self.compression {
            5 => weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(bytes).unwrap(),
            8 => {
                let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
                zlib.write_all(bytes).unwrap();
                zlib.finish().unwrap()
            }
            32773 => {
                let mut out = Vec::new();
                let mut rest = bytes;
                while let Some(&first) = rest.first() {
                    let run = rest.iter().take(128).take_while(|&&byte| byte == first).count();
                    let length = if run > 1 { run } else { rest.len().min(3) };
                    out.push(if run > 1 { (257 - run) as u8 } else { length as u8 - 1 });
                    out.extend(if run > 1 { &rest[..1] } else { &rest[..length] });
                    rest = &rest[length..];
                }
                out
            }
            50000 => zstd::bulk::compress(bytes, 1).unwrap(),
            _ => bytes.to_vec(),
        }
    }
}
