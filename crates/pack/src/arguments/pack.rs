//! The options of packing.

use super::value::{Named, parse_target};
use super::{ArgumentError, Result, SourceArguments, Value};
use crate::pack::PackOptions;
use shardpack_array::ArrayOptions;
use shardpack_format::{Hint, Setting};
use shardpack_jpeg::{ChromaSampling, Quality, ReencodeOptions, Resize};
use shardpack_recipe::{Jpeg, PictureOptions, Share};
use shardpack_sources::{OnBadInput, SourceOptions};
use shardpack_writer::Part;
use std::path::{Path, PathBuf};

/// What [`pack`](crate::pack::pack), a [`Collector`](crate::collect::Collector) and
/// [`forecast`](crate::pack::forecast) can be told. [`options`](Self::options) checks it.
///
/// ```
/// use shardpack_pack::arguments::{PackArguments, Value};
/// use shardpack_recipe::Jpeg;
/// let mut arguments = PackArguments { jpeg: Jpeg::Reencode, ..Default::default() };
/// assert!(arguments.set("quality", &Value::Integer(80))?);
/// assert!(!arguments.set("qualitty", &Value::Integer(80))?, "there is no such option");
/// assert_eq!(arguments.options("out".as_ref())?.shard_bytes, 1 << 30);
/// let useless = PackArguments { jpeg: Jpeg::Keep, ..arguments };
/// assert_eq!(useless.check().unwrap_err().to_string(), "quality: expected with `jpeg` reencode, found keep");
/// # Ok::<(), shardpack_pack::arguments::ArgumentError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PackArguments {
    /// How the source is read.
    pub source: SourceArguments,
    /// Pack the first-level folders into a dataset each. Default: false.
    pub splits: bool,
    /// Make one sample, a clip, of each folder of JPEGs. Default: false.
    pub clips: bool,
    /// What to do about files that cannot be packed. Default: stop.
    pub on_bad_input: OnBadInput,
    /// How JPEG pictures are stored. Default: tile.
    pub jpeg: Jpeg,
    /// Quality of re-encoded pictures, 1 to 100. Default 90.
    pub quality: Option<u8>,
    /// SSIMULACRA2 score that each re-encoded picture shall reach, instead of a quality. Default:
    /// none.
    pub target: Option<f64>,
    /// Chroma subsampling of re-encoded pictures. Default: keep.
    pub subsampling: Option<ChromaSampling>,
    /// Shrink re-encoded pictures whose shorter side has more pixels. Default: none.
    pub short_side: Option<u32>,
    /// Shrink re-encoded pictures whose longer side has more pixels. Default: none.
    pub long_side: Option<u32>,
    /// Which re-encoded pictures to score against their sources. Default: a sample.
    pub score: Option<Share>,
    /// Which tiled pictures to compare with their sources. Default: a sample.
    pub check_pixels: Option<Share>,
    /// Turn tiled pictures upright on their coefficients. Default: false.
    pub upright: bool,
    /// Keep all metadata inside tiled JPEGs, and the ICC profile inside re-encoded ones. Default:
    /// false.
    pub keep_metadata: bool,
    /// How arrays are stored: `values`, `max_error`, `codec`, `level`, `filter`, `layout`,
    /// `band_difference` and `prefer`. Default: auto.
    pub arrays: ArrayOptions,
    /// Size of a shard in bytes. Default 1 GiB.
    pub shard_size: u64,
    /// Keep the order of the sources. Default: false.
    pub no_shuffle: bool,
    /// Seed of the order. Default 0.
    pub seed: Option<u64>,
    /// Pack slice `i` of `n` only, counted from 1. Default: all.
    pub part: Option<(u32, u32)>,
    /// A listing of the source that a plan wrote. Default: none.
    pub listing: Option<PathBuf>,
    /// Replace a dataset. Default: false.
    pub force: bool,
    /// With a URL as output: folder of this machine for shards on their way. Default: the system's
    /// folder for temporary files.
    pub spool: Option<PathBuf>,
    /// With a URL as output: go on in the place of a run that was killed. Default: false.
    pub take_over: bool,
    /// Worker threads. Default: all cores.
    pub threads: Option<usize>,
    /// Limit on the bytes of samples that are being packed. Default: see
    /// [`PackOptions::memory_bytes`].
    pub memory: Option<u64>,
}

