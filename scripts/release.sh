#!/usr/bin/env bash
# Build the files of a release in target/release-VERSION, and try each file as a user would. Nothing is uploaded.
#
#   scripts/release.sh             for x86-64 and aarch64: a wheel, and the command as a tar; an sdist; SHA256SUMS
#
#   --target x86_64 | aarch64      only this one; may be given twice. Without it, a target whose Rust standard library
#                                  is missing and cannot be installed is left out with a message
#   --quick                        without link-time optimisation: to try this script, not to publish
#   --trial                        accept a version without a date in CHANGELOG.md, or a tree with uncommitted changes,
#                                  which are otherwise errors: not to publish
#   --no-try                       build only
#   --try                          try the files that an earlier run has built
#   --sdist-builds                 also build a wheel from the sdist, alone in a folder
#   --free-threaded PYTHON         also a wheel for this free-threaded Python (3.14t), for this machine's architecture,
#                                  because it does not support the stable ABI of the other wheels. It is tried in a
#                                  virtual environment of that Python
#
# Building needs Rust with rustup, CMake and Python 3.11, and also NASM for x86-64. The C compiler and the linker for
# both targets come from zig, which is installed as a Python package. Trying needs root, debootstrap and, for aarch64
# on x86-64, qemu-user-static (see scripts/try_release.sh).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/environment.sh

say() { printf 'release: %s\n' "$*"; }
fail() { printf 'release: %s\n' "$1" >&2; shift; (($# == 0)) || printf '%s\n' "$@" >&2; exit 2; }
targets=() quick=no trial=no build=yes try=yes sdist_builds=no free_threaded=
while (($#)); do
  case $1 in
    --target) targets+=("${2-}"); shift ;;
    --quick) quick=yes ;;
    --trial) trial=yes ;;
    --no-try) try=no ;;
    --try) build=no ;;
    --sdist-builds) sdist_builds=yes ;;
    --free-threaded) free_threaded=${2-}; shift ;;
    *) fail "unknown argument: $1" "hint: the options are --target, --quick, --trial, --no-try, --try, --sdist-builds and --free-threaded" ;;
  esac
  shift
