//! Declares all options that decide how samples are stored, in one table.

use crate::{
    ArgumentError, Declared, Given, Jpeg, OptionValue, PictureOptions, Share, Takes, Word, is_given, parse_target,
    spelled_size, values_of, words,
};
use shardpack_array::{ArrayLayout, ArrayOptions, BandDifference, Coder, Filter, Prefer, Values};
use shardpack_format::{Hint, Setting};
use shardpack_jpeg::{ChromaSampling, Quality, ReencodeOptions, Resize};

/// Options that decide how samples are stored. The same options apply to datasets packed from a folder or by a
/// program, and to new and existing datasets.
///
/// ```
/// use shardpack_recipe::{Jpeg, StorageOptions, OptionValue};
/// let given = [("quality".to_owned(), OptionValue::Integer(80)), ("jpeg".to_owned(), OptionValue::Text("reencode".into()))];
/// let options = StorageOptions::read(&given)?;
/// assert_eq!((options.pictures.jpeg(), options.shard_bytes), (Jpeg::Reencode, 1 << 30));
/// let useless = StorageOptions::read(&given[..1]).unwrap_err();
/// assert_eq!(useless.to_string(), "quality: the option has no effect if `jpeg` is tile");
/// # Ok::<(), shardpack_recipe::ArgumentError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct StorageOptions {
    /// How pictures are stored. Default: in tiles.
    pub pictures: PictureOptions,
    /// How arrays are stored. Default: auto.
    pub arrays: ArrayOptions,
    /// Maximum size of a shard in bytes. Default: 1 GiB.
    pub shard_bytes: u64,
    /// Seed for shuffling the samples, or `None` to keep their order. Default: seed 0.
    pub shuffle: Option<u64>,
}

impl Default for StorageOptions {
    fn default() -> Self {
        let (pictures, arrays) = (PictureOptions::default(), ArrayOptions::default());
        Self { pictures, arrays, shard_bytes: 1 << 30, shuffle: Some(0) }
    }
}

type Result<T, E = ArgumentError> = std::result::Result<T, E>;
type StorageOption = Declared<StorageOptions>;

const PICTURES: &str = "Pictures";
const CUBES: &str = "Cubes";
const OUTPUT: &str = "Output";

fn how(options: &mut StorageOptions) -> Option<&mut ReencodeOptions> {
    match &mut options.pictures {
        PictureOptions::Reencode { how, .. } => Some(how),
        PictureOptions::Keep { .. } | PictureOptions::Tile { .. } => None,
    }
}

const fn encoding(options: &StorageOptions) -> Option<&ReencodeOptions> {
    match &options.pictures {
        PictureOptions::Reencode { how, .. } => Some(how),
        PictureOptions::Keep { .. } | PictureOptions::Tile { .. } => None,
    }
}

fn set_quality(options: &mut StorageOptions, quality: Quality) {
    if let Some(how) = how(options) {
        how.quality = quality;
    }
}

fn set_resize(options: &mut StorageOptions, resize: Resize) {
    if let Some(how) = how(options) {
        how.resize = resize;
    }
}

fn word<T: Word>(word: T) -> Option<String> {
    Some(word.spelled().to_owned())
}

fn side(given: Given<'_>) -> Result<u32> {
    given.integer(1..=65_535)
}

