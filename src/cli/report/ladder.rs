//! The candidates that are measured: ladders of our own, or those that the user names.

use anyhow::Context;
use shardpack_array::{Coder, Filter};
use shardpack_jpeg::ChromaSampling;
use shardpack_pack::arguments::{PackArguments, ReportArguments, Value, Word};
use shardpack_pack::report::{CubeTraits, Noise, Plan, two_digits};
use shardpack_sources::SourceKind;
use std::path::Path;

/// Options of `pack` by their names.
type Own = Vec<(String, Value)>;

/// A candidate before its options are checked.
pub(super) struct Rung {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) own: Own,
}

/// The qualities of the default ladders: each is about a step of ten in SSIMULACRA2.
const QUALITIES: [u8; 4] = [95, 85, 75, 60];
const QUALITIES_420: [u8; 2] = [85, 75];
/// The score of the default target.
const TARGET: f64 = 80.0;
/// The default ladder of errors, in units of the noise: of the quietest band, which no error should
/// exceed, and of a typical band.
const ERRORS: [f64; 2] = [0.5, 1.0];
/// Two errors that are this near are one.
const ALIKE: f64 = 1.2;

/// The candidates for what the source holds.
pub(super) fn rungs(args: &ReportArguments, kind: SourceKind, traits: &dyn Fn() -> CubeTraits) -> Vec<Rung> {
    match kind {
        SourceKind::Images => pictures(args),
        SourceKind::Cubes => cubes(args, traits()),
    }
}

/// Checks a candidate's options as `pack` would. `common` are those on reading the source.
pub(super) fn plan(rung: Rung, common: &PackArguments) -> anyhow::Result<Plan> {
    let Rung { name, group, own } = rung;
    let mut arguments = common.clone();
    let set = own.iter().try_for_each(|(name, value)| arguments.set(name, value).map(drop));
    // Nothing is written to the output.
    let options = set.and_then(|()| arguments.options(Path::new("unused")));
    let options = options.with_context(|| format!("candidate `{}`", name.escape_debug()))?;
    Ok(Plan { name, group, own, options })
}

fn own<const N: usize>(pairs: [(&str, Value); N]) -> Own {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn word(word: impl Into<String>) -> Value {
    Value::Text(word.into())
}

fn pictures(args: &ReportArguments) -> Vec<Rung> {
    let tile = Rung { name: "tile".into(), group: "tile".into(), own: own([("jpeg", word("tile"))]) };
    let mut rungs = vec![tile];
    let asked = !(args.quality.is_empty() && args.subsampling.is_empty() && args.target.is_empty());
    let keep = [ChromaSampling::Keep];
    let ladders: Vec<(ChromaSampling, Vec<u8>)> = match asked {
        false => vec![(ChromaSampling::Keep, QUALITIES.to_vec()), (ChromaSampling::S420, QUALITIES_420.to_vec())],
        true => {
            let samplings = if args.subsampling.is_empty() { keep.as_slice() } else { args.subsampling.as_slice() };
            // Only targets were asked for.
            let qualities = match (args.quality.is_empty(), args.target.is_empty()) {
                (true, false) => Vec::new(),
                (true, true) => QUALITIES.to_vec(),
                (false, _) => args.quality.clone(),
            };
            samplings.iter().map(|&sampling| (sampling, qualities.clone())).collect()
        }
    };
    let targets = if asked { args.target.clone() } else { vec![TARGET] };
    let samplings: Vec<ChromaSampling> = if asked { ladders.iter().map(|(s, _)| *s).collect() } else { keep.to_vec() };
    for (size_name, size_options) in sizes(args) {
        for (sampling, qualities) in &ladders {
            let group = format!("reencode{}{size_name}", sampling_name(*sampling));
            for quality in qualities {
                let name = format!("q{quality}{}{size_name}", sampling_name(*sampling));
                let mut options = own([("jpeg", word("reencode")), ("quality", Value::Integer((*quality).into()))]);
                options.extend(sampling_options(*sampling));
                options.extend(size_options.clone());
                rungs.push(Rung { name, group: group.clone(), own: options });
            }
        }
        for sampling in &samplings {
            let group = format!("to a score{}{size_name}", sampling_name(*sampling));
            for target in &targets {
                let name = format!("SSIMULACRA2 ≥ {target}{}{size_name}", sampling_name(*sampling));
                let mut options = own([("jpeg", word("reencode")), ("target", word(format!("ssimulacra2={target}")))]);
                options.extend(sampling_options(*sampling));
                options.extend(size_options.clone());
                rungs.push(Rung { name, group: group.clone(), own: options });
            }
        }
    }
    rungs
}

fn sampling_name(sampling: ChromaSampling) -> &'static str {
    match sampling {
        ChromaSampling::Keep => "",
        ChromaSampling::S420 => " 4:2:0",
        ChromaSampling::S444 => " 4:4:4",
    }
}

