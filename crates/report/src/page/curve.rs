//! Plots the bytes per sample against the fidelity and against the decoding rate.

use super::alternative::{Data, figure};
use super::heading;
use super::view::{Statistic, View, axis_name, plotted, said_of};
use crate::data::{Better, Candidate, Measure, SampleKind, Subject};
use crate::plot::scale::{Kind, Label};
use crate::plot::scatter::{Level, Point, Scatter, Zone};
use crate::plot::{both, mark};
use crate::words;
use maud::{Markup, html};

/// Names of ranges of SSIMULACRA2 scores, as defined by its authors.
const BANDS: &[Zone] = &[
    Zone { low: 50.0, high: 70.0, name: "medium" },
    Zone { low: 70.0, high: 80.0, name: "high" },
    Zone { low: 80.0, high: 90.0, name: "very high" },
    Zone { low: 90.0, high: 100.0, name: "visually lossless" },
];

/// Renders the curve. Returns `None` if no candidate was measured, and for a dataset, because its
/// curve would be a single point.
pub(super) fn section(view: &View<'_>) -> Option<Markup> {
    if view.report.subject == Subject::Dataset || view.report.candidates.iter().all(|c| c.bytes.is_none()) {
        return None;
    }
    let measures: Vec<Measure> = match view.report.content {
        SampleKind::Pictures => view.measure.into_iter().collect(),
        SampleKind::Cubes => {
            let more =
                [Measure::NoiseRatio, Measure::SpectralAngleP99, Measure::SpectralAngleMax, Measure::MaxAbsError]
                    .into_iter()
                    .filter(|m| Some(*m) != view.measure);
            let taken = |m: &Measure| view.report.candidates.iter().any(|c| c.scores.contains_key(m));
            view.measure.into_iter().chain(more).filter(taken).collect()
        }
    };
    Some(html! {
        (heading("curve", "Bytes against fidelity"))
        p {
            "Each mark is a candidate, with its number in the " a href="#table" { "table" }
            ". Lines join the candidates of a ladder."
        }
        (mark::legend(&view.groups))
        @for measure in &measures { (fidelity(view, *measure)) }
        (rates(view))
    })
}

fn points(view: &View<'_>, y: impl Fn(&Candidate) -> Option<(f64, Option<f64>, String)>) -> Vec<Point> {
    let of = |candidate: &Candidate| {
        let bytes = candidate.bytes?.mean;
        let (y, to, said) = y(candidate)?;
        Some(Point {
            x: bytes,
            y,
            to,
            series: view.series(candidate),
            label: candidate.number.to_string(),
            tip: format!("{}: {} a sample, {said}", View::title(candidate), words::bytes(bytes)),
            chosen: view.is_chosen(candidate),
            front: candidate.on_front,
        })
    };
    view.report.candidates.iter().filter_map(of).collect()
}

