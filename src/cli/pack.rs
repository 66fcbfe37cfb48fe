//! `shardpack pack` and `shardpack merge`.

use super::args::{
    BadInputArg, CodecArg, FilterArg, JpegArg, KindArg, LayoutArg, MergeArgs, PackArgs, PreferArg, ShareArg,
    SubsamplingArg, ValuesArg, WhenArg,
};
use super::progress::Bar;
use super::{Outcome, interrupt, show, summary, units};
use crate::place::for_packing;
use anyhow::bail;
use serde_json::Value;
use shardpack_array::{ArrayLayout, ArrayOptions, BandDifference, Coder, Filter, Prefer, Trial, Values};
use shardpack_format::MANIFEST_NAME;
use shardpack_jpeg::{ChromaSampling, Quality, ReencodeOptions, Resize, TileOptions};
use shardpack_pack::pack::{
    FieldSummary, Hooks, Jpeg, PackOptions, PackReport, PackedSplits, PictureOptions, Planned, Share, pack,
    pack_splits, peak_rss_bytes, report_json, unfinished_json,
};
use shardpack_pack::sources::cubes::CubeOptions;
use shardpack_pack::sources::{BadInput, Kind, LabelsFrom, OnBadInput, SourceOptions};
use shardpack_writer::{Outcome as Written, Output, Part, Report};
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How many candidates of a trial the summary lists.
const SHOWN_CANDIDATES: usize = 6;
/// How many left-out files the summary lists.
const SHOWN_SKIPPED: usize = 20;
/// Share of values below float16's normal range that is worth a warning.
const SUBNORMAL_WARNING: f64 = 0.01;

pub(super) fn run(args: &PackArgs) -> anyhow::Result<Outcome> {
    let (mut src, mut options) = (args.src.clone(), options(args)?);
    let interrupt = interrupt::install(false)?;
    let cancel = &*interrupt.raised;
    let to = args.to.destination(&args.out);
    let out = for_packing(&mut src, &mut options.source, &to, &[], Some(Arc::clone(&interrupt.raised)))?;
    let holds_dataset = holds_dataset(&out)?;
    options.source.cancel = Some(Arc::clone(&interrupt.raised));
    // Each split has a bar of its own.
    let bar: RefCell<Option<Bar>> = RefCell::new(None);
    let on_plan = |planned: &Planned<'_>| {
        // From here on there are files to clean up. Once we say that the run has begun, the user
        // may interrupt it.
        interrupt.graceful.store(true, Ordering::SeqCst);
        // Where a dataset is complete, nothing is going to be packed: the result says so.
        let of_split = |split| args.out.join(split).join(MANIFEST_NAME).exists();
        let is_there = !args.force && planned.split.map_or(holds_dataset, of_split);
        if !args.json && !is_there {
            show::note(&plan_text(planned, args.prefer));
            if let Output::Bucket(bucket) = &out {
                show::note(&format!("shards wait in `{}` until they are sent", bucket.spool().display()));
            }
        }
        if let Some(before) = bar.replace(Some(Bar::new("pack", planned.source_bytes))) {
            before.finish();
        }
    };
    let on_progress = |p: &shardpack_writer::Progress| {
        if let Some(bar) = bar.borrow().as_ref() {
            bar.pack(p.samples.saturating_sub(p.samples_reused), p.bytes_in, p.bytes_in_reused, p.bytes_out);
        }
    };
    let hooks = Hooks { on_plan: &on_plan, on_progress: &on_progress, cancel };
    let result = match args.splits {
        true => pack_splits(&src, out.clone(), &options, &hooks).map(Done::Splits),
        false => pack(&src, out.clone(), &options, &hooks).map(|packed| Done::One(Box::new(packed))),
    };
    if let Some(bar) = bar.take() {
        bar.finish();
    }
    let done = match result {
        Ok(done) => done,
        Err(error) if cancel.load(Ordering::Relaxed) && interrupt::is_cancelled(&error) => {
            show::note("interrupted: finished shards are kept\nhint: run the same command again to go on");
            return Ok(Outcome::Interrupted);
        }
        Err(error) => return Err(error),
    };
    tell(&done, args)
}

