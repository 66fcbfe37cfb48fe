//! Adds cubes, masks and other arrays to a record.

use super::fidelity::{self, no_columns};
use super::record::{Columns, RecordDraft, StoredValue};
use super::sample_error::SampleError;
use crate::lock::lock;
use shardpack_array::{Array, ArrayEncoder, ArrayOptions, ArraySettings, ArraySource, Fidelity, Trial, Values, trial};
use shardpack_format::{ArrayDescriptor, Dtype, Error, Field, Result, Schema, to_usize};
use std::borrow::Cow;
use std::sync::Mutex;

const CUBE_AXES: usize = 3;

/// An array field, with the positions of its payload and its columns in a record.
#[derive(Debug)]
pub(crate) struct ArrayRecorder {
    value: usize,
    shape: Option<Columns>,
    figures: Option<Columns>,
}

/// An encoder and its buffers, reused for every array. Each thread has one per field.
#[derive(Default)]
pub(crate) struct ArrayWorkspace {
    encoder: Option<ArrayEncoder>,
    descriptor_bytes: Option<usize>,
}

impl ArrayWorkspace {
    fn encoder(&mut self, settings: ArraySettings) -> Result<&mut ArrayEncoder> {
        let same = self.encoder.take().filter(|encoder| *encoder.settings() == settings);
        let encoder = same.map_or_else(|| ArrayEncoder::new(settings), Ok)?;
        Ok(self.encoder.insert(encoder))
    }
}

impl ArrayRecorder {
    /// Names of the columns that describe the shape of an array with two or three axes.
    pub(crate) const SHAPE: [&str; CUBE_AXES] = ["height", "width", "channels"];

    pub(crate) fn shape_columns(axes: usize) -> Vec<Field> {
        Self::SHAPE.iter().take(axes).map(|name| Field::scalar(*name, Dtype::U32)).collect()
    }

    /// Finds the field `name` and its columns in a schema. If `axes` is given, also finds the shape columns for
    /// an array with this many axes.
    pub(crate) fn new(schema: &Schema, name: &str, axes: Option<usize>, has_figures: bool) -> Result<Self> {
        let lacks = || no_columns(schema, name);
        let of = |fields: &[Field]| Columns::of(schema, fields).ok_or_else(lacks);
        Ok(Self {
            value: schema.stored_position(name).ok_or_else(lacks)?,
            shape: axes.map(|axes| of(&Self::shape_columns(axes))).transpose()?,
            figures: has_figures.then(|| of(&fidelity::fields(name))).transpose()?,
        })
    }

    pub(crate) fn put(
        &self,
        workspace: &mut ArrayWorkspace,
        settings: ArraySettings,
        array: &Array,
        no_data: Option<f64>,
        draft: &mut RecordDraft<'_>,
    ) -> Result<Fidelity, SampleError> {
        let encoded = workspace.encoder(settings)?.encode(array, no_data)?;
        let fidelity = encoded.fidelity;
        self.set_columns(array.shape(), &fidelity, draft)?;
        draft.set(self.value, StoredValue::array(encoded)?);
        Ok(fidelity)
    }

    /// Adds a large array as the record's first stored field, without copying the encoded bytes. Call it after
    /// all other values that have a descriptor.
    pub(crate) fn put_first(
        &self,
        workspace: &mut ArrayWorkspace,
        settings: ArraySettings,
        array: &dyn ArraySource,
        no_data: Option<f64>,
        key: &str,
        draft: &mut RecordDraft<'_>,
    ) -> Result<Fidelity, SampleError> {
        let (dtype, shape) = (array.dtype(), array.shape());
        let plain = || ArrayDescriptor::plain(dtype, shape.to_vec()).encode().map_or(0, |bytes| bytes.len());
        let descriptor_bytes = workspace.descriptor_bytes.unwrap_or_else(plain);
        let largest = dtype.array_bytes(shape).map_or(0, to_usize);
        let mut buffer = draft.head_for_first(descriptor_bytes, key, largest);
        let at = buffer.len();
        let stored = workspace.encoder(settings)?.encode_into(array, no_data, &mut buffer)?;
        self.set_columns(&stored.descriptor.shape, &stored.fidelity, draft)?;
        let descriptor = stored.descriptor.encode()?;
        workspace.descriptor_bytes = Some(descriptor.len());
        let value = StoredValue {
            codec: stored.codec,
            decoded_bytes: stored.descriptor.stored_bytes()?,
            descriptor: descriptor.into(),
            payload: Cow::default(),
        };
        draft.set_first(buffer, at, value);
        Ok(stored.fidelity)
    }

