//! Draws a few lines along an axis, such as spectra.

use super::axes::{Axis, Margins, horizontal, vertical};
use super::mark::class;
use super::scale::{Kind, Label, Scale};
use super::{Size, path, px, svg};
use maud::{Markup, html};

/// A line. Missing values leave a gap.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    pub(crate) points: Vec<(f64, Option<f64>)>,
    pub(crate) style: Style,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// A solid line in the colour of the series.
    Solid(usize),
    /// A dashed line in the colour of the series. It differs from a solid line even without colour.
    Dashed(usize),
    /// A thin gray line, for comparison.
    Faint,
}

impl Style {
    fn class(self) -> String {
        match self {
            Self::Solid(series) => format!("line {}", class(series)),
            Self::Dashed(series) => format!("line dashed {}", class(series)),
            Self::Faint => "line faint".into(),
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Lines<'a> {
    pub(crate) lines: &'a [Line],
    pub(crate) x: &'a str,
    pub(crate) y: (Kind, &'a str),
    /// Values of y at which horizontal lines are drawn. The axis is extended to include them.
    pub(crate) levels: &'a [f64],
    pub(crate) alternative: &'a str,
}

impl Lines<'_> {
    pub(crate) fn draw(&self, size: Size) -> Markup {
        let margins = Margins::USUAL;
        let (left, right, top, bottom) = margins.inner(size);
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let xs = super::scale::range(all().map(|(x, _)| *x)).unwrap_or((0.0, 1.0));
        let ys: Vec<f64> = all().filter_map(|(_, y)| *y).chain(self.levels.iter().copied()).collect();
        let x = Axis { scale: Scale::exact([xs.0, xs.1], left, right, 5), label: Label::Number, name: self.x };
        let y = Axis { scale: Scale::new(self.y.0, &ys, bottom, top, 4), label: Label::Number, name: self.y.1 };
        let content = html! {
            (vertical(&y, margins, size))
            (horizontal(&x, margins, size))
            @for level in self.levels {
                @let v = y.scale.at(*level);
                line class="level" x1=(px(left)) x2=(px(right)) y1=(px(v)) y2=(px(v)) {}
            }
            @for line in self.lines {
                @for run in line.points.split(|(_, y)| y.is_none()).filter(|run| !run.is_empty()) {
                    @let points = run.iter().filter_map(|(a, b)| Some((x.scale.at(*a), y.scale.at((*b)?))));
                    @if run.len() == 1 {
                        // Draw a single point as a circle, because a path with one point is invisible.
                        @for (a, b) in points { circle class=(line.style.class()) cx=(px(a)) cy=(px(b)) r="2" {} }
                    } @else {
                        path class=(line.style.class()) d=(path(points)) {}
                    }
                }
            }
        };
        svg(size, self.alternative, &content)
    }

    pub(crate) fn legend(&self) -> Markup {
        html! {
            ul class="legend" {
                @for line in self.lines {
                    li {
                        svg width="24" height="14" viewBox="0 0 24 14" aria-hidden="true" {
                            path class=(line.style.class()) d="M1 7H23" {}
                        }
                        (line.name)
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_interrupted_where_it_has_no_value() {
        let points = vec![(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, None), (3.0, Some(1.5)), (4.0, None)];
        let lines = [Line { name: "original", points, style: Style::Dashed(1) }];
        let plot = Lines { lines: &lines, x: "band", y: (Kind::Linear, "value"), levels: &[0.0], alternative: "a" };
        let svg = plot.draw(Size::HALF).into_string();
        assert_eq!((svg.matches("<path").count(), svg.matches("<circle").count()), (1, 1), "{svg}");
        assert!(!svg.contains("NaN") && svg.contains("class=\"level\""));
    }
}
