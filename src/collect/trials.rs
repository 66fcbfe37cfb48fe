//! How the arrays of one field are stored: chosen by the first of them that says anything.

use crate::pack::SampleError;
use shardpack_codec::{Array, ArrayOptions, ArraySettings, Trial, Values, trial};
use shardpack_format::Dtype;
use std::sync::{Mutex, PoisonError};

/// Axes of a cube: `[height, width, channels]`.
const CUBE_AXES: usize = 3;

/// What is known of the arrays of a field.
#[derive(Debug, Default)]
pub(super) struct ArrayField(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// Type and number of axes of all of them.
    form: Option<(Dtype, usize)>,
    chosen: Option<Chosen>,
}

#[derive(Debug)]
struct Chosen {
    asked: ArrayOptions,
    trial: Trial,
    /// Chosen on an array of one value only, such as an empty mask: good enough for its like, and tried again on the first that is not.
    provisional: bool,
}

impl ArrayField {
    /// Notes type and number of axes of the first array, and compares those of the others; the known ones if they differ.
    pub(super) fn compare(&self, array: &Array) -> Result<(), (Dtype, usize)> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let form = (array.dtype(), array.shape().len());
        match *known.form.get_or_insert(form) {
            first if first == form => Ok(()),
            first => Err(first),
        }
    }

    /// The settings for `array`. The first call tries the codecs, on so many threads, and the others wait for it.
    pub(super) fn settings(
        &self,
        array: &Array,
        options: &ArrayOptions,
        threads: usize,
    ) -> Result<ArraySettings, SampleError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(chosen) = &known.chosen
            && (!chosen.provisional || is_constant(array))
        {
            return Ok(chosen.trial.settings);
        }
        // For one or two trials in the life of a collector: threads that wait for the next one would be in the way of a program that forks.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|e| shardpack_format::Error::usage("threads", "as many as the system allows", e))?;
        let asked = asked(array, options);
        let trial = pool.install(|| trial(&[(array, None)], &asked))?;
        let settings = trial.settings;
        known.chosen = Some(Chosen { asked, trial, provisional: is_constant(array) });
        Ok(settings)
    }

    /// What was asked and what was chosen, if there was an array at all.
    pub(super) fn chosen(&self) -> Option<(ArrayOptions, Trial)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.chosen.as_ref().map(|chosen| (chosen.asked, chosen.trial.clone()))
    }
}

/// Where the values decide, those of cubes may become float16. Arrays of one or two axes are as often boxes, embeddings or depths, whose digits count: they
/// lose nothing unless somebody asks for it.
fn asked(array: &Array, options: &ArrayOptions) -> ArrayOptions {
    let open = options.values == Values::Auto && options.max_error.is_none();
    ArrayOptions { lossless: options.lossless || (open && array.shape().len() < CUBE_AXES), ..*options }
}

/// Whether all elements are the same, or there are none: nothing to choose by.
fn is_constant(array: &Array) -> bool {
    let bytes = array.bytes();
    let element = usize::try_from(array.dtype().bytes()).unwrap_or(1);
    // Each byte equals the one an element before it.
    bytes.iter().zip(bytes.get(element..).unwrap_or_default()).all(|(a, b)| a == b)
}
