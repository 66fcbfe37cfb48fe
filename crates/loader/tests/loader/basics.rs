//! Tests the loader in a training loop: with any number of threads, every sample must be delivered exactly once and
//! in order.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::{Disk, Made, RowOf, Seen, base, epoch, seen};
use shardpack_format::Dtype;
use shardpack_jpeg::{PixelLayout, View};
use shardpack_loader::order::{End, Mode, Order};
use shardpack_loader::{ArrayDtype, CubeMode, ImageMode, Loader, LoaderOptions};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

fn options(batch_size: u32) -> LoaderOptions {
    base().batch_size(batch_size).threads(2).seed(5)
}

fn load(disk: &Disk, options: LoaderOptions) -> Vec<Seen> {
    let mut loader = Loader::open(&disk.open(), options).unwrap();
    let batches = epoch(&mut loader);
    assert_eq!(batches.len() as u64, loader.len(), "len() is exact");
    assert!(loader.next_batch().is_none(), "the end stays the end");
    batches
}

#[test]
fn dense_batches_equal_the_dataset() {
    let disk = Disk::alike(&[20, 0, 23]);
    let mut loader = Loader::open(&disk.open(), options(8)).unwrap();
    assert_eq!(loader.len(), 5);
    let mut all = Vec::new();
    while let Some(batch) = loader.next_batch() {
        let batch = batch.unwrap();
        let (cube, label) = (batch.field("cube").unwrap(), batch.field("label").unwrap());
        assert_eq!((cube.dtype(), cube.shape().unwrap()), (Dtype::U16.into(), vec![8, 16, 24, 3]));
        assert_eq!((label.dtype(), label.shape().unwrap()), (Dtype::I64.into(), vec![8]));
        assert!(batch.field("image").unwrap().shape().is_none(), "whole pictures are ragged");
        for (i, (key, &index)) in batch.keys().zip(batch.indices()).enumerate() {
            let made = &disk.samples[index as usize];
            assert_eq!(key, made.key());
            assert_eq!(cube.row_of(i), made.cube());
            assert_eq!(label.row_of(i), (made.id as i64 % 10).to_le_bytes());
            let image = batch.field("image").unwrap();
            assert_eq!(image.row_shape(i).unwrap(), [16, 24, 3]);
            let pixels = image.row_of(i);
            for (y, x) in [(0, 0), (15, 23), (8, 7), (7, 8)] {
                let level = made.level(y / 8, x / 8);
                let at = ((y * 24 + x) * 3) as usize;
                assert_eq!(pixels[at..at + 3], [level; 3], "sample {index}, row {y}, column {x}");
            }
        }
        all.extend(batch.indices().to_vec());
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 40);
}

#[test]
fn batches_do_not_depend_on_threads_and_slots() {
    let disk = Disk::varied(&[30, 41, 17]);
    let dense = ImageMode::View(View::random_resized_crop(8).with_flip(0.5));
    for (mode, image) in
        [(Mode::Windowed, dense), (Mode::Full, LoaderOptions::default().view.image), (Mode::Stored, dense)]
    {
        let with = |threads, slots| {
            load(&disk, options(7).threads(threads).slots(slots).mode(mode).image(image).end(End::Uneven))
        };
        let expected = with(1, 1);
        assert_eq!(expected.len(), 13);
        for (threads, slots) in [(1, 3), (2, 2), (2, 3), (7, 1), (7, 4)] {
            assert!(with(threads, slots) == expected, "{mode:?}, {threads} threads, {slots} slots");
        }
    }
}