impl Default for PackArguments {
    fn default() -> Self {
        let defaults = PackOptions::default();
        Self {
            source: SourceArguments::default(),
            splits: defaults.source.splits,
            clips: defaults.source.clips,
            on_bad_input: defaults.source.on_bad_input,
            jpeg: Jpeg::default(),
            quality: None,
            target: None,
            subsampling: None,
            short_side: None,
            long_side: None,
            score: None,
            check_pixels: None,
            upright: false,
            keep_metadata: false,
            arrays: defaults.arrays,
            shard_size: defaults.shard_bytes,
            no_shuffle: defaults.shuffle.is_none(),
            seed: None,
            part: None,
            listing: None,
            force: defaults.force,
            spool: None,
            take_over: false,
            threads: None,
            memory: defaults.memory_bytes,
        }
    }
}

impl PackArguments {
    /// Names of the options that say how samples are stored: what candidates of a report differ in.
    pub const STORAGE: [&str; 20] = [
        "jpeg",
        "quality",
        "target",
        "subsampling",
        "short_side",
        "long_side",
        "score",
        "check_pixels",
        "upright",
        "keep_metadata",
        "values",
        "max_error",
        "codec",
        "level",
        "filter",
        "layout",
        "band_difference",
        "prefer",
        "shard_size",
        "seed",
    ];
    /// Those of them that say how pictures are stored.
    pub(crate) const OF_PICTURES: &[&str] = Self::STORAGE.split_at(10).0;
    /// And how arrays are.
    pub(crate) const OF_ARRAYS: &[&str] = Self::STORAGE.split_at(10).1.split_at(8).0;
    const OTHERS: [&str; 12] = [
        "splits",
        "clips",
        "on_bad_input",
        "no_shuffle",
        "part",
        "listing",
        "force",
        "spool",
        "take_over",
        "threads",
        "memory",
        "recipe",
    ];

