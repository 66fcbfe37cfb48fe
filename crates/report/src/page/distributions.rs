//! Renders the distributions of sizes and scores over the samples, by candidate and by class.

use super::alternative::{Data, figure};
use super::curve::lowered;
use super::heading;
use super::view::{Statistic, View, plotted, said_of};
use crate::data::{Better, Candidate, Distribution, Measure};
use crate::plot::histogram::{Bins, Histogram, Note};
use crate::plot::rows::{PlotRow, Rows};
use crate::plot::scale::{Kind, Label};
use crate::plot::{Size, both};
use crate::words;
use maud::{Markup, html};

/// Number of samples that are marked as the worst.
const WORST: usize = 5;

/// Approximate number of dots per class: the worst samples, then every n-th sample.
const DOTS: usize = 60;

/// Maximum number of classes. Each takes one row.
const CLASSES: usize = 24;

pub(super) fn section(view: &View<'_>) -> Option<Markup> {
    let chosen = view.chosen().filter(|chosen| !chosen.rows.is_empty())?;
    let measure = view.measure.filter(|measure| chosen.scores.contains_key(measure));
    Some(html! {
        (heading("distributions", "Sample by sample"))
        p { "Sizes and scores of single samples under " strong { (View::title(chosen)) } "." }
        div class="grid" {
            @if let Some(measure) = measure { (scores(view, chosen, measure)) }
            (sizes(view, chosen))
        }
        @if let Some(measure) = view.measure { (candidates(view, measure)) }
        @if let Some(measure) = measure { (classes(view, chosen, measure)) }
    })
}

fn worst_first(values: Vec<(usize, f64)>, better: Better) -> Vec<(usize, f64)> {
    let mut values = values;
    values.sort_by(|a, b| match better {
        Better::Higher => a.1.total_cmp(&b.1),
        Better::Lower => b.1.total_cmp(&a.1),
    });
    values
}

fn scores(view: &View<'_>, chosen: &Candidate, measure: Measure) -> Markup {
    let rows = chosen.rows.iter().filter_map(|row| Some((row.sample, *row.scores.get(&measure)?)));
    let values = worst_first(rows.collect(), measure.better());
    let said = |value: f64| words::score_and_unit(measure, value);
    let unit = measure.unit();
    let name = if unit.is_empty() { measure.title().to_owned() } else { format!("{} ({unit})", measure.title()) };
    let shown: Vec<(usize, f64)> = values.iter().map(|(sample, v)| (*sample, plotted(measure, *v))).collect();
    let spread = chosen.scores.get(&measure).map(|s| (plotted(measure, s.p10), said(s.p10), said(s.worst)));
    histogram(view, &format!("Samples by {}", lowered(measure.title())), &name, Label::Number, &shown, spread, &|v| {
        if measure.is_share() { said(v / 100.0) } else { said(v) }
    })
}

fn sizes(view: &View<'_>, chosen: &Candidate) -> Markup {
    let values = worst_first(chosen.rows.iter().map(|row| (row.sample, row.bytes as f64)).collect(), Better::Lower);
    let spread = chosen.bytes.map(|s| (s.p10, words::bytes(s.p10), words::bytes(s.worst)));
    histogram(view, "Samples by stored size", "bytes per sample", Label::Bytes, &values, spread, &words::bytes)
}

/// Draws a histogram with a line at p10 and triangles at the worst values. `values` must be sorted, worst
/// first.
fn histogram(
    view: &View<'_>,
    title: &str,
    name: &str,
    label: Label,
    values: &[(usize, f64)],
    spread: Option<(f64, String, String)>,
    said: &dyn Fn(f64) -> String,
) -> Markup {
    let only: Vec<f64> = values.iter().map(|(_, v)| *v).collect();
    let bins = Bins::of(&only);
    let marks: Vec<Note> = values
        .iter()
        .take(WORST.min(values.len() / 2))
        .map(|(sample, v)| Note { at: *v, label: String::new(), tip: format!("{}: {}", view.key(*sample), said(*v)) })
        .collect();
    let lines: Vec<Note> = spread
        .iter()
        .map(|(at, p10, _)| Note { at: *at, label: format!("p10 {p10}"), tip: said_of(Statistic::P10, values.len()) })
        .collect();
    let worst =
        spread.as_ref().map_or_else(String::new, |(_, p10, worst)| format!(" p10 is {p10}, and the worst is {worst}."));
    let alternative = format!("Histogram of {} by {name}.{worst}", words::plural(values.len() as u64, "sample"));
    let plot = Histogram {
        bins: &bins,
        label,
        name,
        counted: "samples",
        log_counts: false,
        lines: &lines,
        marks: &marks,
        alternative: &alternative,
    };
    let data = Data {
        head: ["from", "to", "samples"].map(str::to_owned).into(),
        rows: bins.each().map(|(a, b, n)| vec![said(a), said(b), words::count(n)]).collect(),
    };
    let caption = html! {
        @if marks.is_empty() { "There are too few values to mark the worst." } @else {
            "The triangles mark the worst "
            @if marks.len() > 1 { (marks.len()) } ": "
            @for (i, (sample, v)) in values.iter().take(marks.len()).enumerate() {
                @if i > 0 { ", " }
                code { (view.key(*sample)) } " " (said(*v))
            }
            "."
        }
    };
    figure(title, &plot.draw(Size::HALF), &caption, Some(&data))
}

