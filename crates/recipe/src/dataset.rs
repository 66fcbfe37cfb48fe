//! The recipe of a dataset.

use crate::{ArrayRecipe, Entry, OnBadInput, PictureOptions, SourceKind};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shardpack_format::Recipe;

/// Order of the stored samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// The samples are sorted by key.
    #[serde(rename = "as the keys sort")]
    Keys,
    /// The samples are in the order in which a program added them.
    #[serde(rename = "as they were added")]
    Added,
    /// The samples are shuffled with this seed.
    #[serde(rename = "shuffle_seed")]
    Shuffled(u64),
}

impl Order {
    /// Returns the seed if the order is shuffled.
    #[must_use]
    pub const fn seed(self) -> Option<u64> {
        match self {
            Self::Shuffled(seed) => Some(seed),
            Self::Keys | Self::Added => None,
        }
    }
}

/// The label table that a dataset was packed with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabelTable {
    /// Columns of the table, except the key column.
    pub columns: Vec<String>,
    /// Name of the label column, unless it is one of the default names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_column: Option<String>,
    /// Name of the key column, if the user specified it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_column: Option<String>,
}

/// The variables that were read from the files, for formats with several variables per file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Variables {
    /// Read the variable with this name.
    One(String),
    /// Read the first of these variables that a file contains.
    Several(Vec<String>),
}

impl Variables {
    /// Returns the variables with these names, or `None` if there are no names.
    #[must_use]
    pub fn of(names: &[String]) -> Option<Self> {
        match names {
            [] => None,
            [one] => Some(Self::One(one.clone())),
            several => Some(Self::Several(several.to_vec())),
        }
    }

    /// Returns the names of the variables.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name.clone()],
            Self::Several(names) => names.clone(),
        }
    }
}

/// The recipe of a dataset that was packed from files. An optional entry is `None` if the recipe was written by a
/// version that does not have this entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FolderRecipe {
    /// Version of shardpack that wrote the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shardpack: Option<Entry<String>>,
    /// Kind of the samples.
    #[serde(with = "crate::word")]
    pub kind: SourceKind,
    /// Order of the stored samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Entry<Order>>,
    /// Maximum size of a shard in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard_bytes: Option<Entry<u64>>,
    /// Action for files that cannot be packed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_bad_input: Option<Entry<OnBadInput>>,
    /// The label table, if the dataset was packed with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<Entry<LabelTable>>,
    /// Storage options for pictures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Entry<PictureOptions>>,
    /// True if each sample is a clip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clips: Option<Entry<bool>>,
    /// Names of the variables that were read from the files, if the user specified them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<Entry<Variables>>,
    /// Height and width of cubes that are stored as matrices of bands × pixels, if the user specified them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spatial: Option<Entry<(u64, u64)>>,
    /// Storage settings for the cubes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cube: Option<Entry<ArrayRecipe>>,
    /// Storage settings for the masks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mask: Option<Entry<ArrayRecipe>>,
    /// Entries that this version does not recognise. They are kept unchanged.
    #[serde(flatten)]
    pub others: Map<String, Value>,
}

/// Type of the field `kind` in a [`ProgramRecipe`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OfProgram {
    /// The only possible value.
    #[default]
    #[serde(rename = "samples of a program")]
    Samples,
}

/// The recipe of a dataset whose samples a program added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProgramRecipe {
    /// Version of shardpack that wrote the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shardpack: Option<Entry<String>>,
    /// Kind of the recipe, which is the same for all program recipes.
    pub kind: OfProgram,
    /// Order of the stored samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Entry<Order>>,
    /// Maximum size of a shard in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard_bytes: Option<Entry<u64>>,
    /// Kind of each field that the program adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Entry<Map<String, Value>>>,
    /// Storage settings for the fields, and entries that this version does not recognise.
    #[serde(flatten)]
    stored: Map<String, Value>,
}

impl ProgramRecipe {
    /// Creates the recipe of a dataset whose `fields` are pairs of a name and a kind.
    pub fn new(order: Order, shard_bytes: u64, fields: impl IntoIterator<Item = (String, String)>) -> Self {
        let fields: Map<String, Value> = fields.into_iter().map(|(name, kind)| (name, kind.into())).collect();
        Self {
            shardpack: Some(env!("CARGO_PKG_VERSION").to_owned().into()),
            kind: OfProgram::Samples,
            order: Some(order.into()),
            shard_bytes: Some(shard_bytes.into()),
            fields: Some(fields.into()),
            stored: Map::new(),
        }
    }

    /// Records the storage options for the pictures in `field`.
    pub fn add_pictures(&mut self, field: &str, pictures: &PictureOptions) {
        self.stored.insert(entry_of(field), to_json(pictures));
    }

    /// Records the storage settings for the arrays in `field`.
    pub fn add_arrays(&mut self, field: &str, arrays: &ArrayRecipe) {
        self.stored.insert(entry_of(field), to_json(arrays));
    }
}

