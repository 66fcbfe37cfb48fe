//! Decodes losslessly coded TIFF strips and tiles piece by piece, for pictures and cubes.

use std::fmt;
use std::io::Read;
use weezl::decode::Decoder;
use weezl::{BitOrder, LzwStatus};

/// A lossless coding of a strip or tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TiffCoding {
    /// LZW, in the TIFF 6.0 variant or the older one.
    Lzw,
    /// Deflate.
    Deflate,
    /// PackBits.
    PackBits,
    /// Zstandard.
    Zstd,
}

impl TiffCoding {
    /// Returns the coding with the given TIFF compression number, or `None` for other compressions.
    ///
    /// ```
    /// use shardpack_jpeg::TiffCoding;
    /// assert_eq!((TiffCoding::of(5), TiffCoding::of(7)), (Some(TiffCoding::Lzw), None));
    /// ```
    #[must_use]
    pub const fn of(code: u64) -> Option<Self> {
        Some(match code {
            5 => Self::Lzw,
            8 | 32946 => Self::Deflate,
            32773 => Self::PackBits,
            // 34926 was used before libtiff registered the number 50000.
            50000 | 34926 => Self::Zstd,
            _ => return None,
        })
    }

    /// Returns the maximum number of decoded bytes per coded byte. A file that promises more is damaged, and
    /// no memory is allocated for it.
    #[must_use]
    pub const fn max_ratio(self) -> u64 {
        match self {
            // A 12-bit code decodes to at most 4,096 bytes.
            Self::Lzw => 4096,
            // A match of 258 bytes takes at least two bits.
            Self::Deflate => 1032,
            // A run of 128 bytes takes two bytes.
            Self::PackBits => 64,
            // A block of 128 KiB takes at least four bytes.
            Self::Zstd => 32 << 10,
        }
    }
}

/// Decodes one strip or tile.
pub struct Unpacker<'a> {
    stream: CodedStream<'a>,
    /// Number of bytes of the strip or tile that have not been decoded yet.
    left: usize,
}

enum CodedStream<'a> {
    Lzw(Box<Decoder>, &'a [u8]),
    Read(Box<dyn Read + 'a>),
    PackBits(PackedRun<'a>, &'a [u8]),
}

enum PackedRun<'a> {
    Literal(&'a [u8]),
    Repeated(u8, usize),
}

impl fmt::Debug for Unpacker<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacker").field("left", &self.left).finish_non_exhaustive()
    }
}

impl<'a> Unpacker<'a> {
    /// Creates an unpacker for a strip or tile with `bytes` decoded bytes.
    ///
    /// # Errors
    /// A message if there is not enough memory for the decoder.
    pub fn new(coding: TiffCoding, packed: &'a [u8], bytes: usize) -> Result<Self, String> {
        let stream = match coding {
            TiffCoding::Lzw => {
                // Before TIFF 6.0, codes started at the lowest bit and became longer one code later. These streams
                // start with the code 256 in that bit order.
                let is_old = matches!(packed, [0, second, ..] if second & 1 == 1);
                let decoder = match is_old {
                    true => Decoder::new(BitOrder::Lsb, 8),
                    false => Decoder::with_tiff_size_switch(BitOrder::Msb, 8),
                };
                CodedStream::Lzw(Box::new(decoder), packed)
            }
            TiffCoding::Deflate => CodedStream::Read(Box::new(flate2::read::ZlibDecoder::new(packed))),
            TiffCoding::PackBits => CodedStream::PackBits(PackedRun::Literal(&[]), packed),
            TiffCoding::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(packed).map_err(|error| error.to_string())?;
                CodedStream::Read(Box::new(decoder))
            }
        };
        Ok(Self { stream, left: bytes })
    }

    /// Fills the next piece. The pieces must add up to the length of the strip or tile.
    ///
    /// # Errors
    /// A message if the coded bytes are damaged or end early.
    pub fn fill(&mut self, piece: &mut [u8]) -> Result<(), String> {
        match &mut self.stream {
            CodedStream::Lzw(decoder, packed) => lzw(decoder, packed, piece, self.left)?,
            CodedStream::Read(stream) => stream.read_exact(piece).map_err(|error| error.to_string())?,
            CodedStream::PackBits(run, packed) => pack_bits(run, packed, piece, self.left)?,
        }
        self.left = self.left.saturating_sub(piece.len());
        Ok(())
    }
}

