//! How the arrays of one field are stored: chosen by the first array that is not constant.

use crate::pack::SampleError;
use shardpack_array::{Array, ArrayOptions, ArraySettings, Trial, Values, trial};
use shardpack_format::Dtype;
use std::sync::{Mutex, PoisonError};

/// Axes of a cube: `[height, width, channels]`.
const CUBE_AXES: usize = 3;

/// What is known about the arrays of a field.
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
    /// Chosen on an array of a single value only, such as an empty mask. Good enough for similar
    /// ones, and chosen again on the first other array.
    provisional: bool,
}

impl ArrayField {
    /// What the arrays of a dataset are, and how they are stored, so far as it says so.
    pub(super) fn preset(&self, form: Option<(Dtype, usize)>, chosen: Option<(ArrayOptions, Trial)>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.form = form;
        known.chosen = chosen.map(|(asked, trial)| Chosen { asked, trial, provisional: false });
    }

    /// Notes type and number of axes of the first array, and compares the others with it; returns
    /// the known ones if they differ.
    pub(super) fn compare(&self, array: &Array) -> Result<(), (Dtype, usize)> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let form = (array.dtype(), array.shape().len());
        match *known.form.get_or_insert(form) {
            first if first == form => Ok(()),
            first => Err(first),
        }
    }

    /// The settings for `array`. The first call tries the codecs on this many threads, and other
    /// calls wait for it.
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
        // There are only one or two trials in the life of a collector. Threads that wait for the
        // next one would be a problem for a program that forks.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|e| shardpack_format::Error::usage("threads", "as many as the system allows", e))?;
        let asked = asked(array, options);
        let trial = pool.install(|| trial(&[(array, None)], &asked))?;
        let settings = trial.settings;
        known.chosen = Some(Chosen { asked, trial, provisional: is_constant(array) });
        Ok(settings)
    }

    /// What was requested and what was chosen, if there was any array.
    pub(super) fn chosen(&self) -> Option<(ArrayOptions, Trial)> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.chosen.as_ref().map(|chosen| (chosen.asked, chosen.trial.clone()))
    }
}

/// With `auto`, cubes may become float16. Arrays of one or two axes are often boxes, embeddings or
/// depths, whose digits matter: they stay lossless unless the options say otherwise.
fn asked(array: &Array, options: &ArrayOptions) -> ArrayOptions {
    let open = options.values == Values::Auto && options.max_error.is_none();
    ArrayOptions { lossless: options.lossless || (open && array.shape().len() < CUBE_AXES), ..*options }
}

/// Whether all elements are the same, or there are none: then there is nothing to choose by.
fn is_constant(array: &Array) -> bool {
    let bytes = array.bytes();
    let element = array.dtype().size();
    // Each byte equals the one that is one element before it.
    bytes.iter().zip(bytes.get(element..).unwrap_or_default()).all(|(a, b)| a == b)
}
