//! Tests the kernels, emulated on the CPU, against the host's decoder.

mod changes;
mod damage;
pub(crate) mod indexed;
pub(crate) mod jpegs;
pub(crate) mod on_host;
mod staging;

use super::batch::PictureRow;
use super::*;
use jpegs::{Random, Source, damage};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use shardpack_format::{ElementType, Limits};
use shardpack_gpu_play::{Device, MANNERS, Manner};
use shardpack_jpeg::{
    Area, DecodePaths, DrawKey, Framing, Interpolation, JpegDecoder, JpegHeader, PixelLayout, Rect, Rendering,
    Rescaled, Scaling, ShortestSide, View,
};
use staging::Staging;

#[derive(Debug, PartialEq)]
struct Played {
    out: Vec<u8>,
    status: Vec<u32>,
}

fn play(batch: &PictureBatch, memory: &[u8], manner: Manner) -> Result<Played, String> {
    let mut device = Device::new(manner);
    let buffers = batch.sizes().map(|bytes| device.alloc(bytes));
    device.bytes_mut(buffers.upload).unwrap().copy_from_slice(&memory[..batch.upload_bytes]);
    let at = buffers.map(|buffer| device.address(buffer));
    for launch in batch.launches(&at) {
        device.launch(launch.kernel, launch.grid, launch.block, &launch.params.bytes())?;
    }
    let status = device.bytes(buffers.status).as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
    Ok(Played { out: device.bytes(buffers.out).to_vec(), status })
}

fn by_host(
    jpeg: &[u8],
    how: &Rendering,
    row: &PictureRow,
    output: &Output,
) -> Result<Vec<u8>, shardpack_format::Error> {
    // Decode the whole picture and crop it. If libjpeg-turbo decodes only a few columns at the right edge, it
    // replicates their chroma instead of interpolating it.
    decoded(DecodePaths { partial: false, ..Default::default() }, jpeg, how, row, output)
}

fn decoded(
    paths: DecodePaths,
    jpeg: &[u8],
    how: &Rendering,
    row: &PictureRow,
    output: &Output,
) -> Result<Vec<u8>, shardpack_format::Error> {
    let mut levels = vec![0; row.height as usize * row.width as usize * 3];
    JpegDecoder::with_paths(&Limits::default(), paths).decode_into(jpeg, how, &mut levels)?;
    Ok(converted(&levels, output))
}

fn converted(levels: &[u8], output: &Output) -> Vec<u8> {
    use shardpack_format::Dtype as Stored;
    let dtype = match output.dtype {
        PixelType::Uint8 => Stored::U8.into(),
        PixelType::Float16 => Stored::F16.into(),
        PixelType::Bfloat16 => ElementType::Bf16,
        PixelType::Float32 => Stored::F32.into(),
    };
    on_host::converted(levels, output.layout, &output.scaling, dtype)
}

fn bytes_of<'a>(played: &'a Played, row: &PictureRow, output: &Output) -> &'a [u8] {
    let first = row.first as usize * output.dtype.bytes();
    &played.out[first..first + row.height as usize * row.width as usize * 3 * output.dtype.bytes()]
}

fn staged(pictures: &[(Vec<u8>, Rendering)], memory: &mut [u8], output: Output) -> PictureBatch {
    let options = StagingOptions { output, ..Default::default() };
    let mut staging = Staging::new(memory, options);
    for (n, (jpeg, how)) in pictures.iter().enumerate() {
        assert_eq!(staging.push(jpeg, how), Ok(n), "{how:?}");
    }
    staging.finish()
}

/// Returns unwritten staging memory. It is filled at once, because debug builds of `vec![0xCC; …]` write byte by byte.
fn unwritten(bytes: usize) -> Vec<u8> {
    let mut memory = vec![0; bytes];
    memory.fill(0xCC);
    memory
}

/// Asserts that the kernels produce the host's result, regardless of the order of threads and the initial content of
/// memory.
fn assert_same(pictures: &[(Vec<u8>, Rendering)], output: Output) {
    let mut memory = unwritten(1 << 20);
    let batch = staged(pictures, &mut memory, output);
    for manner in MANNERS {
        let played = play(&batch, &memory, manner).unwrap();
        for (n, ((jpeg, how), row)) in pictures.iter().zip(batch.rows()).enumerate() {
            let header = JpegHeader::parse(jpeg).unwrap();
            assert_eq!(played.status[n], 0, "{n}: {how:?}");
            let expected = by_host(jpeg, how, row, &output).unwrap();
            let found = bytes_of(&played, row, &output);
            if found != expected {
                let at = found.iter().zip(&expected).position(|(a, b)| a != b);
                panic!("{n}: {how:?} differs at {at:?} of {}: {manner:?} {header:?}", expected.len());
            }
        }
    }
}

