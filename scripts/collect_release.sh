#!/usr/bin/env bash
# Complete a release folder whose files were built on several machines: package the crates, write the bill of materials
# and SHA256SUMS, and list all files. Nothing is uploaded.
#
#   scripts/collect_release.sh FOLDER             an error if a file of a release is missing
#   scripts/collect_release.sh FOLDER --partial   only names missing files, for trials
#
# FOLDER holds the output of scripts/release.sh and scripts/release_macos.sh. The crates are written to FOLDER/crates,
# as `cargo publish --workspace` uploads them, in the order of their dependencies. cargo-cyclonedx writes the bill of
# materials in the format CycloneDX 1.5.
set -euo pipefail
folder=$(cd "${1?expected FOLDER}" && pwd) partial=no
case ${2-} in
  '') ;;
  --partial) partial=yes ;;
  *) printf 'release: unknown argument: %s\nhint: the only option is --partial\n' "$2" >&2; exit 2 ;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/.."
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
missing=()

# Without --no-verify, cargo would compile each crate again. The checks of the same commit have compiled them.
allow=()
[[ $partial == no ]] || allow=(--allow-dirty)
rm -rf "$folder/crates" target/package
cargo package --quiet --workspace --exclude shardpack-python --exclude shardpack-gpu-play --locked --no-verify \
  "${allow[@]}"
mkdir "$folder/crates"
cp target/package/*-"$version".crate "$folder/crates/"

bill=shardpack-$version.cdx
if cargo cyclonedx --version >/dev/null 2>&1; then
  # This writes a file next to the manifest of every workspace member. Keep only the bill of the Python package,
  # because it includes all other crates.
  cargo cyclonedx --quiet --manifest-path python/Cargo.toml --format json --spec-version 1.5 --features cli,hdf5 \
    --target x86_64-unknown-linux-gnu --override-filename "$bill"
  mv "python/$bill.json" "$folder/"
  rm -f "$bill.json" crates/*/"$bill.json"
else
  printf 'release: no bill of materials: cargo-cyclonedx is not installed\nhint: cargo install cargo-cyclonedx\n' >&2
fi

cd "$folder"
for expected in "$bill.json" "shardpack-$version.tar.gz" "shardpack-$version"-{x86_64-linux,aarch64-linux,arm64-macos}.tar.gz \
  "shardpack-$version-cp311-abi3-"{manylinux'*_x86_64',manylinux'*_aarch64',macosx'*_arm64'}.whl \
  "shardpack-$version-cp314-cp314t-"'*_'{x86_64,aarch64}.whl; do
  compgen -G "$expected" >/dev/null || missing+=("$expected")
done
find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum -- >SHA256SUMS
cat SHA256SUMS
((${#missing[@]} == 0)) || printf 'release: missing: %s\n' "${missing[@]}" >&2
[[ ${#missing[@]} == 0 || $partial == yes ]] || exit 1
