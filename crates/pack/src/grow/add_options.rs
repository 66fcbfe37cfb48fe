//! Options for adding samples.

use crate::options::{abouts, no_table, refuse_unknown};
use shardpack_format::Hint;
use shardpack_reader::Limits;
use shardpack_recipe::{
    About, ArgumentError, Declared, MAX_BYTES, OptionValue, Takes, Word, read, spelled_size, words,
};
use shardpack_sources::{Files, OnBadInput};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Policy for samples whose keys are already in the dataset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnKnownKey {
    /// Stop before anything is written.
    #[default]
    Stop,
    /// Skip the samples and count them.
    Skip,
}

impl Word for OnKnownKey {
    const WORDS: &'static [(&'static str, Self)] = &[("stop", Self::Stop), ("skip", Self::Skip)];
}

/// Options of [`add`](super::add). The dataset's recipe determines how samples are stored.
///
/// ```
/// use shardpack_pack::grow::{AddOptions, OnKnownKey};
/// assert_eq!(AddOptions::default().on_known_key, OnKnownKey::Stop);
/// ```
#[derive(Debug, Clone)]
pub struct AddOptions {
    /// Table of labels, required if the dataset was packed with one. Default: none.
    pub labels: Option<PathBuf>,
    /// Name of the key column in `labels`. Default: the name given to `pack`, otherwise the first
    /// column with a common key name such as `key` or `id`.
    pub key_column: Option<String>,
    /// Name of the label column in `labels`. Default: the label column that `pack` used.
    pub label_column: Option<String>,
    /// Folder that contains the masks. Default: none.
    pub masks: Option<PathBuf>,
    /// Follow symbolic links that lead out of the source. Default: false, as in packing.
    pub follow_links: bool,
    /// Policy for files that cannot be packed. Default: the policy in the dataset's recipe.
    pub on_bad_input: Option<OnBadInput>,
    /// Policy for keys that already exist. Default: stop.
    pub on_known_key: OnKnownKey,
    /// Maximum size of a cube, in decoded bytes. Default: 4 GiB.
    pub max_cube: u64,
    /// Drop the unfinished result of an interrupted addition or removal. Default: false.
    pub force: bool,
    /// Number of threads that read and encode. Default: all cores.
    pub threads: usize,
    /// Same as in [`PackOptions`](crate::pack::PackOptions).
    pub memory_bytes: Option<u64>,
    /// Limits on the sizes that the dataset's files may declare. Default: records and decoded
    /// fields up to 4 GiB.
    pub limits: Limits,
    /// Stores of the source, the masks and the table of labels. Default: none, so all of them are local.
    pub files: Files,
    /// Cancels the listing of files when set. Default: none.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Default for AddOptions {
    fn default() -> Self {
        Self {
            labels: None,
            key_column: None,
            label_column: None,
            masks: None,
            follow_links: false,
            on_bad_input: None,
            on_known_key: OnKnownKey::Stop,
            max_cube: MAX_BYTES,
            force: false,
            threads: shardpack_io::cores(),
            memory_bytes: None,
            limits: super::default_limits(),
            files: Files::default(),
            cancel: None,
        }
    }
}

type AddOption = Declared<AddOptions>;