fn source() -> impl Strategy<Value = Source> {
    let factors = prop_oneof![Just((0, 0)), Just((1, 1)), Just((2, 1)), Just((2, 2)), Just((1, 2))];
    let interval = prop_oneof![Just(0), 1_u16..4, 1_u16..40];
    (5..120_u16, 1..90_u16, factors, interval, 0..40_u32, any::<u64>()).prop_map(
        |(width, height, factors, interval, detail, seed)| Source {
            size: (width, height),
            factors,
            interval,
            detail,
            seed,
        },
    )
}

pub(crate) fn view(random: &mut Random, (width, height): (u32, u32)) -> View {
    let size = |random: &mut Random| 1 + random.below(70);
    let view = match random.below(11) {
        0 => View::whole(),
        1 => {
            let (x, y) = (random.below(width), random.below(height));
            let (w, h) = (1 + random.below(width - x), 1 + random.below(height - y));
            View::rectangle(Rect { x, y, width: w, height: h })
        }
        2 => View::resize((size(random), size(random))),
        3 => {
            let (height, width) = (size(random), size(random));
            View::center_crop(height.max(width) + random.below(20), (height, width))
        }
        4 => {
            let fill = [random.below(256) as u8, 7, 250];
            View { framing: Framing::Pad { size: (size(random), size(random)).into(), fill }, ..View::whole() }
        }
        5 => {
            let scale = (0.1, 0.2 + f64::from(random.below(20)) / 10.0);
            let framing = Framing::Rescaled {
                size: (size(random), size(random)).into(),
                rescaled: Rescaled::Fit { scale },
                fill: [9, random.below(256) as u8, 250],
            };
            View { framing, ..View::whole() }
        }
        6 => {
            let low = size(random);
            View::random_crop((size(random), size(random)), (low, low + random.below(40)))
        }
        7 => {
            let low = size(random);
            let (step, longest) = (1 + random.below(9), 30 + random.below(200));
            View::shortest(ShortestSide { range: (low, low + random.below(40)), step, longest })
        }
        8 => {
            // The area overlaps the picture, and may extend beyond it.
            let mut side = |side: u32| {
                let (start, length) = (f64::from(random.below(side)), f64::from(1 + random.below(2 * side)));
                (start - f64::from(random.below(length as u32)), length)
            };
            let ((x, width), (y, height)) = (side(width), side(height));
            let area = Area { x, y, width, height };
            let framing = Framing::Part { area, size: (size(random), size(random)).into(), fill: [250, 9, 30] };
            View { framing, ..View::whole() }
        }
        _ => View::random_resized_crop((size(random), size(random))),
    };
    let interpolation = match random.below(4) {
        0 => Interpolation::Nearest,
        1 => Interpolation::Bicubic,
        _ => Interpolation::Bilinear,
    };
    view.with_flip(f64::from(random.below(3)) / 2.0).with_interpolation(interpolation)
}

/// Draws a random rendering, in the given layout, of a picture of `size` stored pixels.
pub(crate) fn rendering(random: &mut Random, size: (u32, u32), layout: PixelLayout) -> Rendering {
    let orientation = if random.below(2) == 0 { 1 } else { 1 + random.below(8) as u8 };
    let upright = if orientation > 4 { (size.1, size.0) } else { size };
    let key = DrawKey { seed: random.next().into(), epoch: 1, sample: 2 };
    Rendering { view: view(random, upright), key, orientation, layout }
}

pub(crate) fn output(random: &mut Random) -> Output {
    let layout = [PixelLayout::HeightWidthChannels, PixelLayout::ChannelsHeightWidth][random.below(2) as usize];
    let dtype = [PixelType::Uint8, PixelType::Uint8, PixelType::Float16, PixelType::Bfloat16, PixelType::Float32]
        [random.below(5) as usize];
    let scaling = Scaling::normalised([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]).unwrap();
    Output { dtype, layout, scaling, planes_between: 0 }
}

/// Returns true if the kernels accept the picture. They do not accept narrow pictures in 4:2:0 and 4:2:2.
fn is_taken(source: &Source) -> bool {
    source.factors.0 != 2 || source.size.0 > 4
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..Default::default() })]

    #[test]
    fn batches_are_the_hosts_to_the_bit(sources in prop::collection::vec(source(), 1..5), seed in any::<u64>()) {
        of_sources(&sources, seed);
    }
}

