//! Creates notes for the user about the packed samples. Each type of note occurs at most once per source.

use crate::content::SampleContent;
use crate::cubes::CubeKind;
use crate::listing::SourceSample;
use crate::pictures::Beside;
use crate::tree::HiddenFiles;
use crate::words::{list, plural, verb};
use shardpack_format::{Hint, Note, Setting};

const NAMED: usize = 8;

pub(crate) fn on(samples: &[SourceSample]) -> impl Iterator<Item = Note> {
    let beside = |what| beside_colors(samples, what);
    let notes = [chosen_variables(samples), rare_jpegs(samples), deep_pictures(samples)];
    notes.into_iter().chain([beside(Beside::Alpha), beside(Beside::Band)]).flatten()
}

pub(crate) fn followed(links: &[String]) -> Option<Note> {
    let first = links.first()?;
    let count = links.len() as u64;
    let lead = verb(count, "leads", "lead");
    let (links, first) = (plural(count, "link"), list([first.as_str()], 1));
    Some(format!("followed {links} that {lead} out of the source (first: {first})").into())
}

/// Returns a note on files ignored because their name, or a folder's name, starts with a dot.
pub(crate) fn hidden(found: &HiddenFiles) -> Option<Note> {
    let first = list([found.first.as_deref()?], 1);
    let (files, are) = (plural(found.count, "hidden file"), verb(found.count, "is", "are"));
    let at_least = if found.is_at_least { "at least " } else { "" };
    let note = format!("{at_least}{files} that could be samples {are} ignored (first: {first})");
    Some(Note::new(note).with_hint(
        "remove the leading dot from the names of these files and folders, or pass the hidden folder itself as the \
         source",
    ))
}

/// Returns a note on 16-bit PNGs packed as arrays.
pub(crate) fn as_arrays(samples: &[SourceSample]) -> Option<Note> {
    let is_png =
        |sample: &&SourceSample| matches!(&sample.content, SampleContent::Cube(info) if info.kind == CubeKind::Png);
    let mut pngs = samples.iter().filter(is_png);
    let first = list([pngs.next()?.key.as_str()], 1);
    let count = pngs.count() as u64 + 1;
    let (are, arrays) = (verb(count, "is", "are"), verb(count, "a uint16 array", "uint16 arrays"));
    let note = format!(
        "{} with 16 bits per sample {are} packed as {arrays} [height, width, channels] in the field `cube` (first: \
         {first})",
        plural(count, "PNG picture")
    );
    let hint = Hint::new("pass ")
        .and([Setting::word("kind", "images")])
        .then(" to store the PNG files unchanged; loaders then decode them to 8 bits");
    Some(Note::new(note).with_hint(hint))
}

fn chosen_variables(samples: &[SourceSample]) -> Option<Note> {
    let mut chosen = samples.iter().filter_map(|sample| match &sample.content {
        SampleContent::Cube(info) if !info.others.is_empty() => {
            Some((&sample.key, info.variable.as_deref()?, &info.others))
        }
        _ => None,
    });
    let (key, variable, others) = chosen.next()?;
    let (mut more, mut elsewhere) = (0, None);
    for (_, name, _) in chosen {
        more += 1;
        elsewhere = elsewhere.or((name != variable).then_some(name));
    }
    let mut note =
        format!("packed variable {} of {}; the file also has ", list([variable], 1), list([key.as_str()], 1));
    note += &list(others.iter().map(String::as_str), NAMED);
    if more > 0 {
        note += &format!("; {} also had several variables, of which one was packed", plural(more, "other file"));
    }
    if let Some(name) = elsewhere {
        note += &format!(" (in at least one file {} instead of {})", list([name], 1), list([variable], 1));
    }
    let hint = Hint::new("pass ").and([Setting::any("variable", "NAME")]).then(" to select another variable");
    Some(Note::new(note).with_hint(hint))
}

fn rare_jpegs(samples: &[SourceSample]) -> Option<Note> {
    let mut rare = samples.iter().filter_map(|sample| match &sample.content {
        SampleContent::Picture(picture) => Some((&sample.key, picture.jpeg?.rare?)),
        SampleContent::Cube(_) => None,
    });
    let (key, what) = rare.next()?;
    let count = rare.count() as u64 + 1;
    let (pictures, are) = (plural(count, "picture"), verb(count, "is", "are"));
    let first = list([key.as_str()], 1);
    Some(format!("{pictures} that few decoders can read {are} stored unchanged (first: {first}, {what})").into())
}

/// Returns the pictures with more than 8 bits per sample. Loaders decode them to 8 bits.
pub fn deep(samples: &[SourceSample]) -> impl Iterator<Item = &SourceSample> {
    samples.iter().filter(|sample| matches!(&sample.content, SampleContent::Picture(picture) if picture.deep))
}

fn deep_pictures(samples: &[SourceSample]) -> Option<Note> {
    let mut found = deep(samples);
    let first = list([found.next()?.key.as_str()], 1);
    let count = found.count() as u64 + 1;
    let (pictures, have, are) = (plural(count, "picture"), verb(count, "has", "have"), verb(count, "is", "are"));
    let note = format!(
        "{pictures} {have} more than 8 bits per channel and {are} stored unchanged, but decoded to 8 bits \
         (first: {first})"
    );
    let hint = Hint::new("to load all bits, pack these pictures separately, as arrays, with ");
    let hint = hint.and([Setting::word("kind", "cubes")]);
    Some(Note::new(note).with_hint(hint))
}

