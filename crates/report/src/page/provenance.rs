//! Renders how the figures were measured, and how far they can be trusted.

use super::heading;
use super::view::View;
use crate::data::{Strata, Subject};
use crate::words::{self, NBSP};
use maud::{Markup, html};

const UNREADABLE: usize = 200;

pub(super) fn section(view: &View<'_>) -> Markup {
    let report = view.report;
    let provenance = &report.provenance;
    html! {
        (heading("provenance", "Measurement"))
        dl class="facts" {
            (fact("Draw", &html! { (draw(view)) }))
            @if !provenance.command.is_empty() {
                (fact("Command", &html! { pre tabindex="0" { code { (provenance.command) } } }))
            }
            (fact("Version", &html! { "shardpack " (provenance.version) @if !provenance.date.is_empty() { ", " (provenance.date) } }))
            (fact("Machine", &html! {
                @if provenance.machine.processor.is_empty() { "unknown processor" } @else { (provenance.machine.processor) }
                ", " (words::plural(provenance.machine.threads, "thread")) ", " (provenance.machine.system)
                @if let Some(device) = &provenance.device { "; device: " (device.name) }
            }))
            (fact("Time", &html! {
                (words::seconds(provenance.wall_s)) " in all; scoring took " (words::seconds(provenance.scoring_s)) " of one core"
                @if let Some(bytes) = provenance.peak_rss_bytes { "; at most " (words::bytes(bytes as f64)) " of memory" }
            }))
            @if let Some(recipe) = &report.whole.recipe {
                (fact("Recipe", &html! { pre tabindex="0" { code { (serde_json::to_string_pretty(recipe).unwrap_or_default()) } } }))
            }
        }
        @if !provenance.not_measured.is_empty() {
            h3 { "Not measured" }
            ul { @for what in &provenance.not_measured { li { (what) } } }
        }
        @if !report.notes.is_empty() {
            h3 { "Notes" }
            ul { @for note in &report.notes { li { (note) } } }
        }
        @if !report.unreadable.is_empty() { (unreadable(view)) }
        p class="small" {
            "This page contains its data as JSON, in the element " code { "#report-data" } ". "
            span id="save" {}
        }
    }
}

fn fact(name: &str, content: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (content) } } }
}

fn draw(view: &View<'_>) -> String {
    let provenance = &view.report.provenance;
    let all = words::plural(provenance.of, "sample");
    let drawn = words::count(provenance.drawn);
    if provenance.drawn >= provenance.of {
        return match view.report.subject {
            Subject::Sources => format!("all of {all}: nothing is extrapolated"),
            Subject::Dataset => format!("all of {all}"),
        };
    }
    let from =
        |noun: &str| format!(", from {} in proportion to their size", words::plural(provenance.strata_count, noun));
    let strata = match provenance.strata {
        Strata::None => String::new(),
        Strata::Classes => from("class"),
        Strata::Folders => from("folder"),
    };
    format!(
        "{drawn} of {all}, at random with seed {}{strata}; intervals have {}{NBSP}% confidence",
        provenance.seed,
        words::fixed(provenance.confidence * 100.0, 0)
    )
}

fn unreadable(view: &View<'_>) -> Markup {
    let all = &view.report.unreadable;
    html! {
        div class="scroll" tabindex="0" role="region" aria-label="Sources that could not be read" {
            table id="unreadable" class="wordy" {
                caption { span { strong { "Sources that could not be read. " } "No figure on this page includes them." } }
                thead { tr { th scope="col" { "source" } th scope="col" { "reason" } } }
                tbody {
                    @for source in all.iter().take(UNREADABLE) {
                        tr { th scope="row" { (source.path) } td { (source.reason) } }
                    }
                }
            }
        }
        @if all.len() > UNREADABLE { p { (all.len() - UNREADABLE) " more are in the output of " code { "--json" } "." } }
    }
}
