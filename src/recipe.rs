//! Reads packing options from a report. `REPORT#N` means the options of candidate N, and `REPORT` means the options of
//! the recommended candidate.

use crate::report::data_of_page;
use serde_json::Value;
use shardpack_format::{Hint, Note, Setting};
use shardpack_pack::{Context, bail};
use shardpack_recipe::OptionValue as Given;
use shardpack_report::data::VERSION;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;

/// Maximum size of a report. A page with a gallery is about twenty times smaller.
const MAX_BYTES: u64 = 256 << 20;

pub(crate) struct Chosen {
    /// The candidate's arguments for `pack`.
    pub(crate) arguments: Vec<OsString>,
    pub(crate) note: Option<Note>,
}

/// Returns candidate N of the report for `REPORT#N`, or the recommended candidate for `REPORT`. The report may
/// be a page or the output of `--json`.
pub(crate) fn choose(recipe: &str) -> crate::Result<Chosen> {
    let numbered = recipe.rsplit_once('#').and_then(|(path, number)| Some((path, number.parse::<u64>().ok()?)));
    let is_report = || !recipe.contains('#') || Path::new(recipe).is_file();
    let (path, number) = match numbered {
        Some((path, number)) if number > 0 => (path, Some(number)),
        None if is_report() => (recipe, None),
        _ => bail!("recipe: expected REPORT or REPORT#N, such as report.html#2, found `{}`", recipe.escape_debug()),
    };
    let report = read(Path::new(path)).with_context(|| format!("recipe: cannot read the report `{path}`"))?;
    let candidates = report.get("candidates").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let (number, note) = match number {
        Some(number) => (number, None),
        None => {
            let (number, note) = recommended(path, &report, candidates)?;
            (number, Some(note))
        }
    };
    let is_wanted = |candidate: &&Value| candidate.get("number").and_then(Value::as_u64) == Some(number);
    let Some(candidate) = candidates.iter().find(is_wanted) else {
        let names = candidates.iter().filter_map(|candidate| {
            Some(format!("{} {}", candidate.get("number")?, candidate.get("name")?.as_str()?.escape_debug()))
        });
        let names: Vec<_> = names.collect();
        let hint = format!("choose one of the candidates: {}", names.join(", "));
        bail!(Note::new(format!("recipe: `{path}` has no candidate {number}")).with_hint(hint));
    };
    let arguments = candidate.get("arguments").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let own: Option<Vec<OsString>> = arguments.iter().map(|argument| argument.as_str().map(OsString::from)).collect();
    let own = own.with_context(|| format!("recipe: the arguments of candidate {number} of `{path}` are not text"))?;
    // The arguments come from a file, so none of them may be a path.
    if let Some(other) = own.iter().find(|argument| !argument.to_string_lossy().starts_with("--") || argument.len() < 3)
    {
        bail!("recipe: candidate {number} of `{path}` contains `{}`, which is not a `pack` option", other.display());
    }
    if own.is_empty() {
        let text = format!("recipe: candidate {number} of `{path}` has no options");
        if report.get("subject").and_then(Value::as_str) != Some("dataset") {
            let hint = Hint::new("omit ").and([Setting::named("recipe")]).then(" to pack with the default options");
            bail!(Note::new(text).with_hint(hint));
        }
        let hint = "run `shardpack report` on the source files, and choose a candidate of that report";
        bail!(Note::new(text + ", because the report is on a packed dataset").with_hint(hint));
    }
    Ok(Chosen { arguments: own, note })
}

fn recommended(path: &str, report: &Value, candidates: &[Value]) -> crate::Result<(u64, Note)> {
    let verdict = |name: &str| report.get("verdict").and_then(|verdict| verdict.get(name));
    let chosen = verdict("chosen").and_then(Value::as_u64).and_then(|place| usize::try_from(place).ok());
    let candidate = chosen.and_then(|place| candidates.get(place));
    let named =
        candidate.and_then(|candidate| Some((candidate.get("number")?.as_u64()?, candidate.get("name")?.as_str()?)));
    let Some((number, name)) = named else {
        let hint = format!("choose a candidate, such as `{path}#1`");
        bail!(Note::new(format!("recipe: `{path}` does not recommend a candidate")).with_hint(hint));
    };
    let but =
        if verdict("met") == Some(&Value::Bool(false)) { ", although it does not meet all conditions" } else { "" };
    let note = format!(
        "recipe: using candidate {number} of `{path}`, {}, which the report recommends{but}",
        name.escape_debug()
    );
    Ok((number, Note::new(note).with_hint(format!("pass `{path}#N` to choose another candidate"))))
}

fn read(path: &Path) -> crate::Result<Value> {
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        bail!("the file is larger than {MAX_BYTES} bytes");
    }
    let data = if text.trim_start().starts_with('{') { text.as_str() } else { data_of_page(&text).unwrap_or_default() };
    let report: Value = serde_json::from_str(data)
        .ok()
        .with_context(|| "the file is neither the HTML page nor the `--json` output of `shardpack report`")?;
    match report.get("shardpack_report").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => Ok(report),
        Some(version) => bail!("expected a report of version {VERSION}, found version {version}"),
        None => bail!("the file is JSON, but not a report"),
    }
}

/// The `pack` options that a recipe sets.
#[derive(Debug)]
pub struct RecipeOptions {
    /// Options, each with its name.
    pub options: Vec<(String, Given)>,
    /// A note that names the chosen candidate, if the recipe does not.
    pub note: Option<Note>,
}

/// Returns the options of candidate N for `REPORT#N`, or of the recommended candidate for `REPORT`.
///
/// ```
/// assert!(shardpack::recipe_options("no/report.html#2").is_err());
/// ```
///
/// # Errors
/// Fails if there is no such report or candidate.
pub fn recipe_options(recipe: &str) -> crate::Result<RecipeOptions> {
    let Chosen { arguments, note } = choose(recipe)?;
    let arguments = arguments.into_iter().map(|argument| {
        let argument = argument.into_string().ok().context("recipe: an option is not valid UTF-8")?;
        let option = argument.trim_start_matches('-');
        let (name, value) = option.split_once('=').unwrap_or((option, "true"));
        Ok((name.replace('-', "_"), Given::Text(value.to_owned())))
    });
    Ok(RecipeOptions { options: arguments.collect::<crate::Result<_>>()?, note })
}
