//! Renders the page as one self-contained HTML file.
//!
//! The page is readable without its script, which adds tooltips, sorting, buttons, and a slider for comparing
//! two pictures. A content security policy allows only this script and style sheet, by their digests, and
//! forbids all requests. All strings are escaped by maud.

mod alternative;
mod cubes;
mod curve;
mod distributions;
mod gallery;
mod metric;
mod provenance;
mod table;
mod verdict;
mod view;

use crate::data::{Report, Subject};
use base64::Engine;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};
use view::View;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Maximum size of the embedded JSON in bytes, without tables and plots.
const DATA_BYTES: usize = 600_000;

/// Renders the whole page as a UTF-8 file.
#[must_use]
pub fn page(report: &Report) -> String {
    let view = View::new(report);
    let sections = sections(&view);
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "shardpack " (report.provenance.version) };
                title { "shardpack report: " (report.source) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body {
                div class="shardpack-report" {
                    a class="skip" href="#verdict" { "Skip to the verdict" }
                    header class="page-head" {
                        p class="eyebrow" { strong { "shardpack report" } " " span { (report.source) } }
                        nav aria-label="Sections" {
                            ul { @for section in &sections { li { a href={ "#" (section.id) } { (section.name) } } } }
                        }
                    }
                    main {
                        @for section in &sections {
                            section id=(section.id) aria-labelledby={ (section.id) "-title" } { (section.content) }
                        }
                    }
                }
                script id="report-data" type="application/json" { (PreEscaped(data(report))) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// Renders the verdict and the curve for a notebook, as HTML with its own style and without a script.
#[must_use]
pub fn fragment(report: &Report) -> String {
    let view = View::new(report);
    html! {
        div class="shardpack-report fragment" {
            style { (PreEscaped(STYLE)) }
            section { (verdict::section(&view)) }
            @if let Some(curve) = curve::section(&view) { section { (curve) } }
        }
    }
    .into_string()
}

struct Section {
    id: &'static str,
    name: &'static str,
    content: Markup,
}

fn sections(view: &View<'_>) -> Vec<Section> {
    let table = match view.report.subject {
        Subject::Sources => "Candidates",
        Subject::Dataset => "Figures",
    };
    let all = [
        ("verdict", "Verdict", Some(verdict::section(view))),
        ("curve", "Curve", curve::section(view)),
        ("table", table, Some(table::section(view))),
        ("distributions", "Distributions", distributions::section(view)),
        ("gallery", "Gallery", gallery::section(view)),
        ("cubes", "Cubes", cubes::section(view)),
        ("metric", "Your metric", metric::section(view)),
        ("provenance", "Provenance", Some(provenance::section(view))),
    ];
    all.into_iter().filter_map(|(id, name, content)| Some(Section { id, name, content: content? })).collect()
}

fn heading(id: &str, text: &str) -> Markup {
    html! { h2 id={ (id) "-title" } { a href={ "#" (id) } { (text) } } }
}

fn policy() -> String {
    let digest = |text: &str| base64::engine::general_purpose::STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; img-src data:; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        digest(STYLE),
        digest(SCRIPT)
    )
}

/// Returns JSON that is safe inside a script element. In a large report, a note replaces the rows. The rows
/// are still available with `--json`.
fn data(report: &Report) -> String {
    // Escape `<` in the JSON, because `</script>` and `<!--` would end or change the element.
    let json = |report: &Report| serde_json::to_string(report).unwrap_or_default().replace('<', "\\u003c");
    let whole = json(report);
    if whole.len() <= DATA_BYTES {
        return whole;
    }
    let mut short = report.clone();
    short.notes.push(ROWS_LEFT_OUT.into());
    for candidate in &mut short.candidates {
        candidate.rows.clear();
    }
    json(&short)
}

const ROWS_LEFT_OUT: &str = "The data in this page omits the rows of single samples, because there are too many. \
                             `shardpack report --json` includes them.";

#[cfg(test)]
#[path = "contrast_tests.rs"]
mod contrast_tests;
