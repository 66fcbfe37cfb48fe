use super::*;
use fax::encoder::Encoder;
use fax::{Color, VecWriter};
use proptest::prelude::*;

const SIZE: [u32; 2] = [37, 21];

/// A TIFF to be written by a test: the type and values of each tag, and the strips or tiles.
#[derive(Clone)]
struct Made {
    big_endian: bool,
    tags: Vec<(u16, u16, Vec<u32>)>,
    chunks: Vec<Vec<u8>>,
}

impl Made {
    fn new(photometric: u32, bits: &[u32], strip: Vec<u8>) -> Self {
        let tags = vec![
            (256, 4, vec![SIZE[0]]),
            (257, 4, vec![SIZE[1]]),
            (258, 3, bits.to_vec()),
            (262, 3, vec![photometric]),
            (277, 3, vec![u32::try_from(bits.len()).unwrap()]),
        ];
        Self { big_endian: false, tags, chunks: vec![strip] }
    }

    fn with(mut self, tag: u16, values: &[u32]) -> Self {
        self.tags.retain(|(known, ..)| *known != tag);
        self.tags.push((tag, if values.iter().any(|&value| value > 65_535) { 4 } else { 3 }, values.to_vec()));
        self
    }

    /// Splits the picture into tiles with interleaved or separate bands.
    fn tiled(mut self, [width, height]: [usize; 2], planar: bool, of: impl Fn(usize, usize, usize) -> u8) -> Self {
        let [columns, rows] = SIZE.map(|side| side as usize);
        let bands = self.tags.iter().find(|(tag, ..)| *tag == 277).unwrap().2[0] as usize;
        let planes: Vec<Vec<usize>> =
            if planar { (0..bands).map(|band| vec![band]).collect() } else { vec![(0..bands).collect()] };
        self.chunks.clear();
        for bands in planes {
            for (top, left) in (0..rows).step_by(height).flat_map(|y| (0..columns).step_by(width).map(move |x| (y, x)))
            {
                let pixels = (top..top + height).flat_map(|y| (left..left + width).map(move |x| (y, x)));
                let tile = pixels.flat_map(|(y, x)| bands.iter().map(move |&band| (y, x, band)));
                self.chunks
                    .push(tile.map(|(y, x, band)| if y < rows && x < columns { of(y, x, band) } else { 99 }).collect());
            }
        }
        let [width, height] = [width, height].map(|side| u32::try_from(side).unwrap());
        self.with(322, &[width]).with(323, &[height]).with(284, &[if planar { 2 } else { 1 }])
    }

    fn packed(mut self, code: u32, pack: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        self.chunks.iter_mut().for_each(|chunk| *chunk = pack(chunk));
        self.with(259, &[code])
    }

    fn bytes(&self) -> Vec<u8> {
        let short = |value: u32| {
            let value = u16::try_from(value).unwrap();
            if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
        };
        let long = |value: u32| if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() };
        let mut out = if self.big_endian { b"MM\0\x2a\0\0\0\0".to_vec() } else { b"II\x2a\0\0\0\0\0".to_vec() };
        let at = |out: &Vec<u8>| u32::try_from(out.len()).unwrap();
        let mut places = Vec::new();
        for chunk in &self.chunks {
            places.push((at(&out), u32::try_from(chunk.len()).unwrap()));
            out.extend(chunk);
        }
        let is_tiled = self.tags.iter().any(|(tag, ..)| *tag == 322);
        let (offsets, counts): (Vec<u32>, Vec<u32>) = places.into_iter().unzip();
        let mut tags = self.tags.clone();
        tags.push((if is_tiled { 324 } else { 273 }, 4, offsets));
        tags.push((if is_tiled { 325 } else { 279 }, 4, counts));
        let mut entries = Vec::new();
        for (tag, kind, values) in &tags {
            let bytes: Vec<u8> = match kind {
                1 | 7 => values.iter().map(|&value| u8::try_from(value).unwrap()).collect(),
                3 => values.iter().flat_map(|&value| short(value)).collect(),
                _ => values.iter().flat_map(|&value| long(value)).collect(),
            };
            entries.extend(short((*tag).into()));
            entries.extend(short((*kind).into()));
            entries.extend(long(u32::try_from(values.len()).unwrap()));
            if bytes.len() <= 4 {
                entries.extend(&bytes);
                entries.extend(vec![0; 4 - bytes.len()]);
            } else {
                entries.extend(long(at(&out)));
                out.extend(&bytes);
            }
        }
        let directory = at(&out);
        out.extend(short(u32::try_from(tags.len()).unwrap()));
        out.extend(entries);
        out.extend([0; 4]);
        out[4..8].copy_from_slice(&long(directory));
        out
    }
}