/// What a run did.
enum Done {
    One(Box<PackReport>),
    Splits(PackedSplits),
}

/// Says what was done, with the notes before it and what was left out after it.
fn tell(done: &Done, args: &PackArgs) -> anyhow::Result<Outcome> {
    let (json, reports, notes, bad) = match done {
        Done::One(packed) => (packed.to_json(), vec![(None, &**packed)], &[][..], &[][..]),
        Done::Splits(packed) => {
            let reports = packed.splits.iter().map(|(name, packed)| (Some(name.as_str()), packed)).collect();
            (packed.to_json(), reports, &packed.notes[..], &packed.bad[..])
        }
    };
    notes.iter().for_each(|note| show::note(&format!("note: {note}")));
    let mut skipped: Vec<String> = bad.iter().map(ToString::to_string).collect();
    for (split, packed) in &reports {
        let of = split.map_or_else(String::new, |split| format!("`{}`: ", split.escape_debug()));
        packed.notes.iter().for_each(|note| show::note(&format!("note: {of}{note}")));
        skipped.extend(skipped_lines(&packed.bad, &packed.report).into_iter().map(|line| format!("{of}{line}")));
        warn_below_target(&packed.report);
    }
    if args.json {
        show::json(&json)?;
    }
    for (split, packed) in &reports {
        if !args.json {
            let out = split.map_or_else(|| args.out.clone(), |split| args.out.join(split));
            show::print(&to_text(packed, &out))?;
        }
        warn_subnormal(&packed.report);
    }
    Ok(outcome_of(&skipped))
}

/// Whether there is a dataset already.
fn holds_dataset(out: &Output) -> anyhow::Result<bool> {
    Ok(match out {
        Output::Bucket(bucket) => bucket.holds_dataset()?,
        folder => folder.path().join(MANIFEST_NAME).exists(),
    })
}

/// Lists what was left out, and gives the outcome of the command that follows from it.
pub(super) fn outcome_of(skipped: &[String]) -> Outcome {
    if skipped.is_empty() {
        return Outcome::Fine;
    }
    show::note(&skipped_text(skipped));
    Outcome::Problem
}

pub(super) fn merge(args: &MergeArgs) -> anyhow::Result<Outcome> {
    let out = args.to.destination(&args.out).output(&[], None)?;
    let report = match shardpack_writer::merge::<shardpack_pack::pack::Tally>(out) {
        Err(shardpack_writer::Error::Unfinished(unfinished)) => {
            if args.json {
                show::json(&unfinished_json(&unfinished))?;
            }
            return Err(shardpack_writer::Error::Unfinished(unfinished).into());
        }
        other => other?,
    };
    report.notes.iter().for_each(|note| show::note(&format!("warning: {note}")));
    if args.json {
        show::json(&report_json(&report))?;
    } else {
        let shards = units::plural(u64::from(report.shards), "shard");
        let (samples, size) = (units::plural(report.samples, "sample"), units::bytes(report.bytes_out));
        let out = args.out.display();
        show::print(&match report.outcome {
            Written::AlreadyComplete => {
                format!("already complete: `{out}` holds {samples} in {shards}, {size}; there was nothing to merge\n")
            }
            _ => format!("merged {samples} in {shards}, {size}, into `{out}`\n"),
        })?;
    }
    Ok(outcome_of(&skipped_lines(&[], &report)))
}

