//! Draws the ticks, the grid lines, and the names of both axes of a plot.

use super::scale::{Label, Scale};
use super::{Size, px};
use maud::{Markup, html};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Axis<'a> {
    pub(crate) scale: Scale,
    pub(crate) label: Label,
    pub(crate) name: &'a str,
}

/// Distances between the edges of the plot and the area for the marks, in pixels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Margins {
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
    pub(crate) left: f64,
}

impl Margins {
    /// Margins that leave space for the ticks and names of both axes.
    pub(crate) const USUAL: Self = Self { top: 34.0, right: 16.0, bottom: 46.0, left: 52.0 };

    /// Returns the left, right, top and bottom edges of the area for the marks.
    pub(crate) fn inner(self, size: Size) -> (f64, f64, f64, f64) {
        (self.left, size.width() - self.right, self.top, size.height() - self.bottom)
    }
}

pub(crate) fn vertical(axis: &Axis<'_>, margins: Margins, size: Size) -> Markup {
    let (left, right, _, bottom) = margins.inner(size);
    html! {
        g class="axis" {
            @for (value, text) in axis.scale.ticks(axis.label) {
                @let y = axis.scale.at(value);
                @if y < bottom - 0.5 { line class="grid" x1=(px(left)) x2=(px(right)) y1=(px(y)) y2=(px(y)) {} }
                text class="tick" x=(px(left - 8.0)) y=(px(y + 4.0)) text-anchor="end" { (text) }
            }
            @if let Some(y) = axis.scale.lane_end() {
                line class="lane" x1=(px(left)) x2=(px(right)) y1=(px(y)) y2=(px(y)) {}
            }
            text class="name" x="0" y="13" { "↑ " (axis.name) }
        }
    }
}

pub(crate) fn horizontal(axis: &Axis<'_>, margins: Margins, size: Size) -> Markup {
    let (left, right, top, bottom) = margins.inner(size);
    html! {
        g class="axis" {
            line class="base" x1=(px(left)) x2=(px(right)) y1=(px(bottom)) y2=(px(bottom)) {}
            @for (value, text) in axis.scale.ticks(axis.label) {
                @let x = axis.scale.at(value);
                line class="notch" x1=(px(x)) x2=(px(x)) y1=(px(bottom)) y2=(px(bottom + 5.0)) {}
                text class="tick" x=(px(x)) y=(px(bottom + 19.0)) text-anchor="middle" { (text) }
            }
            @if let Some(x) = axis.scale.lane_end() {
                line class="lane" x1=(px(x)) x2=(px(x)) y1=(px(top)) y2=(px(bottom)) {}
            }
            text class="name" x=(px(right)) y=(px(size.height() - 7.0)) text-anchor="end" { (axis.name) " →" }
        }
    }
}
