//! Determines the schema, classes and recipe of datasets that are packed from files.

use super::options::PackOptions;
use super::{tables, trials};
use crate::bail;
use crate::encode::{ArrayRecorder, PictureRecorder, fidelity};
use shardpack_array::{ArrayOptions, Prefer, Trial};
use shardpack_format::{Field, FieldKind, Metadata, Note, Recipe, Schema};
use shardpack_recipe::{
    ArgumentError, ArrayRecipe, DatasetRecipe, FolderRecipe, LabelTable, Order, PictureOptions, StorageOptions,
    Variables,
};
use shardpack_sources::{LabelsFrom, Listing, SourceKind, SourceSample};

/// Common names of label columns.
const USUAL: [&str; 2] = ["label", "class"];

/// Fields and array storage of a dataset packed from files. They are fixed before the first sample is packed,
/// and are the same for all splits.
#[derive(Debug, Clone)]
pub(crate) struct FolderFields {
    pub(crate) has_profiles: bool,
    pub(crate) has_segments: bool,
    /// Chosen settings for `cube` if there are cubes, and for `mask` if there are masks.
    pub(crate) trials: Vec<(String, Trial)>,
}

impl FolderFields {
    /// Determines the fields for the samples of a listing. Tries codecs on the caller's rayon pool.
    pub(crate) fn of(listing: &Listing, options: &PackOptions) -> crate::Result<Self> {
        match listing.kind {
            SourceKind::Images => {
                refuse_cube_options(listing, options)?;
                let has_profiles = options.pictures.takes_profiles_out() && listing.samples.iter().any(has_profile);
                let has_segments = options.pictures.has_segment_index()
                    && !listing.is_of_clips()
                    && listing.samples.iter().any(may_have_index);
                let mask = trials::choose_for_masks(listing, options)?;
                let trials = mask.into_iter().map(|trial| ("mask".to_owned(), trial)).collect();
                Ok(Self { has_profiles, has_segments, trials })
            }
            SourceKind::Cubes => {
                refuse_picture_options(options)?;
                Ok(Self { has_profiles: false, has_segments: false, trials: trials::choose(listing, options)? })
            }
        }
    }

    pub(crate) fn trial(&self, field: &str) -> Option<&Trial> {
        self.trials.iter().find(|(name, _)| name == field).map(|(_, trial)| trial)
    }

    /// Returns the fields in schema order, except for the columns of the label table.
    pub(crate) fn declare(&self, listing: &Listing, pictures: &PictureOptions) -> Vec<Field> {
        let is_of_pictures = listing.kind == SourceKind::Images;
        let mut fields = vec![match is_of_pictures {
            true => Field::stored("image", FieldKind::Image),
            false => Field::stored("cube", FieldKind::Array),
        }];
        fields.extend(self.has_segments.then(|| Field::segments("image")));
        fields.extend(self.trial("mask").map(|_| Field::stored("mask", FieldKind::Array)));
        if self.has_profiles {
            fields.push(Field::stored(PictureRecorder::PROFILE, FieldKind::Bytes));
        }
        if !is_of_pictures {
            fields.push(Field::stored("meta", FieldKind::Json));
        }
        fields.extend(tables::label_field(listing));
        if is_of_pictures {
            fields.extend(PictureRecorder::size_columns());
            fields.extend(listing.is_of_clips().then(|| PictureRecorder::frames_column("image")));
            fields.extend(PictureRecorder::figure_columns("image", pictures));
        } else {
            fields.extend(ArrayRecorder::shape_columns(3));
            fields.extend(fidelity::fields("cube"));
        }
        fields
    }

    pub(super) fn metadata(&self, listing: &Listing, options: &PackOptions) -> crate::Result<Metadata> {
        let recipe = DatasetRecipe::Folder(Box::new(self.recipe(listing, options))).to_map();
        self.metadata_with(listing, options, recipe)
    }

    pub(super) fn metadata_with(
        &self,
        listing: &Listing,
        options: &PackOptions,
        recipe: Recipe,
    ) -> crate::Result<Metadata> {
        let fields = self.declare(listing, &options.pictures).into_iter().chain(tables::column_fields(listing));
        let schema = Schema::new(fields.collect()).map_err(|error| {
            let hint = "rename the column; `image`, `icc`, `cube`, `mask`, `meta`, `height`, `width`, `channels`, \
                        `orientation` and `gpu_jpeg` are reserved";
            Note::new(format!("a column in the table of labels cannot be stored as a field: {error}")).with_hint(hint)
        })?;
        let classes = (!listing.classes.is_empty()).then(|| listing.classes.clone());
        Ok(Metadata { schema, classes, recipe, shards: None })
    }

