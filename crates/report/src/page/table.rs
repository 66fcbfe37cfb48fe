//! Renders the tables of candidates, with their fidelity and their cost in bytes and time.

use super::heading;
use super::view::{Statistic, View};
use crate::data::{Candidate, Measure, SPECTRAL_ANGLES, SampleKind, Subject};
use crate::words::{self, NBSP};
use maud::{Markup, html};

/// The value that a cell is sorted by, and its text. `None` for an empty cell.
type Cell = Option<(f64, String)>;

struct CandidateColumn<'a> {
    /// Heading shared by neighbouring columns.
    group: String,
    name: String,
    cell: Box<dyn Fn(&Candidate) -> Cell + 'a>,
}

impl<'a> CandidateColumn<'a> {
    fn new(group: impl Into<String>, name: impl Into<String>, cell: impl Fn(&Candidate) -> Cell + 'a) -> Self {
        Self { group: group.into(), name: name.into(), cell: Box::new(cell) }
    }
}

pub(super) fn section(view: &View<'_>) -> Markup {
    let report = view.report;
    let (title, of) = match report.subject {
        Subject::Sources => ("Candidates", "candidate"),
        Subject::Dataset => ("Figures", "recipe"),
    };
    html! {
        (heading("table", title))
        (table("Size and fidelity", &format!("One row for each {of}, measured on the drawn samples."), view, kept(view)))
        (table("Speed", &format!("One row for each {of}, with predictions for the whole set."), view, costs(view)))
        @if report.subject == Subject::Sources {
            p class="small" {
                "“Bytes against ladder 1” is the Bjøntegaard delta: how many per cent more bytes the whole ladder needs than the first ladder, at equal score. "
                "Intervals have " (words::fixed(report.provenance.confidence * 100.0, 0)) "\u{a0}% confidence. "
                "Times are for this machine, without the disk."
            }
        }
        (notes(view))
        (options(view))
    }
}

fn kept<'a>(view: &'a View<'_>) -> Vec<CandidateColumn<'a>> {
    let drawn: f64 = view.report.samples.iter().map(|s| s.source_bytes as f64).sum();
    let mean_source = drawn / view.report.samples.len().max(1) as f64;
    let mut columns = vec![
        CandidateColumn::new("Size", "a sample", |c| c.bytes.map(|b| (b.mean, words::bytes(b.mean)))),
        CandidateColumn::new("Size", "ratio", move |c| {
            c.bytes
                .filter(|b| b.mean > 0.0)
                .map(|b| mean_source / b.mean)
                .map(|r| (r, format!("{}{NBSP}×", words::significant(r, 3))))
        }),
        CandidateColumn::new("Size", "against ladder 1", |c| {
            c.bjontegaard_percent
                .map(|p| (p, format!("{}{}{NBSP}%", if p > 0.0 { "+" } else { "" }, words::fixed(p, 1))))
        }),
    ];
    let score = |measure: Measure, statistic: Statistic| {
        move |c: &Candidate| c.scores.get(&measure).map(|s| (statistic.of(s), words::score(measure, statistic.of(s))))
    };
    let name = |measure: Measure| match measure.unit() {
        "" => measure.title().to_owned(),
        unit => format!("{}, {unit}", measure.title()),
    };
    for measure in crate::data::MEASURES {
        let statistics: &[Statistic] = if Some(measure) == view.measure && view.report.content == SampleKind::Pictures {
            &[Statistic::Mean, Statistic::P10, Statistic::P1, Statistic::Worst]
        } else {
            match measure {
                _ if SPECTRAL_ANGLES.contains(&measure) => &[],
                Measure::NoiseRatio | Measure::MaxAbsError | Measure::MaxRelError => &[Statistic::Worst],
                Measure::Altered => &[Statistic::Mean],
                _ => &[Statistic::P10, Statistic::Worst],
            }
        };
        columns.extend(statistics.iter().map(|s| CandidateColumn::new(name(measure), s.name(), score(measure, *s))));
        if measure == Measure::SpectralAngleMax {
            let shares = ["median", "p95", "p99", "max."];
            let angles = SPECTRAL_ANGLES.into_iter().zip(shares);
            columns.extend(angles.map(|(angle, share)| {
                CandidateColumn::new(
                    "Spectral angle of the pixels, worst sample, °",
                    share,
                    score(angle, Statistic::Worst),
                )
            }));
        }
    }
    columns
}

