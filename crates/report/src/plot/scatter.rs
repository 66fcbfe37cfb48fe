//! Draws the points of several ladders, with bytes on one axis and a score or rate on the other.

use super::axes::{Axis, Margins, horizontal, vertical};
use super::scale::{Kind, Label, Scale};
use super::{Size, mark, path, px, svg, text_width};
use maud::{Markup, html};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    pub(crate) x: f64,
    pub(crate) y: f64,
    /// Other end of an interval on the y axis that starts at this point. The intervals of a series
    /// form a shaded band.
    pub(crate) to: Option<f64>,
    /// Series of the point. A line joins the points of a series in order of x.
    pub(crate) series: usize,
    pub(crate) label: String,
    pub(crate) tip: String,
    pub(crate) chosen: bool,
    /// True if no other point is better on both axes.
    pub(crate) front: bool,
}

/// A named range of y that is shaded in the background.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Zone {
    pub(crate) low: f64,
    pub(crate) high: f64,
    pub(crate) name: &'static str,
}

/// A level of y that the conditions require.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Level {
    pub(crate) y: f64,
    pub(crate) name: String,
}

#[derive(Debug, Clone)]
pub(crate) struct Scatter<'a> {
    pub(crate) points: &'a [Point],
    pub(crate) x: (Kind, Label, &'a str),
    pub(crate) y: (Kind, Label, &'a str),
    pub(crate) zones: &'a [Zone],
    pub(crate) levels: &'a [Level],
    pub(crate) alternative: &'a str,
}

impl Scatter<'_> {
    pub(crate) fn draw(&self, size: Size) -> Markup {
        let margins = Margins::USUAL;
        let (left, right, top, bottom) = margins.inner(size);
        let xs: Vec<f64> = self.points.iter().map(|p| p.x).collect();
        let mut ys: Vec<f64> = self.points.iter().flat_map(|p| [Some(p.y), p.to]).flatten().collect();
        // Do not extend the axis to levels far away from all points, because the points would be squeezed together.
        if let Some((low, high)) = super::scale::range(ys.iter().copied()) {
            let reach = (high - low).max(high.abs() * 0.1);
            ys.extend(self.levels.iter().map(|l| l.y).filter(|y| (low - reach..=high + reach).contains(y)));
        }
        let many = if size.width < 500 { 4 } else { 7 };
        let x = Axis { scale: Scale::new(self.x.0, &xs, left + 8.0, right, many), label: self.x.1, name: self.x.2 };
        let y = Axis { scale: Scale::new(self.y.0, &ys, bottom, top, 5), label: self.y.1, name: self.y.2 };
        let at: Vec<(f64, f64)> = self.points.iter().map(|p| (x.scale.at(p.x), y.scale.at(p.y))).collect();
        let content = html! {
            (self.zones(&y, margins, size))
            (vertical(&y, margins, size))
            (horizontal(&x, margins, size))
            @let front = self.in_order(|p| p.front);
            @if front.len() > 1 {
                path class="front" d=(path(front.iter().filter_map(|i| at.get(*i)).copied())) {}
            }
            @for series in 0..self.points.iter().map(|p| p.series + 1).max().unwrap_or(0) {
                (self.ladder(series, &x.scale, &y.scale))
            }
            @for level in self.levels.iter().filter(|level| y.scale.holds(level.y)) {
                @let v = y.scale.at(level.y);
                line class="level" x1=(px(left)) x2=(px(right)) y1=(px(v)) y2=(px(v)) {}
                text class="level-name" x=(px(right - 6.0)) y=(px(v + 15.0)) text-anchor="end" { (level.name) }
            }
            @for (point, (px_x, px_y)) in self.points.iter().zip(&at) {
                g class="point" {
                    title { (point.tip) }
                    @if point.chosen { circle class="halo" cx=(px(*px_x)) cy=(px(*px_y)) r="11" {} }
                    (mark::mark(point.series, *px_x, *px_y, 5.0))
                }
            }
            @for (i, (tx, ty, anchor)) in self.label_places(&at, size).into_iter().enumerate() {
                @if let (Some(point), false) = (self.points.get(i), anchor.is_empty()) {
                    text class=(if point.chosen { "label chosen" } else { "label" }) x=(px(tx)) y=(px(ty))
                        text-anchor=(anchor) { (point.label) }
                }
            }
        };
        svg(size, self.alternative, &content)
    }

    fn in_order(&self, pick: impl Fn(&Point) -> bool) -> Vec<usize> {
        let mut picked: Vec<(usize, &Point)> = self.points.iter().enumerate().filter(|(_, p)| pick(p)).collect();
        picked.sort_by(|a, b| a.1.x.total_cmp(&b.1.x));
        picked.into_iter().map(|(i, _)| i).collect()
    }

    fn ladder(&self, series: usize, x: &Scale, y: &Scale) -> Markup {
        let rungs: Vec<&Point> =
            self.in_order(|p| p.series == series).into_iter().filter_map(|i| self.points.get(i)).collect();
        let line = rungs.iter().map(|p| (x.at(p.x), y.at(p.y)));
        let edge = rungs.iter().rev().filter_map(|p| Some((x.at(p.x), y.at(p.to?))));
        html! {
            @if rungs.len() > 1 {
                @if rungs.iter().any(|p| p.to.is_some()) {
                    path class={ "band " (mark::class(series)) } d={ (path(line.clone().chain(edge))) "Z" } {}
                }
                path class={ "ladder " (mark::class(series)) } d=(path(line)) {}
            } @else {
                @for (a, b) in rungs.iter().filter_map(|p| Some((p, p.to?))) {
                    @let v = x.at(a.x);
                    line class={ "whisker " (mark::class(series)) } x1=(px(v)) x2=(px(v)) y1=(px(y.at(a.y))) y2=(px(y.at(b))) {}
                }
            }
        }
    }

    fn zones(&self, y: &Axis<'_>, margins: Margins, size: Size) -> Markup {
        let (left, right, ..) = margins.inner(size);
        let (low, high) = y.scale.domain();
        html! {
            @for (i, zone) in self.zones.iter().enumerate().filter(|(_, z)| z.high > low && z.low < high) {
                @let top = y.scale.at(zone.high.min(high));
                @let bottom = y.scale.at(zone.low.max(low));
                rect class=(format!("zone z{i}")) x=(px(left)) y=(px(top)) width=(px(right - left)) height=(px(bottom - top)) {}
                @if bottom - top > 15.0 {
                    text class="zone-name" x=(px(left + 6.0)) y=(px(top + 14.0)) { (zone.name) }
                }
            }
        }
    }

    /// Finds the first position for each mark's label at which the label overlaps no mark and no other label.
    /// If all positions overlap, the anchor is empty.
    fn label_places(&self, at: &[(f64, f64)], size: Size) -> Vec<(f64, f64, &'static str)> {
        let mut taken: Vec<[f64; 4]> = at.iter().map(|(x, y)| [x - 5.0, y - 5.0, x + 5.0, y + 5.0]).collect();
        let mut places = vec![(0.0, 0.0, ""); self.points.len()];
        // Start with the chosen point, because its label is the most important.
        let mut order: Vec<usize> = (0..self.points.len()).collect();
        order.sort_by_key(|i| self.points.get(*i).is_none_or(|p| !p.chosen));
        for i in order {
            let (Some(point), Some((x, y)), Some(place)) = (self.points.get(i), at.get(i), places.get_mut(i)) else {
                continue;
            };
            let (width, gap) = (text_width(&point.label) + 1.0, if point.chosen { 14.0 } else { 9.0 });
            let around = [
                (x + gap, y + 4.0, "start", [x + gap, y - 6.0, x + gap + width, y + 6.0]),
                (*x, y - gap - 1.0, "middle", [x - width / 2.0, y - gap - 12.0, x + width / 2.0, y - gap]),
                (*x, y + gap + 10.0, "middle", [x - width / 2.0, y + gap - 1.0, x + width / 2.0, y + gap + 11.0]),
                (x - gap, y + 4.0, "end", [x - gap - width, y - 6.0, x - gap, y + 6.0]),
            ];
            let free = |b: &[f64; 4]| {
                let within = b[0] > 0.0 && b[2] < size.width() && b[1] > 0.0;
                within && taken.iter().all(|t| b[2] <= t[0] || b[0] >= t[2] || b[3] <= t[1] || b[1] >= t[3])
            };
            if let Some((tx, ty, anchor, bounds)) = around.into_iter().find(|(.., bounds)| free(bounds)) {
                *place = (tx, ty, anchor);
                taken.push(bounds);
            }
        }
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(x: f64, y: f64, label: &str) -> Point {
        Point {
            x,
            y,
            to: Some(y + 1.0),
            series: 0,
            label: label.into(),
            tip: "a < b".into(),
            chosen: false,
            front: false,
        }
    }

    fn drawn(points: &[Point]) -> String {
        let scatter = Scatter {
            points,
            x: (Kind::FromZero, Label::Bytes, "bytes"),
            y: (Kind::Linear, Label::Number, "score"),
            zones: &[],
            levels: &[Level { y: 5.0, name: "wanted".into() }, Level { y: 5e9, name: "far".into() }],
            alternative: "points",
        };
        scatter.draw(Size::WIDE).into_string()
    }

    #[test]
    fn every_point_is_drawn_and_text_is_escaped() {
        let svg = drawn(&[point(1.0, 4.0, "1"), point(2.0, 6.0, "2"), point(3.0, 7.0, "3")]);
        assert_eq!(svg.matches("class=\"point\"").count(), 3);
        assert_eq!(svg.matches("a &lt; b").count(), 3);
        assert_eq!(svg.matches("class=\"ladder s0\"").count(), 1);
        assert!(svg.contains("wanted") && !svg.contains("far"), "{svg}");
    }

    #[test]
    fn labels_do_not_cover_each_other() {
        let same = vec![point(1.0, 4.0, "12"); 12];
        let labels = drawn(&same).matches("class=\"label\"").count();
        assert!((1..=4).contains(&labels), "{labels}");
        assert!(!drawn(&[]).contains("NaN"));
    }
}
