//! Makes the files in `fixtures/valid` and `fixtures/invalid` and the table `fixtures/expected.txt`, and removes
//! obsolete files.
#![allow(missing_docs, clippy::unwrap_used, clippy::cast_possible_truncation, clippy::print_stdout)]

#[path = "../fixtures/make/mod.rs"]
mod make;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let files = make::files(&make::cases());
    for name in make::on_disk(&root)?.keys().filter(|name| !files.contains_key(*name)) {
        println!("removed {name}");
        std::fs::remove_file(root.join(name))?;
    }
    for (name, bytes) in &files {
        let path = root.join(name);
        if std::fs::read(&path).is_ok_and(|old| old == *bytes) {
            continue;
        }
        println!("written {name}");
        std::fs::create_dir_all(path.parent().unwrap())?;
        std::fs::write(&path, bytes)?;
    }
    println!("{} files, {} bytes", files.len(), files.values().map(Vec::len).sum::<usize>());
    Ok(())
}
