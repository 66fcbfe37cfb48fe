//! A batch: the fields of several samples, in a slot that returns to the ring when the batch is dropped.

mod shown;
mod typed;

pub use shown::Shown;
pub(crate) use shown::shown;
pub use typed::Element;

use crate::fields::{ArrayField, FieldPlan, FieldType, Fields, Object, RowSize};
use crate::patches::PatchAt;
use crate::plan::{BatchPlan, PlannedRow};
use crate::rows::Rows;
use crate::sample::{SampleAt, draw_key};
use crate::stage::{DeviceId, StreamHandle};
use shardpack_format::{ElementType, to_usize};
use shardpack_jpeg::DrawKey;
use shardpack_reader::Dataset;
use shardpack_reader::{Error, Result};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

/// A batch of samples. Clones share one slot, which returns to the loader when the last clone is dropped. A
/// batch may outlive the loader.
///
/// You may keep batches, but each one that you keep takes up memory. If you hold all slots, the loader
/// allocates an extra one and frees it after use
/// ([`LoaderStats::extra_slots`](crate::LoaderStats::extra_slots) counts these).
///
/// ```no_run
/// # use shardpack_loader::{Dataset, Loader, LoaderOptions};
/// let mut loader = Loader::open(&Dataset::open("train")?, LoaderOptions::default())?;
/// while let Some(batch) = loader.next_batch() {
///     let batch = batch?;
///     let label = batch.field("label").unwrap();
///     assert_eq!(label.bytes().len(), batch.len() * 8);
/// }
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Batch(Arc<Lent>);

pub(crate) trait Home: Send + Sync {
    fn give_back(&self, slot: Arc<Rows>, plan: BatchPlan);
}

pub(crate) struct Lent {
    pub(crate) slot: Option<Arc<Rows>>,
    pub(crate) plan: BatchPlan,
    pub(crate) fields: Arc<Fields>,
    pub(crate) dataset: Dataset,
    pub(crate) seed: u64,
    pub(crate) home: Weak<dyn Home>,
}

impl Lent {
    pub(crate) fn draw_key(&self, sample: u64, row: &PlannedRow) -> DrawKey {
        let PlannedRow { record, repetition, patch, .. } = *row;
        draw_key(self.seed, SampleAt { sample, record, epoch: self.plan.epoch, repetition, patch, origin: None })
    }
}

impl std::fmt::Debug for Lent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.fields.plans.iter().map(|field| field.name.as_str()).collect();
        f.debug_struct("Lent").field("indices", &self.plan.indices).field("fields", &names).finish_non_exhaustive()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        if let Some(stage) = self.slot.as_ref().and_then(|slot| slot.stage()) {
            stage.release();
        }
        if let (Some(slot), Some(home)) = (self.slot.take(), self.home.upgrade()) {
            home.give_back(slot, std::mem::take(&mut self.plan));
        }
    }
}

/// One field of a batch, with its rows. Borrows the batch.
///
/// If the field is dense, `bytes` is a C-contiguous array of shape [`Tensor::shape`], with the samples along
/// the first axis. If it is ragged, row `i` begins at `offsets()[i]` and has the shape `row_shape(i)`. There
/// may be unused bytes between rows.
///
/// ```no_run
/// # use shardpack_loader::{Dataset, Loader, LoaderOptions};
/// # let mut loader = Loader::open(&Dataset::open("train")?, LoaderOptions::default())?;
/// let batch = loader.next_batch().unwrap()?;
/// let image = batch.field("image").unwrap();
/// for i in 0..batch.len() {
///     if let Some([height, width, 3]) = image.row_shape(i) {
///         assert_eq!(image.row(i).unwrap().len() as u64, height * width * 3);
///     }
/// }
/// # Ok::<(), shardpack_loader::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    plan: &'a BatchPlan,
    fields: &'a Fields,
    field: &'a FieldPlan,
    number: usize,
    /// The memory of the field. It becomes a slice only on request, because other libraries may be writing to it.
    slot: Option<&'a Arc<Rows>>,
}

/// Location of a field in device memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnDevice {
    /// Device that holds the field.
    pub device: DeviceId,
    /// Device address of the first row.
    pub address: u64,
    /// Bytes from the start of the first row to the end of the last.
    pub bytes: usize,
}

