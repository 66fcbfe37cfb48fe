//! Recognises pictures and cubes by content, and decides the kind of the source.

use crate::bad::{BadKind, Flaw};
use crate::content::{SampleContent, SourceKind};
use crate::cubes::{self, CubeError, CubeKind, CubeOptions, CubeProblem};
use crate::error::{Result, SourceError};
use crate::files::Files;
use crate::files::listed::SourceFile;
use crate::files::read_at::{FileAt, ReadAt};
use crate::pictures::{self, Sniffed, tiff};
use shardpack_format::{Hint, Voice};
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) enum Recognised {
    /// A sample, and the path of its separate data file, if any.
    Sample(SampleContent, Option<PathBuf>),
    /// Unknown content. It is bad input unless a header claims this file as its data file.
    Unknown(Flaw),
    /// A header whose cube cannot be read, but which still claims its data file.
    Bad(Flaw, Option<PathBuf>),
}

/// Examines one file. TIFFs and 16-bit PNGs can be pictures or cubes, so `wanted` decides. An 8-bit PNG next to
/// cubes is a preview.
pub(crate) fn examine(path: &Path, file: &SourceFile, wanted: Option<SourceKind>, options: &CubeOptions) -> Recognised {
    let bad = |flaw| Recognised::Bad(flaw, None);
    let (sniffed, start) = match sniff(path, file, options.run.files()) {
        Ok(found) => found,
        Err(flaw) => return bad(flaw),
    };
    match sniffed {
        Some(Sniffed::Picture(picture)) if wanted != Some(SourceKind::Cubes) || !picture.deep => {
            return Recognised::Sample(SampleContent::Picture(picture), None);
        }
        Some(Sniffed::Tiff(header)) => {
            let as_picture = match wanted {
                Some(SourceKind::Images) => header.may_be_picture(),
                Some(SourceKind::Cubes) => false,
                None => header.is_picture(),
            };
            if as_picture {
                return Recognised::Sample(SampleContent::Picture(tiff::picture(&header)), None);
            }
        }
        Some(Sniffed::Picture(_)) | None => {}
    }
    match cubes::probe_in(path, options) {
        Ok(Some(kind)) => cube(path, kind, options),
        Ok(None) => {
            let flaw =
                Flaw::new(BadKind::Unknown, format!("neither a picture nor a cube: the file begins with `{start}`"));
            Recognised::Unknown(flaw.with_hint(convertible(path, file, options)))
        }
        Err(error) => bad(cube_flaw(&error)),
    }
}

/// File name suffixes that `convert` can read, and the names of their formats.
const CONVERTIBLE: &[(&str, &str)] = &[
    (".nii", "nifti"),
    (".nii.gz", "nifti"),
    (".dcm", "dicom"),
    (".tar", "webdataset"),
    (".parquet", "parquet"),
    (".tfrecord", "tfrecord"),
    (".mds", "mds"),
];

fn convertible(path: &Path, file: &SourceFile, options: &CubeOptions) -> Option<Hint> {
    let name = file.key.to_ascii_lowercase();
    let by_name = CONVERTIBLE.iter().find(|(end, _)| name.ends_with(end)).map(|(_, format)| *format);
    let open = || FileAt::open(options.run.files(), path, file.bytes);
    let head = || open().and_then(|file| Ok(file.head(132)?.into_owned())).ok();
    if by_name.is_none() && matches!(head()?.as_slice(), [b'C', b'D', b'F', 1 | 2 | 5, ..]) {
        return Some(
            "convert this classic NetCDF file to HDF5, which shardpack reads, with `nccopy -k nc4 IN OUT`".into(),
        );
    }
    // DICOM files often have no extension, so recognise them by their content.
    let is_dicom = || (head()?.get(128..) == Some(b"DICM")).then_some("dicom");
    let format = by_name.or_else(is_dicom)?;
    let hint = Hint::new("use ").only(Voice::Command, format!("`shardpack convert {format}` from the Python package"));
    let hint = hint.only(Voice::Python, format!("`shardpack.convert(\"{format}\", …)`"));
    Some(
        hint.only(Voice::Rust, format!("`convert(\"{format}\", …)` from the Python package"))
            .then(" to make a dataset from these files"),
    )
}

fn cube(path: &Path, kind: CubeKind, options: &CubeOptions) -> Recognised {
    let data = (kind == CubeKind::EnviHeader).then(|| cubes::companion(path, options)).flatten();
    match cubes::peek(path, options) {
        Ok(info) => Recognised::Sample(SampleContent::Cube(info), data),
        Err(error) => Recognised::Bad(cube_flaw(&error), data),
    }
}

