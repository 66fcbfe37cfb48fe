//! Reads candidates from the TOML file given with `--candidates`.
//!
//! ```toml
//! [[candidate]]
//! name = "small"            # optional
//! jpeg = "reencode"         # the long options of `pack`
//! quality = 70
//! short-side = 256
//! ```

use super::ladder::Rung;
use shardpack_format::Note;
use shardpack_pack::{Context, bail};
use shardpack_recipe::{OptionValue as Given, StorageOptions};
use std::path::Path;
use toml::{Table, Value};

/// Limits on the size of the candidate file in bytes, and on the number of candidates. Each
/// candidate takes a run over all samples.
const MAX_BYTES: u64 = 1 << 20;
const MOST: usize = 256;

pub(super) fn read(path: &Path) -> crate::Result<Vec<Rung>> {
    let context = || format!("cannot read the candidates in `{}`", path.display());
    let bytes = std::fs::metadata(path).with_context(context)?.len();
    if bytes > MAX_BYTES {
        bail!("the candidate file `{}` is {bytes} bytes long, but the limit is {MAX_BYTES}", path.display());
    }
    parse(&std::fs::read_to_string(path).with_context(context)?).with_context(context)
}

fn parse(text: &str) -> crate::Result<Vec<Rung>> {
    const EXAMPLE: &str = "write [[candidate]], then one line for each `pack` option, such as jpeg = \"reencode\"";
    let table: Table =
        text.parse().map_err(|error: toml::de::Error| crate::Error::other(error.to_string().trim_end()))?;
    if let Some(other) = table.keys().find(|key| *key != "candidate") {
        let text = format!("expected only [[candidate]] tables, found `{}`", other.escape_debug());
        bail!(Note::new(text).with_hint(EXAMPLE));
    }
    let Some(Value::Array(all)) = table.get("candidate") else {
        bail!(Note::new("the file has no [[candidate]]").with_hint(EXAMPLE));
    };
    if all.len() > MOST {
        bail!("expected at most {MOST} candidates, found {}", all.len());
    }
    let rungs: Vec<Rung> = all.iter().enumerate().map(|(i, one)| rung(i + 1, one)).collect::<crate::Result<_>>()?;
    for (i, rung) in rungs.iter().enumerate() {
        if rungs.iter().take(i).any(|before| before.name == rung.name) {
            bail!("candidate {}: the name `{}` occurs twice", i + 1, rung.name.escape_debug());
        }
    }
    Ok(rungs)
}

fn rung(number: usize, value: &Value) -> crate::Result<Rung> {
    let Value::Table(table) = value else { bail!("candidate {number}: expected a table, found {}", value.type_str()) };
    let (mut name, mut own) = (None, Vec::new());
    for (key, value) in table {
        let given = match value {
            Value::String(text) => Given::Text(text.clone()),
            Value::Integer(number) => Given::Integer((*number).into()),
            Value::Float(number) => Given::Float(*number),
            // Skip a switch that is off, because off is the default.
            Value::Boolean(false) => continue,
            Value::Boolean(true) => Given::Switch(true),
            other => bail!(
                "candidate {number}: `{}`: expected text, a number or a boolean, found {}",
                key.escape_debug(),
                other.type_str()
            ),
        };
        let option = key.replace('-', "_");
        match option.as_str() {
            "name" => name = Some(given.to_string()),
            known if StorageOptions::option(known).is_some() => own.push((option, given)),
            _ => bail!(Note::new(format!("candidate {number}: unknown option `{}`", key.escape_debug())).with_hint(
                format!(
                    "use one of these options: {}",
                    StorageOptions::OPTIONS.iter().map(|option| option.about.name).collect::<Vec<_>>().join(", ")
                )
            )),
        }
    }
    let words = || own.iter().map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ");
    let name = name.unwrap_or_else(|| if own.is_empty() { format!("candidate {number}") } else { words() });
    Ok(Rung { group: name.clone(), name, own })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_read_and_wrong_ones_named() {
        let rungs = parse(
            "[[candidate]]\nname = \"s\"\njpeg = \"reencode\"\nquality = 70\nkeep_metadata = true\n\
             upright = false\n[[candidate]]\nvalues = \"keep\"",
        )
        .unwrap();
        let names: Vec<_> = rungs.iter().map(|rung| rung.name.as_str()).collect();
        assert_eq!(names, ["s", "values keep"]);
        let mut found = rungs[0].own.clone();
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let wanted = [
            ("jpeg", Given::Text("reencode".into())),
            ("keep_metadata", Given::Switch(true)),
            ("quality", Given::Integer(70)),
        ];
        assert_eq!(found, wanted.map(|(name, value)| (name.to_owned(), value)));
        for (text, part) in [
            ("", "no [[candidate]]"),
            ("[[candidates]]\njpeg = 1", "found `candidates`"),
            ("candidate = 3", "no [[candidate]]"),
            ("[[candidate]]\nout = \"x\"", "candidate 1: unknown option `out`"),
            ("[[candidate]]\nquality = [1]", "found array"),
            ("[[candidate]]\nname = \"a\"\n[[candidate]]\nname = \"a\"", "the name `a` occurs twice"),
            ("[[candidate]\n", "TOML parse error"),
        ] {
            let error = parse(text).err().unwrap().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
