//! Parses and encodes the manifest, a JSON description of a dataset that is stored next to its
//! shards (spec §3.3).

use crate::added_columns::{self, AddedColumns};
use crate::error::{Error, Result};
use crate::header::DatasetId;
use crate::json;
use crate::limits::Limits;
use crate::schema::{FieldKind, Metadata, Recipe, Schema};
use crate::shard_entry::{ShardEntry, check_entries, hex_id};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// File name of the manifest.
pub const MANIFEST_NAME: &str = "manifest.json";

/// Recipe key of the generation number (spec §3.5).
const GENERATION: &str = "shardpack_generation";
/// Manifest version of all generations after the first.
const GROWN_VERSION: &str = "1.1";

/// Maximum size of a [`ShardEntry`] as JSON text, in bytes.
const BYTES_PER_SHARD: u64 = 320;
/// Number of JSON nodes of a [`ShardEntry`]: one for the object, the eight extra nodes that each object counts as,
/// and ten for its five keys and their values.
const NODES_PER_SHARD: u64 = 19;

/// The description of a dataset: schema, recipe, fidelity statistics and shards.
///
/// ```
/// use shardpack_format::{Limits, Manifest};
/// let manifest = Manifest::new(Default::default(), Default::default());
/// assert_eq!(Manifest::parse(&manifest.encode()?, &Limits::default())?, manifest);
/// # Ok::<(), shardpack_format::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    format: String,
    version: String,
    /// Id of the dataset, which every shard repeats: 16 bytes, written as 32 hexadecimal digits.
    #[serde(with = "hex_id")]
    pub dataset_id: DatasetId,
    /// Number of samples in all shards.
    pub samples: u64,
    /// The fields of a sample.
    #[serde(deserialize_with = "json::object")]
    pub schema: Schema,
    /// Names of the classes, if any.
    #[serde(default, deserialize_with = "json::some", skip_serializing_if = "Option::is_none")]
    pub classes: Option<Vec<String>>,
    /// All options that the dataset was made with.
    pub recipe: Recipe,
    /// Errors measured over all samples, for each field that was or could have been stored lossily.
    pub fidelity: Map<String, Value>,
    /// Shards in the order of their numbers, from 0.
    #[serde(deserialize_with = "json::objects")]
    pub shards: Vec<ShardEntry>,
    /// Fields that later generations have added, in the order of the additions. In the file, they are part of the
    /// recipe (spec §3.6).
    #[serde(skip)]
    pub columns: Vec<AddedColumns>,
}

impl Manifest {
    /// Creates a manifest without shards.
    #[must_use]
    pub fn new(dataset_id: DatasetId, metadata: Metadata) -> Self {
        Self {
            format: "shardpack".into(),
            version: "1.0".into(),
            dataset_id,
            samples: 0,
            schema: metadata.schema,
            classes: metadata.classes,
            recipe: metadata.recipe,
            fidelity: Map::new(),
            shards: Vec::new(),
            columns: Vec::new(),
        }
    }

    /// Returns the number of shards that a manifest with this metadata can list under these limits. The estimate
    /// assumes the longest possible numbers and reserves 1 MiB for fidelity statistics.
    ///
    /// # Errors
    /// Same as [`Metadata::encode_within`].
    pub fn room_for_shards(metadata: &Metadata, limits: &Limits) -> Result<u64> {
        let used = metadata.encode_within(limits)?;
        let nodes = json::check("shard metadata", &used, limits)?;
        let by_bytes = limits.max_manifest_bytes.saturating_sub(used.len() as u64 + (1 << 20)) / BYTES_PER_SHARD;
        let by_nodes = limits.max_json_nodes.saturating_sub(nodes + (1 << 16)) / NODES_PER_SHARD;
        Ok(limits.max_shards.min(by_bytes).min(by_nodes))
    }

    /// Returns the generation of the dataset: 1 after packing, plus one for each addition or removal (spec §3.5).
    #[must_use]
    pub fn generation(&self) -> u32 {
        self.recipe_generation().unwrap_or(1)
    }

    fn recipe_generation(&self) -> Option<u32> {
        let number = self.recipe.get(GENERATION).filter(|_| self.version != "1.0")?.as_u64()?;
        u32::try_from(number).ok().filter(|&number| number > 1)
    }

    /// Returns the recipe as shards store it, without the generation.
    #[must_use]
    pub fn shard_recipe(&self) -> Recipe {
        let mut recipe = self.recipe.clone();
        if self.recipe_generation().is_some() {
            recipe.remove(GENERATION);
        }
        recipe
    }

    /// Creates the manifest of a later generation, without shards, added columns and fidelity statistics. `metadata` is
    /// the metadata of the shards that this generation adds.
    #[must_use]
    pub fn following(&self, generation: u32, metadata: &Metadata) -> Self {
        let Metadata { schema, classes, mut recipe, .. } = metadata.clone();
        recipe.insert(GENERATION.into(), generation.into());
        Self {
            version: GROWN_VERSION.into(),
            samples: 0,
            schema,
            classes,
            recipe,
            fidelity: Map::new(),
            shards: Vec::new(),
            columns: Vec::new(),
            ..self.clone()
        }
    }

    /// Creates the manifest of a later generation with the same shards and further columns.
    #[must_use]
    pub fn with_columns(&self, generation: u32, columns: AddedColumns) -> Self {
        let mut next = self.clone();
        next.version = GROWN_VERSION.into();
        next.recipe.insert(GENERATION.into(), generation.into());
        next.columns.push(columns);
        next
    }

