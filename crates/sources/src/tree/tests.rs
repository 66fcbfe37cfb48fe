use super::*;
use crate::files::Files;
use crate::testing::put;
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::time::UNIX_EPOCH;

fn keys(tree: &Tree) -> Vec<&str> {
    tree.files.iter().map(|file| file.key.as_str()).collect()
}

fn bad(tree: &Tree) -> Vec<(&str, BadKind)> {
    tree.bad.iter().map(|bad| (bad.key.as_str(), bad.kind)).collect()
}

fn list(root: &Path) -> Tree {
    walk(root, &[], &Files::default(), Follow::Inside, Cancel::default()).unwrap()
}

#[test]
fn sorts_by_bytes_across_folders() {
    let root = tempfile::tempdir().unwrap();
    for key in ["b/1", "a/x", "a.jpg", "a/b/c", "ä", "Z", "a b"] {
        put(root.path(), key, "x");
    }
    let tree = list(root.path());
    assert_eq!(keys(&tree), ["Z", "a b", "a.jpg", "a/b/c", "a/x", "b/1", "ä"]);
    assert_eq!(tree.folders, ["a", "b"]);
    assert_eq!((tree.bad.len(), tree.ignored), (0, 0));
}

#[test]
fn one_thread_and_seven_agree() {
    let root = tempfile::tempdir().unwrap();
    for i in 0..500 {
        put(root.path(), &format!("{}/{}/{i}", i % 7, i % 3), "x");
    }
    let on = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| list(root.path()).files)
    };
    assert_eq!(on(1).len(), 500);
    assert_eq!(on(1), on(7));
}

#[test]
fn records_size_and_time() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "a", "12345");
    let time = UNIX_EPOCH + std::time::Duration::new(1_234_567_890, 123_456_789);
    fs::File::options().write(true).open(root.path().join("a")).unwrap().set_modified(time).unwrap();
    let file = &list(root.path()).files[0];
    assert_eq!((file.bytes, file.mtime_ns), (5, 1_234_567_890_123_456_789));
}

#[test]
fn ignores_and_counts_hidden_files_and_rubbish() {
    let root = tempfile::tempdir().unwrap();
    for key in ["a", ".hidden", ".git/config", ".git/HEAD", "b/.DS_Store", "b/Thumbs.db", "__MACOSX/x", "b/c"] {
        put(root.path(), key, "x");
    }
    let tree = list(root.path());
    assert_eq!(keys(&tree), ["a", "b/c"]);
    assert_eq!(tree.ignored, 5);
}

#[test]
fn hidden_files_that_could_be_samples_are_counted() {
    let root = tempfile::tempdir().unwrap();
    let keys = [".a.npz", ".b.H5", ".c.hdf5", ".d.nc", ".e.img", ".f.dat", ".g/h.mat", ".i.txt", "._j.npz", "k.npz"];
    keys.iter().for_each(|key| put(root.path(), key, "x"));
    let hidden = list(root.path()).hidden;
    assert_eq!((hidden.count, hidden.first.as_deref(), hidden.is_at_least), (7, Some(".a.npz"), false));
    (0..=MAX_HIDDEN).for_each(|n| put(root.path(), &format!(".many/{n}.npz"), "x"));
    let hidden = list(root.path()).hidden;
    assert_eq!((hidden.count, hidden.is_at_least), (7 + MAX_HIDDEN as u64, true));
    let note = crate::notes::hidden(&hidden).unwrap().told(shardpack_format::Voice::Command);
    assert!(note.starts_with("at least 10007 hidden files that could be samples are ignored"), "{note}");
}

#[test]
fn refuses_pipes_sockets_and_bad_names() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "empty", "");
    let _listener = std::os::unix::net::UnixListener::bind(root.path().join("socket")).unwrap();
    make_fifo(&root.path().join("pipe"));
    put(root.path(), &"x".repeat(200), "x");
    fs::write(root.path().join(OsStr::from_bytes(b"caf\xe9")), "x").unwrap();
    fs::create_dir(root.path().join(OsStr::from_bytes(b"\xff"))).unwrap();
    let tree = list(root.path());
    assert_eq!(tree.files.len(), 1);
    assert_eq!(
        bad(&tree),
        [
            (r"\xff", BadKind::Name),
            (r"caf\xe9", BadKind::Name),
            ("empty", BadKind::Empty),
            ("pipe", BadKind::Special),
            ("socket", BadKind::Special)
        ]
    );
    // A pipe given as the source must not be opened, because that would wait for a writer.
    assert!(matches!(
        walk(&root.path().join("pipe"), &[], &Files::default(), Follow::Inside, Cancel::default()),
        Err(SourceError::NotASource { .. })
    ));
    assert!(matches!(
        walk(&root.path().join("nowhere"), &[], &Files::default(), Follow::Inside, Cancel::default()),
        Err(SourceError::Io { .. })
    ));
}

