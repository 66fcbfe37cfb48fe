//! Chooses the candidates to measure, from the default ladders or from the user.

use shardpack_array::Coder;
use shardpack_pack::Context;
use shardpack_pack::options::ReportArguments;
use shardpack_pack::pack::PackOptions;
use shardpack_pack::report::{CandidateRecipe, CubeTraits, Noise};
use shardpack_recipe::{OptionValue, StorageOptions, Word};
use shardpack_sources::SourceKind;
use std::path::Path;

type Own = Vec<(String, OptionValue)>;

/// A candidate with unchecked options.
pub(super) struct Rung {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) own: Own,
}

/// Qualities of the default ladders, about ten SSIMULACRA2 points apart.
const QUALITIES: [u8; 4] = [95, 85, 75, 60];
const QUALITIES_420: [u8; 2] = [85, 75];
const TARGET: &str = "ssimulacra2=80";
/// Maximum errors of the default candidates, as multiples of the noise. They are derived from the
/// noise of the quietest band and from the noise of a typical band. All other bands have more noise
/// than the quietest one.
const ERRORS: [f64; 2] = [0.5, 1.0];
/// Maximum errors count as equal if they differ by less than this factor.
const ALIKE: f64 = 1.2;

pub(super) fn rungs(args: &ReportArguments, kind: SourceKind, traits: &dyn Fn() -> CubeTraits) -> Vec<Rung> {
    match kind {
        SourceKind::Images => pictures(args),
        SourceKind::Cubes => cubes(args, traits()),
    }
}

/// Checks the options of a candidate as `pack` would. `common` contains the options for reading the source.
pub(super) fn recipe(rung: Rung, common: &[(String, OptionValue)]) -> crate::Result<CandidateRecipe> {
    let Rung { name, group, own } = rung;
    // The output path is unused, because nothing is written.
    let options = PackOptions::read(&[common, &own].concat(), Path::new("unused"));
    let options = options.with_context(|| format!("candidate `{}`", name.escape_debug()))?;
    Ok(CandidateRecipe { name, group, own, options })
}

fn own<const N: usize>(pairs: [(&str, OptionValue); N]) -> Own {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn word(word: impl Into<String>) -> OptionValue {
    OptionValue::Text(word.into())
}

fn pictures(args: &ReportArguments) -> Vec<Rung> {
    let tile = Rung { name: "tile".into(), group: "tile".into(), own: own([("jpeg", word("tile"))]) };
    let mut rungs = vec![tile];
    let (qualities, targets, samplings) = (args.ladder("quality"), args.ladder("target"), args.ladder("subsampling"));
    let texts = |values: &[&str]| -> Vec<String> { values.iter().map(|value| (*value).to_owned()).collect() };
    let numbers = |values: &[u8]| -> Vec<String> { values.iter().map(ToString::to_string).collect() };
    let keep = vec![KEEP.to_owned()];
    let ladders: Vec<(String, Vec<String>)> = match qualities.is_empty() && targets.is_empty() && samplings.is_empty() {
        true => vec![(KEEP.to_owned(), numbers(&QUALITIES)), ("420".to_owned(), numbers(&QUALITIES_420))],
        false => {
            let samplings = if samplings.is_empty() { keep.clone() } else { texts(&samplings) };
            // If the user requested only target scores, add no qualities.
            let qualities = match (qualities.is_empty(), targets.is_empty()) {
                (true, false) => Vec::new(),
                (true, true) => numbers(&QUALITIES),
                (false, _) => texts(&qualities),
            };
            samplings.into_iter().map(|sampling| (sampling, qualities.clone())).collect()
        }
    };
    let asked = !args.ladder("quality").is_empty() || !targets.is_empty() || !args.ladder("subsampling").is_empty();
    let targets = if asked { texts(&targets) } else { vec![TARGET.to_owned()] };
    let samplings = if asked { ladders.iter().map(|(sampling, _)| sampling.clone()).collect() } else { keep };
    for (size_name, size_options) in sizes(args) {
        for (sampling, qualities) in &ladders {
            let group = format!("reencode{}{size_name}", sampling_name(sampling));
            for quality in qualities {
                let name = format!("q{quality}{}{size_name}", sampling_name(sampling));
                let mut options = own([("jpeg", word("reencode")), ("quality", word(quality))]);
                options.extend(sampling_options(sampling));
                options.extend(size_options.clone());
                rungs.push(Rung { name, group: group.clone(), own: options });
            }
        }
        for sampling in &samplings {
            let group = format!("to a score{}{size_name}", sampling_name(sampling));
            for target in &targets {
                let score = target.split_once('=').map_or(target.as_str(), |(_, score)| score);
                let name = format!("SSIMULACRA2 ≥ {score}{}{size_name}", sampling_name(sampling));
                let mut options = own([("jpeg", word("reencode")), ("target", word(target))]);
                options.extend(sampling_options(sampling));
                options.extend(size_options.clone());
                rungs.push(Rung { name, group: group.clone(), own: options });
            }
        }
    }
    if !asked && StorageOptions::shrinking().all(|option| args.ladder(option).is_empty()) {
        let (name, group) = ("keep, with index".to_owned(), "keep".to_owned());
        rungs.push(Rung { name, group, own: own([("jpeg", word("keep"))]) });
    }
    rungs
}

/// Setting that keeps the source's subsampling.
const KEEP: &str = "keep";

fn sampling_name(sampling: &str) -> &'static str {
    match sampling {
        "420" => " 4:2:0",
        "444" => " 4:4:4",
        _ => "",
    }
}