#[test]
fn a_window_of_open_runs_gives_the_same_samples() {
    let disk = Disk::varied(&[60, 61]);
    let dataset = disk.open();
    let runs = shardpack_loader::order::Runs::new(121, 4);
    for read_ahead_bytes in [0, 32 << 20] {
        let order = Order::new(runs, 3).dataset(dataset.dataset_id()).lanes(6);
        let sampling: Arc<dyn shardpack_loader::order::Sampling> = Arc::new(order);
        let options = options(5).sampling(sampling).read_ahead_bytes(read_ahead_bytes).end(End::Uneven);
        let mut loader = Loader::open(&dataset, options).unwrap();
        let batches = epoch(&mut loader);
        let mut indices: Vec<u64> = batches.iter().flat_map(|batch| batch.0.clone()).collect();
        assert_ne!(indices, (0..121).collect::<Vec<_>>());
        indices.sort_unstable();
        assert_eq!(indices, (0..121).collect::<Vec<_>>());
        for (index, rows) in batches.iter().flat_map(|(indices, _, fields)| indices.iter().zip(&fields[1].2)) {
            assert_eq!(*rows, disk.samples[*index as usize].cube());
        }
        let stored: u64 = (0..2).map(|n| dataset.shard(n).unwrap().footer().index_offset - 64).sum();
        let read = loader.stats().read_bytes;
        match read_ahead_bytes {
            // The window has room for runs of the mean size. Larger runs do not all fit, so some are dropped and read
            // again.
            0 => assert!(read < 2 * stored, "{read} bytes of {stored}"),
            // Padding after records is not read when they are decoded in parts.
            _ => assert!((stored - 64 * 121..=stored).contains(&read), "every run is read once: {read} of {stored}"),
        }
    }
}

#[test]
fn every_sample_comes_once_to_some_rank() {
    let disk = Disk::varied(&[37, 20]);
    for world_size in 1..=4 {
        for end in [End::Drop, End::Pad, End::Uneven] {
            let mut all = Vec::new();
            for rank in 0..world_size {
                for (indices, mask, fields) in load(&disk, options(4).rank(rank).world_size(world_size).end(end)) {
                    for (i, (&index, &there)) in indices.iter().zip(&mask).enumerate() {
                        assert_eq!(there, index != u64::MAX);
                        if !there {
                            assert!(fields.iter().all(|(_, _, rows)| rows[i].iter().all(|&b| b == 0)));
                        }
                    }
                    all.extend(indices.into_iter().zip(mask).filter(|&(_, there)| there).map(|(index, _)| index));
                }
            }
            all.sort_unstable();
            match end {
                End::Drop => {
                    all.dedup();
                    assert_eq!(all.len() as u64, 57 / u64::from(world_size * 4) * u64::from(world_size * 4));
                }
                _ => assert_eq!(all, (0..57).collect::<Vec<_>>(), "{world_size} ranks, {end:?}"),
            }
        }
    }
}

#[test]
fn a_run_resumes_with_a_different_batch_size() {
    let disk = Disk::alike(&[50, 47]);
    let dataset = disk.open();
    let whole: Vec<u64> = load(&disk, options(8).end(End::Uneven)).concat_indices();
    for stop in 0..12 {
        let mut first = Loader::open(&dataset, options(8).end(End::Uneven)).unwrap();
        let mut indices = Vec::new();
        for _ in 0..stop {
            indices.extend(first.next_batch().unwrap().unwrap().indices().to_vec());
        }
        let state = first.state();
        assert_eq!(state.samples_consumed, stop * 8, "what was read ahead does not count");
        drop(first);
        let text = serde_json::to_string(&state).unwrap();
        let mut second = Loader::open(&dataset, options(5).end(End::Uneven)).unwrap();
        second.restore(&serde_json::from_str(&text).unwrap()).unwrap();
        indices.extend(epoch(&mut second).concat_indices());
        assert_eq!(indices, whole);
        assert_eq!(second.state().samples_consumed, 97);
    }
    let mut other = Loader::open(&dataset, options(8).seed(6)).unwrap();
    let state = Loader::open(&dataset, options(8)).unwrap().state();
    assert!(other.restore(&state).unwrap_err().to_string().contains("seed"), "another seed");
}

trait Indices {
    fn concat_indices(self) -> Vec<u64>;
}

impl Indices for Vec<Seen> {
    fn concat_indices(self) -> Vec<u64> {
        self.into_iter().flat_map(|batch| batch.0).collect()
    }
}