impl StorageOptions {
    /// All options, in the order in which they are read. `jpeg` comes before the options that depend on it.
    pub const OPTIONS: &[StorageOption] = &[
        StorageOption::new(
            "jpeg",
            Takes::Word(words::<Jpeg>, ""),
            "JPEGs: tile (same pixels), keep (same file), reencode",
            |options, given| {
                let jpeg = given.word()?;
                if options.pictures.jpeg() != jpeg {
                    options.pictures = PictureOptions::of(jpeg);
                }
                Ok(())
            },
        )
        .spelled_by(|options| word(options.pictures.jpeg()))
        .group(PICTURES),
        StorageOption::new(
            "quality",
            Takes::Value("Q"),
            "Quality of re-encoded pictures, 1 to 100 [default: 90]",
            |options, given| given.integer(1..=100).map(|quality| set_quality(options, Quality::Fixed(quality))),
        )
        .spelled_by(|options| match encoding(options)?.quality {
            Quality::Fixed(quality) => Some(quality.to_string()),
            Quality::Ssimulacra2(_) => None,
        })
        .group(PICTURES)
        .only_with(&[Jpeg::Reencode])
        .without("target"),
        StorageOption::new(
            "target",
            Takes::Value("METRIC=SCORE"),
            "Lowest quality that reaches this score, such as ssimulacra2=80",
            |options, given| given.read(parse_target).map(|score| set_quality(options, Quality::Ssimulacra2(score))),
        )
        .spelled_by(|options| match encoding(options)?.quality {
            Quality::Ssimulacra2(score) => Some(format!("ssimulacra2={score}")),
            Quality::Fixed(_) => None,
        })
        .group(PICTURES)
        .only_with(&[Jpeg::Reencode]),
        StorageOption::new(
            "subsampling",
            Takes::Word(words::<ChromaSampling>, "CHROMA"),
            "Chroma subsampling (re-encoded): keep, 420, 444 [default: keep]",
            |options, given| {
                let subsampling = given.word()?;
                if let Some(how) = how(options) {
                    how.subsampling = subsampling;
                }
                Ok(())
            },
        )
        .spelled_by(|options| word(encoding(options)?.subsampling))
        .group(PICTURES)
        .only_with(&[Jpeg::Reencode]),
        StorageOption::new(
            "short_side",
            Takes::Value("N"),
            "Shrink re-encoded pictures to this shorter side, in pixels",
            |options, given| side(given).map(|side| set_resize(options, Resize::ShortSide(side))),
        )
        .spelled_by(|options| match options.pictures.resize() {
            Resize::ShortSide(side) => Some(side.to_string()),
            Resize::No | Resize::LongSide(_) => None,
        })
        .group(PICTURES)
        .only_with(&[Jpeg::Reencode])
        .without("long_side")
        .shrinks(),
        StorageOption::new(
            "long_side",
            Takes::Value("N"),
            "Shrink re-encoded pictures to this longer side, in pixels",
            |options, given| side(given).map(|side| set_resize(options, Resize::LongSide(side))),
        )
        .spelled_by(|options| match options.pictures.resize() {
            Resize::LongSide(side) => Some(side.to_string()),
            Resize::No | Resize::ShortSide(_) => None,
        })
        .group(PICTURES)
        .only_with(&[Jpeg::Reencode])
        .shrinks(),
        StorageOption::new(
            "score",
            Takes::Word(words::<Share>, "SHARE"),
            "Score re-encoded pictures: none, sample, all [default: sample]",
            |options, given| {
                let share = given.word()?;
                if let PictureOptions::Reencode { score, .. } = &mut options.pictures {
                    *score = share;
                }
                Ok(())
            },
        )
        .spelled_by(|options| match options.pictures {
            PictureOptions::Reencode { score, .. } => word(score),
            PictureOptions::Keep { .. } | PictureOptions::Tile { .. } => None,
        })
        .group(PICTURES)
        .only_with(&[Jpeg::Reencode]),
        StorageOption::new(
            "check_pixels",
            Takes::Word(words::<Share>, "SHARE"),
            "Verify tiled pictures: none, sample, all",
            |options, given| {
                let share = given.word()?;
                if let PictureOptions::Tile { check_pixels, .. } = &mut options.pictures {
                    *check_pixels = share;
                }
                Ok(())
            },
        )
        .spelled_by(|options| match options.pictures {
            PictureOptions::Tile { check_pixels, .. } => word(check_pixels),
            PictureOptions::Keep { .. } | PictureOptions::Reencode { .. } => None,
        })
        .group(PICTURES)
        .only_with(&[Jpeg::Tile]),
        StorageOption::new(
            "no_segment_index",
            Takes::Switch,
            "Do not store segment indexes for kept JPEGs",
            |options, given| {
                let on = given.switch()?;
                if let PictureOptions::Keep { segment_index } = &mut options.pictures {
                    *segment_index = !on;
                }
                Ok(())
            },
        )
        .spelled_by(|options| match options.pictures {
            PictureOptions::Keep { segment_index } => Some((!segment_index).to_string()),
            PictureOptions::Tile { .. } | PictureOptions::Reencode { .. } => None,
        })
        .group(PICTURES)
        .only_with(&[Jpeg::Keep]),
        StorageOption::new(
            "upright",
            Takes::Switch,
            "Turn tiled pictures upright (pixel values may change by 1 or 2)",
            |options, given| {
                let on = given.switch()?;
                if let PictureOptions::Tile { upright, .. } = &mut options.pictures {
                    *upright = on;
                }
                Ok(())
            },
        )
        .spelled_by(|options| Some(matches!(options.pictures, PictureOptions::Tile { upright: true, .. }).to_string()))
        .group(PICTURES)
        .only_with(&[Jpeg::Tile]),
        StorageOption::new(
            "keep_metadata",
            Takes::Switch,
            "Keep metadata in the JPEGs (re-encoded: only the ICC profile)",
            |options, given| {
                let on = given.switch()?;
                match &mut options.pictures {
                    PictureOptions::Keep { .. } => {}
                    PictureOptions::Tile { keep_metadata, .. } | PictureOptions::Reencode { keep_metadata, .. } => {
                        *keep_metadata = on;
                    }
                }
                Ok(())
            },
        )
        .spelled_by(|options| Some(options.pictures.keeps_metadata().to_string()))
        .group(PICTURES)
        .only_with(&[Jpeg::Tile, Jpeg::Reencode]),
        StorageOption::new(
            "values",
            Takes::Word(words::<Values>, ""),
            "Values: auto (floats as float16), keep, f16 or fixed",
            |options, given| given.word().map(|values| options.arrays.values = values),
        )
        .spelled_by(|options| word(options.arrays.values))
        .group(CUBES),
        StorageOption::new(
            "max_error",
            Takes::Value("E"),
            "Largest absolute error to allow (if `values` is fixed or auto)",
            |options, given| given.float().map(|error| options.arrays.max_error = Some(error)),
        )
        .spelled_by(|options| options.arrays.max_error.map(|error| error.to_string()))
        .group(CUBES),
        StorageOption::new(
            "codec",
            Takes::Word(words::<Option<Coder>>, ""),
            "Codec: auto, blosc2-lz4, blosc2-lz4hc, blosc2-zstd, zstd, raw",
            |options, given| given.word().map(|coder| options.arrays.coder = coder),
        )
        .spelled_by(|options| word(options.arrays.coder))
        .group(CUBES),
        StorageOption::new(
            "level",
            Takes::Value("N"),
            "Compression level [default: zstd 3, blosc2-lz4hc 9, else 1]",
            |options, given| given.integer(i32::MIN..=i32::MAX).map(|level| options.arrays.level = Some(level)),
        )
        .spelled_by(|options| options.arrays.level.map(|level| level.to_string()))
        .group(CUBES),
        StorageOption::new(
            "filter",
            Takes::Word(words::<Option<Filter>>, ""),
            "Filter: auto, none, shuffle, bitshuffle, bytedelta",
            |options, given| given.word().map(|filter| options.arrays.filter = filter),
        )
        .spelled_by(|options| word(options.arrays.filter))
        .group(CUBES),
        StorageOption::new(
            "layout",
            Takes::Word(words::<Option<ArrayLayout>>, ""),
            "Order of the stored axes: auto, as-given, band-major",
            |options, given| given.word().map(|layout| options.arrays.layout = layout),
        )
        .spelled_by(|options| word(options.arrays.layout))
        .group(CUBES),
        StorageOption::new(
            "band_difference",
            Takes::Word(words::<BandDifference>, "WHEN"),
            "Store differences between bands: auto, on, off",
            |options, given| given.word().map(|difference| options.arrays.band_difference = difference),
        )
        .spelled_by(|options| word(options.arrays.band_difference))
        .group(CUBES),
        StorageOption::new(
            "prefer",
            Takes::Word(words::<Prefer>, ""),
            "Goal of `auto`: speed, device (GPU decoding), size",
            |options, given| given.word().map(|prefer| options.arrays.prefer = prefer),
        )
        .spelled_by(|options| word(options.arrays.prefer))
        .group(CUBES),
        StorageOption::new("shard_size", Takes::Value("SIZE"), "Size of a shard", |options, given| {
            given.size().map(|bytes| options.shard_bytes = bytes)
        })
        .spelled_by(|options| Some(spelled_size(options.shard_bytes)))
        .group(OUTPUT),
        StorageOption::new("seed", Takes::Value("N"), "Seed for the order of samples", |options, given| {
            given.integer(0..=u64::MAX).map(|seed| options.shuffle = Some(seed))
        })
        .spelled_by(|options| options.shuffle.map(|seed| seed.to_string()))
        .group(OUTPUT)
        .without("no_shuffle"),
        StorageOption::new(
            "no_shuffle",
            Takes::Switch,
            "Keep the order of the sources: do not shuffle",
            |options, given| {
                if given.switch()? {
                    options.shuffle = None;
                }
                Ok(())
            },
        )
        .spelled_by(|options| Some(options.shuffle.is_none().to_string()))
        .group(OUTPUT),
    ];