    /// True if a shard of this dataset may list these classes: all classes of the dataset or, if the dataset has grown,
    /// the first ones, which were known when the shard was written.
    #[must_use]
    pub fn has_classes(&self, of_shard: Option<&[String]>) -> bool {
        let own = self.classes.as_deref();
        match (own, of_shard) {
            (Some(own), Some(of_shard)) if self.generation() > 1 => own.starts_with(of_shard),
            _ => own == of_shard,
        }
    }

    /// True if a shard of this dataset may state that the dataset has `count` shards: the current number or, if the
    /// dataset has grown, a smaller one.
    #[must_use]
    pub fn has_shards(&self, count: u32) -> bool {
        let own = self.shards.len() as u64;
        u64::from(count) == own || (self.generation() > 1 && u64::from(count) < own)
    }

    /// Adds the next shard.
    pub fn push(&mut self, shard: ShardEntry) {
        self.samples = self.samples.saturating_add(shard.samples);
        self.shards.push(shard);
    }

    /// Returns the fields of a sample: the fields of the shards, then the added fields.
    ///
    /// # Errors
    /// `Format` if two fields have the same name.
    ///
    /// ```
    /// use shardpack_format::{AddedColumns, Dtype, Field, Manifest, Schema};
    /// let mut manifest = Manifest::new(Default::default(), Default::default());
    /// let schema = Schema::new(vec![Field::scalar("score", Dtype::F32)])?;
    /// manifest.columns.push(AddedColumns { schema, files: Vec::new() });
    /// assert_eq!(manifest.whole_schema()?.fields().len(), 1);
    /// # Ok::<(), shardpack_format::Error>(())
    /// ```
    pub fn whole_schema(&self) -> Result<Schema> {
        let added = self.columns.iter().flat_map(|columns| columns.schema.fields());
        self.schema.with_fields(added.cloned())
    }

    /// Returns all files of the dataset with their shard numbers: the shards, and then the columns files.
    pub fn files(&self) -> impl Iterator<Item = (u32, &ShardEntry)> {
        let of_columns = self.columns.iter().map(|columns| &columns.files);
        std::iter::once(&self.shards).chain(of_columns).flat_map(|files| (0..).zip(files))
    }

    /// Checks the added columns against the shards.
    pub(crate) fn check_columns(&self, limits: &Limits) -> Result<()> {
        for columns in &self.columns {
            for field in columns.schema.fields() {
                if !matches!(field.kind, FieldKind::Scalar | FieldKind::Array) {
                    let what = format!("kind of the added field {:?}", field.name);
                    return Err(Error::format(what, "scalar or array", field.kind));
                }
            }
            if columns.files.len() != self.shards.len() {
                let (expected, found) = (self.shards.len(), columns.files.len());
                return Err(Error::format("number of columns files", expected, found));
            }
            for (file, shard) in columns.files.iter().zip(&self.shards) {
                if file.samples != shard.samples {
                    let what = format!("number of samples in the columns file {:?}", file.name);
                    return Err(Error::format(what, format!("{} (as in its shard)", shard.samples), file.samples));
                }
            }
        }
        check_entries(self.files().map(|(_, file)| file))?;
        self.whole_schema()?.check(limits)
    }

    /// Encodes the manifest file.
    ///
    /// # Errors
    /// `Usage` if the recipe or the fidelity statistics cannot be written as JSON.
    pub fn encode(&self) -> Result<Vec<u8>> {
        if self.columns.is_empty() {
            return json::to_vec(self);
        }
        let mut whole = self.clone();
        added_columns::put(&self.columns, &mut whole.recipe)?;
        json::to_vec(&whole)
    }

    /// Parses a manifest.
    ///
    /// # Errors
    /// `Format` if it is not strict JSON of this version, if the name of a shard is not allowed or occurs twice, or if
    /// the counts do not add up; `Limit` if it is over the limits.
    pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Self> {
        if bytes.len() as u64 > limits.max_manifest_bytes {
            let limit = limits.max_manifest_bytes;
            return Err(Error::limit("manifest", "max_manifest_bytes", limit, bytes.len() as u64));
        }
        if bytes.starts_with(&[0x1f, 0x8b]) {
            return Err(Error::format("manifest", "JSON", "a gzip stream"));
        }
        let mut manifest: Self = json::from_slice("manifest", bytes, limits)?;
        if manifest.format != "shardpack" {
            return Err(Error::format("manifest format", "\"shardpack\"", format!("{:?}", manifest.format)));
        }
        let minor = manifest.version.strip_prefix("1.").unwrap_or_default();
        if minor.parse::<u16>().ok().is_none_or(|parsed| parsed.to_string() != minor) {
            return Err(Error::format("manifest version", "1.x", format!("{:?}", manifest.version)));
        }
        if manifest.shards.len() as u64 > limits.max_shards {
            let found = manifest.shards.len() as u64;
            return Err(Error::limit("shards", "max_shards", limits.max_shards, found));
        }
        manifest.schema.check(limits)?;
        check_entries(&manifest.shards)?;
        let sum = manifest.shards.iter().try_fold(0_u64, |sum, shard| sum.checked_add(shard.samples));
        let samples = sum.ok_or_else(|| Error::malformed("the shards hold 2^64 samples or more in total"))?;
        if samples != manifest.samples {
            return Err(Error::format(
                "number of samples in the manifest",
                format!("{samples} (the sum over the shards)"),
                manifest.samples,
            ));
        }
        // In a manifest of the first version, the key has no meaning.
        if manifest.version != "1.0" {
            manifest.columns = added_columns::take(&mut manifest.recipe)?;
            manifest.check_columns(limits)?;
        }
        Ok(manifest)
    }
}
