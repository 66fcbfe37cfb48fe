//! Groups pictures into clips. Each folder of pictures is one sample, and the pictures are its
//! frames.

use crate::bad::{BadInput, BadKind, Flaw};
use crate::content::SampleContent;
use crate::files::listed::SideFile;
use crate::files::listed::SourceFile;
use crate::listing::SourceSample;
use crate::recognise::wrong_kind;
use shardpack_format::{Hint, Setting};
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashSet};
use std::path::Path;

/// Groups the pictures of each folder into a clip. Omits a clip with a bad frame, because a clip without that
/// frame would be a different sample.
pub(super) fn group(root: &Path, samples: Vec<SourceSample>, bad: &mut Vec<BadInput>) -> Vec<SourceSample> {
    let folder_of = |key: &str| key.rsplit_once('/').map(|(folder, _)| folder.to_owned());
    let mut clips: BTreeMap<String, Vec<SourceSample>> = BTreeMap::new();
    for sample in samples {
        let Some(folder) = folder_of(&sample.key) else {
            let detail = "this picture is not in a folder, but each clip must be a folder of frames";
            let hint = Hint::new("move the frames of each clip into a separate folder, or omit ")
                .and([Setting::named("clips")]);
            bad.push(Flaw::new(BadKind::NoClip, detail).with_hint(hint).of(sample.key));
            continue;
        };
        match &sample.content {
            SampleContent::Picture(picture) if picture.jpeg.is_some() => clips.entry(folder).or_default().push(sample),
            SampleContent::Picture(picture) => {
                let detail = format!("the frames of a clip must be JPEGs, but this file is {}", picture.media_type);
                let hint = Hint::new("convert the frames, for example with `ffmpeg -i %06d.png -q:v 2 %06d.jpg`");
                bad.push(Flaw::unsupported(detail).with_hint(hint).of(sample.key));
            }
            SampleContent::Cube(_) => bad.push(wrong_kind(&sample.content).of(sample.key)),
        }
    }
    // Folders of frames often contain unrelated files. These must not exclude the clip.
    let flawed = |bad: &&BadInput| !matches!(bad.kind, BadKind::Unknown | BadKind::NoClip);
    let broken: HashSet<String> = bad.iter().filter(flawed).filter_map(|bad| folder_of(&bad.key)).collect();
    let (left_out, whole): (Vec<_>, Vec<_>) = clips.into_iter().partition(|(folder, _)| broken.contains(folder));
    let flaw = || Flaw::new(BadKind::NoClip, "some frames of this clip cannot be packed");
    bad.extend(left_out.into_iter().map(|(folder, _)| flaw().of(folder)));
    whole.into_iter().filter_map(|(folder, frames)| clip(root, folder, frames)).collect()
}

fn clip(root: &Path, key: String, mut frames: Vec<SourceSample>) -> Option<SourceSample> {
    frames.sort_by(|a, b| natural(&a.key, &b.key));
    let bytes = frames.iter().fold(0_u64, |sum, frame| sum.saturating_add(frame.bytes));
    let (first, mtime_ns) = frames.first().map(|first| (first.content.clone(), first.mtime_ns))?;
    let file =
        |frame: SourceSample| SideFile { path: root.join(&frame.key), bytes: frame.bytes, mtime_ns: frame.mtime_ns };
    let mut clip = SourceSample::new(SourceFile { key, bytes, mtime_ns }, first, None);
    clip.frames = frames.into_iter().map(file).collect();
    Some(clip)
}

/// Compares names in natural order, with `frame2` before `frame10`. Leading zeros only matter for names that
/// are otherwise equal.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut left, mut right) = (a, b);
    while let (Some(x), Some(y)) = (left.chars().next(), right.chars().next()) {
        let order = if x.is_ascii_digit() && y.is_ascii_digit() {
            let (m, after_m) = digits(left);
            let (n, after_n) = digits(right);
            (left, right) = (after_m, after_n);
            m.len().cmp(&n.len()).then_with(|| m.cmp(n))
        } else {
            left = left.get(x.len_utf8()..).unwrap_or_default();
            right = right.get(y.len_utf8()..).unwrap_or_default();
            x.cmp(&y)
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    left.len().cmp(&right.len()).then_with(|| a.cmp(b))
}

/// Splits off the leading number, without its leading zeros.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    (number.trim_start_matches('0'), rest)
}

#[cfg(test)]
mod tests {
    use super::natural;
    use crate::testing::{Jpeg, put};
    use crate::{OnBadInput, SourceError, SourceOptions, enumerate};

    #[test]
    fn frames_are_in_the_order_in_which_people_count() {
        let mut names = ["f10", "f9", "f2b", "f2a", "f02", "f1", "g", "f2", "f", "é1", "f99999999999999999999999"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["f", "f1", "f02", "f2", "f2a", "f2b", "f9", "f10", "f99999999999999999999999", "g", "é1"]);
    }

    #[test]
    fn each_folder_of_pictures_is_a_sample() {
        let root = tempfile::tempdir().unwrap();
        for (clip, frames) in [("run/a", 3), ("run/b", 12), ("walk/a", 1)] {
            for frame in 0..frames {
                put(root.path(), &format!("{clip}/{frame}.jpg"), Jpeg::default().bytes());
            }
        }
        put(root.path(), "run/a/notes.txt", b"hello");
        let options = SourceOptions { clips: true, ..SourceOptions::default() };
        let listing = enumerate(root.path(), &options).unwrap();
        let found: Vec<_> = listing.samples.iter().map(|entry| (entry.key.as_str(), entry.frames.len())).collect();
        assert_eq!(found, [("run/a", 3), ("run/b", 12), ("walk/a", 1)]);
        assert_eq!(listing.classes, ["run", "walk"]);
        let last = &listing.samples[1].frames[11];
        assert!(last.path.ends_with("run/b/11.jpg"));
        assert_eq!(listing.samples[1].source_bytes(), 12 * last.bytes);

        // A damaged frame excludes its clip. A file outside the clip folders becomes bad input.
        put(root.path(), "run/b/12.jpg", b"\xff\xd8\xff");
        put(root.path(), "beside.jpg", Jpeg::default().bytes());
        let Err(SourceError::BadInputs(bad)) = enumerate(root.path(), &options) else { panic!("two files are bad") };
        let keys: Vec<_> = bad.list.iter().map(|bad| bad.key.as_str()).collect();
        assert_eq!(keys, ["beside.jpg", "run/b", "run/b/12.jpg"]);
        let skip = SourceOptions { on_bad_input: OnBadInput::Skip, ..options };
        let listing = enumerate(root.path(), &skip).unwrap();
        assert_eq!(listing.samples.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>(), ["run/a", "walk/a"]);
    }
}
