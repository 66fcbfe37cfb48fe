#!/usr/bin/env bash
# Try the files of a release as a user would, in a bare Debian and a bare Ubuntu without compilers and network.
#
#   scripts/try_release.sh FOLDER TARGET…      FOLDER: output of scripts/release.sh; TARGET: x86_64, aarch64
#
# In each system, the installed wheel packs, verifies and loads the pictures and cubes of the demo. Then the command
# alone does the same. All systems must write the same bytes. On x86-64, aarch64 runs in qemu-user, and only in Debian,
# because Ubuntu's aarch64 packages are in a different archive. The script needs root and debootstrap. The systems are
# kept in target/bare. A system that cannot be made, because its archive or the archive's key is missing, is left out
# with a message. Each target needs at least one system.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'try: %s\n' "$*"; }
fail() { printf 'try: %s\n' "$1" >&2; shift; (($# == 0)) || printf '%s\n' "$@" >&2; exit 1; }
(($# >= 2)) || fail "expected FOLDER TARGET…" "hint: scripts/release.sh calls this"
dist=$(cd "$1" && pwd) here=$(uname -m) bare=$PWD/target/bare system_in=$PWD/scripts/bare_system.sh tools=$PWD/.venv-release/bin/python
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$tools" scripts/make_demo.py "$work/demo" --pictures 60 >/dev/null
first_system='' first_digests='' first_sums='' tried=() left_out=()

# try_in SYSTEM SUITE TARGET: tries the files for TARGET in a system.
try_in() {
  local system=$1 suite=$2 target=$3 root=$bare/$1 arch result digests sums started=$SECONDS wheels name python
  [[ $target == x86_64 ]] && arch=amd64 || arch=arm64
  if [[ ! -e $root/etc/bare-system ]]; then
    rm -rf "$root"
    mkdir -p "$bare"
    if ! "$system_in" make "$suite" "$arch" "$root"; then
      left_out+=("$system")
      say "leaving out $system: it could not be made here"
      return
    fi
    say "$system: made in $((SECONDS - started)) s"
  fi
  wheels=("$dist"/shardpack-*"_$target".whl)
  [[ -e ${wheels[0]} ]] || fail "$dist: expected a wheel for $target, found none"
  rm -rf "$root/try"
  mkdir -p "$root/try/wheels"
  cp "${wheels[@]}" "$root/try/wheels/"
  # Download NumPy for the Python of the bare system here, because that system has no network.
  python=$(basename "$(readlink "$root/usr/bin/python3")")
  "$tools" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$root/try/wheels" \
    --python-version "${python#python}" --platform "manylinux_2_28_$target" --platform "manylinux_2_27_$target" \
    --platform "manylinux2014_$target" numpy
  cp -r "$work/demo" fixtures/compat scripts/try_wheel.py "$root/try/"
  started=$SECONDS
  if [[ $target == "$here" ]]; then
    inside() { "$system_in" run "$root" /usr/bin/env "$@"; }
    inside sh -c 'python3 -m venv /try/env && /try/env/bin/pip install --quiet --no-index --find-links /try/wheels shardpack'
    say "$system: installed by pip in $((SECONDS - started)) s"
    result=$(inside /try/env/bin/python /try/try_wheel.py /try/demo /try/out /try/compat)
  else
    # qemu-user looks up a path in the bare system first, then outside, so new files are written to the given path.
    inside() { PYTHONPATH=$root/try/site "$system_in" run "$root" "/usr/bin/$python" "$@"; }
    inside -m pip install --quiet --no-index --find-links "$root/try/wheels" --target "$root/try/site" --no-cache-dir shardpack
    say "$system: installed by pip in $((SECONDS - started)) s"
    result=$(inside "$root/try/try_wheel.py" "$root/try/demo" "$root/try/out" "$root/try/compat")
  fi
  "$tools" - "$system" "$result" <<'E'
import json, sys
system, result = sys.argv[1], json.loads(sys.argv[2])
seconds = ", ".join(f"{name} {value} s" for name, value in result["seconds"].items())
print(f"try: {system}: shardpack {result['version']}: {result['samples']} samples: {seconds}")
E
  digests=$("$tools" -c 'import json, sys; print(json.dumps(json.loads(sys.argv[1])["digests"], indent=0))' "$result")
  compare "$system, wheel" "$digests"
  # Compare the loaded values too, by the sum of all pixels and the sum of all elements of an epoch.
  sums=$("$tools" -c 'import json, sys; print(json.loads(sys.argv[1])["sums"])' "$result")
  [[ -z $first_sums || $sums == "$first_sums" ]] || fail "$system: expected batches with the sums $first_sums, found $sums"
  first_sums=$sums
  # Now run the command alone on the same sources.
  name=$(basename "$dist"/shardpack-*"-$target-linux.tar.gz" .tar.gz)
  [[ -e $dist/$name.tar.gz ]] || fail "$dist: expected the command for $target, $name.tar.gz, found none"
  tar -xzf "$dist/$name.tar.gz" -C "$root/try" --no-same-owner
  started=$SECONDS
  mkdir "$root/try/command"
  for kind in pictures cubes; do
    command_in "$root" "$target" "$name" pack --values auto "demo/$kind" "command/$kind" >/dev/null
    command_in "$root" "$target" "$name" verify --deep "command/$kind" >/dev/null
  done
  digests=$(cd "$root/try/command" && find . -type f -printf '%P\n' | sort | "$tools" -c '
import hashlib, json, pathlib, sys
print(json.dumps({name: hashlib.sha256(pathlib.Path(name).read_bytes()).hexdigest() for name in sys.stdin.read().splitlines()}, indent=0))')
  compare "$system, command" "$digests"
  say "$system: the command packs and verifies in $((SECONDS - started)) s"
  tried+=("$system")
}

command_in() {
  local root=$1 target=$2 name=$3
  shift 3
  if [[ $target == "$here" ]]; then
    "$system_in" run "$root" /bin/sh -c 'cd /try && exec "$@"' sh "./$name/shardpack" "$@"
  else
    (cd "$root/try" && "$system_in" run "$root" "/try/$name/shardpack" "$@")
  fi
}

# compare SYSTEM DIGESTS: compares DIGESTS with the digests from the first system.
compare() {
  if [[ -z $first_system ]]; then
    first_system=$1 first_digests=$2
  elif [[ $2 != "$first_digests" ]]; then
    diff <(printf '%s\n' "$first_digests") <(printf '%s\n' "$2") >&2 || true
    fail "$1: expected the same bytes as $first_system wrote, found different ones"
  else
    say "$1: the same bytes as $first_system, file by file ($(grep -c : <<<"$2"))"
  fi
}

for target in "$@"; do
  try_in "debian-12-$target" bookworm "$target"
  [[ $target != x86_64 ]] || try_in "ubuntu-24.04-$target" noble "$target"
  [[ " ${tried[*]} " == *"-$target "* ]] || fail "$target: expected a system to try it in, found none that could be made"
done
say "ok in ${tried[*]}"
((${#left_out[@]} == 0)) || say "not tried in ${left_out[*]}"