    fn recipe(&self, listing: &Listing, options: &PackOptions) -> FolderRecipe {
        let is_of_pictures = listing.kind == SourceKind::Images;
        let array = |field: &str, asked: ArrayOptions| Some(ArrayRecipe::new(asked, self.trial(field)?).into());
        let cubes = &options.source.cubes;
        FolderRecipe {
            shardpack: Some(env!("CARGO_PKG_VERSION").to_owned().into()),
            kind: listing.kind,
            order: Some(options.shuffle.map_or(Order::Keys, Order::Shuffled).into()),
            shard_bytes: Some(options.shard_bytes.into()),
            on_bad_input: Some(options.source.on_bad_input.into()),
            labels: options.source.labels.as_ref().map(|_| label_table(listing, options).into()),
            image: is_of_pictures.then(|| options.pictures.clone().into()),
            clips: (is_of_pictures && listing.is_of_clips()).then(|| true.into()),
            variable: Variables::of(&cubes.variable).map(Into::into),
            spatial: cubes.spatial.map(Into::into),
            cube: array("cube", options.arrays),
            mask: array("mask", trials::mask_options(&options.arrays)),
            others: serde_json::Map::new(),
        }
    }
}

fn label_table(listing: &Listing, options: &PackOptions) -> LabelTable {
    let mut columns: Vec<&str> = listing.columns.iter().map(|c| c.name.as_str()).collect();
    let label = match &listing.labels_from {
        LabelsFrom::Column { column, .. } => Some(column.as_str()).filter(|name| !USUAL.contains(name)),
        _ => None,
    };
    match label {
        // If the labels are numbers, the field is named `label` instead of after the column.
        Some(name) => {
            columns.retain(|column| *column != "label" && *column != name);
            columns.insert(0, name);
        }
        None if !listing.classes.is_empty() && !columns.contains(&"label") => columns.insert(0, "label"),
        None => {}
    }
    LabelTable {
        columns: columns.into_iter().map(str::to_owned).collect(),
        label_column: label.map(str::to_owned),
        // Record the key column only if the user named it. Otherwise, tables of later additions may
        // use a different name.
        key_column: options.source.key_column.clone(),
    }
}

pub(crate) fn has_profile(entry: &SourceSample) -> bool {
    entry.content.picture().and_then(|picture| picture.jpeg).is_some_and(|jpeg| jpeg.icc)
}

fn may_have_index(entry: &SourceSample) -> bool {
    entry.content.picture().and_then(|picture| picture.jpeg).is_some_and(|jpeg| !jpeg.progressive)
}

/// Fails for options that would have no effect, because the user must have expected one.
fn refuse_cube_options(listing: &Listing, options: &PackOptions) -> crate::Result<()> {
    let (cubes, arrays) = (&options.source.cubes, options.arrays);
    let has_masks = listing.samples.iter().any(|entry| entry.mask.is_some());
    // Masks are arrays, so codec options apply to them.
    let arrays = match has_masks {
        true => ArrayOptions { coder: None, level: None, filter: None, prefer: Prefer::default(), ..arrays },
        false => arrays,
    };
    let option = if arrays != ArrayOptions::default() {
        first_changed(&StorageOptions { arrays, ..StorageOptions::default() }).unwrap_or("lossless")
    } else if !cubes.variable.is_empty() {
        "variable"
    } else if cubes.spatial.is_some() {
        "spatial"
    } else {
        return Ok(());
    };
    Err(ArgumentError::of(option, "applies only to cubes, but the source has pictures").into())
}

fn refuse_picture_options(options: &PackOptions) -> crate::Result<()> {
    if options.pictures != PictureOptions::default() {
        let pictures = options.pictures.clone();
        let option = first_changed(&StorageOptions { pictures, ..StorageOptions::default() }).unwrap_or("jpeg");
        bail!(ArgumentError::of(option, "applies only to pictures, but the source has cubes"));
    }
    Ok(())
}

/// Returns the name of the first option that is not at its default.
fn first_changed(options: &StorageOptions) -> Option<&'static str> {
    let default = StorageOptions::default();
    let mut table = StorageOptions::OPTIONS.iter();
    table.find(|option| option.spelled(options) != option.spelled(&default)).map(|option| option.about.name)
}
