#!/usr/bin/env bash
# Install what the build and the tests need, and nothing that is there already. Asks nothing; says what it does.
#
#   scripts/setup.sh            system packages, then the Python environment in .venv
#   scripts/setup.sh --check    install nothing: exit 0 if everything is there, else say what is missing and exit 2
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

check_only=no
case "${1-}" in
  '') ;;
  --check) check_only=yes ;;
  *) echo "setup: unknown argument: $1" >&2; echo "hint: the only one is --check" >&2; exit 2 ;;
esac

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$@" >&2; exit 2; }
have() { command -v "$1" >/dev/null 2>&1; }

# The newest Python that the pinned wheels are made for; `python3` itself first, because that is the one people mean.
find_python() {
  local candidate
  for candidate in python3 python3.14 python3.13 python3.12 python3.11; do
    if have "$candidate" && "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      command -v "$candidate"
      return
    fi
  done
}

have_libclang() {
  local found
  found=$(find /usr/lib /usr/local/lib -maxdepth 4 \( -name 'libclang.so*' -o -name 'libclang-*.so*' \) -print -quit 2>/dev/null || true)
  [[ -n $found ]]
}

# Each line is a package and the question whether what it brings is there: the question is about the tool, not the package,
# so that a compiler or a CMake from elsewhere counts.
missing_packages() {
  have cc && have c++ || echo build-essential
  have cmake || echo cmake           # c-blosc2 is built with it
  have nasm || echo nasm             # libjpeg-turbo's vector code
  have_libclang || echo libclang-dev # bindgen reads c-blosc2's headers with it
  local python
  python=$(find_python)
  if [[ -z $python ]]; then
    echo python3 python3-venv
  elif [[ ! -x .venv/bin/python ]] && ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
    # Debian takes ensurepip out of its Python: `python3 -m venv` fails without this package.
    "$python" -c 'import sys; print("python{}.{}-venv".format(*sys.version_info))'
  fi
}

mapfile -t missing < <(missing_packages | tr ' ' '\n')
if ((${#missing[@]})); then
  have apt-get || fail "missing: ${missing[*]} (Debian's names)" "hint: install them with this system's package manager, then run this again"
  install=(apt-get install -y --no-install-recommends "${missing[@]}")
  if [[ $check_only == yes ]]; then
    fail "missing: ${missing[*]}" "hint: run scripts/setup.sh"
  elif ((EUID == 0)); then
    as_root=(env DEBIAN_FRONTEND=noninteractive)
  elif have sudo && sudo -n true 2>/dev/null; then
    as_root=(sudo -n env DEBIAN_FRONTEND=noninteractive)
  else
    fail "missing: ${missing[*]}, and no right to install packages; run this as root, then run setup again:" "  apt-get update && ${install[*]}"
  fi
  say "installing: ${missing[*]}"
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update -q && "${as_root[@]}" "${install[@]}"; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    fail "could not install: ${missing[*]} (the whole log: $log)"
  fi
  rm -f "$log"
fi
say "system packages: ready"

have cargo || fail "missing: cargo (Rust 1.90 or newer)" "hint: install Rust with rustup, or with this system's package manager"

# The stamp holds the digest of the list, so that a second run costs one comparison, and a changed list is noticed.
stamp=.venv/requirements.sha256
wanted=$(sha256sum <scripts/requirements.txt)
if [[ -x .venv/bin/python && -f $stamp && $(<"$stamp") == "$wanted" ]]; then
  say "python environment: ready (.venv)"
  exit 0
fi
[[ $check_only == no ]] || fail "missing: the python environment in .venv" "hint: run scripts/setup.sh"
python=$(find_python)
[[ -n $python ]] || fail "missing: Python 3.11 or newer, found: $(python3 --version 2>&1 || echo none)"
say "python environment: installing $(grep -c '==' scripts/requirements.txt) packages into .venv"
# An environment without its stamp was interrupted, or belongs to an older list: made anew, which takes seconds.
rm -rf .venv
"$python" -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --requirement scripts/requirements.txt ||
  fail "could not install the Python packages of scripts/requirements.txt" "hint: see pip's words above; they are wheels for Python 3.11 and newer"
printf '%s\n' "$wanted" >"$stamp"
say "python environment: ready (.venv, $(.venv/bin/python --version))"