fn fidelity(view: &View<'_>, measure: Measure) -> Markup {
    let statistic = view.statistic(measure);
    let mut points = points(view, |candidate| {
        let spread = candidate.scores.get(&measure)?;
        let said = format!(
            "{} {} {}, worst {}",
            measure.title(),
            statistic.name(),
            words::score_and_unit(measure, statistic.of(spread)),
            words::score_and_unit(measure, spread.worst)
        );
        Some((plotted(measure, statistic.of(spread)), Some(plotted(measure, spread.p90)), said))
    });
    if let [first, _, ..] = points.as_slice()
        && points.iter().all(|p| p.y.total_cmp(&first.y).is_eq())
    {
        let value = words::trimmed(&words::significant(first.y, 3));
        return html! { p { strong { (measure.title()) } " is " (value) (measure.unit()) " for every candidate." } };
    }
    if Some(measure) != view.measure {
        points.iter_mut().for_each(|p| p.front = false);
    }
    let levels: Vec<Level> = view
        .levels(measure)
        .into_iter()
        .map(|(y, want)| Level { y: plotted(measure, y), name: format!("wanted: {want}") })
        .collect();
    let xs: Vec<f64> = points.iter().map(|p| p.x).collect();
    let ys: Vec<f64> = points.iter().map(|p| p.y).collect();
    let y_kind = match measure {
        Measure::Ssimulacra2 | Measure::Ssim | Measure::Psnr => Kind::Linear,
        _ => Kind::of(&ys),
    };
    let drawn = view.report.samples.len();
    let name = axis_name(measure, statistic, drawn);
    let better = if measure.better() == Better::Higher {
        "Candidates at the top left are better."
    } else {
        "Candidates at the bottom left are better."
    };
    let alternative = format!(
        "Plot of {}: bytes per sample against {name}. {better} {} The numbers are in the table of candidates.",
        words::plural(points.len() as u64, "candidate"),
        chosen_said(&points)
    );
    let scatter = Scatter {
        points: &points,
        x: (Kind::of(&xs), Label::Bytes, "bytes per sample"),
        y: (y_kind, Label::Number, &name),
        zones: if measure == Measure::Ssimulacra2 { BANDS } else { &[] },
        levels: &levels,
        alternative: &alternative,
    };
    let missing = view.report.candidates.len() - points.len();
    let mark = match said_of(statistic, drawn) {
        worst if worst == said_of(Statistic::Worst, drawn) => format!("the {worst}"),
        other if drawn < 100 => other,
        _ => statistic.name().to_owned(),
    };
    let caption = html! {
        (better)
        @if drawn > 1 { " A mark shows " (mark) }
        @match drawn {
            0 | 1 => { " One sample was drawn. " }
            2..=9 => { "; the shading extends to the best sample. " }
            _ => { "; the shading extends to p90, which one sample in ten surpasses. " }
        }
        @if points.iter().filter(|p| p.front).count() > 1 { "The broad grey line is the front: no candidate is both smaller and better than a candidate on the line. " }
        @if points.iter().any(|p| p.chosen) { "The ring marks the recommended candidate. " }
        @if measure == Measure::Ssimulacra2 { "The authors of SSIMULACRA2 named the ranges. " }
        @if missing > 0 { (words::plural(missing as u64, "candidate")) " without this measure " @if missing == 1 { "is" } @else { "are" } " not shown." }
    };
    let title = format!("Bytes against {}", lowered(measure.title()));
    figure(&title, &both(|size| scatter.draw(size)), &caption, None)
}

/// Converts a title to lower case, for use within a sentence. Abbreviations are kept.
pub(super) fn lowered(title: &str) -> String {
    let mut chars = title.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if second.is_lowercase() => first.to_lowercase().chain(chars).collect(),
        _ => title.to_owned(),
    }
}

fn chosen_said(points: &[Point]) -> String {
    points.iter().find(|p| p.chosen).map_or_else(String::new, |p| format!("Recommended: {}.", p.tip))
}

fn rates(view: &View<'_>) -> Markup {
    let all = view.report.candidates.iter().any(|c| c.rates.decode_all_cores_per_s.is_some());
    let points = points(view, |candidate| {
        let rate = if all { candidate.rates.decode_all_cores_per_s } else { candidate.rates.decode_one_core_per_s }?;
        Some((rate, None, format!("{} samples decoded per second", words::significant(rate, 3))))
    });
    if points.is_empty() {
        return html! {};
    }
    let cores = if all { "all cores" } else { "one core" };
    let name = format!("samples decoded per second, {cores}");
    let alternative = format!("Plot: bytes per sample against {name}. {}", chosen_said(&points));
    let xs: Vec<f64> = points.iter().map(|p| p.x).collect();
    let ys: Vec<f64> = points.iter().map(|p| p.y).collect();
    let points: Vec<Point> = points.into_iter().map(|p| Point { front: false, ..p }).collect();
    let scatter = Scatter {
        points: &points,
        x: (Kind::of(&xs), Label::Bytes, "bytes per sample"),
        y: (Kind::of(&ys), Label::Number, &name),
        zones: &[],
        levels: &[],
        alternative: &alternative,
    };
    let data = Data {
        head: ["candidate", "bytes per sample", &name].map(str::to_owned).into(),
        rows: points
            .iter()
            .map(|p| vec![format!("#{}", p.label), words::bytes(p.x), words::significant(p.y, 3)])
            .collect(),
    };
    let caption = html! {
        "Candidates at the top left are better. The rates are for the loader’s decoders, from memory into memory, \
         without reading files."
    };
    figure("Bytes against decode rate", &both(|size| scatter.draw(size)), &caption, Some(&data))
}
