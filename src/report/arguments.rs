//! Formats commands for the page, with options as arguments quoted for a shell.

use shardpack_recipe::OptionValue;

pub(super) fn argument(name: &str, value: &OptionValue) -> String {
    let name = dashed(name);
    match value {
        OptionValue::Switch(_) => format!("--{name}"),
        value => format!("--{name}={value}"),
    }
}

pub(super) fn dashed(name: &str) -> String {
    name.replace('_', "-")
}

pub(super) fn quoted(argument: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    match !argument.is_empty() && argument.chars().all(plain) {
        true => argument.to_owned(),
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_quoted_arguments() {
        assert_eq!(quoted("--quality=80"), "--quality=80");
        assert_eq!(quoted("my dog's/a"), r"'my dog'\''s/a'");
        assert_eq!(quoted(""), "''");
    }
}
