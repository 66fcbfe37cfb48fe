#!/usr/bin/env bash
# Install the software that the build and the demo need. Asks no questions.
#
#   scripts/setup.sh            system packages, then the Python environment in .venv
#   scripts/setup.sh --system   only the system packages, which are all that a build needs
#   scripts/setup.sh --tests    also what the tests and the benches import, and the browser that tests use to open pages
#   scripts/setup.sh --check    install nothing: exit 0 if everything is installed, else name what is missing and exit 2
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
. scripts/environment.sh

check_only=no for_tests=no system_only=no lists=(scripts/requirements.txt)
for argument; do
  case $argument in
    --check) check_only=yes ;;
    --system) system_only=yes ;;
    --tests) for_tests=yes lists+=(scripts/requirements-tests.txt) ;;
    *) echo "setup: unknown argument: $argument" >&2; echo "hint: the options are --system, --tests and --check" >&2; exit 2 ;;
  esac
done

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$1" >&2; shift; (($# == 0)) || printf '%s\n' "$@" >&2; exit 2; }
have() { command -v "$1" >/dev/null 2>&1; }
may_install() { ((EUID == 0)) || { have sudo && sudo -n true 2>/dev/null; }; }

# Check Rust first, because this script does not install it and no build can start without it.
wanted_rust=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
rust_hint="hint: install Rust with rustup (https://rustup.rs); if it is installed, run \`rustup update\`"
have cargo && have rustc || fail "missing: cargo and rustc, $wanted_rust or newer" "$rust_hint"
# If this fails, show rustup's message, for example that no toolchain was chosen.
found_rust=$(rustc --version 2>&1) || fail "rustc does not run: $found_rust" "$rust_hint"
number=$(sed -n 's/^rustc \([0-9.]*\).*/\1/p' <<<"$found_rust")
[[ $(printf '%s\n' "$wanted_rust" "$number" | sort -V | head -n 1) == "$wanted_rust" ]] ||
  fail "expected Rust $wanted_rust or newer, found: $found_rust" "$rust_hint"

# Find the newest Python that the pinned wheels support, but prefer `python3`, as most people expect.
find_python() {
  local candidate
  for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if have "$candidate" && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
}

# compiles COMPILER LANGUAGE: succeeds if the compiler can make a program. This also needs the linker and the headers
# of the C library.
compiles() {
  have "$1" && printf '#include <stdlib.h>\nint main(void) { return EXIT_SUCCESS; }\n' | "$1" -x "$2" -o /dev/null - 2>/dev/null
}

# Each line tests a tool and names the package that provides it. A compiler or CMake from elsewhere counts as installed,
# and a tool that does not run counts as missing.
missing_packages() {
  compiles cc c && compiles c++ c++ && have make || echo build-essential
  cmake --version >/dev/null 2>&1 || echo cmake # libjpeg-turbo is built with it
  nasm -v >/dev/null 2>&1 || echo nasm          # libjpeg-turbo's vector code
  # Tests open the page of `shardpack report` in Chromium. They are skipped if it cannot be installed.
  if [[ $for_tests == yes ]] && ! chromium --version >/dev/null 2>&1 && have apt-get && may_install; then echo chromium; fi
  local python
  python=$(find_python)
  if [[ -z $python ]]; then
    echo python3 python3-venv
  elif [[ ! -x .venv/bin/python ]] && ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    # Debian's Python has no ensurepip, so `python3 -m venv` fails without this package.
    "$python" -c 'import sys; print("python{}.{}-venv".format(*sys.version_info))'
  fi
}

mapfile -t missing < <(missing_packages | tr ' ' '\n')
if ((${#missing[@]})); then
  have apt-get || fail "missing: ${missing[*]} (Debian package names)" "hint: install them with this system's package manager, then run this again"
  install=(apt-get install -y --no-install-recommends "${missing[@]}")
  if [[ $check_only == yes ]]; then
    fail "missing: ${missing[*]}" "hint: run scripts/setup.sh"
  elif ((EUID == 0)); then
    as_root=(env DEBIAN_FRONTEND=noninteractive)
  elif have sudo && sudo -n true 2>/dev/null; then
    as_root=(sudo -n env DEBIAN_FRONTEND=noninteractive)
  else
    fail "missing: ${missing[*]}, and no permission to install packages" "hint: run \`apt-get update && ${install[*]}\` as root, then run this again"
  fi
  say "installing: ${missing[*]}"
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update -q && "${as_root[@]}" "${install[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    hint="hint: see apt's output above, or all of it in $log"
    # After an interrupted installation, apt explains the repair, but buries it in other text.
    ! grep -qE 'dpkg --configure -a|--fix-broken' "$log" ||
      hint="hint: an earlier installation was interrupted: run \`dpkg --configure -a && apt-get --fix-broken install\` as root, then run this again"
    fail "could not install: ${missing[*]}" "$hint"
  fi
  rm -f "$log"
  mapfile -t still < <(missing_packages | tr ' ' '\n')
  ((${#still[@]} == 0)) || fail "installed ${missing[*]}, but the tools of these packages still do not run: ${still[*]}" \
    "hint: run \`apt-get install --reinstall ${still[*]}\` as root"
fi
say "system packages: ready"
[[ $system_only == no ]] || exit 0

if environment_holds .venv "${lists[@]}"; then
  say "python environment: ready (.venv)"
  exit 0
fi
[[ $check_only == no ]] || fail "missing: the python environment in .venv" "hint: run scripts/setup.sh"
python=$(find_python)
[[ -n $python ]] || fail "expected Python 3.11 or newer, found: $(python3 --version 2>&1 || echo none)"
environment .venv "$python" "${lists[@]}" ||
  fail "could not install the Python packages of ${lists[*]}" "hint: see pip's output above; the packages are wheels for Python 3.11 and newer"
say "python environment: ready (.venv, $(.venv/bin/python --version))"