pub(super) fn options(args: &PackArgs) -> anyhow::Result<PackOptions> {
    let source = SourceOptions {
        kind: args.kind.map(|kind| match kind {
            KindArg::Images => Kind::Images,
            KindArg::Cubes => Kind::Cubes,
        }),
        labels: args.labels.clone(),
        key_column: args.key_column.clone(),
        masks: args.masks.clone(),
        splits: args.splits,
        clips: args.clips,
        class_folders: match args.class_folders {
            WhenArg::Auto => None,
            WhenArg::On => Some(true),
            WhenArg::Off => Some(false),
        },
        on_bad_input: match args.on_bad_input {
            BadInputArg::Stop => OnBadInput::Stop,
            BadInputArg::Skip => OnBadInput::Skip,
        },
        follow_links: args.follow_links,
        // A link may lead to where it is.
        exclude: args.follow_links.then(|| args.out.clone()),
        listing: args.listing.clone(),
        cubes: CubeOptions {
            variable: args.variable.clone(),
            spatial: args.spatial,
            max_bytes: args.max_cube,
            ..CubeOptions::default()
        },
        ..SourceOptions::default()
    };
    let arrays = ArrayOptions {
        values: match args.values {
            ValuesArg::Auto => Values::Auto,
            ValuesArg::Keep => Values::Keep,
            ValuesArg::F16 => Values::F16,
            ValuesArg::Fixed => Values::Fixed,
        },
        max_error: args.max_error,
        lossless: false,
        band_difference: match args.band_difference {
            WhenArg::Auto => BandDifference::Auto,
            WhenArg::On => BandDifference::On,
            WhenArg::Off => BandDifference::Off,
        },
        coder: match args.codec {
            CodecArg::Auto => None,
            CodecArg::Blosc2Lz4 => Some(Coder::Blosc2Lz4),
            CodecArg::Blosc2Lz4hc => Some(Coder::Blosc2Lz4hc),
            CodecArg::Blosc2Zstd => Some(Coder::Blosc2Zstd),
            CodecArg::Zstd => Some(Coder::Zstd),
            CodecArg::Raw => Some(Coder::Raw),
        },
        level: args.level,
        filter: match args.filter {
            FilterArg::Auto => None,
            FilterArg::None => Some(Filter::None),
            FilterArg::Shuffle => Some(Filter::Shuffle),
            FilterArg::Bitshuffle => Some(Filter::Bitshuffle),
            FilterArg::Bytedelta => Some(Filter::Bytedelta),
        },
        layout: match args.layout {
            LayoutArg::Auto => None,
            LayoutArg::AsGiven => Some(ArrayLayout::AsShape),
            LayoutArg::BandMajor => Some(ArrayLayout::BandMajor),
        },
        prefer: match args.prefer {
            PreferArg::Speed => Prefer::Speed,
            PreferArg::Device => Prefer::Device,
            PreferArg::Size => Prefer::Size,
        },
    };
    Ok(PackOptions {
        source,
        pictures: pictures(args)?,
        arrays,
        shard_bytes: args.shard_size,
        shuffle: (!args.no_shuffle).then_some(args.seed),
        part: args.part.map(|(i, n)| Part::new(i - 1, n)).transpose()?,
        force: args.force,
        threads: args.threads.unwrap_or_else(super::open::all_cores).max(1),
        memory_bytes: args.memory,
    })
}

