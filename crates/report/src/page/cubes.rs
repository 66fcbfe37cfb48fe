//! Renders the panels for cubes. They show the structure of the error, and which bands and pixels have errors.

use super::alternative::{Data, figure};
use super::heading;
use super::view::View;
use crate::data::{self, CubePanel, Measure, SPECTRAL_ANGLES, SpectrumPair, Why};
use crate::plot::Size;
use crate::plot::histogram::{Bins, Histogram, Note};
use crate::plot::lines::{Line, Lines, Style};
use crate::plot::scale::{Kind, Label};
use crate::words;
use maud::{Markup, html};

pub(super) fn section(view: &View<'_>) -> Option<Markup> {
    if view.report.cubes.is_empty() {
        return None;
    }
    let chosen = view.report.verdict.chosen;
    let first = view.report.cubes.iter().position(|panel| Some(panel.candidate) == chosen).unwrap_or(0);
    Some(html! {
        (heading("cubes", "Along the spectrum"))
        @for (i, panel) in view.report.cubes.iter().enumerate() {
            @let title = view.report.candidates.get(panel.candidate).map_or_else(String::new, View::title);
            details class="panel" open[i == first] {
                summary { (title) }
                div class="grid" { (plots(view, panel)) }
            }
        }
    })
}

fn plots(view: &View<'_>, panel: &CubePanel) -> Markup {
    let axis = match (has_wavelengths(panel), panel.wavelength_unit.as_str()) {
        (false, _) => "band".to_owned(),
        (true, "") => "wavelength".to_owned(),
        (true, unit) => format!("wavelength ({unit})"),
    };
    html! {
        @if !panel.bands.is_empty() { (bands(panel, &axis)) }
        @for pair in &panel.spectra { (spectrum(view, panel, pair, &axis)) }
        @if let Some(angles) = &panel.angles {
            (histogram("Spectral angles", "spectral angle (°)", "pixels", angles, &[],
                html! { "The angle between the original and the stored spectrum of each pixel. Counts are on a logarithmic axis. " (percentiles(view, panel).unwrap_or_default()) }))
        }
        @if let Some(errors) = &panel.errors { (error_histogram(panel, errors)) }
        (autocorrelation(panel))
    }
}

/// Describes the worst sample's spectral angles at several percentiles of its pixels.
fn percentiles(view: &View<'_>, panel: &CubePanel) -> Option<String> {
    let scores = &view.report.candidates.get(panel.candidate)?.scores;
    let worst = |measure: Measure| Some(words::score_and_unit(measure, scores.get(&measure)?.worst));
    let [p50, p95, p99, max] = SPECTRAL_ANGLES.map(worst);
    Some(format!(
        "In the worst sample, the spectral angle to the original is at most {} for half of the pixels, {} for 95 %, {} for 99 %, and {} for all.",
        p50?, p95?, p99?, max?
    ))
}

fn has_wavelengths(panel: &CubePanel) -> bool {
    !panel.bands.is_empty() && panel.bands.iter().all(|band| band.wavelength.is_some())
}

/// Returns the wavelength of a band if all bands have one, otherwise the number of the band.
fn position(panel: &CubePanel, i: usize) -> f64 {
    let wavelength = if has_wavelengths(panel) { panel.bands.get(i).and_then(|band| band.wavelength) } else { None };
    wavelength.unwrap_or(i as f64)
}

fn bands(panel: &CubePanel, axis: &str) -> Markup {
    let line = |name: &'static str, style: Style, of: &dyn Fn(&data::BandError) -> Option<f64>| Line {
        name,
        style,
        points: panel.bands.iter().enumerate().map(|(i, band)| (position(panel, i), of(band))).collect(),
    };
    let mut lines = vec![
        line("largest", Style::Dashed(1), &|b| Some(b.max_abs_error)),
        line("root mean square", Style::Solid(0), &|b| Some(b.rmse)),
    ];
    if panel.bands.iter().any(|band| band.noise.is_some()) {
        lines.push(line("noise of the source", Style::Faint, &|b| b.noise));
    }
    let values: Vec<f64> = lines.iter().flat_map(|l| l.points.iter().filter_map(|(_, y)| *y)).collect();
    let plot = Lines {
        lines: &lines,
        x: axis,
        y: (Kind::of(&values), "absolute error"),
        levels: &[],
        alternative: "Line plot of the error in each band.",
    };
    let data = Data {
        head: [
            axis,
            "mean of the source",
            "root mean square error",
            "largest error",
            "noise",
            "largest error divided by noise",
        ]
        .map(str::to_owned)
        .into(),
        rows: panel
            .bands
            .iter()
            .enumerate()
            .map(|(i, b)| {
                let cells = [position(panel, i), b.mean, b.rmse, b.max_abs_error].map(|v| words::significant(v, 3));
                let noise = b.noise.map_or_else(|| "–".into(), |v| words::significant(v, 3));
                let ratio = b.noise_ratio.map_or_else(|| "–".into(), |v| words::score(Measure::NoiseRatio, v));
                cells.into_iter().chain([noise, ratio]).collect()
            })
            .collect(),
    };
    let loudest = panel.bands.iter().enumerate().filter_map(|(i, b)| Some((i, b.noise_ratio?)));
    let loudest = loudest.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, ratio)| *ratio > 0.0);
    let caption = html! {
        "Errors below the noise of their band disappear in the noise. The line shows the noise of the median sample. "
        @if let Some((i, ratio)) = loudest {
            "Compared with the noise, the error is largest at " (axis) " "
            (words::trimmed(&words::significant(position(panel, i), 5)))
            ": in one sample it reaches " (words::score_and_unit(Measure::NoiseRatio, ratio)) " the noise."
        }
    };
    figure("Error in each band", &html! { (plot.legend()) (plot.draw(Size::HALF)) }, &caption, Some(&data))
}