fn decoded(file: &[u8]) -> Result<Vec<u8>> {
    let tiff = Tiff::open(file, &Limits::default())?;
    let mut rgb = vec![0xA5; tiff.width as usize * tiff.height as usize * 3];
    tiff.decode(&mut rgb).map(|()| rgb)
}

fn refused(made: &Made) -> String {
    decoded(&made.bytes()).unwrap_err().to_string()
}

/// Returns a level for each position, without a regular pattern that could hide a mistake.
fn level(y: usize, x: usize, band: usize) -> u8 {
    ((y * 31 + x * 7 + band * 83 + x * y) % 251) as u8
}

fn places() -> impl Iterator<Item = (usize, usize)> {
    (0..SIZE[1] as usize).flat_map(|y| (0..SIZE[0] as usize).map(move |x| (y, x)))
}

fn rgb(of: impl Fn(usize, usize) -> [u8; 3]) -> Vec<u8> {
    places().flat_map(|(y, x)| of(y, x)).collect()
}

fn strip(bands: usize) -> Vec<u8> {
    places().flat_map(|(y, x)| (0..bands).map(move |band| level(y, x, band))).collect()
}

fn three(y: usize, x: usize) -> [u8; 3] {
    [0, 1, 2].map(|band| level(y, x, band))
}