fn make_fifo(path: &Path) {
    let name = CString::new(path.as_os_str().as_bytes()).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(OsStr::from_bytes(name.as_bytes())).status().unwrap().success());
}

#[test]
fn follows_links_inside_the_source_only() {
    let outside = tempfile::tempdir().unwrap();
    put(outside.path(), "secret", "x");
    put(outside.path(), "d/secret", "x");
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "a/1", "one");
    put(root.path(), "b/2", "x");
    symlink("a/1", root.path().join("to_file")).unwrap();
    symlink("../a", root.path().join("b/to_folder")).unwrap();
    symlink(root.path().join("a"), root.path().join("absolute")).unwrap();
    symlink("to_file", root.path().join("chain")).unwrap();
    symlink(outside.path().join("secret"), root.path().join("out_file")).unwrap();
    symlink(outside.path().join("d"), root.path().join("out_folder")).unwrap();
    symlink("nowhere", root.path().join("dangling")).unwrap();
    let tree = list(root.path());
    assert_eq!(keys(&tree), ["a/1", "absolute/1", "b/2", "b/to_folder/1", "chain", "to_file"]);
    assert_eq!(tree.files[4].bytes, 3, "the target's size, not the link's");
    assert_eq!(tree.folders, ["a", "absolute", "b"]);
    assert_eq!(bad(&tree), [("dangling", BadKind::Link), ("out_file", BadKind::Link), ("out_folder", BadKind::Link)]);
}

#[test]
fn links_out_of_the_source_are_followed_on_request() {
    let outside = tempfile::tempdir().unwrap();
    put(outside.path(), "x/1", "one");
    put(outside.path(), "y/2", "x");
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "a/0", "x");
    symlink(outside.path().join("x/1"), root.path().join("a/file")).unwrap();
    symlink(outside.path().join("y"), root.path().join("folder")).unwrap();
    symlink("a/0", root.path().join("inside")).unwrap();
    // These links are circular. One leads to the parent of the source, one leads from there back into the
    // source, and others lead from folder to folder outside.
    symlink(outside.path().parent().unwrap(), root.path().join("above")).unwrap();
    symlink(root.path(), outside.path().join("y/back")).unwrap();
    symlink(outside.path().join("x"), outside.path().join("y/x")).unwrap();
    symlink(outside.path().join("y"), outside.path().join("x/y")).unwrap();
    let all = |exclude: &[&Path]| {
        walk(root.path(), exclude, &Files::default(), Follow::Everywhere, Cancel::default()).unwrap()
    };
    let tree = all(&[]);
    assert_eq!(keys(&tree), ["a/0", "a/file", "folder/2", "folder/x/1", "inside"]);
    assert_eq!(tree.followed, ["a/file", "folder", "folder/x"]);
    assert_eq!(tree.folders, ["a", "folder"]);
    let circles = [("above", BadKind::Link), ("folder/back", BadKind::Link), ("folder/x/y", BadKind::Link)];
    assert_eq!(bad(&tree), circles);
    assert!(tree.bad[0].detail.starts_with("the link points to a folder that contains it: "), "{:?}", tree.bad);
    assert_eq!(keys(&all(&[&outside.path().join("y")])), ["a/0", "a/file", "inside"]);
    assert!(list(root.path()).bad[0].hint.as_ref().is_some_and(|hint| hint.options().eq(["follow_links"])));
}

#[test]
fn a_source_that_is_a_link_is_its_target() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "real/a", "x");
    symlink("real", root.path().join("link")).unwrap();
    assert_eq!(keys(&list(&root.path().join("link"))), ["a"]);
}