/// Converts an error to a flaw, without the path, because lists of flaws name the path anyway.
fn cube_flaw(error: &CubeError) -> Flaw {
    let kind = match error.problem() {
        // The cancellation flag is checked again elsewhere, and this error is then dropped.
        CubeProblem::Io { .. } | CubeProblem::Cancelled => BadKind::Unreadable,
        CubeProblem::Damaged(_) => BadKind::Damaged,
        // A file that does not match the options or exceeds a limit may still be valid.
        CubeProblem::Unsupported(_) | CubeProblem::Usage(_) | CubeProblem::Limit { .. } => BadKind::Unsupported,
    };
    Flaw::new(kind, error.reason()).with_hint(error.hint())
}

fn sniff(path: &Path, file: &SourceFile, files: &Files) -> Result<(Option<Sniffed>, String), Flaw> {
    let file = FileAt::open(files, path, file.bytes)?;
    let sniffed = pictures::probe(&file)?;
    let start = if sniffed.is_none() { file.head(8)?.escape_ascii().to_string() } else { String::new() };
    Ok((sniffed, start))
}

/// Returns true if all samples are 16-bit PNGs (which count as pictures at first) or TIFFs that are certainly
/// cubes. If there are other cubes, the PNGs may be masks.
pub(crate) fn all_deep(found: &[Recognised]) -> bool {
    let mut pngs = false;
    found.iter().all(|found| match found {
        Recognised::Sample(SampleContent::Picture(picture), _) => {
            pngs |= picture.deep;
            picture.deep
        }
        Recognised::Sample(SampleContent::Cube(info), _) => info.kind == CubeKind::Tiff,
        _ => true,
    }) && pngs
}

/// Number of samples of each kind, and the key of the first sample of each kind.
#[derive(Debug, Default)]
pub(crate) struct KindCounts<'a> {
    pictures: (u64, Option<&'a str>),
    cubes: (u64, Option<&'a str>),
}

impl<'a> KindCounts<'a> {
    pub(crate) fn count(&mut self, key: &'a str, kind: SourceKind) {
        let (count, first) = match kind {
            SourceKind::Images => &mut self.pictures,
            SourceKind::Cubes => &mut self.cubes,
        };
        *count += 1;
        first.get_or_insert(key);
    }

    /// Decides the kind of the source. Returns `None` if the source has no samples.
    pub(crate) fn decide(&self, wanted: Option<SourceKind>, src: &Path) -> Result<Option<SourceKind>> {
        match (wanted, self.pictures, self.cubes) {
            (Some(kind), ..) => Ok(Some(kind)),
            (None, (_, None), (_, None)) => Ok(None),
            (None, (_, Some(_)), (_, None)) => Ok(Some(SourceKind::Images)),
            (None, (_, None), (_, Some(_))) => Ok(Some(SourceKind::Cubes)),
            (None, (pictures, Some(first_picture)), (cubes, Some(first_cube))) => Err(SourceError::Mixed {
                src: src.to_owned(),
                pictures,
                cubes,
                first_picture: first_picture.to_owned(),
                first_cube: first_cube.to_owned(),
            }),
        }
    }
}

pub(crate) fn wrong_kind(content: &SampleContent) -> Flaw {
    let found = match content {
        SampleContent::Picture(picture) => {
            format!("a picture ({}, {} × {})", picture.media_type, picture.width, picture.height)
        }
        SampleContent::Cube(info) => {
            let [height, width, channels] = info.shape;
            format!("a cube ([height, width, channels] = [{height}, {width}, {channels}], {})", info.dtype)
        }
    };
    let expected = match content.kind() {
        SourceKind::Images => "a cube",
        SourceKind::Cubes => "a picture",
    };
    Flaw::new(BadKind::WrongKind, format!("expected {expected}, found {found}"))
}

#[cfg(test)]
mod tests {
    use crate::testing::put;
    use crate::{SourceError, SourceOptions, enumerate};
    use shardpack_format::Voice;

    #[test]
    fn files_for_convert_get_its_command_as_hint() {
        let dicom = [&[0; 128][..], b"DICM and more"].concat();
        for (name, bytes, format) in [
            ("a.nii.gz", b"\x1f\x8b\x08\0".to_vec(), "nifti"),
            ("A.NII", vec![92, 1, 0, 0], "nifti"),
            ("IM0001", dicom, "dicom"),
            ("a.parquet", b"PAR1".to_vec(), "parquet"),
        ] {
            let root = tempfile::tempdir().unwrap();
            put(root.path(), name, bytes);
            let Err(SourceError::BadInputs(bad)) = enumerate(root.path(), &SourceOptions::default()) else { panic!() };
            let hints: Vec<_> = bad.hints().iter().map(|hint| hint.told(Voice::Command)).collect();
            let command =
                format!("use `shardpack convert {format}` from the Python package to make a dataset from these files");
            assert_eq!(hints, [command], "{name}: nothing is left to pack with another option");
        }
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "a.nc", b"CDF\x01\0\0\0\0");
        let Err(SourceError::BadInputs(bad)) = enumerate(root.path(), &SourceOptions::default()) else { panic!() };
        assert!(bad.hints()[0].to_string().starts_with("convert this classic NetCDF file"), "{:?}", bad.hints());
    }
}