impl AddOptions {
    const OPTIONS: &[AddOption] = &[
        AddOption::new(
            "labels",
            Takes::Path("FILE"),
            "Table of labels for the new samples, if `pack` used one",
            |options, given| given.path().map(|path| options.labels = Some(path)),
        ),
        AddOption::new(
            "key_column",
            Takes::Value("NAME"),
            "Column of `labels` with the paths [default: as packed]",
            |options, given| given.text().map(|name| options.key_column = Some(name)),
        ),
        AddOption::new(
            "label_column",
            Takes::Value("NAME"),
            "Column of `labels` with the labels [default: as packed]",
            |options, given| given.text().map(|name| options.label_column = Some(name)),
        ),
        AddOption::new("masks", Takes::Path("DIR"), "Folder of label masks of the new samples", |options, given| {
            given.path().map(|path| options.masks = Some(path))
        }),
        AddOption::new(
            "follow_links",
            Takes::Switch,
            "Follow symbolic links that lead out of SRC",
            |options, given| given.switch().map(|on| options.follow_links = on),
        ),
        AddOption::new(
            "on_bad_input",
            Takes::Word(words::<OnBadInput>, "POLICY"),
            "If a file cannot be packed: stop or skip [default: as packed]",
            |options, given| given.word().map(|policy| options.on_bad_input = Some(policy)),
        ),
        AddOption::new(
            "on_known_key",
            Takes::Word(words::<OnKnownKey>, "POLICY"),
            "If a key is already in the dataset: stop or skip",
            |options, given| given.word().map(|policy| options.on_known_key = policy),
        )
        .spelled_by(|options| Some(options.on_known_key.spelled().to_owned())),
        AddOption::new(
            "force",
            Takes::Switch,
            "Discard the unfinished files from an interrupted `add` or `remove`",
            |options, given| given.switch().map(|on| options.force = on),
        ),
        AddOption::new("threads", Takes::Value("N"), "Worker threads [default: all cores]", |options, given| {
            given.threads().map(|threads| options.threads = threads)
        }),
        AddOption::new(
            "memory",
            Takes::Value("SIZE"),
            "Memory for samples in progress [default: threads + 1 samples]",
            |options, given| given.size().map(|bytes| options.memory_bytes = Some(bytes)),
        ),
        AddOption::new("max_cube", Takes::Value("SIZE"), "Largest decoded cube to accept", |options, given| {
            given.size().map(|bytes| options.max_cube = bytes)
        })
        .spelled_by(|options| Some(spelled_size(options.max_cube))),
    ];

    /// Returns descriptions of all options that [`read`](Self::read) accepts.
    pub fn about() -> impl Iterator<Item = &'static About> {
        abouts(Self::OPTIONS)
    }

    /// Parses options by name.
    ///
    /// # Errors
    /// Fails if an option does not exist or has an invalid value.
    pub fn read(given: &[(String, OptionValue)]) -> Result<Self, ArgumentError> {
        refuse_unknown(Self::about(), given)?;
        let mut options = Self::default();
        read(Self::OPTIONS, given, &mut options)?;
        options.check()?;
        Ok(options)
    }

    /// Checks the value of one option.
    ///
    /// # Errors
    /// Fails if the value is not valid for the option.
    pub fn check_value(name: &str, value: &OptionValue) -> Result<(), ArgumentError> {
        read(Self::OPTIONS, &[(name.to_owned(), value.clone())], &mut Self::default())
    }

    /// Returns the default of an option as text, or `None` if the option has no default.
    #[must_use]
    pub fn default_of(name: &str) -> Option<String> {
        let option = Self::OPTIONS.iter().find(|option| option.about.name == name)?;
        option.spelled(&Self::default())
    }

    /// Returns true if every option named in `hint` can be set when adding samples. All other options come from
    /// the recipe.
    ///
    /// ```
    /// use shardpack_format::{Hint, Setting};
    /// use shardpack_pack::grow::AddOptions;
    /// assert!(AddOptions::can_follow(&Hint::set([Setting::on("follow_links")])));
    /// let of_packing = "kind";
    /// assert!(!AddOptions::can_follow(&Hint::set([Setting::word(of_packing, "images")])));
    /// ```
    #[must_use]
    pub fn can_follow(hint: &Hint) -> bool {
        hint.options().all(|option| Self::about().any(|about| about.name == option))
    }

    pub(crate) fn check(&self) -> Result<(), ArgumentError> {
        let columns = [("key_column", &self.key_column), ("label_column", &self.label_column)];
        match columns.into_iter().find(|(_, column)| column.is_some() && self.labels.is_none()) {
            None => Ok(()),
            Some((option, _)) => Err(no_table(option)),
        }
    }
}