/// Tests pictures with random views. Returns the number of pictures that the kernels accepted.
fn of_sources(sources: &[Source], seed: u64) -> usize {
    let random = &mut Random(seed);
    let output = output(random);
    let picture = |source: &Source| {
        let (width, height) = source.size;
        (source.encoded(), rendering(random, (width.into(), height.into()), output.layout))
    };
    let mut memory = vec![0; 1 << 20];
    let mut shrinks = |(jpeg, how): &(Vec<u8>, Rendering)| {
        let options = StagingOptions { output, ..Default::default() };
        Staging::new(&mut memory, options).push(jpeg, how) == Err(Reason::Shrinks)
    };
    let all: Vec<_> = sources.iter().filter(|source| is_taken(source)).map(picture).collect();
    let pictures: Vec<_> = all.into_iter().filter(|picture| !shrinks(picture)).collect();
    assert_same(&pictures, output);
    pictures.len()
}

/// Passes generated sources to `compare`, each time with another seed, until it has compared 100,000 pictures. Returns
/// the number of compared pictures.
fn compare_a_hundred_thousand(mut compare: impl FnMut(&[Source], u64) -> usize) -> usize {
    let mut runner = TestRunner::deterministic();
    let strategy = prop::collection::vec(source(), 1..5);
    let (mut compared, mut seed) = (0, 0);
    while compared < 100_000 {
        compared += compare(&strategy.new_tree(&mut runner).unwrap().current(), seed);
        seed += 1;
    }
    compared
}

#[test]
#[ignore = "minutes: the long campaign"]
fn a_hundred_thousand_pictures_are_the_hosts() {
    let mut made = 0;
    let taken = compare_a_hundred_thousand(|sources, seed| {
        made += sources.iter().filter(|source| is_taken(source)).count();
        of_sources(sources, seed)
    });
    assert!(made - taken < taken / 50, "{taken} of {made}: few views shrink too much");
}

#[test]
fn every_kind_of_picture_whole_and_cropped() {
    let mut pictures = Vec::new();
    for factors in [(0, 0), (1, 1), (2, 1), (2, 2), (1, 2)] {
        for interval in [0, 1, 5, 7, 13] {
            let source = Source { size: (101, 67), factors, interval, detail: 20, seed: 3 };
            let crop = Rendering {
                view: View::random_resized_crop((32, 40)).with_flip(0.5),
                key: DrawKey { seed: 1, epoch: 0, sample: interval.into() },
                ..Default::default()
            };
            pictures.push((source.encoded(), Rendering::default()));
            pictures.push((source.encoded(), crop));
        }
    }
    assert_same(&pictures, Output::default());
}

/// A block may have more words than a lane reads ahead, which is 16.
#[test]
fn blocks_of_many_words_are_the_hosts() {
    let mut longest = 0;
    let pictures: Vec<_> = (0..12)
        .map(|seed| {
            let jpeg = Source { size: (64, 48), factors: (0, 0), interval: 1, detail: 1000, seed }.encoded();
            let parts =
                jpeg.windows(2).enumerate().filter(|(_, pair)| pair[0] == 0xFF && (0xD0..0xD8).contains(&pair[1]));
            let starts: Vec<usize> = parts.map(|(at, _)| at).collect();
            longest = starts.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap().max(longest);
            (jpeg, Rendering::default())
        })
        .collect();
    assert!(longest > 2 * 64, "{longest} bytes of a block");
    assert_same(&pictures, Output::default());
}

