//! Tests hostile file names and sample keys (cases N).

use super::assert_format;
use crate::support::{self, OnDisk, error_kind};
use shardpack_format::*;
use shardpack_reader::{Dataset, DatasetOptions, Error, VerifyOptions, verify};

fn manifest_with_name(disk: &OnDisk, name: &str) -> Result<Dataset, Error> {
    let text = String::from_utf8(disk.manifest.encode().unwrap()).unwrap();
    let quoted = serde_json::to_string(name).unwrap();
    let text = text.replacen("\"shard-00000.shard\"", &quoted, 1);
    std::fs::write(disk.path().join("manifest.json"), text).unwrap();
    Dataset::open(disk.path())
}

#[test]
fn n01_absolute_names() {
    let disk = OnDisk::new(&[2]);
    for name in ["/etc/passwd", "C:\\x", "\\\\host\\share", "//x", "/shard-00000.shard"] {
        assert!(assert_format(manifest_with_name(&disk, name), name).contains("shard name"));
    }
}

#[test]
fn n02_names_that_leave_the_folder() {
    let disk = OnDisk::new(&[2]);
    for name in ["../x", "a/../../x", "./x", "a//b", "a/", "", "..", ".", "a/b/c", "a/.."] {
        assert!(assert_format(manifest_with_name(&disk, name), name).contains("shard name"));
    }
    manifest_with_name(&disk, "shard-00000.shard").unwrap().get(0).unwrap();
}

#[test]
fn n04_symlinks() {
    let disk = OnDisk::new(&[2, 2]);
    let outside = support::scratch();
    let target = outside.path().join("shard");
    std::fs::rename(disk.shard_path(1), &target).unwrap();
    std::os::unix::fs::symlink(&target, disk.shard_path(1)).unwrap();
    let read = |options: DatasetOptions| options.open(disk.path()).unwrap().get(3);
    assert_eq!(error_kind(&read(DatasetOptions::new())), Some(ErrorKind::Usage));
    assert!(!verify(disk.path(), &VerifyOptions::default()).unwrap().is_whole());
    read(DatasetOptions::new().follow_symlinks(true)).unwrap();
    assert!(verify(disk.path(), &VerifyOptions { follow_symlinks: true, ..Default::default() }).unwrap().is_whole());
    std::fs::remove_file(disk.shard_path(1)).unwrap();
    std::os::unix::fs::symlink(disk.shard_path(1), disk.shard_path(1)).unwrap();
    assert!(read(DatasetOptions::new()).is_err());
    assert!(matches!(read(DatasetOptions::new().follow_symlinks(true)), Err(Error::Io { .. })));
    let mut manifest = disk.manifest.clone();
    manifest.shards[1].name = "more/x.shard".into();
    disk.write_manifest(&manifest);
    std::fs::rename(&target, outside.path().join("x.shard")).unwrap();
    std::os::unix::fs::symlink(outside.path(), disk.path().join("more")).unwrap();
    assert_eq!(error_kind(&read(DatasetOptions::new())), Some(ErrorKind::Usage));
    std::fs::remove_file(disk.path().join("more")).unwrap();
    std::fs::create_dir(disk.path().join("more")).unwrap();
    std::fs::hard_link(outside.path().join("x.shard"), disk.path().join("more/x.shard")).unwrap();
    read(DatasetOptions::new()).unwrap();
    // The dataset's own folder may be a symlink, because the user named it.
    let link = outside.path().join("link");
    std::os::unix::fs::symlink(disk.path(), &link).unwrap();
    Dataset::open(&link).unwrap().get(3).unwrap();
}

#[test]
fn n07_keys_twice_and_keys_unknown() {
    let disk = OnDisk::new(&[2]);
    let text = String::from_utf8(disk.manifest.encode().unwrap()).unwrap();
    let twice = [
        text.replacen("\"samples\": 2", "\"samples\": 2, \"samples\": 2", 1),
        text.replacen("\"name\"", "\"name\": \"x.shard\", \"name\"", 1),
        text.replacen("\"seed\": 1", "\"seed\": 1, \"seed\": 1", 1),
        text.replacen("\"samples\": 2", "\"samples\": 2, \"shardz\": 2", 1),
        text.replacen("\"name\": ", "\"x\": 1, \"name\": ", 1),
        text.clone() + "{}",
        "\u{feff}".to_owned() + &text,
    ];
    for bad in twice {
        assert_ne!(bad, text);
        std::fs::write(disk.path().join("manifest.json"), &bad).unwrap();
        let error = assert_format(Dataset::open(disk.path()), &bad);
        assert!(error.contains("manifest.json"), "{error}");
        let report = verify(disk.path(), &VerifyOptions::default()).unwrap();
        assert_eq!((report.problems.len(), report.samples), (1, 2));
    }
}
