use super::super::enumerate;
use super::super::testing::said;
use super::*;
use std::fmt::Write as _;

/// Creates four small arrays with masks, a label table with one column of each type, and a bad file.
fn source(folder: &Path) -> SourceOptions {
    let src = folder.join("src");
    fs::create_dir_all(&src).unwrap();
    let mut table = "key,label,flag,age,weight,note\n".to_owned();
    for (number, weight) in ["1.5", "nan", "0.1", "-inf"].iter().enumerate() {
        let mut npy = b"\x93NUMPY\x01\0v\0{'descr': '<i2', 'fortran_order': False, 'shape': (2, 3, 4), }".to_vec();
        npy.resize(127, b' ');
        npy.push(b'\n');
        npy.resize(128 + 48, u8::try_from(number).unwrap());
        fs::write(src.join(format!("{number}.npy")), npy).unwrap();
        writeln!(table, "{number}.npy,c{},{},{number},{weight},\"a, {number}\"", number % 2, number > 1).unwrap();
    }
    fs::write(src.join("bad.npy"), b"\x93NUMPY\x01\0").unwrap();
    let labels = folder.join("labels.csv");
    fs::write(&labels, table).unwrap();
    SourceOptions { labels: Some(labels), on_bad_input: OnBadInput::Skip, ..SourceOptions::default() }
}

#[test]
fn a_listing_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let options = source(folder.path());
    let (src, file) = (folder.path().join("src"), folder.path().join("listing"));
    let listing = enumerate(&src, &options).unwrap();
    assert_eq!((listing.samples.len(), listing.bad.len(), listing.columns.len()), (4, 1, 4));
    write(&listing, &options, &file).unwrap();
    let read = enumerate(&src, &SourceOptions { listing: Some(file.clone()), ..options.clone() }).unwrap();
    // NaN does not equal itself, so compare the debug output.
    assert_eq!(format!("{read:?}"), format!("{listing:?}"));
    // An existing file is only replaced if it is a listing.
    write(&listing, &options, &file).unwrap();
    fs::write(&file, "my own notes, which are long enough").unwrap();
    let error = write(&listing, &options, &file).unwrap_err().to_string();
    assert!(error.contains("the file exists and is not a listing"), "{error}");
}

#[test]
fn a_listing_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = source(folder.path());
    let (src, file) = (folder.path().join("src"), folder.path().join("listing"));
    write(&enumerate(&src, &options).unwrap(), &options, &file).unwrap();
    let error = |src: &Path, options: SourceOptions| said(&read(&file, src, &options).unwrap_err());
    let stop = SourceOptions { on_bad_input: OnBadInput::Stop, ..options.clone() };
    assert!(
        error(&src, stop)
            .contains("the option `on_bad_input` was \"skip\" for the listing, but is \"stop\" now\nhint: ")
    );
    let kind = SourceOptions { kind: Some(SourceKind::Cubes), ..options.clone() };
    assert!(error(&src, kind).contains("the option `kind` was not set for the listing, but is \"Cubes\" now"));
    let other = tempfile::tempdir().unwrap();
    assert!(error(other.path(), options.clone()).contains("this is a listing of "));
    fs::write(options.labels.as_ref().unwrap(), "key,label\n0.npy,a\n").unwrap();
    assert!(error(&src, options).contains("the label table is not the same as for the listing: it had "));
}

#[test]
fn a_column_of_fewer_values_than_samples_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = source(folder.path());
    let (src, file) = (folder.path().join("src"), folder.path().join("listing"));
    let whole = enumerate(&src, &options).unwrap();
    for column in 0..whole.columns.len() {
        let mut listing = whole.clone();
        listing.columns[column].values = listing.columns[column].values.permuted(&[0, 1, 2]);
        write(&listing, &options, &file).unwrap();
        let error = read(&file, &src, &options).unwrap_err().to_string();
        assert!(error.contains("the file is damaged: the column `"), "{error}");
    }
}

#[test]
fn a_listing_that_is_cut_or_changed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let options = source(folder.path());
    let (src, file) = (folder.path().join("src"), folder.path().join("listing"));
    write(&enumerate(&src, &options).unwrap(), &options, &file).unwrap();
    let whole = fs::read(&file).unwrap();
    for cut in 0..whole.len() {
        fs::write(&file, &whole[..cut]).unwrap();
        assert!(matches!(read(&file, &src, &options), Err(SourceError::Listing { .. })), "cut at {cut}");
    }
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(&file, changed).unwrap();
        assert!(matches!(read(&file, &src, &options), Err(SourceError::Listing { .. })), "changed at {at}");
    }
}

#[test]
fn a_changed_sample_is_an_error_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let options = source(folder.path());
    let (src, file) = (folder.path().join("src"), folder.path().join("listing"));
    write(&enumerate(&src, &options).unwrap(), &options, &file).unwrap();
    fs::write(src.join("2.npy"), b"shorter").unwrap();
    let listing = read(&file, &src, &options).unwrap();
    let error = listing.check_unchanged(&listing.samples[2]).unwrap_err().to_string();
    assert!(error.contains("2.npy` has changed since it was listed: it had 176 bytes, but now has 7"), "{error}");
}
