//! Draws one row per candidate or class, with intervals as lines and single values as dots.

use super::axes::{Axis, Margins, horizontal};
use super::scale::{Kind, Label, Scale};
use super::{Size, px, shortened, svg};
use maud::{Markup, html};

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct PlotRow {
    pub(crate) label: String,
    /// Ends of the thin line, from the worst to the best value.
    pub(crate) whole: Option<(f64, f64)>,
    /// Ends of the thick line, from p10 to p90.
    pub(crate) core: Option<(f64, f64)>,
    pub(crate) ring: Option<f64>,
    /// Dots with their tooltips.
    pub(crate) dots: Vec<(f64, String)>,
    pub(crate) tip: String,
    pub(crate) chosen: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Rows<'a> {
    pub(crate) rows: &'a [PlotRow],
    pub(crate) x: (Kind, Label, &'a str),
    /// Range of x that is shaded in the background of all rows, with its name.
    pub(crate) zone: Option<(f64, f64, &'a str)>,
    /// Levels of x that the conditions require.
    pub(crate) levels: &'a [f64],
    pub(crate) alternative: &'a str,
}

impl Rows<'_> {
    const ROW: u16 = 26;

    /// Draws the rows. The height in `size` is ignored, because the number of rows determines the height.
    pub(crate) fn draw(&self, size: Size) -> Markup {
        let narrow = size.width < 500;
        // On a narrow page, labels are above their rows instead of to the left.
        let row = if narrow { Self::ROW + 18 } else { Self::ROW };
        let margins = Margins { top: 22.0, right: 16.0, bottom: 46.0, left: if narrow { 8.0 } else { 212.0 } };
        let rows = u16::try_from(self.rows.len()).unwrap_or(u16::MAX).min(1000);
        let size = Size { height: row * rows + 68, ..size };
        let (left, right, top, bottom) = margins.inner(size);
        let ends = |pair: Option<(f64, f64)>| pair.map(|(a, b)| [a, b]).into_iter().flatten();
        let xs: Vec<f64> = self
            .rows
            .iter()
            .flat_map(|r| ends(r.whole).chain(ends(r.core)).chain(r.ring).chain(r.dots.iter().map(|(v, _)| *v)))
            .chain(ends(self.zone.map(|(a, b, _)| (a, b))))
            .collect();
        let scale = Scale::new(self.x.0, &xs, left + 6.0, right - 6.0, if narrow { 4 } else { 7 });
        let x = Axis { scale, label: self.x.1, name: self.x.2 };
        let content = html! {
            @if let Some((low, high, name)) = self.zone {
                @let (a, b) = (scale.at(low), scale.at(high));
                rect class="spread" x=(px(a - 1.0)) y=(px(top - 4.0)) width=(px(b - a + 2.0)) height=(px(bottom - top + 4.0)) {}
                text class="zone-name" x=(px((a + b) / 2.0)) y=(px(top - 9.0)) text-anchor="middle" { (name) }
            }
            (horizontal(&x, margins, size))
            @for level in self.levels.iter().filter(|level| scale.holds(**level)) {
                @let v = scale.at(*level);
                line class="level" x1=(px(v)) x2=(px(v)) y1=(px(top - 4.0)) y2=(px(bottom)) {}
            }
            @for (i, r) in self.rows.iter().take(usize::from(rows)).enumerate() {
                @let y = top + f64::from(row) * (i as f64 + 1.0) - f64::from(Self::ROW) / 2.0;
                g class=(if r.chosen { "row chosen" } else { "row" }) {
                    @if !r.tip.is_empty() { title { (r.tip) } }
                    line class="track" x1=(px(left)) x2=(px(right)) y1=(px(y)) y2=(px(y)) {}
                    @if narrow {
                        text class="row-name" x=(px(left)) y=(px(y - 15.0)) { (shortened(&r.label, 48)) }
                    } @else {
                        text class="row-name" x=(px(left - 14.0)) y=(px(y + 4.0)) text-anchor="end" { (shortened(&r.label, 30)) }
                    }
                    @if let Some((a, b)) = r.whole {
                        line class="whole" x1=(px(scale.at(a))) x2=(px(scale.at(b))) y1=(px(y)) y2=(px(y)) {}
                    }
                    @if let Some((a, b)) = r.core {
                        line class="core" x1=(px(scale.at(a))) x2=(px(scale.at(b))) y1=(px(y)) y2=(px(y)) {}
                    }
                    @for (value, tip) in &r.dots {
                        circle class="dot" cx=(px(scale.at(*value))) cy=(px(y)) r="4" { @if !tip.is_empty() { title { (tip) } } }
                    }
                    @if let Some(value) = r.ring {
                        circle class="ring" cx=(px(scale.at(value))) cy=(px(y)) r="4.5" {}
                    }
                }
            }
        };
        svg(size, self.alternative, &content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_drawing_grows_with_its_rows_and_cuts_long_names() {
        let row = PlotRow { label: "<b>".repeat(40), dots: vec![(1.0, "x".into())], ..PlotRow::default() };
        let rows = vec![row; 3];
        let plot = Rows {
            rows: &rows,
            x: (Kind::Linear, Label::Number, "score"),
            zone: Some((0.5, 0.7, "spread")),
            levels: &[0.6],
            alternative: "rows",
        };
        let svg = plot.draw(Size::WIDE).into_string();
        assert!(svg.contains("height=\"146\"") && svg.contains("…"), "{svg}");
        assert!(!svg.contains("<b>") && svg.matches("class=\"dot\"").count() == 3);
    }
}
