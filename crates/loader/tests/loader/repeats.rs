//! Repeats tests of this program in child processes, where loaders decode on a stage, read records in parts,
//! or both. The batches must stay the same.
#![allow(clippy::unwrap_used, clippy::panic)]

use crate::loader_support::{WAY, Way};
use std::process::Command;

const EVERYWHERE: [&str; 9] =
    ["basics", "dtypes", "hanging", "patches", "resume", "several", "slots", "trouble", "union"];

fn repeat(way: Way, more: &[&str]) {
    if std::env::var_os(WAY).is_some() {
        return;
    }
    let modules: Vec<_> = EVERYWHERE.iter().chain(more).map(|module| format!("{module}::")).collect();
    // A filter also finds modules whose name ends with it. Orders do not depend on the way.
    let mut child = Command::new(std::env::current_exe().unwrap());
    let child = child.args(&modules).args(["--skip", "order_"]).env(WAY, way.name()).output().unwrap();
    let out = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{way:?}:\n{out}\n{}", String::from_utf8_lossy(&child.stderr));
    let passed =
        |module: &String| out.lines().any(|line| line.starts_with(&format!("test {module}")) && line.ends_with("ok"));
    assert!(modules.iter().all(passed), "{way:?}: a module without a test:\n{out}");
}

#[test]
fn on_a_stage() {
    let more = [
        "aligned",
        "aligned_refused",
        "epochs",
        "finish",
        "mixing",
        "no_data",
        "pictures",
        "reads",
        "scenes",
        "volumes",
    ];
    repeat(Way::Staged, &more);
}

#[test]
fn in_parts() {
    repeat(Way::InParts, &["finish", "no_data"]);
}

#[test]
fn in_parts_on_a_stage() {
    repeat(Way::StagedInParts, &[]);
}
