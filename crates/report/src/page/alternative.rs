//! Renders a plot with its caption, and a table of the same data for readers who cannot see the plot or need
//! exact numbers.

use maud::{Markup, html};

#[derive(Debug, Clone, Default)]
pub(super) struct Data {
    pub(super) head: Vec<String>,
    pub(super) rows: Vec<Vec<String>>,
}

const ROWS: usize = 400;

pub(super) fn figure(title: &str, drawing: &Markup, caption: &Markup, data: Option<&Data>) -> Markup {
    html! {
        figure class="figure" {
            h3 { (title) }
            (drawing)
            figcaption { (caption) }
            @if let Some(data) = data.filter(|data| !data.rows.is_empty()) { (table(title, data)) }
        }
    }
}

fn table(title: &str, data: &Data) -> Markup {
    html! {
        details class="data" {
            summary { "Numbers" span class="quiet" { " of “" (title) "”" } }
            div class="scroll" tabindex="0" role="region" aria-label={ "Numbers of " (title) } {
                table {
                    caption class="unseen" { (title) }
                    thead { tr { @for head in &data.head { th scope="col" { (head) } } } }
                    tbody {
                        @for row in data.rows.iter().take(ROWS) {
                            tr {
                                @for (i, cell) in row.iter().enumerate() {
                                    @if i == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                                }
                            }
                        }
                    }
                }
            }
            @if data.rows.len() > ROWS { p { "The first " (ROWS) " of " (data.rows.len()) " rows." } }
        }
    }
}