fn candidates(view: &View<'_>, measure: Measure) -> Markup {
    let at = |value: f64| plotted(measure, value);
    let with: Vec<(&Candidate, &Distribution)> =
        view.report.candidates.iter().filter_map(|c| Some((c, c.scores.get(&measure)?))).collect();
    if with.len() < 2 {
        return html! {};
    }
    let rows: Vec<PlotRow> = with
        .iter()
        .map(|(c, s)| PlotRow {
            label: View::title(c),
            whole: Some((at(s.worst), at(s.best))),
            core: Some((at(s.p10), at(s.p90))),
            ring: Some(at(s.median)),
            dots: Vec::new(),
            tip: format!(
                "{}: worst {}, p10 {}, median {}",
                View::title(c),
                words::score_and_unit(measure, s.worst),
                words::score_and_unit(measure, s.p10),
                words::score_and_unit(measure, s.median)
            ),
            chosen: view.is_chosen(c),
        })
        .collect();
    let columns = ["worst", "p1", "p10", "median", "p90"];
    let cells = |s: &Distribution| [s.worst, s.p1, s.p10, s.median, s.p90];
    let data = Data {
        head: std::iter::once("candidate").chain(columns).map(str::to_owned).collect(),
        rows: with
            .iter()
            .map(|(c, s)| {
                std::iter::once(View::title(c)).chain(cells(s).map(|v| words::score_and_unit(measure, v))).collect()
            })
            .collect(),
    };
    let title = format!("{} of the candidates", measure.title());
    let levels: Vec<f64> = view.levels(measure).into_iter().map(|(y, _)| at(y)).collect();
    let all: Vec<f64> = rows.iter().filter_map(|r| r.core).flat_map(|(a, b)| [a, b]).collect();
    let alternative =
        format!("Plot of the range of {} for {}.", measure.title(), words::plural(with.len() as u64, "candidate"));
    let plot = Rows {
        rows: &rows,
        x: (axis_kind(measure, &all), Label::Number, measure.title()),
        zone: None,
        levels: &levels,
        alternative: &alternative,
    };
    let caption = html! {
        "A thin line spans all samples, from the worst to the best, and a thick one p10 to p90. The ring is the median."
        @if !levels.is_empty() { " The vertical line is the limit of the rule." }
    };
    figure(&title, &both(|size| plot.draw(size)), &caption, Some(&data))
}

fn axis_kind(measure: Measure, values: &[f64]) -> Kind {
    match measure.better() {
        Better::Higher => Kind::Linear,
        Better::Lower => Kind::of(values),
    }
}

/// Draws one row of dots per class. The class with the worst sample comes first.
fn classes(view: &View<'_>, chosen: &Candidate, measure: Measure) -> Markup {
    let names = &view.report.whole.classes;
    let mut classes: Vec<(u32, Vec<(usize, f64)>)> = Vec::new();
    for row in &chosen.rows {
        let class = view.report.samples.get(row.sample).and_then(|sample| sample.class);
        let (Some(class), Some(value)) = (class, row.scores.get(&measure)) else { continue };
        match classes.iter_mut().find(|(c, _)| *c == class) {
            Some((_, values)) => values.push((row.sample, *value)),
            None => classes.push((class, vec![(row.sample, *value)])),
        }
    }
    if classes.len() < 2 {
        return html! {};
    }
    let mut classes: Vec<(u32, Vec<(usize, f64)>)> =
        classes.into_iter().map(|(class, values)| (class, worst_first(values, measure.better()))).collect();
    let worst = |class: &(u32, Vec<(usize, f64)>)| class.1.first().map_or(0.0, |(_, v)| *v);
    classes.sort_by(|a, b| match measure.better() {
        Better::Higher => worst(a).total_cmp(&worst(b)),
        Better::Lower => worst(b).total_cmp(&worst(a)),
    });
    let name = |class: u32| {
        let known = usize::try_from(class).ok().and_then(|i| names.get(i));
        known.cloned().unwrap_or_else(|| format!("class {class}"))
    };
    let total = classes.len();
    classes.truncate(CLASSES);
    let rows: Vec<PlotRow> = classes
        .iter()
        .map(|(class, values)| PlotRow {
            label: name(*class),
            dots: values
                .iter()
                .enumerate()
                .filter(|(i, _)| *i < WORST || i % (values.len() / DOTS + 1) == 0)
                .map(|(_, value)| value)
                .map(|(sample, v)| {
                    (plotted(measure, *v), format!("{}: {}", view.key(*sample), words::score_and_unit(measure, *v)))
                })
                .collect(),
            ..PlotRow::default()
        })
        .collect();
    let data = Data {
        head: ["class", "samples drawn", "worst", "best"].map(str::to_owned).into(),
        rows: classes
            .iter()
            .map(|(class, values)| {
                let end = |pair: Option<&(usize, f64)>| {
                    pair.map_or_else(String::new, |(_, v)| words::score_and_unit(measure, *v))
                };
                vec![name(*class), words::count(values.len() as u64), end(values.first()), end(values.last())]
            })
            .collect(),
    };
    let levels: Vec<f64> = view.levels(measure).into_iter().map(|(y, _)| plotted(measure, y)).collect();
    let all: Vec<f64> = rows.iter().flat_map(|r| r.dots.iter().map(|(v, _)| *v)).collect();
    let alternative =
        format!("Dot plot of {}, for samples in {} classes.", measure.title(), words::count(total as u64));
    let plot = Rows {
        rows: &rows,
        x: (axis_kind(measure, &all), Label::Number, measure.title()),
        zone: None,
        levels: &levels,
        alternative: &alternative,
    };
    let caption = html! {
        "Each dot is a sample. The class with the worst sample comes first."
        @if classes.iter().any(|(_, values)| values.len() > DOTS) {
            " For a class with many samples, the plot shows the worst and some of the others."
        }
        @if total > CLASSES { " " (total - CLASSES) " more classes were drawn." }
    };
    figure("By class", &both(|size| plot.draw(size)), &caption, Some(&data))
}