#[test]
fn unsupported_pictures_are_refused_with_a_reason() {
    let whole = Rendering::default();
    let good = Source { size: (64, 48), factors: (2, 2), interval: 2, detail: 9, seed: 1 };
    let jpeg = good.encoded();
    let mut memory = vec![0; 1 << 20];
    let mut staging = Staging::new(&mut memory, StagingOptions { max_segment_blocks: 40, ..Default::default() });
    let changed = |from: &[u8], to: &[u8]| {
        let at = jpeg.windows(from.len()).position(|window| window == from).unwrap();
        [&jpeg[..at], to, &jpeg[at + from.len()..]].concat()
    };
    let frame = [0xFF, 0xC0, 0, 17, 8];
    let odd = |jpeg: &[u8], how: &Rendering, staging: &mut Staging<'_>| {
        let reason = staging.push(jpeg, how).unwrap_err();
        // These three reasons must follow from the header alone, because the packer records them in the dataset's
        // index.
        if matches!(reason, Reason::Process | Reason::Colours | Reason::Sampling) {
            assert!(!JpegHeader::parse(jpeg).unwrap().device_decodable(), "{reason:?}");
        }
        reason
    };
    assert_eq!(odd(b"GIF", &whole, &mut staging), Reason::Header);
    assert_eq!(odd(&changed(&frame, &[0xFF, 0xC2, 0, 17, 8]), &whole, &mut staging), Reason::Process);
    assert_eq!(odd(&changed(&frame, &[0xFF, 0xC1, 0, 17, 12]), &whole, &mut staging), Reason::Process);
    assert_eq!(odd(&changed(&[1, 0x22, 0], &[1, 0x41, 0]), &whole, &mut staging), Reason::Sampling);
    let adobe = [&jpeg[..2], b"\xFF\xEE\0\x0EAdobe\0\x64\0\0\0\0\0", &jpeg[2..]].concat();
    assert_eq!(odd(&adobe, &whole, &mut staging), Reason::Colours);
    let unknown = [&jpeg[..2], b"\xFF\x9B\0\x04ab", &jpeg[2..]].concat();
    assert_eq!(odd(&unknown, &whole, &mut staging), Reason::Header);
    let narrow = Source { size: (4, 48), ..good }.encoded();
    assert_eq!(odd(&narrow, &whole, &mut staging), Reason::Sampling);
    assert_eq!(odd(&changed(&[0xFF, 0xC4], &[0xFF, 0xE5]), &whole, &mut staging), Reason::Tables);
    assert_eq!(odd(&changed(&[0xFF, 0xD1], &[0xFF, 0xD3]), &whole, &mut staging), Reason::Markers);
    assert_eq!(odd(&jpeg[..jpeg.len() - 2], &whole, &mut staging), Reason::Markers);
    let unmarked = Source { interval: 0, ..good }.encoded();
    assert_eq!(odd(&unmarked, &whole, &mut staging), Reason::LongSegments);
    let wide = Source { size: (1024, 86), factors: (2, 2), interval: 0, detail: 0, seed: 1 };
    for (interval, taken) in [(0, false), (341, true)] {
        let jpeg = Source { interval, ..wide }.encoded();
        let mut other = vec![0; 1 << 20];
        let staged = Staging::new(&mut other, StagingOptions::default()).push(&jpeg, &whole);
        assert_eq!(staged, if taken { Ok(0) } else { Err(Reason::LongSegments) });
        assert_eq!(JpegHeader::parse(&jpeg).unwrap().device_decodable(), taken);
    }
    let large = Source { size: (600, 600), ..good }.encoded();
    let mut other = vec![0; 1 << 20];
    let mut roomy = Staging::new(&mut other, StagingOptions::default());
    assert_eq!(odd(&large, &Rendering { view: View::resize(1), ..whole }, &mut roomy), Reason::Shrinks);
    let outside = View::rectangle(Rect { x: 60, y: 0, width: 5, height: 5 });
    assert!(matches!(odd(&jpeg, &Rendering { view: outside, ..whole }, &mut staging), Reason::View(_)));
    // Check that none of these pictures has changed the batch.
    assert_eq!(staging.push(&jpeg, &whole), Ok(0));
    let batch = staging.finish();
    let played = play(&batch, &memory, MANNERS[0]).unwrap();
    assert_eq!(played.out, by_host(&jpeg, &whole, &batch.rows()[0], &Output::default()).unwrap());

    let mut memory = vec![0; jpeg.len() / 2];
    let mut staging = Staging::new(&mut memory, StagingOptions::default());
    assert_eq!(staging.push(&jpeg, &whole), Err(Reason::Full));
    assert!(staging.is_empty());
}

/// The view is a few columns at the right edge. Their chroma is so narrow that libjpeg-turbo does not interpolate it
/// if it decodes only these columns.
#[test]
fn narrow_rectangles_equal_the_whole_picture() {
    let mut pictures = Vec::new();
    for factors in [(2, 1), (2, 2), (1, 2)] {
        for (width, columns) in (33..40).flat_map(|width| [(width, 1), (width, 2), (width, 5)]) {
            let source = Source { size: (width, 40), factors, interval: 5, detail: 20, seed: width.into() };
            let rect = Rect { x: u32::from(width) - columns, y: 17, width: columns, height: 3 };
            pictures.push((source.encoded(), Rendering { view: View::rectangle(rect), ..Default::default() }));
        }
    }
    assert_same(&pictures, Output::default());
}
