//! Renders the gallery of example pictures.

use super::heading;
use super::view::View;
use crate::data::{EmbeddedPicture, GalleryItem, Why};
use crate::words;
use base64::Engine;
use maud::{Markup, html};

pub(super) fn section(view: &View<'_>) -> Option<Markup> {
    if view.report.gallery.is_empty() {
        return None;
    }
    let kinds = [(Why::Worst, "The worst"), (Why::Median, "In the middle"), (Why::Random, "Drawn at random")];
    Some(html! {
        (heading("gallery", "Gallery"))
        p {
            "Each row shows the part of a sample with the largest difference: the original, the stored form, and the difference. "
            "One pixel of the sample is one pixel on the page."
        }
        @for (why, title) in kinds {
            @let items: Vec<&GalleryItem> = view.report.gallery.iter().filter(|item| item.why == why).collect();
            @if !items.is_empty() {
                h3 { (title) }
                div class="gallery" { @for item in items { (row(view, item)) } }
            }
        }
    })
}

fn row(view: &View<'_>, item: &GalleryItem) -> Markup {
    let key = view.key(item.sample);
    let region = item.region;
    let place = format!("{} × {} pixels at column {}, row {}", region.width, region.height, region.x, region.y);
    let factor = words::trimmed(&words::significant(item.difference_factor, 3));
    html! {
        figure class="pair" {
            div class="panes" {
                (pane("original", &item.original, &format!("{key}, original: {place}")))
                (pane("stored", &item.stored, &format!("{key}, stored: {place}")))
                (pane(&format!("difference × {factor}"), &item.difference, &format!("{key}, difference times {factor}")))
            }
            figcaption {
                span class="key" { (key) }
                span class="scores" { (View::scores(&item.scores)) }
                span class="quiet" {
                    @if let Some(candidate) = view.report.candidates.get(item.candidate) { (View::title(candidate)) ", " }
                    (place)
                    @if !item.bands.is_empty() {
                        ", bands " (item.bands.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
                        " as red, green, blue"
                    }
                }
            }
        }
    }
}

fn pane(name: &str, picture: &EmbeddedPicture, alternative: &str) -> Markup {
    html! {
        div class="pane" {
            @if picture.bytes.is_empty() {
                p class="quiet" { "no picture" }
            } @else {
                img src=(source(picture)) width=(picture.width) height=(picture.height) alt=(alternative);
            }
            span class="label" { (name) }
        }
    }
}

fn source(picture: &EmbeddedPicture) -> String {
    let bytes = base64::engine::general_purpose::STANDARD.encode(&picture.bytes);
    format!("data:{};base64,{bytes}", picture.media_type)
}
