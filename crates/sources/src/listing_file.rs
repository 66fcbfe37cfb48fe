//! Reads and writes listing files. With a listing file, a source is scanned only once for all
//! machines that pack its parts.
//!
//! The file consists of lines of JSON. The first line has the source and the options. Then there is a line for
//! each class, column, skipped file and sample. The last line has the SHA-256 of all other lines. When a sample
//! is read later, its file must be unchanged.

use crate::bad::{BadInput, OnBadInput};
use crate::columns::TableColumn;
use crate::content::SourceKind;
use crate::error::{Result, SourceError};
use crate::files::Files;
use crate::files::listed::{SideFile, mtime_ns};
use crate::listing::{LabelsFrom, Listing, SourceSample};
use crate::options::{LabelColumn, SourceOptions};
use crate::tree::store;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use shardpack_format::{Hint, Note, Setting, to_hex};
use shardpack_io::Listed;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Version of the file format. Other versions are refused, because a listing is only needed for one run.
const VERSION: u32 = 2;
/// Maximum length of a line. A line may be a column with the values of all samples.
const MAX_LINE_BYTES: u64 = 16 << 30;

#[derive(Serialize, Deserialize)]
struct Head {
    shardpack_listing: u32,
    packer: String,
    root: PathBuf,
    /// Options that affect the listing, by flag.
    options: Value,
    /// Label table, with its size and modification time when the source was listed.
    labels: Option<SideFile>,
    kind: SourceKind,
    labels_from: LabelsFrom,
    ignored: u64,
    notes: Vec<Note>,
    classes: u64,
    columns: u64,
    bad: u64,
    samples: u64,
    /// Number of store objects, or 0 for a local source.
    #[serde(default, skip_serializing_if = "is_zero")]
    objects: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A store object, with the properties that identify its version.
#[derive(Serialize, Deserialize)]
struct ListedObject {
    url: String,
    bytes: u64,
    modified_ns: i64,
    e_tag: Option<String>,
}

/// Writes the listing of a source, made with these options, to `file`. Writes the whole file or nothing.
///
/// # Errors
/// `Io` if the file cannot be written; `Listing` if this name belongs to a file that is not a listing.
pub fn write(listing: &Listing, options: &SourceOptions, file: &Path) -> Result<()> {
    match File::open(file) {
        Ok(mut found) => {
            let mut start = [0; 20];
            let is_ours = found.read_exact(&mut start).is_ok() && start.starts_with(b"{\"shardpack_listing\"");
            if !is_ours {
                let message = "the file exists and is not a listing, so it was not overwritten";
                return Err(refusal(file, message, "choose another file name"));
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(SourceError::io("open", file)(error)),
    }
    let folder = file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."));
    let temporary = tempfile::NamedTempFile::new_in(folder).map_err(SourceError::io("create a file in", folder))?;
    let mut out = Hashed { out: BufWriter::new(temporary), hash: Sha256::new() };
    write_lines(listing, options, &mut out)
        .and_then(|()| out.out.into_inner().map_err(io::IntoInnerError::into_error))
        .and_then(|temporary| temporary.as_file().sync_all().map(|()| temporary))
        .and_then(|temporary| {
            readable_by_others(temporary.as_file())?;
            temporary.persist(file).map_err(|error| error.error)
        })
        .map_err(SourceError::io("write", file))?;
    Ok(())
}

/// Makes a file readable by all users. By default only its owner can read a temporary file, but
/// other machines that pack parts may use a different user.
fn readable_by_others(file: &File) -> io::Result<()> {
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

fn write_lines(listing: &Listing, options: &SourceOptions, out: &mut Hashed<impl Write>) -> io::Result<()> {
    let objects = listing.files.listed(listing.all_paths());
    let Listing { root, files: _, kind, samples, classes, columns, labels_from, bad, ignored, notes } = listing;
    out.line(&Head {
        shardpack_listing: VERSION,
        packer: env!("CARGO_PKG_VERSION").into(),
        root: root.clone(),
        options: of_options(options),
        labels: options.labels.as_deref().map(|path| side_file(path, &options.files)).transpose()?,
        kind: *kind,
        labels_from: labels_from.clone(),
        ignored: *ignored,
        notes: notes.clone(),
        classes: classes.len() as u64,
        columns: columns.len() as u64,
        bad: bad.len() as u64,
        samples: samples.len() as u64,
        objects: objects.len() as u64,
    })?;
    classes.iter().try_for_each(|class| out.line(class))?;
    columns.iter().try_for_each(|column| out.line(column))?;
    bad.iter().try_for_each(|bad| out.line(bad))?;
    samples.iter().try_for_each(|sample| out.line(sample))?;
    let object = |Listed { name: url, bytes, modified_ns, e_tag }| ListedObject { url, bytes, modified_ns, e_tag };
    objects.into_iter().try_for_each(|listed| out.line(&object(listed)))?;
    let sha256 = to_hex(&out.hash.clone().finalize());
    out.line(&json!({ "sha256": sha256 }))
}

/// Reads a listing of `src` made with these options.
///
/// # Errors
/// `Io` if the file cannot be read; `Listing` if the file is damaged, if its version, source or options differ
/// (the error names the first difference), or if the label table has changed.
pub fn read(file: &Path, src: &Path, options: &SourceOptions) -> Result<Listing> {
    let opened = File::open(file).map_err(SourceError::io("open", file))?;
    let mut lines = Lines { file, input: BufReader::new(opened), line: Vec::new(), number: 0, hash: Sha256::new() };
    let head: Head = lines.next()?;
    let versions = (head.shardpack_listing, head.packer.as_str());
    if versions != (VERSION, env!("CARGO_PKG_VERSION")) {
        let (version, packer) = versions;
        let message = format!(
            "shardpack {packer} wrote this listing (version {version}), but shardpack {} can only read its own \
             listings (version {VERSION})",
            env!("CARGO_PKG_VERSION")
        );
        return Err(refusal(file, message, again()));
    }
    check_source(file, src, options, &head)?;
    let mut listing = Listing {
        root: head.root,
        files: options.files.clone(),
        kind: head.kind,
        samples: Vec::new(),
        classes: lines.take(head.classes)?,
        columns: lines.take::<TableColumn>(head.columns)?,
        labels_from: head.labels_from,
        bad: lines.take::<BadInput>(head.bad)?,
        ignored: head.ignored,
        notes: head.notes,
    };
    listing.samples = lines.take::<SourceSample>(head.samples)?;
    let object = |ListedObject { url: name, bytes, modified_ns, e_tag }| Listed { name, bytes, modified_ns, e_tag };
    let objects = lines.take::<ListedObject>(head.objects)?;
    listing.files.know(objects.into_iter().map(object).collect());
    let sha256 = to_hex(&lines.hash.clone().finalize());
    let noted: Value = lines.next()?;
    if noted.get("sha256").and_then(Value::as_str) != Some(&sha256) {
        return Err(refusal(file, "the file is damaged: its content does not match its SHA-256", again()));
    }
    let samples = listing.samples.len();
    if let Some(column) = listing.columns.iter().find(|column| !column.values.are_of(samples)) {
        let (name, values) = (&column.name, column.values.len());
        let message = format!("the file is damaged: the column `{name}` has {values} values for {samples} samples");
        return Err(refusal(file, message, again()));
    }
    let classes = listing.classes.len();
    let is_class = |class: u32| (class as usize) < classes;
    if let Some(sample) =
        listing.samples.iter().find(|sample| sample.class.map_or(classes > 0, |class| !is_class(class)))
    {
        let key = sample.key.escape_debug();
        let message = match sample.class {
            Some(class) => {
                format!("the file is damaged: the sample `{key}` has class {class}, but there are {classes} classes")
            }
            None => format!("the file is damaged: the sample `{key}` has no class"),
        };
        return Err(refusal(file, message, again()));
    }
    Ok(listing)
}

fn check_source(file: &Path, src: &Path, options: &SourceOptions, head: &Head) -> Result<()> {
    options.files.check(src)?;
    let real = match options.files.has(src) {
        true => store::root(src),
        false => fs::canonicalize(src).map_err(SourceError::io("open", src))?,
    };
    // For a single file, the root is the file's folder.
    if real != head.root && real.parent() != Some(&head.root) {
        let message = format!("this is a listing of `{}`, not of `{}`", head.root.display(), real.display());
        let hint = Hint::new("pack the source that was listed, or write a new listing by running `plan` with ");
        return Err(refusal(file, message, hint.and([Setting::any("listing", "FILE")])));
    }
    if !options.follow_links && !options.files.has(src) {
        for folder in std::iter::once(&head.root).chain(&options.masks) {
            if let Ok(real) = fs::canonicalize(folder) {
                options.files.confine(&real).map_err(SourceError::io("open", folder))?;
            }
        }
    }
    let wanted = of_options(options);
    for (name, value) in wanted.as_object().into_iter().flatten() {
        let noted = head.options.get(name).unwrap_or(&Value::Null);
        if noted != value {
            let hint = "use the same options as for `shardpack plan`";
            let told = |value: &Value| if value.is_null() { "not set".to_owned() } else { value.to_string() };
            let (noted, value) = (told(noted), told(value));
            let message = format!("the option `{name}` was {noted} for the listing, but is {value} now");
            return Err(refusal(file, message, hint));
        }
    }
    let now = options.labels.as_deref().map(|path| side_file(path, &options.files)).transpose();
    let now = now.map_err(SourceError::io("read the metadata of", options.labels.as_deref().unwrap_or(file)))?;
    if now != head.labels {
        let change = match (&head.labels, &now) {
            (Some(before), Some(now)) if before.bytes != now.bytes => {
                format!("it had {} bytes, but now has {}", before.bytes, now.bytes)
            }
            (Some(before), Some(now)) if before.path != now.path => "its path is different".to_owned(),
            (Some(_), Some(_)) => "its modification time is different".to_owned(),
            (None, _) => "the listing was written without a label table".to_owned(),
            (_, None) => "this run has no label table".to_owned(),
        };
        let message = format!("the label table is not the same as for the listing: {change}");
        return Err(refusal(file, message, again()));
    }
    Ok(())
}

fn of_options(options: &SourceOptions) -> Value {
    // All fields are named, so that the compiler asks whether the listing depends on a new one.
    let SourceOptions {
        kind,
        labels,
        key_column,
        label_column,
        text_columns,
        masks,
        class_folders,
        clips,
        follow_links,
        on_bad_input,
        cubes,
        splits: _,
        exclude: _,
        listing: _,
        files: _,
        cancel: _,
    } = options;
    let path = |path: &Option<PathBuf>| {
        path.as_ref().map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone()).display().to_string())
    };
    json!({
        "kind": kind,
        "labels": path(labels),
        "key_column": key_column,
        "label_column": match label_column {
            LabelColumn::Guessed | LabelColumn::Usual => None,
            LabelColumn::Named(name) | LabelColumn::AlsoField(name) => Some(name),
        },
        "text_columns": text_columns,
        "masks": path(masks),
        "class_folders": class_folders,
        "clips": clips,
        "follow_links": follow_links,
        "on_bad_input": if *on_bad_input == OnBadInput::Skip { "skip" } else { "stop" },
        "variable": cubes.variable,
        "spatial": cubes.spatial,
        "max_cube": cubes.max_bytes,
    })
}

fn side_file(path: &Path, files: &Files) -> io::Result<SideFile> {
    if files.has(path) {
        let found = files.look(path)?;
        return Ok(SideFile { path: path.to_owned(), bytes: found.bytes, mtime_ns: found.mtime_ns });
    }
    let metadata = fs::metadata(path)?;
    Ok(SideFile { path: fs::canonicalize(path)?, bytes: metadata.len(), mtime_ns: mtime_ns(&metadata)? })
}

fn again() -> Hint {
    Hint::new("write a new listing: run `plan` again with ").and([Setting::any("listing", "FILE")])
}

fn refusal(file: &Path, message: impl Into<String>, hint: impl Into<Hint>) -> SourceError {
    SourceError::Listing { file: file.to_owned(), message: message.into(), hint: hint.into() }
}

struct Hashed<W> {
    out: W,
    hash: Sha256,
}

impl<W: Write> Hashed<W> {
    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.hash.update(&line);
        self.out.write_all(&line)
    }
}

/// Reads a listing file with only one line in memory at a time.
struct Lines<'a, R> {
    file: &'a Path,
    input: R,
    line: Vec<u8>,
    number: u64,
    hash: Sha256,
}

impl<R: BufRead> Lines<'_, R> {
    fn next<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.line.clear();
        self.number += 1;
        let mut limited = self.input.by_ref().take(MAX_LINE_BYTES);
        limited.read_until(b'\n', &mut self.line).map_err(SourceError::io("read", self.file))?;
        if !self.line.ends_with(b"\n") {
            let message = format!("the file is truncated: line {} is incomplete", self.number);
            return Err(refusal(self.file, message, again()));
        }
        self.hash.update(&self.line);
        serde_json::from_slice(&self.line)
            .map_err(|error| refusal(self.file, format!("cannot parse line {}: {error}", self.number), again()))
    }

    fn take<T: DeserializeOwned>(&mut self, count: u64) -> Result<Vec<T>> {
        // Do not allocate by the number of lines in the header. The vector grows only with lines that exist.
        let mut out = Vec::new();
        for _ in 0..count {
            out.push(self.next()?);
        }
        Ok(out)
    }
}

#[cfg(test)]
#[path = "listing_file_tests.rs"]
mod tests;
