#!/usr/bin/env bash
# Packs, verifies, streams and unpacks a dataset of each kind from a fresh checkout, with one command.
#
#   scripts/demo.sh             builds the command; everything stays under target/demo/
#   scripts/demo.sh COMMAND     uses this command: scripts/demo.sh "$(command -v shardpack)"
#
# If a step fails, the script ends with its exit code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

verdict() { (($1 == 0)) || printf '\ndemo: FAILED (exit code %d)\n' "$1" >&2; }
trap 'verdict $?' EXIT

title() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 ]] || title() { printf '\n== %s ==\n' "$*"; }
# Shows the command as a user would type it, then runs it.
run() { printf '\n$ shardpack %s\n' "$*"; "$shardpack" "$@"; }

scripts/setup.sh --system
# Install Python and its packages in the background, because the build does not need them.
mkdir -p target
scripts/setup.sh >target/setup.log 2>&1 </dev/null &
setup=$!

shardpack=$(realpath -m -- "${1-target/release/shardpack}")
if (($# == 0)); then
  title "Build"
  # Build without object stores, because their libraries take as long to build as all other crates. Also build without
  # link-time optimisation, because it takes some minutes more.
  export CARGO_PROFILE_RELEASE_LTO=${CARGO_PROFILE_RELEASE_LTO-off} CARGO_PROFILE_RELEASE_CODEGEN_UNITS=${CARGO_PROFILE_RELEASE_CODEGEN_UNITS-16}
  cargo build --release --quiet --no-default-features --features cli --bin shardpack
fi
printf 'command: %s, %s\n' "$shardpack" "$("$shardpack" --version)"
wait "$setup" || { cat target/setup.log >&2; exit 2; }

# From here on, work in the demo's own folder, so that commands and messages look like a user's session.
scripts=$PWD/scripts python=$PWD/.venv/bin/python
rm -rf target/demo
mkdir -p target/demo
cd target/demo

title "Make two small datasets"
"$python" "$scripts/make_demo.py" .
du -sh --apparent-size pictures cubes masks

title "Pictures: pack, verify, look, stream, unpack"
run pack pictures pictures-packed --check-pixels all
run verify pictures-packed --deep --digest
run inspect pictures-packed
run bench pictures-packed
run pack pictures pictures-kept --jpeg keep
run unpack pictures-kept pictures-unpacked
diff -r pictures pictures-unpacked
echo "diff -r: no difference between the sources and what came back"

title "Cubes: pack, verify, look, stream, unpack"
run pack cubes cubes-packed --masks masks
run verify cubes-packed --deep --digest
run inspect cubes-packed
run bench cubes-packed
run unpack cubes-packed cubes-unpacked
"$python" "$scripts/compare_cubes.py" truth cubes-unpacked cubes-packed

title "On disk"
du -sh --apparent-size pictures pictures-packed cubes masks cubes-packed
printf '\ndemo: passed\n'
