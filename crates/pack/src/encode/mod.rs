//! Encodes a sample's values as a record.
//!
//! A [`RecordDraft`] accepts the values of one sample in any order. A [`PictureRecorder`] adds a picture or a
//! clip, and an [`ArrayRecorder`] adds an array. Text, JSON and bytes are added as a [`StoredValue`], and
//! scalars as bytes for their [`Columns`].

mod array;
mod clip;
pub mod fidelity;
mod picture;
mod picture_encoder;
pub(crate) mod picture_figures;
mod record;
mod sample_error;
mod summary;
mod totals;

pub(crate) use array::{ArrayChoice, ArrayRecorder, ArrayWorkspace};
pub(crate) use clip::FrameFile;
pub use picture::OddPicture;
pub(crate) use picture::{PackedPicture, PictureColumns, PictureRecorder};
pub(crate) use picture_encoder::{PNG, PictureChecks, PictureEncoder, PictureNote, RawPicture, is_usual, write_png};
pub use picture_figures::PictureTotals;
pub(crate) use record::{Columns, FinishedRecord, RecordDraft, RecordNumber, StoredValue, copy_record};
pub use sample_error::SampleError;
pub(crate) use sample_error::skip_or_keep;
pub use summary::{AnglePercentiles, ArraySummary, FieldSummary, PictureSummary, SpreadSummary};
pub use totals::{FidelityTotals, is_figure};
