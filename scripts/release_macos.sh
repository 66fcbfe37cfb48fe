#!/usr/bin/env bash
# Build the wheel and the command for macOS on Apple silicon, on such a machine, and try both there. Nothing is
# uploaded. Batches are in host memory, because there is no GPU stage on macOS.
#
#   scripts/release_macos.sh         into target/release-VERSION
#
# Needs Rust, CMake, Python 3.11 and the compilers of Xcode. Only the release workflow has run this so far.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/environment.sh

say() { printf 'release: %s\n' "$*"; }
fail() { printf 'release: %s\n' "$1" >&2; shift; (($# == 0)) || printf '%s\n' "$@" >&2; exit 2; }
[[ $(uname -s)-$(uname -m) == Darwin-arm64 ]] || fail "expected macOS on arm64, found: $(uname -s) on $(uname -m)"
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
dist=$PWD/target/release-$version work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$dist"

python3 -m venv "$work/tools"
"$work/tools/bin/python" -m pip install --quiet -r scripts/requirements.txt "$(grep '^maturin==' scripts/requirements-release.txt)"
export MACOSX_DEPLOYMENT_TARGET=11.0 CARGO_PROFILE_RELEASE_STRIP=symbols
"$work/tools/bin/maturin" build --quiet --manifest-path python/Cargo.toml --release --locked --out "$dist"
cargo build --quiet --release --locked --package shardpack --features hdf5 --bin shardpack

name=shardpack-$version-arm64-macos
mkdir "$work/$name"
cp target/release/shardpack README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE python/LICENSE-THIRD-PARTY "$work/$name/"
tar -czf "$dist/$name.tar.gz" -C "$work" "$name"

"$work/tools/bin/python" scripts/make_demo.py "$work/demo" --pictures 60 >/dev/null
python3 -m venv "$work/env"
"$work/env/bin/python" -m pip install --quiet "$dist"/shardpack-*-macosx_*_arm64.whl
"$work/env/bin/python" scripts/try_wheel.py "$work/demo" "$work/out" fixtures/compat
for kind in pictures cubes; do
  "$work/$name/shardpack" pack --values auto "$work/demo/$kind" "$work/command-$kind" >/dev/null
  "$work/$name/shardpack" verify --deep "$work/command-$kind" >/dev/null
  # The command must write the same bytes as the package.
  diff -r "$work/out/$kind" "$work/command-$kind"
done
say "installed, packs, verifies and loads: $(cd "$dist" && echo *arm64*)"
