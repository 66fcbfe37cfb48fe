//! Writes Blosc2 frames byte by byte, without using the reader's code.

use std::io::Write;

/// How the blocks of a chunk are compressed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Coded {
    /// The whole chunk is stored uncompressed.
    Chunk,
    /// Each stream is stored uncompressed.
    Streams,
    Zlib,
    Zstd,
}

#[derive(Clone)]
pub(super) struct Blosc2Spec<'a> {
    /// NumPy's name for the element type.
    pub(super) descr: &'a str,
    pub(super) item: usize,
    pub(super) shape: &'a [usize],
    pub(super) chunk: &'a [usize],
    pub(super) block: &'a [usize],
    pub(super) coded: Coded,
    pub(super) shuffle: bool,
    pub(super) split: bool,
    /// Numbers of the chunks with a special value, and the offsets that represent these values.
    pub(super) special: &'a [(usize, i64)],
}

pub(super) const ZEROS: i64 = 0x81 << 56;
pub(super) const NANS: i64 = 0x82 << 56;
pub(super) const NEVER_SET: i64 = 0x84 << 56;

impl Default for Blosc2Spec<'_> {
    fn default() -> Self {
        Self {
            descr: "<f4",
            item: 4,
            shape: &[3, 5, 4],
            chunk: &[2, 4, 4],
            block: &[1, 3, 4],
            coded: Coded::Zlib,
            shuffle: true,
            split: true,
            special: &[],
        }
    }
}

