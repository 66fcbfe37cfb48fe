# Functions for virtual environments made from lists of pinned packages. Sourced by setup.sh and package.sh.

# environment FOLDER PYTHON LIST…: installs the packages of each LIST into the virtual environment FOLDER. If FOLDER
# does not exist, PYTHON makes it. FOLDER keeps a digest of each installed list, so that a second run only compares
# them. The environment is recreated after an interrupted run, and when one of its lists has changed.
environment() {
  local folder=$1 python=$2 list
  shift 2
  local busy=$folder/installing
  if ! environment_holds "$folder"; then
    rm -rf "$folder"
    "$python" -m venv "$folder" || return
  fi
  for list in "$@"; do
    ! environment_holds "$folder" "$list" || continue
    say "installing $(grep -c '==' "$list") packages of $list into $folder"
    : >"$busy"
    "$folder/bin/python" -m pip install --quiet --disable-pip-version-check --no-cache-dir --only-binary :all: \
      --requirement "$list" || return
    sha256sum "$list" >"$folder/$(basename "$list").sha256"
    rm -f "$busy"
  done
}

# environment_holds FOLDER [LIST…]: succeeds if FOLDER is complete and up to date, and has the packages of each LIST.
environment_holds() {
  local folder=$1 list
  shift
  [[ -x $folder/bin/python && ! -e $folder/installing ]] || return
  cat "$folder"/*.sha256 2>/dev/null | sha256sum --check --status 2>/dev/null || return
  for list in "$@"; do
    [[ -f $folder/$(basename "$list").sha256 ]] || return
  done
}
