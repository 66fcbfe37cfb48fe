//! Tests that the caller's transform gets every row once, with the names of the fields, and that its errors name the
//! sample.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::indexing_slicing, clippy::cast_possible_truncation)]

use crate::loader_support::fake_stage::FakeStage;
use crate::loader_support::{Disk, RowOf, base, said};
use shardpack_loader::order::{End, Mode};
use shardpack_loader::{ImageMode, Loader, LoaderOptions, Note, OnCorrupt, Transform, TransformRow, View};
use std::sync::Arc;

#[derive(Debug, Clone, Copy)]
enum Change {
    /// Inverts the levels of the picture. Sets the label to 100 times the sample's number plus the length of its key.
    Note,
    FailOn(u64),
}

impl Transform for Change {
    fn change(&self, row: &mut TransformRow<'_>) -> Result<(), Note> {
        let (index, length) = (row.index, row.key.len() as u64);
        assert_eq!(row.draws.sample, index);
        for field in &mut row.fields {
            let bytes = field.dtype.array_bytes(field.shape).unwrap();
            assert_eq!(field.bytes.len() as u64, bytes);
            match (self, field.name) {
                (Self::FailOn(bad), _) if *bad == index => {
                    return Err(Note::new("it is tired").with_hint("let it sleep"));
                }
                (Self::Note, "image") => field.bytes.iter_mut().for_each(|level| *level = !*level),
                (Self::Note, "label") => field.bytes.copy_from_slice(&(index * 100 + length).to_le_bytes()),
                _ => {}
            }
        }
        Ok(())
    }
}

fn options(change: Option<Change>) -> LoaderOptions {
    let transform = change.map(|change| Arc::new(change) as _);
    {
        let mut options = base().batch_size(4).threads(3).end(End::Pad).mode(Mode::Full);
        options.output.transform = transform;
        options
    }
}

#[test]
fn rows_are_changed_where_they_are() {
    let disk = Disk::varied(&[9, 14]);
    let crop = ImageMode::View(View::random_resized_crop((9, 12)));
    for image in [LoaderOptions::default().view.image, crop] {
        for part_bytes in [64, 1 << 20] {
            let options = |change| options(change).image(image).part_bytes(part_bytes);
            let mut plain = Loader::open(&disk.open(), options(None)).unwrap();
            let mut changed = Loader::open(&disk.open(), options(Some(Change::Note))).unwrap();
            let mut rows = 0;
            while let (Some(before), Some(after)) = (plain.next_batch(), changed.next_batch()) {
                let (before, after) = (before.unwrap(), after.unwrap());
                for row in 0..before.len() {
                    let pixels = |batch: &shardpack_loader::Batch| batch.field("image").unwrap().row_of(row);
                    let label = after.field("label").unwrap().row_of(row);
                    if !before.mask()[row] {
                        assert!(pixels(&after).iter().chain(&label).all(|&byte| byte == 0), "padding stays as it is");
                        continue;
                    }
                    assert_eq!(pixels(&before).iter().map(|level| !level).collect::<Vec<_>>(), pixels(&after));
                    assert_eq!(label, (before.indices()[row] * 100 + 12).to_le_bytes());
                    assert_eq!(before.field("cube").unwrap().row_of(row), after.field("cube").unwrap().row_of(row));
                    rows += 1;
                }
            }
            assert_eq!(rows, 23);
        }
    }
}

#[test]
fn errors_name_the_sample_and_are_no_damage() {
    let disk = Disk::alike(&[12]);
    let options = |change| {
        let on_corrupt = OnCorrupt::Skip { max: 100 };
        options(Some(change)).mode(Mode::Stored).on_corrupt(on_corrupt)
    };
    let mut loader = Loader::open(&disk.open(), options(Change::FailOn(5))).unwrap();
    let results: Vec<_> = std::iter::from_fn(|| loader.next_batch()).collect();
    let errors: Vec<_> = results.iter().map(|result| result.as_ref().err().map(said)).collect();
    assert_eq!((errors.len(), &errors[0], &errors[2]), (3, &None, &None));
    let expected = "sample 5, `sample-00005`: transform failed: it is tired\nhint: let it sleep";
    assert_eq!(errors[1].as_deref(), Some(expected));
}

#[test]
fn a_device_is_refused() {
    let stage = Some(Arc::new(FakeStage::default()) as _);
    let options = {
        let mut options = options(Some(Change::Note));
        options.resources.stage = stage;
        options
    };
    let error = Loader::open(&Disk::alike(&[4]).open(), options).unwrap_err().to_string();
    assert!(
        error.starts_with("a transform needs rows in host memory, but the rows are decoded on a device"),
        "{error}"
    );
}
