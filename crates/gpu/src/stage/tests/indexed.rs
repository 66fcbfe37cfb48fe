//! Tests pictures with a segment index, from records and from device memory, next to pictures without an index.

use super::jpegs::{Random, Source};
use super::played::play;
use super::spot;
use crate::driver::Heap;
use crate::gather::MARGIN;
use crate::pictures::tests::indexed::index_of;
use crate::pictures::tests::{on_host, output, rendering};
use crate::pictures::{Output, PixelType};
use crate::stage::decoding::Decoding;
use crate::stage::staging::Staging;
use crate::stage::store::{Backing, Store};
use crate::stage::stored_array::KeptValue;
use proptest::prelude::*;
use shardpack_array::ZstdDecoder;
use shardpack_format::{Dtype, ElementType, Limits};
use shardpack_gpu_play::MANNERS;
use shardpack_jpeg::{JpegDecoder, PixelLayout, Placement, Rendering, StoredPicture, View};
use shardpack_loader::stage::{FieldRows, FieldSource, FieldSpec, Prepared, RecordValue, SlotRoom};
use std::io;
use std::sync::Mutex;

struct Bytes(Mutex<Vec<u8>>);

impl Backing for Bytes {
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap()[at as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }
}

struct Row {
    jpeg: Vec<u8>,
    index: Option<Vec<u8>>,
    how: Rendering,
    size: [u32; 2],
}

impl Row {
    fn new(source: &Source, how: Rendering) -> Option<Self> {
        let (width, height) = source.size;
        let place = Placement::new(&how, width.into(), height.into()).ok()?;
        let jpeg = source.encoded();
        Some(Self { index: index_of(&jpeg), jpeg, how, size: [place.height, place.width] })
    }

    fn stored(&self) -> StoredPicture<'_> {
        StoredPicture { segments: self.index.as_deref(), ..StoredPicture::new("image/jpeg", &self.jpeg) }
    }

    fn value<'a>(&'a self, output: &'a Output, limits: &'a Limits) -> RecordValue<'a> {
        let (dtype, scaling) = (element(output.dtype), &output.scaling);
        RecordValue::Picture {
            picture: self.stored(),
            how: &self.how,
            crops: None,
            changes: &[],
            dtype,
            scaling,
            limits,
            clip: None,
        }
    }

    fn bytes(&self, output: &Output) -> usize {
        self.size.map(|side| side as usize).iter().product::<usize>() * 3 * output.dtype.bytes()
    }

    fn record_bytes(&self) -> usize {
        self.jpeg.len() + self.index.as_ref().map_or(0, Vec::len)
    }

    fn by_host(&self, output: &Output) -> Vec<u8> {
        let mut levels = vec![0; self.size.map(|side| side as usize).iter().product::<usize>() * 3];
        JpegDecoder::new(&Limits::default()).decode_into(&self.jpeg, &self.how, &mut levels).unwrap();
        on_host::converted(&levels, output.layout, &output.scaling, element(output.dtype))
    }
}

fn element(dtype: PixelType) -> ElementType {
    match dtype {
        PixelType::Uint8 => Dtype::U8.into(),
        PixelType::Float16 => Dtype::F16.into(),
        PixelType::Bfloat16 => ElementType::Bf16,
        PixelType::Float32 => Dtype::F32.into(),
    }
}

/// Keeps all rows in a store. Returns the store and the numbers of the rows.
fn kept(rows: &[Row], output: &Output) -> (Store<Bytes>, Vec<Option<u64>>) {
    let (store, limits) = (Store::default(), Limits::default());
    let bytes = rows.iter().map(|row| Store::<Bytes>::value_bytes(row.jpeg.len() as u64)).sum();
    let memory = vec![0xC3; bytes as usize + MARGIN];
    store.put_in(Bytes(Mutex::new(memory)), bytes).unwrap();
    let values: Vec<_> = rows.iter().map(|row| row.value(output, &limits)).collect();
    let numbers = store.keep(&values).unwrap();
    store.seal();
    (store, numbers)
}