impl Batch {
    pub(crate) fn new(lent: Lent) -> Self {
        Self(Arc::new(lent))
    }

    /// Returns the number of rows, including padding and skipped rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.plan.indices.len()
    }

    /// Returns true if the batch has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.plan.indices.is_empty()
    }

    /// Returns the dataset index of each row's sample, or `u64::MAX` for padding.
    #[must_use]
    pub fn indices(&self) -> &[u64] {
        &self.0.plan.indices
    }

    /// Returns the key with which each row's random view and patch were drawn.
    /// [`PatchPlace::origin`](crate::PatchPlace::origin) computes the origin of the patch from this key.
    pub fn draw_keys(&self) -> impl ExactSizeIterator<Item = DrawKey> {
        let Lent { plan, .. } = &*self.0;
        plan.indices.iter().zip(&plan.rows).map(|(&sample, row)| self.0.draw_key(sample, row))
    }

    /// Returns the number of axes along which patches are cut: 2 for images, 3 for volumes, and 0 if the
    /// loader cuts no patches.
    #[must_use]
    pub fn patch_axes(&self) -> usize {
        let axes = |plan: &FieldPlan| match &plan.kind {
            FieldType::Array(ArrayField { cut: Some(cut), .. }) if cut.place.is_some() => 2,
            FieldType::Volume(_) => 3,
            _ => 0,
        };
        self.0.fields.plans.iter().map(axes).max().unwrap_or(0)
    }

    /// Returns the position of each row's patch, or `None` if the loader cuts no patches. Rows without a sample or a
    /// value have no position.
    ///
    /// ```no_run
    /// # use shardpack_loader::{CubeMode, Dataset, Loader, LoaderOptions};
    /// let options = LoaderOptions::default().cube("patch64x64".parse()?);
    /// let mut loader = Loader::open(&Dataset::open("train")?, options)?;
    /// let batch = loader.next_batch().unwrap()?;
    /// for at in batch.patches().unwrap().into_iter().flatten() {
    ///     assert!(at.origin[1] + 64 <= at.scene[1]);
    /// }
    /// # Ok::<(), shardpack_loader::Error>(())
    /// ```
    #[must_use]
    pub fn patches(&self) -> Option<Vec<Option<PatchAt>>> {
        (self.patch_axes() > 0).then(|| {
            let mut places = vec![None; self.len()];
            for &(row, at) in &self.0.plan.patches {
                let row = to_usize(row);
                // A sample skipped because of a device error has a position in the plan, but no value. Leave the
                // position out.
                if let (Some(place), Some(true)) = (places.get_mut(row), self.mask().get(row)) {
                    *place = Some(at);
                }
            }
            places
        })
    }

    /// Returns true for each row that holds a sample, and false for padding and skipped samples, whose values are zero.
    #[must_use]
    pub fn mask(&self) -> &[bool] {
        &self.0.plan.mask
    }

    /// Returns the key of each row's sample, taken from the index. The key of padding is empty.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = String> {
        let key = |index: &u64| {
            let (shard, record) = self.0.dataset.locate(*index).ok()?;
            Some(self.0.dataset.shard(shard).ok()?.index().key(record)?.to_owned())
        };
        self.0.plan.indices.iter().map(move |index| key(index).unwrap_or_default())
    }

    /// Returns the names of the fields, in the order of the batch.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.0.fields.plans.iter().map(|field| field.name.as_str())
    }

    /// Returns the field with this name, if the batch has it.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Tensor<'_>> {
        let lent = &*self.0;
        let number = lent.fields.plans.iter().position(|field| field.name == name)?;
        let field = lent.fields.plans.get(number)?;
        Some(Tensor { plan: &lent.plan, fields: &lent.fields, field, number, slot: lent.slot.as_ref() })
    }

    /// Returns all fields.
    pub fn fields(&self) -> impl Iterator<Item = Tensor<'_>> {
        self.names().filter_map(|name| self.field(name))
    }

    /// Returns each row's value of a field listed in [`LoaderOptions::objects`](crate::LoaderOptions::objects) or of
    /// an aligned field ([`Align`](crate::Align)). The value is `None` for padding and for samples that lack the
    /// field. For any other field, the method returns `None`.
    ///
    /// ```no_run
    /// # use shardpack_loader::{Dataset, Loader, LoaderOptions, Object, View};
    /// let align = [("boxes", "boxes,format=xywh".parse()?)];
    /// let options = LoaderOptions::default().image(View::resize(224)).align(align);
    /// let mut loader = Loader::open(&Dataset::open("train")?, options)?;
    /// let batch = loader.next_batch().unwrap()?;
    /// for boxes in batch.objects("boxes").unwrap().into_iter().flatten() {
    ///     if let Object::Array(boxes) = boxes {
    ///         assert_eq!(boxes.shape()[1], 4);
    ///     }
    /// }
    /// # Ok::<(), shardpack_loader::Error>(())
    /// ```
    #[must_use]
    pub fn objects(&self, field: &str) -> Option<Vec<Option<&Object>>> {
        let number = self.0.fields.objects.iter().position(|plan| plan.name == field)?;
        let mut rows = vec![None; self.len()];
        for (row, objects) in &self.0.plan.objects {
            if let Some(to) = usize::try_from(*row).ok().and_then(|row| rows.get_mut(row)) {
                *to = objects.get(number).and_then(Option::as_ref);
            }
        }
        Some(rows)
    }

    /// Returns the weights of each row's values in an aligned array field, such as one weight per box. Each value
    /// gets the weight of its picture. The weight is 1 unless Mixup made the batch. A row's weights are `None` if
    /// [`objects`](Self::objects) returns `None` for the row. For any other field, the method returns `None`.
    #[must_use]
    pub fn weights(&self, field: &str) -> Option<Vec<Option<Vec<f32>>>> {
        let number = self.0.fields.objects.iter().position(|plan| plan.name == field)?;
        let mut rows: Vec<Option<Vec<f32>>> = Vec::with_capacity(self.len());
        for object in self.objects(field)? {
            rows.push(match object {
                Some(Object::Array(array)) => Some(vec![1.0; array.shape().first().map_or(1, |rows| to_usize(*rows))]),
                Some(_) => return None,
                None => None,
            });
        }
        for (row, weights) in &self.0.plan.weights {
            if let (Some(Some(to)), Some(of)) = (rows.get_mut(to_usize(*row)), weights.get(number))
                && !of.is_empty()
            {
                to.clone_from(of);
            }
        }
        Some(rows)
    }

    /// Returns the device that holds the batch, or `None` without a [stage](crate::LoaderOptions::stage).
    #[must_use]
    pub fn device(&self) -> Option<DeviceId> {
        self.0.slot.as_ref()?.stage().map(|stage| stage.device())
    }

    /// Records that a device stream uses the batch. After the batch is dropped, its slot is not refilled until the
    /// work now queued in that stream is complete. Does nothing without a stage.
    pub fn used_on(&self, stream: StreamHandle) {
        if let Some(stage) = self.0.slot.as_ref().and_then(|slot| slot.stage()) {
            stage.used_on(stream);
        }
    }

    /// Returns the total number of bytes in all rows of all fields.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.fields().map(|field| field.span().len() as u64).sum()
    }
}