/// Decodes LZW into `to`. Before the call, `left` bytes of the strip or tile remain to be decoded.
fn lzw(decoder: &mut Decoder, packed: &mut &[u8], mut to: &mut [u8], mut left: usize) -> Result<(), String> {
    while !to.is_empty() {
        let step = decoder.decode_bytes(packed, to);
        left = left.saturating_sub(step.consumed_out);
        *packed = packed.get(step.consumed_in..).unwrap_or_default();
        to = to.get_mut(step.consumed_out..).unwrap_or_default();
        match step.status {
            Ok(LzwStatus::Ok) if step.consumed_in + step.consumed_out > 0 => {}
            Ok(LzwStatus::Done) if left == 0 => {}
            Ok(_) => return Err(format!("its stream ends {left} bytes early")),
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(())
}

/// Decodes PackBits into `to`. Before the call, `left` bytes of the strip or tile remain to be decoded.
fn pack_bits<'a>(
    run: &mut PackedRun<'a>,
    packed: &mut &'a [u8],
    mut to: &mut [u8],
    mut left: usize,
) -> Result<(), String> {
    loop {
        let length = match run {
            PackedRun::Literal(bytes) => bytes.len().min(to.len()),
            PackedRun::Repeated(_, count) => (*count).min(to.len()),
        };
        let (now, later) = std::mem::take(&mut to).split_at_mut(length);
        match run {
            PackedRun::Literal(bytes) => {
                let (first, rest) = bytes.split_at(now.len());
                now.copy_from_slice(first);
                *bytes = rest;
            }
            PackedRun::Repeated(byte, count) => {
                now.fill(*byte);
                *count -= now.len();
            }
        }
        left = left.saturating_sub(now.len());
        to = later;
        if to.is_empty() {
            return Ok(());
        }
        *run = next_run(packed, left)?;
    }
}

/// Returns the next run. `left` bytes of the strip or tile remain to be decoded.
fn next_run<'a>(packed: &mut &'a [u8], left: usize) -> Result<PackedRun<'a>, String> {
    let early = || format!("its stream ends {left} bytes early");
    loop {
        let (&control, rest) = packed.split_first().ok_or_else(early)?;
        *packed = rest;
        // Some writers let the last run extend past the end of the strip or tile.
        match control {
            0..=127 => {
                let length = (usize::from(control) + 1).min(left);
                let (literal, rest) = packed.split_at_checked(length).ok_or_else(early)?;
                *packed = rest;
                return Ok(PackedRun::Literal(literal));
            }
            128 => {}
            129..=255 => {
                let (&byte, rest) = packed.split_first().ok_or_else(early)?;
                *packed = rest;
                return Ok(PackedRun::Repeated(byte, 257 - usize::from(control)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by_pieces(coding: TiffCoding, packed: &[u8], bytes: usize) -> (Vec<u8>, Vec<u8>) {
        let (mut pieces, mut whole) = (vec![0; bytes], vec![0; bytes]);
        let mut unpacker = Unpacker::new(coding, packed, bytes).unwrap();
        pieces.chunks_mut(7).for_each(|piece| unpacker.fill(piece).unwrap());
        Unpacker::new(coding, packed, bytes).unwrap().fill(&mut whole).unwrap();
        (pieces, whole)
    }

    #[test]
    fn pieces_are_the_whole() {
        let bytes: Vec<u8> = (0..4_000_u32).map(|i| (i * i / 97) as u8).collect();
        let old = weezl::encode::Encoder::new(BitOrder::Lsb, 8).encode(&bytes).unwrap();
        let new = weezl::encode::Encoder::with_tiff_size_switch(BitOrder::Msb, 8).encode(&bytes).unwrap();
        for packed in [old, new] {
            assert_eq!(by_pieces(TiffCoding::Lzw, &packed, bytes.len()), (bytes.clone(), bytes.clone()));
        }
    }

    #[test]
    fn the_last_run_may_pass_the_end() {
        // A run of ten fives, four literals, and a run of 100 nines. The test requests only six of the nines.
        let packed = [247, 5, 3, 1, 2, 3, 4, 157, 9];
        let expected: Vec<u8> = [vec![5; 10], vec![1, 2, 3, 4], vec![9; 6]].concat();
        assert_eq!(by_pieces(TiffCoding::PackBits, &packed, 20), (expected.clone(), expected));
    }
}