/// Decodes a batch in staging memory of `staged_bytes`, from records or from kept values, and compares it with the
/// host's batch. Rows that do not fit are left to the host. Returns the number of rows that fit, and the size of the
/// batch in a slot in bytes.
fn compare(rows: &[Row], output: &Output, staged_bytes: usize, is_kept: bool) -> (usize, usize) {
    let memory = Heap::new(Staging::<Heap>::memory_bytes(rows.len(), staged_bytes, 0));
    let (fill, limits, zstd) = (Staging::new(memory, 0).unwrap(), Limits::default(), &mut ZstdDecoder::default());
    let (store, numbers) = kept(rows, output);
    let expected = rows.iter().map(|row| row.by_host(output)).collect::<Vec<_>>().concat();
    fill.begin(expected.len());
    let (mut at, mut taken) = (0, 0);
    for (n, row) in (0..).zip(rows) {
        let place = spot(n, 0, at..at + row.bytes(output));
        let value = row.value(output, &limits);
        let prepared = match numbers[n as usize] {
            Some(number) if is_kept => {
                let tables = store.find(number).unwrap();
                fill.prepare_kept(&place, KeptValue { number, tables }, &value, zstd)
            }
            _ => fill.prepare(&place, &value, zstd),
        };
        at = place.bytes.end;
        match prepared {
            Prepared::Taken(size) => {
                assert_eq!(size, Some(row.size));
                taken += 1;
            }
            Prepared::Refused(why) => {
                let known = ["no room left in the staging memory", "unusual subsampling", "shrinks too much"];
                assert!(known.contains(&&*why), "{why}: {:?}", row.how);
                fill.put(&place, &expected[place.bytes.clone()]).unwrap();
            }
        }
    }
    let (batch, mut upload) = fill.assemble(&[]).unwrap();
    let staging = upload.memory().unwrap().bytes_mut();
    let kept = store.backing().unwrap().0.lock().unwrap();
    for manner in MANNERS {
        let (out, faults) = play(&batch, (&kept, staging), expected.len(), manner);
        assert_eq!(faults, []);
        let differs = out.iter().zip(&expected).position(|(a, b)| a != b);
        assert!(differs.is_none(), "at {differs:?} of {}", expected.len());
    }
    (taken, batch.memory_bytes)
}

fn source(random: &mut Random) -> Source {
    Source {
        size: (5 + random.below(120) as u16, 1 + random.below(90) as u16),
        factors: [(0, 0), (1, 1), (2, 1), (2, 2), (1, 2)][random.below(5) as usize],
        interval: [0, 0, 4, 30, 64][random.below(5) as usize],
        detail: random.below(30),
        seed: random.next().into(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// If memory is tight, some rows do not fit. The other rows must not change.
    #[test]
    fn rows_are_the_hosts(seed in any::<u64>(), count in 1_usize..8, is_kept in any::<bool>(), tight in 1_usize..6) {
        let random = &mut Random(seed);
        let output = output(random);
        let mut rows = Vec::new();
        while rows.len() < count {
            let source = source(random);
            let how = rendering(random, (source.size.0.into(), source.size.1.into()), output.layout);
            rows.extend(Row::new(&source, how));
        }
        let bytes: usize = rows.iter().map(|row| row.record_bytes() * 2 + row.bytes(&output) / 32 + 1024).sum();
        compare(&rows, &output, bytes / tight, is_kept);
    }
}

/// The memory predicted for a slot is enough for pictures with an index, whole and cropped.
#[test]
fn predicted_memory_suffices() {
    for (view, detail) in [(View::whole(), 10), (View::random_resized_crop(160), 10), (View::center_crop(256, 224), 3)]
    {
        let output = Output { layout: PixelLayout::HeightWidthChannels, ..Output::default() };
        let how = Rendering { view, ..Rendering::default() };
        let row = |seed| Source { size: (333, 250), factors: (2, 2), interval: 0, detail, seed };
        let rows: Vec<_> = (0..6).map(|seed| Row::new(&row(seed), how).unwrap()).collect();
        let record_bytes: usize = rows.iter().map(Row::record_bytes).sum();
        let row_bytes: usize = rows.iter().map(|row| row.bytes(&output)).sum();
        let source = FieldSource::Picture {
            view,
            layout: output.layout,
            scaling: output.scaling,
            changes: &[],
            clip: None,
            is_shown_before: false,
        };
        let spec = FieldSpec { name: "image", dtype: Dtype::U8.into(), source };
        let (record_bytes, output_bytes) = (record_bytes as u64, row_bytes as u64);
        let sizes = FieldRows { rows: 6, record_bytes, output_bytes, pixels: 0 };
        for (decoding, is_kept) in [(Decoding::Records, false), (Decoding::Resident, true)] {
            let staged = decoding.staged_bytes(&spec, &sizes) as usize;
            let (taken, memory_bytes) = compare(&rows, &output, staged, is_kept);
            assert_eq!(taken, 6, "{view:?}");
            let room = SlotRoom {
                rows: 6,
                output_bytes: row_bytes,
                host_bytes: 0,
                staged_bytes: staged,
                between_bytes: decoding.between_bytes(&spec, &sizes) as usize,
            };
            assert!(memory_bytes <= decoding.memory_bytes(&room), "{memory_bytes} bytes taken");
        }
    }
}