#[test]
fn circles_of_links_end() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "a/1", "x");
    put(root.path(), "b/2", "x");
    symlink(".", root.path().join("self")).unwrap();
    symlink("loop", root.path().join("loop")).unwrap();
    symlink("..", root.path().join("a/up")).unwrap();
    // Each of two folders that link to each other is entered once through the other.
    symlink("../b", root.path().join("a/x")).unwrap();
    symlink("../a", root.path().join("b/y")).unwrap();
    let tree = list(root.path());
    assert_eq!(keys(&tree), ["a/1", "a/x/2", "b/2", "b/y/1"]);
    let links: Vec<_> = bad(&tree).into_iter().map(|(key, _)| key).collect();
    assert_eq!(links, ["a/up", "a/x/y", "b/y/up", "b/y/x", "loop", "self"]);
    assert!(tree.bad.iter().all(|bad| bad.kind == BadKind::Link));
}

#[test]
fn a_web_of_links_ends() {
    let root = tempfile::tempdir().unwrap();
    for i in 0..12 {
        put(root.path(), &format!("{i}/file"), "x");
        for j in 0..12 {
            symlink(format!("../{j}"), root.path().join(format!("{i}/to{j}"))).unwrap();
        }
    }
    let error = walk(root.path(), &[], &Files::default(), Follow::Inside, Cancel::default()).unwrap_err();
    assert!(error.to_string().contains("more than 100 symbolic links lead to this folder"), "{error}");
}

#[test]
fn links_to_many_folders_end() {
    let root = tempfile::tempdir().unwrap();
    for i in 0..660 {
        fs::create_dir_all(root.path().join(format!("data/{i}"))).unwrap();
    }
    for i in 0..100 {
        symlink("data", root.path().join(format!("view{i}"))).unwrap();
    }
    let error = walk(root.path(), &[], &Files::default(), Follow::Inside, Cancel::default()).unwrap_err();
    assert!(error.to_string().contains("more than 65,536 folders"), "{error}");
}

#[test]
fn a_folder_that_many_links_lead_to() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "data/inner/1", "x");
    for i in 0..100 {
        symlink("data", root.path().join(format!("view{i}"))).unwrap();
    }
    assert_eq!(list(root.path()).files.len(), 101);
    symlink("data", root.path().join("view100")).unwrap();
    let error = walk(root.path(), &[], &Files::default(), Follow::Inside, Cancel::default()).unwrap_err().to_string();
    assert!(error.contains("data`: more than 100 symbolic links lead to this folder"), "{error}");
}

#[test]
fn excluded_paths_are_left_out_uncounted() {
    let root = tempfile::tempdir().unwrap();
    for key in ["a", "out/shard", "deep/out/x", "deep/labels.csv", "deep/b"] {
        put(root.path(), key, "x");
    }
    symlink("out", root.path().join("to_out")).unwrap();
    symlink("out/shard", root.path().join("to_shard")).unwrap();
    let at = |path: &str| root.path().join(path);
    let tree = walk(
        root.path(),
        &[&at("out"), &at("deep/labels.csv"), &at("not/there")],
        &Files::default(),
        Follow::Inside,
        Cancel::default(),
    )
    .unwrap();
    assert_eq!(keys(&tree), ["a", "deep/b", "deep/out/x"]);
    assert_eq!((tree.folders, tree.bad.len(), tree.ignored), (vec!["deep".to_owned()], 0, 0));
}

#[test]
fn a_single_file_is_a_source() {
    let root = tempfile::tempdir().unwrap();
    put(root.path(), "d/a.jpg", "xy");
    symlink("d/a.jpg", root.path().join("link.jpg")).unwrap();
    let tree = list(&root.path().join("d/a.jpg"));
    assert_eq!((keys(&tree), tree.files[0].bytes), (vec!["a.jpg"], 2));
    assert_eq!(tree.root, fs::canonicalize(root.path().join("d")).unwrap());
    let tree = list(&root.path().join("link.jpg"));
    assert_eq!(keys(&tree), ["link.jpg"]);
    assert!(tree.root.join("link.jpg").is_file());
}

#[test]
fn deep_trees_do_not_overflow() {
    let root = tempfile::tempdir().unwrap();
    let deep = "d/".repeat(1500);
    put(root.path(), &format!("{deep}file"), "x");
    assert_eq!(keys(&list(root.path())), [format!("{deep}file")]);
}