fn sampling_options(sampling: ChromaSampling) -> Own {
    match sampling {
        ChromaSampling::Keep => Vec::new(),
        other => own([("subsampling", word(other.spelled()))]),
    }
}

/// The sizes that were asked for; without any, that of the source.
fn sizes(args: &ReportArguments) -> Vec<(String, Own)> {
    let short = args
        .short_side
        .iter()
        .map(|n| (format!(", short side {n}"), own([("short_side", Value::Integer((*n).into()))])));
    let long =
        args.long_side.iter().map(|n| (format!(", long side {n}"), own([("long_side", Value::Integer((*n).into()))])));
    let mut sizes: Vec<_> = short.chain(long).collect();
    if sizes.is_empty() {
        sizes.push((String::new(), Vec::new()));
    }
    sizes
}

fn cubes(args: &ReportArguments, traits: CubeTraits) -> Vec<Rung> {
    let mut values: Vec<(String, String, Own)> = vec![("keep".into(), "keep".into(), own([("values", word("keep"))]))];
    if !(traits.floats && traits.fractions) {
        // Integers, also those held as floats, become smaller without loss.
        values.push(("auto".into(), "auto".into(), own([("values", word("auto"))])));
    }
    if traits.floats {
        values.push(("float16".into(), "float16".into(), own([("values", word("f16"))])));
        let errors: Vec<f64> = match (args.max_error.is_empty(), traits.noise) {
            (false, _) => args.max_error.clone(),
            (true, Some(noise)) => default_errors(noise),
            (true, None) => Vec::new(),
        };
        values.extend(errors.into_iter().map(|error| {
            let options = own([("values", word("fixed")), ("max_error", Value::Float(error))]);
            (format!("fixed ±{error}"), "fixed".to_owned(), options)
        }));
    }
    let mut rungs = Vec::new();
    for (coding_name, coding) in codings(args, traits) {
        for (name, group, of_values) in &values {
            let own = [of_values.clone(), coding.clone()].concat();
            rungs.push(Rung { name: format!("{name}{coding_name}"), group: format!("{group}{coding_name}"), own });
        }
    }
    rungs
}

fn default_errors(noise: Noise) -> Vec<f64> {
    let all = [noise.quietest, noise.typical].into_iter().flat_map(|noise| ERRORS.map(|step| step * noise));
    let mut errors: Vec<f64> = all.map(two_digits).collect();
    errors.sort_by(f64::total_cmp);
    errors.dedup_by(|next, kept| *next < *kept * ALIKE);
    errors
}

/// What follows the values: the codecs that were asked for, or what is fastest and what is smallest.
fn codings(args: &ReportArguments, traits: CubeTraits) -> Vec<(String, Own)> {
    let mut all = vec![(String::new(), Vec::new())];
    if args.codec.is_empty() {
        all.push((", smallest".to_owned(), own([("prefer", word("size"))])));
        if !traits.floats {
            for codec in [Coder::Blosc2Lz4, Coder::Blosc2Zstd, Coder::Zstd] {
                all.push((format!(", {codec}"), own([("codec", word(codec.name()))])));
            }
        }
        return all;
    }
    for codec in args.codec.iter().map(|codec| codec.spelled()) {
        // Only Blosc2 has filters.
        let filters: Vec<Option<Option<Filter>>> = match codec.starts_with("blosc2") && !args.filter.is_empty() {
            true => args.filter.iter().copied().map(Some).collect(),
            false => vec![None],
        };
        for filter in filters.into_iter().map(|filter| filter.map(Word::spelled)) {
            let name = filter.map_or_else(String::new, |filter| format!(" {filter}"));
            let mut options = own([("codec", word(codec))]);
            options.extend(filter.map(|filter| ("filter".to_owned(), word(filter))));
            all.push((format!(", {codec}{name}"), options));
        }
    }
    all
}
