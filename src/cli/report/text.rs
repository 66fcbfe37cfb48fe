//! Formats the verdict and the candidates as a short text.

use super::super::{show, units};
use shardpack_report::data::{Candidate, Measure, Metric, NO_NOISE, Report, SampleKind};
use std::path::Path;

/// Maximum number of unreadable sources to list.
const SHOWN: usize = 20;

pub(super) fn of(report: &Report, page: Option<&Path>) -> String {
    let verdict = &report.verdict;
    let drawn = report.samples.len() as u64;
    // The page uses no-break spaces between numbers and units. Some terminals cannot show them.
    let sentence = |text: &str| show::plain(&text.replace('\u{a0}', " "));
    let mut out = format!("{}\n{}\n", sentence(&verdict.sentence), sentence(&verdict.reason));
    let columns = columns(report.content);
    let mut header = vec!["#", "candidate", "predicted", "±"];
    header.extend(columns.iter().map(|column| column.name));
    header.push("decoded/s");
    let rows: Vec<Vec<String>> =
        report.candidates.iter().enumerate().map(|(i, one)| row(report, &columns, i, one)).collect();
    let what = match report.content {
        SampleKind::Pictures => "SSIMULACRA2 and size",
        SampleKind::Cubes => "largest error relative to band noise, spectral angle in degrees, and size",
    };
    out += &format!("{what}, for {} of {}\n", units::count(drawn), units::plural(report.whole.samples, "sample"));
    out += &show::table(&header, &rows);
    report.metrics.iter().for_each(|metric| out += &own(metric, report));
    if !verdict.command.is_empty() {
        out += &format!("to pack with the recommended candidate: {}\n", show::plain(&verdict.command));
    }
    if let Some(page) = page {
        out += &format!("page written to {}\n", show::plain(&page.display().to_string()));
    }
    out
}

fn own(metric: &Metric, report: &Report) -> String {
    let said = |value: f64| units::significant(value, 5);
    let runs = units::plural(metric.baseline.len() as u64, "run");
    let spread =
        match (metric.baseline.iter().copied().reduce(f64::min), metric.baseline.iter().copied().reduce(f64::max)) {
            (Some(low), Some(high)) if low < high => {
                format!("{} to {} in {runs} on the original", said(low), said(high))
            }
            (Some(low), _) => format!("{} in {runs} on the original", said(low)),
            (None, _) => "not measured on the original".to_owned(),
        };
    let name = show::plain(&metric.name);
    let mut out = format!("{name}: {spread}\n");
    let rows: Vec<Vec<String>> = metric
        .values
        .iter()
        .filter_map(|one| {
            let candidate = report.candidates.get(one.candidate)?;
            let within = match one.within_spread {
                Some(true) => "within",
                Some(false) => "outside",
                None => "-",
            };
            Some(vec![candidate.number.to_string(), show::plain(&candidate.name), said(one.value), within.to_owned()])
        })
        .collect();
    out += &show::table(&["#", "candidate", &name, "the spread"], &rows);
    metric.failures.iter().for_each(|failure| out += &format!("  failed: {}\n", show::plain(failure)));
    out
}

struct TextColumn {
    name: &'static str,
    of: fn(&Candidate) -> Option<f64>,
}

fn columns(content: SampleKind) -> Vec<TextColumn> {
    fn worst(candidate: &Candidate, measure: Measure) -> Option<f64> {
        candidate.scores.get(&measure).map(|spread| spread.worst)
    }
    match content {
        SampleKind::Pictures => vec![
            TextColumn { name: "p10", of: |one| one.scores.get(&Measure::Ssimulacra2).map(|spread| spread.p10) },
            TextColumn { name: "worst", of: |one| worst(one, Measure::Ssimulacra2) },
        ],
        SampleKind::Cubes => vec![
            TextColumn { name: "error/noise", of: |one| worst(one, Measure::NoiseRatio) },
            TextColumn { name: "p99 angle", of: |one| worst(one, Measure::SpectralAngleP99) },
            TextColumn { name: "max. angle", of: |one| worst(one, Measure::SpectralAngleMax) },
        ],
    }
}

fn row(report: &Report, columns: &[TextColumn], position: usize, candidate: &Candidate) -> Vec<String> {
    let mark = if report.verdict.chosen == Some(position) { "*" } else { "" };
    let score = |value: Option<f64>| match (candidate.lossless, value) {
        (true, _) => "lossless".to_owned(),
        (false, Some(value)) if value >= NO_NOISE => "∞".to_owned(),
        (false, Some(value)) => units::significant(value, 3),
        (false, None) => "-".to_owned(),
    };
    let bytes = candidate.predictions.bytes;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "only displayed")]
    let size = bytes.map_or_else(|| "-".to_owned(), |bytes| units::bytes(bytes.value as u64));
    let mut cells = vec![
        format!("{}{mark}", candidate.number),
        show::plain(&candidate.name),
        size,
        bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{:.1} %", bytes.half_width() * 100.0)),
    ];
    cells.extend(columns.iter().map(|column| score((column.of)(candidate))));
    cells.push(
        candidate.rates.decode_all_cores_per_s.map_or_else(|| "-".to_owned(), |rate| units::significant(rate, 3)),
    );
    cells
}

/// Formats the list of unreadable sources, which is printed to stderr.
pub(super) fn unreadable(report: &Report) -> String {
    let count = report.unreadable.len();
    let mut out = format!("could not read {}:", units::plural(count as u64, "source"));
    for one in report.unreadable.iter().take(SHOWN) {
        out += &format!("\n  {}: {}", show::plain(&one.path), show::plain(&one.reason));
    }
    match count.saturating_sub(SHOWN) {
        0 => out,
        more => out + &format!("\n  … and {more} more (--json lists all)"),
    }
}
