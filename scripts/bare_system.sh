#!/usr/bin/env bash
# Makes a bare Linux system without compilers in a folder, and runs commands in it, for trying releases.
#
#   scripts/bare_system.sh make SUITE ARCH FOLDER     SUITE: bookworm, trixie, noble …; ARCH: amd64 or arm64
#   scripts/bare_system.sh run FOLDER COMMAND…        with its own mounts and processes
#
# Needs root and debootstrap. The packages come from debootstrap's default archive, or from MIRROR if it is set. A
# system for another architecture is unpacked but not set up, and `run` then uses qemu-user. A program in such a system
# cannot start another program.
set -euo pipefail

fail() { printf 'bare system: %s\n' "$1" >&2; shift; (($# == 0)) || printf '%s\n' "$@" >&2; exit 2; }
((EUID == 0)) || fail "expected to run as root" "hint: run it as root, which chroot and mount require"

make() {
  local suite=$1 arch=$2 folder=$3 scripts keyring components=main foreign=()
  command -v debootstrap >/dev/null || fail "missing: debootstrap" "hint: apt-get install debootstrap"
  # An older debootstrap lacks scripts for newer suites, but the script of an older suite of the same distribution
  # works.
  scripts=$(mktemp -d)
  trap 'rm -rf "$scripts"' RETURN
  cp -r /usr/share/debootstrap/. "$scripts/"
  case $suite in
    noble | resolute) components=main,universe
      [[ -e $scripts/scripts/$suite ]] || ln -s gutsy "$scripts/scripts/$suite"
      keyring=${UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg} ;;
    *) keyring=/usr/share/keyrings/debian-archive-keyring.gpg ;;
  esac
  # Without the keyring, debootstrap would accept unsigned packages.
  [[ -e $keyring ]] || fail "missing: $keyring" \
    "hint: install debian-archive-keyring or ubuntu-keyring; or set UBUNTU_KEYRING to a file whose fingerprint you have checked"
  [[ $arch == "$(dpkg --print-architecture)" ]] || foreign=(--foreign)
  mkdir -p "$folder"
  if ! DEBOOTSTRAP_DIR=$scripts debootstrap --variant=minbase --components="$components" --arch="$arch" --keyring="$keyring" "${foreign[@]}" \
    --include=python3,python3-venv,python3-pip "$suite" "$folder" ${MIRROR:+"$MIRROR"} >"$folder.log" 2>&1; then
    tail -n 5 "$folder.log" >&2
    fail "could not make $suite for $arch" "hint: see debootstrap's output in $folder.log"
  fi
  if ((${#foreign[@]})); then
    for package in "$folder"/var/cache/apt/archives/*.deb; do dpkg-deb --extract "$package" "$folder"; done
  fi
  rm -rf "$folder"/var/cache/apt/archives/*.deb
  printf '%s\n' "$arch" >"$folder/etc/bare-system"
}

run() {
  local folder=$1 arch compiler
  shift
  arch=$(<"$folder/etc/bare-system")
  for compiler in cc gcc clang c++ cargo rustc cmake; do
    [[ ! -e $folder/usr/bin/$compiler ]] || fail "$folder: expected no compiler, found: $compiler"
  done
  if [[ $arch != "$(dpkg --print-architecture)" ]]; then
    command -v qemu-aarch64-static >/dev/null || fail "missing: qemu-aarch64-static" "hint: apt-get install qemu-user-static"
    exec env --ignore-environment HOME=/tmp LANG=C.UTF-8 PATH=/usr/bin PYTHONPATH="${PYTHONPATH-}" qemu-aarch64-static -L "$folder" "$folder$1" "${@:2}"
  fi
  # shellcheck disable=SC2016 # the inner shell expands it
  exec env --ignore-environment HOME=/root LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    unshare --mount --pid --fork --kill-child --net sh -c '
      mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev" && exec chroot "$0" "$@"' "$folder" "$@"
}

case ${1-} in
  make) (($# == 4)) || fail "make: expected SUITE ARCH FOLDER"; shift; make "$@" ;;
  run) (($# >= 3)) || fail "run: expected FOLDER COMMAND…"; shift; run "$@" ;;
  *) fail "expected make or run, found: ${1-nothing}" ;;
esac