/// Returns the name of a field's entry. This is the name of the field, unless one of the fixed entries has the same
/// name.
fn entry_of(field: &str) -> String {
    match field {
        "shardpack" | "kind" | "order" | "shard_bytes" | "fields" => format!("field {field}"),
        other => other.to_owned(),
    }
}

fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_else(|_| shardpack_format::bug("a recipe is not JSON"))
}

/// The recipe of a dataset.
///
/// ```
/// use shardpack_recipe::{DatasetRecipe, Jpeg};
/// let json = serde_json::json!({ "kind": "images", "shard_bytes": 64, "image": { "jpeg": "keep" }, "mood": "new" });
/// let serde_json::Value::Object(map) = json else { return };
/// let recipe = DatasetRecipe::read(&map);
/// assert_eq!(recipe.pictures("image").map(|pictures| pictures.jpeg()), Some(Jpeg::Keep));
/// assert_eq!(recipe.to_map(), map);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub enum DatasetRecipe {
    /// A dataset that was packed from files.
    Folder(Box<FolderRecipe>),
    /// A dataset that a program wrote sample by sample.
    Program(Box<ProgramRecipe>),
    /// Any other recipe, for example an empty one or one written by another program.
    Other(Recipe),
}

impl DatasetRecipe {
    /// Reads the recipe of a manifest or a shard.
    #[must_use]
    pub fn read(recipe: &Recipe) -> Self {
        let value = Value::Object(recipe.clone());
        if let Ok(folder) = FolderRecipe::deserialize(&value) {
            return Self::Folder(Box::new(folder));
        }
        match ProgramRecipe::deserialize(&value) {
            Ok(program) => Self::Program(Box::new(program)),
            Err(_) => Self::Other(recipe.clone()),
        }
    }

    /// Returns the recipe as manifests store it.
    #[must_use]
    pub fn to_map(&self) -> Recipe {
        let value = match self {
            Self::Folder(folder) => to_json(folder),
            Self::Program(program) => to_json(program),
            Self::Other(recipe) => return recipe.clone(),
        };
        match value {
            Value::Object(map) => map,
            _ => shardpack_format::bug("a recipe is no object"),
        }
    }

    /// Returns the order of the samples.
    #[must_use]
    pub fn order(&self) -> Option<Order> {
        match self {
            Self::Folder(folder) => folder.order.as_ref()?.typed().copied(),
            Self::Program(program) => program.order.as_ref()?.typed().copied(),
            Self::Other(recipe) => read(recipe.get("order")?),
        }
    }

    /// Returns the maximum size of a shard in bytes.
    #[must_use]
    pub fn shard_bytes(&self) -> Option<u64> {
        match self {
            Self::Folder(folder) => folder.shard_bytes.as_ref()?.typed().copied(),
            Self::Program(program) => program.shard_bytes.as_ref()?.typed().copied(),
            Self::Other(recipe) => read(recipe.get("shard_bytes")?),
        }
    }

    /// Returns the label table.
    #[must_use]
    pub fn labels(&self) -> Option<&LabelTable> {
        match self {
            Self::Folder(folder) => folder.labels.as_ref()?.typed(),
            Self::Program(_) | Self::Other(_) => None,
        }
    }

    /// Returns the storage options for the pictures in `field`.
    #[must_use]
    pub fn pictures(&self, field: &str) -> Option<PictureOptions> {
        match self {
            Self::Folder(folder) if field == "image" => folder.image.as_ref()?.typed().cloned(),
            Self::Folder(_) => None,
            Self::Program(program) => read(program.stored.get(&entry_of(field))?),
            Self::Other(recipe) => read(recipe.get(&entry_of(field))?),
        }
    }

    /// Replaces the storage options for the pictures in `field`, if the recipe contains such options.
    pub fn set_pictures(&mut self, field: &str, pictures: &PictureOptions) {
        let entry = entry_of(field);
        match self {
            Self::Folder(folder) if field == "image" && folder.image.is_some() => {
                folder.image = Some(pictures.clone().into());
            }
            Self::Program(program) if program.stored.contains_key(&entry) => program.add_pictures(field, pictures),
            Self::Other(recipe) if recipe.contains_key(&entry) => {
                recipe.insert(entry, to_json(pictures));
            }
            Self::Folder(_) | Self::Program(_) | Self::Other(_) => {}
        }
    }

    /// Returns the storage settings for the arrays in `field`.
    #[must_use]
    pub fn arrays(&self, field: &str) -> Option<ArrayRecipe> {
        match self {
            Self::Folder(folder) => match field {
                "cube" => folder.cube.as_ref()?.typed().cloned(),
                "mask" => folder.mask.as_ref()?.typed().cloned(),
                _ => None,
            },
            Self::Program(program) => read(program.stored.get(&entry_of(field))?),
            Self::Other(recipe) => read(recipe.get(&entry_of(field))?),
        }
    }
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> Option<T> {
    T::deserialize(value).ok()
}
