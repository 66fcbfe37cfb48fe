//! Hides the secrets of URLs in messages: the user, the password, and the query, which may contain
//! tokens or signatures.

use std::borrow::Cow;

/// Characters that end any URL.
const SPACES: &[char] = &[' ', '\t', '\n', '\r'];
/// Characters that end a URL, except within its user name and password.
const ENDS: &[char] = &[' ', '\t', '\n', '\r', '`', '"', '\'', '<', '>'];

/// Replaces the user, password, query and fragment of each URL with `…`, because they may be secret. Keeps the
/// container in `abfss://container@account…`, which is not a user.
///
/// ```
/// use shardpack_format::plain_urls;
/// let text = "cannot read `https://ann:hunter2@host/a?sig=hunter2`: slow";
/// assert_eq!(plain_urls(text), "cannot read `https://…@host/a?…`: slow");
/// ```
#[must_use]
pub fn plain_urls(text: &str) -> Cow<'_, str> {
    if !text.contains("://") {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("://") {
        out.push_str(before);
        out.push_str("://");
        // A password may contain quotes, so the secret extends to the last `@` before whitespace.
        let word = after.split(SPACES).next().unwrap_or_default();
        let (secret, open) = word.split_at(word.rfind('@').unwrap_or_default());
        let (url, behind) = after.split_at(secret.len() + open.find(ENDS).unwrap_or(open.len()));
        // A password may contain a slash, so hide everything before the last `@`.
        let (place, query) = url.split_at(url.find(['?', '#']).unwrap_or(url.len()));
        let scheme = before.rsplit(|c: char| !c.is_ascii_alphanumeric()).next().unwrap_or_default();
        let is_container = scheme.starts_with("abfs") && !place.split('@').next().unwrap_or_default().contains(':');
        match place.rsplit_once('@') {
            Some((_, place)) if !is_container => {
                out.push_str("…@");
                out.push_str(place);
            }
            _ => out.push_str(place),
        }
        if let Some(mark) = query.chars().next() {
            out.push(mark);
            out.push('…');
        }
        rest = behind;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::plain_urls;

    #[test]
    fn secrets_of_urls_are_hidden_everywhere() {
        for (text, expected) in [
            ("no url, who? me@here", "no url, who? me@here"),
            ("s3://AKIA@bucket/x", "s3://…@bucket/x"),
            ("s3://a:b/c@bucket/x", "s3://…@bucket/x"),
            ("a://u:p@h?x=1 b://v@i/j?y#z", "a://…@h?… b://…@i/j?…"),
            ("`https://h/x?sig=a%2Fb&se=1`: no", "`https://h/x?…`: no"),
            ("abfss://container@account.host/x", "abfss://container@account.host/x"),
            ("abfss://container:key@account.host/x", "abfss://…@account.host/x"),
            ("https://h/x", "https://h/x"),
            ("s3://b/x#token?", "s3://b/x#…"),
            ("\"x://y?q\"", "\"x://y?…\""),
            ("://", "://"),
            ("https://ann:hun\"ter2@h/x", "https://…@h/x"),
            ("`s3://a:hun`ter'2@bucket/x`: no", "`s3://…@bucket/x`: no"),
            ("'s3://a:<b>@bucket/x?y' and `b://v@i/j`", "'s3://…@bucket/x?…' and `b://…@i/j`"),
            ("`https://h/x`: ask me@here", "`https://h/x`: ask me@here"),
        ] {
            assert_eq!(plain_urls(text), expected);
        }
    }
}