/// Packs values of `each` bits each, highest bit first. Each row is padded to whole bytes.
fn bits(values: impl Iterator<Item = u16>, each: usize) -> Vec<u8> {
    let values: Vec<u16> = values.collect();
    let rows = values.chunks(SIZE[0] as usize).map(|row| {
        let bits: Vec<u16> = row.iter().flat_map(|value| (0..each).rev().map(move |bit| value >> bit & 1)).collect();
        bits.chunks(8)
            .map(|byte| (0..8).fold(0, |sum, at| sum << 1 | byte.get(at).copied().unwrap_or(0) as u8))
            .collect()
    });
    rows.collect::<Vec<Vec<u8>>>().concat()
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn differences(bytes: &[u8], row: usize, bands: usize) -> Vec<u8> {
    let of = |row: &[u8]| -> Vec<u8> {
        (0..row.len()).map(|at| row[at].wrapping_sub(if at < bands { 0 } else { row[at - bands] })).collect()
    };
    bytes.chunks(row).flat_map(of).collect()
}

#[test]
fn a_band_beside_the_colours_changes_no_colour() {
    // Many near-infrared aerial pictures are stored like this: in tiles, with predictor 2 and deflate.
    for bands in [3, 4] {
        let made = Made::new(2, &vec![8; bands], Vec::new()).tiled([16, 16], false, level);
        let made = made.with(317, &[2]).packed(8, |tile| deflated(&differences(tile, 16 * bands, bands)));
        let made = if bands > 3 { made.with(338, &vec![0; bands - 3]) } else { made };
        assert!(decoded(&made.bytes()).unwrap() == rgb(three), "{bands} bands");
    }
}

#[test]
fn bands_apart_are_put_together() {
    for tile in [[16, 16], [64, 32], [8, 24]] {
        let made = Made::new(2, &[8; 4], Vec::new()).tiled(tile, true, level).with(338, &[2]);
        assert!(decoded(&made.bytes()).unwrap() == rgb(three), "{tile:?}");
        let gray = Made::new(1, &[8; 2], Vec::new()).tiled(tile, true, level).with(338, &[2]);
        assert!(decoded(&gray.bytes()).unwrap() == rgb(|y, x| [level(y, x, 0); 3]), "{tile:?}");
    }
}

#[test]
fn palettes_become_rgb() {
    for each in [1, 2, 4, 8] {
        let count = 1 << each;
        let value = |y, x| u16::from(level(y, x, 0)) % count;
        for (wide, shift) in [(257, 8), (1, 0)] {
            let palette: Vec<u32> = (0..3 * u32::from(count)).map(|at| at * 79 % 256 * wide).collect();
            let color = |y, x| {
                let index = usize::from(value(y, x));
                [0, 1, 2].map(|channel| (palette[channel * usize::from(count) + index] >> shift) as u8)
            };
            let made = Made::new(3, &[u32::try_from(each).unwrap()], bits(places().map(|(y, x)| value(y, x)), each));
            let made = made.with(320, &palette);
            assert!(decoded(&made.bytes()).unwrap() == rgb(color), "{each} bits, times {wide}");
        }
    }
    assert!(refused(&Made::new(3, &[8], strip(1))).contains("palette"));
}

#[test]
fn gray_of_any_depth_becomes_rgb() {
    for each in [1_usize, 2, 4, 8] {
        let most = (1_u32 << each) - 1;
        let value = |y, x| u16::try_from(u32::from(level(y, x, 0)) * 37 % (most + 1)).unwrap();
        for (photometric, inverted) in [(1, false), (0, true)] {
            let made = Made::new(photometric, &[each as u32], bits(places().map(|(y, x)| value(y, x)), each));
            let shown = |y, x| {
                let level = if inverted { most - u32::from(value(y, x)) } else { value(y, x).into() };
                [((level * 255 + most / 2) / most) as u8; 3]
            };
            assert!(decoded(&made.bytes()).unwrap() == rgb(shown), "{each} bits, inverted: {inverted}");
        }
    }
}

#[test]
fn both_orders_of_bytes_and_predictors_are_read() {
    let value = |y, x, band| u16::from(level(y, x, band)) * 257;
    for big_endian in [false, true] {
        let bytes = |v: u16| if big_endian { v.to_be_bytes() } else { v.to_le_bytes() };
        let samples: Vec<u16> = places().flat_map(|(y, x)| (0..3).map(move |band| value(y, x, band))).collect();
        let differ = samples
            .chunks(SIZE[0] as usize * 3)
            .flat_map(|row| (0..row.len()).map(move |at| row[at].wrapping_sub(if at < 3 { 0 } else { row[at - 3] })));
        let strip: Vec<u8> = differ.flat_map(bytes).collect();
        let pack = |strip: &[u8]| {
            weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(strip).unwrap()
        };
        let made = Made { big_endian, ..Made::new(2, &[16; 3], strip).with(317, &[2]).packed(5, pack) };
        assert!(decoded(&made.bytes()).unwrap() == rgb(three), "big-endian: {big_endian}");
        let tiff = made.bytes();
        assert!(Tiff::open(&tiff, &Limits::default()).unwrap().is_deep());
    }
}

#[test]
fn strips_that_are_packed_in_any_way_have_the_same_pixels() {
    let runs = |bytes: &[u8]| bytes.chunks(128).flat_map(|run| [&[(run.len() - 1) as u8], run].concat()).collect();
    let lzw = |bytes: &[u8]| weezl::encode::Encoder::new(weezl::BitOrder::Lsb, 8).encode(bytes).unwrap();
    let zstd = |bytes: &[u8]| zstd::bulk::compress(bytes, 1).unwrap();
    let reversed = |bytes: &[u8]| bytes.iter().map(|byte| byte.reverse_bits()).collect();
    let base = Made::new(2, &[8; 3], strip(3));
    for (name, made) in [
        ("PackBits", base.clone().packed(32773, runs)),
        ("LZW as before TIFF 6.0", base.clone().packed(5, lzw)),
        ("zstd", base.clone().packed(50000, zstd)),
        ("fill order", base.clone().packed(1, reversed).with(266, &[2])),
        ("deflate", base.clone().packed(32946, deflated)),
        ("a wrong number of bytes", base.clone().with(279, &[5])),
        ("a wild number of bytes", base.clone().with(279, &[1 << 30])),
    ] {
        assert!(decoded(&made.bytes()).unwrap() == rgb(three), "{name}");
    }
    let mut strips = base.with(278, &[8]);
    strips.chunks = strip(3).chunks(8 * 37 * 3).map(deflated).collect();
    assert!(decoded(&strips.with(259, &[8]).bytes()).unwrap() == rgb(three));
}

#[test]
fn bilevel_rows_of_ccitt_are_read() {
    let black = |y: usize, x: usize| level(y / 3, x / 5, 0) % 2 == 1 || y == 4;
    let shown = rgb(|y, x| [if black(y, x) { 0 } else { 255 }; 3]);
    let rows = || (0..21).map(|y| (0..37).map(move |x| black(y, x)));
    let mut encoder = Encoder::new(VecWriter::new());
    for row in rows() {
        let Ok(()) = encoder.encode_line(row.map(|black| if black { Color::Black } else { Color::White }), 37);
    }
    let Ok(writer) = encoder.finish();
    assert!(decoded(&Made::new(0, &[1], writer.finish()).with(259, &[4]).bytes()).unwrap() == shown);
    // Encodes rows as runs. Each row starts at a byte boundary in modified Huffman, and after a mark in Group 3.
    let codes = |row: Vec<bool>| {
        let (mut out, mut at, mut is_black) = (String::new(), 0, false);
        while at < row.len() {
            let length = row[at..].iter().take_while(|&&black| black == is_black).count();
            let bits = if is_black {
                fax::maps::black::encode(length as u16)
            } else {
                fax::maps::white::encode(length as u16)
            };
            let bits = bits.unwrap();
            out += &format!("{:016b}", bits.data)[16 - usize::from(bits.len)..];
            (at, is_black) = (at + length, !is_black);
        }
        out
    };
    let packed = |text: &str| -> Vec<u8> {
        let bit = |text: &[u8], at| u8::from(text.get(at) == Some(&b'1'));
        text.as_bytes().chunks(8).map(|byte| (0..8).fold(0, |sum, at| sum << 1 | bit(byte, at))).collect()
    };
    let huffman: Vec<u8> = rows().flat_map(|row| packed(&codes(row.collect()))).collect();
    assert!(decoded(&Made::new(0, &[1], huffman).with(259, &[2]).bytes()).unwrap() == shown);
    let marked: String = rows().map(|row| format!("000000000001{}", codes(row.collect()))).collect();
    assert!(decoded(&Made::new(0, &[1], packed(&marked)).with(259, &[3]).bytes()).unwrap() == shown);
    let tagged: String = rows().map(|row| format!("0000000000000011{}", codes(row.collect()))).collect();
    let made = Made::new(0, &[1], packed(&tagged)).with(259, &[3]).with(292, &[1]);
    assert!(decoded(&made.bytes()).unwrap() == shown);
}

#[test]
fn cmyk_alpha_and_chroma_are_as_pillow_has_them() {
    let pixel = |photometric, bands: &[u8], alpha: Option<u32>| {
        let made = Made::new(photometric, &vec![8; bands.len()], bands.repeat(21 * 37));
        let made = if let Some(alpha) = alpha { made.with(338, &[alpha]) } else { made };
        decoded(&made.bytes()).unwrap()[..3].to_vec()
    };
    assert_eq!(pixel(5, &[10, 200, 255, 40], None), [207, 46, 0]);
    assert_eq!(pixel(2, &[10, 50, 100, 128], Some(2)), [10, 50, 100]);
    assert_eq!(pixel(2, &[10, 50, 100, 128], Some(1)), [19, 99, 199], "multiplied with alpha");
    assert_eq!(pixel(2, &[10, 50, 100, 0], Some(1)), [0, 0, 0]);
    // Units of 2 × 2 pixels: four luma samples, followed by blue and red chroma.
    let unit = [50, 100, 150, 200, 90, 170];
    let made = Made::new(6, &[8; 3], unit.repeat(19 * 11)).with(530, &[2, 2]);
    let made = decoded(&made.bytes()).unwrap();
    let at = |y: usize, x: usize| &made[(y * 37 + x) * 3..][..3];
    assert_eq!(
        [at(0, 0), at(0, 1), at(3, 0), at(3, 3)].concat(),
        [109, 33, 0, 159, 83, 33, 209, 133, 83, 255, 183, 133]
    );
}

#[test]
fn jpegs_in_strips_share_their_tables() {
    use crate::sources::{encode, plain};
    use crate::turbo::Process;
    use crate::{JpegDecoder, PixelFormat, Rendering, Subsampling};
    for (photometric, process, format) in
        [(6, None, PixelFormat::Rgb), (2, Some(Process::Rgb), PixelFormat::Rgb), (1, None, PixelFormat::Gray)]
    {
        let sampling = if format == PixelFormat::Gray { Subsampling::Gray } else { Subsampling::S444 };
        let whole = encode((SIZE[0], SIZE[1]), format, plain(sampling), process);
        let mut shown = vec![0; 37 * 21 * 3];
        JpegDecoder::new(&Limits::default()).decode_into(&whole, &Rendering::default(), &mut shown).unwrap();
        // The bytes before the frame are the tables, plus a colour segment that TIFFs do not have.
        let frame = memchr::memmem::find(&whole, b"\xFF\xC0").unwrap();
        let tables = memchr::memmem::find(&whole, b"\xFF\xDB").unwrap();
        let strip = [b"\xFF\xD8", &whole[frame..]].concat();
        let tables: Vec<u32> =
            [b"\xFF\xD8", &whole[tables..frame], b"\xFF\xD9"].concat().into_iter().map(u32::from).collect();
        let mut made = Made::new(photometric, &vec![8; format.bytes()], strip).with(259, &[7]).with(530, &[1, 1]);
        made.tags.push((347, 7, tables));
        assert!(decoded(&made.bytes()).unwrap() == shown, "{photometric}");
        made.chunks[0].truncate(200);
        assert!(decoded(&made.bytes()).is_err());
    }
}

#[test]
fn unsupported_tiffs_are_named() {
    let base = || Made::new(2, &[8; 3], strip(3));
    for (made, name) in [
        (base().with(259, &[34887]), "LERC"),
        (base().with(259, &[6]), "the old JPEG of TIFF 6.0"),
        (base().with(262, &[8]), "CIELab"),
        (base().with(258, &[8, 8, 16]), "bands differ in bit depth"),
        (base().with(258, &[32]), "32-bit unsigned integers"),
        (base().with(258, &[4]), "4-bit unsigned integers"),
        (Made::new(1, &[12], strip(2)), "12-bit unsigned integers"),
        (base().with(258, &[32]).with(339, &[3]), "32-bit floats"),
        (base().with(277, &[6]), "TIFF bands"),
        (base().with(339, &[2]), "8-bit signed integers"),
        (base().with(256, &[0]), "TIFF width"),
        (base().with(322, &[70_000]).with(323, &[70_000]), "TIFF strip or tile is over the limit"),
        (base().with(256, &[200_000]).with(257, &[200_000]), "max_decoded_bytes"),
    ] {
        let error = refused(&made);
        assert!(error.contains(name), "{name}: {error}");
    }
    let mut sparse = base();
    sparse.chunks = vec![Vec::new()];
    assert!(refused(&sparse).contains("sparse"), "{}", refused(&sparse));
}

#[test]
fn strips_and_tiles_ask_for_no_more_work_than_the_picture_is_worth() {
    // A million columns of pixels. Each column is a tile of 16 MiB, and all tiles share the same few bytes.
    let million = vec![8; 1_000_000];
    let tall = Made::new(1, &[8], deflated(&[0; 1000])).with(256, &[1_000_000]).with(257, &[1]).with(259, &[8]);
    let tall = tall.with(322, &[1]).with(323, &[16 << 20]).with(324, &million).with(325, &million);
    assert!(
        refused(&tall).contains("unpack to 16777216000000 bytes, more than the 16777216 bytes allowed"),
        "{}",
        refused(&tall)
    );
    // Without byte counts, each strip extends to the end of the file.
    let mut strips = Made::new(2, &[8; 3], Vec::new()).with(278, &[1]).with(259, &[8]);
    strips.chunks = strip(3).chunks(37 * 3).map(deflated).collect();
    strips.chunks.push(vec![0; 1 << 20]);
    assert!(decoded(&strips.bytes()).unwrap() == rgb(three));
    let few = strips.clone().with(279, &[strips.chunks[0].len() as u32]);
    assert!(refused(&few).contains("the compressed strips or tiles of the TIFF add up to"), "{}", refused(&few));
    let mut none = strips.clone();
    none.tags.push((279, 3, Vec::new()));
    assert!(refused(&none).contains("the compressed strips or tiles of the TIFF add up to"), "{}", refused(&none));
    // The tables are read again before each JPEG, so they count each time.
    let mut tables = strips.with(259, &[7]);
    tables.chunks.pop();
    tables.tags.push((347, 7, vec![0; 1 << 20]));
    assert!(refused(&tables).contains("the compressed strips or tiles of the TIFF add up to"), "{}", refused(&tables));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn hostile_files_end_in_errors(
        kind in 0_usize..5,
        at in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let made = [
            Made::new(2, &[8; 3], strip(3)),
            Made::new(2, &[8; 4], Vec::new()).tiled([16, 16], true, level).packed(8, deflated),
            Made::new(0, &[1], vec![0x5B; 90]).with(259, &[4]),
            Made::new(6, &[8; 3], [7; 6].repeat(19 * 11)).with(530, &[2, 2]),
            Made::new(3, &[4], bits(places().map(|_| 3), 4)).with(320, &[5; 48]),
        ];
        let mut file = made[kind].bytes();
        let tables = file.len() - 160;
        for (place, value) in at {
            let place = tables + place.index(160);
            file[place] = value;
        }
        let limits = Limits { max_decoded_bytes: 1 << 20, ..Limits::default() };
        let shown = |file: &[u8]| {
            let Ok(tiff) = Tiff::open(file, &limits) else { return };
            let mut rgb = vec![0; tiff.width as usize * tiff.height as usize * 3];
            let _ = tiff.decode(&mut rgb);
        };
        shown(&file);
        shown(&file[..cut.index(file.len())]);
    }
}
