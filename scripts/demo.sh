#!/usr/bin/env bash
# From a fresh checkout to a packed, verified, streamed and unpacked dataset of each kind, in one command.
#
#   scripts/demo.sh        everything stays under target/demo/
#
# Fails loudly: the first step that does not do what it says ends the run with its exit code.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

verdict() { (($1 == 0)) || printf '\ndemo: FAILED (exit code %d)\n' "$1" >&2; }
trap 'verdict $?' EXIT

title() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[[ -t 1 ]] || title() { printf '\n== %s ==\n' "$*"; }
# Show the command as a user would type it, then run it.
run() { printf '$ shardpack %s\n' "${*/#$demo\//}"; "$shardpack" "$@"; }

scripts/setup.sh
title "Build"
cargo build --release --quiet --bin shardpack
shardpack=$PWD/target/release/shardpack
printf 'built: target/release/shardpack, %s\n' "$("$shardpack" --version)"

demo=$PWD/target/demo
rm -rf "$demo"
title "Make two small datasets"
.venv/bin/python scripts/make_demo.py "$demo"
(cd "$demo" && du -sh --apparent-size pictures cubes masks)

title "Pictures: pack, verify, look, stream, unpack"
run pack "$demo/pictures" "$demo/pictures-packed"
run verify "$demo/pictures-packed" --deep --digest
run inspect "$demo/pictures-packed"
run bench "$demo/pictures-packed"
run unpack "$demo/pictures-packed" "$demo/pictures-unpacked"
diff -r "$demo/pictures" "$demo/pictures-unpacked"
echo "diff -r: no difference between the sources and what came back"

title "Cubes: pack, verify, look, stream, unpack"
run pack "$demo/cubes" "$demo/cubes-packed" --masks "$demo/masks"
run verify "$demo/cubes-packed" --deep --digest
run inspect "$demo/cubes-packed"
run bench "$demo/cubes-packed"
run unpack "$demo/cubes-packed" "$demo/cubes-unpacked"
.venv/bin/python scripts/compare_cubes.py "$demo/truth" "$demo/cubes-unpacked" "$demo/cubes-packed"

title "On disk"
(cd "$demo" && du -sh --apparent-size pictures pictures-packed cubes masks cubes-packed)
printf '\ndemo: passed\n'