#[test]
fn epochs_differ_and_can_begin_before_the_last_one_ends() {
    let disk = Disk::alike(&[64]);
    let mut loader = Loader::open(&disk.open(), options(8)).unwrap();
    let first = epoch(&mut loader);
    loader.set_epoch(1).unwrap();
    let second = epoch(&mut loader);
    assert_ne!(first[0].0, second[0].0);
    for _ in 0..20 {
        loader.set_epoch(1).unwrap();
        // By now, threads are working on batches that the restart will discard.
        let batch = seen(&loader.next_batch().unwrap().unwrap());
        assert!(batch == second[0], "an epoch does not depend on earlier requests");
        loader.set_epoch(0).unwrap();
        assert!(seen(&loader.next_batch().unwrap().unwrap()) == first[0]);
    }
    assert!(epoch(&mut loader) == first[1..]);
}

#[test]
fn layouts_and_raw_modes() {
    let disk = Disk::varied(&[20]);
    let with = |layout, image, cube| {
        load(&disk, options(20).layout(layout).image(image).cube(cube).mode(Mode::Stored).end(End::Uneven))
            .pop()
            .unwrap()
    };
    let view = LoaderOptions::default().view.image;
    let (_, _, last) = with(PixelLayout::HeightWidthChannels, view, CubeMode::Whole);
    let (_, _, first) = with(PixelLayout::ChannelsHeightWidth, view, CubeMode::Whole);
    for (field, width) in [(0, 1), (1, 2)] {
        for (made, i) in disk.samples.iter().zip(0..) {
            let (h, w) = (made.height as usize, made.width as usize);
            assert_eq!(last[field].1[i], [h as u64, w as u64, 3]);
            assert_eq!(first[field].1[i], [3, h as u64, w as u64]);
            let (last, first) = (&last[field].2[i], &first[field].2[i]);
            for (pixel, channel) in (0..h * w).flat_map(|pixel| [(pixel, 0), (pixel, 1), (pixel, 2)]) {
                let (a, b) = ((pixel * 3 + channel) * width, (channel * h * w + pixel) * width);
                assert_eq!(last[a..a + width], first[b..b + width]);
            }
        }
    }
    let (_, _, raw) = with(PixelLayout::default(), ImageMode::Raw, CubeMode::Raw);
    for (made, i) in disk.samples.iter().zip(0..) {
        assert_eq!(raw[0].2[i], made.jpeg());
        assert_eq!(raw[1].2[i], made.cube());
        assert_eq!(raw[0].1[i], [made.jpeg().len() as u64]);
    }
}

#[test]
fn offsets_of_ragged_rows_are_where_the_rows_are() {
    let disk = Disk::varied(&[33]);
    let mut loader = Loader::open(&disk.open(), options(11).fields(["cube"])).unwrap();
    while let Some(batch) = loader.next_batch() {
        let batch = batch.unwrap();
        assert_eq!(batch.names().collect::<Vec<_>>(), ["cube"]);
        let cube = batch.field("cube").unwrap();
        assert!(cube.shape().is_none());
        let mut end = 0;
        for ((i, offset), &index) in cube.offsets().enumerate().zip(batch.indices()) {
            assert_eq!(offset, end, "decoded rows are adjacent");
            let expected = disk.samples[index as usize].cube();
            assert_eq!(cube.all()[offset..offset + expected.len()], expected);
            assert_eq!(cube.row_of(i), expected);
            end = offset + expected.len();
        }
        assert_eq!(end, cube.all().len());
    }
}

#[test]
fn invalid_options_are_refused() {
    let disk = Disk::alike(&[4]);
    let refused = |options| Loader::open(&disk.open(), options).unwrap_err().to_string();
    let fields = |name: &str| options(2).fields([name]);
    assert_eq!(
        refused(fields("lable")),
        "there is no field `lable`: expected one of [image, cube, label, height, width, channels]"
    );
    assert_eq!(refused(options(0)), "the batch size must be at least 1, but is 0");
    assert!(refused(options(2).rank(2).world_size(2)).starts_with("the rank must be below"));
    let view = ImageMode::View(View::random_resized_crop((0, 8)));
    assert!(refused(options(2).image(view)).contains("at least 1 pixel high"));
}

