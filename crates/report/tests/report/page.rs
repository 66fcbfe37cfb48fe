//! Tests the content, escaping and size of the page.
#![allow(clippy::unwrap_used)]

use shardpack_report::{data::Report, fragment, page};

fn has(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "the page lacks `{part}`");
    }
}

fn embedded(page: &str) -> Report {
    let (_, after) = page.split_once("<script id=\"report-data\" type=\"application/json\">").unwrap();
    serde_json::from_str(after.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn the_sections_stand_in_their_order() {
    let mut pictures = crate::made_up::pictures();
    pictures.cubes = crate::made_up::cubes().cubes;
    let page = page(&pictures);
    let sections = ["verdict", "curve", "table", "distributions", "gallery", "cubes", "metric", "provenance"];
    let places = sections.map(|id| page.find(&format!("<section id=\"{id}\"")).unwrap());
    assert!(places.is_sorted(), "{places:?}");
    has(&page, &["ssimulacra2.p10&gt;=80", "recommended", "visually lossless", "−28.4", "could not be read"]);
}

#[test]
fn every_plot_has_a_text_and_every_table_a_caption_and_heads() {
    for report in [crate::made_up::pictures(), crate::made_up::cubes(), crate::made_up::dataset()] {
        let page = page(&report);
        let plots = page.matches("<svg class=\"plot").count();
        assert!(plots >= 4);
        assert_eq!(plots, page.matches("role=\"img\" aria-label=\"").count());
        assert_eq!(page.matches("<table").count(), page.matches("<caption").count());
        assert!(!page.contains("<th>") && !page.contains("aria-label=\"\""));
        assert_eq!(page.matches("<img ").count(), page.matches(" alt=\"").count());
        assert_eq!(page.matches("<img ").count(), report.gallery.len() * 3);
        // Omit the gallery, because its base64 text may contain these letters by chance.
        let bare = shardpack_report::page(&Report { gallery: Vec::new(), ..report });
        assert!(!bare.contains("NaN"));
    }
}

#[test]
fn the_page_carries_its_data() {
    let report = crate::made_up::pictures();
    let back = embedded(&page(&report));
    assert_eq!(back.candidates, report.candidates);
    assert_eq!(back.samples, report.samples);
}

#[test]
fn a_large_report_leaves_its_rows_out_and_says_so() {
    let mut report = crate::made_up::pictures();
    for candidate in &mut report.candidates {
        candidate.rows = candidate.rows.iter().cycle().take(5000).cloned().collect();
    }
    let page = page(&report);
    let back = embedded(&page);
    assert!(back.candidates.iter().all(|c| c.rows.is_empty()));
    assert!(back.notes.iter().any(|note| note.contains("--json")), "{:?}", back.notes);
    let pictures: usize =
        report.gallery.iter().map(|i| i.original.bytes.len() + i.stored.bytes.len() + i.difference.bytes.len()).sum();
    assert!(page.len() < 1_000_000 + pictures * 4 / 3, "{} bytes", page.len());
}

#[test]
fn hostile_text_stays_text() {
    let report = crate::made_up::hostile();
    let page = page(&report);
    // Only our own two scripts are allowed, and no other element that could run code or fetch anything.
    assert_eq!((page.matches("<script").count(), page.matches("</script>").count()), (2, 2));
    assert!(!page.contains("<img src=x") && !page.contains("<!--"));
    assert_eq!(embedded(&page).source, crate::made_up::HOSTILE);
    let fragment = fragment(&report);
    assert!(!fragment.contains("<script") && !fragment.contains("<img src=x"));
}

#[test]
fn nothing_is_fetched() {
    for report in [crate::made_up::pictures(), crate::made_up::cubes(), crate::made_up::hostile()] {
        let page = page(&report);
        has(&page, &["default-src 'none'; img-src data:", "script-src 'sha256-"]);
        for outside in ["src=\"http", "href=\"http", "url(", "@import", "src=\"//"] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}

#[test]
fn few_and_equal_samples_make_a_page() {
    for samples in [0, 1, 2, 50] {
        let page = page(&crate::made_up::equal(samples));
        assert!(!page.contains("NaN") && !page.contains("inf\""), "{samples} samples");
        has(&page, &["<section id=\"verdict\"", "<section id=\"table\"", "<section id=\"provenance\""]);
    }
}

#[test]
fn a_score_that_all_candidates_share_is_said_and_not_drawn() {
    let mut report = crate::made_up::equal(9);
    report.candidates.push(report.candidates[0].clone());
    let page = page(&report);
    has(&page, &["</strong> is 100 for every candidate."]);
    assert!(!page.contains("Bytes against SSIMULACRA2"));
}

#[test]
fn equal_angles_have_a_bar() {
    let mut report = crate::made_up::cubes();
    report.cubes.truncate(1);
    report.cubes[0].angles = shardpack_report::stats::histogram([0.25; 9].into_iter(), 30);
    assert!(report.cubes[0].angles.as_ref().is_some_and(|angles| angles.low == angles.high));
    let page = page(&report);
    let (_, after) = page.split_once("<h3>Spectral angles</h3>").unwrap();
    let bar = after.split_once("class=\"bar\"").unwrap().1.split_once('>').unwrap().0;
    let width = bar.split_once("width=\"").unwrap().1.split_once('"').unwrap().0;
    assert!(width.parse::<f64>().unwrap() > 100.0, "{bar}");
}

#[test]
fn an_interrupted_run_and_a_rule_that_none_meets_are_said() {
    let mut report = crate::made_up::pictures();
    report.provenance.interrupted = Some(shardpack_report::data::Interrupted { done: 37, of: 100 });
    report.verdict.met = false;
    has(&page(&report), &["Interrupted.", "37 of 100", "No candidate meets every condition."]);
}

#[test]
fn a_dataset_has_no_curve_and_shows_its_recipe() {
    let page = page(&crate::made_up::dataset());
    assert!(!page.contains("<section id=\"curve\""));
    has(&page, &["reencode", "Recipe", "<section id=\"distributions\""]);
}

#[test]
fn a_notebook_gets_the_verdict_and_the_curve() {
    let fragment = fragment(&crate::made_up::pictures());
    has(&fragment, &["140\u{a0}GB", "Bytes against SSIMULACRA2"]);
    assert!(!fragment.contains("<html") && !fragment.contains("section id"));
}
