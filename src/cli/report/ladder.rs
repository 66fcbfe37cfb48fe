//! The candidates that are measured: ladders of our own, or those that the user names.

use super::super::args::{CodecArg, FilterArg, SubsamplingArg};
use super::args::ReportArgs;
use clap::ValueEnum;
use shardpack_pack::report::{CubeTraits, Plan, two_digits};
use shardpack_pack::sources::Kind;

/// Options of `pack` by their long names.
type Flags = Vec<(String, String)>;

/// A candidate before its options are parsed.
pub(super) struct Rung {
    pub(super) name: String,
    pub(super) group: String,
    pub(super) flags: Flags,
}

/// The qualities of the default ladders: each is about a step of ten in SSIMULACRA2.
const QUALITIES: [u8; 4] = [95, 85, 75, 60];
const QUALITIES_420: [u8; 2] = [85, 75];
/// The score of the default target.
const TARGET: f64 = 80.0;
/// The default ladder of errors, in units of the noise.
const ERRORS: [f64; 4] = [0.5, 1.0, 2.0, 4.0];

/// The candidates for what the source holds.
pub(super) fn rungs(args: &ReportArgs, kind: Kind, traits: &dyn Fn() -> CubeTraits) -> Vec<Rung> {
    match kind {
        Kind::Images => pictures(args),
        Kind::Cubes => cubes(args, traits()),
    }
}

/// Parses a candidate's options as `pack` would. `common` are those on reading the source.
pub(super) fn plan(rung: Rung, src: &str, common: &[String]) -> anyhow::Result<Plan> {
    let mut plan = Plan { name: rung.name, group: rung.group, flags: rung.flags, options: Default::default() };
    let mut arguments: Vec<String> = common.to_vec();
    arguments.extend(plan.arguments());
    // Paths may begin with a dash. Nothing is written to the output.
    arguments.extend(["--", src, "unused"].map(str::to_owned));
    let (_, _, options) = super::super::pack_options(arguments)
        .map_err(|error| error.context(format!("candidate `{}`", plan.name.escape_debug())))?;
    plan.options = options;
    Ok(plan)
}

