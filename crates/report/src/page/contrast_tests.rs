//! Tests the contrast of the page's colours in light and dark mode. WCAG 2.2 requires 4.5 : 1 for text
//! (1.4.3) and 3 : 1 for graphics in plots (1.4.11).

use super::STYLE;
use std::collections::BTreeMap;

fn schemes() -> [BTreeMap<&'static str, [u8; 3]>; 2] {
    let dark = STYLE.find("prefers-color-scheme: dark").unwrap();
    let colours = |style: &'static str| {
        let declared =
            style.split([';', '{', '}']).filter_map(|part| part.trim().strip_prefix("--")?.split_once(": #"));
        let parsed = declared.map(|(name, hex)| {
            let at = |i: usize| u8::from_str_radix(hex.get(i..i + 2).unwrap(), 16).unwrap();
            (name, [at(0), at(2), at(4)])
        });
        parsed.collect::<BTreeMap<_, _>>()
    };
    let end = STYLE[dark..].find("\n}").unwrap();
    [colours(&STYLE[..dark]), colours(&STYLE[dark..dark + end])]
}

/// Returns the relative luminance: <https://www.w3.org/TR/WCAG22/#dfn-relative-luminance>
fn luminance(colour: [u8; 3]) -> f64 {
    let [red, green, blue] = colour.map(|level| {
        let share = f64::from(level) / 255.0;
        if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * red + 0.7152 * green + 0.0722 * blue
}

fn contrast(a: [u8; 3], b: [u8; 3]) -> f64 {
    let [a, b] = [a, b].map(luminance);
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

#[test]
fn the_measure_is_that_of_the_definition() {
    assert!((contrast([0; 3], [255; 3]) - 21.0).abs() < 1e-9);
    // This gray (#767676) is known to be the lightest text colour that is permitted on white.
    assert!((contrast([0x76; 3], [255; 3]) - 4.54).abs() < 0.01);
}

#[test]
fn colours_can_be_told_from_what_is_behind_them() {
    let text = [
        ("ink", &["page", "soft", "mark", "warn-soft"][..]),
        ("quiet", &["page", "soft", "mark", "warn-soft"]),
        ("accent", &["page", "soft", "mark"]),
        ("warn", &["page", "mark", "warn-soft"]),
    ];
    let drawn = ["s0", "s1", "s2", "s3", "s4", "s5", "bar", "accent", "zone"];
    let mut wrong = Vec::new();
    for (scheme, colours) in ["light", "dark"].into_iter().zip(schemes()) {
        assert_eq!(colours.len(), 17, "{scheme}: {:?}", colours.keys());
        let mut check = |front: &str, back: &str, least: f64| {
            let found = contrast(colours[front], colours[back]);
            if found < least {
                wrong.push(format!("{scheme}: {front} on {back} {found:.2}, expected {least}"));
            }
        };
        for (front, backs) in text {
            backs.iter().for_each(|back| check(front, back, 4.5));
        }
        drawn.iter().for_each(|front| check(front, "page", 3.0));
        // The tooltip of a point swaps the two main colours of the page.
        check("page", "ink", 4.5);
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