    /// Names of all options. `recipe` is one of them that [`set`](Self::set) does not take: it stands
    /// for others, which whoever reads reports sets.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SourceArguments::NAMES.into_iter().chain(Self::STORAGE).chain(Self::OTHERS)
    }

    /// Sets the option `name`. False if there is no such option.
    ///
    /// # Errors
    /// If the option cannot have this value.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<bool> {
        let Some(option) = Self::names().find(|option| *option == name) else { return Ok(false) };
        let given = Named { option, value };
        match option {
            "splits" => self.splits = given.switch()?,
            "clips" => self.clips = given.switch()?,
            "on_bad_input" => self.on_bad_input = given.word()?,
            "jpeg" => self.jpeg = given.word()?,
            "quality" => self.quality = Some(given.integer(1..=100)?),
            "target" => self.target = Some(given.read(parse_target)?),
            "subsampling" => self.subsampling = Some(given.word()?),
            "short_side" => self.short_side = Some(given.integer(1..=65_535)?),
            "long_side" => self.long_side = Some(given.integer(1..=65_535)?),
            "score" => self.score = Some(given.word()?),
            "check_pixels" => self.check_pixels = Some(given.word()?),
            "upright" => self.upright = given.switch()?,
            "keep_metadata" => self.keep_metadata = given.switch()?,
            "values" => self.arrays.values = given.word()?,
            "max_error" => self.arrays.max_error = Some(given.float()?),
            "codec" => self.arrays.coder = given.word()?,
            "level" => self.arrays.level = Some(given.integer(i32::MIN..=i32::MAX)?),
            "filter" => self.arrays.filter = given.word()?,
            "layout" => self.arrays.layout = given.word()?,
            "band_difference" => self.arrays.band_difference = given.word()?,
            "prefer" => self.arrays.prefer = given.word()?,
            "shard_size" => self.shard_size = given.size()?,
            "no_shuffle" => self.no_shuffle = given.switch()?,
            "seed" => self.seed = Some(given.integer(0..=u64::MAX)?),
            "part" => self.part = Some(given.part()?),
            "listing" => self.listing = Some(given.path()),
            "force" => self.force = given.switch()?,
            "spool" => self.spool = Some(given.path()),
            "take_over" => self.take_over = given.switch()?,
            "threads" => self.threads = Some(given.threads()?),
            "memory" => self.memory = Some(given.size()?),
            _ => return self.source.set(given),
        }
        Ok(true)
    }

    /// Fails if the options contradict each other, or one would have no effect: whoever gives it
    /// expects one.
    ///
    /// # Errors
    /// Which option, and why.
    pub fn check(&self) -> Result<()> {
        self.source.check()?;
        let both = [
            ("quality", self.quality.is_some() && self.target.is_some(), "target"),
            ("short_side", self.short_side.is_some() && self.long_side.is_some(), "long_side"),
            ("seed", self.seed.is_some() && self.no_shuffle, "no_shuffle"),
            ("splits", self.splits && self.listing.is_some(), "listing"),
            ("clips", self.clips && self.source.masks.is_some(), "masks"),
        ];
        if let Some((option, _, other)) = both.into_iter().find(|(_, both, _)| *both) {
            return Err(ArgumentError::new(option, format_args!("without `{other}`"), "both"));
        }
        use Jpeg::{Keep, Reencode, Tile};
        let needs: [(&str, bool, &[Jpeg]); 9] = [
            ("quality", self.quality.is_some(), &[Reencode]),
            ("target", self.target.is_some(), &[Reencode]),
            ("subsampling", self.subsampling.is_some(), &[Reencode]),
            ("short_side", self.short_side.is_some(), &[Reencode]),
            ("long_side", self.long_side.is_some(), &[Reencode]),
            ("score", self.score.is_some(), &[Reencode]),
            ("upright", self.upright, &[Tile]),
            ("check_pixels", self.check_pixels.is_some(), &[Tile]),
            ("keep_metadata", self.keep_metadata, &[Tile, Reencode]),
        ];
        let word = |jpeg: Jpeg| match jpeg {
            Tile => "tile",
            Keep => "keep",
            Reencode => "reencode",
        };
        if let Some((option, _, with)) = needs.into_iter().find(|(_, given, with)| *given && !with.contains(&self.jpeg))
        {
            let words: Vec<_> = with.iter().map(|jpeg| word(*jpeg)).collect();
            let expected = format!("with `jpeg` {}", words.join(" or "));
            let hint = Hint::new("it has an effect with ");
            let hint = match *with {
                [one] => hint.and([Setting::word("jpeg", word(one))]).then(" only"),
                _ => hint.and([Setting::word("jpeg", "tile")]).then(" or ").and([Setting::word("jpeg", "reencode")]),
            };
            return Err(ArgumentError::new(option, expected, word(self.jpeg)).with_hint(hint));
        }
        Ok(())
    }

    /// The options for packing into `out`, checked.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn options(&self, out: &Path) -> Result<PackOptions> {
        self.check()?;
        let part = self.part.map(|(i, n)| Part::new(i.wrapping_sub(1), n)).transpose();
        let defaults = PackOptions::default();
        Ok(PackOptions {
            source: SourceOptions {
                splits: self.splits,
                clips: self.clips,
                on_bad_input: self.on_bad_input,
                // A link may lead to where it is.
                exclude: self.source.follow_links.then(|| out.to_owned()),
                listing: self.listing.clone(),
                ..self.source.options()
            },
            pictures: self.pictures(),
            arrays: self.arrays,
            shard_bytes: self.shard_size,
            shuffle: (!self.no_shuffle).then_some(self.seed.unwrap_or_default()),
            part: part.map_err(|error| ArgumentError::of("part", error.to_string()))?,
            force: self.force,
            threads: self.threads.unwrap_or(defaults.threads),
            memory_bytes: self.memory,
        })
    }

    /// The options for a plan: without those that say how one run goes.
    ///
    /// # Errors
    /// As [`check`](Self::check), and for options that have no effect on a plan.
    pub fn plan_options(&self, out: &Path) -> Result<PackOptions> {
        let of_a_run = [("part", self.part.is_some()), ("force", self.force), ("take_over", self.take_over)];
        if let Some((option, _)) = of_a_run.into_iter().find(|(_, given)| *given) {
            return Err(ArgumentError::of(option, "has no effect on a plan: it is for `pack`"));
        }
        if self.splits {
            let error = ArgumentError::of("splits", "has no plan: it makes a dataset of each split");
            return Err(error.with_hint("plan one of them: `SRC/train`"));
        }
        self.options(out)
    }

    pub(crate) fn pictures(&self) -> PictureOptions {
        let keep_metadata = self.keep_metadata;
        match self.jpeg {
            Jpeg::Keep => PictureOptions::Keep,
            Jpeg::Tile => PictureOptions::Tile {
                upright: self.upright,
                check_pixels: self.check_pixels.unwrap_or_default(),
                keep_metadata,
            },
            Jpeg::Reencode => PictureOptions::Reencode {
                how: ReencodeOptions {
                    quality: match self.target {
                        Some(score) => Quality::Ssimulacra2(score),
                        None => Quality::Fixed(self.quality.unwrap_or(90)),
                    },
                    subsampling: self.subsampling.unwrap_or(ChromaSampling::Keep),
                    resize: match (self.short_side, self.long_side) {
                        (Some(side), _) => Resize::ShortSide(side),
                        (None, Some(side)) => Resize::LongSide(side),
                        (None, None) => Resize::No,
                    },
                    ..ReencodeOptions::default()
                },
                score: self.score.unwrap_or_default(),
                keep_metadata,
            },
        }
    }
}
