//! Renders the results of the user-defined metrics for the candidates, together with the range of the baseline results.

use super::alternative::{Data, figure};
use super::heading;
use super::view::View;
use crate::data::Metric;
use crate::plot::both;
use crate::plot::rows::{PlotRow, Rows};
use crate::plot::scale::{Kind, Label, range};
use crate::words;
use maud::{Markup, html};

pub(super) fn section(view: &View<'_>) -> Option<Markup> {
    if view.report.metrics.is_empty() {
        return None;
    }
    Some(html! {
        (heading("metric", "Your metric"))
        p { "A candidate within the spread of runs on the original has no measurable effect on your metric." }
        @for metric in &view.report.metrics { (one(view, metric)) }
    })
}

fn one(view: &View<'_>, metric: &Metric) -> Markup {
    let said = |v: f64| words::trimmed(&words::significant(v, 5));
    let spread = range(metric.baseline.iter().copied());
    let mut rows: Vec<PlotRow> = Vec::new();
    if !metric.baseline.is_empty() {
        let dots = metric.baseline.iter().map(|v| (*v, format!("original: {}", said(*v)))).collect();
        rows.push(PlotRow { label: "original, run by run".into(), dots, ..PlotRow::default() });
    }
    let mut data = Data { head: ["", &metric.name, "within the spread"].map(str::to_owned).into(), rows: Vec::new() };
    data.rows.extend(metric.baseline.iter().map(|v| vec!["original".into(), said(*v), "–".into()]));
    for value in &metric.values {
        let Some(candidate) = view.report.candidates.get(value.candidate) else { continue };
        let within = match value.within_spread {
            Some(true) => "yes",
            Some(false) => "no",
            None => "–",
        };
        data.rows.push(vec![View::title(candidate), said(value.value), within.into()]);
        rows.push(PlotRow {
            label: View::title(candidate),
            dots: vec![(value.value, format!("{}: {}", View::title(candidate), said(value.value)))],
            chosen: view.is_chosen(candidate),
            ..PlotRow::default()
        });
    }
    let alternative = format!("Dot plot of {} on the original and on each candidate.", metric.name);
    let plot = Rows {
        rows: &rows,
        x: (Kind::Linear, Label::Number, &metric.name),
        zone: spread.filter(|(a, b)| a < b).map(|(a, b)| (a, b, "spread of the original")),
        levels: &[],
        alternative: &alternative,
    };
    let outside: Vec<String> = metric
        .values
        .iter()
        .filter(|value| value.within_spread == Some(false))
        .filter_map(|value| view.report.candidates.get(value.candidate))
        .map(View::title)
        .collect();
    let caption = html! {
        @if metric.baseline.len() < 2 {
            "The original was " @if metric.baseline.is_empty() { "not run" } @else { "run once" }
            ": without a spread, small differences mean nothing. Set " code { "--metric-baseline-runs" } "."
        } @else if outside.is_empty() {
            "All candidates lie within the spread of " (metric.baseline.len()) " runs on the original."
        } @else {
            "These candidates lie outside the spread of " (metric.baseline.len()) " runs on the original: " (outside.join(", ")) "."
        }
        " The command is " code { (metric.command) }
        @for failure in &metric.failures { br; strong { "Failed: " } (failure) }
    };
    figure(&metric.name, &both(|size| plot.draw(size)), &caption, Some(&data))
}
