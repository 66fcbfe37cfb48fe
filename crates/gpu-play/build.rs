//! Compiles the kernels of `shardpack-gpu` as C++, with `PLAY` defined.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::Path;

fn main() {
    let here = std::env::var("CARGO_MANIFEST_DIR").expect("set by Cargo");
    let here = Path::new(&here);
    let kernels = here.join("../gpu/kernels");
    println!("cargo:rerun-if-changed={}", kernels.display());
    println!("cargo:rerun-if-changed=include");
    println!("cargo:rerun-if-changed=src/play.cpp");
    println!("cargo:rerun-if-changed=src/self_test.cu");
    let mut files: Vec<_> = std::fs::read_dir(&kernels)
        .expect("the kernels of shardpack-gpu")
        .map(|entry| entry.expect("a directory entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cu"))
        .collect();
    files.sort();
    // Kernels register themselves in static constructors. A linker that searches a library for symbols would
    // drop these constructors, so link the whole archive.
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .opt_level(2)
        .define("PLAY", None)
        .include(here.join("include"))
        .include(&kernels)
        .flag("-xc++")
        // As on the device, integers wrap around, and a product is fused into a sum only where the kernel says so.
        .flag("-fwrapv")
        .flag("-ffp-contract=off")
        .flag("-fno-strict-aliasing")
        .flag("-Wno-unused-function")
        .flag("-Wno-unknown-pragmas")
        // Fibers jump between stacks, which the fortified longjmp would report as an error.
        .flag("-U_FORTIFY_SOURCE")
        .link_lib_modifier("+whole-archive")
        .file("src/play.cpp")
        .file("src/self_test.cu")
        .files(files)
        .compile("shardpack_gpu_play");
}
