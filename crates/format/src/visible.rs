//! Makes text from data safe to display. Every error, note and output line passes through here.
//!
//! A name in a file may contain ESC, BEL or a bidirectional override. They can move the cursor of a terminal, rename
//! its window or reverse a line. Such characters are replaced by their numbers. Backslashes are kept, so a second pass
//! changes nothing.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::path::Path;

/// True for characters that a terminal interprets or does not show: control characters, bidirectional controls,
/// zero-width characters, line separators and tags.
///
/// ```
/// use shardpack_format::is_hidden;
/// assert!(is_hidden('\x1b') && is_hidden('\u{9b}') && is_hidden('\u{202e}') && is_hidden('\u{200b}'));
/// assert!(!is_hidden('é') && !is_hidden('\u{301}') && !is_hidden('\\'));
/// ```
#[must_use]
pub const fn is_hidden(c: char) -> bool {
    matches!(
        c,
        '\0'..='\x1f'
            | '\x7f'..='\u{9f}'
            | '\u{ad}'
            | '\u{34f}'
            | '\u{61c}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{3164}'
            | '\u{feff}'
            | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

fn shown(text: &str, stays: impl Fn(char) -> bool, put: impl Fn(char, &mut String)) -> Cow<'_, str> {
    let is_changed = |c: char| is_hidden(c) && !stays(c);
    if !text.contains(is_changed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    text.chars().for_each(|c| if is_changed(c) { put(c, &mut out) } else { out.push(c) });
    Cow::Owned(out)
}

/// Formats a path on one line, with hidden characters replaced as in [`visible`].
#[must_use]
pub fn visible_path(path: &Path) -> String {
    visible(&path.to_string_lossy()).into_owned()
}

/// Formats text on one line, with each hidden character replaced by its number.
///
/// ```
/// use shardpack_format::visible;
/// assert_eq!(visible("the dog's \"bone\", d'été\n\u{202e}"), "the dog's \"bone\", d'été\\n\\u{202e}");
/// assert_eq!(visible(&visible("\x1b")), visible("\x1b"));
/// ```
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    shown(text, |_| false, |c, out| out.extend(c.escape_debug()))
}

/// Same as [`visible`], but keeps line breaks and tabs.
///
/// ```
/// assert_eq!(shardpack_format::visible_lines("a\tb\n\x07"), "a\tb\n\\u{7}");
/// ```
#[must_use]
pub fn visible_lines(text: &str) -> Cow<'_, str> {
    shown(text, |c| matches!(c, '\n' | '\t'), |c, out| out.extend(c.escape_debug()))
}

/// Same as [`visible`], but for JSON text. The JSON value does not change, because hidden characters occur only in
/// strings.
///
/// ```
/// assert_eq!(shardpack_format::visible_json("[\"\u{9b}\u{e0041}\"]\n"), "[\"\\u009b\\udb40\\udc41\"]\n");
/// ```
#[must_use]
pub fn visible_json(text: &str) -> Cow<'_, str> {
    let put = |c: char, out: &mut String| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    };
    shown(text, |c| matches!(c, '\n' | '\t'), put)
}