    pub(crate) fn put_none(&self, draft: &mut RecordDraft<'_>) {
        self.set_figures(&Fidelity::default(), draft);
    }

    fn set_columns(&self, shape: &[u64], figures: &Fidelity, draft: &mut RecordDraft<'_>) -> Result<()> {
        if let Some(columns) = &self.shape {
            let too_long = |axis: u64| {
                move |_| {
                    Error::usage(format!("the array has an axis of {axis} elements, but at most 2^32 - 1 are allowed"))
                }
            };
            let axes = shape.iter().copied().chain(std::iter::repeat(0)).take(columns.len());
            let axes = axes.map(|axis| u32::try_from(axis).map_err(too_long(axis)));
            let axes = axes.collect::<Result<Vec<u32>>>()?;
            draft.set_scalars(columns, &axes.into_iter().flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
        }
        self.set_figures(figures, draft);
        Ok(())
    }

    fn set_figures(&self, figures: &Fidelity, draft: &mut RecordDraft<'_>) {
        if let Some(columns) = &self.figures {
            let mut packed = Vec::new();
            fidelity::append(&mut packed, figures);
            draft.set_scalars(columns, &packed);
        }
    }
}

/// Storage settings of an array field, determined by the first array that is not constant.
#[derive(Debug, Default)]
pub(crate) struct ArrayChoice(Mutex<ChoiceState>);

#[derive(Debug, Default)]
struct ChoiceState {
    form: Option<(Dtype, usize)>,
    chosen: Option<ChosenTrial>,
}

#[derive(Debug)]
struct ChosenTrial {
    asked: ArrayOptions,
    trial: Trial,
    /// True if the settings come from a constant array, such as an empty mask. The first array that is not
    /// constant replaces them.
    is_provisional: bool,
}

impl ArrayChoice {
    /// Creates the state for a field that already has arrays. `form` is their type and number of
    /// axes, and `chosen` is their recorded storage.
    pub(crate) fn known(form: Option<(Dtype, usize)>, chosen: Option<(ArrayOptions, Trial)>) -> Self {
        let chosen = chosen.map(|(asked, trial)| ChosenTrial { asked, trial, is_provisional: false });
        Self(Mutex::new(ChoiceState { form, chosen }))
    }

    /// Checks that an array has the type and the number of axes of the first array, or records them if this is
    /// the first array. On a mismatch, returns the first array's type and number of axes as the error.
    pub(crate) fn compare(&self, array: &Array) -> Result<(), (Dtype, usize)> {
        let form = (array.dtype(), array.shape().len());
        match *lock(&self.0).form.get_or_insert(form) {
            first if first == form => Ok(()),
            first => Err(first),
        }
    }

    /// Returns the settings for `array`. The first call tries the codecs on `threads` threads. Concurrent calls
    /// wait for it.
    pub(crate) fn settings(
        &self,
        array: &Array,
        options: &ArrayOptions,
        threads: usize,
    ) -> Result<ArraySettings, SampleError> {
        let mut state = lock(&self.0);
        if let Some(chosen) = &state.chosen
            && (!chosen.is_provisional || is_constant(array))
        {
            return Ok(chosen.trial.settings);
        }
        // Codecs are tried only once or twice, so a temporary thread pool is enough. Idle threads of a
        // permanent pool would be a problem for a program that forks.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|e| Error::usage(format!("cannot start {threads} threads: {e}")))?;
        let asked = asked(array, options);
        let trial = pool.install(|| trial(&[(array, None)], &asked))?;
        let settings = trial.settings;
        state.chosen = Some(ChosenTrial { asked, trial, is_provisional: is_constant(array) });
        Ok(settings)
    }

    pub(crate) fn chosen(&self) -> Option<(ArrayOptions, Trial)> {
        lock(&self.0).chosen.as_ref().map(|chosen| (chosen.asked, chosen.trial.clone()))
    }
}

/// Returns the options for an array. `auto` may store cubes as float16. Arrays with one or two axes
/// stay lossless by default: they are often boxes, embeddings or depths, and their last digits
/// matter.
fn asked(array: &Array, options: &ArrayOptions) -> ArrayOptions {
    let open = options.values == Values::Auto && options.max_error.is_none();
    ArrayOptions { lossless: options.lossless || (open && array.shape().len() < CUBE_AXES), ..*options }
}

fn is_constant(array: &Array) -> bool {
    let bytes = array.bytes();
    let element = array.dtype().size();
    // All elements are equal if each byte equals the byte one element earlier.
    bytes.iter().zip(bytes.get(element..).unwrap_or_default()).all(|(a, b)| a == b)
}