#[test]
fn loaders_and_batches_go_from_thread_to_thread() {
    const fn goes<T: Send + Sync>() {}
    goes::<Loader>();
    goes::<shardpack_loader::Batch>();
}

#[test]
fn float16_is_loaded_as_stored_on_request() {
    let disk = Disk::new(&[8], |id| Made { id, height: 8, width: 8, said_height: 8, half: true });
    let with = |dtype| {
        let options = options(8).dtype(dtype).mode(Mode::Stored).fields(["cube"]);
        let mut loader = Loader::open(&disk.open(), options).unwrap();
        let batch = loader.next_batch().unwrap().unwrap();
        (batch.field("cube").unwrap().dtype(), seen(&batch).2.remove(0).2)
    };
    let ((half_type, halves), (full_type, floats)) =
        (with(ArrayDtype::Cubes(Dtype::F16.into())), with(ArrayDtype::Source));
    assert_eq!((half_type, full_type), (Dtype::F16.into(), Dtype::F32.into()));
    for ((made, halves), floats) in disk.samples.iter().zip(halves).zip(floats) {
        assert_eq!(halves, made.cube(), "the bits as stored");
        for (half, float) in halves.as_chunks().0.iter().zip(floats.as_chunks().0) {
            let half = half::f16::from_le_bytes(*half).to_f32();
            assert_eq!(half.to_bits(), f32::from_le_bytes(*float).to_bits());
        }
    }
}

/// The loader parses a single field of a record, whereas other readers parse the whole record. Both must find the same
/// value.
#[test]
fn a_single_field_equals_that_of_the_whole_record() {
    use shardpack_format::{Frame, Limits, Record};
    let disk = crate::support::OnDisk::new(&[12]);
    let limits = Limits::default();
    for sample in shardpack_reader::Dataset::open(disk.path()).unwrap().iter().unwrap() {
        let sample = sample.unwrap();
        let bytes = sample.record_bytes();
        let (frame, whole) = (Frame::parse(bytes).unwrap(), Record::parse(bytes, &limits).unwrap());
        for (position, expected) in whole.fields.iter().enumerate() {
            assert_eq!(Record::field_at(&frame, bytes, position, &limits).unwrap(), *expected);
        }
        assert!(Record::field_at(&frame, bytes, whole.fields.len(), &limits).is_err());
        for end in 0..bytes.len() {
            // The last field ends at the end of the record, so any shorter record is an error.
            assert!(Record::field_at(&frame, &bytes[..end], whole.fields.len() - 1, &limits).is_err(), "{end} bytes");
        }
    }
}

#[test]
fn a_wait_with_an_end_gives_the_same_batches() {
    let disk = Disk::alike(&[20, 20]);
    let mut loader = Loader::open(&disk.open(), options(8)).unwrap();
    let mut found = Vec::new();
    loop {
        match loader.next_batch_timeout(Duration::ZERO) {
            Poll::Ready(Some(batch)) => found.push(seen(&batch.unwrap())),
            Poll::Ready(None) => break,
            Poll::Pending => {}
        }
    }
    assert_eq!(found, load(&disk, options(8)));
    let stats = loader.stats();
    assert!(stats.batches == 5 && stats.queue_fill <= 3.0, "asked once for each batch: {stats:?}");
}

#[test]
fn a_sample_shows_the_pixels_that_a_batch_shows() {
    let disk = Disk::varied(&[12]);
    let dataset = disk.open();
    let mut loader = Loader::open(&dataset, options(4)).unwrap();
    while let Some(batch) = loader.next_batch() {
        let batch = batch.unwrap();
        let image = batch.field("image").unwrap();
        for (i, &index) in batch.indices().iter().enumerate() {
            let pixels = dataset.get(index).unwrap().pixels("image").unwrap();
            assert_eq!((pixels.dtype(), pixels.shape()), (Dtype::U8, image.row_shape(i).unwrap()));
            assert_eq!(pixels.bytes(), image.row_of(i));
        }
    }
    assert!(dataset.get(0).unwrap().pixels("label").is_err());
}
