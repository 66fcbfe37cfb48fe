//! Draws the marks of a series. Series differ in colour and in shape, so they can be told apart without
//! colour.

use super::px;
use maud::{Markup, html};

/// Number of colours and number of shapes. Further series use the same colours with other shapes.
pub(crate) const SERIES: usize = 6;

pub(crate) fn class(series: usize) -> String {
    format!("s{}", series % SERIES)
}

fn outline(series: usize, x: f64, y: f64, r: f64) -> String {
    let shape = (series + series / SERIES) % SERIES;
    let at = |points: &[(f64, f64)]| format!("{}Z", super::path(points.iter().map(|(a, b)| (x + a * r, y + b * r))));
    match shape {
        0 => format!("M{} {}a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0Z", px(x - r), px(y), r = px(r), d = px(2.0 * r)),
        1 => at(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
        2 => at(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
        3 => at(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
        4 => at(&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)]),
        _ => {
            let (a, b) = (0.4, 1.15);
            at(&[
                (-a, -b),
                (a, -b),
                (a, -a),
                (b, -a),
                (b, a),
                (a, a),
                (a, b),
                (-a, b),
                (-a, a),
                (-b, a),
                (-b, -a),
                (-a, -a),
            ])
        }
    }
}

pub(crate) fn mark(series: usize, x: f64, y: f64, r: f64) -> Markup {
    html! { path class={ "mark " (class(series)) } d=(outline(series, x, y, r)) {} }
}

pub(crate) fn legend(names: &[&str]) -> Markup {
    html! {
        ul class="legend" {
            @for (series, name) in names.iter().enumerate() {
                li {
                    svg width="16" height="14" viewBox="0 0 16 14" aria-hidden="true" { (mark(series, 8.0, 7.0, 4.5)) }
                    (name)
                }
            }
        }
    }
}
