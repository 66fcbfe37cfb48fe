//! Packs sources into a dataset. Lists the sources, tries codecs, plans the shards, and writes them.

mod cubes;
mod fields;
mod folder;
mod forecast;
mod json;
mod masks;
mod next_generation;
mod options;
mod overlap;
mod picture_sizes;
mod pictures;
mod report;
mod run;
mod splits;
mod tables;
mod trials;
mod workspace;

pub use crate::encode::{
    AnglePercentiles, ArraySummary, FidelityTotals, FieldSummary, OddPicture, PictureSummary, PictureTotals,
    SampleError, SpreadSummary, fidelity, is_figure,
};
pub(crate) use fields::{FolderFields, has_profile};
pub(crate) use folder::{FolderSource, default_memory};
pub use forecast::{Forecast, Measured, PartForecast, forecast};
pub use json::{report_json, unfinished_json};
pub(crate) use next_generation::{NextGeneration, first_id, with_notes};
pub use options::PackOptions;
pub use overlap::refuse_inside;
pub(crate) use overlap::refuse_overlap;
pub use report::PackReport;
pub(crate) use run::{Destination, pack_into, pack_listing};
pub use run::{Hooks, Planned, pack};
pub use splits::{PackedSplits, pack_splits};

#[cfg(test)]
mod store_tests;
