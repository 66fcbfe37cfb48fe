//! Renders the verdict: the recommended candidate, the reason, the conditions, and the command to copy.

use super::view::{Statistic, View, said_of};
use crate::conclude::{speed, spread_of};
use crate::data::{Better, Candidate, Measure, SampleKind, Subject};
use crate::words::{self, NBSP};
use maud::{Markup, html};

pub(super) fn section(view: &View<'_>) -> Markup {
    let verdict = &view.report.verdict;
    html! {
        h1 id="verdict-title" { (headline(view)) }
        @if !verdict.sentence.is_empty() { p class="lead" { (verdict.sentence) } }
        @if !verdict.reason.is_empty() { p { (verdict.reason) } }
        (alarms(view))
        @if let Some(chosen) = view.chosen() { (tiles(view, chosen)) }
        @if !verdict.command.is_empty() {
            div class="command" {
                p class="label" id="command-label" { "Pack with this candidate" }
                pre tabindex="0" aria-labelledby="command-label" { code { (verdict.command) } }
            }
        }
        @if view.report.subject == Subject::Sources { (rule(view)) }
    }
}

/// Renders the sizes before and after packing as the largest text on the page.
fn headline(view: &View<'_>) -> Markup {
    let whole = &view.report.whole;
    let before = words::bytes(whole.source_bytes as f64);
    let predicted = view.chosen().and_then(|chosen| chosen.predictions.bytes);
    html! {
        @match (view.report.subject, predicted) {
            (_, Some(bytes)) if !whole.is_alone(bytes.value) => {
                (before) span class="arrow" { " → " } (words::bytes(bytes.value))
            }
            (Subject::Sources, _) => { (before) ", not measured" }
            (Subject::Dataset, _) => { (before) ", " (words::plural(whole.samples, "sample")) }
        }
    }
}

fn alarms(view: &View<'_>) -> Markup {
    let report = view.report;
    let provenance = &report.provenance;
    html! {
        @if let Some(part) = provenance.interrupted {
            p class="alarm" {
                strong { "Interrupted. " }
                "This page is based on " (words::count(part.done)) " of " (words::plural(part.of, "sample"))
                " that were drawn."
            }
        }
        @if !report.verdict.met && report.verdict.chosen.is_some() && !report.verdict.want.is_empty() {
            p class="alarm" {
                strong { "No candidate meets every condition. " }
                "The page shows the candidate with the smallest loss, or closest to the conditions."
            }
        }
        @if !report.unreadable.is_empty() {
            @let n = report.unreadable.len() as u64;
            p class="alarm" {
                strong { (words::plural(n, "source")) " could not be read. " }
                a href="#unreadable" { @if n == 1 { "It is" } @else { "They are" } " listed at the end" } "."
            }
        }
    }
}