/// Options about pictures. An option that would have no effect is refused.
fn pictures(args: &PackArgs) -> anyhow::Result<PictureOptions> {
    let share = |share: Option<ShareArg>| match share {
        None | Some(ShareArg::Sample) => Share::Sample,
        Some(ShareArg::None) => Share::None,
        Some(ShareArg::All) => Share::All,
    };
    let needs = |given: bool, flag: &str, jpeg: &str| match given {
        true => bail!("`{flag}` has an effect with `--jpeg {jpeg}` only"),
        false => Ok(()),
    };
    let reencode = args.jpeg == JpegArg::Reencode;
    if !reencode {
        needs(args.quality.is_some(), "--quality", "reencode")?;
        needs(args.target.is_some(), "--target", "reencode")?;
        needs(args.subsampling.is_some(), "--subsampling", "reencode")?;
        needs(args.short_side.is_some(), "--short-side", "reencode")?;
        needs(args.long_side.is_some(), "--long-side", "reencode")?;
        needs(args.score.is_some(), "--score", "reencode")?;
    }
    needs(args.upright && args.jpeg != JpegArg::Tile, "--upright", "tile")?;
    needs(args.check_pixels.is_some() && args.jpeg != JpegArg::Tile, "--check-pixels", "tile")?;
    needs(args.keep_metadata && args.jpeg == JpegArg::Keep, "--keep-metadata", "tile` and `--jpeg reencode")?;
    let jpeg = match args.jpeg {
        JpegArg::Keep => Jpeg::Keep,
        JpegArg::Tile => Jpeg::Tile,
        JpegArg::Reencode => Jpeg::Reencode(ReencodeOptions {
            quality: match (args.target, args.quality) {
                (Some(score), _) => Quality::Ssimulacra2(score),
                (None, quality) => Quality::Fixed(quality.unwrap_or(90)),
            },
            subsampling: match args.subsampling {
                None | Some(SubsamplingArg::Keep) => ChromaSampling::Keep,
                Some(SubsamplingArg::S420) => ChromaSampling::S420,
                Some(SubsamplingArg::S444) => ChromaSampling::S444,
            },
            resize: match (args.short_side, args.long_side) {
                (Some(side), _) => Resize::ShortSide(side),
                (None, Some(side)) => Resize::LongSide(side),
                (None, None) => Resize::No,
            },
            tile: TileOptions { keep_metadata: args.keep_metadata, ..TileOptions::default() },
        }),
    };
    Ok(PictureOptions {
        jpeg,
        keep_metadata: args.keep_metadata,
        upright: args.upright,
        check_pixels: share(args.check_pixels),
        score: share(args.score),
    })
}

/// What is about to happen, for stderr.
fn plan_text(planned: &Planned<'_>, prefer: PreferArg) -> String {
    let noun = match planned.kind {
        Kind::Images => "picture",
        Kind::Cubes => "cube",
    };
    let split = planned.split.map_or_else(String::new, |split| format!("`{}`: ", split.escape_debug()));
    let mut out = format!(
        "{split}packing {} ({}) into {} with {}, up to {} of samples in flight",
        units::plural(planned.samples, noun),
        units::bytes(planned.source_bytes),
        units::plural(u64::from(planned.shards), "shard"),
        units::plural(planned.threads as u64, "thread"),
        units::bytes(planned.memory_bytes),
    );
    for (field, trial) in planned.trials.iter().filter(|(_, trial)| trial.table.len() > 1) {
        let order = match prefer {
            PreferArg::Speed => "fastest to read and decode first",
            PreferArg::Device => "fastest to decode on a GPU first",
            PreferArg::Size => "smallest first",
        };
        out += &format!("\ncandidates for `{field}`, {order}\n{}", trial_text(trial));
    }
    out.trim_end().to_owned()
}

fn trial_text(trial: &Trial) -> String {
    let rows: Vec<Vec<String>> = trial
        .table
        .iter()
        .take(SHOWN_CANDIDATES)
        .map(|c| {
            let mb_per_s = c.source_bytes as f64 / c.predicted_us.max(1e-9);
            vec![units::significant(c.ratio(), 3), format!("{mb_per_s:.0}"), c.settings.to_string()]
        })
        .collect();
    let more = trial.table.len().saturating_sub(SHOWN_CANDIDATES);
    let rest = if more > 0 { format!("  … and {more} more (stored in the recipe)\n") } else { String::new() };
    show::table(&["ratio", "predicted MB/s", "settings"], &rows) + &rest
}