impl<'a> Tensor<'a> {
    /// Returns the field's name.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.field.name
    }

    /// Returns the element type.
    #[must_use]
    pub const fn dtype(&self) -> ElementType {
        self.field.dtype
    }

    fn rows(&self) -> usize {
        self.plan.indices.len()
    }

    fn parts(&self) -> &'a [std::ops::Range<usize>] {
        let (start, rows) = (self.number * self.rows(), self.rows());
        self.plan.parts.get(start..start + rows).unwrap_or_default()
    }

    /// Returns the shape, with the samples as its first axis, or `None` if the field is ragged.
    #[must_use]
    pub fn shape(&self) -> Option<Vec<u64>> {
        match self.field.size {
            RowSize::Dense { .. } => {
                Some(std::iter::once(self.rows() as u64).chain(self.field.shape.iter().copied()).collect())
            }
            _ => None,
        }
    }

    fn all(&self) -> &'a [u8] {
        let slot = self.slot.filter(|slot| self.span().end <= slot.host());
        slot.and_then(Rows::bytes).unwrap_or_default()
    }

    fn span(&self) -> Range<usize> {
        let parts = self.parts();
        parts.first().map_or(0, |part| part.start)..parts.last().map_or(0, |part| part.end)
    }

    /// Returns the location of all rows on the batch's device, or `None` if the batch is on the host. The
    /// bytes stay valid and unchanged while the batch or a clone of it lives, and then until the work in the
    /// streams passed to [`Batch::used_on`] is done.
    #[must_use]
    pub fn on_device(&self) -> Option<OnDevice> {
        let stage = self.slot?.stage()?;
        let span = self.span();
        Some(OnDevice { device: stage.device(), address: stage.address() + span.start as u64, bytes: span.len() })
    }

    /// Copies all rows to the host, either from [`Tensor::bytes`] or from the device.
    ///
    /// # Errors
    /// `Io` if the device fails.
    pub fn to_host(&self) -> Result<Vec<u8>> {
        let (span, stage) = (self.span(), self.slot.and_then(|slot| slot.stage()));
        let Some(stage) = stage else { return Ok(self.bytes().to_vec()) };
        let mut bytes = vec![0; span.len()];
        let failed = |error| Error::io(format!("field {}", self.field.name), "copy the values from the device", error);
        stage.read(span.start, &mut bytes).map_err(failed)?;
        Ok(bytes)
    }

    /// Returns the bytes of all rows, little-endian, from the start of the first row to the end of the last.
    /// The slice is empty if the field is only on a device.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.all().get(self.span()).unwrap_or_default()
    }

    /// Returns the memory of [`Tensor::bytes`], for a library that may write into it (DLPack, a NumPy array).
    /// The pointer is valid while the batch or a clone of it lives. While another library may write through
    /// it, no slice from [`Tensor::bytes`] or [`Tensor::row`] of this field may be alive.
    #[must_use]
    pub fn memory(&self) -> NonNull<[u8]> {
        // A field on a device is not in the slot's host memory, even if its offset is a valid offset there.
        let slot = self.slot.filter(|slot| self.span().end <= slot.host());
        let memory = slot.and_then(|slot| Rows::memory(slot, self.span()));
        memory.unwrap_or_else(|| NonNull::slice_from_raw_parts(NonNull::dangling(), 0))
    }

    /// Returns the byte offset of each row in [`Tensor::bytes`].
    pub fn offsets(&self) -> impl ExactSizeIterator<Item = usize> + 'a {
        let parts = self.parts();
        let base = parts.first().map_or(0, |part| part.start);
        parts.iter().map(move |part| part.start - base)
    }

    /// Returns the shape of row `i`, or `None` past the end. Stored bytes have one axis, their length. In a ragged
    /// field, the axes of padding and of skipped rows are 0.
    #[must_use]
    pub fn row_shape(&self, i: usize) -> Option<&'a [u64]> {
        if i >= self.rows() {
            return None;
        }
        if !self.field.is_ragged() {
            return Some(&self.field.shape);
        }
        let start = i * self.fields.dims + self.field.dims_at;
        self.plan.dims.get(start..start + self.field.shape.len())
    }

    /// Returns true for each row with a value, and false where [`Batch::mask`] is false and for samples without this
    /// field. The row of a sample without a value is zero, or empty if the field is ragged.
    pub fn mask(&self) -> impl ExactSizeIterator<Item = bool> + 'a {
        let (plan, number) = (self.plan, self.number);
        (0_u32..)
            .zip(&plan.mask)
            .map(move |(row, &there)| {
                // `missing` is nearly always empty, so a linear search is cheap.
                there
                    && !plan.missing.iter().any(|&(at, field)| at == row && usize::try_from(field).ok() == Some(number))
            })
            .collect::<Vec<_>>()
            .into_iter()
    }

    /// Returns the bytes of row `i`, or `None` past the end.
    #[must_use]
    pub fn row(&self, i: usize) -> Option<&'a [u8]> {
        let part = self.parts().get(i)?;
        let bytes = self.all().get(part.clone())?;
        match self.field.is_ragged() {
            false => Some(bytes),
            true => bytes.get(..usize::try_from(self.field.dtype.array_bytes(self.row_shape(i)?).ok()?).ok()?),
        }
    }
}