done
asked=yes
((${#targets[@]})) || { asked=no; targets=(x86_64 aarch64); }
for target in "${targets[@]}"; do
  [[ $target == x86_64 || $target == aarch64 ]] || fail "--target: expected x86_64 or aarch64, found: $target"
done
[[ $build == yes || $try == yes ]] || fail "--try and --no-try: expected one of them"
if [[ -n $free_threaded ]]; then
  "$free_threaded" -c 'import sysconfig, sys; sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))' ||
    fail "--free-threaded: expected a Python without the GIL, found: $free_threaded"
fi

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
heading=$(grep -m 1 -E "^## ${version//./\\.}( |$)" CHANGELOG.md) || fail "CHANGELOG.md: expected a heading for version $version, found none"
dist=$PWD/target/release-$version

# not_to_publish WHAT LINE…: reports a flaw that is allowed in a trial but not in a release.
not_to_publish() {
  [[ $trial == no ]] || { say "a trial, not to publish: $1"; return; }
  fail "$@" "hint: --trial builds anyway, to try and not to publish"
}
# With --try, the run that built the files has already made these checks.
if [[ $build == yes ]]; then
  [[ $heading =~ ^"## $version - "[0-9]{4}-[0-9]{2}-[0-9]{2}$ ]] ||
    not_to_publish "CHANGELOG.md: expected the day of the release, as in \`## $version - $(date -u +%F)\`, found: $heading"
  changes=$(git status --porcelain) || fail "expected a git checkout, whose last commit dates the archives"
  [[ -z $changes ]] || not_to_publish "expected a tree as it was committed, found changes:" "$changes"
fi
[[ $build == no ]] || python3 scripts/licences.py --check
# Build for the oldest glibc that Rust still supports, so that the programs run on every Linux with glibc.
glibc=2.17 manylinux=manylinux2014

environment .venv-release python3 scripts/requirements-release.txt scripts/requirements.txt
tools=$PWD/.venv-release/bin
export PATH=$tools:$PATH
# Files in the archives have the time of the last commit, so that the same source gives the same archives.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH
export CARGO_PROFILE_RELEASE_STRIP=symbols
[[ $quick == no ]] || export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_INCREMENTAL=0

# needs FILE LIBRARY…: checks that FILE requires no system libraries except these.
needs() {
  local file=$1 found
  shift
  found=$(readelf --dynamic --wide "$file" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  for library in $found; do
    [[ " $* " == *" $library "* ]] || fail "$file: expected at most the libraries $*, found: $library"
  done
}

# has_std TARGET: succeeds if Rust's standard library for TARGET is installed, or if rustup can install it.
has_std() {
  local triple=$1-unknown-linux-gnu
  [[ -d $(rustc --print target-libdir --target "$triple") ]] || rustup --quiet target add "$triple"
}

build_for() {
  local triple=$1-unknown-linux-gnu started=$SECONDS name stage
  say "building the wheel for $1"
  maturin build --quiet --manifest-path python/Cargo.toml --release --locked --zig --target "$triple" --compatibility "$manylinux" --out "$dist"
  # The command has the same features as the wheel, but its dependencies are compiled again, because maturin wraps zig
  # differently.
  say "building the command for $1"
  cargo zigbuild --quiet --release --locked --package shardpack --package shardpack-python --features shardpack/hdf5,shardpack-python/hdf5,shardpack-python/cli \
    --bin shardpack --target "$triple.$glibc"
  name=shardpack-$version-$1-linux stage=$(mktemp -d)
  mkdir "$stage/$name"
  cp "target/$triple/release/shardpack" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE python/LICENSE-THIRD-PARTY "$stage/$name/"
  needs "$stage/$name/shardpack" libc.so.6 libm.so.6 libdl.so.2 libpthread.so.0 librt.so.1 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1
  tar --create --directory "$stage" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner "$name" |
    gzip --no-name --best >"$dist/$name.tar.gz"
  rm -rf "$stage"
  say "built for $1: $((SECONDS - started)) s"
}

build_free_threaded() {
  local started=$SECONDS
  say "building the wheel for $("$free_threaded" -VV)"
  rm -f "$dist"/shardpack-*-cp*t-*.whl
  maturin build --quiet --manifest-path python/Cargo.toml --release --locked --zig --target "$(uname -m)-unknown-linux-gnu" \
    --interpreter "$free_threaded" --compatibility "$manylinux" --out "$dist"
  say "built: $((SECONDS - started)) s"
}

try_free_threaded() {
  local folder wheels started=$SECONDS
  wheels=("$dist"/shardpack-*-cp*t-*.whl)
  [[ -e ${wheels[0]} ]] || fail "$dist: expected a wheel for $free_threaded, found none" "hint: build it, without --try"
  folder=$(mktemp -d)
  "$free_threaded" -m venv "$folder/env"
  "$folder/env/bin/python" -m pip install --quiet --disable-pip-version-check "${wheels[0]}"
  "$folder/env/bin/python" -W error -c 'import shardpack, sys; sys.exit(sys._is_gil_enabled())' ||
    fail "${wheels[0]}: expected a package that leaves the GIL off, found one that turns it on"
  "$tools/python" scripts/make_demo.py "$folder/demo" --pictures 60 >/dev/null
  "$folder/env/bin/python" scripts/try_wheel.py "$folder/demo" "$folder/out" fixtures/compat >/dev/null
  rm -rf "$folder"
  say "$(basename "${wheels[0]}"): installed, packs, verifies and loads, and leaves the GIL off: $((SECONDS - started)) s"
}

there=() left_out=()
if [[ $build == yes ]]; then
  mkdir -p "$dist"
  for target in "${targets[@]}"; do
    if has_std "$target"; then
      there+=("$target")
    elif [[ $asked == yes ]]; then
      fail "no Rust standard library for $target" "hint: rustup target add $target-unknown-linux-gnu"
    else
      left_out+=("$target")
      say "leaving out $target: its Rust standard library is missing, and rustup could not install it"
    fi
  done
  ((${#there[@]})) || fail "no Rust standard library for any of: ${targets[*]}" "hint: rustup target add"
  targets=("${there[@]}")
  for target in "${targets[@]}"; do
    rm -f "$dist"/*"$target".whl "$dist"/*-"$target"-linux.tar.gz
    build_for "$target"
  done
  [[ -z $free_threaded ]] || build_free_threaded
  maturin sdist --manifest-path python/Cargo.toml --out "$dist"
  twine check --strict "$dist"/*.whl "$dist/shardpack-$version.tar.gz"
  for wheel in "$dist"/*.whl; do
    shown=$(auditwheel show "$wheel")
    grep -q "${manylinux}\|manylinux_2_17" <<<"$shown" || fail "$wheel: expected $manylinux, found:" "$shown"
    say "$(basename "$wheel"): $(du -h --apparent-size "$wheel" | cut -f1), $(tr -s '\n ' ' ' <<<"$shown" | grep -oE '"?manylinux_[0-9_a-z]+"?' | head -n 1)"
  done
  (cd "$dist" && sha256sum -- *.whl *.tar.gz >SHA256SUMS)
  say "in ${dist#"$PWD/"}:"
  cat "$dist/SHA256SUMS"
fi

if [[ $build == no && $asked == no ]]; then
  # Try only the targets that the earlier run could build.
  for target in "${targets[@]}"; do
    if compgen -G "$dist/*_$target.whl" >/dev/null; then there+=("$target"); else left_out+=("$target"); fi
  done
  ((${#there[@]})) || fail "$dist: expected the wheels of an earlier run, found none"
  targets=("${there[@]}")
fi

if [[ $sdist_builds == yes ]]; then
  folder=$(mktemp -d)
  tar -xzf "$dist/shardpack-$version.tar.gz" -C "$folder"
  started=$SECONDS
  # Use the test profile, because only the success of the build matters. It reuses the crates compiled for the tests.
  CARGO_TARGET_DIR=$PWD/target MATURIN_PEP517_ARGS="--profile dev" python -m pip wheel --quiet --disable-pip-version-check \
    --no-deps --wheel-dir "$folder/wheel" "$folder/shardpack-$version"
  say "the sdist builds: $(basename "$folder"/wheel/*.whl), $((SECONDS - started)) s"
  rm -rf "$folder"
fi

if [[ $try == yes ]]; then
  [[ -z $free_threaded ]] || try_free_threaded
  scripts/try_release.sh "$dist" "${targets[@]}"
fi
((${#left_out[@]} == 0)) || say "not built: ${left_out[*]}"