impl Blosc2Spec<'_> {
    /// Returns a file that contains an array with these elements, in C order.
    pub(super) fn file(&self, elements: &[u8]) -> Vec<u8> {
        let grid: Vec<usize> =
            self.shape.iter().zip(self.chunk).map(|(length, chunk)| length.div_ceil(*chunk)).collect();
        let (mut chunks, mut offsets) = (Vec::new(), Vec::new());
        for number in 0..grid.iter().product() {
            let special = self.special.iter().find(|(which, _)| *which == number);
            offsets.push(special.map_or(chunks.len() as i64, |(_, offset)| *offset));
            if special.is_none() {
                chunks.extend(self.chunk_of(&index(number, &grid), elements));
            }
        }
        let unit: usize =
            self.chunk.iter().zip(self.block).map(|(chunk, block)| chunk.next_multiple_of(*block)).product();
        self.frame(&chunks, &offsets, unit * self.item)
    }

    /// Wraps stored chunks that decode to `unit` bytes each in a frame.
    pub(super) fn frame(&self, chunks: &[u8], offsets: &[i64], unit: usize) -> Vec<u8> {
        let layer = self.layer();
        let offset_bytes: Vec<u8> = offsets.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        let table = chunk(8, &offset_bytes, offset_bytes.len(), 0x17, [0; 6], 0, &offset_bytes);
        let trailer = b"\x94\x01\x93\xcd\0\x06\xde\0\0\xdc\0\0\xce\0\0\0\x23\xd8\0".iter().copied().chain([0; 16]);
        let header_bytes = 107 + 5 + layer.len();
        let mut out = b"\x9e\xa8b2frame\0\xd2".to_vec();
        out.extend((header_bytes as u32).to_be_bytes());
        out.push(0xCF);
        out.extend((header_bytes as u64 + chunks.len() as u64 + table.len() as u64 + 35).to_be_bytes());
        out.extend(b"\xa4\x12\0\x55\x02\xd3");
        out.extend(((offsets.len() * unit) as u64).to_be_bytes());
        out.push(0xD3);
        out.extend((chunks.len() as u64).to_be_bytes());
        for size in [self.item, unit.min(64), unit] {
            out.push(0xD2);
            out.extend((size as u32).to_be_bytes());
        }
        out.extend(b"\xd1\0\x02\xd1\0\x02\xc2\xd8\x06");
        out.extend([0; 16]);
        out.extend(b"\x93\xcd\0\x11\xde\0\x01\xa4b2nd\xd2\0\0\0\x6b\xdc\0\x01\xc6");
        out.extend((layer.len() as u32).to_be_bytes());
        out.extend(layer);
        out.extend(chunks);
        out.extend(table);
        out.extend(trailer);
        out
    }

    fn layer(&self) -> Vec<u8> {
        let axes = self.shape.len() as u8;
        let mut out = vec![0x97, 0, axes, 0x90 | axes];
        self.shape.iter().for_each(|length| out.extend([&[0xD3], &(*length as u64).to_be_bytes()[..]].concat()));
        for lengths in [self.chunk, self.block] {
            out.push(0x90 | axes);
            lengths.iter().for_each(|length| out.extend([&[0xD2], &(*length as u32).to_be_bytes()[..]].concat()));
        }
        out.extend([0, 0xDB]);
        out.extend((self.descr.len() as u32).to_be_bytes());
        out.extend(self.descr.bytes());
        out
    }

    /// Returns the chunk at this position in the grid.
    fn chunk_of(&self, place: &[usize], elements: &[u8]) -> Vec<u8> {
        let axes = || 0..self.shape.len();
        let blocks: Vec<usize> = axes().map(|k| self.chunk[k].div_ceil(self.block[k])).collect();
        let mut unit = Vec::new();
        for block in 0..blocks.iter().product() {
            let block = index(block, &blocks);
            for item in 0..self.block.iter().product() {
                let item = index(item, self.block);
                let within: Vec<usize> = axes().map(|k| block[k] * self.block[k] + item[k]).collect();
                let at: Vec<usize> = axes().map(|k| place[k] * self.chunk[k] + within[k]).collect();
                let inside = axes().all(|k| within[k] < self.chunk[k] && at[k] < self.shape[k]);
                let flat = axes().fold(0, |flat, k| flat * self.shape[k] + at[k]) * self.item;
                // Readers must not use the padding, so fill it with a recognisable byte.
                unit.extend(if inside { elements[flat..flat + self.item].to_vec() } else { vec![0xAB; self.item] });
            }
        }
        let block_bytes = self.block.iter().product::<usize>() * self.item;
        if self.coded == Coded::Chunk {
            return chunk(self.item, &unit, block_bytes, 0x07, [0; 6], 0, &unit);
        }
        let streams = if self.split { self.item } else { 1 };
        let (mut starts, mut body) = (Vec::new(), Vec::new());
        for block in unit.chunks(block_bytes) {
            starts.extend(((32 + unit.len() / block_bytes * 4 + body.len()) as u32).to_le_bytes());
            let items = block.len() / self.item;
            let planes: Vec<u8> = (0..block.len()).map(|at| block[at % items * self.item + at / items]).collect();
            let block = if self.shuffle { &planes[..] } else { block };
            for stream in block.chunks(block.len() / streams) {
                body.extend(self.stream(stream));
            }
        }
        let flags = 0x05 | if self.split { 0 } else { 0x10 } | if self.coded == Coded::Zlib { 3 } else { 4 } << 5;
        let shuffle = [0, 0, 0, 0, 0, u8::from(self.shuffle)];
        let coded = [starts, body].concat();
        // Store a chunk that does not shrink uncompressed, as other writers do, because readers refuse a larger one.
        match coded.len() > unit.len() {
            true => chunk(self.item, &unit, block_bytes, 0x07, [0; 6], 0, &unit),
            false => chunk(self.item, &unit, block_bytes, flags, shuffle, 0, &coded),
        }
    }

    fn stream(&self, stream: &[u8]) -> Vec<u8> {
        let coded = match self.coded {
            Coded::Zlib => {
                let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                zlib.write_all(stream).unwrap();
                zlib.finish().unwrap()
            }
            Coded::Zstd => zstd::bulk::compress(stream, 3).unwrap(),
            Coded::Streams | Coded::Chunk => stream.to_vec(),
        };
        let coded = if coded.len() < stream.len() { coded } else { stream.to_vec() };
        match *stream {
            [0, ref rest @ ..] if rest.iter().all(|byte| *byte == 0) => vec![0; 4],
            [first, ref rest @ ..] if rest.iter().all(|byte| *byte == first) => {
                [&(-i32::from(first)).to_le_bytes()[..], &[1]].concat()
            }
            _ => [(coded.len() as u32).to_le_bytes().to_vec(), coded].concat(),
        }
    }
}

/// Returns the elements of a compressible array, described by [`smooth_spec`].
pub(super) fn smooth() -> Vec<u8> {
    (0..3 * 20 * 20_u16).flat_map(|i| (i / 90 * 300).to_le_bytes()).collect()
}

pub(super) fn smooth_spec() -> Blosc2Spec<'static> {
    let [chunk, block] = [&[2, 20, 20], &[1, 20, 20]];
    Blosc2Spec { descr: "<u2", item: 2, shape: &[3, 20, 20], chunk, block, ..Blosc2Spec::default() }
}

/// Returns a chunk with this body.
pub(super) fn chunk(
    item: usize,
    unit: &[u8],
    block_bytes: usize,
    flags: u8,
    filters: [u8; 6],
    flags2: u8,
    body: &[u8],
) -> Vec<u8> {
    let mut out = vec![5, 1, flags, item as u8];
    for size in [unit.len(), block_bytes, 32 + body.len()] {
        out.extend((size as u32).to_le_bytes());
    }
    out.extend(filters);
    out.extend([0; 9]);
    out.push(flags2);
    out.extend(body);
    out
}

fn index(mut number: usize, counts: &[usize]) -> Vec<usize> {
    let mut index = Vec::new();
    for count in counts.iter().rev() {
        index.insert(0, number % count);
        number /= count;
    }
    index
}