fn flags<const N: usize>(pairs: [(&str, String); N]) -> Flags {
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// How an option's value is spelled.
pub(super) fn spelled<T: ValueEnum>(value: &T) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn pictures(args: &ReportArgs) -> Vec<Rung> {
    let tile = Rung { name: "tile".into(), group: "tile".into(), flags: flags([("jpeg", "tile".into())]) };
    let mut rungs = vec![tile];
    let own = !(args.quality.is_empty() && args.subsampling.is_empty() && args.target.is_empty());
    let keep = [SubsamplingArg::Keep];
    let ladders: Vec<(SubsamplingArg, Vec<u8>)> = match own {
        false => vec![(SubsamplingArg::Keep, QUALITIES.to_vec()), (SubsamplingArg::S420, QUALITIES_420.to_vec())],
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
    let targets = if own { args.target.clone() } else { vec![TARGET] };
    let samplings: Vec<SubsamplingArg> = if own { ladders.iter().map(|(s, _)| *s).collect() } else { keep.to_vec() };
    for (size_name, size_flags) in sizes(args) {
        for (sampling, qualities) in &ladders {
            let group = format!("reencode{}{size_name}", sampling_name(*sampling));
            for quality in qualities {
                let name = format!("q{quality}{}{size_name}", sampling_name(*sampling));
                let mut flags = flags([("jpeg", "reencode".into()), ("quality", quality.to_string())]);
                flags.extend(sampling_flags(*sampling));
                flags.extend(size_flags.clone());
                rungs.push(Rung { name, group: group.clone(), flags });
            }
        }
        for sampling in &samplings {
            let group = format!("to a score{}{size_name}", sampling_name(*sampling));
            for target in &targets {
                let name = format!("SSIMULACRA2 ≥ {target}{}{size_name}", sampling_name(*sampling));
                let mut flags = flags([("jpeg", "reencode".into()), ("target", format!("ssimulacra2={target}"))]);
                flags.extend(sampling_flags(*sampling));
                flags.extend(size_flags.clone());
                rungs.push(Rung { name, group: group.clone(), flags });
            }
        }
    }
    rungs
}

fn sampling_name(sampling: SubsamplingArg) -> &'static str {
    match sampling {
        SubsamplingArg::Keep => "",
        SubsamplingArg::S420 => " 4:2:0",
        SubsamplingArg::S444 => " 4:4:4",
    }
}

fn sampling_flags(sampling: SubsamplingArg) -> Flags {
    match sampling {
        SubsamplingArg::Keep => Vec::new(),
        other => flags([("subsampling", spelled(&other))]),
    }
}

/// The sizes that were asked for; without any, that of the source.
fn sizes(args: &ReportArgs) -> Vec<(String, Flags)> {
    let short = args.short_side.iter().map(|n| (format!(", short side {n}"), flags([("short-side", n.to_string())])));
    let long = args.long_side.iter().map(|n| (format!(", long side {n}"), flags([("long-side", n.to_string())])));
    let mut sizes: Vec<_> = short.chain(long).collect();
    if sizes.is_empty() {
        sizes.push((String::new(), Vec::new()));
    }
    sizes
}

fn cubes(args: &ReportArgs, traits: CubeTraits) -> Vec<Rung> {
    let mut values: Vec<(String, String, Flags)> =
        vec![("keep".into(), "keep".into(), flags([("values", "keep".into())]))];
    if !(traits.floats && traits.fractions) {
        // Integers, also those held as floats, become smaller without loss.
        values.push(("auto".into(), "auto".into(), flags([("values", "auto".into())])));
    }
    if traits.floats {
        values.push(("float16".into(), "float16".into(), flags([("values", "f16".into())])));
        let errors: Vec<f64> = match (args.max_error.is_empty(), traits.noise) {
            (false, _) => args.max_error.clone(),
            (true, Some(noise)) => ERRORS.iter().map(|step| two_digits(step * noise)).collect(),
            (true, None) => Vec::new(),
        };
        values.extend(errors.into_iter().map(|error| {
            let flags = flags([("values", "fixed".into()), ("max-error", error.to_string())]);
            (format!("fixed ±{error}"), "fixed".to_owned(), flags)
        }));
    }
    let mut rungs = Vec::new();
    for (coding_name, coding) in codings(args, traits) {
        for (name, group, own) in &values {
            let mut flags = own.clone();
            flags.extend(coding.clone());
            rungs.push(Rung { name: format!("{name}{coding_name}"), group: format!("{group}{coding_name}"), flags });
        }
    }
    rungs
}

/// What follows the values: the codecs that were asked for, or what is fastest and what is smallest.
fn codings(args: &ReportArgs, traits: CubeTraits) -> Vec<(String, Flags)> {
    let mut all = vec![(String::new(), Vec::new())];
    if args.codec.is_empty() {
        all.push((", smallest".to_owned(), flags([("prefer", "size".into())])));
        if !traits.floats {
            for codec in [CodecArg::Blosc2Lz4, CodecArg::Blosc2Zstd, CodecArg::Zstd] {
                all.push((format!(", {}", spelled(&codec)), flags([("codec", spelled(&codec))])));
            }
        }
        return all;
    }
    for codec in &args.codec {
        // Only Blosc2 has filters.
        let filters: Vec<Option<&FilterArg>> = match spelled(codec).starts_with("blosc2") && !args.filter.is_empty() {
            true => args.filter.iter().map(Some).collect(),
            false => vec![None],
        };
        for filter in filters {
            let name = filter.map_or_else(String::new, |filter| format!(" {}", spelled(filter)));
            let mut own = flags([("codec", spelled(codec))]);
            own.extend(filter.map(|filter| ("filter".to_owned(), spelled(filter))));
            all.push((format!(", {}{name}", spelled(codec)), own));
        }
    }
    all
}