fn sampling_options(sampling: &str) -> Own {
    match sampling {
        KEEP => Vec::new(),
        other => own([("subsampling", word(other))]),
    }
}

fn sizes(args: &ReportArguments) -> Vec<(String, Own)> {
    let mut sizes = Vec::new();
    for option in StorageOptions::shrinking() {
        for side in args.ladder(option) {
            sizes.push((format!(", {} {side}", option.replace('_', " ")), own([(option, word(side))])));
        }
    }
    if sizes.is_empty() {
        sizes.push((String::new(), Vec::new()));
    }
    sizes
}

fn cubes(args: &ReportArguments, traits: CubeTraits) -> Vec<Rung> {
    let mut values: Vec<(String, String, Own)> = vec![("keep".into(), "keep".into(), own([("values", word("keep"))]))];
    if !(traits.floats && traits.fractions) {
        // Integers can be stored losslessly in less space, even if the source has them as floats.
        values.push(("auto".into(), "auto".into(), own([("values", word("auto"))])));
    }
    if traits.floats {
        values.push(("float16".into(), "float16".into(), own([("values", word("f16"))])));
        let asked = args.ladder("max_error");
        let errors: Vec<String> = match (asked.is_empty(), traits.noise) {
            (false, _) => asked.into_iter().map(str::to_owned).collect(),
            (true, Some(noise)) => default_errors(noise).iter().map(ToString::to_string).collect(),
            (true, None) => Vec::new(),
        };
        values.extend(errors.into_iter().map(|error| {
            let options = own([("values", word("fixed")), ("max_error", word(&error))]);
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

/// Rounds down to two significant digits, such as `0.0012`.
fn two_digits(value: f64) -> f64 {
    let text = format!("{value:e}");
    let Some((digits, exponent)) = text.split_once('e') else { return value };
    let kept: String = digits.chars().take("1.2".len()).collect();
    format!("{kept}e{exponent}").parse().unwrap_or(value)
}

/// Returns the requested codecs, or the fastest and the smallest by default.
fn codings(args: &ReportArguments, traits: CubeTraits) -> Vec<(String, Own)> {
    let mut all = vec![(String::new(), Vec::new())];
    let (codecs, filters) = (args.ladder("codec"), args.ladder("filter"));
    if codecs.is_empty() {
        all.push((", smallest".to_owned(), own([("prefer", word("size"))])));
        if !traits.floats {
            for codec in [Coder::Blosc2Lz4, Coder::Blosc2Zstd, Coder::Zstd] {
                all.push((format!(", {codec}"), own([("codec", word(codec.name()))])));
            }
        }
        return all;
    }
    for codec in codecs {
        let has_filters = Option::<Coder>::parse(codec).is_ok_and(|coder| coder.is_some_and(Coder::has_filters));
        let filters: Vec<Option<&str>> = match has_filters && !filters.is_empty() {
            true => filters.iter().copied().map(Some).collect(),
            false => vec![None],
        };
        for filter in filters {
            let name = filter.map_or_else(String::new, |filter| format!(" {filter}"));
            let mut options = own([("codec", word(codec))]);
            options.extend(filter.map(|filter| ("filter".to_owned(), word(filter))));
            all.push((format!(", {codec}{name}"), options));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_typed_with_two_digits() {
        assert_eq!(two_digits(0.001_234), 0.0012);
        assert_eq!(two_digits(1_234.0), 1200.0);
        assert_eq!((two_digits(0.001_26), two_digits(9.97), two_digits(0.5)), (0.0012, 9.9, 0.5));
    }
}