fn costs<'a>(view: &'a View<'_>) -> Vec<CandidateColumn<'a>> {
    let rate = |r: Option<f64>| r.map(|r| (r, words::significant(r, 3)));
    let time = |s: Option<f64>| s.map(|s| (s, words::seconds(s)));
    let set = format!("The whole set, {}", words::plural(view.report.whole.samples, "sample"));
    vec![
        CandidateColumn::new("Samples encoded per second", "one core", move |c| rate(c.rates.encode_one_core_per_s)),
        CandidateColumn::new("Samples decoded per second", "one core", move |c| rate(c.rates.decode_one_core_per_s)),
        CandidateColumn::new("Samples decoded per second", "all cores", move |c| rate(c.rates.decode_all_cores_per_s)),
        CandidateColumn::new("Samples decoded per second", "spread", |c| {
            c.rates.decode_spread.map(|s| (s, format!("±{NBSP}{}{NBSP}%", words::significant(s * 100.0, 2))))
        }),
        CandidateColumn::new("Samples decoded per second", "device", move |c| rate(c.rates.decode_device_per_s)),
        CandidateColumn::new(set.clone(), "size", |c| c.predictions.bytes.map(|b| (b.value, words::bytes(b.value)))),
        CandidateColumn::new(set.clone(), "interval", |c| {
            c.predictions.bytes.map(|b| {
                let half = b.half_width() * 100.0;
                (half, format!("±{NBSP}{}{NBSP}%", words::significant(half, 2)))
            })
        }),
        CandidateColumn::new(set.clone(), "to pack", move |c| time(c.predictions.pack_s)),
        CandidateColumn::new(set.clone(), "samples per second", move |c| rate(c.predictions.load_per_s)),
        CandidateColumn::new(set, "an epoch", move |c| time(c.predictions.epoch_s)),
    ]
}

/// Renders a table, without columns in which no candidate has a value.
fn table(title: &str, caption: &str, view: &View<'_>, columns: Vec<CandidateColumn<'_>>) -> Markup {
    let candidates = &view.report.candidates;
    let columns: Vec<CandidateColumn<'_>> =
        columns.into_iter().filter(|column| candidates.iter().any(|c| (column.cell)(c).is_some())).collect();
    if columns.is_empty() {
        return html! {};
    }
    let mut groups: Vec<(&str, usize)> = Vec::new();
    for column in &columns {
        match groups.last_mut() {
            Some((name, span)) if *name == column.group => *span += 1,
            _ => groups.push((&column.group, 1)),
        }
    }
    html! {
        div class="scroll" tabindex="0" role="region" aria-label=(title) {
            table class="candidates sortable" {
                caption { span { strong { (title) ". " } (caption) } }
                colgroup {}
                @for (_, span) in &groups { colgroup span=(span) {} }
                thead {
                    tr {
                        td {}
                        @for (name, span) in &groups { th scope="colgroup" colspan=(span) class="group" { (name) } }
                    }
                    tr {
                        th scope="col" { "candidate" }
                        @for column in &columns { th scope="col" { (column.name) } }
                    }
                }
                tbody {
                    @for candidate in candidates { (row(view, candidate, &columns)) }
                }
            }
        }
    }
}

fn row(view: &View<'_>, candidate: &Candidate, columns: &[CandidateColumn<'_>]) -> Markup {
    html! {
        tr class=[view.is_chosen(candidate).then_some("chosen")] {
            th scope="row" data-value=(candidate.number) {
                span class="number" { (candidate.number) } " " span class="name" { (candidate.name) }
                @if view.is_chosen(candidate) && view.report.subject == Subject::Sources {
                    " " span class="tag" { "recommended" }
                } @else if candidate.lossless { " " span class="tag quiet" { "lossless" } }
                @if !candidate.failures.is_empty() {
                    " " span class="tag warn" { (candidate.failures.len()) " failed" }
                }
            }
            @for column in columns {
                @match (column.cell)(candidate) {
                    Some((value, text)) => td data-value=(value) { (text) },
                    None => td { span class="none" { "–" } },
                }
            }
        }
    }
}

fn notes(view: &View<'_>) -> Markup {
    let said: Vec<&Candidate> =
        view.report.candidates.iter().filter(|c| !c.notes.is_empty() || !c.failures.is_empty()).collect();
    html! {
        @if !said.is_empty() {
            ul class="notes" {
                @for candidate in said {
                    li {
                        strong { (View::title(candidate)) ": " }
                        @for note in &candidate.notes { (note) ". " }
                        @if !candidate.failures.is_empty() {
                            details {
                                summary { (words::plural(candidate.failures.len() as u64, "sample")) " could not be stored" }
                                ul {
                                    @for failure in candidate.failures.iter().take(100) {
                                        li { code { (view.key(failure.sample)) } ": " (failure.reason) }
                                    }
                                    @if candidate.failures.len() > 100 { li { (candidate.failures.len() - 100) " more" } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn options(view: &View<'_>) -> Markup {
    let with: Vec<&Candidate> = view.report.candidates.iter().filter(|c| !c.arguments.is_empty()).collect();
    html! {
        @if !with.is_empty() && view.report.subject == Subject::Sources {
            details class="data" {
                summary { "Arguments of " code { "pack" } " for each candidate" }
                dl class="options" {
                    @for candidate in with {
                        dt { (View::title(candidate)) }
                        dd { code { (candidate.arguments.join(" ")) } }
                    }
                }
            }
        }
    }
}