fn spectrum(view: &View<'_>, panel: &CubePanel, pair: &SpectrumPair, axis: &str) -> Markup {
    let line = |name: &'static str, style: Style, values: &[Option<f64>]| Line {
        name,
        style,
        points: values.iter().enumerate().map(|(i, v)| (position(panel, i), *v)).collect(),
    };
    let lines = [line("original", Style::Solid(0), &pair.original), line("stored", Style::Dashed(1), &pair.stored)];
    let which = match pair.why {
        Why::Worst => "The worst pixel",
        Why::Median => "A pixel in the middle",
        Why::Random => "A pixel drawn at random",
    };
    let alternative = format!(
        "Line plot of the original and the stored spectrum of a pixel, which differ by {}°.",
        words::significant(pair.angle, 3)
    );
    let plot = Lines { lines: &lines, x: axis, y: (Kind::Linear, "value"), levels: &[], alternative: &alternative };
    let cell = |v: Option<&Option<f64>>| v.copied().flatten().map_or_else(|| "–".into(), |v| words::significant(v, 5));
    let data = Data {
        head: [axis, "original", "stored"].map(str::to_owned).into(),
        rows: (0..pair.original.len().max(pair.stored.len()))
            .map(|i| {
                vec![words::significant(position(panel, i), 5), cell(pair.original.get(i)), cell(pair.stored.get(i))]
            })
            .collect(),
    };
    let caption = html! {
        code { (view.key(pair.sample)) } ", row " (pair.row) ", column " (pair.column)
        ". The angle between the two is " (words::significant(pair.angle, 3)) "°."
    };
    figure(which, &html! { (plot.legend()) (plot.draw(Size::HALF)) }, &caption, Some(&data))
}

fn error_histogram(panel: &CubePanel, errors: &data::Histogram) -> Markup {
    let bound = panel.bound.map(|bound| {
        [(-bound, "−bound"), (bound, "bound")].map(|(at, label)| Note {
            at,
            label: label.into(),
            tip: format!("the recipe guarantees errors of at most {}", words::significant(bound, 3)),
        })
    });
    let caption = html! {
        "An error is the stored value minus the original. "
        @match panel.bound {
            Some(bound) => { "The recipe guarantees errors of at most " (words::significant(bound, 3)) ". " }
            None => {}
        }
        "Counts are on a logarithmic axis."
    };
    let lines = bound.as_ref().map_or(&[][..], |notes| notes.as_slice());
    histogram("Values by error", "error", "values", errors, lines, caption)
}

fn histogram(
    title: &str,
    name: &str,
    counted: &str,
    counts: &data::Histogram,
    lines: &[Note],
    caption: Markup,
) -> Markup {
    // If all values are equal, the only bin has a width of zero. Widen it so that it is visible.
    let around = if counts.low < counts.high { 0.0 } else { (counts.low.abs() / 2.0).max(1e-3) };
    let bins = Bins { low: counts.low - around, high: counts.high + around, counts: counts.counts.clone() };
    let total: u64 = counts.counts.iter().sum();
    let alternative = format!("Histogram of {} {counted} by {name}.", words::count(total));
    let plot = Histogram {
        bins: &bins,
        label: Label::Number,
        name,
        counted,
        log_counts: true,
        lines,
        marks: &[],
        alternative: &alternative,
    };
    let data = Data {
        head: ["from", "to", counted].map(str::to_owned).into(),
        rows: bins
            .each()
            .map(|(a, b, n)| vec![words::significant(a, 3), words::significant(b, 3), words::count(n)])
            .collect(),
    };
    figure(title, &plot.draw(Size::HALF), &caption, Some(&data))
}

fn autocorrelation(panel: &CubePanel) -> Markup {
    let all = [
        ("along bands", Style::Solid(0), &panel.autocorrelation_bands),
        ("along rows", Style::Dashed(1), &panel.autocorrelation_rows),
        ("along columns", Style::Dashed(2), &panel.autocorrelation_columns),
    ];
    let lines: Vec<Line> = all
        .into_iter()
        .filter(|(.., values)| !values.is_empty())
        .map(|(name, style, values)| Line {
            name,
            style,
            points: values.iter().enumerate().map(|(i, v)| (i as f64 + 1.0, Some(*v))).collect(),
        })
        .collect();
    if lines.is_empty() {
        return html! {};
    }
    let plot = Lines {
        lines: &lines,
        x: "distance (values)",
        y: (Kind::FromZero, "correlation"),
        levels: &[0.0],
        alternative: "Line plot of the autocorrelation of the error by distance.",
    };
    let longest = lines.iter().map(|line| line.points.len()).max().unwrap_or(0);
    let data = Data {
        head: std::iter::once("distance").chain(lines.iter().map(|line| line.name)).map(str::to_owned).collect(),
        rows: (0..longest)
            .map(|i| {
                let cell = |line: &Line| {
                    line.points.get(i).and_then(|(_, v)| *v).map_or_else(|| "–".into(), |v| words::fixed(v, 3))
                };
                std::iter::once((i + 1).to_string()).chain(lines.iter().map(cell)).collect()
            })
            .collect(),
    };
    let caption = html! {
        "Values near 0 mean that the error is random. Other values mean that it has a pattern, which a model could "
        "learn."
    };
    figure("Autocorrelation of the error", &html! { (plot.legend()) (plot.draw(Size::HALF)) }, &caption, Some(&data))
}
