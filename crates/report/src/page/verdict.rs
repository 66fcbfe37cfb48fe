//! The verdict: one recommendation, its reason, its rule, and the command to copy.

use super::view::{Statistic, View};
use crate::data::{Better, Candidate, Subject};
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
                p class="label" id="command-label" { "Pack with it" }
                pre tabindex="0" aria-labelledby="command-label" { code { (verdict.command) } }
            }
        }
        @if view.report.subject == Subject::Sources { (rule(view)) }
    }
}

/// The largest text of the page: from which size to which.
fn headline(view: &View<'_>) -> Markup {
    let whole = &view.report.whole;
    let before = words::bytes(whole.source_bytes as f64);
    let predicted = view.chosen().and_then(|chosen| chosen.predictions.bytes);
    html! {
        @match (view.report.subject, predicted) {
            (_, Some(bytes)) if !whole.is_alone(bytes.value) => {
                (before) span class="arrow" { " → " } (words::bytes(bytes.value))
            }
            (Subject::Sources, _) => { (before) ", nothing measured" }
            (Subject::Dataset, _) => { (before) ", " (words::plural(whole.samples, "sample")) }
        }
    }
}

/// What the reader must know before anything else.
fn alarms(view: &View<'_>) -> Markup {
    let report = view.report;
    let provenance = &report.provenance;
    html! {
        @if let Some(part) = provenance.interrupted {
            p class="alarm" {
                strong { "Interrupted. " }
                "This page rests on " (words::count(part.done)) " of " (words::plural(part.of, "sample"))
                " that were drawn."
            }
        }
        @if !report.verdict.met && report.verdict.chosen.is_some() && !report.verdict.want.is_empty() {
            p class="alarm" {
                strong { "No candidate meets every condition. " }
                "The one shown loses least or comes closest."
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

/// The few figures that decide.
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
        tiles.push(("Values".into(), "unchanged".into(), "every sample decodes to its source".into()));
    } else if let Some((measure, spread)) = view.measure.and_then(|m| Some((m, chosen.scores.get(&m)?))) {
        let shown = match view.statistic(measure) {
            Statistic::Worst => Statistic::P10,
            other => other,
        };
        let hint = |statistic| match statistic {
            Statistic::P1 => "one sample in a hundred is worse",
            Statistic::Median => "half of the samples are worse",
            _ => "one sample in ten is worse",
        };
        let name = format!("{} {}", measure.title(), shown.name());
        tiles.push((name, words::score_and_unit(measure, shown.of(spread)), hint(shown).into()));
        let worst = words::score_and_unit(measure, spread.worst);
        tiles.push((format!("{} worst", measure.title()), worst, view.key(spread.worst_sample).into()));
    }
    if let Some(rate) = chosen.rates.decode_all_cores_per_s {
        let one = chosen
            .rates
            .decode_one_core_per_s
            .map(|r| format!("samples, all cores; {} on one", words::significant(r, 3)));
        tiles.push(("Decoded a second".into(), words::significant(rate, 3), one.unwrap_or_default()));
    }
    if let Some(epoch) = chosen.predictions.epoch_s.filter(|s| *s > 0.0) {
        tiles.push(("Epochs an hour".into(), words::significant(3600.0 / epoch, 3), times_faster(view, chosen, epoch)));
    }
    html! {
        dl class="tiles" {
            @for (name, value, hint) in &tiles {
                div { dt { (name) } dd { span class="value" { (value) } span class="hint" { (hint) } } }
            }
        }
    }
}

/// How much faster an epoch is than with the first candidate.
fn times_faster(view: &View<'_>, chosen: &Candidate, epoch_s: f64) -> String {
    let first = view.report.candidates.first().filter(|first| !std::ptr::eq(*first, chosen));
    first.and_then(|first| Some((first, first.predictions.epoch_s?))).map_or_else(String::new, |(first, s)| {
        format!("{}{NBSP}× those of {}", words::significant(s / epoch_s, 2), View::title(first))
    })
}

/// The rule that made the choice.
fn rule(view: &View<'_>) -> Markup {
    let verdict = &view.report.verdict;
    html! {
        p class="rule" {
            strong { "The rule. " }
            @if verdict.want.is_empty() {
                "No condition was given: the smallest candidate is taken. "
            } @else {
                "Of the candidates with "
                @for (i, want) in verdict.want.iter().enumerate() {
                    @if i > 0 { " and " }
                    code { (want) }
                }
                ", the smallest is taken. "
            }
            @if verdict.want_given { "You set it with " code { "--want" } "." }
            @else { "This is the default; set another one with " code { "--want" } "." }
            @if let Some(measure) = view.measure {
                " p10 is the value that one sample in ten "
                @if measure.better() == Better::Higher { "does not reach" } @else { "exceeds" }
                ". A mean would hide the samples that suffer."
            }
        }
    }
}