fn beside_colors(samples: &[SourceSample], what: Beside) -> Option<Note> {
    let has = |sample: &&SourceSample| matches!(&sample.content, SampleContent::Picture(picture) if picture.beside == Some(what));
    let mut found = samples.iter().filter(has);
    let of = found.next()?;
    let first = list([of.key.as_str()], 1);
    let count = found.count() as u64 + 1;
    let (pictures, have, are) = (plural(count, "picture"), verb(count, "has", "have"), verb(count, "is", "are"));
    let files = verb(count, "the file", "the files");
    let (what, it) = match what {
        Beside::Alpha => ("an alpha channel", "the channel"),
        Beside::Band => ("a band besides red, green and blue", "the band"),
    };
    let note =
        format!("{pictures} {have} {what}: {files} {are} stored unchanged, but loaders drop {it} (first: {first})");
    let hint = Hint::new("pass ").and([Setting::word("kind", "cubes")]).then(" to pack TIFFs as arrays with all bands");
    let is_tiff = matches!(&of.content, SampleContent::Picture(picture) if picture.media_type == "image/tiff");
    Some(if is_tiff { Note::new(note).with_hint(hint) } else { Note::new(note) })
}

#[cfg(test)]
mod tests {
    use crate::testing::{Jpeg, npy_of, npz, put, told as notes_of};
    use crate::{SampleContent, SourceOptions, cubes, enumerate};

    #[test]
    fn a_choice_between_arrays_gets_one_note() {
        let root = tempfile::tempdir().unwrap();
        let notes = |options: &SourceOptions| notes_of(&enumerate(root.path(), options).unwrap());
        // Vectors and scalars are not alternatives to the chosen array.
        let beside = [("wl", npy_of(&[3])), ("n", npy_of(&[1, 1]))];
        put(root.path(), "0.npz", npz(&[&[("x", npy_of(&[2, 2, 3]))][..], &beside].concat()));
        assert_eq!(notes(&SourceOptions::default()), [""; 0]);
        put(root.path(), "a.npz", npz(&[("x", npy_of(&[2, 2, 3])), ("gt", npy_of(&[2, 2])), ("Y", npy_of(&[3, 4]))]));
        let told = "packed variable `x` of `a.npz`; the file also has `gt`, `Y`";
        let hint = "\nhint: pass `--variable NAME` to select another variable";
        assert_eq!(notes(&SourceOptions::default()), [format!("{told}{hint}")]);
        put(root.path(), "b.npz", npz(&[("z", npy_of(&[2, 2, 3])), ("gt", npy_of(&[2, 2]))]));
        let more = "; 1 other file also had several variables, of which one was packed (in at least one file `z` \
                    instead of `x`)";
        let listing = enumerate(root.path(), &SourceOptions::default()).unwrap();
        assert_eq!(notes_of(&listing), [format!("{told}{more}{hint}")]);
        // The name of the chosen array is stored with the sample.
        let SampleContent::Cube(info) = &listing.samples[2].content else { panic!() };
        assert_eq!(info.variable.as_deref(), Some("z"));
        let loaded = cubes::load(&listing.path(&listing.samples[2]), &Default::default()).unwrap();
        assert_eq!(loaded.meta.get("variable"), Some(&"z".into()));
        // The user named the array, so there is no note.
        std::fs::remove_file(root.path().join("b.npz")).unwrap();
        let named = cubes::CubeOptions { variable: vec!["x".into()], ..Default::default() };
        assert_eq!(notes(&SourceOptions { cubes: named, ..Default::default() }), [""; 0]);
    }

    #[test]
    fn pictures_of_more_than_8_bits_are_counted() {
        let root = tempfile::tempdir().unwrap();
        let mut shallow = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0".to_vec();
        shallow.extend(b"CRC.\0\0\0\0IEND\xae\x42\x60\x82");
        let mut deep = shallow.clone();
        deep[24] = 16;
        put(root.path(), "a.png", shallow);
        let listing = || enumerate(root.path(), &SourceOptions::default()).unwrap();
        assert_eq!((listing().notes.len(), super::deep(&listing().samples).count()), (0, 0));
        put(root.path(), "b.png", deep.clone());
        put(root.path(), "c.png", deep);
        let told = "2 pictures have more than 8 bits per channel and are stored unchanged, but decoded to 8 bits \
                    (first: `b.png`)\nhint: ";
        assert!(notes_of(&listing())[0].starts_with(told), "{:?}", listing().notes);
        assert_eq!(super::deep(&listing().samples).count(), 2);
    }

    #[test]
    fn rare_jpegs_get_a_note() {
        let root = tempfile::tempdir().unwrap();
        put(root.path(), "a.jpg", Jpeg::default().bytes());
        put(root.path(), "b.jpg", Jpeg { sof: 3, ..Jpeg::default() }.bytes());
        let notes = || notes_of(&enumerate(root.path(), &SourceOptions::default()).unwrap());
        assert_eq!(
            notes(),
            ["1 picture that few decoders can read is stored unchanged (first: `b.jpg`, lossless JPEG)"]
        );
        put(root.path(), "c.jpg", Jpeg { sof: 9, ..Jpeg::default() }.bytes());
        assert_eq!(
            notes(),
            ["2 pictures that few decoders can read are stored unchanged (first: `b.jpg`, lossless JPEG)"]
        );
    }
}