fn to_text(packed: &PackReport, out: &Path) -> String {
    let report = &packed.report;
    let seconds = report.elapsed.as_secs_f64();
    let out_name = out.display();
    let samples = units::plural(report.samples, "sample");
    if report.outcome == Written::AlreadyComplete {
        let size = units::bytes(report.bytes_out);
        return format!(
            "already packed: `{out_name}` holds {samples} of the same names, sizes, labels and options, {size}; nothing was written\n\
             (if the content of a file changed and its size did not: `--force` packs it again)\n"
        );
    }
    let bytes_in = report.bytes_in.unwrap_or(0);
    // Rates cover this run's own work; sizes cover the whole.
    let own_samples = report.samples.saturating_sub(report.samples_reused);
    let own_bytes = bytes_in.saturating_sub(report.bytes_in_reused.unwrap_or(0));
    let mut text = format!(
        "packed {samples} into `{out_name}` in {}: {:.0} samples/s, {}\n",
        units::seconds(seconds),
        own_samples as f64 / seconds.max(1e-9),
        units::rate(own_bytes, seconds),
    );
    let mut rows = Vec::new();
    if packed.classes > 0 {
        rows.push(("classes", units::count(packed.classes)));
    }
    let label = if packed.labels_from == LabelsFrom::Nothing { "labels" } else { "labels from" };
    rows.push((label, packed.labels_from.to_string()));
    let ratio = bytes_in as f64 / report.bytes_out.max(1) as f64;
    rows.push(("size", format!("{} → {} ({ratio:.2} : 1)", units::bytes(bytes_in), units::bytes(report.bytes_out))));
    let reused = match report.shards_reused {
        0 => String::new(),
        n => format!(", {n} of them from an earlier run"),
    };
    rows.push(("shards", format!("{}{reused}", units::count(u64::from(report.shards)))));
    if packed.kind == Kind::Images && report.fidelity.is_empty() && report.samples > 0 {
        rows.push(("pictures", "kept to the byte".to_owned()));
    }
    for (field, trial) in &packed.trials {
        rows.push((field.as_str(), trial.settings.to_string()));
    }
    rows.push(("memory", format!("{} at its peak", units::bytes(peak_rss_bytes()))));
    text += &show::pairs(&rows);
    for (field, figures) in &report.fidelity {
        text += &format!("fidelity of `{field}`\n{}", summary::fidelity_text(figures));
    }
    if report.outcome == Written::PartComplete {
        text += &format!("this part is complete; `shardpack merge {out_name}` ends the dataset once all parts are\n");
    }
    text
}

/// What was left out before the run began, and after.
pub(super) fn skipped_lines(bad: &[BadInput], report: &Report) -> Vec<String> {
    let bad = bad.iter().map(ToString::to_string);
    bad.chain(report.skipped.iter().map(|s| format!("{}: {}", s.key.escape_debug(), s.reason))).collect()
}

fn skipped_text(lines: &[String]) -> String {
    let mut out = format!("left out {}:", units::plural(lines.len() as u64, "file"));
    lines.iter().take(SHOWN_SKIPPED).for_each(|line| out += &format!("\n  {line}"));
    match lines.len().saturating_sub(SHOWN_SKIPPED) {
        0 => out,
        n => out + &format!("\n  … and {n} more (--json lists all)"),
    }
}

/// Says when pictures did not reach the score that was asked for.
fn warn_below_target(report: &Report) {
    let below = |entry: &Value| match FieldSummary::parse(entry) {
        Some(FieldSummary::Pictures(pictures)) => pictures.below_target,
        _ => 0,
    };
    let count: u64 = report.fidelity.values().map(below).sum();
    if count > 0 {
        let pictures = units::plural(count, "picture");
        show::note(&format!("warning: {pictures} did not reach the score of `--target`, not even at quality 100"));
    }
}

/// Says when many values lost digits to float16's smallest numbers.
fn warn_subnormal(report: &Report) {
    for (field, entry) in &report.fidelity {
        let Some(FieldSummary::Array(arrays)) = FieldSummary::parse(entry) else { continue };
        let share = arrays.subnormal as f64 / arrays.values.max(1) as f64;
        if share > SUBNORMAL_WARNING {
            show::note(&format!(
                "warning: {:.1} % of the values of `{field}` are below 2^-14, where float16 loses digits\n\
                 hint: `--values fixed --max-error E` bounds the absolute error, `--values keep` loses nothing",
                100.0 * share
            ));
        }
    }
}
