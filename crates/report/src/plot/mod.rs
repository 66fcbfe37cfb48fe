//! Draws plots of numbers and labels as SVG, independently of their meaning.
//!
//! The page's style sheet defines the colours, fonts and line widths of each class. A plot is drawn for a fixed
//! width in pixels. A plot for both wide and narrow pages is drawn twice ([`Size`]).

pub(crate) mod axes;
pub(crate) mod histogram;
pub(crate) mod lines;
pub(crate) mod mark;
pub(crate) mod rows;
pub(crate) mod scale;
pub(crate) mod scatter;

use maud::{Markup, html};

/// Size of a plot in pixels, and the CSS class for its place on the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) width: u16,
    pub(crate) height: u16,
    /// CSS class of the drawing. It determines whether wide or narrow pages show the drawing.
    pub(crate) class: &'static str,
}

impl Size {
    pub(crate) const WIDE: Self = Self { width: 820, height: 440, class: "wide" };
    pub(crate) const NARROW: Self = Self { width: 358, height: 340, class: "narrow" };
    /// A plot with half the width of a wide page, or the full width of a narrow page.
    pub(crate) const HALF: Self = Self { width: 368, height: 230, class: "half" };

    pub(crate) fn width(self) -> f64 {
        f64::from(self.width)
    }

    pub(crate) fn height(self) -> f64 {
        f64::from(self.height)
    }
}

pub(crate) fn svg(size: Size, alternative: &str, content: &Markup) -> Markup {
    html! {
        svg class={ "plot " (size.class) } viewBox={ "0 0 " (size.width) " " (size.height) }
            width=(size.width) height=(size.height) role="img" aria-label=(alternative) { (content) }
    }
}

/// Draws a plot twice. The style sheet shows one drawing on wide pages and the other on narrow pages.
pub(crate) fn both(draw: impl Fn(Size) -> Markup) -> Markup {
    html! { (draw(Size::WIDE)) (draw(Size::NARROW)) }
}

/// Formats a coordinate, rounded to a tenth of a pixel.
pub(crate) fn px(value: f64) -> String {
    let text = format!("{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".into(),
        Some(whole) => whole.into(),
        None => text,
    }
}

pub(crate) fn path(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let mut d = String::new();
    for (x, y) in points {
        d.push(if d.is_empty() { 'M' } else { 'L' });
        d.push_str(&px(x));
        d.push(' ');
        d.push_str(&px(y));
    }
    d
}

/// Estimates the width of a text at a font size of 12 pixels.
pub(crate) fn text_width(text: &str) -> f64 {
    text.chars().map(|c| if matches!(c, '.' | ',' | 'i' | 'l' | 'I' | ' ' | '\u{a0}' | ':') { 3.6 } else { 7.0 }).sum()
}

pub(crate) fn shortened(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(chars.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        assert_eq!([0.04, -0.04, 12.0, 12.34, -3.96].map(px), ["0", "0", "12", "12.3", "-4"]);
        assert_eq!(path([(0.0, 1.0), (2.5, 3.0)]), "M0 1L2.5 3");
        assert_eq!(shortened("ab😀de", 4), "ab😀…");
        assert_eq!(shortened("abc", 3), "abc");
    }
}
