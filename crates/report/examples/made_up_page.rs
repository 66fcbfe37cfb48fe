//! Prints a page with made-up numbers: `cargo run -p shardpack-report --example made_up_page -- cubes`.
//! Possible arguments are `pictures`, `cubes`, `dataset`, `hostile` and `one`.
#![allow(missing_docs, clippy::print_stdout)]

#[path = "../tests/report/made_up/mod.rs"]
mod made_up;

fn main() {
    let report = match std::env::args().nth(1).as_deref() {
        Some("cubes") => made_up::cubes(),
        Some("dataset") => made_up::dataset(),
        Some("hostile") => made_up::hostile(),
        Some("one") => made_up::equal(1),
        _ => made_up::pictures(),
    };
    println!("{}", shardpack_report::page(&report));
}