fn tiles(view: &View<'_>, chosen: &Candidate) -> Markup {
    let mut tiles: Vec<(String, String, String)> = Vec::new();
    if let (Some(bytes), Subject::Sources) = (chosen.predictions.bytes, view.report.subject) {
        let before = view.report.whole.source_bytes as f64;
        let saved = if before > 0.0 { (bytes.value / before - 1.0) * 100.0 } else { 0.0 };
        let sign = if saved > 0.0 { "+" } else { "" };
        let interval = format!("{} to {}", words::bytes(bytes.low), words::bytes(bytes.high));
        tiles.push(("Size".into(), format!("{sign}{}{NBSP}%", words::fixed(saved, 0)), interval));
    }
    if chosen.lossless {
        tiles.push(("Values".into(), "unchanged".into(), "every sample decodes to exactly the source values".into()));
    } else if view.report.content == SampleKind::Cubes {
        tiles.extend(errors(view, chosen));
    } else if let Some((measure, spread)) = view.measure.and_then(|m| Some((m, chosen.scores.get(&m)?))) {
        let shown = match view.statistic(measure) {
            Statistic::Worst => Statistic::P10,
            other => other,
        };
        let said = |value| words::score_and_unit(measure, value);
        let count = usize::try_from(spread.count).unwrap_or_default();
        let (value, worst) = (said(shown.of(spread)), said(spread.worst));
        // If there are only a few samples, or all samples are equal, only the worst value is meaningful.
        let hint = said_of(shown, count);
        if value != worst && hint != said_of(Statistic::Worst, count) {
            tiles.push((format!("{} {}", measure.title(), shown.name()), value, hint));
        }
        tiles.push((format!("{} worst", measure.title()), worst, view.key(spread.worst_sample).into()));
    }
    if let Some(rate) = chosen.rates.decode_all_cores_per_s {
        let one = chosen
            .rates
            .decode_one_core_per_s
            .map(|r| format!("samples, all cores; {} on one", words::significant(r, 3)));
        tiles.push(("Decoded per second".into(), words::significant(rate, 3), one.unwrap_or_default()));
    }
    if let Some(epoch) = chosen.predictions.epoch_s.filter(|s| *s > 0.0) {
        tiles.push(("An epoch takes".into(), words::seconds(epoch), times_faster(view, chosen, epoch)));
    }
    html! {
        dl class="tiles" {
            @for (name, value, hint) in &tiles {
                div { dt { (name) } dd { span class="value" { (value) } span class="hint" { (hint) } } }
            }
        }
    }
}

fn errors(view: &View<'_>, chosen: &Candidate) -> Vec<(String, String, String)> {
    let tile = |measure: Measure, name: &str, hint: &str| {
        let spread = chosen.scores.get(&measure)?;
        let value = words::score_and_unit(measure, spread.worst);
        let hint = if hint.is_empty() { format!("in {}", view.key(spread.worst_sample)) } else { hint.to_owned() };
        Some((name.to_owned(), value, hint))
    };
    [
        tile(Measure::NoiseRatio, "Error relative to noise", "largest error of a band, divided by its noise"),
        tile(Measure::SpectralAngleP99, "Spectral angle, 99th percentile", "in the worst sample"),
        tile(Measure::SpectralAngleMax, "Largest spectral angle", ""),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn times_faster(view: &View<'_>, chosen: &Candidate, epoch_s: f64) -> String {
    let first = view.report.candidates.first().filter(|first| !std::ptr::eq(*first, chosen));
    first.and_then(|first| Some((first, first.predictions.epoch_s?))).map_or_else(String::new, |(first, s)| {
        format!("loading {}", speed(s / epoch_s, spread_of(chosen, first), &View::title(first)))
    })
}

fn rule(view: &View<'_>) -> Markup {
    let verdict = &view.report.verdict;
    html! {
        p class="rule" {
            strong { "The rule. " }
            @if verdict.want.is_empty() {
                "No condition was given: the smallest candidate is chosen. "
            } @else {
                "A candidate must meet "
                @for (i, want) in verdict.want.iter().enumerate() {
                    @if i > 0 { " and " }
                    code { (want) }
                }
                @if verdict.want_given || view.report.content == SampleKind::Pictures { "; the smallest one is chosen. " }
                @else {
                    ". A lossless one is chosen, unless a lossy one is less than half as large. "
                    "Float16 is preferred to fixed point, unless fixed point is less than half as large. "
                    "The first condition means that no value differs by more than the noise of its band, in any sample; "
                    "the second, that the spectral angle is at most half a degree for 99 % of the pixels of each sample. "
                }
            }
            @if verdict.want_given { "You set it with " code { "--want" } "." }
            @else { "This is the default; set another rule with " code { "--want" } "." }
            @if let Some(measure) = view.measure.filter(|measure| view.statistic(*measure) == Statistic::P10) {
                @if view.report.samples.len() > 10 {
                    " p10 is the value that one sample in ten "
                    @if measure.better() == Better::Higher { "does not reach" } @else { "exceeds" } "."
                } @else { " With so few samples, p10 is the worst." }
                " A mean would hide the worst samples."
            }
        }
    }
}