    /// Returns the declaration of an option.
    #[must_use]
    pub fn option(name: &str) -> Option<&'static StorageOption> {
        Self::OPTIONS.iter().find(|option| option.about.name == name)
    }

    /// Returns the names of the options that make pictures smaller.
    pub fn shrinking() -> impl Iterator<Item = &'static str> {
        Self::OPTIONS.iter().filter(|option| option.about.shrinks).map(|option| option.about.name)
    }

    /// Reads the given options and checks them together. All other options keep their defaults.
    ///
    /// # Errors
    /// Fails if a value is not allowed for its option, or if an option contradicts another one or would have no effect.
    pub fn read(given: &[(String, OptionValue)]) -> Result<Self> {
        let mut options = Self::default();
        options.apply(given)?;
        Ok(options)
    }

    /// Sets the given options and leaves all others unchanged.
    ///
    /// # Errors
    /// Same as [`read`](Self::read).
    pub fn apply(&mut self, given: &[(String, OptionValue)]) -> Result<()> {
        crate::check(Self::OPTIONS.iter().map(|option| &option.about), given)?;
        for option in Self::OPTIONS {
            for value in values_of(given, option.about.name) {
                // Check the value first, so that a wrong value is reported even if the option would have no effect.
                Self::canonical(option, value)?;
                if is_given(given, option.about.name) {
                    refuse_useless(option, self.pictures.jpeg())?;
                }
                option.set(self, value)?;
            }
        }
        Ok(())
    }

    /// Checks a value and returns its canonical spelling.
    ///
    /// # Errors
    /// Fails if the value is not allowed.
    pub fn canonical(option: &StorageOption, value: &OptionValue) -> Result<String> {
        let jpeg = option.about.jpeg.first().copied().unwrap_or_default();
        let mut options = Self { pictures: PictureOptions::of(jpeg), ..Self::default() };
        option.set(&mut options, value)?;
        Ok(option.spelled(&options).unwrap_or_else(|| value.to_string()))
    }
}

fn refuse_useless(option: &StorageOption, jpeg: Jpeg) -> Result<()> {
    let with = option.about.jpeg;
    if with.is_empty() || with.contains(&jpeg) {
        return Ok(());
    }
    let words: Vec<_> = with.iter().map(|jpeg| jpeg.spelled()).collect();
    let mut hint = Hint::new("use the option with ");
    for (number, word) in words.iter().enumerate() {
        hint = if number > 0 { hint.then(" or ") } else { hint };
        hint = hint.and([Setting::word("jpeg", *word)]);
    }
    let text = format!("the option has no effect if `jpeg` is {}", jpeg.spelled());
    Err(ArgumentError::of(option.about.name, text).with_hint(hint))
}
